/* The operators that sim has, few on purpose: add, mul, relu and matmul of f32.  Each enqueues one piece of work that says
 * exactly which bytes it reads and writes.  Operands are dense; what broadcasts has strides of 0. */
#include "plugin.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/iterator.h>

enum { F32 = 4 };

static tenon_memory_t memory_of(const tenon_tensor_t *t) { return (tenon_memory_t){t->data, t->byte_offset}; }

static sim_use_t use_of(const tenon_tensor_t *t, uint32_t is_write) {
  return (sim_use_t){{memory_of(t), (uint64_t)tenon_count(t) * F32, is_write, 0}, NULL, false};
}

/* ---- pointwise --------------------------------------------------------------------------------------------------------------- */

enum { ADD, MUL, RELU };

typedef struct pointwise_t { /* then extents of ndim axes, then strides of each operand along them */
  uint32_t op, ndim, count, reserved;
  int64_t begin, end;
  int64_t numbers[];
} pointwise_t;

static float apply(uint32_t op, float a, float b) {
  return op == ADD ? a + b : op == MUL ? a * b : a < 0 ? 0 : a; /* relu of no number is none */
}

static tenon_status_t pointwise_run(void *argument, void *const *addresses, char *message) {
  const pointwise_t *p = argument;
  const int64_t *shape = p->numbers, *strides = shape + p->ndim;
  (void)message;
  for (int64_t i = p->begin; i < p->end; i++) {
    int64_t at[3] = {0}, rest = i;
    for (uint32_t axis = p->ndim; axis-- > 0; rest /= shape[axis])
      for (uint32_t k = 0; k < p->count; k++) at[k] += rest % shape[axis] * strides[k * p->ndim + axis];
    float a = *(const float *)(const void *)((const char *)addresses[0] + at[0]);
    float b = p->count > 2 ? *(const float *)(const void *)((const char *)addresses[1] + at[1]) : 0;
    *(float *)(void *)((char *)addresses[p->count - 1] + at[p->count - 1]) = apply(p->op, a, b);
  }
  return TENON_OK;
}

static tenon_status_t pointwise(const tenon_iterator_t *it, uint32_t op, const char *kind) {
  uint64_t axes = (uint64_t)it->ndim, bytes = sizeof(pointwise_t) + (1 + it->count) * axes * sizeof(int64_t);
  sim_use_t uses[3] = {0};
  if (it->begin >= it->end) return TENON_OK;
  pointwise_t *p = malloc(bytes);
  if (!p) return tenon_fail(it, TENON_MEMORY, "sim: no host memory for the arguments of %s", kind);
  p->op = op, p->ndim = (uint32_t)axes, p->count = it->count, p->begin = it->begin, p->end = it->end;
  memcpy(p->numbers, it->shape, axes * sizeof(int64_t));
  for (uint32_t k = 0; k < it->count; k++) {
    uint64_t span = F32;
    memcpy(p->numbers + (1 + k) * axes, it->strides[k], axes * sizeof(int64_t));
    for (uint64_t axis = 0; axis < axes; axis++)
      span += (uint64_t)(it->shape[axis] - 1) * (uint64_t)it->strides[k][axis];
    tenon_memory_t at = {it->tensors[k]->data, (uint64_t)it->offsets[k]};
    uses[k] = (sim_use_t){{at, span, k == it->count - 1, 0}, NULL, false};
  }
  tenon_status_t status = sim_work_enqueue(it->call->device, it->call->stream, it->call->ticket, kind, pointwise_run, p,
                                           bytes, it->count, uses, SIM_CALL_LAUNCH);
  free(p);
  return status;
}

static tenon_status_t add(const tenon_iterator_t *it) { return pointwise(it, ADD, "core::add"); }
static tenon_status_t mul(const tenon_iterator_t *it) { return pointwise(it, MUL, "core::mul"); }
static tenon_status_t relu(const tenon_iterator_t *it) { return pointwise(it, RELU, "core::relu"); }

/* ---- matmul ------------------------------------------------------------------------------------------------------------------ */

/* Of matmul's activations, in the order of its schema. */
static float activate(uint32_t activation, float x, float alpha, float beta) {
  switch (activation) {
  case 1: return x < 0 ? 0 : x;
  case 2: return fminf(fmaxf(x, alpha), beta);
  case 3: return x < 0 ? alpha * x : x;
  case 4: return x < 0 ? alpha * expm1f(x) : x;
  case 5: return 0.5f * x * (1 + erff(x * 0.70710678f));
  case 6: return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
  case 7: return tanhf(x);
  case 8: return 1 / (1 + expf(-x));
  case 9: return x / (1 + expf(-x));
  case 10: return fminf(fmaxf(alpha * x + beta, 0), 1);
  case 11: return x * fminf(fmaxf(x / 6 + 0.5f, 0), 1);
  case 12: return x * tanhf(log1pf(expf(x)));
  default: return x;
  }
}

