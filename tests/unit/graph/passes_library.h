/* A library of passes and partitioners, which uses tenon/graph.h only. Options choose what they do
 * and which errors they make. */
#ifndef TENON_TESTS_PASSES_LIBRARY_H
#define TENON_TESTS_PASSES_LIBRARY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/graph.h>

static inline const char *option_in(const tenon_option_t *options, int32_t count,
                                    const char *name) {
  for (int32_t i = 0; i < count; i++)
    if (strcmp(options[i].name, name) == 0) return options[i].value;
  return NULL;
}
#define OPTION(call, name) option_in((call)->options, (call)->option_count, (name))
#define FAILS(call, where) (OPTION(call, "fail") && strcmp(OPTION(call, "fail"), (where)) == 0)

/* passes */

typedef struct remaking_t {
  tenon_pass_call_t *call;
  tenon_builder_t *builder;
  /* For each value of the old graph, its edge in the new one. */
  tenon_edge_t *edges;
} remaking_t;

static inline tenon_status_t remake(tenon_pass_call_t *call, tenon_status_t (*body)(remaking_t *),
                                    tenon_graph_t **out) {
  const tenon_graphs_t *g = call->graphs;
  int32_t count = g->edge_count(call->graph);
  remaking_t r = {call, NULL, malloc((size_t)(count + 1) * sizeof(tenon_edge_t))};
  if (!r.edges) return tenon_fail(call, TENON_MEMORY, "out of memory");
  for (int32_t e = 0; e < count; e++)
    r.edges[e] = -1;
  tenon_status_t status = g->builder_create(&r.builder);
  if (status == TENON_OK) status = g->builder_copy_inputs(r.builder, call->graph, r.edges);
  if (status == TENON_OK) status = body(&r);
  if (status == TENON_OK) status = g->builder_copy_outputs(r.builder, call->graph, r.edges);
  if (status == TENON_OK) status = g->builder_finish(r.builder, out);
  g->builder_release(r.builder);
  free(r.edges);
  return status;
}

static inline tenon_status_t replace_nodes(remaking_t *r) {
  const tenon_graphs_t *g = r->call->graphs;
  const char *from = OPTION(r->call, "from");
  const char *to = OPTION(r->call, "to");
  const tenon_op_t *op;
  if (!from || !to) return tenon_fail(r->call, TENON_INVALID, "expected the options from and to");
  TENON_TRY(g->op_find(to, &op));
  for (int32_t n = 0; n < g->node_count(r->call->graph); n++) {
    tenon_graph_part_t node = {.size = sizeof node};
    TENON_TRY(g->node(r->call->graph, n, &node));
    if (strcmp(g->op_name(node.op), from) != 0) {
      TENON_TRY(g->builder_copy_node(r->builder, r->call->graph, n, r->edges));
      continue;
    }
    tenon_edge_t in = r->edges[node.operands[0].edges[0]];
    TENON_TRY(g->builder_node(r->builder, node.name, op, NULL, &(tenon_operand_t){1, &in},
                              &r->edges[node.outputs[0]], 1));
  }
  return TENON_OK;
}

static inline tenon_status_t scale_outputs(remaking_t *r) {
  const tenon_graphs_t *g = r->call->graphs;
  const tenon_op_t *op;
  tenon_tensor_t *tensor;
  tenon_edge_t factor, pair[2];
  for (int32_t n = 0; n < g->node_count(r->call->graph); n++)
    TENON_TRY(g->builder_copy_node(r->builder, r->call->graph, n, r->edges));
  TENON_TRY(g->op_find("core::mul", &op));
  TENON_TRY(g->tensor_create(tenon_dtype(TENON_F32), 0, NULL, &tensor));
  *(float *)tensor->data = (float)atof(OPTION(r->call, "by"));
  tenon_status_t status = g->builder_constant(r->builder, "factor", tensor, &factor);
  g->tensor_release(tensor);
  for (int32_t o = 0; o < g->output_count(r->call->graph) && status == TENON_OK; o++) {
    tenon_port_t port = {.size = sizeof port};
    TENON_TRY(g->output(r->call->graph, o, &port));
    pair[0] = r->edges[port.edge];
    pair[1] = factor;
    status =
        g->builder_node(r->builder, NULL, op, NULL,
                        (tenon_operand_t[]){{1, &pair[0]}, {1, &pair[1]}}, &r->edges[port.edge], 1);
  }
  return status;
}

