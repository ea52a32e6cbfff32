/* Makes regions: calls of loop kernels over equally many elements become one action, which runs
 * them piece by piece while the values are in cache. Built-in kernels and those of libraries take
 * part alike. A call joins the region of an earlier one if everything that it reads is there by
 * then. Called by stage.c when the calls of a stage are known. Invariants: a value that is only in
 * tiles is read by no action outside its region, and each action runs after those that make what it
 * reads. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "core/dtype.h"
#include "drivers/region.h"
#include "graph/executable.h"

enum {
  MOST_MEMBERS = 32,
  /* What the operands of a piece need together. It is more than the cache of the first level has,
   * because some of them are read or written once. */
  PIECE_BYTES = 64 << 10,
  WINDOW = 64, /* actions that are looked at for a region, from its first one */
};

typedef struct maker_t {
  tn_run_t *run;
  tn_stage_t *stage;
  int32_t index;                 /* of the stage among run->stages */
  int32_t members[MOST_MEMBERS]; /* actions, in their order */
  int32_t count;
  int64_t total;      /* elements of each result */
  int32_t *region_of; /* of each action: the first action of its region; -1: it is in none */
} maker_t;

static const tn_node_t *node_of(const maker_t *m, const tn_action_t *action) {
  return m->run->executable->steps[action->step].node;
}

static bool fits_loop(const tenon_tensor_t *t) {
  return !(t->keys & TN_KEY_DETAIL) && !tn_dtype_is(t->dtype, TENON_STRING) &&
         t->dtype.bits * t->dtype.lanes >= 8;
}

/* Returns the number of elements of each result of a call that a region may have; 0: it may not. */
static int64_t count_elements(const maker_t *m, const tn_action_t *action) {
  const tn_kernel_t *kernel = action->kernel;
  int64_t count = 0;
  if (!kernel || kernel->kind != TN_KIND_LOOP || kernel->words.flags & TN_KERNEL_SERIAL ||
      action->workspace_size)
    return 0;
  const tn_node_t *node = node_of(m, action);
  const tenon_op_t *op = node->op;
  if (op->traits & TENON_RANDOM || tn_op_written(op, 0) >= 0) return 0;
  for (uint32_t i = 0; i < op->input_count; i++) {
    if (op->schema.inputs[i].is_written || op->schema.inputs[i].kind == TENON_KIND_TENSORS)
      return 0;
    if (action->inputs[i] && !fits_loop(action->inputs[i])) return 0;
  }
  for (uint32_t o = 0; o < op->output_count; o++)
    if (op->schema.outputs[o].kind == TENON_KIND_TENSORS) return 0;
  for (int32_t o = 0; o < node->output_count; o++) {
    const tn_allocation_t *allocation = &m->run->allocations[node->outputs[o]];
    if (allocation->stage != m->index) continue; /* the result is not computed */
    const tenon_tensor_t *t = &allocation->tensor->view;
    bool is_whole =
        allocation->where == TN_ALLOCATION_ARENA || allocation->where == TN_ALLOCATION_OUTPUT;
    if (!is_whole || allocation->bound || t->keys & TN_KEY_STRIDED || !fits_loop(t)) return 0;
    if (count && count != tenon_count(t)) return 0;
    count = tenon_count(t);
  }
  return count;
}

static const tn_allocation_t *root_of(const maker_t *m, int32_t edge) {
  return &m->run->allocations[m->run->allocations[edge].root];
}

/* The action of this stage that makes the memory of the edge; -1: it is there before. */
static int32_t maker_of(const maker_t *m, int32_t edge) {
  const tn_allocation_t *root = root_of(m, edge);
  bool is_made = root->where == TN_ALLOCATION_ARENA || root->where == TN_ALLOCATION_OUTPUT ||
                 root->where == TN_ALLOCATION_OWN;
  return is_made && root->stage == m->index ? root->first : -1;
}

static bool is_made_here(const maker_t *m, int32_t edge) {
  const int32_t maker = maker_of(m, edge);
  return maker >= m->members[0] && m->region_of[maker] == m->members[0];
}

/* Whether the call can join the region: everything that it reads is there, and of the values of the
 * region it reads element i for element i of its results. */
