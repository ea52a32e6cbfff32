/* Places the operands of a concat in its result, see concat_place.h. Where a part of the result is
 * one piece of memory, any value can be in it, because its strides stay the same. Elsewhere the
 * part has gaps, and a value gets its strides if the kernel that makes it and all that read it take
 * strides. The kernel of concat skips what is in its place.
 * Invariant: no two values that are parts share memory, unless one is a part of the other. */
#include "graph/concat_place.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "operator/library.h"

/* The elements that a part with gaps has in a row at least, if other nodes than concats read it. */
enum { LEAST_RUN = 16 };

typedef struct placer_t {
  tn_run_t *run;
  tn_stage_t *stage;
  int32_t index;      /* of the stage among run->stages */
  int32_t edge_count; /* of the graph */
  bool *is_fixed;     /* of each edge: its strides cannot change */
  bool *is_read;      /* of each edge: something else than a concat reads it */
  int32_t *maker;     /* of each edge: the action that makes it; -1: none of this stage */
  int32_t count;      /* of parts */
} placer_t;

static tn_allocation_t *allocation_of(const placer_t *p, int32_t edge) {
  return &p->run->allocations[edge];
}

static const tn_node_t *node_of(const placer_t *p, const tn_action_t *action) {
  return p->run->executable->steps[action->step].node;
}

static bool is_core(const tn_action_t *action, const char *op) {
  return action->kernel && strcmp(action->kernel->library->name, "core") == 0 &&
         strcmp(action->frame.call.op->name, op) == 0;
}

static bool is_concat(const tn_action_t *action) { return is_core(action, "core::concat"); }

/* Whether the kernel reads operands with gaps as it reads others. Kernels with the word `strided`
 * take them, but may copy them first. */
static bool reads_gaps(const tn_action_t *action) {
  return is_concat(action) || is_core(action, "core::batch_norm") ||
         (action->kernel && action->kernel->kind == TN_KIND_LOOP);
}

/* Notes what a call reads and makes. */
static void note_action(placer_t *p, int32_t a) {
  const tn_action_t *action = &p->stage->actions[a];
  const tn_node_t *node = node_of(p, action);
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++) {
      p->is_fixed[node->operands[i].edges[k]] |= !reads_gaps(action);
      p->is_read[node->operands[i].edges[k]] |= !is_concat(action);
    }
  for (int32_t o = 0; o < node->output_count && action->kernel; o++)
    p->maker[node->outputs[o]] = a;
}

/* Notes which values have strides that cannot change: those that views or later stages read. */
static tenon_status_t begin_placing(placer_t *p) {
  const size_t count = (size_t)p->edge_count;
  const tn_stage_t *s = p->stage;
  p->is_fixed = tn_allocate_zero(count + 1, sizeof *p->is_fixed);
  p->is_read = tn_allocate_zero(count + 1, sizeof *p->is_read);
  p->maker = tn_allocate((count + 1) * sizeof *p->maker);
  if (!p->is_fixed || !p->is_read || !p->maker) return tn_no_memory("a plan", count);
  for (size_t i = 0; i < count; i++)
    p->maker[i] = -1;
  for (size_t i = 0; i < s->planned_count; i++) {
    const tn_allocation_t *value = allocation_of(p, s->edges[i]);
    if (value->root != s->edges[i] && value->root < p->edge_count) p->is_fixed[value->root] = true;
    if (s->edges[i] < p->edge_count && p->run->executable->last_use[s->edges[i]] >= s->end)
      p->is_fixed[s->edges[i]] = true;
  }
  for (int32_t a = 0; a < (int32_t)s->action_count; a++)
    note_action(p, a);
  return TENON_OK;
}

static void end_placing(placer_t *p) {
  tn_release_memory(p->is_fixed);
  tn_release_memory(p->is_read);
  tn_release_memory(p->maker);
}

/* Whether the value is whole numbers of bytes, in memory whose extents are known. */
static bool has_whole_bytes(const placer_t *p, int32_t edge) {
  const tn_allocation_t *value = allocation_of(p, edge);
  const tenon_tensor_t *t = &value->tensor->view;
  return value->stage == p->index && value->root == edge && !value->bound && !value->is_pending &&
         !value->layout && !t->byte_offset && !(t->keys & TN_KEY_DETAIL) && tenon_count(t) > 0 &&
         t->dtype.bits * t->dtype.lanes % 8 == 0;
}

