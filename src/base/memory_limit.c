/* Reads the limit on the memory of tensors from the environment. Without a limit, a model whose
 * loop never ends would take all memory of the machine, and the system would end some process
 * without a message. */
#include "base/memory_limit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/memory.h"
#include "base/status.h"

/* Reads a whole number, which may end in K, M, G or T for multiples of 1024. */
static bool parse_size(const char *text, uint64_t *out_bytes) {
  static const char units[] = "KMGT";
  char *end;
  if (*text < '0' || *text > '9') return false;
  errno = 0;
  uint64_t bytes = strtoull(text, &end, 10);
  if (errno) return false;
  const char *unit = *end ? strchr(units, *end) : NULL;
  const int shift = unit ? 10 * ((int)(unit - units) + 1) : 0;
  if (end[unit ? 1 : 0] || bytes > UINT64_MAX >> shift) return false;
  *out_bytes = bytes << shift;
  return true;
}

tenon_status_t tn_memory_limit_start(void) {
  const char *text = tn_environment("TENON_MEMORY_LIMIT");
  uint64_t bytes = 0;
  if (text && *text && !parse_size(text, &bytes))
    return tn_fail(TENON_INVALID,
                   "TENON_MEMORY_LIMIT is '%.40s': expected a number of bytes, which may end in K, "
                   "M, G or T, or 0 for no limit",
                   text);
  /* The rest is for everything that is not a tensor, so that the limit comes before the system ends
   * the process. */
  if (!text || !*text) bytes = tn_memory_of_machine() / 8 * 7;
  tn_aligned_limit_set(bytes ? bytes : UINT64_MAX);
  return TENON_OK;
}
