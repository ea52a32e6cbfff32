/* The gradients of one call of an operator: the call is recorded on a tape of its own, which runs
 * backward at once. */
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "operator/op.h"

typedef struct call_t {
  const tenon_op_t *op;
  const tenon_value_t *values;
  uint32_t count;
  tenon_tensor_t *outputs[64];
  int32_t output_count;
  tenon_tensor_t **leaves;
  int32_t leaf_count;
  tenon_tensor_t **starts; /* the results that have a history and a gradient */
  tenon_tensor_t **from;   /* their gradients */
  int32_t start_count;
} call_t;

static int32_t count_tensors(const tenon_value_t *value) {
  if (value->kind == TENON_KIND_TENSORS) return (int32_t)value->count;
  return value->kind == TENON_KIND_TENSOR && value->as.tensor;
}

static tenon_tensor_t *tensor_at(const tenon_value_t *value, int32_t k) {
  return value->kind == TENON_KIND_TENSORS ? value->as.tensors[k] : value->as.tensor;
}

static int32_t count_leaves(const call_t *c, uint64_t wanted) {
  int32_t count = 0;
  for (uint32_t i = 0; i < c->count && i < 64; i++)
    if (wanted >> i & 1) count += count_tensors(&c->values[i]);
  return count;
}

static tenon_status_t make_leaves(call_t *c, uint64_t wanted) {
  for (uint32_t i = 0; i < c->count && i < 64; i++) {
    const int32_t items = wanted >> i & 1 ? count_tensors(&c->values[i]) : 0;
    for (int32_t k = 0; k < items; k++) {
      tenon_tensor_t *leaf = tensor_at(&c->values[i], k);
      TN_TRY(tenon_tensor_require_grad(leaf, 1));
      c->leaves[c->leaf_count++] = leaf;
    }
  }
  return TENON_OK;
}

/* Collects the given results that have a history, with their gradients. The others contribute
 * nothing. */
static tenon_status_t collect_starts(call_t *c, uint64_t given, tenon_tensor_t *const *grads,
                                     int32_t grad_count) {
  int64_t k = 0;
  for (int32_t o = 0; o < c->output_count; o++) {
    tenon_tensor_t *output = given >> o & 1 ? c->outputs[o] : NULL;
    const bool is_list = output && tenon_dtype_id(output->dtype) == TENON_LIST;
    const int64_t items = is_list ? output->shape[0] : output != NULL;
    for (int64_t i = 0; i < items; i++, k++) {
      tenon_tensor_t *start = is_list ? tenon_item(output, i) : output;
      if (k >= grad_count || !tenon_tensor_requires_grad(start)) continue;
      c->starts[c->start_count] = start;
      c->from[c->start_count++] = grads[k];
    }
  }
  if (k == grad_count) return TENON_OK;
  return tn_fail(TENON_INVALID, "%s: expected %lld gradients, one for each given result, found %d",
                 c->op->name, (long long)k, (int)grad_count);
}

/* Creates zeros with the dtype, shape and device of a tensor. */
static tenon_status_t make_zeros(const tenon_tensor_t *like, tenon_tensor_t **out_zeros) {
  static const _Alignas(16) char zero[16]; /* as large as the largest element */
  TN_TRY(tenon_tensor_create_on(like->device, like->dtype, like->ndim, like->shape, out_zeros));
  return tenon_tensor_fill(*out_zeros, zero);
}

/* If a gradient requires gradients itself, those of the inputs are functions of it. */
static uint32_t flags_of(tenon_tensor_t *const *grads, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    if (tenon_tensor_requires_grad(grads[i])) return TENON_GRAD_UNUSED | TENON_GRAD_CREATE;
  return TENON_GRAD_UNUSED;
}

static tenon_status_t call_backward(call_t *c, uint64_t given, tenon_tensor_t *const *grads,
                                    int32_t grad_count, uint64_t wanted,
                                    tenon_tensor_t **out_grads) {
  TN_TRY(make_leaves(c, wanted));
  TN_TRY(tenon_op_call_values(c->op, c->values, c->count, c->outputs, given));
  TN_TRY(collect_starts(c, given, grads, grad_count));
  if (c->start_count)
    TN_TRY(tenon_gradients(c->starts, c->from, c->start_count, c->leaves, c->leaf_count,
                           flags_of(c->from, c->start_count), out_grads));
  for (int32_t i = 0; i < c->leaf_count; i++)
    if (!out_grads[i]) TN_TRY(make_zeros(c->leaves[i], &out_grads[i]));
  return TENON_OK;
}

tenon_status_t tenon_op_gradients(const tenon_op_t *op, const tenon_value_t *values, uint32_t count,
                                  uint64_t given, tenon_tensor_t *const *grads, int32_t grad_count,
                                  uint64_t wanted, tenon_tensor_t **out_grads, int32_t out_count) {
  call_t c = {.op = op, .values = values, .count = count};
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(op, &info);
  c.output_count = info.output_count;
  memset(out_grads, 0, (size_t)out_count * sizeof *out_grads);
  if (count_leaves(&c, wanted) != out_count)
    return tn_fail(TENON_INVALID, "%s: expected room for %d gradients, found %d", info.name,
                   (int)count_leaves(&c, wanted), (int)out_count);
  const size_t room = (size_t)out_count + 2 * (size_t)(grad_count + 1);
  c.leaves = tn_allocate(room * sizeof *c.leaves);
  if (!c.leaves) return tn_no_memory("gradients", room * sizeof *c.leaves);
  c.starts = c.leaves + out_count;
  c.from = c.starts + grad_count + 1;
  const int32_t records = tenon_grad_mode_set(1);
  tenon_status_t status = call_backward(&c, given, grads, grad_count, wanted, out_grads);
  (void)tenon_grad_mode_set(records);
  for (int32_t i = 0; i < c.leaf_count; i++)
    (void)tenon_tensor_require_grad(c.leaves[i], 0);
  for (int32_t o = 0; o < c.output_count; o++)
    tenon_tensor_release(c.outputs[o]);
  if (status != TENON_OK)
    for (int32_t i = 0; i < out_count; i++) {
      tenon_tensor_release(out_grads[i]);
      out_grads[i] = NULL;
    }
  tn_release_memory(c.leaves);
  return status;
}