static tenon_status_t surgery_replace(tenon_pass_call_t *call, tenon_graph_t **out) {
  return remake(call, replace_nodes, out);
}
static tenon_status_t surgery_scale(tenon_pass_call_t *call, tenon_graph_t **out) {
  return remake(call, scale_outputs, out);
}
static tenon_status_t surgery_same(tenon_pass_call_t *call, tenon_graph_t **out) {
  call->graphs->retain(call->graph);
  *out = (tenon_graph_t *)(uintptr_t)call->graph;
  return TENON_OK;
}
static tenon_status_t surgery_none(tenon_pass_call_t *call, tenon_graph_t **out) {
  (void)call;
  (void)out;
  return TENON_OK;
}

#define PASS(name, function, doc)                                                                  \
  { sizeof(tenon_pass_t), TENON_GRAPH_ABI, name, doc, function }
static const tenon_pass_t surgery_passes[] = {
    PASS("replace", surgery_replace, "Puts one operator in place of another."),
    PASS("scale", surgery_scale, "Multiplies outputs."), PASS("nothing", surgery_none, NULL)};
static const tenon_pass_t surgery_keep = PASS("keep", surgery_same, "Does nothing.");

/* partitioners */

static inline tenon_status_t read_ids(tenon_cut_t *cut, int32_t *ids) { /* Parses "-2,-1,0". */
  const char *at = OPTION(cut, "ids");
  if (FAILS(cut, "ids")) return tenon_fail(cut, TENON_ABORTED, "as asked");
  for (int32_t n = 0; at && *at && n < cut->graphs->node_count(cut->graph); n++) {
    char *end;
    ids[n] = (int32_t)strtol(at, &end, 10);
    at = end + (*end == ',');
  }
  return TENON_OK;
}

/* Parses "NOTE ID PARAMETER=FIRST ...". */
static inline tenon_status_t review(tenon_cut_t *cut, tenon_review_t *r) {
  const tenon_graphs_t *g = cut->graphs;
  const char *reject = OPTION(cut, "reject");
  const char *note = OPTION(cut, "note");
  char text[200];
  if (FAILS(cut, "review")) return tenon_fail(cut, TENON_ABORTED, "as asked");
  if (OPTION(cut, "unknown")) return g->attrs_parse(r->attrs, "unknown", "1");
  r->is_accepted = !reject || atoi(reject) != r->id;
  if (!note) return TENON_OK;
  int used = snprintf(text, sizeof text, "%s %d", note, (int)r->id);
  for (int32_t i = 0; i < g->input_count(r->subgraph); i++) {
    tenon_graph_edge_t edge = {.size = sizeof edge};
    TENON_TRY(g->edge(cut->graph, r->inputs[i], &edge, NULL));
    if (edge.constant)
      used += snprintf(text + used, sizeof text - (size_t)used, " %s=%g", edge.name,
                       *(float *)edge.constant->data);
  }
  return g->attrs_set(r->attrs, "note",
                      &(tenon_value_t){TENON_KIND_STR, (uint32_t)used, {.s = text}});
}

static inline tenon_status_t
remember(tenon_cut_t *cut) { /* The state is the list of names, with commas around it. */
  const char *ops = OPTION(cut, "ops");
  if (FAILS(cut, "begin")) return tenon_fail(cut, TENON_ABORTED, "as asked");
  char *text = malloc(strlen(ops) + 3);
  if (!text) return tenon_fail(cut, TENON_MEMORY, "out of memory");
  sprintf(text, ",%s,", ops);
  cut->state = text;
  return TENON_OK;
}
static inline void forget(tenon_cut_t *cut) { free(cut->state); }

static inline tenon_status_t is_named(tenon_cut_t *cut, int32_t n, int32_t *out) {
  tenon_graph_part_t node = {.size = sizeof node};
  char text[100];
  if (FAILS(cut, "select")) return tenon_fail(cut, TENON_ABORTED, "as asked");
  TENON_TRY(cut->graphs->node(cut->graph, n, &node));
  snprintf(text, sizeof text, ",%s,", cut->graphs->op_name(node.op));
  *out = strstr(cut->state, text) != NULL;
  return TENON_OK;
}
static inline tenon_status_t is_neighbour_named(tenon_cut_t *cut, int32_t node, int32_t other,
                                                int32_t *out) {
  (void)node;
  return is_named(cut, other, out);
}
static inline tenon_status_t keep_few(tenon_cut_t *cut, int32_t *nodes, int32_t *count) {
  const char *most = OPTION(cut, "most");
  if (FAILS(cut, "filter_other"))
    nodes[0] = 0;
  else if (FAILS(cut, "filter_more"))
    *count = 7;
  else if (FAILS(cut, "filter_hole")) {
    nodes[1] = nodes[2];
    *count = 2;
  } else if (most && atoi(most) < *count)
    *count = atoi(most);
  return TENON_OK;
}

