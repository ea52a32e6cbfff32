/* Reading of graphs that a library returns: nodes of the library's own operators, including their
 * subgraphs. */
#ifndef BRIDGES_MXNET_NNVM_SUBGRAPH_H
#define BRIDGES_MXNET_NNVM_SUBGRAPH_H

#include "nnvm_reading.h"

/* Adds a node whose operator belongs to an MXNet library. */
tenon_status_t reading_hosted(reading_t *reading, int32_t index, const hosted_op_t *op);

#endif
