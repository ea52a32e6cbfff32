/* Slices with the masks of TensorFlow, and what splits and joins tensors. */
#include <string.h>

#include "function.h"

/* A slice: x[starts:ends:steps], then a reshape to `shape`. */
typedef struct slicing_t {
  value_t starts;
  value_t ends;
  value_t steps;
  int64_t shape[PLAN_LIST_MOST];
  int32_t ndim;
} slicing_t;

typedef struct slice_arguments_t {
  const value_t *begin;
  const value_t *end;
  const value_t *strides;
  int64_t begin_mask;
  int64_t end_mask;
  int64_t ellipsis_mask;
  int64_t new_axis_mask;
  int64_t shrink_axis_mask;
} slice_arguments_t;

static bool has_bit(int64_t mask, int32_t i) { return (mask >> i & 1) != 0; }

static int64_t clamp(int64_t value, int64_t least, int64_t most) {
  if (value < least) return least;
  return value > most ? most : value;
}

static void add_axis(slicing_t *s, int64_t start, int64_t end, int64_t step) {
  const int32_t axis = s->starts.count++;
  s->starts.ints[axis] = start;
  /* Before the first element is written as a number that every extent clamps to it. */
  s->ends.ints[axis] = end < 0 ? INT64_MIN / 4 : end;
  s->steps.ints[axis] = step;
  s->ends.count = s->steps.count = s->starts.count;
}

/* Adds an axis of the input that entry `i` of the arguments selects from. */
static tenon_status_t add_sliced_axis(const slice_arguments_t *a, int32_t i, int64_t extent,
                                      slicing_t *s) {
  const int64_t step = a->strides->ints[i];
  const bool is_single = has_bit(a->shrink_axis_mask, i);
  const int64_t least = step > 0 ? 0 : -1;
  const int64_t most = step > 0 ? extent : extent - 1;
  int64_t start = a->begin->ints[i];
  int64_t end = a->end->ints[i];
  if (step == 0) return tenon_error_set(TENON_INVALID, "strides[i] must be non-zero");
  if (start < 0) start += extent;
  if (end < 0) end += extent;
  if (is_single) {
    if (start < 0 || start >= extent)
      return tenon_error_set(TENON_INVALID, "slice index is out of bounds of the axis");
    add_axis(s, start, start + 1, 1);
    return TENON_OK;
  }
  start = clamp(start, least, most);
  end = clamp(end, least, most);
  if (has_bit(a->begin_mask, i)) start = step > 0 ? 0 : most;
  if (has_bit(a->end_mask, i)) end = step > 0 ? most : -1;
  const int64_t span = step > 0 ? end - start : start - end;
  const int64_t stride = step > 0 ? step : -step;
  add_axis(s, start, end, step);
  s->shape[s->ndim++] = span <= 0 ? 0 : (span + stride - 1) / stride;
  return TENON_OK;
}

static void add_whole(int64_t extent, slicing_t *s) {
  add_axis(s, 0, extent, 1);
  s->shape[s->ndim++] = extent;
}

static tenon_status_t make_slicing(const slice_arguments_t *a, const int64_t *shape, int32_t ndim,
                                   slicing_t *s) {
  const int32_t entries = a->begin->count;
  int32_t used = 0;
  *s = (slicing_t){.starts.kind = VALUE_INTS, .ends.kind = VALUE_INTS, .steps.kind = VALUE_INTS};
  for (int32_t i = 0; i < entries; i++)
    used += !has_bit(a->new_axis_mask, i) && !has_bit(a->ellipsis_mask, i);
  if (used > ndim || ndim > PLAN_LIST_MOST / 2 || entries > PLAN_LIST_MOST / 2 ||
      a->end->count != entries || a->strides->count != entries)
    return tenon_error_set(TENON_INVALID, "Index out of range: a slice has more entries than its "
                                          "input has axes");
  for (int32_t i = 0; i < entries; i++) {
    if (has_bit(a->ellipsis_mask, i)) {
      for (int32_t left = ndim - used; left > 0; left--)
        add_whole(shape[s->starts.count], s);
      used = ndim;
    } else if (has_bit(a->new_axis_mask, i)) {
      s->shape[s->ndim++] = 1;
    } else {
      const tenon_status_t status = add_sliced_axis(a, i, shape[s->starts.count], s);
      if (status != TENON_OK) return status;
    }
  }
  while (s->starts.count < ndim)
    add_whole(shape[s->starts.count], s);
  return TENON_OK;
}

