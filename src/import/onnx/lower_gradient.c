/* Lowers Gradient of the domain ai.onnx.preview.training. The nodes from the named values to y are
 * differentiated as a graph of their own, whose nodes are then copied behind them; the compiler
 * joins what the two have in common. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "graph/graph.h"
#include "graph/part.h"
#include "import/onnx/lower.h"

typedef struct gradient_node_t {
  tn_lower_t *lower;
  tn_ref_t *y;
  tenon_edge_t *named;    /* the values that xs and zs name */
  const char **names;     /* of the inputs of `part` that xs name */
  int32_t count;          /* of xs and zs */
  int32_t x_count;        /* of xs */
  tenon_graph_t *part;    /* computes y from the named values */
  tenon_graph_t *derived; /* computes the gradients, too */
  tenon_edge_t *edges;    /* of `derived` in the builder */
} gradient_node_t;

static tenon_builder_t *builder_of(const gradient_node_t *g) {
  return g->lower->scope->site->builder;
}

/* Finds the value with this name, and makes it a value of the graph that is being built. */
static tenon_status_t find_named(gradient_node_t *g, const char *name, size_t size,
                                 tn_ref_t **out_ref) {
  tn_import_t *import = g->lower->import;
  const char *own = tn_arena_text(&import->arena, name, size);
  if (!own) return tn_no_memory("a name", size);
  TN_TRY(tn_scope_find(import, g->lower->scope, own, out_ref));
  if (!*out_ref) return tn_fail(TENON_INVALID, "no value '%.200s' is defined before the node", own);
  return tn_ref_here(import, g->lower->scope->site, *out_ref, out_ref);
}

static tenon_status_t find_list(gradient_node_t *g, const char *attribute) {
  const tn_onnx_attribute_t *proto = tn_lower_typed(g->lower, attribute, TN_ATTRIBUTE_STRINGS);
  if (g->lower->status != TENON_OK || !proto) return g->lower->status;
  for (size_t i = 0; i < proto->strings.count; i++) {
    tn_ref_t *ref;
    if (g->count == g->lower->input_count) break;
    const tn_bytes_t *name = &proto->strings.items[i];
    TN_TRY(find_named(g, (const char *)name->data, name->size, &ref));
    if (ref->is_missing) g->lower->is_missing = true;
    g->named[g->count++] = ref->id;
  }
  return TENON_OK;
}

static tenon_status_t find_values(gradient_node_t *g) {
  const char *y = tn_lower_text(g->lower, "y", NULL);
  const size_t room = (size_t)g->lower->input_count + 1;
  g->named = tn_arena_array(&g->lower->import->arena, room, sizeof *g->named);
  g->names = tn_arena_array(&g->lower->import->arena, room, sizeof *g->names);
  if (!g->named || !g->names) return tn_no_memory("a node", room * sizeof *g->named);
  TN_TRY(g->lower->status);
  if (!y)
    return tn_fail(TENON_INVALID, "the attribute 'y' is missing: expected the name of a value");
  TN_TRY(find_named(g, y, strlen(y), &g->y));
  if (g->y->is_missing) g->lower->is_missing = true;
  TN_TRY(find_list(g, "xs"));
  g->x_count = g->count;
  TN_TRY(find_list(g, "zs"));
  if (g->count == g->lower->input_count && g->x_count == g->lower->output_count) return TENON_OK;
  return tn_fail(TENON_INVALID,
                 "the node has %d inputs and %d outputs: expected an input for each name in xs and "
                 "zs, and an output for each of the %d names in xs",
                 (int)g->lower->input_count, (int)g->lower->output_count, (int)g->x_count);
}

static tenon_status_t derive(gradient_node_t *g) {
  TN_TRY(tn_builder_infer(builder_of(g)));
  const tn_part_t part = {g->named, (size_t)g->count, &g->y->id, 1};
  TN_TRY(tn_part_make(tn_builder_graph(builder_of(g)), &part, &g->part));
  for (int32_t i = 0; i < g->x_count; i++)
    g->names[i] = g->part->edges[g->part->inputs[i]].name;
  const tenon_graph_gradients_t options = {.size = sizeof options,
                                           .flags = TENON_GRADIENTS_GIVEN | TENON_GRADIENTS_UNUSED,
                                           .values = g->names,
                                           .value_count = g->x_count};
  return tenon_graph_gradients(g->part, &options, &g->derived);
}

/* The gradient of y itself: ones. */
static tn_ref_t *make_ones(const gradient_node_t *g) {
  return tn_lower_run(g->lower, TN_REFS(g->y), "expand(1:a, shape(a))");
}

/* Copies the nodes that compute gradients, with the inputs of the node in place of the named
 * values. */
static tenon_status_t copy_derived(gradient_node_t *g) {
  const tenon_graph_t *d = g->derived;
  tn_site_t *site = g->lower->scope->site;
  tn_ref_t *ones = make_ones(g);
  g->edges = tn_allocate((d->edge_count + 1) * sizeof *g->edges);
  if (!g->edges) return tn_no_memory("a node", d->edge_count * sizeof *g->edges);
  memset(g->edges, -1, (d->edge_count + 1) * sizeof *g->edges);
  TN_TRY(g->lower->status);
  for (int32_t i = 0; i < g->count; i++) {
    tn_ref_t *ref = g->lower->inputs[i];
    if (!ref) return tn_fail(TENON_INVALID, "input %d is absent: expected a tensor", (int)i);
    TN_TRY(tn_ref_here(g->lower->import, site, ref, &ref));
    g->edges[d->inputs[i]] = ref->id;
  }
  g->edges[d->inputs[g->count]] = ones->id;
  for (int32_t n = 0; n < (int32_t)d->node_count; n++)
    TN_TRY(tenon_builder_copy_node(site->builder, d, n, g->edges));
  return TENON_OK;
}

static tenon_status_t give_gradients(const gradient_node_t *g) {
  const tenon_graph_t *d = g->derived;
  for (int32_t i = 0; i < g->x_count; i++) {
    const tenon_edge_t edge = d->outputs[1 + i]; /* behind y */
    tn_ref_t *ref = tn_ref_new(g->lower->import, g->lower->scope->site, g->lower->name);
    if (!ref) return TENON_MEMORY;
    TN_TRY(tn_builder_copy_constant(builder_of(g), d, edge, g->edges));
    ref->id = g->edges[edge];
    ref->dtype = d->edges[edge].dtype;
    ref->ndim = d->edges[edge].ndim;
    g->lower->outputs[i] = ref;
  }
  return TENON_OK;
}

static tenon_status_t build_gradient(gradient_node_t *g) {
  TN_TRY(find_values(g));
  if (g->lower->is_missing) return TENON_OK;
  TN_TRY(derive(g));
  TN_TRY(copy_derived(g));
  return give_gradients(g);
}

void tn_lower_gradient(tn_lower_t *lower) {
  gradient_node_t g = {.lower = lower};
  (void)tn_lower_has_failed(lower, build_gradient(&g));
  tenon_graph_release(g.part);
  tenon_graph_release(g.derived);
  tn_release_memory(g.edges);
}
