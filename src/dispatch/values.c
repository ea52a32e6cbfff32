/* Calls with all arguments in one array of values: first tensors and then attributes, in the order
 * of the schema.  Bindings and interpreters use them.  Invariant: an argument that is not given is
 * absent or has its default, and the call keeps nothing of the array. */
#include <inttypes.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/scratch.h"
#include "base/status.h"
#include "core/value.h"
#include "operator/attrs.h"

static tenon_status_t misfit(const tenon_op_t *op, uint32_t i, const tenon_value_t *value) {
  const tn_argument_t *input = &op->schema.inputs[i];
  return tn_fail(TENON_INVALID, "%s: argument %u, '%s': expected %s, found %s", op->name, i,
                 input->name, tn_kind_name(input->kind), tn_kind_name(value->kind));
}

/* Creates the lists for arguments that are lists; the caller releases them. */
static tenon_status_t take_inputs(const tenon_op_t *op, const tenon_value_t *values, uint32_t count,
                                  tenon_tensor_t **out_inputs) {
  uint32_t given = count < op->input_count ? count : op->input_count;
  for (uint32_t i = 0; i < given; i++) {
    const tenon_value_t *v = &values[i];
    if (v->kind == TENON_KIND_NONE) continue;
    if (v->kind != op->schema.inputs[i].kind) return misfit(op, i, v);
    if (v->kind == TENON_KIND_TENSOR)
      out_inputs[i] = v->as.tensor;
    else
      TN_TRY(tenon_tensor_list(v->as.tensors, (int32_t)v->count, &out_inputs[i]));
  }
  return TENON_OK;
}

/* Returns the attributes of the array itself, or a copy with the defaults filled in. */
static tenon_status_t take_attrs(const tenon_op_t *op, const tenon_value_t *values, uint32_t count,
                                 const tenon_value_t **out_attrs) {
  uint32_t all = op->schema.attr_count;
  bool is_whole = count == all;
  for (uint32_t i = 0; i < count && is_whole; i++)
    is_whole = values[i].kind != TENON_KIND_NONE;
  *out_attrs = values;
  if (!is_whole) {
    tenon_value_t *filled = tn_scratch((all + 1) * sizeof *filled);
    if (!filled) return tn_no_memory("a call", all * sizeof *filled);
    memcpy(filled, op->defaults, all * sizeof *filled);
    for (uint32_t i = 0; i < count; i++)
      if (values[i].kind != TENON_KIND_NONE) filled[i] = values[i];
    *out_attrs = filled;
  }
  TN_TRY(tn_attrs_check(op, *out_attrs));
  /* A call has no symbols: every extent must be a number. */
  for (uint32_t i = 0; i < all; i++) {
    const tenon_value_t *v = &(*out_attrs)[i];
    const tenon_dim_t *dims = v->kind == TENON_KIND_DIMS ? v->as.dims : &v->as.dim;
    uint32_t listed = v->kind == TENON_KIND_DIMS ? v->count : v->kind == TENON_KIND_DIM;
    for (uint32_t k = 0; k < listed; k++)
      if (!tenon_is_known(dims[k]))
        return tn_fail(TENON_INVALID, "%s: attribute %s: expected -2^62 or more, found %" PRId64,
                       op->name, op->schema.attrs[i].name, dims[k].value);
  }
  return TENON_OK;
}

tenon_status_t tenon_op_call_values(const tenon_op_t *op, const tenon_value_t *values,
                                    uint32_t count, tenon_tensor_t **outputs, uint64_t wanted) {
  enum { FEW = 8 };
  uint32_t n = op->input_count;
  tenon_tensor_t *few[FEW] = {NULL};
  tenon_tensor_t **inputs = few;
  const tenon_value_t *attrs = NULL;
  if (count > n + op->schema.attr_count)
    return tn_fail(TENON_INVALID,
                   "%s: %u arguments: expected at most %u, %u tensors and then %u attributes",
                   op->name, count, n + op->schema.attr_count, n, op->schema.attr_count);
  tn_scratch_mark_t mark = tn_scratch_mark();
  if (n > FEW && (inputs = tn_scratch(n * sizeof *inputs))) memset(inputs, 0, n * sizeof *inputs);
  if (!inputs) return tn_no_memory("a call", n * sizeof *inputs);
  tenon_status_t status = take_inputs(op, values, count, inputs);
  if (status == TENON_OK && count > n) status = take_attrs(op, values + n, count - n, &attrs);
  if (status == TENON_OK) status = tenon_op_call(op, attrs, inputs, outputs, wanted);
  for (uint32_t i = 0; i < n && i < count; i++)
    if (values[i].kind == TENON_KIND_TENSORS && op->schema.inputs[i].kind == TENON_KIND_TENSORS)
      tenon_tensor_release(inputs[i]);
  tn_scratch_reset(mark);
  return status;
}
