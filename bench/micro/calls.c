/* calls.c: what a call costs beside a direct C call of the same small kernel. bench/calls.py runs
 * it and prints the table. Cases take turns in short blocks, so that other work on the machine
 * affects all of them alike.
 *
 *   calls time OPS ROUNDS
 *       for each case: name, 1, nanoseconds of one call: median, 10th and 2nd percentile
 *
 *   calls threads OPS ROUNDS
 *       the same on one thread and on two: name, threads, nanoseconds by calls of all threads
 *
 *   calls count CASE CALLS
 *       calls one case inside measured(), to count instructions under valgrind
 *
 *   calls bytes OPS 1
 *       bytes of memory for each operator of one kernel */
#define TENON_STATIC /* the library below is linked into the program */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <time.h>

enum {
  DISTINCT = 64,
  WALK = 1 << 17,
  BLOCK_NS = 60000,
  MOST_ROUNDS = 10000,
  MOST_THREADS = 2,
};

/* kernels */

/* The kernel under test, as a plain function of three tensors and as an operator kernel. There are
 * 64 of each, so that a walk over many operators jumps to many addresses, as with real
 * operators. */
typedef tenon_status_t (*touch_fn)(const tenon_tensor_t *a, const tenon_tensor_t *b,
                                   const tenon_tensor_t *y);

#define KERNEL(id)                                                                                 \
  static tenon_status_t direct_##id(const tenon_tensor_t *a, const tenon_tensor_t *b,              \
                                    const tenon_tensor_t *y) {                                     \
    ((float *)y->data)[0] =                                                                        \
        ((const float *)a->data)[0] + ((const float *)b->data)[0] + (float)0##id;                  \
    return TENON_OK;                                                                               \
  }                                                                                                \
  static tenon_status_t run_##id(tenon_call_t *call) {                                             \
    return direct_##id(call->inputs[0], call->inputs[1], call->outputs[0]);                        \
  }
#define DIRECT(id) direct_##id,
#define RUN(id) run_##id,
#define EIGHT(X, d) X(d##0) X(d##1) X(d##2) X(d##3) X(d##4) X(d##5) X(d##6) X(d##7)
#define EACH(X)                                                                                    \
  EIGHT(X, 0) EIGHT(X, 1) EIGHT(X, 2) EIGHT(X, 3) EIGHT(X, 4) EIGHT(X, 5) EIGHT(X, 6) EIGHT(X, 7)
EACH(KERNEL)
static const touch_fn direct_kernels[DISTINCT] = {EACH(DIRECT)};
static const tenon_run_fn run_kernels[DISTINCT] = {EACH(RUN)};
/* volatile: the compiler cannot see which function is called. */
static touch_fn volatile direct_kernel = direct_00;

static tenon_status_t add_loop(const tenon_loop_t *loop) {
  const float *a = (const float *)loop->data[0];
  const float *b = (const float *)loop->data[1];
  float *y = (float *)loop->data[2];
  for (int64_t i = 0; i < loop->count; i++)
    y[i] = a[i] + b[i];
  return TENON_OK;
}

static tenon_status_t infer_like_first(tenon_infer_t *infer) {
  const tenon_meta_t *a = infer->inputs[0];
  tenon_meta_t *y = infer->outputs[0];
  y->dtype = a->dtype;
  y->ndim = a->ndim;
  memcpy(y->dims, a->dims, (size_t)a->ndim * sizeof *a->dims);
  return TENON_OK;
}

static tenon_status_t state_create(tenon_node_t *node) {
  node->state = malloc(1);
  return node->state ? TENON_OK : tenon_fail(node, TENON_MEMORY, "no memory for a state");
}

