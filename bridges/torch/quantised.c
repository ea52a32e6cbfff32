/* Quantised arguments: reads scale and zero point from PyTorch (f64 and i64), in the form that
 * Tenon's kernels read. */
#include "frame.h"

#include <string.h>

typedef struct quantised_t {
  struct quantised_t *next;
  tenon_detail_t detail;
  tenon_tensor_t scale;
  tenon_tensor_t zero_point;
  int64_t one;
  int64_t dense; /* the shape and stride of tensors with one element */
  double one_scale;
  int64_t one_zero_point;
  torch_tensor_t scales;
  torch_tensor_t zero_points; /* one value per channel; NULL: one value for the whole tensor */
} quantised_t;

/* Calls a PyTorch operator on the tensor and returns its result. */
static bool query_tensor(torch_tensor_t handle, const char *name, torch_value_t *out) {
  torch_tensor_t again; /* The call takes this handle over. */
  if (torch.aoti_torch_new_tensor_handle(handle, &again)) return false;
  *out = (torch_value_t)(uintptr_t)again;
  return !torch.torch_call_dispatcher(name, "", out, torch_build_version);
}

static bool one_for_all(quantised_t *q, torch_tensor_t handle) {
  torch_value_t scale, zero_point;
  if (!query_tensor(handle, "aten::q_scale", &scale) ||
      !query_tensor(handle, "aten::q_zero_point", &zero_point))
    return false;
  memcpy(&q->one_scale, &scale, sizeof scale);
  q->one_zero_point = (int64_t)zero_point;
  q->one = q->dense = 1;
  q->detail.axis = -1;
  return tenon_tensor_view(&q->scale, &q->one_scale, tenon_dtype(TENON_F64), 1, &q->one, &q->dense,
                           NULL) == TENON_OK &&
         tenon_tensor_view(&q->zero_point, &q->one_zero_point, tenon_dtype(TENON_I64), 1, &q->one,
                           &q->dense, NULL) == TENON_OK;
}

static bool view_of(torch_tensor_t handle, tenon_tensor_t *out) {
  int64_t ndim, *shape, *strides;
  int32_t code;
  void *data;
  tenon_dtype_t dtype;
  return !torch.aoti_torch_get_dim(handle, &ndim) && !torch.aoti_torch_get_sizes(handle, &shape) &&
         !torch.aoti_torch_get_strides(handle, &strides) &&
         !torch.aoti_torch_get_dtype(handle, &code) &&
         !torch.torch_get_const_data_ptr(handle, (const void **)&data) &&
         torch_dtype_from(code, &dtype) &&
         tenon_tensor_view(out, data, dtype, (int32_t)ndim, shape, strides, NULL) == TENON_OK;
}

static bool by_channel(quantised_t *q, torch_tensor_t handle) {
  torch_value_t axis, scales, zero_points;
  if (!query_tensor(handle, "aten::q_per_channel_axis", &axis) ||
      !query_tensor(handle, "aten::q_per_channel_scales", &scales))
    return false;
  q->scales = (torch_tensor_t)(uintptr_t)scales;
  q->detail.axis = (int32_t)axis;
  if (!query_tensor(handle, "aten::q_per_channel_zero_points", &zero_points)) return false;
  q->zero_points = (torch_tensor_t)(uintptr_t)zero_points;
  return view_of(q->scales, &q->scale) && view_of(q->zero_points, &q->zero_point);
}

bool frame_quantised(frame_t *f, torch_tensor_t handle, tenon_tensor_t *tensor) {
  quantised_t *q = frame_take(f, 1, sizeof *q);
  if (!q) return false;
  memset(q, 0, sizeof *q);
  q->next = f->quantised;
  f->quantised = q;
  q->detail = (tenon_detail_t){
      .size = sizeof q->detail, .kind = 1, .scale = &q->scale, .zero_point = &q->zero_point};
  /* Values of c10::QScheme. */
  enum {
    PER_TENSOR = 0,
    PER_TENSOR_SYMMETRIC = 2,
  };
  const uint8_t scheme = torch.qscheme ? torch.qscheme(handle) : PER_TENSOR;
  const bool is_one =
      (scheme == PER_TENSOR || scheme == PER_TENSOR_SYMMETRIC) && one_for_all(q, handle);
  if (!is_one && !by_channel(q, handle))
    return frame_fail(f, "PyTorch does not report its scale and zero point: ", torch_what());
  return tenon_tensor_detail_set(tensor, &q->detail) == TENON_OK ||
         frame_fail(f, tenon_error(), "");
}

void frame_quantised_close(frame_t *f) {
  for (const quantised_t *q = f->quantised; q; q = q->next) {
    if (q->scales) (void)torch.aoti_torch_delete_tensor_object(q->scales);
    if (q->zero_points) (void)torch.aoti_torch_delete_tensor_object(q->zero_points);
  }
}
