/* The hooks by which the trace watches calls.  src/layers/trace.c sets them when the process
 * starts. */
#ifndef TN_DISPATCH_WATCH_H
#define TN_DISPATCH_WATCH_H

#include "dispatch/call.h"

typedef struct tn_trace_hooks_t {
  /* Runs the frame's entry and prints it as a nested step; `label`: "call" or "next". */
  tenon_status_t (*run)(tenon_call_t *call, const char *label);
  /* Does the same for a function that is not an entry: a layer or a mode. */
  tenon_status_t (*function)(tenon_call_t *call, tenon_run_fn run, const char *label,
                             const char *name);
  /* Reports a call that was refused before it began, since types or shapes do not fit. */
  void (*refused)(const tenon_op_t *op, const tenon_value_t *attrs, tenon_tensor_t *const *inputs,
                  tenon_status_t status);
} tn_trace_hooks_t;
extern tn_trace_hooks_t tn_trace_hooks;

static inline bool tn_trace_is_on(void) {
  return __builtin_expect(tn_key_of_process() >> TN_BIT_TRACE & 1, 0);
}
/* Runs the entry that has just replaced another one in the frame. */
static inline tenon_status_t tn_trace_next(tenon_call_t *call) {
  return tn_trace_is_on() ? tn_trace_hooks.run(call, "next") : tn_entry_run(call);
}

#endif
