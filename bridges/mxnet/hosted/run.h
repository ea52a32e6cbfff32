/* Kernels that call the functions of a library. */
#ifndef BRIDGES_MXNET_RUN_H
#define BRIDGES_MXNET_RUN_H

#include <tenon/op.h>

tenon_status_t run_forward(tenon_call_t *call);
tenon_status_t run_backward(tenon_call_t *call);

#endif
