/* Offloaded subgraphs in cache files, and what happens if something fails or ends: the message, and
 * what is left. */
#include "check.h"
#include "sanitizer.h"
#include "tensors.h"

#include "operators.h"

#include "claimer.h"
#include "failing.h"

#include "device/group.h"
#include "device/plugin.h"

/* cache files */

static void damage(void) { /* Damages the last byte of each entry, which belongs to a weight. */
  DIR *list = opendir(folder);
  char path[600];
  for (struct dirent *entry; list && (entry = readdir(list));) {
    if (!strstr(entry->d_name, ".group")) continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    FILE *file = fopen(path, "r+b");
    if (!file || fseek(file, -1, SEEK_END)) continue;
    int byte = fgetc(file);
    (void)fseek(file, -1, SEEK_END);
    (void)fputc(byte ^ 1, file);
    (void)fclose(file);
  }
  if (list) closedir(list);
}

TEST("an offloaded subgraph is compiled once, and compiling the same graph again loads it from a "
     "file") {
  tenon_device_t device = start();
  empty_cache();
  for (int i = 0; i < 3; i++) {
    tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device, NULL);
    CHECK(made == 1 && loaded == i);
    CHECK_GRAPH(e, given, wanted);
    tenon_executable_release(e);
  }
  CHECK(runs == 3);
  tenon_executable_release(compiled(layers("f32[2] -31 -20"), device, NULL)); /* other weights */
  CHECK(made == 2 && loaded == 2);
  tenon_executable_release(
      compiled(layers("f32[2] -30 -20"), device, "groups=7")); /* other settings */
  CHECK(made == 3 && loaded == 2);
}

TEST("a cached subgraph that is damaged, or that the device refuses, is compiled again") {
  tenon_device_t device = start();
  empty_cache();
  tenon_executable_release(compiled(layers("f32[2] -30 -20"), device, NULL));
  damage();
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device, NULL);
  CHECK(made == 2 && loaded == 0); /* The host has found the damage. */
  CHECK_GRAPH(e, given, wanted);
  tenon_executable_release(e);
  refuses_load = 1;
  e = compiled(layers("f32[2] -30 -20"), device, NULL);
  CHECK(made == 3 && loaded == 1);
  CHECK_GRAPH(e, given, wanted);
  tenon_executable_release(e);
}

/* failures */

TEST("failed work of an offloaded subgraph is reported with the subgraph and its nodes") {
  tenon_device_t device = start();
  tenon_stream_t *own, *before;
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device, NULL);
  CHECK_STATUS(tenon_stream_create(device, &own), TENON_OK);
  CHECK_STATUS(tenon_stream_use(device, own, &before), TENON_OK);
  sim_set(device, "fault=2"); /* The copy of x succeeds, and the work after it fails. */
  check_run_refused(e, given, TENON_INTERNAL,
                    "subgraph 1 (core::matmul 'product', core::add 'sum', core::relu 'positive', "
                    "core::mul 'square') failed on sim:0 (work ");
  tenon_executable_release(e); /* The release frees the name of the subgraph, too. */
  CHECK_STATUS(tenon_stream_synchronize(own), TENON_INTERNAL);
  CHECK_STATUS(tenon_stream_use(device, NULL, NULL), TENON_OK);
  tenon_stream_release(own);
}

