/* Layers and modes of users: their order, and what they see, change, answer and refuse, in the
 * calling thread and in its worker threads; and the trace, line by line. */
#include <stdlib.h>
#include <unistd.h>

#include "base/parallel.h"
#include "base/thread.h"
#include "check.h"
#include "tensors.h"

#include "capture.h"
#include "operators.h"
#include "probes.h"

static double id[16];
__attribute__((constructor)) static void number(void) {
  for (int i = 0; i < 16; i++)
    id[i] = i;
}

/* operators */

static tenon_status_t factor(tenon_call_t *call) {
  *(double *)call->outputs[0]->data =
      *(double *)call->inputs[0]->data * (double)call->attrs[0].as.i;
  return TENON_OK;
}

static tenon_status_t nest(tenon_call_t *call) {
  tenon_tensor_t *outputs[1] = {NULL};
  TENON_TRY(call->host->invoke(call, call->uses[0], NULL, call->inputs, outputs));
  *(double *)call->outputs[0]->data = *(double *)outputs[0]->data + 1;
  return TENON_OK;
}

static tenon_status_t fails(tenon_call_t *call) {
  return tenon_fail(call, TENON_RANGE, "out of paper");
}

static tenon_status_t parts_of_it(void *argument, int64_t begin,
                                  int64_t end); /* for the tests of threads */

/* clang-format off */
static const tenon_item_t layered_items[] = {
  TENON_OP("times(Tensor x, *, int factor=3) -> Tensor",
    TENON_TYPES("x: f64; out = x"), TENON_TRAITS(TENON_POINTWISE), TENON_KERNEL("cpu", factor)),
  TENON_OP("nested(Tensor x) -> Tensor",
    TENON_TYPES("x: f64; out = x"), TENON_TRAITS(TENON_POINTWISE), TENON_USES("layered::times"),
    TENON_COMPOSITE(nest)),
  TENON_OP("broken(Tensor x) -> Tensor",
    TENON_TYPES("x: f64; out = x"), TENON_TRAITS(TENON_POINTWISE), TENON_KERNEL("cpu", fails)),
  {TENON_TAG_END, 0, 0, 0, 0}};
/* clang-format on */
static const tenon_descriptor_t layered = {
    sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "layered", "1.0.0", layered_items};

static void start(void) {
  const tenon_op_t *op = NULL;
  if (tenon_op_find("layered::times", &op) != TENON_OK)
    CHECK_STATUS(tenon_library_add(&layered, NULL, NULL, NULL), TENON_OK);
}

static tenon_status_t try_call(const char *name, double value, double *out) {
  tenon_tensor_t *x = probe_tensor("cpu", &value);
  tenon_tensor_t *y = probe_tensor("cpu", out);
  tenon_status_t status = tenon_op_run(op_of(name), NULL, &x, &y);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  return status;
}

static double call(const char *name, double value) {
  double out = PROBE_NOTHING;
  CHECK_STATUS(try_call(name, value, &out), TENON_OK);
  return out;
}

/* layers that log their calls */

static char seen[4096];
static void note(const char *name) {
  size_t used = strlen(seen);
  snprintf(seen + used, sizeof seen - used, "%s%s", used ? " " : "", name);
}
static void check_seen(const char *expected, const char *file, int line) {
  check_report(strcmp(seen, expected) == 0, file, line, expected, seen);
  seen[0] = 0;
}
#define CHECK_SEEN(expected) check_seen((expected), __FILE__, __LINE__)

static tenon_status_t noting(tenon_call_t *c) {
  note(c->context);
  return tenon_call_next(c);
}

static tenon_status_t around(tenon_call_t *c) {
  char end[64];
  note(c->context);
  tenon_status_t status = tenon_call_next(c);
  /* The context is that of this layer again. */
  snprintf(end, sizeof end, "/%s", (const char *)c->context);
  note(end);
  return status;
}

static tenon_layer_t *layer_of(const char *name, const char *anchor, tenon_run_fn run,
                               const void *context) {
  tenon_layer_t *layer = NULL;
  CHECK_STATUS(tenon_layer_create(name, anchor, run, (void *)(uintptr_t)context, &layer), TENON_OK);
  if (layer) tenon_layer_enable(layer, 1);
  return layer;
}

