/* Elements, rows and slices selected by index tensors: gather, gather_elements, gather_nd,
 * reverse_sequence. Indices are i32 or i64 and count from the end if negative. An index out of
 * range fails the call, and the message names it.
 * Invariant: nothing is read before its index is checked. */
#include "axes.h"
#include "copy.h"
#include <string.h>
#include <tenon/check.h>

/* Copies a piece: strings one by one, packed elements on one thread, all others as bytes. */
static tenon_status_t copy_piece(tenon_call_t *call, tenon_tensor_t *out, int64_t to,
                                 const tenon_tensor_t *x, int64_t from, int64_t count) {
  char *y = (char *)out->data;
  const char *z = (const char *)x->data;
  if (x->dtype.bits < 8 || tenon_dtype_id(x->dtype) == TENON_STRING)
    return core_move_run(call, out, to, x, from, count);
  int64_t size = element_size(x);
  int64_t bytes = size * count;
  if (bytes == 4)
    memcpy(y + to * size, z + from * size, 4);
  else if (bytes == 8)
    memcpy(y + to * size, z + from * size, 8);
  else
    memcpy(y + to * size, z + from * size, (size_t)bytes);
  return TENON_OK;
}

/* The least number of units of `each` elements for a thread. What was just written lies in the
 * cache of the thread that wrote it: another thread copies it no faster, until there is more than
 * fits. Rows of a large table come from memory, from which two threads read faster. */
static int64_t grain_of(const tenon_tensor_t *x, int64_t units, int64_t each) {
  enum { IN_CACHE = 1 << 20, LEAST_IN_CACHE = 1 << 18, LEAST = 1 << 16 };
  const int64_t size = element_size(x);
  const int64_t least = tenon_count(x) * size <= IN_CACHE ? LEAST_IN_CACHE : LEAST;
  return is_packed(x) ? units : least / (each * size + 1) + 1;
}

/* gather */

/* Extent i of a gather's result: the axes of the indices replace `axis` of x. */
static tenon_dim_t gathered_extent(const tenon_meta_t *x, const tenon_meta_t *indices, int32_t axis,
                                   int32_t i) {
  if (i < axis) return x->dims[i];
  return i < axis + indices->ndim ? indices->dims[i - axis] : x->dims[i - indices->ndim + 1];
}

static tenon_status_t gather_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  const tenon_meta_t *indices = infer->inputs[1];
  tenon_meta_t *out = infer->outputs[0];
  int32_t axis = 0;
  int32_t rank = x->ndim - 1 + indices->ndim;
  TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, x->ndim, &axis));
  if (rank > TENON_RANK_MAX)
    return tenon_fail(infer, TENON_INVALID,
                      "the result would have rank %d; a tensor has at most %d", rank,
                      TENON_RANK_MAX);
  out->ndim = rank;
  for (int32_t i = 0; i < rank; i++)
    out->dims[i] = gathered_extent(x, indices, axis, i);
  if (x->ndim != 1 || !x->values || !indices->values || indices->value_count > VALUES_MAX)
    return TENON_OK;
  for (uint32_t i = 0; i < indices->value_count; i++) {
    tenon_dim_t at = indices->values[i];
    if (!tenon_is_known(at)) return TENON_OK;
    int64_t n = (int64_t)x->value_count;
    int64_t j = at.value < 0 ? at.value + n : at.value;
    if (j < 0 || j >= n)
      return tenon_fail(infer, TENON_RANGE,
                        "index %" PRId64 " is outside [%" PRId64 ", %" PRId64 ") of axis 0",
                        at.value, -n, n);
    out->values[i] = x->values[j];
  }
  out->value_count = indices->value_count;
  return TENON_OK;
}

typedef struct gather_t {
  int32_t axis;
  int64_t indices;
  int64_t inner;
  int64_t extent;
} gather_t;

static tenon_status_t gather_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const gather_t *g = (const gather_t *)argument;
  for (int64_t n = begin; n < end; n++) {
    int64_t at = index_at(call, call->inputs[1], n % g->indices, g->extent, g->axis);
    if (at < 0) return TENON_RANGE;
    TENON_TRY(copy_piece(call, call->outputs[0], n * g->inner, call->inputs[0],
                         (n / g->indices * g->extent + at) * g->inner, g->inner));
  }
  return TENON_OK;
}

static tenon_status_t gather_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  gather_t g = {0};
  TENON_TRY(axis_wrap(call, call->attrs[0].as.i, x->ndim, &g.axis));
  g.indices = tenon_count(call->inputs[1]);
  g.extent = x->shape[g.axis];
  g.inner = extents_product(x->shape, g.axis + 1, x->ndim);
  int64_t units = extents_product(x->shape, 0, g.axis) * g.indices;
  return g.inner ? call->host->parallel(call, units, grain_of(x, units, g.inner), gather_part, &g)
                 : TENON_OK;
}

/* gather_elements */

