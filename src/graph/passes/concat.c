/* Rules for concat. Networks that join all values of a block again and again, such as DenseNet,
 * copy each of them as often as it is joined. If one concat is a part of the next one, plans need
 * not copy it (graph/concat_place.c). */
#include <string.h>

#include "base/scratch.h"
#include "base/status.h"
#include "graph/passes/rules.h"

enum { READERS_MOST = 64 }; /* of a value that are looked at */

static int64_t axis_of(const tn_rewrite_t *r, const tn_node_t *concat) {
  const int64_t axis = concat->attrs[0].as.i;
  return axis < 0 ? axis + r->graph->edges[concat->outputs[0]].ndim : axis;
}

/* Whether `part` joins the values that the list of `whole` has from `at` on. */
static bool is_part(const tn_rewrite_t *r, const tn_node_t *part, const tn_node_t *whole,
                    int32_t at) {
  const tenon_operand_t *few = &part->operands[0];
  const tenon_operand_t *all = &whole->operands[0];
  if (!tn_node_is(part, "core::concat") || part->group || part >= whole) return false;
  if (few->count < 2 || few->count >= all->count || few->count > all->count - at) return false;
  return r->graph->edges[part->outputs[0]].ndim >= 0 && axis_of(r, part) == axis_of(r, whole) &&
         memcmp(few->edges, all->edges + at, (size_t)few->count * sizeof *few->edges) == 0;
}

/* Returns the concat with the most values that joins those from `at` on; NULL: there is none. */
static const tn_node_t *find_part(const tn_rewrite_t *r, const tn_node_t *node, int32_t at) {
  const tn_node_t *best = NULL;
  int32_t left = READERS_MOST;
  for (int32_t i = r->first_reader[node->operands[0].edges[at]]; i >= 0 && left-- > 0;
       i = r->readers[i].next) {
    const tn_reader_t *reader = &r->readers[i];
    const tn_node_t *part = &r->graph->nodes[reader->node];
    if (reader->item != 0 || !is_part(r, part, node, at)) continue;
    if (!best || part->operands[0].count > best->operands[0].count) best = part;
  }
  return best;
}

/* Puts the result of `part` in the place of its values, which begin at `at`. */
static tenon_status_t take_part(tn_rewrite_t *r, tn_node_t *node, int32_t at,
                                const tn_node_t *part) {
  const tenon_operand_t *all = &node->operands[0];
  const int32_t rest = at + part->operands[0].count;
  tenon_edge_t *edges = tn_scratch((size_t)all->count * sizeof *edges);
  if (!edges) return tn_no_memory("a rewrite", 0);
  memcpy(edges, all->edges, (size_t)at * sizeof *edges);
  edges[at] = part->outputs[0];
  memcpy(edges + at + 1, all->edges + rest, (size_t)(all->count - rest) * sizeof *edges);
  return tn_node_set_list(r, node, edges, at + 1 + all->count - rest);
}

static tenon_status_t nest_concat(tn_rewrite_t *r, tn_node_t *node) {
  if ((size_t)(node - r->graph->nodes) >= r->node_count) return TENON_OK;
  for (int32_t at = 0; at + 1 < node->operands[0].count;) {
    const tn_node_t *part = find_part(r, node, at);
    if (!part)
      at++;
    else
      TN_TRY(take_part(r, node, at, part));
  }
  return TENON_OK;
}

/* Plans apply the rule. */
static tenon_status_t leave_to_plan(tn_rewrite_t *r, tn_node_t *node) {
  (void)r;
  (void)node;
  return TENON_OK;
}

const tn_rewrite_rule_t tn_rules_concat[] = {
    {"nested_concat: concat(x, y, z) -> concat(concat(x, y), z)",
     "The graph has concat(x, y) along the same axis already.",
     {"core::concat"},
     nest_concat},
    {"placed_concat: concat(x, y) -> the memory of x and y",
     "A plan of the CPU places x and y where the result has them, so that they are not copied. The "
     "part of the result is one piece of memory, or it has gaps, and the kernel that makes the "
     "value and all that read it take strides. A value is placed once.",
     {"core::concat"},
     leave_to_plan},
    {NULL, NULL, {NULL}, NULL}};
