/* Shared code of the planted libraries. Each file beside this one is an operator library (with two
 * operators where one needs the other) that is built twice: with DEFECT it has exactly the defect
 * described in its first lines, without it is correct. The line "Found as:" names the check that
 * must find the defect; tests/acceptance/check_defects_test.py reads it. */
#ifndef DEFECT_H
#define DEFECT_H

#include <tenon/check.h>

#ifdef DEFECT
#define PLANTED(broken, right) broken
#else
#define PLANTED(broken, right) right
#endif

static inline const float *f32_in(const tenon_call_t *call, uint32_t i) {
  return (const float *)call->inputs[i]->data;
}
static inline float *f32_out(const tenon_call_t *call, uint32_t i) {
  return (float *)call->outputs[i]->data;
}
static inline int64_t count_in(const tenon_call_t *call, uint32_t i) {
  return tenon_count(call->inputs[i]);
}
static inline int64_t count_out(const tenon_call_t *call, uint32_t i) {
  return tenon_count(call->outputs[i]);
}

/* The last extent (1 for a scalar), and the number of rows of that length. */
static inline int64_t width_of(const tenon_tensor_t *t) {
  return t->ndim ? t->shape[t->ndim - 1] : 1;
}
static inline int64_t rows_of(const tenon_tensor_t *t) {
  return width_of(t) ? tenon_count(t) / width_of(t) : 0;
}

/* The position in memory of element number `i` in row-major order, by the tensor's strides. */
static inline int64_t place_of(const tenon_tensor_t *t, int64_t i) {
  int64_t place = 0;
  for (int32_t d = t->ndim - 1; d >= 0; d--) {
    place += i % t->shape[d] * t->strides[d];
    i /= t->shape[d];
  }
  return place;
}

#define POINTWISE TENON_TRAITS(TENON_PURE | TENON_POINTWISE)
#define PURE TENON_TRAITS(TENON_PURE)

#endif
