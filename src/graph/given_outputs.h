/* Output tensors that the caller of a run gives: which memory they share. */
#ifndef TN_GRAPH_GIVEN_OUTPUTS_H
#define TN_GRAPH_GIVEN_OUTPUTS_H

#include "graph/graph.h"

/* Refuses given outputs that share memory with one another, or whose own elements do. Sets
 * out_overwritten[i] if a given output shares memory with input i, and *out_any if there is such an
 * input. An output that is not given is NULL. */
tenon_status_t tn_given_outputs_check(const tenon_graph_t *graph, tenon_tensor_t *const *inputs,
                                      tenon_tensor_t *const *outputs, bool *out_overwritten,
                                      bool *out_any);

#endif
