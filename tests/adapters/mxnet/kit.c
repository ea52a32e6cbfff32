/* Operators of every kind, for the tests of libraries that are exported to MXNet: pointwise with
 * broadcasting, a reduction, one with a state, two that write to arguments, several results,
 * attributes of every kind, lists and optional tensors, random numbers, and operators that MXNet
 * cannot express. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/op.h>

static const float *in(const tenon_call_t *call, int i) {
  return (const float *)call->inputs[i]->data;
}
static float *out(const tenon_call_t *call, int o) { return (float *)call->outputs[o]->data; }

/* pointwise, and several results */

static tenon_status_t blend_f32(const tenon_loop_t *loop) {
  const float *a = (const float *)loop->data[0];
  const float *b = (const float *)loop->data[1];
  const float w = (float)loop->attrs[0].as.f;
  for (int64_t i = 0; i < loop->count; i++)
    ((float *)loop->data[2])[i] = w * a[i] + (1 - w) * b[i];
  return TENON_OK;
}

static tenon_status_t times_f32(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++)
    ((float *)loop->data[1])[i] = (float)loop->attrs[0].as.f * ((const float *)loop->data[0])[i];
  return TENON_OK;
}

static tenon_status_t halves_f32(const tenon_loop_t *loop) {
  const float *x = (const float *)loop->data[0];
  for (int64_t i = 0; i < loop->count; i++) {
    ((float *)loop->data[1])[i] = x[i] < 0 ? x[i] : 0;
    ((float *)loop->data[2])[i] = x[i] < 0 ? 0 : x[i] * x[i];
  }
  return TENON_OK;
}

static tenon_status_t halves_backward_f32(const tenon_loop_t *loop) {
  const float *low = (const float *)loop->data[0];
  const float *high = (const float *)loop->data[1];
  const float *x = (const float *)loop->data[2];
  for (int64_t i = 0; i < loop->count; i++)
    ((float *)loop->data[3])[i] = x[i] < 0 ? low[i] : 2 * x[i] * high[i];
  return TENON_OK;
}

static tenon_status_t split(tenon_call_t *call) {
  const tenon_tensor_t *list = call->outputs[0];
  const char *from = (const char *)call->inputs[0]->data;
  for (int64_t k = 0; k < list->shape[0]; k++) {
    const tenon_tensor_t *item = tenon_item(list, k);
    size_t size = (size_t)tenon_count(item) * item->dtype.bits / 8;
    memcpy(item->data, from, size);
    from += size;
  }
  return TENON_OK;
}

static tenon_status_t split_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  int64_t parts = infer->attrs[0].as.i;
  if (parts < 1 || x->ndim < 1)
    return tenon_fail(infer, TENON_INVALID, "split: %lld parts of %d axes", (long long)parts,
                      x->ndim);
  for (uint32_t k = 0; k < infer->outputs[0]->count; k++) {
    tenon_meta_t *item = infer->outputs[0]->items[k];
    item->ndim = x->ndim;
    for (int32_t d = 0; d < x->ndim; d++)
      item->dims[d] = x->dims[d];
    item->dims[0] = tenon_dim(infer, TENON_DIM_DIV, x->dims[0], tenon_extent(parts));
  }
  return TENON_OK;
}

/* reductions */

static tenon_status_t rows_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *y = infer->outputs[0];
  if (x->ndim < 1) return tenon_fail(infer, TENON_INVALID, "row_mean: x has no axes");
  y->ndim = x->ndim - !infer->attrs[0].as.i;
  for (int32_t d = 0; d < y->ndim; d++)
    y->dims[d] = d + 1 < x->ndim ? x->dims[d] : tenon_extent(1);
  return TENON_OK;
}

static tenon_status_t row_mean(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  int64_t width = x->shape[x->ndim - 1];
  int64_t rows = tenon_count(call->outputs[0]);
  for (int64_t r = 0; r < rows; r++) {
    double sum = 0;
    for (int64_t i = 0; i < width; i++)
      sum += in(call, 0)[r * width + i];
    out(call, 0)[r] = (float)(sum / (double)width);
  }
  return TENON_OK;
}

static tenon_status_t row_mean_backward(tenon_call_t *call) { /* grad, x -> out */
  const tenon_tensor_t *x = call->inputs[1];
  int64_t width = x->shape[x->ndim - 1];
  int64_t count = tenon_count(x);
  for (int64_t i = 0; i < count; i++)
    out(call, 0)[i] = in(call, 0)[i / width] / (float)width;
  return TENON_OK;
}