typedef struct factor_t { /* strides in elements, 0 where it is broadcast */
  int64_t row, column, batch[TENON_RANK_MAX];
} factor_t;

typedef struct matmul_t {
  int64_t m, n, k, batches, shape[TENON_RANK_MAX];
  int32_t rank;
  uint32_t has_bias, activation;
  float alpha, beta;
  factor_t a, b, bias;
} matmul_t;

static void factor_of(const tenon_tensor_t *t, int rows, int columns, int turned, int32_t rank, factor_t *out) {
  int32_t ndim = t->ndim;
  int64_t row = 0, column = 0;
  if (columns && ndim) ndim--, column = t->shape[ndim] == 1 ? 0 : t->strides[ndim];
  if (rows && ndim) ndim--, row = t->shape[ndim] == 1 ? 0 : t->strides[ndim];
  for (int32_t i = 0; i < ndim; i++) out->batch[rank - ndim + i] = t->shape[i] == 1 ? 0 : t->strides[i];
  out->row = turned ? column : row, out->column = turned ? row : column;
}

static int64_t batch_at(const matmul_t *p, const factor_t *factor, int64_t batch) {
  int64_t at = 0;
  for (int32_t axis = p->rank - 1; axis >= 0; batch /= p->shape[axis--])
    at += batch % p->shape[axis] * factor->batch[axis];
  return at;
}

static tenon_status_t matmul_run(void *argument, void *const *addresses, char *message) {
  const matmul_t *p = argument;
  float *out = addresses[2];
  (void)message;
  for (int64_t batch = 0; batch < p->batches; batch++) {
    const float *a = (const float *)addresses[0] + batch_at(p, &p->a, batch);
    const float *b = (const float *)addresses[1] + batch_at(p, &p->b, batch);
    const float *bias = p->has_bias ? (const float *)addresses[3] + batch_at(p, &p->bias, batch) : NULL;
    for (int64_t i = 0; i < p->m; i++)
      for (int64_t j = 0; j < p->n; j++) {
        float sum = 0;
        for (int64_t k = 0; k < p->k; k++) sum += a[i * p->a.row + k * p->a.column] * b[k * p->b.row + j * p->b.column];
        if (bias) sum += bias[i * p->bias.row + j * p->bias.column];
        *out++ = activate(p->activation, sum, p->alpha, p->beta);
      }
  }
  return TENON_OK;
}

static tenon_status_t matmul(tenon_call_t *call) {
  const tenon_tensor_t *a = call->inputs[0], *b = call->inputs[1], *bias = call->inputs[2], *out = call->outputs[0];
  int rows = a->ndim > 1, columns = b->ndim > 1, turn_a = call->attrs[0].as.i != 0, turn_b = call->attrs[1].as.i != 0;
  matmul_t p = {.rank = out->ndim - rows - columns,
                .has_bias = bias != NULL,
                .activation = (uint32_t)call->attrs[2].as.i,
                .alpha = (float)call->attrs[3].as.f,
                .beta = (float)call->attrs[4].as.f};
  if (!tenon_count(out)) return TENON_OK;
  factor_of(a, rows, 1, rows && turn_a, p.rank, &p.a);
  factor_of(b, 1, columns, columns && turn_b, p.rank, &p.b);
  if (bias) factor_of(bias, rows, columns, 0, p.rank, &p.bias);
  p.m = rows ? out->shape[p.rank] : 1, p.n = columns ? out->shape[out->ndim - 1] : 1;
  p.k = a->shape[a->ndim - (rows && turn_a ? 2 : 1)];
  p.batches = 1;
  for (int32_t i = 0; i < p.rank; i++) p.batches *= p.shape[i] = out->shape[i];
  sim_use_t uses[4] = {use_of(a, 0), use_of(b, 0), use_of(out, 1)};
  if (bias) uses[3] = use_of(bias, 0);
  return sim_work_enqueue(call->device, call->stream, call->ticket, "core::matmul", matmul_run, &p, sizeof p,
                          bias ? 4 : 3, uses, SIM_CALL_LAUNCH);
}

/* clang-format off */
TENON_ITEMS(sim_ops,
  TENON_EXTEND("core::add", TENON_STUB("sim f32", add)),
  TENON_EXTEND("core::mul", TENON_STUB("sim f32", mul)),
  TENON_EXTEND("core::relu", TENON_STUB("sim f32", relu)),
  TENON_EXTEND("core::matmul", TENON_KERNEL("sim f32", matmul)))
/* clang-format on */
