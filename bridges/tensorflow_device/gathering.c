/* Gathers with batch axes, positions of extremes, and running sums. */
#include <string.h>

#include "function.h"

/* ---- tensors of numbers ---------------------------------------------------------------------- */

/* Makes a tensor on the device of the numbers 0, step, 2 step, ... along one axis of `ndim`. */
static tenon_status_t make_numbers(frame_t *frame, tenon_dtype_t dtype, int64_t count, int64_t step,
                                   int32_t axis, int32_t ndim, value_t *out) {
  int64_t shape[TENON_RANK_MAX];
  tenon_tensor_t *host = NULL;
  tenon_tensor_t *made = NULL;
  value_t held;
  for (int32_t i = 0; i < ndim; i++)
    shape[i] = i == axis ? count : 1;
  tenon_status_t status = tenon_tensor_create(dtype, ndim, shape, &host);
  if (status != TENON_OK) return status;
  for (int64_t i = 0; i < count; i++) {
    if (tenon_dtype_id(dtype) == TENON_F32)
      ((float *)host->data)[i] = (float)(i * step);
    else if (dtype.bits == 64)
      ((int64_t *)host->data)[i] = i * step;
    else
      ((int32_t *)host->data)[i] = (int32_t)(i * step);
  }
  status = frame_hold(frame, host, &held);
  if (status == TENON_OK) status = tenon_tensor_copy_to(host, frame->device->device, &made);
  return status == TENON_OK ? frame_hold(frame, made, out) : status;
}

static int64_t number_of(const value_t *value) {
  return value->kind == VALUE_INTS ? value->ints[0] : value->number;
}

static tenon_status_t find_axis_of(const value_t *value, const tenon_tensor_t *x, int32_t *out) {
  const int64_t axis = number_of(value);
  if (axis < -x->ndim || axis >= x->ndim)
    return tenon_error_set(TENON_INVALID, "the axis is out of range for the rank of the input");
  *out = (int32_t)(axis < 0 ? axis + x->ndim : axis);
  return TENON_OK;
}

/* ---- gathers --------------------------------------------------------------------------------- */

static tenon_status_t call_gather(frame_t *frame, tenon_tensor_t *params, tenon_tensor_t *indices,
                                  int64_t axis, value_t *out) {
  const tenon_value_t values[] = {tensor_value(params), tensor_value(indices), int_value(axis)};
  return frame_call(frame, "core::gather", values, 3, out);
}

static int64_t product_of(const int64_t *shape, int32_t count) {
  int64_t product = 1;
  for (int32_t i = 0; i < count; i++)
    product *= shape[i];
  return product;
}

/* Params as [batch * N, ...], N being the extent of the axis that is gathered from. */
static tenon_status_t flatten_params(frame_t *frame, tenon_tensor_t *params, int32_t axis,
                                     int32_t batch, value_t *out) {
  int64_t perm[TENON_RANK_MAX];
  int64_t shape[TENON_RANK_MAX];
  int32_t count = 0;
  for (int32_t i = 0; i < batch; i++)
    perm[count++] = i;
  perm[count++] = axis;
  for (int32_t i = batch; i < params->ndim; i++)
    if (i != axis) perm[count++] = i;
  const tenon_status_t status = transposed(frame, params, perm, out);
  if (status != TENON_OK) return status;
  shape[0] = product_of(out->tensor->shape, batch + 1);
  for (int32_t i = batch + 1; i < params->ndim; i++)
    shape[i - batch] = out->tensor->shape[i];
  return reshaped(frame, out->tensor, shape, params->ndim - batch, out);
}

/* Indices as one axis of positions in the flattened params. */
static tenon_status_t flatten_indices(frame_t *frame, tenon_tensor_t *indices, int32_t batch,
                                      int64_t extent, value_t *out) {
  const int64_t batches = product_of(indices->shape, batch);
  const int64_t each = product_of(indices->shape + batch, indices->ndim - batch);
  const int64_t rows[] = {batches, each};
  const int64_t flat = batches * each;
  value_t first;
  tenon_status_t status = reshaped(frame, indices, rows, 2, out);
  if (status == TENON_OK)
    status = make_numbers(frame, indices->dtype, batches, extent, 0, 2, &first);
  if (status != TENON_OK) return status;
  const tenon_value_t values[] = {tensor_value(out->tensor), tensor_value(first.tensor)};
  status = frame_call(frame, "core::add", values, 2, out);
  return status == TENON_OK ? reshaped(frame, out->tensor, &flat, 1, out) : status;
}

