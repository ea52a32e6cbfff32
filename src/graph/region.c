/* Makes regions: calls of loop kernels and of kernels of rows become one action, which runs them
 * piece by piece while the values are in cache. Built-in kernels and those of libraries take part
 * alike. A call joins the region of an earlier one if everything that it reads is there by then.
 * Called by stage.c when the calls of a stage are known. Invariants: a value that is only in tiles
 * is read by no action outside its region, each action runs after those that make what it reads,
 * and of a value of its region a member reads, for a row of its results, only the same row. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "core/dtype.h"
#include "drivers/region.h"
#include "graph/executable.h"
#include "graph/region_chain.h"
#include "graph/region_form.h"

enum {
  MOST_MEMBERS = 96,
  /* What the operands of a piece need together. The cache of the first level also has room for the
   * operands of the next piece, which are prefetched. */
  PIECE_BYTES = 16 << 10,
  WINDOW = 128,         /* actions that are looked at for a region, from its first one */
  REASONS = 2 * WINDOW, /* actions that are searched for the one at which a region ends */
  /* Elements of a row at most: tiles of longer rows would not stay in cache. */
  ROW_ELEMENTS = 16384,
};

typedef struct maker_t {
  tn_run_t *run;
  tn_stage_t *stage;
  int32_t index;                 /* of the stage among run->stages */
  int32_t members[MOST_MEMBERS]; /* actions, in their order */
  int32_t count;
  int64_t elements; /* of the results of loops, except those with one element for each row */
  int64_t rows;     /* of the region; equal to `elements` until a member needs rows */
  bool has_rows;    /* a member needs them */
  const tenon_tensor_t *like; /* a result, if the results are not in row-major order */
  const tn_action_t *next;    /* the first action that reads the region's values and is no member */
  const char *reason;         /* why it is none */
  int32_t *axes[MOST_MEMBERS]; /* of a member that is sliced: see tn_region_axes */
  tn_region_form_t *forms;     /* of each action */
  int32_t *region_of; /* of each action: the first action of its region; -1: it is in none */
} maker_t;

static const tn_node_t *node_of(const maker_t *m, const tn_action_t *action) {
  return m->run->executable->steps[action->step].node;
}

static const tn_allocation_t *root_of(const maker_t *m, int32_t edge) {
  return &m->run->allocations[m->run->allocations[edge].root];
}

/* The action of this stage that makes the memory of the edge; -1: it is there before. */
static int32_t maker_of(const maker_t *m, int32_t edge) {
  const tn_allocation_t *root = root_of(m, edge);
  bool is_made = root->where == TN_ALLOCATION_ARENA || root->where == TN_ALLOCATION_OUTPUT ||
                 root->where == TN_ALLOCATION_OWN || root->where == TN_ALLOCATION_PART;
  return is_made && root->stage == m->index ? root->first : -1;
}

static bool is_made_here(const maker_t *m, int32_t edge) {
  const int32_t maker = maker_of(m, edge);
  return maker >= m->members[0] && m->region_of[maker] == m->members[0];
}

/* The value that the kernel reads: that of the edge, or its dense copy. */
static int32_t edge_read(const maker_t *m, const tn_action_t *action, uint32_t i) {
  const int32_t edge = node_of(m, action)->operands[i].edges[0];
  const tn_allocation_t *value = &m->run->allocations[edge];
  return action->inputs[i] == &value->tensor->view || !value->dense ? edge : value->dense;
}

/* Whether the value is all of one that a member makes, as that member makes it. */
static bool is_whole_result(const maker_t *m, int32_t edge) {
  const tn_allocation_t *value = &m->run->allocations[edge];
  if (m->like) return value->root == edge;
  const tenon_tensor_t *t = &value->tensor->view;
  const tenon_tensor_t *root = &root_of(m, edge)->tensor->view;
  return !(t->keys & TN_KEY_STRIDED) && !value->delta && !t->byte_offset &&
         tenon_count(t) == tenon_count(root) && tn_dtype_same(t->dtype, root->dtype);
}

static const tenon_tensor_t *first_result(const tn_action_t *action) {
  const tenon_op_t *op = action->frame.call.op;
  for (uint32_t o = 0; o < op->output_count; o++)
    if (action->outputs[o]) return action->outputs[o];
  return NULL;
}

/* The elements of the longest row of a kernel of rows. */
static int64_t widest_row(const tn_action_t *action, const tn_region_form_t *form) {
  int64_t most = form->elements;
  for (uint32_t o = 0; o < action->frame.call.op->output_count; o++) {
    const tenon_tensor_t *t = action->outputs[o];
    if (t && tenon_count(t) > most) most = tenon_count(t);
  }
  return most / form->rows;
}

