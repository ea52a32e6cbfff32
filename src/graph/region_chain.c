/* Finds the members of a region that run as links, see region_chain.h: built-in pointwise operators
 * on floats that take an instruction or two for each vector. Consecutive ones run together. A
 * result that only the next one reads, as its block, is in registers, and never in a tile. */
#include "graph/region_chain.h"

#include <string.h>

#include "base/scratch.h"
#include "base/status.h"
#include "core/dtype.h"
#include "drivers/iterator.h"
#include "operator/library.h"

enum {
  MOST_LINKS = 8, /* of a member */
  MOST_OPERANDS = 4,
  /* Elements of a run at least, for a chain to begin anew with each run. A piece can be packed
   * instead; whole values are small, and their other way is a call for each member. */
  LEAST_RUN = 128,
  LEAST_RUN_OF_FEW = 48,
};

/* How links take the place of an operator. */
typedef enum way_t {
  WAY_ONE,     /* of one operand */
  WAY_TWO,     /* of two operands */
  WAY_COMPARE, /* of two, with a bool as the result */
  WAY_CAST,
  WAY_CLIP,
  WAY_HARD_SIGMOID,
  WAY_LEAKY_RELU,
  WAY_WHERE,
} way_t;

typedef struct way_of_op_t {
  const char *name;
  way_t way;
  int32_t code; /* that of the first form */
} way_of_op_t;

static const way_of_op_t ways[] = {
    {"abs", WAY_ONE, TN_LINK_ABS},
    {"hard_swish", WAY_ONE, TN_LINK_HARD_SWISH},
    {"neg", WAY_ONE, TN_LINK_NEG},
    {"reciprocal", WAY_ONE, TN_LINK_RECIPROCAL},
    {"relu", WAY_ONE, TN_LINK_RELU},
    {"rsqrt", WAY_ONE, TN_LINK_RSQRT},
    {"sqrt", WAY_ONE, TN_LINK_SQRT},
    {"add", WAY_TWO, TN_LINK_ADD},
    {"div", WAY_TWO, TN_LINK_DIV},
    {"max", WAY_TWO, TN_LINK_MAX},
    {"min", WAY_TWO, TN_LINK_MIN},
    {"mul", WAY_TWO, TN_LINK_MUL},
    {"sub", WAY_TWO, TN_LINK_SUB},
    {"equal", WAY_COMPARE, TN_LINK_EQUAL},
    {"greater", WAY_COMPARE, TN_LINK_GREATER},
    {"greater_equal", WAY_COMPARE, TN_LINK_GREATER_EQUAL},
    {"less", WAY_COMPARE, TN_LINK_LESS},
    {"less_equal", WAY_COMPARE, TN_LINK_LESS_EQUAL},
    {"not_equal", WAY_COMPARE, TN_LINK_NOT_EQUAL},
    {"cast", WAY_CAST, TN_LINK_NONE},
    {"clip", WAY_CLIP, TN_LINK_NONE},
    {"hard_sigmoid", WAY_HARD_SIGMOID, TN_LINK_NONE},
    {"leaky_relu", WAY_LEAKY_RELU, TN_LINK_LEAKY_RELU},
    {"where", WAY_WHERE, TN_LINK_WHERE},
};

/* A chain while it is made. */
typedef struct maker_t {
  const tn_region_t *region;
  tn_arena_t *memory;
  int32_t member; /* whose links are made */
  /* The members whose results are in registers; -1: none. */
  int32_t block;
  int32_t other;                     /* in the block that was saved */
  int32_t mask;                      /* likewise, if it is a mask */
  int32_t *reads;                    /* of each member: how often its result was read so */
  bool is_small;                     /* all operands are whole */
  tn_chain_step_t links[MOST_LINKS]; /* of the member */
  int32_t count;
  /* Of the member's operands: */
  tn_reach_t reach[MOST_OPERANDS];
  bool is_number[MOST_OPERANDS];
  tn_runs_t runs[MOST_OPERANDS];
} maker_t;

static const tn_region_member_t *current(const maker_t *m) {
  return &m->region->members[m->member];
}

static const tenon_tensor_t *link_operand(const tn_region_member_t *member, uint32_t i) {
  const tenon_call_t *call = &member->frame.call;
  const uint32_t inputs = call->op->input_count;
  return i < inputs ? call->inputs[i] : call->outputs[i - inputs];
}