static int64_t size_of_element(const tenon_tensor_t *t) {
  return t->dtype.bits * t->dtype.lanes / 8;
}

/* Whether the elements lie as those of a part of the result do. */
static bool lies_as_part(const tenon_tensor_t *t, const tenon_tensor_t *result) {
  for (int32_t d = 0; d < t->ndim; d++)
    if (t->shape[d] > 1 && t->strides[d] != result->strides[d]) return false;
  return true;
}

/* The elements in a row of a part of the result, along the axis with adjacent elements. */
static int64_t run_of_part(const tenon_tensor_t *t, const tenon_tensor_t *result) {
  int64_t run = 1;
  for (int32_t d = 0; d < t->ndim; d++)
    if (result->strides[d] == 1 && t->shape[d] > run) run = t->shape[d];
  return run;
}

/* Whether the value can get the strides of a part with gaps. *out_later: if its loop is in no
 * region, whose results have no gaps. */
static bool takes_gaps(const placer_t *p, int32_t edge, const tenon_tensor_t *result,
                       bool *out_later) {
  const tenon_tensor_t *t = &allocation_of(p, edge)->tensor->view;
  if (edge >= p->edge_count || p->maker[edge] < 0 || p->is_fixed[edge]) return false;
  const tn_action_t *maker = &p->stage->actions[p->maker[edge]];
  *out_later = maker->kernel->kind == TN_KIND_LOOP;
  if (*out_later) return !p->is_read[edge] && run_of_part(t, result) >= LEAST_RUN;
  return is_concat(maker) && (!p->is_read[edge] || run_of_part(t, result) >= LEAST_RUN);
}

/* Gives the value the strides of a part. */
static void set_strides(tn_run_t *run, int32_t edge, int32_t block) {
  tenon_tensor_t *t = &run->allocations[edge].tensor->view;
  const tenon_tensor_t *result = &run->allocations[block].tensor->view;
  memcpy(t->strides, result->strides, (size_t)t->ndim * sizeof *t->strides);
  tn_tensor_mark(t);
}

static void make_part(tn_run_t *run, int32_t edge, int64_t delta) {
  tn_allocation_t *value = &run->allocations[edge];
  value->where = TN_ALLOCATION_PART;
  value->delta = delta;
  run->allocations[value->block].is_block = true;
}

/* Makes the value, which may be a view of all of another one, a part of the result, `delta` bytes
 * from its begin, if that is possible. */
static void place_part(placer_t *p, int32_t edge, int32_t result, int64_t delta) {
  const tenon_tensor_t *t = &allocation_of(p, edge)->tensor->view;
  const tenon_tensor_t *whole = &allocation_of(p, result)->tensor->view;
  const int32_t root = allocation_of(p, edge)->root;
  tn_allocation_t *value = allocation_of(p, root);
  if (value->where != TN_ALLOCATION_ARENA || root == result || !has_whole_bytes(p, root)) return;
  const uint64_t bytes = (uint64_t)(tenon_count(t) * size_of_element(t));
  const bool is_all = !allocation_of(p, edge)->delta && bytes == value->size && tn_is_packed(t);
  const bool has_gaps = !is_all || !lies_as_part(t, whole);
  bool is_later = false;
  if (has_gaps && (edge != root || !takes_gaps(p, edge, whole, &is_later))) return;
  value->may_be_part = is_later;
  value->block = result;
  if (is_later) {
    value->part_delta = delta;
    return;
  }
  if (has_gaps) set_strides(p->run, edge, result);
  make_part(p->run, root, delta);
  p->count++;
}

/* Places the operands of a concat. Returns quietly if it is not one of known extents. */
static void place_operands(placer_t *p, const tn_action_t *action) {
  const tn_node_t *node = node_of(p, action);
  const int32_t result = node->outputs[0];
  const tn_allocation_t *whole = allocation_of(p, result);
  const tenon_tensor_t *t = &whole->tensor->view;
  const bool is_placed = whole->where == TN_ALLOCATION_ARENA ||
                         whole->where == TN_ALLOCATION_OUTPUT || whole->where == TN_ALLOCATION_PART;
  const int64_t axis = node->attrs[0].as.i + (node->attrs[0].as.i < 0 ? t->ndim : 0);
  int64_t begin = 0;
  if (!is_placed || !has_whole_bytes(p, result)) return;
  for (int32_t k = 0; k < node->operands[0].count; k++) {
    const int32_t edge = node->operands[0].edges[k];
    place_part(p, edge, result, begin * t->strides[axis] * size_of_element(t));
    begin += allocation_of(p, edge)->tensor->view.shape[axis];
  }
}

