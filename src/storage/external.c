/* Tensors over memory that somebody else owns, ordered with a stream of the owner.  Programs that
 * pass on a framework's memory use it, and so does DLPack.  Invariant: nothing is copied, and when
 * a function fails the memory still belongs to the caller. */
#include <stddef.h>
#include <stdio.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/reason.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "device/memory.h"
#include "storage/device_memory.h"

/* Computes the range of bytes that contains the elements, counted from the first element. Errors:
 * the strides reach too far, or elements that share bytes are not dense. */
static tenon_status_t span_of(const tenon_external_t *e, int64_t *out_low, int64_t *out_high) {
  int64_t low = 0;
  int64_t high = 0;
  int64_t size = e->dtype.bits * e->dtype.lanes;
  int64_t dense[TENON_RANK_MAX], reach;
  const int64_t *strides = e->strides ? e->strides : dense;
  bool fits = true;
  if (!e->strides) tn_strides_dense(e->ndim, e->shape, dense);
  for (int32_t i = 0; i < e->ndim && fits; i++) {
    fits = tn_mul(e->shape[i] - 1, strides[i], &reach);
    int64_t *end = fits && reach < 0 ? &low : &high;
    fits = fits && tn_add(*end, reach, end);
  }
  fits = fits && tn_add(high, 1, &high) && tn_mul(low, size, &low) && tn_mul(high, size, &high);
  if (!fits) return tn_fail(TENON_INVALID, "strides of a tensor reach further than 62 bits");
  if (size % 8 && e->strides && !tn_is_dense(e->ndim, e->shape, e->strides))
    return tn_fail(TENON_INVALID, "a tensor of %s, whose elements share bytes, must be dense",
                   tn_dtype_name(e->dtype));
  *out_low = low / 8;
  *out_high = (high + 7) / 8;
  return TENON_OK;
}

static tenon_status_t check_dtype(const tenon_external_t *e, const tn_ordinal_t *o) {
  const uint32_t *stores = o->properties.stores;
  if (e->dtype.code >= 200)
    return tn_fail(TENON_INVALID, "memory of others as a tensor of %s: expected numbers",
                   tn_dtype_name(e->dtype));
  for (; stores && *stores; stores++)
    if (tn_dtype_same(tenon_dtype(*stores), e->dtype)) break;
  if (!o->properties.stores || *stores) return TENON_OK;
  return tn_fail(TENON_UNIMPLEMENTED, "device %s:%d does not store %s", o->plugin->name,
                 (int)o->context.ordinal, tn_dtype_name(e->dtype));
}

static tenon_status_t check_place(const tenon_external_t *e, const tn_ordinal_t *o, int64_t low) {
  uint64_t alignment = tn_dtype_alignment(e->dtype);
  uint64_t at = e->byte_offset + (o->is_handles ? 0 : (uintptr_t)e->data);
  if (!e->data)
    return tn_fail(TENON_INVALID,
                   "memory of others on device %s:%d is NULL, and its tensor has elements",
                   o->plugin->name, (int)o->context.ordinal);
  if (at % alignment)
    return tn_fail(
        TENON_INVALID,
        "memory of others as %s: its first element is at %s %llu: expected a multiple of %llu",
        tn_dtype_name(e->dtype), o->is_handles ? "offset" : "address", (unsigned long long)at,
        (unsigned long long)alignment);
  if (e->byte_offset > INT64_MAX / 2)
    return tn_fail(TENON_INVALID, "memory of others begins at offset %llu",
                   (unsigned long long)e->byte_offset);
  if (o->is_handles && (int64_t)e->byte_offset + low < 0)
    return tn_fail(
        TENON_INVALID,
        "negative strides of memory of others reach %lld bytes before the memory's begin",
        (long long)-((int64_t)e->byte_offset + low));
  return TENON_OK;
}

/* Creates a tensor over a memory record, and takes the record over. */
static tenon_status_t over(const tenon_external_t *e, const tn_ordinal_t *o, tn_memory_t *memory,
                           char *begin, uint64_t size, int64_t low, tenon_tensor_t **out_tensor) {
  tn_storage_t *storage;
  TN_TRY(tn_storage_create(begin, size, tn_memory_put, memory, &storage));
  storage->is_read_only = e->flags & TENON_EXTERNAL_READ_ONLY;
  char *first = begin - low;
  tenon_status_t status =
      tn_tensor_over(storage, first, e->dtype, e->ndim, e->shape, e->strides, out_tensor);
  /* After an error the caller still owns the record. */
  if (status != TENON_OK) storage->release = NULL;
  tn_storage_release(storage);
  if (status != TENON_OK) return status;
  if (o->is_handles) {
    (*out_tensor)->data = memory->handle;
    (*out_tensor)->byte_offset = (uint64_t)(first - (char *)memory->handle);
  }
  tn_tensor_set_device(*out_tensor, e->device);
  return TENON_OK;
}