static tenon_dtype_t result_dtype(const tn_region_member_t *member) {
  return member->frame.call.outputs[0]->dtype;
}

static int32_t result_tile(const tn_region_member_t *member) {
  return member->tiles[member->frame.call.op->input_count];
}

static bool is_dtype(tenon_dtype_t dtype, uint32_t id) {
  return tn_dtype_same(dtype, tenon_dtype(id));
}

/* Whether blocks hold these numbers as they are. */
static bool is_block_type(tenon_dtype_t dtype) {
  return is_dtype(dtype, TENON_F32) || is_dtype(dtype, TENON_BF16) ||
         (is_dtype(dtype, TENON_F16) && tn_chain_takes_f16());
}

static const way_of_op_t *find_way(const tn_region_member_t *member) {
  const tn_kernel_t *kernel = member->frame.kernel;
  const tenon_op_t *op = member->frame.call.op;
  if (strcmp(kernel->library->name, "core") != 0 || strcmp(op->schema.ns, "core") != 0) return NULL;
  for (size_t k = 0; k < sizeof ways / sizeof *ways; k++)
    if (strcmp(op->schema.name, ways[k].name) == 0)
      return (kernel->kind == TN_KIND_LOOP) == (ways[k].way != WAY_CAST) ? &ways[k] : NULL;
  return NULL;
}

/* Whether links know the dtypes of the member's operands. */
static bool has_known_dtypes(const tn_region_member_t *member, way_t way) {
  const tenon_op_t *op = member->frame.call.op;
  const tenon_dtype_t result = result_dtype(member);
  for (uint32_t i = 0; i < op->input_count; i++) {
    const tenon_tensor_t *t = member->frame.call.inputs[i];
    const bool may_be_bool = way == WAY_CAST || (way == WAY_WHERE && i == 0);
    if (!t && way != WAY_CLIP) return false;
    if (!t || (may_be_bool && is_dtype(t->dtype, TENON_BOOL))) continue;
    /* Rounding would change those NaN of f16 and bf16 that signal, and `where` only moves them. */
    if (way == WAY_WHERE ? !is_dtype(t->dtype, TENON_F32) : !is_block_type(t->dtype)) return false;
  }
  if (way == WAY_COMPARE) return is_dtype(result, TENON_BOOL);
  return is_block_type(result) || (way == WAY_CAST && is_dtype(result, TENON_BOOL));
}

/* Where operands lie */

/* How an operand is read that lies in runs of this many elements. */
static tn_reach_t reach_of_runs(const maker_t *m, int64_t length) {
  const int64_t least = m->is_small ? LEAST_RUN_OF_FEW : LEAST_RUN;
  return length >= least ? TN_REACH_RUNS : TN_REACH_PACKED;
}

/* Finds the runs of an operand, by an iterator over the elements of the results. */
static bool find_runs(maker_t *m, const tenon_iterator_t *it, uint32_t i) {
  const tenon_tensor_t *t = link_operand(current(m), i);
  const int64_t size = t->dtype.bits * t->dtype.lanes / 8;
  int64_t *axes = tn_arena_array(m->memory, 2 * (size_t)it->ndim, sizeof *axes);
  int32_t last = it->ndim - 1;
  if (!axes) return false;
  const int64_t step = it->strides[i][last];
  int64_t length = it->shape[last];
  while (last > 0 && it->strides[i][last - 1] == step * length)
    length *= it->shape[--last];
  memcpy(axes, it->shape, (size_t)last * sizeof *axes);
  memcpy(axes + last, it->strides[i], (size_t)last * sizeof *axes);
  m->runs[i] = (tn_runs_t){length, last, axes, axes + last};
  m->is_number[i] = step == 0;
  if (step == size && last == 0)
    m->reach[i] = TN_REACH_EVEN;
  else
    m->reach[i] = step == size || step == 0 ? reach_of_runs(m, length) : TN_REACH_PACKED;
  return true;
}

/* Finds the runs of a value in a tile, which has an element for each of the results, or one for
 * each row. */
