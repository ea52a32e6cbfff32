/* Asks each device's plug-in which nodes it wants to run as one (its `claim` function), checks
 * these groups, and has the device compile them. Called by the compiler after simplification and
 * before fusion, for executables of a device. Invariant: no path leaves an accepted group and
 * returns to it, also not through other groups, so that its nodes can stand one after the other. */
#include "graph/passes/offload.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "graph/convex.h"
#include "graph/passes/pass.h"

enum { NAMED = 4 }; /* nodes that the text about a group names */

/* A group as the plug-in claimed it. */
typedef struct claim_t {
  uint32_t count;
  uint32_t *nodes; /* indices in the view; sorted when they are checked */
  const char *reason;
} claim_t;

typedef struct offload_pass_t {
  tenon_claims_t sink; /* the interface that the plug-in receives; must be first */
  tenon_executable_t *executable;
  tn_ordinal_t *ordinal;
  const tenon_compile_t *options;
  const char *settings;
  tn_arena_t arena;
  tn_view_t whole;
  claim_t *claims;
  size_t claim_count;
  size_t claim_capacity;
  const char **declined; /* of each node: why the device declined it; NULL: it gave no reason */
  tn_groups_t groups;    /* of the graph's nodes: 1 + index of the accepted subgraph; 0: none */
  tn_text_t rejected;    /* rejected groups, for the report */
  uint32_t taken;        /* number of nodes in accepted groups */
} offload_pass_t;

static const tenon_graph_view_t *view_of(const offload_pass_t *c) { return &c->whole.view; }
static const tn_node_t *viewed_node(const offload_pass_t *c, uint32_t n) {
  return &c->executable->graph->nodes[c->whole.nodes[n]];
}

static int32_t *group_of(const offload_pass_t *c, uint32_t n) {
  return &c->groups.group_of[c->whole.nodes[n]];
}

/* What the plug-in says */

static tenon_status_t take_group(tenon_claims_t *sink, uint32_t count, const uint32_t *nodes,
                                 const char *reason) {
  offload_pass_t *c = (offload_pass_t *)sink;
  if (!reason) reason = "";
  if (!tn_grow((void **)&c->claims, &c->claim_capacity, c->claim_count, sizeof *c->claims))
    return tn_no_memory("a claim", count);
  claim_t claim = {count, tn_arena_array(&c->arena, (size_t)count + 1, sizeof *nodes),
                   tn_arena_text(&c->arena, reason, strlen(reason))};
  if (!claim.nodes || !claim.reason) return tn_no_memory("a claim", count);
  if (count) memcpy(claim.nodes, nodes, count * sizeof *nodes);
  c->claims[c->claim_count++] = claim;
  return TENON_OK;
}

static tenon_status_t leave_node(tenon_claims_t *sink, uint32_t node, const char *reason) {
  offload_pass_t *c = (offload_pass_t *)sink;
  if (node >= view_of(c)->node_count)
    return tn_fail(TENON_RANGE, "the reason is for node %u, but the graph has %u nodes", node,
                   view_of(c)->node_count);
  if (!reason) return TENON_OK;
  c->declined[node] = tn_arena_text(&c->arena, reason, strlen(reason));
  return c->declined[node] ? TENON_OK : tn_no_memory("a claim", 0);
}

/* Whether a claimed group can be offloaded */

static void name_nodes(const offload_pass_t *c, const claim_t *claim, tn_text_t *text) {
  uint32_t known = 0;
  for (uint32_t i = 0; i < claim->count && known < NAMED; i++)
    if (claim->nodes[i] < view_of(c)->node_count) {
      const tenon_graph_node_t *node = view_of(c)->nodes[claim->nodes[i]];
      tn_text_add(text, "%s%s '%s'", known++ ? ", " : "", node->op, node->name);
    }
  if (claim->count > known)
    tn_text_add(text, "%s%u more", known ? " and " : "", claim->count - known);
}

static int compare_indices(const void *a, const void *b) {
  uint32_t left = *(const uint32_t *)a;
  uint32_t right = *(const uint32_t *)b;
  return left < right ? -1 : left > right;
}

