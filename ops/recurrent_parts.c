/* lstm, gru and rnn by other operators, which have gradients: one matrix product for the inputs of
 * all steps, then a few operators for each step. The host uses this when autograd records the call
 * and on backends without a kernel.
 * Invariant: states are [1, batch, hidden]; rows that have ended keep their state and output 0. */
#include "composite.h"
#include "recurrent.h"

enum {
  CAST,
  RELU,
  TANH,
  SIGMOID,
  LEAKY_RELU,
  THRESHOLDED_RELU,
  HARD_SIGMOID,
  ELU,
  SOFTSIGN,
  SOFTPLUS,
  MUL,
  ADD,
  SUB,
  MATMUL,
  SLICE,
  CONCAT,
  UNSQUEEZE,
  TRANSPOSE,
  RESHAPE,
  EXPAND,
  WHERE,
  LESS,
  CLIP,
  REVERSE,
};

typedef struct parts_t { /* one direction */
  tenon_call_t *call;
  int kind;
  int special;
  const cell_function_t *functions;
  int64_t hidden;
  tenon_tensor_t *r;
  tenon_tensor_t *bias_r;    /* [1, gates * hidden, hidden], [1, gates * hidden] */
  tenon_tensor_t *peepholes; /* [1, 3 * hidden] */
  tenon_tensor_t *h;
  tenon_tensor_t *c;
} parts_t;

/* Elements [first, first + count) * hidden of an axis: rows or gates. */
static tenon_status_t slice_gates(const parts_t *p, tenon_tensor_t *t, int64_t axis, int64_t first,
                                  int64_t count, tenon_tensor_t **out) {
  return core_slice(p->call, SLICE, t, axis, first * p->hidden, (first + count) * p->hidden, out);
}

static tenon_status_t invoke_binary(const parts_t *p, int use, tenon_tensor_t *a, tenon_tensor_t *b,
                                    tenon_tensor_t **out) {
  return INVOKE(p->call, use, NULL, out, a, b);
}

/* Clips t if `clips`, then applies function number i. */
static tenon_status_t apply_function(const parts_t *p, int i, int clips, tenon_tensor_t **t) {
  static const int uses[CELL_COUNT] = {[CELL_Relu] = RELU,
                                       [CELL_Tanh] = TANH,
                                       [CELL_Sigmoid] = SIGMOID,
                                       [CELL_LeakyRelu] = LEAKY_RELU,
                                       [CELL_ThresholdedRelu] = THRESHOLDED_RELU,
                                       [CELL_ScaledTanh] = TANH,
                                       [CELL_HardSigmoid] = HARD_SIGMOID,
                                       [CELL_Elu] = ELU,
                                       [CELL_Softsign] = SOFTSIGN,
                                       [CELL_Softplus] = SOFTPLUS};
  tenon_call_t *call = p->call;
  const cell_function_t *f = &p->functions[i];
  const tenon_value_t *clip = &call->attrs[RECURRENT_CLIP];
  const tenon_value_t attrs[2] = {value_float(f->alpha), value_float(f->beta)};
  if (clips && clip->kind != TENON_KIND_NONE) {
    tenon_tensor_t *low = core_number(call, (*t)->dtype, -clip->as.f);
    tenon_tensor_t *high = core_number(call, (*t)->dtype, clip->as.f);
    if (!low || !high) return TENON_MEMORY;
    TENON_TRY(INVOKE(call, CLIP, NULL, t, *t, low, high));
  }
  switch (f->kind) {
  case CELL_Affine:
    TENON_TRY(core_with(call, MUL, *t, f->alpha, t));
    return core_with(call, ADD, *t, f->beta, t);
  case CELL_ScaledTanh:
    TENON_TRY(core_with(call, MUL, *t, f->beta, t));
    TENON_TRY(INVOKE(call, TANH, NULL, t, *t));
    return core_with(call, MUL, *t, f->alpha, t);
  case CELL_LeakyRelu:
  case CELL_ThresholdedRelu:
  case CELL_Elu:
  case CELL_HardSigmoid:
    return INVOKE(call, uses[f->kind], attrs, t, *t);
  default:
    return INVOKE(call, uses[f->kind], NULL, t, *t);
  }
}

