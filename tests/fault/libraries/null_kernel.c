/* Fault: a kernel without a function. */
#include "planted.h"

/* clang-format off */
static const tenon_item_t items[] = {
  TENON_OP("op(Tensor x) -> Tensor",
    SAME, TENON_GRADIENT("x: none"), {TENON_TAG_KERNEL, 0, 0, "cpu", 0}),
  {TENON_TAG_END, 0, 0, 0, 0}
};
/* clang-format on */
DESCRIPTOR((uint32_t)sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "null_kernel", items)
