/* Operators of the library `contract` about memory: inputs that are written to, and views. */
#include <string.h>

#include "contract.h"

static tenon_status_t axpy_run(tenon_call_t *call) { /* y += alpha * x */
  const float *x = (const float *)call->inputs[0]->data;
  float *y = (float *)call->inputs[1]->data;
  float alpha = (float)call->attrs[0].as.f;
  if (tenon_count(call->inputs[0]) != tenon_count(call->inputs[1]))
    return tenon_fail(call, TENON_INVALID, "x and y differ in size");
  for (int64_t i = 0, n = tenon_count(call->inputs[1]); i < n; i++)
    y[i] += alpha * x[i];
  return TENON_OK;
}

static tenon_status_t add_run(tenon_call_t *call) { /* y += x, and y is the result */
  const float *x = (const float *)call->inputs[1]->data;
  float *y = (float *)call->inputs[0]->data;
  if (call->outputs[0] && call->outputs[0]->data != call->inputs[0]->data)
    return tenon_fail(call, TENON_INTERNAL, "the result is not y itself");
  for (int64_t i = 0, n = tenon_count(call->inputs[0]); i < n; i++)
    y[i] += x[i];
  return TENON_OK;
}

/* Adds one to each element. */
static tenon_status_t bump_run(tenon_call_t *call) {
  int64_t *y = (int64_t *)call->inputs[0]->data;
  for (int64_t i = 0, n = tenon_count(call->inputs[0]); i < n; i++)
    y[i]++;
  return TENON_OK;
}

/* out = -x; if y is present, it becomes x. */
static tenon_status_t touch_run(tenon_call_t *call) {
  const float *x = (const float *)call->inputs[0]->data;
  for (int64_t i = 0, n = tenon_count(call->inputs[0]); i < n; i++) {
    ((float *)call->outputs[0]->data)[i] = -x[i];
    if (call->inputs[1]) ((float *)call->inputs[1]->data)[i] = x[i];
  }
  return TENON_OK;
}

/* Writes to the given string. */
static tenon_status_t mark_run(tenon_call_t *call) {
  tenon_tensor_t *text = call->inputs[0];
  for (int64_t i = 0, n = tenon_count(text); i < n; i++)
    TENON_TRY(call->host->set_string(call, text, i, "seen", 4));
  return TENON_OK;
}

/* views */

static tenon_status_t transpose_infer(tenon_infer_t *infer) { /* any strides */
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  out->alias = 1;
  out->strided = 1;
  out->ndim = x->ndim;
  for (int32_t d = 0; d < x->ndim; d++) {
    out->dims[d] = x->dims[x->ndim - 1 - d];
    out->strides[d] = tenon_stride(infer, x, x->ndim - 1 - d);
  }
  return TENON_OK;
}

static tenon_status_t
/* All rows but the first ones: a view with an offset. */
tail_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  tenon_dim_t first = tenon_extent(infer->attrs[0].as.i);
  if (x->ndim < 1) return tenon_fail(infer, TENON_INVALID, "x is a scalar");
  out->alias = 1;
  out->strided = 1;
  out->ndim = x->ndim;
  out->offset = tenon_dim(infer, TENON_DIM_MUL, first, tenon_stride(infer, x, 0));
  for (int32_t d = 0; d < x->ndim; d++) {
    out->dims[d] = d ? x->dims[d] : tenon_dim(infer, TENON_DIM_SUB, x->dims[0], first);
    out->strides[d] = tenon_stride(infer, x, d);
  }
  return TENON_OK;
}

static tenon_status_t
flat_infer(tenon_infer_t *infer) { /* wants its input dense, which it does not say otherwise */
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  out->alias = 1;
  out->ndim = 1;
  out->dims[0] = tenon_extent(1);
  for (int32_t d = 0; d < x->ndim; d++)
    out->dims[0] = tenon_dim(infer, TENON_DIM_MUL, out->dims[0], x->dims[d]);
  return TENON_OK;
}

static tenon_status_t halves_infer(tenon_infer_t *infer) { /* a list of views */
  const tenon_meta_t *x = infer->inputs[0];
  const tenon_meta_t *list = infer->outputs[0];
  tenon_dim_t half;
  tenon_dim_t two = tenon_extent(2);
  if (x->ndim < 1) return tenon_fail(infer, TENON_INVALID, "x is a scalar");
  half = tenon_dim(infer, TENON_DIM_DIV, x->dims[0], two);
  for (uint32_t i = 0; i < list->count; i++) {
    tenon_meta_t *out = list->items[i];
    out->alias = 1;
    out->strided = 1;
    out->ndim = x->ndim;
    out->offset =
        tenon_dim(infer, TENON_DIM_MUL, tenon_dim(infer, TENON_DIM_MUL, half, tenon_extent(i)),
                  tenon_stride(infer, x, 0));
    for (int32_t d = 0; d < x->ndim; d++) {
      out->dims[d] = d ? x->dims[d] : half;
      out->strides[d] = tenon_stride(infer, x, d);
    }
  }
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(contract_views,
  TENON_OP("axpy_(Tensor x, Tensor(a!) y, *, float alpha=1.0) -> ()",
    TENON_DOC("y += alpha * x"),
    TENON_TYPES("x, y: f32"),
    TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", axpy_run)),
  TENON_OP("add_(Tensor(a!) y, Tensor x) -> Tensor(a!)",
    TENON_TYPES("x, y: f32; out = y"),
    TENON_SHAPES("out = y"),
    TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", add_run)),
  TENON_OP("bump_(Tensor(a!) y) -> ()",
    TENON_TYPES("y: i64"),
    TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", bump_run)),
  TENON_OP("touch_(Tensor x, Tensor(a!)? y=None) -> Tensor",
    TENON_TYPES("x, y: f32; out = x"),
    TENON_SHAPES("x: [n]; y: [n]; out: [n]"),
    TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", touch_run)),
  TENON_OP("mark_(Tensor(a!) text) -> ()",
    TENON_TYPES("text: string"),
    TENON_KERNEL("cpu", mark_run)),
  TENON_OP("transpose(Tensor(a) x) -> Tensor(a)",
    TENON_TYPES("x: any; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_WHERE("x: strided"),
    TENON_INFER(transpose_infer)),
  TENON_OP("tail(Tensor(a) x, *, int first=1) -> Tensor(a)",
    TENON_TYPES("x: any; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_WHERE("x: strided"),
    TENON_INFER(tail_infer)),
  TENON_OP("flat(Tensor(a) x) -> Tensor(a)",
    TENON_TYPES("x: any; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(flat_infer)),
  TENON_OP("halves(Tensor(a) x) -> Tensor(a)[2]",
    TENON_TYPES("x: any; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_WHERE("x: strided"),
    TENON_INFER(halves_infer)))