/* Says why the call does not fit the region's rows, by its form; NULL: it fits. */
static const char *refuse_rows(const maker_t *m, const tn_action_t *action,
                               const tn_region_form_t *form) {
  const int64_t rows = form->rows ? form->rows : m->rows;
  if (form->like ? !m->like || !tn_region_is_like(form->like, m->like) : !!m->like)
    return "makes a result in another layout";
  const bool is_per_row = !form->rows && m->has_rows && form->elements == rows;
  if (form->elements != m->elements && !is_per_row) return "has another number of elements";
  if (form->rows && m->has_rows && form->rows != m->rows) return "has rows of another length";
  if (form->rows && widest_row(action, form) > ROW_ELEMENTS)
    return "has rows of more than 16384 elements";
  return NULL;
}

/* Whether the call reads the value of its region row by row: element i for element i of its
 * results, or the element of a row for the whole row. */
static bool reads_rows(const maker_t *m, const tn_action_t *action, const tn_region_form_t *form,
                       const int32_t *axes, uint32_t i) {
  const tenon_tensor_t *t = action->inputs[i];
  if (!is_whole_result(m, edge_read(m, action, i))) return false;
  if (axes) return axes[i] >= 0;
  return tenon_count(t) == form->elements ||
         (m->has_rows && tn_region_is_per_row(t, first_result(action), m->rows));
}

static const char *refuse_member(const maker_t *m, const tn_action_t *action,
                                 const tn_region_form_t *form, int32_t *axes) {
  const tn_node_t *node = node_of(m, action);
  const char *reason = form->reason ? form->reason : refuse_rows(m, action, form);
  if (reason) return reason;
  if (axes && !tn_region_axes(action, form, axes)) return "takes operands of other rows";
  for (uint32_t i = 0; i < node->op->input_count; i++) {
    if (!node->operands[i].count) continue;
    const int32_t edge = edge_read(m, action, i);
    if (maker_of(m, edge) < m->members[0]) continue;
    if (!is_made_here(m, edge)) return "also reads a value that is made later";
    if (!reads_rows(m, action, form, axes, i)) return "reads the value in another layout";
  }
  return NULL;
}

static bool reads_region(const maker_t *m, const tn_action_t *action) {
  const tn_node_t *node = node_of(m, action);
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++)
      if (is_made_here(m, node->operands[i].edges[k])) return true;
  return false;
}

/* Adds the action to the region. The first one that needs rows decides which the region has. */
static void add_member(maker_t *m, int32_t a, int32_t *axes) {
  const tn_region_form_t *form = &m->forms[a];
  if (form->rows) {
    m->rows = form->rows;
    m->has_rows = true;
  }
  m->region_of[a] = m->members[0];
  m->axes[m->count] = axes;
  m->members[m->count++] = a;
}

/* Makes room for the axes of the operands of a call that is sliced; NULL for a loop. */
static tenon_status_t make_axes(const maker_t *m, int32_t a, int32_t **out_axes) {
  const tenon_op_t *op = node_of(m, &m->stage->actions[a])->op;
  *out_axes = NULL;
  if (!m->forms[a].is_sliced) return TENON_OK;
  const size_t count = op->input_count + op->output_count;
  *out_axes = tn_arena_array(&m->stage->memory, count, sizeof **out_axes);
  return *out_axes ? TENON_OK : tn_no_memory("a plan", count);
}

/* Adds the action if it can be a member, or notes why it cannot. A kernel of rows that reads no
 * value of the region does not join, since it could force its rows on the others. */
static tenon_status_t try_member(maker_t *m, int32_t a, bool *is_linked) {
  const tn_action_t *action = &m->stage->actions[a];
  const bool is_reader = reads_region(m, action);
  const bool is_near = a < m->members[0] + WINDOW;
  if (!is_reader && (m->forms[a].reason || m->forms[a].rows || !is_near)) return TENON_OK;
  int32_t *axes;
  TN_TRY(make_axes(m, a, &axes));
  const char *reason = refuse_member(m, action, &m->forms[a], axes);
  if (!reason && !is_near) reason = "is more than 128 calls away";
  if (!reason && m->count == MOST_MEMBERS) reason = "would be one more than 96 members";
  if (!reason) {
    *is_linked |= is_reader;
    add_member(m, a, axes);
  } else if (is_reader && !m->next) {
    m->next = action;
    m->reason = reason;
  }
  return TENON_OK;
}

/* Finds the calls of the region that begins with this action. *out_found: any of them reads what
 * another one makes. */
