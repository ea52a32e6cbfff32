/* Gradients of operators that select or replace by index: scatter_elements, scatter_nd,
 * tensor_scatter, compress. They are composites, so that they have gradients themselves; the
 * gradient formulas of those operators call them. If max or min chooses among equal elements, each
 * gets an equal share. If several updates go to one element without a reduction, each gets the
 * whole gradient. */
#include "axes.h"
#include "composite.h"
#include "forward_infer.h"
#include <tenon/check.h>

enum {
  NONE,
  ADDED,
  MULTIPLIED,
  GREATEST,
  LEAST,
}; /* reductions */

/* scatter_elements, scatter_nd */

enum {
  GATHER,
  SCATTER,
  MUL,
  DIV,
  EQUAL,
  CAST_LIKE,
  WHERE,
  EXPAND,
  AND,
};
#define SCATTER_USES                                                                               \
  ", core::mul, core::div, core::equal, core::cast_like, core::where, core::expand, core::and"
enum {
  DY,
  X,
  UPDATES,
  INDICES,
  OUT,
};

typedef struct scatter_t {
  tenon_call_t *call;
  tenon_value_t gather;
  tenon_value_t scatter[2]; /* attributes: the axis of scatter_elements, or none */
  tenon_value_t *reduction;
} scatter_t;

static tenon_status_t gather_along(const scatter_t *s, tenon_tensor_t *t, tenon_tensor_t **out) {
  return INVOKE(s->call, GATHER, &s->gather, out, t, s->call->inputs[INDICES]);
}

static tenon_status_t scatter_along(const scatter_t *s, tenon_tensor_t *into, tenon_tensor_t *t,
                                    int reduction, tenon_tensor_t **out) {
  *s->reduction = value_choice(reduction);
  return INVOKE(s->call, SCATTER, s->scatter, out, into, s->call->inputs[INDICES], t);
}

static tenon_status_t filled_tensor(const scatter_t *s, const tenon_tensor_t *like, double number,
                                    tenon_tensor_t **out) {
  tenon_tensor_t *one = core_number(s->call, like->dtype, number);
  tenon_tensor_t *shape = core_ints(s->call, like->ndim, like->shape);
  return one && shape ? INVOKE(s->call, EXPAND, NULL, out, one, shape) : TENON_MEMORY;
}

/* 1 where a and b are equal, else 0. */
static tenon_status_t equal_mask(const scatter_t *s, tenon_tensor_t *a, tenon_tensor_t *b,
                                 tenon_tensor_t **out) {
  TENON_TRY(INVOKE(s->call, EQUAL, NULL, out, a, b));
  return INVOKE(s->call, CAST_LIKE, NULL, out, *out, s->call->inputs[DY]);
}

/* The gradient of an update under multiplication: dy times x and the other updates of the same
 * element, computed as dy out / update. If only this update is 0, the others are multiplied again;
 * if several are 0, the gradient is 0. */
static tenon_status_t of_factors(const scatter_t *s, tenon_tensor_t **out) {
  tenon_call_t *call = s->call;
  tenon_tensor_t *dy = call->inputs[DY];
  tenon_tensor_t *updates = call->inputs[UPDATES];
  tenon_tensor_t *t, *zeros, *count, *alone, *others, *all;
  tenon_tensor_t *zero = core_number(call, dy->dtype, 0);
  tenon_tensor_t *one = core_number(call, dy->dtype, 1);
  tenon_tensor_t *is_zero;
  if (!zero || !one) return TENON_MEMORY;
  TENON_TRY(INVOKE(call, EQUAL, NULL, &is_zero, updates, zero));
  TENON_TRY(equal_mask(s, updates, zero, &t));
  TENON_TRY(filled_tensor(s, call->inputs[X], 0, &zeros));
  TENON_TRY(scatter_along(s, zeros, t, ADDED, &count));
  TENON_TRY(gather_along(s, count, &count));
  TENON_TRY(INVOKE(call, EQUAL, NULL, &alone, count, one));
  TENON_TRY(INVOKE(call, AND, NULL, &alone, alone, is_zero));
  TENON_TRY(INVOKE(call, WHERE, NULL, &t, alone, one, updates));
  TENON_TRY(scatter_along(s, call->inputs[X], t, MULTIPLIED, &others));
  TENON_TRY(INVOKE(call, MUL, NULL, &others, dy, others));
  TENON_TRY(gather_along(s, others, &others));
  TENON_TRY(INVOKE(call, MUL, NULL, &all, dy, call->inputs[OUT]));
  TENON_TRY(gather_along(s, all, &all));
  TENON_TRY(INVOKE(call, WHERE, NULL, &t, is_zero, one, updates));
  TENON_TRY(INVOKE(call, DIV, NULL, &all, all, t));
  return INVOKE(call, WHERE, NULL, out, alone, others, all);
}

