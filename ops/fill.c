/* Tensors made from shapes and numbers: shape and size of an input, constants, ranges, identity
 * matrices, triangles. Where possible, infer knows their integers, so that arithmetic on shapes
 * stays symbolic.
 * Invariant: values stated by infer are the values that the kernel writes. */
#include "axes.h"
#include "copy.h"
#include "dtype_scalar.h"
#include <math.h>
#include <tenon/check.h>

/* shape, size */

/* The range from attribute `start` to `end`. Negative ones count from the end; both are clamped to
 * the rank. */
static void shape_range(const tenon_value_t *attrs, int32_t rank, int32_t *out_start,
                        int32_t *out_end) {
  int64_t bound[2] = {attrs[0].as.i, attrs[1].kind == TENON_KIND_NONE ? rank : attrs[1].as.i};
  for (int i = 0; i < 2; i++) {
    if (bound[i] < 0) bound[i] = bound[i] < -rank ? 0 : bound[i] + rank;
    if (bound[i] > rank) bound[i] = rank;
  }
  *out_start = (int32_t)bound[0];
  *out_end = (int32_t)(bound[1] < bound[0] ? bound[0] : bound[1]);
}

static tenon_status_t shape_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  int32_t start, end;
  shape_range(infer->attrs, x->ndim, &start, &end);
  out->ndim = 1;
  out->dims[0] = tenon_extent(end - start);
  out->value_count = (uint32_t)(end - start);
  for (int32_t i = start; i < end; i++)
    out->values[i - start] = x->dims[i];
  return TENON_OK;
}

static tenon_status_t shape_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *out = call->outputs[0];
  int32_t start, end;
  shape_range(call->attrs, x->ndim, &start, &end);
  for (int32_t i = start; i < end; i++)
    ((int64_t *)out->data)[(i - start) * out->strides[0]] = x->shape[i];
  return TENON_OK;
}

static tenon_status_t size_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  out->ndim = 0;
  out->value_count = 1;
  out->values[0] = dims_product(infer, x->dims, 0, x->ndim);
  return TENON_OK;
}

static tenon_status_t size_run(tenon_call_t *call) {
  *(int64_t *)call->outputs[0]->data = tenon_count(call->inputs[0]);
  return TENON_OK;
}

/* size_ratio: the number of elements of x per element of y, by which the gradient of a mean is
 * divided. */
static tenon_status_t ratio_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 0;
  return TENON_OK;
}

static tenon_status_t ratio_run(tenon_call_t *call) {
  int64_t x = tenon_count(call->inputs[0]);
  int64_t y = tenon_count(call->inputs[1]);
  tenon_tensor_t *out = call->outputs[0];
  number_set(out->dtype, out->data, 0, y ? (double)(x / y) : 0.0);
  return TENON_OK;
}

/* constant_of_shape */

static tenon_status_t constant_infer(tenon_infer_t *infer) {
  const tenon_value_t *value = &infer->attrs[0];
  tenon_meta_t *out = infer->outputs[0];
  ints_t shape;
  out->dtype = tenon_dtype(TENON_F32);
  if (value->kind != TENON_KIND_NONE) {
    out->dtype = value->as.tensor->dtype;
    if (tenon_count(value->as.tensor) != 1)
      return tenon_fail(infer, TENON_INVALID, "value has %" PRId64 " elements; expected one",
                        tenon_count(value->as.tensor));
  }
  TENON_TRY(ints_read(infer, 0, &shape));
  if (!shape.known) return out_unknown(infer, out, shape.count);
  if (shape.count > TENON_RANK_MAX)
    return tenon_fail(infer, TENON_INVALID, "the shape has %d extents; a tensor has at most %d",
                      shape.count, TENON_RANK_MAX);
  out->ndim = shape.count;
  for (int32_t i = 0; i < shape.count; i++) {
    out->dims[i] = shape.at[i];
    if (tenon_is_known(shape.at[i]) && shape.at[i].value < 0)
      return tenon_fail(infer, TENON_INVALID, "extent %d of the shape is %" PRId64, i,
                        shape.at[i].value);
  }
  tenon_dim_t count = dims_product(infer, out->dims, 0, out->ndim);
  int integers = out->dtype.code == (uint8_t)TENON_I64 && out->dtype.bits >= 32;
  if (!integers || !tenon_is_known(count) || count.value > VALUES_MAX) return TENON_OK;
  out->value_count = (uint32_t)count.value;
  for (int64_t i = 0; i < count.value; i++)
    out->values[i] = tenon_extent(tensor_int(value->as.tensor, 0));
  return TENON_OK;
}