TEST(
    "a failure reported after its executable was released does not read names of that executable") {
  tenon_device_t device = start();
  tenon_stream_t *own, *before;
  CHECK_STATUS(tenon_stream_create(device, &own), TENON_OK);
  CHECK_STATUS(tenon_stream_use(device, own, &before), TENON_OK);
  is_wrong = is_own = 1;
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t y = two(b, "positive", "core::relu", two(b, "sum", "core::add", x, x), -1);
  graph_output(b, "z", two(b, "last", "core::relu", two(b, "next", "core::add", y, y), -1));
  claims_of(0, 2, (const uint32_t[]){0, 1});
  claims_of(1, 2, (const uint32_t[]){2, 3});
  tenon_executable_t *e = compiled(b, device, NULL);
  tenon_tensor_t *there = tensor_there(device, "f32[2] 1 2");
  tenon_tensor_t *outputs[1] = {NULL};
  sim_set(device,
          /* The first subgraph fails while the second one is refused. */
          "fault=1,delay=100000,fail=launch:2");
  CHECK_STATUS(tenon_executable_run(e, &there, outputs, NULL), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(),
             "subgraph 2 (core::add 'next', core::relu 'last'): sim: this call of launch fails");
  CHECK(runs == 2);
  tenon_executable_release(e);
  CHECK_STATUS(tenon_stream_synchronize(own), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "the operator is no longer known");
  sim_set(device, "delay=0");
  tenon_tensor_release(there);
  CHECK_STATUS(tenon_stream_use(device, NULL, NULL), TENON_OK);
  tenon_stream_release(own);
}

TEST("lack of memory and a refused launch are reported, and the next run works") {
  tenon_device_t device = start();
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device, NULL);
  sim_set(device, "fail=launch:1");
  check_run_refused(e, given, TENON_UNAVAILABLE, "subgraph 1 (core::matmul 'product'");
  CHECK_GRAPH(e, given, wanted);
  tenon_executable_release(e);
  empty_cache();
  sim_set(device, "fail=allocate:1"); /* This is the allocation of weights. */
  e = compiled(layers("f32[2] -30 -20"), device, NULL);
  check_dump(e, "claims", "rejected: ");
  CHECK_GRAPH(e, given, wanted);
  tenon_executable_release(e);
}

typedef struct trial_t {
  tenon_graph_t *graph;
  tenon_device_t device;
} trial_t;

/* Compiles, and runs on a stream of its own, since a failed stream stays failed. The results must
 * be right, whether nodes were offloaded or not. */
static tenon_status_t try_all(void *context) {
  const trial_t *t = context;
  tenon_compile_t options = {.size = sizeof options, .device = t->device};
  tenon_executable_t *e = NULL;
  tenon_stream_t *own = NULL;
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *outputs[2] = {NULL};
  int64_t shape[2] = {2, 3};
  float numbers[6] = {1, 2, 3, 4, 5, 6};
  float z[4] = {0, 64, 361, 1936};
  tenon_status_t status = tenon_stream_create(t->device, &own);
  if (status == TENON_OK) status = tenon_stream_use(t->device, own, NULL);
  if (status == TENON_OK) status = tenon_executable_create(t->graph, &options, &e);
  if (status == TENON_OK) status = tenon_tensor_create(tenon_dtype(TENON_F32), 2, shape, &x);
  if (status == TENON_OK) {
    memcpy(x->data, numbers, sizeof numbers);
    status = tenon_executable_run(e, &x, outputs, NULL);
  }
  if (status == TENON_OK) CHECK(memcmp(outputs[1]->data, z, sizeof z) == 0);
  tenon_tensor_release(x);
  tenon_tensor_release(outputs[0]);
  tenon_tensor_release(outputs[1]);
  tenon_executable_release(e);
  (void)tenon_stream_use(t->device, NULL, NULL);
  tenon_stream_release(own);
  return status;
}

TEST("when the n-th allocation of the host fails nothing leaks, and the next compilation and run "
     "work") {
  tenon_shutdown();
  trial_t t = {NULL, start()};
  tenon_builder_t *b = layers("f32[2] -30 -20");
  CHECK_STATUS(tenon_builder_finish(b, &t.graph), TENON_OK);
  tenon_builder_release(b);
  empty_cache();
  fail_each("compiling a group, and running it", try_all, &t, 1);
  fail_each("loading a group, and running it", try_all, &t, 1);
  CHECK(stats_of(t.device).live == 0 && tn_groups_count(ordinal_of(t.device)) == 0);
  tenon_graph_release(t.graph);
}