static void drop(tenon_layer_t *layer) {
  tenon_layer_enable(layer, 0);
  tenon_layer_release(layer);
}

static void drop_all(tenon_layer_t *const *layers, int count) {
  for (int i = 0; i < count; i++)
    drop(layers[i]);
}

/* Returns the k-th order of n things. */
static void permute(int k, int n, int *out) {
  int left[8];
  int count = n;
  for (int i = 0; i < n; i++)
    left[i] = i;
  for (int i = 0; i < n; i++) {
    int at = k % count;
    k /= count;
    out[i] = left[at];
    memmove(&left[at], &left[at + 1], (size_t)(--count - at) * sizeof *left);
  }
}

/* order */

TEST("layers with one anchor run in the order of their names, in whatever order they were created "
     "and enabled") {
  static const char *const names[] = {"apple", "bread", "cheese"};
  static const char *const anchors[] = {"below view", "below autograd", "above autograd",
                                        "above autocast", "above functional"};
  start();
  for (int a = 0; a < 5; a++)
    for (int made = 0; made < 6; made++)
      for (int on = 0; on < 6; on++) {
        tenon_layer_t *layers[3] = {NULL};
        int order[3];
        permute(made, 3, order);
        for (int i = 0; i < 3; i++)
          CHECK_STATUS(tenon_layer_create(names[order[i]], anchors[a], around,
                                          (void *)(uintptr_t)names[order[i]], &layers[order[i]]),
                       TENON_OK);
        permute(on, 3, order);
        for (int i = 0; i < 3; i++)
          tenon_layer_enable(layers[order[i]], 1);
        CHECK(call("layered::times", 2) == 6);
        CHECK_SEEN("apple bread cheese /cheese /bread /apple");
        tenon_layer_enable(layers[order[0]], 0);
        CHECK(call("layered::times", 2) == 6);
        CHECK_SEEN(order[0] == 0   ? "bread cheese /cheese /bread"
                   : order[0] == 1 ? "apple cheese /cheese /apple"
                                   : "apple bread /bread /apple");
        permute(made, 3, order);
        for (int i = 0; i < 3; i++)
          drop(layers[order[i]]);
      }
  CHECK(call("layered::times", 2) == 6);
  CHECK_SEEN("");
}

TEST("layers run where their anchors say, in whatever order they were created") {
  static const char *const anchors[] = {"above functional", "above autocast", "above autograd",
                                        "below autograd", "below view"};
  /* The order is the reverse of the alphabetical one. */
  static const char *const names[] = {"z", "y", "x", "w", "v"};
  start();
  for (int made = 0; made < 120; made++) {
    tenon_layer_t *layers[5] = {NULL};
    int order[5];
    permute(made, 5, order);
    for (int i = 0; i < 5; i++)
      layers[order[i]] = layer_of(names[order[i]], anchors[order[i]], noting, names[order[i]]);
    CHECK(call("layered::times", 2) == 6);
    CHECK_SEEN("z y x w v");
    drop_all(layers, 5);
  }
}

TEST("layers run around the host's own: a call that the host's layer answers does not reach the "
     "layers below") {
  start();
  probe_start();
  tenon_layer_t *layers[] = {layer_of("a", "above autograd", noting, "above"),
                             layer_of("b", "below autograd", noting, "below"),
                             layer_of("c", "below view", noting, "bottom")};
  tenon_registration_t *cpu = probe_add("probe::plain", "cpu", &id[1], 0);
  tenon_registration_t *gradient = probe_add("probe::plain", "autograd", &id[2], 0);
  CHECK_ANSWER("probe::plain", "cpu", 1);
  CHECK_SEEN("above below bottom");
  tenon_key_include("autograd", 1);
  CHECK_ANSWER("probe::plain", "cpu", 2);
  CHECK_SEEN("above");
  tenon_key_include("autograd", 0);
  tenon_registration_t *view = probe_fallback("view", &id[3], 0);
  tenon_key_include("view", 1);
  CHECK_ANSWER("probe::plain", "cpu", 3);
  CHECK_SEEN("above below");
  tenon_key_include("view", 0);
  tenon_registration_release(cpu);
  tenon_registration_release(gradient);
  tenon_registration_release(view);
  drop_all(layers, 3);
}

