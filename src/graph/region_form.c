/* Finds how planned calls can be members of regions, see region_form.h. A kernel of rows is one of
 * TENON_ROW, one whose words say `rows`, or the stub of a reduction over the last axes. The stub of
 * a pointwise operator, or its kernel that says `rows`, takes any elements. */
#include "graph/region_form.h"

#include <string.h>

#include "base/scratch.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "drivers/iterator.h"

static bool fits_loop(const tenon_tensor_t *t) {
  return !(t->keys & TN_KEY_DETAIL) && !tn_dtype_is(t->dtype, TENON_STRING) &&
         t->dtype.bits * t->dtype.lanes >= 8;
}

static int64_t product(const int64_t *shape, int32_t count) {
  int64_t all = 1;
  for (int32_t i = 0; i < count; i++)
    all *= shape[i];
  return all;
}

/* The fewest axes, at least one, whose extents multiply to the rows; 0: there are none. */
static int32_t axes_of_rows(const tenon_tensor_t *t, int32_t most, int64_t rows) {
  for (int32_t k = 1; k <= most; k++)
    if (product(t->shape, k) == rows) return k;
  return 0;
}

/* Rows */

/* Returns the axes in a row of the first input: those from the attribute `axis` on, or the last
 * one. 0: the attribute names no axis. */
static int32_t count_row_axes(const tenon_call_t *call) {
  const tn_schema_t *schema = &call->op->schema;
  const int32_t ndim = call->inputs[0]->ndim;
  int64_t axis = -1;
  for (uint32_t i = 0; i < schema->attr_count; i++)
    if (strcmp(schema->attrs[i].name, "axis") == 0 && call->attrs[i].kind == TENON_KIND_INT)
      axis = call->attrs[i].as.i;
  if (axis < 0) axis += ndim;
  return axis < 0 || axis >= ndim ? 0 : ndim - (int32_t)axis;
}

/* Finds the rows that a reduction over the last axes makes an element of. */
static void find_reduced(tn_action_t *action, tn_region_form_t *form) {
  tenon_iterator_t it;
  tn_scratch_mark_t mark = tn_scratch_mark();
  const int32_t input = action->frame.call.op->reduces.input;
  const tenon_tensor_t *x = action->inputs[input];
  form->reason = "reduces other axes than the last ones";
  if (input == 0 && tn_iterator_make_apart(&action->frame.call, &it) == TENON_OK && it.end &&
      it.reduced == 1 && it.ndim == 1) {
    const int64_t size = x->dtype.bits * x->dtype.lanes / 8;
    const int32_t lead = axes_of_rows(x, x->ndim, it.end);
    const bool is_last = it.inner == 1 || it.strides[0][it.ndim] == size;
    if (is_last && lead && (it.end == 1 || it.strides[0][0] == it.inner * size))
      *form = (tn_region_form_t){.is_sliced = true, .rows = it.end, .tail = x->ndim - lead};
  }
  tn_scratch_reset(mark);
}

static void find_rows(tn_action_t *action, tn_region_form_t *form) {
  const tn_kernel_t *kernel = action->kernel;
  const tenon_tensor_t *x = action->inputs[0];
  if (!x || x->ndim == 0) {
    form->reason = "has no rows";
  } else if (kernel->kind == TN_KIND_STUB) {
    find_reduced(action, form);
  } else {
    form->tail = kernel->kind == TN_KIND_ROW ? 1 : count_row_axes(&action->frame.call);
    form->rows = product(x->shape, x->ndim - form->tail);
    if (!form->tail || form->tail == x->ndim) form->reason = "takes its input as one row";
  }
  if (!form->reason) form->elements = tenon_count(x);
}

/* Finds the axes of a pointwise kernel: an operand has all elements, or one. */
static bool find_flat_axes(const tn_action_t *action, int64_t elements, int32_t *axes) {
  const tenon_op_t *op = action->frame.call.op;
  for (uint32_t i = 0; i < op->input_count + op->output_count; i++) {
    const tenon_tensor_t *t =
        i < op->input_count ? action->inputs[i] : action->outputs[i - op->input_count];
    axes[i] = -1;
    if (!t) continue;
    if (tenon_count(t) == elements && t->ndim && !(t->keys & TN_KEY_STRIDED))
      axes[i] = t->ndim - 1;
    else if (tenon_count(t) != 1 || i >= op->input_count)
      return false;
  }
  return true;
}

bool tn_region_axes(const tn_action_t *action, const tn_region_form_t *form, int32_t *axes) {
  if (!form->rows) return find_flat_axes(action, form->elements, axes);
  const tenon_op_t *op = action->frame.call.op;
  for (uint32_t i = 0; i < op->input_count; i++) {
    const tenon_tensor_t *t = action->inputs[i];
    axes[i] = -1;
    if (!t || op->schema.inputs[i].is_host) continue;
    const int32_t lead = t->ndim > form->tail ? t->ndim - form->tail : 0;
    axes[i] = axes_of_rows(t, lead, form->rows) - 1;
    if (axes[i] >= 0 ? t->keys & TN_KEY_STRIDED : product(t->shape, lead) != 1) return false;
  }
  for (uint32_t o = 0; o < op->output_count; o++) {
    const tenon_tensor_t *t = action->outputs[o];
    int32_t *axis = &axes[op->input_count + o];
    *axis = -1;
    if (!t) continue;
    *axis = axes_of_rows(t, t->ndim, form->rows) - 1;
    if (*axis < 0) return false;
  }
  return true;
}