TEST("when the n-th call of the device fails it is reported, nothing leaks, and the next run "
     "works") {
  static const char *const calls[] = {"allocate", "copy", "launch", "group_compile"};
  trial_t t = {NULL, start()};
  tenon_builder_t *b = layers("f32[2] -30 -20");
  CHECK_STATUS(tenon_builder_finish(b, &t.graph), TENON_OK);
  tenon_builder_release(b);
  for (int i = 0; i < 4; i++) {
    int failed = 0;
    for (int n = 1; n <= 8; n++) {
      char settings[60];
      empty_cache();
      snprintf(settings, sizeof settings, "fail=%s:%d", calls[i], n);
      sim_set(t.device, settings);
      tenon_status_t status = try_all(&t);
      failed += status != TENON_OK;
      if (status != TENON_OK) CHECK_TEXT(tenon_error(), calls[i]);
      snprintf(settings, sizeof settings, "fail=%s:0", calls[i]);
      sim_set(t.device, settings);
      CHECK_STATUS(try_all(&t), TENON_OK);
    }
    CHECK((failed > 0) ==
          (i == 1 ||
           /* The others succeed: a failed allocation is repeated, and a subgraph that does not
            * compile is handed back. */
           i == 2));
  }
  CHECK(stats_of(t.device).live == 0 && tn_groups_count(ordinal_of(t.device)) == 0);
  tenon_graph_release(t.graph);
}

TEST("memory of offloaded subgraphs is freed, 50 times over") {
  tenon_shutdown(); /* The shutdown also ends the failed streams. */
  tenon_device_t device = start();
  tn_ordinal_t *o = ordinal_of(device);
  uint64_t before = 0;
  uint64_t after = 0;
  for (int i = 0; i < 50; i++) {
    tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device, NULL);
    CHECK_GRAPH(e, given, wanted);
    tenon_executable_release(e);
    CHECK_STATUS(tenon_device_synchronize(device), TENON_OK);
    CHECK_STATUS(o->table->memory_free(&o->context, i ? &after : &before), TENON_OK);
  }
  CHECK(after == before);
  CHECK(freed == 50 && tn_groups_count(o) == 0);
}

static tenon_executable_t *of_parent;

static void runs_in_child(void) {
  CHECK_GRAPH(of_parent, given, wanted);
  tenon_executable_release(of_parent);
}

TEST("a child of fork can run and release the offloaded subgraphs of its parent") {
#ifdef IS_INSTRUMENTED
  SKIP("sanitizers do not follow a process with threads into a child");
#endif
  of_parent = compiled(layers("f32[2] -30 -20"), start(), NULL);
  CHECK_GRAPH(of_parent, given, wanted);
  CHECK(in_child(runs_in_child));
  CHECK_GRAPH(of_parent, given, wanted);
  CHECK(runs == 2 && freed == 0);
  tenon_executable_release(of_parent);
}

TEST("an executable that outlives its device is refused with the reason, and can be released") {
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), start(), NULL);
  tn_ordinal_t *o = ordinal_of(device_of("sim", 0));
  CHECK(tn_groups_count(o) == 1);
  tenon_shutdown();
  CHECK(freed == 1);
  (void)start();
  check_run_refused(e, given, TENON_PRECONDITION, "subgraph 1 (core::matmul 'product'");
  CHECK_TEXT(tenon_error(),
             "its device was stopped after the graph was compiled: compile the graph again");
  tenon_executable_release(e);
  CHECK(freed == 0);
  tenon_shutdown();
}

TEST("a library with a device is not unloaded while executables hold subgraphs compiled for it") {
  tenon_library_t *library;
  tenon_shutdown();
  setenv("TENON_SIM", "claim=1", 1);
  CHECK_STATUS(
      tenon_library_load(TEST_LIBRARIES "/../../devices/sim.so", TENON_LOAD_UNLOADABLE, &library),
      TENON_OK);
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device_of("sim", 0), NULL);
  check_dump(e, "claims", "1 subgraph with 4 of 4 nodes");
  CHECK_STATUS(tenon_library_unload(library), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "1 compiled groups of device sim");
  tenon_executable_release(e);
  CHECK_STATUS(tenon_library_unload(library), TENON_OK);
  unsetenv("TENON_SIM");
}

TEST("nothing is left behind") { end(); }
