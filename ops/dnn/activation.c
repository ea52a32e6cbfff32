/* Activations that oneDNN approximates with fewer digits than our kernels: a primitive leaves them
 * out, and they are applied to its results while these are in cache.
 * Invariant: results have the bits of the operator of the activation. */
#include "../conv_tile.h"
#include "dnn.h"

int dnn_is_own_activation(int64_t activation) {
  return activation == FINISH_gelu || activation == FINISH_elu || activation == FINISH_mish;
}

dnn_after_t dnn_after(int64_t activation, double alpha, double beta) {
  if (!dnn_is_own_activation(activation)) activation = FINISH_none;
  return (dnn_after_t){activation, (float)alpha, (float)beta};
}

typedef struct axis_t {
  int64_t extent;
  int64_t stride;
} axis_t;

/* Reads the axes of a tensor, those with small strides first, and joins what has no gaps. */
static int read_result_axes(const_dnnl_memory_desc_t md, axis_t *axes) {
  int32_t ndims = 0;
  int count = 0;
  const dnnl_dims_t *dims = 0, *strides = 0;
  if (dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &ndims) != dnnl_success ||
      dnnl_memory_desc_query(md, dnnl_query_dims, (void *)&dims) != dnnl_success ||
      dnnl_memory_desc_query(md, dnnl_query_strides, (void *)&strides) != dnnl_success)
    return -1;
  for (int32_t i = 0; i < ndims; i++) {
    const axis_t axis = {(*dims)[i], (*strides)[i]};
    int at = count;
    if (axis.extent == 1) continue;
    for (; at > 0 && axes[at - 1].stride > axis.stride; at--)
      axes[at] = axes[at - 1];
    axes[at] = axis;
    count++;
  }
  int joined = 0;
  for (int i = 1; i < count; i++) {
    if (axes[i].stride == axes[joined].stride * axes[joined].extent)
      axes[joined].extent *= axes[i].extent;
    else
      axes[++joined] = axes[i];
  }
  return count ? joined + 1 : 0;
}

static void activate_axes(const dnn_after_t *after, const conv_tiles_t *tiles, float *data,
                          const axis_t *axes, int count) {
  if (count == 0) {
    tiles->activate(after->activation, after->alpha, after->beta, data, 1);
    return;
  }
  const axis_t last = axes[count - 1];
  if (count == 1 && last.stride == 1) {
    tiles->activate(after->activation, after->alpha, after->beta, data, last.extent);
    return;
  }
  for (int64_t i = 0; i < last.extent; i++)
    activate_axes(after, tiles, data + i * last.stride, axes, count - 1);
}

int dnn_activate(const dnn_after_t *after, const_dnnl_memory_desc_t md, void *data) {
  axis_t axes[DNNL_MAX_NDIMS];
  if (after->activation == FINISH_none) return 1;
  const int count = read_result_axes(md, axes);
  if (count < 0) return 0;
  activate_axes(after, core_conv_tiles_of_isa(), (float *)data, axes, count);
  return 1;
}
