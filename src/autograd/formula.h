/* Evaluation of gradient formulas: computes the gradients of a call's inputs from those of its
 * results. */
#ifndef TN_AUTOGRAD_FORMULA_H
#define TN_AUTOGRAD_FORMULA_H

#include "autograd/node.h"

/* Arguments: `grads` are those of the node's results, NULL if none arrived. `needs[e]` says whether
 * edge e wants a gradient. `out_grads`, all NULL before, receives a new reference for each edge, or
 * NULL. */
tenon_status_t tn_formulas_run(const tn_node_t *node, tenon_tensor_t *const *grads,
                               const bool *needs, tenon_tensor_t **out_grads);
/* Creates a tensor of zeros or ones: dense on the CPU, on another device a single number that is
 * expanded. */
tenon_status_t tn_filled(tenon_device_t device, tenon_dtype_t dtype, int32_t ndim,
                         const int64_t *shape, int value, tenon_tensor_t **out_tensor);
/* Creates an i64 tensor of these numbers on the CPU, as a shape. */
tenon_status_t tn_extents(int32_t count, const int64_t *numbers, tenon_tensor_t **out_tensor);
/* Calls a core operator with two inputs (`second` may be NULL) and one result. `attrs` NULL means
 * the defaults. */
tenon_status_t tn_core_call(const char *name, const tenon_value_t *attrs, tenon_tensor_t *first,
                            tenon_tensor_t *second, tenon_tensor_t **out_tensor);

#endif
