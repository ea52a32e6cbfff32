/* Type rules: the parsed form of TENON_TYPES. Each input and each result has a source of its dtype:
 * a type variable, a fixed dtype, an attribute, or the infer function. */
#ifndef TN_CORE_TYPES_H
#define TN_CORE_TYPES_H

#include "core/dtype.h"
#include "core/schema.h"

enum {
  TN_TYPE_VARIABLE,
  TN_TYPE_FIXED,
  TN_TYPE_ATTR,
  TN_TYPE_OPEN, /* a result: the infer function states the dtype; an input: any dtype */
};

enum { TN_TYPE_VARIABLES = 32 }; /* largest number of type variables */

typedef struct tn_type_source_t {
  uint8_t kind;
  bool is_list;        /* the argument is a list: the source applies to its items */
  bool binds;          /* the first input with this variable */
  int32_t index;       /* index of the variable or the attribute */
  tenon_dtype_t fixed; /* FIXED: the dtype; VARIABLE: the dtype of the set to try first */
} tn_type_source_t;

typedef struct tn_types_t {
  const char *text;
  uint32_t variable_count; /* kernels may be restricted to dtypes of variable 0 */
  const uint64_t *sets;    /* allowed dtypes of each variable, bits by tn_dtype_index */
  /* name of each variable in messages: its own name, or its first input's */
  const char *const *names;
  const tn_type_source_t *inputs;
  const tn_type_source_t *outputs;
} tn_types_t;

/* Parses and checks a declaration: every input and result is named once, every name exists, and
 * every variable that a result uses is bound by an input that is not optional. `text` may be NULL
 * only for an operator without tensors. */
tenon_status_t tn_types_parse(const char *text, const tn_schema_t *schema, tn_arena_t *arena,
                              tn_types_t *out_types);

/* Checks the dtypes of the inputs (NULL: absent; metas of kind LIST: their items) and fills in the
 * dtypes of the results that are not OPEN. The message names the operator, the input, the accepted
 * dtypes (or the input that must agree), and the dtype found. */
tenon_status_t tn_types_apply(const tn_types_t *types, const tn_schema_t *schema,
                              const tenon_value_t *attrs, tenon_meta_t *const *inputs,
                              tenon_meta_t *const *outputs);
/* Whether an input with this source may have the dtype, regardless of other inputs. */
bool tn_types_admit(const tn_types_t *types, const tn_type_source_t *source,
                    const tenon_value_t *attrs, tenon_dtype_t dtype);
/* Fills in unknown dtypes (bits = 0) of inputs and list items from inputs of the same variable, a
 * fixed dtype or an attribute. Returns false if some stay unknown. */
bool tn_types_fill(const tn_types_t *types, const tn_schema_t *schema, const tenon_value_t *attrs,
                   tenon_meta_t *const *inputs);
/* The dtype of one result, or of the items of a list result (host->list creates the items after
 * tn_types_apply). Returns false if infer states the dtype. */
bool tn_types_output(const tn_types_t *types, const tn_schema_t *schema, const tenon_value_t *attrs,
                     tenon_meta_t *const *inputs, uint32_t output, tenon_dtype_t *out_dtype);

#endif