bool tn_region_is_like(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  if (a->ndim != b->ndim) return false;
  for (int32_t k = 0; k < a->ndim; k++)
    if (a->shape[k] != b->shape[k] || a->strides[k] != b->strides[k]) return false;
  return true;
}

bool tn_region_is_per_row(const tenon_tensor_t *operand, const tenon_tensor_t *result,
                          int64_t rows) {
  const int32_t missing = result->ndim - operand->ndim;
  int64_t seen = 1;
  if (tenon_count(operand) != rows || missing < 0) return false;
  for (int32_t k = 0; k < result->ndim; k++) {
    const int64_t extent = k < missing ? 1 : operand->shape[k - missing];
    if (extent != (seen == rows ? 1 : result->shape[k])) return false;
    seen *= extent;
  }
  return true;
}

/* All kernels */

static bool is_of_rows(const tn_kernel_t *kernel) {
  return kernel->kind == TN_KIND_ROW || kernel->kind == TN_KIND_STUB ||
         kernel->words.flags & TN_KERNEL_ROWS;
}

static const char *refuse_kernel(const tn_action_t *action) {
  const tn_kernel_t *kernel = action->kernel;
  if (!kernel) return "copies a value to another layout";
  const tenon_op_t *op = action->frame.call.op;
  if (kernel->kind != TN_KIND_LOOP && !is_of_rows(kernel))
    return "is neither a loop nor a kernel of rows";
  if (kernel->words.flags & TN_KERNEL_SERIAL) return "runs one call at a time";
  if (action->workspace_size) return "needs a workspace";
  if (op->traits & TENON_RANDOM) return "draws random numbers";
  if (tn_op_written(op, 0) >= 0) return "writes to an input";
  return NULL;
}

static const char *refuse_inputs(const tn_action_t *action) {
  const tenon_op_t *op = action->frame.call.op;
  for (uint32_t i = 0; i < op->input_count; i++) {
    if (op->schema.inputs[i].is_written) return "writes to an input";
    if (op->schema.inputs[i].kind == TENON_KIND_TENSORS) return "takes a list";
    if (action->inputs[i] && !fits_loop(action->inputs[i]))
      return "takes a tensor that is not of plain numbers";
  }
  for (uint32_t o = 0; o < op->output_count; o++)
    if (op->schema.outputs[o].kind == TENON_KIND_TENSORS) return "makes a list";
  return NULL;
}

/* Checks the layout of a result: row-major, or for a loop any other one without gaps. */
static bool find_layout(const tn_action_t *action, const tenon_tensor_t *t, bool is_first,
                        tn_region_form_t *form) {
  if (!(t->keys & TN_KEY_STRIDED)) return !form->like;
  if (action->kernel->kind != TN_KIND_LOOP || !tn_is_packed(t)) return false;
  if (is_first) form->like = t;
  return form->like && tn_region_is_like(t, form->like);
}

/* Checks the results. Sets the number of elements if the kernel is a loop. */
static const char *refuse_results(const tn_run_t *run, int32_t stage, const tn_action_t *action,
                                  tn_region_form_t *form) {
  const tn_node_t *node = run->executable->steps[action->step].node;
  bool is_first = true;
  for (int32_t o = 0; o < node->output_count; o++) {
    const tn_allocation_t *allocation = &run->allocations[node->outputs[o]];
    if (allocation->stage != stage) continue; /* the result is not computed */
    const tenon_tensor_t *t = &allocation->tensor->view;
    bool is_whole = allocation->where == TN_ALLOCATION_ARENA ||
                    allocation->where == TN_ALLOCATION_OUTPUT ||
                    allocation->where == TN_ALLOCATION_PART;
    if (!is_whole || allocation->bound) return "makes a result whose extents are not known before";
    if (!find_layout(action, t, is_first, form) || !fits_loop(t))
      return "makes a result that is not dense numbers";
    is_first = false;
    const int64_t count = tenon_count(t);
    if (count == 0) return "has no elements";
    if (form->rows) continue;
    if (form->elements && form->elements != count) return "makes results of different sizes";
    form->elements = count;
  }
  return form->elements ? NULL : "has no elements";
}

tn_region_form_t tn_region_form(const tn_run_t *run, int32_t stage, tn_action_t *action) {
  tn_region_form_t form = {.reason = refuse_kernel(action)};
  if (!form.reason) form.reason = refuse_inputs(action);
  form.is_sliced = action->kernel && action->kernel->kind != TN_KIND_LOOP;
  bool is_pointwise = action->kernel && action->frame.call.op->traits & TENON_POINTWISE;
  if (!form.reason && form.is_sliced && !is_pointwise) find_rows(action, &form);
  if (!form.reason) form.reason = refuse_results(run, stage, action, &form);
  return form;
}
