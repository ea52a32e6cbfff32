/* @NAME@.c: x * sigmoid(gate), made of operators that exist.
 *
 * A composite runs wherever the operators that it calls run, on every device and for each dtype that they take, and its
 * gradient is made of theirs.  Write it first; a kernel of its own can come later, beside it. */
#include <tenon/check.h>

static tenon_status_t @NAME@_run(tenon_call_t *call) {
  const tenon_op_t *sigmoid = call->uses[0], *mul = call->uses[1]; /* as TENON_USES lists them */
  tenon_tensor_t *x = call->inputs[0], *gate = call->inputs[1];
  tenon_tensor_t *share = NULL, *out = call->outputs[0]; /* NULL: the host makes a temporary, gone after the call */
  TENON_TRY(call->host->invoke(call, sigmoid, NULL, (tenon_tensor_t *[]){gate}, &share));
  return call->host->invoke(call, mul, NULL, (tenon_tensor_t *[]){x, share}, &out);
}

/* clang-format off */
TENON_LIBRARY(@NAME@, "0.1.0",
  TENON_OP("@NAME@(Tensor x, Tensor gate) -> Tensor",
    TENON_DOC("x times the sigmoid of gate."),
    TENON_TYPES("x, gate: f16|bf16|f32|f64; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_USES("core::sigmoid, core::mul"),
    TENON_SAMPLES("x: [3, n], gate: [3, n]; x: [n], gate: [n]"),
    TENON_COMPOSITE(@NAME@_run)))
/* clang-format on */
