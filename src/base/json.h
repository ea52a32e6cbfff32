/* A reader for JSON (RFC 8259) that builds a tree. The reader is strict: it rejects what the
 * standard does not allow, duplicate member names, nesting deeper than 64 levels and strings that
 * are not UTF-8. Messages give the line and column. */
#ifndef TN_BASE_JSON_H
#define TN_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <tenon/op.h>

#include "base/arena.h"

typedef enum tn_json_kind_t {
  TN_JSON_NULL,
  TN_JSON_BOOL,
  TN_JSON_NUMBER,
  TN_JSON_TEXT,
  TN_JSON_LIST,
  TN_JSON_OBJECT,
} tn_json_kind_t;

typedef struct tn_json_t {
  tn_json_kind_t kind;
  uint32_t line;
  uint32_t column; /* where the value starts, from 1 */
  size_t count;    /* of items or members; bytes of a string; 0 or 1 for a bool */
  /* TEXT: the unescaped string; NUMBER: the number as written; terminated by 0 */
  const char *text;
  /* member names of an OBJECT */
  const char *const *names;
  const struct tn_json_t *items;
} tn_json_t;

/* Reads all of `data` and allocates the tree in `arena`. Errors: INVALID, MEMORY. */
tenon_status_t tn_json_read(const char *data, size_t size, tn_arena_t *arena,
                            const tn_json_t **out_root);
/* The member with this name; NULL if there is none or `object` is not an object. */
const tn_json_t *tn_json_find(const tn_json_t *object, const char *name);
/* The value of a number that is written as a 64-bit integer. Returns false for any other value. */
bool tn_json_integer(const tn_json_t *value, int64_t *out_value);
const char *tn_json_kind_name(tn_json_kind_t kind); /* such as "a list" */
/* Sets a message with the value's position ("line 3, column 7: ...") and returns INVALID. */
tenon_status_t tn_json_fail(const tn_json_t *at, const char *format, ...) TENON_FORMAT(2, 3);

#endif
