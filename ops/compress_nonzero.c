/* Elements selected by a condition: compress and nonzero, whose result sizes depend on the data;
 * and one_hot, which marks positions. infer bounds the sizes; run first counts, then resizes the
 * output, then writes it.
 * Invariant: the output is not written before it has its final shape. */
#include "axes.h"
#include "copy.h"
#include "dtype_scalar.h"
#include <tenon/check.h>

/* compress */

static tenon_status_t compress_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  const tenon_meta_t *condition = infer->inputs[1];
  tenon_meta_t *out = infer->outputs[0];
  int flat = infer->attrs[0].kind == TENON_KIND_NONE;
  int32_t axis = 0;
  if (condition->ndim != 1)
    return tenon_fail(infer, TENON_INVALID, "condition has rank %d; expected a list",
                      condition->ndim);
  out_like(out, x);
  if (flat) {
    out->ndim = 1;
    out->dims[0] = dims_product(infer, x->dims, 0, x->ndim);
  } else
    TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, x->ndim, &axis));
  if (tenon_is_known(condition->dims[0]) && tenon_is_known(out->dims[axis]) &&
      condition->dims[0].value > out->dims[axis].value)
    return tenon_fail(infer, TENON_INVALID, "%" PRId64 " conditions for only %" PRId64 " elements",
                      condition->dims[0].value, out->dims[axis].value);
  out->dims[axis] = tenon_dim(infer, TENON_DIM_BOUND, condition->dims[0], tenon_extent(0));
  return TENON_OK;
}

static tenon_status_t compress_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *condition = call->inputs[1];
  const uint8_t *chosen = (const uint8_t *)condition->data;
  int flat = call->attrs[0].kind == TENON_KIND_NONE;
  int64_t shape[TENON_RANK_MAX] = {0};
  int64_t count = 0;
  int64_t outer = 1;
  int64_t inner = 1;
  int64_t extent = tenon_count(x);
  int32_t axis = 0;
  if (!flat) {
    TENON_TRY(axis_wrap(call, call->attrs[0].as.i, x->ndim, &axis));
    outer = extents_product(x->shape, 0, axis);
    inner = extents_product(x->shape, axis + 1, x->ndim);
    extent = x->shape[axis];
  }
  for (int64_t i = 0; i < condition->shape[0]; i++)
    count += chosen[i] != 0;
  for (int32_t i = 0; i < x->ndim; i++)
    shape[i] = x->shape[i];
  shape[axis] = count;
  TENON_TRY(call->host->resize(call, 0, flat ? 1 : x->ndim, shape));
  for (int64_t o = 0, to = 0; o < outer; o++)
    for (int64_t i = 0; i < condition->shape[0]; i++)
      if (chosen[i]) {
        TENON_TRY(core_move_run(call, call->outputs[0], to, x, (o * extent + i) * inner, inner));
        to += inner;
      }
  return TENON_OK;
}

/* nonzero */

static tenon_status_t nonzero_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  out->ndim = 2;
  out->dims[0] = tenon_extent(x->ndim);
  out->dims[1] =
      tenon_dim(infer, TENON_DIM_BOUND, dims_product(infer, x->dims, 0, x->ndim), tenon_extent(0));
  return TENON_OK;
}

static tenon_status_t nonzero_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  int64_t n = tenon_count(x);
  int64_t found = 0;
  int64_t at[TENON_RANK_MAX] = {0};
  for (int64_t i = 0; i < n; i++)
    found += number_get(x->dtype, x->data, i) != 0;
  int64_t shape[2] = {x->ndim, found};
  int64_t column = 0;
  TENON_TRY(call->host->resize(call, 0, 2, shape));
  int64_t *out = (int64_t *)call->outputs[0]->data;
  for (int64_t i = 0; i < n; i++) {
    if (number_get(x->dtype, x->data, i) != 0) {
      for (int32_t axis = 0; axis < x->ndim; axis++)
        out[axis * found + column] = at[axis];
      column++;
    }
    for (int32_t axis = x->ndim - 1; axis >= 0 && ++at[axis] == x->shape[axis]; axis--)
      at[axis] = 0;
  }
  return TENON_OK;
}

/* one_hot */

