/* An address range of any length that is backed by little memory: one window is mapped again and
 * again, and the last window has memory of its own. */
#ifndef CHECK_REPEATED_MEMORY_H
#define CHECK_REPEATED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct repeated_memory_t {
  char *base; /* NULL: there is none */
  size_t size;
  size_t window;
  int file;
} repeated_memory_t;

/* Maps `count` windows of `window` bytes, a multiple of the page size. Returns false if the address
 * range is not available. */
bool repeated_memory_open(repeated_memory_t *out, size_t window, size_t count);
void repeated_memory_close(repeated_memory_t *expanse);
/* Fills both windows with these `window` bytes. */
void repeated_memory_fill(repeated_memory_t *expanse, const void *bytes);
static inline char *repeated_memory_last(const repeated_memory_t *expanse) {
  return expanse->base + expanse->size - expanse->window;
}

#endif
