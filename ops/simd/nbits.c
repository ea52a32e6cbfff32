/* Products with packed integers of 2, 4 and 8 bits, as one table per instruction set.
 * ../matmul_nbits.c selects a table.
 * Invariant: with and without fused multiply-add, a sum runs in the same order. */
#include "../nbits.h"
#include "isa.h"
#include <string.h>
#if defined(__FMA__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VECTOR 64
#define MADD(a, b, sum) _mm512_fmadd_ps(_mm512_set1_ps(a), b, sum)
#elif defined(__FMA__)
#define VECTOR 32
#define MADD(a, b, sum) _mm256_fmadd_ps(_mm256_set1_ps(a), b, sum)
#else
#define VECTOR 16
#define MADD(a, b, sum) ((sum) + (a) * (b))
#endif

enum {
  LANES = VECTOR / 4,
  VECTORS = NBITS_COLUMNS / LANES,
};
typedef float floats_t __attribute__((vector_size(VECTOR)));
typedef float floats_loose_t __attribute__((vector_size(VECTOR), aligned(4), may_alias));
typedef uint32_t words_t __attribute__((vector_size(VECTOR)));
typedef uint32_t words_loose_t __attribute__((vector_size(VECTOR), aligned(4), may_alias));
typedef int32_t signed_t __attribute__((vector_size(VECTOR)));

#define BITS 2
#define NAME(x) x##_2
#include "../nbits_kernel.h"
#define BITS 4
#define NAME(x) x##_4
#include "../nbits_kernel.h"
#define BITS 8
#define NAME(x) x##_8
#include "../nbits_kernel.h"

#ifdef TENON_SIMD
const nbits_kernels_t ISA_JOIN(core_nbits, TENON_SIMD) = {
#else
const nbits_kernels_t core_nbits = {
#endif
    {tile_2, tile_4, tile_8}, {unpack_2, unpack_4, unpack_8}};
