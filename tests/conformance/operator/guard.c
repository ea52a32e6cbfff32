/* Guarded memory; see guard.h. All guards are in a list, which the crash handler searches. The list
 * is changed under a lock, by the thread of the check and by kernels that allocate temporaries. */
#include "guard.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
  PAGE = 4096,
  PATTERN = 0xA5,
};

static guard_t *first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

guard_t *guard_make(uint8_t kind, const char *name, size_t length, size_t alignment, bool at_end) {
  guard_t *g = calloc(1, sizeof *g);
  size_t inner = (length + PAGE - 1) / PAGE * PAGE + (length % PAGE == 0 ? PAGE : 0);
  if (!g) return NULL;
  g->size = inner + 2 * PAGE;
  g->pages = inner;
  g->length = length;
  g->kind = kind;
  snprintf(g->name, sizeof g->name, "%s", name);
  g->base = mmap(NULL, g->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (g->base == MAP_FAILED || mprotect(g->base + PAGE, inner, PROT_READ | PROT_WRITE) != 0) {
    if (g->base != MAP_FAILED) munmap(g->base, g->size);
    free(g);
    return NULL;
  }
  size_t slack = inner - length;
  size_t start = at_end ? slack / alignment * alignment : 0;
  g->data = g->base + PAGE + start;
  memset(g->base + PAGE, PATTERN, start);
  memset(g->data + length, PATTERN, slack - start);
  pthread_mutex_lock(&lock);
  g->next = first;
  first = g;
  pthread_mutex_unlock(&lock);
  return g;
}

guard_t *guard_attributes(size_t count, tenon_value_t **out_attrs) {
  const size_t size = count * sizeof **out_attrs;
  guard_t *g = guard_make(GUARD_ATTRIBUTES, "attrs", size, _Alignof(tenon_value_t), true);
  *out_attrs = g ? (tenon_value_t *)(void *)g->data : NULL;
  return g;
}

int64_t guard_damage(const guard_t *g) {
  const char *begin = g->base + PAGE;
  const char *end = begin + g->pages;
  for (const char *c = g->data + g->length; c < end; c++)
    if ((unsigned char)*c != PATTERN) return c - (g->data + g->length) + 1;
  for (const char *c = g->data - 1; c >= begin; c--)
    if ((unsigned char)*c != PATTERN) return c - g->data;
  return 0;
}

size_t guard_overrun(const guard_t *g) {
  const char *end = g->data + g->length;
  const char *last = g->base + PAGE + g->pages;
  while (last > end && (unsigned char)last[-1] == PATTERN)
    last--;
  return (size_t)(last - end);
}

void guard_free(guard_t *g) {
  if (!g) return;
  pthread_mutex_lock(&lock);
  guard_t **at = &first;
  while (*at && *at != g)
    at = &(*at)->next;
  if (*at) *at = g->next;
  pthread_mutex_unlock(&lock);
  munmap(g->base, g->size);
  free(g);
}

const guard_t *guard_at(const void *address, int64_t *out_distance) {
  const char *at = address;
  for (const guard_t *g = first; g; g = g->next) {
    if (at < g->base || at >= g->base + g->size) continue;
    *out_distance = at < g->data ? at - g->data : at - (g->data + g->length);
    return g;
  }
  return NULL;
}
