/* Example calls: arguments that suit an operator, made from its SAMPLES, or from its schema, TYPES
 * and SHAPES alone. First a plan is made, which the caller may change, then the tensors. Bindings
 * use it through tenon_op_sample; the operator checker uses it too. */
#ifndef TN_INSPECT_EXAMPLE_H
#define TN_INSPECT_EXAMPLE_H

#include <tenon/tenon.h>

#include "operator/op.h"

enum { TN_EXAMPLE_NAMES = 256 };

/* Like tn_fill_t, with numbers in place of names. */
typedef struct tn_example_fill_t {
  uint8_t kind;
  double low;
  double high;
  uint32_t count;
  const double *numbers;
  const tenon_string_t *texts;
} tn_example_fill_t;

typedef struct tn_example_tensor_t {
  tenon_dtype_t dtype;
  int32_t ndim;
  int64_t *shape; /* has room for TENON_RANK_MAX extents */
  tn_example_fill_t fill;
} tn_example_tensor_t;

typedef struct tn_example_input_t {
  bool is_given;
  uint32_t count; /* length of a list; else 1 */
  tn_example_tensor_t *tensors;
} tn_example_input_t;

/* A named extent. */
typedef struct tn_example_name_t {
  const char *name;
  int64_t extent;
  int32_t attr;    /* the attribute that states it, or -1 */
  bool is_free;    /* may get another value */
  bool is_unnamed; /* an axis of an input whose shape nothing states */
} tn_example_name_t;

typedef struct tn_example_t {
  const tenon_op_t *op;
  /* NULL: the plan is made from the schema, TYPES and SHAPES. */
  const tn_sample_t *sample;
  tn_example_input_t *inputs;
  tenon_value_t *attrs;
  uint32_t name_count;
  tn_example_name_t names[TN_EXAMPLE_NAMES];
  tenon_dtype_t variables[TN_TYPE_VARIABLES];
} tn_example_t;

typedef struct tn_example_options_t {
  uint32_t index; /* which call of SAMPLES */
  /* The dtypes of type variables. NULL, or no bits: the first of f32, i64, ... that TYPES allow. */
  const tenon_dtype_t *dtypes;
  /* The extent of names whose value nothing states; 0: 4 to 11, in turn. */
  int64_t extent;
  uint32_t name_count; /* extents that are given by name */
  const char *const *names;
  const int64_t *extents;
  /* The rank of inputs whose shape nothing states; -1: the first of 2, 3, 4, 1, 0 that infer
   * accepts. */
  int32_t rank;
  /* Bit i set: optional input i is given although SAMPLES do not name it. */
  uint64_t has;
  bool has_defaults; /* uses defaults in place of the attributes of SAMPLES */
  /* Attributes in place of those of SAMPLES and the defaults, except where the kind is NONE; NULL:
   * none. */
  const tenon_value_t *attrs;
} tn_example_options_t;

/* The number of example calls of the operator, at least 1. */
uint32_t tn_example_count(const tenon_op_t *op);
/* Plans an example call in memory of the arena.
 * Errors: RANGE if the index is past the last call, INVALID if the options do not suit the
 * operator. */
tenon_status_t tn_example_plan(const tenon_op_t *op, const tn_example_options_t *options,
                               tn_arena_t *arena, tn_example_t *out_example);
/* Checks whether the operator accepts these inputs. If not, the message says what to do. */
tenon_status_t tn_example_infer(const tn_example_t *example, tenon_tensor_t *const *inputs);

#endif
