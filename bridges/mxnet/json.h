/* Reads JSON (RFC 8259), as MXNet's graphs are written in it, into a tree.  Strict: what the standard does not allow, a name
 * twice in an object, nesting deeper than 64 and texts that are no UTF-8 are errors that say line and column. */
#ifndef BRIDGES_MXNET_JSON_H
#define BRIDGES_MXNET_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "failure.h"

typedef enum json_kind_t { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT } json_kind_t;

typedef struct json_t {
  json_kind_t kind;
  uint32_t line, column;    /* where it starts, from 1 */
  size_t count;             /* items, members; bytes of a text; of a bool 0 or 1 */
  const char *text;         /* of a TEXT, unescaped, or of a NUMBER as it was written; ends with 0 */
  const char *const *names; /* of an OBJECT's members */
  const struct json_t *items;
} json_t;

/* Reads all of `data`; the tree lies in `arena`.  Errors: INVALID, MEMORY. */
tenon_status_t json_read(const char *data, size_t size, arena_t *arena, const json_t **out_root);
/* The member of this name; NULL: there is none, or it is no object. */
const json_t *json_find(const json_t *object, const char *name);
/* The value of a number that is written as an integer of 64 bits; false: it is none. */
bool json_integer(const json_t *value, int64_t *out_value);
const char *json_kind_name(json_kind_t kind); /* "a list" */
/* INVALID with the value's place: "line 3, column 7: ...". */
tenon_status_t json_fail(const json_t *at, const char *format, ...) TENON_FORMAT(2, 3);

#endif
