/* Operators and libraries by name.  Every function that looks up an operator or walks its kernels
 * uses it; the registry publishes and withdraws names here.  Invariant: the map of operators and
 * the list of libraries change only with the mutex held. */
#include "operator/names.h"

#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/status.h"

static tn_mutex_t lock = TN_MUTEX_INIT;
static tn_map_t operators; /* full name -> tenon_op_t */
static tn_library_t **libraries;
static size_t library_count;
static size_t library_capacity;

void (*tn_library_unused)(tn_library_t *library);

tn_mutex_t *tn_registry_mutex(void) { return &lock; }

void tn_registry_lock(void) { tn_mutex_lock(&lock); }
void tn_registry_unlock(void) { tn_mutex_unlock(&lock); }

/* operators */

const tenon_op_t *tn_registry_find(const char *name) {
  tn_mutex_lock(&lock);
  const tenon_op_t *op = tn_map_get(&operators, name, strlen(name));
  tn_mutex_unlock(&lock);
  return op;
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(const tenon_op_t *const *)a)->name, (*(const tenon_op_t *const *)b)->name);
}

tenon_status_t tn_registry_list(const tenon_op_t *const **out_ops, int32_t *out_count) {
  tn_mutex_lock(&lock);
  const tenon_op_t **ops = tn_allocate((operators.count + 1) * sizeof *ops);
  const tenon_op_t *op;
  size_t position = 0;
  size_t count = 0;
  while (ops && (op = tn_map_next(&operators, &position, NULL)))
    ops[count++] = op;
  tn_mutex_unlock(&lock);
  if (!ops) return tn_no_memory("a list of operators", count * sizeof *ops);
  qsort(ops, count, sizeof *ops, by_name);
  *out_ops = ops;
  *out_count = (int32_t)count;
  return TENON_OK;
}

tenon_status_t tenon_ops_list(const tenon_op_t *const **out_ops, int32_t *out_count) {
  TN_TRY(tenon_start());
  return tn_registry_list(out_ops, out_count);
}

void tenon_ops_release(const tenon_op_t *const *ops) { tn_release_memory((void *)(uintptr_t)ops); }

tenon_op_t *tn_registry_next(size_t *position) { return tn_map_next(&operators, position, NULL); }

tenon_op_t *tn_registry_published(const char *name) {
  return tn_map_get(&operators, name, strlen(name));
}

bool tn_registry_put(const tenon_op_t *op) {
  return tn_map_put(&operators, op->name, strlen(op->name), (void *)(uintptr_t)op);
}

void tn_registry_drop(const char *name) { tn_map_remove(&operators, name, strlen(name)); }

/* libraries */

void tn_registry_walk(bool (*visit)(void *context, tn_library_t *library), void *context) {
  tn_mutex_lock(&lock);
  for (size_t i = 0; i < library_count && visit(context, libraries[i]);)
    i++;
  tn_mutex_unlock(&lock);
}

void tn_registry_use(const tn_library_t *library) {
  tn_mutex_lock(&lock);
  ((tn_library_t *)(uintptr_t)library)->users++;
  tn_mutex_unlock(&lock);
}

void tn_registry_unuse(const tn_library_t *library) {
  tn_library_unused((tn_library_t *)(uintptr_t)library);
}

size_t tn_registry_count(void) { return library_count; }

tn_library_t **tn_registry_at(size_t index) {
  return index < library_count ? &libraries[index] : NULL;
}

bool tn_registry_reserve(void) {
  return tn_grow((void **)&libraries, &library_capacity, library_count, sizeof *libraries);
}

void tn_registry_append(tn_library_t *library) { libraries[library_count++] = library; }

void tn_registry_remove(size_t index) {
  library_count--;
  memmove(&libraries[index], &libraries[index + 1], (library_count - index) * sizeof *libraries);
}

void tn_names_clear(void) {
  tn_map_clear(&operators);
  tn_release_memory(libraries);
  libraries = NULL;
  library_capacity = 0;
}
