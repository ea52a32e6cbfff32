/* Detects the instruction sets of the processor once; see capability.h. */
#include "capability.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) || defined(_M_X64)
static int detect_capability(void) {
  const char *limit = secure_getenv("TENON_CPU_CAPABILITY");
  int none = limit && !strcmp(limit, "default");
  int not_avx512 = none || (limit && !strcmp(limit, "avx2"));
  __builtin_cpu_init();
  int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512cd");
  if (avx512 && avx2 && !not_avx512) return CAPABILITY_AVX512;
  return avx2 && !none ? CAPABILITY_AVX2 : CAPABILITY_DEFAULT;
}
#else
static int detect_capability(void) { return CAPABILITY_DEFAULT; }
#endif

int core_capability(void) {
  static atomic_int known; /* 1 + the capability; 0: not detected yet */
  int answer = atomic_load_explicit(&known, memory_order_relaxed);
  if (!answer) {
    answer = 1 + detect_capability();
    atomic_store_explicit(&known, answer, memory_order_relaxed);
  }
  return answer - 1;
}
