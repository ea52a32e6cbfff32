/* Gradients of tensors as applications see them: leaves, their gradients, hooks. Invariant: the
 * node of a leaf depends on no other node, and lives as long as the tensor or a history that
 * reaches it. */
#include <string.h>
#include <tenon/tenon.h>

#include "autograd/node.h"
#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"

static tenon_status_t make_leaf(tenon_tensor_t *tensor) {
  tn_node_t *node;
  int64_t *extents;
  TN_TRY(tn_node_create(TN_NODE_LEAF,
                        &(tn_node_shape_t){.result_count = 1, .extents = (size_t)tensor->ndim},
                        &node, &extents));
  tn_history_describe(&node->results[0], node, tensor, &extents);
  tn_history_set(tensor, &node->results[0]);
  tn_node_release(node); /* the tensor holds it */
  return TENON_OK;
}

tenon_status_t tenon_tensor_require_grad(tenon_tensor_t *tensor, int32_t is_on) {
  TN_TRY(tenon_start());
  const char *unfit = NULL;
  if (!tensor)
    unfit = "NULL";
  else if (!tn_tensor_is_owned(tensor))
    unfit = "a view on a caller's stack";
  else if (tn_dtype_is(tensor->dtype, TENON_LIST))
    unfit = "a list";
  if (unfit)
    return tn_fail(TENON_INVALID,
                   "cannot require a gradient of %s: expected a tensor of tenon_tensor_create or "
                   "tenon_tensor_borrow",
                   unfit);
  const tn_history_t *history = tn_history_of(tensor);
  if (is_on && history) return TENON_OK;
  if (!is_on) {
    if (!history) return TENON_OK;
    if (history->node->kind != TN_NODE_LEAF)
      return tn_fail(TENON_PRECONDITION,
                     "the tensor is a result of %s: only a leaf can be set to require no gradient; "
                     "use tenon_tensor_detach",
                     tn_node_name(history->node));
    tn_history_set(tensor, NULL);
    return TENON_OK;
  }
  if (!tn_is_differentiable(tensor->dtype))
    return tn_fail(
        TENON_INVALID,
        "cannot require a gradient of a tensor of dtype %s: expected floats or complex numbers",
        tn_dtype_name(tensor->dtype));
  const tn_storage_t *storage = ((const tn_tensor_t *)tensor)->storage;
  if (storage && storage->is_inference)
    return tn_fail(TENON_PRECONDITION, "cannot require a gradient of a tensor that was created in "
                                       "inference mode: copy it outside inference mode");
  return make_leaf(tensor);
}

int32_t tenon_tensor_requires_grad(const tenon_tensor_t *tensor) {
  return tn_history_of(tensor) != NULL;
}

int32_t tenon_tensor_is_leaf(const tenon_tensor_t *tensor) {
  const tn_history_t *history = tn_history_of(tensor);
  return !history || history->node->kind == TN_NODE_LEAF;
}

tenon_tensor_t *tenon_tensor_grad(const tenon_tensor_t *tensor) {
  const tn_history_t *history = tn_history_of(tensor);
  return history ? history->grad : NULL;
}

tenon_status_t tenon_tensor_grad_set(tenon_tensor_t *tensor, tenon_tensor_t *grad) {
  tn_history_t *history = tn_history_of(tensor);
  char expected[160], found[160];
  if (!history)
    return tn_fail(
        TENON_INVALID,
        "cannot set a gradient: the tensor requires none; call tenon_tensor_require_grad first");
  if (grad && (!tn_tensor_is_owned(grad) || !tn_dtype_same(grad->dtype, tensor->dtype) ||
               grad->ndim != tensor->ndim ||
               (grad->ndim &&
                memcmp(grad->shape, tensor->shape, (size_t)grad->ndim * sizeof *grad->shape) != 0)))
    return tn_fail(
        TENON_INVALID,
        "cannot set a gradient: expected a tensor of tenon_tensor_create, %s %s, found %s %s",
        tn_dtype_name(tensor->dtype),
        tn_shape_print(tensor->ndim, tensor->shape, expected, sizeof expected),
        tn_dtype_name(grad->dtype), tn_shape_print(grad->ndim, grad->shape, found, sizeof found));
  tenon_tensor_t *before = history->grad;
  tenon_tensor_retain(grad);
  history->grad = grad;
  tenon_tensor_release(before);
  return TENON_OK;
}

