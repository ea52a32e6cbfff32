/* What a device's plug-in claims of a graph.  Called by the compiler after the graph is simplified
 * and before nodes are fused, for executables of a device.  Invariant: a group that is taken has
 * neither in itself nor with others a path that leaves it and comes back, so its nodes can stand
 * one after the other. */
#include "graph/passes/claim.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "graph/convex.h"
#include "graph/passes/pass.h"

enum { NAMED = 4 }; /* nodes that a text of a group lists */

typedef struct wish_t { /* a group as the plug-in stated it */
  uint32_t count;
  uint32_t *nodes; /* of the view; rising once they are checked */
  const char *reason;
} wish_t;

typedef struct claiming_t {
  tenon_claims_t sink; /* first: what the plug-in is given */
  tenon_executable_t *executable;
  tn_ordinal_t *ordinal;
  const tenon_compile_t *options;
  const char *settings;
  tn_arena_t arena;
  tn_view_t whole;
  wish_t *wishes;
  size_t wish_count;
  size_t wish_capacity;
  const char **left;  /* of each node: why it was left; NULL: nothing was said */
  tn_groups_t groups; /* of the graph's nodes: 1 + the place among the claims that were taken, 0 */
  tn_text_t back;     /* what was handed back, for the report */
  uint32_t taken;     /* nodes */
} claiming_t;

static const tenon_graph_view_t *view_of(const claiming_t *c) { return &c->whole.view; }
static const tn_node_t *node_of(const claiming_t *c, uint32_t n) {
  return &c->executable->graph->nodes[c->whole.nodes[n]];
}

static int32_t *group_of(const claiming_t *c, uint32_t n) {
  return &c->groups.group_of[c->whole.nodes[n]];
}

/* what the plug-in says */

static tenon_status_t take(tenon_claims_t *sink, uint32_t count, const uint32_t *nodes,
                           const char *reason) {
  claiming_t *c = (claiming_t *)sink;
  if (!reason) reason = "";
  if (!tn_grow((void **)&c->wishes, &c->wish_capacity, c->wish_count, sizeof *c->wishes))
    return tn_no_memory("a claim", count);
  wish_t wish = {count, tn_arena_array(&c->arena, (size_t)count + 1, sizeof *nodes),
                 tn_arena_text(&c->arena, reason, strlen(reason))};
  if (!wish.nodes || !wish.reason) return tn_no_memory("a claim", count);
  if (count) memcpy(wish.nodes, nodes, count * sizeof *nodes);
  c->wishes[c->wish_count++] = wish;
  return TENON_OK;
}

static tenon_status_t leave(tenon_claims_t *sink, uint32_t node, const char *reason) {
  claiming_t *c = (claiming_t *)sink;
  if (node >= view_of(c)->node_count)
    return tn_fail(TENON_RANGE, "a reason for node %u of a graph with %u", node,
                   view_of(c)->node_count);
  if (!reason) return TENON_OK;
  c->left[node] = tn_arena_text(&c->arena, reason, strlen(reason));
  return c->left[node] ? TENON_OK : tn_no_memory("a claim", 0);
}

/* may it be a group? */

static void name_nodes(const claiming_t *c, const wish_t *wish, tn_text_t *text) {
  uint32_t known = 0;
  for (uint32_t i = 0; i < wish->count && known < NAMED; i++)
    if (wish->nodes[i] < view_of(c)->node_count) {
      const tenon_graph_node_t *node = view_of(c)->nodes[wish->nodes[i]];
      tn_text_add(text, "%s%s '%s'", known++ ? ", " : "", node->op, node->name);
    }
  if (wish->count > known)
    tn_text_add(text, "%s%u more", known ? " and " : "", wish->count - known);
}

static int compare(const void *a, const void *b) {
  uint32_t left = *(const uint32_t *)a;
  uint32_t right = *(const uint32_t *)b;
  return left < right ? -1 : left > right;
}

/* Sorts them, too. */
static tenon_status_t check_members(const claiming_t *c, const wish_t *wish) {
  const tenon_graph_view_t *view = view_of(c);
  if (!wish->count) return tn_fail(TENON_INVALID, "it has no nodes");
  qsort(wish->nodes, wish->count, sizeof *wish->nodes, compare);
  for (uint32_t i = 0; i < wish->count; i++) {
    uint32_t n = wish->nodes[i];
    if (n >= view->node_count)
      return tn_fail(TENON_RANGE, "node %u: the graph has %u nodes", n, view->node_count);
    if (i && wish->nodes[i - 1] == n)
      return tn_fail(TENON_INVALID, "node '%s' is in it twice", view->nodes[n]->name);
    if (*group_of(c, n))
      return tn_fail(TENON_EXISTS, "node '%s' is in group %d already", view->nodes[n]->name,
                     (int)*group_of(c, n));
  }
  return TENON_OK;
}

