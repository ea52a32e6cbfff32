/* Address ranges over one in-memory file that is mapped repeatedly; see repeated_memory.h. */
#include "repeated_memory.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool map_windows(repeated_memory_t *e, size_t count) {
  for (size_t i = 0; i < count; i++) {
    off_t from = i + 1 == count ? (off_t)e->window : 0;
    if (mmap(e->base + i * e->window, e->window, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             e->file, from) == MAP_FAILED)
      return false;
  }
  return true;
}

bool repeated_memory_open(repeated_memory_t *e, size_t window, size_t count) {
  *e = (repeated_memory_t){NULL, window * count, window, memfd_create("expanse", MFD_CLOEXEC)};
  if (e->file < 0 || ftruncate(e->file, (off_t)(2 * window)) != 0) {
    repeated_memory_close(e);
    return false;
  }
  void *base = mmap(NULL, e->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    repeated_memory_close(e);
    return false;
  }
  e->base = base;
  if (map_windows(e, count)) return true;
  repeated_memory_close(e);
  return false;
}

void repeated_memory_close(repeated_memory_t *e) {
  if (e->base) munmap(e->base, e->size);
  if (e->file >= 0) close(e->file);
  *e = (repeated_memory_t){NULL, 0, 0, -1};
}

void repeated_memory_fill(repeated_memory_t *e, const void *bytes) {
  memcpy(e->base, bytes, e->window);
  memcpy(repeated_memory_last(e), bytes, e->window);
}