static tenon_status_t elements_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  const tenon_meta_t *indices = infer->inputs[1];
  int32_t axis = 0;
  TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, x->ndim, &axis));
  if (x->ndim != indices->ndim)
    return tenon_fail(infer, TENON_INVALID, "indices have rank %d and x has %d; they must be equal",
                      indices->ndim, x->ndim);
  for (int32_t i = 0; i < x->ndim; i++)
    if (i != axis && tenon_is_known(x->dims[i]) && tenon_is_known(indices->dims[i]) &&
        indices->dims[i].value > x->dims[i].value)
      return tenon_fail(
          infer, TENON_INVALID, "axis %d of indices, %s, is longer than that of x, %s", i,
          dims_text(indices->dims, indices->ndim).text, dims_text(x->dims, x->ndim).text);
  return out_like(infer->outputs[0], indices);
}

static tenon_status_t elements_part(tenon_call_t *call, void *argument, int64_t begin,
                                    int64_t end) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *indices = call->inputs[1];
  const int32_t axis = *(const int32_t *)argument;
  const int32_t last = x->ndim - 1;
  int64_t columns = indices->shape[last];
  int64_t size = element_size(x);
  for (int64_t row = begin; row < end; row++) {
    int64_t rest = row;
    int64_t base = 0;
    for (int32_t i = last - 1; i >= 0; i--) {
      if (i != axis) base += rest % indices->shape[i] * x->strides[i];
      rest /= indices->shape[i];
    }
    for (int64_t j = 0; j < columns; j++) {
      int64_t at = index_at(call, indices, row * columns + j, x->shape[axis], axis);
      if (at < 0) return TENON_RANGE;
      int64_t from = base + at * x->strides[axis] + (axis == last ? 0 : j);
      if (size == 4 && x->dtype.bits == 32)
        ((uint32_t *)call->outputs[0]->data)[row * columns + j] = ((const uint32_t *)x->data)[from];
      else
        TENON_TRY(copy_piece(call, call->outputs[0], row * columns + j, x, from, 1));
    }
  }
  return TENON_OK;
}

static tenon_status_t elements_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *indices = call->inputs[1];
  int32_t axis = 0;
  int64_t count = tenon_count(indices);
  TENON_TRY(axis_wrap(call, call->attrs[0].as.i, x->ndim, &axis));
  if (count == 0) return TENON_OK;
  int64_t columns = indices->shape[x->ndim - 1];
  int64_t rows = count / columns;
  return call->host->parallel(call, rows, grain_of(x, rows, columns * 4), elements_part, &axis);
}

/* gather_nd */

static tenon_status_t nd_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  const tenon_meta_t *indices = infer->inputs[1];
  tenon_meta_t *out = infer->outputs[0];
  int64_t batch = infer->attrs[0].as.i;
  int32_t lead = indices->ndim - 1;
  if (lead < 0 || x->ndim < 1)
    return tenon_fail(infer, TENON_INVALID, "x and indices must not be scalars");
  tenon_dim_t depth = indices->dims[lead];
  if (batch < 0 || batch > lead || batch > x->ndim)
    return tenon_fail(infer, TENON_INVALID,
                      "batch_dims is %" PRId64
                      ", but indices have %d leading axes and x has %d axes",
                      batch, lead, x->ndim);
  if (!tenon_is_known(depth)) return out_unknown(infer, out, -1);
  if (depth.value < 1 || depth.value > x->ndim - batch)
    return tenon_fail(infer, TENON_INVALID,
                      "indices are tuples of %" PRId64 " numbers, but x has %" PRId64
                      " axes after the batch axes",
                      depth.value, x->ndim - batch);
  for (int32_t i = 0; i < batch; i++)
    if (dim_differ(x->dims[i], indices->dims[i]))
      return tenon_fail(infer, TENON_INVALID,
                        "batch axis %d has extent %" PRId64 " in x but %" PRId64 " in indices", i,
                        x->dims[i].value, indices->dims[i].value);
  int32_t from = (int32_t)(batch + depth.value);
  if (lead + x->ndim - from > TENON_RANK_MAX)
    return tenon_fail(infer, TENON_INVALID, "the result would have too many axes");
  out->ndim = lead + x->ndim - from;
  for (int32_t i = 0; i < out->ndim; i++)
    out->dims[i] = i < lead ? indices->dims[i] : x->dims[from + i - lead];
  return TENON_OK;
}

typedef struct nd_t {
  int32_t batch;
  int64_t depth;
  int64_t tuples /* tuples per batch entry */;
  int64_t entry;
  int64_t inner;
} nd_t;

static tenon_status_t nd_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const nd_t *g = (const nd_t *)argument;
  const tenon_tensor_t *x = call->inputs[0];
  for (int64_t n = begin; n < end; n++) {
    int64_t from = n / g->tuples * g->entry;
    for (int32_t i = 0; i < g->depth; i++) {
      int64_t at =
          index_at(call, call->inputs[1], n * g->depth + i, x->shape[g->batch + i], g->batch + i);
      if (at < 0) return TENON_RANGE;
      from += at * x->strides[g->batch + i];
    }
    TENON_TRY(copy_piece(call, call->outputs[0], n * g->inner, x, from, g->inner));
  }
  return TENON_OK;
}

