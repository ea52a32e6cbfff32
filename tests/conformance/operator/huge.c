/* Checks tensors of more than 2^31 elements without needing that much memory: inputs and results
 * repeat one window of elements, or one element by a stride of 0. The expected results come from
 * one, two and three windows: an elementwise result is the same in each window, and a result over
 * all elements grows linearly, or not at all. */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/scratch.h"
#include "board.h"
#include "core/dtype.h"
#include "core/element.h"
#include "core/tensor.h"
#include "dispatch/infer.h"
#include "inspect/example_fill.h"
#include "operator/state.h"
#include "repeated_memory.h"
#include "run.h"

enum {
  WINDOW = 1 << 19 /* elements */,
  WINDOWS = (1 << 12) + 2,
  SMALL = 3,
};

typedef struct stretch_t { /* one call in which an extent has `windows` windows */
  const tenon_op_t *op;
  tn_example_t plan;
  tn_arena_t arena;
  int64_t windows;
  bool is_spread; /* inputs have strides of 0 */
  tenon_tensor_t *inputs[EXAMPLE_ARGUMENTS];
  tenon_tensor_t *outputs[EXAMPLE_ARGUMENTS];
  repeated_memory_t in[EXAMPLE_ARGUMENTS];
  repeated_memory_t out[EXAMPLE_ARGUMENTS];
  double seconds;
  tenon_status_t status;
} stretch_t;

/* Chooses the smallest dtypes that TENON_TYPES allows. */
static void choose_dtypes(const tenon_op_t *op, tenon_dtype_t *out) {
  for (uint32_t v = 0; v < op->types.variable_count; v++)
    for (int d = 0; d < TN_DTYPE_STRING; d++) {
      tenon_dtype_t dtype = tn_dtype_at(d);
      bool is_odd = dtype.bits < 8 || dtype.code >= 7 || tn_dtype_is(dtype, TENON_BOOL);
      if (!is_odd && op->types.sets[v] >> d & 1 && (!out[v].bits || dtype.bits < out[v].bits))
        out[v] = dtype;
    }
}

/* Plans a call in which the extent `name` has the size of all windows, and the other free extents
 * are 1. */
static bool plan_stretch(stretch_t *s, const char *name) {
  tenon_dtype_t dtypes[TN_TYPE_VARIABLES] = {{0, 0, 0}};
  const char *names[TN_EXAMPLE_NAMES];
  int64_t extents[TN_EXAMPLE_NAMES];
  tn_example_options_t made = {.dtypes = dtypes, .rank = 1, .names = names, .extents = extents};
  choose_dtypes(s->op, dtypes);
  if (tn_example_plan(s->op, &made, &s->arena, &s->plan) != TENON_OK) return false;
  for (uint32_t i = 0; i < s->plan.name_count; i++) {
    if (!s->plan.names[i].is_free) continue;
    names[made.name_count] = s->plan.names[i].name;
    extents[made.name_count++] = strcmp(s->plan.names[i].name, name) == 0 ? s->windows * WINDOW : 1;
  }
  static tn_example_t stretched; /* the arrays of the plan would be as large */
  made.rank = 1;
  if (tn_example_plan(s->op, &made, &s->arena, &stretched) != TENON_OK) return false;
  s->plan = stretched;
  return true;
}

/* Creates the elements of one window, filled as the plan says. */
static tenon_tensor_t *window_of(const tn_example_tensor_t *from, uint32_t i) {
  tenon_tensor_t *window = NULL;
  int64_t shape[1] = {WINDOW};
  if (tenon_tensor_create(from->dtype, 1, shape, &window) != TENON_OK) return NULL;
  if (tn_example_fill(&from->fill, options.seed, i, window) == TENON_OK) return window;
  tenon_tensor_release(window);
  return NULL;
}

/* Creates a tensor of this shape, over an expanse if it consists of whole windows. */
static bool make_stretched_tensor(stretch_t *s, tenon_dtype_t dtype, int32_t ndim,
                                  const int64_t *shape, tenon_tensor_t *window,
                                  repeated_memory_t *expanse, tenon_tensor_t **out) {
  int64_t count = tn_shape_count(ndim, shape);
  size_t bytes = (size_t)WINDOW * dtype.bits / 8;
  if (count != s->windows * WINDOW || dtype.bits < 8) {
    if (count > WINDOW || tenon_tensor_create(dtype, ndim, shape, out) != TENON_OK) return false;
    if (window && dtype.bits >= 8)
      memcpy((*out)->data, window->data, (size_t)count * dtype.bits / 8);
    return true;
  }
  if (s->is_spread && window) {
    int64_t strides[TENON_RANK_MAX] = {0};
    return tenon_tensor_borrow(window->data, dtype, ndim, shape, strides, NULL, NULL, out) ==
           TENON_OK;
  }
  if (s->windows == 1 ? !repeated_memory_open(expanse, bytes, 2)
                      : !repeated_memory_open(expanse, bytes, (size_t)s->windows))
    return false;
  if (window) repeated_memory_fill(expanse, window->data);
  return tenon_tensor_borrow(expanse->base, dtype, ndim, shape, NULL, NULL, NULL, out) == TENON_OK;
}

