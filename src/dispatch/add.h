/* Calls whose results are added to what the outputs hold. */
#ifndef TN_DISPATCH_ADD_H
#define TN_DISPATCH_ADD_H

#include "dispatch/request.h"
#include "operator/frame.h"

/* Does what tenon_op_call_add does, for a request. Bit o of `bits` is set if the call adds to
 * output o. */
tenon_status_t tn_call_add(const tn_request_t *request, uint64_t bits);
/* Runs the frame's entry in a call that accumulates. */
tenon_status_t tn_entry_add(tenon_call_t *call);

#endif
