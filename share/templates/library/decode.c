/* decode.c: grey levels to light, by the table. */
#include "@NAME@.h"

static tenon_status_t decode_u8(const tenon_loop_t *loop) {
  const uint8_t *x = (const uint8_t *)loop->data[0];
  float *y = (float *)loop->data[1];
  for (int64_t i = 0; i < loop->count; i++) y[i] = @NAME@_levels[x[i]];
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(@NAME@_decode,
  TENON_OP("decode(Tensor x) -> Tensor",
    TENON_DOC("The light of grey levels 0 to 255: 0 to 1."),
    TENON_TYPES("x: u8; out = f32"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_LOOP("u8 -> f32", decode_u8)))
/* clang-format on */