static tenon_status_t nd_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *indices = call->inputs[1];
  int32_t lead = indices->ndim - 1;
  nd_t g = {(int32_t)call->attrs[0].as.i, indices->shape[lead], 0, 0, 0};
  g.tuples = extents_product(indices->shape, g.batch, lead);
  g.entry = extents_product(x->shape, g.batch, x->ndim);
  g.inner = extents_product(x->shape, g.batch + (int32_t)g.depth, x->ndim);
  int64_t units = extents_product(indices->shape, 0, lead);
  return g.inner ? call->host->parallel(call, units, grain_of(x, units, g.inner), nd_part, &g)
                 : TENON_OK;
}

/* reverse_sequence */

static tenon_status_t reverse_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  const tenon_meta_t *lengths = infer->inputs[1];
  int64_t batch = infer->attrs[0].as.i;
  int64_t time = infer->attrs[1].as.i;
  if (x->ndim < 2 || batch < 0 || batch > 1 || time != 1 - batch)
    return tenon_fail(infer, TENON_INVALID,
                      "batch_axis and time_axis must be 0 and 1 or 1 and 0, and x needs at least 2 "
                      "axes, but they are %" PRId64 " and %" PRId64 " and x has %d",
                      batch, time, x->ndim);
  if (lengths->ndim != 1 || dim_differ(lengths->dims[0], x->dims[batch]))
    return tenon_fail(infer, TENON_INVALID,
                      "lengths has shape %s; expected one number for each batch entry",
                      dims_text(lengths->dims, lengths->ndim).text);
  return out_like(infer->outputs[0], x);
}

static tenon_status_t reverse_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *lengths = call->inputs[1];
  int32_t batch = (int32_t)call->attrs[0].as.i;
  int32_t time = 1 - batch;
  int64_t inner = extents_product(x->shape, 2, x->ndim);
  for (int64_t b = 0; b < x->shape[batch]; b++) {
    int64_t length = tensor_int(lengths, b);
    if (length < 0 || length > x->shape[time])
      return tenon_fail(call, TENON_RANGE,
                        "sequence %" PRId64 " has length %" PRId64 ", but x has only %" PRId64
                        " steps",
                        b, length, x->shape[time]);
    for (int64_t t = 0; t < x->shape[time]; t++) {
      int64_t from = t < length ? length - 1 - t : t;
      TENON_TRY(copy_piece(call, call->outputs[0], b * x->strides[batch] + t * x->strides[time], x,
                           b * x->strides[batch] + from * x->strides[time], inner));
    }
  }
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(core_gather,
  TENON_OP("gather(Tensor x, Tensor indices, *, int axis=0) -> Tensor",
    TENON_DOC("The slices along an axis that the indices select."),
    TENON_TYPES("x: any; indices: i64|i32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(gather_infer),
    TENON_SHARDING("x: [_, d]; indices: [...]; out: [..., d]; if axis = 0"),
    TENON_GRADIENT("x: core::gather_backward(grad, indices, core::shape(x), axis=axis)"),
    TENON_KERNEL("cpu", gather_run)),
  TENON_OP("gather_elements(Tensor x, Tensor indices, *, int axis=0) -> Tensor",
    TENON_DOC("Element i of the result is the element of x at i, "
              "except that the index replaces i along the axis."),
    TENON_TYPES("x: any; indices: i64|i32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(elements_infer),
    TENON_GRADIENT("x: core::scatter_elements(core::expand(0.0, core::shape(x)), indices, grad, "
                   "axis=axis, reduction='add')"),
    TENON_KERNEL("cpu", elements_run)),
  TENON_OP("gather_nd(Tensor x, Tensor indices, *, int batch_dims=0) -> Tensor",
    TENON_DOC("The elements or slices that tuples of indices select."),
    TENON_SAMPLES("x: [n, m, 3], indices: [5, 2] integers(0, 3)"),
    TENON_TYPES("x: any; indices: i64|i32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(nd_infer),
    TENON_GRADIENT("x: core::gather_nd_backward(grad, indices, core::shape(x), "
                   "batch_dims=batch_dims)"),
    TENON_KERNEL("cpu", nd_run)),
  TENON_OP("reverse_sequence(Tensor x, Tensor lengths, *, int batch_axis=1, "
           "int time_axis=0) -> Tensor",
    TENON_DOC("x with the first steps of each batch entry reversed, as many as its length."),
    TENON_SAMPLES("x: [t, n, w], lengths: [n] integers(1, t)"),
    TENON_TYPES("x: any; lengths: i64|i32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(reverse_infer),
    TENON_GRADIENT("x: core::reverse_sequence(grad, lengths, batch_axis=batch_axis, "
                   "time_axis=time_axis)"),
    TENON_KERNEL("cpu", reverse_run)))
/* clang-format on */
