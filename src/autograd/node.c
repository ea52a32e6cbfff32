/* Tape nodes, saved tensors and the history of tensors; see node.h. Called by recording and by
 * backward. Invariant: freeing never recurses, and no node holds a tensor that has a history, since
 * the history could lead back to the node. */
#include "autograd/node.h"

#include <string.h>
#include <tenon/tenon.h>

#include "autograd/alias.h"
#include "autograd/function.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "operator/names.h"
#include "operator/state.h"

static size_t take_space(size_t *size, size_t count, size_t item) {
  size_t at = (*size + 15) & ~(size_t)15;
  *size = at + count * item;
  return at;
}

tenon_status_t tn_node_create(int kind, const tn_node_shape_t *s, tn_node_t **out_node,
                              int64_t **out_extents) {
  size_t size = sizeof(tn_node_t);
  size_t edges = take_space(&size, s->edge_count, sizeof(tn_edge_t));
  size_t saved = take_space(&size, s->saved_count, sizeof(tn_saved_t));
  size_t results = take_space(&size, s->result_count, sizeof(tn_history_t));
  size_t geometry = take_space(&size, s->geometry_count, sizeof(tn_geometry_t));
  size_t attrs = take_space(&size, s->attr_count, sizeof(tenon_value_t));
  size_t zeroed = size;
  size_t starts = take_space(&size, s->start_count, sizeof(uint32_t));
  size_t extents = take_space(&size, s->extents, sizeof(int64_t));
  tn_node_t *node = tn_many_get(size);
  if (!node) return tn_no_memory("the autograd history", size);
  memset(node, 0, zeroed);
  char *block = (char *)node;
  node->size = size;
  node->references = 1;
  node->kind = (uint8_t)kind;
  node->edge_count = s->edge_count;
  node->result_count = s->result_count;
  node->saved_count = s->saved_count;
  node->edges = (tn_edge_t *)(void *)(block + edges);
  node->results = (tn_history_t *)(void *)(block + results);
  node->saved = (tn_saved_t *)(void *)(block + saved);
  node->attrs = (tenon_value_t *)(void *)(block + attrs);
  node->attr_count = s->attr_count;
  if (s->geometry_count) node->geometry = (tn_geometry_t *)(void *)(block + geometry);
  if (s->start_count) node->starts = (uint32_t *)(void *)(block + starts);
  *out_extents = (int64_t *)(void *)(block + extents);
  *out_node = node;
  return TENON_OK;
}

const char *tn_node_name(const tn_node_t *node) {
  if (node->kind == TN_NODE_LEAF) return "a leaf";
  if (node->kind == TN_NODE_VIEW) return "a view";
  if (node->kind == TN_NODE_WRITE) return "a write to a view";
  return node->op ? node->op->name : node->function->name;
}

void tn_node_clear(tn_node_t *node) {
  node->is_released = 1;
  for (uint32_t i = 0; i < node->saved_count; i++)
    tn_saved_clear(&node->saved[i]);
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
  tenon_bound_release(node->bound);
  if (node->uses_library) tn_registry_unuse(node->op->library);
  tn_arena_clear(&node->arena);
  tn_many_put(node, node->size);
}

bool tn_nodes_hold(void) {
  tn_thread_t *thread = tn_thread();
  bool was_held = thread->frees;
  thread->frees = 1;
  return was_held;
}

void tn_nodes_free(bool was_held) {
  tn_thread_t *thread = tn_thread();
  /* The loop below, further up the stack, frees them. */
  if (was_held) return;
  for (tn_node_t *node; (node = thread->dead_nodes);) {
    thread->dead_nodes = node->next;
    free_node(node);
  }
  thread->frees = 0;
}

void tn_node_release(tn_node_t *node) {
  if (!node || __atomic_fetch_sub(&node->references, 1, __ATOMIC_ACQ_REL) != 1) return;
  tn_thread_t *thread = tn_thread();
  node->next = thread->dead_nodes;
  thread->dead_nodes = node;
  tn_nodes_free(tn_nodes_hold());
}

void tn_history_put(tenon_tensor_t *tensor, tn_history_t *history) {
  tn_tensor_t *owned = (tn_tensor_t *)tensor;
  tn_history_t *before = owned->history;
  if (history) {
    tn_node_retain(history->node);
    tensor->keys |= TN_KEY(TN_BIT_AUTOGRAD);
  } else
    tensor->keys &= ~TN_KEY(TN_BIT_AUTOGRAD);
  if (history && before && before->retains && history != before) {
    history->retains = 1;
    before->retains = 0;
  }
  owned->history = history;
  if (before) tn_node_release(before->node);
}

void tn_history_set(tenon_tensor_t *tensor, tn_history_t *history) {
  tn_history_put(tensor, history);
  if (((tn_tensor_t *)tensor)->alias) tn_alias_follow(((tn_tensor_t *)tensor)->alias, history);
}

void tn_history_describe(tn_history_t *history, tn_node_t *node, const tenon_tensor_t *tensor,
                         int64_t **extents) {
  history->node = node;
  history->dtype = tensor->dtype;
  history->ndim = tensor->ndim;
  history->is_float = tn_is_differentiable(tensor->dtype);
  if (tensor->ndim) memcpy(*extents, tensor->shape, (size_t)tensor->ndim * sizeof **extents);
  history->shape = *extents;
  *extents += tensor->ndim;
}

