/* Kernels of products of 8-bit numbers: tiles of sums over pairs of i16 or over quads of 8 bits,
 * sums of depthwise convolutions, and the way from 8-bit numbers to i16 and from sums back to 8
 * bits.
 * simd/integer_tile.c has one table per instruction set; integer.c selects one.
 * Invariant: sums wrap at 32 bits, and every instruction set computes the same bits. */
#ifndef TENON_OPS_INTEGER_TILE_H
#define TENON_OPS_INTEGER_TILE_H

#include <stdint.h>

enum {
  TILE_ROWS_MOST = 6,
  TILE_COLUMNS_MOST = 32,
  PAIR_ANY = 256,
  TAPS_SLACK = 63,
  ROW_TAPS_SLACK = 128,
};

typedef struct narrow_t { /* 8 bits = clamp(round(sum * scale) + zero), in f32; NaN: the least */
  int32_t zero;
  int is_signed;
} narrow_t;

/* Constant weights of the rows of a tile, or of the columns of a panel (integer_steps.c). A step
 * multiplies the four u8 of one quad along k by four i8 for each row or column. A quad has no step
 * if all of its weights are 0, and several if the products of one would not be exact. */
typedef struct integer_steps_t {
  int64_t count;
  int64_t doubles; /* the first 2 * doubles steps are multiplied two at a time */
  int32_t *quads;  /* of each step: the index of its quad */
  uint32_t *weights;
} integer_steps_t;

typedef struct integer_tiles_t {
  /* Rows of a tile. */
  int64_t rows;
  /* Columns of a panel. A panel holds, for each of `depth` pairs, its columns beside each other. */
  int64_t columns;
  /* Computes `rows` rows, at most those of a tile, of the product with one panel. Rows of `left`
   * and of `sums` are left_row and sums_row elements apart. */
  void (*multiply)(int64_t depth, const uint32_t *left, int64_t left_row, int64_t rows,
                   const uint32_t *panel, int32_t *sums, int64_t sums_row);
  /* The most that two neighbours in a step may add up to, for the positive and the negative ones,
   * and those of two steps that are multiplied together. PAIR_ANY: steps are multiplied alone. */
  int32_t pair_most;
  /* The same product for rows of u8, which are left_pitch bytes apart, and weights of columns. */
  void (*multiply_columns)(const integer_steps_t *steps, const uint8_t *left, int64_t left_pitch,
                           int64_t rows, int32_t *sums, int64_t sums_row);
  /* The same for weights of the rows of a tile and a panel of quads of u8, of which
   * `columns` columns are wanted. If there are offsets, the columns of quad q begin at
   * panel + offsets[q]. */
  void (*multiply_rows)(const integer_steps_t *steps, const uint32_t *panel, const int32_t *offsets,
                        int64_t rows, int64_t columns, int32_t *sums, int64_t sums_row);
  /* Writes a quad of `columns` adjacent columns to each of `count` panels, which are panel_size
   * elements apart. Each of the four lines holds count * columns numbers. */
  void (*quad)(const uint8_t *const *lines, int64_t count, uint32_t *panel, int64_t panel_size);
  /* Writes one pair of `columns` adjacent columns to each of `count` panels, which are panel_size
   * elements apart. low and high hold count * columns numbers. */
  void (*pair)(const int16_t *low, const int16_t *high, int64_t count, uint32_t *panel,
               int64_t panel_size);
  /* out[i] = x[i * step] - zero, for numbers of i8 or u8. */
  void (*widen)(const uint8_t *x, int64_t step, int is_signed, int32_t zero, int64_t count,
                int16_t *out);
  /* out[i] = x[i * step] with the bits of `flip` inverted. */
  void (*copy)(const uint8_t *x, int64_t step, uint8_t flip, int64_t count, uint8_t *out);
  /* Sums of a depthwise convolution: weights of one row, and quads of lines[4 * quad] and of the
   * three lines after it. Reads and writes up to TAPS_SLACK elements more than `count`. */
  void (*taps)(const integer_steps_t *steps, const uint8_t *const *lines, int64_t count,
               int32_t *sums);
  /* The same for quads of neighbours in one row: sum i is that of the four u8 from
   * quads[quad] + i * stride on, with a stride of 1 or 2. Reads up to ROW_TAPS_SLACK bytes behind
   * the last quad, and writes up to 15 sums more than `count`. NULL: there is none. Needs VBMI. */
  void (*row_taps)(const integer_steps_t *steps, const uint8_t *const *quads, int64_t stride,
                   int64_t count, int32_t *sums);
  /* Narrows sums[i] + start[i * step] by scale[i * step]; step is 0 or 1. */
  void (*narrow)(const narrow_t *narrow, const int32_t *sums, const int32_t *start,
                 const float *scale, int64_t step, int64_t count, uint8_t *out);
} integer_tiles_t;

extern const integer_tiles_t core_integer_tiles, core_integer_tiles_avx2, core_integer_tiles_avx512,
    core_integer_tiles_avx512vnni;

#endif