static tenon_status_t check_edge(const tenon_graph_view_t *view, uint32_t place) {
  const tenon_meta_t *edge = view->edges[place];
  const char *name = view->names[place];
  if (!edge->dtype.bits || edge->ndim < 0)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "the type or rank of value '%s' is not known before it runs", name);
  if (tn_dtype_is(edge->dtype, TENON_STRING))
    return tn_fail(TENON_UNIMPLEMENTED, "value '%s' has texts, which are on the host", name);
  if (edge->layout) return tn_fail(TENON_UNIMPLEMENTED, "value '%s' is sparse", name);
  if (edge->value && edge->value->keys & (TN_KEY_STRIDED | TN_KEY_DETAIL))
    return tn_fail(TENON_UNIMPLEMENTED, "constant '%s' is quantised, or not row-major", name);
  return TENON_OK;
}

/* What no group may have: effects, numbers that are drawn, values of the host, shapes that only run
 * knows. */
static tenon_status_t check_node(const claiming_t *c, uint32_t n) {
  const tn_node_t *node = node_of(c, n);
  const tenon_graph_node_t *seen = view_of(c)->nodes[n];
  const tn_schema_t *schema = &node->op->schema;
  if (node->op->traits & TENON_RANDOM)
    return tn_fail(TENON_UNIMPLEMENTED, "it draws random numbers");
  if (seen->taken) return tn_fail(TENON_DENIED, "it is pinned to another device");
  if (!(node->op->traits & TENON_PURE))
    return tn_fail(TENON_UNIMPLEMENTED, "its operator is not pure");
  for (uint32_t i = 0; i < schema->attr_count; i++) {
    uint32_t kind = node->attrs[i].kind;
    if (kind == TENON_KIND_GRAPH || kind == TENON_KIND_TENSOR || kind == TENON_KIND_TENSORS)
      return tn_fail(TENON_UNIMPLEMENTED, "its attribute %s is a graph or a tensor",
                     schema->attrs[i].name);
  }
  for (uint32_t i = 0; i < schema->input_count; i++) {
    if (schema->inputs[i].is_written)
      return tn_fail(TENON_UNIMPLEMENTED, "it writes to its input %s", schema->inputs[i].name);
    for (uint32_t k = seen->starts[i]; k < seen->starts[i + 1]; k++) {
      if (schema->inputs[i].is_host && !view_of(c)->edges[seen->inputs[k]]->value)
        return tn_fail(TENON_UNIMPLEMENTED,
                       "its input %s is a value of the host, and '%s' is no constant",
                       schema->inputs[i].name, view_of(c)->names[seen->inputs[k]]);
      TN_TRY(check_edge(view_of(c), seen->inputs[k]));
    }
  }
  if (node->is_bounded)
    return tn_fail(TENON_UNIMPLEMENTED, "the shape of its result is known only after it has run");
  for (uint32_t o = 0; o < schema->output_count; o++)
    if (schema->outputs[o].is_host)
      return tn_fail(TENON_UNIMPLEMENTED, "its result %s is a value of the host",
                     schema->outputs[o].name);
  for (uint32_t o = 0; o < seen->output_count; o++)
    TN_TRY(check_edge(view_of(c), seen->outputs[o]));
  return TENON_OK;
}

static tenon_status_t check_paths(claiming_t *c, const wish_t *wish) {
  const tn_node_t *nodes = c->executable->graph->nodes;
  int32_t *members = tn_arena_array(&c->arena, wish->count, sizeof *members);
  int32_t left, back;
  if (!members) return tn_no_memory("a claim", wish->count);
  for (uint32_t i = 0; i < wish->count; i++)
    members[i] = c->whole.nodes[wish->nodes[i]];
  if (!tn_groups_return(&c->groups, members, wish->count, &left, &back)) return TENON_OK;
  return tn_fail(TENON_PRECONDITION,
                 "a path leaves it, by node '%s' (%s), and comes back to node '%s' (%s): neither "
                 "could run first",
                 nodes[left].name, nodes[left].op->name, nodes[back].name, nodes[back].op->name);
}

