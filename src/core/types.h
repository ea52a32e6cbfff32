/* Type rules: the parsed form of TENON_TYPES.  Each input draws its dtype from a variable, each
 * result from a source. */
#ifndef TN_CORE_TYPES_H
#define TN_CORE_TYPES_H

#include "core/dtype.h"
#include "core/schema.h"

enum {
  TN_TYPE_VARIABLE,
  TN_TYPE_FIXED,
  TN_TYPE_ATTR,
  TN_TYPE_OPEN,
}; /* OPEN: infer states a result's; an input has any */

enum { TN_TYPE_VARIABLES = 32 }; /* at most */

typedef struct tn_type_source_t {
  uint8_t kind;
  bool is_list;        /* of an argument that is a list: of its items */
  bool binds;          /* of the first input with its variable */
  int32_t index;       /* of the variable or the attribute */
  tenon_dtype_t fixed; /* FIXED; VARIABLE: one of the set, to try first */
} tn_type_source_t;

typedef struct tn_types_t {
  const char *text;
  uint32_t variable_count; /* variable 0 is the one that kernels may be restricted to */
  const uint64_t *sets;    /* allowed dtypes of each variable, bits by tn_dtype_index */
  const char *const
      *names; /* how to call each variable in a message: its name, or its first input's */
  const tn_type_source_t *inputs;
  const tn_type_source_t *outputs;
} tn_types_t;

/* `text` NULL: allowed only for an operator without tensors.  Checks that every input and result is
 * named once, that every name exists, that every variable used by a result is bound by an input
 * that is not optional, or says what is wrong. */
tenon_status_t tn_types_parse(const char *text, const tn_schema_t *schema, tn_arena_t *arena,
                              tn_types_t *out_types);

/* Checks dtypes of the inputs (NULL: absent; LIST metas: their items) and fills in those of the
 * results that are not OPEN. The message names the operator, the input, what is allowed (or with
 * which input it must agree), and what was found. */
tenon_status_t tn_types_apply(const tn_types_t *types, const tn_schema_t *schema,
                              const tenon_value_t *attrs, tenon_meta_t *const *inputs,
                              tenon_meta_t *const *outputs);
/* May an input with this source have the dtype, whatever others have? */
bool tn_types_admit(const tn_types_t *types, const tn_type_source_t *source,
                    const tenon_value_t *attrs, tenon_dtype_t dtype);
/* Fills in dtypes of inputs (and items of lists) that are not known (no bits), from inputs of the
 * same variable, a fixed dtype or an attribute; false: some stay unknown. */
bool tn_types_fill(const tn_types_t *types, const tn_schema_t *schema, const tenon_value_t *attrs,
                   tenon_meta_t *const *inputs);
/* The dtype of one result, or of the items of a result that is a list (host->list makes them later
 * than tn_types_apply); false: infer states it. */
bool tn_types_output(const tn_types_t *types, const tn_schema_t *schema, const tenon_value_t *attrs,
                     tenon_meta_t *const *inputs, uint32_t output, tenon_dtype_t *out_dtype);

#endif
