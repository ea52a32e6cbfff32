/* The kernel of convolutions with packed weights: a tile of output positions times a panel of
 * filters. simd/conv_tile.c has one table per instruction set; conv_packed.c selects one.
 * Invariant: a sum runs over taps, then over channels, and starts at the bias. */
#ifndef TENON_OPS_CONV_TILE_H
#define TENON_OPS_CONV_TILE_H

#include <stdint.h>

enum {
  CONV_TILE_ROWS = 6,      /* positions of a tile over a whole panel */
  CONV_TILE_HALF_ROWS = 12 /* and over half a panel */
};

/* What all tiles of a block of positions share. */
typedef struct conv_tile_t {
  /* For each tap, the addresses of the elements of x under it, `pitch` addresses from one tap to
   * the next. Behind the last position are readable addresses up to a whole tile. */
  const float *const *x;
  int64_t pitch;
  int64_t taps;
  int64_t channels;   /* of each tap: adjacent elements */
  int64_t first;      /* added to each address of x: where the channels of the group begin */
  const float *panel; /* for each tap and channel: the weights of its filters */
  const float *next;  /* weights to fetch into the cache meanwhile; NULL: none */
  const float *bias;  /* of the filters of the panel, with numbers for a whole panel; NULL: 0 */
  float *const *out;  /* of each position: the address of the first filter of all */
  const float *const *residual; /* the same; NULL: none */
  int64_t filter;               /* added to the addresses of out and residual */
  int64_t filters;              /* of the panel that are written */
  int is_clamped;               /* the activation is a clamp to [low, high] */
  float low;
  float high;
} conv_tile_t;

typedef struct conv_tiles_t {
  int64_t filters; /* of a whole panel; half of it is a vector */
  /* Compute positions [first, end) over a whole panel, and over half a panel. */
  void (*whole)(const conv_tile_t *tile, int64_t first, int64_t end);
  void (*half)(const conv_tile_t *tile, int64_t first, int64_t end);
  /* Applies an activation of FINISH_ACTIVATIONS to `count` adjacent numbers. */
  void (*activate)(int64_t activation, float alpha, float beta, float *row, int64_t count);
} conv_tiles_t;

extern const conv_tiles_t core_conv_tiles, core_conv_tiles_avx2, core_conv_tiles_avx512;
/* Those for the best instruction set of this processor. */
const conv_tiles_t *core_conv_tiles_of_isa(void);

#endif
