/* Backward: collects the tape nodes that lead to the outputs, sorts them by sequence, and visits
 * them from the last to the first while it sums the gradients of each result. Applications call it
 * on their own thread. Invariant: a node runs after all nodes that depend on it. The state of a
 * pass is in the task, not in the nodes, so several passes over one kept history may run at
 * once. */
#include "autograd/backward.h"

#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "autograd/alias.h"
#include "autograd/formula.h"
#include "autograd/function.h"
#include "autograd/tape.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "core/sparse.h"

typedef struct entry_t { /* a node of this pass */
  tn_node_t *node;
  tenon_tensor_t **grads; /* of each result; NULL until the first gradient arrives */
  bool is_needed;         /* a wanted gradient depends on the node */
} entry_t;

typedef struct task_t {
  entry_t *entries;
  size_t count;
  size_t capacity;
  uint32_t *table; /* hash table from a node to 1 + its entry (open addressing) */
  size_t table_size;
  bool keeps;
  bool creates;
  bool accumulates;
  tn_history_t **targets; /* of tenon_gradients */
  tenon_tensor_t **captured;
  int32_t target_count;
} task_t;

static size_t table_index(const task_t *t, const tn_node_t *node) {
  uint64_t hash = ((uint64_t)(uintptr_t)node >> 4) * 0x9E3779B97F4A7C15u;
  size_t at = (size_t)(hash >> 32) & (t->table_size - 1);
  while (t->table[at] && t->entries[t->table[at] - 1].node != node)
    at = (at + 1) & (t->table_size - 1);
  return at;
}

static entry_t *find_entry(const task_t *t, const tn_node_t *node) {
  uint32_t at = t->table_size ? t->table[table_index(t, node)] : 0;
  return at ? &t->entries[at - 1] : NULL;
}

static tenon_status_t rehash(task_t *t, size_t size) {
  if (size > t->table_size) {
    uint32_t *table = tn_allocate_zero(size, sizeof *table);
    if (!table) return tn_no_memory("backward", size * sizeof *table);
    tn_release_memory(t->table);
    t->table = table;
    t->table_size = size;
  } else {
    memset(t->table, 0, t->table_size * sizeof *t->table);
  }
  for (size_t i = 0; i < t->count; i++)
    t->table[table_index(t, t->entries[i].node)] = (uint32_t)i + 1;
  return TENON_OK;
}

static tenon_status_t add_entry(task_t *t, tn_node_t *node) {
  if (find_entry(t, node)) return TENON_OK;
  if (2 * (t->count + 1) > t->table_size) TN_TRY(rehash(t, t->table_size ? t->table_size * 2 : 64));
  if (!tn_grow((void **)&t->entries, &t->capacity, t->count, sizeof *t->entries))
    return tn_no_memory("backward", sizeof *t->entries);
  t->entries[t->count++] = (entry_t){node, NULL, false};
  t->table[table_index(t, node)] = (uint32_t)t->count;
  tn_node_retain(node); /* hooks and functions may release tensors meanwhile */
  return TENON_OK;
}

static int by_sequence(const void *a, const void *b) {
  uint64_t x = ((const entry_t *)a)->node->sequence;
  uint64_t y = ((const entry_t *)b)->node->sequence;
  return x < y ? -1 : x > y;
}

/* Collects all nodes that the roots in the list depend on, then marks the nodes that are needed. */
static tenon_status_t collect_nodes(task_t *t) {
  for (size_t i = 0; i < t->count; i++) {
    const tn_node_t *node = t->entries[i].node;
    for (uint32_t e = 0; e < node->edge_count; e++)
      if (node->edges[e].to) TN_TRY(add_entry(t, node->edges[e].to->node));
  }
  qsort(t->entries, t->count, sizeof *t->entries, by_sequence);
  TN_TRY(rehash(t, t->table_size));
  for (int32_t i = 0; i < t->target_count; i++) {
    entry_t *entry = find_entry(t, t->targets[i]->node);
    if (entry) entry->is_needed = true;
  }
  /* The inputs of a node stand before the node. */
  for (size_t i = 0; i < t->count; i++) {
    entry_t *entry = &t->entries[i];
    if (t->accumulates) entry->is_needed = true;
    for (uint32_t e = 0; e < entry->node->edge_count && !entry->is_needed; e++)
      if (entry->node->edges[e].to)
        entry->is_needed = find_entry(t, entry->node->edges[e].to->node)->is_needed;
  }
  return TENON_OK;
}

