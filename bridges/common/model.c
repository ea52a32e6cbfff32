/* Compiles models, and computes their gradients; see model.h. */
#include "common/model.h"

#include <stdio.h>
#include <string.h>

#include "common/zeros.h"

tenon_status_t model_compile(const char *path, bool has_gradients,
                             tenon_executable_t **out_executable) {
  tenon_graph_t *graph = NULL;
  const tenon_compile_t options = {.size = sizeof options,
                                   .flags = has_gradients ? TENON_COMPILE_GRADIENTS : 0};
  tenon_status_t status = tenon_graph_load(path, NULL, &graph);
  if (status == TENON_OK) status = tenon_executable_create(graph, &options, out_executable);
  tenon_graph_release(graph);
  return status;
}

/* Whether all bits belong to one of the first `count` inputs or outputs. */
static bool has_bits_below(uint64_t bits, int32_t count) {
  return count >= MODEL_MOST || bits >> count == 0;
}

tenon_status_t model_check(const model_t *model, int64_t input_count, int32_t *out_count) {
  const tenon_graph_t *graph = tenon_executable_graph(model->executable);
  const int32_t expected = tenon_graph_input_count(graph);
  char message[200];
  *out_count = tenon_graph_output_count(graph);
  if (input_count != expected) {
    snprintf(message, sizeof message, "the model has %d inputs, and the call has %lld", expected,
             (long long)input_count);
    return tenon_error_set(TENON_INVALID, message);
  }
  if (*out_count > MODEL_MOST)
    return tenon_error_set(TENON_UNIMPLEMENTED, "the model has more than 64 outputs");
  if (model->given && input_count > MODEL_MOST)
    return tenon_error_set(TENON_UNIMPLEMENTED,
                           "the model has more than 64 inputs, so it cannot be run backward");
  if (!has_bits_below(model->given, *out_count) || !has_bits_below(model->requested, expected))
    return tenon_error_set(TENON_INVALID,
                           "the call of a model states gradients of inputs or outputs that the "
                           "model does not have");
  return TENON_OK;
}

static tenon_status_t run_backward(const model_t *model, tenon_tensor_t *const *leaves,
                                   tenon_tensor_t *const *outputs, tenon_tensor_t *const *grads,
                                   tenon_tensor_t **out_grads, int32_t out_count) {
  tenon_tensor_t *starts[MODEL_MOST];
  tenon_tensor_t *from[MODEL_MOST];
  int32_t count = 0;
  int32_t k = 0;
  for (uint32_t o = 0; o < MODEL_MOST; o++) {
    if (!(model->given >> o & 1)) continue;
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

static int32_t count_bits(uint64_t bits) {
  int32_t count = 0;
  for (; bits; bits &= bits - 1)
    count++;
  return count;
}

/* Lists the inputs that get a gradient. */
static tenon_status_t require_gradients(const model_t *model, tenon_tensor_t *const *inputs,
                                        tenon_tensor_t **leaves) {
  int32_t count = 0;
  for (uint32_t i = 0; i < MODEL_MOST; i++) {
    if (!(model->requested >> i & 1)) continue;
    const tenon_status_t status = tenon_tensor_require_grad(inputs[i], 1);
    if (status != TENON_OK) return status;
    leaves[count++] = inputs[i];
  }
  return TENON_OK;
}

tenon_status_t model_gradients(const model_t *model, tenon_tensor_t *const *inputs,
                               tenon_tensor_t *const *grads, int32_t grad_count,
                               tenon_tensor_t **out_grads, int32_t out_count) {
  tenon_tensor_t *leaves[MODEL_MOST];
  tenon_tensor_t *outputs[MODEL_MOST] = {NULL};
  memset(out_grads, 0, (size_t)out_count * sizeof *out_grads);
  if (count_bits(model->given) != grad_count || count_bits(model->requested) != out_count)
    return tenon_error_set(TENON_INVALID, "the call of a model has wrong numbers of gradients");
  tenon_status_t status = require_gradients(model, inputs, leaves);
  if (status != TENON_OK) return status;
  const int32_t records = tenon_grad_mode_set(1);
  status = tenon_executable_run(model->executable, inputs, outputs, NULL);
  if (status == TENON_OK)
    status = run_backward(model, leaves, outputs, grads, out_grads, out_count);
  (void)tenon_grad_mode_set(records);
  if (status == TENON_OK) status = fill_zeros(leaves, out_grads, out_count);
  for (uint32_t o = 0; o < MODEL_MOST; o++)
    tenon_tensor_release(outputs[o]);
  return status;
}
