/* Links on x86-64, in vectors of SSE2, AVX2 or AVX-512, see chain.h. */
#include <immintrin.h>

#include "base/cpu.h"
#include "drivers/chain.h"
#include "drivers/chain_single.h"

#define ROUNDING (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

#define CHAIN_NAME(name) name##_sse2
#define CHAIN_TARGET
#define CHAIN_BYTES 16
#define CHAIN_BLOCK 8
#define CHAIN_SQRT(a) ((V)_mm_sqrt_ps((__m128)(a)))
#define CHAIN_MAX(a, b) CHOOSE((M)((a) != (a)), a, (V)_mm_max_ps((__m128)(a), (__m128)(b)))
#define CHAIN_MIN(a, b) CHOOSE((M)((a) != (a)), a, (V)_mm_min_ps((__m128)(a), (__m128)(b)))
#include "drivers/chain_kernel.h"

#define CHAIN_NAME(name) name##_avx2
#define CHAIN_TARGET __attribute__((target("avx2,f16c")))
#define CHAIN_BYTES 32
#define CHAIN_BLOCK 8
#define CHAIN_SQRT(a) ((V)_mm256_sqrt_ps((__m256)(a)))
#define CHAIN_MAX(a, b) CHOOSE((M)((a) != (a)), a, (V)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define CHAIN_MIN(a, b) CHOOSE((M)((a) != (a)), a, (V)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define CHAIN_WIDEN(a) ((V)_mm256_cvtph_ps((__m128i)(a)))
#define CHAIN_NARROW(a) ((H)_mm256_cvtps_ph((__m256)(a), ROUNDING))
#define CHAIN_FROM_BYTES(a) ((M)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)(a))))
#define CHAIN_TO_BYTES(a) __builtin_convertvector(a, B)
#define CHAIN_FROM_HALVES(a) ((U)_mm256_cvtepu16_epi32((__m128i)(a)))
#define CHAIN_TO_HALVES(a) __builtin_convertvector(a, H)
#include "drivers/chain_kernel.h"

#define CHAIN_NAME(name) name##_avx512
#define CHAIN_TARGET __attribute__((target("avx512f")))
#define CHAIN_BLOCK 8
#include "drivers/chain_avx512.h"

/* The elements behind the last whole block: vectors of one register, then single numbers. */

#define CHAIN_NAME(name) name##_narrow
#define CHAIN_TARGET
#define CHAIN_BYTES 16
#define CHAIN_BLOCK 1
#define CHAIN_SQRT(a) ((V)_mm_sqrt_ps((__m128)(a)))
#define CHAIN_MAX(a, b) CHOOSE((M)((a) != (a)), a, (V)_mm_max_ps((__m128)(a), (__m128)(b)))
#define CHAIN_MIN(a, b) CHOOSE((M)((a) != (a)), a, (V)_mm_min_ps((__m128)(a), (__m128)(b)))
#include "drivers/chain_kernel.h"

#define CHAIN_NAME(name) name##_narrow_avx2
#define CHAIN_TARGET __attribute__((target("avx2,f16c")))
#define CHAIN_BYTES 16
#define CHAIN_BLOCK 1
#define CHAIN_SQRT(a) ((V)_mm_sqrt_ps((__m128)(a)))
#define CHAIN_MAX(a, b) CHOOSE((M)((a) != (a)), a, (V)_mm_max_ps((__m128)(a), (__m128)(b)))
#define CHAIN_MIN(a, b) CHOOSE((M)((a) != (a)), a, (V)_mm_min_ps((__m128)(a), (__m128)(b)))
#define CHAIN_WIDEN(a) ((V)_mm_cvtph_ps(_mm_cvtsi64_si128((int64_t)(a))))
#define CHAIN_NARROW(a) ((H)_mm_cvtsi128_si64(_mm_cvtps_ph((__m128)(a), ROUNDING)))
#include "drivers/chain_kernel.h"

#define CHAIN_NAME(name) name##_narrow_avx512
#define CHAIN_TARGET __attribute__((target("avx512f")))
#define CHAIN_BLOCK 1
#include "drivers/chain_avx512.h"

static void run_chain_sse2(const tn_link_t *links, int32_t count, int64_t length) {
  int64_t at = run_sse2(links, count, 0, length);
  at = run_narrow(links, count, at, length);
  tn_chain_run_single(links, count, at, length);
}

static void run_chain_avx2(const tn_link_t *links, int32_t count, int64_t length) {
  int64_t at = run_avx2(links, count, 0, length);
  at = run_narrow_avx2(links, count, at, length);
  tn_chain_run_single(links, count, at, length);
}

static void run_chain_avx512(const tn_link_t *links, int32_t count, int64_t length) {
  int64_t at = run_avx512(links, count, 0, length);
  at = run_narrow_avx512(links, count, at, length);
  at = run_narrow_avx2(links, count, at, length);
  tn_chain_run_single(links, count, at, length);
}

tn_chain_fn tn_chain_function(void) {
  if (tn_cpu_has(tn_cpu_rank("avx512", 6))) return run_chain_avx512;
  return tn_cpu_has(tn_cpu_rank("avx2", 4)) ? run_chain_avx2 : run_chain_sse2;
}

bool tn_chain_takes_f16(void) { return tn_cpu_has(tn_cpu_rank("avx2", 4)); }

bool tn_chain_has_other(void) { return tn_cpu_has(tn_cpu_rank("avx512", 6)); }
