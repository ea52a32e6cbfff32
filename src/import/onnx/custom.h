/* Nodes of domains other than ONNX's own. */
#ifndef TN_ONNX_CUSTOM_H
#define TN_ONNX_CUSTOM_H

#include "import/onnx/lower.h"

/* Imports a node of a domain that is not ONNX's own: calls the operator that its domain and type
 * name. */
void tn_lower_custom(tn_lower_t *lower);

#endif
