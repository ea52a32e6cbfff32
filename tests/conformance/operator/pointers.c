/* Checks that a library keeps no pointers: the arguments of a call are inaccessible when the next
 * one runs. */
#include <string.h>

#include "call.h"
#include "revocable_memory.h"
#include "run.h"

#include "base/scratch.h"
#include "dispatch/infer.h"
#include "operator/state.h"

/* Makes two calls, the second after the arguments of the first have become inaccessible. */
static void check_run(example_t *example) {
  tenon_tensor_t *expected[EXAMPLE_ARGUMENTS] = {NULL};
  tenon_tensor_t *inputs[EXAMPLE_ARGUMENTS], *outputs[EXAMPLE_ARGUMENTS];
  pages_t first = {NULL, 0, 0};
  pages_t second = {NULL, 0, 0};
  call_doing(example, "", "once");
  if (tenon_op_call(example->op, example->attrs, example->inputs, expected, 0) == TENON_OK &&
      pages_place(example, &first, expected, inputs, outputs)) {
    tenon_status_t status = tenon_op_call_into(example->op, example->attrs, inputs, outputs);
    pages_lock(&first);
    call_doing(example, "pointer.kept",
               "after the memory of the previous call became inaccessible");
    if (status == TENON_OK && pages_place(example, &second, expected, inputs, outputs))
      tenon_op_call_into(example->op, example->attrs, inputs, outputs);
    pages_close(&first);
    if (second.base) pages_close(&second);
  }
  for (uint32_t o = 0; o < EXAMPLE_ARGUMENTS; o++)
    tenon_tensor_release(expected[o]);
}

static const char *lacks_run(const subject_t *subject) {
  if (!subject_runs_code(subject)) return "it has no kernel";
  for (uint32_t i = 0; i < subject->op->input_count; i++)
    if (subject->op->schema.inputs[i].is_written) return "it writes to an input";
  return NULL;
}

static void run_kept(const subject_t *subject) {
  examples_t all = examples(subject, false);
  for (example_t *t; (t = examples_next(&all));)
    check_run(t);
}

/* Copies a meta and what it points to into the pages. */
static tenon_meta_t *place_meta(pages_t *p, const tenon_meta_t *meta, bool is_result) {
  tenon_meta_t *copy = meta ? pages_copy(p, meta, sizeof *meta) : NULL;
  if (!copy) return NULL;
  size_t room =
      (is_result || meta->ndim < 0 ? TENON_RANK_MAX : (size_t)meta->ndim + 1) * sizeof *meta->dims;
  if (meta->dims) copy->dims = pages_copy(p, meta->dims, room);
  if (meta->strides) copy->strides = pages_copy(p, meta->strides, room);
  if (meta->values)
    copy->values = is_result
                       ? pages_take(p, 64 * sizeof *meta->values)
                       : pages_copy(p, meta->values, meta->value_count * sizeof *meta->values);
  return copy;
}

/* Runs infer, makes its arguments inaccessible, then runs the kernel alone and a whole call. */
static void check_infer(example_t *example) {
  const tenon_op_t *op = example->op;
  tenon_tensor_t *outputs[EXAMPLE_ARGUMENTS] = {NULL};
  tenon_meta_t **inputs, **results;
  tenon_meta_t *in[EXAMPLE_ARGUMENTS] = {NULL};
  tenon_meta_t *out[EXAMPLE_ARGUMENTS] = {NULL};
  pages_t pages;
  tn_inference_t inference = {.extents = NULL};
  void *state = NULL;
  call_doing(example, "", "once");
  if (tenon_op_call(op, example->attrs, example->inputs, outputs, 0) != TENON_OK) return;
  tn_scratch_mark_t mark = tn_scratch_mark();
  bool fine = (!op->create || tn_state_get(op, example->attrs, &state) == TENON_OK) &&
              tn_metas_of_inputs(op, example->inputs, &inputs) == TENON_OK &&
              tn_metas_of_results(op, example->attrs, 0, &results) == TENON_OK &&
              pages_open(&pages, 1 << 20);
  if (fine) {
    for (uint32_t i = 0; i < op->input_count; i++)
      in[i] = place_meta(&pages, inputs[i], false);
    for (uint32_t o = 0; o < op->output_count; o++)
      out[o] = place_meta(&pages, results[o], true);
    tenon_meta_t **in_list = pages_copy(&pages, in, sizeof in);
    tenon_meta_t **out_list = pages_copy(&pages, out, sizeof out);
    if (in_list && out_list) tn_infer(&inference, op, example->attrs, state, in_list, out_list);
    pages_lock(&pages);
    call_doing(example, "pointer.infer", "after the arguments of infer became inaccessible");
    tenon_op_run(op, example->attrs, example->inputs, outputs);
    tenon_tensor_t *again[EXAMPLE_ARGUMENTS] = {NULL};
    tenon_op_call(op, example->attrs, example->inputs, again, 0);
    for (uint32_t o = 0; o < op->output_count; o++)
      tenon_tensor_release(again[o]);
    pages_close(&pages);
  }
  tn_scratch_reset(mark);
  for (uint32_t o = 0; o < op->output_count; o++)
    tenon_tensor_release(outputs[o]);
}

static const char *lacks_infer(const subject_t *subject) {
  const tenon_op_t *op = subject->op;
  if (!op->infer || op->body >= 0) return "it has no infer function";
  if (!subject_runs_code(subject)) return "it has no kernel";
  for (uint32_t i = 0; i < op->input_count; i++)
    if (op->schema.inputs[i].kind == TENON_KIND_TENSORS || op->schema.inputs[i].is_written)
      return "it takes lists, or writes to an input";
  for (uint32_t o = 0; o < op->output_count; o++)
    if (op->schema.outputs[o].kind == TENON_KIND_TENSORS) return "it returns lists";
  return op->traits & TENON_RANDOM ? "the operator draws random numbers" : NULL;
}

static void run_infer(const subject_t *subject) {
  examples_t all = examples(subject, false);
  for (example_t *t; (t = examples_next(&all));)
    check_infer(t);
}

const check_t checks_pointers[] = {
    {"pointer.kept",
     "A call does not read memory, shapes or structures that were passed to the previous call.",
     NULL, lacks_run, run_kept},
    {"pointer.infer", "Neither run nor a later infer reads what was passed to an infer.", NULL,
     lacks_infer, run_infer},
    {NULL, NULL, NULL, NULL, NULL}};
