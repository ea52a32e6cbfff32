/* Fault: the gradient names an operator of the library that does not exist. */
#include "planted.h"

/* clang-format off */
TENON_LIBRARY(no_gradient, "1.0.0",
  TENON_OP("op(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: op_backward(grad, x)"), NOTHING))
