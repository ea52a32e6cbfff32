/* Gradients of slice, concat and tile: zeros with the gradient written into a slice, views of the
 * parts, and sums of the parts. The gradient formulas in view.c and join.c call them. */
#include "axes.h"
#include "composite.h"
#include <string.h>
#include <tenon/check.h>

/* slice_backward */

static tenon_status_t slice_backward_infer(tenon_infer_t *infer) {
  tenon_meta_t *out = infer->outputs[0];
  ints_t shape;
  TENON_TRY(ints_read(infer, 1, &shape));
  if (!shape.known || shape.count > TENON_RANK_MAX) return out_unknown(infer, out, shape.count);
  if (shape.count != infer->inputs[0]->ndim)
    return tenon_fail(infer, TENON_INVALID, "dy has %d dimensions, but the sliced tensor has %d",
                      infer->inputs[0]->ndim, shape.count);
  out->ndim = shape.count;
  for (int32_t i = 0; i < shape.count; i++)
    out->dims[i] = shape.at[i];
  return TENON_OK;
}

static void put_slice(const char *from, char *to, const tenon_tensor_t *target, int32_t axis,
                      const int64_t *from_strides, int64_t size) {
  if (axis == target->ndim) {
    memcpy(to, from, (size_t)size);
    return;
  }
  for (int64_t i = 0; i < target->shape[axis]; i++)
    put_slice(from + i * from_strides[axis] * size, to + i * target->strides[axis] * size, target,
              axis + 1, from_strides, size);
}

static tenon_status_t slice_backward_run(tenon_call_t *call) {
  const tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  int64_t size = dy->dtype.bits / 8;
  tenon_tensor_t *whole = call->host->temporary(call, out->dtype, out->ndim, out->shape);
  tenon_tensor_t *part = NULL;
  if (!whole) return TENON_MEMORY;
  memset(whole->data, 0, (size_t)(tenon_count(whole) * size));
  tenon_tensor_t *inputs[5] = {whole, call->inputs[2], call->inputs[3], call->inputs[4],
                               call->inputs[5]};
  TENON_TRY(call->host->invoke(call, call->uses[0], NULL, inputs, &part));
  int same = part->ndim == dy->ndim;
  for (int32_t i = 0; same && i < dy->ndim; i++)
    same = part->shape[i] == dy->shape[i];
  if (!same) return tenon_fail(call, TENON_INVALID, "dy does not have the shape of the slice");
  if (tenon_count(dy)) put_slice(dy->data, part->data, part, 0, dy->strides, size);
  return call->host->assign(call, 0, whole);
}

/* concat_backward */

static tenon_status_t concat_backward_infer(tenon_infer_t *infer) {
  const tenon_meta_t *dy = infer->inputs[0];
  const tenon_meta_t *xs = infer->inputs[1];
  tenon_dim_t begin = tenon_extent(0);
  int32_t axis = 0;
  TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, dy->ndim, &axis));
  TENON_TRY(infer->host->list(infer, 0, xs->count));
  for (uint32_t i = 0; i < xs->count; i++) {
    const tenon_meta_t *x = xs->items[i];
    tenon_meta_t *out = infer->outputs[0]->items[i];
    if (x->ndim != dy->ndim)
      return tenon_fail(infer, TENON_INVALID, "part %u has %d dimensions, dy has %d", i, x->ndim,
                        dy->ndim);
    out->alias = 1;
    out->strided = 1;
    out->ndim = dy->ndim;
    for (int32_t d = 0; d < dy->ndim; d++) {
      if (d != axis && dim_differ(x->dims[d], dy->dims[d]))
        return tenon_fail(infer, TENON_INVALID,
                          "part %u has the shape %s, which does not fit dy of shape %s along axis "
                          "%d",
                          i, dims_text(x->dims, x->ndim).text, dims_text(dy->dims, dy->ndim).text,
                          d);
      out->dims[d] = x->dims[d];
      out->strides[d] = tenon_stride(infer, dy, d);
    }
    out->offset =
        dim_is(x->dims[axis], 0) ? tenon_extent(0) : dim_mul(infer, begin, out->strides[axis]);
    begin = tenon_dim(infer, TENON_DIM_ADD, begin, x->dims[axis]);
  }
  if (dim_differ(begin, dy->dims[axis]))
    return tenon_fail(infer, TENON_INVALID,
                      "the parts add up to %" PRId64 " along axis %d, but dy has %" PRId64,
                      begin.value, axis, dy->dims[axis].value);
  return TENON_OK;
}

/* tile_backward */

