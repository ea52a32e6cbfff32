/* Pointwise operators from source for regions on devices. What this file defines has other contents
 * in fused_other.c and in source.c, so that a kernel of members of all three must keep it apart. */
#ifndef TENON_ON_DEVICE
#include <tenon/source.h>
#endif

#define SCALE 3
enum { LOW = 1, HIGH = 2 };
typedef struct pair_t {
  float first;
  float second;
} pair_t;

TENON_FUNCTION float bend(float x, float by) {
  pair_t pair = {x, by};
  return pair.first * (float)SCALE + pair.second * (float)(LOW + HIGH);
}
TENON_POINTWISE_2(mixed, float, TENON_IN, float, x, TENON_BY_VALUE, int64_t, times) {
  return bend(x, (float)times);
}

/* Its kernel has an index of its own and two results, and takes no strides. */
TENON_SOURCE_4(split, TENON_IN, float, x, TENON_OUT, float, whole, TENON_OUT, float, part,
               TENON_BY_VALUE, int64_t, n) {
  TENON_EACH(i, n) {
    whole[i] = floor(x[i]);
    part[i] = x[i] - whole[i];
  }
}

/* Each row of x has one element of s, which is no broadcasting. */
TENON_SOURCE_5(by_rows, TENON_IN, float, x, TENON_IN, float, s, TENON_OUT, float, y, TENON_BY_VALUE,
               int64_t, n, TENON_BY_VALUE, int64_t, columns) {
  TENON_EACH(i, n) y[i] = x[i] * s[i / columns];
}

#ifndef TENON_ON_DEVICE
TENON_CODE(fused_code, {"mixed", mixed}, {"split", split}, {"by_rows", by_rows})
TENON_POINTWISE_RUN(fused_code, 0, mixed)

static tenon_status_t split_run(tenon_call_t *call) {
  int64_t n = tenon_count(call->inputs[0]);
  const tenon_kernel_argument_t arguments[] = {tenon_in(call->inputs[0]),
                                               tenon_out(call->outputs[0]),
                                               tenon_out(call->outputs[1]), TENON_VALUE(n)};
  return tenon_each(call, &fused_code, 1, n, arguments, 4);
}

static tenon_status_t by_rows_run(tenon_call_t *call) {
  int64_t n = tenon_count(call->inputs[0]);
  int64_t columns = call->inputs[0]->shape[1];
  const tenon_kernel_argument_t arguments[] = {tenon_in(call->inputs[0]), tenon_in(call->inputs[1]),
                                               tenon_out(call->outputs[0]), TENON_VALUE(n),
                                               TENON_VALUE(columns)};
  return tenon_each(call, &fused_code, 2, n, arguments, 5);
}

/* A kernel that launches twice. */
static tenon_status_t twice_run(tenon_call_t *call) {
  TENON_TRY(mixed_run(call));
  return mixed_run(call);
}

extern const tenon_item_t fused_others[], fused_stubborn[];
/* clang-format off */
TENON_LIBRARY(fused, "1.0.0",
  TENON_OP("tilt(Tensor x, *, int times) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_SOURCE("f32 strided", mixed_run)),
  TENON_OP("twice(Tensor x, *, int times) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_SOURCE("f32 strided", twice_run)),
  TENON_OP("split(Tensor x) -> (Tensor whole, Tensor part)",
    TENON_TYPES("x: f32; whole = x; part = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_SOURCE("f32", split_run)),
  TENON_OP("by_rows(Tensor x, Tensor s) -> Tensor",
    TENON_TYPES("x: f32; s = x; out = x"), TENON_SHAPES("x: [n, m]; s: [n]; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_SOURCE("f32", by_rows_run)),
  TENON_GROUP(fused_others), TENON_GROUP(fused_stubborn))
/* clang-format on */
#endif
