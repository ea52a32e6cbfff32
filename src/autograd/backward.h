/* Accumulation of gradients, shared by backward and by other ways that give a tensor a gradient. */
#ifndef TN_AUTOGRAD_BACKWARD_H
#define TN_AUTOGRAD_BACKWARD_H

#include "autograd/node.h"

/* Adds a gradient to the gradient that a history has. `grad` is borrowed. If `records` is set, the
 * sum can be differentiated again. */
tenon_status_t tn_history_accumulate(tn_history_t *history, tenon_tensor_t *grad, bool records);

#endif
