/* Converts whole tensors with core::cast, which the host runs at full speed for any strides. Called
 * by kernels of heavy arithmetic.
 * Invariant: a tensor that already has the wanted dtype and layout is not copied. */
#include "dense.h"

int core_is_dense(const tenon_tensor_t *x) {
  int64_t stride = 1;
  for (int32_t i = x->ndim - 1; i >= 0; i--) {
    if (x->shape[i] == 0) return 1;
    if (x->shape[i] != 1 && x->strides[i] != stride) return 0;
    stride *= x->shape[i];
  }
  return 1;
}

static tenon_status_t cast_to(tenon_call_t *call, tenon_tensor_t *x, tenon_tensor_t *out) {
  tenon_value_t attrs[3] = {
      {TENON_KIND_DTYPE, 0, {0}}, {TENON_KIND_BOOL, 0, {1}}, {TENON_KIND_CHOICE, 0, {0}}};
  attrs[0].as.dtype = out->dtype;
  return call->host->invoke(call, call->uses[0], attrs, &x, &out);
}

tenon_tensor_t *core_dense(tenon_call_t *call, tenon_tensor_t *x, tenon_dtype_t dtype) {
  if (tenon_dtype_id(x->dtype) == tenon_dtype_id(dtype) && core_is_dense(x)) return x;
  tenon_tensor_t *out = call->host->temporary(call, dtype, x->ndim, x->shape);
  return out && cast_to(call, x, out) == TENON_OK ? out : 0;
}

void *core_scratch(tenon_call_t *call, uint64_t size, int count, const int64_t *extents) {
  for (int i = 0; i < count; i++) {
    uint64_t extent = (uint64_t)(extents[i] > 0 ? extents[i] : 1);
    if (size > INT64_MAX / extent) {
      tenon_fail(call, TENON_MEMORY, "the scratch memory of this call would exceed 2^63 bytes");
      return 0;
    }
    size *= extent;
  }
  return call->host->allocate(call, size);
}

tenon_tensor_t *core_as(tenon_call_t *call, tenon_tensor_t *x, tenon_dtype_t dtype) {
  return tenon_dtype_id(x->dtype) == tenon_dtype_id(dtype) ? x : core_dense(call, x, dtype);
}

tenon_tensor_t *core_place(tenon_call_t *call, tenon_tensor_t *out, tenon_dtype_t dtype) {
  if (tenon_dtype_id(out->dtype) == tenon_dtype_id(dtype)) return out;
  return call->host->temporary(call, dtype, out->ndim, out->shape);
}

tenon_tensor_t *core_place_dense(tenon_call_t *call, tenon_tensor_t *out, tenon_dtype_t dtype) {
  if (tenon_dtype_id(out->dtype) == tenon_dtype_id(dtype) && core_is_dense(out)) return out;
  return call->host->temporary(call, dtype, out->ndim, out->shape);
}

tenon_status_t core_settle(tenon_call_t *call, tenon_tensor_t *out, tenon_tensor_t *computed) {
  return out == computed ? TENON_OK : cast_to(call, computed, out);
}
