/* Selects the nodes of a partitioner's subgraphs: a subgraph grows from a node that the strategy
 * accepts, through inputs and readers that it accepts too. Invariant: the result is convex
 * (convex.h). A node that a path returns to is left out, and the subgraph grows again without
 * it. */
#include <string.h>

#include "base/status.h"
#include "graph/partition.h"

/* What `state` says of a node while one subgraph grows. */
enum {
  FREE = 0,
  MEMBER = 1,
  LEFT_OUT = 2,
};

typedef struct growth_t {
  tenon_cut_t *cut;
  tn_groups_t *groups;
  tn_arena_t arena;
  /* of each node: the number from strategy->supported; NULL: the strategy has no such function */
  int32_t *ids;
  int32_t *readers; /* readers of node n: readers[starts[n]] to readers[starts[n + 1] - 1] */
  size_t *starts;
  uint8_t *state;
  int32_t *members; /* in the order in which they were accepted; sorted at the end */
  int32_t count;
  int32_t id; /* number of the growing subgraph, from `ids` */
} growth_t;

static const tenon_strategy_t *strategy_of(const growth_t *g) { return g->cut->strategy; }

/* Readers of nodes */

static void walk_readers(growth_t *g, size_t *next_reader) {
  const tenon_graph_t *graph = g->groups->graph;
  for (size_t n = 0; n < graph->node_count; n++)
    for (uint32_t i = 0; i < graph->nodes[n].op->input_count; i++)
      for (int32_t k = 0; k < graph->nodes[n].operands[i].count; k++) {
        int32_t from = g->groups->producers[graph->nodes[n].operands[i].edges[k]];
        if (from < 0) continue;
        if (g->readers) g->readers[next_reader[from]] = (int32_t)n;
        next_reader[from]++;
      }
}

static tenon_status_t find_readers(growth_t *g) {
  size_t count = g->groups->graph->node_count;
  size_t total = 0;
  size_t *next_reader = tn_arena_array(&g->arena, count + 1, sizeof *next_reader);
  g->starts = tn_arena_array(&g->arena, count + 1, sizeof *g->starts);
  if (!next_reader || !g->starts) return tn_no_memory("readers of nodes", count);
  walk_readers(g, next_reader);
  for (size_t n = 0; n <= count; n++) {
    size_t own = n < count ? next_reader[n] : 0;
    g->starts[n] = total;
    next_reader[n] = total;
    total += own;
  }
  if (!(g->readers = tn_arena_array(&g->arena, total + 1, sizeof *g->readers)))
    return tn_no_memory("readers", total);
  walk_readers(g, next_reader);
  return TENON_OK;
}

/* Asking the strategy */

/* How a node is reached: as the first of a subgraph, as an input or as a reader of a member. */
enum {
  START,
  INPUT,
  OUTPUT,
};

static tenon_status_t ask_strategy(growth_t *g, int how, int32_t node, int32_t other,
                                   int32_t *out) {
  const tenon_strategy_t *s = strategy_of(g);
  *out = 0;
  if (!g->ids && how == START) return s->select(g->cut, other, out);
  if (!g->ids && how == INPUT) return s->select_input(g->cut, node, other, out);
  if (!g->ids) return s->select_output(g->cut, node, other, out);
  int32_t id = g->ids[other];
  if (how == START) g->id = TENON_CUT_ANY;
  if (id == TENON_CUT_NO || (id != TENON_CUT_ANY && g->id != TENON_CUT_ANY && id != g->id))
    return TENON_OK;
  if (id != TENON_CUT_ANY) g->id = id;
  *out = 1;
  return TENON_OK;
}

static tenon_status_t consider_node(growth_t *g, int how, int32_t node, int32_t other) {
  int32_t is_taken;
  if (g->state[other] != FREE || g->groups->group_of[other]) return TENON_OK;
  TN_TRY(ask_strategy(g, how, node, other, &is_taken));
  if (is_taken) {
    g->state[other] = MEMBER;
    g->members[g->count++] = other;
  }
  return TENON_OK;
}

/* One subgraph */

static tenon_status_t grow_once(growth_t *g, int32_t seed) {
  const tenon_graph_t *graph = g->groups->graph;
  g->state[seed] = MEMBER;
  g->members[0] = seed;
  g->count = 1;
  for (int32_t at = 0; at < g->count; at++) {
    int32_t n = g->members[at];
    for (uint32_t i = 0; i < graph->nodes[n].op->input_count; i++)
      for (int32_t k = 0; k < graph->nodes[n].operands[i].count; k++) {
        int32_t from = g->groups->producers[graph->nodes[n].operands[i].edges[k]];
        if (from >= 0) TN_TRY(consider_node(g, INPUT, n, from));
      }
    for (size_t r = g->starts[n]; r < g->starts[n + 1]; r++)
      TN_TRY(consider_node(g, OUTPUT, n, g->readers[r]));
  }
  return TENON_OK;
}