static tenon_status_t constant_run(tenon_call_t *call) {
  static const float zero;
  static const int64_t none[1] = {0};
  tenon_tensor_t *out = call->outputs[0];
  tenon_tensor_t nothing = {
      (void *)(intptr_t)&zero, {1, 0}, 0, out->dtype, (int64_t *)(intptr_t)none, NULL, 0, 0, NULL};
  move_t move;
  move_begin(&move, out,
             call->attrs[0].kind == TENON_KIND_NONE ? &nothing : call->attrs[0].as.tensor);
  move_axis(&move, tenon_count(out), 0, 1);
  return core_move(call, &move);
}

/* range */

static tenon_status_t range_infer(tenon_infer_t *infer) {
  tenon_meta_t *out = infer->outputs[0];
  tenon_meta_t *const *in = infer->inputs;
  const tenon_dim_t zero = tenon_extent(0);
  out->ndim = 1;
  out->dims[0] = dim_any(infer);
  if (out->dtype.code == (uint8_t)TENON_I64 && out->dtype.bits >= 32) {
    ints_t start, limit, delta;
    TENON_TRY(ints_read(infer, 0, &start));
    TENON_TRY(ints_read(infer, 1, &limit));
    TENON_TRY(ints_read(infer, 2, &delta));
    if (start.count != 1 || limit.count != 1 || delta.count != 1)
      return tenon_fail(infer, TENON_INVALID, "start, limit and delta must be single numbers");
    if (delta.known && dim_is(delta.at[0], 0))
      return tenon_fail(infer, TENON_INVALID, "delta is 0; expected another number");
    if (!start.known || !limit.known || !delta.known || !tenon_is_known(delta.at[0]))
      return TENON_OK;
    tenon_dim_t span = dim_sub(infer, limit.at[0], start.at[0]);
    if (!dim_is(delta.at[0], 1)) span = tenon_dim(infer, TENON_DIM_CEIL_DIV, span, delta.at[0]);
    out->dims[0] =
        tenon_is_known(span) || !dim_is(start.at[0], 0) ? dim_max(infer, span, zero) : span;
    if (!tenon_is_known(out->dims[0]) || out->dims[0].value > VALUES_MAX) return TENON_OK;
    out->value_count = (uint32_t)out->dims[0].value;
    for (uint32_t i = 0; i < out->value_count; i++)
      out->values[i] = i ? dim_add(infer, out->values[i - 1], delta.at[0]) : start.at[0];
    return TENON_OK;
  }
  double v[3];
  for (int i = 0; i < 3; i++) {
    if (in[i]->ndim > 1 || (in[i]->ndim == 1 && dim_differ(in[i]->dims[0], tenon_extent(1))))
      return tenon_fail(infer, TENON_INVALID, "start, limit and delta must be single numbers");
    if (!in[i]->value) return TENON_OK;
    v[i] = number_get(in[i]->dtype, in[i]->value->data, 0);
  }
  if (v[2] == 0.0) return tenon_fail(infer, TENON_INVALID, "delta is 0; expected another number");
  double count = ceil((v[1] - v[0]) / v[2]);
  if (!(count < 0x1p60))
    return tenon_fail(infer, TENON_INVALID, "the range from %g to %g by %g is not finite", v[0],
                      v[1], v[2]);
  out->dims[0] = tenon_extent(count > 0.0 ? (int64_t)count : 0);
  return TENON_OK;
}