static bool find_tile_runs(maker_t *m, int64_t count, uint32_t i) {
  const tenon_tensor_t *t = link_operand(current(m), i);
  const int64_t length = count / tenon_count(t);
  int64_t *axes = tn_arena_array(m->memory, 2, sizeof *axes);
  if (!axes) return false;
  axes[0] = tenon_count(t);
  axes[1] = t->dtype.bits * t->dtype.lanes / 8;
  m->runs[i] = (tn_runs_t){length, 1, axes, axes + 1};
  m->is_number[i] = length > 1;
  m->reach[i] = length > 1 ? reach_of_runs(m, length) : TN_REACH_EVEN;
  return true;
}

/* Whether a member before the current one writes one element to memory. The value may be read by
 * another name, as a view. */
static bool may_write_number(const maker_t *m) {
  for (int32_t k = 0; k < m->member; k++) {
    const tn_region_member_t *member = &m->region->members[k];
    const tenon_call_t *call = &member->frame.call;
    for (uint32_t o = 0; o < call->op->output_count; o++) {
      const tenon_tensor_t *t = call->outputs[o];
      if (t && member->tiles[call->op->input_count + o] < 0 && tenon_count(t) == 1) return true;
    }
  }
  return false;
}

/* Finds where the operands lie. Returns false if a link cannot read or write them. */
static bool find_operands(maker_t *m, way_t way) {
  const tn_region_member_t *member = current(m);
  tenon_call_t *call = &m->region->members[m->member].frame.call;
  const uint32_t inputs = call->op->input_count;
  const int64_t count = tenon_count(call->outputs[0]);
  tenon_iterator_t it;
  if (inputs + call->op->output_count > MOST_OPERANDS) return false;
  if (tn_iterator_make_apart(call, &it) != TENON_OK || it.end != count) return false;
  for (uint32_t i = 0; i <= inputs; i++) {
    const tenon_tensor_t *t = link_operand(member, i);
    if (!t) continue;
    if (i < inputs && member->tiles[i] < 0 && tenon_count(t) == 1) {
      /* A chain reads its numbers before it runs. */
      if (may_write_number(m)) return false;
      m->reach[i] = TN_REACH_NUMBER;
      m->is_number[i] = true;
    } else if (member->tiles[i] >= 0 ? !find_tile_runs(m, count, i) : !find_runs(m, &it, i)) {
      return false;
    }
    const bool is_apart = m->reach[i] == TN_REACH_PACKED;
    /* The driver packs operands of loops only. */
    if (is_apart && (way == WAY_CAST || i == inputs)) return false;
  }
  return m->reach[inputs] == TN_REACH_EVEN;
}

/* Links */

static tn_chain_step_t *add_link(maker_t *m, int32_t code) {
  tn_chain_step_t *step = &m->links[m->count++];
  *step = (tn_chain_step_t){.code = code, .member = m->member, .operand = -1, .result = -1};
  return step;
}

/* Adds a link that reads an operand. */
static void add_reader(maker_t *m, int32_t code, uint32_t i) {
  tn_chain_step_t *step = add_link(m, code);
  step->operand = (int32_t)i;
  step->reach = m->reach[i];
  step->is_number = m->is_number[i] && m->reach[i] != TN_REACH_PACKED;
  step->runs = m->runs[i];
  step->dtype = link_operand(current(m), i)->dtype;
  /* The driver packs what loops read, and those of floats read f32. */
  if (step->reach == TN_REACH_PACKED && is_block_type(step->dtype))
    step->dtype = tenon_dtype(TENON_F32);
}

/* Whether a link reads one number for many elements. */
static bool is_one_number(const maker_t *m, uint32_t i) {
  return m->is_number[i] && m->reach[i] != TN_REACH_PACKED;
}

static int32_t code_for(const maker_t *m, uint32_t i, int32_t of_f32, int32_t of_f16,
                        int32_t of_bf16) {
  const tenon_dtype_t dtype = link_operand(current(m), i)->dtype;
  if (m->reach[i] == TN_REACH_PACKED || is_dtype(dtype, TENON_F32)) return of_f32;
  return is_dtype(dtype, TENON_F16) ? of_f16 : of_bf16;
}

/* Whether input i is the result of this member (-1: none). */
static bool is_result_of(const maker_t *m, uint32_t i, int32_t maker) {
  if (maker < 0) return false;
  const tn_region_member_t *from = &m->region->members[maker];
  const int32_t tile = result_tile(from);
  return tile >= 0 ? current(m)->tiles[i] == tile
                   : current(m)->frame.call.inputs[i] == from->frame.call.outputs[0];
}

