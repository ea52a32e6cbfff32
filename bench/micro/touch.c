/* An operator that reads one element and writes one, however large its tensors are, so that only
 * the cost of the call remains; and an operator that crashes. */
#include <tenon/op.h>

static tenon_status_t touch(tenon_call_t *call) {
  ((float *)call->outputs[0]->data)[0] = ((const float *)call->inputs[0]->data)[0] + 1;
  return TENON_OK;
}

static tenon_status_t fall(tenon_call_t *call) {
  *(volatile float *)(tenon_count(call->inputs[0]) < 0 ? call->outputs[0]->data : 0) = 1;
  return TENON_OK;
}

TENON_LIBRARY(touch, "1.0.0",
              TENON_OP("fall(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"),
                       TENON_SHAPES("out = x"), TENON_KERNEL("cpu", fall)),
              TENON_OP("touch(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"),
                       TENON_SHAPES("out = x"), TENON_KERNEL("cpu", touch)))
