/* Uses a novelty of 1.1 if the host has it: it asks first, and works without it on other hosts. */
#include <tenon/op.h>

static tenon_status_t value(tenon_call_t *call) {
  double *y = (double *)call->outputs[0]->data;
  y[0] = TENON_HAS(call->host, answer) ? (double)call->host->answer(call) : -1;
  y[1] = TENON_HAS(call, question) ? (double)call->question : -1;
  y[2] = (double)(call->host->abi & 0xffff);
  return TENON_OK;
}

TENON_LIBRARY(asks, "1.0.0",
              TENON_OP("value(Tensor x) -> Tensor", TENON_TYPES("x: f64; out = x"),
                       TENON_SHAPES("out = x"), TENON_GRADIENT("x: none"),
                       TENON_KERNEL("cpu", value)))