/* Gives a gathered tensor [indices of all batches, axes of params] its axes: those of the batch,
 * the params' axes before the gathered one, the indices' axes, and the rest. */
static tenon_status_t arrange_gathered(frame_t *frame, const tenon_tensor_t *params,
                                       const tenon_tensor_t *indices, int32_t axis, int32_t batch,
                                       value_t *out) {
  int64_t shape[TENON_RANK_MAX];
  int64_t perm[TENON_RANK_MAX];
  const int32_t middle = axis - batch;
  const int32_t own = indices->ndim - batch;
  int32_t count = 0;
  if (indices->ndim + params->ndim - 1 - batch > PLAN_LIST_MOST)
    return tenon_error_set(TENON_UNIMPLEMENTED, "tensors of this rank are not supported");
  for (int32_t i = 0; i < indices->ndim; i++)
    shape[count++] = indices->shape[i];
  for (int32_t i = batch; i < params->ndim; i++)
    if (i != axis) shape[count++] = params->shape[i];
  const tenon_status_t status = reshaped(frame, out->tensor, shape, count, out);
  if (status != TENON_OK) return status;
  for (int32_t i = 0; i < count; i++)
    perm[i] = i;
  for (int32_t i = 0; i < middle; i++)
    perm[batch + i] = indices->ndim + i;
  for (int32_t i = 0; i < own; i++)
    perm[axis + i] = batch + i;
  return transposed(frame, out->tensor, perm, out);
}

/* gather(params, indices, axis, batch_dims) */
tenon_status_t function_gather(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  tenon_tensor_t *params = operands[0].tensor;
  tenon_tensor_t *indices = operands[1].tensor;
  int64_t batch = operands[3].number;
  int32_t axis = 0;
  value_t positions;
  (void)count;
  tenon_status_t status = find_axis_of(&operands[2], params, &axis);
  if (status != TENON_OK) return status;
  if (batch < 0) batch += indices->ndim;
  if (batch < 0 || batch > indices->ndim || batch > axis)
    return tenon_error_set(TENON_INVALID, "batch_dims must be at most the axis and the rank of "
                                          "indices");
  if (batch == 0) return call_gather(frame, params, indices, axis, out);
  for (int32_t i = 0; i < batch; i++)
    if (params->shape[i] != indices->shape[i])
      return tenon_error_set(TENON_INVALID, "params and indices must have the same batch axes");
  const int64_t extent = params->shape[axis];
  status = flatten_indices(frame, indices, (int32_t)batch, extent, &positions);
  if (status == TENON_OK) status = flatten_params(frame, params, axis, (int32_t)batch, out);
  if (status == TENON_OK) status = call_gather(frame, out->tensor, positions.tensor, 0, out);
  return status == TENON_OK ? arrange_gathered(frame, params, indices, axis, (int32_t)batch, out)
                            : status;
}

/* ---- positions of extremes ------------------------------------------------------------------- */

/* first_hit(hit, axis): the first position along an axis at which `hit` is true, as f32, which is
 * exact up to 2^24; 0 where there is none */