static bool make_inputs(stretch_t *s) {
  bool any = false;
  for (uint32_t i = 0; i < s->op->input_count; i++) {
    const tn_example_input_t *from = &s->plan.inputs[i];
    if (!from->is_given) continue;
    tenon_tensor_t *window = window_of(from->tensors, i); /* freed when the child ends */
    if (!window || !make_stretched_tensor(s, from->tensors->dtype, from->tensors->ndim,
                                          from->tensors->shape, window, &s->in[i], &s->inputs[i]))
      return false;
    any |= tenon_count(s->inputs[i]) == s->windows * WINDOW;
  }
  return any;
}

/* Creates the results that infer describes; false if infer refuses, or does not know them. */
static bool make_outputs(stretch_t *s) {
  tn_inference_t inference = {.extents = NULL};
  tenon_meta_t **metas, **results;
  void *state = NULL;
  tn_scratch_mark_t mark = tn_scratch_mark();
  bool fine = (!s->op->create || tn_state_get(s->op, s->plan.attrs, &state) == TENON_OK) &&
              tn_metas_of_inputs(s->op, s->inputs, &metas) == TENON_OK &&
              tn_metas_of_results(s->op, s->plan.attrs, 0, &results) == TENON_OK &&
              tn_infer(&inference, s->op, s->plan.attrs, state, metas, results) == TENON_OK;
  for (uint32_t o = 0; o < s->op->output_count && fine; o++) {
    const tenon_meta_t *m = results[o];
    int64_t shape[TENON_RANK_MAX];
    fine = !m->items && m->ndim >= 0 && !m->alias && !m->strided && !m->layout && m->dtype.bits;
    for (int32_t d = 0; d < m->ndim && fine; d++) {
      fine = tenon_is_known(m->dims[d]);
      shape[d] = m->dims[d].value;
    }
    fine = fine &&
           make_stretched_tensor(s, m->dtype, m->ndim, shape, NULL, &s->out[o], &s->outputs[o]);
  }
  tn_scratch_reset(mark);
  return fine;
}

static void stretch_free(stretch_t *s) {
  for (uint32_t i = 0; i < EXAMPLE_ARGUMENTS; i++) {
    tenon_tensor_release(s->inputs[i]);
    tenon_tensor_release(s->outputs[i]);
    if (s->in[i].base) repeated_memory_close(&s->in[i]);
    if (s->out[i].base) repeated_memory_close(&s->out[i]);
  }
  tn_arena_clear(&s->arena);
}

static double seconds_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool stretch_run(stretch_t *s, const subject_t *subject, const char *name, int64_t windows,
                        bool is_spread) {
  memset(s, 0, sizeof *s);
  s->op = subject->op;
  s->windows = windows;
  s->is_spread = is_spread;
  if (!plan_stretch(s, name) || !make_inputs(s) || !make_outputs(s)) return false;
  /* CPU time, so that a busy machine does not matter */
  double begun = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  s->status = tenon_op_call_into(s->op, s->plan.attrs, s->inputs, s->outputs);
  s->seconds = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - begun;
  return true;
}

static double element_value(const tenon_tensor_t *t, int64_t i) {
  return tn_element_get(t->dtype, t->data, i, NULL);
}

static bool same_bits(const tenon_tensor_t *a, const void *x, const void *y, int64_t count) {
  return memcmp(x, y, (size_t)count * a->dtype.bits / 8) == 0;
}

/* Whether each of three windows has the result of a single window. Then every window must have
 * it. */
static bool is_periodic(const tenon_tensor_t *one, const tenon_tensor_t *three) {
  for (int w = 0; w < 3; w++)
    if (!same_bits(one, one->data, (char *)three->data + (size_t)w * WINDOW * one->dtype.bits / 8,
                   WINDOW))
      return false;
  return true;
}