static tenon_status_t check(claiming_t *c, const wish_t *wish) {
  TN_TRY(check_members(c, wish));
  for (uint32_t i = 0; i < wish->count; i++) {
    const tenon_graph_node_t *node = view_of(c)->nodes[wish->nodes[i]];
    tenon_status_t status = check_node(c, wish->nodes[i]);
    if (status != TENON_OK) return tn_prefix(status, "node '%s' (%s): ", node->name, node->op);
  }
  return check_paths(c, wish);
}

/* taking */

static tenon_status_t compile(claiming_t *c, const wish_t *wish, tn_claim_t *claim) {
  tenon_executable_t *e = c->executable;
  tn_text_t name = {0};
  int32_t *nodes = tn_arena_array(&c->arena, wish->count, sizeof *nodes);
  if (!nodes) return tn_no_memory("a claim", wish->count);
  for (uint32_t i = 0; i < wish->count; i++)
    nodes[i] = c->whole.nodes[wish->nodes[i]];
  TN_TRY(tn_view_create(e->graph, nodes, wish->count, &claim->arena, &claim->view));
  if (!claim->view.view.output_count) return tn_fail(TENON_PRECONDITION, "nobody uses its results");
  tn_text_add(&name, "group %zu (", e->claim_count + 1);
  name_nodes(c, wish, &name);
  tn_text_add(&name, ")");
  tenon_status_t status = name.failed ? tn_no_memory("a claim", name.size)
                                      : tn_group_create(c->ordinal, &claim->view.view, c->settings,
                                                        tn_text_get(&name), &claim->group);
  tn_text_clear(&name);
  return status;
}

static void hand_back(claiming_t *c, const wish_t *wish) {
  tn_text_add(&c->back, "  handed back: ");
  name_nodes(c, wish, &c->back);
  tn_text_add(&c->back, ": %s\n", tn_error());
  if (*wish->reason) tn_text_add(&c->back, "    was claimed as: %s\n", wish->reason);
}

/* Whatever is wrong with it, the graph runs without it. */
static void take_wish(claiming_t *c, const wish_t *wish, tn_text_t *report) {
  tenon_executable_t *e = c->executable;
  tn_claim_t claim = {0};
  tenon_status_t status = check(c, wish);
  if (status == TENON_OK) status = compile(c, wish, &claim);
  if (status != TENON_OK) {
    hand_back(c, wish);
    tn_arena_clear(&claim.arena);
    return;
  }
  e->claims[e->claim_count++] = claim;
  for (uint32_t i = 0; i < wish->count; i++)
    *group_of(c, wish->nodes[i]) = (int32_t)e->claim_count;
  c->taken += wish->count;
  tn_text_add(report, "  %s: %u nodes%s%s\n", claim.group->name, wish->count,
              *wish->reason ? ": " : "", wish->reason);
}

/* Nodes of a group one after the other. */
static tenon_status_t arrange(claiming_t *c) {
  tenon_graph_t *g = c->executable->graph;
  size_t count;
  int32_t *order = tn_arena_array(&c->arena, g->node_count + 1, sizeof *order);
  tn_node_t *nodes = tn_arena_array(&c->arena, g->node_count + 1, sizeof *nodes);
  if (!order || !nodes) return tn_no_memory("an order of nodes", g->node_count);
  TN_TRY(tn_groups_order(&c->groups, &c->arena, order, &count));
  for (size_t i = 0; i < count; i++) {
    nodes[i] = g->nodes[order[i]];
    nodes[i].group = c->groups.group_of[order[i]];
  }
  memcpy(g->nodes, nodes, count * sizeof *nodes);
  g->node_count = count;
  for (size_t n = 0; n < count; n++)
    for (int32_t o = 0; o < g->nodes[n].output_count; o++)
      g->edges[g->nodes[n].outputs[o]].producer = (int32_t)n;
  return TENON_OK;
}

/* the pass */

/* Nodes that were left with a word, by operator and reason. */
static void report_left(const claiming_t *c, tn_text_t *report) {
  const tenon_graph_view_t *view = view_of(c);
  for (uint32_t n = 0; n < view->node_count; n++) {
    uint32_t count = 0;
    bool is_first = c->left[n] && !*group_of(c, n);
    for (uint32_t k = 0; k < view->node_count && is_first; k++) {
      if (!c->left[k] || *group_of(c, k) || strcmp(c->left[k], c->left[n]) ||
          strcmp(view->nodes[k]->op, view->nodes[n]->op))
        continue;
      is_first = k >= n;
      count++;
    }
    if (is_first)
      tn_text_add(report, "  left: %u of %s: %s\n", count, view->nodes[n]->op, c->left[n]);
  }
}

