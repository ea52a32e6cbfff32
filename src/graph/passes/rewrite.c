/* Functions for rewriting passes, see rewrite.h. Invariant: the counts of uses are correct after
 * every call. */
#include "graph/passes/rewrite.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/value.h"

static void count_uses(tn_rewrite_t *r, const tn_node_t *node, int32_t by) {
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++) {
      tenon_edge_t edge = node->operands[i].edges[k];
      r->uses[edge] += by;
      if (by > 0) r->user[edge] = (int32_t)(node - r->graph->nodes);
    }
}

tenon_status_t tn_rewrite_begin(tn_rewrite_t *r, tenon_graph_t *graph) {
  *r = (tn_rewrite_t){graph, NULL, NULL, 0};
  if (!(r->user = tn_allocate((graph->edge_count + 1) * sizeof *r->user)))
    return tn_no_memory("a rewrite", graph->edge_count);
  tenon_status_t status = tn_graph_uses(graph, &r->uses);
  for (size_t i = 0; i < graph->edge_count; i++)
    r->user[i] = -1;
  for (size_t n = 0; status == TENON_OK && n < graph->node_count; n++)
    if (graph->nodes[n].op) {
      count_uses(r, &graph->nodes[n], 1);
      count_uses(r, &graph->nodes[n], -1);
    }
  if (status != TENON_OK) tn_rewrite_end(r);
  return status;
}

void tn_rewrite_end(tn_rewrite_t *r) {
  tn_release_memory(r->uses);
  tn_release_memory(r->user);
  r->uses = NULL;
  r->user = NULL;
}

bool tn_node_is(const tn_node_t *node, const char *op) {
  return node && node->op && strcmp(node->op->name, op) == 0;
}

tn_node_t *tn_maker(const tn_rewrite_t *r, tenon_edge_t edge, const char *op) {
  if (edge < 0 || r->graph->edges[edge].producer < 0) return NULL;
  tn_node_t *node = &r->graph->nodes[r->graph->edges[edge].producer];
  return tn_node_is(node, op) ? node : NULL;
}

tn_node_t *tn_only_user(const tn_rewrite_t *r, tenon_edge_t edge) {
  if (edge < 0 || r->uses[edge] != 1 || r->user[edge] < 0) return NULL;
  for (size_t i = 0; i < r->graph->output_count; i++)
    if (r->graph->outputs[i] == edge) return NULL;
  tn_node_t *node = &r->graph->nodes[r->user[edge]];
  return node->op && !node->group ? node : NULL;
}

tenon_edge_t tn_operand(const tn_node_t *node, uint32_t index) {
  return index < node->op->input_count && node->operands[index].count == 1
             ? node->operands[index].edges[0]
             : -1;
}

bool tn_scalar(const tn_rewrite_t *r, tenon_edge_t edge, double *out_value) {
  const tenon_tensor_t *t = edge >= 0 ? r->graph->edges[edge].constant : NULL;
  if (!t || tenon_count(t) != 1) return false;
  switch (tenon_dtype_id(t->dtype)) {
  case TENON_F32:
    *out_value = *(const float *)t->data;
    return true;
  case TENON_F64:
    *out_value = *(const double *)t->data;
    return true;
  case TENON_I64:
    *out_value = (double)*(const int64_t *)t->data;
    return true;
  case TENON_I32:
    *out_value = *(const int32_t *)t->data;
    return true;
  default:
    return false;
  }
}

bool tn_same_shape(const tn_rewrite_t *r, tenon_edge_t a, tenon_edge_t b) {
  const tn_edge_t *x = &r->graph->edges[a];
  const tn_edge_t *y = &r->graph->edges[b];
  if (x->ndim < 0 || x->ndim != y->ndim || !tn_dtype_same(x->dtype, y->dtype)) return false;
  for (int32_t d = 0; d < x->ndim; d++)
    if (tn_extents_resolve(r->graph->extents, x->dims[d]).value !=
        tn_extents_resolve(r->graph->extents, y->dims[d]).value)
      return false;
  return true;
}

int32_t tn_attr(const tn_node_t *node, const char *name) {
  return tn_schema_attr(&node->op->schema, name, strlen(name));
}

tenon_status_t tn_node_become(tn_rewrite_t *r, tn_node_t *node, const tenon_op_t *op,
                              const tenon_value_t *attrs, const tenon_edge_t *operands) {
  tn_arena_t *arena = &r->graph->arena;
  tenon_value_t *values = tn_arena_array(arena, op->schema.attr_count + 1, sizeof *values);
  tenon_operand_t *own = tn_arena_array(arena, op->input_count + 1, sizeof *own);
  tenon_edge_t *edges = tn_arena_array(arena, op->input_count + 1, sizeof *edges);
  if (!values || !own || !edges) return tn_no_memory("a rewrite", 0);
  for (uint32_t i = 0; i < op->schema.attr_count; i++)
    if (!tn_value_copy(attrs ? &attrs[i] : &op->defaults[i], arena, &values[i]))
      return tn_no_memory("a rewrite", 0);
  for (uint32_t i = 0; i < op->input_count; i++) {
    edges[i] = operands[i];
    own[i] = (tenon_operand_t){operands[i] >= 0, &edges[i]};
  }
  count_uses(r, node, -1);
  node->op = op;
  node->attrs = values;
  node->operands = own;
  count_uses(r, node, 1);
  r->changes++;
  return TENON_OK;
}

void tn_redirect(tn_rewrite_t *r, tenon_edge_t from, tenon_edge_t to) {
  for (size_t n = 0; n < r->graph->node_count; n++) {
    const tn_node_t *node = &r->graph->nodes[n];
    for (uint32_t i = 0; node->op && i < node->op->input_count; i++)
      for (int32_t k = 0; k < node->operands[i].count; k++)
        if (node->operands[i].edges[k] == from) {
          ((tenon_edge_t *)(uintptr_t)node->operands[i].edges)[k] = to;
          r->uses[from]--;
          r->uses[to]++;
          r->user[to] = (int32_t)n;
        }
  }
  for (size_t i = 0; i < r->graph->output_count; i++)
    if (r->graph->outputs[i] == from) {
      r->graph->outputs[i] = to;
      r->uses[from]--;
      r->uses[to]++;
    }
  r->changes++;
}

void tn_node_remove(tn_rewrite_t *r, tn_node_t *node) {
  count_uses(r, node, -1);
  node->op = NULL;
  r->changes++;
}