static bool is_block(const maker_t *m, uint32_t i) { return is_result_of(m, i, m->block); }

static bool is_other(const maker_t *m, uint32_t i) { return is_result_of(m, i, m->other); }

/* Adds a link that reads input i to the second block. */
static void add_fetch(maker_t *m, int32_t code, uint32_t i) {
  add_reader(m, code, i);
  m->other = m->mask = -1;
}

/* Makes input i the block. */
static void load_block(maker_t *m, uint32_t i) {
  const bool is_far = m->reach[i] == TN_REACH_EVEN && current(m)->tiles[i] < 0;
  if (!is_block(m, i) && is_other(m, i)) {
    const int32_t block = m->block;
    add_link(m, TN_LINK_SWAP);
    m->block = m->other;
    m->other = block;
  }
  if (is_block(m, i))
    m->reads[m->block]++;
  else if (is_dtype(link_operand(current(m), i)->dtype, TENON_BOOL))
    add_reader(m, TN_LINK_LOAD_BOOL, i);
  else if (is_one_number(m, i))
    add_reader(m, TN_LINK_LOAD_NUMBER, i);
  else
    add_reader(m,
               code_for(m, i, is_far ? TN_LINK_LOAD_AHEAD : TN_LINK_LOAD, TN_LINK_LOAD_F16,
                        TN_LINK_LOAD_BF16),
               i);
}

/* Adds the operator of two operands: the block, and input i as its left or its right one. */
static void add_two(maker_t *m, int32_t code, uint32_t i, bool is_left) {
  const int32_t fetch = code_for(m, i, TN_LINK_NONE, TN_LINK_FETCH_F16, TN_LINK_FETCH_BF16);
  if (is_one_number(m, i)) {
    add_reader(m, code + (is_left ? TN_FORM_NUMBER_BLOCK : TN_FORM_BLOCK_NUMBER), i);
  } else if (is_other(m, i)) {
    m->reads[m->other]++;
    add_link(m, code + (is_left ? TN_FORM_OTHER_BLOCK : TN_FORM_BLOCK_OTHER));
  } else if (fetch == TN_LINK_NONE) {
    add_reader(m, code + (is_left ? TN_FORM_RUN_BLOCK : TN_FORM_BLOCK_RUN), i);
  } else {
    add_fetch(m, fetch, i);
    add_link(m, code + (is_left ? TN_FORM_OTHER_BLOCK : TN_FORM_BLOCK_OTHER));
  }
}

/* Adds the operator of inputs a and b, of which the block is the one that is in a register, or that
 * is no number. */
static void add_pair(maker_t *m, int32_t code, uint32_t a, uint32_t b) {
  bool takes_b = is_block(m, b);
  if (!is_block(m, a) && !takes_b) {
    takes_b = is_one_number(m, a) && !is_one_number(m, b);
    if (!is_other(m, a) && is_other(m, b)) takes_b = true;
  }
  load_block(m, takes_b ? b : a);
  const uint32_t rest = takes_b ? a : b;
  if (is_block(m, rest)) {
    m->reads[m->block]++;
    add_link(m, code + TN_FORM_ITSELF);
  } else {
    add_two(m, code, rest, takes_b);
  }
}

/* Adds links for `where`. */
static void add_where(maker_t *m) {
  if (is_result_of(m, 0, m->mask))
    m->reads[m->mask]++;
  else
    add_fetch(m, TN_LINK_FETCH_BOOL, 0);
  add_pair(m, TN_LINK_WHERE, 1, 2);
}

static void add_cast(maker_t *m) {
  load_block(m, 0);
  const bool is_mask = is_dtype(result_dtype(current(m)), TENON_BOOL);
  /* Number 0 */
  add_link(m, is_mask ? TN_LINK_NOT_EQUAL + TN_FORM_BLOCK_NUMBER : TN_LINK_NONE);
}

static void add_hard_sigmoid(maker_t *m) {
  const tenon_value_t *attrs = current(m)->frame.call.attrs;
  load_block(m, 0);
  add_link(m, TN_LINK_MUL + TN_FORM_BLOCK_NUMBER)->number = (float)attrs[0].as.f;
  add_link(m, TN_LINK_ADD + TN_FORM_BLOCK_NUMBER)->number = (float)attrs[1].as.f;
  add_link(m, TN_LINK_UNIT);
}