/* Computes gate + c * peepholes[which], then applies function 0. */
static tenon_status_t compute_gate(const parts_t *p, tenon_tensor_t *gates, int64_t at,
                                   int peephole, tenon_tensor_t *c, tenon_tensor_t **out) {
  tenon_tensor_t *t;
  TENON_TRY(slice_gates(p, gates, 2, at, 1, out));
  if (p->peepholes && peephole >= 0) {
    TENON_TRY(slice_gates(p, p->peepholes, 1, peephole, 1, &t));
    TENON_TRY(invoke_binary(p, MUL, c, t, &t));
    TENON_TRY(invoke_binary(p, ADD, *out, t, out));
  }
  return apply_function(p, 0, 1, out);
}

static tenon_status_t one_minus(const parts_t *p, tenon_tensor_t *t, tenon_tensor_t **out) {
  tenon_tensor_t *one = core_number(p->call, t->dtype, 1);
  return one ? invoke_binary(p, SUB, one, t, out) : TENON_MEMORY;
}

/* Each step function gives the new states. */
static tenon_status_t lstm_step(const parts_t *p, tenon_tensor_t *gates, tenon_tensor_t **h,
                                tenon_tensor_t **c) {
  tenon_tensor_t *i, *o, *f, *g, *t;
  TENON_TRY(core_product(p->call, MATMUL, p->h, p->r, 1, &t));
  TENON_TRY(invoke_binary(p, ADD, gates, t, &gates));
  TENON_TRY(compute_gate(p, gates, 0, 0, p->c, &i));
  if (p->special)
    TENON_TRY(one_minus(p, i, &f));
  else
    TENON_TRY(compute_gate(p, gates, 2, 2, p->c, &f));
  TENON_TRY(slice_gates(p, gates, 2, 3, 1, &g));
  TENON_TRY(apply_function(p, 1, 1, &g));
  TENON_TRY(invoke_binary(p, MUL, f, p->c, &t));
  TENON_TRY(invoke_binary(p, MUL, i, g, &g));
  TENON_TRY(invoke_binary(p, ADD, t, g, c));
  TENON_TRY(compute_gate(p, gates, 1, 1, *c, &o));
  t = *c;
  TENON_TRY(apply_function(p, 2, 0, &t));
  return invoke_binary(p, MUL, o, t, h);
}

static tenon_status_t gru_step(const parts_t *p, tenon_tensor_t *gates, tenon_tensor_t **h) {
  tenon_tensor_t *both, *z, *r, *g, *t, *weight;
  TENON_TRY(slice_gates(p, p->r, 1, 0, 2, &weight));
  TENON_TRY(core_product(p->call, MATMUL, p->h, weight, 1, &t));
  TENON_TRY(slice_gates(p, gates, 2, 0, 2, &both));
  TENON_TRY(invoke_binary(p, ADD, both, t, &both));
  if (p->bias_r) {
    TENON_TRY(slice_gates(p, p->bias_r, 1, 0, 2, &t));
    TENON_TRY(invoke_binary(p, ADD, both, t, &both));
  }
  TENON_TRY(apply_function(p, 0, 1, &both));
  TENON_TRY(slice_gates(p, both, 2, 0, 1, &z));
  TENON_TRY(slice_gates(p, both, 2, 1, 1, &r));
  TENON_TRY(slice_gates(p, gates, 2, 2, 1, &g));
  TENON_TRY(slice_gates(p, p->r, 1, 2, 1, &weight));
  t = p->h;
  if (!p->special) TENON_TRY(invoke_binary(p, MUL, r, t, &t));
  TENON_TRY(core_product(p->call, MATMUL, t, weight, 1, &t));
  if (p->bias_r) {
    TENON_TRY(slice_gates(p, p->bias_r, 1, 2, 1, &weight));
    TENON_TRY(invoke_binary(p, ADD, t, weight, &t));
  }
  if (p->special) TENON_TRY(invoke_binary(p, MUL, r, t, &t));
  TENON_TRY(invoke_binary(p, ADD, g, t, &g));
  TENON_TRY(apply_function(p, 1, 1, &g));
  TENON_TRY(invoke_binary(p, MUL, z, p->h, &t));
  TENON_TRY(one_minus(p, z, &z));
  TENON_TRY(invoke_binary(p, MUL, z, g, &g));
  return invoke_binary(p, ADD, g, t, h);
}

static tenon_status_t rnn_step(const parts_t *p, tenon_tensor_t *gates, tenon_tensor_t **h) {
  TENON_TRY(core_product(p->call, MATMUL, p->h, p->r, 1, h));
  TENON_TRY(invoke_binary(p, ADD, gates, *h, h));
  return apply_function(p, 0, 1, h);
}