TEST("a layer sees the calls that kernels make, also those of a composite") {
  start();
  tenon_layer_t *layer = layer_of("a", "above autograd", around, "a");
  CHECK(call("layered::nested", 2) == 7);
  CHECK_SEEN("a a /a /a");
  drop(layer);
}

static tenon_status_t names(tenon_call_t *c) {
  note(tenon_call_name(c));
  return tenon_call_next(c);
}

TEST("a layer knows which operator is called") {
  start();
  tenon_layer_t *layer = layer_of("a", "below view", names, NULL);
  CHECK(call("layered::nested", 2) == 7);
  CHECK_SEEN("layered::nested layered::times");
  drop(layer);
}

/* what layers do */

static tenon_status_t answers(tenon_call_t *c) {
  *(double *)c->outputs[0]->data = 42;
  return TENON_OK;
}

static tenon_status_t refuses(tenon_call_t *c) {
  return tenon_fail(c, TENON_DENIED, "not on a Sunday");
}

static tenon_status_t
/* f(f(x)): passes the call on a second time with the result of the first. */
twice(tenon_call_t *c) {
  tenon_tensor_t *const *before = c->inputs;
  TENON_TRY(tenon_call_next(c));
  c->inputs = c->outputs;
  tenon_status_t status = tenon_call_next(c);
  c->inputs = before;
  return status;
}

static tenon_status_t other_factor(tenon_call_t *c) {
  const tenon_value_t *before = c->attrs;
  const tenon_value_t own = {TENON_KIND_INT, 0, {.i = *(int64_t *)c->context}};
  c->attrs = &own;
  tenon_status_t status = tenon_call_next(c);
  c->attrs = before;
  return status;
}

static tenon_status_t
/* Redirects the result to another tensor; the caller gets its negative. */
other_output(tenon_call_t *c) {
  tenon_tensor_t *const *before = c->outputs;
  tenon_tensor_t *mine = probe_tensor("cpu", c->context);
  c->outputs = &mine;
  tenon_status_t status = tenon_call_next(c);
  c->outputs = before;
  *(double *)c->outputs[0]->data = -*(double *)c->context;
  tenon_tensor_release(mine);
  return status;
}

TEST(
    "a layer can answer, refuse, pass a call on twice, and change inputs, attributes and results") {
  start();
  int64_t five = 5;
  int64_t seven = 7;
  double elsewhere = 0;
  double out = PROBE_NOTHING;
  tenon_layer_t *below = layer_of("z", "below view", noting, "below");
  tenon_layer_t *layer;
  layer = layer_of("a", "above autograd", answers, NULL);
  CHECK(call("layered::times", 2) == 42);
  CHECK_SEEN("");
  drop(layer);
  layer = layer_of("a", "above autograd", refuses, NULL);
  CHECK_STATUS(try_call("layered::times", 2, &out), TENON_DENIED);
  CHECK_TEXT(tenon_error(), "not on a Sunday");
  CHECK(out == PROBE_NOTHING);
  CHECK_SEEN("");
  drop(layer);
  layer = layer_of("a", "above autograd", twice, NULL);
  CHECK(call("layered::times", 2) == 18);
  CHECK_SEEN("below below");
  /* It belongs to the same chain. */
  tenon_layer_t *inner = layer_of("b", "above autograd", twice, NULL);
  CHECK(call("layered::times", 2) == 162);
  CHECK_SEEN("below below below below");
  drop(inner);
  drop(layer);
  layer = layer_of("a", "below autograd", other_factor, &five);
  CHECK(call("layered::times", 2) == 10);
  CHECK(call("layered::nested", 2) == 11);
  inner = layer_of("b", "below autograd", other_factor, &seven);
  CHECK(call("layered::times", 2) == 14);
  drop(inner);
  CHECK(call("layered::times", 2) == 10);
  drop(layer);
  seen[0] = 0;
  layer = layer_of("a", "above functional", other_output, &elsewhere);
  CHECK(call("layered::times", 2) == -6 && elsewhere == 6);
  drop(layer);
  drop(below);
  CHECK(call("layered::times", 2) == 6);
  seen[0] = 0;
}