static tenon_status_t range_run(tenon_call_t *call) {
  tenon_tensor_t *out = call->outputs[0];
  const void *start = call->inputs[0]->data;
  const void *delta = call->inputs[2]->data;
  int64_t n = out->shape[0];
  if (tenon_dtype_id(out->dtype) ==
      TENON_I64) { /* exact beyond the range of a double; wraps around as other integers do */
    uint64_t from = *(const uint64_t *)start;
    uint64_t step = *(const uint64_t *)delta;
    for (int64_t i = 0; i < n; i++)
      ((uint64_t *)out->data)[i] = from + (uint64_t)i * step;
  } else {
    double from = number_get(out->dtype, start, 0);
    double step = number_get(out->dtype, delta, 0);
    for (int64_t i = 0; i < n; i++)
      number_set(out->dtype, out->data, i, from + (double)i * step);
  }
  return TENON_OK;
}

/* eye_like, trilu */

static tenon_status_t eye_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  out->dtype = infer->attrs[0].kind == TENON_KIND_NONE ? x->dtype : infer->attrs[0].as.dtype;
  if (x->ndim != 2)
    return tenon_fail(infer, TENON_INVALID, "x has rank %d; expected a matrix", x->ndim);
  if (out->dtype.bits && !number_is(out->dtype))
    return tenon_fail(infer, TENON_INVALID, "dtype must be a number of 8 bits or more, or bool");
  return out_like(out, x);
}

static tenon_status_t eye_run(tenon_call_t *call) {
  tenon_tensor_t *out = call->outputs[0];
  int64_t rows = out->shape[0];
  int64_t columns = out->shape[1];
  int64_t k = call->attrs[1].as.i;
  if (out->strides[1] != 1 || out->strides[0] != columns) {
    for (int64_t i = 0; i < rows * columns; i++) {
      int64_t row = i / columns;
      int64_t column = i % columns;
      number_set(out->dtype, out->data, row * out->strides[0] + column * out->strides[1],
                 column - row == k);
    }
    return TENON_OK;
  }
  memset(out->data, 0, (size_t)(rows * columns * element_size(out)));
  if (k < -rows || k > columns) return TENON_OK;
  for (int64_t i = k < 0 ? -k : 0; i < rows && i + k < columns; i++)
    number_set(out->dtype, out->data, i * columns + i + k, 1.0);
  return TENON_OK;
}

static tenon_status_t trilu_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  ints_t k = {.count = 1};
  if (x->ndim < 2)
    return tenon_fail(infer, TENON_INVALID, "x has rank %d; expected matrices", x->ndim);
  if (infer->inputs[1]) TENON_TRY(ints_read(infer, 1, &k));
  if (k.count >= 0 && k.count != 1)
    return tenon_fail(infer, TENON_INVALID, "k must be one number, but has %d", k.count);
  return out_like(infer->outputs[0], x);
}

static tenon_status_t trilu_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *out = call->outputs[0];
  int64_t k = *(const int64_t *)argument;
  int64_t size = element_size(x);
  int64_t rows = x->shape[x->ndim - 2];
  int64_t columns = x->shape[x->ndim - 1];
  int upper = call->attrs[0].as.i != 0;
  for (int64_t row = begin; row < end; row++) {
    /* The upper part begins at column i + k, the lower part ends there. */
    int64_t cut = row % rows + k + !upper;
    cut = int_clamp(cut, 0, columns);
    const char *from = (const char *)x->data + row * columns * size;
    char *to = (char *)out->data + row * columns * size;
    int64_t keep = upper ? cut : 0;
    int64_t kept = upper ? columns - cut : cut;
    int64_t zero = upper ? 0 : cut;
    memcpy(to + keep * size, from + keep * size, (size_t)(kept * size));
    memset(to + zero * size, 0, (size_t)((columns - kept) * size));
  }
  return TENON_OK;
}