/* Checks the members of a group, and sorts them. */
static tenon_status_t check_members(const offload_pass_t *c, const claim_t *claim) {
  const tenon_graph_view_t *view = view_of(c);
  if (!claim->count) return tn_fail(TENON_INVALID, "it has no nodes");
  qsort(claim->nodes, claim->count, sizeof *claim->nodes, compare_indices);
  for (uint32_t i = 0; i < claim->count; i++) {
    uint32_t n = claim->nodes[i];
    if (n >= view->node_count)
      return tn_fail(TENON_RANGE, "node %u does not exist: the graph has %u nodes", n,
                     view->node_count);
    if (i && claim->nodes[i - 1] == n)
      return tn_fail(TENON_INVALID, "node '%s' is listed twice", view->nodes[n]->name);
    if (*group_of(c, n))
      return tn_fail(TENON_EXISTS, "node '%s' is in subgraph %d already", view->nodes[n]->name,
                     (int)*group_of(c, n));
  }
  return TENON_OK;
}

static tenon_status_t check_edge(const tenon_graph_view_t *view, uint32_t place) {
  const tenon_meta_t *edge = view->edges[place];
  const char *name = view->names[place];
  if (!edge->dtype.bits || edge->ndim < 0)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "the type or rank of value '%s' is known only after the run", name);
  if (tn_dtype_is(edge->dtype, TENON_STRING))
    return tn_fail(TENON_UNIMPLEMENTED, "value '%s' is a tensor of strings, which stay on the host",
                   name);
  if (edge->layout) return tn_fail(TENON_UNIMPLEMENTED, "value '%s' is sparse", name);
  if (edge->value && edge->value->keys & (TN_KEY_STRIDED | TN_KEY_DETAIL))
    return tn_fail(TENON_UNIMPLEMENTED,
                   "constant '%s' is quantised or strided: expected a row-major tensor", name);
  return TENON_OK;
}

/* Checks the results that something reads. The type of another one may be unknown. */
static tenon_status_t check_results(const offload_pass_t *c, const tn_node_t *node,
                                    const tenon_graph_node_t *seen) {
  const tn_schema_t *schema = &node->op->schema;
  uint32_t at = 0;
  for (uint32_t o = 0; o < schema->output_count; o++) {
    const bool is_wanted = !node->wanted || node->wanted >> o & 1;
    uint32_t count = 1;
    if (schema->outputs[o].kind == TENON_KIND_TENSORS)
      count = seen->output_count - at - (schema->output_count - o - 1);
    for (uint32_t k = 0; k < count && at < seen->output_count; k++, at++)
      if (is_wanted) TN_TRY(check_edge(view_of(c), seen->outputs[at]));
  }
  return TENON_OK;
}

/* Checks that the node can be part of a subgraph. Excluded are side effects, random numbers, host
 * values, and shapes that are known only after the node has run. */
static tenon_status_t check_node(const offload_pass_t *c, uint32_t n) {
  const tn_node_t *node = viewed_node(c, n);
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
                       "its input %s must be a host value, and '%s' is not a constant",
                       schema->inputs[i].name, view_of(c)->names[seen->inputs[k]]);
      TN_TRY(check_edge(view_of(c), seen->inputs[k]));
    }
  }
  if (node->is_bounded)
    return tn_fail(TENON_UNIMPLEMENTED, "the shape of its result is known only after it has run");
  for (uint32_t o = 0; o < schema->output_count; o++)
    if (schema->outputs[o].is_host)
      return tn_fail(TENON_UNIMPLEMENTED, "its result %s is a host value", schema->outputs[o].name);
  return check_results(c, node, seen);
}

static tenon_status_t check_paths(offload_pass_t *c, const claim_t *claim) {
  const tn_node_t *nodes = c->executable->graph->nodes;
  int32_t *members = tn_arena_array(&c->arena, claim->count, sizeof *members);
  int32_t left, back;
  if (!members) return tn_no_memory("a claim", claim->count);
  for (uint32_t i = 0; i < claim->count; i++)
    members[i] = c->whole.nodes[claim->nodes[i]];
  if (!tn_groups_return(&c->groups, members, claim->count, &left, &back)) return TENON_OK;
  return tn_fail(TENON_PRECONDITION,
                 "a path leaves the group through node '%s' (%s) and returns to node '%s' (%s), so "
                 "neither can run first",
                 nodes[left].name, nodes[left].op->name, nodes[back].name, nodes[back].op->name);
}

