/* gelu.c: a library of two operators. `tenon build gelu.c` makes gelu.so of it, which is not linked
 * with Tenon.
 *
 * The host broadcasts, casts, and splits the work among threads. A loop sees dense runs of f32,
 * whatever the caller passed. */
#include <math.h>
#include <tenon/op.h>

static tenon_status_t gelu_f32(const tenon_loop_t *loop) {
  const float *x = (const float *)loop->data[0];
  float *y = (float *)loop->data[1];
  for (int64_t i = 0; i < loop->count; i++)
    y[i] = 0.5f * x[i] * (1.0f + erff(0.70710678f * x[i]));
  return TENON_OK;
}

/* 0.39894228 is 1 / sqrt(2 pi). */
static tenon_status_t gelu_backward_f32(const tenon_loop_t *loop) {
  const float *grad = (const float *)loop->data[0];
  const float *x = (const float *)loop->data[1];
  float *y = (float *)loop->data[2];
  for (int64_t i = 0; i < loop->count; i++)
    y[i] = grad[i] * (0.5f * (1.0f + erff(0.70710678f * x[i])) +
                      0.39894228f * x[i] * expf(-0.5f * x[i] * x[i]));
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(demo, "1.0.0",
  TENON_OP("gelu(Tensor x) -> Tensor",
    TENON_DOC("Gaussian error linear unit: x times the probability that a standard normal number "
              "is less than x."),
    TENON_TYPES("x: f16|bf16|f32; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_GRADIENT("x: demo::gelu_backward(grad, x)"),
    TENON_LOOP("f32 -> f32", gelu_f32)),
  TENON_OP("gelu_backward(Tensor grad, Tensor x) -> Tensor",
    TENON_DOC("Gradient of gelu."),
    TENON_TYPES("grad, x: f16|bf16|f32; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_LOOP("f32, f32 -> f32", gelu_backward_f32)))
/* clang-format on */
