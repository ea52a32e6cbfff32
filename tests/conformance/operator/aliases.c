/* Checks shared memory: what the schema's marks and TENON_REUSE declare against what the operator
 * does. */
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "core/dtype.h"
#include "operator/op.h"
#include "run.h"

/* Whether result `o` may lie exactly where input `i` does. */
static bool may_reuse(const tenon_op_t *op, uint32_t o, uint32_t i) {
  if (op->reuse) return op->reuse[o] == (int32_t)i;
  return op->traits & TENON_POINTWISE && !op->reuse_text;
}

/* Provides results that lie in the memory of the inputs that TENON_REUSE names. */
static void check_reuse(const subject_t *subject) {
  examples_t all = examples(subject, !options.quick);
  for (example_t *t; (t = examples_next(&all));) {
    const tenon_op_t *op = t->op;
    tenon_tensor_t *inputs[EXAMPLE_ARGUMENTS] = {NULL};
    tenon_tensor_t *outputs[EXAMPLE_ARGUMENTS] = {NULL};
    bool any = false;
    ran_t plain, ran;
    memset(&ran, 0, sizeof ran);
    run_plainly(t, &plain);
    for (uint32_t i = 0; i < op->input_count; i++)
      inputs[i] = t->inputs[i] ? tensor_dense(t->inputs[i]) : NULL;
    for (uint32_t o = 0; o < op->output_count && plain.status == TENON_OK; o++) {
      const tenon_tensor_t *r = plain.outputs[o];
      if (r && !tn_dtype_is(r->dtype, TENON_LIST) &&
          tenon_tensor_create(r->dtype, r->ndim, r->shape, &outputs[o]) != TENON_OK)
        outputs[o] = NULL;
      for (uint32_t i = 0; i < op->input_count && outputs[o] && !any; i++) {
        const tenon_tensor_t *in = inputs[i];
        if (!in || !may_reuse(op, o, i) || !tn_dtype_same(in->dtype, r->dtype) ||
            in->ndim != r->ndim || in->dtype.code >= 200 ||
            memcmp(in->shape, r->shape, (size_t)r->ndim * sizeof(int64_t)) != 0)
          continue;
        tenon_tensor_release(outputs[o]);
        outputs[o] = NULL;
        any = tenon_tensor_borrow(in->data, r->dtype, r->ndim, r->shape, NULL, NULL, NULL,
                                  &outputs[o]) == TENON_OK;
      }
    }
    char text[1400];
    example_describe(t, NULL, text, sizeof text);
    doing(t, NULL, text);
    tenon_random_seed(t->seed + 7);
    if (any && (ran.status = tenon_op_run(op, t->attrs, inputs, outputs)) == TENON_OK) {
      for (uint32_t o = 0; o < op->output_count; o++)
        ran.outputs[o] = outputs[o] ? tensor_dense(outputs[o]) : NULL;
      const char *differs = ran_differs(t, &plain, &ran, 1);
      if (differs)
        finding(t, NULL,
                "a result that lies in the memory of the input that TENON_REUSE names has the same "
                "values",
                "read element i before writing element i, or remove the pair from TENON_REUSE",
                "%s", differs);
    }
    for (uint32_t o = 0; o < op->output_count; o++)
      tenon_tensor_release(outputs[o]);
    for (uint32_t i = 0; i < op->input_count; i++)
      tenon_tensor_release(inputs[i]);
    ran_free(&plain);
    ran_free(&ran);
  }
}

static bool same_bytes(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  uint64_t size;
  return !tn_dtype_bytes(a->dtype, tenon_count(a), &size) || a->dtype.code >= 200 ||
         memcmp(a->data, b->data, size) == 0;
}

/* An input that is marked as written is modified by at least one call, and a view lies in the
 * memory of its input. */
