/* The trace of calls for people (TENON_TRACE=dispatch[,args][,time][,file=PATH], or
 * tenon_trace_set), and the watcher of calls. */
#ifndef TN_LAYERS_TRACE_H
#define TN_LAYERS_TRACE_H

#include "dispatch/watch.h"

/* Sets the hooks of dispatch/watch.h, and registers the function that tables run for the trace. */
void tn_trace_install(void);
/* Reads TENON_TRACE and TENON_EXPLAIN; tenon_start calls it. */
void tn_trace_start(void);
void tn_trace_clear(void); /* at shutdown */

/* A watcher sees each call of the process; src/dump installs one. */
typedef struct tn_watcher_t {
  /* Runs the call, once, by run(call), and returns its status or another one. The call has not
   * passed any layer yet, or it is a node of a planned graph. */
  tenon_status_t (*run)(tenon_call_t *call, tenon_run_fn run);
  /* Called when a call was refused before it began, because types or shapes do not fit. */
  void (*refused)(const tenon_op_t *op, const tenon_value_t *attrs, tenon_tensor_t *const *inputs,
                  tenon_status_t status);
} tn_watcher_t;
/* Sets the watcher; NULL removes it. Calls that have begun already are not seen. */
void tn_watch_set(const tn_watcher_t *watch);
/* Whether there may be a watcher: the key that it shares with the trace is switched on. */
static inline bool tn_watch_is_on(void) { return tn_trace_is_on(); }
tenon_status_t tn_watch_run(tenon_call_t *call, tenon_run_fn run);
/* Runs the kernel of the frame, as a node of a planned graph: the trace prints it, and the watcher
 * sees it. */
tenon_status_t tn_watch_run_node(tenon_call_t *call, const char *node);

#endif