/* How often members from `first` on read the result of member m, which is in a tile. */
static int32_t count_reads(const tn_region_t *region, int32_t m, int32_t first) {
  const int32_t tile = result_tile(&region->members[m]);
  int32_t count = 0;
  for (int32_t k = first; k < region->count; k++) {
    const tn_region_member_t *member = &region->members[k];
    const tenon_op_t *op = member->frame.call.op;
    for (uint32_t i = 0; i < op->input_count; i++)
      count += member->tiles[i] == tile;
    for (uint32_t o = 0; o < op->output_count; o++)
      if (member->tiles[op->input_count + o] == tile) return count;
  }
  return count;
}

/* Whether the member reads the block. */
static bool is_block_read(const maker_t *m) {
  bool is_read = false;
  for (uint32_t i = 0; i < current(m)->frame.call.op->input_count; i++)
    is_read |= current(m)->frame.call.inputs[i] && is_block(m, i);
  return is_read;
}

/* Saves the block if later members read it too, and nothing else is there that they read. */
static void save_block(maker_t *m) {
  const int32_t saved = m->other >= 0 ? m->other : m->mask;
  if (m->block < 0 || !tn_chain_has_other()) return;
  if (result_tile(&m->region->members[m->block]) < 0) return;
  if (saved >= 0 && count_reads(m->region, saved, m->member) > 0) return;
  const bool is_read = is_block_read(m);
  if (count_reads(m->region, m->block, m->member + is_read) == 0) return;
  add_link(m, TN_LINK_SAVE);
  m->other = m->block;
  m->mask = -1;
}

/* Adds the links of an operator, which make the block its result. */
static void add_op_links(maker_t *m, const way_of_op_t *way) {
  const tenon_call_t *call = &current(m)->frame.call;
  switch (way->way) {
  case WAY_ONE:
    load_block(m, 0);
    add_link(m, way->code);
    break;
  case WAY_TWO:
  case WAY_COMPARE:
    add_pair(m, way->code, 0, 1);
    break;
  case WAY_CAST:
    add_cast(m);
    break;
  case WAY_CLIP:
    load_block(m, 0);
    if (call->inputs[1]) add_two(m, TN_LINK_MAX, 1, false);
    if (call->inputs[2]) add_two(m, TN_LINK_MIN, 2, false);
    break;
  case WAY_HARD_SIGMOID:
    add_hard_sigmoid(m);
    break;
  case WAY_LEAKY_RELU:
    load_block(m, 0);
    add_link(m, way->code)->number = (float)call->attrs[0].as.f;
    break;
  case WAY_WHERE:
    add_where(m);
    break;
  }
}

/* Whether links know the operands, whose places were found. */
static bool has_known_operands(const maker_t *m, way_t way) {
  const tenon_call_t *call = &current(m)->frame.call;
  if (way == WAY_CLIP) return call->inputs[1] || call->inputs[2];
  return way != WAY_WHERE || !is_one_number(m, 0);
}

/* Forgets what was in a tile that gets another value. */
static void forget_tile(maker_t *m, int32_t tile) {
  if (tile < 0) return;
  if (m->other >= 0 && result_tile(&m->region->members[m->other]) == tile) m->other = -1;
  if (m->mask >= 0 && result_tile(&m->region->members[m->mask]) == tile) m->mask = -1;
}

/* Makes the links of a member. Returns false if it has none. */
static bool make_links(maker_t *m, int32_t member) {
  m->member = member;
  m->count = 0;
  const way_of_op_t *way = find_way(current(m));
  if (!way || !current(m)->frame.call.outputs[0]) return false;
  if (!has_known_dtypes(current(m), way->way)) return false;
  tn_scratch_mark_t mark = tn_scratch_mark();
  const bool is_found = find_operands(m, way->way) && has_known_operands(m, way->way);
  tn_scratch_reset(mark);
  if (!is_found) return false;
  save_block(m);
  add_op_links(m, way);
  const tenon_dtype_t result = result_dtype(current(m));
  forget_tile(m, result_tile(current(m)));
  m->block = member;
  if (is_dtype(result, TENON_F16)) add_link(m, TN_LINK_ROUND_F16);
  if (is_dtype(result, TENON_BF16)) add_link(m, TN_LINK_ROUND_BF16);
  if (is_dtype(result, TENON_BOOL)) {
    add_link(m, TN_LINK_STORE_BOOL);
    m->mask = member;
    m->other = m->block = -1;
  }
  return true;
}

