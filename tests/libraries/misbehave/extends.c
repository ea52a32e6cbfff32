/* Replaces a built-in operator for f64: the result is 42. */
#include <tenon/op.h>

static tenon_status_t answer(tenon_call_t *call) {
  for (int64_t i = 0, n = tenon_count(call->outputs[0]); i < n; i++)
    ((double *)call->outputs[0]->data)[i] = 42;
  return TENON_OK;
}

TENON_LIBRARY(extends, "1.0.0", TENON_EXTEND("core::add", TENON_KERNEL("cpu f64", answer)))
