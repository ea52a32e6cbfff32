/* Where the trace and what watches calls enter a call: hooks that src/layers/trace.c sets when the
 * process starts. */
#ifndef TN_DISPATCH_WATCH_H
#define TN_DISPATCH_WATCH_H

#include "dispatch/call.h"

typedef struct tn_trace_hooks_t {
  /* Runs the frame's entry and prints it as a step further down; `label`: "call" or "next". */
  tenon_status_t (*run)(tenon_call_t *call, const char *label);
  /* Runs a function that is no entry (a layer, a mode) the same way. */
  tenon_status_t (*function)(tenon_call_t *call, tenon_run_fn run, const char *label,
                             const char *name);
  /* A call was refused before it began: types or shapes do not fit. */
  void (*refused)(const tenon_op_t *op, const tenon_value_t *attrs, tenon_tensor_t *const *inputs,
                  tenon_status_t status);
} tn_trace_hooks_t;
extern tn_trace_hooks_t tn_trace_hooks;

static inline bool tn_trace_is_on(void) {
  return __builtin_expect(tn_key_of_process() >> TN_BIT_TRACE & 1, 0);
}
/* Goes on with an entry that was put in the frame's place of another. */
static inline tenon_status_t tn_trace_next(tenon_call_t *call) {
  return tn_trace_is_on() ? tn_trace_hooks.run(call, "next") : tn_entry_run(call);
}

#endif
