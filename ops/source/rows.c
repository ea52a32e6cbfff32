/* Operators that fold rows of f32, for devices that compile: one group per row. softmax and the
 * norms read a row again for their results; reductions write one number. Rows are addressed by two
 * walks: one over rows, one within a row.
 * Invariant: each item keeps its own sum, and sums are then folded in pairs, so that every group
 * size is correct. */
#ifndef TENON_ON_DEVICE
#include "../axes.h"
#include "launch.h"
#endif

#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define GREATER(a, b) ((b) > (a) || (b) != (b) ? (b) : (a)) /* NaN wins */
#define LESSER(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
/* Folds `own` of all items of a group; every item receives the result. */
#define FOLD(own, OP)                                                                              \
  do {                                                                                             \
    room[get_local_id(0)] = own;                                                                   \
    BARRIER();                                                                                     \
    for (uint32_t n_ = get_local_size(0); n_ > 1; n_ = (n_ + 1) / 2) {                             \
      uint32_t here_ = get_local_id(0);                                                            \
      uint32_t there_ = here_ + (n_ + 1) / 2;                                                      \
      if (there_ < n_) room[here_] = OP(room[here_], room[there_]);                                \
      BARRIER();                                                                                   \
    }                                                                                              \
    own = room[0];                                                                                 \
    BARRIER();                                                                                     \
  } while (0)
#define ITEMS(i, n) for (int64_t i = get_local_id(0); i < (n); i += get_local_size(0))

/* softmax */

#define DEFINE_SOFTMAX(name, value)                                                                \
  TENON_SOURCE_7(name, IN, float, x, OUT, float, out, VALUE, tenon_walk_t, rows, VALUE, int64_t,   \
                 n, VALUE, int64_t, x_stride, VALUE, int64_t, out_stride, SHARED, float, room) {   \
    int64_t at[4];                                                                                 \
    tenon_walk(&rows, (int64_t)get_group_id(0), at);                                               \
    float top = -INFINITY;                                                                         \
    float sum = 0;                                                                                 \
    ITEMS(i, n) {                                                                                  \
      float e = x[at[0] + i * x_stride];                                                           \
      top = GREATER(top, e);                                                                       \
    }                                                                                              \
    FOLD(top, GREATER);                                                                            \
    ITEMS(i, n) sum += exp(x[at[0] + i * x_stride] - top);                                         \
    FOLD(sum, ADD);                                                                                \
    float log_sum = log(sum);                                                                      \
    float by = 1 / sum;                                                                            \
    (void)log_sum;                                                                                 \
    (void)by;                                                                                      \
    ITEMS(i, n) {                                                                                  \
      float e = x[at[0] + i * x_stride] - top;                                                     \
      out[at[1] + i * out_stride] = value;                                                         \
    }                                                                                              \
  }
DEFINE_SOFTMAX(softmax, exp(e) * by)
DEFINE_SOFTMAX(log_softmax, e - log_sum)

/* norms */

#define N_CENTRED 1
#define N_SCALE 2
#define N_BIAS 4
#define N_STATISTICS                                                                               \
  /* The walk `rows` has mean and inv_std as its third and fourth tensor, otherwise scale and \
   * bias. */    \
  8
TENON_SOURCE_11(norm, IN, float, x, IN, float, scale, IN, float, bias, OUT, float, out, OUT, float,
                mean_out, OUT, float, by_out, VALUE, tenon_walk_t, rows, VALUE, tenon_walk_t, row,
                VALUE, int32_t, flags, VALUE, float, epsilon, SHARED, float, room) {
  int64_t here[4], at[4];
  int64_t n = row.count;
  tenon_walk(&rows, (int64_t)get_group_id(0), here);
  float mean = 0;
  float by = 0;
  if (flags & N_CENTRED) {
    ITEMS(i, n) {
      tenon_walk(&row, i, at);
      mean += x[here[0] + at[0]];
    }
    FOLD(mean, ADD);
    mean /= (float)n;
  }
  ITEMS(i, n) {
    tenon_walk(&row, i, at);
    float e = x[here[0] + at[0]] - mean;
    by += e * e;
  }
  FOLD(by, ADD);
  by = 1 / sqrt(by / (float)n + epsilon);
  int64_t shared_scale = flags & N_STATISTICS ? 0 : here[2];
  int64_t shared_bias = flags & N_STATISTICS ? 0 : here[3];
  ITEMS(i, n) {
    tenon_walk(&row, i, at);
    float e = (x[here[0] + at[0]] - mean) * by;
    if (flags & N_SCALE) e *= scale[shared_scale + at[2]];
    if (flags & N_BIAS) e += bias[shared_bias + at[3]];
    out[here[1] + at[1]] = e;
  }
  if (flags & N_STATISTICS && get_local_id(0) == 0) {
    if (here[2] >= 0) mean_out[here[2]] = mean;
    if (here[3] >= 0) by_out[here[3]] = by;
  }
}