static tenon_status_t hot_infer(tenon_infer_t *infer) {
  const tenon_meta_t *indices = infer->inputs[0];
  const tenon_meta_t *depth = infer->inputs[1];
  const tenon_meta_t *values = infer->inputs[2];
  tenon_meta_t *out = infer->outputs[0];
  int integer =
      depth->dtype.code <= 1 && depth->dtype.bits >= 32 && (depth->values || depth->value);
  double size = 0;
  int32_t axis = 0;
  TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, indices->ndim + 1, &axis));
  if (indices->ndim >= TENON_RANK_MAX)
    return tenon_fail(infer, TENON_INVALID, "the result would have too many axes");
  if (depth->ndim > 1 || (depth->ndim == 1 && dim_differ(depth->dims[0], tenon_extent(1))))
    return tenon_fail(infer, TENON_INVALID, "depth has shape %s; expected one number",
                      dims_text(depth->dims, depth->ndim).text);
  if (values->ndim != 1 || (tenon_is_known(values->dims[0]) && !dim_is(values->dims[0], 2)))
    return tenon_fail(infer, TENON_INVALID, "values has shape %s; expected two numbers, off and on",
                      dims_text(values->dims, values->ndim).text);
  out->ndim = indices->ndim + 1;
  for (int32_t i = 0; i < out->ndim; i++)
    if (i != axis) out->dims[i] = indices->dims[i < axis ? i : i - 1];
  if (integer && depth->values)
    out->dims[axis] = depth->values[0];
  else if (depth->value && tenon_count(depth->value) == 1) {
    size = number_get(depth->dtype, depth->value->data, 0);
    out->dims[axis] = tenon_extent(size >= 0 && size < 0x1p60 ? (int64_t)size : -1);
  } else
    out->dims[axis] = dim_any(infer);
  if (tenon_is_known(out->dims[axis]) && out->dims[axis].value < 0)
    return tenon_fail(infer, TENON_INVALID, "depth is %" PRId64, out->dims[axis].value);
  return TENON_OK;
}

static tenon_status_t hot_run(tenon_call_t *call) {
  const tenon_tensor_t *indices = call->inputs[0];
  const tenon_tensor_t *values = call->inputs[2];
  tenon_tensor_t *out = call->outputs[0];
  int32_t axis = 0;
  move_t off;
  TENON_TRY(axis_wrap(call, call->attrs[0].as.i, out->ndim, &axis));
  move_begin(&off, out, values);
  move_axis(&off, tenon_count(out), 0, 1);
  TENON_TRY(core_move(call, &off));
  int64_t depth = out->shape[axis];
  int64_t inner = extents_product(out->shape, axis + 1, out->ndim);
  int64_t n = tenon_count(indices);
  for (int64_t i = 0; i < n; i++) {
    double index = number_get(indices->dtype, indices->data, i);
    if (index < 0) index += (double)depth;
    /* an index out of range turns nothing on */
    if (!(index >= 0 && index < (double)depth)) continue;
    int64_t at = (i / inner * depth + (int64_t)index) * inner + i % inner;
    TENON_TRY(core_move_run(call, out, at, values, 1, 1));
  }
  return TENON_OK;
}

/* clang-format off */
/* The gradient of one of the two values, at its position: the sum of the gradient where that value
 * is used. */
#define OF_VALUE(which)                                                                            \
  "core::mul([" which "], core::reduce_sum(core::mul(grad, core::one_hot(indices, depth, [" which  \
  "], axis=axis)), keepdims=False))"
TENON_ITEMS(core_select,
  TENON_OP("compress(Tensor x, Tensor condition, *, int? axis=None) -> Tensor",
    TENON_DOC("The slices along an axis, or the elements, for which the condition is true."),
    TENON_TYPES("x: any; condition: bool; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(compress_infer),
    TENON_GRADIENT("x: core::compress_backward(grad, condition, core::shape(x), axis=axis)"),
    TENON_KERNEL("cpu", compress_run)),
  TENON_OP("nonzero(Tensor x) -> Tensor",
    TENON_DOC("The positions of the elements that are not zero: one column for each element, "
              "one row for each axis."),
    TENON_TYPES("x: number|bool; out = i64"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(nonzero_infer),
    TENON_KERNEL("cpu", nonzero_run)),
  TENON_OP("one_hot(Tensor indices, Tensor @host depth, Tensor values, *, int axis=-1) -> Tensor",
    TENON_DOC("Adds an axis of extent depth that holds values[1] at the index and values[0] "
              "elsewhere."),
    TENON_SAMPLES("indices: [n] integers(0, 5), depth: [1] [5], values: [2]"),
    TENON_TYPES("indices: number; depth: number; values: any; out = values"),
    TENON_WHERE("depth: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(hot_infer),
    TENON_GRADIENT("indices, depth: none; values: core::add(" OF_VALUE("1.0, 0.0") ", "
                   OF_VALUE("0.0, 1.0") ")"),
    TENON_KERNEL("cpu", hot_run)))
/* clang-format on */