static bool can_join(const maker_t *m, const tn_action_t *action) {
  const tn_node_t *node = node_of(m, action);
  for (uint32_t i = 0; i < node->op->input_count; i++) {
    if (!node->operands[i].count) continue;
    const int32_t edge = node->operands[i].edges[0];
    if (maker_of(m, edge) < m->members[0]) continue;
    if (!is_made_here(m, edge)) return false;
    const tn_allocation_t *value = &m->run->allocations[edge];
    const tenon_tensor_t *t = &value->tensor->view;
    if (t->keys & TN_KEY_STRIDED || value->delta || t->byte_offset || tenon_count(t) != m->total ||
        !tn_dtype_same(t->dtype, root_of(m, edge)->tensor->view.dtype))
      return false;
  }
  return true;
}

/* Finds the calls of the region that begins with this action. Returns whether any of them reads
 * what another one makes. */
static bool find_members(maker_t *m, int32_t first) {
  bool is_linked = false;
  const int32_t count = (int32_t)m->stage->action_count;
  m->members[0] = first;
  m->count = 1;
  m->region_of[first] = first;
  for (int32_t a = first + 1; a < count && a < first + WINDOW && m->count < MOST_MEMBERS; a++) {
    const tn_action_t *action = &m->stage->actions[a];
    if (m->region_of[a] >= 0 || count_elements(m, action) != m->total || !can_join(m, action))
      continue;
    const tn_node_t *node = node_of(m, action);
    for (uint32_t i = 0; i < node->op->input_count; i++)
      is_linked |= node->operands[i].count && is_made_here(m, node->operands[i].edges[0]);
    m->region_of[a] = first;
    m->members[m->count++] = a;
  }
  for (int32_t k = 0; k < m->count && !is_linked; k++)
    m->region_of[m->members[k]] = -1;
  return is_linked;
}

/* Tiles */

/* Notes, or forgets again, what other actions among those of the region read. */
static void mark_reads(maker_t *m, bool is_read) {
  for (int32_t a = m->members[0]; a < m->members[m->count - 1]; a++) {
    if (m->region_of[a] == m->members[0]) continue;
    const tn_node_t *node = node_of(m, &m->stage->actions[a]);
    for (uint32_t i = 0; i < node->op->input_count; i++)
      for (int32_t k = 0; k < node->operands[i].count; k++)
        m->run->allocations[m->run->allocations[node->operands[i].edges[k]].root].is_read_outside =
            is_read;
  }
}

/* Whether only the region reads the value. */
static bool is_inside(const maker_t *m, int32_t edge) {
  const tn_allocation_t *value = &m->run->allocations[edge];
  return value->stage == m->index && value->where == TN_ALLOCATION_ARENA &&
         value->last <= m->members[m->count - 1] && !value->is_read_outside;
}

/* Returns a tile for elements of `size` bytes that is free from this action on, or a new one.
 * `until` holds, for each tile, the last action that uses it. */
static int32_t take_tile(tn_region_t *region, int64_t *sizes, int32_t *until, int64_t size,
                         int32_t action, int32_t last) {
  int32_t k = 0;
  while (k < region->tile_count && (sizes[k] != size || until[k] >= action))
    k++;
  region->tile_count += k == region->tile_count;
  sizes[k] = size;
  until[k] = last;
  return k;
}

/* Gives a tile to each value that only the region reads. */
static tenon_status_t assign_tiles(maker_t *m, tn_region_t *region) {
  size_t most = 0;
  for (int32_t k = 0; k < m->count; k++)
    most += (size_t)node_of(m, &m->stage->actions[m->members[k]])->output_count;
  int64_t *sizes = tn_arena_array(&m->stage->memory, most + 1, sizeof *sizes);
  int32_t *until = tn_arena_array(&m->stage->memory, most + 1, sizeof *until);
  if (!sizes || !until) return tn_no_memory("a plan", 0);
  mark_reads(m, true);
  for (int32_t k = 0; k < m->count; k++) {
    const tn_node_t *node = node_of(m, &m->stage->actions[m->members[k]]);
    for (int32_t o = 0; o < node->output_count; o++) {
      if (!is_inside(m, node->outputs[o])) continue;
      tn_allocation_t *value = &m->run->allocations[node->outputs[o]];
      const tenon_dtype_t dtype = value->tensor->view.dtype;
      value->tile = 1 + take_tile(region, sizes, until, dtype.bits * dtype.lanes / 8, m->members[k],
                                  value->last);
    }
  }
  mark_reads(m, false);
  region->tile_size = sizes;
  return TENON_OK;
}

