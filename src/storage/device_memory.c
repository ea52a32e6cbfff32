/* Devices of calls and tensors: the devices of arguments, the thread's default device, and memory
 * and copies on devices, by the device's plug-in or by the operators core::allocate and
 * core::copy.  Calls and fallbacks that are not on the CPU alone call it. */
#include "storage/device_memory.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "core/sparse.h"
#include "device/transfer.h"
#include "operator/names.h"
#include "storage/allocator.h"

tn_device_calls_t tn_device_calls;

static bool is_on_cpu(const tenon_tensor_t *t) { return !(t->keys & TN_KEY_DEVICES); }

/* Returns the first tensor that is not on the CPU: this tensor, or an item if it is a list; NULL:
 * none. */
static const tenon_tensor_t *first_on_device(const tenon_tensor_t *t) {
  if (!t || is_on_cpu(t)) return NULL;
  if (!tn_dtype_is(t->dtype, TENON_LIST)) return t;
  for (int64_t i = 0; i < t->shape[0]; i++) {
    const tenon_tensor_t *item = first_on_device(tenon_item(t, i));
    if (item) return item;
  }
  return NULL;
}

tenon_device_t tn_device_of(const tenon_op_t *op, const tenon_value_t *attrs,
                            tenon_tensor_t *const *inputs) {
  for (uint32_t i = 0; i < op->input_count; i++) {
    const tenon_tensor_t *t = op->schema.inputs[i].is_host ? NULL : first_on_device(inputs[i]);
    if (t) return t->device;
  }
  for (uint32_t i = 0; i < op->schema.attr_count; i++)
    if (attrs[i].kind == TENON_KIND_DEVICE) return attrs[i].as.device;
  tenon_device_t own = {tn_thread()->calls.device_type, tn_thread()->calls.device_id};
  return own.type && !op->input_count ? own : (tenon_device_t){1, 0};
}

tenon_device_t tn_call_device(const tenon_call_t *call) {
  return tn_device_of(call->op, call->attrs, call->inputs);
}

uint64_t tn_keys_without_tensors(const tenon_op_t *op, const tenon_value_t *attrs) {
  const tn_backend_t *backend = tn_backend_of(tn_device_of(op, attrs, NULL));
  return backend ? TN_KEY(backend->bit) : TN_KEY_CPU;
}

const char *tn_key_origin(const tenon_op_t *op, const tenon_value_t *attrs,
                          const char **out_argument) {
  *out_argument = "";
  for (uint32_t i = 0; i < op->schema.attr_count; i++)
    if (attrs[i].kind == TENON_KIND_DEVICE) {
      *out_argument = op->schema.attrs[i].name;
      return "the device argument ";
    }
  return tn_thread()->calls.device_type ? "this thread's default device"
                                        : "the CPU, which is the default";
}

tenon_status_t tenon_device_default_set(tenon_device_t device) {
  if (!tn_backend_of(device))
    return tn_fail(TENON_INVALID, "device (type %d, id %d) belongs to no backend", (int)device.type,
                   (int)device.id);
  tn_thread()->calls.device_type = device.type;
  tn_thread()->calls.device_id = device.id;
  return TENON_OK;
}

void tn_tensor_set_device(tenon_tensor_t *tensor, tenon_device_t device) {
  const tn_backend_t *backend = tn_backend_of(device);
  tensor->device = device;
  tensor->keys = (tensor->keys & ~(TN_KEY_CPU | TN_KEY_DEVICES)) |
                 TN_KEY(backend ? backend->bit : TN_BIT_OTHERS);
}

bool tn_tensor_span(const tenon_tensor_t *t, char **out_begin, char **out_end) {
  int64_t low = 0;
  int64_t high = 0;
  int64_t size = t->dtype.bits * t->dtype.lanes;
  for (int32_t i = 0; i < t->ndim; i++) {
    if (t->shape[i] == 0) return false;
    int64_t reach = (t->shape[i] - 1) * t->strides[i];
    *(reach < 0 ? &low : &high) += reach;
  }
  *out_begin = tn_address(t) + low * size / 8; /* packed dtypes have no negative strides */
  *out_end = tn_address(t) + ((high + 1) * size + 7) / 8;
  return true;
}

