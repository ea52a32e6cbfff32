/* New tensors with undefined contents: by shape, by strides, like another tensor, and in host
 * memory for copies to and from a device. The host allocates the results that infer describes on
 * the device of the call, so the kernels have nothing to do.
 * Invariant: for every format, no two elements share memory unless the caller stated strides. */
#include "axes.h"
#include <stdlib.h>

enum {
  CONTIGUOUS,
  CHANNELS_LAST,
  PRESERVE,
};

static tenon_status_t set_shape(tenon_infer_t *infer, const tenon_value_t *shape) {
  tenon_meta_t *out = infer->outputs[0];
  if (shape->count > TENON_RANK_MAX)
    return tenon_fail(infer, TENON_INVALID, "the shape has %u extents; a tensor has at most %d",
                      shape->count, TENON_RANK_MAX);
  out->ndim = (int32_t)shape->count;
  for (int32_t i = 0; i < out->ndim; i++) {
    if (shape->as.ints[i] < 0)
      return tenon_fail(infer, TENON_INVALID, "extent %d of the shape is %" PRId64, i,
                        shape->as.ints[i]);
    out->dims[i] = tenon_extent(shape->as.ints[i]);
  }
  return TENON_OK;
}

/* Sets strides without gaps; axis order[0] is the outermost. */
static void set_order(tenon_infer_t *infer, const int32_t *order) {
  tenon_meta_t *out = infer->outputs[0];
  tenon_dim_t stride = tenon_extent(1);
  out->strided = 1;
  for (int32_t i = out->ndim - 1; i >= 0; i--) {
    out->strides[order[i]] = stride;
    if (!dim_is(out->dims[order[i]], 0)) stride = dim_mul(infer, stride, out->dims[order[i]]);
  }
}

static tenon_status_t set_format(tenon_infer_t *infer, int64_t format) {
  const tenon_meta_t *out = infer->outputs[0];
  int32_t order[TENON_RANK_MAX];
  if (format != CHANNELS_LAST) return TENON_OK;
  if (out->ndim < 3)
    return tenon_fail(infer, TENON_INVALID,
                      "channels_last needs batch, channel and at least one spatial axis, but the "
                      "shape has %d axes",
                      out->ndim);
  for (int32_t i = 0; i < out->ndim; i++)
    order[i] = i == 0 ? 0 : i + 1;
  order[out->ndim - 1] = 1;
  set_order(infer, order);
  return TENON_OK;
}

static tenon_status_t empty_infer(tenon_infer_t *infer) {
  TENON_TRY(set_shape(infer, &infer->attrs[0]));
  return set_format(infer, infer->attrs[3].as.i);
}

static tenon_status_t empty_strided_infer(tenon_infer_t *infer) {
  const tenon_value_t *strides = &infer->attrs[1];
  tenon_meta_t *out = infer->outputs[0];
  TENON_TRY(set_shape(infer, &infer->attrs[0]));
  if ((int32_t)strides->count != out->ndim)
    return tenon_fail(infer, TENON_INVALID,
                      "shape has %d extents but strides %u; both must have the same number",
                      out->ndim, strides->count);
  out->strided = 1;
  for (int32_t i = 0; i < out->ndim; i++) {
    if (strides->as.ints[i] < 0)
      return tenon_fail(infer, TENON_INVALID, "stride %d is %" PRId64 "; expected 0 or more", i,
                        strides->as.ints[i]);
    out->strides[i] = tenon_extent(strides->as.ints[i]);
  }
  return TENON_OK;
}

/* Orders axes by the strides of x, largest first; equal strides keep their order. */
static void preserve_order(tenon_infer_t *infer, const tenon_meta_t *x) {
  int32_t order[TENON_RANK_MAX];
  for (int32_t i = 0; i < x->ndim; i++) {
    int32_t at = i;
    if (!tenon_is_known(x->strides[i])) return;
    for (; at > 0 && x->strides[order[at - 1]].value < x->strides[i].value; at--)
      order[at] = order[at - 1];
    order[at] = i;
  }
  set_order(infer, order);
}

