/* Chains of multiply-adds in registers with the widest instructions of this processor; they measure
 * its peak arithmetic rate. Implemented in fma_x86.c and fma_other.c. */
#ifndef TOOLS_FMA_H
#define TOOLS_FMA_H

#include <stdint.h>

/* Executes `rounds` of the chains and returns the number of operations (a multiplication and an
 * addition count as two). */
double fma_run_f32(int64_t rounds);
double fma_run_f64(int64_t rounds);
const char *fma_name(void); /* "avx512", "avx2", "baseline" */

#endif