static tenon_status_t tile_backward_infer(tenon_infer_t *infer) {
  const tenon_meta_t *dy = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  ints_t shape;
  TENON_TRY(ints_read(infer, 1, &shape));
  if (!shape.known || shape.count > TENON_RANK_MAX) return out_unknown(infer, out, shape.count);
  int fits = dy->ndim == shape.count;
  for (int32_t i = 0; fits && i < shape.count; i++)
    fits =
        !tenon_is_known(dy->dims[i]) || !tenon_is_known(shape.at[i]) ||
        (shape.at[i].value ? dy->dims[i].value % shape.at[i].value == 0 : dy->dims[i].value == 0);
  if (!fits)
    return tenon_fail(infer, TENON_INVALID, "dy has shape %s, which does not repeat shape %s",
                      dims_text(dy->dims, dy->ndim).text, dims_text(shape.at, shape.count).text);
  out->ndim = shape.count;
  for (int32_t i = 0; i < shape.count; i++)
    out->dims[i] = shape.at[i];
  return TENON_OK;
}

/* Splits each repeated axis into two: repeats and elements. */
static tenon_status_t tile_backward_run(tenon_call_t *call) {
  enum {
    SUM,
    RESHAPE,
  };
  tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  tenon_tensor_t *t;
  int64_t shape[2 * TENON_RANK_MAX], axes[TENON_RANK_MAX];
  int32_t rank = 0;
  int32_t repeated = 0;
  for (int32_t i = 0; i < dy->ndim; i++) {
    if (dy->shape[i] != out->shape[i]) {
      axes[repeated++] = rank;
      shape[rank++] = out->shape[i] ? dy->shape[i] / out->shape[i] : 0;
    }
    shape[rank++] = out->shape[i];
  }
  if (!repeated) return call->host->assign(call, 0, dy);
  if (rank > TENON_RANK_MAX)
    return tenon_fail(call, TENON_UNIMPLEMENTED,
                      "%d of %d axes are repeated; together there can be at most %d", repeated,
                      dy->ndim, TENON_RANK_MAX);
  tenon_value_t attrs[2] = {value_flag(0), value_flag(0)};
  TENON_TRY(core_reshape(call, RESHAPE, dy, rank, shape, &t));
  tenon_tensor_t *over = core_ints(call, repeated, axes);
  if (!over) return TENON_MEMORY;
  TENON_TRY(INVOKE(call, SUM, attrs, &t, t, over));
  return call->host->assign(call, 0, t);
}

/* clang-format off */
TENON_ITEMS(core_parts_backward,
  TENON_OP("slice_backward(Tensor dy, Tensor @host shape, Tensor @host starts, Tensor @host ends, "
           "Tensor? @host axes=None, Tensor? @host steps=None) -> Tensor",
    TENON_DOC("The gradient of slice: dy at the elements of the slice, 0 elsewhere."),
    TENON_SAMPLES("dy: [2, 2], shape: [2] [5, 6], starts: [2] [1, 0], ends: [2] [5, 4], "
                  "axes: [2] [0, 1], steps: [2] [2, 2]"),
    TENON_TYPES("dy: number|complex; shape: i64|i32; starts, ends: i64|i32; axes: i64|i32; "
                "steps: i64|i32; out = dy"),
    TENON_WHERE("shape: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES("core::slice"),
    TENON_INFER(slice_backward_infer),
    TENON_GRADIENT("dy: core::slice(grad, starts, ends, axes, steps)"),
    TENON_KERNEL("cpu strided", slice_backward_run)),
  TENON_OP("concat_backward(Tensor(a) dy, Tensor[] xs, *, int axis) -> Tensor(a)[]",
    TENON_DOC("The gradients of concat: views of the parts of dy with the shapes of xs."),
    TENON_SAMPLES("dy: [n, 12], xs: ([n, 4], [n, 8]), axis = 1"),
    TENON_TYPES("dy: any; xs = dy; out = dy"),
    TENON_TRAITS(TENON_PURE),
    TENON_WHERE("dy: strided; xs: strided"),
    TENON_INFER(concat_backward_infer),
    TENON_GRADIENT("dy: core::concat(grad, axis=axis); xs: none")),
  TENON_OP("tile_backward(Tensor dy, Tensor @host shape) -> Tensor",
    TENON_DOC("The gradient of tile: the sum of all repetitions of a tensor of this shape."),
    TENON_SAMPLES("dy: [4, 9], shape: [2] [2, 3]"),
    TENON_TYPES("dy: float; shape: i64|i32; out = dy"),
    TENON_WHERE("shape: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(tile_backward_infer),
    TENON_USES("core::reduce_sum, core::reshape"),
    TENON_COMPOSITE(tile_backward_run)))
/* clang-format on */
