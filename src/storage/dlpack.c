/* DLPack in both directions, versioned and legacy, without a copy unless the caller asks for
 * one.  An imported tensor owns the managed struct; an exported one holds a reference and the
 * stream that the consumer uses. */
#include "core/dlpack.h"

#include <stddef.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "device/memory.h"
#include "storage/device_memory.h"

/* Flags of the versioned form. PADDED: each element of less than a byte takes a byte of its own. */
enum {
  READ_ONLY = 1,
  COPIED = 2,
  PADDED = 4,
};

static const tenon_dlpack_t usual = {.size = sizeof usual};

/* import */

/* Checks the device of an import. Type 12 is shared by all devices without a type of their own:
 * which device is meant is known only for our own exports. */
static tenon_status_t device_of(const tn_dl_tensor_t *dl, bool is_ours,
                                const tenon_dlpack_t *options, tenon_device_t *out_device) {
  tenon_device_t said = options->device;
  tenon_device_t found = dl->device;
  bool is_known = found.type != 12 || is_ours;
  bool fits = !is_known || said.type == found.type;
  *out_device = said.type ? said : found;
  if (!said.type && !is_known)
    return tn_fail(
        TENON_INVALID,
        "DLPack device (type 12, id %d): extensions share that type; say which device it is",
        (int)found.id);
  if (said.type && (!fits || (is_known && said.id != found.id)))
    return tn_fail(TENON_INVALID,
                   "the tensor is on DLPack device (type %d, id %d): expected (type %d, id %d)",
                   (int)found.type, (int)found.id, (int)said.type, (int)said.id);
  if (out_device->type == 1 || tn_plugin_of(*out_device)) return TENON_OK;
  return tn_fail(
      TENON_NOT_FOUND,
      "DLPack device (type %d, id %d) belongs to no device that was opened; name it first "
      "(tenon_device_find), or copy the tensor to host memory (type 1)",
      (int)found.type, (int)found.id);
}

static tenon_status_t import(const tn_dl_tensor_t *dl, bool is_ours, uint64_t flags,
                             const tenon_dlpack_t *options, tenon_free_fn release, void *context,
                             tenon_tensor_t **out_tensor) {
  static char nothing[TN_ALIGNMENT]; /* the address of a tensor without elements */
  tenon_external_t e = {.size = sizeof e, .release = release, .context = context};
  options = options ? options : &usual;
  if (tn_dtype_index(dl->dtype) < 0 || dl->dtype.code >= 200)
    return tn_fail(TENON_INVALID,
                   "DLPack dtype (code %d, bits %d, lanes %d) is not one of contract 1",
                   dl->dtype.code, dl->dtype.bits, dl->dtype.lanes);
  if (dl->dtype.bits < 8 && flags & PADDED)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "DLPack tensor of %s with a byte for each element: expected packed ones",
                   tn_dtype_name(dl->dtype));
  if (dl->ndim < 0 || dl->ndim > TENON_RANK_MAX || (dl->ndim > 0 && !dl->shape))
    return tn_fail(TENON_INVALID, "DLPack tensor of %d dimensions%s", (int)dl->ndim,
                   dl->shape ? "" : " without a shape");
  TN_TRY(device_of(dl, is_ours, options, &e.device));
  bool is_empty = tn_shape_count(dl->ndim, dl->shape) == 0;
  e.data = dl->data;
  if (!dl->data && is_empty) e.data = nothing;
  e.byte_offset = dl->data ? dl->byte_offset : 0;
  e.dtype = dl->dtype;
  e.ndim = dl->ndim;
  e.shape = dl->shape;
  e.strides = dl->strides;
  e.stream = options->stream;
  e.flags = flags & READ_ONLY ? TENON_EXTERNAL_READ_ONLY : 0;
  return tenon_tensor_import(&e, out_tensor);
}

static void drop_versioned(void *context) {
  struct DLManagedTensorVersioned *managed = context;
  if (managed->deleter) managed->deleter(managed);
}

