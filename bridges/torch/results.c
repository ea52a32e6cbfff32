/* Results of a call: PyTorch tensors over Tenon's memory. */
#include "frame.h"

#include <string.h>

static void let_go(void *data, void *tensor) {
  (void)data;
  tenon_tensor_release(tensor);
}

/* Returns whether a tensor is row-major, as fake tensors are. */
static bool is_dense(const tenon_tensor_t *t) {
  int64_t next = 1;
  for (int32_t i = t->ndim - 1; i >= 0; next *= t->shape[i--])
    if (t->shape[i] != 1 && t->strides[i] != next) return tenon_count(t) == 0;
  return true;
}

/* Makes a PyTorch tensor over CPU memory. */
static bool blob_of(frame_t *f, tenon_tensor_t *tensor, torch_value_t *out) {
  torch_tensor_t made = NULL;
  int32_t code;
  bool good = torch_dtype_to(tensor->dtype, &code);
  if (!good)
    frame_fail(f, "the dtype of a result has no counterpart in PyTorch: ",
               tenon_dtype_name(tensor->dtype));
  bool is_empty = !tensor->data || tenon_count(tensor) == 0;
  if (good && is_empty)
    good = !torch.aoti_torch_empty_strided(tensor->ndim, tensor->shape, tensor->strides, code,
                                           torch_cpu, -1, &made);
  else if (good)
    good = !torch.torch_from_blob(tensor->data, tensor->ndim, tensor->shape, tensor->strides, 0,
                                  code, torch_cpu, -1, &made, torch.aoti_torch_layout_strided(),
                                  NULL, 0, let_go, tensor);
  if (!good && !*f->why) frame_fail(f, "PyTorch does not create the result tensor: ", torch_what());
  if (!good || is_empty) tenon_tensor_release(tensor);
  *out = (torch_value_t)(uintptr_t)made;
  return good;
}

/* Makes a PyTorch tensor over Tenon's memory, or over a copy; takes the reference over. */
bool frame_result(frame_t *f, tenon_tensor_t *tensor, bool is_copy, torch_value_t *out) {
  *out = 0;
  /* Only a view of a quantised argument can be quantised. */
  if (tensor->detail) {
    const bool is_quantised = tensor->detail->kind == TENON_DETAIL_QUANTISED;
    tenon_tensor_release(tensor);
    return frame_fail(f,
                      is_quantised ? "a result is quantised, which Tenon does not support in "
                                     "PyTorch: use PyTorch's own view operator"
                                   : "a result is sparse, which Tenon does not support in PyTorch: "
                                     "make it dense in the operator",
                      "");
  }
  if (is_copy || !is_dense(tensor)) {
    tenon_tensor_t *copy = NULL;
    tenon_status_t status = tenon_tensor_copy_to(tensor, tensor->device, &copy);
    tenon_tensor_release(tensor);
    if (status != TENON_OK) return frame_fail(f, tenon_error(), "");
    tensor = copy;
  }
  return tensor->device.type == 1 ? blob_of(f, tensor, out) : frame_device_result(f, tensor, out);
}

bool frame_list(frame_t *f, tenon_tensor_t **tensors, size_t count, bool is_copy,
                torch_value_t *out) {
  torch_list_t list = NULL;
  bool good = !torch.torch_new_list_reserve_size(count, &list);
  for (size_t i = 0; i < count; i++) {
    torch_value_t value = 0;
    if (good)
      good =
          frame_result(f, tensors[i], is_copy, &value) && !torch.torch_list_push_back(list, value);
    else
      tenon_tensor_release(tensors[i]);
  }
  if (!good && !*f->why)
    frame_fail(f, "PyTorch does not create the list of results: ", torch_what());
  if (!good && list) (void)torch.torch_delete_list(list);
  *out = (torch_value_t)(uintptr_t)list;
  return good;
}

static bool list_of(frame_t *f, tenon_tensor_t *tensor, bool is_copy, torch_value_t *out) {
  tenon_tensor_t **items = tensor->data;
  const size_t count = (size_t)tensor->shape[0];
  for (size_t i = 0; i < count; i++)
    tenon_tensor_retain(items[i]);
  bool good = frame_list(f, items, count, is_copy, out);
  tenon_tensor_release(tensor);
  return good;
}

static bool none_of(frame_t *f, torch_value_t *out) {
  torch_tensor_t none = NULL;
  bool good = !torch.aoti_torch_new_uninitialized_tensor(&none) ||
              frame_fail(f, "PyTorch does not create a tensor: ", torch_what());
  *out = (torch_value_t)(uintptr_t)none;
  return good;
}

/* Arguments that were written to are not returned, although Tenon has results for them: PyTorch
 * allows no such results in operators that write. */
bool frame_results(frame_t *f, tenon_tensor_t **outputs, torch_value_t *out) {
  const tenon_argument_t *results = f->self->results;
  bool good = true;
  uint32_t made = 0;
  uint32_t kinds[OPERATOR_MOST];
  for (uint32_t o = 0; o < f->self->output_count; o++) {
    if (results[o].mark || !good) {
      tenon_tensor_release(outputs[o]);
      continue;
    }
    kinds[made] = results[o].kind;
    out[made] = 0;
    if (!outputs[o])
      good = none_of(f, &out[made]); /* The result was not requested. */
    else if (kinds[made] == TENON_KIND_TENSORS)
      good = list_of(f, outputs[o], f->self->copies[o], &out[made]);
    else
      good = frame_result(f, outputs[o], f->self->copies[o], &out[made]);
    made++;
  }
  for (uint32_t i = 0; i < made && !good; i++) {
    if (!out[i]) continue;
    if (kinds[i] == TENON_KIND_TENSORS)
      (void)torch.torch_delete_list((torch_list_t)(uintptr_t)out[i]);
    else
      (void)torch.aoti_torch_delete_tensor_object((torch_tensor_t)(uintptr_t)out[i]);
  }
  return good;
}
