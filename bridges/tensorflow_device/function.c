/* The functions of formulas that are not operators of Tenon: shapes, layouts, and what needs
 * several operators. */
#include "function.h"

#include <math.h>
#include <string.h>

/* ---- helpers --------------------------------------------------------------------------------- */

bool is_channels_last(const value_t *format) { return strncmp(format->text, "NC", 2) != 0; }

static void set_ints(value_t *out, const int64_t *ints, int32_t count) {
  *out = (value_t){.kind = VALUE_INTS, .count = count};
  memcpy(out->ints, ints, (size_t)count * sizeof *ints);
}

static tenon_status_t check_rank(const tenon_tensor_t *x) {
  return x->ndim <= PLAN_LIST_MOST
             ? TENON_OK
             : tenon_error_set(TENON_UNIMPLEMENTED, "tensors of this rank are not supported");
}

tenon_status_t transposed(frame_t *frame, tenon_tensor_t *x, const int64_t *perm, value_t *out) {
  const tenon_value_t values[] = {tensor_value(x), ints_value(perm, x->ndim)};
  return frame_call(frame, "core::transpose", values, 2, out);
}

/* Calls an operator whose second argument is a shape on the host. */
static tenon_status_t call_with_shape(frame_t *frame, const char *op, tenon_tensor_t *x,
                                      const int64_t *shape, int32_t ndim, value_t *out) {
  value_t ints;
  tenon_tensor_t *host = NULL;
  if (ndim > PLAN_LIST_MOST)
    return tenon_error_set(TENON_UNIMPLEMENTED, "tensors of this rank are not supported");
  set_ints(&ints, shape, ndim);
  const tenon_status_t status = frame_host_ints(frame, &ints, &host);
  if (status != TENON_OK) return status;
  const tenon_value_t values[] = {
      tensor_value(x), tensor_value(host), {.kind = TENON_KIND_BOOL, .as.i = 1}};
  const bool is_reshape = !strcmp(op, "core::reshape");
  return frame_call(frame, op, values, is_reshape ? 3 : 2, out);
}

tenon_status_t reshaped(frame_t *frame, tenon_tensor_t *x, const int64_t *shape, int32_t ndim,
                        value_t *out) {
  return call_with_shape(frame, "core::reshape", x, shape, ndim, out);
}

tenon_status_t expanded(frame_t *frame, tenon_tensor_t *x, const int64_t *shape, int32_t ndim,
                        value_t *out) {
  return call_with_shape(frame, "core::expand", x, shape, ndim, out);
}

tenon_status_t sliced(frame_t *frame, tenon_tensor_t *x, const value_t *starts, const value_t *ends,
                      const value_t *steps, value_t *out) {
  tenon_tensor_t *hosts[3] = {NULL};
  tenon_status_t status = frame_host_ints(frame, starts, &hosts[0]);
  if (status == TENON_OK) status = frame_host_ints(frame, ends, &hosts[1]);
  if (status == TENON_OK && steps) status = frame_host_ints(frame, steps, &hosts[2]);
  if (status != TENON_OK) return status;
  tenon_value_t values[5] = {tensor_value(x), tensor_value(hosts[0]), tensor_value(hosts[1])};
  if (steps) values[4] = tensor_value(hosts[2]);
  return frame_call(frame, "core::slice", values, 5, out);
}