/* The sum of sparse gradients is dense. */
static tenon_status_t sum_gradients(tenon_tensor_t *a, tenon_tensor_t *b, tenon_tensor_t **out) {
  tenon_tensor_t *of[2] = {a, b};
  tenon_tensor_t *made[2] = {NULL};
  tenon_status_t status = TENON_OK;
  for (int i = 0; i < 2 && status == TENON_OK; i++)
    if (tn_layout(of[i])) {
      status = tn_core_call("core::to_dense", NULL, of[i], NULL, &made[i]);
      of[i] = made[i];
    }
  if (status == TENON_OK) status = tn_core_call("core::add", NULL, of[0], of[1], out);
  tenon_tensor_release(made[0]);
  tenon_tensor_release(made[1]);
  return status;
}

/* Adds a gradient to a result. `grad` is borrowed. */
static tenon_status_t add_gradient(task_t *t, const tn_history_t *to, tenon_tensor_t *grad) {
  entry_t *entry = find_entry(t, to->node);
  size_t at = (size_t)(to - to->node->results);
  if (!entry->grads &&
      !(entry->grads = tn_allocate_zero(to->node->result_count, sizeof *entry->grads)))
    return tn_no_memory("backward", to->node->result_count * sizeof *entry->grads);
  if (!entry->grads[at]) {
    tenon_tensor_retain(entry->grads[at] = grad);
    return TENON_OK;
  }
  tenon_tensor_t *total;
  TN_TRY(sum_gradients(entry->grads[at], grad, &total));
  tenon_tensor_release(entry->grads[at]);
  entry->grads[at] = total;
  return TENON_OK;
}

/* Returns a gradient whose memory nobody else writes to: the tensor itself or a copy. */
static tenon_status_t own_gradient(tenon_tensor_t *grad, bool records, tenon_tensor_t **out) {
  const tn_tensor_t *owned = (const tn_tensor_t *)grad;
  bool is_shared = __atomic_load_n(&owned->references, __ATOMIC_RELAXED) > 1 || !owned->storage ||
                   __atomic_load_n(&owned->storage->references, __ATOMIC_RELAXED) > 1 ||
                   grad->keys & TN_KEY_STRIDED;
  if (is_shared && !records && tn_layout(grad)) return tenon_tensor_copy(grad, out);
  if (is_shared && !records) return tn_core_call("core::contiguous", NULL, grad, NULL, out);
  tenon_tensor_retain(*out = grad);
  return TENON_OK;
}

/* Protects the pointers to gradients. Never held during a call. */
static tn_mutex_t lock = TN_MUTEX_INIT;

tenon_status_t tn_history_accumulate(tn_history_t *history, tenon_tensor_t *grad, bool records) {
  tenon_tensor_t *mine = NULL;
  tenon_tensor_t *before, *total;
  TN_TRY(own_gradient(grad, records, &mine));
  for (;;) { /* until no other thread has stored a gradient in between */
    tn_mutex_lock(&lock);
    before = history->grad;
    history->grad = before ? NULL : mine;
    tn_mutex_unlock(&lock);
    if (!before) return TENON_OK;
    tenon_status_t status = sum_gradients(before, mine, &total);
    if (status != TENON_OK) { /* the stored gradient stays */
      tn_mutex_lock(&lock);
      if (!history->grad) {
        history->grad = before;
        before = NULL;
      }
      tn_mutex_unlock(&lock);
      tenon_tensor_release(before);
      tenon_tensor_release(mine);
      return status;
    }
    tenon_tensor_release(before);
    tenon_tensor_release(mine);
    mine = total;
  }
}

static bool has_history_shape(const tenon_tensor_t *t, const tn_history_t *h) {
  return t->ndim == h->ndim &&
         (!t->ndim || memcmp(t->shape, h->shape, (size_t)t->ndim * sizeof *t->shape) == 0);
}

/* Does the input broadcast to this shape? */
static bool broadcasts_to(const tn_history_t *h, const tenon_tensor_t *t) {
  if (h->ndim > t->ndim) return false;
  for (int32_t d = 0; d < h->ndim; d++)
    if (h->shape[d] != 1 && h->shape[d] != t->shape[t->ndim - h->ndim + d]) return false;
  return true;
}

