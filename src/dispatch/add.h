/* Calls whose results are added to what the outputs hold. */
#ifndef TN_DISPATCH_ADD_H
#define TN_DISPATCH_ADD_H

#include "operator/frame.h"

/* tenon_op_call_add with a state of the caller's.  `bits`: the results that are added. */
tenon_status_t tn_call_add_with(const tenon_op_t *op, const tenon_value_t *attrs, void *state,
                                tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs,
                                uint64_t bits);
/* Runs the entry of the frame of a call that accumulates. */
tenon_status_t tn_entry_add(tenon_call_t *call);

#endif
