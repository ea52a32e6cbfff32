/* Temporaries that a composite frees before its call ends. */
#include <tenon/tenon.h>

#include "check.h"
#include "tensors.h"

#include "operators.h"

/* Adds `x` to itself in as many rounds as `by` has elements, and keeps no result of a round that
 * has a successor. */
static tenon_status_t rounds(tenon_call_t *call) {
  const tenon_host_t *host = call->host;
  tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *sum = x;
  host->release(call, NULL);
  for (int64_t i = 0; i < tenon_count(call->inputs[1]); i++) {
    tenon_tensor_t *parts[2] = {sum, x};
    tenon_tensor_t *next[1] = {NULL};
    TENON_TRY(host->invoke(call, call->uses[0], NULL, parts, next));
    host->release(call, sum); /* In the first round an input, which is left alone. */
    sum = next[0];
  }
  return host->assign(call, 0, sum);
}

/* Frees a tensor while a view of it is still there. */
static tenon_status_t viewed(tenon_call_t *call) {
  const tenon_host_t *host = call->host;
  const tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *copy[1] = {host->temporary(call, x->dtype, x->ndim, x->shape)};
  if (!copy[0]) return TENON_MEMORY;
  TENON_TRY(host->invoke(call, call->uses[0], NULL, call->inputs, copy));
  tenon_tensor_t *view = host->view(call, copy[0], 0, x->ndim, x->shape, x->strides);
  if (!view) return TENON_MEMORY;
  host->release(call, copy[0]);
  return host->assign(call, 0, view);
}

/* clang-format off */
TENON_LIBRARY(releasing, "1.0.0",
  TENON_OP("rounds(Tensor x, Tensor by) -> Tensor",
    TENON_TYPES("x, by: f32; out = x"), TENON_SHAPES("x: [n]; by: [m]; out = x"),
    TENON_USES("core::add"), TENON_COMPOSITE(rounds)),
  TENON_OP("viewed(Tensor x, Tensor by) -> Tensor",
    TENON_TYPES("x, by: f32; out = x"), TENON_SHAPES("x, by: [n]; out = x"),
    TENON_USES("core::add"), TENON_COMPOSITE(viewed)))
/* clang-format on */

static void check_sum(const char *op, const char *x, const char *by, const char *expected) {
  tenon_tensor_t *in[2] = {tensor_of(x), tensor_of(by)};
  tenon_tensor_t *out[1] = {NULL};
  CHECK_STATUS(tenon_op_call(op_of(op), NULL, in, out, 0), TENON_OK);
  CHECK_TENSOR(out[0], expected);
  tenon_tensor_release(out[0]);
  tenon_tensor_release(in[0]);
  tenon_tensor_release(in[1]);
}

TEST("a composite frees temporaries early, and inputs and shared memory stay") {
  tenon_library_t *library = NULL;
  CHECK_STATUS(tenon_library_add(tenon_library(), NULL, NULL, &library), TENON_OK);
  check_sum("releasing::rounds", "f32[2] 1 2", "f32[5] 0 0 0 0 0", "f32[2] 6 12");
  check_sum("releasing::rounds", "f32[2] 1 2", "f32[0]", "f32[2] 1 2");
  check_sum("releasing::viewed", "f32[2] 1 2", "f32[2] 3 4", "f32[2] 4 6");
  tenon_library_release(library);
}
