/* Example inputs for applications and bindings: tenon_op_sample makes values of a plan of
 * example.c. */
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/value.h"
#include "inspect/example_fill.h"

int32_t tenon_op_sample_count(const tenon_op_t *op) {
  return (int32_t)tn_example_count(tn_op_now(op));
}

/* Stores the tensors of a list in *out. The caller gets a reference to each. */
static tenon_status_t take_list(tenon_tensor_t *list, tenon_value_t *out) {
  uint32_t count = (uint32_t)list->shape[0];
  tenon_tensor_t **items = tn_allocate_zero(count + 1u, sizeof *items);
  if (!items) return tn_no_memory("a sample", count * sizeof *items);
  for (uint32_t i = 0; i < count; i++)
    tenon_tensor_retain(items[i] = tenon_item(list, i));
  *out = (tenon_value_t){.kind = TENON_KIND_TENSORS, .count = count, .as.tensors = items};
  return TENON_OK;
}

static tenon_status_t make_sample(const tn_example_t *example, uint64_t seed,
                                  tenon_tensor_t **inputs, tenon_value_t *out) {
  const tenon_op_t *op = example->op;
  TN_TRY(tn_example_inputs(example, seed, inputs));
  tenon_status_t status = tn_example_infer(example, inputs);
  for (uint32_t i = 0; i < op->input_count; i++) {
    if (!inputs[i] || status != TENON_OK) continue;
    if (op->schema.inputs[i].kind == TENON_KIND_TENSORS)
      status = take_list(inputs[i], &out[i]);
    else {
      tenon_tensor_retain(inputs[i]);
      out[i] = (tenon_value_t){.kind = TENON_KIND_TENSOR, .as.tensor = inputs[i]};
    }
  }
  for (uint32_t i = 0; i < op->input_count; i++)
    tenon_tensor_release(inputs[i]);
  if (status != TENON_OK) tenon_op_sample_release(op, out);
  return status;
}

/* Stores the inputs and attributes of an example call, in the order of the schema. Texts and lists
 * of attributes live as long as the operator, so they are not copied. */
static tenon_status_t sample(const tenon_op_t *op, const tenon_sample_t *from,
                             tn_example_t *example, tn_arena_t *arena, tenon_value_t *out_values) {
  tenon_dtype_t dtypes[TN_TYPE_VARIABLES] = {{0, 0, 0}};
  dtypes[0] = from->dtype;
  if (from->dtype.bits && !op->types.variable_count)
    return tn_fail(TENON_INVALID, "%s: its TYPES leave no dtype open, found %s", op->name,
                   tn_dtype_name(from->dtype));
  tn_example_options_t options = {.index = from->index,
                                  .dtypes = dtypes,
                                  .extent = from->extent,
                                  .name_count = from->name_count,
                                  .names = from->names,
                                  .extents = from->extents,
                                  .rank = -1};
  TN_TRY(tn_example_plan(op, &options, arena, example));
  tenon_tensor_t **inputs = tn_arena_array(arena, op->input_count + 1, sizeof *inputs);
  if (!inputs) return tn_no_memory("a sample", op->input_count * sizeof *inputs);
  TN_TRY(make_sample(example, from->seed, inputs, out_values));
  memcpy(out_values + op->input_count, example->attrs, op->schema.attr_count * sizeof *out_values);
  return TENON_OK;
}

tenon_status_t tenon_op_sample(const tenon_op_t *op, const tenon_sample_t *options,
                               tenon_value_t *out_values) {
  tenon_sample_t full = {.size = sizeof full};
  tn_arena_t arena = {NULL};
  op = tn_op_now(op);
  memcpy(&full, options, options->size < sizeof full ? options->size : sizeof full);
  memset(out_values, 0, (op->input_count + op->schema.attr_count) * sizeof *out_values);
  tn_example_t *example = tn_arena_allocate(&arena, sizeof *example);
  tenon_status_t status = example ? sample(op, &full, example, &arena, out_values)
                                  : tn_no_memory("a sample", sizeof *example);
  tn_arena_clear(&arena);
  return status;
}

void tenon_op_sample_release(const tenon_op_t *op, tenon_value_t *values) {
  for (uint32_t i = 0; i < op->input_count; i++) {
    tenon_value_t *v = &values[i];
    if (v->kind == TENON_KIND_TENSOR) tenon_tensor_release(v->as.tensor);
    for (uint32_t k = 0; v->kind == TENON_KIND_TENSORS && k < v->count; k++)
      tenon_tensor_release(v->as.tensors[k]);
    if (v->kind == TENON_KIND_TENSORS) tn_release_memory((void *)(uintptr_t)v->as.tensors);
    *v = (tenon_value_t){.kind = TENON_KIND_NONE};
  }
}
