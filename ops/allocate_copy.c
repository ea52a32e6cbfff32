/* core::allocate and core::copy: memory of a device, and copies to, from and within it. Every
 * device registers kernels of these two operators for its backend; on the CPU they use malloc and
 * memcpy. The host calls them when tensors are created or moved; their contracts are the
 * documentation strings below. */
#include "copy.h"
#include <stdlib.h>

/* The extent has no bound: the kernel brings the memory. */
static tenon_status_t allocate_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] = tenon_dim(infer, TENON_DIM_BOUND, tenon_extent(-1), tenon_extent(0));
  return TENON_OK;
}

/* Allocates at least 64 bytes, aligned to 64, so that size 0 is not special. */
static tenon_status_t allocate_run(tenon_call_t *call) {
  int64_t size = call->attrs[0].as.i;
  void *data =
      size >= 0 && size < INT64_MAX - 64 ? aligned_alloc(64, (size_t)((size + 64) / 64 * 64)) : 0;
  if (!data) return tenon_fail(call, TENON_MEMORY, "out of memory for %lld bytes", (long long)size);
  return call->host->adopt(call, 0, 1, &size, data, free, data);
}

static tenon_status_t copy_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *y = call->inputs[1];
  move_t move;
  if (x->ndim != y->ndim)
    return tenon_fail(call, TENON_INVALID, "x has %d dimensions and y has %d; they must be equal",
                      x->ndim, y->ndim);
  move_begin(&move, y, x);
  for (int32_t i = 0; i < x->ndim; i++) {
    if (x->shape[i] != y->shape[i])
      return tenon_fail(call, TENON_INVALID,
                        "extent %d is %lld in x and %lld in y; they must be equal", i,
                        (long long)x->shape[i], (long long)y->shape[i]);
    move_axis(&move, x->shape[i], x->strides[i], y->strides[i]);
  }
  return core_move(call, &move);
}

/* clang-format off */
TENON_ITEMS(core_memory,
  TENON_OP("allocate(*, int size, device device='cpu') -> Tensor",
    TENON_DOC("Allocates `size` bytes of device memory, as a tensor of u8 with undefined "
              "contents.\nA device's kernel gets a `size` of 0 or more and passes its memory to "
              "host->adopt."),
    TENON_TYPES("out = u8"),
    TENON_INFER(allocate_infer),
    TENON_KERNEL("cpu", allocate_run)),
  TENON_OP("copy(Tensor x, Tensor(a!) y) -> ()",
    TENON_DOC("Copies x into y, which has the same dtype and shape.\n"
              "A device's kernel gets dense tensors of u8 with one axis. "
              "At least one is on the device; "
              "the other is on the device or in host memory. Neither is empty, "
              "and they do not overlap."),
    TENON_TYPES("x: any; y = x"),
    TENON_WHERE("x, y: anywhere"),
    TENON_KERNEL("cpu strided", copy_run)))
/* clang-format on */