static tenon_status_t check_group(offload_pass_t *c, const claim_t *claim) {
  TN_TRY(check_members(c, claim));
  for (uint32_t i = 0; i < claim->count; i++) {
    const tenon_graph_node_t *node = view_of(c)->nodes[claim->nodes[i]];
    tenon_status_t status = check_node(c, claim->nodes[i]);
    if (status != TENON_OK) return tn_prefix(status, "node '%s' (%s): ", node->name, node->op);
  }
  return check_paths(c, claim);
}

/* Offloading */

static tenon_status_t compile_group(offload_pass_t *c, const claim_t *claim,
                                    tn_offload_t *offload) {
  tenon_executable_t *e = c->executable;
  tn_text_t name = {0};
  int32_t *nodes = tn_arena_array(&c->arena, claim->count, sizeof *nodes);
  if (!nodes) return tn_no_memory("a claim", claim->count);
  for (uint32_t i = 0; i < claim->count; i++)
    nodes[i] = c->whole.nodes[claim->nodes[i]];
  TN_TRY(tn_view_create(e->graph, nodes, claim->count, &offload->arena, &offload->view));
  if (!offload->view.view.output_count)
    return tn_fail(TENON_PRECONDITION, "none of its results is used");
  tn_text_add(&name, "subgraph %zu (", e->offload_count + 1);
  name_nodes(c, claim, &name);
  tn_text_add(&name, ")");
  tenon_status_t status = name.failed
                              ? tn_no_memory("a claim", name.size)
                              : tn_group_create(c->ordinal, &offload->view.view, c->settings,
                                                tn_text_get(&name), &offload->group);
  tn_text_clear(&name);
  return status;
}

static void reject_claim(offload_pass_t *c, const claim_t *claim) {
  tn_text_add(&c->rejected, "  rejected: ");
  name_nodes(c, claim, &c->rejected);
  tn_text_add(&c->rejected, ": %s\n", tn_error());
  if (*claim->reason)
    tn_text_add(&c->rejected, "    claimed by the device as: %s\n", claim->reason);
}

/* Offloads a claimed group. If anything is wrong with it, the report says so, and the graph runs
 * without it. */
static void offload_group(offload_pass_t *c, const claim_t *claim, tn_text_t *report) {
  tenon_executable_t *e = c->executable;
  tn_offload_t offload = {0};
  tenon_status_t status = check_group(c, claim);
  if (status == TENON_OK) status = compile_group(c, claim, &offload);
  if (status != TENON_OK) {
    reject_claim(c, claim);
    tn_arena_clear(&offload.arena);
    return;
  }
  e->offloads[e->offload_count++] = offload;
  for (uint32_t i = 0; i < claim->count; i++)
    *group_of(c, claim->nodes[i]) = (int32_t)e->offload_count;
  c->taken += claim->count;
  tn_text_add(report, "  %s: %u nodes%s%s\n", offload.group->name, claim->count,
              *claim->reason ? ": " : "", claim->reason);
}

