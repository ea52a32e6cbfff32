/* The offload pass: devices claim groups of nodes, which are checked, compiled and set apart in the
 * graph. */
#ifndef TN_GRAPH_PASSES_OFFLOAD_H
#define TN_GRAPH_PASSES_OFFLOAD_H

#include "graph/offload.h"

/* Asks each device of the options that has a plug-in, in the order of the options. A later device
 * cannot claim nodes that were offloaded before, and no device can claim a node that is pinned to
 * another. A group that is invalid or fails to compile is rejected: its nodes run as if nobody had
 * claimed them. The report tells what became of each group. */
tenon_status_t tn_pass_offload(tenon_executable_t *executable, const tenon_compile_t *options);

#endif