static void compare_stretched(const stretch_t *small, const stretch_t *huge, uint32_t o) {
  const tenon_tensor_t *one = small[0].outputs[o];
  const repeated_memory_t *e = &huge->out[o];
  const char *name = huge->op->schema.outputs[o].name;
  if (!e->base || one->dtype.bits < 8 || tenon_count(one) != WINDOW) return;
  bool last_only = !same_bits(one, one->data, repeated_memory_last(e), WINDOW);
  if (!last_only && same_bits(one, one->data, e->base, WINDOW)) return;
  finding(NULL, "size.huge", "elements after the first 2^31 are computed like those before",
          "count elements and offsets in int64_t",
          "of %" PRId64
          " elements the %s of result %s differ from what the same elements give in a small tensor",
          huge->windows * WINDOW, last_only ? "last ones" : "first ones", name);
}

static void compare_whole(const stretch_t *small, const stretch_t *huge, uint32_t o) {
  const tenon_tensor_t *t = huge->outputs[o];
  for (int64_t i = 0, n = tenon_count(t); i < n; i++) {
    double r[SMALL], step;
    double found = element_value(t, i);
    for (int k = 0; k < SMALL; k++)
      r[k] = element_value(small[k].outputs[o], i);
    step = r[1] - r[0];
    bool is_float = t->dtype.code == 2 || t->dtype.code == 4;
    bool is_even = r[2] - r[1] == step && isfinite(step);
    if (!is_even || (is_float && step != 0)) continue;
    double expected = r[0] + step * (double)(huge->windows - 1);
    double top = t->dtype.code == 1 ? 0x1p0 : 0x1p-1;
    if (!is_float && fabs(expected) >= ldexp(top, t->dtype.bits))
      continue; /* the dtype cannot represent it */
    if (found == expected || (is_float && fabs(found - expected) <= 1e-3 * fabs(expected)))
      continue;
    finding(
        NULL, "size.huge",
        "a result over more than 2^31 elements continues the series of results over fewer elements",
        "count elements and offsets in int64_t",
        "element %" PRId64 " of result %s is %.17g for %d, %.17g for %d and %.17g for %d elements, "
        "so it should be %.17g for %" PRId64 "; it is %.17g",
        i, huge->op->schema.outputs[o].name, r[0], WINDOW, r[1], 2 * WINDOW, r[2], 3 * WINDOW,
        expected, huge->windows * WINDOW, found);
    return;
  }
}

static void compare_results(const stretch_t *small, const stretch_t *huge) {
  for (uint32_t o = 0; o < huge->op->output_count && !has_findings(); o++) {
    const tenon_tensor_t *one = small[0].outputs[o];
    const tenon_tensor_t *t = huge->outputs[o];
    if (tenon_count(t) != huge->windows * WINDOW) {
      if (tenon_count(t) == tenon_count(one)) compare_whole(small, huge, o);
    } else if (tenon_count(one) == WINDOW && is_periodic(one, small[2].outputs[o]))
      compare_stretched(small, huge, o);
  }
}

static const char *lacks_huge(const subject_t *subject) {
  const tenon_op_t *op = subject->op;
  if (!subject_runs_code(subject)) return "it has no kernel";
  if (!subject_is_pure(subject) || op->traits & TENON_RANDOM)
    return "equal calls do not return equal results";
  for (uint32_t i = 0; i < op->input_count; i++)
    if (op->schema.inputs[i].kind == TENON_KIND_TENSORS || op->schema.inputs[i].is_written)
      return "it takes lists, or writes to an input";
  if (options.quick) return "omitted by --quick";
  return NULL;
}

static bool is_strided(const tenon_op_t *op) {
  const tn_table_entry_t *entry = __atomic_load_n(&op->cpu, __ATOMIC_ACQUIRE);
  return entry->only && entry->only->words.flags & TN_KERNEL_STRIDED &&
         entry->only->kind == TN_KIND_DEVICE;
}

/* Seconds of a processor for one operator, so that a whole library stays within the time limit of
 * a check. There is none for a case that is asked for by name. */
static double allowed_s(const subject_t *subject) {
  if (options.case_count) return HUGE_VAL;
  const tenon_op_t *const *ops;
  int32_t count;
  int32_t own = 0;
  size_t space = strcspn(subject->name, ":");
  if (tenon_ops_list(&ops, &count) != TENON_OK) return 1;
  for (int32_t i = 0; i < count; i++) {
    tenon_op_info_t info = {.size = sizeof info};
    tenon_op_info(ops[i], &info);
    own += strncmp(info.name, subject->name, space) == 0 && info.name[space] == ':';
  }
  tenon_ops_release(ops);
  return own ? fmin(options.limit / own, 0.4 * options.limit) : 1;
}

