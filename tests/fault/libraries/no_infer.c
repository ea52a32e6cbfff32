/* Fault: nothing determines the shape of the result. */
#include "planted.h"

/* clang-format off */
TENON_LIBRARY(no_infer, "1.0.0",
  TENON_OP("op(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_GRADIENT("x: none"),
    TENON_KERNEL("cpu", run_nothing)))
