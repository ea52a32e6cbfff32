/* Executables of a device: each node is a call through dispatch. */
#ifndef TN_GRAPH_EAGER_H
#define TN_GRAPH_EAGER_H

#include "graph/executable.h"

/* Copies constants to the executable's device, but for host-resident arguments. */
tenon_status_t tn_eager_prepare(tenon_executable_t *executable);
void tn_eager_release(tenon_executable_t *executable);
/* Runs all nodes: the outputs as the nodes left them, references that the caller gives back; after
 * a failure there are none. */
tenon_status_t tn_eager_values(tenon_executable_t *executable, tenon_tensor_t *const *inputs,
                               tenon_tensor_t **values, tenon_profile_t *profile);
/* Such outputs to host memory, into tensors where there are some; after a failure those that were
 * made here are gone. */
tenon_status_t tn_eager_give(const tenon_executable_t *executable, tenon_tensor_t *const *values,
                             tenon_tensor_t **outputs);
/* Inputs and outputs as tenon_executable_run has them, checked already; outputs are made on the
 * host. */
tenon_status_t tn_eager_run(tenon_executable_t *executable, tenon_tensor_t *const *inputs,
                            tenon_tensor_t **outputs, tenon_profile_t *profile);

#endif
