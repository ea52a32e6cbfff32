/* Calls on devices. Arguments are used in place, ordered with PyTorch's current stream; results are
 * memory of PyTorch's allocator. Memory is given back in the order of that stream, so the host
 * never waits. */
#include "frame.h"

#include <stdio.h>

static void delete_handle(void *handle) { (void)torch.aoti_torch_delete_tensor_object(handle); }

static tenon_status_t over(const torch_device_t *torch_device, torch_tensor_t handle, void *data,
                           uint64_t offset, tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                           const int64_t *strides, tenon_stream_t *stream, tenon_free_fn release,
                           tenon_tensor_t **out_tensor) {
  tenon_external_t external = {.size = sizeof external,
                               .device = torch_device->device,
                               .data = data,
                               .byte_offset = offset,
                               .dtype = dtype,
                               .ndim = ndim,
                               .shape = shape,
                               .strides = strides,
                               .stream = stream,
                               .release = release,
                               .context = release ? handle : NULL};
  return tenon_tensor_import(&external, out_tensor);
}

/* Allocates a PyTorch tensor that Tenon writes to; frame_device_result returns it later. */
static tenon_status_t create(void *state, tenon_device_t device, tenon_dtype_t dtype, int32_t ndim,
                             const int64_t *shape, tenon_tensor_t **out_tensor,
                             const char **out_why) {
  const torch_device_t *torch_device = state;
  int64_t strides[TENON_RANK_MAX];
  int64_t next = 1;
  int32_t code;
  torch_tensor_t handle = NULL;
  tenon_stream_t *stream = NULL;
  void *data = NULL;
  const bool is_here =
      device.type == torch_device->device.type && device.id == torch_device->device.id;
  /* Tenon's own allocator is used. */
  if (!is_here || torch_device->own || !torch_dtype_to(dtype, &code)) return TENON_OK;
  for (int32_t i = ndim - 1; i >= 0; next *= shape[i--])
    strides[i] = next;
  if (torch.aoti_torch_empty_strided(ndim, shape, strides, code, torch_device->type,
                                     torch_device->index, &handle)) {
    *out_why = torch_what();
    return TENON_MEMORY;
  }
  tenon_status_t status =
      torch.torch_get_mutable_data_ptr(handle, &data) ? TENON_UNKNOWN : TENON_OK;
  if (status != TENON_OK)
    *out_why = torch_what();
  else if ((status = tenon_stream_of(device, &stream)) != TENON_OK ||
           (status = over(torch_device, handle, data, 0, dtype, ndim, shape, NULL, stream,
                          delete_handle, out_tensor)))
    *out_why = tenon_error();
  if (status != TENON_OK) delete_handle(handle);
  return status;
}

bool frame_use_device(frame_t *f, int32_t type, int32_t index) {
  char why[sizeof f->why];
  if (f->torch_device && f->torch_device->type == type && f->torch_device->index == index)
    return true;
  const torch_device_t *torch_device = torch_device_find(type, index, why, sizeof why);
  if (!torch_device) return frame_fail(f, why, "");
  if (f->torch_device == torch_device)
    return true; /* It is the current device, given without an index. */
  if (f->torch_device) {
    char here[64], there[64];
    snprintf(why, sizeof why, "%s, but earlier arguments are on %s: move all tensors to one device",
             torch_device_name(torch_device->type, torch_device->index, here, sizeof here),
             torch_device_name(f->torch_device->type, f->torch_device->index, there, sizeof there));
    return frame_fail(f, "the tensor is on ", why);
  }
  if (!(f->stream = torch_device_stream(torch_device, why, sizeof why)))
    return frame_fail(f, why, "");
  if (tenon_stream_use(torch_device->device, f->stream, &f->stream_before) != TENON_OK)
    return frame_fail(f, tenon_error(), "");
  f->allocator = (tenon_allocator_t){create, (void *)(uintptr_t)torch_device};
  f->allocator_before = tenon_allocator_use(&f->allocator);
  f->torch_device = torch_device;
  return true;
}

void frame_leave(frame_t *f) {
  (void)tenon_allocator_use(f->allocator_before);
  (void)tenon_stream_use(f->torch_device->device, f->stream_before, NULL);
}

tenon_tensor_t *frame_device_tensor(frame_t *f, torch_tensor_t handle, const frame_parts_t *p) {
  int64_t first = 0;
  int32_t index = 0;
  tenon_tensor_t *made = NULL;
  if (torch.aoti_torch_get_device_index(handle, &index) |
      torch.aoti_torch_get_storage_offset(handle, &first)) {
    frame_fail(f, "PyTorch does not report the device of the tensor: ", torch_what());
    return NULL;
  }
  if (!frame_use_device(f, p->type, index)) return NULL;
  if (f->torch_device->own) {
    const char *why = "";
    made = f->torch_device->own->view(handle, &why);
    if (!made) frame_fail(f, why, "");
    return made;
  }
  /* The handle describes the whole storage. */
  const uint64_t offset = p->data ? (uint64_t)first * p->dtype.bits / 8 : 0;
  if (over(f->torch_device, handle, (char *)p->data - offset, offset, p->dtype, (int32_t)p->ndim,
           p->shape, p->strides, f->stream, NULL, &made) != TENON_OK) {
    frame_fail(f, tenon_error(), "");
    return NULL;
  }
  return made;
}