/* Reverses the steps: each row its own steps, or all rows all steps. */
static tenon_status_t reverse_steps(tenon_call_t *call, tenon_tensor_t *x, tenon_tensor_t **out) {
  int64_t last = -1;
  int64_t least = INT64_MIN / 2;
  int64_t first = 0;
  tenon_tensor_t *lengths = call->inputs[RECURRENT_LENGTHS];
  if (lengths) return INVOKE(call, REVERSE, NULL, out, x, lengths);
  tenon_tensor_t *from = core_ints(call, 1, &last);
  tenon_tensor_t *to = core_ints(call, 1, &least);
  tenon_tensor_t *axis = core_ints(call, 1, &first);
  return from && to && axis ? INVOKE(call, SLICE, NULL, out, x, from, to, axis, from)
                            : TENON_MEMORY;
}

/* Direction d of an initial state, or zeros. */
static tenon_status_t initial_state(const parts_t *p, int input, int64_t d, int64_t batch,
                                    tenon_tensor_t **out) {
  static const int64_t perm[3] = {1, 0, 2};
  tenon_call_t *call = p->call;
  const tenon_value_t order = value_ints(3, perm);
  tenon_tensor_t *t = call->inputs[input];
  int64_t shape[3] = {1, batch, p->hidden};
  if (!t) {
    tenon_tensor_t *zero = core_number(call, call->inputs[RECURRENT_X]->dtype, 0);
    tenon_tensor_t *to = core_ints(call, 3, shape);
    return zero && to ? INVOKE(call, EXPAND, NULL, out, zero, to) : TENON_MEMORY;
  }
  if (call->attrs[RECURRENT_LAYOUT].as.i) TENON_TRY(INVOKE(call, TRANSPOSE, &order, &t, t));
  return core_slice(call, SLICE, t, 0, d, d + 1, out);
}

/* Rows that take part in the step get `new`, the others get `other`. */
static tenon_status_t choose_rows(const parts_t *p, tenon_tensor_t *lives, tenon_tensor_t *other,
                                  tenon_tensor_t *new, tenon_tensor_t **out) {
  if (!lives) {
    *out = new;
    return TENON_OK;
  }
  return INVOKE(p->call, WHERE, NULL, out, lives, new, other);
}

/* Runs all steps of x [steps, batch, inputs] and gives y [steps, batch, hidden]; the states stay in
 * p. */
static tenon_status_t steps_run(parts_t *p, tenon_tensor_t *x, tenon_tensor_t *w,
                                tenon_tensor_t *bias, tenon_tensor_t **out_y) {
  tenon_call_t *call = p->call;
  tenon_tensor_t *gates, *now, *h;
  tenon_tensor_t *c = NULL;
  tenon_tensor_t *lives = NULL;
  tenon_tensor_t *lengths = call->inputs[RECURRENT_LENGTHS];
  tenon_tensor_t *zero;
  int64_t steps = x->shape[0];
  int64_t batch = x->shape[1];
  int64_t shape[3] = {1, batch, 1};
  tenon_tensor_t **ys =
      (tenon_tensor_t **)call->host->allocate(call, (uint64_t)(steps + 1) * sizeof *ys);
  if (!ys || !(zero = core_number(call, x->dtype, 0))) return TENON_MEMORY;
  if (lengths) TENON_TRY(core_reshape(call, RESHAPE, lengths, 3, shape, &lengths));
  TENON_TRY(core_product(call, MATMUL, x, w, 1, &gates));
  if (bias) TENON_TRY(invoke_binary(p, ADD, gates, bias, &gates));
  for (int64_t t = 0; t < steps; t++) {
    TENON_TRY(core_slice(call, SLICE, gates, 0, t, t + 1, &now));
    if (p->kind == RECURRENT_LSTM)
      TENON_TRY(lstm_step(p, now, &h, &c));
    else
      TENON_TRY(p->kind == RECURRENT_GRU ? gru_step(p, now, &h) : rnn_step(p, now, &h));
    if (lengths) {
      tenon_tensor_t *number = core_number(call, lengths->dtype, (double)t);
      if (!number) return TENON_MEMORY;
      TENON_TRY(invoke_binary(p, LESS, number, lengths, &lives));
    }
    TENON_TRY(choose_rows(p, lives, zero, h, &ys[t]));
    TENON_TRY(choose_rows(p, lives, p->h, h, &p->h));
    if (c) TENON_TRY(choose_rows(p, lives, p->c, c, &p->c));
  }
  if (steps) return core_concat(call, CONCAT, 0, steps, ys, out_y);
  return slice_gates(p, gates, 2, 0, 1, out_y);
}

