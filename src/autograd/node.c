/* Nodes, saved tensors and the history of tensors, see node.h.  Called by recording and by backward.  Invariant: freeing
 * never recurses, and no node holds a tensor whose history is in that node. */
#include "autograd/node.h"

#include <string.h>
#include <tenon/tenon.h>

#include "autograd/function.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "dispatch/call.h"
#include "dispatch/registry.h"

static size_t take(size_t *size, size_t count, size_t item) {
  size_t at = (*size + 15) & ~(size_t)15;
  *size = at + count * item;
  return at;
}

tenon_status_t tn_node_create(int kind, const tn_node_shape_t *s, tn_node_t **out_node, int64_t **out_extents) {
  size_t size = sizeof(tn_node_t);
  size_t edges = take(&size, s->edge_count, sizeof(tn_edge_t)), saved = take(&size, s->saved_count, sizeof(tn_saved_t));
  size_t results = take(&size, s->result_count, sizeof(tn_history_t));
  size_t attrs = take(&size, s->attr_count, sizeof(tenon_value_t)), zeroed = size;
  size_t starts = take(&size, s->start_count, sizeof(uint32_t)), extents = take(&size, s->extents, sizeof(int64_t));
  tn_node_t *node = tn_block_get(size);
  if (!node) return tn_no_memory("a gradient's history", size);
  memset(node, 0, zeroed);
  char *block = (char *)node;
  node->size = size, node->references = 1, node->kind = (uint8_t)kind;
  node->edge_count = s->edge_count, node->result_count = s->result_count, node->saved_count = s->saved_count;
  node->edges = (tn_edge_t *)(void *)(block + edges), node->results = (tn_history_t *)(void *)(block + results);
  node->saved = (tn_saved_t *)(void *)(block + saved);
  node->attrs = (tenon_value_t *)(void *)(block + attrs), node->attr_count = s->attr_count;
  if (s->start_count) node->starts = (uint32_t *)(void *)(block + starts);
  *out_extents = (int64_t *)(void *)(block + extents);
  *out_node = node;
  return TENON_OK;
}

const char *tn_node_name(const tn_node_t *node) {
  if (node->kind == TN_NODE_LEAF) return "a leaf";
  return node->op ? node->op->name : node->function->name;
}

/* ---- freeing ---------------------------------------------------------------------------------------------------- */

void tn_node_clear(tn_node_t *node) {
  node->is_released = 1;
  for (uint32_t i = 0; i < node->saved_count; i++) tn_saved_clear(&node->saved[i]);
  if (node->function) tn_function_clear(node->function);
}

static void release_hooks(tenon_hook_t *hook) {
  for (tenon_hook_t *next; hook; hook = next) {
    next = hook->next;
    tn_hook_release(hook);
  }
}

static void free_node(tn_node_t *node) {
  tn_node_clear(node);
  for (uint32_t i = 0; i < node->edge_count; i++)
    if (node->edges[i].to) tn_node_release(node->edges[i].to->node);
  for (uint32_t i = 0; i < node->result_count; i++) {
    release_hooks(node->results[i].hooks);
    tenon_tensor_release(node->results[i].grad);
  }
  if (node->owns_attrs) tn_values_release(node->attrs, node->attr_count);
  tn_function_free(node->function);
  if (node->uses_library) tn_registry_unuse(node->op->library);
  tn_arena_clear(&node->arena);
  tn_block_put(node, node->size);
}

void tn_node_release(tn_node_t *node) {
  if (!node || __atomic_fetch_sub(&node->references, 1, __ATOMIC_ACQ_REL) != 1) return;
  tn_thread_t *thread = tn_thread();
  node->next = thread->dead_nodes, thread->dead_nodes = node;
  if (thread->frees) return; /* the loop below, further up the stack, comes to it */
  thread->frees = 1;
  while ((node = thread->dead_nodes)) {
    thread->dead_nodes = node->next;
    free_node(node);
  }
  thread->frees = 0;
}

/* ---- histories -------------------------------------------------------------------------------------------------- */

void tn_history_set(tenon_tensor_t *tensor, tn_history_t *history) {
  tn_tensor_t *owned = (tn_tensor_t *)tensor;
  tn_history_t *before = owned->history;
  owned->history = history;
  if (history) tn_node_retain(history->node), tensor->keys |= TN_KEY(TN_BIT_AUTOGRAD);
  else tensor->keys &= ~TN_KEY(TN_BIT_AUTOGRAD);
  if (before) tn_node_release(before->node);
}

void tn_history_describe(tn_history_t *history, tn_node_t *node, const tenon_tensor_t *tensor, int64_t **extents) {
  history->node = node, history->dtype = tensor->dtype, history->ndim = tensor->ndim;
  history->is_float = tn_is_differentiable(tensor->dtype);
  if (tensor->ndim) memcpy(*extents, tensor->shape, (size_t)tensor->ndim * sizeof **extents);
  history->shape = *extents;
  *extents += tensor->ndim;
}

/* ---- saved tensors ---------------------------------------------------------------------------------------------- */

static uint64_t version_of(const tenon_tensor_t *tensor) {
  uint64_t sum = tn_tensor_version(tensor);
  if (tn_dtype_is(tensor->dtype, TENON_LIST)) /* versions only grow: so does their sum */
    for (int64_t i = 0; i < tensor->shape[0]; i++) sum += tn_tensor_version(tenon_item(tensor, i));
  return sum;
}

tenon_status_t tn_saved_set(tn_saved_t *saved, tenon_tensor_t *tensor, tn_history_t *own, uint64_t ahead) {
  if (!tn_tensor_is_owned(tensor)) {
    TN_TRY(tenon_tensor_copy(tensor, &saved->tensor));
    saved->version = 0;
    return TENON_OK;
  }
  if (own && own->node && tn_history_of(tensor) == own) {
    TN_TRY(tn_tensor_view_of(tensor, tensor->dtype, 0, tensor->ndim, tensor->shape, tensor->strides, &saved->tensor));
    saved->history = own;
  } else {
    tenon_tensor_retain(tensor);
    saved->tensor = tensor;
  }
  saved->version = version_of(tensor) + ahead;
  return TENON_OK;
}

tenon_status_t tn_saved_get(const tn_saved_t *saved, const char *owner, const char *argument,
                            tenon_tensor_t **out_tensor) {
  tenon_tensor_t *t = saved->tensor;
  if (version_of(t) != saved->version)
    return tn_fail(TENON_PRECONDITION,
                   "%s: the gradient needs %s as it was in the call, but its memory was written to since: expected "
                   "version %llu, found %llu; write to a copy, or use the operator that makes a new tensor",
                   owner, argument, (unsigned long long)saved->version, (unsigned long long)version_of(t));
  if (!saved->history) {
    tenon_tensor_retain(*out_tensor = t);
    return TENON_OK;
  }
  TN_TRY(tn_tensor_view_of(t, t->dtype, 0, t->ndim, t->shape, t->strides, out_tensor));
  tn_history_set(*out_tensor, saved->history);
  return TENON_OK;
}

void tn_saved_clear(tn_saved_t *saved) {
  tenon_tensor_release(saved->tensor);
  saved->tensor = NULL, saved->history = NULL;
}
