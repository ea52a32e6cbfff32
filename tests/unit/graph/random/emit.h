/* Builds graphs from drafts (draft.h): those that some outputs need. */
#ifndef TENON_TESTS_RANDOM_EMIT_H
#define TENON_TESTS_RANDOM_EMIT_H

#include "draft.h"

enum { PORTS_MOST = 128 };

/* A graph that is built from a draft. */
typedef struct emission_t {
  const draft_t *draft;
  tenon_builder_t *builder;
  bool is_wide;                     /* in double precision */
  int32_t port_count;               /* inputs of the graph */
  int32_t ports[PORTS_MOST];        /* the values that they are */
  tenon_edge_t edges[DRAFT_VALUES]; /* -1: not there yet */
  tenon_edge_t casts[DRAFT_VALUES]; /* the value in its other dtype; -1: not there yet */
  bool needed[DRAFT_NODES];
} emission_t;

static tenon_graph_t *emit_body(const draft_t *d, bool is_wide);

static uint32_t dtype_in(const emission_t *m, const value_t *value) {
  return m->is_wide && !value->keeps ? widen(value->dtype) : value->dtype;
}

static void emit_input(emission_t *m, int32_t v) {
  const draft_t *d = m->draft;
  const value_t *value = &d->values[v];
  tenon_axis_t axes[RANK_MOST];
  char name[32], extents[RANK_MOST][32];
  for (int32_t i = 0; i < value->rank; i++) {
    const extent_t e = value->shape[i];
    const bool is_known = is_fixed(e) || !d->is_dynamic;
    snprintf(extents[i], sizeof extents[i], "n%d_m%d_%d", (int)e.n, (int)e.m, (int)e.plus);
    const bool has_name = !is_known && !d->is_nameless;
    axes[i] = (tenon_axis_t){-1, has_name ? extents[i] : NULL};
    if (is_known) axes[i].extent = length_of(e, d->most);
  }
  snprintf(name, sizeof name, "v%d", (int)v);
  CHECK_STATUS(tenon_builder_input(m->builder, name, tenon_dtype(dtype_in(m, value)), value->rank,
                                   axes, &m->edges[v]),
               TENON_OK);
  CHECK(m->port_count < PORTS_MOST);
  m->ports[m->port_count++] = v;
}

static void emit_constant(emission_t *m, int32_t v) {
  const value_t *value = &m->draft->values[v];
  char name[32];
  tenon_tensor_t *t = converted(value->constant, dtype_in(m, value));
  snprintf(name, sizeof name, "c%d", (int)v);
  CHECK_STATUS(tenon_builder_constant(m->builder, name, t, &m->edges[v]), TENON_OK);
  tenon_tensor_release(t);
}

/* The edge of a value in a dtype, which is a cast of it if it has another one. */
static tenon_edge_t edge_in(emission_t *m, int32_t v, bool keeps) {
  const value_t *value = &m->draft->values[v];
  char text[32];
  if (m->edges[v] < 0 && value->constant) emit_constant(m, v);
  if (m->edges[v] < 0) emit_input(m, v);
  const uint32_t wanted = m->is_wide && !keeps ? widen(value->dtype) : value->dtype;
  if (wanted == dtype_in(m, value)) return m->edges[v];
  if (m->casts[v] >= 0) return m->casts[v];
  snprintf(text, sizeof text, "to=%s", tenon_dtype_name(tenon_dtype(wanted)));
  m->casts[v] = graph_step(m->builder, "core::cast", text, m->edges[v]);
  return m->casts[v];
}

static void set_bodies(const emission_t *m, const part_t *part, tenon_attrs_t *attrs) {
  for (int k = 0; k < 2 && part->bodies[k]; k++) {
    tenon_graph_t *body = emit_body(part->bodies[k], m->is_wide);
    CHECK_STATUS(tenon_attrs_set(attrs, part->body_names[k],
                                 &(tenon_value_t){.kind = TENON_KIND_GRAPH, .as.graph = body}),
                 TENON_OK);
    tenon_graph_release(body);
  }
}

