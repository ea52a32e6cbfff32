/* Offloaded subgraphs: groups of nodes that a device claimed and compiled. As part of an
 * executable, each runs as one piece of work. */
#ifndef TN_GRAPH_OFFLOAD_H
#define TN_GRAPH_OFFLOAD_H

#include "device/group.h"
#include "graph/device_view.h"
#include "graph/executable.h"

/* One subgraph of an executable. Its nodes stand one after the other in the graph. */
typedef struct tn_offload_t {
  tn_group_t *group;
  tn_view_t view;
  tn_arena_t arena; /* holds the view */
} tn_offload_t;

void tn_offloads_release(tenon_executable_t *executable);
/* Runs the subgraph. `inputs` are in the order of the view, on the subgraph's device, in any
 * layout. Creates the outputs there. `first` is the index of its first node. */
tenon_status_t tn_offload_run(const tenon_executable_t *executable, const tn_offload_t *offload,
                              int32_t first, tenon_tensor_t *const *inputs,
                              tenon_tensor_t **outputs);

#endif
