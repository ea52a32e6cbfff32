/* Builds small graphs, computes their values, and records what a device claims of them. */
#include "graphs.h"
#include <string.h>

void graph_begin(graph_t *g) {
  memset(g, 0, sizeof *g);
  g->view = (tenon_graph_view_t){.size = sizeof g->view,
                                 .nodes = g->node_list,
                                 .edges = g->edge_list,
                                 .names = g->names,
                                 .inputs = g->inputs,
                                 .outputs = g->outputs};
}

static uint32_t edge(graph_t *g, const char *name, int64_t rows, int64_t columns) {
  uint32_t i = g->view.edge_count++;
  g->dims[i][0] = tenon_extent(rows);
  g->dims[i][1] = tenon_extent(columns);
  g->shapes[i][0] = rows;
  g->shapes[i][1] = columns;
  g->strides[i][0] = columns;
  g->strides[i][1] = 1;
  g->edges[i] = (tenon_meta_t){.size = sizeof g->edges[i],
                               .dtype = tenon_dtype(TENON_F32),
                               .ndim = 2,
                               .device = {1, 0},
                               .dims = g->dims[i]};
  g->edge_list[i] = &g->edges[i];
  g->names[i] = name;
  return i;
}

uint32_t graph_input(graph_t *g, const char *name, int64_t rows, int64_t columns) {
  return g->inputs[g->view.input_count++] = edge(g, name, rows, columns);
}

static void make_constant(graph_t *g, uint32_t i) {
  g->constants[i] = (tenon_tensor_t){.data = g->values[i],
                                     .device = {1, 0},
                                     .ndim = 2,
                                     .dtype = tenon_dtype(TENON_F32),
                                     .shape = g->shapes[i],
                                     .strides = g->strides[i]};
  g->edges[i].value = &g->constants[i];
}

uint32_t graph_constant(graph_t *g, const char *name, int64_t rows, int64_t columns) {
  uint32_t i = edge(g, name, rows, columns);
  for (int64_t k = 0; k < rows * columns; k++)
    g->values[i][k] = (float)((k * 7 + i) % 9) - 4;
  make_constant(g, i);
  return i;
}

uint32_t graph_node(graph_t *g, const char *op, uint32_t a, int64_t b, int64_t rows,
                    int64_t columns) {
  uint32_t n = g->view.node_count++;
  uint32_t out = edge(g, "value", rows, columns);
  uint32_t most = 1;
  int is_product = strcmp(op, "core::matmul") == 0;
  g->args[n][0] = a;
  g->args[n][1] = b < 0 ? 0 : (uint32_t)b;
  g->results[n] = out;
  if (strcmp(op, "core::add") == 0 || strcmp(op, "core::mul") == 0) most = 2;
  if (is_product) most = 3; /* the bias is absent */
  static const uint32_t kinds[] = {TENON_KIND_BOOL, TENON_KIND_BOOL, TENON_KIND_CHOICE,
                                   TENON_KIND_FLOAT, TENON_KIND_FLOAT};
  const uint32_t arguments = b < 0 ? 1 : 2;
  for (uint32_t i = 0; i <= most; i++)
    g->starts[n][i] = i < arguments ? i : arguments;
  for (int i = 0; i < 5 && is_product; i++)
    g->attrs[n][i].kind = kinds[i];
  g->nodes[n] = (tenon_graph_node_t){.size = sizeof g->nodes[n],
                                     .attr_count = is_product ? 5 : 0,
                                     .op = op,
                                     .name = "node",
                                     .version = 1,
                                     .attrs = g->attrs[n],
                                     .argument_count = most,
                                     .output_count = 1,
                                     .starts = g->starts[n],
                                     .inputs = g->args[n],
                                     .outputs = &g->results[n]};
  g->node_list[n] = &g->nodes[n];
  return out;
}

void graph_output(graph_t *g, uint32_t i) { g->outputs[g->view.output_count++] = i; }

void graph_layers(graph_t *g) {
  graph_begin(g);
  uint32_t x = graph_input(g, "x", 8, 12);
  uint32_t w = graph_constant(g, "w", 12, 6);
  uint32_t b = graph_constant(g, "b", 1, 6);
  uint32_t sum = graph_node(g, "core::add", graph_node(g, "core::matmul", x, w, 8, 6), b, 8, 6);
  uint32_t positive = graph_node(g, "core::relu", sum, -1, 8, 6);
  graph_output(g, positive);
  graph_output(g, graph_node(g, "core::mul", positive, positive, 8, 6));
}

static float at(const graph_t *g, uint32_t i, int64_t row, int64_t column) {
  return g->values[i][(g->shapes[i][0] == 1 ? 0 : row) * g->shapes[i][1] +
                      (g->shapes[i][1] == 1 ? 0 : column)];
}

static float element(const graph_t *g, uint32_t n, int64_t row, int64_t column) {
  const char *op = g->nodes[n].op;
  uint32_t a = g->args[n][0];
  uint32_t b = g->args[n][1];
  float sum = 0;
  if (strcmp(op, "core::add") == 0) return at(g, a, row, column) + at(g, b, row, column);
  if (strcmp(op, "core::mul") == 0) return at(g, a, row, column) * at(g, b, row, column);
  if (strcmp(op, "core::relu") == 0) return at(g, a, row, column) < 0 ? 0 : at(g, a, row, column);
  for (int64_t k = 0; k < g->shapes[a][1]; k++)
    sum += at(g, a, row, k) * at(g, b, k, column);
  return sum;
}