bool tn_tensors_overlap(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  char *a_begin, *a_end, *b_begin, *b_end;
  bool are_there = tn_tensor_span(a, &a_begin, &a_end) && tn_tensor_span(b, &b_begin, &b_end);
  return are_there && a->device.type == b->device.type && a->device.id == b->device.id &&
         (a->data == b->data || !tn_device_has_handles(a->device)) && a_begin < b_end &&
         b_begin < a_end;
}

/* memory */

/* Memory is the host's concern: the thread's layers and modes do not see the calls that create or
 * copy memory, and keys that the thread includes or excludes do not affect these calls. */
tn_thread_calls_t tn_calls_without_layers(void) {
  tn_thread_calls_t before = tn_thread()->calls;
  tn_thread()->calls.include = tn_thread()->calls.exclude = 0;
  return before;
}

static tenon_status_t find_builtin(const char *name, const tenon_op_t **out_op) {
  *out_op = tn_registry_find(name);
  return *out_op ? TENON_OK : tn_fail(TENON_INTERNAL, "the built-in operator %s is missing", name);
}

tenon_status_t tn_meta_tensor_create(tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                                     const int64_t *strides, tenon_tensor_t **out_tensor) {
  static char nothing[1];
  TN_TRY(tenon_tensor_borrow(nothing, dtype, ndim, shape, strides, NULL, NULL, out_tensor));
  (*out_tensor)->data = NULL;
  tn_tensor_set_device(*out_tensor, tn_backend_meta.device);
  return TENON_OK;
}

struct tn_memory_t *tn_memory_of(const tenon_tensor_t *t) {
  const tn_storage_t *storage = tn_tensor_is_owned(t) ? ((const tn_tensor_t *)t)->storage : NULL;
  return storage && storage->release == tn_memory_put ? storage->context : NULL;
}

/* Allocates memory of a plug-in's device, as a u8 tensor over all of it. */
static tenon_status_t allocate_on_plugin(tn_ordinal_t *ordinal, uint64_t size,
                                         tenon_tensor_t **out_memory) {
  tn_memory_t *memory;
  tn_storage_t *storage;
  int64_t extent = (int64_t)size;
  TN_TRY(tn_memory_get(tn_stream_current(ordinal), size, &memory));
  char *address = (char *)memory->handle + memory->offset;
  tenon_status_t status = tn_storage_create(address, size, tn_memory_put, memory, &storage);
  if (status != TENON_OK) {
    tn_memory_put(memory);
    return status;
  }
  status = tn_tensor_over(storage, address, tenon_dtype(TENON_U8), 1, &extent, NULL, out_memory);
  tn_storage_release(storage);
  if (status == TENON_OK && ordinal->is_handles) {
    (*out_memory)->data = memory->handle;
    (*out_memory)->byte_offset = memory->offset;
  }
  return status;
}

static tenon_status_t allocate_bytes(tenon_device_t device, uint64_t size,
                                     tenon_tensor_t **out_memory) {
  const tenon_op_t *op;
  tn_ordinal_t *ordinal;
  if (tn_plugin_of(device)) {
    TN_TRY(tn_ordinal_get(device, &ordinal));
    return allocate_on_plugin(ordinal, size, out_memory);
  }
  TN_TRY(find_builtin("core::allocate", &op));
  tenon_value_t attrs[2] = {{TENON_KIND_INT, 0, {.i = (int64_t)size}},
                            {TENON_KIND_DEVICE, 0, {.device = device}}};
  tn_thread_calls_t calls = tn_calls_without_layers();
  tenon_status_t status = tn_device_calls.call(op, attrs, NULL, out_memory);
  tn_thread()->calls = calls;
  return status;
}

/* Creates a tensor over the memory of another tensor, which is released. */
static tenon_status_t make_over(tenon_tensor_t *memory, tenon_device_t device, tenon_dtype_t dtype,
                                int32_t ndim, const int64_t *shape, const int64_t *strides,
                                tenon_tensor_t **out_tensor) {
  tenon_status_t status = tn_tensor_over(((tn_tensor_t *)memory)->storage, memory->data, dtype,
                                         ndim, shape, strides, out_tensor);
  if (status == TENON_OK) {
    (*out_tensor)->byte_offset = memory->byte_offset;
    tn_tensor_set_device(*out_tensor, device);
  }
  tenon_tensor_release(memory);
  return status;
}

