/* The names of values. A name is visible after its definition, up to the end of the region that
 * defines it. Called by operation.c and function.c. Invariant: the table holds exactly the visible
 * names, and the newest definition of a name comes first in its chain. */
#include <string.h>

#include "parse/parse.h"

enum { BUCKETS = 1 << 14 };

typedef struct name_t {
  struct name_t *next;  /* In the chain of its bucket. */
  struct name_t *older; /* The name that was defined before this one. */
  hlo_value_t *value;
  int64_t number;
  uint32_t bucket;
} name_t;

typedef struct hlo_scope_t {
  name_t *buckets[BUCKETS];
  name_t *newest;
  name_t *marks[HLO_DEPTH_MAX + 2]; /* What `newest` was when each open region began. */
  int32_t level;                    /* The number of open regions, functions included. */
  int32_t count;                    /* Values of the current function. */
} hlo_scope_t;

static uint32_t bucket_of(const char *name) {
  uint32_t hash = 2166136261u;
  for (; *name; name++)
    hash = (hash ^ (uint8_t)*name) * 16777619u;
  return hash % BUCKETS;
}

static hlo_scope_t *get_scope(hlo_cursor_t *cursor) {
  if (!cursor->scope) cursor->scope = hlo_take(cursor, 1, sizeof *cursor->scope);
  return cursor->scope;
}

void hlo_scope_begin(hlo_cursor_t *cursor, bool is_function) {
  hlo_scope_t *scope = get_scope(cursor);
  if (!scope) return;
  if (is_function && scope->level) {
    hlo_fail_at(cursor, cursor->at, "a function within a function is not supported");
    return;
  }
  if (scope->level > HLO_DEPTH_MAX) {
    hlo_fail_at(cursor, cursor->at, "more than %d levels of regions, which are not supported",
                HLO_DEPTH_MAX);
    return;
  }
  if (is_function) scope->count = 0;
  scope->marks[scope->level++] = scope->newest;
}

void hlo_scope_end(hlo_cursor_t *cursor) {
  hlo_scope_t *scope = cursor->scope;
  if (!scope || hlo_failed(cursor)) return; /* After a failure nobody looks names up. */
  name_t *mark = scope->marks[--scope->level];
  for (; scope->newest != mark; scope->newest = scope->newest->older)
    scope->buckets[scope->newest->bucket] = scope->newest->next;
}

int32_t hlo_scope_depth(const hlo_cursor_t *cursor) {
  return cursor->scope ? cursor->scope->level : 0;
}

int32_t hlo_scope_count(const hlo_cursor_t *cursor) {
  return cursor->scope ? cursor->scope->count : 0;
}

static name_t *find_visible_name(const hlo_scope_t *scope, const char *name, int64_t number) {
  name_t *entry = scope->buckets[bucket_of(name)];
  while (entry && (entry->number != number || strcmp(entry->value->name, name) != 0))
    entry = entry->next;
  return entry;
}

hlo_value_t *hlo_scope_define(hlo_cursor_t *cursor, const char *name, int64_t number,
                              const hlo_type_t *type, hlo_op_t *op, int32_t result) {
  hlo_scope_t *scope = get_scope(cursor);
  hlo_value_t *value = hlo_take(cursor, 1, sizeof *value);
  name_t *entry = hlo_take(cursor, 1, sizeof *entry);
  if (!scope || !value || !entry) return NULL;
  if (*name && find_visible_name(scope, name, number))
    hlo_fail_at(cursor, op ? op->at : cursor->at, "%%%.60s is defined twice: the file is damaged",
                name);
  if (scope->count == HLO_VALUES_MAX)
    hlo_fail_at(cursor, cursor->at, "a function has more than %d values, which is not supported",
                HLO_VALUES_MAX);
  if (hlo_failed(cursor)) return NULL;
  *value = (hlo_value_t){.name = name,
                         .type = type,
                         .op = op,
                         .index = scope->count++,
                         .result = result,
                         .depth = scope->level};
  uint32_t bucket = bucket_of(name);
  *entry = (name_t){scope->buckets[bucket], scope->newest, value, number, bucket};
  scope->buckets[bucket] = entry;
  scope->newest = entry;
  return value;
}

hlo_value_t *hlo_scope_use(hlo_cursor_t *cursor, const char *at, const char *name, int64_t number) {
  hlo_scope_t *scope = get_scope(cursor);
  if (!scope || hlo_failed(cursor)) return NULL;
  name_t *entry = find_visible_name(scope, name, number);
  if (!entry)
    hlo_fail_at(cursor, at,
                "%%%.60s%s is used, but no operation before defines it: the file is damaged", name,
                number ? "#..." : "");
  return entry ? entry->value : NULL;
}
