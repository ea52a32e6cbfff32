/* Fault: built as a part of a program, so that its entry has another name. */
#define TENON_STATIC
#include "planted.h"

TENON_LIBRARY(static_entry, "1.0.0",
              TENON_OP("op(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING))
