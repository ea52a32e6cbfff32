/* Shared code of the tests of calls that add: matrices by columns, copies, and comparison with
 * numbers. Include after tensors.h. */
#ifndef TENON_TESTS_DISPATCH_ADDING_H
#define TENON_TESTS_DISPATCH_ADDING_H

#include <math.h>

static inline tenon_tensor_t *
turned(const tenon_tensor_t *t) { /* returns a matrix with the same elements in column order */
  int64_t strides[2] = {1, t->shape[0]};
  tenon_tensor_t *out = NULL;
  char *memory = calloc((size_t)tenon_count(t), t->dtype.bits / 8);
  CHECK_STATUS(tenon_tensor_borrow(memory, t->dtype, 2, t->shape, strides, free, memory, &out),
               TENON_OK);
  for (int64_t i = 0; i < tenon_count(t); i++)
    memcpy(tensor_at(out, i), tensor_at(t, i), t->dtype.bits / 8);
  return out;
}

static inline tenon_tensor_t *copied(const tenon_tensor_t *t, tenon_device_t device) {
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_tensor_copy_to(t, device, &out), TENON_OK);
  return out;
}
static const tenon_device_t cpu = {1, 0};

static inline double number(const tenon_tensor_t *t, int64_t i) {
  return tensor_is_float(t) ? tensor_float(t, i) : (double)tensor_int(t, i);
}

static inline void check_numbers(const tenon_tensor_t *t, const double *expected,
                                 double tolerance) {
  tenon_tensor_t *here = copied(t, cpu);
  for (int64_t i = 0; i < tenon_count(here); i++) {
    double found = number(here, i);
    double least = tolerance * (1 + fabs(expected[i]));
    if (!CHECK(fabs(found - expected[i]) <= least))
      printf("element %d: %g, expected %g\n", (int)i, found, expected[i]);
  }
  tenon_tensor_release(here);
}

#endif
