/* Fault: it defines the same operator twice. */
#include "planted.h"

/* clang-format off */
TENON_LIBRARY(twice, "1.0.0",
  TENON_OP("op(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING),
  TENON_OP("op(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING))
