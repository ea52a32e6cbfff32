/* Shape patterns: the parsed form of TENON_SHAPES and TENON_SHARDING, such as "x: [..., n, k]; w:
 * [k, m]; out: [..., n, m]". */
#ifndef TN_CORE_PATTERN_H
#define TN_CORE_PATTERN_H

#include "core/schema.h"

enum {
  TN_EXTENT_NAME,
  TN_EXTENT_NUMBER,
  TN_EXTENT_ANY,
};

typedef struct tn_pattern_extent_t {
  uint8_t kind;
  int64_t number; /* NUMBER: the extent; NAME: index in names */
} tn_pattern_extent_t;

typedef struct tn_pattern_t {
  bool is_given;    /* the argument has a declaration */
  bool has_leading; /* starts with "..." */
  int32_t same_as;  /* the earlier input whose shape this argument has, or -1 */
  int32_t count;    /* extents after "..." */
  const tn_pattern_extent_t *extents;
} tn_pattern_t;

typedef struct tn_patterns_t {
  const char *text; /* NULL: not declared */
  uint32_t name_count;
  const char *const *names;
  const int32_t *name_attrs; /* for each name: the int or dim attribute with that name, or -1 */
  const tn_pattern_t *inputs;
  const tn_pattern_t *outputs;
  const struct tn_matcher_t *matcher; /* matcher of SHAPES; NULL: the matcher cannot decide calls */
} tn_patterns_t;

/* With `is_sharding`, results may use names that no input has, "=" is an error, and the text may
 * end with "sum" and names of extents, and with "if" and conditions. Several declarations are
 * separated by "|"; all are checked, and the patterns are those of the last one. */
tenon_status_t tn_patterns_parse(const char *text, bool is_sharding, const tn_schema_t *schema,
                                 tn_arena_t *arena, tn_patterns_t *out_patterns);
/* Checks the shapes of the inputs and fills in the shapes of the results that have a declaration,
 * through infer->host->dim. Other results are unchanged. */
tenon_status_t tn_patterns_apply(const tn_patterns_t *patterns, const tn_schema_t *schema,
                                 tenon_infer_t *infer);

#endif
