/* The hooks of the trace.  Called by calls whose keys have that of the trace. */
#include "dispatch/watch.h"

tn_trace_hooks_t tn_trace_hooks;
