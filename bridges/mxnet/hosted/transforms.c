/* Reads the passes and partitioners of a library into tables for Tenon. */
#include "transforms.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "partition.h"
#include "pass.h"

enum { MOST = 1 << 12 };

#define FIND(result, name, since, parameters)                                                      \
  if (!(*(void **)&l->abi.name = dlsym(l->handle, #name)) && used < capacity) {                    \
    used += (size_t)snprintf(why + used, capacity - used, "%s %s", good ? "" : ",", #name);        \
    good = false;                                                                                  \
  }

static bool find_partitioners(hosted_t *l, char *why, size_t capacity) {
  size_t used = (size_t)snprintf(why, capacity, "the library has partitioners, but lacks");
  bool good = true;
  ABI_PARTITIONERS(FIND)
  return good;
}

static bool find_passes(hosted_t *l, char *why, size_t capacity) {
  size_t used = (size_t)snprintf(why, capacity, "the library has passes, but lacks");
  bool good = true;
  ABI_PASSES(FIND)
  return good;
}

static bool read_count(int (*ask)(void), const char *what, int *out, char *why, size_t capacity) {
  *out = ask();
  if (*out >= 0 && *out <= MOST) return true;
  snprintf(why, capacity, "the library reports %d %s, which is not possible", *out, what);
  *out = 0;
  return false;
}

static bool no_memory(char *why, size_t capacity) {
  snprintf(why, capacity, "out of memory");
  return false;
}

/* passes */

static bool read_pass(hosted_t *l, int index, char *why, size_t capacity) {
  hosted_pass_t *p = &l->passes[index];
  const char *name = NULL;
  l->abi._passRegGet(index, &p->function, &name);
  if (!name || !*name || !p->function) {
    const char *missing = p->function ? "name" : "function";
    snprintf(why, capacity, "pass %d ('%s') has no %s", index, name ? name : "", missing);
    return false;
  }
  p->library = l;
  p->table = (tenon_pass_t){.size = sizeof p->table, .abi = TENON_GRAPH_ABI, .run = pass_run};
  if (!(p->table.name = strdup(name))) return no_memory(why, capacity);
  p->table.doc = "A graph pass of MXNet 1.9 or 2.0, interface 11.";
  if (l->version == 7) p->table.doc = "A graph pass of MXNet 1.7, interface 7.";
  if (l->version == 10) p->table.doc = "A graph pass of MXNet 1.8, interface 10.";
  return true;
}

/* partitioners */

static bool read_strategy(hosted_t *l, hosted_partitioner_t *p, int part, int index, char *why,
                          size_t capacity) {
  hosted_strategy_t *s = &p->strategies[index];
  const char *name = NULL;
  const char *op = NULL;
  l->abi._partRegGet(part, index, &name, &s->supported, &s->selector, &s->review, &op);
  if (!name || !*name || !op || !*op) {
    snprintf(why, capacity, "strategy %d of partitioner %s has no name, or no operator", index,
             p->table.name);
    return false;
  }
  if (!s->supported && !s->selector) {
    snprintf(why, capacity,
             "strategy %s of partitioner %s: expected a function supportedOps or createSelector, "
             "found neither",
             name, p->table.name);
    return false;
  }
  s->library = l;
  s->table = (tenon_strategy_t){.size = sizeof s->table,
                                .begin = partition_begin,
                                .end = partition_end,
                                .review = partition_review};
  if (s->supported)
    s->table.supported = partition_supported;
  else {
    s->table.select = partition_select;
    s->table.select_input = partition_select_input;
    s->table.select_output = partition_select_output;
    s->table.filter = partition_filter;
    s->table.reset = partition_reset;
  }
  s->table.name = strdup(name);
  s->table.op = strdup(op);
  p->tables[index] = &s->table;
  return (s->table.name && s->table.op) || no_memory(why, capacity);
}

static bool read_partitioner(hosted_t *l, int index, char *why, size_t capacity) {
  hosted_partitioner_t *p = &l->partitioners[index];
  const char *name = NULL;
  p->count = l->abi._partRegGetCount(index, &name);
  if (!name || !*name || p->count < 1 || p->count > MOST) {
    snprintf(
        why, capacity,
        "partitioner %d ('%s'): expected a name and at least one strategy, found %d strategies",
        index, name ? name : "", p->count);
    p->count = 0;
    return false;
  }
  p->table = (tenon_partitioner_t){.size = sizeof p->table, .abi = TENON_GRAPH_ABI};
  p->table.doc = "Subgraphs to the library, as MXNet has them.";
  p->strategies = calloc((size_t)p->count, sizeof *p->strategies);
  p->tables = calloc((size_t)p->count + 1, sizeof *p->tables);
  if (!p->strategies || !p->tables || !(p->table.name = strdup(name)))
    return no_memory(why, capacity);
  p->table.strategies = p->tables;
  for (int s = 0; s < p->count; s++)
    if (!read_strategy(l, p, index, s, why, capacity)) return false;
  return true;
}

/* passes and partitioners */

bool transforms_read(hosted_t *l, char *why, size_t capacity) {
  if (!read_count(l->abi._partRegSize, "partitioners", &l->partitioner_count, why, capacity) ||
      !read_count(l->abi._passRegSize, "passes", &l->pass_count, why, capacity) ||
      (l->partitioner_count && !find_partitioners(l, why, capacity)) ||
      (l->pass_count && !find_passes(l, why, capacity)))
    return false;
  l->passes = calloc((size_t)l->pass_count + 1, sizeof *l->passes);
  l->partitioners = calloc((size_t)l->partitioner_count + 1, sizeof *l->partitioners);
  if (!l->passes || !l->partitioners) return no_memory(why, capacity);
  for (int i = 0; i < l->pass_count; i++)
    if (!read_pass(l, i, why, capacity)) return false;
  for (int i = 0; i < l->partitioner_count; i++)
    if (!read_partitioner(l, i, why, capacity)) return false;
  return true;
}

static void drop(const char *text) { free((char *)(uintptr_t)text); }

void transforms_free(hosted_t *l) {
  for (int i = 0; l->passes && i < l->pass_count; i++)
    drop(l->passes[i].table.name);
  for (int i = 0; l->partitioners && i < l->partitioner_count; i++) {
    hosted_partitioner_t *p = &l->partitioners[i];
    for (int s = 0; p->strategies && s < p->count; s++) {
      drop(p->strategies[s].table.name);
      drop(p->strategies[s].table.op);
    }
    drop(p->table.name);
    free(p->strategies);
    free(p->tables);
  }
  free(l->passes);
  free(l->partitioners);
}