static void drop_legacy(void *context) {
  struct DLManagedTensor *managed = context;
  if (managed->deleter) managed->deleter(managed);
}

static void delete_versioned(struct DLManagedTensorVersioned *managed);
static void delete_legacy(struct DLManagedTensor *managed);

tenon_status_t tenon_tensor_from_dlpack_on(struct DLManagedTensorVersioned *managed,
                                           const tenon_dlpack_t *options,
                                           tenon_tensor_t **out_tensor) {
  if (managed->version.major != 1)
    return tn_fail(TENON_INVALID, "DLPack version %u.%u: expected 1.x", managed->version.major,
                   managed->version.minor);
  bool is_ours = managed->deleter == delete_versioned;
  return import(&managed->dl_tensor, is_ours, managed->flags, options, drop_versioned, managed,
                out_tensor);
}

tenon_status_t tenon_tensor_from_dlpack_legacy_on(struct DLManagedTensor *managed,
                                                  const tenon_dlpack_t *options,
                                                  tenon_tensor_t **out_tensor) {
  bool is_ours = managed->deleter == delete_legacy;
  return import(&managed->dl_tensor, is_ours, 0, options, drop_legacy, managed, out_tensor);
}

tenon_status_t tenon_tensor_from_dlpack(struct DLManagedTensorVersioned *managed,
                                        tenon_tensor_t **out_tensor) {
  return tenon_tensor_from_dlpack_on(managed, NULL, out_tensor);
}

tenon_status_t tenon_tensor_from_dlpack_legacy(struct DLManagedTensor *managed,
                                               tenon_tensor_t **out_tensor) {
  return tenon_tensor_from_dlpack_legacy_on(managed, NULL, out_tensor);
}

/* export */

/* The record that a consumer of an export holds. */
typedef struct export_t {
  union {
    struct DLManagedTensorVersioned versioned;
    struct DLManagedTensor legacy;
  } as;
  tenon_tensor_t *tensor;
  tenon_stream_t *stream; /* the stream in which the consumer uses the memory; NULL: unknown */
} export_t;

/* Orders later work on the memory after the consumer's work in its stream. */
static void end_export(export_t *e) {
  if (e->stream) tn_memory_lent(tn_memory_of(e->tensor), e->stream);
  tenon_tensor_release(e->tensor);
  tn_release_memory(e);
}

static void delete_versioned(struct DLManagedTensorVersioned *managed) {
  end_export(managed->manager_ctx);
}
static void delete_legacy(struct DLManagedTensor *managed) { end_export(managed->manager_ctx); }

static tenon_status_t check_exportable(const tenon_tensor_t *tensor) {
  if (tensor->dtype.code >= 200)
    return tn_fail(TENON_INVALID, "a tensor of dtype %s cannot leave by DLPack",
                   tn_dtype_name(tensor->dtype));
  if (!tn_tensor_is_owned(tensor))
    return tn_fail(TENON_INVALID, "a view on the caller's stack cannot leave by DLPack");
  if (tensor->detail)
    return tn_fail(TENON_INVALID, "a %s tensor cannot leave by DLPack%s",
                   tenon_tensor_layout(tensor),
                   tensor->detail->kind == TENON_DETAIL_QUANTISED
                       ? ""
                       : ": its parts can, and what core::to_dense makes");
  if (tensor->device.type == 0)
    return tn_fail(TENON_INVALID, "a tensor without data cannot leave by DLPack");
  return TENON_OK;
}

/* Orders the consumer's stream after all work on the memory, which the consumer may write to.
 * Without a stream, the host waits for that work. */
