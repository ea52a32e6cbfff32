/* Builds graphs for regions. Values that a region uses from outside become its last inputs, except
 * constants, which are repeated inside. Called by lower_control.c. Invariant: after hlo_body_finish
 * the builder and the values are those from before hlo_body_begin, also after a failure. */
#include "lower/body.h"

#include <stdio.h>
#include <string.h>

#include "lower/expression.h"
#include "lower/scan.h"

enum { CAPTURED_MAX = 1 << 15 }; /* Each value is compared with all before it. */

static bool has_value(const hlo_body_t *body, const hlo_value_t *value) {
  for (int32_t i = 0; i < body->count; i++)
    if (body->values[i] == value) return true;
  return false;
}

static void add_captured_value(hlo_lower_t *lower, hlo_body_t *body, const hlo_value_t *value) {
  if (has_value(body, value)) return;
  if (body->count == CAPTURED_MAX)
    hlo_missing(lower, "a region that uses more than %d values from outside", CAPTURED_MAX);
  if (hlo_stopped(lower)) return;
  size_t count = (size_t)body->count;
  /* The array is full at each power of two, and is doubled. */
  if ((count & (count - 1)) == 0) {
    const hlo_value_t **grown = hlo_lower_take(lower, 2 * count + 1, sizeof *grown);
    if (!grown) return;
    if (count) memcpy(grown, body->values, count * sizeof *grown);
    body->values = grown;
  }
  body->values[body->count++] = value;
}

/* Adds the values of operations of a region, and of regions within it, that are defined at a lesser
 * depth. */
static void collect(hlo_lower_t *lower, hlo_body_t *body, const hlo_region_t *region,
                    int32_t depth) {
  for (const hlo_op_t *op = region->first; op; op = op->next) {
    for (int32_t i = 0; i < op->operand_count; i++)
      if (op->operands[i]->depth < depth) add_captured_value(lower, body, op->operands[i]);
    for (int32_t i = 0; i < op->region_count; i++)
      collect(lower, body, &op->regions[i], depth);
  }
}

void hlo_body_collect(hlo_lower_t *lower, hlo_body_t *body, const hlo_region_t *region) {
  collect(lower, body, region, region->depth);
}

void hlo_body_begin(hlo_lower_t *lower, hlo_body_t *body) {
  body->outer = lower->builder;
  body->captured_count = 0;
  body->saved = hlo_lower_take(lower, (size_t)body->count, sizeof *body->saved);
  body->captured = hlo_lower_take(lower, 2 * (size_t)body->count, sizeof *body->captured);
  for (int32_t i = 0; i < body->count && body->saved; i++)
    body->saved[i] = lower->frame->bound[body->values[i]->index];
  lower->builder = NULL;
  if (!hlo_has_failed(lower, tenon_builder_create(&lower->builder)))
    tenon_builder_check(lower->builder, 1);
}

tenon_edge_t hlo_body_input(hlo_lower_t *lower, tenon_builder_t *outer, tenon_edge_t edge,
                            const hlo_type_t *type) {
  tenon_port_t port = {.size = sizeof port};
  tenon_axis_t axes[TENON_RANK_MAX] = {{0, NULL}};
  tenon_edge_t input = EDGE_NONE;
  if (hlo_stopped(lower) || hlo_has_failed(lower, tenon_builder_value(outer, edge, &port)))
    return EDGE_NONE;
  for (int32_t i = 0; i < type->ndim; i++)
    axes[i].extent = type->dims[i];
  (void)hlo_has_failed(
      lower, tenon_builder_input(lower->builder, NULL, port.dtype, type->ndim, axes, &input));
  return input;
}

static tenon_edge_t capture_part(hlo_lower_t *lower, hlo_body_t *body, tenon_edge_t edge,
                                 const hlo_type_t *type) {
  if (edge == EDGE_NONE) return EDGE_NONE;
  body->captured[body->captured_count++] = edge;
  return hlo_body_input(lower, body->outer, edge, type);
}

void hlo_body_capture(hlo_lower_t *lower, hlo_body_t *body) {
  for (int32_t i = 0; i < body->count && !hlo_stopped(lower); i++) {
    const hlo_value_t *value = body->values[i];
    const hlo_bound_t *outside = &body->saved[i];
    hlo_bound_t inside = *outside;
    if (outside->is_missing) {
      lower->is_missing = true;
      return;
    }
    if (outside->stacked) {
      outside->scan->writes[outside->stacked - 1].is_bad = true;
      hlo_wrong(lower, "a state that is stacked has another use");
    }
    if (outside->items) hlo_missing(lower, "a tuple that a region uses from outside");
    inside.narrow = EDGE_NONE;
    if (outside->constant && hlo_type_equal(outside->constant->type, value->type)) {
      inside = hlo_constant(lower, outside->constant);
    } else if (value->type->kind == HLO_TENSOR) {
      inside.edge = capture_part(lower, body, outside->edge, value->type);
      inside.imaginary = capture_part(lower, body, outside->imaginary, value->type);
    }
    inside.is_set = true;
    lower->frame->bound[value->index] = inside;
  }
}

void hlo_body_output(hlo_lower_t *lower, tenon_edge_t edge) {
  tenon_edge_t copy = hlo_run(lower, EDGES(edge), "identity(a)");
  if (!hlo_stopped(lower))
    (void)hlo_has_failed(lower, tenon_builder_output(lower->builder, NULL, copy));
}

tenon_graph_t *hlo_body_finish(hlo_lower_t *lower, hlo_body_t *body) {
  tenon_graph_t *graph = NULL;
  if (!hlo_stopped(lower))
    (void)hlo_has_failed(lower, tenon_builder_finish(lower->builder, &graph));
  tenon_builder_release(lower->builder);
  lower->builder = body->outer;
  for (int32_t i = 0; i < body->count && body->saved; i++)
    lower->frame->bound[body->values[i]->index] = body->saved[i];
  return graph;
}

/* attributes of control operators */

int32_t hlo_part_count(const hlo_type_t *type) {
  if (type->kind != HLO_TENSOR) return 0;
  return hlo_is_complex(type) ? 2 : 1;
}

void hlo_set_results(hlo_lower_t *lower, tenon_attrs_t *attrs, const hlo_type_t *const *types,
                     int32_t type_count) {
  int64_t *dtypes = hlo_lower_take(lower, 2 * (size_t)type_count, sizeof *dtypes);
  int64_t *ranks = hlo_lower_take(lower, 2 * (size_t)type_count, sizeof *ranks);
  uint32_t count = 0;
  if (!dtypes || !ranks || hlo_stopped(lower)) return;
  for (int32_t i = 0; i < type_count; i++)
    for (int32_t k = 0; k < hlo_part_count(types[i]); k++) {
      dtypes[count] = (int64_t)tenon_dtype_id(hlo_part_dtype(types[i]->dtype));
      ranks[count++] = types[i]->ndim;
    }
  (void)hlo_has_failed(lower, tenon_attrs_int(attrs, "count", count));
  (void)hlo_has_failed(lower, tenon_attrs_ints(attrs, "dtypes", dtypes, count));
  (void)hlo_has_failed(lower, tenon_attrs_ints(attrs, "ranks", ranks, count));
}

void hlo_set_graph(hlo_lower_t *lower, tenon_attrs_t *attrs, const char *name,
                   tenon_graph_t *graph) {
  tenon_value_t value = {TENON_KIND_GRAPH, 0, {0}};
  value.as.graph = graph;
  if (!hlo_stopped(lower)) (void)hlo_has_failed(lower, tenon_attrs_set(attrs, name, &value));
  tenon_graph_release(graph);
}
