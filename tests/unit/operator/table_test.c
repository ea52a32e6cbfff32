/* The dispatch table of an operator against a model without tables: a list of the registrations in
 * their order, and the resolution order as written in docs/decisions/0006-dispatcher.md. Every
 * combination of registrations for two backends, then seeded sequences of registering and undoing
 * for six. */
#include "check.h"
#include "operator/op.h"
#include "tensors.h"

#include "operators.h"
#include "probes.h"

/* the model */

typedef enum kind_t {
  DIRECT,
  COMPOSITE,
  EXPLICIT,
  AUTOGRAD,
  FALLBACK,
  GRADIENT_FALLBACK,
} kind_t;

/* One registration that is in force. */
typedef struct entry_t {
  kind_t kind;
  const char *backend; /* NULL: for all backends */
  bool is_fallthrough;
  bool is_preferred;
  double id;       /* the number that its function writes */
  uint64_t number; /* 0: fallbacks have no number */
  const char *text;
  tenon_registration_t *handle;
} entry_t;

/* The registrations, in their order. */
typedef struct world_t {
  entry_t entries[64];
  int count;
  bool is_view;
  bool has_gradient;
} world_t;

typedef struct answer_t {
  const char *rule;
  const entry_t *from; /* NULL: no registration */
  bool has_kernel;     /* the entry names a kernel */
} answer_t;

