/* blocks_source.c: a library with a pointwise operator from source. bench/device_regions.py builds
 * it. */
#ifndef TENON_ON_DEVICE
#include <tenon/source.h>
#endif

TENON_POINTWISE_3(affine, float, TENON_IN, float, x, TENON_BY_VALUE, float, scale, TENON_BY_VALUE,
                  float, shift) {
  return x * scale + shift;
}

#ifndef TENON_ON_DEVICE
TENON_CODE(code, {"affine", affine})
TENON_POINTWISE_RUN(code, 0, affine)

/* clang-format off */
TENON_LIBRARY(blocks_source, "1.0.0",
  TENON_OP("affine(Tensor x, *, float scale, float shift) -> Tensor",
    TENON_TYPES("x: f32; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_LOOP("f32 -> f32", affine_loop),
    TENON_SOURCE("f32 strided capturable", affine_run)))
/* clang-format on */
#endif
