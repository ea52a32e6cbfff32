/* Fault: the result has the type of a variable that no input binds. */
#include "planted.h"

/* clang-format off */
TENON_LIBRARY(unbound, "1.0.0",
  TENON_OP("op(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; T: f32|f64; out = T"), TENON_GRADIENT("x: none"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE), NOTHING))
