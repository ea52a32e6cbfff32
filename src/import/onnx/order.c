/* Sorts nodes that are not in topological order. ONNX demands the order, but several tools write
 * files without it, and other runtimes sort. Called by graph.c for every list of nodes.
 * Invariant: a list that is in order keeps its order. */
#include "import/onnx/order.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"

/* A graph in an attribute of a node: the values that it defines hide those of the same name in the
 * graphs around it. */
typedef struct body_t {
  const struct body_t *outer; /* NULL: the graph is in an attribute of a node of the list */
  tn_map_t names;
} body_t;

typedef struct order_t {
  const tn_scope_t *scope;
  const tn_onnx_node_t *nodes;
  size_t count;
  tn_map_t makers; /* 1 + the index of the node that defines a value, by name */
  size_t node;     /* whose uses are listed */
  size_t *uses;    /* NULL: they are only counted */
  size_t use_count;
  const char *early; /* a value that a node before its definition uses; NULL: none */
  size_t user;
  const size_t *cycle; /* nodes of which each uses a result of the next */
  size_t cycle_size;   /* 0: there is no cycle */
} order_t;

static bool is_visible(const tn_scope_t *scope, const char *name) {
  while (scope && !tn_map_get(&scope->edges, name, strlen(name)))
    scope = scope->outer;
  return scope != NULL;
}

static void list_use(order_t *order, const body_t *body, const char *name) {
  size_t maker = (uintptr_t)tn_map_get(&order->makers, name, strlen(name));
  if (!*name || !maker || is_visible(order->scope, name)) return;
  for (; body; body = body->outer)
    if (tn_map_get(&body->names, name, strlen(name))) return;
  if (maker - 1 >= order->node && !order->early) {
    order->early = name;
    order->user = order->node;
  }
  if (order->uses) order->uses[order->use_count] = maker - 1;
  order->use_count++;
}

static tenon_status_t hide_name(body_t *body, const char *name) {
  if (tn_map_put(&body->names, name, strlen(name), body)) return TENON_OK;
  return tn_no_memory("the values of a graph", 0);
}

static tenon_status_t hide_names(body_t *body, const tn_onnx_graph_t *graph) {
  for (size_t i = 0; i < graph->inputs.count; i++)
    TN_TRY(hide_name(body, graph->inputs.items[i].name));
  for (size_t i = 0; i < graph->initialisers.count; i++)
    TN_TRY(hide_name(body, graph->initialisers.items[i].name));
  for (size_t i = 0; i < graph->sparse_initialisers.count; i++)
    if (graph->sparse_initialisers.items[i].values)
      TN_TRY(hide_name(body, graph->sparse_initialisers.items[i].values->name));
  for (size_t i = 0; i < graph->nodes.count; i++)
    for (size_t k = 0; k < graph->nodes.items[i].outputs.count; k++)
      TN_TRY(hide_name(body, graph->nodes.items[i].outputs.items[k]));
  return TENON_OK;
}

static tenon_status_t list_uses(order_t *order, const tn_onnx_node_t *node, const body_t *body,
                                int depth);

static tenon_status_t list_graph_uses(order_t *order, const tn_onnx_graph_t *graph,
                                      const body_t *outer, int depth) {
  body_t body = {outer, {0}};
  tenon_status_t status = hide_names(&body, graph);
  for (size_t i = 0; i < graph->nodes.count && status == TENON_OK; i++)
    status = list_uses(order, &graph->nodes.items[i], &body, depth);
  for (size_t i = 0; i < graph->outputs.count && status == TENON_OK; i++)
    list_use(order, &body, graph->outputs.items[i].name);
  tn_map_clear(&body.names);
  return status;
}

/* Lists the values that a node uses, also those that the graphs in its attributes use. */
static tenon_status_t list_uses(order_t *order, const tn_onnx_node_t *node, const body_t *body,
                                int depth) {
  for (size_t i = 0; i < node->inputs.count; i++)
    list_use(order, body, node->inputs.items[i]);
  for (size_t i = 0; i < node->attributes.count; i++) {
    const tn_onnx_graph_t *graph = node->attributes.items[i].g;
    if (graph && depth <= TN_IMPORT_DEPTH) TN_TRY(list_graph_uses(order, graph, body, depth + 1));
  }
  return TENON_OK;
}

static tenon_status_t list_makers(order_t *order) {
  for (size_t i = 0; i < order->count; i++)
    for (size_t k = 0; k < order->nodes[i].outputs.count; k++) {
      const char *name = order->nodes[i].outputs.items[k];
      if (!*name || tn_map_get(&order->makers, name, strlen(name))) continue;
      if (!tn_map_put(&order->makers, name, strlen(name), (void *)(uintptr_t)(i + 1)))
        return tn_no_memory("the order of nodes", order->count);
    }
  return TENON_OK;
}

