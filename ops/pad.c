/* pad: for each position of the result, the mode determines which element of the input it takes;
 * lookup.c copies.
 * Invariant: negative pads remove elements, in every mode. */
#include "axes.h"
#include "composite.h"
#include "copy.h"
#include "lookup.h"
#include <tenon/check.h>

enum {
  CONSTANT,
  REFLECT,
  EDGE,
  WRAP,
};

static tenon_status_t pad_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  ints_t pads, axes;
  int64_t axis_of[INTS_MAX];
  uint64_t mask = 0;
  TENON_TRY(ints_read(infer, 1, &pads));
  axes.count = x->ndim;
  int known = pads.known;
  for (int32_t i = 0; i < x->ndim; i++)
    axis_of[i] = i;
  if (infer->inputs[3]) {
    TENON_TRY(ints_read(infer, 3, &axes));
    known = ints_numbers(&axes, axis_of) && known;
  }
  if (!known) return out_unknown(infer, out, x->ndim);
  if (pads.count != 2 * axes.count)
    return tenon_fail(
        infer, TENON_INVALID,
        "pads has %d numbers for %d axes; expected two for each axis: all begins, then all ends",
        pads.count, axes.count);
  TENON_TRY(axes_mask(infer, axis_of, axes.count, x->ndim, &mask));
  out_like(out, x);
  for (int32_t i = 0; i < axes.count; i++) {
    int32_t axis = (int32_t)(axis_of[i] < 0 ? axis_of[i] + x->ndim : axis_of[i]);
    tenon_dim_t both = dim_add(infer, pads.at[i], pads.at[i + axes.count]);
    out->dims[axis] = dim_add(infer, x->dims[axis], both);
    if (tenon_is_known(out->dims[axis]) && out->dims[axis].value < 0)
      return tenon_fail(infer, TENON_INVALID,
                        "axis %d, of extent %" PRId64 ", cannot lose %" PRId64, axis,
                        x->dims[axis].value, -both.value);
    if (infer->attrs[0].as.i != CONSTANT && dim_is(x->dims[axis], 0) && !dim_is(out->dims[axis], 0))
      return tenon_fail(infer, TENON_INVALID, "axis %d is empty; only mode 'constant' can pad it",
                        axis);
  }
  return TENON_OK;
}

static int64_t source_index(int64_t i, int64_t n, int64_t mode) {
  int64_t period = mode == REFLECT ? 2 * (n - 1) : n;
  if (i >= 0 && i < n) return i;
  if (mode == CONSTANT) return -1;
  if (mode == EDGE) return i < 0 ? 0 : n - 1;
  if (period == 0) return 0;
  i %= period;
  if (i < 0) i += period;
  return i < n ? i : period - i;
}

static tenon_status_t pad_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *pads = call->inputs[1];
  const tenon_tensor_t *axes = call->inputs[3];
  const tenon_tensor_t *out = call->outputs[0];
  int64_t named = axes ? tenon_count(axes) : x->ndim;
  int64_t before[TENON_RANK_MAX] = {0};
  lookup_t lookup = {call->inputs[0], call->outputs[0], call->inputs[2], {NULL}};
  if (lookup.value && tenon_count(lookup.value) != 1)
    return tenon_fail(call, TENON_INVALID, "value has %" PRId64 " elements; expected one",
                      tenon_count(lookup.value));
  for (int64_t i = 0; i < named; i++) {
    int64_t axis = axes ? tensor_int(axes, i) : i;
    int64_t at = tensor_int(pads, i);
    if (axis < 0) axis += x->ndim;
    before[axis] = at < TENON_DIM_LEAST ? TENON_DIM_LEAST : at; /* the same limit as in ints_read */
  }
  TENON_TRY(core_lookup_tables(call, &lookup));
  for (int32_t i = 0; i < out->ndim; i++)
    for (int64_t j = 0; j < out->shape[i]; j++)
      lookup.table[i][j] = source_index(j - before[i], x->shape[i], call->attrs[0].as.i);
  return core_lookup(call, &lookup);
}

/* pad_backward */

enum {
  BACKWARD_PAD,
  BACKWARD_GATHER,
};

static tenon_status_t pad_backward_infer(tenon_infer_t *infer) {
  tenon_meta_t *of[4] = {NULL, infer->inputs[2], NULL, infer->inputs[3]};
  return core_shaped_infer(infer, 1, pad_infer, of, 0);
}