/* reductions */

/* X(operator, value of an element, start of the fold, operation, result) */
/* clang-format off */
#define REDUCTIONS(X)                                                                              \
  X(reduce_sum, e, 0, ADD, all)                                                                    \
  X(reduce_mean, e, 0, ADD, all / (float)row.count)                                                \
  X(reduce_max, e, -INFINITY, GREATER, all)                                                        \
  X(reduce_min, e, INFINITY, LESSER, all)                                                          \
  X(reduce_prod, e, 1, MULTIPLY, all)                                                              \
  X(reduce_l1, fabs(e), 0, ADD, all)                                                               \
  X(reduce_l2, e * e, 0, ADD, sqrt(all))                                                           \
  X(reduce_log_sum, e, 0, ADD, log(all))                                                           \
  X(reduce_sum_square, e * e, 0, ADD, all)
/* clang-format on */
#define DEFINE_REDUCTION(name, element, start, OP, result)                                         \
  TENON_SOURCE_5(name, IN, float, x, OUT, float, out, VALUE, tenon_walk_t, rows, VALUE,            \
                 tenon_walk_t, row, SHARED, float, room) {                                         \
    int64_t here[4], at[4];                                                                        \
    tenon_walk(&rows, (int64_t)get_group_id(0), here);                                             \
    float all = start;                                                                             \
    ITEMS(i, row.count) {                                                                          \
      tenon_walk(&row, i, at);                                                                     \
      float e = x[here[0] + at[0]];                                                                \
      float more = element;                                                                        \
      all = OP(all, more);                                                                         \
    }                                                                                              \
    FOLD(all, OP);                                                                                 \
    if (get_local_id(0) == 0) out[here[1]] = result;                                               \
  }
REDUCTIONS(DEFINE_REDUCTION)
TENON_SOURCE_5(reduce_log_sum_exp, IN, float, x, OUT, float, out, VALUE, tenon_walk_t, rows, VALUE,
               tenon_walk_t, row, SHARED, float, room) {
  int64_t here[4], at[4];
  tenon_walk(&rows, (int64_t)get_group_id(0), here);
  float top = -INFINITY;
  float sum = 0;
  ITEMS(i, row.count) {
    tenon_walk(&row, i, at);
    float e = x[here[0] + at[0]];
    top = GREATER(top, e);
  }
  FOLD(top, GREATER);
  float shift = fabs(top) < INFINITY ? top : 0;
  ITEMS(i, row.count) {
    tenon_walk(&row, i, at);
    sum += exp(x[here[0] + at[0]] - shift);
  }
  FOLD(sum, ADD);
  if (get_local_id(0) == 0) out[here[1]] = log(sum) + shift;
}

#ifndef TENON_ON_DEVICE
#define NUMBER(name, element, start, OP, result) K_##name,
enum { K_softmax, K_log_softmax, K_norm, REDUCTIONS(NUMBER) K_log_sum_exp };
#define KERNEL(name, element, start, OP, result) {#name, name},
/* clang-format off */
TENON_CODE(core_source_rows_code,
  {"softmax", softmax},
  {"log_softmax", log_softmax},
  {"norm", norm},
  REDUCTIONS(KERNEL) {"reduce_log_sum_exp", reduce_log_sum_exp})
/* clang-format on */
#define CODE &core_source_rows_code

/* A view of the axes of a tensor from `begin` to `end`, at the same first element. */
static tenon_tensor_t axes_of(const tenon_tensor_t *t, int32_t begin, int32_t end) {
  tenon_tensor_t view = *t;
  view.ndim = end - begin;
  view.shape += begin;
  view.strides += begin;
  return view;
}

/* softmax */

