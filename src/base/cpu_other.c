/* Instruction sets of processors that have no probe of their own: only the baseline. The baseline
 * of 64-bit Arm includes NEON. */
#include <string.h>

#include "base/cpu_probe.h"

bool tn_cpu_probe(const char *word) {
#if defined(__aarch64__)
  return strcmp(word, "neon") == 0;
#else
  (void)word;
  return false;
#endif
}