static tenon_status_t scatter_backward(const scatter_t *s) {
  tenon_call_t *call = s->call;
  tenon_tensor_t *dy = call->inputs[DY];
  tenon_tensor_t *x = call->inputs[X];
  tenon_tensor_t *updates = call->inputs[UPDATES];
  tenon_tensor_t *dx = dy;
  tenon_tensor_t *dupdates, *t;
  tenon_tensor_t *taken, *count;
  int reduction = (int)s->reduction->as.i;
  switch (reduction) {
  case NONE:
    TENON_TRY(filled_tensor(s, updates, 0, &t));
    TENON_TRY(scatter_along(s, dy, t, NONE, &dx));
    TENON_TRY(gather_along(s, dy, &dupdates));
    break;
  case ADDED:
    TENON_TRY(gather_along(s, dy, &dupdates));
    break;
  case MULTIPLIED:
    TENON_TRY(filled_tensor(s, x, 1, &t));
    TENON_TRY(scatter_along(s, t, updates, MULTIPLIED, &t));
    TENON_TRY(INVOKE(call, MUL, NULL, &dx, dy, t));
    if (call->outputs[1]) TENON_TRY(of_factors(s, &dupdates));
    break;
  default:
    TENON_TRY(equal_mask(s, x, call->inputs[OUT], &dx));
    TENON_TRY(gather_along(s, call->inputs[OUT], &t));
    TENON_TRY(equal_mask(s, updates, t, &taken));
    TENON_TRY(scatter_along(s, dx, taken, ADDED, &count));
    TENON_TRY(INVOKE(call, DIV, NULL, &t, dy, count));
    TENON_TRY(INVOKE(call, MUL, NULL, &dx, dx, t));
    TENON_TRY(gather_along(s, t, &t));
    TENON_TRY(INVOKE(call, MUL, NULL, &dupdates, taken, t));
  }
  if (call->outputs[0]) TENON_TRY(call->host->assign(call, 0, dx));
  return call->outputs[1] ? call->host->assign(call, 1, dupdates) : TENON_OK;
}

static tenon_status_t elements_run(tenon_call_t *call) {
  scatter_t s = {call, call->attrs[0], {call->attrs[0], call->attrs[1]}, &s.scatter[1]};
  return scatter_backward(&s);
}

static tenon_status_t nd_run(tenon_call_t *call) {
  scatter_t s = {call, value_int(0), {call->attrs[0]}, &s.scatter[0]};
  return scatter_backward(&s);
}

static tenon_status_t both_infer(tenon_infer_t *infer) {
  return core_backward_infer(infer, 2, 0, NULL);
}

/* tensor_scatter */

/* States that the output has the shape listed in an input. */
static tenon_status_t shape_infer(tenon_infer_t *infer, uint32_t input) {
  tenon_meta_t *out = infer->outputs[0];
  ints_t shape;
  TENON_TRY(ints_read(infer, input, &shape));
  if (!shape.known || shape.count > TENON_RANK_MAX) return out_unknown(infer, out, shape.count);
  out->ndim = shape.count;
  for (int32_t i = 0; i < shape.count; i++)
    out->dims[i] = shape.at[i];
  return TENON_OK;
}

static tenon_status_t cache_infer(tenon_infer_t *infer) {
  tenon_meta_t *of[3] = {infer->inputs[0], NULL, infer->inputs[2]};
  return core_shaped_infer(infer, 1, core_tensor_scatter_infer, of, 1);
}

enum {
  CACHE_GATHER,
  CACHE_ADD,
  CACHE_MOD,
  CACHE_CAST,
  CACHE_RESHAPE,
  CACHE_EXPAND,
};

/* Step t of batch entry b is at (first[b] + t) mod extent. */
static tenon_status_t cache_run(tenon_call_t *call) {
  tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *first = call->inputs[2];
  tenon_tensor_t *out = call->outputs[0];
  tenon_tensor_t *at, *extent, *t;
  int32_t axis = 0;
  TENON_TRY(axis_wrap(call, call->attrs[0].as.i, dy->ndim, &axis));
  int64_t steps = out->shape[axis];
  int64_t shape[TENON_RANK_MAX];
  tenon_value_t attrs[3] = {{TENON_KIND_DTYPE, 0, {0}}, value_flag(1), value_choice(0)};
  attrs[0].as.dtype = tenon_dtype(TENON_I64);
  if (!(at = call->host->temporary(call, attrs[0].as.dtype, 1, &steps))) return TENON_MEMORY;
  for (int64_t i = 0; i < steps; i++)
    ((int64_t *)at->data)[i] = i;
  for (int32_t i = 0; i < dy->ndim; i++)
    shape[i] = i == axis ? steps : 1;
  TENON_TRY(core_reshape(call, CACHE_RESHAPE, at, dy->ndim, shape, &at));
  if (first) {
    shape[0] = dy->shape[0];
    shape[axis] = 1;
    TENON_TRY(INVOKE(call, CACHE_CAST, attrs, &first, first));
    TENON_TRY(core_reshape(call, CACHE_RESHAPE, first, dy->ndim, shape, &first));
    TENON_TRY(INVOKE(call, CACHE_ADD, NULL, &at, at, first));
  }
  if (!(extent = core_ints(call, 1, &dy->shape[axis]))) return TENON_MEMORY;
  if (dy->shape[axis]) TENON_TRY(INVOKE(call, CACHE_MOD, NULL, &at, at, extent));
  if (!(t = core_ints(call, out->ndim, out->shape))) return TENON_MEMORY;
  TENON_TRY(INVOKE(call, CACHE_EXPAND, NULL, &at, at, t));
  attrs[0] = value_int(axis);
  TENON_TRY(INVOKE(call, CACHE_GATHER, attrs, &t, dy, at));
  return call->host->assign(call, 0, t);
}

