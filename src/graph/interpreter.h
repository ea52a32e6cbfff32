/* The interpreter: runs a graph node by node, each as a call through dispatch. Used for executables
 * whose nodes are not all on the CPU, and for those that record gradients. */
#ifndef TN_GRAPH_INTERPRETER_H
#define TN_GRAPH_INTERPRETER_H

#include "graph/executable.h"

/* Copies constants to the devices of the nodes that read them, except for host-resident
 * arguments. */
tenon_status_t tn_interpreter_prepare(tenon_executable_t *executable);
void tn_interpreter_release(tenon_executable_t *executable);
/* Runs all nodes. `values` receives the outputs on the devices where the nodes left them; the
 * caller releases them. After a failure all of them are NULL. */
tenon_status_t tn_interpreter_values(tenon_executable_t *executable, tenon_tensor_t *const *inputs,
                                     tenon_tensor_t **values, tenon_profile_t *profile);
/* Copies such values to host memory, into `outputs` where the caller gave tensors. After a failure
 * the tensors that were created here are released. */
tenon_status_t tn_interpreter_deliver(const tenon_executable_t *executable,
                                      tenon_tensor_t *const *values, tenon_tensor_t **outputs);
/* Runs the executable with the arguments of tenon_executable_run, which have been checked. Outputs
 * are created on the host. */
tenon_status_t tn_interpreter_run(tenon_executable_t *executable, tenon_tensor_t *const *inputs,
                                  tenon_tensor_t **outputs, tenon_profile_t *profile);

#endif
