/* An operator of each kind of kernel.  Most read elements after they have written others, so that a
 * result in the memory of an input gives other values unless the host keeps them apart. */
#ifndef TENON_ON_DEVICE
#include <tenon/source.h>
#endif

/* y[i] = x[n - 1 - i] */
TENON_SOURCE_3(turn, IN, float, x, OUT, float, y, VALUE, int64_t, n) {
  TENON_EACH(i, n) y[i] = x[n - 1 - i];
}

#ifndef TENON_ON_DEVICE
#include <string.h>
#include <tenon/check.h>
#include <tenon/op.h>

TENON_CODE(code, {"turn", turn})

static tenon_status_t turn_source(tenon_call_t *call) {
  int64_t n = tenon_count(call->inputs[0]);
  const tenon_kernel_argument_t arguments[] = {tenon_in(call->inputs[0]),
                                               tenon_out(call->outputs[0]), TENON_VALUE(n)};
  return tenon_each(call, &code, 0, n, arguments, 3);
}

static tenon_status_t turn_kernel(tenon_call_t *call) {
  const float *x = call->inputs[0]->data;
  float *y = call->outputs[0]->data;
  int64_t n = tenon_count(call->inputs[0]);
  for (int64_t i = 0; i < n; i++)
    y[i] = x[n - 1 - i];
  return TENON_OK;
}

/* Each row minus its last element. */
static tenon_status_t less_row(const tenon_loop_t *loop) {
  for (int64_t r = 0; r < loop->rows; r++) {
    const float *x = (const float *)((const char *)loop->data[0] + r * loop->stride[0]);
    float *y = (float *)((char *)loop->data[1] + r * loop->stride[1]);
    y[loop->count - 1] = 0;
    for (int64_t i = 0; i < loop->count - 1; i++)
      y[i] = x[i] - x[loop->count - 1];
  }
  return TENON_OK;
}

/* Sum and difference: the second result reads the inputs again. */
static tenon_status_t both_loop(const tenon_loop_t *loop) {
  const float *a = loop->data[0];
  const float *b = loop->data[1];
  float *sum = loop->data[2];
  float *difference = loop->data[3];
  for (int64_t i = 0; i < loop->count; i++)
    sum[i] = a[i] + b[i];
  for (int64_t i = 0; i < loop->count; i++)
    difference[i] = a[i] - b[i];
  return TENON_OK;
}

static tenon_status_t scaled_loop(const tenon_loop_t *loop) {
  const float *a = loop->data[0];
  float *y = loop->data[1];
  for (int64_t i = 0; i < loop->count; i++)
    y[i] = 2 * a[i];
  return TENON_OK;
}

/* x * x + x, of two calls: the second one reads x after the first one has written the result. */
static tenon_status_t squares(tenon_call_t *call) {
  tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  TENON_TRY(call->host->invoke(call, call->uses[0], NULL, (tenon_tensor_t *[]){x, x}, &out));
  return call->host->invoke(call, call->uses[1], NULL, (tenon_tensor_t *[]){out, x}, &out);
}

static tenon_status_t axpy(tenon_call_t *call) {
  float *x = call->inputs[0]->data;
  const float *y = call->inputs[1]->data;
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    x[i] += 2 * y[i];
  return TENON_OK;
}

/* Two inputs are written to, and a result is made of both. */
static tenon_status_t trade(tenon_call_t *call) {
  float *a = call->inputs[0]->data;
  float *b = call->inputs[1]->data;
  float *y = call->outputs[0]->data;
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++) {
    float old = a[i];
    a[i] = b[i];
    b[i] = old;
    y[i] = a[i] * 2 + b[i];
  }
  return TENON_OK;
}

static tenon_status_t total(tenon_call_t *call) {
  const tenon_tensor_t *list = call->inputs[0];
  float *y = call->outputs[0]->data;
  int64_t n = tenon_count(call->outputs[0]);
  memset(y, 0, (size_t)n * sizeof *y);
  for (int64_t k = 0; k < list->shape[0]; k++)
    for (int64_t i = 0; i < n; i++)
      y[i] += ((const float *)tenon_item(list, k)->data)[i];
  return TENON_OK;
}

/* The state is a constant that the kernel reads. */
static tenon_status_t open_state(tenon_node_t *node) {
  static float half = 0.5f;
  node->state = &half;
  return TENON_OK;
}
static void close_state(void *state) { (void)state; }
static tenon_status_t behind(tenon_call_t *call) {
  const float *x = call->inputs[0]->data;
  float *y = call->outputs[0]->data;
  int64_t n = tenon_count(call->inputs[0]);
  for (int64_t i = 0; i < n; i++)
    y[i] = *(const float *)call->state * x[i ? i - 1 : n - 1];
  return TENON_OK;
}

#define SAME TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE)
#define TWO TENON_TYPES("a: f32; b = a; out = a"), TENON_SHAPES("a: [n]; b: [n]; out: [n]")
TENON_LIBRARY(
    kinds, "1.0.0",
    TENON_OP("kernel(Tensor x) -> Tensor", SAME, TENON_SAMPLES("x: [4, 6]"),
             TENON_KERNEL("cpu", turn_kernel)),
    TENON_OP("source(Tensor x) -> Tensor", SAME, TENON_SAMPLES("x: [4, 6]"),
             TENON_SOURCE("f32", turn_source)),
    TENON_OP("row(Tensor x) -> Tensor", SAME, TENON_SAMPLES("x: [4, 6]"),
             TENON_ROW("f32 -> f32", less_row)),
    TENON_OP("loop(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"),
             TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP("f32 -> f32", scaled_loop)),
    TENON_OP("loops(Tensor a, Tensor b) -> (Tensor sum, Tensor difference)",
             TENON_TYPES("a: f32; b = a; sum = a; difference = a"),
             TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
             TENON_LOOP("f32, f32 -> f32, f32", both_loop)),
    TENON_OP("composite(Tensor x) -> Tensor", SAME, TENON_SAMPLES("x: [4, 6]"),
             TENON_USES("core::mul, core::add"), TENON_COMPOSITE(squares)),
    TENON_OP("stateful(Tensor x) -> Tensor", SAME, TENON_SAMPLES("x: [4, 6]"),
             TENON_STATE(open_state, close_state), TENON_KERNEL("cpu", behind)),
    TENON_OP("list(Tensor[] xs) -> Tensor", TENON_TYPES("xs: f32; out = xs"),
             TENON_SHAPES("xs: [n]; out: [n]"), TENON_TRAITS(TENON_PURE),
             TENON_KERNEL("cpu", total)),
    TENON_OP("axpy_(Tensor(a!) x, Tensor y) -> Tensor(a!)", TENON_TYPES("x: f32; y = x; out = x"),
             TENON_SHAPES("x: [n]; y: [n]; out: [n]"), TENON_KERNEL("cpu", axpy)),
    TENON_OP("trade_(Tensor(a!) a, Tensor(b!) b) -> Tensor", TWO, TENON_KERNEL("cpu", trade)))
#endif
