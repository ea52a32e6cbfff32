/* The matrix products of ../gemm_kernel.h for f32, f64, wrapping integers and pairs of i16, as one
 * table per instruction set. ../gemm.c selects a table.
 * Invariant: with and without fused multiply-add, a sum runs in the same order. */
#include "../gemm.h"
#include "isa.h"
#include <string.h>
#if defined(__SSE2__)
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
#define TIMES_PAIRS(a, b) (pairs_vector) _mm512_madd_epi16((__m512i)(a), (__m512i)(b))
#elif defined(__FMA__)
#define VECTOR 32
#define MADD_F32(a, b, sum) _mm256_fmadd_ps(_mm256_set1_ps(a), b, sum)
#define MADD_F64(a, b, sum) _mm256_fmadd_pd(_mm256_set1_pd(a), b, sum)
#define TIMES_PAIRS(a, b) (pairs_vector) _mm256_madd_epi16((__m256i)(a), (__m256i)(b))
#else
#define VECTOR 16
#define MADD_F32(a, b, sum) ((sum) + (a) * (b))
#define MADD_F64 MADD_F32
#if defined(__SSE2__)
#define TIMES_PAIRS(a, b) (pairs_vector) _mm_madd_epi16((__m128i)(a), (__m128i)(b))
#else
#define TIMES_PAIRS(a, b) times_halves(a, b)
#endif
#endif
#define MADD_INT(a, b, sum) ((sum) + (a) * (b))
#define TIMES_NUMBERS(a, b) ((a) * (b))

/* A pair of i16 times a pair: the sum of both products. */
static inline uint32_t times_pair(uint32_t a, uint32_t b) {
  int32_t low = (int16_t)(uint16_t)a * (int16_t)(uint16_t)b;
  int32_t high = (int16_t)(uint16_t)(a >> 16) * (int16_t)(uint16_t)(b >> 16);
  return (uint32_t)low + (uint32_t)high;
}
typedef uint32_t pairs_vector __attribute__((vector_size(VECTOR)));
#if !defined(__SSE2__)
typedef int32_t vector_signed __attribute__((vector_size(VECTOR)));
static inline pairs_vector times_halves(pairs_vector a, pairs_vector b) {
  vector_signed low = ((vector_signed)(a << 16) >> 16) * ((vector_signed)(b << 16) >> 16);
  vector_signed high = ((vector_signed)a >> 16) * ((vector_signed)b >> 16);
  return (pairs_vector)low + (pairs_vector)high;
}
#endif
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