tenon_status_t tn_device_tensor_create(tenon_device_t device, tenon_dtype_t dtype, int32_t ndim,
                                       const int64_t *shape, tenon_tensor_t **out_tensor) {
  uint64_t size;
  int64_t count = tn_shape_count(ndim, shape);
  if (device.type == 1) return tenon_tensor_create(dtype, ndim, shape, out_tensor);
  if (device.type == 0) return tn_meta_tensor_create(dtype, ndim, shape, NULL, out_tensor);
  if (count < 0 || !tn_dtype_bytes(dtype, count, &size) || size > INT64_MAX ||
      tn_dtype_is(dtype, TENON_STRING))
    return tn_fail(TENON_INVALID, "a tensor of %s cannot be made on a device",
                   tn_dtype_name(dtype));
  tenon_tensor_t *memory = NULL;
  if (__builtin_expect(tn_thread()->calls.allocator != NULL, 0) && size) {
    TN_TRY(tn_allocator_create(device, dtype, ndim, shape, &memory));
    if (memory) {
      *out_tensor = memory;
      return TENON_OK;
    }
  }
  TN_TRY(allocate_bytes(device, size, &memory));
  return make_over(memory, device, dtype, ndim, shape, NULL, out_tensor);
}

tenon_status_t tn_device_tensor_create_strided(tenon_device_t device, tenon_dtype_t dtype,
                                               int32_t ndim, const int64_t *shape,
                                               const int64_t *strides,
                                               tenon_tensor_t **out_tensor) {
  int64_t last = 0;
  int64_t far;
  bool fits = tn_shape_count(ndim, shape) >= 0;
  bool is_empty = tn_shape_count(ndim, shape) == 0;
  /* the stride of an extent of 1 reaches nowhere */
  for (int32_t i = 0; i < ndim && fits && !is_empty; i++)
    fits = shape[i] == 1 ||
           (strides[i] >= 0 && tn_mul(shape[i] - 1, strides[i], &far) && tn_add(last, far, &last));
  if (!fits || last == INT64_MAX)
    return tn_fail(TENON_INVALID, "a shape and strides that reach too far, or below 0");
  int64_t count = is_empty ? 0 : last + 1;
  if (device.type == 0) return tn_meta_tensor_create(dtype, ndim, shape, strides, out_tensor);
  tenon_tensor_t *memory;
  TN_TRY(tn_device_tensor_create(device, dtype, 1, &count, &memory));
  return make_over(memory, device, dtype, ndim, shape, strides, out_tensor);
}

tn_bytes_t tn_bytes_of(const tenon_tensor_t *t, char *address) {
  bool has_handle = t->device.type != 1 && tn_device_has_handles(t->device);
  uint64_t offset = has_handle ? (uint64_t)(address - (char *)t->data) : 0;
  return (tn_bytes_t){t->device, has_handle ? t->data : address, offset, tn_memory_of(t)};
}

tn_bytes_t tn_bytes_of_host(void *data) { return (tn_bytes_t){{1, 0}, data, 0, NULL}; }

/* Describes one side of a transfer; false: it is on a device without a plug-in. */
static bool end_of(const tn_bytes_t *bytes, tn_end_t *out_end) {
  *out_end = (tn_end_t){NULL, {bytes->data, bytes->offset}, bytes->memory};
  return bytes->device.type == 1 || (out_end->ordinal = tn_ordinal_of(bytes->device));
}

tenon_status_t tn_bytes_copy(tn_bytes_t from, tn_bytes_t to, uint64_t size) {
  const tenon_op_t *op;
  int64_t extent = (int64_t)size;
  int64_t strides[2];
  tenon_tensor_t x, y;
  tenon_tensor_t *inputs[2] = {&x, &y};
  tn_end_t source, target;
  if (!size) return TENON_OK;
  if (end_of(&from, &source) && end_of(&to, &target))
    return tn_transfer(&source, &target, size, "copy");
  TN_TRY(find_builtin("core::copy", &op));
  TN_TRY(tenon_tensor_view(&x, from.data, tenon_dtype(TENON_U8), 1, &extent, NULL, &strides[0]));
  TN_TRY(tenon_tensor_view(&y, to.data, tenon_dtype(TENON_U8), 1, &extent, NULL, &strides[1]));
  x.byte_offset = from.offset;
  y.byte_offset = to.offset;
  tn_tensor_set_device(&x, from.device);
  tn_tensor_set_device(&y, to.device);
  tn_thread_calls_t calls = tn_calls_without_layers();
  tenon_status_t status = tn_device_calls.run(op, NULL, inputs, NULL);
  tn_thread()->calls = calls;
  return status;
}

