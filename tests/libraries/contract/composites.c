/* Operators of the library `contract` that call other operators: temporaries, invoke, views,
 * assign, optional parts. */
#include "contract.h"

static tenon_tensor_t *scalar(tenon_call_t *call, float value) {
  tenon_tensor_t *t = call->host->temporary(call, tenon_dtype(TENON_F32), 0, NULL);
  if (t) *(float *)t->data = value;
  return t;
}

static tenon_status_t two(tenon_call_t *call, int use, tenon_tensor_t *a, tenon_tensor_t *b,
                          tenon_tensor_t **out) {
  tenon_tensor_t *inputs[2];
  inputs[0] = a;
  inputs[1] = b;
  *out = NULL;
  return call->host->invoke(call, call->uses[use], NULL, inputs, out);
}

enum {
  MEAN,
  SUB,
  MUL,
  ADD,
  SQRT,
  DIV,
}; /* in the order of TENON_USES below */

static tenon_status_t layer_norm_run(tenon_call_t *call) {
  int64_t one = 1;
  tenon_tensor_t *axes = call->host->temporary(call, tenon_dtype(TENON_I64), 1, &one);
  tenon_tensor_t *epsilon, *mean, *d, *s, *out;
  if (!axes || !(epsilon = scalar(call, (float)call->attrs[0].as.f))) return TENON_MEMORY;
  *(int64_t *)axes->data = -1;
  TENON_TRY(two(call, MEAN, call->inputs[0], axes, &mean));
  TENON_TRY(two(call, SUB, call->inputs[0], mean, &d));
  TENON_TRY(two(call, MUL, d, d, &s));
  TENON_TRY(two(call, MEAN, s, axes, &s));
  TENON_TRY(two(call, ADD, s, epsilon, &s));
  TENON_TRY(two(call, SQRT, s, NULL, &s));
  TENON_TRY(two(call, DIV, d, s, &out));
  if (call->inputs[1]) TENON_TRY(two(call, MUL, out, call->inputs[1], &out));
  if (call->inputs[2]) TENON_TRY(two(call, ADD, out, call->inputs[2], &out));
  if (call->outputs[1]) TENON_TRY(call->host->assign(call, 1, mean));
  return call->host->assign(call, 0, out);
}

/* Its result is an unallocated output, which the called operator writes directly. */
static tenon_status_t plus_one_run(tenon_call_t *call) {
  tenon_tensor_t *inputs[2];
  inputs[0] = call->inputs[0];
  if (!(inputs[1] = scalar(call, 1))) return TENON_MEMORY;
  tenon_tensor_t *outputs[1];
  outputs[0] = call->outputs[0];
  return call->host->invoke(call, call->uses[0], NULL, inputs, outputs);
}

/* A view of its input, which is assigned to the result. */
static tenon_status_t swapped_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  int64_t shape[2], strides[2];
  tenon_tensor_t *view;
  if (x->ndim != 2)
    return tenon_fail(call, TENON_INVALID, "x has rank %d: expected 2", (int)x->ndim);
  shape[0] = x->shape[1];
  shape[1] = x->shape[0];
  strides[0] = x->strides[1];
  strides[1] = x->strides[0];
  if (!(view = call->host->view(call, x, 0, 2, shape, strides))) return TENON_MEMORY;
  return call->host->assign(call, 0, view);
}

static tenon_status_t
/* A view operator on its input, then a sum; the result is an unallocated output. */
total_run(tenon_call_t *call) {
  int64_t one = 1;
  tenon_tensor_t *shape = call->host->temporary(call, tenon_dtype(TENON_I64), 1, &one);
  tenon_tensor_t *flat, *out, *inputs[2];
  if (!shape) return TENON_MEMORY;
  *(int64_t *)shape->data = -1;
  TENON_TRY(two(call, 0, call->inputs[0], shape, &flat));
  inputs[0] = flat;
  inputs[1] = NULL;
  out = NULL;
  TENON_TRY(call->host->invoke(call, call->uses[1], NULL, inputs, &out));
  return call->host->assign(call, 0, out);
}

