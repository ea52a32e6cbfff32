/* No fault: built with a header newer than this host, minor version 7, with more fields and an
 * unknown item. */
#include "planted.h"

typedef struct newer_t {
  tenon_descriptor_t known;
  uint64_t more[4];
} newer_t;

/* clang-format off */
static const tenon_item_t items[] = {
  {4711, 0, 5, "of the future", 0},
  TENON_OP("op(Tensor x) -> Tensor",
    SAME, TENON_GRADIENT("x: none"), {4712, 0, 1, "more of it", 0}, NOTHING),
  {TENON_TAG_END, 0, 0, 0, 0}
};
/* clang-format on */
static const newer_t descriptor = {
    {sizeof(newer_t), 0x10007u, TENON_LAYOUT, 0, "newer", "7.0.0", items}, {1, 2, 3, 4}};
TENON_EXPORT const tenon_descriptor_t *tenon_library(void);
const tenon_descriptor_t *tenon_library(void) { return &descriptor.known; }
