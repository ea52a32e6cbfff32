/* The operator that runs graphs which Tenon compiles as a whole. */
#ifndef BRIDGES_TENSORFLOW_GRAPH_H
#define BRIDGES_TENSORFLOW_GRAPH_H

#include "call.h"

/* Registers the operator with TensorFlow. Returns false with the reason. */
bool graph_define(char *why, size_t capacity);
/* Runs the graph of a kernel. `grad_count`: the inputs of the node that follow those of the graph,
 * the gradients of its outputs. */
tenon_status_t graph_run(call_t *c, uint32_t grad_count);
/* Releases the graph of a kernel. */
void graph_close(const model_t *model);

#endif