static uint64_t version_of(const tenon_tensor_t *tensor) {
  uint64_t sum = tn_tensor_version(tensor);
  /* Versions only grow, and so does their sum. */
  if (tn_dtype_is(tensor->dtype, TENON_LIST))
    for (int64_t i = 0; i < tensor->shape[0]; i++)
      sum += tn_tensor_version(tenon_item(tensor, i));
  return sum;
}

static void hold_history(tn_saved_t *saved, tn_history_t *history, bool is_own) {
  saved->history = history;
  saved->is_own = is_own;
  if (history && !is_own) tn_node_retain(history->node);
}

/* Returns a tensor on the same memory without history. */
static tenon_status_t without_history(tenon_tensor_t *t, tenon_tensor_t **out) {
  return tn_tensor_view_of(t, t->dtype, 0, t->ndim, t->shape, t->strides, out);
}

/* Saves a list as a list of the library's own tensors, each with its history. These histories
 * cannot lead back to the node, since no saved result is a list. */
static tenon_status_t save_list(tn_saved_t *saved, const tenon_tensor_t *list) {
  int64_t count = list->shape[0];
  int64_t made = 0;
  tenon_tensor_t **items = tn_allocate_zero((size_t)count + 1, sizeof *items);
  if (!items) return tn_no_memory("a saved list", (size_t)count * sizeof *items);
  tenon_status_t status = TENON_OK;
  for (; made < count && status == TENON_OK; made++) {
    tenon_tensor_t *item = tenon_item(list, made);
    status = tn_tensor_is_owned(item) ? without_history(item, &items[made])
                                      : tenon_tensor_copy(item, &items[made]);
    if (status == TENON_OK && tn_history_of(item)) tn_history_set(items[made], tn_history_of(item));
  }
  if (status == TENON_OK) status = tenon_tensor_list(items, (int32_t)count, &saved->tensor);
  for (int64_t i = 0; i < made; i++)
    tenon_tensor_release(items[i]);
  tn_release_memory(items);
  if (status == TENON_OK) saved->version = version_of(saved->tensor);
  return status;
}

tenon_status_t tn_saved_set(tn_saved_t *saved, tenon_tensor_t *tensor, tn_history_t *own,
                            int64_t **extents) {
  if (tn_dtype_is(tensor->dtype, TENON_LIST)) return save_list(saved, tensor);
  if (!tn_tensor_is_owned(tensor)) return tenon_tensor_copy(tensor, &saved->tensor);
  tn_storage_t *storage = ((tn_tensor_t *)tensor)->storage;
  tn_history_t *history = tn_history_of(tensor);
  if (!extents || !storage) {
    TN_TRY(without_history(tensor, &saved->tensor));
  } else {
    tn_storage_retain(saved->storage = storage);
    saved->data = tensor->data;
    saved->byte_offset = tensor->byte_offset;
    saved->detail = tensor->detail;
    saved->device = tensor->device;
    saved->keys = tensor->keys & ~TN_KEY(TN_BIT_AUTOGRAD);
    saved->dtype = tensor->dtype;
    saved->ndim = tensor->ndim;
    saved->shape = *extents;
    *extents += tensor->ndim;
    for (int32_t i = 0; i < tensor->ndim; i++)
      ((int64_t *)(uintptr_t)saved->shape)[i] = tensor->shape[i];
    if (tensor->keys & TN_KEY_STRIDED) {
      saved->strides = *extents;
      *extents += tensor->ndim;
      memcpy((int64_t *)(uintptr_t)saved->strides, tensor->strides,
             (size_t)tensor->ndim * sizeof *tensor->strides);
    }
  }
  hold_history(saved, history, own && own->node && history == own);
  saved->version = tn_tensor_version(tensor);
  return TENON_OK;
}

static tenon_status_t check_version(const tn_saved_t *saved, const char *owner,
                                    const char *argument) {
  uint64_t found = saved->storage ? __atomic_load_n(&saved->storage->version, __ATOMIC_RELAXED)
                                  : version_of(saved->tensor);
  if (found == saved->version) return TENON_OK;
  return tn_fail(TENON_PRECONDITION,
                 "%s: the gradient needs %s as it was during the call, but its memory has been "
                 "written to since: expected version %llu, found %llu; write to a copy, or use the "
                 "operator that returns a new tensor",
                 owner, argument, (unsigned long long)saved->version, (unsigned long long)found);
}

tenon_status_t tn_saved_get(const tn_saved_t *saved, const char *owner, const char *argument,
                            tenon_tensor_t **out_tensor) {
  TN_TRY(check_version(saved, owner, argument));
  if (saved->tensor) {
    if (!saved->history) {
      tenon_tensor_retain(*out_tensor = saved->tensor);
      return TENON_OK;
    }
    TN_TRY(without_history(saved->tensor, out_tensor));
  } else {
    TN_TRY(tn_tensor_over(saved->storage, saved->data, saved->dtype, saved->ndim, saved->shape,
                          saved->strides, out_tensor));
    (*out_tensor)->byte_offset = saved->byte_offset;
    (*out_tensor)->device = saved->device;
    (*out_tensor)->detail = saved->detail;
    (*out_tensor)->keys = saved->keys;
  }
  if (saved->history) tn_history_set(*out_tensor, saved->history);
  return TENON_OK;
}

void tn_saved_clear(tn_saved_t *saved) {
  tenon_tensor_release(saved->tensor);
  tn_storage_release(saved->storage);
  if (saved->history && !saved->is_own) tn_node_release(saved->history->node);
  saved->tensor = NULL;
  saved->storage = NULL;
  saved->history = NULL;
}
