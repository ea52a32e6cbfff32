/* The operator that bench/python.py calls. It takes three tensors and does nothing. */
#include <tenon/op.h>

static tenon_status_t nothing(tenon_call_t *call) {
  (void)call;
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(bench, "1.0.0",
  TENON_OP("brief(Tensor x, Tensor y, Tensor z) -> ()", TENON_TYPES("x: f32; y, z = x"),
    TENON_SHAPES("x, y, z: [n]"), TENON_TRAITS(TENON_BRIEF), TENON_KERNEL("cpu", nothing)),
  TENON_OP("long(Tensor x, Tensor y, Tensor z) -> ()", TENON_TYPES("x: f32; y, z = x"),
    TENON_SHAPES("x, y, z: [n]"), TENON_KERNEL("cpu", nothing)))
/* clang-format on */