static bool same_backend(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

static const entry_t *newest(const world_t *w, kind_t kind, const char *backend) {
  const entry_t *found = NULL;
  for (const entry_t *e = w->entries; e < w->entries + w->count; e++)
    if (e->kind == kind && same_backend(e->backend, backend)) found = e;
  return found;
}

static answer_t kernel_answer(const entry_t *e, const char *rule) {
  return e->is_fallthrough ? (answer_t){"fallthrough", NULL, false} : (answer_t){rule, e, true};
}

static answer_t for_backend(const world_t *w, const char *backend) {
  const entry_t *e;
  const entry_t *fallback = newest(w, FALLBACK, backend);
  if ((e = newest(w, DIRECT, backend))) return kernel_answer(e, "kernel");
  if (fallback && fallback->is_preferred) return (answer_t){"fallback", fallback, false};
  if ((e = newest(w, EXPLICIT, NULL))) return kernel_answer(e, "composite explicit");
  if ((e = newest(w, COMPOSITE, NULL))) return kernel_answer(e, "composite");
  if (fallback) return (answer_t){"fallback", fallback, false};
  if (w->is_view) return (answer_t){"view", NULL, false};
  return (answer_t){strcmp(backend, "meta") ? "missing" : "infer", NULL,
                    false}; /* These operators have infer. */
}

static answer_t for_gradients(const world_t *w, const char *backend) {
  const entry_t *e;
  const entry_t *composite = newest(w, COMPOSITE, NULL);
  bool may_decompose = composite && !newest(w, EXPLICIT, NULL) && !w->has_gradient;
  if ((e = newest(w, AUTOGRAD, backend))) return kernel_answer(e, "kernel");
  if (may_decompose && !newest(w, DIRECT, backend)) return kernel_answer(composite, "composite");
  if ((e = newest(w, AUTOGRAD, NULL))) return kernel_answer(e, "autograd");
  if (may_decompose) return kernel_answer(composite, "composite");
  if (w->has_gradient) return (answer_t){"gradient", NULL, false};
  if ((e = newest(w, GRADIENT_FALLBACK, NULL))) return (answer_t){"fallback", e, false};
  return (answer_t){"fallthrough", NULL, false};
}

/* comparing */

static int64_t slots_checked, calls_checked;

static void describe(const world_t *w, char *out, size_t size) {
  static const char *const names[] = {"direct",   "composite", "explicit",
                                      "autograd", "fallback",  "gradient fallback"};
  size_t used = (size_t)snprintf(out, size, "%s%s", w->is_view ? "view;" : "",
                                 w->has_gradient ? "gradient;" : "");
  for (int i = 0; i < w->count && used < size; i++)
    used += (size_t)snprintf(out + used, size - used, " %s %s%s%s", names[w->entries[i].kind],
                             w->entries[i].backend ? w->entries[i].backend : "",
                             w->entries[i].is_fallthrough ? " fallthrough" : "",
                             w->entries[i].is_preferred ? " preferred," : ",");
}

static void check_slot(const world_t *w, const tenon_op_t *op, const char *key, answer_t expected) {
  tenon_slot_info_t info = {.size = sizeof info};
  int status = tenon_op_slot(op, key, &info);
  uint64_t number = expected.has_kernel ? expected.from->number : 0;
  slots_checked++;
  bool good = status == TENON_OK && strcmp(info.rule, expected.rule) == 0 &&
              info.number == number && !info.is_missing == !!strcmp(expected.rule, "missing") &&
              !info.kernel == !expected.has_kernel;
  if (good && info.kernel)
    good = strcmp(info.kernel, expected.from->text) == 0 && strcmp(info.library, "program") == 0;
  if (good) return;
  char all[1500], text[2400];
  describe(w, all, sizeof all);
  snprintf(text, sizeof text,
           "%s: '%s' of %s number %llu, expected '%s' number %llu; registered:%s", key, info.rule,
           info.kernel ? info.kernel : "(no kernel)", (unsigned long long)info.number,
           expected.rule, (unsigned long long)number, all);
  check_report(0, __FILE__, __LINE__, "a slot", text);
}

/* An input and a result on each backend, made once. */
typedef struct bench_t {
  const char *backend;
  double in;
  double out;
  tenon_tensor_t *x;
  tenon_tensor_t *y;
} bench_t;

/* What a call writes: goes from one key to the next until one answers. On meta there is no data to
 * view. */
static double walk(const world_t *w, const char *backend, bool with_gradients,
                   tenon_status_t *out_status) {
  *out_status = TENON_OK;
  for (int step = with_gradients ? 0 : 1; step < 3; step++) {
    if (step == 2 && strcmp(backend, "cpu") == 0) break;
    answer_t a =
        step == 0 ? for_gradients(w, backend) : for_backend(w, step == 1 ? backend : "cpu");
    if (strcmp(a.rule, "fallthrough") == 0 || strcmp(a.rule, "gradient") == 0)
      continue; /* No history is needed here. */
    if (strcmp(a.rule, "view") == 0) return strcmp(backend, "meta") ? PROBE_VIEWED : PROBE_NOTHING;
    if (strcmp(a.rule, "infer") == 0) return PROBE_NOTHING;
    if (strcmp(a.rule, "missing") == 0) break;
    return a.from->id;
  }
  *out_status = TENON_UNIMPLEMENTED;
  return PROBE_NOTHING;
}

static void check_call(const world_t *w, const tenon_op_t *op, bench_t *at, bool with_gradients) {
  tenon_status_t fate;
  double expected = walk(w, at->backend, with_gradients, &fate);
  at->out = PROBE_NOTHING;
  if (with_gradients) tenon_key_include("autograd", 1);
  tenon_status_t status = tenon_op_run(op, NULL, &at->x, &at->y);
  if (with_gradients) tenon_key_include("autograd", 0);
  calls_checked++;
  if (at->out == expected && status == fate) return;
  char all[1500], text[2400];
  describe(w, all, sizeof all);
  snprintf(text, sizeof text, "%s%s: %g with status %d, expected %g; registered:%s",
           with_gradients ? "autograd " : "", at->backend, at->out, (int)status, expected, all);
  check_report(0, __FILE__, __LINE__, "a call", text);
}

static void check_world(const world_t *w, const tenon_op_t *op, bench_t *benches, int count) {
  for (int i = 0; i < count; i++) {
    char key[64];
    snprintf(key, sizeof key, "autograd %s", benches[i].backend);
    check_slot(w, op, benches[i].backend, for_backend(w, benches[i].backend));
    check_slot(w, op, key, for_gradients(w, benches[i].backend));
    check_call(w, op, &benches[i], false);
    check_call(w, op, &benches[i], true);
  }
}

static void open_benches(bench_t *benches, const char *const *backends, int count) {
  for (int i = 0; i < count; i++) {
    benches[i].backend = backends[i];
    benches[i].in = PROBE_VIEWED;
    tenon_registration_t *memory[2];
    if (strcmp(backends[i], "cpu") != 0 && strcmp(backends[i], "meta") != 0)
      probe_memory(backends[i], memory);
    benches[i].x = probe_tensor(backends[i], &benches[i].in);
    benches[i].y = probe_tensor(backends[i], &benches[i].out);
  }
}

static void close_benches(bench_t *benches, int count) {
  for (int i = 0; i < count; i++) {
    tenon_tensor_release(benches[i].x);
    tenon_tensor_release(benches[i].y);
  }
}

/* changing registrations */

enum { IDS = 1 << 17 };
static double
    /* Contexts of kernels; an element is used again only long after its registration was undone. */
    ids[IDS];
static int next_id;

static void where_of(const entry_t *e, char *out, size_t size) {
  static const char *const places[] = {"", "composite", "composite_explicit", "autograd"};
  snprintf(out, size, "%s%s%s%s", places[e->kind], *places[e->kind] && e->backend ? " " : "",
           e->backend ? e->backend : "", e->is_fallthrough ? " fallthrough" : "");
}

static void add_entry(world_t *w, const tenon_op_t *op, entry_t e) {
  char where[128], name[64];
  snprintf(name, sizeof name, "%s", op->name);
  double *id = &ids[next_id++ % IDS];
  e.id = *id = next_id;
  if (e.kind == FALLBACK || e.kind == GRADIENT_FALLBACK) {
    e.handle = probe_fallback(e.backend ? e.backend : "autograd", id,
                              e.is_preferred ? TENON_PREFERRED : 0);
  } else {
    uint64_t before = op->kernels ? op->kernels->number : 0;
    where_of(&e, where, sizeof where);
    e.handle = probe_add(name, where, id, newest(w, e.kind, e.backend) ? TENON_OVERRIDE : 0);
    /* The newest registration is the first of the list. */
    e.number = op->kernels->number;
    e.text = op->kernels->text;
    CHECK(e.number > before && strcmp(e.text, where) == 0);
  }
  w->entries[w->count++] = e;
}

static void drop_entry(world_t *w, int index) {
  tenon_registration_release(w->entries[index].handle);
  memmove(&w->entries[index], &w->entries[index + 1],
          (size_t)(--w->count - index) * sizeof *w->entries);
}

/* every combination */

enum { DIMENSIONS = 9 };
static const struct {
  kind_t kind;
  const char *backend;
  /* none, a function, and then a fallthrough or a preferred fallback */
  int choices;
} dimensions[DIMENSIONS] = {
    {DIRECT, "npu", 3},   {DIRECT, "cpu", 3},   {COMPOSITE, NULL, 2},
    {EXPLICIT, NULL, 2},  {AUTOGRAD, NULL, 3},  {AUTOGRAD, "npu", 3},
    {AUTOGRAD, "cpu", 3}, {FALLBACK, "npu", 3}, {GRADIENT_FALLBACK, NULL, 2}};

/* Changes one registration at a time, so that each combination follows another one, and not an
 * empty table. */
static int choose(world_t *w, const tenon_op_t *op, int dimension, int choice) {
  for (int i = 0; i < w->count; i++)
    if (w->entries[i].kind == dimensions[dimension].kind &&
        same_backend(w->entries[i].backend, dimensions[dimension].backend))
      drop_entry(w, i--);
  if (!choice) return choice;
  entry_t e = {.kind = dimensions[dimension].kind, .backend = dimensions[dimension].backend};
  e.is_preferred = choice == 2 && e.kind == FALLBACK;
  e.is_fallthrough = choice == 2 && e.kind != FALLBACK;
  add_entry(w, op, e);
  return choice;
}

static int64_t check_combinations(const char *name, bool is_view, bool has_gradient) {
  static const char *const backends[] = {"npu", "cpu"};
  const tenon_op_t *op = op_of(name);
  world_t w = {.is_view = is_view, .has_gradient = has_gradient};
  int at[DIMENSIONS] = {0};
  int step[DIMENSIONS];
  int64_t combinations = 0;
  bench_t benches[2];
  open_benches(benches, backends, 2);
  for (int d = 0; d < DIMENSIONS; d++)
    step[d] = 1;
  /* Counts back and forth, so that only one digit changes at a time. */
  for (int d = 0; d < DIMENSIONS;) {
    check_world(&w, op, benches, 2);
    combinations++;
    for (d = 0; d < DIMENSIONS; d++) {
      if (at[d] + step[d] >= 0 && at[d] + step[d] < dimensions[d].choices) break;
      step[d] = -step[d];
    }
    if (d < DIMENSIONS) at[d] = choose(&w, op, d, at[d] + step[d]);
  }
  while (w.count)
    drop_entry(&w, 0);
  check_world(&w, op, benches, 2);
  close_benches(benches, 2);
  return combinations;
}

TEST("every combination of registrations for two backends gives the entries and the calls of the "
     "resolution order") {
  int64_t expected = 1;
  for (int d = 0; d < DIMENSIONS; d++)
    expected *= dimensions[d].choices;
  probe_start();
  CHECK(check_combinations("probe::plain", false, false) == expected);
  /* Undone registrations are kept until shutdown. */
  tenon_shutdown();
  probe_start();
  CHECK(check_combinations("probe::differentiable", false, true) == expected);
  tenon_shutdown();
  probe_start();
  CHECK(check_combinations("probe::view", true, false) == expected);
  tenon_shutdown();
  CHECK(slots_checked >= 3 * expected * 4 && calls_checked >= 3 * expected * 4);
  printf("%lld combinations, %lld slots, %lld calls\n", (long long)(3 * expected),
         (long long)slots_checked, (long long)calls_checked);
}

/* random sequences */

static uint64_t state;
static int below(int limit) { /* splitmix64 */
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (int)((z ^ z >> 31) % (uint64_t)limit);
}

static void change(world_t *w, const tenon_op_t *op, const char *const *backends, int count) {
  if (w->count && (w->count > 24 || below(9) < 4)) {
    drop_entry(w, below(w->count)); /* In any order, not only the newest one. */
    return;
  }
  entry_t e = {.kind = (kind_t)below(6)};
  if (e.kind == DIRECT || e.kind == FALLBACK || (e.kind == AUTOGRAD && below(3)))
    e.backend = backends[below(count)];
  if (e.kind == FALLBACK || e.kind == GRADIENT_FALLBACK) {
    if (newest(w, e.kind, e.backend) || same_backend(e.backend, "cpu"))
      return; /* Each backend has one fallback, and the CPU has none. */
    e.is_preferred = e.kind == FALLBACK && below(2);
  } else if (e.kind == DIRECT || e.kind == AUTOGRAD) {
    e.is_fallthrough = below(4) == 0;
  }
  add_entry(w, op, e);
}

static void check_samples(uint64_t seed, int samples, const char *const *backends, int count) {
  static const char *const names[] = {"probe::plain", "probe::differentiable", "probe::view"};
  state = seed;
  for (int kind = 0; kind < 3; kind++) {
    probe_start();
    const tenon_op_t *op = op_of(names[kind]);
    world_t w = {.is_view = kind == 2, .has_gradient = kind == 1};
    bench_t benches[8];
    open_benches(benches, backends, count);
    for (int i = 0; i < samples / 3 + (kind < samples % 3); i++) {
      for (int changes = 1 + below(3); changes; changes--)
        change(&w, op, backends, count);
      check_world(&w, op, benches, count);
    }
    while (w.count)
      drop_entry(&w, below(w.count));
    check_world(&w, op, benches, count);
    close_benches(benches, count);
    tenon_shutdown();
  }
}

TEST("5,000 seeded sequences of registering and undoing for six backends follow the resolution "
     "order") {
  static const char *const backends[] = {"cpu", "meta", "npu", "gpu", "tpu", "dsp"};
  check_samples(20260101, 5000, backends, 6);
}

TEST("such sequences follow it, too, where three of the backends share a bit with others") {
  static const char *const backends[] = {"cpu", "meta", "npu", "late_0", "late_1", "late_2"};
  tenon_device_t device;
  char name[32];
  for (int i = 0; i < 45; i++) {
    snprintf(name, sizeof name, "filler_%d", i);
    CHECK_STATUS(tenon_device_find(name, 0, &device), TENON_OK);
  }
  check_samples(20260102, 1500, backends, 6);
  CHECK(tn_backend_find("late_0")->bit == TN_BIT_OTHERS &&
        tn_backend_find("late_2")->bit == TN_BIT_OTHERS);
}
