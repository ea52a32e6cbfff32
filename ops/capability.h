/* Which of the builds of simd/ to call, for functions that are no kernels of their own, such as
 * matrix products inside of kernels.  Invariant: the same choice as the host's among kernels,
 * TENON_CPU_CAPABILITY included. */
#ifndef TENON_OPS_CAPABILITY_H
#define TENON_OPS_CAPABILITY_H

enum {
  CAPABILITY_DEFAULT,
  CAPABILITY_AVX2,
  CAPABILITY_AVX512,
};
int core_capability(void);

#endif