/* Reorders the graph so that the nodes of each subgraph stand one after the other. */
static tenon_status_t reorder_graph(offload_pass_t *c) {
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

/* The pass */

/* Reports the nodes that the device declined with a reason, by operator and reason. */
static void report_declined(const offload_pass_t *c, tn_text_t *report) {
  const tenon_graph_view_t *view = view_of(c);
  for (uint32_t n = 0; n < view->node_count; n++) {
    uint32_t count = 0;
    bool is_first = c->declined[n] && !*group_of(c, n);
    for (uint32_t k = 0; k < view->node_count && is_first; k++) {
      if (!c->declined[k] || *group_of(c, k) || strcmp(c->declined[k], c->declined[n]) ||
          strcmp(view->nodes[k]->op, view->nodes[n]->op))
        continue;
      is_first = k >= n;
      count++;
    }
    if (is_first)
      tn_text_add(report, "  declined by the device: %u of %s: %s\n", count, view->nodes[n]->op,
                  c->declined[n]);
  }
}

static bool is_unavailable(const offload_pass_t *c, const tn_node_t *node) {
  const tenon_pin_t *pin = tn_pin_of(c->options, node);
  tenon_device_t own = c->ordinal->context.device;
  return node->group || (pin && (pin->device.type != own.type || pin->device.id != own.id));
}

static tenon_status_t prepare_view(offload_pass_t *c) {
  const tenon_graph_t *g = c->executable->graph;
  int32_t *nodes = tn_arena_array(&c->arena, g->node_count + 1, sizeof *nodes);
  uint32_t count = 0;
  if (!nodes) return tn_no_memory("claims", g->node_count);
  for (size_t n = 0; n < g->node_count; n++)
    if (g->nodes[n].op) nodes[count++] = (int32_t)n;
  TN_TRY(tn_view_create(g, nodes, count, &c->arena, &c->whole));
  c->declined = tn_arena_array(&c->arena, count + 1, sizeof *c->declined);
  if (!c->declined) return tn_no_memory("claims", count);
  TN_TRY(tn_groups_create(g, &c->arena, &c->groups));
  for (size_t n = 0; n < g->node_count; n++)
    c->groups.group_of[n] = g->nodes[n].group; /* subgraphs of devices that were asked before */
  for (uint32_t n = 0; n < count; n++)         /* the pass owns the view */
    ((tenon_graph_node_t *)(uintptr_t)view_of(c)->nodes[n])->taken =
        is_unavailable(c, viewed_node(c, n));
  return TENON_OK;
}

static tenon_status_t ask_plugin(offload_pass_t *c, tn_text_t *report) {
  tenon_executable_t *e = c->executable;
  tn_text_t taken = {0};
  TN_TRY(prepare_view(c));
  tenon_status_t status =
      c->ordinal->table->claim(&c->ordinal->context, view_of(c), c->settings, &c->sink);
  if (status == TENON_INVALID)
    return tn_prefix(status, "offload to device %s: ", c->ordinal->plugin->name);
  if (status != TENON_OK) {
    tn_text_add(report, "nothing is offloaded: %s\n", tn_error());
    return TENON_OK;
  }
  size_t before = e->offload_count;
  size_t most = before + c->claim_count + 1;
  tn_offload_t *offloads = tn_reallocate(e->offloads, most * sizeof *offloads);
  if (offloads) e->offloads = offloads;
  if (!offloads) return tn_no_memory("claims", c->claim_count);
  for (size_t i = 0; i < c->claim_count; i++)
    offload_group(c, &c->claims[i], &taken);
  if (e->offload_count > before) status = reorder_graph(c);
  tn_text_add(report, "%zu %s with %u of %u nodes\n%s%s", e->offload_count - before,
              e->offload_count == before + 1 ? "subgraph" : "subgraphs", c->taken,
              view_of(c)->node_count, tn_text_get(&taken), tn_text_get(&c->rejected));
  report_declined(c, report);
  tn_text_clear(&taken);
  return status;
}

static tenon_status_t ask_device(tenon_executable_t *e, tenon_device_t device,
                                 const tenon_compile_t *options, tn_text_t *report) {
  const char *settings = options->claims ? options->claims : "";
  offload_pass_t c = {.sink = {sizeof c.sink, 0, take_group, leave_node},
                      .executable = e,
                      .options = options,
                      .settings = settings};
  tenon_status_t status = TENON_OK;
  if (device.type <= 1 || !tn_plugin_of(device)) return TENON_OK;
  TN_TRY(tn_ordinal_get(device, &c.ordinal));
  tn_text_add(report, "offload to %s:%d: ", c.ordinal->plugin->name,
              (int)c.ordinal->context.ordinal);
  if (strcmp(settings, "off") == 0)
    tn_text_add(report, "switched off\n");
  else if (!TN_SLOT(c.ordinal->table, claim))
    tn_text_add(report, "none: its plug-in has no claim function\n");
  else
    status = ask_plugin(&c, report);
  tn_release_memory(c.claims);
  tn_arena_clear(&c.arena);
  tn_text_clear(&c.rejected);
  return status;
}

tenon_status_t tn_pass_offload(tenon_executable_t *e, const tenon_compile_t *options) {
  tn_text_t report = {0};
  TN_TRY(tn_pass_infer(e->graph));
  tenon_status_t status = ask_device(e, options->device, options, &report);
  for (uint32_t i = 0; i < options->device_count && status == TENON_OK; i++)
    status = ask_device(e, options->devices[i], options, &report);
  if (status == TENON_OK && report.size && !(e->offload_report = tn_text_take(&report)))
    status = TENON_MEMORY;
  tn_text_clear(&report);
  return status;
}
