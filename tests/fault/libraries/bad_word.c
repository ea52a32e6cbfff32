/* Fault: the text of a kernel has an unknown word. */
#include "planted.h"

/* clang-format off */
TENON_LIBRARY(bad_word, "1.0.0",
  TENON_OP("op(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_GRADIENT("x: none"),
    TENON_KERNEL("cpu avx2 quickly", run_nothing)))