TEST("a layer gets a failure from below, and can recover from it") {
  start();
  double out = PROBE_NOTHING;
  tenon_layer_t *layer = layer_of("a", "above autograd", around, "a");
  CHECK_STATUS(try_call("layered::broken", 2, &out), TENON_RANGE);
  CHECK_TEXT(tenon_error(), "out of paper");
  CHECK_SEEN("a /a");
  CHECK_STATUS(try_call("probe::plain", 2, &out), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "no kernel for cpu");
  drop(layer);
  seen[0] = 0;
  CHECK(call("layered::times", 2) == 6);
}

static tenon_status_t
/* Creates a layer that precedes it, in the middle of a call. */
makes_another(tenon_call_t *c) {
  tenon_layer_t **made = c->context;
  note("b");
  if (!*made) CHECK_STATUS(tenon_layer_create("a", "above autograd", noting, "a", made), TENON_OK);
  return tenon_call_next(c);
}

TEST("creating or releasing a layer while a call is in another layer of its anchor makes no layer "
     "run twice or never") {
  start();
  tenon_layer_t *made = NULL;
  tenon_layer_t *b = layer_of("b", "above autograd", makes_another, &made);
  tenon_layer_t *c = layer_of("c", "above autograd", noting, "c");
  CHECK(call("layered::times", 2) == 6);
  CHECK_SEEN("b c");
  CHECK(call("layered::times", 2) == 6);
  CHECK_SEEN("b c");
  tenon_layer_enable(made, 1);
  CHECK(call("layered::times", 2) == 6);
  CHECK_SEEN("a b c");
  drop(made);
  drop(b);
  drop(c);
}

static int64_t entered;

static tenon_status_t
/* Calls the operator again instead of passing the call on. */
recurses(tenon_call_t *c) {
  entered++;
  return tenon_op_run(c->op, c->attrs, c->inputs, c->outputs);
}

static tenon_status_t invokes_itself(tenon_call_t *c) {
  tenon_tensor_t *outputs[1] = {NULL};
  entered++;
  return c->host->invoke(c, c->op, c->attrs, c->inputs, outputs);
}

static tenon_status_t pushes_itself(tenon_call_t *c) {
  CHECK_STATUS(tenon_mode_push(pushes_itself, NULL), TENON_OK);
  entered++;
  tenon_status_t status = tenon_op_run(c->op, c->attrs, c->inputs, c->outputs);
  tenon_mode_pop();
  return status;
}

TEST("a layer, a mode or a composite that calls itself endlessly is stopped, and the next call "
     "works") {
  start();
  probe_start();
  double out = PROBE_NOTHING;
  tenon_layer_t *layer = layer_of("a", "above autograd", recurses, NULL);
  entered = 0;
  CHECK_STATUS(try_call("layered::times", 2, &out), TENON_RANGE);
  CHECK_TEXT(tenon_error(), "layered::times: calls are nested more than 200 deep");
  CHECK(entered == 200 && out == PROBE_NOTHING);
  drop(layer);
  CHECK_STATUS(tenon_mode_push(pushes_itself, NULL), TENON_OK);
  entered = 0;
  CHECK_STATUS(try_call("layered::times", 2, &out), TENON_RANGE);
  CHECK(entered == 200);
  tenon_mode_pop();
  tenon_registration_t *r = NULL;
  CHECK_STATUS(tenon_kernel_add("probe::plain", "composite", invokes_itself, NULL, NULL, 0, &r),
               TENON_OK);
  entered = 0;
  CHECK_STATUS(try_call("probe::plain", 2, &out), TENON_RANGE);
  CHECK_TEXT(tenon_error(), "calls are nested more than 200 deep");
  CHECK(entered == 201);
  tenon_registration_release(r);
  CHECK(call("layered::nested", 2) == 7);
}