/* A composite: the sum of squares, without axes. */
static tenon_status_t energy(tenon_call_t *call) {
  tenon_tensor_t *square[1] = {NULL};
  tenon_tensor_t *sum[1] = {NULL};
  tenon_tensor_t *twice[] = {call->inputs[0], call->inputs[0]};
  tenon_tensor_t *squares[] = {NULL, NULL};
  tenon_value_t attrs[] = {{TENON_KIND_BOOL, 0, {.i = 0}}, {TENON_KIND_BOOL, 0, {.i = 0}}};
  TENON_TRY(call->host->invoke(call, call->uses[0], NULL, twice, square));
  squares[0] = square[0];
  TENON_TRY(call->host->invoke(call, call->uses[1], attrs, squares, sum));
  return call->host->assign(call, 0, sum[0]);
}

/* A composite: the sum of the items and the bias. */
static tenon_status_t total(tenon_call_t *call) {
  tenon_tensor_t *sum = NULL;
  for (int64_t k = 0; k <= call->inputs[0]->shape[0]; k++) {
    tenon_tensor_t *next =
        k < call->inputs[0]->shape[0] ? tenon_item(call->inputs[0], k) : call->inputs[1];
    tenon_tensor_t *pair[] = {sum, next};
    tenon_tensor_t *made[1] = {NULL};
    if (!next) continue;
    if (!sum) {
      sum = next;
      continue;
    }
    TENON_TRY(call->host->invoke(call, call->uses[0], NULL, pair, made));
    sum = made[0];
  }
  return call->host->assign(call, 0, sum);
}

static tenon_status_t total_infer(tenon_infer_t *infer) {
  const tenon_meta_t *list = infer->inputs[0];
  if (!list->count) return tenon_fail(infer, TENON_INVALID, "total: the list is empty");
  infer->outputs[0]->ndim = list->items[0]->ndim;
  for (int32_t d = 0; d < list->items[0]->ndim; d++)
    infer->outputs[0]->dims[d] = list->items[0]->dims[d];
  return TENON_OK;
}

/* state */

static tenon_status_t count_create(tenon_node_t *node) {
  float *count = (float *)malloc(sizeof *count);
  if (!count) return tenon_fail(node, TENON_MEMORY, "no memory");
  *count = (float)node->attrs[0].as.f;
  node->state = count;
  return TENON_OK;
}

static tenon_status_t counted(tenon_call_t *call) { /* x plus the number of calls; serial */
  float count = ++*(float *)call->state;
  for (int64_t i = 0, n = tenon_count(call->inputs[0]); i < n; i++)
    out(call, 0)[i] = in(call, 0)[i] + count;
  return TENON_OK;
}

static tenon_status_t counted_backward(tenon_call_t *call) { /* grad times the number of calls */
  for (int64_t i = 0, n = tenon_count(call->inputs[0]); i < n; i++)
    out(call, 0)[i] = in(call, 0)[i] * *(const float *)call->state;
  return TENON_OK;
}

/* writing */

static tenon_status_t decay(tenon_call_t *call) {
  for (int64_t i = 0, n = tenon_count(call->inputs[0]); i < n; i++)
    ((float *)call->inputs[0]->data)[i] -= (float)call->attrs[0].as.f * in(call, 1)[i];
  return TENON_OK;
}

static tenon_status_t
centre(tenon_call_t *call) { /* x, gain, running (written) -> (x - mean) * gain, running */
  int64_t n = tenon_count(call->inputs[0]);
  float momentum = (float)call->attrs[0].as.f;
  float *running = (float *)call->inputs[2]->data;
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += in(call, 0)[i];
  float mean = (float)(sum / (double)n);
  for (int64_t i = 0; i < n; i++)
    out(call, 0)[i] = (in(call, 0)[i] - mean) * in(call, 1)[0];
  running[0] = momentum * running[0] + (1 - momentum) * mean;
  return TENON_OK;
}

