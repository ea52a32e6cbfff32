/* The matrix products of ../gemm_kernel.h for f32, f64, wrapping integers and pairs of i16, as one
 * table per instruction set. ../gemm.c selects a table.
 * Invariant: with and without fused multiply-add, a sum runs in the same order. */
#include "../gemm.h"
#include "isa.h"
#include "pairs.h"
#include <string.h>

enum {
  MR = 6,
  ROWS = GEMM_ROWS,
  DEPTH = GEMM_DEPTH,
};

#if defined(__AVX512F__)
#define MADD_F32(a, b, sum) _mm512_fmadd_ps(_mm512_set1_ps(a), b, sum)
#define MADD_F64(a, b, sum) _mm512_fmadd_pd(_mm512_set1_pd(a), b, sum)
#elif defined(__FMA__)
#define MADD_F32(a, b, sum) _mm256_fmadd_ps(_mm256_set1_ps(a), b, sum)
#define MADD_F64(a, b, sum) _mm256_fmadd_pd(_mm256_set1_pd(a), b, sum)
#else
#define MADD_F32(a, b, sum) ((sum) + (a) * (b))
#define MADD_F64 MADD_F32
#endif
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