/* Creates a memory record that keeps a host tensor's memory alive; *out_memory NULL: the tensor
 * does not own its memory. */
static tenon_status_t keep_host_memory(const tenon_tensor_t *host, tn_ordinal_t *ordinal,
                                       tn_memory_t **out_memory) {
  tn_storage_t *storage = tn_tensor_is_owned(host) ? ((const tn_tensor_t *)host)->storage : NULL;
  tn_owner_t owner = {.release = tn_storage_drop, .context = storage};
  if (!storage) {
    *out_memory = NULL;
    return TENON_OK;
  }
  TN_TRY(tn_memory_borrow(ordinal, NULL, storage->data, storage->size, &owner, out_memory));
  tn_storage_retain(storage);
  return TENON_OK;
}

/* Begins a copy between dense tensors, at least one of which is on a device with a plug-in. The
 * host's memory is kept alive until the stream has passed the copy. */
static tenon_status_t copy_begin(const tenon_tensor_t *from, tenon_tensor_t *to) {
  uint64_t size = 0;
  tn_end_t source, target;
  tn_memory_t *kept = NULL;
  tn_bytes_t a = tn_bytes_of(from, tn_address(from));
  tn_bytes_t b = tn_bytes_of(to, tn_address(to));
  (void)tn_dtype_bytes(from->dtype, tenon_count(from), &size);
  if (!size) return TENON_OK;
  if (!end_of(&a, &source) || !end_of(&b, &target)) return tn_bytes_copy(a, b, size);
  if (!source.ordinal && !source.memory) {
    TN_TRY(keep_host_memory(from, target.ordinal, &kept));
    source.memory = kept;
  } else if (!target.ordinal && !target.memory) {
    TN_TRY(keep_host_memory(to, source.ordinal, &kept));
    target.memory = kept;
  }
  tenon_status_t status = tn_transfer_begin(&source, &target, size, "copy");
  if (kept) tn_memory_put(kept);
  return status;
}

tenon_status_t tenon_tensor_create_on(tenon_device_t device, tenon_dtype_t dtype, int32_t ndim,
                                      const int64_t *shape, tenon_tensor_t **out_tensor) {
  TN_TRY(tenon_start());
  if (!tn_backend_of(device))
    return tn_fail(TENON_INVALID, "device (type %d, id %d) belongs to no backend", (int)device.type,
                   (int)device.id);
  return tn_device_tensor_create(device, dtype, ndim, shape, out_tensor);
}

/* Copies the memory of a tensor to the host, where the caller frees it, and makes a view of the
 * same elements over that copy. */
static tenon_status_t span_to_host(const tenon_tensor_t *tensor, tenon_tensor_t *out_view,
                                   char **out_memory) {
  char *begin = NULL;
  char *end = NULL;
  *out_view = *tensor;
  *out_memory = NULL;
  out_view->keys = (tensor->keys & TN_KEY_STRIDED) | TN_KEY_CPU;
  out_view->device = (tenon_device_t){1, 0};
  out_view->detail = NULL;
  if (!tn_tensor_span(tensor, &begin, &end)) return TENON_OK; /* no elements */
  size_t size = (size_t)(end - begin);
  if (!(*out_memory = tn_allocate_aligned(size))) return tn_no_memory("a copy on the host", size);
  out_view->data = *out_memory + (tn_address(tensor) - begin);
  out_view->byte_offset = 0;
  return tn_bytes_copy(tn_bytes_of(tensor, begin), tn_bytes_of_host(*out_memory), size);
}

/* Returns whether a tensor is dense and on a device whose plug-in copies it without the host
 * reading the elements. */
static bool is_direct(const tenon_tensor_t *t) {
  return !(t->keys & (TN_KEY_STRIDED | TN_KEY_DETAIL)) && !tn_dtype_is(t->dtype, TENON_LIST) &&
         tn_plugin_of(t->device) != NULL;
}

