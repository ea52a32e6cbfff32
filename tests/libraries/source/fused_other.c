/* The other file of fused.c: it defines the same names with other contents, and a kernel that is
 * compiled for several constants. */
#ifndef TENON_ON_DEVICE
#include <tenon/source.h>
#endif

#define SCALE 0.5f
enum { HIGH = 7, LOW = -7 };
typedef struct pair_t {
  int32_t sign;
  float size[2];
} pair_t;
#ifndef FACTOR
#define FACTOR 3
#endif

/* 'quoted' { "text" in a comment */
TENON_FUNCTION float bend(float x) {
  pair_t pair = {x < 0 ? LOW : HIGH, {fabs(x), SCALE}};
  return (float)pair.sign + pair.size[0] * pair.size[1];
}
TENON_POINTWISE_1(mixed, float, TENON_IN, float, x) { return bend(x) * (float)FACTOR; }

#ifndef TENON_ON_DEVICE
TENON_CODE(fused_other_code, {"mixed", mixed})

static tenon_status_t wave_run(tenon_call_t *call) {
  return mixed_launch(call, &fused_other_code, 0, call->attrs[0].as.i == 5 ? "FACTOR=5" : 0);
}

/* clang-format off */
TENON_ITEMS(fused_others,
  TENON_OP("wave(Tensor x, *, int factor=3) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_SOURCE("f32 strided", wave_run)))
/* clang-format on */
#endif