/* Assigns a tensor that the contract rules out. */
static tenon_status_t wrong_run(tenon_call_t *call) {
  int64_t one = 1;
  tenon_tensor_t *t = call->host->temporary(call, tenon_dtype(TENON_I64), 1, &one);
  if (!t) return TENON_MEMORY;
  *(int64_t *)t->data = 7;
  return call->host->assign(call, 0, t);
}

static tenon_status_t
/* A message of the called operator arrives here and is passed on. */
deep_run(tenon_call_t *call) {
  tenon_value_t above = {TENON_KIND_FLOAT, 0, {0}};
  tenon_tensor_t *out = NULL;
  above.as.f = 1.5;
  call->host->zone(call, "before");
  call->host->zone(call, "within");
  call->host->zone(call, NULL);
  call->host->zone(call, NULL);
  /* The zone stays open if the called operator fails. */
  call->host->zone(call, "part");
  TENON_TRY(call->host->invoke(call, call->uses[0], &above, call->inputs, &out));
  call->host->zone(call, NULL);
  return call->host->assign(call, 0, out);
}

static tenon_status_t
/* Some results of the called operator are given, and it creates the others. */
pick_run(tenon_call_t *call) {
  tenon_tensor_t *outputs[2];
  tenon_value_t k = {TENON_KIND_INT, 0, {1}};
  outputs[0] = call->outputs[0];
  outputs[1] = NULL;
  TENON_TRY(call->host->invoke(call, call->uses[0], &k, call->inputs, outputs));
  if (!outputs[1]) return tenon_fail(call, TENON_INTERNAL, "invoke left a result out");
  return call->outputs[1] ? call->host->assign(call, 1, outputs[1]) : TENON_OK;
}

/* Evaluates a graph on x, as often as the attribute says. */
static tenon_status_t apply_run(tenon_call_t *call) {
  tenon_tensor_t *x = call->inputs[0];
  for (int64_t i = 0; i < call->attrs[1].as.i; i++) {
    tenon_tensor_t *inputs[1], *outputs[1];
    inputs[0] = x;
    outputs[0] = NULL;
    TENON_TRY(call->host->evaluate(call, call->attrs[0].as.graph, 1, inputs, 1, outputs));
    x = outputs[0];
  }
  return call->host->assign(call, 0, x);
}

/* clang-format off */
TENON_ITEMS(contract_composites,
  TENON_OP("layer_norm(Tensor x, Tensor? gain=None, Tensor? bias=None, *, float epsilon=1e-05) -> "
           "(Tensor out, Tensor? mean)",
    TENON_TYPES("x, gain, bias: f32; out, mean = x"),
    TENON_SHAPES("x: [..., k]; gain: [k]; bias: [k]; out: [..., k]; mean: [..., 1]"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES("core::reduce_mean, core::sub, core::mul, core::add, core::sqrt, core::div"),
    TENON_COMPOSITE(layer_norm_run)),
  TENON_OP("plus_one(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES("core::add"),
    TENON_COMPOSITE(plus_one_run)),
  TENON_OP("swapped(Tensor x) -> Tensor",
    TENON_TYPES("x: any; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_COMPOSITE(swapped_run)),
  TENON_OP("total(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES("core::reshape, core::reduce_sum"),
    TENON_COMPOSITE(total_run)),
  TENON_OP("wrong(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_COMPOSITE(wrong_run)),
  TENON_OP("deep(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"),
    TENON_USES("refuse"),
    TENON_COMPOSITE(deep_run)),
  TENON_OP("apply(Tensor x, *, graph body, int times=1) -> Tensor",
    TENON_TYPES("x: f32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_COMPOSITE(apply_run)),
  TENON_OP("pick(Tensor x) -> (Tensor value, Tensor? index)",
    TENON_TYPES("x: f32; value = x; index = i64"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES("top"),
    TENON_COMPOSITE(pick_run)))
