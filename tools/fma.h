/* Chains of multiply-adds in registers, with the best instructions that the processor has: what its
 * arithmetic can do at most. fma_x86.c, fma_other.c. */
#ifndef TOOLS_FMA_H
#define TOOLS_FMA_H

#include <stdint.h>

/* Does `rounds` of them and gives how many operations (a multiplication and an addition are two)
 * that were. */
double fma_run_f32(int64_t rounds);
double fma_run_f64(int64_t rounds);
const char *fma_name(void); /* "avx512", "avx2", "baseline" */

#endif
