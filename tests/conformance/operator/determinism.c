/* Checks that equal calls return equal results, wherever their arguments lie and whenever they are
 * made; for random operators given equal seeds. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "call.h"
#include "core/dtype.h"
#include "run.h"

enum {
  TIMES = 6,
  PAGE = 4096,
};

static const char *lacks_determinism(const subject_t *subject) {
  if (!(subject->op->traits & TENON_PURE)) return "the operator is not pure";
  if (subject->op->traits & TENON_RANDOM) return "the operator draws random numbers";
  return subject_runs_code(subject) ? NULL : "it has no kernel";
}

static const char *lacks_seed(const subject_t *subject) {
  return subject->op->traits & TENON_RANDOM ? NULL : "the operator draws no random numbers";
}

/* Compares the results of two calls bit by bit; NULL if they agree. */
static const char *compare_outputs(const example_t *example, tenon_tensor_t *const *a,
                                   tenon_tensor_t *const *b) {
  const char *differs = NULL;
  for (uint32_t o = 0; o < example->op->output_count && !differs; o++) {
    tenon_tensor_t *x = a[o] ? tensor_dense(a[o]) : NULL;
    tenon_tensor_t *y = b[o] ? tensor_dense(b[o]) : NULL;
    differs = tensor_differs(example->op->schema.outputs[o].name, x, y, 0);
    tenon_tensor_release(x);
    tenon_tensor_release(y);
  }
  return differs;
}

/* Copies the inputs to different addresses each time, always at the start of a page. */
static void copy_inputs(const example_t *example, int time, tenon_tensor_t **out_inputs) {
  for (uint32_t i = 0; i < example->op->input_count; i++) {
    const tenon_tensor_t *t = example->inputs[i];
    uint64_t bytes;
    out_inputs[i] = NULL;
    if (!t) continue;
    void *data = MAP_FAILED;
    if (!tn_dtype_is(t->dtype, TENON_LIST) && !tn_dtype_is(t->dtype, TENON_STRING) && !t->detail &&
        tn_dtype_bytes(t->dtype, tenon_count(t), &bytes))
      data = mmap(NULL, bytes + PAGE * (size_t)(1 + 3 * time), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) { /* lists and strings */
      if (tenon_tensor_copy(t, &out_inputs[i]) != TENON_OK)
        tenon_tensor_retain(out_inputs[i] = example->inputs[i]);
      continue;
    }
    memcpy(data, t->data, bytes); /* freed when the child ends */
    tenon_tensor_borrow(data, t->dtype, t->ndim, t->shape, NULL, NULL, NULL, &out_inputs[i]);
  }
}

static void check_repetition(example_t *example, const char *id, bool moves, const char *what,
                             const char *advice) {
  tenon_tensor_t *first[EXAMPLE_ARGUMENTS] = {NULL};
  tenon_tensor_t *again[EXAMPLE_ARGUMENTS] = {NULL};
  tenon_tensor_t *inputs[EXAMPLE_ARGUMENTS] = {NULL};
  struct timespec a_while = {0, 1300000}; /* so that clocks advance */
  call_doing(example, id, "several times");
  for (int time = 0; time < TIMES && !has_findings(); time++) {
    copy_inputs(example, moves ? time : 0, inputs);
    tenon_random_seed(example->seed + 7);
    if (tenon_op_call(example->op, example->attrs, inputs, time ? again : first, 0) != TENON_OK) {
      call_drop(inputs);
      break;
    }
    const char *differs = time ? compare_outputs(example, first, again) : NULL;
    if (differs)
      finding(example, id, what, advice, "call %d with equal arguments: %s", time + 1, differs);
    call_drop(inputs);
    call_drop(again);
    nanosleep(&a_while, NULL);
  }
  call_drop(first);
  call_drop(inputs);
}

static void run_repeat(const subject_t *subject) {
  examples_t all = examples(subject, true);
  for (example_t *t; !has_findings() && (t = examples_next(&all));)
    check_repetition(
        t, "determinism.repeat", true,
        "a pure operator returns bitwise equal results for equal inputs",
        "look for uses of addresses or times, and for sums whose order depends on threads; or "
        "remove TENON_PURE");
}

static void run_seed(const subject_t *subject) {
  examples_t all = examples(subject, false);
  for (example_t *t; !has_findings() && (t = examples_next(&all));)
    check_repetition(t, "determinism.seed", false, "equal seeds give equal numbers",
                     "draw numbers from call->random: tenon_random(seed, offset + i)");
}

const check_t checks_determinism[] = {
    {"determinism.repeat",
     "Equal calls of a pure operator return equal bits at other addresses and other times.", NULL,
     lacks_determinism, run_repeat},
    {"determinism.seed", "A random operator returns the same results for the same seed.", NULL,
     lacks_seed, run_seed},
    {NULL, NULL, NULL, NULL, NULL}};
