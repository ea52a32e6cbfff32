/* Detects the instruction sets of the processor once; see capability.h. */
#include "capability.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) || defined(_M_X64)
static int detect_capability(int *out_vnni, int *out_vbmi) {
  const char *limit = secure_getenv("TENON_CPU_CAPABILITY");
  int none = limit && !strcmp(limit, "default");
  int not_vnni = limit && !strcmp(limit, "avx512");
  int not_avx512 = none || (limit && !strcmp(limit, "avx2"));
  __builtin_cpu_init();
  int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512cd");
  *out_vnni = !not_vnni && __builtin_cpu_supports("avx512vnni");
  *out_vbmi = *out_vnni && __builtin_cpu_supports("avx512vbmi");
  if (avx512 && avx2 && !not_avx512) return CAPABILITY_AVX512;
  return avx2 && !none ? CAPABILITY_AVX2 : CAPABILITY_DEFAULT;
}
#else
static int detect_capability(int *out_vnni, int *out_vbmi) {
  *out_vnni = 0;
  *out_vbmi = 0;
  return CAPABILITY_DEFAULT;
}
#endif

enum { KNOWN = 1 << 8, VNNI = 1 << 9, VBMI = 1 << 10 };

/* The capability, KNOWN, and VNNI and VBMI if there are. */
static int known_answer(void) {
  static atomic_int known; /* 0: not detected yet */
  int answer = atomic_load_explicit(&known, memory_order_relaxed);
  if (!answer) {
    int vnni, vbmi;
    answer = KNOWN | detect_capability(&vnni, &vbmi);
    if (vnni) answer |= VNNI;
    if (vbmi) answer |= VBMI;
    atomic_store_explicit(&known, answer, memory_order_relaxed);
  }
  return answer;
}

int core_capability(void) { return known_answer() & ~(KNOWN | VNNI | VBMI); }

int core_has_vnni(void) {
  return core_capability() == CAPABILITY_AVX512 && (known_answer() & VNNI) != 0;
}

int core_has_vbmi(void) { return core_has_vnni() && (known_answer() & VBMI) != 0; }
