/* Cases about which nodes of a graph a device claims for offload. */
#include "graphs.h"
#include "groups.h"
#include <string.h>

static void diamond(graph_t *g) { /* one path leads through an unknown operator */
  graph_begin(g);
  uint32_t x = graph_input(g, "x", 8, 6);
  uint32_t c = graph_constant(g, "c", 1, 6);
  uint32_t first = graph_node(g, "core::add", x, c, 8, 6);
  uint32_t around = graph_node(g, "conformance::unknown", first, -1, 8, 6);
  uint32_t straight = graph_node(g, "core::mul", first, c, 8, 6);
  uint32_t last = graph_node(g, "core::add", straight, around, 8, 6);
  graph_output(g, graph_node(g, "core::mul", last, first, 8, 6));
}

/* Two chains that cross through unknown operators. */
static void crossing(graph_t *g) {
  graph_begin(g);
  uint32_t x = graph_input(g, "x", 4, 4);
  uint32_t y = graph_input(g, "y", 4, 4);
  uint32_t a = graph_node(g, "core::relu", x, -1, 4, 4);
  uint32_t b = graph_node(g, "core::relu", y, -1, 4, 4);
  uint32_t to_a = graph_node(g, "conformance::unknown", b, -1, 4, 4);
  uint32_t a2 = graph_node(g, "core::add", a, to_a, 4, 4);
  uint32_t to_b = graph_node(g, "conformance::unknown", a2, -1, 4, 4);
  uint32_t b2 = graph_node(g, "core::add", b, to_b, 4, 4);
  graph_output(g, graph_node(g, "core::mul", a2, a, 4, 4));
  graph_output(g, graph_node(g, "core::mul", b2, b, 4, 4));
}

static void chain(graph_t *g) {
  graph_begin(g);
  uint32_t at = graph_input(g, "x", 4, 4);
  uint32_t c = graph_constant(g, "c", 4, 4);
  for (int i = 0; i < 12; i++)
    at = graph_node(g, i % 2 ? "core::add" : "core::mul", at, c, 4, 4);
  graph_output(g, at);
}

static void (*const shapes[])(graph_t *) = {graph_layers, diamond, crossing, chain, graph_begin};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static graph_t graph; /* too large for the stack */
static wishes_t wishes;

static void sound(tenon_on_t on) {
  for (int i = 0; i < SHAPES; i++) {
    shapes[i](&graph);
    must_claim(on, &graph, &wishes);
  }
}

static uint32_t group_of(uint32_t node) { /* 0: none */
  for (uint32_t k = 0; k < wishes.count; k++)
    for (uint32_t i = 0; i < wishes.at[k].count; i++)
      if (wishes.at[k].nodes[i] == node) return k + 1;
  return 0;
}

static int together(uint32_t n, uint32_t m) {
  return n == m || (group_of(n) && group_of(n) == group_of(m));
}

/* Whether everything that node n, or its group, reads from has been computed. */
static int is_ready(uint32_t n, const uint32_t *made, const char *placed) {
  for (uint32_t m = 0; m < graph.view.node_count; m++)
    for (uint32_t k = 0; together(n, m) && k < graph.starts[m][graph.nodes[m].argument_count];
         k++) {
      uint32_t from = made[graph.args[m][k]];
      if (from != UINT32_MAX && !together(n, from) && !placed[from]) return 0;
    }
  return 1;
}

/* Groups, and nodes without a group, must all become ready if each waits for what it reads from. */
static void paths(tenon_on_t on) {
  for (int i = 0; i < SHAPES; i++) {
    uint32_t made[EDGES_MOST];
    uint32_t done = 0;
    uint32_t before = UINT32_MAX;
    char placed[NODES_MOST] = {0};
    shapes[i](&graph);
    must_claim(on, &graph, &wishes);
    for (uint32_t e = 0; e < EDGES_MOST; e++)
      made[e] = UINT32_MAX;
    for (uint32_t n = 0; n < graph.view.node_count; n++)
      made[graph.results[n]] = n;
    while (done != before) {
      before = done;
      for (uint32_t n = 0; n < graph.view.node_count; n++)
        if (!placed[n] && is_ready(n, made, placed))
          for (uint32_t m = 0; m < graph.view.node_count; m++)
            if (together(n, m)) {
              placed[m] = 1;
              done++;
            }
    }
    EXPECT(done == graph.view.node_count,
           "claim took groups of graph %d that wait for each other: a path leaves a group and "
           "comes back to it",
           i);
  }
}

