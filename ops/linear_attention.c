/* linear_attention and causal_conv, which models with a recurrent state use instead of attention,
 * and both composed of other operators, which have gradients. The host calls infer and the kernels.
 * A task is one head of a batch, or one channel, over the whole length.
 * Invariant: states stay in f32 (f64 for f64) from step to step, whatever the dtype of the
 * tensors. */
#include "axes.h"
#include "composite.h"
#include "conv_im2col.h"
#include "dense.h"
#include "simd/math.h"
#include <tenon/check.h>

/* linear attention */

enum {
  Q,
  K,
  V,
  PAST,
  DECAY,
  BETA,
};
enum {
  Q_HEADS,
  KV_HEADS,
  RULE,
  SCALE,
};
enum {
  RULE_LINEAR,
  RULE_GATED,
  RULE_DELTA,
  RULE_GATED_DELTA,
};

typedef struct linear_t {
  const tenon_tensor_t *in[BETA + 1]; /* dense; NULL: absent */
  tenon_tensor_t *out;
  tenon_tensor_t *state; /* dense; the [key, value] matrix of each head */
  int64_t length;
  int64_t q_heads;
  int64_t kv_heads;
  int64_t keys;
  int64_t values;
  int gated;
  int delta;
  double scale;
} linear_t;

#define T float
#define NAME(x) x##_float
#include "linear_attention_kernel.h"

#define T double
#define NAME(x) x##_double
#include "linear_attention_kernel.h"

typedef struct linear_task_t {
  const linear_t *linear;
  char *scratch; /* a row of values for each task */
} linear_task_t;

static tenon_status_t heads_run(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const linear_task_t *task = (const linear_task_t *)argument;
  const linear_t *l = task->linear;
  (void)call;
  for (int64_t i = begin; i < end; i++) {
    char *row = task->scratch + i * l->values * (l->out->dtype.bits / 8);
    if (core_is(l->out, TENON_F64))
      head_double(l, i / l->kv_heads, i % l->kv_heads, (double *)(void *)row);
    else
      head_float(l, i / l->kv_heads, i % l->kv_heads, (float *)(void *)row);
  }
  return TENON_OK;
}

static tenon_status_t linear_attention_run(tenon_call_t *call) {
  const tenon_value_t *attrs = call->attrs;
  tenon_dtype_t dtype = tenon_dtype(core_is(call->outputs[0], TENON_F64) ? TENON_F64 : TENON_F32);
  int64_t rule = attrs[RULE].as.i;
  int64_t q_heads = attrs[Q_HEADS].as.i;
  int64_t kv_heads = attrs[KV_HEADS].as.i;
  linear_t l = {.q_heads = q_heads,
                .kv_heads = kv_heads,
                .gated = rule == RULE_GATED || rule == RULE_GATED_DELTA,
                .delta = rule == RULE_DELTA || rule == RULE_GATED_DELTA,
                .scale = attrs[SCALE].as.f};
  for (int i = 0; i <= BETA; i++) {
    if (!call->inputs[i]) continue;
    l.in[i] = core_dense(call, call->inputs[i], dtype);
    if (!l.in[i]) return TENON_MEMORY;
  }
  l.out = core_place_dense(call, call->outputs[0], dtype);
  l.state = core_place_dense(call, call->outputs[1], dtype);
  if (!l.out || !l.state) return TENON_MEMORY;
  l.length = l.in[Q]->shape[1];
  l.keys = l.in[Q]->shape[2] / q_heads;
  l.values = l.in[V]->shape[2] / kv_heads;
  if (l.scale == 0) l.scale = 1 / sqrt((double)l.keys);
  int64_t tasks = l.in[Q]->shape[0] * kv_heads;
  linear_task_t task = {&l, (char *)CORE_SCRATCH(call, dtype.bits / 8u, tasks, l.values)};
  if (!task.scratch) return TENON_MEMORY;
  TENON_TRY(call->host->parallel(call, tasks, 1, heads_run, &task));
  TENON_TRY(core_settle(call, call->outputs[1], l.state));
  return core_settle(call, call->outputs[0], l.out);
}

/* linear attention by other operators */

enum {
  USE_CAST,
  USE_CAST_LIKE,
  USE_SLICE,
  USE_RESHAPE,
  USE_MATMUL,
  USE_MUL,
  USE_SUB,
  USE_ADD,
  USE_EXP,
  USE_EXPAND,
  USE_CONCAT,
};
#define LINEAR_USES                                                                                \
  DENSE_USES                                                                                       \
  ", core::cast_like, core::slice, core::reshape, core::matmul, core::mul, core::sub, core::add, " \
  "core::exp, "                                                                                    \
  "core::expand, core::concat"

