/* Tangents of a call whose operator declares no gradient. The tape gives gradients, which are
 * linear in the gradients of the results; the gradient of that function at zeros maps tangents of
 * the inputs to tangents of the results. */
#include <string.h>

#include "call.h"

/* Differentiates the gradients of the inputs, which depend on `zeros`, in the direction of the
 * tangents. */
static tenon_status_t differentiate(tenon_tensor_t *const *grads, tenon_tensor_t *const *tangents,
                                    int32_t tangent_count, tenon_tensor_t *const *zeros,
                                    tenon_tensor_t **out_tangents, int32_t count) {
  tenon_tensor_t *ends[CALL_TENSORS_MOST];
  tenon_tensor_t *from[CALL_TENSORS_MOST];
  int32_t end_count = 0;
  for (int32_t i = 0; i < tangent_count; i++) {
    if (!tenon_tensor_requires_grad(grads[i])) continue;
    ends[end_count] = grads[i];
    from[end_count++] = tangents[i];
  }
  if (!end_count) return TENON_OK;
  return tenon_gradients(ends, from, end_count, zeros, count, TENON_GRAD_UNUSED, out_tangents);
}

tenon_status_t call_tangents(const call_t *call, const tenon_value_t *values,
                             tenon_tensor_t *const *tangents, int32_t tangent_count,
                             tenon_tensor_t *const *zeros, tenon_tensor_t **out_tangents,
                             int32_t count) {
  tenon_tensor_t *grads[CALL_TENSORS_MOST] = {NULL};
  tenon_status_t status = TENON_OK;
  memset(out_tangents, 0, (size_t)count * sizeof *out_tangents);
  for (int32_t k = 0; k < count && status == TENON_OK; k++)
    status = tenon_tensor_require_grad(zeros[k], 1);
  /* Gradients of the results that require a gradient themselves make those of the inputs
   * functions of them. */
  if (status == TENON_OK)
    status = tenon_op_gradients(call->op, values, call->value_count, call->given, zeros, count,
                                call->requested, grads, tangent_count);
  if (status == TENON_OK)
    status = differentiate(grads, tangents, tangent_count, zeros, out_tangents, count);
  for (int32_t i = 0; i < tangent_count; i++)
    tenon_tensor_release(grads[i]);
  return status;
}
