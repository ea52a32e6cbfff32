/* Vectors of pairs of i16, and the sum of the two products of each pair, for the instruction set of
 * the file that includes this.
 * Invariant: a pair is a u32 that holds the first number in its low half. */
#ifndef TENON_OPS_PAIRS_H
#define TENON_OPS_PAIRS_H

#include <stdint.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VECTOR 64
#define TIMES_PAIRS(a, b) (pairs_vector) _mm512_madd_epi16((__m512i)(a), (__m512i)(b))
#elif defined(__FMA__)
#define VECTOR 32
#define TIMES_PAIRS(a, b) (pairs_vector) _mm256_madd_epi16((__m256i)(a), (__m256i)(b))
#else
#define VECTOR 16
#if defined(__SSE2__)
#define TIMES_PAIRS(a, b) (pairs_vector) _mm_madd_epi16((__m128i)(a), (__m128i)(b))
#else
#define TIMES_PAIRS(a, b) times_halves(a, b)
#endif
#endif

typedef uint32_t pairs_vector __attribute__((vector_size(VECTOR)));
typedef uint32_t pairs_loose
    __attribute__((vector_size(VECTOR), aligned(sizeof(uint32_t)), may_alias));
/* The same at any address. */
typedef uint32_t bytes_loose __attribute__((vector_size(VECTOR), aligned(1), may_alias));

/* A pair of i16 times a pair: the sum of both products. */
static inline uint32_t times_pair(uint32_t a, uint32_t b) {
  int32_t low = (int16_t)(uint16_t)a * (int16_t)(uint16_t)b;
  int32_t high = (int16_t)(uint16_t)(a >> 16) * (int16_t)(uint16_t)(b >> 16);
  return (uint32_t)low + (uint32_t)high;
}
#if !defined(__SSE2__)
typedef int32_t vector_signed __attribute__((vector_size(VECTOR)));
static inline pairs_vector times_halves(pairs_vector a, pairs_vector b) {
  vector_signed low = ((vector_signed)(a << 16) >> 16) * ((vector_signed)(b << 16) >> 16);
  vector_signed high = ((vector_signed)a >> 16) * ((vector_signed)b >> 16);
  return (pairs_vector)low + (pairs_vector)high;
}
#endif

#endif