/* Step t of [batch, length, ...] as [batch, a, b, c]. */
static tenon_status_t step_of(tenon_call_t *call, tenon_tensor_t *x, int64_t t, int64_t a,
                              int64_t b, int64_t c, tenon_tensor_t **out) {
  int64_t shape[4] = {x->shape[0], a, b, c};
  TENON_TRY(core_slice(call, USE_SLICE, x, 1, t, t + 1, out));
  return core_reshape(call, USE_RESHAPE, *out, 4, shape, out);
}

/* Gives the state before the first step, in q's dtype: the past, or zeros of `shape` if there is no
 * past. */
static tenon_status_t initial_state(tenon_call_t *call, tenon_tensor_t *q, const int64_t shape[4],
                                    tenon_tensor_t **out) {
  if (call->inputs[PAST]) return INVOKE(call, USE_CAST_LIKE, NULL, out, call->inputs[PAST], q);
  tenon_tensor_t *zero = core_number(call, q->dtype, 0);
  tenon_tensor_t *extents = core_ints(call, 4, shape);
  if (!zero || !extents) return TENON_MEMORY;
  return INVOKE(call, USE_EXPAND, NULL, out, zero, extents);
}

static tenon_status_t linear_attention_parts(tenon_call_t *call) {
  tenon_tensor_t *q = call->inputs[Q];
  tenon_tensor_t *k = call->inputs[K];
  tenon_tensor_t *v = call->inputs[V];
  tenon_tensor_t *state;
  tenon_tensor_t *t, *row;
  tenon_tensor_t *decay = call->inputs[DECAY];
  tenon_tensor_t *beta = call->inputs[BETA];
  tenon_tensor_t *part, **outs;
  int64_t q_heads = call->attrs[Q_HEADS].as.i;
  int64_t heads = call->attrs[KV_HEADS].as.i;
  int64_t length = q->shape[1];
  int64_t keys = q->shape[2] / q_heads;
  int64_t values = v->shape[2] / heads;
  int64_t all = q_heads * values;
  int64_t shape[4] = {q->shape[0], heads, keys, values};
  int64_t row_shape[3] = {q->shape[0], 1, all};
  double scale = call->attrs[SCALE].as.f != 0 ? call->attrs[SCALE].as.f : 1 / sqrt((double)keys);
  if (!(outs =
            (tenon_tensor_t **)call->host->allocate(call, (uint64_t)(length + 1) * sizeof *outs)))
    return TENON_MEMORY;
  TENON_TRY(initial_state(call, q, shape, &state));
  if (decay) TENON_TRY(INVOKE(call, USE_EXP, NULL, &decay, decay));
  TENON_TRY(core_with(call, USE_MUL, q, scale, &q));
  for (int64_t i = 0; i < length; i++) {
    if (decay) {
      TENON_TRY(step_of(call, decay, i, heads, decay->shape[2] / heads, 1, &t));
      TENON_TRY(INVOKE(call, USE_MUL, NULL, &state, state, t));
    }
    TENON_TRY(step_of(call, v, i, heads, 1, values, &row));
    if (beta) {
      TENON_TRY(step_of(call, k, i, heads, 1, keys, &part));
      TENON_TRY(core_product(call, USE_MATMUL, part, state, 0, &part));
      TENON_TRY(INVOKE(call, USE_SUB, NULL, &row, row, part));
      TENON_TRY(step_of(call, beta, i, beta->shape[2], 1, 1, &t));
      TENON_TRY(INVOKE(call, USE_MUL, NULL, &row, row, t));
    }
    TENON_TRY(step_of(call, k, i, heads, keys, 1, &part));
    TENON_TRY(INVOKE(call, USE_MUL, NULL, &part, part, row));
    TENON_TRY(INVOKE(call, USE_ADD, NULL, &state, state, part));
    TENON_TRY(step_of(call, q, i, heads, q_heads / heads, keys, &part));
    TENON_TRY(core_product(call, USE_MATMUL, part, state, 0, &part));
    TENON_TRY(core_reshape(call, USE_RESHAPE, part, 3, row_shape, &outs[i]));
  }
  row_shape[1] = length;
  if (length)
    TENON_TRY(core_concat(call, USE_CONCAT, 1, length, outs, &t));
  else
    TENON_TRY(core_reshape(call, USE_RESHAPE, v, 3, row_shape, &t));
  TENON_TRY(call->host->assign(call, 0, t));
  if (call->inputs[PAST])
    TENON_TRY(INVOKE(call, USE_CAST_LIKE, NULL, &state, state, call->inputs[PAST]));
  return call->host->assign(call, 1, state);
}

