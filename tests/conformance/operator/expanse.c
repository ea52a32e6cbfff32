/* Address ranges over one file in memory, mapped as often as it takes; see expanse.h. */
#include "expanse.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool map_windows(expanse_t *e, size_t count) {
  for (size_t i = 0; i < count; i++) {
    off_t from = i + 1 == count ? (off_t)e->window : 0;
    if (mmap(e->base + i * e->window, e->window, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             e->file, from) == MAP_FAILED)
      return false;
  }
  return true;
}

bool expanse_open(expanse_t *e, size_t window, size_t count) {
  *e = (expanse_t){NULL, window * count, window, memfd_create("expanse", MFD_CLOEXEC)};
  if (e->file < 0 || ftruncate(e->file, (off_t)(2 * window)) != 0) {
    expanse_close(e);
    return false;
  }
  void *base = mmap(NULL, e->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    expanse_close(e);
    return false;
  }
  e->base = base;
  if (map_windows(e, count)) return true;
  expanse_close(e);
  return false;
}

void expanse_close(expanse_t *e) {
  if (e->base) munmap(e->base, e->size);
  if (e->file >= 0) close(e->file);
  *e = (expanse_t){NULL, 0, 0, -1};
}

void expanse_fill(expanse_t *e, const void *bytes) {
  memcpy(e->base, bytes, e->window);
  memcpy(expanse_last(e), bytes, e->window);
}
