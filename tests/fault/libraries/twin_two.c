/* No fault: twin_one and twin_two define the same symbol, value(), each for itself. */
#include "planted.h"

TENON_EXPORT float value(void);
float value(void) { return 2; }

static tenon_status_t fill(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++)
    ((float *)loop->data[1])[i] = value();
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(twin_two, "1.0.0",
  TENON_OP("value(Tensor x) -> Tensor",
    SAME, TENON_GRADIENT("x: none"), TENON_LOOP("f32 -> f32", fill)))
