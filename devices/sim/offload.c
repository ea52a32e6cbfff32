/* Decides which nodes of a graph sim offloads: the largest connected groups of nodes that it
 * supports, with at least two nodes in each, such that no path leaves a group and enters it again.
 *
 * Each node has a depth: the largest number of steps from an unsupported node to a supported one on
 * any path to the node. Connected supported nodes of equal depth form a group. This is safe because
 * the depth never falls along a path, and it rises when a path returns from an unsupported node. */
#include "offload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"
#include "step.h"

typedef struct offload_t {
  const tenon_graph_view_t *view;
  const char **why; /* for each node, the reason why sim does not support it; NULL: it does */
  uint32_t *depth;
  uint32_t *set;  /* the union-find parent of each node */
  uint32_t *size; /* the size of each group, valid at its root */
  uint32_t *nodes;
  int64_t *producers; /* for each edge, the node that produces it; -1: none */
} offload_t;

static uint32_t root(const offload_t *c, uint32_t n) {
  while (c->set[n] != n)
    n = c->set[n] = c->set[c->set[n]];
  return n;
}

static void look(offload_t *c, sim_step_t *step) {
  for (uint32_t i = 0; i < c->view->edge_count; i++)
    c->producers[i] = -1;
  for (uint32_t n = 0; n < c->view->node_count; n++) {
    const tenon_graph_node_t *node = c->view->nodes[n];
    c->why[n] = sim_step_of(node, c->view, step);
    c->set[n] = n;
    c->size[n] = 1;
    for (uint32_t o = 0; o < node->output_count; o++)
      c->producers[node->outputs[o]] = n;
    for (uint32_t k = 0; k < node->starts[node->argument_count]; k++) {
      int64_t from = c->producers[node->inputs[k]];
      if (from < 0) continue;
      uint32_t depth = c->depth[from] + (c->why[from] && !c->why[n]);
      if (depth > c->depth[n]) c->depth[n] = depth;
    }
    for (uint32_t k = 0; k < node->starts[node->argument_count] && !c->why[n]; k++) {
      int64_t from = c->producers[node->inputs[k]];
      if (from < 0 || c->why[from] || c->depth[from] != c->depth[n]) continue;
      uint32_t a = root(c, (uint32_t)from);
      uint32_t b = root(c, n);
      if (a != b) {
        c->set[b] = a;
        c->size[a] += c->size[b];
      }
    }
  }
}

static tenon_status_t take(offload_t *c, uint32_t of, tenon_claims_t *out) {
  char reason[100];
  uint32_t count = 0;
  for (uint32_t n = 0; n < c->view->node_count; n++)
    if (!c->why[n] && root(c, n) == of) c->nodes[count++] = n;
  for (uint32_t i = 0; i < count; i++)
    c->why[c->nodes[i]] = ""; /* the node has been reported */
  snprintf(reason, sizeof reason, "%u operators of f32 in one piece of work", count);
  return out->take(out, count, c->nodes, reason);
}

static tenon_status_t tell(offload_t *c, uint64_t most, tenon_claims_t *out) {
  uint32_t count = c->view->node_count;
  for (; most; most--) {
    uint32_t best = count;
    for (uint32_t n = 0; n < count; n++)
      if (!c->why[n] && c->set[n] == n && c->size[n] > 1 &&
          (best == count || c->size[n] > c->size[best]))
        best = n;
    if (best == count) break;
    TENON_TRY(take(c, best, out));
  }
  for (uint32_t n = 0; n < count; n++) {
    const char *why = c->why[n];
    if (!why)
      why = c->size[root(c, n)] > 1 ? "its group is not among the largest groups (groups=N)"
                                    : "it would be alone in its group";
    if (*why) TENON_TRY(out->leave(out, n, why));
  }
  return TENON_OK;
}

/* Reads the settings of a compilation: "" or "groups=N". */
static tenon_status_t settings_read(tenon_on_t on, const char *settings, uint64_t *out_most) {
  char end;
  *out_most = UINT64_MAX;
  if (!*settings || sscanf(settings, "groups=%9" SCNu64 "%c", out_most, &end) == 1) return TENON_OK;
  return tenon_fail(on, TENON_INVALID,
                    "sim: the setting '%.200s' is unknown; the one setting is groups=N, the "
                    "largest number of groups",
                    settings);
}

tenon_status_t sim_offload(tenon_on_t on, const tenon_graph_view_t *view, const char *settings,
                           tenon_claims_t *out) {
  uint64_t most;
  uint64_t count = (uint64_t)view->node_count + 1;
  sim_step_t step;
  TENON_TRY(settings_read(on, settings, &most));
  TENON_TRY(sim_enter(on));
  bool is_on = sim.settings.claim != 0;
  sim_unlock();
  if (!is_on)
    return tenon_fail(on, TENON_UNAVAILABLE,
                      "sim offloads subgraphs only if its setting claim is 1 (TENON_SIM=claim=1)");
  offload_t c = {view,
                 calloc(count, sizeof *c.why),
                 calloc(count, sizeof *c.depth),
                 calloc(count, sizeof *c.set),
                 calloc(count, sizeof *c.size),
                 calloc(count, sizeof *c.nodes),
                 calloc((uint64_t)view->edge_count + 1, sizeof *c.producers)};
  tenon_status_t status = TENON_OK;
  if (c.why && c.depth && c.set && c.size && c.nodes && c.producers) {
    look(&c, &step);
    status = tell(&c, most, out);
  } else
    status = tenon_fail(on, TENON_MEMORY, "sim: no host memory to look at a graph");
  free((void *)c.why);
  free(c.depth);
  free(c.set);
  free(c.size);
  free(c.nodes);
  free(c.producers);
  return status;
}