static tenon_status_t empty_like_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  int64_t format = infer->attrs[1].as.i;
  out->dtype = infer->attrs[0].kind == TENON_KIND_NONE ? x->dtype : infer->attrs[0].as.dtype;
  out->ndim = x->ndim;
  for (int32_t i = 0; i < x->ndim; i++)
    out->dims[i] = x->dims[i];
  if (format == PRESERVE && x->strides) {
    preserve_order(infer, x);
    return TENON_OK;
  }
  return set_format(infer, format);
}

static tenon_status_t nothing_run(tenon_call_t *call) {
  (void)call;
  return TENON_OK;
}

/* pinned */

static tenon_status_t
pinned_infer(tenon_infer_t *infer) { /* no shape is bounded: the kernel brings the memory */
  TENON_TRY(set_shape(infer, &infer->attrs[0]));
  infer->outputs[0]->ndim = -1;
  return TENON_OK;
}

static tenon_status_t pinned_run(tenon_call_t *call) {
  const tenon_value_t *shape = &call->attrs[0];
  uint64_t size = call->outputs[0]->dtype.bits * call->outputs[0]->dtype.lanes; /* in bits */
  int fits = 1;
  for (uint32_t i = 0; i < shape->count; i++)
    fits = fits && !__builtin_mul_overflow(size, (uint64_t)shape->as.ints[i], &size);
  void *data = fits && size < (uint64_t)INT64_MAX
                   ? aligned_alloc(64, (size_t)((size / 8 + 128) / 64 * 64))
                   : 0;
  if (!data) return tenon_fail(call, TENON_MEMORY, "out of memory for a tensor of this shape");
  tenon_status_t status =
      call->host->adopt(call, 0, (int32_t)shape->count, shape->as.ints, data, free, data);
  if (status != TENON_OK) free(data);
  return status;
}

/* clang-format off */
TENON_ITEMS(core_empty,
  TENON_OP("empty(*, int[] shape, dtype dtype=f32, device device='cpu', str['contiguous', "
           "'channels_last'] format='contiguous') -> Tensor",
    TENON_DOC("A tensor on a device with undefined contents. channels_last: axis 1 is the "
              "innermost in memory."),
    TENON_TYPES("out = dtype"),
    TENON_INFER(empty_infer),
    TENON_KERNEL("cpu strided anywhere", nothing_run)),
  TENON_OP("empty_strided(*, int[] shape, int[] strides, dtype dtype=f32, "
           "device device='cpu') -> Tensor",
    TENON_DOC("A tensor with these strides, in elements, and undefined contents; "
              "its memory reaches to the last element."),
    TENON_TYPES("out = dtype"),
    TENON_INFER(empty_strided_infer),
    TENON_KERNEL("cpu strided anywhere", nothing_run)),
  TENON_OP("empty_like(Tensor x, *, dtype? dtype=None, str['contiguous', 'channels_last', "
           "'preserve'] format='preserve') -> Tensor",
    TENON_DOC("A tensor like x on the device of x: the same shape and, unless stated otherwise, "
              "dtype and order of axes in memory."),
    TENON_TYPES("x: any; out = ?"),
    TENON_INFER(empty_like_infer),
    TENON_GRADIENT("x: none"),
    TENON_KERNEL("cpu strided anywhere", nothing_run)),
  TENON_OP("empty_pinned(*, int[] shape, dtype dtype=f32, device device='cpu') -> Tensor @host",
    TENON_DOC("Host memory for copies to and from a device.\n"
              "A kernel of the device passes the memory that it copies fastest to host->adopt; "
              "without one, it is ordinary memory."),
    TENON_TYPES("out = dtype"),
    TENON_INFER(pinned_infer),
    TENON_KERNEL("cpu strided anywhere", pinned_run)))
/* clang-format on */
