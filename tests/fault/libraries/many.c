/* Four faults in three operators; the fourth operator is well formed. */
#include "planted.h"

/* clang-format off */
TENON_LIBRARY(many, "1.0.0",
  TENON_OP("one(Tensor x -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING),
  TENON_OP("two(Tensor x) -> Tensor", TENON_TYPES("x: f33; out = x"), TENON_GRADIENT("x: none"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE), NOTHING),
  TENON_OP("three(Tensor x) -> Tensor",
    SAME, TENON_GRADIENT("y: none"), TENON_USES("nowhere::add"), NOTHING),
  TENON_OP("four(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING))
