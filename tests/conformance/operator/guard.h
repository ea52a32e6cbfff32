/* Guarded memory: inaccessible pages before and after it, and a byte pattern in the unused rest of
 * its own pages. */
#ifndef CHECK_GUARD_H
#define CHECK_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/op.h>

enum {
  GUARD_INPUT,
  GUARD_OUTPUT,
  GUARD_WORKSPACE,
  GUARD_TEMPORARY,
  GUARD_ATTRIBUTES,
};

typedef struct guard_t {
  char *base; /* the whole mapping, with the guard pages */
  size_t size;
  size_t pages;
  char *data;
  size_t length;
  uint8_t kind;
  char name[40]; /* name of the argument */
  struct guard_t *next;
} guard_t;

/* Allocates `length` bytes. With at_end they end at an inaccessible page, as far as `alignment`
 * allows; else they begin after one. */
guard_t *guard_make(uint8_t kind, const char *name, size_t length, size_t alignment, bool at_end);
/* Memory for the attributes of a call, which ends at an inaccessible page: a kernel that counts
 * tensors, too, in the index of an attribute reads past the end. */
guard_t *guard_attributes(size_t count, tenon_value_t **out_attrs);
/* Distance of a modified byte outside the memory: negative before its start, positive after its
 * end, 0 if no byte was modified. */
int64_t guard_damage(const guard_t *guard);
/* Number of bytes after the end up to the last one that was modified. */
size_t guard_overrun(const guard_t *guard);
void guard_free(guard_t *guard);
/* The guard that an address belongs to, or NULL. The distance is negative before the start, and
 * counts from 0 after the end. May be called in a signal handler. */
const guard_t *guard_at(const void *address, int64_t *out_distance);

#endif
