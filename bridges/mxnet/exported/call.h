/* Calls of a node, forward and backward, on MXNet's memory. */
#ifndef BRIDGES_MXNET_EXPORTED_CALL_H
#define BRIDGES_MXNET_EXPORTED_CALL_H

#include "block.h"
#include "node.h"

/* Runs a node. Returns false with the reason in the message. `bound` holds the state of the node;
 * NULL: the node has no state. */
bool call_forward(const node_t *node, tenon_bound_t *bound, const block_t *block);
/* Computes the gradients of a node. `block->in` has the gradients of the outputs, the inputs and
 * the outputs; `block->out` has a gradient for each input. */
bool call_backward(const node_t *node, tenon_bound_t *bound, const block_t *block);

/* Creates a generator for one call. Its seed is taken from MXNet's random state, which advances, so
 * that mx.random.seed makes the call repeatable. */
bool random_begin(const node_t *node, const block_t *block, tenon_generator_t **out_generator,
                  tenon_generator_t **out_before);
void random_end(tenon_generator_t *generator, tenon_generator_t *before);

#endif