static tenon_status_t sum_to(const tn_history_t *h, tenon_tensor_t **grad) {
  tenon_tensor_t *shape, *out;
  TN_TRY(tn_extents(h->ndim, h->shape, &shape));
  tenon_status_t status = tn_core_call("core::sum_to", NULL, *grad, shape, &out);
  tenon_tensor_release(shape);
  if (status != TENON_OK) return status;
  tenon_tensor_release(*grad);
  *grad = out;
  return TENON_OK;
}

/* Gives a gradient the dtype and shape of its tensor. The host broadcasts the inputs of pointwise
 * operators, so the host also reverses this. */
static tenon_status_t fit_gradient(const tn_node_t *node, const tn_history_t *to,
                                   tenon_tensor_t **grad) {
  char expected[160], found[160];
  tenon_tensor_t *t = *grad;
  if (!tn_tensor_is_owned(t))
    return tn_fail(TENON_INVALID,
                   "%s: backward returned a gradient that is a view on a caller's stack: "
                   "expected a tensor of tenon_tensor_create",
                   tn_node_name(node));
  if (!tn_dtype_same(t->dtype, to->dtype))
    return tn_fail(TENON_INVALID, "%s: its gradient for an input of dtype %s has dtype %s",
                   tn_node_name(node), tn_dtype_name(to->dtype), tn_dtype_name(t->dtype));
  if (has_history_shape(t, to)) return TENON_OK;
  if (node->op && node->op->traits & TENON_POINTWISE && broadcasts_to(to, t))
    return sum_to(to, grad);
  return tn_fail(TENON_INVALID, "%s: its gradient for an input of shape %s has shape %s",
                 tn_node_name(node), tn_shape_print(to->ndim, to->shape, expected, sizeof expected),
                 tn_shape_print(t->ndim, t->shape, found, sizeof found));
}

static tenon_status_t run_hooks(tn_history_t *result, bool is_after, tenon_tensor_t **grad) {
  for (tenon_hook_t *h = __atomic_load_n(&result->hooks, __ATOMIC_ACQUIRE); h; h = h->next) {
    tenon_tensor_t *fresh = NULL;
    tenon_status_t (*function)(void *, tenon_tensor_t *, tenon_tensor_t **) =
        __atomic_load_n(&h->function, __ATOMIC_ACQUIRE);
    if (!function || h->is_after != is_after) continue;
    tenon_status_t status = function(h->context, *grad, &fresh);
    if (status == TENON_OK && fresh &&
        (!has_history_shape(fresh, result) || !tn_dtype_same(fresh->dtype, result->dtype)))
      status = tn_fail(TENON_INVALID,
                       "a hook on a result of %s returned a gradient of another shape or dtype: "
                       "expected those of the result",
                       tn_node_name(result->node));
    if (status != TENON_OK) {
      tenon_tensor_release(fresh);
      return status;
    }
    if (!fresh) continue;
    tenon_tensor_release(*grad);
    *grad = fresh;
  }
  return TENON_OK;
}

/* Runs the hooks that see the sum at a leaf. A hook may replace the gradient or return none. */
static tenon_status_t run_hooks_after(tn_history_t *leaf) {
  bool any = false;
  for (const tenon_hook_t *h = __atomic_load_n(&leaf->hooks, __ATOMIC_ACQUIRE); h; h = h->next)
    any |= h->is_after;
  if (!any) return TENON_OK;
  tn_mutex_lock(&lock);
  tenon_tensor_t *before = leaf->grad;
  tenon_tensor_t *grad = before;
  tenon_tensor_retain(grad);
  tn_mutex_unlock(&lock);
  tenon_status_t status = grad ? run_hooks(leaf, true, &grad) : TENON_OK;
  if (status == TENON_OK && grad != before) {
    tn_mutex_lock(&lock);
    before = leaf->grad;
    leaf->grad = grad;
    grad = before;
    tn_mutex_unlock(&lock);
  }
  tenon_tensor_release(grad);
  return status;
}

