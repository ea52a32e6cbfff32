/* The hooks of the trace.  Calls use them whose keys contain the trace's key. */
#include "dispatch/watch.h"

tn_trace_hooks_t tn_trace_hooks;
