/* Equal calls give equal results: wherever their arguments lie, whenever they are made, and of
 * random operators for equal seeds. */
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

static const char *lacks(const subject_t *subject) {
  if (!(subject->op->traits & TENON_PURE)) return "it is not pure";
  if (subject->op->traits & TENON_RANDOM) return "it draws random numbers";
  return subject_runs_code(subject) ? NULL : "nothing of it runs";
}

static const char *lacks_seed(const subject_t *subject) {
  return subject->op->traits & TENON_RANDOM ? NULL : "it draws no random numbers";
}

/* Results of two calls, to the last bit; NULL: they agree. */
static const char *differ(const trial_t *trial, tenon_tensor_t *const *a,
                          tenon_tensor_t *const *b) {
  const char *differs = NULL;
  for (uint32_t o = 0; o < trial->op->output_count && !differs; o++) {
    tenon_tensor_t *x = a[o] ? tensor_dense(a[o]) : NULL;
    tenon_tensor_t *y = b[o] ? tensor_dense(b[o]) : NULL;
    differs = tensor_differs(trial->op->schema.outputs[o].name, x, y, 0);
    tenon_tensor_release(x);
    tenon_tensor_release(y);
  }
  return differs;
}

/* Copies of the inputs at other addresses each time, all of them at the beginning of a page. */
static void move(const trial_t *trial, int time, tenon_tensor_t **out_inputs) {
  for (uint32_t i = 0; i < trial->op->input_count; i++) {
    const tenon_tensor_t *t = trial->inputs[i];
    uint64_t bytes;
    out_inputs[i] = NULL;
    if (!t) continue;
    void *data = MAP_FAILED;
    if (!tn_dtype_is(t->dtype, TENON_LIST) && !tn_dtype_is(t->dtype, TENON_STRING) && !t->detail &&
        tn_dtype_bytes(t->dtype, tenon_count(t), &bytes))
      data = mmap(NULL, bytes + PAGE * (size_t)(1 + 3 * time), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) { /* lists and texts */
      if (tenon_tensor_copy(t, &out_inputs[i]) != TENON_OK)
        tenon_tensor_retain(out_inputs[i] = trial->inputs[i]);
      continue;
    }
    memcpy(data, t->data, bytes); /* the child's end frees it */
    tenon_tensor_borrow(data, t->dtype, t->ndim, t->shape, NULL, NULL, NULL, &out_inputs[i]);
  }
}

static void check(trial_t *trial, const char *id, bool moves, const char *what,
                  const char *advice) {
  tenon_tensor_t *first[TRIAL_ARGUMENTS] = {NULL};
  tenon_tensor_t *again[TRIAL_ARGUMENTS] = {NULL};
  tenon_tensor_t *inputs[TRIAL_ARGUMENTS] = {NULL};
  struct timespec a_while = {0, 1300000}; /* clocks go on */
  call_doing(trial, id, "several times");
  for (int time = 0; time < TIMES && !has_findings(); time++) {
    move(trial, moves ? time : 0, inputs);
    tenon_random_seed(trial->seed + 7);
    if (tenon_op_call(trial->op, trial->attrs, inputs, time ? again : first, 0) != TENON_OK) {
      call_drop(inputs);
      break;
    }
    const char *differs = time ? differ(trial, first, again) : NULL;
    if (differs) finding(trial, id, what, advice, "call %d of equal ones: %s", time + 1, differs);
    call_drop(inputs);
    call_drop(again);
    nanosleep(&a_while, NULL);
  }
  call_drop(first);
  call_drop(inputs);
}

static void run_repeat(const subject_t *subject) {
  trials_t all = trials(subject, true);
  for (trial_t *t; !has_findings() && (t = trials_next(&all));)
    check(
        t, "determinism.repeat", true,
        "a pure operator gives the same for equal inputs, to the last bit",
        "look for addresses, times, and sums whose order threads decide; or take TENON_PURE away");
}

static void run_seed(const subject_t *subject) {
  trials_t all = trials(subject, false);
  for (trial_t *t; !has_findings() && (t = trials_next(&all));)
    check(t, "determinism.seed", false, "equal seeds give equal numbers",
          "draw from call->random: tenon_random(seed, offset + i)");
}

const check_t checks_determinism[] = {
    {"determinism.repeat",
     "Equal calls of a pure operator give equal bits, at other addresses and other times.", NULL,
     lacks, run_repeat},
    {"determinism.seed", "A random operator gives the same for the same seed.", NULL, lacks_seed,
     run_seed},
    {NULL, NULL, NULL, NULL, NULL}};
