/* Writes elements and slices at positions given by index tensors: scatter_elements, scatter_nd,
 * tensor_scatter, and the gradient of gather. The result starts as a copy; one thread then applies
 * the updates in order, so that several updates of one element always give the same result.
 * Invariant: nothing is written before its index is checked. */
#include "axes.h"
#include "copy.h"
#include "dtype_scalar.h"
#include "forward_infer.h"
#include <tenon/check.h>

enum {
  NONE,
  ADD,
  MUL,
  MAX,
  MIN,
};

/* combining: to[i] = to[i] op from[i] */

typedef void (*combine_fn)(void *to, const void *from, int64_t n);

#define LOAD(x) (x)
#define STORE(x) (x)
#define IS_NAN(x) ((x) != (x))
#define T float
#define WIDE float
#define NAME(x) f32_##x
#include "scatter_kernel.h"

#define T double
#define WIDE double
#define NAME(x) f64_##x
#include "scatter_kernel.h"
#undef LOAD
#undef STORE

#define LOAD(x) float_of_f16(x)
#define STORE(x) f16_of_float(x)
#define T uint16_t
#define WIDE float
#define NAME(x) f16_##x
#include "scatter_kernel.h"
#undef LOAD
#undef STORE

#define LOAD(x) float_of_bf16(x)
#define STORE(x) bf16_of_float(x)
#define T uint16_t
#define WIDE float
#define NAME(x) bf16_##x
#include "scatter_kernel.h"
#undef LOAD
#undef STORE
#undef IS_NAN

/* Signed integers wrap: they are added and multiplied as unsigned numbers, 16-bit ones as
 * 32-bit. */
#define LOAD(x) (x)
#define STORE(x) ((T)(x))
#define IS_NAN(x) 0
#define T int8_t
#define WIDE uint32_t
#define NAME(x) i8_##x
#include "scatter_kernel.h"

#define T int16_t
#define WIDE uint32_t
#define NAME(x) i16_##x
#include "scatter_kernel.h"

#define T int32_t
#define WIDE uint32_t
#define NAME(x) i32_##x
#include "scatter_kernel.h"

#define T int64_t
#define WIDE uint64_t
#define NAME(x) i64_##x
#include "scatter_kernel.h"

#define T uint8_t
#define WIDE uint32_t
#define NAME(x) u8_##x
#include "scatter_kernel.h"

#define T uint16_t
#define WIDE uint32_t
#define NAME(x) u16_##x
#include "scatter_kernel.h"

#define T uint32_t
#define WIDE uint32_t
#define NAME(x) u32_##x
#include "scatter_kernel.h"

#define T uint64_t
#define WIDE uint64_t
#define NAME(x) u64_##x
#include "scatter_kernel.h"
#undef LOAD
#undef STORE
#undef IS_NAN

static const struct {
  uint32_t dtype;
  combine_fn by[4];
} combiners[] = {
#define ROW(id, name) {TENON_##id, {name##_add, name##_mul, name##_max, name##_min}},
    ROW(F32, f32) ROW(F64, f64) ROW(F16, f16) ROW(BF16, bf16) ROW(I8, i8) ROW(I16, i16)
        ROW(I32, i32) ROW(I64, i64) ROW(U8, u8) ROW(U16, u16) ROW(U32, u32) ROW(U64, u64)
#undef ROW
};

/* Gives NULL for plain copying. Fails for dtypes without arithmetic. */
static tenon_status_t find_combiner(tenon_call_t *call, tenon_dtype_t dtype, int64_t reduction,
                                    combine_fn *out_combine) {
  *out_combine = NULL;
  if (reduction == NONE) return TENON_OK;
  for (size_t i = 0; i < sizeof combiners / sizeof *combiners; i++)
    if (combiners[i].dtype == tenon_dtype_id(dtype))
      *out_combine = combiners[i].by[reduction - ADD];
  return *out_combine
             ? TENON_OK
             : tenon_fail(call, TENON_INVALID,
                          "only numbers can be reduced; use reduction='none' for other dtypes");
}

/* Applies `count` consecutive elements of the updates. */
static tenon_status_t apply_update(tenon_call_t *call, combine_fn combine, tenon_tensor_t *out,
                                   int64_t to, const tenon_tensor_t *updates, int64_t from,
                                   int64_t count) {
  if (!combine) return core_move_run(call, out, to, updates, from, count);
  int64_t size = element_size(out);
  combine((char *)out->data + to * size, (const char *)updates->data + from * size, count);
  return TENON_OK;
}