static tenon_status_t source_run(tenon_call_t *call) {
  ((float *)call->outputs[0]->data)[0] = 1;
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(kinds, "1.0.0",
  TENON_OP("typed(Tensor a, Tensor b) -> Tensor",
    TENON_TYPES("a, b: f32|f64; out = a"), TENON_SHAPES("a: [n]; b: [n]; out: [n]"),
      TENON_KERNEL("cpu f32", run_00)),
  TENON_OP("inferred(Tensor a, Tensor b) -> Tensor",
    TENON_TYPES("a, b: f32; out = a"), TENON_INFER(infer_like_first), TENON_KERNEL("cpu", run_00)),
  TENON_OP("four(Tensor a, Tensor b) -> Tensor",
    TENON_TYPES("a, b: f32|f64; out = a"), TENON_SHAPES("a, b, out: [n, c, h, w]"),
      TENON_KERNEL("cpu", run_00)),
  TENON_OP("stateful(Tensor a, Tensor b, *, int n=0) -> Tensor",
    TENON_TYPES("a, b: f32; out = a"), TENON_SHAPES("a, b, out: [k]"),
      TENON_STATE(state_create, free),
    TENON_KERNEL("cpu", run_00)),
  TENON_OP("source(*, int n=0, device device='cpu') -> Tensor",
    TENON_TYPES("out = f32"), TENON_SHAPES("out: [1]"), TENON_STATE(state_create, free),
      TENON_KERNEL("cpu", source_run)),
  TENON_OP("loop(Tensor a, Tensor b) -> Tensor",
    TENON_TYPES("a, b: f32; out = a"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_LOOP("f32, f32 -> f32", add_loop)))
/* clang-format on */

/* the data that the cases use */

/* The least work that could call a kernel through an operator table: a load and a jump, with a call
 * that was prepared before. */
typedef struct bare_op_t {
  const tenon_run_fn *slots;
  uint32_t key;
} bare_op_t;
static __attribute__((noinline)) tenon_status_t bare_run(const bare_op_t *op, tenon_call_t *call) {
  return op->slots[op->key](call);
}

/* The same, with a call that is filled in as the contract requires. */
static __attribute__((noinline)) tenon_status_t table_run(const bare_op_t *op,
                                                          const tenon_value_t *attrs,
                                                          tenon_tensor_t *const *inputs,
                                                          tenon_tensor_t *const *outputs) {
  tenon_call_t call = {.size = sizeof call,
                       .phase = TENON_PHASE_RUN,
                       .host = (const tenon_host_t *)(const void *)op,
                       .op = (const tenon_op_t *)(const void *)op,
                       .attrs = attrs,
                       .inputs = inputs,
                       .outputs = outputs};
  return op->slots[op->key](&call);
}

/* The state of one thread. */
typedef struct subject_t {
  bare_op_t bare;
  tenon_call_t bare_call;
  const tenon_op_t *hot;
  const tenon_op_t *typed;
  const tenon_op_t *inferred;
  const tenon_op_t *four;
  const tenon_op_t *loop;
  const tenon_op_t *stateful;
  const tenon_op_t *source;
  const tenon_op_t *const *ops;
  tenon_bound_t *bound;
  tenon_bound_t *stateful_bound;
  tenon_bound_t *source_bound;
  const tenon_value_t *stateful_attrs;
  /* The first of several attribute sets, each with a state. */
  const tenon_value_t *source_attrs;
  tenon_tensor_t *inputs[2];
  tenon_tensor_t *outputs[1];
  tenon_tensor_t *inputs_4[2];  /* tensors of rank 4 */
  tenon_tensor_t *outputs_4[1]; /* a tensor of rank 4 */
  tenon_tensor_t *away[3];      /* tensors without elements, on a device that falls back */
  tenon_layer_t *layer;         /* a layer that only passes calls on */
  const touch_fn *table;        /* as many as there are operators */
  const uint32_t *order;
  uint32_t at;
  tenon_status_t status;
} subject_t;

static int fail(const char *what) {
  fprintf(stderr, "calls: %s: %s\n", what, tenon_error());
  exit(1);
}

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double bytes_each; /* bytes of each operator below */

/* A library of `count` operators bench::o0, bench::o1, ..., each with the least that an operator
 * needs. */
static const tenon_op_t **register_ops(int count) {
  tenon_item_t *items = calloc((size_t)count * 4 + 1, sizeof *items);
  char *schemas = malloc((size_t)count * 48);
  const tenon_op_t **ops = malloc((size_t)count * sizeof *ops);
  tenon_library_t *library = NULL;
  if (!items || !schemas || !ops) fail("out of memory");
  for (int i = 0; i < count; i++) {
    snprintf(schemas + i * 48, 48, "o%d(Tensor a, Tensor b) -> Tensor", i);
    tenon_item_t *item = items + (size_t)i * 4;
    item[0] = (tenon_item_t){TENON_TAG_OP, 0, 0, schemas + i * 48, NULL};
    item[1] = (tenon_item_t){TENON_TAG_TYPES, 0, 0, "a, b: f32; out = a", NULL};
    item[2] = (tenon_item_t){TENON_TAG_SHAPES, 0, 0, "a: [n]; b: [n]; out: [n]", NULL};
    item[3] =
        (tenon_item_t){TENON_TAG_KERNEL, 0, 0, "cpu", (tenon_any_fn)run_kernels[i % DISTINCT]};
  }
  tenon_descriptor_t descriptor = {sizeof descriptor, TENON_ABI, TENON_LAYOUT, TENON_REQUIRED,
                                   "bench",           "1.0.0",   items};
  struct mallinfo2 before = mallinfo2();
  double begin = now_ns();
  if (tenon_library_add(&descriptor, NULL, NULL, &library) != TENON_OK)
    fail("adding the operators");
  printf("register %.1f\n", (now_ns() - begin) / count);
  struct mallinfo2 after = mallinfo2();
  bytes_each = (double)(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd) / count;
  for (int i = 0; i < count; i++)
    ops[i] = tenon_library_op(library, i);
  return ops;
}

static uint32_t *random_order(int count) {
  uint32_t *order = malloc(WALK * sizeof *order);
  uint32_t x = 2463534242u;
  if (!order) fail("out of memory");
  for (int i = 0; i < WALK; i++) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    order[i] = x % (uint32_t)count;
  }
  return order;
}

static const tenon_op_t *find(const char *name) {
  const tenon_op_t *op = NULL;
  if (tenon_op_find(name, &op) != TENON_OK) fail(name);
  return op;
}

static tenon_tensor_t *tensor(int32_t ndim) {
  tenon_tensor_t *made = NULL;
  int64_t shape[4] = {1, 1, 1, 1};
  if (tenon_tensor_create(tenon_dtype(TENON_F32), ndim, shape, &made) != TENON_OK) fail("a tensor");
  ((float *)made->data)[0] = 1;
  return made;
}

static tenon_status_t pass_on(tenon_call_t *call) { return tenon_call_next(call); }

/* A device that only falls back. */
static void prepare_away(subject_t *s) {
  static char nowhere[1];
  static tenon_registration_t *fallback;
  int64_t none = 0;
  tenon_device_t device;
  if (tenon_device_find("away", 0, &device) != TENON_OK) fail("a device");
  if (!fallback &&
      tenon_fallback_add("away", tenon_fallback_cpu, NULL, NULL, 0, &fallback) != TENON_OK)
    fail("a fallback");
  for (int i = 0; i < 3; i++)
    if (tenon_tensor_borrow_on(device, nowhere, tenon_dtype(TENON_F32), 1, &none, NULL, NULL, NULL,
                               &s->away[i]) != TENON_OK)
      fail("a tensor on a device");
}

/* Makes calls with several values of the attribute n, each of which gets a state. Returns the
 * attributes of the first. */
static const tenon_value_t *make_states(subject_t *s, const tenon_op_t *op,
                                        tenon_tensor_t *const *inputs) {
  enum { STATES = 8 };
  const tenon_value_t *first = NULL;
  const tenon_value_t *values;
  for (int64_t n = 1; n <= STATES; n++) {
    tenon_attrs_t *attrs = NULL;
    if (tenon_attrs_create(op, &attrs) != TENON_OK || tenon_attrs_int(attrs, "n", n) != TENON_OK ||
        tenon_attrs_values(attrs, &values) != TENON_OK ||
        tenon_op_call_into(op, values, inputs, s->outputs) != TENON_OK)
      fail("a state");
    if (n == 1)
      first = values; /* the first attributes are kept */
    else
      tenon_attrs_release(attrs);
  }
  return first;
}

/* Threads share nothing but the operators. */
static void prepare(subject_t *s, const tenon_op_t *const *ops, const touch_fn *table,
                    const uint32_t *order) {
  *s = (subject_t){.ops = ops, .table = table, .order = order, .hot = ops[0]};
  s->typed = find("kinds::typed");
  s->inferred = find("kinds::inferred");
  s->loop = find("kinds::loop");
  s->four = find("kinds::four");
  s->inputs[0] = tensor(1);
  s->inputs[1] = tensor(1);
  s->outputs[0] = tensor(1);
  s->inputs_4[0] = tensor(4);
  s->inputs_4[1] = tensor(4);
  s->outputs_4[0] = tensor(4);
  static tenon_layer_t *layer;
  if (!layer && tenon_layer_create("pass", "above autograd", pass_on, NULL, &layer) != TENON_OK)
    fail("a layer");
  s->layer = layer;
  prepare_away(s);
  s->bare = (bare_op_t){run_kernels, 0};
  s->bare_call =
      (tenon_call_t){.size = sizeof s->bare_call, .inputs = s->inputs, .outputs = s->outputs};
  if (tenon_bound_create(s->hot, NULL, &s->bound) != TENON_OK) fail("a bound call");
  s->stateful = find("kinds::stateful");
  s->source = find("kinds::source");
  s->stateful_attrs = make_states(s, s->stateful, s->inputs);
  s->source_attrs = make_states(s, s->source, NULL);
  if (tenon_bound_create(s->stateful, s->stateful_attrs, &s->stateful_bound) != TENON_OK ||
      tenon_bound_create_on((tenon_device_t){1, 0}, s->source, s->source_attrs, &s->source_bound) !=
          TENON_OK)
    fail("a bound call");
}

/* the cases */

#define CASE(name, ...)                                                                            \
  static void case_##name(subject_t *s, int64_t count) {                                           \
    tenon_status_t bad = TENON_OK;                                                                 \
    for (int64_t i = 0; i < count; i++)                                                            \
      __VA_ARGS__                                                                                  \
    s->status |= bad;                                                                              \
  }
