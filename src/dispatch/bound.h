/* Bound calls and their states. */
#ifndef TN_DISPATCH_BOUND_H
#define TN_DISPATCH_BOUND_H

#include "operator/op.h"

/* If `state` belongs to a bound call of an operator that was reloaded, replaces it by the bound
 * call's state for `op`, the operator's successor, which is created on first use. Sets it to NULL
 * if it belongs to no bound call. */
tenon_status_t tn_bound_renew(const tenon_op_t *op, void **state);
/* Returns the bound call that has this state, with one more reference, which the caller releases
 * with tenon_bound_release; NULL if the state is an operator's own. */
struct tenon_bound_t *tn_bound_retain(const void *state);

#endif
