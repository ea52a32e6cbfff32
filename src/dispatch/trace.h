/* The trace of calls, for people: TENON_TRACE=dispatch[,args][,time][,file=PATH], or
 * tenon_trace_set; and what else watches calls. */
#ifndef TN_DISPATCH_TRACE_H
#define TN_DISPATCH_TRACE_H

#include <stdbool.h>

#include "dispatch/call.h"

static inline bool tn_trace_is_on(void) {
  return __builtin_expect(tn_key_of_process() >> TN_BIT_TRACE & 1, 0);
}
/* Runs the frame's slot and prints it as a step further down; `label`: "call" or "next". */
tenon_status_t tn_trace_run(tenon_call_t *call, const char *label);
/* Goes on with a slot that was put in the frame's place of another. */
static inline tenon_status_t tn_trace_next(tenon_call_t *call) {
  return tn_trace_is_on() ? tn_trace_run(call, "next") : tn_slot_run(call);
}
/* Runs a function that is no slot (a layer, a mode) the same way. */
tenon_status_t tn_trace_function(tenon_call_t *call, tenon_run_fn run, const char *label,
                                 const char *name);
/* Reads the environment; called by tenon_start. */
void tn_trace_start(void);
void tn_trace_clear(void); /* at shutdown */

/* What sees each call of the process: src/record. */
typedef struct tn_watcher_t {
  /* Runs it by run(call), once, and gives its status or another.  The call has come past no layer
   * yet, or is a node's of a planned graph. */
  tenon_status_t (*run)(tenon_call_t *call, tenon_run_fn run);
  /* A call was refused before it began: types or shapes do not fit. */
  void (*refused)(const tenon_op_t *op, const tenon_value_t *attrs, tenon_tensor_t *const *inputs,
                  tenon_status_t status);
} tn_watcher_t;
void tn_watch_set(
    const tn_watcher_t *watch); /* NULL: none; calls that are on their way are not seen */
static inline bool tn_watch_is_on(void) { return tn_trace_is_on(); } /* perhaps */
tenon_status_t tn_watch_run(tenon_call_t *call, tenon_run_fn run);
void tn_watch_refused(const tenon_op_t *op, const tenon_value_t *attrs,
                      tenon_tensor_t *const *inputs, tenon_status_t status);

#endif