/* Operands from `at` on: begin, end, strides, and the five masks. */
static slice_arguments_t read_slice_arguments(const value_t *at) {
  return (slice_arguments_t){.begin = &at[0],
                             .end = &at[1],
                             .strides = &at[2],
                             .begin_mask = at[3].number,
                             .end_mask = at[4].number,
                             .ellipsis_mask = at[5].number,
                             .new_axis_mask = at[6].number,
                             .shrink_axis_mask = at[7].number};
}

/* strided(x, begin, end, strides, masks...) */
tenon_status_t function_strided(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  tenon_tensor_t *x = operands[0].tensor;
  const slice_arguments_t arguments = read_slice_arguments(operands + 1);
  slicing_t s;
  (void)count;
  tenon_status_t status = make_slicing(&arguments, x->shape, x->ndim, &s);
  if (status == TENON_OK) status = sliced(frame, x, &s.starts, &s.ends, &s.steps, out);
  return status == TENON_OK ? reshaped(frame, out->tensor, s.shape, s.ndim, out) : status;
}

/* strided_back(shape, dy, begin, end, strides, masks...) */
tenon_status_t function_strided_back(frame_t *frame, value_t *operands, int32_t count,
                                     value_t *out) {
  tenon_tensor_t *dy = operands[1].tensor;
  const slice_arguments_t arguments = read_slice_arguments(operands + 2);
  slicing_t s;
  value_t view;
  value_t source;
  (void)count;
  tenon_status_t status = make_slicing(&arguments, operands[0].ints, operands[0].count, &s);
  if (status == TENON_OK)
    status = zeros(frame, dy->dtype, operands[0].ints, operands[0].count, out);
  if (status != TENON_OK || tenon_count(dy) == 0) return status;
  status = sliced(frame, out->tensor, &s.starts, &s.ends, &s.steps, &view);
  if (status == TENON_OK)
    status = reshaped(frame, dy, view.tensor->shape, view.tensor->ndim, &source);
  return status == TENON_OK ? tenon_tensor_copy_async(source.tensor, view.tensor) : status;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static tenon_status_t find_axis(int64_t axis, int32_t rank, int32_t *out) {
  if (axis < -rank || axis >= rank)
    return tenon_error_set(TENON_INVALID, "axis is out of range for the rank of the tensor");
  *out = (int32_t)(axis < 0 ? axis + rank : axis);
  return TENON_OK;
}

/* Takes a part of an axis. */
static tenon_status_t take_part(frame_t *frame, tenon_tensor_t *x, int32_t axis, int64_t start,
                                int64_t size, value_t *out) {
  value_t starts = {.kind = VALUE_INTS, .count = x->ndim};
  value_t ends = {.kind = VALUE_INTS, .count = x->ndim};
  for (int32_t i = 0; i < x->ndim && i < PLAN_LIST_MOST; i++)
    ends.ints[i] = x->shape[i];
  starts.ints[axis] = start;
  ends.ints[axis] = start + size;
  return sliced(frame, x, &starts, &ends, NULL, out);
}

/* The parts of a split are a number, a list of ints, or a tensor on the host. */
static int32_t count_parts(const value_t *parts) {
  if (parts->kind == VALUE_NUMBER) return (int32_t)parts->number;
  return parts->kind == VALUE_INTS ? parts->count : (int32_t)tenon_count(parts->tensor);
}

static int64_t size_of_part(const value_t *parts, int32_t i) {
  if (parts->kind == VALUE_INTS) return parts->ints[i];
  const void *data = parts->tensor->data;
  return parts->tensor->dtype.bits == 64 ? ((const int64_t *)data)[i] : ((const int32_t *)data)[i];
}

/* split(x, axis, parts): a number of equal parts, or a list of sizes, one of which may be -1 */
tenon_status_t function_split(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  tenon_tensor_t *x = operands[0].tensor;
  const value_t *parts = &operands[2];
  const bool has_sizes = parts->kind != VALUE_NUMBER;
  const int32_t part_count = count_parts(parts);
  int32_t axis = 0;
  int64_t rest = 0;
  int64_t start = 0;
  (void)count;
  tenon_status_t status = find_axis(operands[1].ints[0], x->ndim, &axis);
  if (status == TENON_OK) status = frame_list(frame, part_count, out);
  if (status != TENON_OK) return status;
  for (int32_t i = 0; has_sizes && i < part_count; i++) {
    const int64_t size = size_of_part(parts, i);
    rest += size > 0 ? size : 0;
  }
  for (int32_t i = 0; i < part_count && status == TENON_OK; i++) {
    value_t part;
    int64_t size = has_sizes ? size_of_part(parts, i) : x->shape[axis] / part_count;
    if (size < 0) size = x->shape[axis] - rest;
    if (size < 0 || size > x->shape[axis] - start)
      return tenon_error_set(TENON_INVALID, "the sizes of the parts exceed the axis");
    status = take_part(frame, x, axis, start, size, &part);
    out->tensors[i] = part.tensor;
    start += size;
  }
  return status;
}

/* Removes an axis of extent 1, or adds one. */
static tenon_status_t change_axis(frame_t *frame, tenon_tensor_t *x, int32_t axis, bool adds,
                                  value_t *out) {
  int64_t shape[TENON_RANK_MAX + 1];
  int32_t ndim = 0;
  for (int32_t i = 0; i <= x->ndim; i++) {
    if (i == axis && adds) shape[ndim++] = 1;
    if (i < x->ndim && (i != axis || adds)) shape[ndim++] = x->shape[i];
  }
  return reshaped(frame, x, shape, ndim, out);
}

/* unstack(x, axis) */
tenon_status_t function_unstack(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  tenon_tensor_t *x = operands[0].tensor;
  int32_t axis = 0;
  (void)count;
  tenon_status_t status = find_axis(operands[1].number, x->ndim, &axis);
  if (status == TENON_OK) status = frame_list(frame, (int32_t)x->shape[axis], out);
  for (int32_t i = 0; status == TENON_OK && i < out->count; i++) {
    value_t part;
    status = take_part(frame, x, axis, i, 1, &part);
    if (status == TENON_OK) status = change_axis(frame, part.tensor, axis, false, &part);
    out->tensors[i] = part.tensor;
  }
  return status;
}

/* stack(tensors, axis) */
tenon_status_t function_stack(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  value_t list;
  int32_t axis = 0;
  (void)count;
  tenon_status_t status = find_axis(operands[1].number, operands[0].tensors[0]->ndim + 1, &axis);
  if (status == TENON_OK) status = frame_list(frame, operands[0].count, &list);
  for (int32_t i = 0; status == TENON_OK && i < list.count; i++) {
    value_t item;
    status = change_axis(frame, operands[0].tensors[i], axis, true, &item);
    list.tensors[i] = item.tensor;
  }
  if (status != TENON_OK) return status;
  const tenon_value_t values[] = {
      {.kind = TENON_KIND_TENSORS, .count = (uint32_t)list.count, .as.tensors = list.tensors},
      int_value(axis)};
  return frame_call(frame, "core::concat", values, 2, out);
}