CASE(direct, bad |= direct_kernel(s->inputs[0], s->inputs[1], s->outputs[0]);)
CASE(bare, bad |= bare_run(&s->bare, &s->bare_call);)
CASE(table, bad |= table_run(&s->bare, NULL, s->inputs, s->outputs);)
CASE(values, {
  tenon_value_t values[2] = {{TENON_KIND_TENSOR, 0, {.tensor = s->inputs[0]}},
                             {TENON_KIND_TENSOR, 0, {.tensor = s->inputs[1]}}};
  bad |= tenon_op_call_values(s->hot, values, 2, s->outputs, 0);
})
CASE(run, bad |= tenon_op_run(s->hot, NULL, s->inputs, s->outputs);)
CASE(bound, bad |= tenon_bound_run(s->bound, s->inputs, s->outputs);)
CASE(stateful, bad |= tenon_op_run(s->stateful, s->stateful_attrs, s->inputs, s->outputs);)
CASE(stateful_bound, bad |= tenon_bound_run(s->stateful_bound, s->inputs, s->outputs);)
CASE(source, bad |= tenon_op_call_into(s->source, s->source_attrs, NULL, s->outputs);)
CASE(source_bound, bad |= tenon_bound_call_into(s->source_bound, NULL, s->outputs);)
CASE(typed, bad |= tenon_op_run(s->typed, NULL, s->inputs, s->outputs);)
CASE(inferred, bad |= tenon_op_run(s->inferred, NULL, s->inputs, s->outputs);)
CASE(call_into, bad |= tenon_op_call_into(s->hot, NULL, s->inputs, s->outputs);)
CASE(call, {
  tenon_tensor_t *made[1] = {NULL};
  bad |= tenon_op_call(s->hot, NULL, s->inputs, made, 0);
  tenon_tensor_release(made[0]);
})
CASE(call_into_4, bad |= tenon_op_call_into(s->four, NULL, s->inputs_4, s->outputs_4);)
CASE(call_4, {
  tenon_tensor_t *made[1] = {NULL};
  bad |= tenon_op_call(s->four, NULL, s->inputs_4, made, 0);
  tenon_tensor_release(made[0]);
})
CASE(inferred_call_into_4, bad |= tenon_op_call_into(s->inferred, NULL, s->inputs_4, s->outputs_4);)
CASE(loop_call_into_4, bad |= tenon_op_call_into(s->loop, NULL, s->inputs_4, s->outputs_4);)
CASE(loop, bad |= tenon_op_run(s->loop, NULL, s->inputs, s->outputs);)
CASE(loop_call_into, bad |= tenon_op_call_into(s->loop, NULL, s->inputs, s->outputs);)
static void case_layer(subject_t *s, int64_t count) {
  tenon_layer_enable(s->layer, 1);
  case_run(s, count);
  tenon_layer_enable(s->layer, 0);
}
CASE(fallback, bad |= tenon_op_run(s->loop, NULL, s->away, s->away + 2);)
CASE(walk_direct, {
  bad |= s->table[s->order[s->at]](s->inputs[0], s->inputs[1], s->outputs[0]);
  s->at = (s->at + 1) % WALK;
})
CASE(walk, {
  bad |= tenon_op_run(s->ops[s->order[s->at]], NULL, s->inputs, s->outputs);
  s->at = (s->at + 1) % WALK;
})

