/* Where the nodes of a graph run, when it is compiled for devices: pinned by the user, or by
 * estimates from measured rates. Called while an executable is made.  Invariant: the host is always
 * one of the homes, since strings, results that are host-resident and what is reckoned of them stay
 * there. */
#ifndef TN_GRAPH_PLACEMENT_H
#define TN_GRAPH_PLACEMENT_H

#include "graph/graph.h"

struct tn_claim_t; /* group.h */

enum { TN_HOMES_MOST = 16 };

typedef struct tn_choice_t { /* of a node */
  uint8_t home;
  uint8_t why;    /* why: of placement.c */
  int32_t pin;    /* that decided; -1: none */
  double seconds; /* estimated, of the call alone; 0: not estimated */
} tn_choice_t;

typedef struct tn_placement_t {
  tenon_device_t
      homes[TN_HOMES_MOST]; /* those asked for, the first is preferred; the host is there always */
  int32_t home_count;
  int32_t host;
  int32_t candidate_count; /* homes that nodes may be given: all, or all but the last, the host */
  tn_choice_t *nodes;
  char **pins; /* patterns, for the report */
  int32_t pin_count;
  const char *by; /* the way of choosing that was taken */
  double seconds[TN_HOMES_MOST +
                 1];  /* estimated: all on one home, and by earliest finish; 0: not estimated */
  uint64_t crossings; /* values that go from one home to another */
} tn_placement_t;

/* Does each pin name a node of the graph?  source: as it was before it was rewritten. */
tenon_status_t tn_pins_check(const tenon_graph_t *graph, const tenon_graph_t *source,
                             const tenon_compile_t *options);
/* The pin that decides about a node, the last that names it; NULL: none does. */
const tenon_pin_t *tn_pin_of(const tenon_compile_t *options, const tn_node_t *node);
/* Chooses for each node; those of groups (`claims`, NULL: there are none) are where their group is.
 * Errors: a pin that names no node or no device, too many devices, measuring failed. */
tenon_status_t tn_place_graph(const tenon_graph_t *graph, const tenon_graph_t *source,
                              const tenon_compile_t *options, const struct tn_claim_t *claims,
                              tn_placement_t *out_placement);
void tn_placement_clear(tn_placement_t *placement);
/* What went where and why, and what crosses. */
void tn_placement_print(const tn_placement_t *placement, const tenon_graph_t *graph,
                        tn_text_t *text);
/* Are all nodes on the host? */
bool tn_placement_is_of_host(const tn_placement_t *placement, const tenon_graph_t *graph);
/* "opencl:0", "cpu"; in `room` where it has to be made. */
const char *tn_device_text(tenon_device_t device, char *room, size_t size);
/* The home of that device; -1: it is none. */
int32_t tn_home_of(const tn_placement_t *placement, tenon_device_t device);

#endif
