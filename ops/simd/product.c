/* The matrix products of ../gemm_kernel.h for f32, f64 and wrapping integers, as one table per
 * instruction set. ../gemm.c selects a table.
 * Invariant: with and without fused multiply-add, a sum runs in the same order. */
#include "../gemm.h"
#include "isa.h"
#include <string.h>
#if defined(__AVX512F__) || defined(__FMA__)
#include <immintrin.h>
#endif

enum {
  MR = 6,
  ROWS = GEMM_ROWS,
  DEPTH = GEMM_DEPTH,
};

#if defined(__AVX512F__)
#define VECTOR 64
#define MADD_F32(a, b, sum) _mm512_fmadd_ps(_mm512_set1_ps(a), b, sum)
#define MADD_F64(a, b, sum) _mm512_fmadd_pd(_mm512_set1_pd(a), b, sum)
#elif defined(__FMA__)
#define VECTOR 32
#define MADD_F32(a, b, sum) _mm256_fmadd_ps(_mm256_set1_ps(a), b, sum)
#define MADD_F64(a, b, sum) _mm256_fmadd_pd(_mm256_set1_pd(a), b, sum)
#else
#define VECTOR 16
#define MADD_F32(a, b, sum) ((sum) + (a) * (b))
#define MADD_F64 MADD_F32
#endif
#define MADD_INT(a, b, sum) ((sum) + (a) * (b))

#define T float
#define NAME(x) x##_f32
#define MADD MADD_F32
#include "../gemm_kernel.h"
#define T double
#define NAME(x) x##_f64
#define MADD MADD_F64
#include "../gemm_kernel.h"
#define T uint32_t
#define NAME(x) x##_u32
#define MADD MADD_INT
#include "../gemm_kernel.h"
#define T uint64_t
#define NAME(x) x##_u64
#define MADD MADD_INT
#include "../gemm_kernel.h"

#ifdef TENON_SIMD
const gemms_t ISA_JOIN(core_gemms, TENON_SIMD) = {gemm_f32, gemm_f64, gemm_u32, gemm_u64};
#else
const gemms_t core_gemms = {gemm_f32, gemm_f64, gemm_u32, gemm_u64};
#endif