TEST("layers with bad names, anchors or functions are refused, and sixty-four layers are allowed") {
  tenon_layer_t *layers[64] = {NULL};
  tenon_layer_t *more = NULL;
  char name[16];
  start();
  CHECK_STATUS(tenon_layer_create("a", "above all", noting, "a", &more), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "anchor 'above all': expected 'below view', 'below autograd'");
  CHECK_STATUS(tenon_layer_create("a", "autograd", noting, "a", &more), TENON_INVALID);
  CHECK_STATUS(tenon_layer_create("", "below view", noting, "a", &more), TENON_INVALID);
  CHECK_STATUS(tenon_layer_create(NULL, "below view", noting, "a", &more), TENON_INVALID);
  CHECK_STATUS(tenon_layer_create("a", "below view", NULL, "a", &more), TENON_INVALID);
  CHECK_STATUS(tenon_layer_create("a", "below view", noting, "a", NULL), TENON_INVALID);
  for (int i = 0; i < 64; i++) {
    snprintf(name, sizeof name, "n%02d", i);
    layers[i] = layer_of(name, i & 1 ? "below view" : "above functional", noting, "n");
  }
  CHECK_STATUS(tenon_layer_create("n07", "above autograd", noting, "a", &more), TENON_EXISTS);
  CHECK_TEXT(tenon_error(), "a layer 'n07' is there already, below view");
  CHECK_STATUS(tenon_layer_create("one_more", "above autograd", noting, "a", &more), TENON_RANGE);
  CHECK(more == NULL && call("layered::times", 2) == 6);
  CHECK(strlen(seen) == 64 * 2 - 1);
  seen[0] = 0;
  drop(layers[7]);
  layers[7] = layer_of("n07", "above autograd", noting, "seven");
  CHECK(tenon_layer_is_enabled(layers[7]) && tenon_layer_is_enabled(layers[63]));
  drop_all(layers, 64);
  CHECK(call("layered::times", 2) == 6);
  CHECK_SEEN("");
  tenon_layer_release(NULL);
}

/* modes */

static tenon_status_t
/* Only lower modes see the calls that it makes. */
calls_itself(tenon_call_t *c) {
  note(c->context);
  note("(");
  CHECK(call("layered::times", 1) == 3);
  note(")");
  return tenon_call_next(c);
}

TEST("modes see each call, the last one pushed first, and calls by a mode are seen only by the "
     "modes below") {
  start();
  tenon_layer_t *layer = layer_of("l", "above functional", noting, "layer");
  CHECK_STATUS(tenon_mode_push(noting, "one"), TENON_OK);
  CHECK_STATUS(tenon_mode_push(around, "two"), TENON_OK);
  CHECK(call("layered::times", 2) == 6);
  CHECK_SEEN("two one layer /two");
  CHECK_STATUS(tenon_mode_push(calls_itself, "three"), TENON_OK);
  CHECK(call("layered::times", 2) == 6);
  CHECK_SEEN("three ( two one layer /two ) two one layer /two");
  /* The stack of modes is complete again. */
  CHECK(call("layered::times", 2) == 6);
  CHECK_SEEN("three ( two one layer /two ) two one layer /two");
  tenon_mode_pop();
  CHECK(call("layered::times", 2) == 6);
  CHECK_SEEN("two one layer /two");
  tenon_mode_pop();
  CHECK(call("layered::times", 2) == 6);
  CHECK_SEEN("one layer");
  tenon_mode_pop();
  CHECK(call("layered::times", 2) == 6);
  CHECK_SEEN("layer");
  tenon_mode_pop(); /* There is no mode. */
  drop(layer);
  CHECK_STATUS(tenon_mode_push(NULL, NULL), TENON_INVALID);
}

TEST("the only mode does not see its own calls; a mode answers or refuses, and the next call is "
     "not affected") {
  start();
  double out = PROBE_NOTHING;
  CHECK_STATUS(tenon_mode_push(calls_itself, "alone"), TENON_OK);
  CHECK(call("layered::times", 2) == 6);
  CHECK_SEEN("alone ( )");
  tenon_mode_pop();
  CHECK_STATUS(tenon_mode_push(noting, "under"), TENON_OK);
  CHECK_STATUS(tenon_mode_push(answers, NULL), TENON_OK);
  CHECK(call("layered::times", 2) == 42);
  CHECK_SEEN("");
  tenon_mode_pop();
  CHECK_STATUS(tenon_mode_push(refuses, NULL), TENON_OK);
  CHECK_STATUS(try_call("layered::times", 2, &out), TENON_DENIED);
  CHECK_SEEN("");
  tenon_mode_pop();
  CHECK_STATUS(tenon_mode_push(twice, NULL), TENON_OK);
  CHECK(call("layered::times", 2) == 18);
  CHECK_SEEN("under under");
  CHECK_STATUS(try_call("layered::broken", 2, &out), TENON_RANGE);
  CHECK_SEEN("under");
  tenon_mode_pop();
  tenon_mode_pop();
  CHECK(call("layered::times", 2) == 6);
  CHECK_SEEN("");
}

