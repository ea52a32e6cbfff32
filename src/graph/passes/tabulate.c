/* Replaces pointwise operators between 8-bit numbers by a table: what is computed from one tensor
 * of 8-bit numbers and from constants with one element has 256 results. Called by the pass that
 * replaces floats between 8-bit numbers (quantise.c).
 * Invariant: the table is computed by the kernels of the operators that it replaces. */
#include <string.h>

#include "base/scratch.h"
#include "base/status.h"
#include "core/dtype.h"
#include "dispatch/call.h"
#include "graph/passes/pass.h"
#include "graph/passes/rewrite.h"
#include "operator/names.h"

enum {
  CODES = 256,
  MOST_NODES = 32, /* of a table; a node that is reached twice counts twice */
};

typedef struct tabulation_t {
  const tn_rewrite_t *r;
  tenon_edge_t source; /* the 8-bit numbers; -1: not found yet */
  int32_t nodes;
  tenon_tensor_t *codes; /* all numbers of the source's dtype, as u8 from 0 to 255 */
} tabulation_t;

static const tn_edge_t *edge_of(const tabulation_t *t, tenon_edge_t edge) {
  return &t->r->graph->edges[edge];
}

static bool has_eight_bits(tenon_dtype_t dtype) {
  return tn_dtype_is(dtype, TENON_I8) || tn_dtype_is(dtype, TENON_U8);
}

/* Whether each result depends on the elements at its own position only. */
static bool is_pointwise(const tn_node_t *node) {
  const uint64_t traits = node->op->traits;
  if (node->group || node->output_count != 1 || node->op->create || traits & TENON_RANDOM)
    return false;
  if (tn_node_is(node, "core::dequantize_linear") || tn_node_is(node, "core::quantize_linear"))
    return true;
  return traits & TENON_POINTWISE && traits & TENON_PURE;
}

/* Whether the edge is computed from constants with one element and the source, which this finds. */
static bool find_source(tabulation_t *t, tenon_edge_t edge) {
  const tn_edge_t *value = edge_of(t, edge);
  const tn_node_t *table = tn_maker(t->r, edge, "core::map_bytes");
  if (value->constant) return tenon_count(value->constant) == 1;
  if (table) return find_source(t, tn_operand(table, 1));
  if (has_eight_bits(value->dtype)) {
    if (t->source < 0) t->source = edge;
    return edge == t->source;
  }
  if (value->producer < 0) return false;
  const tn_node_t *node = &t->r->graph->nodes[value->producer];
  if (++t->nodes > MOST_NODES || !is_pointwise(node)) return false;
  for (uint32_t i = 0; i < node->op->input_count; i++)
    if (node->operands[i].count > 1 ||
        (node->operands[i].count && !find_source(t, node->operands[i].edges[0])))
      return false;
  return true;
}

static tenon_status_t compute(const tabulation_t *t, const tn_node_t *node, tenon_tensor_t **out);

/* Computes an edge for all numbers of the source. */
static tenon_status_t compute_edge(const tabulation_t *t, tenon_edge_t edge, tenon_tensor_t **out) {
  *out = edge_of(t, edge)->constant;
  if (edge == t->source) *out = t->codes;
  if (!*out) return compute(t, &t->r->graph->nodes[edge_of(t, edge)->producer], out);
  tenon_tensor_retain(*out);
  return TENON_OK;
}

static tenon_status_t compute(const tabulation_t *t, const tn_node_t *node, tenon_tensor_t **out) {
  tn_scratch_mark_t mark = tn_scratch_mark();
  const uint32_t count = node->op->input_count;
  tenon_tensor_t **inputs = tn_scratch((count + 1) * sizeof *inputs);
  if (!inputs) return tn_no_memory("a table", 0);
  memset(inputs, 0, (count + 1) * sizeof *inputs);
  tenon_status_t status = TENON_OK;
  for (uint32_t i = 0; i < count && status == TENON_OK; i++)
    if (node->operands[i].count) status = compute_edge(t, node->operands[i].edges[0], &inputs[i]);
  *out = NULL;
  if (status == TENON_OK) status = tn_call(node->op, node->attrs, inputs, out, 0, NULL);
  for (uint32_t i = 0; i < count; i++)
    tenon_tensor_release(inputs[i]);
  tn_scratch_reset(mark);
  return status;
}

static bool have_same_extents(const tabulation_t *t, tenon_edge_t a, tenon_edge_t b) {
  const tn_edge_t *x = edge_of(t, a);
  const tn_edge_t *y = edge_of(t, b);
  if (x->ndim < 0 || x->ndim != y->ndim) return false;
  for (int32_t d = 0; d < x->ndim; d++)
    if (tn_extents_resolve(t->r->graph->extents, x->dims[d]).value !=
        tn_extents_resolve(t->r->graph->extents, y->dims[d]).value)
      return false;
  return true;
}

/* Makes the table of a quantize_linear node, with one axis. */
static tenon_status_t make_table(tabulation_t *t, const tn_node_t *last, tenon_tensor_t **out) {
  const int64_t shape[] = {CODES};
  tenon_tensor_t *results = NULL;
  *out = NULL;
  TN_TRY(tenon_tensor_create(edge_of(t, t->source)->dtype, 1, shape, &t->codes));
  for (int32_t i = 0; i < CODES; i++)
    ((uint8_t *)t->codes->data)[i] = (uint8_t)i;
  tenon_status_t status = compute(t, last, &results);
  if (status == TENON_OK) status = tenon_tensor_create(results->dtype, 1, shape, out);
  if (status == TENON_OK) memcpy((*out)->data, results->data, CODES);
  tenon_tensor_release(results);
  tenon_tensor_release(t->codes);
  return status;
}

tenon_status_t tn_tabulate(tn_rewrite_t *r, tn_node_t *last) {
  const tenon_op_t *lookup = tn_registry_find("core::map_bytes");
  tabulation_t t = {.r = r, .source = -1};
  const tenon_edge_t floats = tn_operand(last, 0);
  if (!lookup || !has_eight_bits(edge_of(&t, last->outputs[0])->dtype) || floats < 0 ||
      tn_only_user(r, floats) != last || edge_of(&t, floats)->producer < 0)
    return TENON_OK;
  for (uint32_t i = 0; i < last->op->input_count; i++)
    if (last->operands[i].count && !find_source(&t, last->operands[i].edges[0])) return TENON_OK;
  if (t.source < 0 || !have_same_extents(&t, t.source, last->outputs[0])) return TENON_OK;
  tenon_tensor_t *table;
  TN_TRY(make_table(&t, last, &table));
  /* The floats, which only this node reads, become the table. */
  tn_node_remove(r, &r->graph->nodes[edge_of(&t, floats)->producer]);
  tn_edge_bind_constant(r->graph, floats, table);
  tenon_tensor_release(table);
  return tn_node_become(r, last, lookup, NULL, (tenon_edge_t[]){floats, t.source});
}