static tenon_status_t differentiate(task_t *t, const entry_t *entry, const bool *needs,
                                    tenon_tensor_t **grads) {
  tn_node_t *node = entry->node;
  if (node->is_released)
    return tn_fail(TENON_PRECONDITION,
                   "%s: an earlier backward pass has already released what this pass needs: pass "
                   "TENON_GRAD_KEEP to the first pass, or call forward again",
                   tn_node_name(node));
  if (node->kind == TN_NODE_ERROR)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "%s has no gradient: give it one (TENON_GRADIENT, or an \"autograd\" kernel), "
                   "or say what to do with tenon_grad_missing_set before calling it",
                   node->op->name);
  if (node->kind == TN_NODE_WARN) {
    tn_warn_no_gradient(node->op->name);
    return TENON_OK;
  }
  tenon_status_t status;
  if (node->kind == TN_NODE_FORMULAS)
    status = tn_formulas_run(node, entry->grads, needs, grads);
  else if (node->kind == TN_NODE_FUNCTION)
    status = tn_function_backward(node, entry->grads, needs, grads);
  else
    status = tn_geometry_run(node, entry->grads[0], needs, grads);
  if (status == TENON_OK && !t->keeps) tn_node_clear(node);
  return status;
}

static tenon_status_t run_edges(task_t *t, const entry_t *entry) {
  tn_node_t *node = entry->node;
  size_t count = node->edge_count;
  tenon_tensor_t **grads = tn_allocate_zero(count + 1, sizeof *grads + sizeof(bool));
  if (!grads) return tn_no_memory("backward", count * sizeof *grads);
  bool *needs = (bool *)(void *)(grads + count);
  bool any = false;
  for (size_t e = 0; e < count; e++) {
    tn_history_t *to = node->edges[e].to;
    needs[e] = to && find_entry(t, to->node)->is_needed;
    any |= needs[e];
  }
  tenon_status_t status = any ? differentiate(t, entry, needs, grads) : TENON_OK;
  for (size_t e = 0; e < count; e++) {
    if (!grads[e]) continue;
    if (status == TENON_OK && needs[e]) status = fit_gradient(node, node->edges[e].to, &grads[e]);
    if (status == TENON_OK && needs[e]) status = add_gradient(t, node->edges[e].to, grads[e]);
    tenon_tensor_release(grads[e]);
  }
  tn_release_memory(grads);
  return status;
}

static tenon_status_t run_node(task_t *t, entry_t *entry) {
  tn_node_t *node = entry->node;
  tenon_status_t status = TENON_OK;
  for (uint32_t r = 0; r < node->result_count && status == TENON_OK; r++) {
    tn_history_t *result = &node->results[r];
    if (!entry->grads[r]) continue;
    status = run_hooks(result, false, &entry->grads[r]);
    bool keeps = t->accumulates && (node->kind == TN_NODE_LEAF || result->retains);
    if (status == TENON_OK && keeps)
      status = tn_history_accumulate(result, entry->grads[r], t->creates);
    if (status == TENON_OK && keeps && node->kind == TN_NODE_LEAF) status = run_hooks_after(result);
    for (int32_t i = 0; i < t->target_count && status == TENON_OK; i++)
      if (t->targets[i] == result) tenon_tensor_retain(t->captured[i] = entry->grads[r]);
  }
  if (status == TENON_OK && node->kind != TN_NODE_LEAF) status = run_edges(t, entry);
  return status == TENON_OK || !node->label ? status
                                            : tn_prefix(status, "node '%s': ", node->label);
}

static void drop_grads(entry_t *entry) {
  for (uint32_t r = 0; entry->grads && r < entry->node->result_count; r++)
    tenon_tensor_release(entry->grads[r]);
  tn_release_memory(entry->grads);
  entry->grads = NULL;
}

static tenon_status_t begin_output(task_t *t, tenon_tensor_t *output, tenon_tensor_t *grad,
                                   int32_t index) {
  const tn_history_t *history = tn_history_of(output);
  char expected[160], found[160];
  if (!grad) {
    if (tenon_count(output) != 1)
      return tn_fail(
          TENON_INVALID,
          "output %d has shape %s: expected a single number, or a gradient for this output",
          (int)index, tn_shape_print(output->ndim, output->shape, found, sizeof found));
    TN_TRY(tn_filled(output->device, output->dtype, output->ndim, output->shape, 1, &grad));
  } else {
    if (!has_history_shape(grad, history) || !tn_dtype_same(grad->dtype, history->dtype))
      return tn_fail(TENON_INVALID, "the gradient of output %d is %s %s: expected %s %s",
                     (int)index, tn_dtype_name(grad->dtype),
                     tn_shape_print(grad->ndim, grad->shape, found, sizeof found),
                     tn_dtype_name(history->dtype),
                     tn_shape_print(history->ndim, history->shape, expected, sizeof expected));
    if (tn_tensor_is_owned(grad))
      tenon_tensor_retain(grad);
    else
      TN_TRY(tenon_tensor_copy(grad, &grad));
  }
  tenon_status_t status = add_gradient(t, history, grad);
  tenon_tensor_release(grad);
  return status;
}

