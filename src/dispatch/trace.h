/* The trace of calls, for people: TENON_TRACE=dispatch[,args][,time][,file=PATH], or tenon_trace_set. */
#ifndef TN_DISPATCH_TRACE_H
#define TN_DISPATCH_TRACE_H

#include <stdbool.h>

#include "dispatch/call.h"

static inline bool tn_trace_is_on(void) { return __builtin_expect(tn_key_of_process() >> TN_BIT_TRACE & 1, 0); }
/* Runs the frame's slot and prints it as a step further down; `label`: "call" or "next". */
tenon_status_t tn_trace_run(tenon_call_t *call, const char *label);
/* Goes on with a slot that was put in the frame's place of another. */
static inline tenon_status_t tn_trace_next(tenon_call_t *call) {
  return tn_trace_is_on() ? tn_trace_run(call, "next") : tn_slot_run(call);
}
/* Runs a function that is no slot (a layer, a mode) the same way. */
tenon_status_t tn_trace_function(tenon_call_t *call, tenon_run_fn run, const char *label, const char *name);
/* Reads the environment; called by tenon_start. */
void tn_trace_start(void);
void tn_trace_clear(void); /* at shutdown */

#endif
