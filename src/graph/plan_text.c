/* Prints the plan of a stage, see plan_text.h. */
#include "graph/plan_text.h"

#include "core/dtype.h"
#include "drivers/region.h"

/* How a member runs: as a link of a chain, as a loop, or by calls of its kernel on some rows. */
static const char *way_of(const tn_region_member_t *member) {
  if (member->is_link) return "link";
  return member->axes ? "call" : "loop";
}

/* Prints what the region has, how it runs, and why it has no more calls. */
static void print_region(const tn_region_t *region, tn_text_t *text) {
  const int64_t piece = tn_region_is_small(region) ? region->rows : region->piece;
  tn_text_add(text, "    tile: %lld of %lld rows of %lld elements; values in tiles share %d\n",
              (long long)piece, (long long)region->rows, (long long)region->width,
              (int)region->tile_count);
  for (int32_t m = 0; m < region->count; m++) {
    const tn_region_member_t *member = &region->members[m];
    const tn_kernel_t *kernel = member->frame.kernel;
    tn_text_add(text, "    %s  %s  %s [%s, %s]\n", way_of(member), member->node,
                member->frame.call.op->name, kernel->text, kernel->library->name);
  }
  if (region->next)
    tn_text_add(text, "    ends here: %s (%s) reads a value of it, but %s\n", region->next,
                region->next_op, region->reason);
  else
    tn_text_add(text, "    ends here: no other node of this stage reads its values\n");
}

static void print_value(const tn_run_t *run, const tn_stage_t *stage, int32_t edge,
                        tn_text_t *text) {
  static const char *const places[] = {"none",   "input", "constant", "known", "arena",
                                       "output", "view",  "own",      "tile",  "part"};
  const tn_allocation_t *p = &run->allocations[edge];
  const tenon_graph_t *graph = run->executable->graph;
  const char *name = edge < (int32_t)graph->edge_count ? graph->edges[edge].name : "(dense copy)";
  char shape[160];
  tn_text_add(text, "  %-40s %-8s %s%s", name, places[p->where],
              tn_dtype_name(p->tensor->view.dtype),
              tn_shape_print(p->tensor->view.ndim, p->tensor->view.shape, shape, sizeof shape));
  if (p->where == TN_ALLOCATION_ARENA)
    tn_text_add(text, " offset %llu size %llu alive %d..%d", (unsigned long long)p->offset,
                (unsigned long long)p->size, (int)p->first,
                p->last == INT32_MAX ? (int)stage->action_count : (int)p->last);
  if (p->where == TN_ALLOCATION_PART)
    tn_text_add(text, " in %s at byte %lld", graph->edges[p->block].name, (long long)p->delta);
  tn_text_add(text, "\n");
}

static void print_workspace(const tn_stage_t *stage, size_t a, tn_text_t *text) {
  const tn_action_t *action = &stage->actions[a];
  if (!action->workspace_size) return;
  tn_text_add(text, "  (workspace of action %zu) arena offset %llu size %llu alive %zu..%zu\n", a,
              (unsigned long long)action->workspace_offset,
              (unsigned long long)action->workspace_size, a, a);
}

void tn_plan_print(const tn_run_t *run, size_t index, tn_text_t *text) {
  const tn_stage_t *stage = &run->stages[index];
  const double bound = (double)stage->arena_bound;
  tn_text_add(text,
              "stage %zu: nodes %d to %d, %zu actions, arena %llu bytes, lower bound %llu (%.1f "
              "%%)\n",
              index, (int)stage->begin, (int)stage->end - 1, stage->action_count,
              (unsigned long long)stage->arena_size, (unsigned long long)stage->arena_bound,
              stage->arena_bound ? 100.0 * (double)stage->arena_size / bound : 100.0);
  for (size_t i = 0; i < stage->action_count; i++) {
    if (!stage->actions[i].region) continue;
    tn_text_add(text, "  action %zu: %s\n", i, stage->actions[i].label);
    print_region(stage->actions[i].region, text);
  }
  for (size_t i = 0; i < stage->planned_count; i++)
    print_value(run, stage, stage->edges[i], text);
  for (size_t i = 0; i < stage->action_count; i++)
    print_workspace(stage, i, text);
}
