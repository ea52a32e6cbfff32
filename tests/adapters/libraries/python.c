/* Operators for the tests of the Python package: one that fails, one that writes to its argument,
 * lists, optionals, strings, every kind of attribute, a result whose size is known only after run,
 * and slow ones. */
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <string.h>
#include <tenon/op.h>
#include <time.h>

static tenon_status_t fails(tenon_call_t *call) {
  return tenon_fail(call, TENON_PRECONDITION, "the kernel of fails says no");
}

static tenon_status_t add_to(tenon_call_t *call) {
  float *y = (float *)call->inputs[0]->data;
  const float *x = (const float *)call->inputs[1]->data;
  for (int64_t i = 0, n = tenon_count(call->inputs[0]); i < n; i++)
    y[i] += (float)call->attrs[0].as.f * x[i];
  return TENON_OK;
}

static tenon_status_t sum_all(tenon_call_t *call) {
  float sum = 0;
  for (int64_t k = 0; k < call->inputs[0]->shape[0]; k++) {
    const tenon_tensor_t *item = tenon_item(call->inputs[0], k);
    for (int64_t i = 0, n = tenon_count(item); i < n; i++)
      sum += ((const float *)item->data)[i];
  }
  if (call->inputs[1]) sum *= *(const float *)call->inputs[1]->data;
  *(float *)call->outputs[0]->data = sum;
  return TENON_OK;
}

/* A number to which each attribute contributes. */
static tenon_status_t weigh(tenon_call_t *call) {
  const tenon_value_t *a = call->attrs;
  double sum = (a[0].as.i ? 1 : 0) + 10 * (double)a[1].as.i + a[2].as.f + 1000 * (double)a[4].as.i +
               (double)a[3].count;
  for (uint32_t i = 0; i < a[5].count; i++)
    sum += 1e4 * (double)a[5].as.ints[i];
  for (uint32_t i = 0; i < a[6].count; i++)
    sum += 1e5 * a[6].as.floats[i];
  for (uint32_t i = 0; i < a[7].count; i++)
    sum += 1e6 * (double)a[7].as.strs[i].size;
  if (a[8].kind != TENON_KIND_NONE) sum += 1e7 * (double)a[8].as.i;
  sum += 1e8 * (double)a[9].as.dtype.bits;
  *(double *)call->outputs[0]->data = sum;
  return TENON_OK;
}

static tenon_status_t positive_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] =
      infer->host->dim(infer, TENON_DIM_BOUND, infer->inputs[0]->dims[0], (tenon_dim_t){0});
  return TENON_OK;
}
static tenon_status_t positive(tenon_call_t *call) {
  const float *x = (const float *)call->inputs[0]->data;
  int64_t n = 0;
  for (int64_t i = 0; i < call->inputs[0]->shape[0]; i++)
    if (x[i] > 0) ((float *)call->outputs[0]->data)[n++] = x[i];
  return call->host->resize(call, 0, 1, &n);
}

/* Reports in x[1] that it runs, and waits until another Python thread has written 100 to x[0].
 * Returns 1 if that happened, and 0 if the time ran out. */
static tenon_status_t waits(tenon_call_t *call) {
  volatile float *x = (float *)call->inputs[0]->data;
  x[1] = 1;
  for (int64_t i = 0; i < call->attrs[0].as.i && x[0] != 100; i++) {
    struct timespec time = {0, 1000000};
    nanosleep(&time, NULL);
  }
  *(float *)call->outputs[0]->data = x[0] == 100;
  return TENON_OK;
}

static int64_t steps_done;
static tenon_status_t steps_part(tenon_call_t *call, void *unused, int64_t begin, int64_t end) {
  (void)call;
  (void)unused;
  for (int64_t i = begin; i < end; i++) {
    struct timespec time = {0, 1000000};
    nanosleep(&time, NULL);
    __atomic_fetch_add(&steps_done, 1, __ATOMIC_RELAXED);
  }
  return TENON_OK;
}
static tenon_status_t
/* Each step takes a millisecond; the result is the number of steps made. */
steps(tenon_call_t *call) {
  const bool goes_on = call->attrs[1].as.i; /* It succeeds even if its loop does not. */
  if (call->attrs[0].as.i == 0) __atomic_store_n(&steps_done, 0, __ATOMIC_RELAXED);
  tenon_status_t status = call->host->parallel(call, call->attrs[0].as.i, 1, steps_part, NULL);
  *(float *)call->outputs[0]->data = (float)__atomic_load_n(&steps_done, __ATOMIC_RELAXED);
  return goes_on ? TENON_OK : status;
}

static tenon_status_t negated(tenon_call_t *call) { /* Its argument is named `out`. */
  for (int64_t i = 0, n = tenon_count(call->inputs[0]); i < n; i++)
    ((float *)call->outputs[0]->data)[i] = -((const float *)call->inputs[0]->data)[i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(pytest, "1.2.3",
  TENON_OP("fails(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", fails)),
  TENON_OP("add_to(Tensor(a!) y, Tensor x, *, float alpha=1.0) -> Tensor(a!)",
    TENON_TYPES("y: f32; x = y; out = y"), TENON_SHAPES("y: [n]; x: [n]; out = y"),
    TENON_KERNEL("cpu", add_to)),
  TENON_OP("sum_all(Tensor[] x, Tensor? scale=None) -> Tensor",
    TENON_TYPES("x: f32; scale = x; out = x"), TENON_SHAPES("out: []"), TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", sum_all)),
  TENON_OP("weigh(Tensor x, *, bool b=False, int i=0, float f=0.0, str s='', "
           "str['one', 'two'] c='one', int[] ints=[], float[] floats=[], str[] strs=[], "
           "int? may=None, dtype d='f32') -> Tensor",
    TENON_DOC("Adds its attributes up.\nEach has a place of its own."),
    TENON_TYPES("x: f32; out = f64"), TENON_SHAPES("out: []"),
    TENON_TRAITS(TENON_PURE | TENON_BRIEF), TENON_KERNEL("cpu", weigh)),
  TENON_OP("positive(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_INFER(positive_infer), TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", positive)),
  TENON_OP("negated(Tensor out) -> Tensor y",
    TENON_TYPES("out: f32; y = out"), TENON_SHAPES("y = out"), TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", negated)),
  TENON_OP("steps(Tensor x, *, int count=0, bool goes_on=False) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out: []"), TENON_KERNEL("cpu", steps)),
  TENON_OP("waits(Tensor x, *, int milliseconds) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out: []"), TENON_KERNEL("cpu", waits)))
