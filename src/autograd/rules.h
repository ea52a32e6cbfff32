/* Gradient rules at work: from the gradients of a call's results to those of its inputs. */
#ifndef TN_AUTOGRAD_RULES_H
#define TN_AUTOGRAD_RULES_H

#include "autograd/node.h"

/* `grads`: of each result of the node, NULL: none came.  `needs`: bit i of word i / 64: edge i
 * wants one.  `out_grads`, all NULL before: of each edge, new references; NULL where there is
 * none. */
tenon_status_t tn_rules_run(const tn_node_t *node, tenon_tensor_t *const *grads, const bool *needs,
                            tenon_tensor_t **out_grads);
/* A tensor of zeros or ones on that device: dense on the CPU, elsewhere one number that is
 * expanded. */
tenon_status_t tn_filled(tenon_device_t device, tenon_dtype_t dtype, int32_t ndim,
                         const int64_t *shape, int value, tenon_tensor_t **out_tensor);
/* An i64 tensor of these numbers, on the CPU: a shape. */
tenon_status_t tn_extents(int32_t count, const int64_t *numbers, tenon_tensor_t **out_tensor);
/* Calls a core operator with two inputs (`second` may be NULL) and one result; attrs NULL: the
 * defaults. */
tenon_status_t tn_core_call(const char *name, const tenon_value_t *attrs, tenon_tensor_t *first,
                            tenon_tensor_t *second, tenon_tensor_t **out_tensor);

#endif
