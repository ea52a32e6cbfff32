/* guard.h: memory with pages before and behind that nobody may touch, and with a pattern in what is
 * left of its own pages. */
#ifndef CHECK_GUARD_H
#define CHECK_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  GUARD_INPUT,
  GUARD_OUTPUT,
  GUARD_WORKSPACE,
  GUARD_TEMPORARY,
};

typedef struct guard_t {
  char *base; /* all of it, with the guard pages */
  size_t size;
  size_t pages;
  char *data;
  size_t length;
  uint8_t kind;
  char name[40]; /* of the argument */
  struct guard_t *next;
} guard_t;

/* `length` bytes; at_end: they end where a page begins that nobody may touch (as far as `alignment`
 * lets them), else they begin so. */
guard_t *guard_make(uint8_t kind, const char *name, size_t length, size_t alignment, bool at_end);
/* Bytes outside that were changed: how far from the beginning (negative) or the end (positive), 0:
 * none. */
int64_t guard_damage(const guard_t *guard);
/* How many bytes behind the end were written over, up to the last that was. */
size_t guard_overrun(const guard_t *guard);
void guard_free(guard_t *guard);
/* The guard that an address belongs to, and how far it is before its beginning (negative) or behind
 * its end (from 0); for handlers of signals.  NULL: none. */
const guard_t *guard_at(const void *address, int64_t *out_distance);

#endif
