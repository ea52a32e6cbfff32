/* Copies of runs and tiles of floats (copy.c) that depend on the instruction set: transposed tiles
 * of f32, and copies that convert between f32 and a narrow dtype. simd/move_float.c has one table
 * per instruction set.
 * Invariant: an element has the same value with every instruction set. */
#ifndef TENON_OPS_MOVE_FLOAT_H
#define TENON_OPS_MOVE_FLOAT_H

#include <stdint.h>

typedef void (*move_run_fn)(char *to, const char *from, int64_t n, int64_t to_stride,
                            int64_t from_stride);
typedef void (*move_tile_fn)(char *to, const char *from, int64_t n, int64_t m, int64_t to_stride,
                             int64_t from_stride);

/* Strides are in elements. */
typedef struct move_float_t {
  /* Copies n elements. NULL: copy.c has it. */
  move_run_fn run;
  /* Copies n by m elements: element (i, j) is from[i * from_stride + j], and goes to
   * to[j * to_stride + i]. NULL: copy.c has it. */
  move_tile_fn tile;
} move_float_t;

typedef struct move_floats_t {
  move_float_t f32;
  move_float_t widen_f16;
  move_float_t widen_bf16;
  move_float_t narrow_f16;
  move_float_t narrow_bf16;
} move_floats_t;

extern const move_floats_t core_move_floats, core_move_floats_avx2, core_move_floats_avx512;

#endif