typedef struct case_t {
  const char *name;
  void (*run)(subject_t *s, int64_t count);
} case_t;
static const case_t cases[] = {{"direct", case_direct},
                               {"run", case_run},
                               {"walk_direct", case_walk_direct},
                               {"walk", case_walk},
                               {"bare", case_bare},
                               {"table", case_table},
                               {"values", case_values},
                               {"bound", case_bound},
                               {"stateful", case_stateful},
                               {"stateful_bound", case_stateful_bound},
                               {"source", case_source},
                               {"source_bound", case_source_bound},
                               {"typed", case_typed},
                               {"inferred", case_inferred},
                               {"layer", case_layer},
                               {"fallback", case_fallback},
                               {"loop", case_loop},
                               {"loop_call_into", case_loop_call_into},
                               {"call_into", case_call_into},
                               {"call", case_call},
                               {"call_into_4", case_call_into_4},
                               {"call_4", case_call_4},
                               {"loop_call_into_4", case_loop_call_into_4},
                               {"inferred_call_into_4", case_inferred_call_into_4}};
enum {
  CASES = sizeof cases / sizeof *cases,
  SHARED_CASES = 4, /* the first cases, which are timed on several threads too */
};

/* measuring */

static int compare(const void *a, const void *b) {
  double x = *(const double *)a;
  double y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void print(const char *name, int threads, double *times, int rounds) {
  qsort(times, (size_t)rounds, sizeof *times, compare);
  printf("%s %d %.3f %.3f %.3f\n", name, threads, times[rounds / 2], times[rounds / 10],
         times[rounds / 50]);
}

/* Finds how many calls take about as long as a block. The quickest of three tries counts, because
 * the system interrupts some. */
static int64_t block_of(const case_t *c, subject_t *s) {
  for (int64_t count = 16;; count *= 2) {
    double least = 1e18;
    for (int attempt = 0; attempt < 3; attempt++) {
      double begin = now_ns();
      c->run(s, count);
      double took = now_ns() - begin;
      if (took < least) least = took;
    }
    if (least > BLOCK_NS / 4) return (int64_t)((double)count * BLOCK_NS / least) + 1;
  }
}

static double (*make_times(int count))[MOST_ROUNDS] {
  double(*times)[MOST_ROUNDS] = calloc((size_t)count, sizeof *times);
  if (!times) fail("out of memory");
  return times;
}

static void time_cases(subject_t *s, int rounds) {
  double(*times)[MOST_ROUNDS] = make_times(CASES);
  int64_t blocks[CASES];
  for (int c = 0; c < CASES; c++)
    blocks[c] = block_of(&cases[c], s);
  for (int round = 0; round < rounds; round++)
    for (int c = 0; c < CASES; c++) {
      double begin = now_ns();
      cases[c].run(s, blocks[c]);
      times[c][round] = (now_ns() - begin) / (double)blocks[c];
    }
  for (int c = 0; c < CASES; c++)
    print(cases[c].name, 1, times[c], rounds);
  free(times);
}

/* Threads spin until all have arrived before each block. A block lasts from the first start to the
 * last end. */
typedef struct race_t {
  subject_t *subjects;
  int threads;
  int rounds;
  int64_t blocks[SHARED_CASES];
  atomic_int arrived;
  double (*begins)[MOST_THREADS], (*ends)[MOST_THREADS]; /* by round and case */
} race_t;

typedef struct racer_t {
  race_t *race;
  int index;
} racer_t;

static void *race(void *pointer) {
  racer_t *me = pointer;
  race_t *r = me->race;
  int goal = 0;
  /* This creates what Tenon keeps for each thread. */
  tenon_threads_set(1);
  for (int round = 0; round < r->rounds; round++)
    for (int c = 0; c < SHARED_CASES; c++) {
      goal += r->threads;
      atomic_fetch_add(&r->arrived, 1);
      while (atomic_load(&r->arrived) < goal) {
      }
      double begin = now_ns();
      cases[c].run(&r->subjects[me->index], r->blocks[c]);
      r->ends[round * SHARED_CASES + c][me->index] = now_ns();
      r->begins[round * SHARED_CASES + c][me->index] = begin;
    }
  return NULL;
}

static void run_race(race_t *r) {
  pthread_t threads[MOST_THREADS];
  racer_t racers[MOST_THREADS];
  atomic_store(&r->arrived, 0);
  for (int t = 0; t < r->threads; t++) {
    racers[t] = (racer_t){r, t};
    if (pthread_create(&threads[t], NULL, race, &racers[t]) != 0) fail("a thread");
  }
  for (int t = 0; t < r->threads; t++)
    pthread_join(threads[t], NULL);
}

/* Nanoseconds for one call, over all threads: with perfect scaling, two threads need half the time
 * of one. */
static void time_threads(subject_t *subjects, int rounds) {
  enum { TURN = 10 }; /* rounds before the other number of threads takes its turn */
  double(*times)[MOST_ROUNDS] = make_times(SHARED_CASES * MOST_THREADS);
  race_t r = {.subjects = subjects, .rounds = TURN};
  r.begins = calloc(TURN * SHARED_CASES, sizeof *r.begins);
  r.ends = calloc(TURN * SHARED_CASES, sizeof *r.ends);
  if (!r.begins || !r.ends) fail("out of memory");
  for (int c = 0; c < SHARED_CASES; c++)
    r.blocks[c] = block_of(&cases[c], subjects);
  for (int done = 0; done + TURN <= rounds; done += TURN)
    for (r.threads = 1; r.threads <= MOST_THREADS; r.threads++) {
      run_race(&r);
      for (int i = 0; i < TURN * SHARED_CASES; i++) {
        double begin = r.begins[i][0];
        double end = r.ends[i][0];
        for (int t = 1; t < r.threads; t++) {
          if (r.begins[i][t] < begin) begin = r.begins[i][t];
          if (r.ends[i][t] > end) end = r.ends[i][t];
        }
        int c = i % SHARED_CASES;
        times[c * MOST_THREADS + r.threads - 1][done + i / SHARED_CASES] =
            (end - begin) / (double)(r.blocks[c] * r.threads);
      }
    }
  for (int c = 0; c < SHARED_CASES; c++)
    for (int t = 0; t < MOST_THREADS; t++)
      print(cases[c].name, t + 1, times[c * MOST_THREADS + t], rounds / TURN * TURN);
  free(times);
  free(r.begins);
  free(r.ends);
}

/* Instruction counting is switched on for this function, so it must not end in a tail call of the
 * case. */
__attribute__((noinline)) static void measured(const case_t *c, subject_t *s, int64_t count) {
  c->run(s, count);
  s->at = 0;
}

int main(int argc, char **argv) {
  bool bytes = argc == 4 && strcmp(argv[1], "bytes") == 0;
  bool counts = argc == 4 && strcmp(argv[1], "count") == 0;
  bool threads = argc == 4 && strcmp(argv[1], "threads") == 0;
  if (argc != 4 || (!counts && !threads && !bytes && strcmp(argv[1], "time") != 0)) {
    fprintf(stderr, "usage: calls time|threads|bytes OPS ROUNDS, calls count CASE CALLS\n");
    return 2;
  }
  int ops_count = counts ? 10 : atoi(argv[2]);
  int rounds = atoi(argv[3]);
  if (ops_count < 1 || rounds < 1 || (!counts && rounds > MOST_ROUNDS)) {
    fprintf(stderr, "calls: bad number\n");
    return 2;
  }
  static subject_t subjects[MOST_THREADS] __attribute__((aligned(256)));
  if (tenon_start() != TENON_OK ||
      tenon_library_add(tenon_library_kinds(), NULL, NULL, NULL) != TENON_OK)
    fail("starting");
  tenon_threads_set(1);
  const tenon_op_t **ops = register_ops(ops_count);
  if (bytes) {
    printf("bytes %.0f\n", bytes_each);
    return 0;
  }
  const uint32_t *order = random_order(ops_count);
  touch_fn *table = malloc((size_t)ops_count * sizeof *table);
  if (!table) fail("out of memory");
  for (int i = 0; i < ops_count; i++)
    table[i] = direct_kernels[i % DISTINCT];
  for (int t = 0; t < MOST_THREADS; t++)
    prepare(&subjects[t], ops, table, order);
  if (counts) {
    const case_t *c = NULL;
    for (int i = 0; i < CASES; i++)
      if (strcmp(cases[i].name, argv[2]) == 0) c = &cases[i];
    if (!c) {
      fprintf(stderr, "calls: no case %s\n", argv[2]);
      return 2;
    }
    c->run(subjects, 100);
    measured(c, subjects, rounds);
  } else if (threads) {
    time_threads(subjects, rounds);
  } else {
    time_cases(subjects, rounds);
  }
  for (int t = 0; t < MOST_THREADS; t++)
    if (subjects[t].status != TENON_OK) fail("a call");
  return 0;
}
