/* What the libraries of this folder share: an operator that is right, and one that misbehaves. */
#ifndef MISBEHAVE_H
#define MISBEHAVE_H

#include <tenon/op.h>

static tenon_status_t twice(tenon_call_t *call) {
  const float *x = (const float *)call->inputs[0]->data;
  float *y = (float *)call->outputs[0]->data;
  for (int64_t i = 0, n = tenon_count(call->inputs[0]); i < n; i++) y[i] = 2 * x[i];
  return TENON_OK;
}

#define MISBEHAVE(name, act)                                                                                           \
  TENON_LIBRARY(name, "1.0.0",                                                                                         \
                TENON_OP("twice(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"),         \
                         TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", twice)),                                        \
                TENON_OP("act(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"),           \
                         TENON_KERNEL("cpu", act)))

#endif