tenon_status_t function_first_hit(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  tenon_tensor_t *hit = operands[0].tensor;
  const tenon_dtype_t f32 = tenon_dtype(TENON_F32);
  tenon_tensor_t *axes = NULL;
  int32_t axis = 0;
  value_t numbers;
  value_t none;
  value_t mask;
  value_t zero;
  (void)count;
  tenon_status_t status = find_axis_of(&operands[1], hit, &axis);
  if (status != TENON_OK) return status;
  const int64_t extent = hit->shape[axis];
  const value_t reduced = {.kind = VALUE_INTS, .count = 1, .ints = {axis}};
  if (extent > 1 << 24)
    return tenon_error_set(TENON_UNIMPLEMENTED, "ArgMax and ArgMin have at most 16777216 elements "
                                                "along their axis on devices of Tenon");
  if (extent == 0)
    return tenon_error_set(TENON_INVALID, "Reduction axis is empty in the shape of the input");
  status = make_numbers(frame, f32, extent, 1, axis, hit->ndim, &numbers);
  if (status == TENON_OK) status = make_numbers(frame, f32, 1, 0, 0, 0, &zero);
  if (status == TENON_OK) status = frame_allocate(frame, f32, NULL, 0, &none);
  const float most = (float)extent;
  if (status == TENON_OK) status = tenon_tensor_fill(none.tensor, &most);
  if (status != TENON_OK) return status;
  const tenon_value_t found[] = {tensor_value(hit), tensor_value(numbers.tensor),
                                 tensor_value(none.tensor)};
  status = frame_call(frame, "core::where", found, 3, out);
  if (status == TENON_OK) status = frame_host_ints(frame, &reduced, &axes);
  if (status != TENON_OK) return status;
  const tenon_value_t least[] = {
      tensor_value(out->tensor), tensor_value(axes), {.kind = TENON_KIND_BOOL, .as.i = 0}};
  status = frame_call(frame, "core::reduce_min", least, 3, out);
  if (status != TENON_OK) return status;
  const tenon_value_t missing[] = {tensor_value(out->tensor), tensor_value(none.tensor)};
  status = frame_call(frame, "core::equal", missing, 2, &mask);
  if (status != TENON_OK) return status;
  const tenon_value_t chosen[] = {tensor_value(mask.tensor), tensor_value(zero.tensor),
                                  tensor_value(out->tensor)};
  return frame_call(frame, "core::where", chosen, 3, out);
}

/* ---- running sums ---------------------------------------------------------------------------- */

/* Moves the elements of an axis by a distance, away from the end at which sums begin; zeros come
 * in. */
static tenon_status_t shifted(frame_t *frame, tenon_tensor_t *x, int32_t axis, int64_t by,
                              bool is_reverse, value_t *out) {
  value_t starts = {.kind = VALUE_INTS, .count = x->ndim};
  value_t ends = {.kind = VALUE_INTS, .count = x->ndim};
  value_t pads = {.kind = VALUE_INTS, .count = 2 * x->ndim};
  tenon_tensor_t *host = NULL;
  for (int32_t i = 0; i < x->ndim; i++)
    ends.ints[i] = x->shape[i];
  if (is_reverse)
    starts.ints[axis] = by;
  else
    ends.ints[axis] -= by;
  pads.ints[is_reverse ? x->ndim + axis : axis] = by;
  tenon_status_t status = sliced(frame, x, &starts, &ends, NULL, out);
  if (status == TENON_OK) status = frame_host_ints(frame, &pads, &host);
  if (status != TENON_OK) return status;
  const tenon_value_t values[] = {tensor_value(out->tensor), tensor_value(host)};
  return frame_call(frame, "core::pad", values, 2, out);
}

/* running_sum(x, axis, exclusive, reverse): each step adds the sums that lie twice as far away */
tenon_status_t function_running_sum(frame_t *frame, value_t *operands, int32_t count,
                                    value_t *out) {
  tenon_tensor_t *x = operands[0].tensor;
  const bool is_exclusive = operands[2].number != 0;
  const bool is_reverse = operands[3].number != 0;
  int32_t axis = 0;
  value_t moved;
  (void)count;
  *out = operands[0];
  if (x->ndim == 0 || x->ndim > PLAN_LIST_MOST / 2) {
    const bool is_scalar = x->ndim == 0;
    return is_scalar ? TENON_OK
                     : tenon_error_set(TENON_UNIMPLEMENTED, "tensors of this rank are not "
                                                            "supported");
  }
  tenon_status_t status = find_axis_of(&operands[1], x, &axis);
  const int64_t extent = status == TENON_OK ? x->shape[axis] : 0;
  if (status == TENON_OK && is_exclusive && extent > 0)
    status = shifted(frame, x, axis, 1, is_reverse, out);
  for (int64_t by = 1; by < extent && status == TENON_OK; by *= 2) {
    status = shifted(frame, out->tensor, axis, by, is_reverse, &moved);
    if (status != TENON_OK) break;
    const tenon_value_t values[] = {tensor_value(out->tensor), tensor_value(moved.tensor)};
    status = frame_call(frame, "core::add", values, 2, out);
  }
  return status;
}