static tenon_status_t copy_all(tenon_call_t *call, tenon_tensor_t *out, const tenon_tensor_t *x) {
  move_t move;
  if (out->data == x->data) return TENON_OK; /* the input's memory is reused */
  move_begin(&move, out, x);
  move_axis(&move, tenon_count(x), 1, 1);
  return core_move(call, &move);
}

/* scatter_elements */

static tenon_status_t elements_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  const tenon_meta_t *indices = infer->inputs[1];
  const tenon_meta_t *updates = infer->inputs[2];
  int32_t axis = 0;
  TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, x->ndim, &axis));
  int fits = x->ndim == indices->ndim && x->ndim == updates->ndim;
  for (int32_t i = 0; fits && i < x->ndim; i++) {
    fits = !dim_differ(indices->dims[i], updates->dims[i]);
    if (i != axis && tenon_is_known(x->dims[i]) && tenon_is_known(indices->dims[i]))
      fits = fits && indices->dims[i].value <= x->dims[i].value;
  }
  if (!fits)
    return tenon_fail(infer, TENON_INVALID,
                      "indices %s and updates %s must have equal shapes, not larger than x %s",
                      dims_text(indices->dims, indices->ndim).text,
                      dims_text(updates->dims, updates->ndim).text,
                      dims_text(x->dims, x->ndim).text);
  return out_like(infer->outputs[0], x);
}

static tenon_status_t elements_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *indices = call->inputs[1];
  tenon_tensor_t *out = call->outputs[0];
  int64_t count = tenon_count(indices);
  int32_t axis = 0;
  int32_t last = x->ndim - 1;
  combine_fn combine;
  TENON_TRY(axis_wrap(call, call->attrs[0].as.i, x->ndim, &axis));
  TENON_TRY(find_combiner(call, x->dtype, call->attrs[1].as.i, &combine));
  TENON_TRY(copy_all(call, out, x));
  for (int64_t n = 0; n < count; n += indices->shape[last]) {
    int64_t rest = n;
    int64_t base = 0;
    for (int32_t i = last; i >= 0; i--) {
      if (i != axis) base += rest % indices->shape[i] * out->strides[i];
      rest /= indices->shape[i];
    }
    for (int64_t j = 0; j < indices->shape[last]; j++) {
      int64_t at = index_at(call, indices, n + j, x->shape[axis], axis);
      if (at < 0) return TENON_RANGE;
      int64_t to = base + at * out->strides[axis] + (axis == last ? 0 : j);
      TENON_TRY(apply_update(call, combine, out, to, call->inputs[2], n + j, 1));
    }
  }
  return TENON_OK;
}

/* scatter_nd */

static tenon_status_t nd_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  const tenon_meta_t *indices = infer->inputs[1];
  const tenon_meta_t *updates = infer->inputs[2];
  int32_t lead = indices->ndim - 1;
  if (lead < 0 || x->ndim < 1)
    return tenon_fail(infer, TENON_INVALID, "x and indices must not be scalars");
  out_like(infer->outputs[0], x);
  tenon_dim_t depth = indices->dims[lead];
  if (!tenon_is_known(depth)) return TENON_OK;
  if (depth.value < 1 || depth.value > x->ndim)
    return tenon_fail(infer, TENON_INVALID,
                      "indices are tuples of %" PRId64 " numbers, but x has %d axes", depth.value,
                      x->ndim);
  int fits = updates->ndim == lead + x->ndim - depth.value;
  for (int32_t i = 0; fits && i < updates->ndim; i++)
    fits = !dim_differ(updates->dims[i],
                       i < lead ? indices->dims[i] : x->dims[depth.value + i - lead]);
  if (!fits)
    return tenon_fail(infer, TENON_INVALID, "updates %s do not fit indices %s and x %s",
                      dims_text(updates->dims, updates->ndim).text,
                      dims_text(indices->dims, indices->ndim).text,
                      dims_text(x->dims, x->ndim).text);
  return TENON_OK;
}

