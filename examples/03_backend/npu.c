/* npu.c: a backend of one's own, from outside: memory, copies, and a few kernels; everything else falls back to the CPU.
 * Its memory is the CPU's, but nobody else can use it by accident: addresses are handed out disguised, and one that is not
 * unmasked first is no address of this machine at all. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/op.h>

#define DISGUISE ((uintptr_t)1 << 60)
static void *hidden(void *pointer) { return (void *)((uintptr_t)pointer ^ DISGUISE); }
static void *shown(const tenon_tensor_t *t) { return t->device.type == 1 ? t->data : hidden(t->data); }
static float *floats(const tenon_tensor_t *t) { return (float *)shown(t); }

/* ---- what each device must have ------------------------------------------------------------------------------------ */

static tenon_status_t npu_allocate(tenon_call_t *call) {
  int64_t size = call->attrs[0].as.i;
  void *memory = malloc((size_t)size + 1);
  if (!memory) return tenon_fail(call, TENON_MEMORY, "the npu has no memory for %lld bytes", (long long)size);
  return call->host->adopt(call, 0, 1, &size, hidden(memory), free, memory);
}

static tenon_status_t npu_copy(tenon_call_t *call) {
  memcpy(shown(call->inputs[1]), shown(call->inputs[0]), (size_t)tenon_count(call->inputs[0]));
  return TENON_OK;
}

/* ---- kernels: tensors arrive dense and row-major -------------------------------------------------------------------- */

static tenon_status_t npu_softmax(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  int64_t axis = call->attrs[0].as.i < 0 ? call->attrs[0].as.i + x->ndim : call->attrs[0].as.i, inner = 1;
  int64_t width = x->ndim ? x->shape[axis] : 1;
  for (int32_t i = (int32_t)axis + 1; i < x->ndim; i++) inner *= x->shape[i];
  const float *from = floats(x);
  float *to = floats(call->outputs[0]);
  for (int64_t row = 0; row < (width ? tenon_count(x) / width : 0); row++) {
    int64_t at = row / inner * width * inner + row % inner;
    float largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < width; i++) largest = fmaxf(largest, from[at + i * inner]);
    for (int64_t i = 0; i < width; i++) sum += to[at + i * inner] = expf(from[at + i * inner] - largest);
    for (int64_t i = 0; i < width; i++) to[at + i * inner] /= sum;
  }
  return TENON_OK;
}

static tenon_status_t npu_tanh(tenon_call_t *call) {
  const float *x = floats(call->inputs[0]);
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++) floats(call->outputs[0])[i] = tanhf(x[i]);
  return TENON_OK;
}

static tenon_status_t npu_erf(tenon_call_t *call) {
  const float *x = floats(call->inputs[0]);
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++) floats(call->outputs[0])[i] = erff(x[i]);
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(npu, "1.0.0",
  TENON_EXTEND("core::allocate", TENON_KERNEL("npu", npu_allocate)),
  TENON_EXTEND("core::copy", TENON_KERNEL("npu", npu_copy)),
  TENON_EXTEND("core::softmax", TENON_KERNEL("npu f32", npu_softmax)),
  TENON_EXTEND("core::tanh", TENON_KERNEL("npu f32", npu_tanh)),
  TENON_EXTEND("core::erf", TENON_KERNEL("npu f32", npu_erf)))
/* clang-format on */