/* The tile that has the value of the edge; -1: none. */
static int32_t tile_of(const maker_t *m, int32_t edge) {
  const tn_allocation_t *root = root_of(m, edge);
  return root->stage == m->index ? root->tile - 1 : -1;
}

static tenon_status_t list_tiles(const maker_t *m, const tn_action_t *action,
                                 const int32_t **out_tiles) {
  const tn_node_t *node = node_of(m, action);
  const tenon_op_t *op = node->op;
  int32_t *tiles =
      tn_arena_array(&m->stage->memory, op->input_count + op->output_count + 1, sizeof *tiles);
  if (!tiles) return tn_no_memory("a plan", 0);
  for (uint32_t i = 0; i < op->input_count; i++)
    tiles[i] = node->operands[i].count ? tile_of(m, node->operands[i].edges[0]) : -1;
  for (uint32_t o = 0; o < op->output_count; o++)
    tiles[op->input_count + o] = tile_of(m, node->outputs[o]);
  *out_tiles = tiles;
  return TENON_OK;
}

/* Making the action */

static int64_t element_size(const tenon_tensor_t *t) { return t->dtype.bits * t->dtype.lanes / 8; }

/* The k-th operand of a member: inputs, then results; NULL: it is absent, or in a tile. */
static const tenon_tensor_t *operand_in_memory(const tn_region_member_t *member, uint32_t k) {
  const tenon_call_t *call = &member->frame.call;
  const uint32_t inputs = call->op->input_count;
  if (member->tiles[k] >= 0) return NULL;
  return k < inputs ? call->inputs[k] : call->outputs[k - inputs];
}

static uint32_t operand_count(const tn_region_member_t *member) {
  return member->frame.call.op->input_count + member->frame.call.op->output_count;
}

/* Whether an earlier member has the tensor as an operand too. */
static bool is_counted(const tn_region_t *region, int32_t member, const tenon_tensor_t *t) {
  for (int32_t m = 0; m < member; m++)
    for (uint32_t k = 0; k < operand_count(&region->members[m]); k++)
      if (operand_in_memory(&region->members[m], k) == t) return true;
  return false;
}

/* Chooses the number of elements of a piece, so that its operands stay in cache. */
static int64_t choose_piece(const tn_region_t *region) {
  enum { LEAST = 512, MOST = 4096, STEP = 256 };
  int64_t bytes = 0;
  for (int32_t k = 0; k < region->tile_count; k++)
    bytes += region->tile_size[k];
  for (int32_t m = 0; m < region->count; m++)
    for (uint32_t k = 0; k < operand_count(&region->members[m]); k++) {
      const tenon_tensor_t *t = operand_in_memory(&region->members[m], k);
      /* Each member has a tile of its own for a scalar. */
      if (t && (tenon_count(t) == 1 || !is_counted(region, m, t))) bytes += element_size(t);
    }
  const int64_t piece = bytes ? PIECE_BYTES / bytes / STEP * STEP : MOST;
  if (piece < LEAST) return LEAST;
  return piece > MOST ? MOST : piece;
}

/* Whether an earlier member has the same operator. */
static bool is_repeated(const maker_t *m, int32_t k) {
  const tenon_op_t *op = node_of(m, &m->stage->actions[m->members[k]])->op;
  for (int32_t i = 0; i < k; i++)
    if (node_of(m, &m->stage->actions[m->members[i]])->op == op) return true;
  return false;
}

/* Writes the number of the region's calls and the names of its operators. */
static const char *make_label(const maker_t *m) {
  tn_text_t text = {0};
  tn_text_add(&text, "region of %d:", (int)m->count);
  for (int32_t k = 0; k < m->count; k++)
    if (!is_repeated(m, k))
      tn_text_add(&text, " %s", node_of(m, &m->stage->actions[m->members[k]])->op->name);
  const size_t size = text.size;
  char *label = text.failed ? NULL : tn_arena_allocate(&m->stage->memory, size + 1);
  if (label) memcpy(label, tn_text_get(&text), size + 1);
  tn_text_clear(&text);
  return label;
}