static tenon_status_t nd_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *indices = call->inputs[1];
  tenon_tensor_t *out = call->outputs[0];
  int64_t depth = indices->shape[indices->ndim - 1];
  int64_t tuples = extents_product(indices->shape, 0, indices->ndim - 1);
  int64_t inner = extents_product(x->shape, (int32_t)depth, x->ndim);
  combine_fn combine;
  TENON_TRY(find_combiner(call, x->dtype, call->attrs[0].as.i, &combine));
  TENON_TRY(copy_all(call, out, x));
  for (int64_t n = 0; n < tuples; n++) {
    int64_t to = 0;
    for (int32_t i = 0; i < depth; i++) {
      int64_t at = index_at(call, indices, n * depth + i, x->shape[i], i);
      if (at < 0) return TENON_RANGE;
      to += at * out->strides[i];
    }
    TENON_TRY(apply_update(call, combine, out, to, call->inputs[2], n * inner, inner));
  }
  return TENON_OK;
}

/* gather_backward */

/* Extent i of what gather gives: the axes of the indices replace `axis` of x. */
static tenon_dim_t gathered_extent(const tenon_meta_t *x, const tenon_meta_t *indices, int32_t axis,
                                   int32_t i) {
  if (i < axis) return x->dims[i];
  return i < axis + indices->ndim ? indices->dims[i - axis] : x->dims[i - indices->ndim + 1];
}

static tenon_status_t backward_infer(tenon_infer_t *infer) {
  const tenon_meta_t *grad = infer->inputs[0];
  const tenon_meta_t *indices = infer->inputs[1];
  tenon_meta_t *out = infer->outputs[0];
  int32_t axis = 0;
  ints_t shape;
  TENON_TRY(ints_read(infer, 2, &shape));
  if (!shape.known || shape.count > TENON_RANK_MAX) return out_unknown(infer, out, shape.count);
  TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, shape.count, &axis));
  out->ndim = shape.count;
  for (int32_t i = 0; i < shape.count; i++)
    out->dims[i] = shape.at[i];
  int fits = grad->ndim == shape.count - 1 + indices->ndim;
  for (int32_t i = 0; fits && i < grad->ndim; i++)
    fits = !dim_differ(grad->dims[i], gathered_extent(out, indices, axis, i));
  if (!fits)
    return tenon_fail(infer, TENON_INVALID,
                      "the gradient has shape %s, which is not what indices %s gather from %s",
                      dims_text(grad->dims, grad->ndim).text,
                      dims_text(indices->dims, indices->ndim).text,
                      dims_text(out->dims, out->ndim).text);
  return TENON_OK;
}

static tenon_status_t backward_run(tenon_call_t *call) {
  const tenon_tensor_t *grad = call->inputs[0];
  const tenon_tensor_t *indices = call->inputs[1];
  tenon_tensor_t *out = call->outputs[0];
  int32_t axis = 0;
  combine_fn combine;
  TENON_TRY(axis_wrap(call, call->attrs[0].as.i, out->ndim, &axis));
  TENON_TRY(find_combiner(call, out->dtype, ADD, &combine));
  memset(out->data, 0, (size_t)(tenon_count(out) * element_size(out)));
  int64_t count = tenon_count(indices);
  int64_t extent = out->shape[axis];
  int64_t inner = extents_product(out->shape, axis + 1, out->ndim);
  int64_t units = extents_product(out->shape, 0, axis) * count;
  for (int64_t n = 0; n < units; n++) {
    int64_t at = index_at(call, indices, n % count, extent, axis);
    if (at < 0) return TENON_RANGE;
    TENON_TRY(apply_update(call, combine, out, (n / count * extent + at) * inner, grad, n * inner,
                           inner));
  }
  return TENON_OK;
}

