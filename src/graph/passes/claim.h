/* Groups of nodes that the executable's devices claim: asked for, checked, compiled, and set apart
 * in the graph. */
#ifndef TN_GRAPH_PASSES_CLAIM_H
#define TN_GRAPH_PASSES_CLAIM_H

#include "graph/group.h"

/* Asks each device of the options, in their order, that has a plug-in; who comes later does not get
 * what was taken, and none gets what is pinned to another.  A claim that cannot be, or that fails
 * to compile, is handed back: its nodes are as if nobody had claimed them.  The report says what
 * became of each. */
tenon_status_t tn_pass_claim(tenon_executable_t *executable, const tenon_compile_t *options);

#endif