static tenon_status_t find_members(maker_t *m, int32_t first, bool *out_found) {
  const int32_t count = (int32_t)m->stage->action_count;
  const tn_region_form_t *form = &m->forms[first];
  int32_t *axes;
  *out_found = false;
  m->members[0] = first;
  m->count = 0;
  m->next = NULL;
  m->reason = NULL;
  m->elements = m->rows = form->elements;
  m->has_rows = false;
  m->like = form->like;
  TN_TRY(make_axes(m, first, &axes));
  if (refuse_member(m, &m->stage->actions[first], form, axes)) return TENON_OK;
  add_member(m, first, axes);
  for (int32_t a = first + 1; a < count && a < first + (m->next ? WINDOW : REASONS); a++)
    if (m->region_of[a] < 0) TN_TRY(try_member(m, a, out_found));
  for (int32_t k = 0; k < m->count && !*out_found; k++)
    m->region_of[m->members[k]] = -1;
  return TENON_OK;
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

/* Returns a tile for rows of `size` bytes that is free from this action on, or a new one.
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

static int64_t element_size(const tenon_tensor_t *t) { return t->dtype.bits * t->dtype.lanes / 8; }

static int64_t row_size(const tenon_tensor_t *t, int64_t rows) {
  return tenon_count(t) / rows * element_size(t);
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
      const int64_t size = row_size(&value->tensor->view, m->rows);
      value->tile = 1 + take_tile(region, sizes, until, size, m->members[k], value->last);
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

/* The bytes that the k-th operand needs in cache for a row, if it is in memory. */
static int64_t row_bytes(const tn_region_t *region, int32_t m, uint32_t k) {
  const tn_region_member_t *member = &region->members[m];
  const tenon_tensor_t *t = operand_in_memory(member, k);
  if (!t || (k < 32 && member->light >> k & 1)) return 0;
  /* Each member has a tile of its own for a scalar. */
  if (tenon_count(t) != 1 && is_counted(region, m, t)) return 0;
  if (!member->axes) return member->width * element_size(t);
  return member->axes[k] >= 0 ? row_size(t, region->rows) : 0;
}

/* Chooses the number of rows of a piece, so that its operands stay in cache. */
static int64_t choose_piece(const tn_region_t *region) {
  enum { LEAST = 512, MOST = 4096, STEP = 256 };
  int64_t bytes = 0;
  for (int32_t k = 0; k < region->tile_count; k++)
    bytes += region->tile_size[k];
  for (int32_t m = 0; m < region->count; m++)
    for (uint32_t k = 0; k < operand_count(&region->members[m]); k++)
      bytes += row_bytes(region, m, k);
  int64_t elements = bytes ? PIECE_BYTES * region->width / bytes : MOST;
  if (region->width == 1) elements = elements / STEP * STEP;
  if (elements < LEAST) elements = LEAST;
  if (elements > MOST) elements = MOST;
  return elements > region->width ? elements / region->width : 1;
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

static tenon_status_t make_member(const maker_t *m, int32_t k, tn_region_t *region) {
  const tn_action_t *action = &m->stage->actions[m->members[k]];
  const tn_region_form_t *form = &m->forms[m->members[k]];
  const int64_t width = form->rows ? widest_row(action, form) : form->elements / m->rows;
  tn_region_member_t *member = &region->members[k];
  *member = (tn_region_member_t){.frame = action->frame,
                                 .node = node_of(m, action)->name,
                                 .width = form->rows ? 1 : width,
                                 .axes = m->axes[k]};
  if (width > region->width) region->width = width;
  return list_tiles(m, action, &member->tiles);
}

/* Makes one action of those of the region, in the place of the first one. */
static tenon_status_t make_region(maker_t *m) {
  tn_arena_t *memory = &m->stage->memory;
  tn_region_t *region = tn_arena_allocate(memory, sizeof *region);
  tn_region_member_t *members = tn_arena_array(memory, (size_t)m->count, sizeof *members);
  const char *label = make_label(m);
  if (!region || !members || !label) return tn_no_memory("a plan", 0);
  *region = (tn_region_t){
      .members = members, .count = m->count, .rows = m->rows, .width = 1, .reason = m->reason};
  if (m->next) {
    region->next = node_of(m, m->next)->name;
    region->next_op = node_of(m, m->next)->op->name;
  }
  TN_TRY(assign_tiles(m, region));
  for (int32_t k = 0; k < m->count; k++)
    TN_TRY(make_member(m, k, region));
  TN_TRY(tn_region_find_chains(region, memory));
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
  const int32_t count = (int32_t)m->stage->action_count;
  for (int32_t a = 0; a < count; a++) {
    m->region_of[a] = -1;
    m->forms[a] = tn_region_form(m->run, m->index, &m->stage->actions[a]);
  }
  for (int32_t a = 0; a < count; a++) {
    bool is_found;
    if (m->region_of[a] >= 0 || m->forms[a].reason) continue;
    TN_TRY(find_members(m, a, &is_found));
    if (!is_found) continue;
    any = true;
    TN_TRY(make_region(m));
  }
  return any ? renumber(m) : TENON_OK;
}

tenon_status_t tn_stage_make_regions(tn_run_t *run, tn_stage_t *stage) {
  const size_t count = stage->action_count + 1;
  maker_t m = {.run = run,
               .stage = stage,
               .index = (int32_t)run->stage_count - 1,
               .forms = tn_allocate(count * sizeof *m.forms),
               .region_of = tn_allocate(count * sizeof *m.region_of)};
  tenon_status_t status = m.forms && m.region_of ? make_regions(&m) : tn_no_memory("a plan", count);
  tn_release_memory(m.forms);
  tn_release_memory(m.region_of);
  return status;
}
