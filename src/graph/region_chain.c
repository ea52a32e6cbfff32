/* Finds the members of a region that run as links, see region_chain.h: built-in loops of f32 that
 * take an instruction or two for each vector. Consecutive ones run together. The result of one that
 * only the next one reads is in registers, and never in a tile. */
#include "graph/region_chain.h"

#include <string.h>

#include "core/dtype.h"
#include "graph/region_form.h"
#include "operator/library.h"

typedef struct link_name_t {
  const char *name;
  int32_t code; /* that of the first form */
} link_name_t;

static const link_name_t names[] = {
    {"abs", TN_LINK_ABS},   {"neg", TN_LINK_NEG},     {"reciprocal", TN_LINK_RECIPROCAL},
    {"relu", TN_LINK_RELU}, {"rsqrt", TN_LINK_RSQRT}, {"sqrt", TN_LINK_SQRT},
    {"add", TN_LINK_ADD},   {"div", TN_LINK_DIV},     {"max", TN_LINK_MAX},
    {"min", TN_LINK_MIN},   {"mul", TN_LINK_MUL},     {"sub", TN_LINK_SUB},
};

static bool is_f32(const tenon_tensor_t *t) {
  return tn_dtype_same(t->dtype, tenon_dtype(TENON_F32));
}

/* The code of the first form of a member that can be a link; TN_LINK_NONE: it cannot. */
static int32_t find_code(const tn_region_member_t *member) {
  const tn_kernel_t *kernel = member->frame.kernel;
  const tenon_call_t *call = &member->frame.call;
  if (member->axes || kernel->kind != TN_KIND_LOOP || strcmp(kernel->library->name, "core") != 0 ||
      strcmp(call->op->schema.ns, "core") != 0)
    return TN_LINK_NONE;
  for (uint32_t i = 0; i < call->op->input_count; i++)
    if (!call->inputs[i] || !is_f32(call->inputs[i])) return TN_LINK_NONE;
  if (!call->outputs[0] || !is_f32(call->outputs[0])) return TN_LINK_NONE;
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (strcmp(call->op->schema.name, names[k].name) == 0) return names[k].code;
  return TN_LINK_NONE;
}

static int32_t result_tile(const tn_region_member_t *member) {
  return member->tiles[member->frame.call.op->input_count];
}

/* Whether input i of a member is the result of another one. */
static bool is_result_of(const tn_region_member_t *member, uint32_t i,
                         const tn_region_member_t *maker) {
  const int32_t tile = result_tile(maker);
  return tile >= 0 ? member->tiles[i] == tile
                   : member->frame.call.inputs[i] == maker->frame.call.outputs[0];
}

static bool is_link_number(const tn_region_member_t *member, uint32_t i) {
  return member->tiles[i] < 0 && tenon_count(member->frame.call.inputs[i]) == 1;
}

/* Makes the member a link of the operator that has this code. `before` is the link before it;
 * NULL: it is the first of its run. Returns false if all its operands are numbers. */
static bool make_link(tn_region_member_t *member, int32_t code, const tn_region_member_t *before) {
  const uint32_t inputs = member->frame.call.op->input_count;
  bool is_block[2] = {false, false};
  for (uint32_t i = 0; i < inputs && before; i++)
    is_block[i] = is_result_of(member, i, before);
  member->loads = !is_block[0] && !is_block[1];
  if (member->loads) is_block[inputs == 2 && is_link_number(member, 0)] = true;
  member->block = is_block[0] ? 0 : 1;
  member->other = -1;
  if (is_link_number(member, (uint32_t)member->block)) return false;
  if (is_block[0] && is_block[1]) {
    code += TN_FORM_ITSELF;
  } else if (inputs == 2) {
    member->other = 1 - member->block;
    member->takes_one = is_link_number(member, (uint32_t)member->other);
    if (member->takes_one) code += TN_FORM_BLOCK_NUMBER;
    code += member->other ? TN_FORM_BLOCK_RUN : TN_FORM_RUN_BLOCK;
  }
  member->link = code;
  return true;
}

/* Whether the result of a link is read by another member than the link after it. */
static bool is_kept(const tn_region_t *region, int32_t m, bool is_last) {
  const int32_t tile = result_tile(&region->members[m]);
  if (tile < 0 || is_last) return true;
  for (int32_t k = m + 2; k < region->count; k++) {
    const tn_region_member_t *member = &region->members[k];
    const tenon_op_t *op = member->frame.call.op;
    for (uint32_t i = 0; i < op->input_count; i++)
      if (member->tiles[i] == tile) return true;
    for (uint32_t o = 0; o < op->output_count; o++)
      if (member->tiles[op->input_count + o] == tile) return false;
  }
  return false;
}

/* Whether each operand that is no number has an element for each of the result, in its order. */
static bool has_even_operands(const tn_region_member_t *member) {
  const tenon_call_t *call = &member->frame.call;
  const tenon_tensor_t *result = call->outputs[0];
  for (uint32_t i = 0; i < call->op->input_count; i++) {
    const tenon_tensor_t *t = call->inputs[i];
    if (member->takes_one && (int32_t)i == member->other) continue;
    const bool is_dense = !((t->keys | result->keys) & TN_KEY_STRIDED);
    if (is_dense ? tenon_count(t) != tenon_count(result) : !tn_region_is_like(t, result))
      return false;
  }
  return true;
}

void tn_region_find_chains(tn_region_t *region) {
  region->run_chain = tn_chain_function();
  for (int32_t m = 0; m < region->count; m++) {
    tn_region_member_t *first = &region->members[m];
    int32_t count = 0;
    for (int32_t k = m; k < region->count && region->members[k].width == first->width; k++) {
      const int32_t code = find_code(&region->members[k]);
      if (code == TN_LINK_NONE) break;
      if (!make_link(&region->members[k], code, k > m ? &region->members[k - 1] : NULL)) break;
      count++;
    }
    first->link_count = count;
    /* A chain reads its numbers before it runs, but of values with one element a link may read what
     * an earlier one writes: these links run alone. */
    first->is_even = count && tenon_count(first->frame.call.outputs[0]) > 1;
    for (int32_t k = m; k < m + count; k++) {
      region->members[k].is_kept = is_kept(region, k, k + 1 == m + count);
      first->is_even &= has_even_operands(&region->members[k]);
    }
    if (count) m += count - 1;
  }
}
