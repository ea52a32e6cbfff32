/* Calls. */
#ifndef BRIDGES_ONNXRUNTIME_RUN_H
#define BRIDGES_ONNXRUNTIME_RUN_H

#include <tenon/op.h>

tenon_status_t run_kernel(tenon_call_t *call);

#endif
