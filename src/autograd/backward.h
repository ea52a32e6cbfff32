/* Going back through the history. */
#ifndef TN_AUTOGRAD_BACKWARD_H
#define TN_AUTOGRAD_BACKWARD_H

#include "autograd/node.h"

/* Adds a gradient to what a history has: `grad` is borrowed.  `records`: the sum can be
 * differentiated again. */
tenon_status_t tn_history_accumulate(tn_history_t *history, tenon_tensor_t *grad, bool records);

#endif
