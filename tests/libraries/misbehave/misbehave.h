/* What the libraries of this folder share: an operator that is right, and one that misbehaves. */
#ifndef MISBEHAVE_H
#define MISBEHAVE_H

#include <tenon/op.h>
#include <time.h>

static tenon_status_t twice(tenon_call_t *call) {
  const float *x = (const float *)call->inputs[0]->data;
  float *y = (float *)call->outputs[0]->data;
  for (int64_t i = 0, n = tenon_count(call->inputs[0]); i < n; i++) y[i] = 2 * x[i];
  return TENON_OK;
}

static tenon_status_t naps(tenon_call_t *call) { /* the same, a tenth of a second later */
  const struct timespec tenth = {0, 100000000};
  nanosleep(&tenth, 0);
  return twice(call);
}

static tenon_status_t naps_in_place(tenon_call_t *call) { /* writes first: once, then the tenth of a second */
  float *x = (float *)call->inputs[0]->data;
  const struct timespec tenth = {0, 100000000};
  for (int64_t i = 0, n = tenon_count(call->inputs[0]); i < n; i++) x[i] += 1;
  nanosleep(&tenth, 0);
  return TENON_OK;
}

#define MISBEHAVE(name, act)                                                                                           \
  TENON_LIBRARY(                                                                                                       \
      name, "1.0.0",                                                                                                   \
      TENON_OP("twice(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"),                   \
               TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", twice)),                                                  \
      TENON_OP("naps(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"),                    \
               TENON_KERNEL("cpu", naps)),                                                                             \
      TENON_OP("naps_in_place(Tensor(a!) x) -> ()", TENON_TYPES("x: f32"), TENON_KERNEL("cpu", naps_in_place)),        \
      TENON_OP("act(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"),                     \
               TENON_KERNEL("cpu", act)))

#endif
