/* Implements attention by other operators, which have gradients: matrix products, a softmax and the
 * masks between them. The host uses this when autograd records the call and on backends without a
 * kernel for attention.
 * Invariant: masks are created from the scores tensor, so that they are on the same device. */
#include "attention.h"
#include "composite.h"
#include <math.h>

enum {
  CAST,
  MATMUL,
  MUL,
  TANH,
  ADD,
  WHERE,
  SOFTMAX,
  TRANSPOSE,
  RESHAPE,
  EXPAND,
  UNSQUEEZE,
  CONCAT,
  CAST_LIKE,
  SLICE,
  IS_NAN,
  NOT,
  OR,
  TRILU,
  CUM_SUM,
  LESS,
  PAD,
};

/* Gives x as [batch, heads, position, element]. */
static tenon_status_t heads_of(tenon_call_t *call, tenon_tensor_t *x, int64_t heads,
                               tenon_tensor_t **out) {
  static const int64_t perm[4] = {0, 2, 1, 3};
  if (x->ndim == 4) {
    *out = x;
    return TENON_OK;
  }
  int64_t shape[4] = {x->shape[0], x->shape[1], heads, heads ? x->shape[2] / heads : 0};
  tenon_value_t order = value_ints(4, perm);
  TENON_TRY(core_reshape(call, RESHAPE, x, 4, shape, &x));
  return INVOKE(call, TRANSPOSE, &order, out, x);
}

/* Appends an input to its past state. Output `present` receives the result. */
static tenon_status_t append_to_past(tenon_call_t *call, int input, int past, uint32_t present,
                                     tenon_tensor_t **out) {
  tenon_tensor_t *parts[2] = {call->inputs[past], NULL};
  TENON_TRY(heads_of(call, call->inputs[input], call->attrs[ATTENTION_KV_HEADS].as.i, &parts[1]));
  *out = parts[1];
  if (parts[0]) TENON_TRY(core_concat(call, CONCAT, 2, 2, parts, out));
  return call->outputs[present] ? call->host->assign(call, present, *out) : TENON_OK;
}

/* Repeats each key or value head for the query heads that share it. */
static tenon_status_t repeat_heads(tenon_call_t *call, tenon_tensor_t *x, int64_t heads,
                                   tenon_tensor_t **out) {
  int64_t shape[5] = {x->shape[0], x->shape[1], x->shape[1] ? heads / x->shape[1] : 1, x->shape[2],
                      x->shape[3]};
  int64_t flat[4] = {x->shape[0], heads, x->shape[2], x->shape[3]};
  tenon_tensor_t *to;
  if (x->shape[1] == heads) {
    *out = x;
    return TENON_OK;
  }
  TENON_TRY(core_along(call, UNSQUEEZE, x, 2, &x));
  if (!(to = core_ints(call, 5, shape))) return TENON_MEMORY;
  TENON_TRY(INVOKE(call, EXPAND, NULL, &x, x, to));
  return core_reshape(call, RESHAPE, x, 4, flat, out);
}

/* A tensor [1, 1, rows, columns] of true. */
static tenon_status_t true_mask(tenon_call_t *call, tenon_tensor_t *scores, tenon_tensor_t **out) {
  tenon_tensor_t *t, *other;
  TENON_TRY(core_slice(call, SLICE, scores, 0, 0, 1, &t));
  TENON_TRY(core_slice(call, SLICE, t, 1, 0, 1, &t));
  TENON_TRY(INVOKE(call, IS_NAN, NULL, &t, t));
  TENON_TRY(INVOKE(call, NOT, NULL, &other, t));
  return INVOKE(call, OR, NULL, out, t, other);
}

static tenon_status_t keep_scores(tenon_call_t *call, tenon_tensor_t *which,
                                  tenon_tensor_t **scores) {
  tenon_tensor_t *least = core_number(call, (*scores)->dtype, -INFINITY);
  return least ? INVOKE(call, WHERE, NULL, scores, which, *scores, least) : TENON_MEMORY;
}

/* Pads the mask to `columns`; the added columns are masked out. */
static tenon_status_t mask_of(tenon_call_t *call, int64_t columns, tenon_tensor_t **mask) {
  tenon_tensor_t *t = *mask;
  tenon_tensor_t *pads, *value;
  int64_t more[2 * 4] = {0};
  int32_t rank = t->ndim;
  if (t->shape[rank - 1] == columns) return TENON_OK;
  more[2 * rank - 1] = columns - t->shape[rank - 1];
  pads = core_ints(call, 2 * rank, more);
  value = core_number(call, t->dtype, tenon_dtype_id(t->dtype) == TENON_BOOL ? 0 : -INFINITY);
  return pads && value ? INVOKE(call, PAD, NULL, mask, t, pads, value) : TENON_MEMORY;
}