static tenon_status_t order_export(const tenon_tensor_t *tensor, const tenon_dlpack_t *options) {
  tn_memory_t *memory = tn_memory_of(tensor);
  tenon_stream_t *stream = options->stream;
  tn_needs_t needs = {0};
  if (stream && (!memory || tensor->device.type == 1 || stream->ordinal != memory->ordinal))
    return tn_fail(TENON_INVALID,
                   "the consumer's stream is not of the tensor's device (type %d, id %d)",
                   (int)tensor->device.type, (int)tensor->device.id);
  if (!memory || options->flags & TENON_DLPACK_UNORDERED) return TENON_OK;
  if (!stream) return tn_memory_wait(memory);
  TN_TRY(tn_stream_check(stream));
  uint64_t ticket = tn_stream_ticket(stream, "export by DLPack");
  tenon_status_t status = tn_memory_use(memory, stream, ticket, true, &needs);
  if (status == TENON_OK) status = tn_stream_follow(stream, &needs);
  tn_stream_ended(stream);
  return status;
}

/* Creates the record that a consumer holds, and describes the tensor for the struct that the
 * consumer gets. */
static tenon_status_t lend_tensor(tenon_tensor_t *tensor, const tenon_dlpack_t *options,
                                  export_t **out_export, tn_dl_tensor_t *out_tensor) {
  tenon_tensor_t *t = tensor;
  options = options ? options : &usual;
  TN_TRY(check_exportable(t));
  if (options->flags & TENON_DLPACK_COPY)
    TN_TRY(tenon_tensor_copy_to(tensor, tensor->device, &t));
  else
    tenon_tensor_retain(t);
  export_t *e = tn_allocate_zero(1, sizeof *e);
  tenon_status_t status = e ? order_export(t, options) : tn_no_memory("a DLPack tensor", sizeof *e);
  if (status != TENON_OK) {
    tn_release_memory(e);
    tenon_tensor_release(t);
    return status;
  }
  e->tensor = t;
  e->stream = options->stream;
  if (e->stream) tenon_stream_retain(e->stream);
  *out_export = e;
  *out_tensor =
      (tn_dl_tensor_t){t->data, t->device, t->ndim, t->dtype, t->shape, t->strides, t->byte_offset};
  return TENON_OK;
}

tenon_status_t tenon_tensor_to_dlpack_on(tenon_tensor_t *tensor, const tenon_dlpack_t *options,
                                         struct DLManagedTensorVersioned **out_managed) {
  export_t *e;
  tn_dl_tensor_t dl;
  bool is_copied = options && options->flags & TENON_DLPACK_COPY;
  TN_TRY(lend_tensor(tensor, options, &e, &dl));
  uint64_t flags = is_copied ? COPIED : 0;
  if (tn_tensor_is_read_only(e->tensor)) flags |= READ_ONLY;
  *out_managed = &e->as.versioned;
  **out_managed = (struct DLManagedTensorVersioned){{1, 0}, e, delete_versioned, flags, dl};
  return TENON_OK;
}

tenon_status_t tenon_tensor_to_dlpack_legacy_on(tenon_tensor_t *tensor,
                                                const tenon_dlpack_t *options,
                                                struct DLManagedTensor **out_managed) {
  export_t *e;
  tn_dl_tensor_t dl;
  bool is_copied = options && options->flags & TENON_DLPACK_COPY;
  if (!is_copied && tn_tensor_is_read_only(tensor))
    return tn_fail(TENON_INVALID,
                   "a read-only tensor cannot leave by the legacy form of DLPack, which cannot say "
                   "so: expected the versioned form, or a copy (TENON_DLPACK_COPY)");
  TN_TRY(lend_tensor(tensor, options, &e, &dl));
  *out_managed = &e->as.legacy;
  **out_managed = (struct DLManagedTensor){dl, e, delete_legacy};
  return TENON_OK;
}

tenon_status_t tenon_tensor_to_dlpack(tenon_tensor_t *tensor,
                                      struct DLManagedTensorVersioned **out_managed) {
  return tenon_tensor_to_dlpack_on(tensor, NULL, out_managed);
}

tenon_status_t tenon_tensor_to_dlpack_legacy(tenon_tensor_t *tensor,
                                             struct DLManagedTensor **out_managed) {
  return tenon_tensor_to_dlpack_legacy_on(tensor, NULL, out_managed);
}