static void check_declared(const subject_t *subject) {
  const tenon_op_t *op = subject->op;
  uint64_t written = 0;
  uint64_t tried = 0;
  examples_t all = examples(subject, false);
  for (example_t *t; (t = examples_next(&all));) {
    ran_t ran;
    run_plainly(t, &ran);
    for (uint32_t i = 0; i < op->input_count && ran.status == TENON_OK; i++) {
      if (!op->schema.inputs[i].is_written || !ran.written[i] || !tenon_count(ran.written[i]))
        continue;
      tried |= (uint64_t)1 << i;
      if (!same_bytes(t->inputs[i], ran.written[i])) written |= (uint64_t)1 << i;
    }
    ran_free(&ran);
    if (!op->is_view) continue;
    tenon_tensor_t *outputs[EXAMPLE_ARGUMENTS] = {NULL};
    if (tenon_op_call(op, t->attrs, t->inputs, outputs, 0) != TENON_OK) continue;
    for (uint32_t o = 0; o < op->output_count; o++) {
      const tenon_tensor_t *r = outputs[o];
      const tenon_tensor_t *of = NULL;
      for (uint32_t i = 0; i < op->input_count; i++)
        if (op->schema.inputs[i].mark == op->schema.outputs[o].mark) of = t->inputs[i];
      uint64_t size = 0;
      if (r && of && !tn_dtype_is(r->dtype, TENON_LIST) && tenon_count(r) &&
          tn_dtype_bytes(of->dtype, tenon_count(of), &size) &&
          ((char *)r->data < (char *)of->data || (char *)r->data >= (char *)of->data + size))
        finding(t, NULL, "a result with the mark of an input lies in the memory of that input",
                "set alias in infer, or remove the mark", "result %s has memory of its own",
                op->schema.outputs[o].name);
      tenon_tensor_release(outputs[o]);
    }
  }
  for (uint32_t i = 0; i < op->input_count; i++)
    if ((tried & ~written) >> i & 1)
      finding(NULL, NULL, "an input that the schema marks with `!` is written",
              "write to the input, or remove the mark", "input %s is unchanged after every call",
              op->schema.inputs[i].name);
}

/* A dense tensor of the result's type that begins `offset` bytes after the start of `memory`. */
static tenon_tensor_t *result_at(const tenon_tensor_t *memory, const tenon_tensor_t *result,
                                 int64_t offset) {
  tenon_tensor_t *made = NULL;
  tenon_status_t status = tenon_tensor_borrow((char *)memory->data + offset, result->dtype,
                                              result->ndim, result->shape, NULL, NULL, NULL, &made);
  return status == TENON_OK ? made : NULL;
}

/* Calls with result `o` in the memory of input `i`, `offset` bytes after the start of the input.
 * The host copies the input, or refuses the call. */
static void call_overlapping(example_t *t, const ran_t *plain, uint32_t i, uint32_t o,
                             int64_t offset) {
  const tenon_op_t *op = t->op;
  const tenon_tensor_t *in = t->inputs[i];
  tenon_tensor_t *inputs[EXAMPLE_ARGUMENTS] = {NULL};
  tenon_tensor_t *outputs[EXAMPLE_ARGUMENTS] = {NULL};
  uint64_t size = 0;
  uint64_t result_size = 0;
  (void)tn_dtype_bytes(in->dtype, tenon_count(in), &size);
  (void)tn_dtype_bytes(plain->outputs[o]->dtype, tenon_count(plain->outputs[o]), &result_size);
  int64_t room = (int64_t)(size + result_size) + offset;
  tenon_tensor_t *memory = NULL;
  if (tenon_tensor_create(tenon_dtype(TENON_U8), 1, &room, &memory) != TENON_OK) return;
  for (uint32_t k = 0; k < op->input_count; k++)
    inputs[k] = t->inputs[k] ? tensor_dense(t->inputs[k]) : NULL;
  memcpy(memory->data, inputs[i]->data, (size_t)size);
  tenon_tensor_t *own = inputs[i];
  inputs[i] = result_at(memory, own, 0);
  outputs[o] = result_at(memory, plain->outputs[o], offset);
  char text[1400];
  ran_t ran;
  memset(&ran, 0, sizeof ran);
  example_describe(t, NULL, text, sizeof text);
  doing(t, NULL, text);
  tenon_random_seed(t->seed + 7);
  if (inputs[i] && outputs[o]) ran.status = tenon_op_call_into(op, t->attrs, inputs, outputs);
  const char *differs = NULL;
  if (inputs[i] && outputs[o] && ran.status == TENON_OK) {
    ran.outputs[o] = tensor_dense(outputs[o]);
    differs = tensor_differs(op->schema.outputs[o].name, plain->outputs[o], ran.outputs[o], 1);
  }
  if (differs)
    finding(t, NULL,
            "a result that shares memory with an input has the values of a call on copies, or the "
            "call is refused",
            "read only the inputs that the call gives, and write only to its results",
            "with result %s %" PRId64 " bytes after the start of input %s: %s",
            op->schema.outputs[o].name, offset, op->schema.inputs[i].name, differs);
  ran_free(&ran);
  tenon_tensor_release(outputs[o]);
  tenon_tensor_release(own);
  for (uint32_t k = 0; k < op->input_count; k++)
    tenon_tensor_release(inputs[k]);
  tenon_tensor_release(memory);
}