/* shapes of linear attention */

static tenon_status_t heads_divide(tenon_infer_t *infer, uint32_t input, const char *name,
                                   int64_t heads, tenon_dim_t *out_size) {
  const tenon_meta_t *x = infer->inputs[input];
  if (x->ndim != 3 || (tenon_is_known(x->dims[2]) && x->dims[2].value % heads))
    return tenon_fail(infer, TENON_INVALID,
                      "%s has shape %s; expected [batch, length, %" PRId64 " heads * size]", name,
                      dims_text(x->dims, x->ndim).text, heads);
  *out_size = tenon_dim(infer, TENON_DIM_DIV, x->dims[2], tenon_extent(heads));
  return TENON_OK;
}

static tenon_status_t linear_attention_infer(tenon_infer_t *infer) {
  tenon_meta_t *const *in = infer->inputs;
  tenon_meta_t *const *out = infer->outputs;
  int64_t rule = infer->attrs[RULE].as.i;
  int64_t kv_heads = infer->attrs[KV_HEADS].as.i;
  int gated = rule == RULE_GATED || rule == RULE_GATED_DELTA;
  int delta = rule == RULE_DELTA || rule == RULE_GATED_DELTA;
  tenon_dim_t keys, k_keys, values;
  TENON_TRY(heads_divide(infer, Q, "q", infer->attrs[Q_HEADS].as.i, &keys));
  TENON_TRY(heads_divide(infer, K, "k", kv_heads, &k_keys));
  TENON_TRY(heads_divide(infer, V, "v", kv_heads, &values));
  if (dim_differ(keys, k_keys))
    return tenon_fail(infer, TENON_INVALID,
                      "heads of q have %" PRId64 " elements but heads of k %" PRId64
                      "; they must be equal",
                      keys.value, k_keys.value);
  static const char *const needs[2] = {"has no", "requires"};
  if ((in[DECAY] != 0) != gated || (in[BETA] != 0) != delta)
    return tenon_fail(infer, TENON_INVALID, "this update_rule %s decay and %s beta", needs[gated],
                      needs[delta]);
  for (uint32_t i = K; i <= BETA; i++) {
    if (!in[i] || i == PAST) continue;
    tenon_dim_t width = in[i]->ndim == 3 ? in[i]->dims[2] : tenon_extent(0);
    int wrong = in[i]->ndim != 3 || dim_differ(in[i]->dims[0], in[Q]->dims[0]) ||
                dim_differ(in[i]->dims[1], in[Q]->dims[1]);
    if (i == DECAY)
      wrong |= dim_differ(width, tenon_extent(kv_heads)) && dim_differ(width, in[K]->dims[2]);
    if (i == BETA)
      wrong |= dim_differ(width, tenon_extent(kv_heads)) && dim_differ(width, tenon_extent(1));
    if (wrong)
      return tenon_fail(infer, TENON_INVALID,
                        "input %u has shape %s, which does not fit q of shape %s and %" PRId64
                        " heads of k",
                        i, dims_text(in[i]->dims, in[i]->ndim).text,
                        dims_text(in[Q]->dims, in[Q]->ndim).text, kv_heads);
  }
  const tenon_dim_t state[4] = {in[Q]->dims[0], tenon_extent(kv_heads), keys, values};
  int wrong = in[PAST] && in[PAST]->ndim != 4;
  for (int32_t i = 0; in[PAST] && !wrong && i < 4; i++)
    wrong = dim_differ(in[PAST]->dims[i], state[i]);
  if (wrong)
    return tenon_fail(infer, TENON_INVALID, "past_state has shape %s; expected %s",
                      dims_text(in[PAST]->dims, in[PAST]->ndim).text, dims_text(state, 4).text);
  out[0]->ndim = 3;
  out[1]->ndim = 4;
  out[0]->dims[0] = in[Q]->dims[0];
  out[0]->dims[1] = in[Q]->dims[1];
  out[0]->dims[2] = dim_mul(infer, values, tenon_extent(infer->attrs[Q_HEADS].as.i));
  for (int i = 0; i < 4; i++)
    out[1]->dims[i] = state[i];
  out[1]->dtype = in[PAST] ? in[PAST]->dtype : in[Q]->dtype;
  return TENON_OK;
}

static tenon_status_t linear_attention_validate(tenon_node_t *node) {
  int64_t q = node->attrs[Q_HEADS].as.i;
  int64_t kv = node->attrs[KV_HEADS].as.i;
  if (q < 1 || kv < 1 || q % kv)
    return tenon_fail(node, TENON_INVALID,
                      "q_num_heads is %" PRId64 " and kv_num_heads %" PRId64
                      "; the first must be a positive multiple of the second",
                      q, kv);
  return TENON_OK;
}