static tenon_status_t centre_backward(tenon_call_t *call) { /* grad, x, gain -> dx, dgain */
  int64_t n = tenon_count(call->inputs[0]);
  double grads = 0;
  double sum = 0;
  double gain = 0;
  for (int64_t i = 0; i < n; i++) {
    grads += in(call, 0)[i];
    sum += in(call, 1)[i];
  }
  for (int64_t i = 0; i < n; i++) {
    gain += in(call, 0)[i] * (in(call, 1)[i] - sum / (double)n);
    out(call, 0)[i] = (float)((in(call, 0)[i] - grads / (double)n) * in(call, 2)[0]);
  }
  out(call, 1)[0] = (float)gain;
  return TENON_OK;
}

/* attributes */

static tenon_status_t
/* Each attribute gives one number of the result. */
weigh(tenon_call_t *call) {
  const tenon_value_t *a = call->attrs;
  double *y = (double *)call->outputs[0]->data;
  double sums[4] = {0, 0, 0, 0};
  for (uint32_t i = 0; i < a[7].count; i++)
    sums[0] += (double)(i + 1) * (double)a[7].as.ints[i];
  for (uint32_t i = 0; i < a[8].count; i++)
    sums[1] += (double)(i + 1) * a[8].as.floats[i];
  for (uint32_t i = 0; i < a[9].count; i++)
    sums[2] += (double)(i + 1) * (double)a[9].as.strs[i].size;
  for (uint32_t i = 0; i < a[10].count; i++)
    sums[3] += (double)(i + 1) * (double)a[10].as.dims[i].value;
  const double numbers[] = {(double)a[0].as.i,
                            (double)a[1].as.i,
                            (double)a[2].as.dim.value,
                            a[3].as.f,
                            (double)a[4].count,
                            (double)a[5].as.i,
                            (double)a[6].as.dtype.bits,
                            sums[0],
                            sums[1],
                            sums[2],
                            sums[3],
                            a[11].kind == TENON_KIND_NONE ? -1.0 : (double)a[11].as.i,
                            a[12].kind == TENON_KIND_FLOAT ? a[12].as.f : (double)a[12].as.i,
                            (double)a[13].as.device.type};
  memcpy(y, numbers, sizeof numbers);
  return TENON_OK;
}

/* random numbers */

static tenon_status_t drop_f32(const tenon_loop_t *loop) {
  const float *x = (const float *)loop->data[0];
  uint32_t least = (uint32_t)(loop->attrs[0].as.f * 4294967296.0);
  for (int64_t i = 0; i < loop->count; i++) {
    int keep = tenon_random(loop->seed, loop->offset + loop->first + (uint64_t)i) >= least;
    ((float *)loop->data[1])[i] = keep ? x[i] : 0;
    ((float *)loop->data[2])[i] = (float)keep;
  }
  return TENON_OK;
}

/* operators that MXNet cannot express, or only in part */

static tenon_status_t positive_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] =
      infer->host->dim(infer, TENON_DIM_BOUND, infer->inputs[0]->dims[0], (tenon_dim_t){0});
  return TENON_OK;
}

static tenon_status_t positive(tenon_call_t *call) {
  int64_t n = 0;
  return call->host->resize(call, 0, 1, &n);
}

static tenon_status_t fails(tenon_call_t *call) {
  return tenon_fail(call, TENON_PRECONDITION, "the kernel of fails says no");
}

static tenon_status_t bits(tenon_call_t *call) { /* infer determines the dtype */
  memcpy(call->outputs[0]->data, call->inputs[0]->data, (size_t)tenon_count(call->inputs[0]) * 4);
  return TENON_OK;
}