static tenon_status_t nd_backward_infer(tenon_infer_t *infer) {
  const tenon_meta_t *grad = infer->inputs[0];
  const tenon_meta_t *indices = infer->inputs[1];
  tenon_meta_t *out = infer->outputs[0];
  int32_t batch = (int32_t)infer->attrs[0].as.i;
  int32_t lead = indices->ndim - 1;
  ints_t shape;
  TENON_TRY(ints_read(infer, 2, &shape));
  if (!shape.known || shape.count > TENON_RANK_MAX) return out_unknown(infer, out, shape.count);
  out->ndim = shape.count;
  for (int32_t i = 0; i < shape.count; i++)
    out->dims[i] = shape.at[i];
  if (lead < 0 || batch < 0 || batch > lead || !tenon_is_known(indices->dims[lead]))
    return tenon_fail(infer, TENON_INVALID, "indices %s do not fit batch_dims=%d",
                      dims_text(indices->dims, indices->ndim).text, batch);
  int64_t from = batch + indices->dims[lead].value;
  int fits = indices->dims[lead].value >= 1 && from <= shape.count &&
             grad->ndim == lead + shape.count - from;
  for (int32_t i = 0; fits && i < grad->ndim; i++)
    fits = !dim_differ(grad->dims[i], i < lead ? indices->dims[i] : out->dims[from + i - lead]);
  for (int32_t i = 0; fits && i < batch; i++)
    fits = !dim_differ(out->dims[i], indices->dims[i]);
  if (!fits)
    return tenon_fail(infer, TENON_INVALID,
                      "the gradient has shape %s, which is not what indices %s gather from %s",
                      dims_text(grad->dims, grad->ndim).text,
                      dims_text(indices->dims, indices->ndim).text,
                      dims_text(out->dims, out->ndim).text);
  return TENON_OK;
}

static tenon_status_t nd_backward_run(tenon_call_t *call) {
  const tenon_tensor_t *grad = call->inputs[0];
  const tenon_tensor_t *indices = call->inputs[1];
  tenon_tensor_t *out = call->outputs[0];
  int32_t batch = (int32_t)call->attrs[0].as.i;
  int32_t lead = indices->ndim - 1;
  int64_t depth = indices->shape[lead];
  int64_t tuples = extents_product(indices->shape, 0, lead);
  int64_t each = extents_product(indices->shape, batch, lead);
  int64_t entry = extents_product(out->shape, batch, out->ndim);
  int64_t inner = extents_product(out->shape, batch + (int32_t)depth, out->ndim);
  combine_fn combine;
  TENON_TRY(find_combiner(call, out->dtype, ADD, &combine));
  memset(out->data, 0, (size_t)(tenon_count(out) * element_size(out)));
  for (int64_t n = 0; n < tuples; n++) {
    int64_t to = n / each * entry;
    for (int32_t i = 0; i < depth; i++) {
      int64_t at = index_at(call, indices, n * depth + i, out->shape[batch + i], batch + i);
      if (at < 0) return TENON_RANGE;
      to += at * out->strides[batch + i];
    }
    TENON_TRY(apply_update(call, combine, out, to, grad, n * inner, inner));
  }
  return TENON_OK;
}

/* tensor_scatter: a key-value cache and its new entries */

tenon_status_t core_tensor_scatter_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  const tenon_meta_t *news = infer->inputs[1];
  const tenon_meta_t *begin = infer->inputs[2];
  int32_t axis = 0;
  TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, x->ndim, &axis));
  int fits = axis > 0 && x->ndim == news->ndim;
  for (int32_t i = 0; fits && i < x->ndim; i++)
    fits = !dim_differ(x->dims[i], news->dims[i]) ||
           (i == axis && news->dims[i].value < x->dims[i].value);
  if (!fits)
    return tenon_fail(infer, TENON_INVALID,
                      "update %s does not fit into x %s along axis %d (axis 0 is the batch)",
                      dims_text(news->dims, news->ndim).text, dims_text(x->dims, x->ndim).text,
                      axis);
  if (begin && (begin->ndim != 1 || dim_differ(begin->dims[0], x->dims[0])))
    return tenon_fail(infer, TENON_INVALID,
                      "write_indices has shape %s; expected one number for each batch entry",
                      dims_text(begin->dims, begin->ndim).text);
  return out_like(infer->outputs[0], x);
}

