/* Fault: the loop declares two inputs, but the operator has one. */
#include "planted.h"

/* clang-format off */
TENON_LIBRARY(bad_loop, "1.0.0",
  TENON_OP("op(Tensor x) -> Tensor",
    SAME, TENON_GRADIENT("x: none"), TENON_LOOP("f32, f32 -> f32", loop_nothing)))