static tenon_status_t bits_infer(tenon_infer_t *infer) {
  infer->outputs[0]->dtype = tenon_dtype(TENON_I32);
  infer->outputs[0]->ndim = infer->inputs[0]->ndim;
  for (int32_t d = 0; d < infer->inputs[0]->ndim; d++)
    infer->outputs[0]->dims[d] = infer->inputs[0]->dims[d];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(kit, "1.0.0",
  TENON_OP("blend(Tensor a, Tensor b, *, float weight=0.5) -> Tensor",
    TENON_TYPES("a, b: f16|bf16|f32; out = a"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_GRADIENT("a: times(grad, by=weight); b: core::sub(grad, times(grad, by=weight))"),
    TENON_LOOP("f32, f32 -> f32", blend_f32)),
  TENON_OP("times(Tensor x, *, float by) -> Tensor",
    TENON_TYPES("x: f16|bf16|f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_GRADIENT("x: times(grad, by=by)"), TENON_LOOP("f32 -> f32", times_f32)),
  TENON_OP("halves(Tensor x) -> (Tensor low, Tensor high)",
    TENON_TYPES("x: f32; low, high = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_GRADIENT("x: halves_backward(grad.low, grad.high, x)"),
    TENON_LOOP("f32 -> f32, f32", halves_f32)),
  TENON_OP("halves_backward(Tensor low, Tensor high, Tensor x) -> Tensor",
    TENON_TYPES("low, high, x: f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_LOOP("f32, f32, f32 -> f32", halves_backward_f32)),
  TENON_OP("split(Tensor x, *, int parts) -> Tensor[parts]",
    TENON_TYPES("x: any; out = x"), TENON_TRAITS(TENON_PURE), TENON_INFER(split_infer),
    TENON_KERNEL("cpu", split)),
  TENON_OP("row_mean(Tensor x, *, bool keep=False) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE), TENON_INFER(rows_infer),
    TENON_GRADIENT("x: row_mean_backward(grad, x)"), TENON_KERNEL("cpu", row_mean)),
  TENON_OP("row_mean_backward(Tensor grad, Tensor x) -> Tensor",
    TENON_TYPES("grad, x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", row_mean_backward)),
  TENON_OP("energy(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out: []"), TENON_TRAITS(TENON_PURE),
    TENON_USES("core::mul, core::reduce_sum"), TENON_COMPOSITE(energy)),
  TENON_OP("total(Tensor[] xs, Tensor? bias=None) -> Tensor",
    TENON_TYPES("xs, bias: f32; out = xs"), TENON_TRAITS(TENON_PURE), TENON_INFER(total_infer),
    TENON_USES("core::add"), TENON_COMPOSITE(total)),
  TENON_OP("counted(Tensor x, *, float start=0.0) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_STATE(count_create, free),
    TENON_GRADIENT("x: counted_backward(grad, @state)"), TENON_KERNEL("cpu serial", counted)),
  TENON_OP("counted_backward(Tensor grad, *, float start=0.0) -> Tensor",
    TENON_TYPES("grad: f32; out = grad"), TENON_SHAPES("out = grad"),
    TENON_STATE(count_create, free), TENON_KERNEL("cpu serial", counted_backward)),
  TENON_OP("decay(Tensor(a!) w, Tensor g, *, float rate=0.1) -> Tensor(a!)",
    TENON_TYPES("w, g: f32; out = w"), TENON_SHAPES("w: [n]; g: [n]; out = w"),
    TENON_GRADIENT("w: times(grad, by=1.0); g: times(grad, by=rate)"), TENON_KERNEL("cpu", decay)),
  TENON_OP("centre(Tensor x, Tensor gain, Tensor(a!) running, *, float momentum=0.9) -> (Tensor y, "
           "Tensor(a!) now)",
    TENON_TYPES("x, gain, running: f32; y, now = x"),
    TENON_SHAPES("gain: [1]; running: [1]; y = x; now = running"),
    TENON_GRADIENT("x, gain: centre_backward(grad, x, gain); running: none"),
    TENON_KERNEL("cpu", centre)),
  TENON_OP("centre_backward(Tensor grad, Tensor x, Tensor gain) -> (Tensor dx, Tensor dgain)",
    TENON_TYPES("grad, x, gain: f32; dx, dgain = x"), TENON_SHAPES("dx = x; dgain = gain"),
    TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", centre_backward)),
  TENON_OP("weigh(Tensor x, *, bool b=False, int i=0, dim d=1, float f=0.5, str s='none', "
           "str['one', 'two'] c='one', dtype t=f32, int[] ints=[1, 2], float[2] floats=[0.5, 1.5], "
           "str[] strs=['a'], dim[] dims=[], int? may=None, scalar n=1, device on='cpu') -> Tensor",
    TENON_TYPES("x: any; out = f64"), TENON_SHAPES("out: [14]"), TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", weigh)),
  TENON_OP("drop(Tensor x, *, float ratio=0.5) -> (Tensor out, Tensor mask)",
    TENON_TYPES("x: f32; out, mask = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE | TENON_RANDOM),
    TENON_GRADIENT("x: core::mul(grad.out, mask)"), TENON_LOOP("f32 -> f32, f32", drop_f32)),
  TENON_OP("positive(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_INFER(positive_infer), TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", positive)),
  TENON_OP("fails(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", fails)),
  TENON_OP("bits(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = ?"), TENON_INFER(bits_infer), TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", bits)),
  TENON_OP("held(Tensor x, tensor table) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", fails)))
