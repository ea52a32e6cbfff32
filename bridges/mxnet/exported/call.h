/* Calls of a node, forward and backward, on MXNet's memory. */
#ifndef BRIDGES_MXNET_EXPORTED_CALL_H
#define BRIDGES_MXNET_EXPORTED_CALL_H

#include "block.h"
#include "node.h"

/* false: the message says what is wrong.  `bound` has the state of the node, NULL: it has none. */
bool call_forward(const node_t *node, tenon_bound_t *bound, const block_t *block);
/* block->in: gradients of the outputs, the inputs, the outputs; block->out: a gradient for each
 * input. */
bool call_backward(const node_t *node, tenon_bound_t *bound, const block_t *block);

/* A generator for one call, with a seed that MXNet's random state gives and is moved on by, so that
 * mx.random.seed repeats it. */
bool random_begin(const node_t *node, const block_t *block, tenon_generator_t **out_generator,
                  tenon_generator_t **out_before);
void random_end(tenon_generator_t *generator, tenon_generator_t *before);

#endif
