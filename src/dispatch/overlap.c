/* Results and written inputs that share memory with other arguments of a call.  A kernel may assume
 * that they do not: an input that would be overwritten before it is read is copied, and what no
 * copy can mend is refused.  The entry points call this for calls with given outputs and for
 * operators that write to inputs.  Invariant: the call below sees disjoint memory, except for
 * inputs that loops and REUSE overwrite in place. */
#include "dispatch/overlap.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/sparse.h"
#include "operator/frame.h"
#include "operator/kernel.h"
#include "operator/table.h"
#include "storage/device_memory.h"
#include "storage/overlap.h"

/* An argument of the call that is asked about. */
typedef struct argument_t {
  const char *role;
  const char *name;
  const tenon_tensor_t *tensor;
} argument_t;

static argument_t input_argument(const tenon_op_t *op, tenon_tensor_t *const *inputs, uint32_t i) {
  return (argument_t){"input", op->schema.inputs[i].name, inputs[i]};
}

static argument_t output_argument(const tenon_op_t *op, tenon_tensor_t *const *outputs,
                                  uint32_t o) {
  return (argument_t){"result", op->schema.outputs[o].name, outputs[o]};
}

static bool is_list(const tenon_tensor_t *t) { return tn_dtype_is(t->dtype, TENON_LIST); }

/* what shares memory */

int32_t tn_result_input(const tenon_op_t *op, uint32_t o) {
  const tn_argument_t *result = &op->schema.outputs[o];
  for (uint32_t i = 0; result->is_written && i < op->input_count; i++)
    if (op->schema.inputs[i].is_written && op->schema.inputs[i].mark == result->mark)
      return (int32_t)i;
  return -1;
}

/* Returns whether a tensor without items shares memory with `with` or with its parts: the scales of
 * a quantised tensor, the elements and indices of a sparse one. */
static bool shares_parts(const tenon_tensor_t *t, const tenon_tensor_t *with) {
  const tenon_detail_t *detail = t->detail;
  if (!detail || t->keys & TN_TENSOR_UNSET) return false;
  const tenon_tensor_t *const parts[] = {detail->scale, detail->zero_point, detail->values,
                                         detail->indices, detail->indptr};
  for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
    if (parts[k] && parts[k]->data && tn_tensors_share(parts[k], with)) return true;
  return false;
}

static bool has_memory(const tenon_tensor_t *t) {
  return !(t->keys & TN_TENSOR_UNSET) && t->data && !tn_layout(t);
}

/* Returns whether any memory of `a` is memory of `b`, items of lists included. */
static bool shares(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  if (is_list(a)) {
    for (int64_t i = 0; i < a->shape[0]; i++)
      if (shares(tenon_item(a, i), b)) return true;
    return false;
  }
  if (is_list(b)) return shares(b, a);
  bool have_memory = has_memory(a) && has_memory(b);
  if (have_memory && tn_tensors_share(a, b)) return true;
  return (has_memory(b) && shares_parts(a, b)) || (has_memory(a) && shares_parts(b, a));
}

/* refusals */

static tenon_status_t fail_shared(const tenon_op_t *op, argument_t a, argument_t b) {
  return tn_fail(TENON_INVALID,
                 "%s: %s %s overlaps %s %s, and the call writes to both: expected separate memory, "
                 "pass a copy of one of them",
                 op->name, a.role, a.name, b.role, b.name);
}

/* Refuses a tensor that is written to if two of its elements, or two items of a list, share
 * memory. */
static tenon_status_t check_alone(const tenon_op_t *op, argument_t a) {
  const tenon_tensor_t *t = a.tensor;
  if (!is_list(t)) {
    if (!has_memory(t) || t->keys & TN_KEY(TN_BIT_META) || !tn_tensor_folds(t)) return TENON_OK;
    return tn_fail(TENON_PRECONDITION,
                   "%s: %s %s would be written to, but several of its elements share one address: "
                   "write to a copy",
                   op->name, a.role, a.name);
  }
  for (int64_t i = 0; i < t->shape[0]; i++) {
    TN_TRY(check_alone(op, (argument_t){a.role, a.name, tenon_item(t, i)}));
    for (int64_t k = 0; k < i; k++)
      if (shares(tenon_item(t, i), tenon_item(t, k)))
        return tn_fail(TENON_INVALID,
                       "%s: %s %s: items %lld and %lld overlap, and the call writes to both: "
                       "expected separate memory",
                       op->name, a.role, a.name, (long long)k, (long long)i);
  }
  return TENON_OK;
}

/* Returns whether an output is the tensor of a written input, as infer requires. */
static bool is_input_itself(const tenon_op_t *op, tenon_tensor_t *const *inputs, uint32_t o) {
  int32_t same = tn_result_input(op, o);
  return same >= 0 && inputs[same];
}

/* copies */

