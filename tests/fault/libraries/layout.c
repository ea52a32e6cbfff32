/* Fault: it was built with tensors of 72 bytes. */
#include "planted.h"

/* clang-format off */
static const tenon_item_t items[] = {
  TENON_OP("op(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING),
  {TENON_TAG_END, 0, 0, 0, 0}
};
/* clang-format on */
DESCRIPTOR((uint32_t)sizeof(tenon_descriptor_t), TENON_ABI, (TENON_LAYOUT & ~0xffu) | 72, 0,
           "layout", items)
