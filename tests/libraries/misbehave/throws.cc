// Throws an int that nobody catches, past a function that is not guarded.
#include "misbehave.h"

static tenon_status_t act(tenon_call_t *call) {
  if (call->inputs[0]->ndim >= 0) throw 7;
  return TENON_OK;
}

static const tenon_item_t items[] = {{TENON_TAG_OP, 0, 0, "twice(Tensor x) -> Tensor", 0},
                                     {TENON_TAG_TYPES, 0, 0, "x: f32; out = x", 0},
                                     {TENON_TAG_SHAPES, 0, 0, "out = x", 0},
                                     {TENON_TAG_TRAITS, 0, TENON_PURE, 0, 0},
                                     {TENON_TAG_KERNEL, 0, 0, "cpu", (tenon_any_fn)twice},
                                     {TENON_TAG_OP, 0, 0, "act(Tensor x) -> Tensor", 0},
                                     {TENON_TAG_TYPES, 0, 0, "x: f32; out = x", 0},
                                     {TENON_TAG_SHAPES, 0, 0, "out = x", 0},
                                     {TENON_TAG_KERNEL, 0, 0, "cpu", (tenon_any_fn)act},
                                     {TENON_TAG_END, 0, 0, 0, 0}};
static const tenon_descriptor_t self = {
    sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "throws", "1.0.0", items};

TENON_C TENON_EXPORT const tenon_descriptor_t *tenon_library(void);
const tenon_descriptor_t *tenon_library(void) { return &self; }