tenon_status_t tenon_tensor_retain_grad(tenon_tensor_t *tensor) {
  tn_history_t *history = tn_history_of(tensor);
  if (!history)
    return tn_fail(TENON_INVALID, "cannot retain the gradient of a tensor that requires none; call "
                                  "tenon_tensor_require_grad first");
  history->retains = 1;
  return TENON_OK;
}

tenon_status_t tenon_tensor_detach(tenon_tensor_t *tensor, tenon_tensor_t **out_tensor) {
  if (!tn_tensor_is_owned(tensor) || tn_dtype_is(tensor->dtype, TENON_LIST))
    return tn_fail(TENON_INVALID, "detach: expected a tensor of tenon_tensor_create, found %s",
                   tn_tensor_is_owned(tensor) ? "a list" : "a view on a caller's stack");
  return tn_tensor_view_of(tensor, tensor->dtype, 0, tensor->ndim, tensor->shape, tensor->strides,
                           out_tensor);
}

uint64_t tenon_tensor_version(const tenon_tensor_t *tensor) { return tn_tensor_version(tensor); }

static tenon_status_t add_hook(tn_history_t *history, const tenon_hook_t *wanted,
                               tenon_hook_t **out_hook) {
  tenon_hook_t *hook = tn_allocate(sizeof *hook);
  tenon_hook_t **end = &history->hooks;
  if (!hook) return tn_no_memory("a hook", sizeof *hook);
  *hook = *wanted;
  hook->references = out_hook ? 2 : 1;
  while (*end)
    end = &(*end)->next;
  __atomic_store_n(end, hook, __ATOMIC_RELEASE);
  if (out_hook) *out_hook = hook;
  return TENON_OK;
}

tenon_status_t tenon_tensor_hook(tenon_tensor_t *tensor, tenon_hook_fn function, void *context,
                                 tenon_free_fn destroy, tenon_hook_t **out_hook) {
  tn_history_t *history = tn_history_of(tensor);
  if (!history)
    return tn_fail(TENON_INVALID, "cannot add a hook to a tensor that requires no gradient; call "
                                  "tenon_tensor_require_grad first");
  return add_hook(history,
                  &(tenon_hook_t){.function = function, .context = context, .destroy = destroy},
                  out_hook);
}

tenon_status_t tenon_tensor_hook_sum(tenon_tensor_t *tensor, tenon_hook_fn function, void *context,
                                     tenon_free_fn destroy, tenon_hook_t **out_hook) {
  tn_history_t *history = tn_history_of(tensor);
  if (!history || history->node->kind != TN_NODE_LEAF)
    return tn_fail(
        TENON_INVALID,
        "cannot add a hook on the sum of gradients: expected a leaf that requires a gradient");
  tenon_hook_t hook = {
      .function = function, .context = context, .destroy = destroy, .is_after = true};
  return add_hook(history, &hook, out_hook);
}

void tn_hook_release(tenon_hook_t *hook) {
  if (__atomic_fetch_sub(&hook->references, 1, __ATOMIC_ACQ_REL) != 1) return;
  if (hook->destroy) hook->destroy(hook->context);
  tn_release_memory(hook);
}

void tenon_hook_remove(tenon_hook_t *hook) {
  if (!hook) return;
  __atomic_store_n(&hook->function, NULL, __ATOMIC_RELEASE);
  tn_hook_release(hook);
}
