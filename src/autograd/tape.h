/* Records calls on the tape. The dispatcher calls tn_tape_call for operators with gradients. */
#ifndef TN_AUTOGRAD_TAPE_H
#define TN_AUTOGRAD_TAPE_H

#include "autograd/node.h"

/* The autograd function of operators with a GRADIENT text, and of operators without any
 * gradient. */
tenon_status_t tn_tape_call(tenon_call_t *call);
/* Gives `copy` the history of `from`, so that the gradient of `copy` is that of `from`. */
tenon_status_t tn_history_share(tenon_tensor_t *from, tenon_tensor_t *copy);
/* Are calls of this thread recorded? */
bool tn_tape_is_on(void);
/* Switches recording on or off for this thread. Returns: the previous setting. */
bool tn_tape_set(bool is_on);
/* Installs the hooks of core and dispatch. Called when the runtime starts. */
void tn_tape_start(void);
void tn_autograd_clear(void); /* at shutdown */
/* Warns once for each operator that it has no gradient (mode.c). */
void tn_warn_no_gradient(const char *op);

#endif
