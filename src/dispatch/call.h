/* Calls inside libtenon: the same entries as tenon.h, and what layers pass a call on by. */
#ifndef TN_DISPATCH_CALL_H
#define TN_DISPATCH_CALL_H

#include "dispatch/request.h"
#include "operator/frame.h"

/* Runs through the table: `frame` is filled in here.  Outputs have memory, or are UNSET where run
 * makes it. */
tenon_status_t tn_dispatch(const tenon_op_t *op, tn_frame_t *frame, const tenon_value_t *attrs,
                           tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs,
                           const tenon_random_t *random);
/* tenon_op_call within another call, whose nesting is limited.  Outputs that are NULL and wanted
 * are made. */
tenon_status_t tn_call(const tenon_op_t *op, const tenon_value_t *attrs,
                       tenon_tensor_t *const *inputs, tenon_tensor_t **outputs, uint64_t wanted,
                       const tenon_random_t *random);
/* Infers and checks a call, creates its outputs where it may, and runs it: what tenon_op_call and
 * tenon_op_call_into do.  Changes the request. */
tenon_status_t tn_call_request(tn_request_t *request);
/* tenon_op_run with a state of the caller's: nothing is checked. */
tenon_status_t tn_run_with(const tenon_op_t *op, const tenon_value_t *attrs, void *state,
                           tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs);
/* Runs through the table, past no layer but the trace, to tn_entry_add where tn_entry_run would
 * run an entry of kernels.  Arguments fit, and attrs are there. */
tenon_status_t tn_dispatch_adding(const tn_request_t *request, uint64_t add);
/* Runs the entry that the frame has. */
tenon_status_t tn_entry_run(tenon_call_t *call);
/* Until tn_entry_release the entry's code and texts are not unloaded.  The frame's entry may have
 * become another one. */
const tn_table_entry_t *tn_entry_hold(tenon_call_t *call);
void tn_entry_release(const tn_table_entry_t *entry);
/* Passes a call on to the highest of these keys, or to what is below the one that runs now.  Thread
 * state is not read again. */
tenon_status_t tn_redispatch(tenon_call_t *call, uint64_t keys);
/* Sets the hooks of the folders below that make calls. */
void tn_call_install(void);

#endif
