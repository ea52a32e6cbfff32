/* Checks shared memory: what the schema's marks and TENON_REUSE declare against what the operator
 * does. */
#include <string.h>

#include "core/dtype.h"
#include "operator/op.h"
#include "run.h"

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
        bool may = op->reuse ? op->reuse[o] == (int32_t)i
                             : op->traits & TENON_POINTWISE && !op->reuse_text;
        if (!in || !may || !tn_dtype_same(in->dtype, r->dtype) || in->ndim != r->ndim ||
            in->dtype.code >= 200 ||
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
                                  {"alias.declared",
                                   "Inputs marked with `!` are written, and results with a mark "
                                   "lie in the memory of their input.",
                                   NULL, lacks_marks, check_declared},
                                  {NULL, NULL, NULL, NULL, NULL}};