static tenon_status_t import_there(const tenon_external_t *e, tn_ordinal_t *o,
                                   tenon_tensor_t **out_tensor) {
  int64_t low, high;
  void *handle;
  tn_memory_t *memory = NULL;
  TN_TRY(check_dtype(e, o));
  TN_TRY(span_of(e, &low, &high));
  TN_TRY(check_place(e, o, low));
  tenon_stream_t *stream = e->stream ? e->stream : tn_stream_current(o);
  if (stream->ordinal != o)
    return tn_fail(TENON_INVALID,
                   "the stream of others' memory is of device %s:%d, and the memory of %s:%d",
                   stream->ordinal->plugin->name, (int)stream->ordinal->context.ordinal,
                   o->plugin->name, (int)o->context.ordinal);
  TN_TRY(tn_stream_check(stream));
  bool is_imported = TN_SLOT(o->table, memory_import);
  if (!is_imported && o->is_handles)
    return tn_fail(TENON_UNIMPLEMENTED, "device %s takes no memory of others", o->plugin->name);
  /* A handle stands for the whole memory, an address for the first byte of the elements. */
  int64_t before = o->is_handles ? (int64_t)e->byte_offset + low : 0;
  char *native = o->is_handles ? e->data : (char *)e->data + e->byte_offset + low;
  uint64_t size = (uint64_t)(before + high - low);
  handle = native;
  if (is_imported) {
    const uint64_t errors = tn_error_count();
    tenon_status_t imported = o->table->memory_import(&o->context, native, size, &handle);
    if (tn_reason_complete(imported, errors, "", "memory_import") != TENON_OK)
      return tn_prefix(TENON_INVALID, "memory of others on device %s:%d: ", o->plugin->name,
                       (int)o->context.ordinal);
  }
  tn_owner_t owner = {e->release, e->context, is_imported, e->stream != NULL};
  tenon_status_t status = tn_memory_borrow(o, stream, handle, size, &owner, &memory);
  if (status == TENON_OK) {
    status = over(e, o, memory, (char *)handle + before, (uint64_t)(high - low), low, out_tensor);
    if (status == TENON_OK) return status;
    memory->owner->release = NULL; /* the owner keeps the memory and is not notified */
    tn_memory_put(memory);
  } else if (is_imported)
    o->table->memory_forget(&o->context, handle);
  return status;
}

/* Imports memory of the host or of a backend without a plug-in, which has an address. Nothing is
 * known about work on it. */
static tenon_status_t import_address(const tenon_external_t *e, tenon_tensor_t **out_tensor) {
  if (e->stream)
    return tn_fail(TENON_INVALID, "memory of others has a stream, and its device has none");
  char *data = e->data ? (char *)e->data + e->byte_offset : NULL;
  TN_TRY(tenon_tensor_borrow(data, e->dtype, e->ndim, e->shape, e->strides, e->release, e->context,
                             out_tensor));
  ((tn_tensor_t *)*out_tensor)->storage->is_read_only = e->flags & TENON_EXTERNAL_READ_ONLY;
  if (e->device.type != 1) tn_tensor_set_device(*out_tensor, e->device);
  return TENON_OK;
}

tenon_status_t tenon_tensor_import(const tenon_external_t *external, tenon_tensor_t **out_tensor) {
  const tenon_external_t *e = external;
  tn_ordinal_t *o;
  tenon_tensor_t *shape;
  TN_TRY(tenon_start());
  *out_tensor = NULL;
  if (!TENON_HAS(e, context))
    return tn_fail(TENON_INVALID, "tenon_external_t of %u bytes: expected at least %zu", e->size,
                   sizeof *e);
  const tn_backend_t *backend = tn_backend_of(e->device);
  if (!backend)
    return tn_fail(TENON_INVALID, "device (type %d, id %d) belongs to no backend",
                   (int)e->device.type, (int)e->device.id);
  if (!tn_plugin_of(e->device)) return import_address(e, out_tensor);
  TN_TRY(tn_ordinal_get(e->device, &o));
  /* This reports what is wrong with the shape. */
  TN_TRY(tn_meta_tensor_create(e->dtype, e->ndim, e->shape, e->strides, &shape));
  bool is_empty = tenon_count(shape) == 0;
  tenon_tensor_release(shape);
  if (!is_empty) return import_there(e, o, out_tensor);
  TN_TRY(check_dtype(e, o));
  /* A tensor without elements needs nothing of the owner's memory. */
  TN_TRY(tn_device_tensor_create(e->device, e->dtype, e->ndim, e->shape, out_tensor));
  if (e->release) e->release(e->context);
  return TENON_OK;
}

tenon_status_t tenon_tensor_borrow_on(tenon_device_t device, void *data, tenon_dtype_t dtype,
                                      int32_t ndim, const int64_t *shape, const int64_t *strides,
                                      tenon_free_fn release, void *context,
                                      tenon_tensor_t **out_tensor) {
  tenon_external_t external = {.size = sizeof external,
                               .device = device,
                               .data = data,
                               .dtype = dtype,
                               .ndim = ndim,
                               .shape = shape,
                               .strides = strides,
                               .release = release,
                               .context = context};
  const tn_backend_t *backend = tn_backend_of(device);
  if (backend == &tn_backend_meta && !data)
    return tn_meta_tensor_create(dtype, ndim, shape, strides, out_tensor);
  return tenon_tensor_import(&external, out_tensor);
}

void *tenon_tensor_context(const tenon_tensor_t *tensor, tenon_free_fn release) {
  const tn_storage_t *storage =
      tn_tensor_is_owned(tensor) ? ((const tn_tensor_t *)tensor)->storage : NULL;
  if (!storage) return NULL;
  /* Memory of the host, and of devices without a plug-in. */
  if (storage->release == release) return storage->context;
  const tn_memory_t *memory = storage->release == tn_memory_put ? storage->context : NULL;
  return memory && memory->owner && memory->owner->release == release ? memory->owner->context
                                                                      : NULL;
}