/* Constant pads are cut off again. In other modes each axis is a gather with the table that pad
 * uses. */
static tenon_status_t pad_backward_run(tenon_call_t *call) {
  tenon_tensor_t *t = call->inputs[0];
  tenon_tensor_t *pads = call->inputs[2];
  tenon_tensor_t *axes = call->inputs[3];
  tenon_tensor_t *other;
  int64_t mode = call->attrs[0].as.i;
  int64_t named = axes ? tenon_count(axes) : t->ndim;
  int64_t shape[TENON_RANK_MAX];
  for (int32_t i = 0; i < t->ndim; i++)
    shape[i] = t->shape[i];
  if (mode == CONSTANT) {
    int64_t less[2 * TENON_RANK_MAX];
    for (int64_t i = 0; i < 2 * named; i++)
      less[i] = -tensor_int(pads, i);
    if (!(other = core_ints(call, 2 * named, less))) return TENON_MEMORY;
    TENON_TRY(INVOKE(call, BACKWARD_PAD, NULL, &t, t, other, NULL, axes));
    return call->host->assign(call, 0, t);
  }
  for (int64_t i = 0; i < named; i++) {
    int32_t axis = 0;
    TENON_TRY(axis_wrap(call, axes ? tensor_int(axes, i) : i, t->ndim, &axis));
    int64_t extent = call->outputs[0]->shape[axis];
    int64_t before = tensor_int(pads, i);
    if (!before && extent == shape[axis]) continue;
    tenon_tensor_t *table = call->host->temporary(call, tenon_dtype(TENON_I64), 1, &shape[axis]);
    if (!table) return TENON_MEMORY;
    for (int64_t j = 0; j < shape[axis]; j++)
      ((int64_t *)table->data)[j] = source_index(j - before, extent, mode);
    shape[axis] = extent;
    tenon_value_t along = value_int(axis);
    if (!(other = core_ints(call, t->ndim, shape))) return TENON_MEMORY;
    TENON_TRY(INVOKE(call, BACKWARD_GATHER, &along, &t, t, table, other));
  }
  return call->host->assign(call, 0, t);
}

/* clang-format off */
/* The gradient of `value` is the sum of the gradient at pads; this is 1 there and 0 elsewhere. */
#define PADS "core::pad(core::expand(0.0, core::shape(x)), pads, 1.0, axes, mode=mode)"
TENON_ITEMS(core_pad,
  TENON_OP("pad(Tensor x, Tensor @host pads, Tensor? value=None, Tensor? @host axes=None, *, "
           "str['constant', 'reflect', 'edge', 'wrap'] mode='constant') -> Tensor",
    TENON_DOC("Adds pads at both ends of the axes; negative pads remove elements."),
    TENON_SAMPLES("x: [n, m], pads: [4] [1, 0, 2, 1]; "
                  "x: [n, m], pads: [4] [1, 0, 2, 1], mode = 'reflect'"),
    TENON_TYPES("x, value: any; pads: i64|i32; axes: i64|i32; out = x"),
    TENON_WHERE("pads: known; axes: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(pad_infer),
    TENON_GRADIENT("x: core::pad_backward(grad, core::shape(x), pads, axes, mode=mode); "
                   "value: core::reshape(core::reduce_sum(core::mul(grad, " PADS
                   ")), core::shape(value))"),
    TENON_KERNEL("cpu", pad_run)),
  TENON_OP("pad_backward(Tensor dy, Tensor @host shape, Tensor @host pads, "
           "Tensor? @host axes=None, *, str['constant', 'reflect', 'edge', "
           "'wrap'] mode='constant') -> Tensor",
    TENON_DOC("The gradient of pad with respect to x, which has this shape: gradients of elements "
              "that were read more than once are summed."),
    TENON_SAMPLES("dy: [7, 6], shape: [2] [4, 5], pads: [4] [1, 0, 2, 1]"),
    TENON_TYPES("dy: float; shape: i64|i32; pads: i64|i32; axes: i64|i32; out = dy"),
    TENON_WHERE("shape: known; pads: known; axes: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(pad_backward_infer),
    TENON_USES("core::pad, core::gather_backward"),
    TENON_COMPOSITE(pad_backward_run)))
/* clang-format on */