/* Chains */

/* Whether the result of a member must be stored: not all who read it find it in registers. */
static bool is_kept(const maker_t *m, int32_t member) {
  const bool is_in_memory = result_tile(&m->region->members[member]) < 0;
  return is_in_memory || count_reads(m->region, member, member + 1) > m->reads[member];
}

/* Notes which operands of the member are packed, and which take no room in the cache. */
static void note_operands(const maker_t *m, tn_region_member_t *member) {
  const uint32_t inputs = member->frame.call.op->input_count;
  for (uint32_t i = 0; i < inputs; i++) {
    const tenon_tensor_t *t = member->frame.call.inputs[i];
    if (!t) continue;
    if (m->reach[i] == TN_REACH_PACKED) member->packed |= 1u << i;
    const bool is_few = tenon_count(t) < tenon_count(member->frame.call.outputs[0]);
    if (is_few && m->reach[i] != TN_REACH_PACKED) member->light |= 1u << i;
  }
}

/* Adds the links of the member that were made to the chain. */
static void append(maker_t *m, tn_chain_t *chain) {
  for (int32_t k = 0; k < m->count; k++) {
    const tn_chain_step_t *step = &m->links[k];
    chain->packs |= step->operand >= 0 && step->reach == TN_REACH_PACKED;
    chain->has_runs |= step->operand >= 0 && step->reach == TN_REACH_RUNS;
    chain->steps[chain->count++] = *step;
  }
  chain->members++;
  m->region->members[m->member].is_link = true;
  note_operands(m, &m->region->members[m->member]);
}

/* Makes the links of the chain that begins with a member. The last one of each member gets its
 * result for now. */
static void make_steps(maker_t *m, int32_t first, tn_chain_t *chain) {
  const tn_region_t *region = m->region;
  m->block = m->other = m->mask = -1;
  for (int32_t k = first; k < region->count; k++) {
    const tn_region_member_t *member = &region->members[k];
    m->reads[k] = 0;
    if (member->width != region->members[first].width || !make_links(m, k)) break;
    m->links[m->count - 1].result = (int32_t)member->frame.call.op->input_count;
    append(m, chain);
  }
}

/* Makes the chain that begins with a member, if it is a link. */
static tenon_status_t make_chain(maker_t *m, int32_t first) {
  const tn_region_t *region = m->region;
  const size_t most = (size_t)(region->count - first) * MOST_LINKS;
  tn_chain_step_t *steps = tn_scratch(most * sizeof *steps);
  tn_chain_t *chain = tn_arena_allocate(m->memory, sizeof *chain);
  m->reads = tn_scratch((size_t)region->count * sizeof *m->reads);
  if (!steps || !chain || !m->reads) return tn_no_memory("a plan", most);
  *chain = (tn_chain_t){.steps = steps};
  make_steps(m, first, chain);
  if (!chain->count) return TENON_OK;
  for (int32_t k = 0; k < chain->count; k++)
    if (steps[k].result >= 0 && !is_kept(m, steps[k].member)) steps[k].result = -1;
  chain->steps = tn_arena_array(m->memory, (size_t)chain->count, sizeof *chain->steps);
  if (!chain->steps) return tn_no_memory("a plan", (size_t)chain->count);
  memcpy(chain->steps, steps, (size_t)chain->count * sizeof *steps);
  region->members[first].chain = chain;
  return TENON_OK;
}

tenon_status_t tn_region_find_chains(tn_region_t *region, tn_arena_t *memory) {
  maker_t m = {.region = region, .memory = memory, .is_small = tn_region_is_small(region)};
  region->run_chain = tn_chain_function();
  for (int32_t k = 0; k < region->count; k++) {
    tn_scratch_mark_t mark = tn_scratch_mark();
    tenon_status_t status = make_chain(&m, k);
    tn_scratch_reset(mark);
    TN_TRY(status);
    if (region->members[k].chain) k += region->members[k].chain->members - 1;
  }
  return TENON_OK;
}