static inline tenon_status_t take_first(tenon_cut_t *cut,
                                        /* Selects the first node that is not a subgraph yet. */
                                        int32_t *ids) {
  for (int32_t n = 0; n < cut->graphs->node_count(cut->graph); n++) {
    tenon_graph_part_t node = {.size = sizeof node};
    TENON_TRY(cut->graphs->node(cut->graph, n, &node));
    if (strcmp(cut->graphs->op_name(node.op), "surgery::fused") == 0) continue;
    ids[n] = 0;
    return TENON_OK;
  }
  return TENON_OK;
}

#define STRATEGY .size = sizeof(tenon_strategy_t)
static const tenon_strategy_t surgery_only = {STRATEGY, .name = "only", .op = "fused",
                                              .supported = read_ids, .review = review};
static const tenon_strategy_t surgery_strategy = {STRATEGY,
                                                  .name = "only",
                                                  .op = "surgery::fused",
                                                  .select = is_named,
                                                  .select_input = is_neighbour_named,
                                                  .select_output = is_neighbour_named,
                                                  .filter = keep_few,
                                                  .begin = remember,
                                                  .end = forget};
static const tenon_strategy_t surgery_first = {STRATEGY, .name = "first", .op = "fused",
                                               .supported = take_first};
static const tenon_strategy_t surgery_second = {STRATEGY, .name = "second", .op = "fused",
                                                .supported = take_first};
static const tenon_strategy_t surgery_missing = {STRATEGY, .name = "only", .op = "missing",
                                                 .supported = take_first};
static const tenon_strategy_t surgery_plain = {STRATEGY, .name = "only", .op = "plain",
                                               .supported = take_first};
#define PARTITIONER(name, ...)                                                                     \
  {                                                                                                \
    sizeof(tenon_partitioner_t), TENON_GRAPH_ABI, name, NULL, (const tenon_strategy_t *const[]) {  \
      __VA_ARGS__, NULL                                                                            \
    }                                                                                              \
  }
static const tenon_partitioner_t surgery_partitioners[] = {
    PARTITIONER("by_number", &surgery_only), PARTITIONER("by_name", &surgery_strategy),
    PARTITIONER("both", &surgery_first, &surgery_second),
    PARTITIONER("no_operator", &surgery_missing), PARTITIONER("no_body", &surgery_plain)};

/* the operator of subgraphs */

static tenon_status_t surgery_fused(tenon_call_t *call) {
  const tenon_graph_t *graph = call->attrs[0].as.graph;
  int64_t count = call->attrs[1].as.i;
  tenon_tensor_t **results = call->host->allocate(call, (uint64_t)(count + 1) * sizeof *results);
  tenon_tensor_t list;
  if (!results) return TENON_MEMORY;
  memset(results, 0, (size_t)(count + 1) * sizeof *results);
  TENON_TRY(call->host->evaluate(call, graph, (uint32_t)call->inputs[0]->shape[0],
                                 (tenon_tensor_t *const *)call->inputs[0]->data, (uint32_t)count,
                                 results));
  list = *call->outputs[0];
  list.data = results;
  return call->host->assign(call, 0, &list);
}

TENON_LIBRARY(
    surgery, "1", TENON_PASS(&surgery_passes[0]), TENON_PASS(&surgery_passes[1]),
    TENON_PASS(&surgery_passes[2]), TENON_PASS(&surgery_keep),
    TENON_PARTITIONER(&surgery_partitioners[0]), TENON_PARTITIONER(&surgery_partitioners[1]),
    TENON_PARTITIONER(&surgery_partitioners[2]), TENON_PARTITIONER(&surgery_partitioners[3]),
    TENON_PARTITIONER(&surgery_partitioners[4]),
    TENON_OP(
        "fused(Tensor[] inputs, *, graph body, int count, str note='') -> Tensor[count] outputs",
        TENON_TYPES("inputs, outputs = ?"), TENON_BODY("body"), TENON_KERNEL("cpu", surgery_fused)),
    TENON_OP("plain(Tensor[] inputs, *, graph body, int count) -> Tensor[count] outputs",
             TENON_TYPES("inputs, outputs = ?"), TENON_COMPOSITE(surgery_fused)))

#endif