static tenon_status_t cache_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *news = call->inputs[1];
  const tenon_tensor_t *begin = call->inputs[2];
  tenon_tensor_t *out = call->outputs[0];
  int circular = call->attrs[1].as.i != 0;
  int32_t axis = 0;
  TENON_TRY(axis_wrap(call, call->attrs[0].as.i, x->ndim, &axis));
  TENON_TRY(copy_all(call, out, x));
  int64_t extent = x->shape[axis];
  int64_t steps = news->shape[axis];
  int64_t inner = extents_product(x->shape, axis + 1, x->ndim);
  int64_t outer = extents_product(x->shape, 0, axis);
  int64_t each = extents_product(x->shape, 1, axis);
  for (int64_t n = 0; n < outer; n++) {
    int64_t first = begin ? tensor_int(begin, n / each) : 0;
    if (first < 0 || (!circular && first > extent - steps))
      return tenon_fail(call, TENON_RANGE,
                        "%" PRId64 " steps from position %" PRId64
                        " do not fit into an extent of %" PRId64,
                        steps, first, extent);
    for (int64_t t = 0; t < steps; t++)
      TENON_TRY(core_move_run(call, out, (n * extent + (first % extent + t) % extent) * inner, news,
                              (n * steps + t) * inner, inner));
  }
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(core_scatter,
  TENON_OP("scatter_elements(Tensor x, Tensor indices, Tensor updates, *, int axis=0, str['none', "
           "'add', 'mul', 'max', 'min'] reduction='none') -> Tensor",
    TENON_DOC("x with each update written at its own position, "
              "except that the index replaces the position along the axis."),
    TENON_SAMPLES("x: [n, m], indices: [1, m] integers(0, n), updates: [1, m]; "
                  "x: [n, m], indices: [n, m] permutation, updates: [n, m], axis = 1"),
    TENON_TYPES("x, updates: any; indices: i64|i32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(elements_infer),
    TENON_REUSE("out: x"),
    TENON_GRADIENT("x, updates: core::scatter_elements_backward(grad, x, updates, indices, out, "
                   "axis=axis, reduction=reduction)"),
    TENON_KERNEL("cpu", elements_run)),
  TENON_OP("scatter_nd(Tensor x, Tensor indices, Tensor updates, *, str['none', 'add', 'mul', "
           "'max', 'min'] reduction='none') -> Tensor",
    TENON_DOC("x with elements or slices updated at positions given by tuples of indices."),
    TENON_SAMPLES("x: [n, m, 3], indices: [2, 2] [0, 1, 2, 3], updates: [2, 3]"),
    TENON_TYPES("x, updates: any; indices: i64|i32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(nd_infer),
    TENON_REUSE("out: x"),
    TENON_GRADIENT("x, updates: core::scatter_nd_backward(grad, x, updates, indices, out, "
                   "reduction=reduction)"),
    TENON_KERNEL("cpu", nd_run)),
  TENON_OP("tensor_scatter(Tensor x, Tensor update, Tensor? write_indices=None, *, int axis=-2, "
           "str['linear', 'circular'] mode='linear') -> Tensor",
    TENON_DOC("x, whose first axis is the batch, with the update written from position "
              "write_indices[batch] on."),
    TENON_TYPES("x, update: any; write_indices: i64|i32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(core_tensor_scatter_infer),
    TENON_REUSE("out: x"),
    TENON_GRADIENT("x: core::tensor_scatter(grad, core::expand(0.0, core::shape(update)), "
                   "write_indices, axis=axis, mode=mode); "
                   "update: core::tensor_scatter_backward(grad, core::shape(update), "
                   "write_indices, axis=axis)"),
    TENON_KERNEL("cpu", cache_run)),
  TENON_OP("gather_backward(Tensor grad, Tensor indices, Tensor @host shape, *, "
           "int axis=0) -> Tensor",
    TENON_DOC("The gradient of gather: sums slices at the positions that they came from."),
    TENON_SAMPLES("grad: [2, 3, m], indices: [2, 3] integers(0, n), shape: [2] [n, m]"),
    TENON_TYPES("grad: number; indices: i64|i32; shape: i64|i32; out = grad"),
    TENON_WHERE("shape: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(backward_infer),
    TENON_GRADIENT("grad: core::gather(grad.out, indices, axis=axis)"),
    TENON_KERNEL("cpu", backward_run)),
  TENON_OP("gather_nd_backward(Tensor grad, Tensor indices, Tensor @host shape, *, "
           "int batch_dims=0) -> Tensor",
    TENON_DOC("The gradient of gather_nd: sums elements or slices at the positions that they came "
              "from."),
    TENON_SAMPLES("grad: [5, 3], indices: [5, 2] integers(0, 3), shape: [3] [n, m, 3]"),
    TENON_TYPES("grad: number; indices: i64|i32; shape: i64|i32; out = grad"),
    TENON_WHERE("shape: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(nd_backward_infer),
    TENON_GRADIENT("grad: core::gather_nd(grad.out, indices, batch_dims=batch_dims)"),
    TENON_KERNEL("cpu", nd_backward_run)))
/* clang-format on */
