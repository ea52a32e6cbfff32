/* Random graphs: what is compiled computes what the same graph computes node by node, measured
 * against double precision. Each rewriting rule is applied. Each graph is written as text and read
 * again, and some as artifacts. TENON_GRAPH is the first graph and
 * TENON_GRAPHS their number; TENON_GRAPH_DEVICE compiles for a device, TENON_GRAPH_WITHOUT=each
 * leaves one rule out of each graph, TENON_GRAPH_SHOW=1 prints the counts of rules, and
 * TENON_GRAPH_STRICT=1 tells each graph that is over the limit. */
#include "check.h"
#include "tensors.h"

#include "operators.h"
#include "sanitizer.h"

#include "random/again.h"
#include "random/generate.h"
#include "random/library.h"
#include "random/shrink.h"

typedef struct census_t {
  tn_rules_t rules;
  int32_t *counts;  /* of each rule: in how many graphs it was applied */
  int32_t left_out; /* graphs for which the device has no kernel */
  int32_t over;     /* graphs that are over the limit, but not much */
  int32_t fused;    /* graphs of which a region ran as one kernel of the device */
  int32_t unfused;  /* graphs with a region whose kernel the device's compiler refused */
  written_t written;
} census_t;

static uint64_t number_of(const char *variable, uint64_t otherwise) {
  const char *text = getenv(variable);
  return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void start_library(void) {
  const tenon_op_t *op = NULL;
  if (tenon_op_find("rnd::bend", &op) != TENON_OK)
    CHECK_STATUS(tenon_library_add(&random_library, NULL, NULL, NULL), TENON_OK);
}

/* Adds the rules that were applied. */
static void count_rules(census_t *census, const tenon_executable_t *e) {
  char *text = NULL;
  if (!CHECK_STATUS(tenon_executable_dump((tenon_executable_t *)(uintptr_t)e, "rewrites", &text),
                    TENON_OK))
    return;
  for (const char *at = text; *at;) {
    const size_t size = strcspn(at, " \n");
    for (size_t i = 0; i < census->rules.count; i++) {
      const char *name = census->rules.uses[i].name;
      if (strlen(name) == size && memcmp(name, at, size) == 0) census->counts[i]++;
    }
    at += strcspn(at, "\n");
    at += *at == '\n';
  }
  tenon_text_release(text);
}

/* Counts the regions that ran as one kernel of a device, or could not. */
static void count_fused(census_t *census, const tenon_executable_t *e) {
  char *text = NULL;
  bool has_run = false;
  if (!CHECK_STATUS(tenon_executable_dump((tenon_executable_t *)(uintptr_t)e, "plan", &text),
                    TENON_OK))
    return;
  for (const char *at = text; (at = strstr(at, "launched ")) != NULL; at++)
    has_run |= at[strlen("launched ")] != '0';
  census->fused += has_run;
  const char *refusal = strstr(text, "runs node by node: ");
  census->unfused += refusal != NULL;
  if (refusal) fprintf(stderr, "%.300s\n", refusal);
  tenon_text_release(text);
}

/* Compares the runs of a graph. */
static void check_graph_of(uint64_t seed, census_t *census, way_t way) {
  trio_t t;
  errors_t e = {.wrong = NULL};
  draft_t *d = generate(seed, &census->rules);
  const lengths_t all[] = {d->most, d->is_dynamic ? (lengths_t){3, 2} : d->most, {d->most.n, 2}};
  const int before = check_failures;
  const bool is_open = open_trio(&t, d, d->outputs, d->output_count, &way);
  const int count = d->is_dynamic ? 3 : 2;
  bool is_right = is_open;
  bool is_over = false;
  int i = 0;
  for (; i < count && is_right && !is_over; i++)
    is_right = check_lengths(&t, all[i], i, &e, &is_over);
  if (is_open) count_rules(census, t.compiled);
  if (is_open && way.device_count) count_fused(census, t.compiled);
  const bool is_bad = !is_right || check_failures > before || (is_over && counts_over);
  if (is_open) check_written(&t, &way, d->most, &census->written);
  close_trio(&t);
  census->over += is_over && !e.lacks_kernel;
  census->left_out += is_open && e.lacks_kernel;
  if (is_bad) {
    CHECK(!"a random graph is right");
    fprintf(stderr,
            "graph %llu: repeat with TENON_GRAPH=%llu TENON_GRAPHS=1 "
            "TENON_GRAPH_WITHOUT='%s'\n",
            (unsigned long long)seed, (unsigned long long)seed, way.without ? way.without : "");
    if (is_open) tell_wrong(d, &way, all[i ? i - 1 : 0]);
  }
  release_draft(d);
}

/* Chooses a device, such as "sim"; NULL: the CPU. Every other graph may use the CPU as well. */
static void choose_device(way_t *way, const char *name, uint64_t seed) {
  if (!name || !*name) return;
  CHECK_STATUS(tenon_device_find(name, 0, &way->devices[0]), TENON_OK);
  way->devices[1] = (tenon_device_t){1, 0};
  way->device_count = 1 + (uint32_t)(seed & 1);
}

static void tell_census(const census_t *census, uint64_t graphs, bool is_whole) {
  const bool shows = number_of("TENON_GRAPH_SHOW", 0);
  if (shows)
    printf("%d of %llu graphs are a little over the limit, %d left out\n", (int)census->over,
           (unsigned long long)graphs, (int)census->left_out);
  if (shows) printf("%d graphs had a region on the device\n", (int)census->fused);
  const written_t *w = &census->written;
  if (shows)
    printf("%d graphs were written as text and %d of them ran, %d have no text; of %d artifacts %d "
           "have gradients\n",
           (int)w->texts, (int)w->runs, (int)w->without, (int)w->artifacts, (int)w->derived);
  for (size_t i = 0; i < census->rules.count; i++) {
    if (shows) printf("%-24s %d\n", census->rules.uses[i].name, (int)census->counts[i]);
    if (census->counts[i] || graphs < 2000 || !is_whole) continue;
    fprintf(stderr, "rule %s was never applied\n", census->rules.uses[i].name);
    CHECK(!"each rule is applied in some random graph");
  }
}

static void check_graphs(uint64_t first, uint64_t count, const char *device) {
  start_library();
  census_t census = {.counts = NULL};
  counts_over = number_of("TENON_GRAPH_STRICT", 0);
  const char *without = getenv("TENON_GRAPH_WITHOUT");
  const bool is_each = without && strcmp(without, "each") == 0;
  way_t way = {.without = without};
  if (!CHECK_STATUS(tn_rules_open(&census.rules, NULL), TENON_OK)) return;
  census.counts = calloc(census.rules.count, sizeof *census.counts);
  for (uint64_t seed = first; seed < first + count && check_failures < 400; seed++) {
    if (is_each) way.without = census.rules.uses[seed % census.rules.count].name;
    tenon_threads_set(1 + (int32_t)(seed / 2 % 2));
    choose_device(&way, device, seed);
    check_graph_of(seed, &census, way);
  }
  tell_census(&census, count, !without && !way.device_count);
  CHECK(!census.unfused);
  CHECK(!way.device_count || count < 20 || census.fused > (int)count / 20);
  CHECK(census.over <= 2 + (int)(count / 1000));
  CHECK(census.written.texts > census.written.without); /* the generator makes dense constants */
  free(census.counts);
  tn_rules_close(&census.rules);
  close_written();
}

TEST("random graphs are as precise as their plain runs, and meet each rewriting rule") {
#ifdef IS_INSTRUMENTED
  const uint64_t share = 1000;
#else
  const uint64_t share = 5000;
#endif
  check_graphs(number_of("TENON_GRAPH", 0), number_of("TENON_GRAPHS", share),
               getenv("TENON_GRAPH_DEVICE"));
}

TEST("so they are on devices, where some of their nodes run as one kernel") {
  static const char *const devices[] = {"sim", "opencl"};
  if (getenv("TENON_GRAPHS")) SKIP("TENON_GRAPHS is set, for the graphs before");
#ifdef IS_INSTRUMENTED
  const int kinds = 1; /* compiling takes long */
#else
  const int kinds = 2;
#endif
  for (int d = 0; d < kinds; d++) {
    int32_t count;
    if (tenon_device_count(devices[d], &count) == TENON_OK) check_graphs(0, 25, devices[d]);
  }
}

TEST("nothing is left behind") { tenon_shutdown(); }