/* Returns whether a driver of the host runs the kernel of the call. A kernel of a library that
 * could be unloaded at this moment is not looked at. */
static bool is_driven(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                      tenon_tensor_t *const *outputs, const tenon_tensor_t *result) {
  const tn_backend_t *backend = tn_backend_of(result->device);
  if (!backend) return false;
  uint64_t keys = (TN_KEY(backend->bit) | TN_KEY_CPU) & tn_op_mask(op);
  const tn_table_entry_t *entry =
      backend->bit == TN_BIT_OTHERS ? tn_table_others(op, backend) : tn_table_entry(op, keys);
  if (entry->gate || !tn_entry_has_kernels(entry)) return false;
  const tn_kernel_t *kernel = tn_entry_kernel(entry, op, inputs, outputs);
  return kernel && (kernel->kind == TN_KIND_LOOP || kernel->kind == TN_KIND_STUB);
}

/* Returns whether the input may be overwritten in place. Drivers of loops and stubs read an element
 * before they write to it. */
static bool stays_in_place(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                           tenon_tensor_t *const *outputs, uint32_t i, uint32_t o) {
  if (is_list(inputs[i]) || is_list(outputs[o]) || inputs[i]->detail) return false;
  if (!tn_tensors_coincide(inputs[i], outputs[o])) return false;
  if (op->reuse && op->reuse[o] == (int32_t)i) return true;
  return op->traits & TENON_POINTWISE && is_driven(op, inputs, outputs, outputs[o]);
}

static uint64_t bit_of(uint32_t i) { return (uint64_t)1 << (i < 63 ? i : 63); }

/* Refuses a sparse or quantised input whose parts would be overwritten, since its copy would share
 * them. */
static tenon_status_t check_parts(const tenon_op_t *op, argument_t read, argument_t written) {
  const tenon_tensor_t *t = read.tensor;
  if (is_list(t)) {
    for (int64_t i = 0; i < t->shape[0]; i++)
      TN_TRY(check_parts(op, (argument_t){read.role, read.name, tenon_item(t, i)}, written));
    return TENON_OK;
  }
  bool is_shared = false;
  if (is_list(written.tensor)) {
    for (int64_t i = 0; i < written.tensor->shape[0]; i++)
      is_shared |= shares_parts(t, tenon_item(written.tensor, i));
  } else {
    is_shared = has_memory(written.tensor) && shares_parts(t, written.tensor);
  }
  return is_shared ? tn_fail(TENON_INVALID,
                             "%s: %s %s overlaps the parts of %s %s, a sparse or quantised tensor: "
                             "pass another tensor",
                             op->name, written.role, written.name, read.role, read.name)
                   : TENON_OK;
}

/* Finds the inputs that share memory with one written argument. `o`: its index if it is a result,
 * -1 if it is an input. */
static tenon_status_t find_read(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                                tenon_tensor_t *const *outputs, argument_t written, int64_t o,
                                uint64_t *copies) {
  for (uint32_t i = 0; i < op->input_count; i++) {
    if (!inputs[i] || op->schema.inputs[i].is_written || !shares(inputs[i], written.tensor))
      continue;
    if (o >= 0 && stays_in_place(op, inputs, outputs, i, (uint32_t)o)) continue;
    TN_TRY(check_parts(op, input_argument(op, inputs, i), written));
    *copies |= bit_of(i);
  }
  return TENON_OK;
}

static tenon_status_t find_of_inputs(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                                     tenon_tensor_t *const *outputs, uint64_t *copies) {
  for (uint32_t w = 0; w < op->input_count; w++) {
    if (!op->schema.inputs[w].is_written || !inputs[w]) continue;
    argument_t written = input_argument(op, inputs, w);
    /* Kernels for tensors anywhere, such as core::resize_, exchange the memory of a tensor and do
     * not write to its elements. */
    if (!op->is_anywhere) TN_TRY(check_alone(op, written));
    for (uint32_t k = 0; k < w; k++)
      if (op->schema.inputs[k].is_written && inputs[k] && shares(inputs[k], inputs[w]))
        return fail_shared(op, input_argument(op, inputs, k), written);
    TN_TRY(find_read(op, inputs, outputs, written, -1, copies));
  }
  return TENON_OK;
}

tenon_status_t tn_overlap_check_outputs(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                                        tenon_tensor_t *const *outputs, uint64_t added) {
  for (uint32_t o = 0; o < op->output_count; o++) {
    if (!outputs[o] || is_input_itself(op, inputs, o)) continue;
    argument_t written = output_argument(op, outputs, o);
    TN_TRY(check_alone(op, written));
    for (uint32_t k = 0; k < o; k++)
      if (outputs[k] && !is_input_itself(op, inputs, k) && !(added >> k & added >> o & 1) &&
          shares(outputs[k], outputs[o]))
        return fail_shared(op, output_argument(op, outputs, k), written);
  }
  return TENON_OK;
}