/* Makes one action of those of the region, in the place of the first one. */
static tenon_status_t make_region(maker_t *m) {
  tn_arena_t *memory = &m->stage->memory;
  tn_region_t *region = tn_arena_allocate(memory, sizeof *region);
  tn_region_member_t *members = tn_arena_array(memory, (size_t)m->count, sizeof *members);
  const char *label = make_label(m);
  if (!region || !members || !label) return tn_no_memory("a plan", 0);
  *region = (tn_region_t){.members = members, .count = m->count, .total = m->total};
  TN_TRY(assign_tiles(m, region));
  for (int32_t k = 0; k < m->count; k++) {
    const tn_action_t *action = &m->stage->actions[m->members[k]];
    members[k] = (tn_region_member_t){action->frame, node_of(m, action)->name, NULL};
    TN_TRY(list_tiles(m, action, &members[k].tiles));
  }
  region->piece = choose_piece(region);
  tn_action_t *first = &m->stage->actions[m->members[0]];
  *first = (tn_action_t){.region = region, .label = label, .step = first->step};
  return TENON_OK;
}

/* After the regions */

static void extend_to(const maker_t *m, int32_t allocation, int32_t action) {
  tn_allocation_t *value = &m->run->allocations[allocation];
  if (value->stage == m->index && value->last < action) value->last = action;
}

/* States the lifetimes of values in the new numbers of actions. */
static void renumber_lifetimes(const maker_t *m, const int32_t *numbers) {
  const tn_stage_t *s = m->stage;
  for (size_t i = 0; i < s->planned_count; i++) {
    tn_allocation_t *value = &m->run->allocations[s->edges[i]];
    if (tile_of(m, s->edges[i]) >= 0) value->where = TN_ALLOCATION_TILE;
    if (value->first < (int32_t)s->action_count) value->first = numbers[value->first];
    if (value->last < (int32_t)s->action_count) value->last = value->first;
  }
  for (size_t a = 0; a < s->action_count; a++) {
    const tn_node_t *node = node_of(m, &s->actions[a]);
    for (uint32_t i = 0; i < node->op->input_count; i++)
      for (int32_t k = 0; k < node->operands[i].count; k++) {
        const tn_allocation_t *value = &m->run->allocations[node->operands[i].edges[k]];
        extend_to(m, value->root, numbers[a]);
        if (value->dense) extend_to(m, value->dense, numbers[a]);
      }
    for (int32_t o = 0; o < node->output_count; o++)
      extend_to(m, node->outputs[o], numbers[a]);
  }
}

/* Removes the actions that are part of an earlier one. */
static tenon_status_t renumber(maker_t *m) {
  tn_stage_t *s = m->stage;
  int32_t *numbers = tn_allocate((s->action_count + 1) * sizeof *numbers);
  if (!numbers) return tn_no_memory("a plan", s->action_count * sizeof *numbers);
  int32_t count = 0;
  for (int32_t a = 0; a < (int32_t)s->action_count; a++) {
    bool is_part = m->region_of[a] >= 0 && m->region_of[a] < a;
    numbers[a] = is_part ? numbers[m->region_of[a]] : count++;
  }
  renumber_lifetimes(m, numbers);
  for (size_t a = 0; a < s->action_count; a++)
    if (m->region_of[a] < 0 || m->region_of[a] == (int32_t)a)
      s->actions[numbers[a]] = s->actions[a];
  s->action_count = (size_t)count;
  tn_release_memory(numbers);
  return TENON_OK;
}

static tenon_status_t make_regions(maker_t *m) {
  bool any = false;
  for (int32_t a = 0; a < (int32_t)m->stage->action_count; a++)
    m->region_of[a] = -1;
  for (int32_t a = 0; a < (int32_t)m->stage->action_count; a++) {
    if (m->region_of[a] >= 0) continue;
    m->total = count_elements(m, &m->stage->actions[a]);
    if (!m->total || !find_members(m, a)) continue;
    any = true;
    TN_TRY(make_region(m));
  }
  return any ? renumber(m) : TENON_OK;
}

tenon_status_t tn_stage_make_regions(tn_run_t *run, tn_stage_t *stage) {
  maker_t m = {.run = run,
               .stage = stage,
               .index = (int32_t)run->stage_count - 1,
               .region_of = tn_allocate((stage->action_count + 1) * sizeof *m.region_of)};
  tenon_status_t status = m.region_of ? make_regions(&m) : tn_no_memory("a plan", 0);
  tn_release_memory(m.region_of);
  return status;
}
