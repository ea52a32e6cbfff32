/* Reads JSON (RFC 8259) into a tree.  Strict: what the standard does not allow, a name twice in an
 * object, nesting deeper than 64 and texts that are no UTF-8 are errors that say line and
 * column. */
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
  uint32_t column;  /* where it starts, from 1 */
  size_t count;     /* items, members; bytes of a text; of a bool 0 or 1 */
  const char *text; /* of a TEXT, unescaped, or of a NUMBER as it was written; ends with 0 */
  const char *const *names; /* of an OBJECT's members */
  const struct tn_json_t *items;
} tn_json_t;

/* Reads all of `data`; the tree lies in `arena`.  Errors: INVALID, MEMORY. */
tenon_status_t tn_json_read(const char *data, size_t size, tn_arena_t *arena,
                            const tn_json_t **out_root);
/* The member of this name; NULL: there is none, or it is no object. */
const tn_json_t *tn_json_find(const tn_json_t *object, const char *name);
/* The value of a number that is written as an integer of 64 bits; false: it is none. */
bool tn_json_integer(const tn_json_t *value, int64_t *out_value);
const char *tn_json_kind_name(tn_json_kind_t kind); /* "a list" */
/* INVALID with the value's place: "line 3, column 7: ...". */
tenon_status_t tn_json_fail(const tn_json_t *at, const char *format, ...) TENON_FORMAT(2, 3);

#endif