/* Pushes a mode while it makes its own calls. */
static tenon_status_t pushes(tenon_call_t *c) {
  note("p");
  CHECK_STATUS(tenon_mode_push(noting, "inner"), TENON_OK);
  CHECK(call("layered::times", 1) == 3);
  tenon_mode_pop();
  return tenon_call_next(c);
}

TEST("a mode may push another mode for calls of its own") {
  start();
  CHECK_STATUS(tenon_mode_push(noting, "one"), TENON_OK);
  CHECK_STATUS(tenon_mode_push(pushes, NULL), TENON_OK);
  CHECK(call("layered::times", 2) == 6);
  CHECK_SEEN("p inner one one");
  tenon_mode_pop();
  tenon_mode_pop();
}

/* threads */

static tenon_status_t counting(tenon_call_t *c) {
  __atomic_fetch_add((int64_t *)c->context, 1, __ATOMIC_RELAXED);
  return tenon_call_next(c);
}

/* Another thread has none of this thread's layers and modes. */
static void without(void *pointer) {
  (void)pointer;
  for (int i = 0; i < 100; i++)
    CHECK(call("layered::times", i) == 3 * i);
}

static tenon_status_t parts_of_it(void *argument, int64_t begin, int64_t end) {
  int64_t *threads = argument;
  __atomic_fetch_add(threads, 1, __ATOMIC_RELAXED);
  for (int64_t i = begin; i < end; i++)
    CHECK(call("layered::times", (double)i) == 3 * (double)i);
  return TENON_OK;
}

TEST("layers and modes apply to the thread that enabled them, and to worker threads of its loops") {
  int64_t by_layer = 0;
  int64_t by_mode = 0;
  int64_t by_lower = 0;
  int64_t parts = 0;
  tn_spawned_t thread;
  start();
  tenon_layer_t *layer = layer_of("l", "above autograd", counting, &by_layer);
  CHECK_STATUS(tenon_mode_push(counting, &by_lower), TENON_OK);
  CHECK_STATUS(tenon_mode_push(counting, &by_mode), TENON_OK);
  CHECK(tn_spawn(&thread, without, NULL));
  tn_join(&thread);
  CHECK(by_layer == 0 && by_mode == 0 && by_lower == 0);
  tenon_threads_set(4);
  for (int round = 1; round <= 20; round++) {
    CHECK_STATUS(tn_parallel(64, 1, parts_of_it, &parts), TENON_OK);
    CHECK(by_layer == 64 * round && by_mode == 64 * round && by_lower == 64 * round);
  }
  CHECK(parts == 20 * 16); /* four parts for each thread */
  tenon_mode_pop();
  tenon_mode_pop();
  drop(layer);
  CHECK_STATUS(tn_parallel(64, 1, parts_of_it, &parts), TENON_OK);
  CHECK(by_layer == 64 * 20 && by_mode == 64 * 20);
  tenon_threads_set(0);
}

static tenon_status_t
/* A mode whose own calls come from several threads. */
in_parts(tenon_call_t *c) {
  CHECK_STATUS(tn_parallel(16, 1, parts_of_it, c->context), TENON_OK);
  return tenon_call_next(c);
}

TEST("calls that a mode makes on several threads are seen by lower modes only") {
  int64_t by_lower = 0;
  int64_t parts = 0;
  start();
  tenon_threads_set(4);
  CHECK_STATUS(tenon_mode_push(counting, &by_lower), TENON_OK);
  CHECK_STATUS(tenon_mode_push(in_parts, &parts), TENON_OK);
  CHECK(call("layered::times", 2) == 6);
  CHECK(by_lower == 17 && parts == 16);
  tenon_mode_pop();
  tenon_mode_pop();
  tenon_threads_set(0);
}

/* Each thread has a layer of its own, while other layers come and go. */
static void call_much(void *pointer) {
  int64_t mine = 0;
  tenon_layer_t *layer = layer_of(pointer, "above autograd", counting, &mine);
  for (int i = 0; i < 2000; i++)
    CHECK(call("layered::times", i) == 3 * i);
  CHECK(mine == 2000);
  drop(layer);
}

