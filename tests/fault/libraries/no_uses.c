/* Fault: it uses an operator that does not exist. */
#include "planted.h"

/* clang-format off */
TENON_LIBRARY(no_uses, "1.0.0",
  TENON_OP("op(Tensor x) -> Tensor",
    SAME, TENON_GRADIENT("x: none"), TENON_USES("nowhere::add"), NOTHING))
