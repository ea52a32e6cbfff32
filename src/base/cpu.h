/* Instruction sets of this processor, in the words of kernel texts ("avx2", "avx512", ...), limited
 * by TENON_CPU_CAPABILITY.  Read once. */
#ifndef TN_BASE_CPU_H
#define TN_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>

/* Rank of the word (higher is better; 0: the baseline, the empty word), -1: no such word in
 * contract 1. */
int tn_cpu_rank(const char *word, size_t size);
/* May kernels of that rank run here, now? */
bool tn_cpu_has(int rank);
const char *tn_cpu_word(int rank); /* NULL past the last */
/* Reads TENON_CPU_CAPABILITY again and fails when it names no known set; otherwise false with
 * *out_value the bad word. */
bool tn_cpu_limit_valid(const char **out_value);

#endif
