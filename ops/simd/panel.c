/* The products of ../panel_kernel.h for f32 and f64, as one table per instruction set. ../panels.c
 * selects a table.
 * Invariant: with and without fused multiply-add, a sum runs in the same order. */
#include "../panels.h"
#include "isa.h"
#include "madd.h"
#include <string.h>

enum {
  VECTORS = 8, /* of a panel: as many sums as hide the latency of an addition */
  ROWS = 6,    /* that are computed at once, at most */
  SUMS = 12,
  AHEAD = 2048, /* bytes */
};

#define T float
#define NAME(x) x##_f32
#define MADD MADD_F32
#include "../panel_kernel.h"
#define T double
#define NAME(x) x##_f64
#define MADD MADD_F64
#include "../panel_kernel.h"

#define KERNELS                                                                                    \
  {                                                                                                \
    {WIDTH_f32, pack_f32, multiply_f32}, { WIDTH_f64, pack_f64, multiply_f64 }                     \
  }
#ifdef TENON_SIMD
const panel_kernels_t ISA_JOIN(core_panels, TENON_SIMD)[2] = KERNELS;
#else
const panel_kernels_t core_panels[2] = KERNELS;
#endif