TEST("layers are created and released while other threads call") {
  static const char *const names_of[] = {"m", "d", "x"};
  tn_spawned_t threads[3];
  start();
  for (int i = 0; i < 3; i++)
    CHECK(tn_spawn(&threads[i], call_much, (void *)(uintptr_t)names_of[i]));
  for (int i = 0; i < 300; i++) {
    tenon_layer_t *a = NULL;
    tenon_layer_t *n = NULL;
    CHECK_STATUS(tenon_layer_create("a", "above autograd", noting, "a", &a), TENON_OK);
    CHECK_STATUS(tenon_layer_create("n", "above autograd", noting, "n", &n), TENON_OK);
    tenon_layer_release(a);
    tenon_layer_release(n);
  }
  for (int i = 0; i < 3; i++)
    tn_join(&threads[i]);
  CHECK_SEEN("");
}

/* the trace */

TEST("nothing is printed while the trace is off") {
  start();
  CHECK_STATUS(tenon_trace_set("dispatch"), TENON_OK);
  CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
  capture();
  CHECK(call("layered::nested", 2) == 7);
  CHECK_STATUS(tenon_trace_set(""), TENON_OK);
  CHECK(call("layered::nested", 2) == 7);
  CHECK(strcmp(release_capture(), "") == 0);
}

TEST("the trace shows nested calls with their keys, the kernel, its library and the resolution") {
  start();
  capture();
  CHECK_STATUS(tenon_trace_set("dispatch"), TENON_OK);
  CHECK(call("layered::nested", 2) == 7);
  CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
  CHECK_LINES(release_capture(), "call layered::nested {cpu} -> composite [layered, composite]",
              "  call layered::times {cpu} -> cpu [layered, kernel]");
}

TEST("the trace shows each step on the way down: modes, layers by name, and the next key") {
  start();
  tenon_layer_t *layer = layer_of("counter", "above autograd", counting, &(int64_t){0});
  CHECK_STATUS(tenon_mode_push(counting, &(int64_t){0}), TENON_OK);
  capture();
  CHECK_STATUS(tenon_trace_set("dispatch"), TENON_OK);
  CHECK(call("layered::times", 2) == 6);
  CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
  CHECK_LINES(release_capture(), "call layered::times {cpu, above autograd, mode} -> layer",
              "  mode layered::times {cpu, above autograd, mode}",
              "    next layered::times {cpu, above autograd} -> layer",
              "      layer layered::times {cpu, above autograd} -> counter",
              "        next layered::times {cpu} -> cpu [layered, kernel]");
  tenon_mode_pop();
  drop(layer);
}

TEST("the trace shows fallbacks, fallthroughs and backends") {
  start();
  probe_start();
  tenon_registration_t *fallback = probe_fallback("npu", &id[1], 0);
  tenon_registration_t *pass = probe_add("probe::plain", "gpu fallthrough", NULL, 0);
  tenon_registration_t *cpu = probe_add("probe::plain", "cpu f64", &id[2], 0);
  capture();
  CHECK_STATUS(tenon_trace_set("dispatch"), TENON_OK);
  CHECK_ANSWER("probe::plain", "npu", 1);
  CHECK_ANSWER("probe::plain", "gpu", 2);
  CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
  CHECK_LINES(release_capture(), "call probe::plain {cpu, npu} -> fallback",
              "call probe::plain {cpu, gpu} -> fallthrough",
              "  next probe::plain {cpu} -> cpu f64 [program, kernel]");
  tenon_registration_release(fallback);
  tenon_registration_release(pass);
  tenon_registration_release(cpu);
}

TEST("a layer that an operator skips is not in the trace of its calls") {
  start();
  probe_start();
  tenon_registration_t *cpu = probe_add("probe::plain", "cpu f64", &id[2], 0);
  tenon_registration_t *pass;
  CHECK_STATUS(tenon_key_include("functional", 1), TENON_OK);
  capture();
  CHECK_STATUS(tenon_trace_set("dispatch"), TENON_OK);
  CHECK_ANSWER("probe::plain", "cpu", 2);
  pass = probe_add("probe::plain", "functional fallthrough", NULL, 0);
  CHECK_ANSWER("probe::plain", "cpu", 2);
  CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
  CHECK_LINES(release_capture(), "call probe::plain {cpu, functional} -> fallthrough",
              "  next probe::plain {cpu} -> cpu f64 [program, kernel]",
              "call probe::plain {cpu} -> cpu f64 [program, kernel]");
  CHECK_STATUS(tenon_key_include("functional", 0), TENON_OK);
  tenon_registration_release(pass);
  tenon_registration_release(cpu);
}