bool frame_bring(frame_t *f, tenon_tensor_t **tensors, size_t count, const bool *which) {
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < count && f->torch_device && status == TENON_OK; i++) {
    tenon_tensor_t *there = NULL;
    if (tensors[i]->device.type != 1 || (which && !which[i])) continue;
    if ((status = tenon_tensor_copy_to(tensors[i], f->torch_device->device, &there)) != TENON_OK)
      break;
    tenon_tensor_release(tensors[i]);
    tensors[i] = there;
  }
  if (status == TENON_OK) return true;
  for (size_t i = 0; i < count; i++)
    tenon_tensor_release(tensors[i]);
  return frame_fail(f, tenon_error(), "");
}

/* Returns what `create` allocated, or a part of it, as a PyTorch tensor of its own; NULL: PyTorch
 * failed. */
static torch_tensor_t tensor_of(torch_tensor_t whole, const tenon_tensor_t *t) {
  int64_t ndim = 0;
  int64_t *shape = NULL;
  void *data = NULL;
  torch_tensor_t made = NULL;
  if (torch.aoti_torch_get_dim(whole, &ndim) | torch.aoti_torch_get_sizes(whole, &shape) |
      torch.torch_get_mutable_data_ptr(whole, &data))
    return NULL;
  const int64_t first = ((char *)t->data + t->byte_offset - (char *)data) / (t->dtype.bits / 8);
  bool is_same = first == 0 && ndim == t->ndim;
  for (int32_t i = 0; i < t->ndim && is_same; i++)
    is_same = shape[i] == t->shape[i];
  int32_t bad = is_same ? torch.aoti_torch_new_tensor_handle(whole, &made)
                        : torch.aoti_torch__reinterpret_tensor(whole, t->ndim, t->shape, t->strides,
                                                               first, &made);
  return bad ? NULL : made;
}

/* Copies a result whose memory belongs to something else (an argument, a state). */
static bool own(frame_t *f, tenon_tensor_t **tensor) {
  tenon_tensor_t *copy = NULL;
  int32_t code = 0;
  int32_t found = 0;
  torch_tensor_t whole = tenon_tensor_context(*tensor, delete_handle);
  if (!torch_dtype_to((*tensor)->dtype, &code))
    return frame_fail(f, "the dtype of a result has no counterpart in PyTorch: ",
                      tenon_dtype_name((*tensor)->dtype));
  if (whole && !torch.aoti_torch_get_dtype(whole, &found) && found == code) return true;
  if (tenon_tensor_copy_to(*tensor, (*tensor)->device, &copy) != TENON_OK)
    return frame_fail(f, tenon_error(), "");
  tenon_tensor_release(*tensor);
  *tensor = copy;
  return tenon_tensor_context(copy, delete_handle) ||
         frame_fail(f, "the result was not allocated by PyTorch's allocator", "");
}

/* Returns a result of a device whose memory is Tenon's. */
static bool own_result(frame_t *f, const torch_device_t *torch_device, tenon_tensor_t *t,
                       torch_value_t *out) {
  const char *why = "";
  void *made = torch_device->own->wrap(t, &why);
  *out = (torch_value_t)(uintptr_t)made;
  return made || frame_fail(f, why, "");
}

bool frame_device_result(frame_t *f, tenon_tensor_t *t, torch_value_t *out) {
  char why[sizeof f->why];
  int32_t code = 0;
  torch_tensor_t made = NULL;
  const torch_device_t *torch_device = torch_device_of(t->device, why, sizeof why);
  bool good = torch_device ? frame_use_device(f, torch_device->type, torch_device->index)
                           : frame_fail(f, why, "");
  if (good && torch_device->own) return own_result(f, torch_device, t, out);
  if (good && tenon_count(t) == 0)
    good = torch_dtype_to(t->dtype, &code) &&
           !torch.aoti_torch_empty_strided(t->ndim, t->shape, t->strides, code, torch_device->type,
                                           torch_device->index, &made);
  else if (good && (good = own(f, &t)))
    good = (made = tensor_of(tenon_tensor_context(t, delete_handle), t)) != NULL;
  if (!good && !*f->why) frame_fail(f, "PyTorch does not create the result tensor: ", torch_what());
  tenon_tensor_release(t);
  *out = (torch_value_t)(uintptr_t)made;
  return good;
}