static tenon_status_t copy_bytes(const tenon_tensor_t *from, tenon_tensor_t *to) {
  uint64_t size = 0;
  /* This cannot fail, since the tensor exists. */
  (void)tn_dtype_bytes(from->dtype, tenon_count(from), &size);
  return tn_bytes_copy(tn_bytes_of(from, tn_address(from)), tn_bytes_of(to, tn_address(to)), size);
}

static tenon_status_t copy_across(const tenon_tensor_t *tensor, tenon_device_t device,
                                  tenon_tensor_t **out_tensor) {
  TN_TRY(tenon_tensor_create_on(device, tensor->dtype, tensor->ndim, tensor->shape, out_tensor));
  tenon_status_t status = copy_bytes(tensor, *out_tensor);
  if (status != TENON_OK) {
    tenon_tensor_release(*out_tensor);
    *out_tensor = NULL;
  }
  return status;
}

static tenon_status_t copy_from_host(const tenon_tensor_t *tensor, tenon_device_t device,
                                     tenon_tensor_t **out_tensor) {
  tenon_tensor_t *dense = NULL;
  if (device.type == 1) return tenon_tensor_copy(tensor, out_tensor);
  if (tn_layout(tensor))
    return tn_fail(TENON_UNIMPLEMENTED,
                   "a sparse tensor (%s) cannot be copied to a device: make it dense first "
                   "(core::to_dense)",
                   tn_layout_name(tn_layout(tensor)));
  if (!(tensor->keys & (TN_KEY_STRIDED | TN_KEY_DETAIL)) && tensor->dtype.code < 200)
    return copy_across(tensor, device, out_tensor);
  TN_TRY(tenon_tensor_copy(tensor, &dense));
  tenon_status_t status =
      tenon_tensor_create_on(device, tensor->dtype, tensor->ndim, tensor->shape, out_tensor);
  /* Nothing else uses the dense copy, so the transfer need not be waited for. */
  if (status == TENON_OK) {
    status = copy_begin(dense, *out_tensor);
    if (status != TENON_OK) {
      tenon_tensor_release(*out_tensor);
      *out_tensor = NULL;
    }
  }
  tenon_tensor_release(dense);
  return status;
}

/* Returns the size of an element if it is 1, 2, 4 or 8 bytes; 0: it is not. */
static uint32_t item_size(tenon_dtype_t dtype) {
  const uint32_t bits = (uint32_t)dtype.bits * dtype.lanes;
  const bool is_power = bits >= 8 && bits <= 64 && !(bits & (bits - 1));
  return is_power && dtype.code < 200 ? bits / 8 : 0;
}

/* Returns whether a tensor is on a device that itself compiles copies between strides, which move
 * elements of these sizes. */
static bool copies_strides(const tenon_tensor_t *t) {
  const tn_backend_t *backend = tn_backend_of(t->device);
  return backend && !is_on_cpu(t) && !(t->keys & TN_KEY_DETAIL) && item_size(t->dtype) &&
         __atomic_load_n(&backend->compiles, __ATOMIC_RELAXED);
}

/* Copies by core::contiguous; *to NULL: the call creates the result. */
static tenon_status_t copy_on_device(const tenon_tensor_t *from, tenon_tensor_t **to) {
  const tenon_op_t *op;
  tenon_tensor_t *input = (tenon_tensor_t *)(uintptr_t)from;
  TN_TRY(find_builtin("core::contiguous", &op));
  tn_thread_calls_t calls = tn_calls_without_layers();
  tenon_status_t status =
      *to ? tn_device_calls.run(op, NULL, &input, to) : tn_device_calls.call(op, NULL, &input, to);
  tn_thread()->calls = calls;
  return status;
}

tenon_status_t tenon_tensor_copy_to(const tenon_tensor_t *tensor, tenon_device_t device,
                                    tenon_tensor_t **out_tensor) {
  tenon_tensor_t view;
  char *memory;
  TN_TRY(tenon_start());
  *out_tensor = NULL;
  if (is_on_cpu(tensor)) return copy_from_host(tensor, device, out_tensor);
  if (tn_dtype_is(tensor->dtype, TENON_LIST) || tensor->detail)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "a list or a quantised tensor cannot be copied between devices");
  if (device.type > 0 && is_direct(tensor)) return copy_across(tensor, device, out_tensor);
  bool is_there = tensor->device.type == device.type && tensor->device.id == device.id;
  if (is_there && copies_strides(tensor)) return copy_on_device(tensor, out_tensor);
  tenon_status_t status = span_to_host(tensor, &view, &memory);
  if (status == TENON_OK) status = copy_from_host(&view, device, out_tensor);
  tn_release_aligned(memory);
  return status;
}

