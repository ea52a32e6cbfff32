/* Selects which build of simd/ to call, for functions that are not kernels themselves, such as the
 * matrix product inside a kernel.
 * Invariant: the choice equals the host's choice among kernels, including the effect of
 * TENON_CPU_CAPABILITY. */
#ifndef TENON_OPS_CAPABILITY_H
#define TENON_OPS_CAPABILITY_H

enum {
  CAPABILITY_DEFAULT,
  CAPABILITY_AVX2,
  CAPABILITY_AVX512,
};
int core_capability(void);
/* Whether integers may be multiplied by VNNI, which is beyond CAPABILITY_AVX512. */
int core_has_vnni(void);
/* Whether there are permutations of bytes (VBMI) as well. */
int core_has_vbmi(void);

#endif