static tenon_status_t check_output(const tenon_tensor_t *output, int32_t index) {
  if (!output) return tn_fail(TENON_INVALID, "output %d is NULL", (int)index);
  if (!tn_history_of(output))
    return tn_fail(TENON_INVALID,
                   "output %d requires no gradient and has no history: none of the tensors it was "
                   "computed from requires one, or recording was off",
                   (int)index);
  return TENON_OK;
}

static tenon_status_t run_pass(task_t *t, tenon_tensor_t *const *outputs,
                               tenon_tensor_t *const *grads, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    TN_TRY(check_output(outputs[i], i));
    TN_TRY(add_entry(t, tn_history_of(outputs[i])->node));
  }
  TN_TRY(collect_nodes(t));
  for (int32_t i = 0; i < count; i++)
    TN_TRY(begin_output(t, outputs[i], grads ? grads[i] : NULL, i));
  for (size_t i = t->count; i-- > 0;) {
    if (t->entries[i].is_needed && t->entries[i].grads) TN_TRY(run_node(t, &t->entries[i]));
    drop_grads(&t->entries[i]);
  }
  return TENON_OK;
}

static tenon_status_t run_backward(task_t *t, tenon_tensor_t *const *outputs,
                                   tenon_tensor_t *const *grads, int32_t count, uint32_t flags) {
  uint32_t known = TENON_GRAD_KEEP | TENON_GRAD_CREATE | (t->accumulates ? 0 : TENON_GRAD_UNUSED);
  if (flags & ~known)
    return tn_fail(TENON_INVALID, "backward: unknown flags %#x: expected TENON_GRAD_...", flags);
  t->creates = flags & TENON_GRAD_CREATE;
  t->keeps = flags & TENON_GRAD_KEEP || t->creates;
  bool before = tn_tape_set(t->creates);
  tenon_status_t status = run_pass(t, outputs, grads, count);
  tn_tape_set(before);
  for (size_t i = 0; i < t->count; i++) {
    drop_grads(&t->entries[i]);
    tn_node_release(t->entries[i].node);
  }
  tn_release_memory(t->entries);
  tn_release_memory(t->table);
  return status;
}

tenon_status_t tenon_backward(tenon_tensor_t *const *outputs, tenon_tensor_t *const *grads,
                              int32_t count, uint32_t flags) {
  task_t t = {.accumulates = true};
  return run_backward(&t, outputs, grads, count, flags);
}

tenon_status_t tenon_gradients(tenon_tensor_t *const *outputs, tenon_tensor_t *const *grads,
                               int32_t count, tenon_tensor_t *const *inputs, int32_t input_count,
                               uint32_t flags, tenon_tensor_t **out_grads) {
  tn_history_t **targets = tn_allocate_zero((size_t)input_count + 1, sizeof *targets);
  if (!targets) return tn_no_memory("backward", (size_t)input_count * sizeof *targets);
  tenon_status_t status = TENON_OK;
  for (int32_t i = 0; i < input_count; i++) {
    out_grads[i] = NULL;
    targets[i] = tn_history_of(inputs[i]);
    if (!targets[i] && status == TENON_OK)
      status = tn_fail(
          TENON_INVALID,
          "input %d requires no gradient: call tenon_tensor_require_grad before the forward pass",
          (int)i);
  }
  task_t t = {.targets = targets, .captured = out_grads, .target_count = input_count};
  if (status == TENON_OK) status = run_backward(&t, outputs, grads, count, flags);
  for (int32_t i = 0; i < input_count && status == TENON_OK; i++)
    if (!out_grads[i] && !(flags & TENON_GRAD_UNUSED))
      status = tn_fail(TENON_INVALID,
                       "the outputs do not depend on input %d: pass TENON_GRAD_UNUSED to get NULL "
                       "for such inputs",
                       (int)i);
  for (int32_t i = 0; i < input_count && status != TENON_OK; i++) {
    tenon_tensor_release(out_grads[i]);
    out_grads[i] = NULL;
  }
  tn_release_memory(targets);
  return status;
}
