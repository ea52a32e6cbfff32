/* Example calls: arguments that suit an operator, from its SAMPLES, or from its schema, TYPES and
 * SHAPES alone.  First a plan is made, which may be changed, then tensors.  Bindings use it
 * through tenon_op_sample, and the checker of operators does. */
#ifndef TN_INSPECT_TRIAL_H
#define TN_INSPECT_TRIAL_H

#include <tenon/tenon.h>

#include "operator/op.h"

enum { TN_TRIAL_NAMES = 256 };

typedef struct tn_trial_fill_t { /* as tn_fill_t, with numbers for names */
  uint8_t kind;
  double low;
  double high;
  uint32_t count;
  const double *numbers;
  const tenon_string_t *texts;
} tn_trial_fill_t;

typedef struct tn_trial_tensor_t {
  tenon_dtype_t dtype;
  int32_t ndim;
  int64_t *shape; /* room for TENON_RANK_MAX */
  tn_trial_fill_t fill;
} tn_trial_tensor_t;

typedef struct tn_trial_input_t {
  bool is_given;
  uint32_t count; /* of a list; else 1 */
  tn_trial_tensor_t *tensors;
} tn_trial_input_t;

typedef struct tn_trial_name_t { /* an extent */
  const char *name;
  int64_t extent;
  int32_t attr;    /* that is it, or -1 */
  bool is_free;    /* may have another value */
  bool is_unnamed; /* of an input that nothing is said of */
} tn_trial_name_t;

typedef struct tn_trial_t {
  const tenon_op_t *op;
  const tn_sample_t *sample; /* NULL: made of schema, TYPES and SHAPES */
  tn_trial_input_t *inputs;
  tenon_value_t *attrs;
  uint32_t name_count;
  tn_trial_name_t names[TN_TRIAL_NAMES];
  tenon_dtype_t variables[TN_TYPE_VARIABLES];
} tn_trial_t;

typedef struct tn_trial_options_t {
  uint32_t index; /* of the call in SAMPLES */
  const tenon_dtype_t *
      dtypes; /* of type variables; NULL, or no bits: the first of f32, i64, ... that TYPES allow */
  int64_t extent;      /* of names that nothing states; 0: small ones, each another */
  uint32_t name_count; /* extents by name */
  const char *const *names;
  const int64_t *extents;
  int32_t
      rank; /* of inputs that nothing is said of; -1: the first of 2, 3, 4, 1, 0 that infer takes */
  uint64_t has;      /* bit i: an optional input i that SAMPLES do not name is given */
  bool has_defaults; /* attributes of SAMPLES are left out */
  const tenon_value_t
      *attrs; /* in place of those of SAMPLES and defaults, where not NONE; NULL: none */
} tn_trial_options_t;

/* How many there are: at least 1. */
uint32_t tn_trial_count(const tenon_op_t *op);
/* In the arena.  Errors: RANGE past the last, INVALID for what does not fit. */
tenon_status_t tn_trial_plan(const tenon_op_t *op, const tn_trial_options_t *options,
                             tn_arena_t *arena, tn_trial_t *out_trial);
/* Would these inputs be taken?  The message says what to do. */
tenon_status_t tn_trial_infer(const tn_trial_t *trial, tenon_tensor_t *const *inputs);

#endif
