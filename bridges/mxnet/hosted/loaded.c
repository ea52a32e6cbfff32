/* The list is linked from its newest library to its oldest one. Called by library.c, which adds to
 * it, and by nnvm_op.c and nnvm_read.c, which look up operators of graphs. */
#include "loaded.h"

#include <string.h>

/* atomic; changed only by loaded_add, which the loader calls for one library at a time */
static hosted_t *first;

void loaded_add(hosted_t *library) {
  library->next = first;
  __atomic_store_n(&first, library, __ATOMIC_RELEASE);
}

hosted_t *loaded_find(const char *path) {
  hosted_t *at = __atomic_load_n(&first, __ATOMIC_ACQUIRE);
  while (at && (!path || strcmp(at->path, path) != 0))
    at = at->next;
  return at;
}

static const hosted_op_t *find_op(const hosted_t *library, const char *name) {
  for (int i = 0; i < library->op_count; i++)
    if (strcmp(library->ops[i].name, name) == 0) return &library->ops[i];
  return NULL;
}

const hosted_op_t *loaded_find_op(const hosted_t *library, const char *name) {
  const hosted_op_t *found = find_op(library, name);
  for (const hosted_t *at = __atomic_load_n(&first, __ATOMIC_ACQUIRE); at && !found; at = at->next)
    found = find_op(at, name);
  return found;
}