/* Predicts the CPU time of the call with all windows from the time of three windows, which other
 * work on the machine can lengthen: it is measured again while the call would take too long. */
static double predict_seconds(const subject_t *subject, const char *name, bool is_spread,
                              double first) {
  enum { TRIES = 5 };
  static stretch_t again;
  const double allowed = allowed_s(subject);
  double least = first;
  for (int i = 0; i < TRIES && (i == 0 || least / SMALL * WINDOWS > allowed); i++) {
    bool fine = stretch_run(&again, subject, name, SMALL, is_spread);
    if (fine && again.seconds < least) least = again.seconds;
    stretch_free(&again);
  }
  return least / SMALL * WINDOWS;
}

static void check_extent(const subject_t *subject, const char *name, bool is_spread) {
  static stretch_t small[SMALL], huge;
  char text[160];
  for (int k = 0; k < SMALL;
       /* A call that is refused here has nothing to do with size. The process ends, so nothing is
        * freed. */
       k++)
    if (!stretch_run(&small[k], subject, name, k + 1, is_spread) || small[k].status != TENON_OK)
      return;
  double seconds = predict_seconds(subject, name, is_spread, small[SMALL - 1].seconds);
  if (seconds > allowed_s(subject)) {
    note(NULL, "size.huge", "not run with more than 2^31 elements: it would take about %.0f s",
         seconds);
    return;
  }
  snprintf(text, sizeof text, "%s with %" PRId64 " elements%s", subject->name,
           (int64_t)WINDOWS * WINDOW, is_spread ? ", by a stride of 0" : "");
  doing(NULL, "size.huge", text);
  if (!stretch_run(&huge, subject, name, WINDOWS, is_spread)) return;
  if (huge.status == TENON_OK)
    compare_results(small, &huge);
  else
    note(NULL, "size.huge", "the call refuses more than 2^31 elements: %s", tenon_error());
}

/* Limits the process to 3 GiB of data, so that an operator that copies its inputs fails without
 * exhausting the machine. */
static void limit_memory(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_DATA, &limit) != 0) return;
  limit.rlim_cur = (rlim_t)3 << 30;
  if (limit.rlim_max == RLIM_INFINITY || limit.rlim_cur < limit.rlim_max)
    setrlimit(RLIMIT_DATA, &limit);
}

/* Returns how the process ended. A process that takes too long on a busy machine is killed; this is
 * not a finding. */
static int wait_for_child(pid_t id, double seconds) {
  struct timespec a_while = {0, 5000000};
  int status = 0;
  for (double end = seconds_of(CLOCK_MONOTONIC) + seconds; waitpid(id, &status, WNOHANG) == 0;) {
    if (seconds_of(CLOCK_MONOTONIC) < end) {
      nanosleep(&a_while, NULL);
      continue;
    }
    kill(id, SIGKILL);
    waitpid(id, &status, 0);
    note(NULL, "size.huge",
         "not completed with more than 2^31 elements: the call took more than %.0f s", seconds);
    return 0;
  }
  return status;
}

/* Runs the check in a process of its own, whose memory is limited. */
static void check_apart(const subject_t *subject, const char *name) {
  doing(NULL, "size.huge", "");
  pid_t id = fork();
  if (id == 0) {
    board_limit(0);
    limit_memory();
    check_extent(subject, name, is_strided(subject->op));
    _exit(0);
  }
  int status = id < 0 ? 0 : wait_for_child(id, 0.7 * options.limit);
  if (WIFSIGNALED(status)) { /* the child has described the crash on the board */
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  } else if (WEXITSTATUS(status))
    _exit(WEXITSTATUS(status));
}

static void run_huge(const subject_t *subject) {
  static tn_example_t first;
  tn_arena_t arena = {NULL};
  tn_example_options_t plain = {.rank = 1};
  const char *name = NULL; /* one extent is enough, since each costs seconds */
  if (tn_example_plan(subject->op, &plain, &arena, &first) == TENON_OK)
    for (uint32_t i = 0; i < first.name_count && !name; i++)
      if (first.names[i].is_free) name = first.names[i].name;
  if (name) check_apart(subject, name);
  tn_arena_clear(&arena);
}

const check_t checks_huge[] = {{"size.huge",
                                "All of more than 2^31 elements are computed, with memory windows "
                                "that repeat and with strides of 0.",
                                NULL, lacks_huge, run_huge},
                               {NULL, NULL, NULL, NULL, NULL}};
