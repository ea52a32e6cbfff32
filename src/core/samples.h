/* Example inputs: the parsed form of TENON_SAMPLES, calls with arguments that suit an operator
 * (docs/contract.md). Created when a library is loaded and constant afterwards; everything is
 * allocated in the arena that the parser was given. */
#ifndef TN_CORE_SAMPLES_H
#define TN_CORE_SAMPLES_H

#include "core/schema.h"

enum {
  TN_FILL_USUAL, /* not stated: values that suit the dtype */
  TN_FILL_NORMAL,
  TN_FILL_UNIFORM,
  TN_FILL_INTEGERS,
  TN_FILL_PERMUTATION, /* a permutation of 0 ... extent - 1 in each row of the last axis */
  TN_FILL_ZEROS,
  TN_FILL_ONES,
  TN_FILL_LIST,
};

/* A number, or the value of an extent. */
typedef struct tn_amount_t {
  /* index among the names of the call; -1: `number` */
  int32_t name;
  /* use the extent's negative value */
  bool is_negative;
  double number;
} tn_amount_t;

typedef struct tn_fill_t {
  uint8_t kind;
  tn_amount_t low;
  tn_amount_t high; /* UNIFORM, INTEGERS: `high` itself is excluded */
  /* LIST: number of elements; they are repeated if the tensor has more */
  uint32_t count;
  const tn_amount_t *numbers; /* NULL: `texts` */
  const tenon_string_t *texts;
} tn_fill_t;

typedef struct tn_sample_tensor_t {
  tenon_dtype_t dtype; /* bits = 0: as TYPES declare */
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
  uint32_t count; /* number of tensors: of a list; otherwise 1 */
  const tn_sample_tensor_t *tensors;
} tn_sample_input_t;

/* The arguments of one example call. */
typedef struct tn_sample_t {
  const tn_sample_input_t *inputs;
  const tenon_value_t *attrs; /* valid where has_attr is set */
  const bool *has_attr;
  uint32_t name_count; /* number of named extents */
  const char *const *names;
  const int32_t *name_attrs; /* for each name: the int or dim attribute with that name, or -1 */
} tn_sample_t;

typedef struct tn_samples_t {
  const char *text; /* NULL: not declared */
  uint32_t count;
  const tn_sample_t *calls;
} tn_samples_t;

tenon_status_t tn_samples_parse(const char *text, const tn_schema_t *schema, tn_arena_t *arena,
                                tn_samples_t *out_samples);

#endif
