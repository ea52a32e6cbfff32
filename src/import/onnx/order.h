/* The order in which nodes can be imported. */
#ifndef TN_ONNX_ORDER_H
#define TN_ONNX_ORDER_H

#include "import/onnx/import.h"

/* Finds an order in which every node follows the nodes whose results it uses.
 *
 * Arguments: out_order: the indices of the nodes in this order, in the arena of the import; NULL if
 * the nodes have such an order already.
 *
 * Errors: TENON_INVALID: there is no such order; the message names the nodes of a cycle. */
tenon_status_t tn_nodes_order(tn_import_t *import, const tn_scope_t *scope,
                              const tn_onnx_node_t *nodes, size_t count, const size_t **out_order);

#endif