void graph_compute(graph_t *g, uint64_t seed) {
  for (uint32_t k = 0; k < g->view.input_count; k++) {
    uint32_t i = g->inputs[k];
    for (int64_t e = 0; e < g->shapes[i][0] * g->shapes[i][1]; e++)
      g->values[i][e] = (float)any(&seed, 7) - 3;
  }
  for (uint32_t n = 0; n < g->view.node_count; n++) {
    uint32_t out = g->results[n];
    for (int64_t row = 0; row < g->shapes[out][0]; row++)
      for (int64_t column = 0; column < g->shapes[out][1]; column++)
        g->values[out][row * g->shapes[out][1] + column] = element(g, n, row, column);
  }
}

static int has(const uint32_t *list, uint32_t count, uint32_t what) {
  for (uint32_t i = 0; i < count; i++)
    if (list[i] == what) return 1;
  return 0;
}

static int is_read(const graph_t *g, uint32_t n, uint32_t edge) {
  return has(g->args[n], g->starts[n][g->nodes[n].argument_count], edge);
}

void graph_part(const graph_t *g, const wish_t *wish, graph_t *part, uint32_t edges[EDGES_MOST]) {
  graph_begin(part);
  int64_t place[EDGES_MOST];
  for (int i = 0; i < EDGES_MOST; i++)
    place[i] = -1;
  for (uint32_t n = 0; n < g->view.node_count; n++) { /* in the order of the graph */
    if (!has(wish->nodes, wish->count, n)) continue;
    uint32_t args[3] = {0};
    uint32_t count = g->starts[n][g->nodes[n].argument_count];
    uint32_t out = g->results[n];
    for (uint32_t k = 0; k < count; k++) {
      uint32_t of = g->args[n][k];
      if (place[of] < 0) {
        edges[part->view.edge_count] = of;
        place[of] = edge(part, g->names[of], g->shapes[of][0], g->shapes[of][1]);
        if (g->edges[of].value) {
          memcpy(part->values[place[of]], g->values[of], sizeof g->values[of]);
          make_constant(part, (uint32_t)place[of]);
        } else {
          part->inputs[part->view.input_count++] = (uint32_t)place[of];
        }
      }
      args[k] = (uint32_t)place[of];
    }
    edges[part->view.edge_count] = out;
    place[out] = graph_node(part, g->nodes[n].op, args[0], count > 1 ? (int64_t)args[1] : -1,
                            g->shapes[out][0], g->shapes[out][1]);
    int is_used = has(g->outputs, g->view.output_count, out);
    for (uint32_t k = 0; k < g->view.node_count; k++)
      is_used |= !has(wish->nodes, wish->count, k) && is_read(g, k, out);
    if (is_used) graph_output(part, (uint32_t)place[out]);
  }
}

static tenon_status_t take(tenon_claims_t *sink, uint32_t count, const uint32_t *nodes,
                           const char *reason) {
  wishes_t *w = (wishes_t *)sink;
  uint32_t most = w->graph->view.node_count;
  EXPECT(w->count < 2 * NODES_MOST, "claim took more than %d groups of a graph with %u nodes",
         2 * NODES_MOST, most);
  EXPECT(count, "claim took a group without nodes");
  EXPECT(count <= most, "claim took a group of %u nodes of a graph with %u", count, most);
  EXPECT(reason && *reason, "claim took a group of %u nodes without a reason", count);
  wish_t *wish = &w->at[w->count];
  *wish = (wish_t){.count = count};
  for (uint32_t i = 0; i < count; i++) {
    EXPECT(nodes[i] < most, "claim took node %u of a graph with %u nodes", nodes[i], most);
    EXPECT(!has(wish->nodes, i, nodes[i]), "claim took node %u twice in one group", nodes[i]);
    for (uint32_t k = 0; k < w->count; k++)
      EXPECT(!has(w->at[k].nodes, w->at[k].count, nodes[i]), "claim took node %u in two groups",
             nodes[i]);
    wish->nodes[i] = nodes[i];
  }
  w->count++;
  return TENON_OK;
}

static tenon_status_t leave(tenon_claims_t *sink, uint32_t node, const char *reason) {
  const wishes_t *w = (const wishes_t *)sink;
  EXPECT(node < w->graph->view.node_count, "claim left node %u of a graph with %u nodes", node,
         w->graph->view.node_count);
  EXPECT(reason, "claim left node %u with the reason NULL", node);
  return TENON_OK;
}

void must_claim(tenon_on_t on, const graph_t *g, wishes_t *out) {
  *out = (wishes_t){.sink = {sizeof out->sink, 0, take, leave}, .graph = g};
  doing("claim(a graph of %u nodes)", g->view.node_count);
  tenon_status_t status = rig.table->claim(on, &g->view, "", &out->sink);
  if (status == TENON_UNAVAILABLE) skip_case("the device claims nothing: %s", said());
  must(status, "claim of a graph of %u nodes", g->view.node_count);
}
