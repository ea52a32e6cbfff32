/* Registers one kernel with TensorFlow, of the table, of variables or of others. */
#include <stdio.h>

#include "kernel.h"

tenon_status_t register_builder(const platform_t *platform, const kernel_functions_t *functions,
                                const kernel_place_t *place) {
  char name[160];
  tf_status_t *status = tf.TF_NewStatus();
  tf_kernel_builder_t *builder = tf.TF_NewKernelBuilder(
      place->op, platform->type, functions->create, functions->compute, functions->destroy);
  for (int32_t i = 0; i < place->constraint_count && tf.TF_GetCode(status) == TF_OK; i++)
    tf.TF_KernelBuilder_TypeConstraint(builder, place->constraints[i].attribute,
                                       place->constraints[i].dtype, status);
  for (int32_t i = 0; i < place->host_count; i++)
    tf.TF_KernelBuilder_HostMemory(builder, place->hosts[i]);
  snprintf(name, sizeof name, "Tenon%s%s", platform->type, place->op);
  if (tf.TF_GetCode(status) == TF_OK) tf.TF_RegisterKernelBuilder(name, builder, status);
  const int code = tf.TF_GetCode(status);
  const tenon_status_t result =
      code == TF_OK ? TENON_OK : tenon_error_set(code, tf.TF_Message(status));
  tf.TF_DeleteStatus(status);
  return result;
}
