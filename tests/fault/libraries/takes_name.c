/* Fault: it defines an operator that the library `good` defines, too. */
#include "planted.h"

/* clang-format off */
TENON_LIBRARY(takes_name, "1.0.0",
  TENON_OP("good::doubles(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING))