static tenon_status_t trilu_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *k = call->inputs[1];
  int64_t diagonal = k ? tensor_int(k, 0) : 0;
  int64_t columns = x->shape[x->ndim - 1];
  int64_t count = tenon_count(x);
  if (count == 0) return TENON_OK;
  if (diagonal > INT64_MAX / 4) diagonal = INT64_MAX / 4; /* so that sums do not overflow */
  if (diagonal < -INT64_MAX / 4) diagonal = -INT64_MAX / 4;
  return call->host->parallel(call, count / columns, 65536 / (columns + 1) + 1, trilu_part,
                              &diagonal);
}

/* clang-format off */
TENON_ITEMS(core_fill,
  TENON_OP("shape(Tensor x, *, int start=0, int? end=None) -> Tensor @host",
    TENON_DOC("The extents of axes start to end, as i64."),
    TENON_TYPES("x: any; out = i64"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(shape_infer),
    TENON_GRADIENT("x: none"),
    TENON_KERNEL("cpu strided anywhere sparse quantised", shape_run)),
  TENON_OP("size(Tensor x) -> Tensor @host",
    TENON_DOC("The number of elements, as i64."),
    TENON_TYPES("x: any; out = i64"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(size_infer),
    TENON_GRADIENT("x: none"),
    TENON_KERNEL("cpu strided anywhere sparse quantised", size_run)),
  TENON_OP("size_ratio(Tensor x, Tensor y) -> Tensor @host",
    TENON_DOC("The number of elements of x per element of y, as a scalar of their dtype."),
    TENON_TYPES("x, y: float|int|uint; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(ratio_infer),
    TENON_GRADIENT("x, y: none"),
    TENON_KERNEL("cpu strided anywhere", ratio_run)),
  TENON_OP("constant_of_shape(Tensor @host shape, *, tensor? value=None) -> Tensor",
    TENON_DOC("A tensor of this shape filled with one value, 0.0 by default."),
    TENON_TYPES("shape: i64|i32; out = ?"),
    TENON_WHERE("shape: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(constant_infer),
    TENON_KERNEL("cpu", constant_run)),
  TENON_OP("range(Tensor @host start, Tensor @host limit, Tensor @host delta) -> Tensor",
    TENON_DOC("start, start + delta, ... up to but not including limit."),
    TENON_SAMPLES("start: [] [1], limit: [] [9], delta: [] [2]"),
    TENON_TYPES("start, limit, delta: number; out = start"),
    TENON_WHERE("start: known; limit: known; delta: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(range_infer),
    TENON_GRADIENT("start: core::reduce_sum(grad, keepdims=False); limit: none; "
                   "delta: core::reduce_sum(core::mul(grad, core::cum_sum(core::expand(1.0, "
                   "core::shape(out)), 0, exclusive=True)), keepdims=False)"),
    TENON_KERNEL("cpu", range_run)),
  TENON_OP("eye_like(Tensor x, *, dtype? dtype=None, int k=0) -> Tensor",
    TENON_DOC("A matrix of x's shape with ones on diagonal k."),
    TENON_TYPES("x: number|bool; out = ?"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(eye_infer),
    TENON_GRADIENT("x: none"),
    TENON_KERNEL("cpu strided", eye_run)),
  TENON_OP("trilu(Tensor x, Tensor? @host k=None, *, bool upper=True) -> Tensor",
    TENON_DOC("The matrices with all elements beyond diagonal k set to zero."),
    TENON_TYPES("x: number|bool|complex; k: i64|i32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(trilu_infer),
    TENON_GRADIENT("x: core::trilu(grad, k, upper=upper)"),
    TENON_KERNEL("cpu", trilu_run)))
/* clang-format on */
