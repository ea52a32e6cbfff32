/* What the dispatcher calls for gradients: passes a call on and records it. */
#ifndef TN_AUTOGRAD_RECORD_H
#define TN_AUTOGRAD_RECORD_H

#include "autograd/node.h"

/* The slot of operators with GRADIENT text, and of those without any gradient. */
tenon_status_t tn_record(tenon_call_t *call);
/* `copy` gets the place of `from` in the history: its gradient is that of `from`. */
tenon_status_t tn_history_share(tenon_tensor_t *from, tenon_tensor_t *copy);
/* Are calls of this thread recorded? */
bool tn_records(void);
/* Switches it; gives what it was. */
bool tn_records_set(bool is_on);
/* Sets the hooks of core and dispatch: at the start of the runtime. */
void tn_autograd_start(void);
void tn_autograd_clear(void); /* at shutdown */
/* Says once for each operator that it has no gradient: warn.c */
void tn_warn_no_gradient(const char *op);

#endif
