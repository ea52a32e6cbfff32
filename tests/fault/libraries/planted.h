/* Shared code of the planted libraries: kernels that do nothing, and the parts of a well-formed
 * operator. Each library beside this file has exactly the fault in its first line;
 * tests/unit/loader says how the loader must respond. */
#ifndef PLANTED_H
#define PLANTED_H

#include <tenon/op.h>

static inline tenon_status_t loop_nothing(const tenon_loop_t *loop) {
  (void)loop;
  return TENON_OK;
}
static inline tenon_status_t run_nothing(tenon_call_t *call) {
  (void)call;
  return TENON_OK;
}

#define SAME TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE)
#define NOTHING TENON_LOOP("f32 -> f32", loop_nothing)

/* A descriptor with every field written out. */
#define DESCRIPTOR(size, abi, layout, required, name, items)                                       \
  static const tenon_descriptor_t descriptor = {                                                   \
      size, abi, layout, required, name, "1.0.0", items};                                          \
  TENON_EXPORT const tenon_descriptor_t *tenon_library(void);                                      \
  const tenon_descriptor_t *tenon_library(void) { return &descriptor; }

#endif
