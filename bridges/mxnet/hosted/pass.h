/* Graph passes of a library. */
#ifndef BRIDGES_MXNET_PASS_H
#define BRIDGES_MXNET_PASS_H

#include "hosted.h"

tenon_status_t pass_run(tenon_pass_call_t *call, tenon_graph_t **out_graph);

#endif