/* The rule's entry among those of the compilation; NULL: it is turned off, or the graph is not
 * optimised. */
static tn_rewrite_use_t *find_rule(const tn_run_t *run) {
  const tn_rules_t *rules = &run->executable->rules;
  for (size_t i = 0; i < rules->count; i++)
    if (rules->uses[i].pass == TN_RULES_CONCAT && strcmp(rules->uses[i].name, "placed_concat") == 0)
      return rules->uses[i].is_off ? NULL : &rules->uses[i];
  return NULL;
}

static bool has_concat(const tn_stage_t *stage) {
  for (size_t a = 0; a < stage->action_count; a++)
    if (is_concat(&stage->actions[a])) return true;
  return false;
}

tenon_status_t tn_stage_place_parts(tn_run_t *run, tn_stage_t *stage) {
  tn_rewrite_use_t *rule = find_rule(run);
  placer_t p = {.run = run,
                .stage = stage,
                .index = (int32_t)run->stage_count - 1,
                .edge_count = (int32_t)run->executable->graph->edge_count};
  if (!rule || !has_concat(stage)) return TENON_OK;
  tenon_status_t status = begin_placing(&p);
  /* From the last one, so that a result is placed before its own parts. */
  for (size_t a = stage->action_count; a-- > 0 && status == TENON_OK;)
    if (is_concat(&stage->actions[a])) place_operands(&p, &stage->actions[a]);
  end_placing(&p);
  __atomic_fetch_add(&rule->count, p.count, __ATOMIC_RELAXED);
  return status;
}

/* After the regions */

/* Places the results of loops that are in no region. Returns how many there are. */
static int32_t place_loops(tn_run_t *run, const tn_stage_t *stage) {
  int32_t count = 0;
  for (size_t i = 0; i < stage->planned_count; i++) {
    const int32_t edge = stage->edges[i];
    const tn_allocation_t *value = &run->allocations[edge];
    if (!value->may_be_part || value->where != TN_ALLOCATION_ARENA) continue;
    if (!stage->actions[value->first].kernel) continue;
    set_strides(run, edge, value->block);
    make_part(run, edge, value->part_delta);
    count++;
  }
  return count;
}

static void extend_blocks(tn_run_t *run, int32_t edge) {
  const tn_allocation_t *part = &run->allocations[edge];
  for (const tn_allocation_t *at = part; at->where == TN_ALLOCATION_PART;) {
    tn_allocation_t *block = &run->allocations[at->block];
    if (block->first > part->first) block->first = part->first;
    if (block->last < part->last) block->last = part->last;
    at = block;
  }
}

tenon_status_t tn_stage_settle_parts(tn_run_t *run, tn_stage_t *stage) {
  const size_t count = stage->planned_count;
  tn_rewrite_use_t *rule = find_rule(run);
  if (!rule) return TENON_OK;
  __atomic_fetch_add(&rule->count, place_loops(run, stage), __ATOMIC_RELAXED);
  size_t blocks = 0;
  bool any = false;
  for (size_t i = 0; i < count; i++) {
    const tn_allocation_t *value = &run->allocations[stage->edges[i]];
    any |= value->where == TN_ALLOCATION_PART;
    extend_blocks(run, stage->edges[i]);
  }
  if (!any) return TENON_OK;
  int32_t *edges = tn_allocate((count + 1) * sizeof *edges);
  if (!edges) return tn_no_memory("a plan", count * sizeof *edges);
  /* A result was planned after its parts, so the reverse order has results first. */
  for (size_t i = count; i-- > 0;)
    if (run->allocations[stage->edges[i]].is_block) edges[blocks++] = stage->edges[i];
  for (size_t i = 0, k = blocks; i < count; i++)
    if (!run->allocations[stage->edges[i]].is_block) edges[k++] = stage->edges[i];
  memcpy(stage->edges, edges, count * sizeof *edges);
  tn_release_memory(edges);
  return TENON_OK;
}
