/* Checks inputs that may be absent, and results that are not wanted. */
#include <stdio.h>
#include <string.h>

#include "run.h"

static void try_inputs(const subject_t *subject, uint64_t has, const char *label) {
  example_t t;
  tn_example_options_t o = {.rank = -1, .has = has};
  ran_t ran, expected;
  if (is_label_chosen(label) && example_make(subject, &o, options.seed, label, &t)) {
    if (t.is_taken) {
      run_way(&t, &(way_t){.provides_outputs = true, .place = AT_TAIL, .poison = 0x55}, &ran);
      if (ran.status != TENON_OK && !has)
        finding(&t, NULL, "a call without optional inputs succeeds",
                "let infer refuse the call, or compute it",
                "infer accepts the call, but it fails: %s", ran.error);
      if (ran.status == TENON_OK && subject->reference) {
        run_way(&t, &(way_t){.op = subject->reference}, &expected);
        const char *differs =
            expected.status == TENON_OK ? ran_differs(&t, &expected, &ran, 4) : NULL;
        if (differs)
          finding(&t, NULL, "results equal those of the reference", "compare with the reference",
                  "%s", differs);
        ran_free(&expected);
      }
      ran_free(&ran);
    }
    example_free(&t);
  }
}

static void check_absent(const subject_t *subject) {
  uint64_t all = 0;
  if (!plain_works(subject)) return;
  try_inputs(subject, 0, "none");
  for (uint32_t i = 0; i < subject->op->input_count; i++) {
    if (!subject->op->schema.inputs[i].is_optional) continue;
    all |= (uint64_t)1 << i;
    try_inputs(subject, (uint64_t)1 << i, subject->op->schema.inputs[i].name);
  }
  try_inputs(subject, all, "all_given");
}

static void check_outputs(const subject_t *subject) {
  const tenon_op_t *op = subject->op;
  examples_t all = examples(subject, false);
  for (example_t *t; (t = examples_next(&all));) {
    ran_t plain, ran;
    uint64_t every = (op->output_count < 64 ? (uint64_t)1 << op->output_count : 0) - 1;
    uint64_t needed = 0;
    for (uint32_t o = 0; o < op->output_count; o++)
      if (!op->schema.outputs[o].is_optional) needed |= (uint64_t)1 << o;
    run_plainly(t, &plain);
    for (uint32_t o = 0; o <= op->output_count && plain.status == TENON_OK; o++) {
      uint64_t wanted = 0;
      if (o == op->output_count)
        wanted = needed;
      else if (op->schema.outputs[o].is_optional)
        wanted = every & ~((uint64_t)1 << o);
      if (!wanted) continue;
      run_way(t, &(way_t){.wanted = wanted, .place = AT_TAIL}, &ran);
      const char *differs = ran.status != TENON_OK ? ran.error : NULL;
      for (uint32_t k = 0; k < op->output_count && !differs; k++)
        if (wanted >> k & 1)
          differs = tensor_differs(op->schema.outputs[k].name, plain.outputs[k], ran.outputs[k], 1);
      if (differs)
        finding(t, NULL, "results are the same if an optional result is not wanted",
                "check whether call->outputs[i] is NULL", "with wanted results %#llx: %s",
                (unsigned long long)wanted, differs);
      ran_free(&ran);
    }
    ran_free(&plain);
  }
}

static const char *lacks_inputs(const subject_t *s) {
  for (uint32_t i = 0; i < s->op->input_count; i++)
    if (s->op->schema.inputs[i].is_optional) return NULL;
  return "the operator has no optional inputs";
}
static const char *lacks_outputs(const subject_t *s) {
  for (uint32_t o = 0; o < s->op->output_count; o++)
    if (s->op->schema.outputs[o].is_optional)
      return subject_is_pure(s) ? NULL : "its results do not depend on its arguments alone";
  return "the operator has no optional results";
}

const check_t checks_optionals[] = {{"optional.absent",
                                     "Optional inputs: all absent, one given, all given.", NULL,
                                     lacks_inputs, check_absent},
                                    {"optional.output", "Optional results that are not wanted.",
                                     NULL, lacks_outputs, check_outputs},
                                    {NULL, NULL, NULL, NULL, NULL}};