static void sort_members(growth_t *g) {
  int32_t at = 0;
  for (size_t n = 0; n < g->groups->graph->node_count; n++)
    if (g->state[n] == MEMBER) g->members[at++] = (int32_t)n;
}

/* Grows a subgraph from `seed`. If a path returns to a node, grows again without that node; a
 * subgraph of one node is always convex. */
static tenon_status_t grow_subgraph(growth_t *g, int32_t seed) {
  const tenon_strategy_t *s = strategy_of(g);
  int32_t left, back;
  int32_t id = g->id;
  memset(g->state, FREE, g->groups->graph->node_count);
  for (;;) {
    TN_TRY(grow_once(g, seed));
    sort_members(g);
    if (!tn_groups_return(g->groups, g->members, (size_t)g->count, &left, &back)) return TENON_OK;
    if (back == seed) back = g->members[g->members[0] == seed]; /* the path began before the seed */
    for (int32_t i = 0; i < g->count; i++)
      g->state[g->members[i]] = FREE;
    g->state[back] = LEFT_OUT;
    g->id = id;
    if (s->reset) TN_TRY(s->reset(g->cut));
  }
}

static tenon_status_t filter_members(growth_t *g) {
  const tenon_strategy_t *s = strategy_of(g);
  int32_t count = g->count;
  int32_t left, back;
  if (!s->filter) return TENON_OK;
  TN_TRY(s->filter(g->cut, g->members, &count));
  if (count < 0 || count > g->count)
    return tn_fail(TENON_INVALID,
                   "its filter returned %d nodes, expected at most the %d that were selected",
                   (int)count, (int)g->count);
  for (int32_t i = 0; i < count; i++) {
    int32_t n = g->members[i];
    if (n < 0 || (size_t)n >= g->groups->graph->node_count || g->state[n] != MEMBER)
      return tn_fail(TENON_INVALID,
                     "its filter returned node %d, which was not selected or is listed twice",
                     (int)n);
    g->state[n] = FREE;
  }
  memset(g->state, FREE, g->groups->graph->node_count);
  for (int32_t i = 0; i < count; i++)
    g->state[g->members[i]] = MEMBER;
  sort_members(g);
  g->count = count;
  if (!tn_groups_return(g->groups, g->members, (size_t)count, &left, &back)) return TENON_OK;
  return tn_fail(TENON_INVALID,
                 "its filter left out node '%s', but a path through it returns to node '%s' of the "
                 "subgraph: keep both or neither",
                 g->groups->graph->nodes[left].name, g->groups->graph->nodes[back].name);
}

/* All subgraphs */

static tenon_status_t ask_ids(growth_t *g) {
  size_t count = g->groups->graph->node_count;
  g->ids = tn_arena_array(&g->arena, count + 1, sizeof *g->ids);
  if (!g->ids) return tn_no_memory("numbers of subgraphs", count);
  for (size_t n = 0; n < count; n++)
    g->ids[n] = TENON_CUT_NO;
  TN_TRY(strategy_of(g)->supported(g->cut, g->ids));
  for (size_t n = 0; n < count; n++)
    if (g->ids[n] < TENON_CUT_NO)
      return tn_fail(
          TENON_INVALID,
          "node '%s' has subgraph number %d: expected -2 (none), -1 (any) or a number from 0 up",
          g->groups->graph->nodes[n].name, (int)g->ids[n]);
  return TENON_OK;
}

static tenon_status_t select_all(growth_t *g, int32_t *out_count) {
  size_t count = g->groups->graph->node_count;
  g->state = tn_arena_array(&g->arena, count + 1, sizeof *g->state);
  g->members = tn_arena_array(&g->arena, count + 1, sizeof *g->members);
  if (!g->state || !g->members) return tn_no_memory("a subgraph", count);
  TN_TRY(find_readers(g));
  if (strategy_of(g)->supported) TN_TRY(ask_ids(g));
  *out_count = 0;
  for (size_t n = 0; n < count; n++) {
    int32_t is_taken = 0;
    if (!g->groups->group_of[n]) TN_TRY(ask_strategy(g, START, -1, (int32_t)n, &is_taken));
    if (!is_taken) continue;
    TN_TRY(grow_subgraph(g, (int32_t)n));
    TN_TRY(filter_members(g));
    if (g->count) ++*out_count;
    for (int32_t i = 0; i < g->count; i++)
      g->groups->group_of[g->members[i]] = *out_count;
  }
  return TENON_OK;
}

tenon_status_t tn_partition_select(tenon_cut_t *cut, tn_groups_t *groups, int32_t *out_count) {
  growth_t growing = {.cut = cut, .groups = groups};
  tenon_status_t status = select_all(&growing, out_count);
  tn_arena_clear(&growing.arena);
  return status;
}
