/* Instruction sets of this processor, by the names that kernel declarations use ("avx2", "avx512",
 * ...), limited by TENON_CPU_CAPABILITY. The processor is queried once, and the variable is read
 * when the runtime starts: each kernel that is registered asks. */
#ifndef TN_BASE_CPU_H
#define TN_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>

/* Rank of an instruction set's name: higher is better, 0 is the baseline (the empty name), -1 means
 * that contract 1 has no such name. */
int tn_cpu_rank(const char *word, size_t size);
/* Whether kernels of this rank may run on this processor under the current limit. */
bool tn_cpu_has(int rank);
/* Reads the limit. tenon_start calls it; before that, the first question does. */
void tn_cpu_limit_read(void);
/* The name for a rank; NULL beyond the last rank. */
const char *tn_cpu_word(int rank);
/* Whether TENON_CPU_CAPABILITY is unset or names a known instruction set. *out_value is the
 * variable's value, for a message. */
bool tn_cpu_limit_valid(const char **out_value);

#endif
