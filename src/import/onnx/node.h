/* Imports one node. */
#ifndef TN_ONNX_NODE_H
#define TN_ONNX_NODE_H

#include "import/onnx/import.h"

/* Imports a node and defines its results in the scope. The value of import->import_node. */
tenon_status_t tn_node_import(tn_import_t *import, tn_scope_t *scope, const tn_onnx_node_t *node);

#endif
