/* Bound calls, and their states. */
#ifndef TN_DISPATCH_BOUND_H
#define TN_DISPATCH_BOUND_H

#include "operator/op.h"

/* `state` belongs to a bound call of an operator that was reloaded: replaces it with the state for
 * the operator that took its place, made once.  NULL: it belongs to no bound call. */
tenon_status_t tn_bound_renew(const tenon_op_t *op, void **state);
/* The bound call that has this state, with one more reference: tenon_bound_release.  NULL: the
 * state is an operator's own. */
struct tenon_bound_t *tn_bound_retain(const void *state);

#endif
