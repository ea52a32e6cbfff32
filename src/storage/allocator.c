/* Allocators that programs provide for tensors on devices, such as a framework's, so that one cache
 * serves both.  The thread's allocator is called where a tensor is created on a device.  Invariant:
 * what an allocator returns is checked before anything is written to it, and an allocator is never
 * called from within itself. */
#include "storage/allocator.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "device/plugin.h"

enum { ALIGNMENT = 64 }; /* the host's own alignment, which kernels rely on */

const tenon_allocator_t *tenon_allocator_use(const tenon_allocator_t *allocator) {
  tn_thread_calls_t *calls = &tn_thread()->calls;
  const tenon_allocator_t *before = calls->allocator;
  calls->allocator = allocator;
  return before;
}

static tenon_status_t check_tensor(tenon_tensor_t *made, tenon_device_t device, tenon_dtype_t dtype,
                                   int32_t ndim, const int64_t *shape) {
  char expected[160], found[160];
  const bool is_there = made->device.type == device.type && made->device.id == device.id;
  if (!is_there || !tn_dtype_same(made->dtype, dtype) || made->ndim != ndim ||
      made->keys & TN_KEY_STRIDED ||
      memcmp(made->shape, shape, (size_t)ndim * sizeof *shape) != 0) {
    const char *device_note = is_there ? "" : " of another device";
    const char *gaps_note = made->keys & TN_KEY_STRIDED ? " with gaps" : "";
    return tn_fail(
        TENON_INVALID,
        "the allocator that was set gave %s %s%s%s: expected a dense %s %s of the device that was "
        "asked for",
        tn_dtype_name(made->dtype), tn_shape_print(made->ndim, made->shape, found, sizeof found),
        device_note, gaps_note, tn_dtype_name(dtype),
        tn_shape_print(ndim, shape, expected, sizeof expected));
  }
  if (!tn_tensor_written(made))
    return tn_fail(TENON_INVALID, "the allocator that was set gave a tensor that is read-only");
  const uint64_t at =
      tn_device_has_handles(device) ? made->byte_offset : (uintptr_t)tn_address(made);
  if (at % ALIGNMENT == 0) return TENON_OK;
  return tn_fail(TENON_INVALID,
                 "the allocator that was set gave memory at %llu: expected a multiple of %d",
                 (unsigned long long)at, ALIGNMENT);
}

tenon_status_t tn_allocator_create(tenon_device_t device, tenon_dtype_t dtype, int32_t ndim,
                                   const int64_t *shape, tenon_tensor_t **out_tensor) {
  const char *why = "it says no reason";
  *out_tensor = NULL;
  if (!tn_plugin_of(device)) return TENON_OK;
  const tenon_allocator_t *allocator = tenon_allocator_use(NULL);
  tenon_status_t status =
      allocator->create(allocator->state, device, dtype, ndim, shape, out_tensor, &why);
  (void)tenon_allocator_use(allocator);
  if (status != TENON_OK) {
    *out_tensor = NULL;
    return tn_fail(status, "the allocator that was set failed: %s", why);
  }
  if (*out_tensor) status = check_tensor(*out_tensor, device, dtype, ndim, shape);
  if (status != TENON_OK) {
    tenon_tensor_release(*out_tensor);
    *out_tensor = NULL;
  }
  return status;
}
