/* Processors without a probe of their own: the baseline only; Arm's 64-bit baseline includes
 * NEON. */
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