static void emit_node(emission_t *m, int32_t n) {
  const part_t *part = &m->draft->nodes[n];
  const tenon_op_t *op = op_of(part->op);
  tenon_edge_t edges[OPERANDS_MOST][ITEMS_MOST], results[RESULTS_MOST];
  tenon_operand_t operands[16] = {{0}};
  char text[256], name[32];
  if (!op) abort();
  for (int32_t i = 0; i < part->operand_count; i++) {
    for (int32_t k = 0; k < part->operands[i].count; k++)
      edges[i][k] = edge_in(m, part->operands[i].values[k], part->keeps);
    operands[i] = (tenon_operand_t){part->operands[i].count, edges[i]};
  }
  snprintf(text, sizeof text, "%s", part->attrs);
  if (part->to)
    snprintf(
        text, sizeof text, "to=%s",
        tenon_dtype_name(tenon_dtype(m->is_wide && !part->keeps ? widen(part->to) : part->to)));
  tenon_attrs_t *attrs = attrs_of(op, text);
  set_bodies(m, part, attrs);
  snprintf(name, sizeof name, "n%d", (int)n);
  if (!CHECK_STATUS(tenon_builder_node(m->builder, name, op, attr_values(attrs), operands, results,
                                       part->result_count),
                    TENON_OK))
    abort();
  for (int32_t o = 0; o < part->result_count; o++)
    m->edges[part->results[o]] = results[o];
  tenon_attrs_release(attrs);
}

/* Notes the nodes that a value needs. */
static void need_value(emission_t *m, int32_t v) {
  const draft_t *d = m->draft;
  if (d->values[v].node >= 0) m->needed[d->values[v].node] = true;
}

static void need_all(emission_t *m) {
  const draft_t *d = m->draft;
  for (int32_t n = d->node_count - 1; n >= 0; n--)
    for (int32_t i = 0; m->needed[n] && !d->nodes[n].is_cut && i < d->nodes[n].operand_count; i++)
      for (int32_t k = 0; k < d->nodes[n].operands[i].count; k++)
        need_value(m, d->nodes[n].operands[i].values[k]);
}

static void begin_emission(emission_t *m, const draft_t *d, bool is_wide) {
  m->draft = d;
  m->builder = graph_begin();
  m->is_wide = is_wide;
  m->port_count = 0;
  memset(m->edges, -1, sizeof m->edges);
  memset(m->casts, -1, sizeof m->casts);
  memset(m->needed, 0, sizeof m->needed);
}

static void emit_nodes(emission_t *m) {
  const draft_t *d = m->draft;
  need_all(m);
  for (int32_t n = 0; n < d->node_count; n++)
    if (m->needed[n] && !d->nodes[n].is_cut) emit_node(m, n);
}

static void emit_outputs(emission_t *m, const int32_t *outputs, int32_t count) {
  char name[32];
  for (int32_t o = 0; o < count; o++) {
    snprintf(name, sizeof name, "y%d_v%d", (int)o, (int)outputs[o]);
    graph_output(m->builder, name, edge_in(m, outputs[o], false));
  }
}

/* Finishes the graph and forgets the builder. */
static tenon_graph_t *finish_emission(emission_t *m) {
  tenon_graph_t *graph = NULL;
  CHECK_STATUS(tenon_builder_finish(m->builder, &graph), TENON_OK);
  tenon_builder_release(m->builder);
  m->builder = NULL;
  return graph;
}

/* Builds the graph that computes some values of the draft. */
static tenon_graph_t *emit_graph(emission_t *m, const draft_t *d, bool is_wide,
                                 const int32_t *outputs, int32_t count) {
  begin_emission(m, d, is_wide);
  for (int32_t o = 0; o < count; o++)
    need_value(m, outputs[o]);
  emit_nodes(m);
  emit_outputs(m, outputs, count);
  return finish_emission(m);
}

/* Builds the body of a node: all inputs, in their order, and the outputs. */
static tenon_graph_t *emit_body(const draft_t *d, bool is_wide) {
  emission_t *m = malloc(sizeof *m);
  if (!m) abort();
  begin_emission(m, d, is_wide);
  for (int32_t v = 0; v < d->value_count; v++)
    if (d->values[v].node < 0 && !d->values[v].constant) emit_input(m, v);
  for (int32_t o = 0; o < d->output_count; o++)
    need_value(m, d->outputs[o]);
  emit_nodes(m);
  emit_outputs(m, d->outputs, d->output_count);
  tenon_graph_t *graph = finish_emission(m);
  free(m);
  return graph;
}

#endif
