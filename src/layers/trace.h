/* The trace of calls for people (TENON_TRACE=dispatch[,args][,time][,file=PATH], or
 * tenon_trace_set), and what else watches calls. */
#ifndef TN_LAYERS_TRACE_H
#define TN_LAYERS_TRACE_H

#include "dispatch/watch.h"

/* Sets the hooks of dispatch/watch.h, and registers what the table runs for the trace. */
void tn_trace_install(void);
/* Reads the environment; called by tenon_start. */
void tn_trace_start(void);
void tn_trace_clear(void); /* at shutdown */

/* What sees each call of the process: src/dump. */
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

#endif
