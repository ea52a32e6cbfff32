/* The hooks of the trace, which calls use while the trace is on. */
#include "dispatch/watch.h"

tn_trace_hooks_t tn_trace_hooks;