static tenon_status_t softmax_by(tenon_call_t *call, uint32_t kernel) {
  tenon_tensor_t x = *call->inputs[0];
  tenon_tensor_t out = *call->outputs[0];
  const tenon_tensor_t *tensors[2] = {&x, &out};
  int64_t shape[TENON_RANK_MAX], x_strides[TENON_RANK_MAX], out_strides[TENON_RANK_MAX];
  int32_t axis = 0;
  int32_t rank = 0;
  tenon_walk_t rows;
  TENON_TRY(axis_wrap(call, call->attrs[0].as.i, x.ndim, &axis));
  if (!tenon_count(&x)) return TENON_OK;
  int64_t n = x.shape[axis];
  int64_t by = n > 1 ? x.strides[axis] : 0;
  int64_t out_by = n > 1 ? out.strides[axis] : 0;
  const tenon_kernel_argument_t from = tenon_in(&x);
  const tenon_kernel_argument_t to = tenon_out(&out);
  for (int32_t i = 0; i < x.ndim; i++)
    if (i != axis) {
      shape[rank] = x.shape[i];
      x_strides[rank] = x.strides[i];
      out_strides[rank++] = out.strides[i];
    }
  x.ndim = out.ndim = rank;
  x.shape = out.shape = shape;
  x.strides = x_strides;
  out.strides = out_strides;
  TENON_TRY(walk_set(call, tensors, 2, &rows));
  if (by < 0) rows.first[0] -= (n - 1) * by;
  if (out_by < 0) rows.first[1] -= (n - 1) * out_by;
  const tenon_kernel_argument_t arguments[] = {from,
                                               to,
                                               TENON_VALUE(rows),
                                               TENON_VALUE(n),
                                               TENON_VALUE(by),
                                               TENON_VALUE(out_by),
                                               tenon_shared(sizeof(float))};
  return rows_run(call, CODE, kernel, rows.count, n, arguments, 7);
}

static tenon_status_t softmax_run(tenon_call_t *call) { return softmax_by(call, K_softmax); }
static tenon_status_t log_softmax_run(tenon_call_t *call) {
  return softmax_by(call, K_log_softmax);
}

/* norms */

/* layer_norm and rms_norm: rows are the axes before an axis. */
static tenon_status_t from_axis_on(tenon_call_t *call, const tenon_tensor_t *bias, int32_t flags) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *scale = call->inputs[1];
  const tenon_tensor_t *out = call->outputs[0];
  const tenon_tensor_t *given[2] = {flags & N_CENTRED ? call->outputs[1] : NULL,
                                    flags & N_CENTRED ? call->outputs[2] : NULL};
  int32_t axis = 0;
  tenon_walk_t rows, row;
  float epsilon = (float)call->attrs[1].as.f;
  TENON_TRY(axis_wrap(call, call->attrs[0].as.i, x->ndim, &axis));
  tenon_tensor_t outer[4] = {axes_of(x, 0, axis), axes_of(out, 0, axis)};
  tenon_tensor_t inner[4] = {axes_of(x, axis, x->ndim)};
  const tenon_tensor_t *const by_row[4] = {&outer[0], &outer[1], given[0] ? &outer[2] : NULL,
                                           given[1] ? &outer[3] : NULL};
  for (int i = 0; i < 2; i++)
    if (given[i]) outer[2 + i] = axes_of(given[i], 0, axis);
  inner[1] = axes_of(out, axis, out->ndim);
  const tenon_tensor_t *const in_row[4] = {&inner[0], &inner[1], scale, bias};
  if (!tenon_count(x))
    return given[0] || given[1]
               ? DECLINE(call, "the source kernel gives no statistics of empty rows")
               : TENON_OK;
  if (!tenon_walk_of(&rows, axis, x->shape, by_row, 4) ||
      !tenon_walk_of(&row, x->ndim - axis, x->shape + axis, in_row, 4))
    return DECLINE(call, "the source kernel supports at most eight axes that do not merge");
  flags |= N_STATISTICS;
  if (scale) flags |= N_SCALE;
  if (bias) flags |= N_BIAS;
  for (int i = 0; i < 2; i++)
    if (!given[i]) rows.first[2 + i] = -1;
  const tenon_kernel_argument_t arguments[] = {tenon_in(x),
                                               tenon_in(scale ? scale : x),
                                               tenon_in(bias ? bias : x),
                                               tenon_out(out),
                                               tenon_out(given[0] ? given[0] : out),
                                               tenon_out(given[1] ? given[1] : out),
                                               TENON_VALUE(rows),
                                               TENON_VALUE(row),
                                               TENON_VALUE(flags),
                                               TENON_VALUE(epsilon),
                                               tenon_shared(sizeof(float))};
  return rows_run(call, CODE, K_norm, rows.count, row.count, arguments, 11);
}