/* compress */

static tenon_status_t compress_infer(tenon_infer_t *infer) { return shape_infer(infer, 2); }

enum {
  COMPRESS_NONZERO,
  COMPRESS_RESHAPE,
  COMPRESS_GATHER,
};

static tenon_status_t compress_run(tenon_call_t *call) {
  tenon_tensor_t *out = call->outputs[0];
  tenon_tensor_t *at, *shape, *t;
  int flat = call->attrs[0].kind == TENON_KIND_NONE;
  tenon_value_t axis = value_int(flat ? 0 : call->attrs[0].as.i);
  int64_t any = -1;
  int64_t count = tenon_count(out);
  TENON_TRY(INVOKE(call, COMPRESS_NONZERO, NULL, &at, call->inputs[1]));
  TENON_TRY(core_reshape(call, COMPRESS_RESHAPE, at, 1, at->shape[1] ? &any : &at->shape[1], &at));
  if (!(shape = flat ? core_ints(call, 1, &count) : core_ints(call, out->ndim, out->shape)))
    return TENON_MEMORY;
  TENON_TRY(INVOKE(call, COMPRESS_GATHER, &axis, &t, call->inputs[0], at, shape));
  TENON_TRY(core_reshape(call, COMPRESS_RESHAPE, t, out->ndim, out->shape, &t));
  return call->host->assign(call, 0, t);
}

/* clang-format off */
#define FACTS(doc, name)                                                                           \
  TENON_DOC(doc),                                                                                  \
  TENON_TYPES("dy: float; x, updates, out = dy; indices: i64|i32; dx, dupdates = dy"),             \
  TENON_TRAITS(TENON_PURE),                                                                        \
  TENON_INFER(both_infer),                                                                         \
  TENON_USES("core::gather_" name ", core::scatter_" name SCATTER_USES)
TENON_ITEMS(core_index_backward,
  TENON_OP("scatter_elements_backward(Tensor dy, Tensor x, Tensor updates, Tensor indices, "
           "Tensor out, *, int axis=0, str['none', 'add', 'mul', 'max', "
           "'min'] reduction='none') -> (Tensor? dx, Tensor? dupdates)",
    FACTS("The gradients of scatter_elements, whose result is `out`.", "elements"),
    TENON_COMPOSITE(elements_run)),
  TENON_OP("scatter_nd_backward(Tensor dy, Tensor x, Tensor updates, Tensor indices, Tensor out, "
           "*, str['none', 'add', 'mul', 'max', 'min'] reduction='none') -> (Tensor? dx, "
           "Tensor? dupdates)",
    TENON_SAMPLES("dy: [n, m, 3], x: [n, m, 3], updates: [2, 3], indices: [2, 2] [0, 1, 2, 3], "
                  "out: [n, m, 3]"),
    FACTS("The gradients of scatter_nd, whose result is `out`.", "nd"),
    TENON_COMPOSITE(nd_run)),
  TENON_OP("tensor_scatter_backward(Tensor dy, Tensor @host shape, Tensor? write_indices=None, *, "
           "int axis=-2) -> Tensor",
    TENON_DOC("The gradient of tensor_scatter's update, of this shape."),
    TENON_SAMPLES("dy: [n, h, 4, w], shape: [4] [n, h, 2, w]"),
    TENON_TYPES("dy: float; shape: i64|i32; write_indices: i64|i32; out = dy"),
    TENON_WHERE("shape: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(cache_infer),
    TENON_USES("core::gather_elements, core::add, core::mod, core::cast, core::reshape, "
               "core::expand"),
    TENON_COMPOSITE(cache_run)),
  TENON_OP("compress_backward(Tensor dy, Tensor condition, Tensor @host shape, *, "
           "int? axis=None) -> Tensor",
    TENON_DOC("The gradient of compress: dy at elements that were taken, 0 elsewhere."),
    TENON_SAMPLES("dy: [2, m], condition: [3] [True, False, True], shape: [2] [3, m], axis = 0"),
    TENON_TYPES("dy: float; condition: bool; shape: i64|i32; out = dy"),
    TENON_WHERE("shape: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(compress_infer),
    TENON_USES("core::nonzero, core::reshape, core::gather_backward"),
    TENON_COMPOSITE(compress_run)))
/* clang-format on */
