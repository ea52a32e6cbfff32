/* What every device must have: memory, and copies of it.  A device registers kernels of these two
 * for its backend; on the CPU memory is malloc's.  The host calls them where tensors are made or
 * moved, so their contracts stand here. */
#include "copy.h"
#include <stdlib.h>

/* An extent without a bound: the kernel brings the memory. */
static tenon_status_t allocate_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] = tenon_dim(infer, TENON_DIM_BOUND, tenon_extent(-1), tenon_extent(0));
  return TENON_OK;
}

/* At least 64 bytes, so that no size is special, and aligned to 64. */
static tenon_status_t allocate_run(tenon_call_t *call) {
  int64_t size = call->attrs[0].as.i;
  void *data =
      size >= 0 && size < INT64_MAX - 64 ? aligned_alloc(64, (size_t)((size + 64) / 64 * 64)) : 0;
  if (!data) return tenon_fail(call, TENON_MEMORY, "no memory for %lld bytes", (long long)size);
  return call->host->adopt(call, 0, 1, &size, data, free, data);
}

static tenon_status_t copy_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *y = call->inputs[1];
  move_t move;
  if (x->ndim != y->ndim)
    return tenon_fail(call, TENON_INVALID, "tensors of %d and %d dimensions", x->ndim, y->ndim);
  move_begin(&move, y, x);
  for (int32_t i = 0; i < x->ndim; i++) {
    if (x->shape[i] != y->shape[i])
      return tenon_fail(call, TENON_INVALID,
                        "extent %d is %lld in one tensor and %lld in the other", i,
                        (long long)x->shape[i], (long long)y->shape[i]);
    move_axis(&move, x->shape[i], x->strides[i], y->strides[i]);
  }
  return core_move(call, &move);
}

/* clang-format off */
TENON_ITEMS(core_memory,
  TENON_OP("allocate(*, int size, device device='cpu') -> Tensor",
    TENON_DOC("Memory of a device: `size` bytes, contents undefined, "
              "as a tensor of u8.\nA kernel for a device gets `size` of 0 and more and hands its "
              "memory over by host->adopt."),
    TENON_TYPES("out = u8"),
    TENON_INFER(allocate_infer),
    TENON_KERNEL("cpu", allocate_run)),
  TENON_OP("copy(Tensor x, Tensor(a!) y) -> ()",
    TENON_DOC("Copies x into y, of the same dtype and shape.\nA kernel for a device gets dense "
              "tensors of u8 with one axis, of which at least one is on the device and the other "
              "there or in host memory; neither is empty and they do not overlap."),
    TENON_TYPES("x: any; y = x"),
    TENON_WHERE("x, y: anywhere"),
    TENON_KERNEL("cpu strided", copy_run)))
/* clang-format on */
