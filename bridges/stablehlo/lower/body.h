/* Regions that become graphs of their own: the bodies of core::if and core::loop. */
#ifndef BRIDGES_STABLEHLO_LOWER_BODY_H
#define BRIDGES_STABLEHLO_LOWER_BODY_H

#include "lower/lower.h"

typedef struct hlo_body_t {
  tenon_builder_t *outer;
  const hlo_value_t **values; /* Values from outside that the body uses. */
  hlo_bound_t *saved;         /* What they were outside. */
  int32_t count;
  tenon_edge_t *captured; /* Their edges outside, in the order of the body's last inputs. */
  int32_t captured_count;
} hlo_body_t;

/* Collects the values from outside that a region uses; several regions may be added. */
void hlo_body_collect(hlo_lower_t *lower, hlo_body_t *body, const hlo_region_t *region);
/* Begins a graph; calls go there until hlo_body_finish. */
void hlo_body_begin(hlo_lower_t *lower, hlo_body_t *body);
/* Adds an input for an edge outside, with the extents of `type`. */
tenon_edge_t hlo_body_input(hlo_lower_t *lower, tenon_builder_t *outer, tenon_edge_t edge,
                            const hlo_type_t *type);
/* Adds an input for each part of the collected values, which then stand for them. */
void hlo_body_capture(hlo_lower_t *lower, hlo_body_t *body);
void hlo_body_output(hlo_lower_t *lower, tenon_edge_t edge);
/* Ends the graph and returns it; NULL after a failure. Values outside are what they were. */
tenon_graph_t *hlo_body_finish(hlo_lower_t *lower, hlo_body_t *body);

/* The number of tensors that stand for a value of a type. */
int32_t hlo_part_count(const hlo_type_t *type);
/* Sets the attributes `count`, `dtypes` and `ranks` of a control operator. */
void hlo_set_results(hlo_lower_t *lower, tenon_attrs_t *attrs, const hlo_type_t *const *types,
                     int32_t type_count);
/* Sets an attribute to a graph, which it releases. */
void hlo_set_graph(hlo_lower_t *lower, tenon_attrs_t *attrs, const char *name,
                   tenon_graph_t *graph);

#endif
