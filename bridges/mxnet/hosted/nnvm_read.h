/* Conversion of JSON that a library returns to a graph; see nnvm_write.h for the form. */
#ifndef BRIDGES_MXNET_NNVM_READ_H
#define BRIDGES_MXNET_NNVM_READ_H

#include "nnvm_reading.h"

/* Reads the graph that a library made from `old`. A node that has not changed since nnvm_write is
 * restored as the old node. Any other node is lowered to Tenon's operators. A variable becomes a
 * tensor of `params`, the old input or constant of its name, or a new input. Errors name the
 * node. */
tenon_status_t nnvm_read(const hosted_t *library, const nnvm_t *old, const char *json, size_t size,
                         const nnvm_param_t *params, tenon_graph_t **out_graph);

#endif
