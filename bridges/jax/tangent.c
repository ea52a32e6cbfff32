/* Tangents of a call whose operator declares no gradient. The tape gives gradients, which are
 * linear in the gradients of the results; the gradient of that function at zeros maps tangents of
 * the inputs to tangents of the results. */
#include <string.h>

#include "call.h"

typedef struct tangent_t {
  const call_t *call;
  tenon_tensor_t *outputs[CALL_MOST];
  tenon_tensor_t *leaves[CALL_TENSORS_MOST];
  tenon_tensor_t *grads[CALL_TENSORS_MOST];  /* of the leaves */
  tenon_tensor_t *starts[CALL_TENSORS_MOST]; /* the results that have a history */
  tenon_tensor_t *zeros[CALL_TENSORS_MOST];  /* the gradients of `starts` */
  int32_t places[CALL_TENSORS_MOST];         /* the numbers of `starts` among all results */
  int32_t leaf_count;
  int32_t start_count;
} tangent_t;

static tenon_status_t make_leaves(tangent_t *t, tenon_tensor_t *const *operands) {
  const call_t *call = t->call;
  size_t k = 0;
  for (uint32_t i = 0; i < call->input_count; i++)
    for (int32_t n = 0; n < call->counts[i]; n++, k++) {
      if (!(call->requested >> i & 1)) continue;
      const tenon_status_t status = tenon_tensor_require_grad(operands[k], 1);
      if (status != TENON_OK) return status;
      t->leaves[t->leaf_count++] = operands[k];
    }
  return TENON_OK;
}

static tenon_status_t add_start(tangent_t *t, tenon_tensor_t *start, int32_t place) {
  tenon_tensor_t *zeros = NULL;
  tenon_status_t status = tenon_tensor_create(start->dtype, start->ndim, start->shape, &zeros);
  if (status != TENON_OK) return status;
  memset(zeros->data, 0, (size_t)tenon_count(zeros) * (zeros->dtype.bits / 8));
  t->starts[t->start_count] = start;
  t->places[t->start_count] = place;
  t->zeros[t->start_count++] = zeros;
  return tenon_tensor_require_grad(zeros, 1);
}

static tenon_status_t collect_starts(tangent_t *t, int32_t most) {
  int32_t place = 0;
  for (uint32_t o = 0; o < t->call->output_count; o++) {
    tenon_tensor_t *output = t->call->given >> o & 1 ? t->outputs[o] : NULL;
    const bool is_list = output && tenon_dtype_id(output->dtype) == TENON_LIST;
    const int64_t items = is_list ? output->shape[0] : output != NULL;
    for (int64_t i = 0; i < items; i++, place++) {
      tenon_tensor_t *start = is_list ? tenon_item(output, i) : output;
      if (place >= most || !tenon_tensor_requires_grad(start)) continue;
      const tenon_status_t status = add_start(t, start, place);
      if (status != TENON_OK) return status;
    }
  }
  return TENON_OK;
}

/* Differentiates the gradients of the leaves in the direction of the tangents. */
static tenon_status_t differentiate(tangent_t *t, tenon_tensor_t *const *tangents,
                                    tenon_tensor_t **made) {
  tenon_tensor_t *ends[CALL_TENSORS_MOST];
  tenon_tensor_t *from[CALL_TENSORS_MOST];
  int32_t count = 0;
  tenon_status_t status =
      tenon_gradients(t->starts, t->zeros, t->start_count, t->leaves, t->leaf_count,
                      TENON_GRAD_CREATE | TENON_GRAD_UNUSED, t->grads);
  if (status != TENON_OK) return status;
  for (int32_t i = 0; i < t->leaf_count; i++) {
    if (!t->grads[i] || !tenon_tensor_requires_grad(t->grads[i])) continue;
    ends[count] = t->grads[i];
    from[count++] = tangents[i];
  }
  if (!count) return TENON_OK;
  return tenon_gradients(ends, from, count, t->zeros, t->start_count, TENON_GRAD_UNUSED, made);
}

static tenon_status_t find_tangents(tangent_t *t, const tenon_value_t *values,
                                    tenon_tensor_t *const *operands,
                                    tenon_tensor_t *const *tangents, int32_t tangent_count,
                                    tenon_tensor_t **out, int32_t count) {
  const call_t *call = t->call;
  tenon_tensor_t *made[CALL_TENSORS_MOST] = {NULL};
  tenon_status_t status = make_leaves(t, operands);
  if (status == TENON_OK)
    status = tenon_op_call_values(call->op, values, call->value_count, t->outputs, call->given);
  if (status == TENON_OK) status = collect_starts(t, count);
  if (status != TENON_OK || !t->start_count) return status;
  if (t->leaf_count != tangent_count)
    return tenon_error_set(TENON_INVALID, "the call has another number of tangents than inputs");
  status = differentiate(t, tangents, made);
  for (int32_t s = 0; s < t->start_count; s++)
    out[t->places[s]] = made[s];
  return status;
}

tenon_status_t call_tangents(const call_t *call, const tenon_value_t *values,
                             tenon_tensor_t *const *operands, tenon_tensor_t *const *tangents,
                             int32_t tangent_count, tenon_tensor_t **out_tangents, int32_t count) {
  tangent_t t;
  memset(&t, 0, sizeof t);
  t.call = call;
  memset(out_tangents, 0, (size_t)count * sizeof *out_tangents);
  const int32_t records = tenon_grad_mode_set(1);
  const tenon_status_t status =
      find_tangents(&t, values, operands, tangents, tangent_count, out_tangents, count);
  (void)tenon_grad_mode_set(records);
  for (int32_t i = 0; i < t.leaf_count; i++) {
    (void)tenon_tensor_require_grad(t.leaves[i], 0);
    tenon_tensor_release(t.grads[i]);
  }
  for (int32_t s = 0; s < t.start_count; s++)
    tenon_tensor_release(t.zeros[s]);
  for (uint32_t o = 0; o < call->output_count; o++)
    tenon_tensor_release(t.outputs[o]);
  return status;
}
