/* Placement: decides on which device each node of a graph runs, by the user's pins or by estimates
 * of a cost model. Called while an executable is compiled for devices. Invariant: the host is
 * always one of the placement's devices, because strings, host-resident results and what is
 * computed from these stay there. */
#ifndef TN_GRAPH_PLACEMENT_H
#define TN_GRAPH_PLACEMENT_H

#include "graph/graph.h"

struct tn_offload_t; /* offload.h */

enum { TN_PLACEMENT_DEVICES_MAX = 16 };

/* The decision about one node. */
typedef struct tn_choice_t {
  uint8_t device_index;
  uint8_t why;    /* a reason of placement.c */
  int32_t pin;    /* the pin that decided; -1: none */
  double seconds; /* estimated time of the call alone; 0: not estimated */
} tn_choice_t;

typedef struct tn_placement_t {
  /* The devices asked for, in order of preference, and always the host. */
  tenon_device_t devices[TN_PLACEMENT_DEVICES_MAX];
  int32_t device_count;
  int32_t host;
  /* devices that nodes may be given to without a pin: all, or all except the last, the host */
  int32_t candidate_count;
  tn_choice_t *nodes;
  char **pins; /* patterns of the pins, for the report */
  int32_t pin_count;
  const char *by; /* the strategy that was chosen */
  /* Estimated run times: all nodes on device d, and last by earliest finish; 0: not estimated. */
  double seconds[TN_PLACEMENT_DEVICES_MAX + 1];
  uint64_t crossings; /* copies of values from one device to another */
} tn_placement_t;

/* Checks that each pin names a node of the graph. `source` is the graph before it was rewritten,
 * for a better message. */
tenon_status_t tn_pins_check(const tenon_graph_t *graph, const tenon_graph_t *source,
                             const tenon_compile_t *options);
/* The pin that decides about a node, that is, the last one that matches it; NULL: none. */
const tenon_pin_t *tn_pin_of(const tenon_compile_t *options, const tn_node_t *node);
/* Chooses a device for each node. Nodes of an offloaded subgraph (`offloads`, NULL: none) run where
 * the subgraph does.
 *
 * Errors: a pin that names no node or no device, too many devices, a measurement that failed. */
tenon_status_t tn_placement_create(const tenon_graph_t *graph, const tenon_graph_t *source,
                                   const tenon_compile_t *options,
                                   const struct tn_offload_t *offloads,
                                   tn_placement_t *out_placement);
void tn_placement_clear(tn_placement_t *placement);
/* Prints which node went to which device and why, and how many values are copied between
 * devices. */
void tn_placement_print(const tn_placement_t *placement, const tenon_graph_t *graph,
                        tn_text_t *text);
/* Whether all nodes run on the host. */
bool tn_placement_is_of_host(const tn_placement_t *placement, const tenon_graph_t *graph);
/* The name of a device, such as "opencl:0" or "cpu"; written to `room` unless it is constant. */
const char *tn_device_text(tenon_device_t device, char *room, size_t size);
/* The index of a device in the placement; -1: it has no part in it. */
int32_t tn_placement_index(const tn_placement_t *placement, tenon_device_t device);

#endif
