/* A kernel that compiles alone, and not as a part of another one. */
#ifndef TENON_ON_DEVICE
#include <tenon/source.h>
#endif

#ifdef TENON_R_IN
#error this text refuses to be a part
#endif
TENON_POINTWISE_1(stubborn, float, TENON_IN, float, x) { return x + 1; }

#ifndef TENON_ON_DEVICE
TENON_CODE(fused_stubborn_code, {"stubborn", stubborn})
TENON_POINTWISE_RUN(fused_stubborn_code, 0, stubborn)

/* clang-format off */
TENON_ITEMS(fused_stubborn,
  TENON_OP("stubborn(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_SOURCE("f32 strided", stubborn_run)))
/* clang-format on */
#endif