/* The nodes on the stack use each other's results, and the last one uses a result of `maker`. */
static void keep_cycle(order_t *order, const size_t *stack, size_t depth, size_t maker) {
  size_t first = depth - 1;
  while (stack[first] != maker)
    first--;
  order->cycle = stack + first;
  order->cycle_size = depth - first;
}

/* Lists the nodes depth first. begin[i] to begin[i + 1] are the uses of node i. Returns the number
 * of listed nodes, which is smaller than `count` if there is a cycle. */
static size_t sort_nodes(order_t *order, size_t *begin, size_t *stack, size_t *next,
                         size_t *out_order) {
  size_t done = 0;
  for (size_t root = 0; root < order->count; root++) {
    size_t depth = 0;
    if (next[root]) continue;
    stack[depth++] = root;
    next[root] = begin[root] + 1;
    while (depth) {
      size_t node = stack[depth - 1];
      if (next[node] - 1 == begin[node + 1]) {
        next[node]++; /* beyond the last use: the node is listed */
        out_order[done++] = node;
        depth--;
        continue;
      }
      size_t maker = order->uses[next[node]++ - 1];
      if (next[maker] > begin[maker + 1] + 1) continue;
      if (next[maker]) {
        keep_cycle(order, stack, depth, maker);
        return done;
      }
      stack[depth++] = maker;
      next[maker] = begin[maker] + 1;
    }
  }
  return done;
}

static void note_order(const order_t *order) {
  const tn_onnx_node_t *user = &order->nodes[order->user];
  fprintf(stderr,
          "tenon: note: node '%.200s' (%.100s) uses '%.200s' before the node that defines it: the "
          "nodes of the file are not in topological order, and were sorted\n",
          tn_onnx_node_name(user), user->type, order->early);
}

/* Refuses the cycle that was found, which may have any number of nodes. */
static tenon_status_t refuse_cycle(const order_t *order) {
  enum { NAMED_MOST = 8 };
  tn_text_t text = {0};
  size_t count = order->cycle_size < NAMED_MOST ? order->cycle_size : NAMED_MOST;
  tn_text_add(&text, count == 1 ? "node " : "the nodes ");
  for (size_t i = 0; i < count; i++) {
    const tn_onnx_node_t *node = &order->nodes[order->cycle[i]];
    tn_text_add(&text, "%s'%.200s' (%.100s)", i ? ", " : "", tn_onnx_node_name(node), node->type);
  }
  if (order->cycle_size > count) tn_text_add(&text, " and %zu more", order->cycle_size - count);
  if (count == 1)
    tn_text_add(&text, " is a cycle: it uses its own result");
  else
    tn_text_add(&text,
                " form a cycle: each uses a result of the next one, and the last a result of the "
                "first");
  tenon_status_t status = text.failed ? tn_no_memory("the description of a cycle", 0)
                                      : tn_fail(TENON_INVALID, "%s", tn_text_get(&text));
  tn_text_clear(&text);
  return status;
}

static tenon_status_t find_order(order_t *order, tn_arena_t *arena, const size_t **out_order) {
  TN_TRY(list_makers(order));
  for (order->node = 0; order->node < order->count; order->node++)
    TN_TRY(list_uses(order, &order->nodes[order->node], NULL, 0));
  if (!order->early) return TENON_OK;
  size_t count = order->count;
  size_t *begin = tn_arena_array(arena, count + 1, sizeof *begin);
  size_t *stack = tn_arena_array(arena, count + 1, sizeof *stack);
  size_t *next = tn_arena_array(arena, count + 1, sizeof *next);
  size_t *sorted = tn_arena_array(arena, count + 1, sizeof *sorted);
  order->uses = tn_arena_array(arena, order->use_count + 1, sizeof *order->uses);
  if (!begin || !stack || !next || !sorted || !order->uses)
    return tn_no_memory("the order of nodes", count);
  memset(next, 0, (count + 1) * sizeof *next);
  order->use_count = 0;
  for (order->node = 0; order->node < count; order->node++) {
    begin[order->node] = order->use_count;
    TN_TRY(list_uses(order, &order->nodes[order->node], NULL, 0));
  }
  begin[count] = order->use_count;
  if (sort_nodes(order, begin, stack, next, sorted) < count) return refuse_cycle(order);
  note_order(order);
  *out_order = sorted;
  return TENON_OK;
}

tenon_status_t tn_nodes_order(tn_import_t *import, const tn_scope_t *scope,
                              const tn_onnx_node_t *nodes, size_t count, const size_t **out_order) {
  order_t order = {.scope = scope, .nodes = nodes, .count = count};
  *out_order = NULL;
  tenon_status_t status = find_order(&order, &import->arena, out_order);
  tn_map_clear(&order.makers);
  return status;
}