static void unknown(tenon_on_t on) {
  diamond(&graph);
  must_claim(on, &graph, &wishes);
  EXPECT(!group_of(1),
         "claim took a node of conformance::unknown, an operator that it cannot know");
  graph_layers(&graph);
  for (uint32_t n = 0; n < graph.view.node_count; n++)
    graph.nodes[n].version = 1000;
  must_claim(on, &graph, &wishes);
  EXPECT(!wishes.count,
         "claim took %s in version 1000, which may differ from the operator in version 1",
         graph.nodes[wishes.at[0].nodes[0]].op);
}

static void taken(tenon_on_t on) {
  chain(&graph);
  for (uint32_t n = 4; n < 8; n++)
    graph.nodes[n].taken = 1;
  must_claim(on, &graph, &wishes);
  for (uint32_t n = 4; n < 8; n++)
    EXPECT(!group_of(n), "claim took node %u, which another device has", n);
  for (uint32_t n = 0; n < 4; n++)
    EXPECT(!group_of(n) || group_of(n) != group_of(n + 8),
           "claim took nodes %u and %u as one group: a path leaves the group through nodes of "
           "another device and comes back",
           n, n + 8);
}

static void not_known(tenon_on_t on) {
  graph_layers(&graph);
  for (uint32_t e = 0; e < graph.view.edge_count; e++)
    if (!graph.edges[e].value) graph.dims[e][0].value = INT64_MIN + 3; /* a symbolic extent */
  must_claim(on, &graph, &wishes);
  graph_layers(&graph);
  for (uint32_t e = 0; e < graph.view.edge_count; e++)
    if (!graph.edges[e].value) {
      graph.edges[e].ndim = -1;
      graph.edges[e].dims = NULL;
    }
  must_claim(on, &graph, &wishes);
  for (uint32_t e = 0; e < graph.view.edge_count; e++)
    graph.edges[e].dtype = (tenon_dtype_t){0, 0, 0};
  must_claim(on, &graph, &wishes);
}

static void again(tenon_on_t on) {
  wishes_t first;
  for (int i = 0; i < SHAPES; i++) {
    shapes[i](&graph);
    must_claim(on, &graph, &first);
    must_claim(on, &graph, &wishes);
    EXPECT(first.count == wishes.count &&
               memcmp(first.at, wishes.at, first.count * sizeof *first.at) == 0,
           "claim of the same graph gave %u groups, then %u different ones: saved compiled groups "
           "could never be reused",
           first.count, wishes.count);
  }
}

static void settings(tenon_on_t on) {
  graph_layers(&graph);
  must_claim(on, &graph, &wishes);
  doing("claim(settings \"no_such_setting=1\")");
  wishes_t second = {.sink = wishes.sink, .graph = &graph};
  tenon_status_t status = rig.table->claim(on, &graph.view, "no_such_setting=1", &second.sink);
  if (status == TENON_OK) return; /* the device ignores settings */
  EXPECT(status == TENON_INVALID,
         "claim with the setting no_such_setting=1: expected TENON_INVALID or TENON_OK, found %s",
         status_name(status));
  EXPECT(strstr(said(), "no_such_setting"),
         "claim with the setting no_such_setting=1: the error does not name the setting: %s",
         said());
}

const case_t claim_cases[] = {
    {"claims.sound", "Groups name nodes of the graph, each once, and have a reason.", NEEDS_CLAIMS,
     sound},
    {"claims.paths",
     "No path leaves a group and comes back, neither within one group nor across groups.",
     NEEDS_CLAIMS, paths},
    {"claims.unknown", "Unknown operators and versions are not claimed.", NEEDS_CLAIMS, unknown},
    {"claims.taken",
     "Nodes of another device are not claimed, and paths through them are considered.",
     NEEDS_CLAIMS, taken},
    {"claims.not_known", "Extents, ranks and dtypes may be unknown.", NEEDS_CLAIMS, not_known},
    {"claims.again", "The same graph is claimed in the same way.", NEEDS_CLAIMS, again},
    {"claims.settings", "An unknown setting is refused by name, or ignored.", NEEDS_CLAIMS,
     settings},
    {0}};
