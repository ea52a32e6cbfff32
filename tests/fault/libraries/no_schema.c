/* Fault: an operator whose schema is NULL. */
#include "planted.h"

/* clang-format off */
static const tenon_item_t items[] = {
  {TENON_TAG_OP, 0, 0, 0, 0}, SAME, NOTHING,
  {TENON_TAG_END, 0, 0, 0, 0}
};
/* clang-format on */
DESCRIPTOR((uint32_t)sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "no_schema", items)
