/* Shape patterns: the parsed form of TENON_SHAPES and TENON_SHARDING, "x: [..., n, k]; w: [k, m];
 * out: [..., n, m]". */
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
  bool is_given;    /* the argument has a rule */
  bool has_leading; /* starts with "..." */
  int32_t same_as;  /* results: input whose shape it has, or -1 */
  int32_t count;    /* extents after "..." */
  const tn_pattern_extent_t *extents;
} tn_pattern_t;

typedef struct tn_patterns_t {
  const char *text; /* NULL: none stated */
  uint32_t name_count;
  const char *const *names;
  const int32_t *name_attrs; /* for each name: the int or dim attribute of that name, or -1 */
  const tn_pattern_t *inputs;
  const tn_pattern_t *outputs;
  const struct tn_matcher_t *matcher; /* of SHAPES; NULL: they do not say all */
} tn_patterns_t;

/* With `is_sharding`, results may have names that inputs lack, and "=" and "..." are refused. */
tenon_status_t tn_patterns_parse(const char *text, bool is_sharding, const tn_schema_t *schema,
                                 tn_arena_t *arena, tn_patterns_t *out_patterns);
/* Checks the inputs' shapes and fills in the results' that have a rule, through infer->host->dim.
 * Outputs without a rule stay as they are. */
tenon_status_t tn_patterns_apply(const tn_patterns_t *patterns, const tn_schema_t *schema,
                                 tenon_infer_t *infer);

#endif