/* Assigns a result [directions, ...] or, if batch first, with its axes permuted. */
static tenon_status_t assign_result(tenon_call_t *call, uint32_t output, int64_t axis,
                                    int64_t count, tenon_tensor_t **items, const int64_t *perm,
                                    uint32_t rank) {
  tenon_tensor_t *t;
  const tenon_value_t order = value_ints(rank, perm);
  if (!call->outputs[output]) return TENON_OK;
  TENON_TRY(core_concat(call, CONCAT, axis, count, items, &t));
  if (call->attrs[RECURRENT_LAYOUT].as.i) TENON_TRY(INVOKE(call, TRANSPOSE, &order, &t, t));
  return call->host->assign(call, output, t);
}

tenon_status_t core_recurrent_parts(tenon_call_t *call, int kind) {
  enum {
    REVERSED = 1,
    BOTH,
  };
  static const int64_t input_perm[3] = {1, 0, 2};
  static const int64_t y_perm[4] = {2, 0, 1, 3};
  tenon_tensor_t *x = call->inputs[RECURRENT_X];
  tenon_tensor_t *ys[RECURRENT_DIRECTIONS], *hs[RECURRENT_DIRECTIONS];
  tenon_tensor_t *cs[RECURRENT_DIRECTIONS], *w, *bias, *way, *more;
  const int64_t hidden = call->inputs[2]->shape[2];
  const int64_t width = recurrent_gates(kind) * hidden;
  const int64_t direction = call->attrs[RECURRENT_DIRECTION].as.i;
  const int64_t directions = direction == BOTH ? 2 : 1;
  cell_function_t functions[RECURRENT_DIRECTIONS][RECURRENT_FUNCTIONS];
  const tenon_value_t order = value_ints(3, input_perm);
  core_recurrent_functions(call->attrs, kind, (int)directions, functions);
  if (call->attrs[RECURRENT_LAYOUT].as.i) TENON_TRY(INVOKE(call, TRANSPOSE, &order, &x, x));
  for (int64_t d = 0; d < directions; d++) {
    parts_t p = {.call = call, .kind = kind, .functions = functions[d], .hidden = hidden};
    p.special = kind != RECURRENT_RNN && call->attrs[RECURRENT_SPECIAL].as.i;
    int backwards = d == 1 || direction == REVERSED;
    way = x;
    bias = NULL;
    if (backwards) TENON_TRY(reverse_steps(call, x, &way));
    TENON_TRY(core_slice(call, SLICE, call->inputs[1], 0, d, d + 1, &w));
    TENON_TRY(core_slice(call, SLICE, call->inputs[2], 0, d, d + 1, &p.r));
    if (call->inputs[RECURRENT_B]) {
      TENON_TRY(core_slice(call, SLICE, call->inputs[RECURRENT_B], 0, d, d + 1, &more));
      TENON_TRY(core_slice(call, SLICE, more, 1, 0, width, &bias));
      TENON_TRY(core_slice(call, SLICE, more, 1, width, 2 * width, &p.bias_r));
      if (kind != RECURRENT_GRU) TENON_TRY(invoke_binary(&p, ADD, bias, p.bias_r, &bias));
    }
    if (kind == RECURRENT_LSTM && call->inputs[RECURRENT_PEEPHOLES])
      TENON_TRY(
          core_slice(call, SLICE, call->inputs[RECURRENT_PEEPHOLES], 0, d, d + 1, &p.peepholes));
    TENON_TRY(initial_state(&p, RECURRENT_INITIAL_H, d, x->shape[1], &p.h));
    if (kind == RECURRENT_LSTM)
      TENON_TRY(initial_state(&p, RECURRENT_INITIAL_C, d, x->shape[1], &p.c));
    TENON_TRY(steps_run(&p, way, w, bias, &ys[d]));
    if (backwards) TENON_TRY(reverse_steps(call, ys[d], &ys[d]));
    TENON_TRY(core_along(call, UNSQUEEZE, ys[d], 1, &ys[d]));
    hs[d] = p.h;
    cs[d] = p.c;
  }
  TENON_TRY(assign_result(call, 0, 1, directions, ys, y_perm, 4));
  TENON_TRY(assign_result(call, 1, 0, directions, hs, input_perm, 3));
  return kind == RECURRENT_LSTM ? assign_result(call, 2, 0, directions, cs, input_perm, 3)
                                : TENON_OK;
}
