/* Formulas that programs write out, replaced by the operator that computes them. Each function
 * looks at the node by which it recognises its formula, and does nothing if it finds another. */
#ifndef TN_GRAPH_PASSES_FORMULAS_H
#define TN_GRAPH_PASSES_FORMULAS_H

#include "graph/passes/rewrite.h"

/* gelu, from core::erf or core::erfc. */
tenon_status_t tn_formula_gelu(tn_rewrite_t *r, const tn_node_t *erf);
/* sigmoid, from the core::div that ends it. */
tenon_status_t tn_formula_sigmoid(tn_rewrite_t *r, tn_node_t *div);
/* silu, from core::sigmoid. */
tenon_status_t tn_formula_silu(tn_rewrite_t *r, const tn_node_t *sigmoid);
/* hard_swish, from its core::clip. */
tenon_status_t tn_formula_hard_swish(tn_rewrite_t *r, const tn_node_t *clip);
/* softmax along one axis, from the core::div that ends it. */
tenon_status_t tn_formula_softmax(tn_rewrite_t *r, tn_node_t *div);
/* layer_norm over the last axes, from its core::rsqrt. */
tenon_status_t tn_formula_layer_norm(tn_rewrite_t *r, const tn_node_t *rsqrt);

#endif
