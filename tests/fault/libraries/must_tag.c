/* Fault: it has an item that the host must know, with an unknown tag. */
#include "planted.h"

/* clang-format off */
static const tenon_item_t items[] = {
  TENON_OP("op(Tensor x) -> Tensor",
    SAME, TENON_GRADIENT("x: none"), {4711 | TENON_MUST, 0, 0, "of the future", 0}, NOTHING),
  {TENON_TAG_END, 0, 0, 0, 0}
};
/* clang-format on */
DESCRIPTOR((uint32_t)sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "must_tag", items)
