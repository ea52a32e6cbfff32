/* Control flow as ONNX's If, Loop and Scan. */
#ifndef TN_ONNX_EXPORT_CONTROL_H
#define TN_ONNX_EXPORT_CONTROL_H

#include "import/onnx/standard.h"

/* Whether the operator is core::if, core::loop or core::scan. */
bool tn_control_is(const tenon_op_t *op);
/* Returns false with a reason if ONNX cannot express the node itself; bodies are not looked at. */
bool tn_control_fits(const tn_node_t *node, tn_text_t *why);
/* Writes the node. `site->match` is not used, and all results have names. */
tenon_status_t tn_control_write(const tn_standard_t *site);

#endif
