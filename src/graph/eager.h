/* Executables of a device: each node is a call through dispatch. */
#ifndef TN_GRAPH_EAGER_H
#define TN_GRAPH_EAGER_H

#include "graph/executable.h"

/* Copies constants to the executable's device, but for host-resident arguments. */
tenon_status_t tn_eager_prepare(tenon_executable_t *executable);
void tn_eager_release(tenon_executable_t *executable);
/* Inputs and outputs as tenon_executable_run has them, checked already; outputs are made on the host. */
tenon_status_t tn_eager_run(tenon_executable_t *executable, tenon_tensor_t *const *inputs, tenon_tensor_t **outputs,
                            tenon_profile_t *profile);

#endif
