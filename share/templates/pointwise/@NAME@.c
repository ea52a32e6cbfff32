/* @NAME@.c: y = limit * tanh(x / limit), which bends numbers softly into [-limit, limit].
 *
 * Of a pointwise operator you write the inner loop, and how it is differentiated.  The host broadcasts, converts f16 and bf16,
 * walks strides, and splits the work over threads. */
#include <math.h>
#include <tenon/check.h>

static tenon_status_t @NAME@_f32(const tenon_loop_t *loop) {
  const float limit = (float)loop->attrs[0].as.f; /* attributes stand in the schema's order */
  const float *x = (const float *)loop->data[0];  /* inputs, then results: `count` neighbours each */
  float *y = (float *)loop->data[1];
  for (int64_t i = 0; i < loop->count; i++) y[i] = limit * tanhf(x[i] / limit);
  return TENON_OK;
}

static tenon_status_t @NAME@_backward_f32(const tenon_loop_t *loop) {
  const float limit = (float)loop->attrs[0].as.f;
  const float *grad = (const float *)loop->data[0], *x = (const float *)loop->data[1];
  float *dx = (float *)loop->data[2];
  for (int64_t i = 0; i < loop->count; i++) {
    const float t = tanhf(x[i] / limit);
    dx[i] = grad[i] * (1 - t * t);
  }
  return TENON_OK;
}

/* Called once for each set of attributes, before any shape is known: the place to refuse. */
static tenon_status_t validate(tenon_node_t *node) {
  const double limit = node->attrs[0].as.f;
  if (limit > 0) return TENON_OK;
  return tenon_fail(node, TENON_INVALID, "limit: expected a number above 0, found %g", limit);
}

/* clang-format off */
TENON_LIBRARY(@NAME@, "0.1.0",
  TENON_OP("@NAME@(Tensor x, *, float limit=1.0) -> Tensor",
    TENON_DOC("limit tanh(x / limit): x, bent softly into [-limit, limit]."),
    TENON_TYPES("x: f16|bf16|f32; out = x"),           /* what it takes; a loop of f32 serves all three */
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_GRADIENT("x: @NAME@_backward(grad, x, limit=limit)"),
    TENON_VALIDATE(validate),
    TENON_SAMPLES("x: [3, 4]; x: [n], limit = 0.5"),   /* calls that `tenon check` and `tenon bench` try */
    TENON_LOOP("f32 -> f32", @NAME@_f32)),
  TENON_OP("@NAME@_backward(Tensor grad, Tensor x, *, float limit=1.0) -> Tensor",
    TENON_DOC("The gradient of @NAME@."),
    TENON_TYPES("grad, x: f16|bf16|f32; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_VALIDATE(validate),
    TENON_LOOP("f32, f32 -> f32", @NAME@_backward_f32)))
/* clang-format on */