static tenon_status_t layer_norm_run(tenon_call_t *call) {
  return from_axis_on(call, call->inputs[2], N_CENTRED);
}
static tenon_status_t rms_norm_run(tenon_call_t *call) { return from_axis_on(call, NULL, 0); }

/* group_norm and instance_norm: x as [batch, group, channel of the group, spatial...]. */
static tenon_status_t by_groups(tenon_call_t *call, int64_t groups, double given_epsilon) {
  tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  tenon_tensor_t *scale = call->inputs[1];
  tenon_tensor_t *bias = call->inputs[2];
  int64_t channels = x->shape[1];
  int64_t each = groups ? channels / groups : 0;
  int64_t count = tenon_count(x);
  if (!count) return TENON_OK;
  if (scale && scale->ndim != 1) scale = NULL;
  int64_t outer_shape[2] = {x->shape[0], groups};
  int64_t inner_shape[TENON_RANK_MAX];
  int64_t strides[4][TENON_RANK_MAX] = {{0}};
  int64_t outer_strides[4][2] = {{0}};
  tenon_tensor_t *all[4] = {x, out, scale, bias};
  tenon_tensor_t outer[4], inner[4];
  const tenon_tensor_t *by_row[4] = {NULL};
  const tenon_tensor_t *in_row[4] = {NULL};
  int32_t rank = x->ndim - 1;
  for (int32_t i = 0; i < rank; i++)
    inner_shape[i] = i ? x->shape[i + 1] : each;
  for (int k = 0; k < 4; k++) {
    if (!all[k]) continue;
    int32_t channel = k < 2 ? 1 : 0;
    outer[k] = inner[k] = *all[k];
    outer_strides[k][0] = k < 2 ? all[k]->strides[0] : 0;
    outer_strides[k][1] = each * all[k]->strides[channel];
    strides[k][0] = all[k]->strides[channel];
    for (int32_t i = 1; i < rank; i++)
      strides[k][i] = k < 2 ? all[k]->strides[i + 1] : 0;
    outer[k].ndim = 2;
    outer[k].shape = outer_shape;
    outer[k].strides = outer_strides[k];
    inner[k].ndim = rank;
    inner[k].shape = inner_shape;
    inner[k].strides = strides[k];
    by_row[k] = &outer[k];
    in_row[k] = &inner[k];
  }
  tenon_walk_t rows, row;
  float epsilon = (float)given_epsilon;
  int32_t flags = N_CENTRED;
  if (scale) flags |= N_SCALE;
  if (bias) flags |= N_BIAS;
  if (!tenon_walk_of(&rows, 2, outer_shape, by_row, 4) ||
      !tenon_walk_of(&row, rank, inner_shape, in_row, 4))
    return DECLINE(call, "the source kernel supports at most eight axes that do not merge");
  const tenon_kernel_argument_t arguments[] = {tenon_in(x),
                                               tenon_in(scale ? scale : x),
                                               tenon_in(bias ? bias : x),
                                               tenon_out(out),
                                               tenon_out(out),
                                               tenon_out(out),
                                               TENON_VALUE(rows),
                                               TENON_VALUE(row),
                                               TENON_VALUE(flags),
                                               TENON_VALUE(epsilon),
                                               tenon_shared(sizeof(float))};
  return rows_run(call, CODE, K_norm, rows.count, row.count, arguments, 11);
}

static tenon_status_t instance_norm_run(tenon_call_t *call) {
  return by_groups(call, call->inputs[0]->shape[1], call->attrs[0].as.f);
}
static tenon_status_t group_norm_run(tenon_call_t *call) {
  return by_groups(call, call->attrs[0].as.i, call->attrs[1].as.f);
}

/* reductions */

