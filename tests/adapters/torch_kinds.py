"""Operators of every kind, for the tests with PyTorch."""
import ctypes
import os


class _Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


def grown(call, times):
    """The fewest bytes that so many calls left allocated, of three tries."""
    mallinfo, found = ctypes.CDLL(None).mallinfo2, []
    mallinfo.restype = _Info
    for count in times // 10, times, times, times:
        before = mallinfo().uordblks
        for _ in range(count):
            call()
        found.append(mallinfo().uordblks - before)
    return min(found[1:])


GELU = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "examples", "01_gelu", "gelu.c")
KINDS = """#include <stdlib.h>
#include <tenon/op.h>
static tenon_status_t scale_run(tenon_call_t *c) {
  for (int64_t i = 0; i < tenon_count(c->inputs[0]); i++) ((float *)c->inputs[0]->data)[i] *= (float)c->attrs[0].as.f;
  return TENON_OK;
}
static tenon_status_t total_run(tenon_call_t *c) { /* of all of a list, and of one that may be absent */
  float sum = 0;
  for (int64_t k = 0; k < c->inputs[0]->shape[0]; k++) {
    const tenon_tensor_t *t = ((tenon_tensor_t **)c->inputs[0]->data)[k];
    for (int64_t i = 0; i < tenon_count(t); i++) sum += ((float *)t->data)[i];
  }
  if (c->inputs[1]) sum += 100 * ((float *)c->inputs[1]->data)[0];
  ((float *)c->outputs[0]->data)[0] = sum + (float)c->attrs[0].as.i + (c->attrs[1].kind ? (float)c->attrs[1].as.f : 0.5f);
  return TENON_OK;
}
static tenon_status_t count_create(tenon_node_t *node) { return (node->state = calloc(1, sizeof(float))) ? TENON_OK : TENON_MEMORY; }
static tenon_status_t count_run(tenon_call_t *c) { /* how often it was called */
  ((float *)c->outputs[0]->data)[0] = ++*(float *)c->state;
  return TENON_OK;
}
static tenon_status_t powers_create(tenon_node_t *node) { /* a table of an attribute's */
  float *table = node->state = malloc(16 * sizeof *table);
  for (int i = 0; i < 16 && table; i++) {
    table[i] = 1;
    for (int64_t k = 0; k < node->attrs[0].as.i; k++) table[i] *= (float)i;
  }
  return table ? TENON_OK : TENON_MEMORY;
}
static tenon_status_t powers_run(tenon_call_t *c) {
  for (int64_t i = 0; i < tenon_count(c->inputs[0]); i++) ((float *)c->outputs[0]->data)[i] = ((const float *)c->state)[(int)((float *)c->inputs[0]->data)[i] & 15];
  return TENON_OK;
}
static tenon_status_t noise_infer(tenon_infer_t *infer) {
  infer->draws = tenon_extent(1);
  for (int32_t i = 0; i < infer->inputs[0]->ndim; i++) infer->draws = tenon_dim(infer, TENON_DIM_MUL, infer->draws, infer->inputs[0]->dims[i]);
  return TENON_OK;
}
static tenon_status_t noise_run(tenon_call_t *c) {
  for (int64_t i = 0; i < tenon_count(c->inputs[0]); i++)
    ((float *)c->outputs[0]->data)[i] = ((float *)c->inputs[0]->data)[i] + (float)(tenon_random(c->random->seed, c->random->offset + (uint64_t)i) >> 8) * 0x1p-24f;
  return TENON_OK;
}
static tenon_status_t positive_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] = infer->host->dim(infer, TENON_DIM_BOUND, infer->inputs[0]->dims[0], (tenon_dim_t){0});
  return TENON_OK;
}
static tenon_status_t positive_run(tenon_call_t *c) {
  const float *x = (const float *)c->inputs[0]->data;
  int64_t n = 0;
  for (int64_t i = 0; i < c->inputs[0]->shape[0]; i++)
    if (x[i] > 0) ((float *)c->outputs[0]->data)[n++] = x[i];
  return c->host->resize(c, 0, 1, &n);
}
static tenon_status_t fails_run(tenon_call_t *c) { return tenon_fail(c, TENON_INVALID, "this is all that it does"); }
static double number(const tenon_tensor_t *t, int64_t i) {
  if (t->dtype.bits == 8) return t->dtype.code == 1 ? (double)((uint8_t *)t->data)[i] : (double)((int8_t *)t->data)[i];
  if (t->dtype.code == 2) return t->dtype.bits == 64 ? ((double *)t->data)[i] : (double)((float *)t->data)[i];
  return t->dtype.bits == 64 ? (double)((int64_t *)t->data)[i] : (double)((int32_t *)t->data)[i];
}
static tenon_status_t real_run(tenon_call_t *c) { /* the numbers that a quantised tensor stands for; of a plain one its own */
  const tenon_tensor_t *x = c->inputs[0];
  const tenon_detail_t *q = x->detail;
  for (int64_t i = 0; i < tenon_count(x); i++) {
    int64_t at = 0, rest = i;
    for (int32_t d = x->ndim - 1; q && d >= 0; rest /= x->shape[d--])
      if (d == q->axis) at = rest % x->shape[d];
    ((float *)c->outputs[0]->data)[i] = (float)(q ? (number(x, i) - number(q->zero_point, at)) * number(q->scale, at) : number(x, i));
  }
  return TENON_OK;
}
TENON_LIBRARY(kinds, "1.0.0",
  TENON_OP("scale_(Tensor(a!) x, *, float by) -> Tensor(a!)", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", scale_run)),
  TENON_OP("total(Tensor[] xs, Tensor? more=None, *, str['none', 'one', 'two'] choice='none', float? extra=None) -> Tensor",
    TENON_TYPES("xs: f32; more = xs; out = xs"), TENON_SHAPES("out: []"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", total_run)),
  TENON_OP("count(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out: []"), TENON_STATE(count_create, free), TENON_KERNEL("cpu serial", count_run)),
  TENON_OP("powers(Tensor x, *, int n) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE), TENON_STATE(powers_create, free), TENON_KERNEL("cpu", powers_run)),
  TENON_OP("noise(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_RANDOM), TENON_INFER(noise_infer), TENON_KERNEL("cpu", noise_run)),
  TENON_OP("positive(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE), TENON_INFER(positive_infer), TENON_KERNEL("cpu", positive_run)),
  TENON_OP("real(Tensor x) -> Tensor", TENON_TYPES("x: i8|u8|i32; out = f32"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu quantised", real_run)),
  TENON_OP("fails(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", fails_run)))
"""
