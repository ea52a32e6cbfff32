/* The rule for equal nodes: of pure nodes that compute the same, the first one stays. Each node and
 * each constant is written as a key, which says what it computes, so that the work grows with the
 * number of operands.
 * Invariant: only this rule runs in its pass, so operands of nodes that were seen do not change. */
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "graph/passes/rules.h"

enum { BYTES_MOST = 256 }; /* of a constant that is compared by its elements */

static void write_bytes(tn_text_t *key, const void *bytes, size_t size) {
  tn_text_bytes(key, bytes, size);
}

/* Finds the first constant that was seen and is equal, which may be the constant itself. Large ones
 * are equal if they are in the same memory. */
static tenon_status_t find_constant(tn_rewrite_t *r, tenon_edge_t edge, tenon_edge_t *out_same) {
  const tenon_tensor_t *t = r->graph->edges[edge].constant;
  uint64_t size;
  tn_text_t key = {0};
  *out_same = edge;
  if (t->keys & (TN_KEY_STRIDED | TN_KEY_DETAIL) ||
      !tn_dtype_bytes(t->dtype, tenon_count(t), &size))
    return TENON_OK;
  const bool is_small = size <= BYTES_MOST;
  write_bytes(&key, is_small ? "c" : "m", 1);
  write_bytes(&key, &t->dtype, sizeof t->dtype);
  write_bytes(&key, &t->ndim, sizeof t->ndim);
  write_bytes(&key, t->shape, (size_t)t->ndim * sizeof *t->shape);
  if (is_small)
    write_bytes(&key, t->data, (size_t)size);
  else
    write_bytes(&key, &t->data, sizeof t->data);
  const uintptr_t found = key.failed ? 0 : (uintptr_t)tn_map_get(&r->seen, key.data, key.size);
  bool is_fine = !key.failed;
  if (found)
    *out_same = (tenon_edge_t)(found - 1);
  else if (is_fine)
    is_fine = tn_map_put(&r->seen, key.data, key.size, (void *)((uintptr_t)edge + 1));
  tn_text_clear(&key);
  return is_fine ? TENON_OK : tn_no_memory("a rewrite", (size_t)size);
}

static tenon_status_t add_operand(tn_rewrite_t *r, const tenon_operand_t *operand, tn_text_t *key) {
  write_bytes(key, &operand->count, sizeof operand->count);
  for (int32_t k = 0; k < operand->count; k++) {
    tenon_edge_t edge = operand->edges[k];
    if (r->graph->edges[edge].constant) TN_TRY(find_constant(r, edge, &edge));
    write_bytes(key, &edge, sizeof edge);
  }
  return TENON_OK;
}

/* Adds an attribute; false: values of this kind are not compared. */
static bool add_attribute(const tenon_value_t *value, tn_text_t *key) {
  write_bytes(key, &value->kind, sizeof value->kind);
  write_bytes(key, &value->count, sizeof value->count);
  switch (value->kind) {
  case TENON_KIND_NONE:
    break;
  case TENON_KIND_STR:
    write_bytes(key, value->as.s, value->count);
    break;
  case TENON_KIND_DTYPE:
    write_bytes(key, &value->as.dtype, sizeof value->as.dtype);
    break;
  case TENON_KIND_BOOL:
  case TENON_KIND_INT:
  case TENON_KIND_FLOAT:
  case TENON_KIND_CHOICE:
    write_bytes(key, &value->as.i, sizeof value->as.i);
    break;
  case TENON_KIND_INTS:
  case TENON_KIND_FLOATS:
    write_bytes(key, value->as.ints, value->count * sizeof *value->as.ints);
    break;
  default:
    return false;
  }
  return true;
}

static bool is_shareable(const tn_node_t *node) {
  const uint64_t traits = node->op->traits;
  bool reads = false;
  if (!(traits & TENON_PURE) || traits & TENON_RANDOM || node->op->create) return false;
  for (uint32_t i = 0; i < node->op->input_count; i++) {
    if (node->op->schema.inputs[i].is_written) return false;
    reads |= node->operands[i].count > 0;
  }
  return reads && node->output_count > 0;
}

/* Writes what the node computes; an empty key: it is not compared. */
static tenon_status_t write_key(tn_rewrite_t *r, const tn_node_t *node, tn_text_t *key) {
  bool is_comparable = is_shareable(node);
  write_bytes(key, &node->op, sizeof node->op);
  write_bytes(key, &node->output_count, sizeof node->output_count);
  for (uint32_t i = 0; i < node->op->schema.attr_count && is_comparable; i++)
    is_comparable = add_attribute(&node->attrs[i], key);
  for (uint32_t i = 0; i < node->op->input_count && is_comparable; i++)
    TN_TRY(add_operand(r, &node->operands[i], key));
  if (!is_comparable) key->size = 0;
  return key->failed ? tn_no_memory("a rewrite", key->size) : TENON_OK;
}

static tenon_status_t share_or_note(tn_rewrite_t *r, tn_node_t *node, const tn_text_t *key) {
  const uintptr_t found = (uintptr_t)tn_map_get(&r->seen, key->data, key->size);
  const uintptr_t index = (uintptr_t)(node - r->graph->nodes);
  if (!found)
    return tn_map_put(&r->seen, key->data, key->size, (void *)(index + 1))
               ? TENON_OK
               : tn_no_memory("a rewrite", key->size);
  const tn_node_t *first = &r->graph->nodes[found - 1];
  for (int32_t o = 0; o < node->output_count; o++)
    tn_redirect(r, node->outputs[o], first->outputs[o]);
  tn_node_remove(r, node);
  return TENON_OK;
}

static tenon_status_t share_node(tn_rewrite_t *r, tn_node_t *node) {
  tn_text_t key = {0};
  tenon_status_t status = write_key(r, node, &key);
  if (status == TENON_OK && key.size) status = share_or_note(r, node, &key);
  tn_text_clear(&key);
  return status;
}

const tn_rewrite_rule_t tn_rules_share[] = {
    {"equal_nodes: concat(exp(x), exp(x)) -> concat(y, y)",
     "Equal nodes, here exp(x), compute the value y once. They are pure, draw no random numbers "
     "and "
     "have no state. Equal constants count as one: those of at most 256 bytes with equal elements, "
     "larger ones in the same memory.",
     {NULL},
     share_node},
    {NULL, NULL, {NULL}, NULL}};