TEST("the trace shows arguments and failures") {
  start();
  double out;
  capture();
  CHECK_STATUS(tenon_trace_set("dispatch,args"), TENON_OK);
  CHECK(call("layered::times", 2) == 6);
  CHECK_STATUS(try_call("layered::broken", 2, &out), TENON_RANGE);
  CHECK_STATUS(try_call("probe::plain", 2, &out), TENON_UNIMPLEMENTED);
  CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
  CHECK_LINES(release_capture(),
              "call layered::times {cpu} -> cpu [layered, kernel] (f64[1], factor=3)",
              "call layered::broken {cpu} -> cpu [layered, kernel] (f64[1])",
              "layered::broken failed: out of range*",
              "call probe::plain {cpu} -> missing (f64[1])", "probe::plain failed: unimplemented*");
}

TEST("the trace shows times, after the nested calls") {
  start();
  capture();
  CHECK_STATUS(tenon_trace_set("time"), TENON_OK);
  CHECK(call("layered::nested", 2) == 7);
  CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
  CHECK_LINES(release_capture(), "call layered::nested {cpu} -> composite [layered, composite]",
              "  call layered::times {cpu} -> cpu [layered, kernel]", "  layered::times took *",
              "layered::nested took *");
}

TEST("the environment switches the trace on at the start, and an unknown word is reported") {
  tenon_shutdown();
  setenv("TENON_TRACE", "dispatch", 1);
  capture();
  start();
  CHECK(call("layered::times", 2) == 6);
  CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
  CHECK_LINES(release_capture(), "call layered::times {cpu} -> cpu [layered, kernel]");
  tenon_shutdown();
  setenv("TENON_TRACE", "everything", 1);
  capture();
  start();
  CHECK(call("layered::times", 2) == 6);
  CHECK_LINES(
      release_capture(),
      "TENON_TRACE is ignored: trace 'everything': expected dispatch, args, time, or as the "
      "last of them file=PATH, with commas between");
  unsetenv("TENON_TRACE");
}

TEST("unknown words for the trace are refused, and change nothing") {
  start();
  capture();
  CHECK_STATUS(tenon_trace_set("dispatch,argument"), TENON_INVALID);
  CHECK_TEXT(
      tenon_error(),
      "trace 'dispatch,argument': expected dispatch, args, time, or as the last of them file=PATH");
  CHECK_STATUS(tenon_trace_set("dispatch args"), TENON_INVALID);
  CHECK(call("layered::times", 2) == 6);
  CHECK(strcmp(release_capture(), "") == 0);
}

static void call_until(void *pointer) {
  while (!__atomic_load_n((int *)pointer, __ATOMIC_ACQUIRE))
    CHECK(call("layered::nested", 2) == 7);
}

TEST("if it is switched on while threads call, the trace shows whole lines of their next calls") {
  tn_spawned_t threads[2];
  int stop = 0;
  int64_t lines = 0;
  int64_t bad = 0;
  start();
  for (int i = 0; i < 2; i++)
    CHECK(tn_spawn(&threads[i], call_until, &stop));
  for (int round = 0; round < 10; round++) {
    capture();
    CHECK_STATUS(tenon_trace_set(round & 1 ? "dispatch,args" : "dispatch"), TENON_OK);
    for (int i = 0; i < 20; i++)
      CHECK(call("layered::times", i) == 3 * i);
    CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
    const char *at = release_capture();
    for (; *at; at += strcspn(at, "\n") + 1, lines++)
      if (strncmp(at, "call layered::", 14) != 0 && strncmp(at, "  call layered::times", 21) != 0) {
        char line[120];
        snprintf(line, sizeof line, "%.100s", at);
        bad++, CHECK_TEXT(line, "call layered::");
      }
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < 2; i++)
    tn_join(&threads[i]);
  CHECK(lines >= 10 * 20 && bad == 0);
  capture();
  CHECK(call("layered::nested", 2) == 7);
  CHECK(strcmp(release_capture(), "") == 0);
}

TEST("nothing is left behind") {
  capture();
  (void)release_capture();
  tenon_shutdown();
}
