/* DLPack both ways, versioned and legacy, without copies.  Import owns the managed struct; export holds a reference. */
#include "core/dlpack.h"

#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/tensor.h"

static tenon_status_t import(const tn_dl_tensor_t *dl, tenon_free_fn release, void *context,
                             tenon_tensor_t **out_tensor) {
  if (dl->device.type != 1)
    return tn_fail(TENON_UNIMPLEMENTED, "DLPack device type %d: this version takes tensors in host memory (type 1)",
                   (int)dl->device.type);
  if (tn_dtype_index(dl->dtype) < 0 || dl->dtype.code >= 200)
    return tn_fail(TENON_INVALID, "DLPack dtype (code %d, bits %d, lanes %d) is not one of contract 1", dl->dtype.code,
                   dl->dtype.bits, dl->dtype.lanes);
  if (dl->ndim < 0 || dl->ndim > TENON_RANK_MAX || (dl->ndim > 0 && !dl->shape))
    return tn_fail(TENON_INVALID, "DLPack tensor of %d dimensions%s", (int)dl->ndim,
                   dl->shape ? "" : " without a shape");
  static char nothing[TN_ALIGNMENT]; /* what an empty tensor points to */
  bool is_empty = tn_shape_count(dl->ndim, dl->shape) == 0;
  void *data = dl->data ? (char *)dl->data + dl->byte_offset : is_empty ? nothing : NULL;
  return tenon_tensor_borrow(data, dl->dtype, dl->ndim, dl->shape, dl->strides, release, context, out_tensor);
}

static void drop_versioned(void *context) {
  struct DLManagedTensorVersioned *managed = context;
  if (managed->deleter) managed->deleter(managed);
}

static void drop_legacy(void *context) {
  struct DLManagedTensor *managed = context;
  if (managed->deleter) managed->deleter(managed);
}

tenon_status_t tenon_tensor_from_dlpack(struct DLManagedTensorVersioned *managed, tenon_tensor_t **out_tensor) {
  if (managed->version.major != 1)
    return tn_fail(TENON_INVALID, "DLPack version %u.%u: expected 1.x", managed->version.major, managed->version.minor);
  return import(&managed->dl_tensor, drop_versioned, managed, out_tensor);
}

tenon_status_t tenon_tensor_from_dlpack_legacy(struct DLManagedTensor *managed, tenon_tensor_t **out_tensor) {
  return import(&managed->dl_tensor, drop_legacy, managed, out_tensor);
}

static void delete_versioned(struct DLManagedTensorVersioned *managed) {
  tenon_tensor_release(managed->manager_ctx);
  tn_release_memory(managed);
}

static void delete_legacy(struct DLManagedTensor *managed) {
  tenon_tensor_release(managed->manager_ctx);
  tn_release_memory(managed);
}

static tenon_status_t can_leave(const tenon_tensor_t *tensor) {
  if (tensor->dtype.code >= 200)
    return tn_fail(TENON_INVALID, "a tensor of dtype %s cannot leave by DLPack", tn_dtype_name(tensor->dtype));
  if (!tn_tensor_is_owned(tensor)) return tn_fail(TENON_INVALID, "a view on the caller's stack cannot leave by DLPack");
  return TENON_OK;
}

static tn_dl_tensor_t plain(const tenon_tensor_t *t) {
  return (tn_dl_tensor_t){t->data, t->device, t->ndim, t->dtype, t->shape, t->strides, 0};
}

tenon_status_t tenon_tensor_to_dlpack(tenon_tensor_t *tensor, struct DLManagedTensorVersioned **out_managed) {
  TN_TRY(can_leave(tensor));
  struct DLManagedTensorVersioned *managed = tn_allocate(sizeof *managed);
  if (!managed) return tn_no_memory("a DLPack tensor", sizeof *managed);
  *managed = (struct DLManagedTensorVersioned){{1, 0}, tensor, delete_versioned, 0, plain(tensor)};
  tenon_tensor_retain(tensor);
  *out_managed = managed;
  return TENON_OK;
}

tenon_status_t tenon_tensor_to_dlpack_legacy(tenon_tensor_t *tensor, struct DLManagedTensor **out_managed) {
  TN_TRY(can_leave(tensor));
  struct DLManagedTensor *managed = tn_allocate(sizeof *managed);
  if (!managed) return tn_no_memory("a DLPack tensor", sizeof *managed);
  *managed = (struct DLManagedTensor){plain(tensor), tensor, delete_legacy};
  tenon_tensor_retain(tensor);
  *out_managed = managed;
  return TENON_OK;
}
