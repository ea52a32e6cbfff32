/* Models as calls: a graph that Tenon loads from a file, compiles and runs as a whole, and its
 * gradients. */
#include <stdlib.h>

#include "call.h"
#include "common/zeros.h"

/* Compiles a model. With gradients, its runs are recorded on a tape. */
static tenon_status_t compile_model(const char *path, uint32_t flags,
                                    tenon_executable_t **out_executable) {
  tenon_graph_t *graph = NULL;
  const tenon_compile_t options = {.size = sizeof options, .flags = flags};
  tenon_status_t status = tenon_graph_load(path, NULL, &graph);
  if (status == TENON_OK) status = tenon_executable_create(graph, &options, out_executable);
  tenon_graph_release(graph);
  return status;
}

tenon_status_t call_open_model(call_t *call, const char *path) {
  const bool is_gradient = call->given != 0;
  const tenon_status_t status =
      compile_model(path, is_gradient ? TENON_COMPILE_GRADIENTS : 0, &call->model);
  if (status != TENON_OK) return status;
  const tenon_graph_t *graph = tenon_executable_graph(call->model);
  call->output_count = (uint32_t)tenon_graph_output_count(graph);
  if ((uint32_t)call->counts[0] != (uint32_t)tenon_graph_input_count(graph))
    return tenon_error_set(TENON_INVALID, "the model has another number of inputs than the call");
  if (call->output_count > CALL_MOST)
    return tenon_error_set(TENON_UNIMPLEMENTED, "the model has more than 64 outputs");
  return TENON_OK;
}

static tenon_status_t run_backward(const call_t *call, tenon_tensor_t *const *leaves,
                                   tenon_tensor_t *const *outputs, tenon_tensor_t *const *grads,
                                   tenon_tensor_t **out_grads, int32_t out_count) {
  tenon_tensor_t *starts[CALL_MOST];
  tenon_tensor_t *from[CALL_MOST];
  int32_t count = 0;
  int32_t k = 0;
  for (uint32_t o = 0; o < call->output_count; o++) {
    if (!(call->given >> o & 1)) continue;
    tenon_tensor_t *grad = grads[k++];
    if (!tenon_tensor_requires_grad(outputs[o])) continue;
    starts[count] = outputs[o];
    from[count++] = grad;
  }
  if (!count) return TENON_OK;
  return tenon_gradients(starts, from, count, leaves, out_count, TENON_GRAD_UNUSED, out_grads);
}

static tenon_status_t fill_zeros(tenon_tensor_t *const *leaves, tenon_tensor_t **grads,
                                 int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    if (grads[i]) continue;
    const tenon_status_t status = zeros_like(leaves[i], &grads[i]);
    if (status != TENON_OK) return status;
  }
  return TENON_OK;
}

static uint32_t count_bits(uint64_t bits) {
  uint32_t count = 0;
  for (; bits; bits &= bits - 1)
    count++;
  return count;
}

tenon_status_t call_model_gradients(const call_t *call, tenon_tensor_t *const *inputs,
                                    tenon_tensor_t *const *grads, int32_t grad_count,
                                    tenon_tensor_t **out_grads, int32_t out_count) {
  tenon_tensor_t *leaves[CALL_MOST];
  tenon_tensor_t *outputs[CALL_MOST] = {NULL};
  int32_t count = 0;
  memset(out_grads, 0, (size_t)out_count * sizeof *out_grads);
  if (count_bits(call->given) != (uint32_t)grad_count ||
      count_bits(call->requested) != (uint32_t)out_count || call->counts[0] > CALL_MOST)
    return tenon_error_set(TENON_INVALID, "the call of a model has wrong numbers of gradients");
  for (int32_t i = 0; i < call->counts[0]; i++) {
    if (!(call->requested >> i & 1)) continue;
    const tenon_status_t status = tenon_tensor_require_grad(inputs[i], 1);
    if (status != TENON_OK) return status;
    leaves[count++] = inputs[i];
  }
  const int32_t records = tenon_grad_mode_set(1);
  tenon_status_t status = tenon_executable_run(call->model, inputs, outputs, NULL);
  if (status == TENON_OK) status = run_backward(call, leaves, outputs, grads, out_grads, out_count);
  (void)tenon_grad_mode_set(records);
  if (status == TENON_OK) status = fill_zeros(leaves, out_grads, out_count);
  for (uint32_t o = 0; o < call->output_count; o++)
    tenon_tensor_release(outputs[o]);
  return status;
}