static bool may_overlap(const tenon_tensor_t *t) {
  return t && !t->detail && t->dtype.code < 200 && t->dtype.bits >= 8 && tenon_count(t) > 0;
}

/* The same place, a little further, and the second half. */
static void check_overlap(const subject_t *subject) {
  examples_t all = examples(subject, !options.quick);
  for (example_t *t; (t = examples_next(&all));) {
    ran_t plain;
    run_plainly(t, &plain);
    for (uint32_t o = 0; o < t->op->output_count && plain.status == TENON_OK; o++)
      for (uint32_t i = 0; i < t->op->input_count; i++) {
        if (!may_overlap(t->inputs[i]) || !may_overlap(plain.outputs[o])) continue;
        /* Aligned places only: strides.unaligned checks others. */
        const int64_t size = tenon_count(plain.outputs[o]) * plain.outputs[o]->dtype.bits / 8;
        const int64_t offsets[] = {0, TN_ALIGNMENT, size / 2 / TN_ALIGNMENT * TN_ALIGNMENT};
        for (int k = 0; k < 3; k++) {
          if (!offsets[k] && (k || may_reuse(t->op, o, i))) continue; /* alias.reuse checks this */
          call_overlapping(t, &plain, i, o, offsets[k]);
        }
      }
    ran_free(&plain);
  }
}

static const char *lacks_one_result(const subject_t *s) {
  return subject_is_pure(s) && s->op->output_count == 1 && !s->op->is_view && subject_runs_code(s)
             ? NULL
             : "not a pure operator with one result";
}

static const char *lacks_reuse(const subject_t *s) {
  return subject_is_pure(s) && (s->op->reuse_text || s->op->traits & TENON_POINTWISE) &&
                 subject_runs_code(s)
             ? NULL
             : "no result may reuse the memory of an input";
}
static const char *lacks_marks(const subject_t *s) {
  for (uint32_t i = 0; i < s->op->input_count; i++)
    if (s->op->schema.inputs[i].mark) return NULL;
  return "the schema has no alias marks";
}

const check_t checks_aliases[] = {{"alias.reuse",
                                   "Results in the memory of inputs that TENON_REUSE names (any "
                                   "input of a pointwise operator) have the same values.",
                                   NULL, lacks_reuse, check_reuse},
                                  {"alias.overlap",
                                   "A result that shares memory with an input has the values of a "
                                   "call on copies, or the call is refused.",
                                   NULL, lacks_one_result, check_overlap},
                                  {"alias.declared",
                                   "Inputs marked with `!` are written, and results with a mark "
                                   "lie in the memory of their input.",
                                   NULL, lacks_marks, check_declared},
                                  {NULL, NULL, NULL, NULL, NULL}};
