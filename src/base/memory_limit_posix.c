/* How much memory this process can have, on Linux and other POSIX systems. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/memory_limit.h"

/* The number in a file of a control group; UINT64_MAX without a file or number ("max"). */
static uint64_t read_number(const char *path) {
  uint64_t number = UINT64_MAX;
  FILE *file = fopen(path, "re");
  if (!file) return UINT64_MAX;
  if (fscanf(file, "%" SCNu64, &number) != 1) number = UINT64_MAX;
  fclose(file);
  return number;
}

uint64_t tn_memory_of_machine(void) {
  /* Of version 2 and 1. In a container these are its own limits. */
  static const char *const groups[] = {"/sys/fs/cgroup/memory.max",
                                       "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  uint64_t least = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
  for (int i = 0; i < 2; i++) {
    const uint64_t most = read_number(groups[i]);
    if (most < least) least = most;
  }
  return least;
}
