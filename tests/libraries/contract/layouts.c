/* Operators of the library `contract` that report how tensors reach them: strides, quantisation,
 * scalars. */
#include "contract.h"

static tenon_status_t strides_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] = tenon_extent(infer->inputs[0]->ndim);
  return TENON_OK;
}

static tenon_status_t strides_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  for (int32_t d = 0; d < x->ndim; d++)
    ((int64_t *)call->outputs[0]->data)[d] = x->strides[d];
  return TENON_OK;
}

static float element(const tenon_tensor_t *x,
                     /* A row-major index, any strides, u8 or f32. */
                     int64_t index) {
  int64_t at = 0;
  for (int32_t d = x->ndim - 1; d >= 0; d--) {
    at += index % x->shape[d] * x->strides[d];
    index /= x->shape[d];
  }
  return contract_is(x, TENON_U8) ? (float)((const uint8_t *)x->data)[at]
                                  : ((const float *)x->data)[at];
}

static tenon_status_t copy_run(tenon_call_t *call) { /* reads and writes any strides */
  const tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  for (int64_t i = 0, n = tenon_count(x); i < n; i++) {
    int64_t at = 0;
    int64_t rest = i;
    for (int32_t d = out->ndim - 1; d >= 0; d--) {
      at += rest % out->shape[d] * out->strides[d];
      rest /= out->shape[d];
    }
    ((float *)out->data)[at] = element(x, i);
  }
  return TENON_OK;
}

static tenon_status_t stored_sum_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  float sum = 0;
  if (x->detail)
    return tenon_fail(call, TENON_INTERNAL,
                      "a quantised tensor came to a kernel that does not know it");
  for (int64_t i = 0, n = tenon_count(x); i < n; i++)
    sum += element(x, i);
  *(float *)call->outputs[0]->data = sum;
  return TENON_OK;
}

static tenon_status_t real_sum_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_detail_t *detail = x->detail;
  float sum = 0;
  for (int64_t i = 0, n = tenon_count(x); i < n; i++) {
    float scale = 1;
    float zero = 0;
    if (detail) {
      int64_t at = 0;
      int64_t rest = i;
      for (int32_t d = x->ndim - 1; d >= 0; d--) {
        if (d == detail->axis) at = rest % x->shape[d];
        rest /= x->shape[d];
      }
      scale = element(detail->scale, at);
      if (detail->zero_point) zero = element(detail->zero_point, at);
    }
    sum += (element(x, i) - zero) * scale;
  }
  *(float *)call->outputs[0]->data = sum;
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(contract_layouts,
  TENON_OP("strides(Tensor x) -> Tensor",
    TENON_DOC("The strides that a dense kernel sees"),
    TENON_TYPES("x: f32; out = i64"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(strides_infer),
    TENON_KERNEL("cpu", strides_run)),
  TENON_OP("any_strides(Tensor x) -> Tensor",
    TENON_DOC("The strides that a kernel for any strides sees"),
    TENON_TYPES("x: f32; out = i64"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(strides_infer),
    TENON_KERNEL("cpu strided", strides_run)),
  TENON_OP("copy(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"),
    TENON_SHAPES("out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu strided", copy_run)),
  TENON_OP("dense_copy(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"),
    TENON_SHAPES("out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", copy_run)),
  TENON_OP("stored_sum(Tensor x) -> Tensor",
    TENON_TYPES("x: u8|f32; out = f32"),
    TENON_SHAPES("out: []"),
    TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu strided", stored_sum_run)),
  TENON_OP("real_sum(Tensor x) -> Tensor",
    TENON_TYPES("x: u8|f32; out = f32"),
    TENON_SHAPES("out: []"),
    TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu quantised", real_sum_run)))
