/* Cannot work without a novelty of 1.1: its open function checks for it and reports that it is
 * missing. */
#include <tenon/op.h>

static tenon_status_t look(tenon_node_t *node) {
  if (TENON_HAS(node->host, answer)) return TENON_OK;
  return tenon_fail(node, TENON_UNAVAILABLE,
                    "needs a libtenon of contract 1.1, this one has %u.%u: update it",
                    node->host->abi >> 16, node->host->abi & 0xffff);
}

static void nothing(void *pointer) { (void)pointer; }

static tenon_status_t value(tenon_call_t *call) {
  for (int i = 0; i < 3; i++)
    ((double *)call->outputs[0]->data)[i] = (double)call->host->answer(call);
  return TENON_OK;
}

TENON_LIBRARY(needs, "1.0.0", TENON_OPEN(look, nothing),
              TENON_OP("value(Tensor x) -> Tensor", TENON_TYPES("x: f64; out = x"),
                       TENON_SHAPES("out = x"), TENON_GRADIENT("x: none"),
                       TENON_KERNEL("cpu", value)))
