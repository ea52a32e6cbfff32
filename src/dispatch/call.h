/* Calls inside libtenon: the entry points behind tenon.h, and the functions by which layers pass a
 * call on. */
#ifndef TN_DISPATCH_CALL_H
#define TN_DISPATCH_CALL_H

#include "dispatch/request.h"
#include "operator/frame.h"

/* Runs a call through the table, and fills in `frame`. Outputs have memory, or are UNSET if the run
 * function creates them. */
tenon_status_t tn_dispatch(const tenon_op_t *op, tn_frame_t *frame, const tenon_value_t *attrs,
                           tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs,
                           const tenon_random_t *random);
/* Does what tenon_op_call does, for a call within another call; limits how deep calls are nested.
 * Creates outputs that are NULL and wanted. */
tenon_status_t tn_call(const tenon_op_t *op, const tenon_value_t *attrs,
                       tenon_tensor_t *const *inputs, tenon_tensor_t **outputs, uint64_t wanted,
                       const tenon_random_t *random);
/* Infers and checks a call, creates its outputs if the request allows it, and runs it, as
 * tenon_op_call and tenon_op_call_into do. Changes the request. */
tenon_status_t tn_call_request(tn_request_t *request);
/* Does what tenon_op_run does, with a state that the caller gives. Checks nothing. */
tenon_status_t tn_run_with(const tenon_op_t *op, const tenon_value_t *attrs, void *state,
                           tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs);
/* Runs a call that accumulates through the table. The caller has checked that no layer but the
 * trace is in the way, that the arguments fit, and that request->attrs is not NULL. Where
 * tn_entry_run would run an entry of kernels, it calls tn_entry_add. */
tenon_status_t tn_dispatch_adding(const tn_request_t *request, uint64_t add);
/* Runs the frame's entry. */
tenon_status_t tn_entry_run(tenon_call_t *call);
/* Keeps the code and texts of the frame's entry loaded until tn_entry_release, and returns the
 * entry. A newer entry may have taken the place of the frame's entry. */
const tn_table_entry_t *tn_entry_hold(tenon_call_t *call);
void tn_entry_release(const tn_table_entry_t *entry);
/* Passes a call on to the entry of the highest of `keys`. The thread's state is not read again. */
tenon_status_t tn_redispatch(tenon_call_t *call, uint64_t keys);
/* Installs the hooks by which lower folders make calls. */
void tn_call_install(void);

#endif