/* causal convolution */

typedef struct causal_t {
  const tenon_tensor_t *in[4]; /* x, w, bias, past; dense */
  tenon_tensor_t *out;
  tenon_tensor_t *state;
  int silu;
} causal_t;

#define T float
#define NAME(x) x##_float
#include "causal_conv_kernel.h"

#define T double
#define NAME(x) x##_double
#include "causal_conv_kernel.h"

static tenon_status_t channels_run(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const causal_t *c = (const causal_t *)argument;
  (void)call;
  for (int64_t row = begin; row < end; row++) {
    if (core_is(c->out, TENON_F64))
      channel_double(c, row, row % c->in[0]->shape[1]);
    else
      channel_float(c, row, row % c->in[0]->shape[1]);
  }
  return TENON_OK;
}

static tenon_status_t causal_conv_run(tenon_call_t *call) {
  enum { WORK = 1 << 14 };
  tenon_dtype_t dtype = tenon_dtype(core_is(call->outputs[0], TENON_F64) ? TENON_F64 : TENON_F32);
  causal_t c = {.silu = call->attrs[0].as.i != 0};
  for (int i = 0; i < 4; i++) {
    if (!call->inputs[i]) continue;
    c.in[i] = core_dense(call, call->inputs[i], dtype);
    if (!c.in[i]) return TENON_MEMORY;
  }
  c.out = core_place_dense(call, call->outputs[0], dtype);
  c.state = core_place_dense(call, call->outputs[1], dtype);
  if (!c.out || !c.state) return TENON_MEMORY;
  const int64_t *shape = c.in[0]->shape;
  int64_t work = (shape[2] + 1) * c.in[1]->shape[2];
  TENON_TRY(call->host->parallel(call, shape[0] * shape[1], 1 + WORK / work, channels_run, &c));
  TENON_TRY(core_settle(call, call->outputs[1], c.state));
  return core_settle(call, call->outputs[0], c.out);
}

/* causal convolution by other operators */

enum {
  CAUSAL_CAST,
  CAUSAL_EXPAND,
  CAUSAL_CONCAT,
  CAUSAL_CONV,
  CAUSAL_SLICE,
  CAUSAL_MUL,
  CAUSAL_SILU,
  CAUSAL_RESHAPE,
};
#define CAUSAL_USES                                                                                \
  DENSE_USES                                                                                       \
  ", core::expand, core::concat, core::conv, core::slice, core::mul, core::silu, core::reshape"

static tenon_status_t causal_conv_parts(tenon_call_t *call) {
  tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *w = call->inputs[1];
  tenon_tensor_t *items[2] = {call->inputs[3], x};
  tenon_tensor_t *all, *state, *out;
  int64_t length = x->shape[2];
  int64_t before = w->shape[2] - 1;
  int64_t shape[3] = {x->shape[0], x->shape[1], before};
  if (!items[0]) {
    tenon_tensor_t *zero = core_number(call, x->dtype, 0);
    tenon_tensor_t *extents = core_ints(call, 3, shape);
    if (!zero || !extents) return TENON_MEMORY;
    TENON_TRY(INVOKE(call, CAUSAL_EXPAND, NULL, &items[0], zero, extents));
  }
  TENON_TRY(core_concat(call, CAUSAL_CONCAT, 2, 2, items, &all));
  TENON_TRY(core_slice(call, CAUSAL_SLICE, all, 2, length, length + before, &state));
  TENON_TRY(call->host->assign(call, 1, state));
  if (tenon_count(x)) {
    const tenon_value_t attrs[CONV_BETA + 1] = {
        value_ints(0, 0),       value_ints(0, 0),
        value_ints(0, 0),       value_choice(WINDOW_EXPLICIT),
        value_int(x->shape[1]), value_choice(FINISH_none),
        value_float(0),         value_float(0)};
    TENON_TRY(INVOKE(call, CAUSAL_CONV, attrs, &out, all, w, call->inputs[2]));
  } else {
    /* conv does not accept an x without elements; empty products keep the dependence on w and
     * bias */
    int64_t column[2] = {shape[1], 1};
    tenon_tensor_t *bias = call->inputs[2];
    TENON_TRY(core_slice(call, CAUSAL_SLICE, w, 2, 0, 1, &w));
    TENON_TRY(core_reshape(call, CAUSAL_RESHAPE, w, 2, column, &w));
    TENON_TRY(INVOKE(call, CAUSAL_MUL, NULL, &out, x, w));
    if (bias) {
      TENON_TRY(core_reshape(call, CAUSAL_RESHAPE, bias, 2, column, &bias));
      TENON_TRY(INVOKE(call, CAUSAL_MUL, NULL, &out, out, bias));
    }
  }
  if (call->attrs[0].as.i) TENON_TRY(INVOKE(call, CAUSAL_SILU, NULL, &out, out));
  return call->host->assign(call, 0, out);
}

