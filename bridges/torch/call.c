/* Calls of operators, and of their gradients, from PyTorch's dispatcher. */
#include "frame.h"

#include <stdio.h>
#include <string.h>

#include "common/zeros.h"
#include "threads.h"

/* Returns a generator for one call, seeded by a random number from PyTorch so that
 * torch.manual_seed has its effect. Returns NULL after a failure; `why` has the reason. */
static tenon_generator_t *generator_of(frame_t *f) {
  const int64_t one = 1;
  torch_tensor_t number = NULL;
  void *data = NULL;
  tenon_generator_t *made = NULL;
  int32_t bad = !torch.aoti_torch_cpu_randint_low_out ||
                torch.aoti_torch_empty_strided(1, &one, &one, torch.aoti_torch_dtype_int64(),
                                               torch_cpu, -1, &number) ||
                torch.aoti_torch_cpu_randint_low_out(number, 0, INT64_MAX, &one, 1) ||
                torch.torch_get_mutable_data_ptr(number, &data);
  if (bad)
    frame_fail(f, "PyTorch does not return a random number: ", torch_what());
  else if (tenon_generator_create((uint64_t) * (int64_t *)data, &made) != TENON_OK)
    frame_fail(f, tenon_error(), "");
  if (number) (void)torch.aoti_torch_delete_tensor_object(number);
  return made;
}

static tenon_status_t call(frame_t *f, tenon_tensor_t **outputs, uint64_t wanted) {
  const operator_t *self = f->self;
  if (!(self->traits & TENON_RANDOM))
    return tenon_op_call_values(self->op, f->values, self->argument_count, outputs, wanted);
  tenon_generator_t *generator = generator_of(f);
  if (!generator) return TENON_OK; /* `why` has the reason. */
  tenon_generator_t *before = tenon_generator_use(generator);
  tenon_status_t status =
      tenon_op_call_values(self->op, f->values, self->argument_count, outputs, wanted);
  (void)tenon_generator_use(before);
  tenon_generator_release(generator);
  return status;
}

static void forward_to_operator(frame_t *f, torch_value_t *stack, torch_value_t *out) {
  const operator_t *self = f->self;
  tenon_tensor_t *outputs[OPERATOR_MOST];
  if (!frame_arguments(f, stack)) return;
  const uint64_t wanted = self->has_wanted ? stack[self->argument_count] : 0;
  memset(outputs, 0, self->output_count * sizeof *outputs);
  if (call(f, outputs, wanted) != TENON_OK)
    snprintf(f->why, sizeof f->why, "%s", tenon_error());
  else if (!*f->why)
    (void)frame_results(f, outputs, out);
}

/* Returns whether `t` begins in the memory of `of`. */
static bool is_within(const tenon_tensor_t *t, const tenon_tensor_t *of) {
  int64_t last = 0;
  for (int32_t d = 0; d < of->ndim; d++)
    last += (of->shape[d] - 1) * of->strides[d];
  const uintptr_t begin = (uintptr_t)of->data + of->byte_offset;
  const uintptr_t at = (uintptr_t)t->data + t->byte_offset;
  return tenon_count(of) && at >= begin && at <= begin + (uintptr_t)last * (of->dtype.bits / 8);
}

/* Returns whether a gradient is a tensor that PyTorch passed in, or a view of one. A result must
 * have memory of its own. */
static bool is_lent(const frame_t *f, const tenon_tensor_t *t) {
  for (uint32_t k = 0; k < f->tensor_list_count; k++)
    for (size_t i = 0; i < f->tensor_lists[k].count; i++)
      if (is_within(t, f->tensor_lists[k].tensors[i])) return true;
  for (uint32_t i = 0; i < f->counted_count; i++)
    if (is_within(t, f->counted[i])) return true;
  return false;
}

static bool own_memory(frame_t *f, tenon_tensor_t **grad) {
  tenon_tensor_t *copy;
  if (!is_lent(f, *grad)) return true;
  if (tenon_tensor_copy_to(*grad, (*grad)->device, &copy) != TENON_OK)
    return frame_fail(f, tenon_error(), "");
  tenon_tensor_release(*grad);
  *grad = copy;
  return true;
}

bool frame_gradients(frame_t *f, tenon_tensor_t **leaves, tenon_tensor_t **grads, size_t count,
                     const bool *away, torch_value_t *out) {
  bool good = true;
  /* Leaves that the results do not depend on get zeros. */
  for (size_t i = 0; i < count && good; i++)
    good = grads[i]
               ? own_memory(f, &grads[i])
               : zeros_like(leaves[i], &grads[i]) == TENON_OK || frame_fail(f, tenon_error(), "");
  if (good)
    return (!away || frame_bring(f, grads, count, away)) && frame_list(f, grads, count, false, out);
  for (size_t i = 0; i < count; i++)
    tenon_tensor_release(grads[i]);
  return false;
}

/* Counts the tensors of the arguments in `which` (bit i: input i); items of lists count one by
 * one. */
static size_t count_tensors(const frame_t *f, uint64_t which) {
  size_t count = 0;
  for (uint32_t i = 0; i < f->self->input_count; i++) {
    const tenon_value_t *v = &f->values[i];
    if (!(which >> i & 1) || v->kind == TENON_KIND_NONE) continue;
    count += v->kind == TENON_KIND_TENSORS ? v->count : 1;
  }
  return count;
}

/* Repeats the operator's call with Tenon's tape on, and runs it backward. Three values follow the
 * arguments on the stack: the list of gradients, the results that they belong to (bits), and the
 * inputs whose gradients are requested (bits). */
static void backward_by_tape(frame_t *f, torch_value_t *stack, torch_value_t *out) {
  const operator_t *self = f->self;
  const torch_value_t *more = stack + self->argument_count;
  bool good = frame_arguments(f, stack);
  /* The call owns the list, also after a failure. */
  const list_t *grads = frame_tensors(f, more[0]);
  if (!good || !grads) return;
  const size_t count = count_tensors(f, more[2]);
  tenon_tensor_t **made = frame_take(f, count, sizeof *made);
  if (!made) return;
  tenon_status_t status =
      tenon_op_gradients(self->op, f->values, self->argument_count, more[1], grads->tensors,
                         (int32_t)grads->count, more[2], made, (int32_t)count);
  if (status != TENON_OK)
    snprintf(f->why, sizeof f->why, "%s", tenon_error());
  else if (!*f->why)
    (void)frame_gradients(f, NULL, made, count, NULL, out);
}

void operator_call(const operator_t *self, torch_value_t *stack, uint64_t arguments,
                   uint64_t results) {
  frame_t f;
  torch_value_t out[OPERATOR_MOST];
  (void)arguments; /* The number of arguments is that of the registered schema. */
  const tenon_thread_pool_t *pool = threads_enter();
  frame_open(&f, self, self->keeps || self->is_gradient);
  if (self->run)
    self->run(&f, stack, out);
  else if (self->is_gradient)
    backward_by_tape(&f, stack, out);
  else
    forward_to_operator(&f, stack, out);
  frame_close(&f);
  threads_leave(pool);
  /* This call throws. */
  if (*f.why) torch.aoti_torch_check(false, self->name, __FILE__, __LINE__, f.why);
  memcpy(stack, out, results * sizeof *out);
}