static bool is_taken(const claiming_t *c, const tn_node_t *node) {
  const tenon_pin_t *pin = tn_pin_of(c->options, node);
  tenon_device_t own = c->ordinal->context.device;
  return node->group || (pin && (pin->device.type != own.type || pin->device.id != own.id));
}

static tenon_status_t prepare(claiming_t *c) {
  const tenon_graph_t *g = c->executable->graph;
  int32_t *nodes = tn_arena_array(&c->arena, g->node_count + 1, sizeof *nodes);
  uint32_t count = 0;
  if (!nodes) return tn_no_memory("claims", g->node_count);
  for (size_t n = 0; n < g->node_count; n++)
    if (g->nodes[n].op) nodes[count++] = (int32_t)n;
  TN_TRY(tn_view_create(g, nodes, count, &c->arena, &c->whole));
  c->left = tn_arena_array(&c->arena, count + 1, sizeof *c->left);
  if (!c->left) return tn_no_memory("claims", count);
  TN_TRY(tn_groups_create(g, &c->arena, &c->groups));
  for (size_t n = 0; n < g->node_count; n++)
    c->groups.group_of[n] = g->nodes[n].group; /* of devices before this one */
  for (uint32_t n = 0; n < count; n++)         /* the view is this pass's own */
    ((tenon_graph_node_t *)(uintptr_t)view_of(c)->nodes[n])->taken = is_taken(c, node_of(c, n));
  return TENON_OK;
}

static tenon_status_t claim(claiming_t *c, tn_text_t *report) {
  tenon_executable_t *e = c->executable;
  tn_text_t taken = {0};
  TN_TRY(prepare(c));
  tenon_status_t status =
      c->ordinal->table->claim(&c->ordinal->context, view_of(c), c->settings, &c->sink);
  if (status == TENON_INVALID)
    return tn_prefix(status, "claims of device %s: ", c->ordinal->plugin->name);
  if (status != TENON_OK) {
    tn_text_add(report, "nothing is claimed: %s\n", tn_error());
    return TENON_OK;
  }
  size_t before = e->claim_count;
  size_t most = before + c->wish_count + 1;
  tn_claim_t *claims = tn_reallocate(e->claims, most * sizeof *claims);
  if (claims) e->claims = claims;
  if (!claims) return tn_no_memory("claims", c->wish_count);
  for (size_t i = 0; i < c->wish_count; i++)
    take_wish(c, &c->wishes[i], &taken);
  if (e->claim_count > before) status = arrange(c);
  tn_text_add(report, "%zu %s with %u of %u nodes\n%s%s", e->claim_count - before,
              e->claim_count == before + 1 ? "group" : "groups", c->taken, view_of(c)->node_count,
              tn_text_get(&taken), tn_text_get(&c->back));
  report_left(c, report);
  tn_text_clear(&taken);
  return status;
}

static tenon_status_t ask(tenon_executable_t *e, tenon_device_t device,
                          const tenon_compile_t *options, tn_text_t *report) {
  const char *settings = options->claims ? options->claims : "";
  claiming_t c = {.sink = {sizeof c.sink, 0, take, leave},
                  .executable = e,
                  .options = options,
                  .settings = settings};
  tenon_status_t status = TENON_OK;
  if (device.type <= 1 || !tn_plugin_of(device)) return TENON_OK;
  TN_TRY(tn_ordinal_get(device, &c.ordinal));
  tn_text_add(report, "claims of %s:%d: ", c.ordinal->plugin->name,
              (int)c.ordinal->context.ordinal);
  if (strcmp(settings, "off") == 0)
    tn_text_add(report, "switched off\n");
  else if (!TN_SLOT(c.ordinal->table, claim))
    tn_text_add(report, "none: its plug-in claims nothing\n");
  else
    status = claim(&c, report);
  tn_release_memory(c.wishes);
  tn_arena_clear(&c.arena);
  tn_text_clear(&c.back);
  return status;
}

tenon_status_t tn_pass_claim(tenon_executable_t *e, const tenon_compile_t *options) {
  tn_text_t report = {0};
  TN_TRY(tn_pass_infer(e->graph));
  tenon_status_t status = ask(e, options->device, options, &report);
  for (uint32_t i = 0; i < options->device_count && status == TENON_OK; i++)
    status = ask(e, options->devices[i], options, &report);
  if (status == TENON_OK && report.size && !(e->claim_report = tn_text_take(&report)))
    status = TENON_MEMORY;
  tn_text_clear(&report);
  return status;
}
