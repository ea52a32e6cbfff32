/* Fault: the schema has a superfluous comma in column 14. */
#include "planted.h"

/* clang-format off */
TENON_LIBRARY(bad_schema, "1.0.0",
  TENON_OP("op(Tensor x,, int n) -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING))
