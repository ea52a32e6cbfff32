/* Groups of nodes of TensorFlow that the graph pass (bridges/tensorflow_graph) has joined to one
 * node. A group is a text, which the node has as an attribute, so that nothing outlives the graph.
 * Each line adds a value, or names a result:
 *
 *     i f32               an input
 *     n f32 0.5           a number
 *     c core::mul 0 1     a call; the operands are numbers of values, counted from 0 on
 *     o 2                 a result */
#ifndef BRIDGES_TENSORFLOW_GROUP_H
#define BRIDGES_TENSORFLOW_GROUP_H

#include <tenon/tenon.h>

/* Builds the graph of a group.
 *
 * Errors: TENON_INVALID names the line; those of the operators.
 * Ownership: the caller releases the graph. */
TENON_API tenon_status_t tenon_tensorflow_group(const char *text, tenon_graph_t **out_graph);

#endif
