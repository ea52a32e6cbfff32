/* Samples: the parsed form of TENON_SAMPLES, calls with arguments that suit an operator,
 * docs/contract.md.  Made at load, constant afterwards; everything lives in the arena that parsing
 * was given. */
#ifndef TN_CORE_SAMPLES_H
#define TN_CORE_SAMPLES_H

#include "core/schema.h"

enum {
  TN_FILL_USUAL, /* none stated: as suits the dtype */
  TN_FILL_NORMAL,
  TN_FILL_UNIFORM,
  TN_FILL_INTEGERS,
  TN_FILL_PERMUTATION, /* of 0 ... extent - 1, in each row of the last axis */
  TN_FILL_ZEROS,
  TN_FILL_ONES,
  TN_FILL_LIST,
};

typedef struct tn_amount_t { /* a number, or that of an extent */
  int32_t name;              /* among the call's; -1: the number */
  bool is_negative;          /* minus the extent */
  double number;
} tn_amount_t;

typedef struct tn_fill_t {
  uint8_t kind;
  tn_amount_t low;
  tn_amount_t high;           /* UNIFORM, INTEGERS: up to, but not, high */
  uint32_t count;             /* LIST: elements, which are repeated where the tensor has more */
  const tn_amount_t *numbers; /* NULL: texts */
  const tenon_string_t *texts;
} tn_fill_t;

typedef struct tn_sample_tensor_t {
  tenon_dtype_t dtype; /* no bits: as TYPES say */
  int32_t ndim;
  const tn_amount_t *extents;
  tn_fill_t fill;
} tn_sample_tensor_t;

enum {
  TN_SAMPLE_UNSTATED,
  TN_SAMPLE_ABSENT,
  TN_SAMPLE_GIVEN,
};
typedef struct tn_sample_input_t {
  uint8_t form;
  uint32_t count; /* of a list; else 1 */
  const tn_sample_tensor_t *tensors;
} tn_sample_input_t;

typedef struct tn_sample_t { /* one call */
  const tn_sample_input_t *inputs;
  const tenon_value_t *attrs; /* where has_attr */
  const bool *has_attr;
  uint32_t name_count; /* extents by name */
  const char *const *names;
  const int32_t *name_attrs; /* the int or dim attribute of that name, or -1 */
} tn_sample_t;

typedef struct tn_samples_t {
  const char *text; /* NULL: none stated */
  uint32_t count;
  const tn_sample_t *calls;
} tn_samples_t;

tenon_status_t tn_samples_parse(const char *text, const tn_schema_t *schema, tn_arena_t *arena,
                                tn_samples_t *out_samples);

#endif
