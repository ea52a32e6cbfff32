/* The matrix products of ../gemm_kernel.h for f32, f64, wrapping integers and pairs of i16, as one
 * table per instruction set. ../gemm.c selects a table.
 * Invariant: with and without fused multiply-add, a sum runs in the same order. */
#include "../gemm.h"
#include "isa.h"
#include "madd.h"
#include "pairs.h"
#include <string.h>

enum {
  MR = 6,
  ROWS = GEMM_ROWS,
  DEPTH = GEMM_DEPTH,
};

#define MADD_INT(a, b, sum) ((sum) + (a) * (b))
#define TIMES_NUMBERS(a, b) ((a) * (b))
#define MADD_PAIRS(a, b, sum) ((sum) + TIMES_PAIRS((a) - (pairs_vector){0}, b))

#define T float
#define NAME(x) x##_f32
#define MADD MADD_F32
#define TIMES TIMES_NUMBERS
#define TIMES_VECTOR TIMES_NUMBERS
#include "../gemm_kernel.h"
#define T double
#define NAME(x) x##_f64
#define MADD MADD_F64
#define TIMES TIMES_NUMBERS
#define TIMES_VECTOR TIMES_NUMBERS
#include "../gemm_kernel.h"
#define T uint32_t
#define NAME(x) x##_u32
#define MADD MADD_INT
#define TIMES TIMES_NUMBERS
#define TIMES_VECTOR TIMES_NUMBERS
#include "../gemm_kernel.h"
#define T uint64_t
#define NAME(x) x##_u64
#define MADD MADD_INT
#define TIMES TIMES_NUMBERS
#define TIMES_VECTOR TIMES_NUMBERS
#include "../gemm_kernel.h"

#define T uint32_t
#define NAME(x) x##_pairs
#define MADD MADD_PAIRS
#define TIMES times_pair
#define TIMES_VECTOR TIMES_PAIRS
#include "../gemm_kernel.h"

#ifdef TENON_SIMD
const gemms_t ISA_JOIN(core_gemms, TENON_SIMD) = {gemm_f32, gemm_f64, gemm_u32, gemm_u64,
                                                  gemm_pairs};
#else
const gemms_t core_gemms = {gemm_f32, gemm_f64, gemm_u32, gemm_u64, gemm_pairs};
#endif