tenon_status_t tenon_tensor_create_pinned(tenon_device_t device, tenon_dtype_t dtype, int32_t ndim,
                                          const int64_t *shape, tenon_tensor_t **out_tensor) {
  tn_ordinal_t *ordinal;
  tn_memory_t *memory;
  tn_storage_t *storage;
  uint64_t size;
  TN_TRY(tenon_start());
  TN_TRY(tn_ordinal_get(device, &ordinal));
  int64_t count = ndim < 0 || ndim > TENON_RANK_MAX ? -1 : tn_shape_count(ndim, shape);
  if (count < 0 || !tn_dtype_bytes(dtype, count, &size) || size > INT64_MAX || dtype.code >= 200)
    return tn_fail(TENON_INVALID, "a tensor of %s cannot be made for copies of a device",
                   tn_dtype_name(dtype));
  TN_TRY(tn_memory_get_pinned(ordinal, size, &memory));
  tenon_status_t status = tn_storage_create((char *)memory->handle + memory->offset, size,
                                            tn_memory_put, memory, &storage);
  if (status != TENON_OK) {
    tn_memory_put(memory);
    return status;
  }
  status = tn_tensor_over(storage, storage->data, dtype, ndim, shape, NULL, out_tensor);
  tn_storage_release(storage);
  return status;
}

tenon_status_t tenon_tensor_copy_async(const tenon_tensor_t *from, tenon_tensor_t *to) {
  char a[128], b[128];
  TN_TRY(tenon_start());
  bool is_same = tn_dtype_same(from->dtype, to->dtype) && from->ndim == to->ndim;
  for (int32_t i = 0; i < from->ndim && is_same; i++)
    is_same = from->shape[i] == to->shape[i];
  if (!is_same)
    return tn_fail(TENON_INVALID, "a copy of %s %s cannot go to %s %s", tn_dtype_name(from->dtype),
                   tn_shape_print(from->ndim, from->shape, a, sizeof a), tn_dtype_name(to->dtype),
                   tn_shape_print(to->ndim, to->shape, b, sizeof b));
  if (!tn_tensor_written(to))
    return tn_fail(TENON_INVALID, "a copy cannot go to a read-only tensor");
  if (is_on_cpu(from) && is_on_cpu(to)) return tn_tensor_copy_into(from, to);
  bool is_dense =
      !((from->keys | to->keys) & (TN_KEY_STRIDED | TN_KEY_DETAIL)) && from->dtype.code < 200;
  if (is_dense && (is_direct(from) || is_on_cpu(from)) && (is_direct(to) || is_on_cpu(to)))
    return copy_begin(from, to);
  return tn_device_tensor_copy(from, to);
}

/* layouts */

static bool is_meta(const tenon_tensor_t *t) { return t->keys & TN_KEY(TN_BIT_META); }

tenon_status_t tn_device_tensor_create_like(const tenon_tensor_t *tensor, bool with_elements,
                                            tenon_tensor_t **out_tensor) {
  const tenon_tensor_t *t = tensor;
  if (is_meta(t)) return tn_meta_tensor_create(t->dtype, t->ndim, t->shape, NULL, out_tensor);
  if (is_on_cpu(t) && with_elements) return tenon_tensor_copy(t, out_tensor);
  if (with_elements) return tenon_tensor_copy_to(t, t->device, out_tensor);
  return tn_device_tensor_create(t->device, t->dtype, t->ndim, t->shape, out_tensor);
}

/* Copies elements of the host into a tensor on a device. Memory between the tensor's elements keeps
 * its contents. */
static tenon_status_t copy_scattered(const tenon_tensor_t *from, tenon_tensor_t *to) {
  tenon_tensor_t view;
  char *memory;
  char *begin = NULL;
  char *end = NULL;
  tenon_status_t status = span_to_host(to, &view, &memory);
  if (status == TENON_OK && tn_tensor_span(to, &begin, &end)) {
    status = tn_tensor_copy_into(from, &view);
    if (status == TENON_OK)
      status =
          tn_bytes_copy(tn_bytes_of_host(memory), tn_bytes_of(to, begin), (uint64_t)(end - begin));
  }
  tn_release_aligned(memory);
  return status;
}