static tenon_status_t find_of_outputs(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                                      tenon_tensor_t *const *outputs, uint64_t *copies) {
  for (uint32_t o = 0; o < op->output_count; o++) {
    if (!outputs[o] || is_input_itself(op, inputs, o)) continue;
    argument_t written = output_argument(op, outputs, o);
    for (uint32_t w = 0; w < op->input_count; w++)
      if (op->schema.inputs[w].is_written && inputs[w] && shares(inputs[w], outputs[o]))
        return fail_shared(op, written, input_argument(op, inputs, w));
    TN_TRY(find_read(op, inputs, outputs, written, o, copies));
  }
  return TENON_OK;
}

/* Returns whether a glance at each argument shows that no memory is shared. */
static bool is_apart(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                     tenon_tensor_t *const *outputs) {
  if (op->traits & TN_WRITES) return false;
  for (uint32_t i = 0; i < op->input_count; i++)
    if (inputs[i] && is_list(inputs[i])) return false;
  for (uint32_t o = 0; o < op->output_count; o++)
    if (outputs[o] && (is_list(outputs[o]) || tn_output_touches(op, inputs, outputs, o)))
      return false;
  return true;
}

tenon_status_t tn_overlap_find(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                               tenon_tensor_t *const *outputs, uint64_t *out_copies) {
  *out_copies = 0;
  if (is_apart(op, inputs, outputs)) return TENON_OK;
  TN_TRY(tn_overlap_check_outputs(op, inputs, outputs, 0));
  TN_TRY(find_of_outputs(op, inputs, outputs, out_copies));
  return find_of_inputs(op, inputs, outputs, out_copies);
}

bool tn_overlap_is_harmless(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                            tenon_tensor_t *const *outputs) {
  uint64_t copies;
  return tn_overlap_find(op, inputs, outputs, &copies) == TENON_OK && !copies;
}

static tenon_status_t copy_input(tenon_tensor_t *t, tenon_tensor_t **out_copy);

static tenon_status_t copy_list(const tenon_tensor_t *list, tenon_tensor_t **out_copy) {
  int64_t count = list->shape[0];
  tenon_tensor_t **items = tn_scratch((size_t)count * sizeof *items + 64);
  if (!items) return tn_no_memory("a list of copies", (size_t)count * sizeof *items);
  tenon_status_t status = TENON_OK;
  int64_t made = 0;
  while (made < count && status == TENON_OK) {
    status = copy_input(tenon_item(list, made), &items[made]);
    if (status == TENON_OK) made++;
  }
  if (status == TENON_OK) status = tenon_tensor_list(items, (int32_t)count, out_copy);
  for (int64_t i = 0; i < made; i++)
    tenon_tensor_release(items[i]);
  return status;
}

/* Copies an input. The copy has the history of the input and keeps its detail. */
static tenon_status_t copy_input(tenon_tensor_t *t, tenon_tensor_t **out_copy) {
  *out_copy = NULL;
  if (is_list(t)) {
    TN_TRY(copy_list(t, out_copy));
  } else {
    TN_TRY(tn_device_tensor_create_like(t, true, out_copy));
    if (!tn_layout(t)) (*out_copy)->detail = t->detail;
    tn_tensor_mark(*out_copy);
    (*out_copy)->keys |= TN_TENSOR_COPY;
  }
  if (!(t->keys & TN_KEY(TN_BIT_AUTOGRAD)) || !tn_autograd.share) return TENON_OK;
  tenon_status_t status = tn_autograd.share(t, *out_copy);
  if (status == TENON_OK) return status;
  tenon_tensor_release(*out_copy);
  *out_copy = NULL;
  return status;
}

tenon_status_t tn_overlap_part(const tenon_op_t *op, tenon_tensor_t *const *inputs, uint64_t copies,
                               tenon_tensor_t ***out_inputs) {
  tenon_tensor_t **apart = tn_scratch((op->input_count + 1) * sizeof *apart);
  if (!apart) return tn_no_memory("a call", op->input_count * sizeof *apart);
  tenon_status_t status = TENON_OK;
  uint32_t made = 0;
  for (; made < op->input_count && status == TENON_OK; made++) {
    apart[made] = inputs[made];
    bool is_copied = inputs[made] && copies & bit_of(made) && !op->schema.inputs[made].is_written;
    if (is_copied)
      status = copy_input(inputs[made], &apart[made]);
    else
      tenon_tensor_retain(inputs[made]);
    if (status != TENON_OK)
      status =
          tn_prefix(status, "%s: a copy of input %s, which the call would overwrite: ", op->name,
                    op->schema.inputs[made].name);
  }
  for (uint32_t i = 0; i < made && status != TENON_OK; i++)
    tenon_tensor_release(apart[i]);
  *out_inputs = apart;
  return status;
}
