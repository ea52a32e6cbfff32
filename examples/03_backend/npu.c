/* npu.c: a backend outside of Tenon. It has memory and copies, a few kernels, a stub, operators
 * that fall back to the CPU and operators that must not, an operator with its gradient, and one
 * that only knows shapes; README.md explains it. Its memory is CPU memory, but no other code can
 * use it by accident: addresses are handed out disguised, and an address that is not unmasked is
 * invalid on this machine. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/iterator.h>

#define DISGUISE ((uintptr_t)1 << 60)
static void *hidden(void *pointer) { return (void *)((uintptr_t)pointer ^ DISGUISE); }
static void *shown(const tenon_tensor_t *t) {
  return t->device.type == 1 ? t->data : hidden(t->data);
}
static float *floats(const tenon_tensor_t *t) { return (float *)shown(t); }

/* functions that each device must provide */

static tenon_status_t npu_allocate(tenon_call_t *call) {
  int64_t size = call->attrs[0].as.i;
  void *memory = malloc((size_t)size + 1);
  if (!memory)
    return tenon_fail(call, TENON_MEMORY, "the npu has no memory for %lld bytes", (long long)size);
  return call->host->adopt(call, 0, 1, &size, hidden(memory), free, memory);
}

static tenon_status_t npu_copy(tenon_call_t *call) {
  memcpy(shown(call->inputs[1]), shown(call->inputs[0]), (size_t)tenon_count(call->inputs[0]));
  return TENON_OK;
}

/* kernels: tensors arrive dense, row-major, and all on the npu */

static tenon_status_t npu_softmax(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  int64_t axis = call->attrs[0].as.i < 0 ? call->attrs[0].as.i + x->ndim : call->attrs[0].as.i;
  int64_t inner = 1;
  int64_t width = x->ndim ? x->shape[axis] : 1;
  for (int32_t i = (int32_t)axis + 1; i < x->ndim; i++)
    inner *= x->shape[i];
  const float *from = floats(x);
  float *to = floats(call->outputs[0]);
  for (int64_t row = 0; row < (width ? tenon_count(x) / width : 0); row++) {
    int64_t at = row / inner * width * inner + row % inner;
    float largest = -INFINITY;
    float sum = 0;
    for (int64_t i = 0; i < width; i++)
      largest = fmaxf(largest, from[at + i * inner]);
    for (int64_t i = 0; i < width; i++)
      sum += to[at + i * inner] = expf(from[at + i * inner] - largest);
    for (int64_t i = 0; i < width; i++)
      to[at + i * inner] /= sum;
  }
  return TENON_OK;
}

#define UNARY(name, formula)                                                                       \
  static tenon_status_t name(tenon_call_t *call) {                                                 \
    const float *from = floats(call->inputs[0]);                                                   \
    float *to = floats(call->outputs[0]);                                                          \
    for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++) {                                   \
      float x = from[i];                                                                           \
      to[i] = formula;                                                                             \
    }                                                                                              \
    return TENON_OK;                                                                               \
  }
UNARY(npu_tanh, tanhf(x))
UNARY(npu_erf, erff(x))

/* a stub: the inner loop of core::add; the host does broadcasting and strides */

static tenon_status_t npu_add(const tenon_iterator_t *it) {
  char *base[3];
  int64_t step[3];
  for (uint32_t k = 0; k < 3; k++) {
    base[k] = shown(it->tensors[k]);
    step[k] = it->strides[k][it->ndim - 1];
  }
  for (int64_t i = it->begin, n; i < it->end; i += n) {
    const char *a = base[0] + tenon_iterator_at(it, 0, i, 0);
    const char *b = base[1] + tenon_iterator_at(it, 1, i, 0);
    char *out = base[2] + tenon_iterator_at(it, 2, i, 0);
    n = tenon_iterator_run(it, i);
    for (int64_t k = 0; k < n; k++)
      *(float *)(out + k * step[2]) =
          *(const float *)(a + k * step[0]) + *(const float *)(b + k * step[1]);
  }
  return TENON_OK;
}

/* an operator of the library, with separate forward and backward operators */

UNARY(npu_swish, x / (1 + expf(-x)))

static tenon_status_t npu_swish_backward(tenon_call_t *call) {
  const float *dy = floats(call->inputs[0]);
  const float *x = floats(call->inputs[1]);
  float *dx = floats(call->outputs[0]);
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++) {
    float s = 1 / (1 + expf(-x[i]));
    dx[i] = dy[i] * (s + x[i] * s * (1 - s));
  }
  return TENON_OK;
}

/* an operator that only knows shapes */

/* TENON_SHAPES says everything about the result, so there is nothing to do. */
static tenon_status_t plan_meta(tenon_call_t *call) {
  (void)call;
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(npu, "1.0.0",
  TENON_OP("swish(Tensor x) -> Tensor", TENON_DOC("x * sigmoid(x)."),
    TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_GRADIENT("x: npu::swish_backward(grad, x)"), TENON_KERNEL("npu", npu_swish)),
  TENON_OP("swish_backward(Tensor dy, Tensor x) -> Tensor", TENON_DOC("The gradient of swish."),
    TENON_TYPES("dy: f32; x = dy; out = dy"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_GRADIENT("dy, x: error"), TENON_KERNEL("npu", npu_swish_backward)),
  TENON_OP("scores(Tensor q, Tensor k) -> Tensor",
    TENON_DOC("How large the scores of attention will be; on meta alone."),
    TENON_TYPES("q: float; k = q; out = q"),
      TENON_SHAPES("q: [b, s, d]; k: [b, t, d]; out: [b, s, t]"),
    TENON_TRAITS(TENON_PURE), TENON_GRADIENT("q, k: none"), TENON_KERNEL("meta", plan_meta)),
  /* required: memory and copies; views, shapes, resize, set, and copies with casts and strides
   * follow */
  TENON_EXTEND("core::allocate", TENON_KERNEL("npu", npu_allocate)),
  TENON_EXTEND("core::copy", TENON_KERNEL("npu", npu_copy)),
  /* three kernels and a stub */
  TENON_EXTEND("core::softmax", TENON_KERNEL("npu f32", npu_softmax)),
  TENON_EXTEND("core::tanh", TENON_KERNEL("npu f32", npu_tanh)),
  TENON_EXTEND("core::erf", TENON_KERNEL("npu f32", npu_erf)),
  TENON_EXTEND("core::add", TENON_STUB("npu f32 strided", npu_add)),
  /* declared to fall back, even if the program sets no fallback for the whole backend */
  TENON_EXTEND("core::layer_norm", TENON_RULE("npu fallback")),
  /* must not fall back: the copies would cost more than the user expects, so the call fails */
  TENON_EXTEND("core::top_k", TENON_RULE("npu no_fallback")),
  TENON_EXTEND("core::nonzero", TENON_RULE("npu no_fallback")))
/* clang-format on */