static tenon_status_t mask_scores(tenon_call_t *call, tenon_tensor_t **scores) {
  tenon_tensor_t *mask = call->inputs[ATTENTION_MASK];
  tenon_tensor_t *past = call->inputs[ATTENTION_PAST_KEY];
  tenon_tensor_t *which, *end;
  tenon_tensor_t *nonpad = call->inputs[ATTENTION_NONPAD];
  int64_t columns = (*scores)->shape[3];
  if (call->attrs[ATTENTION_CAUSAL].as.i) {
    tenon_value_t lower = value_flag(0);
    int64_t ahead = past ? past->shape[2] : 0;
    if (!(end = core_ints(call, 1, &ahead))) return TENON_MEMORY;
    TENON_TRY(true_mask(call, *scores, &which));
    TENON_TRY(INVOKE(call, TRILU, &lower, &which, which, end));
    TENON_TRY(keep_scores(call, which, scores));
  }
  if (nonpad) { /* Compares column numbers with the count of valid columns. */
    int64_t shape[4] = {nonpad->shape[0], 1, 1, 1};
    int64_t last = 3;
    tenon_value_t attrs[3] = {{TENON_KIND_DTYPE, 0, {0}}, value_flag(1), value_choice(0)};
    tenon_value_t sum[2] = {value_flag(1), value_flag(0)};
    attrs[0].as.dtype = tenon_dtype(TENON_I64);
    if (!(end = core_ints(call, 1, &last))) return TENON_MEMORY;
    TENON_TRY(true_mask(call, *scores, &which));
    TENON_TRY(INVOKE(call, CAST, attrs, &which, which));
    TENON_TRY(INVOKE(call, CUM_SUM, sum, &which, which, end));
    TENON_TRY(core_reshape(call, RESHAPE, nonpad, 4, shape, &nonpad));
    TENON_TRY(INVOKE(call, LESS, NULL, &which, which, nonpad));
    TENON_TRY(keep_scores(call, which, scores));
  }
  if (!mask) return TENON_OK;
  if (tenon_dtype_id(mask->dtype) == TENON_BOOL) {
    TENON_TRY(mask_of(call, columns, &mask));
    return keep_scores(call, mask, scores);
  }
  TENON_TRY(INVOKE(call, CAST_LIKE, NULL, &mask, mask, *scores));
  TENON_TRY(mask_of(call, columns, &mask));
  return INVOKE(call, ADD, NULL, scores, *scores, mask);
}

/* Assigns output qk_matmul_output if `mode` is the stage that the caller asked for. */
static tenon_status_t assign_scores(tenon_call_t *call, int64_t mode, tenon_tensor_t *scores) {
  return call->outputs[3] && call->attrs[ATTENTION_QK_MODE].as.i == mode
             ? call->host->assign(call, 3, scores)
             : TENON_OK;
}

tenon_status_t core_attention_parts(tenon_call_t *call) {
  static const int64_t perm[4] = {0, 2, 1, 3};
  tenon_tensor_t *q, *k, *v, *t;
  double cap = call->attrs[ATTENTION_SOFTCAP].as.f;
  TENON_TRY(heads_of(call, call->inputs[0], call->attrs[ATTENTION_Q_HEADS].as.i, &q));
  TENON_TRY(append_to_past(call, 1, ATTENTION_PAST_KEY, 1, &k));
  TENON_TRY(append_to_past(call, 2, ATTENTION_PAST_VALUE, 2, &v));
  TENON_TRY(repeat_heads(call, k, q->shape[1], &k));
  TENON_TRY(repeat_heads(call, v, q->shape[1], &v));
  const tenon_value_t *scale = &call->attrs[ATTENTION_SCALE];
  TENON_TRY(core_product(call, MATMUL, q, k, 1, &t));
  TENON_TRY(core_with(call, MUL, t,
                      scale->kind == TENON_KIND_NONE ? 1 / sqrt((double)q->shape[3]) : scale->as.f,
                      &t));
  TENON_TRY(assign_scores(call, ATTENTION_QK_RAW, t));
  if (cap > 0) {
    TENON_TRY(core_with(call, MUL, t, 1 / cap, &t));
    TENON_TRY(INVOKE(call, TANH, NULL, &t, t));
    TENON_TRY(core_with(call, MUL, t, cap, &t));
  }
  TENON_TRY(assign_scores(call, ATTENTION_QK_CAPPED, t));
  TENON_TRY(mask_scores(call, &t));
  TENON_TRY(assign_scores(call, ATTENTION_QK_MASKED, t));
  tenon_value_t last = value_int(-1);
  tenon_value_t order = value_ints(4, perm);
  TENON_TRY(INVOKE(call, SOFTMAX, &last, &t, t));
  if (call->attrs[ATTENTION_NAN_IS_ZERO].as.i) {
    tenon_tensor_t *which;
    tenon_tensor_t *zero = core_number(call, t->dtype, 0);
    if (!zero) return TENON_MEMORY;
    TENON_TRY(INVOKE(call, IS_NAN, NULL, &which, t));
    TENON_TRY(INVOKE(call, WHERE, NULL, &t, which, zero, t));
  }
  TENON_TRY(assign_scores(call, ATTENTION_QK_SOFTMAX, t));
  TENON_TRY(INVOKE(call, CAST_LIKE, NULL, &v, v, t));
  TENON_TRY(core_product(call, MATMUL, t, v, 0, &t));
  if (call->inputs[0]->ndim == 3) {
    TENON_TRY(INVOKE(call, TRANSPOSE, &order, &t, t));
    TENON_TRY(core_reshape(call, RESHAPE, t, 3, call->outputs[0]->shape, &t));
  }
  return call->host->assign(call, 0, t);
}
