/* Channels-last memory, the layout of oneDNN's convolutions and pools: recognises it, and copies to
 * and from it. Called by convolution.c and pool.c.
 * Invariant: strides of axes with extent 1 are ignored. */
#include "../copy.h"
#include "dnn.h"

void dnn_last_strides(int32_t rank, const int64_t *shape, int64_t *strides) {
  int64_t stride = shape[1];
  strides[1] = 1;
  for (int32_t i = rank - 1; i >= 2; stride *= shape[i--])
    strides[i] = stride;
  strides[0] = stride;
}

int64_t dnn_row_bytes(int32_t rank, const int64_t *shape) {
  int64_t bytes = shape[1] * (int64_t)sizeof(float);
  for (int32_t i = 3; i < rank; i++)
    bytes *= shape[i];
  return bytes;
}

int dnn_is_last(const tenon_tensor_t *x) {
  int64_t strides[DNN_RANK];
  if (x->ndim < 3 || x->ndim > DNN_RANK) return 0;
  dnn_last_strides(x->ndim, x->shape, strides);
  for (int32_t i = 0; i < x->ndim; i++)
    if (x->shape[i] != 1 && x->strides[i] != strides[i]) return 0;
  return 1;
}

static void move_axes(move_t *move, const tenon_tensor_t *x, const int64_t *from_strides,
                      const int64_t *to_strides) {
  for (int32_t i = 0; i < x->ndim; i++)
    move_axis(move, x->shape[i], from_strides[i], to_strides[i]);
}

void *dnn_to_last(tenon_call_t *call, const tenon_tensor_t *x) {
  if (tenon_dtype_id(x->dtype) == TENON_F32 && dnn_is_last(x)) return x->data;
  int64_t last[DNN_RANK];
  tenon_tensor_t wide = {.dtype = tenon_dtype(TENON_F32)};
  wide.data = call->host->allocate(call, (uint64_t)tenon_count(x) * sizeof(float));
  if (!wide.data) return 0;
  dnn_last_strides(x->ndim, x->shape, last);
  move_t move;
  move_begin(&move, &wide, x);
  move_axes(&move, x, x->strides, last);
  return core_move(call, &move) == TENON_OK ? wide.data : 0;
}

void *dnn_place_last(tenon_call_t *call, const tenon_tensor_t *out) {
  if (tenon_dtype_id(out->dtype) == TENON_F32 && dnn_is_last(out)) return out->data;
  return call->host->allocate(call, (uint64_t)tenon_count(out) * sizeof(float));
}

tenon_status_t dnn_from_last(tenon_call_t *call, void *from, const tenon_tensor_t *out) {
  int64_t last[DNN_RANK];
  const tenon_tensor_t wide = {.dtype = tenon_dtype(TENON_F32), .data = from};
  tenon_tensor_t own = *out;
  if (from == out->data) return TENON_OK;
  dnn_last_strides(out->ndim, out->shape, last);
  move_t move;
  move_begin(&move, &own, &wide);
  move_axes(&move, out, last, out->strides);
  return core_move(call, &move);
}
