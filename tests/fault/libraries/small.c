/* Fault: its descriptor is smaller than that of contract 1.0. */
#include "planted.h"

/* clang-format off */
static const tenon_item_t items[] = {
  TENON_OP("op(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING),
  {TENON_TAG_END, 0, 0, 0, 0}
};
/* clang-format on */
DESCRIPTOR(16, TENON_ABI, TENON_LAYOUT, 0, "small", items)