tenon_status_t zeros(frame_t *frame, tenon_dtype_t dtype, const int64_t *shape, int32_t ndim,
                     value_t *out) {
  const uint64_t zero[2] = {0, 0};
  const tenon_status_t status = frame_allocate(frame, dtype, shape, ndim, out);
  if (status != TENON_OK || tenon_count(out->tensor) == 0) return status;
  return tenon_tensor_fill(out->tensor, zero);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static tenon_status_t dims(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  const tenon_tensor_t *x = operands[0].tensor;
  const tenon_status_t status = check_rank(x);
  (void)frame;
  (void)count;
  if (status == TENON_OK) set_ints(out, x->shape, x->ndim);
  return status;
}

/* swap(x, flag): the last two axes change places if the flag is set */
static tenon_status_t swap(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  int64_t perm[TENON_RANK_MAX];
  tenon_tensor_t *x = operands[0].tensor;
  (void)count;
  *out = operands[0];
  if (!operands[1].number || x->ndim < 2) return TENON_OK;
  for (int32_t i = 0; i < x->ndim; i++)
    perm[i] = i;
  perm[x->ndim - 1] = x->ndim - 2;
  perm[x->ndim - 2] = x->ndim - 1;
  return transposed(frame, x, perm, out);
}

/* other_axes(x, format): all axes but that of the channels */
static tenon_status_t other_axes(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  const tenon_tensor_t *x = operands[0].tensor;
  const int32_t channel = is_channels_last(&operands[1]) ? x->ndim - 1 : 1;
  (void)frame;
  (void)count;
  *out = (value_t){.kind = VALUE_INTS};
  for (int32_t i = 0; i < x->ndim && out->count < PLAN_LIST_MOST; i++)
    if (i != channel) out->ints[out->count++] = i;
  return check_rank(x);
}

/* channel(bias, x, format): the bias with an axis for each axis of x */
static tenon_status_t channel(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  int64_t shape[TENON_RANK_MAX];
  const tenon_tensor_t *x = operands[1].tensor;
  (void)count;
  *out = operands[0];
  if (is_channels_last(&operands[2]) || x->ndim < 3) return TENON_OK;
  for (int32_t i = 0; i < x->ndim; i++)
    shape[i] = i == 1 ? operands[0].tensor->shape[0] : 1;
  return reshaped(frame, operands[0].tensor, shape, x->ndim, out);
}

/* spread(a, b): a with the shape to which both broadcast */
static tenon_status_t spread(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  int64_t shape[TENON_RANK_MAX];
  tenon_tensor_t *a = operands[0].tensor;
  const tenon_tensor_t *b = operands[1].tensor;
  bool is_same = a->ndim == b->ndim;
  (void)count;
  for (int32_t i = 0; i < a->ndim && is_same; i++) {
    shape[i] = a->shape[i] == 1 ? b->shape[i] : a->shape[i];
    is_same = b->shape[i] == 1 || b->shape[i] == shape[i];
  }
  if (!is_same || a->ndim != 2)
    return tenon_error_set(TENON_INVALID, "logits and labels must be matrices whose shapes "
                                          "broadcast: logits and labels must be broadcastable");
  return expanded(frame, a, shape, a->ndim, out);
}

/* column(labels, features): the labels of the rows of `features` as a column */
static tenon_status_t column(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  tenon_tensor_t *labels = operands[0].tensor;
  const tenon_tensor_t *features = operands[1].tensor;
  (void)count;
  if (features->ndim != 2) return tenon_error_set(TENON_INVALID, "logits must be 2-D");
  if (labels->ndim != 1) return tenon_error_set(TENON_INVALID, "labels must be 1-D");
  if (labels->shape[0] != features->shape[0])
    return tenon_error_set(TENON_INVALID, "logits and labels must have the same first dimension");
  if (features->shape[1] == 0)
    return tenon_error_set(TENON_INVALID, "Must have at least one class");
  const int64_t shape[] = {labels->shape[0], 1};
  return reshaped(frame, labels, shape, 2, out);
}

/* counting(x, like): 0, 1, ... up to the last extent of x, of the dtype of `like` */
static tenon_status_t counting(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  const tenon_tensor_t *x = operands[0].tensor;
  const tenon_dtype_t dtype = operands[1].tensor->dtype;
  const int64_t extent = x->ndim ? x->shape[x->ndim - 1] : 0;
  tenon_tensor_t *host = NULL;
  tenon_tensor_t *made = NULL;
  value_t held;
  (void)count;
  tenon_status_t status = tenon_tensor_create(dtype, 1, &extent, &host);
  if (status != TENON_OK) return status;
  for (int64_t i = 0; i < extent; i++) {
    if (dtype.bits == 64)
      ((int64_t *)host->data)[i] = i;
    else
      ((int32_t *)host->data)[i] = (int32_t)i;
  }
  status = frame_hold(frame, host, &held);
  if (status == TENON_OK) status = tenon_tensor_copy_to(host, frame->device->device, &made);
  return status == TENON_OK ? frame_hold(frame, made, out) : status;
}

/* pad_list(paddings): before and after, axis by axis, as all before and then all after */
static tenon_status_t pad_list(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  const value_t *from = &operands[0];
  (void)frame;
  (void)count;
  *out = (value_t){.kind = VALUE_INTS, .count = from->count};
  for (int32_t i = 0; i < from->count / 2; i++) {
    out->ints[i] = from->ints[2 * i];
    out->ints[from->count / 2 + i] = from->ints[2 * i + 1];
  }
  return TENON_OK;
}

/* ends(x, begin, size): where a slice ends; size -1 is the rest of the axis */
static tenon_status_t ends(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  const tenon_tensor_t *x = operands[0].tensor;
  (void)frame;
  (void)count;
  *out = (value_t){.kind = VALUE_INTS, .count = operands[1].count};
  if (operands[1].count != x->ndim || operands[2].count != x->ndim)
    return tenon_error_set(TENON_INVALID, "a slice needs a begin and a size for each axis");
  for (int32_t i = 0; i < x->ndim; i++) {
    const int64_t begin = operands[1].ints[i];
    const int64_t size = operands[2].ints[i] == -1 ? x->shape[i] - begin : operands[2].ints[i];
    if (begin < 0 || size < 0 || begin > x->shape[i] || size > x->shape[i] - begin)
      return tenon_error_set(TENON_INVALID,
                             "a slice reaches outside of its input: Expected begin and size in "
                             "the extents of the input");
    out->ints[i] = begin + size;
  }
  return TENON_OK;
}

/* ---- layouts --------------------------------------------------------------------------------- */

static tenon_status_t nchw(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  static const int64_t perm[] = {0, 3, 1, 2};
  (void)count;
  *out = operands[0];
  if (operands[0].tensor->ndim != 4)
    return tenon_error_set(TENON_INVALID, "input must be 4-dimensional");
  return is_channels_last(&operands[1]) ? transposed(frame, operands[0].tensor, perm, out)
                                        : TENON_OK;
}

static tenon_status_t from_nchw(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  static const int64_t perm[] = {0, 2, 3, 1};
  (void)count;
  *out = operands[0];
  return is_channels_last(&operands[1]) ? transposed(frame, operands[0].tensor, perm, out)
                                        : TENON_OK;
}

/* spatial(list, format): the entries of height and width */
static tenon_status_t spatial(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  const int32_t first = is_channels_last(&operands[1]) ? 1 : 2;
  (void)frame;
  (void)count;
  if (operands[0].count != 4)
    return tenon_error_set(TENON_INVALID, "strides, dilations and windows need 4 entries");
  *out = (value_t){.kind = VALUE_INTS, .count = 2};
  out->ints[0] = operands[0].ints[first];
  out->ints[1] = operands[0].ints[first + 1];
  if (operands[0].ints[0] == 1 && operands[0].ints[first == 1 ? 3 : 1] == 1) return TENON_OK;
  return tenon_error_set(TENON_UNIMPLEMENTED, "windows and strides over the batch or the channels "
                                              "have no kernel on devices of Tenon");
}

static tenon_status_t pad_mode(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  static const char *const modes[][2] = {
      {"SAME", "same_upper"}, {"VALID", "valid"}, {"EXPLICIT", "explicit"}};
  (void)frame;
  (void)count;
  *out = (value_t){.kind = VALUE_TEXT};
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
    if (!strcmp(operands[0].text, modes[i][0])) strcpy(out->text, modes[i][1]);
  return TENON_OK;
}

/* pool_pads(padding, explicit_paddings, format): before and after, unless the mode determines
 * them */
static tenon_status_t pool_pads(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  const int32_t first = is_channels_last(&operands[2]) ? 2 : 4;
  (void)frame;
  (void)count;
  *out = (value_t){.kind = VALUE_INTS};
  if (strcmp(operands[0].text, "EXPLICIT") != 0) return TENON_OK;
  if (operands[1].count != 8)
    return tenon_error_set(TENON_INVALID, "explicit_paddings needs 8 entries");
  out->count = 4;
  for (int32_t i = 0; i < 2; i++) {
    out->ints[i] = operands[1].ints[first + 2 * i];
    out->ints[2 + i] = operands[1].ints[first + 2 * i + 1];
  }
  return TENON_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

static tenon_status_t not_a_number(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  (void)frame;
  (void)operands;
  (void)count;
  *out = (value_t){.kind = VALUE_REAL, .real = NAN};
  return TENON_OK;
}

/* zeros(shape, like): shape [-1]: one axis with as many elements as `like` */
static tenon_status_t function_zeros(frame_t *frame, value_t *operands, int32_t count,
                                     value_t *out) {
  const tenon_tensor_t *like = operands[1].tensor;
  (void)count;
  if (operands[0].count == 1 && operands[0].ints[0] == -1) operands[0].ints[0] = tenon_count(like);
  return zeros(frame, like->dtype, operands[0].ints, operands[0].count, out);
}

/* Elements for each channel. */
static double count_of_channel(const tenon_tensor_t *x, const value_t *format) {
  const int32_t channel = is_channels_last(format) ? x->ndim - 1 : 1;
  const int64_t channels = x->ndim > 1 ? x->shape[channel] : 1;
  return channels > 0 ? (double)(tenon_count(x) / channels) : 0;
}

/* inverse_count(x, format): 1 / the number of elements for each channel */
static tenon_status_t inverse_count(frame_t *frame, value_t *operands, int32_t count,
                                    value_t *out) {
  (void)frame;
  (void)count;
  *out =
      (value_t){.kind = VALUE_REAL, .real = 1 / count_of_channel(operands[0].tensor, &operands[1])};
  return TENON_OK;
}

/* unbiased(x, format): n / (n - 1), for the variance of a channel of n elements */
static tenon_status_t unbiased(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  const double n = count_of_channel(operands[0].tensor, &operands[1]);
  (void)frame;
  (void)count;
  *out = (value_t){.kind = VALUE_REAL, .real = n > 1 ? n / (n - 1) : n};
  return TENON_OK;
}

static tenon_status_t is_one(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  (void)frame;
  (void)count;
  *out = (value_t){.kind = VALUE_NUMBER, .number = operands[0].real == 1};
  return TENON_OK;
}

/* choose(flag, a, b): only the operand that is chosen is computed (run.c) */
static tenon_status_t choose(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  (void)frame;
  (void)count;
  *out = operands[operands[0].number ? 1 : 2];
  return TENON_OK;
}

/* rows(x): the first extent */
static tenon_status_t rows(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  const tenon_tensor_t *x = operands[0].tensor;
  (void)frame;
  (void)count;
  *out = (value_t){.kind = VALUE_INTS, .count = 1, .ints = {x->ndim ? x->shape[0] : 1}};
  return TENON_OK;
}

static tenon_status_t sum(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  tenon_status_t status = TENON_OK;
  (void)count;
  *out = (value_t){.kind = VALUE_TENSOR, .tensor = operands[0].tensors[0]};
  for (int32_t i = 1; i < operands[0].count && status == TENON_OK; i++) {
    const tenon_value_t values[] = {tensor_value(out->tensor),
                                    tensor_value(operands[0].tensors[i])};
    status = frame_call(frame, "core::add", values, 2, out);
  }
  return status;
}

static tenon_status_t call_pair(frame_t *frame, const char *op, tenon_tensor_t *a,
                                tenon_tensor_t *b, value_t *out) {
  const tenon_value_t values[] = {tensor_value(a), tensor_value(b)};
  return frame_call(frame, op, values, 2, out);
}

/* A tensor without axes on the device, of an integer dtype. */
static tenon_status_t integer(frame_t *frame, tenon_dtype_t dtype, int64_t number, value_t *out) {
  const int32_t narrow = (int32_t)number;
  const tenon_status_t status = frame_allocate(frame, dtype, NULL, 0, out);
  const void *element = dtype.bits == 64 ? (const void *)&number : (const void *)&narrow;
  return status == TENON_OK ? tenon_tensor_fill(out->tensor, element) : status;
}

/* segment_sum(data, ids, count): negative ids go to a row that is dropped */
static tenon_status_t segment_sum(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  tenon_tensor_t *data = operands[0].tensor;
  tenon_tensor_t *ids = operands[1].tensor;
  const int64_t rows = operands[2].ints[0];
  const int64_t id_count = tenon_count(ids);
  const int64_t width = id_count ? tenon_count(data) / id_count : 0;
  int64_t shape[TENON_RANK_MAX];
  value_t v;
  value_t mask;
  value_t last;
  (void)count;
  if (ids->ndim > data->ndim || rows < 0)
    return tenon_error_set(TENON_INVALID, "the shape of data must begin with that of segment_ids");
  const int64_t flat[] = {id_count, width};
  const int64_t ids_shape[] = {id_count, 1};
  const int64_t total[] = {rows + 1, width};
  value_t indices;
  value_t updates;
  value_t sums;
  tenon_status_t status = integer(frame, ids->dtype, 0, &v);
  if (status == TENON_OK) status = call_pair(frame, "core::less", ids, v.tensor, &mask);
  if (status == TENON_OK) status = integer(frame, ids->dtype, rows, &last);
  if (status == TENON_OK) {
    const tenon_value_t values[] = {tensor_value(mask.tensor), tensor_value(last.tensor),
                                    tensor_value(ids)};
    status = frame_call(frame, "core::where", values, 3, &indices);
  }
  if (status == TENON_OK) status = reshaped(frame, indices.tensor, ids_shape, 2, &indices);
  if (status == TENON_OK) status = expanded(frame, indices.tensor, flat, 2, &indices);
  if (status == TENON_OK) status = reshaped(frame, data, flat, 2, &updates);
  if (status == TENON_OK) status = zeros(frame, data->dtype, total, 2, &sums);
  if (status == TENON_OK && tenon_count(data) > 0) {
    const tenon_value_t values[] = {tensor_value(sums.tensor),
                                    tensor_value(indices.tensor),
                                    tensor_value(updates.tensor),
                                    int_value(0),
                                    {.kind = TENON_KIND_CHOICE, .as.i = 1}};
    status = frame_call(frame, "core::scatter_elements", values, 5, &sums);
  }
  const value_t first = {.kind = VALUE_INTS, .count = 1, .ints = {0}};
  const value_t end = {.kind = VALUE_INTS, .count = 1, .ints = {rows}};
  if (status == TENON_OK) status = sliced(frame, sums.tensor, &first, &end, NULL, &sums);
  shape[0] = rows;
  for (int32_t i = ids->ndim; i < data->ndim; i++)
    shape[1 + i - ids->ndim] = data->shape[i];
  return status == TENON_OK ? reshaped(frame, sums.tensor, shape, 1 + data->ndim - ids->ndim, out)
                            : status;
}

/* one_hot(indices, depth, on, off, axis) */
static tenon_status_t one_hot(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  tenon_tensor_t *indices = operands[0].tensor;
  const int64_t depth = operands[1].ints[0];
  const int32_t rank = indices->ndim + 1;
  const int32_t axis = operands[4].number < 0 ? indices->ndim : (int32_t)operands[4].number;
  int64_t shape[TENON_RANK_MAX + 1] = {0};
  int64_t range_shape[TENON_RANK_MAX + 1];
  value_t range;
  value_t hit;
  value_t wide = {.kind = VALUE_TENSOR};
  (void)count;
  if (axis > indices->ndim || rank > PLAN_LIST_MOST || depth < 0)
    return tenon_error_set(TENON_INVALID, "one_hot needs a depth of at least 0, and an axis of the "
                                          "result");
  tenon_tensor_t extent = {.ndim = 1, .shape = (int64_t[]){depth}};
  value_t of[] = {{.kind = VALUE_TENSOR, .tensor = &extent}, operands[0]};
  tenon_status_t status = counting(frame, of, 2, &range);
  for (int32_t i = 0; i < rank; i++) {
    range_shape[i] = i == axis ? depth : 1;
    if (i != axis) shape[i] = indices->shape[i < axis ? i : i - 1];
    if (i == axis) shape[i] = 1;
  }
  if (status == TENON_OK) status = reshaped(frame, range.tensor, range_shape, rank, &range);
  if (status == TENON_OK) status = reshaped(frame, indices, shape, rank, &wide);
  if (status == TENON_OK) status = call_pair(frame, "core::equal", wide.tensor, range.tensor, &hit);
  if (status != TENON_OK) return status;
  const tenon_value_t values[] = {tensor_value(hit.tensor), tensor_value(operands[2].tensor),
                                  tensor_value(operands[3].tensor)};
  return frame_call(frame, "core::where", values, 3, out);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  function_t function;
  const char *needs; /* an operator that the device must have; NULL: only views and copies */
} functions[] = {
    {"dims", dims, NULL},
    {"swap", swap, NULL},
    {"other_axes", other_axes, NULL},
    {"channel", channel, NULL},
    {"spread", spread, NULL},
    {"column", column, NULL},
    {"counting", counting, NULL},
    {"pad_list", pad_list, NULL},
    {"ends", ends, NULL},
    {"gather", function_gather, "core::gather"},
    {"first_hit", function_first_hit, "core::reduce_min"},
    {"running_sum", function_running_sum, "core::add"},
    {"einsum", function_einsum, "core::matmul"},
    {"average_back", function_average_back, "core::conv_transpose"},
    {"pool_pads", pool_pads, NULL},
    {"is_one", is_one, NULL},
    {"inverse_count", inverse_count, NULL},
    {"unbiased", unbiased, NULL},
    {"nchw", nchw, NULL},
    {"from_nchw", from_nchw, NULL},
    {"spatial", spatial, NULL},
    {"pad_mode", pad_mode, NULL},
    {"nan", not_a_number, NULL},
    {"zeros", function_zeros, NULL},
    {"choose", choose, NULL},
    {"rows", rows, NULL},
    {"sum", sum, "core::add"},
    {"segment_sum", segment_sum, "core::scatter_elements"},
    {"one_hot", one_hot, "core::where"},
    {"convolve", function_convolve, "core::conv"},
    {"convolve_back", function_convolve_back, "core::conv_transpose"},
    {"convolve_filter", function_convolve_filter, "core::conv"},
    {"convolve_filter_each", function_convolve_filter_each, "core::conv"},
    {"depthwise", function_depthwise, NULL},
    {"strided", function_strided, NULL},
    {"strided_back", function_strided_back, NULL},
    {"split", function_split, NULL},
    {"stack", function_stack, "core::concat"},
    {"unstack", function_unstack, NULL},
};

bool function_is_choice(function_t function) { return function == choose; }

function_t function_find(const char *name) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (!strcmp(functions[i].name, name)) return functions[i].function;
  return NULL;
}

const char *function_needs(function_t function) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (functions[i].function == function) return functions[i].needs;
  return NULL;
}
