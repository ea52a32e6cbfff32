/* expanse.h: an address range of any length over little memory: one window of it again and again,
 * and a last one of its own. */
#ifndef CHECK_EXPANSE_H
#define CHECK_EXPANSE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct expanse_t {
  char *base; /* NULL: none */
  size_t size;
  size_t window;
  int file;
} expanse_t;

/* `count` windows of `window` bytes, a multiple of a page.  False: the system has no room for
 * it. */
bool expanse_open(expanse_t *out, size_t window, size_t count);
void expanse_close(expanse_t *expanse);
/* Both windows hold these bytes, of which there are window. */
void expanse_fill(expanse_t *expanse, const void *bytes);
static inline char *expanse_last(const expanse_t *expanse) {
  return expanse->base + expanse->size - expanse->window;
}

#endif
