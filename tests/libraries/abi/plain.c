/* Everything that a library of contract 1.0 may use: every phase, most services, and each kind of
 * kernel. It uses nothing newer. It runs in every host of major version 1, built with any header of
 * that version. */
#include <stdlib.h>
#include <tenon/op.h>

/* a pointwise operator with attributes, a state and a plan */

typedef struct state_t {
  double factor;
} state_t;

static tenon_status_t create(tenon_node_t *node) {
  state_t *state = (state_t *)malloc(sizeof *state);
  if (!state) return tenon_fail(node, TENON_MEMORY, "no memory for a state");
  state->factor = node->attrs[0].as.f + (double)node->attrs[1].as.i;
  node->state = state;
  return TENON_OK;
}

static tenon_status_t prepare(tenon_node_t *node) {
  static double zero;
  if (node->device.type != 1 || node->inputs[0]->ndim != 1)
    return tenon_fail(node, TENON_INTERNAL, "not what was given");
  node->plan = &zero;
  return TENON_OK;
}

static void keep(void *pointer) { (void)pointer; }

static tenon_status_t scale(tenon_call_t *call) {
  const state_t *state = (const state_t *)call->state;
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *y = call->outputs[0];
  const double *from = (const double *)x->data;
  const double add = call->plan ? *(const double *)call->plan : 0;
  double *to = (double *)y->data;
  for (int64_t i = 0; i < tenon_count(x); i++)
    to[i] = from[i] * state->factor + add;
  return TENON_OK;
}

/* shapes by infer, memory by the host, parts in parallel */

static tenon_status_t twice_infer(tenon_infer_t *infer) {
  tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *y = infer->outputs[0];
  y->ndim = 1;
  y->dims[0] = tenon_dim(infer, TENON_DIM_MUL, x->dims[0], tenon_extent(2));
  infer->workspace =
      tenon_dim(infer, TENON_DIM_MUL, y->dims[0], tenon_extent((int64_t)sizeof(double)));
  return TENON_OK;
}

static tenon_status_t fill(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const double *x = (const double *)call->inputs[0]->data;
  for (int64_t i = begin; i < end; i++)
    ((double *)argument)[i] = x[i / 2] + 0.5 * (double)(i % 2);
  return TENON_OK;
}

static tenon_status_t twice(tenon_call_t *call) {
  const tenon_tensor_t *y = call->outputs[0];
  double *parts = (double *)call->workspace;
  call->host->zone(call, "fill");
  TENON_TRY(call->host->parallel(call, tenon_count(y), 1, fill, parts));
  call->host->zone(call, NULL);
  for (int64_t i = 0; i < tenon_count(y); i++)
    ((double *)y->data)[i] = parts[i];
  return TENON_OK;
}

/* a shape that is known only after run */

static tenon_status_t large_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] =
      tenon_dim(infer, TENON_DIM_BOUND, infer->inputs[0]->dims[0], tenon_extent(0));
  return TENON_OK;
}

static tenon_status_t large(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  int64_t count = 0;
  double *kept = (double *)call->host->allocate(call, (uint64_t)tenon_count(x) * sizeof *kept);
  if (!kept) return TENON_MEMORY;
  for (int64_t i = 0; i < tenon_count(x); i++)
    if (((const double *)x->data)[i] > 1) kept[count++] = ((const double *)x->data)[i];
  TENON_TRY(call->host->resize(call, 0, 1, &count));
  for (int64_t i = 0; i < count; i++)
    ((double *)call->outputs[0]->data)[i] = kept[i];
  return TENON_OK;
}

/* an operator of another library, temporaries and views */

static tenon_status_t back(tenon_call_t *call) {
  tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *copied = NULL;
  const int64_t step = -1;
  TENON_TRY(call->host->invoke(call, call->uses[0], NULL, &x, &copied));
  tenon_tensor_t *reversed = call->host->view(call, copied, tenon_count(x) - 1, 1, x->shape, &step);
  tenon_tensor_t *dense = call->host->temporary(call, x->dtype, 1, x->shape);
  if (!reversed || !dense) return TENON_MEMORY;
  for (int64_t i = 0; i < tenon_count(x); i++)
    ((double *)dense->data)[i] = ((const double *)reversed->data)[i * reversed->strides[0]];
  return call->host->assign(call, 0, dense);
}

/* loops and rows */

static tenon_status_t halve(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++)
    ((double *)loop->data[1])[i] = ((const double *)loop->data[0])[i] / 2;
  return TENON_OK;
}

static tenon_status_t sum(const tenon_loop_t *loop) {
  for (int64_t r = 0; r < loop->rows; r++) {
    const double *x = (const double *)((const char *)loop->data[0] + r * loop->stride[0]);
    double *y = (double *)((char *)loop->data[1] + r * loop->stride[1]);
    double total = 0;
    for (int64_t i = 0; i < loop->widths[0]; i++)
      total += x[i];
    for (int64_t i = 0; i < loop->widths[1]; i++)
      y[i] = total;
  }
  return TENON_OK;
}

static tenon_status_t open_it(tenon_node_t *node) {
  node->state = malloc(1);
  return node->state ? TENON_OK : TENON_MEMORY;
}

#define SAME TENON_TYPES("x: f64; out = x"), TENON_GRADIENT("x: none")
/* clang-format off */
TENON_LIBRARY(plain, "1.0.0",
  TENON_OPEN(open_it, free),
  TENON_ABOUT("author: the tests"),
  TENON_OP("back(Tensor x) -> Tensor",
    SAME, TENON_SHAPES("out = x"), TENON_USES("core::identity"), TENON_COMPOSITE(back)),
  TENON_OP("halve(Tensor x) -> Tensor",
    TENON_DOC("Half of x."), TENON_TYPES("x: f64; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_GRADIENT("x: halve(grad)"),
    TENON_LOOP("f64 -> f64", halve)),
  TENON_OP("large(Tensor x) -> Tensor",
    SAME, TENON_TRAITS(TENON_PURE), TENON_INFER(large_infer), TENON_KERNEL("cpu", large)),
  TENON_OP("scale(Tensor x, *, float by=1.5, int more=1) -> Tensor",
    SAME, TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE), TENON_STATE(create, free),
    TENON_PREPARE(prepare, keep), TENON_KERNEL("cpu f64", scale)),
  TENON_OP("sum(Tensor x) -> Tensor",
    SAME, TENON_SHAPES("x: [n]; out: [1]"), TENON_TRAITS(TENON_PURE), TENON_ROW("f64 -> f64", sum)),
  TENON_OP("twice(Tensor x) -> Tensor",
    SAME, TENON_TRAITS(TENON_PURE), TENON_INFER(twice_infer), TENON_KERNEL("cpu", twice)))
/* clang-format on */
