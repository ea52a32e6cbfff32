/* Matrices of integers of 2, 4 or 8 bits with a scale and a zero point for each block of a column,
 * in the layout in which simd/nbits.c multiplies them. Used by matmul_nbits.c.
 * Invariant: a tile is NBITS_COLUMNS columns. Word number i of each of them stand beside each
 * other, so that a vector holds words of adjacent columns on every instruction set. */
#ifndef TENON_OPS_NBITS_H
#define TENON_OPS_NBITS_H

#include <stdint.h>

enum {
  NBITS_COLUMNS = 16,   /* of a tile; the last tile is filled up with columns of zeros */
  NBITS_WORD = 32,      /* bits of a word, in which the lowest bits are the first weight */
  NBITS_ROWS = 4,       /* most rows that nbits_tile_fn takes */
  NBITS_BLOCK_MIN = 16, /* weights in a block, which is a power of two */
};

typedef struct nbits_t {
  int64_t n;
  int64_t blocks; /* in a column */
  int64_t size;   /* weights in a block */
  int bits;
  uint32_t *words; /* [tile][block][word of the block][column] */
  float *scales;   /* [tile][block][column] */
  float *offsets;  /* [tile][block][column]: -scale zero point */
} nbits_t;

static inline int64_t nbits_tiles(const nbits_t *b) {
  return (b->n + NBITS_COLUMNS - 1) / NBITS_COLUMNS;
}
static inline int64_t nbits_words(const nbits_t *b) { return b->size * b->bits / NBITS_WORD; }

/* Rows of the left operand. Element k is divided by 2^(bits (k % (16 / bits))), because the kernel
 * does not shift a weight within half a word, but multiplies the bits where they stand. */
typedef struct nbits_rows_t {
  int64_t width;     /* of a row: blocks size */
  const float *x;    /* [row][width]; 0 beyond k */
  const float *sums; /* [row][block]: sums of the elements before the division */
} nbits_rows_t;

/* Computes `count` rows, from `row` on, times the columns of one tile. */
typedef void (*nbits_tile_fn)(const nbits_t *b, int64_t tile, const nbits_rows_t *rows, int64_t row,
                              int64_t count, float (*out)[NBITS_COLUMNS]);

/* Writes k weights of each column of a tile, whose first column is `first`, as floats
 * [k][width]. */
typedef void (*nbits_unpack_fn)(const nbits_t *b, int64_t first, int64_t k, int64_t width,
                                float *out);

typedef struct nbits_kernels_t { /* by bits: 2, 4, 8 */
  nbits_tile_fn tile[3];
  nbits_unpack_fn unpack[3];
} nbits_kernels_t;
extern const nbits_kernels_t core_nbits, core_nbits_avx2, core_nbits_avx512;

#endif