/* Reduces the axes in a mask. */
static tenon_status_t fold_axes(tenon_call_t *call, uint32_t kernel, uint64_t mask, int keepdims) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *out = call->outputs[0];
  int64_t kept_shape[TENON_RANK_MAX], gone_shape[TENON_RANK_MAX], kept[2][TENON_RANK_MAX],
      gone[TENON_RANK_MAX];
  int32_t kept_rank = 0;
  int32_t gone_rank = 0;
  int32_t at = 0;
  for (int32_t i = 0; i < x->ndim; i++) {
    if (mask >> i & 1) {
      gone_shape[gone_rank] = x->shape[i];
      gone[gone_rank++] = x->strides[i];
      at += keepdims;
    } else {
      kept_shape[kept_rank] = x->shape[i];
      kept[0][kept_rank] = x->strides[i];
      kept[1][kept_rank++] = out->strides[at++];
    }
  }
  tenon_tensor_t views[3] = {*x, *out, *x};
  for (int k = 0; k < 2; k++) {
    views[k].ndim = kept_rank;
    views[k].shape = kept_shape;
    views[k].strides = kept[k];
  }
  views[2].ndim = gone_rank;
  views[2].shape = gone_shape;
  views[2].strides = gone;
  const tenon_tensor_t *const by_row[2] = {&views[0], &views[1]};
  const tenon_tensor_t *const in_row[1] = {&views[2]};
  tenon_walk_t rows, row;
  TENON_TRY(walk_set(call, by_row, 2, &rows));
  TENON_TRY(walk_set(call, in_row, 1, &row));
  const tenon_kernel_argument_t arguments[] = {tenon_in(x), tenon_out(out), TENON_VALUE(rows),
                                               TENON_VALUE(row), tenon_shared(sizeof(float))};
  return rows_run(call, CODE, kernel, rows.count, row.count, arguments, 5);
}

static tenon_status_t reduce_axes(tenon_call_t *call, uint32_t kernel) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *axes = call->inputs[1];
  int64_t numbers[TENON_RANK_MAX];
  int64_t count = axes ? tenon_count(axes) : 0;
  uint64_t mask = 0;
  for (int64_t i = 0; i < count && i < TENON_RANK_MAX; i++)
    numbers[i] = tensor_int(axes, i);
  TENON_TRY(axes_mask(call, numbers, count, x->ndim, &mask));
  if (!count && !call->attrs[1].as.i) mask = axes_all(x->ndim);
  return fold_axes(call, kernel, mask, call->attrs[0].as.i != 0);
}

/* Reduces each channel of [N, C, spatial...]. */
static tenon_status_t over_space(tenon_call_t *call, uint32_t kernel) {
  return fold_axes(call, kernel, axes_all(call->inputs[0]->ndim) & ~(uint64_t)3, 1);
}
static tenon_status_t global_average_run(tenon_call_t *call) {
  return over_space(call, K_reduce_mean);
}
static tenon_status_t global_max_run(tenon_call_t *call) { return over_space(call, K_reduce_max); }
static tenon_status_t global_lp_run(tenon_call_t *call) {
  double p = call->attrs[0].as.f;
  if (p != 1 && p != 2) return DECLINE(call, "the source kernel supports p = 1 and 2");
  return over_space(call, p == 1 ? K_reduce_l1 : K_reduce_l2);
}

#define RUN(name, element, start, OP, result)                                                      \
  static tenon_status_t name##_run(tenon_call_t *call) { return reduce_axes(call, K_##name); }
REDUCTIONS(RUN)
static tenon_status_t log_sum_exp_run(tenon_call_t *call) {
  return reduce_axes(call, K_log_sum_exp);
}

#define ITEM(name, element, start, OP, result)                                                     \
  , TENON_EXTEND("core::" #name, TENON_SOURCE("f32 strided capturable", name##_run))
/* clang-format off */
TENON_ITEMS(core_source_rows,
  TENON_EXTEND("core::softmax", TENON_SOURCE("f32 strided capturable", softmax_run)),
  TENON_EXTEND("core::log_softmax", TENON_SOURCE("f32 strided capturable", log_softmax_run)),
  TENON_EXTEND("core::layer_norm", TENON_SOURCE("f32 strided capturable", layer_norm_run)),
  TENON_EXTEND("core::rms_norm", TENON_SOURCE("f32 strided capturable", rms_norm_run)),
  TENON_EXTEND("core::instance_norm", TENON_SOURCE("f32 strided capturable", instance_norm_run)),
  TENON_EXTEND("core::group_norm", TENON_SOURCE("f32 strided capturable", group_norm_run)),
  TENON_EXTEND("core::global_average_pool",
    TENON_SOURCE("f32 strided capturable", global_average_run)),
  TENON_EXTEND("core::global_max_pool", TENON_SOURCE("f32 strided capturable", global_max_run)),
  TENON_EXTEND("core::global_lp_pool", TENON_SOURCE("f32 strided", global_lp_run)),
  TENON_EXTEND("core::reduce_log_sum_exp", TENON_SOURCE("f32 strided capturable", log_sum_exp_run))
  REDUCTIONS(ITEM))
/* clang-format on */
#endif
