/* One text for several types: cubes, and their gradient in the same file. The library has kernels
 * for float and double, since the file includes itself for these types; kernels for other types are
 * compiled on demand. */
#ifndef TENON_ON_DEVICE
#include <tenon/source.h>
#endif

#ifdef T
TENON_SOURCE_3(TENON_INSTANCE(cube, T), TENON_IN, T, x, TENON_OUT, T, y, TENON_BY_VALUE, int64_t,
               n) {
  TENON_EACH(i, n) y[i] = x[i] * x[i] * x[i];
}

TENON_SOURCE_4(TENON_INSTANCE(cube_backward, T), TENON_IN, T, grad, TENON_IN, T, x, TENON_OUT, T,
               out, TENON_BY_VALUE, int64_t, n) {
  TENON_EACH(i, n) out[i] = grad[i] * (3 * x[i] * x[i]);
}

TENON_POINTWISE_3(TENON_INSTANCE(between, T), T, TENON_IN, T, a, TENON_IN, T, b, TENON_BY_VALUE, T,
                  by) {
  return a + (b - a) * by;
}
#endif

#if !defined T && !defined TENON_ON_DEVICE
/* Indices of the kernels in `code`, below. */
enum {
  CUBE,
  CUBE_DOUBLE,
  CUBE_BACKWARD,
  CUBE_BACKWARD_DOUBLE,
  BETWEEN_FLOAT,
  BETWEEN_DOUBLE,
};

#define T float
#include "generic.c"
#undef T
#define T double
#include "generic.c"
#undef T

TENON_CODE(code, {"cube", cube_float, "T=float"}, {"cube", cube_double, "T=double"},
           {"cube_backward"}, {"cube_backward", cube_backward_double, "T=double"},
           {"between", between_float, "T=float"}, {"between", between_double, "T=double"})

static tenon_status_t cube_run(tenon_call_t *call) {
  int64_t n = tenon_count(call->inputs[0]);
  const tenon_kernel_argument_t arguments[] = {tenon_in(call->inputs[0]),
                                               tenon_out(call->outputs[0]), TENON_VALUE(n)};
  return tenon_each_with(call, &code, CUBE, tenon_type_constant(call->inputs[0]->dtype), n,
                         arguments, 3);
}

static tenon_status_t cube_backward_run(tenon_call_t *call) {
  int64_t n = tenon_count(call->inputs[0]);
  const tenon_kernel_argument_t arguments[] = {tenon_in(call->inputs[0]), tenon_in(call->inputs[1]),
                                               tenon_out(call->outputs[0]), TENON_VALUE(n)};
  return tenon_each_with(call, &code, CUBE_BACKWARD, tenon_type_constant(call->inputs[0]->dtype), n,
                         arguments, 4);
}

static tenon_status_t between_float_run(tenon_call_t *call) {
  return between_float_launch(call, &code, BETWEEN_FLOAT, "T=float");
}
static tenon_status_t between_double_run(tenon_call_t *call) {
  return between_double_launch(call, &code, BETWEEN_DOUBLE, "T=double");
}

/* clang-format off */
TENON_LIBRARY(generic, "1.0.0",
  TENON_OP("cube(Tensor x) -> Tensor",
    TENON_TYPES("x: f32|f64|i16|i32|i64; out = x"), TENON_SHAPES("out = x"),
    TENON_TRAITS(TENON_PURE), TENON_SOURCE("f32|i16|i32|i64", cube_run),
    TENON_SOURCE("f64 doubles", cube_run), TENON_GRADIENT("x: generic::cube_backward(grad, x)")),
  TENON_OP("cube_backward(Tensor grad, Tensor x) -> Tensor",
    TENON_TYPES("grad: f32|f64; x = grad; out = grad"), TENON_SHAPES("out = x"),
    TENON_TRAITS(TENON_PURE), TENON_SOURCE("f32", cube_backward_run),
    TENON_SOURCE("f64 doubles", cube_backward_run)),
  TENON_OP("between(Tensor a, Tensor b, *, float by) -> Tensor",
    TENON_TYPES("a: f32|f64; b = a; out = a"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_LOOP("f32, f32 -> f32", between_float_loop),
    TENON_LOOP("f64, f64 -> f64", between_double_loop),
    TENON_SOURCE("f32 strided", between_float_run),
    TENON_SOURCE("f64 doubles strided", between_double_run)))
/* clang-format on */
#endif
