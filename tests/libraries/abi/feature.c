/* Requires a feature of 1.2: hosts without it refuse the library. */
#include <tenon/op.h>
#undef TENON_REQUIRED
#define TENON_REQUIRED TENON_FEATURE_ECHO

static tenon_status_t value(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++)
    ((double *)loop->data[1])[i] = ((const double *)loop->data[0])[i];
  return TENON_OK;
}

TENON_LIBRARY(feature, "1.0.0",
              TENON_OP("value(Tensor x) -> Tensor", TENON_TYPES("x: f64; out = x"),
                       TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_GRADIENT("x: none"),
                       TENON_LOOP("f64 -> f64", value)))
