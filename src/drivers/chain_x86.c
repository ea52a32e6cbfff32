/* Links on x86-64, in vectors of SSE2, AVX2 or AVX-512, see chain.h. */
#include <immintrin.h>
#include <math.h>

#include "base/cpu.h"
#include "drivers/chain.h"

#define CHAIN_NAME(name) name##_sse2
#define CHAIN_TARGET
#define CHAIN_BYTES 16
#define CHAIN_BLOCK 8
#define CHAIN_SQRT(a) ((V)_mm_sqrt_ps((__m128)(a)))
#define CHAIN_GREATER(a, b) ((V)_mm_max_ps((__m128)(a), (__m128)(b)))
#define CHAIN_LESS(a, b) ((V)_mm_min_ps((__m128)(a), (__m128)(b)))
#include "drivers/chain_kernel.h"

#define CHAIN_NAME(name) name##_avx2
#define CHAIN_TARGET __attribute__((target("avx2")))
#define CHAIN_BYTES 32
#define CHAIN_BLOCK 8
#define CHAIN_SQRT(a) ((V)_mm256_sqrt_ps((__m256)(a)))
#define CHAIN_GREATER(a, b) ((V)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define CHAIN_LESS(a, b) ((V)_mm256_min_ps((__m256)(a), (__m256)(b)))
#include "drivers/chain_kernel.h"

#define CHAIN_NAME(name) name##_avx512
#define CHAIN_TARGET __attribute__((target("avx512f")))
#define CHAIN_BYTES 64
#define CHAIN_BLOCK 8
#define CHAIN_SQRT(a) ((V)_mm512_sqrt_ps((__m512)(a)))
#define CHAIN_GREATER(a, b) ((V)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define CHAIN_LESS(a, b) ((V)_mm512_min_ps((__m512)(a), (__m512)(b)))
#include "drivers/chain_kernel.h"

/* The elements behind the last whole block: vectors of one register, then single numbers. */

#define CHAIN_NAME(name) name##_narrow
#define CHAIN_TARGET
#define CHAIN_BYTES 16
#define CHAIN_BLOCK 1
#define CHAIN_SQRT(a) ((V)_mm_sqrt_ps((__m128)(a)))
#define CHAIN_GREATER(a, b) ((V)_mm_max_ps((__m128)(a), (__m128)(b)))
#define CHAIN_LESS(a, b) ((V)_mm_min_ps((__m128)(a), (__m128)(b)))
#include "drivers/chain_kernel.h"

#define CHAIN_NAME(name) name##_single
#define CHAIN_TARGET
#define CHAIN_BYTES 4
#define CHAIN_BLOCK 1
#define CHAIN_SQRT(a) ((V){sqrtf((a)[0])})
#define CHAIN_GREATER(a, b) CHOOSE((M)((a) > (b)), a, b)
#define CHAIN_LESS(a, b) CHOOSE((M)((a) < (b)), a, b)
#include "drivers/chain_kernel.h"

static void run_tail(const tn_link_t *links, int32_t count, int64_t at, int64_t length) {
  at = run_narrow(links, count, at, length);
  run_single(links, count, at, length);
}

static void run_chain_sse2(const tn_link_t *links, int32_t count, int64_t length) {
  run_tail(links, count, run_sse2(links, count, 0, length), length);
}

static void run_chain_avx2(const tn_link_t *links, int32_t count, int64_t length) {
  run_tail(links, count, run_avx2(links, count, 0, length), length);
}

static void run_chain_avx512(const tn_link_t *links, int32_t count, int64_t length) {
  const int64_t at = run_avx512(links, count, 0, length);
  run_tail(links, count, run_avx2(links, count, at, length), length);
}

tn_chain_fn tn_chain_function(void) {
  if (tn_cpu_has(tn_cpu_rank("avx512", 6))) return run_chain_avx512;
  return tn_cpu_has(tn_cpu_rank("avx2", 4)) ? run_chain_avx2 : run_chain_sse2;
}
