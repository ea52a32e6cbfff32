/* A number times a vector plus a vector, for the instruction set of the file that includes this. */
#ifndef TENON_OPS_MADD_H
#define TENON_OPS_MADD_H

#include "pairs.h"

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

#endif