tenon_status_t tn_device_tensor_copy(const tenon_tensor_t *from, tenon_tensor_t *to) {
  tenon_tensor_t *host;
  if (is_on_cpu(from) && is_on_cpu(to)) return tn_tensor_copy_into(from, to);
  if (tn_layout(from) || tn_layout(to)) return tn_sparse_copy_into(from, to);
  if (is_meta(from) || is_meta(to)) return TENON_OK;
  bool is_same = tn_dtype_same(from->dtype, to->dtype) && from->ndim == to->ndim;
  for (int32_t i = 0; i < from->ndim && is_same; i++)
    is_same = from->shape[i] == to->shape[i];
  if (is_same && (is_direct(from) || is_on_cpu(from)) && (is_direct(to) || is_on_cpu(to)) &&
      !((from->keys | to->keys) & (TN_KEY_STRIDED | TN_KEY_DETAIL)))
    return copy_bytes(from, to);
  bool is_there = from->device.type == to->device.type && from->device.id == to->device.id;
  if (is_same && is_there && copies_strides(from) && copies_strides(to)) {
    if (!tn_tensors_overlap(from, to)) return copy_on_device(from, &to);
    tenon_tensor_t *between = NULL;
    TN_TRY(copy_on_device(from, &between));
    tenon_status_t status = copy_on_device(between, &to);
    tenon_tensor_release(between);
    return status;
  }
  TN_TRY(tenon_tensor_copy_to(from, (tenon_device_t){1, 0}, &host));
  tenon_status_t status;
  if (is_on_cpu(to))
    status = tn_tensor_copy_into(host, to);
  else
    status = is_same && is_direct(to) ? copy_bytes(host, to) : copy_scattered(host, to);
  tenon_tensor_release(host);
  return status;
}

/* Fills a dense tensor by the plug-in; false: it cannot. */
static bool fill_by_plugin(tenon_tensor_t *to, const void *element, tenon_status_t *out_status) {
  tn_bytes_t bytes = tn_bytes_of(to, tn_address(to));
  tn_end_t end;
  const uint32_t item = item_size(to->dtype);
  if (!is_direct(to) || !item || !end_of(&bytes, &end) || !end.ordinal ||
      !tn_ordinal_fills(end.ordinal))
    return false;
  *out_status = tn_fill_begin(&end, (uint64_t)tenon_count(to) * item, element, item, "fill");
  return true;
}

/* Fills by a copy of a tensor that has the element everywhere: all strides are 0. */
static tenon_status_t fill_by_copy(tenon_tensor_t *to, const void *element) {
  const int64_t none[TENON_RANK_MAX] = {0};
  tenon_tensor_t scalar;
  tenon_tensor_t *there = NULL;
  tenon_tensor_t *everywhere = NULL;
  TN_TRY(tenon_tensor_view(&scalar, (void *)(uintptr_t)element, to->dtype, 0, NULL, NULL, NULL));
  const tenon_device_t device = copies_strides(to) ? to->device : (tenon_device_t){1, 0};
  tenon_status_t status = tenon_tensor_copy_to(&scalar, device, &there);
  if (status == TENON_OK)
    status = tenon_tensor_part(there, to->dtype, 0, to->ndim, to->shape, none, &everywhere);
  if (status == TENON_OK) status = tn_device_tensor_copy(everywhere, to);
  tenon_tensor_release(everywhere);
  tenon_tensor_release(there);
  return status;
}

tenon_status_t tenon_tensor_fill(tenon_tensor_t *to, const void *element) {
  tenon_status_t status;
  TN_TRY(tenon_start());
  if (to->dtype.code >= 200 || to->dtype.bits < 8 || tn_layout(to) || to->detail)
    return tn_fail(TENON_INVALID,
                   "only a dense tensor of numbers of at least 8 bits can be filled, found %s%s",
                   tn_dtype_name(to->dtype), to->detail ? " with a scale" : "");
  if (!tn_tensor_written(to)) return tn_fail(TENON_INVALID, "a read-only tensor cannot be filled");
  if (is_meta(to) || !tenon_count(to)) return TENON_OK;
  return fill_by_plugin(to, element, &status) ? status : fill_by_copy(to, element);
}