static tenon_status_t causal_conv_infer(tenon_infer_t *infer) {
  tenon_meta_t *const *in = infer->inputs;
  tenon_meta_t *const *out = infer->outputs;
  const tenon_dim_t *x = in[0]->dims;
  const tenon_dim_t *w = in[1]->dims;
  const tenon_dim_t one = tenon_extent(1);
  if (in[0]->ndim != 3 || in[1]->ndim != 3 || dim_differ(w[0], x[1]) || dim_differ(w[1], one) ||
      dim_is(w[2], 0))
    return tenon_fail(infer, TENON_INVALID,
                      "x has shape %s and w %s; expected [batch, channels, length] and "
                      "[channels, 1, taps]",
                      dims_text(x, in[0]->ndim).text, dims_text(w, in[1]->ndim).text);
  const tenon_dim_t state[3] = {x[0], x[1], dim_sub(infer, w[2], one)};
  if (in[2] && (in[2]->ndim != 1 || dim_differ(in[2]->dims[0], x[1])))
    return tenon_fail(infer, TENON_INVALID,
                      "bias has shape %s; expected one number for each of the %" PRId64 " channels",
                      dims_text(in[2]->dims, in[2]->ndim).text, x[1].value);
  int wrong = in[3] && in[3]->ndim != 3;
  for (int i = 0; in[3] && !wrong && i < 3; i++)
    wrong = dim_differ(in[3]->dims[i], state[i]);
  if (wrong)
    return tenon_fail(infer, TENON_INVALID, "past_state has shape %s; expected %s",
                      dims_text(in[3]->dims, in[3]->ndim).text, dims_text(state, 3).text);
  TENON_TRY(out_like(out[0], in[0]));
  out[1]->ndim = 3;
  for (int i = 0; i < 3; i++)
    out[1]->dims[i] = state[i];
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(core_linear_attention,
  TENON_OP("linear_attention(Tensor q, Tensor k, Tensor v, Tensor? past_state=None, "
           "Tensor? decay=None, Tensor? beta=None, *, int q_num_heads, int kv_num_heads, "
           "str['linear', 'gated', 'delta', 'gated_delta'] update_rule='gated_delta', "
           "float scale=0.0) -> (Tensor out, Tensor present_state)",
    TENON_DOC("Attention through a state S: S = exp(decay) S + k (v - S^T k) beta, "
              "out = scale S^T q; update_rule tells which of these terms apply.\n"
              "q, k and v are [batch, length, heads * size]; scale 0 means 1 / sqrt(size)."),
    TENON_SAMPLES("q: [n, t, 4], k: [n, t, 4], v: [n, t, 6], q_num_heads = 2, kv_num_heads = 2, "
                  "update_rule = 'linear'"),
    TENON_TYPES("q: float; k = q; v = q; past_state: float; decay = q; beta = q; out = q; "
                "present_state = ?"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(LINEAR_USES),
    TENON_VALIDATE(linear_attention_validate),
    TENON_INFER(linear_attention_infer),
    TENON_KERNEL("cpu strided", linear_attention_run),
    TENON_COMPOSITE(linear_attention_parts)),
  TENON_OP("causal_conv(Tensor x, Tensor w, Tensor? bias=None, Tensor? past_state=None, *, "
           "str['none', 'silu'] activation='none') -> (Tensor out, Tensor present_state)",
    TENON_DOC("A convolution of each channel of x [batch, channels, length] with earlier elements; "
              "w is [channels, 1, taps].\n"
              "The past state holds the taps - 1 elements before x; "
              "the present state holds the last taps - 1 elements of both."),
    TENON_SAMPLES("x: [n, c, t], w: [c, 1, 3]; "
                  "x: [n, c, t], w: [c, 1, 3], bias: [c], past_state: [n, c, 2], "
                  "activation = 'silu'"),
    TENON_TYPES("x: float; w = x; bias = x; past_state = x; out = x; present_state = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(CAUSAL_USES),
    TENON_INFER(causal_conv_infer),
    TENON_KERNEL("cpu strided", causal_conv_run),
    TENON_COMPOSITE(causal_conv_parts)))
/* clang-format on */
