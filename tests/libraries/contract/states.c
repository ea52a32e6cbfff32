/* Operators of the library `contract` that keep data: a state by attributes, a state that only one
 * call at a time may use, prepared weights, workspace. */
#include <stdlib.h>
#include <string.h>

#include "contract.h"

/* state */

static tenon_status_t counter_create(tenon_node_t *node) {
  int64_t *count = (int64_t *)malloc(2 * sizeof *count);
  if (!count) return tenon_fail(node, TENON_MEMORY, "no memory for a counter");
  if (node->attrs[0].as.i < 0) {
    free(count);
    return tenon_fail(node, TENON_INVALID, "start %lld is negative",
                      (long long)node->attrs[0].as.i);
  }
  count[0] = node->attrs[0].as.i;
  count[1] = 1;
  contract_count(CENSUS_CREATED);
  node->state = count;
  return TENON_OK;
}

static void counter_destroy(void *state) {
  contract_count(CENSUS_DESTROYED);
  free(state);
}

static tenon_status_t counter_run(tenon_call_t *call) {
  int64_t count = __atomic_fetch_add((int64_t *)call->state, 1, __ATOMIC_RELAXED);
  for (int64_t i = 0, n = tenon_count(call->outputs[0]); i < n; i++)
    ((float *)call->outputs[0]->data)[i] = ((const float *)call->inputs[0]->data)[i] + (float)count;
  return TENON_OK;
}

static tenon_status_t
/* Reads the state: the result has one element more than the state says. */
padded_infer(tenon_infer_t *infer) {
  tenon_meta_t *out = infer->outputs[0];
  if (!infer->state) return tenon_fail(infer, TENON_INTERNAL, "infer without the state");
  out->ndim = 1;
  out->dims[0] = tenon_extent(*(const int64_t *)infer->state);
  return TENON_OK;
}

static tenon_status_t padded_run(tenon_call_t *call) {
  float *out = (float *)call->outputs[0]->data;
  int64_t n = tenon_count(call->inputs[0]);
  int64_t m = tenon_count(call->outputs[0]);
  for (int64_t i = 0; i < m; i++)
    out[i] = i < n ? ((const float *)call->inputs[0]->data)[i] : 0;
  return TENON_OK;
}

typedef struct turns_t {
  int inside;
  int64_t count;
} turns_t;

static tenon_status_t turns_create(tenon_node_t *node) {
  node->state = calloc(1, sizeof(turns_t));
  return node->state ? TENON_OK : tenon_fail(node, TENON_MEMORY, "no memory for turns");
}

static tenon_status_t
/* Uses plain numbers, since "serial" guarantees that no other call runs. */
turns_run(tenon_call_t *call) {
  turns_t *turns = (turns_t *)call->state;
  if (turns->inside) return tenon_fail(call, TENON_INTERNAL, "two calls at once");
  turns->inside = 1;
  for (volatile int i = 0; i < 100; i++) {
  }
  *(int64_t *)call->outputs[0]->data = ++turns->count;
  turns->inside = 0;
  return TENON_OK;
}

/* prepared weights */

/* The weight in column order. */
typedef struct packed_t {
  int64_t rows;
  int64_t columns;
  float data[];
} packed_t;

static tenon_status_t matvec_prepare(tenon_node_t *node) {
  const tenon_meta_t *weight = node->inputs[0];
  contract_count(CENSUS_PREPARED);
  if (!(node->constant & 1)) return TENON_OK;
  int64_t rows = weight->value->shape[0];
  int64_t columns = weight->value->shape[1];
  packed_t *p = (packed_t *)malloc(sizeof *p + (size_t)(rows * columns) * sizeof *p->data);
  if (!p) return tenon_fail(node, TENON_MEMORY, "no memory for a weight");
  p->rows = rows;
  p->columns = columns;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++)
      p->data[c * rows + r] = ((const float *)weight->value->data)[r * columns + c];
  node->plan = p;
  node->consumed = 1;
  return TENON_OK;
}

static void matvec_release(void *plan) {
  contract_count(CENSUS_RELEASED);
  free(plan);
}

static tenon_status_t
/* The last element of the result tells which way was taken. */
matvec_run(tenon_call_t *call) {
  const packed_t *p = (const packed_t *)call->plan;
  const float *x = (const float *)call->inputs[1]->data;
  const float *w = (const float *)call->inputs[0]->data;
  float *out = (float *)call->outputs[0]->data;
  int64_t rows = call->inputs[0]->shape[0];
  int64_t columns = call->inputs[0]->shape[1];
  for (int64_t r = 0; r < rows; r++) {
    out[r] = 0;
    for (int64_t c = 0; c < columns; c++)
      out[r] += x[c] * (p ? p->data[c * rows + r] : w[r * columns + c]);
  }
  *(uint8_t *)call->outputs[1]->data = p != NULL;
  return TENON_OK;
}

/* workspace */

static tenon_status_t median_infer(tenon_infer_t *infer) {
  tenon_dim_t bytes = tenon_extent(4);
  for (int32_t d = 0; d < infer->inputs[0]->ndim; d++)
    bytes = tenon_dim(infer, TENON_DIM_MUL, bytes, infer->inputs[0]->dims[d]);
  infer->workspace = bytes;
  infer->outputs[0]->ndim = 0;
  return TENON_OK;
}

static int by_value(const void *a, const void *b) {
  float x = *(const float *)a;
  float y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Of two elements in the middle, it returns the lower one. */
static tenon_status_t median_run(tenon_call_t *call) {
  int64_t n = tenon_count(call->inputs[0]);
  if (n == 0) return tenon_fail(call, TENON_INVALID, "the median of nothing");
  if (!call->workspace || (uintptr_t)call->workspace % 64)
    return tenon_fail(call, TENON_INTERNAL, "no workspace");
  float *sorted = (float *)call->workspace;
  memcpy(sorted, call->inputs[0]->data, (size_t)n * sizeof *sorted);
  qsort(sorted, (size_t)n, sizeof *sorted, by_value);
  *(float *)call->outputs[0]->data = sorted[(n - 1) / 2];
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(contract_states,
  TENON_OP("counter(Tensor x, *, int start=0) -> Tensor",
    TENON_DOC("x plus the number of calls before this one"),
    TENON_TYPES("x: f32; out = x"),
    TENON_SHAPES("out = x"),
    TENON_STATE(counter_create, counter_destroy),
    TENON_KERNEL("cpu", counter_run)),
  TENON_OP("padded(Tensor x, *, int to=3) -> Tensor",
    TENON_TYPES("x: f32; out = x"),
    TENON_STATE(counter_create, counter_destroy),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(padded_infer),
    TENON_KERNEL("cpu", padded_run)),
  TENON_OP("turns() -> Tensor",
    TENON_TYPES("out = i64"),
    TENON_SHAPES("out: []"),
    TENON_STATE(turns_create, free),
    TENON_KERNEL("cpu serial", turns_run)),
  TENON_OP("matvec(Tensor weight, Tensor x) -> (Tensor out, Tensor prepared)",
    TENON_TYPES("weight, x: f32; out = x; prepared = bool"),
    TENON_SHAPES("weight: [m, k]; x: [k]; out: [m]; prepared: []"),
    TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", matvec_run),
    TENON_PREPARE(matvec_prepare, matvec_release)),
  TENON_OP("median(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(median_infer),
    TENON_KERNEL("cpu", median_run)))
