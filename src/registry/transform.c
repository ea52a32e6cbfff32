/* Passes and partitioners of libraries: checking, adding and finding them; see transform.h.  The
 * arrays belong to the library's arena. */
#include "registry/transform.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/schema.h"
#include "operator/names.h"

enum { MOST = 1 << 10 }; /* a partitioner has fewer strategies */

/* checking */

/* The size of a table whose last field is `field`, the last one in contract 1.0. */
#define LEAST(table, field) ((size_t)((const char *)(&(table)->field + 1) - (const char *)(table)))

static bool refuse(char *why, size_t capacity, const char *format, ...) TENON_FORMAT(3, 4);

/* Writes the reason into `why`, and returns false. */
static bool refuse(char *why, size_t capacity, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, capacity, format, arguments);
  va_end(arguments);
  return false;
}

static bool check_strategy(const char *name, const tenon_strategy_t *s, char *why,
                           size_t capacity) {
  if (!TENON_HAS(s, review))
    return refuse(why, capacity, "partitioner %s: a strategy of %u bytes: expected %zu", name,
                  s->size, sizeof *s);
  if (!s->name || !*s->name || !s->op || !*s->op)
    return refuse(why, capacity, "partitioner %s: a strategy has no name, or names no operator",
                  name);
  if (!s->supported == !s->select)
    return refuse(why, capacity, "partitioner %s: strategy %s: expected either supported or select",
                  name, s->name);
  if (s->select && (!s->select_input || !s->select_output))
    return refuse(why, capacity,
                  "partitioner %s: strategy %s: with select go select_input and select_output",
                  name, s->name);
  return true;
}

static bool check_head(const char *kind, uint32_t size, size_t expected, uint32_t abi,
                       const char *name, char *why, size_t capacity) {
  if (size < expected)
    return refuse(why, capacity, "the table of a %s has %u bytes: expected %zu", kind, size,
                  expected);
  if (abi >> 16 != TENON_GRAPH_ABI >> 16)
    return refuse(why, capacity, "the table of a %s is of contract %u, this host has %u", kind,
                  abi >> 16, TENON_GRAPH_ABI >> 16);
  if (!name || !tn_is_name(name, strlen(name)))
    return refuse(why, capacity,
                  "%s '%s': expected letters, digits and '_', not starting with a digit", kind,
                  name ? name : "(NULL)");
  return true;
}

static bool check_pass(const tenon_pass_t *p, char *why, size_t capacity) {
  if (!p) return refuse(why, capacity, "the table of a pass is NULL");
  if (!check_head("pass", p->size, LEAST(p, run), p->abi, p->name, why, capacity)) return false;
  return p->run || refuse(why, capacity, "pass %s has no function", p->name);
}

static bool check_partitioner(const tenon_partitioner_t *p, int32_t *out_count, char *why,
                              size_t capacity) {
  if (!p) return refuse(why, capacity, "the table of a partitioner is NULL");
  if (!check_head("partitioner", p->size, LEAST(p, strategies), p->abi, p->name, why, capacity))
    return false;
  int32_t count = 0;
  for (; p->strategies && p->strategies[count] && count < MOST; count++)
    if (!check_strategy(p->name, p->strategies[count], why, capacity)) return false;
  *out_count = count;
  return (count && count < MOST) ||
         refuse(why, capacity, "partitioner %s has no strategies, or no end of them (NULL)",
                p->name);
}

/* adding */

static char *join(tn_arena_t *arena, const char *left, const char *between, const char *right) {
  size_t size = strlen(left) + strlen(between) + strlen(right);
  char *text = tn_arena_allocate(arena, size + 1);
  if (text) snprintf(text, size + 1, "%s%s%s", left, between, right);
  return text;
}

static const char *const *list_strategies(tn_library_t *library, const tenon_partitioner_t *p,
                                          int32_t count) {
  const char **texts = tn_arena_array(&library->arena, (size_t)count + 1, sizeof *texts);
  for (int32_t i = 0; texts && i < count; i++) {
    const tenon_strategy_t *s = p->strategies[i];
    const char *op =
        strstr(s->op, "::") ? s->op : join(&library->arena, library->name, "::", s->op);
    if (!op || !(texts[i] = join(&library->arena, s->name, ": ", op))) return NULL;
  }
  return texts;
}

bool tn_transform_add(tn_library_t *library, const tenon_pass_t *pass,
                      const tenon_partitioner_t *partitioner, char *why, size_t capacity) {
  tn_transform_t made = {.pass = pass, .partitioner = partitioner, .strategy_count = -1};
  if (partitioner ? !check_partitioner(partitioner, &made.strategy_count, why, capacity)
                  : !check_pass(pass, why, capacity))
    return false;
  const char *name = pass ? pass->name : partitioner->name;
  for (uint32_t i = 0; i < library->transform_count; i++)
    if (strcmp(library->transforms[i].full + strlen(library->name) + 2, name) == 0)
      return refuse(why, capacity, "pass or partitioner %s is stated twice", name);
  tn_transform_t *all = tn_arena_array(&library->arena, library->transform_count + 1, sizeof *all);
  made.full = join(&library->arena, library->name, "::", name);
  if (partitioner) made.strategies = list_strategies(library, partitioner, made.strategy_count);
  if (!all || !made.full || (partitioner && !made.strategies))
    return refuse(why, capacity, "out of memory: a list of passes");
  if (library->transform_count)
    memcpy(all, library->transforms, library->transform_count * sizeof *all);
  all[library->transform_count] = made;
  library->transforms = all;
  library->transform_count++;
  return true;
}

/* finding */

typedef struct search_t {
  const char *name;
  int32_t index;
  const tn_transform_t *found;
  const tn_library_t *library;
  tn_text_t others;
} search_t;

/* Called with the registry's mutex held. */
static bool visit(void *context, tn_library_t *library) {
  search_t *s = context;
  for (uint32_t i = 0; i < library->transform_count && !s->found; i++) {
    const tn_transform_t *at = &library->transforms[i];
    if (s->name ? strcmp(at->full, s->name) == 0 : s->index-- == 0) {
      s->found = at;
      s->library = library;
    } else if (s->name)
      tn_text_add(&s->others, "%s%s", s->others.size ? ", " : "", at->full);
  }
  if (s->found && s->name) library->users++;
  return !s->found;
}

tenon_status_t tn_transform_find(const char *name, const tn_transform_t **out,
                                 const tn_library_t **out_library) {
  search_t search = {.name = name};
  tenon_status_t status = TENON_OK;
  tn_registry_walk(visit, &search);
  if (!search.found)
    status =
        tn_fail(TENON_NOT_FOUND, "no pass or partitioner '%s' (there %s%s): is its library loaded?",
                name, search.others.size ? "are: " : "are none", tn_text_get(&search.others));
  tn_text_clear(&search.others);
  *out = search.found;
  *out_library = search.library;
  return status;
}

tenon_status_t tenon_pass_info(int32_t index, tenon_pass_info_t *info) {
  TN_TRY(tenon_start());
  search_t search = {.index = index < 0 ? INT32_MAX : index};
  tn_registry_walk(visit, &search);
  const tn_transform_t *t = search.found;
  if (!t) return tn_fail(TENON_RANGE, "there is no pass %d", (int)index);
  uint32_t size = info->size < sizeof *info ? info->size : (uint32_t)sizeof *info;
  tenon_pass_info_t full = {size,
                            t->strategy_count,
                            t->full,
                            t->pass ? t->pass->doc : t->partitioner->doc,
                            search.library->name,
                            search.library->path,
                            t->strategies};
  memcpy(info, &full, size);
  return TENON_OK;
}
