/* The operators that sim has, few on purpose: add, mul, relu and matmul of f32.  Each enqueues one
 * piece of work that says exactly which bytes it reads and writes.  Operands are dense; what
 * broadcasts has strides of 0. */
#include "ops.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/iterator.h>

#include "matmul.h"
#include "queue.h"

enum { F32 = 4 };

static tenon_memory_t memory_of(const tenon_tensor_t *t) {
  return (tenon_memory_t){t->data, t->byte_offset};
}

static sim_use_t use_of(const tenon_tensor_t *t, uint32_t is_write) {
  return (sim_use_t){{memory_of(t), (uint64_t)tenon_count(t) * F32, is_write, 0}, NULL, false};
}

/* pointwise */

enum {
  ADD,
  MUL,
  RELU,
};

typedef struct
    pointwise_t { /* then extents of ndim axes, then strides of each operand along them */
  uint32_t op;
  uint32_t ndim;
  uint32_t count;
  uint32_t reserved;
  int64_t begin;
  int64_t end;
  int64_t numbers[];
} pointwise_t;

static float apply(uint32_t op, float a, float b) {
  if (op == ADD) return a + b;
  if (op == MUL) return a * b;
  return a < 0 ? 0 : a; /* relu of NaN is NaN */
}

static tenon_status_t pointwise_run(void *argument, void *const *addresses, char *message) {
  const pointwise_t *p = argument;
  const int64_t *shape = p->numbers;
  const int64_t *strides = shape + p->ndim;
  (void)message;
  for (int64_t i = p->begin; i < p->end; i++) {
    int64_t at[3] = {0};
    int64_t rest = i;
    for (uint32_t axis = p->ndim; axis-- > 0; rest /= shape[axis])
      for (uint32_t k = 0; k < p->count; k++)
        at[k] += rest % shape[axis] * strides[k * p->ndim + axis];
    float a = *(const float *)(const void *)((const char *)addresses[0] + at[0]);
    float b = p->count > 2 ? *(const float *)(const void *)((const char *)addresses[1] + at[1]) : 0;
    *(float *)(void *)((char *)addresses[p->count - 1] + at[p->count - 1]) = apply(p->op, a, b);
  }
  return TENON_OK;
}

static tenon_status_t pointwise(const tenon_iterator_t *it, uint32_t op, const char *kind) {
  uint64_t axes = (uint64_t)it->ndim;
  uint64_t bytes = sizeof(pointwise_t) + (1 + it->count) * axes * sizeof(int64_t);
  sim_use_t uses[3] = {0};
  if (it->begin >= it->end) return TENON_OK;
  pointwise_t *p = malloc(bytes);
  if (!p) return tenon_fail(it, TENON_MEMORY, "sim: no host memory for the arguments of %s", kind);
  p->op = op;
  p->ndim = (uint32_t)axes;
  p->count = it->count;
  p->begin = it->begin;
  p->end = it->end;
  memcpy(p->numbers, it->shape, axes * sizeof(int64_t));
  for (uint32_t k = 0; k < it->count; k++) {
    uint64_t span = F32;
    memcpy(p->numbers + (1 + k) * axes, it->strides[k], axes * sizeof(int64_t));
    for (uint64_t axis = 0; axis < axes; axis++)
      span += (uint64_t)(it->shape[axis] - 1) * (uint64_t)it->strides[k][axis];
    tenon_memory_t at = {it->tensors[k]->data, (uint64_t)it->offsets[k]};
    uses[k] = (sim_use_t){{at, span, k == it->count - 1, 0}, NULL, false};
  }
  tenon_status_t status =
      sim_work_enqueue(it->call->device, it->call->stream, it->call->ticket, kind, pointwise_run, p,
                       bytes, it->count, uses, SIM_CALL_LAUNCH);
  free(p);
  return status;
}

static tenon_status_t add(const tenon_iterator_t *it) { return pointwise(it, ADD, "core::add"); }
static tenon_status_t mul(const tenon_iterator_t *it) { return pointwise(it, MUL, "core::mul"); }
static tenon_status_t relu(const tenon_iterator_t *it) { return pointwise(it, RELU, "core::relu"); }

/* matmul */

static tenon_status_t matmul_run(void *argument, void *const *addresses, char *message) {
  const sim_matmul_t *p = argument;
  (void)message;
  sim_matmul(p, addresses[0], addresses[1], p->has_bias ? addresses[3] : NULL, addresses[2]);
  return TENON_OK;
}

static tenon_status_t matmul(tenon_call_t *call) {
  const tenon_tensor_t *a = call->inputs[0];
  const tenon_tensor_t *b = call->inputs[1];
  const tenon_tensor_t *bias = call->inputs[2];
  const tenon_tensor_t *out = call->outputs[0];
  sim_matmul_t p;
  if (!tenon_count(out)) return TENON_OK;
  sim_matmul_make(a, b, bias, out, call->attrs, &p);
  sim_use_t uses[4] = {use_of(a, 0), use_of(b, 0), use_of(out, 1)};
  if (bias) uses[3] = use_of(bias, 0);
  return sim_work_enqueue(call->device, call->stream, call->ticket, "core::matmul", matmul_run, &p,
                          sizeof p, bias ? 4 : 3, uses, SIM_CALL_LAUNCH);
}

/* clang-format off */
TENON_ITEMS(sim_ops,
  TENON_EXTEND("core::add", TENON_STUB("sim f32 capturable", add)),
  TENON_EXTEND("core::mul", TENON_STUB("sim f32 capturable", mul)),
  TENON_EXTEND("core::relu", TENON_STUB("sim f32 capturable", relu)),
  TENON_EXTEND("core::matmul", TENON_KERNEL("sim f32 capturable", matmul)))
/* clang-format on */
