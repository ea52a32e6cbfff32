/* Isolated libraries as a program sees them: calls, states, shared tensors, settings, and processes
 * that end. */
#include "check.h"
#include "tensors.h"

#include "isolation.h"
#include "operators.h"

#include <pthread.h>
#include <sys/wait.h>

#define CONTRACT TEST_LIBRARIES "/libcontract.so"

static tenon_library_t *load(const char *path, tenon_isolation_t isolation) {
  tenon_library_t *library = NULL;
  isolation.size = sizeof isolation;
  isolation.allow |= TENON_ALLOW_EXTEND;
  CHECK_STATUS(tenon_library_load_isolated(path, TENON_LOAD_UNLOADABLE, &isolation, &library),
               TENON_OK);
  return library;
}

static void unload(tenon_library_t *library) {
  CHECK_STATUS(tenon_library_unload(library), TENON_OK);
  CHECK(processes_below(1, NULL) == 0);
}

/* Makes one call and compares its result. */
static void check_call(const char *name, const char *attrs, const char *const *inputs,
                       const char *expected) {
  tenon_tensor_t *out = NULL;
  if (!CHECK_STATUS(call_op(name, attrs, inputs, &out), TENON_OK)) return;
  check_tensor(out, expected, 1e-6, __FILE__, __LINE__);
  tenon_tensor_release(out);
}

/* Kills the worker process, and returns when the supervisor has told the program so. The supervisor
 * tells it after the process is gone and before it sleeps again; a call in between would be told
 * that its process was killed. */
static void kill_child(void) {
  int child = 0;
  int supervisor = 0;
  CHECK(processes_below(2, &child) == 1);
  CHECK(processes_below(1, &supervisor) == 1);
  if (child) kill(child, SIGKILL);
  while (processes_below(2, NULL))
    usleep(1000);
  while (is_running(supervisor))
    usleep(1000);
}

TEST("a library runs in a worker process below a supervisor, and both are gone when it is "
     "unloaded") {
  const int before = open_descriptors();
  tenon_library_t *library = load(CONTRACT, (tenon_isolation_t){0});
  CHECK(processes_below(1, NULL) == 1);
  CHECK(processes_below(2, NULL) == 1);
  check_call("contract::median", NULL, (const char *const[]){"f32[5] 5 1 4 2 3"}, "f32[] 3");
  unload(library);
  CHECK(open_descriptors() == before);
  CHECK(shared_mappings() == 0);
}

TEST("inputs that a kernel writes to are changed, whether they lie in shared memory or not") {
  tenon_library_t *library = load(CONTRACT, (tenon_isolation_t){0});
  const tenon_op_t *op = op_of("contract::axpy_");
  const int64_t shape[1] = {3};
  for (int shared = 0; shared < 2; shared++) {
    tenon_tensor_t *inputs[2] = {tensor_of("f32[3] 1 2 3"), tensor_of("f32[3] 10 20 30")};
    if (shared) {
      const float old[3] = {10, 20, 30};
      tenon_tensor_release(inputs[1]);
      CHECK_STATUS(
          tenon_library_tensor_create(library, tenon_dtype(TENON_F32), 1, shape, &inputs[1]),
          TENON_OK);
      memcpy(inputs[1]->data, old, sizeof old);
    }
    CHECK_STATUS(tenon_op_call(op, NULL, inputs, NULL, 0), TENON_OK);
    check_tensor(inputs[1], "f32[3] 11 22 33", 0, __FILE__, __LINE__);
    tenon_tensor_release(inputs[0]);
    tenon_tensor_release(inputs[1]);
  }
  unload(library);
}

TEST("tensors in shared memory are read and written in place, and results are created there") {
  tenon_library_t *library = load(CONTRACT, (tenon_isolation_t){0});
  const tenon_op_t *op = op_of("contract::softmax");
  tenon_tensor_t *in = NULL;
  tenon_tensor_t *out = NULL;
  const int64_t shape[2] = {1, 2};
  CHECK_STATUS(tenon_library_tensor_create(library, tenon_dtype(TENON_F32), 2, shape, &in),
               TENON_OK);
  CHECK(is_shared(in->data));
  ((float *)in->data)[0] = ((float *)in->data)[1] = 1;
  CHECK_STATUS(tenon_op_call(op, NULL, &in, &out, 0), TENON_OK);
  CHECK(is_shared(out->data));
  check_tensor(out, "f32[1,2] 0.5 0.5", 1e-6, __FILE__, __LINE__);
  tenon_tensor_release(in);
  unload(library);
  /* The result outlives the library. */
  check_tensor(out, "f32[1,2] 0.5 0.5", 1e-6, __FILE__, __LINE__);
  CHECK(shared_mappings() == 1);
  tenon_tensor_release(out);
  CHECK(shared_mappings() == 0);
}

TEST("a result whose shape is known only after run is returned") {
  tenon_library_t *library = load(CONTRACT, (tenon_isolation_t){0});
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(
      call_op("contract::collect", "above=1.5", (const char *const[]){"f32[4] 1 2 3 1"}, &out),
      TENON_OK);
  check_tensor(out, "f32[2] 2 3", 0, __FILE__, __LINE__);
  tenon_tensor_release(out);
  unload(library);
}

TEST("a state lasts from call to call, and begins anew if its process is started again") {
  static const char *const input[] = {"f32[1] 0"};
  tenon_library_t *library = load(CONTRACT, (tenon_isolation_t){0});
  check_call("contract::counter", "start=5", input, "f32[1] 5");
  check_call("contract::counter", "start=5", input, "f32[1] 6");
  kill_child();
  check_call("contract::counter", "start=5", input, "f32[1] 5");
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(call_op("contract::counter", "start=-1", input, &out), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "start -1 is negative");
  unload(library);
}

TEST("random operators draw the same numbers as in the program itself") {
  static const char *const input[] = {"f32[8] 1 2 3 4 5 6 7 8"};
  tenon_tensor_t *here[2] = {NULL};
  tenon_tensor_t *there[2] = {NULL};
  tenon_library_t *library = NULL;
  CHECK_STATUS(tenon_library_load(CONTRACT, TENON_LOAD_UNLOADABLE, &library), TENON_OK);
  tenon_random_seed(7);
  for (int i = 0; i < 2; i++)
    CHECK_STATUS(call_op("contract::noise", NULL, input, &here[i]), TENON_OK);
  CHECK_STATUS(tenon_library_unload(library), TENON_OK);
  library = load(CONTRACT, (tenon_isolation_t){0});
  tenon_random_seed(7);
  for (int i = 0; i < 2; i++)
    CHECK_STATUS(call_op("contract::noise", NULL, input, &there[i]), TENON_OK);
  for (int i = 0; i < 2; i++)
    CHECK(here[i] && there[i] && tensor_equal(here[i], there[i], 0));
  CHECK(here[0] && here[1] && !tensor_equal(here[0], here[1], 0));
  for (int i = 0; i < 2; i++) {
    tenon_tensor_release(here[i]);
    tenon_tensor_release(there[i]);
  }
  unload(library);
}

TEST("a worker process may end between calls, and the next call works") {
  tenon_library_t *library = load(CONTRACT, (tenon_isolation_t){0});
  for (int i = 0; i < 5; i++) {
    check_call("contract::median", NULL, (const char *const[]){"f32[3] 5 1 4"}, "f32[] 4");
    kill_child();
  }
  unload(library);
}

TEST("a call works after the library's supervisor was killed") {
  tenon_library_t *library = load(CONTRACT, (tenon_isolation_t){0});
  for (int i = 0; i < 3; i++) {
    int supervisor = 0;
    check_call("contract::median", NULL, (const char *const[]){"f32[3] 5 1 4"}, "f32[] 4");
    CHECK(processes_below(1, &supervisor) == 1);
    kill(supervisor, SIGKILL);
  }
  check_call("contract::median", NULL, (const char *const[]){"f32[3] 5 1 4"}, "f32[] 4");
  unload(library);
}

TEST("a file that was replaced after it was loaded is not opened again") {
  const char *const path = TEST_LIBRARIES "/misbehave/changed.so";
  const char *const input[] = {"f32[1] 1"};
  char command[3 * 4096];
  snprintf(command, sizeof command, "cp %s %s", MISBEHAVING("halves_well"), path);
  CHECK(system(command) == 0);
  tenon_library_t *library = load(path, (tenon_isolation_t){0});
  tenon_tensor_t *out = NULL;
  check_call("halves_well::twice", NULL, input, "f32[1] 2");
  snprintf(command, sizeof command, "cp %s %s.new && mv %s.new %s", MISBEHAVING("halves_well"),
           path, path, path);
  CHECK(system(command) == 0);
  /* The library that is loaded continues to work. */
  check_call("halves_well::twice", NULL, input, "f32[1] 2");
  kill_child();
  CHECK_STATUS(call_op("halves_well::twice", NULL, input, &out), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(),
             "changed.so was changed since it was loaded: unload it and load it again");
  unload(library);
  library = load(path, (tenon_isolation_t){0});
  check_call("halves_well::twice", NULL, input, "f32[1] 2");
  unload(library);
  unlink(path);
}

typedef struct replacement_t {
  const char *from;
  const char *to;
  int after_us;
} replacement_t;

static void *replace_file(void *argument) {
  const replacement_t *r = argument;
  usleep((unsigned)r->after_us);
  CHECK(rename(r->from, r->to) == 0);
  return NULL;
}

/* The file is replaced once, at various times while its process starts. */
TEST("a file that is replaced while its process starts again does not run in its place") {
  const char *const path = TEST_LIBRARIES "/misbehave/replaced.so";
  const char *const other = TEST_LIBRARIES "/misbehave/replaced.so.new";
  const char *const input[] = {"f32[1] 1"};
  char command[6 * 4096];
  int refused = 0;
  for (int i = 0; i < 60; i++) {
    pthread_t thread;
    replacement_t r = {other, path, 60 * i};
    tenon_tensor_t *out = NULL;
    snprintf(command, sizeof command, "cp %s %s && sed s/FACTOR=2/FACTOR=3/ %s >%s && chmod 700 %s",
             MISBEHAVING("patched"), path, path, other, other);
    CHECK(system(command) == 0);
    tenon_library_t *library = load(path, (tenon_isolation_t){0});
    check_call("patched::act", NULL, input, "f32[1] 2");
    kill_child();
    CHECK(pthread_create(&thread, NULL, replace_file, &r) == 0);
    if (!i) pthread_join(thread, NULL); /* the file is another one before the process starts */
    const tenon_status_t status = call_op("patched::act", NULL, input, &out);
    if (status == TENON_OK)
      check_tensor(out, "f32[1] 2", 0, __FILE__, __LINE__);
    else
      CHECK_TEXT(tenon_error(), "changed"); /* since it was loaded, or while it was checked */
    refused += status != TENON_OK;
    tenon_tensor_release(out);
    if (i) pthread_join(thread, NULL);
    unload(library);
  }
  CHECK(refused > 0);
  unlink(path);
}

TEST("a child of fork has processes of its own, and its parent's processes go on") {
  tenon_library_t *library = load(CONTRACT, (tenon_isolation_t){0});
  check_call("contract::counter", NULL, (const char *const[]){"f32[1] 0"}, "f32[1] 0");
  const int child = fork();
  if (child == 0) {
    tenon_tensor_t *out = NULL;
    alarm(20);
    const tenon_status_t status =
        call_op("contract::counter", NULL, (const char *const[]){"f32[1] 0"}, &out);
    const int good =
        status == TENON_OK && ((float *)out->data)[0] == 0 && processes_below(2, NULL) == 1;
    tenon_tensor_release(out);
    _exit(good ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  check_call("contract::counter", NULL, (const char *const[]){"f32[1] 0"}, "f32[1] 1");
  unload(library);
}

TEST("a child of fork that releases a shared tensor leaves the parent's tensor as it was") {
  tenon_library_t *library = load(CONTRACT, (tenon_isolation_t){0});
  tenon_tensor_t *large = NULL;
  const int64_t shape[1] = {300 << 18}; /* more than is kept for reuse */
  CHECK_STATUS(tenon_library_tensor_create(library, tenon_dtype(TENON_F32), 1, shape, &large),
               TENON_OK);
  ((float *)large->data)[shape[0] / 2] = 7;
  const int child = fork();
  if (child == 0) {
    tenon_tensor_release(large);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  CHECK(((float *)large->data)[shape[0] / 2] == 7);
  tenon_tensor_release(large);
  unload(library);
}

typedef struct caller_t {
  pthread_t thread;
  float first;
  int wrong;
} caller_t;

static void *call_often(void *pointer) {
  caller_t *caller = pointer;
  const tenon_op_t *op = NULL;
  if (tenon_op_find("contract::halve", &op) != TENON_OK) caller->wrong++;
  for (int i = 0; i < 200; i++) {
    float x[2] = {caller->first + (float)i, 8};
    float y[2] = {0, 0};
    int64_t shape[1] = {2};
    int64_t in_room[1], out_room[1];
    tenon_tensor_t in, out;
    tenon_tensor_t *input = &in;
    tenon_tensor_t *output = &out;
    tenon_tensor_view(&in, x, tenon_dtype(TENON_F32), 1, shape, NULL, in_room);
    tenon_tensor_view(&out, y, tenon_dtype(TENON_F32), 1, shape, NULL, out_room);
    if (tenon_op_call_into(op, NULL, &input, &output) != TENON_OK || y[0] != x[0] / 2 || y[1] != 4)
      caller->wrong++;
  }
  return NULL;
}

TEST("more threads than a process has call slots call at once, and each gets its own answer") {
  tenon_library_t *library = load(CONTRACT, (tenon_isolation_t){.call_count = 2, .child_count = 2});
  caller_t callers[8] = {0};
  for (int i = 0; i < 8; i++) {
    callers[i].first = (float)(1000 * i);
    pthread_create(&callers[i].thread, NULL, call_often, &callers[i]);
  }
  for (int i = 0; i < 8; i++) {
    pthread_join(callers[i].thread, NULL);
    CHECK(callers[i].wrong == 0);
  }
  unload(library);
}

typedef struct napper_t {
  pthread_t thread;
  const char *name;
  tenon_tensor_t *in[2];
  tenon_tensor_t *out; /* in[1]: the gate at which the call waits */
  tenon_status_t status;
  char said[600];
} napper_t;

static void *nap(void *pointer) {
  napper_t *napper = pointer;
  const tenon_op_t *op = NULL;
  napper->status = tenon_op_find(napper->name, &op);
  if (op) napper->status = tenon_op_call(op, NULL, napper->in, &napper->out, 0);
  snprintf(napper->said, sizeof napper->said, "%s", tenon_error());
  return NULL;
}

TEST(
    "a call that another call's crash ended is repeated, unless it may have written to its input") {
  tenon_library_t *library = load(MISBEHAVING("crashes"), (tenon_isolation_t){0});
  const int64_t shape[1] = {2};
  tenon_tensor_t *crashed = NULL;
  tenon_tensor_t *gate = NULL;
  napper_t nappers[3] = {{.name = "crashes::naps"},
                         {.name = "crashes::naps_in_place"},
                         {.name = "crashes::naps_in_place"}};
  CHECK_STATUS(tenon_library_tensor_create(library, tenon_dtype(TENON_I32), 0, NULL, &gate),
               TENON_OK);
  int *count = gate->data;
  *count = 0;
  for (int i = 0; i < 3; i++) {
    nappers[i].in[0] = i == 2 ? NULL : tensor_of("f32[2] 1 2");
    nappers[i].in[1] = gate;
    if (i == 2) {
      CHECK_STATUS(
          tenon_library_tensor_create(library, tenon_dtype(TENON_F32), 1, shape, &nappers[i].in[0]),
          TENON_OK);
      memcpy(nappers[2].in[0]->data, nappers[1].in[0]->data, 2 * sizeof(float));
    }
    pthread_create(&nappers[i].thread, NULL, nap, &nappers[i]);
  }
  while (__atomic_load_n(count, __ATOMIC_SEQ_CST) < 3)
    usleep(1000);
  CHECK(*count == 3);
  CHECK_STATUS(call_op("crashes::act", NULL, (const char *const[]){"f32[1] 1"}, &crashed),
               TENON_ABORTED);
  __atomic_store_n(count, 100, __ATOMIC_SEQ_CST);
  for (int i = 0; i < 3; i++)
    pthread_join(nappers[i].thread, NULL);
  CHECK_STATUS(nappers[0].status, TENON_OK);
  if (nappers[0].out) check_tensor(nappers[0].out, "f32[2] 2 4", 0, __FILE__, __LINE__);
  CHECK_STATUS(nappers[1].status, TENON_OK); /* It wrote to a copy, so it could be repeated. */
  check_tensor(nappers[1].in[0], "f32[2] 2 3", 0, __FILE__, __LINE__);
  CHECK_STATUS(nappers[2].status, TENON_ABORTED);
  CHECK_TEXT(nappers[2].said, "ended while several calls were in it: it crashed: SIGSEGV");
  for (int i = 0; i < 3; i++) {
    tenon_tensor_release(nappers[i].in[0]);
    tenon_tensor_release(nappers[i].out);
  }
  tenon_tensor_release(gate);
  unload(library);
}

TEST("the report of a crash is its own, whatever other threads of the process do meanwhile") {
  enum { ROUNDS = 20 };
  tenon_library_t *library = load(MISBEHAVING("crashes_beside"), (tenon_isolation_t){0});
  for (int i = 0; i < ROUNDS; i++) {
    tenon_tensor_t *out = NULL;
    CHECK_STATUS(call_op("crashes_beside::act", NULL, (const char *const[]){"f32[1] 1"}, &out),
                 TENON_ABORTED);
    CHECK_TEXT(tenon_error(), "its isolated process crashed: SIGSEGV at address 0x0");
  }
  unload(library);
}

static tenon_status_t has_enough(void *state) {
  return ++*(int *)state > 3 ? TENON_CANCELLED : TENON_OK;
}

TEST("a program can end a call that takes too long by its cancellation callback") {
  tenon_library_t *library =
      load(MISBEHAVING("loops"), (tenon_isolation_t){.deadline_ms = TENON_ISOLATION_NONE});
  tenon_tensor_t *out = NULL;
  int count = 0;
  const tenon_poll_t poll = {has_enough, &count};
  tenon_poll_set(&poll);
  CHECK_STATUS(call_op("loops::act", NULL, (const char *const[]){"f32[1] 1"}, &out),
               TENON_CANCELLED);
  tenon_poll_set(NULL);
  CHECK_TEXT(tenon_error(), "because the program's poll callback stopped the call");
  check_call("loops::twice", NULL, (const char *const[]){"f32[1] 1"}, "f32[1] 2");
  unload(library);
}

TEST("files can be read where reading is allowed, and in allowed folders") {
  static const char *const elsewhere[] = {"/nowhere", "/root"};
  static const char *const there[] = {"/etc"};
  tenon_isolation_t isolation = {.allow = TENON_ALLOW_READ};
  tenon_library_t *library = load(MISBEHAVING("reads_file"), isolation);
  check_call("reads_file::act", NULL, (const char *const[]){"f32[1] 0"},
             "f32[1] 114"); /* the letter "r" of "root" */
  unload(library);
  isolation.readable = there;
  isolation.readable_count = 1;
  library = load(MISBEHAVING("reads_file"), isolation);
  check_call("reads_file::act", NULL, (const char *const[]){"f32[1] 0"}, "f32[1] 114");
  unload(library);
  isolation.readable = elsewhere;
  isolation.readable_count = 2;
  library = load(MISBEHAVING("reads_file"), isolation);
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(call_op("reads_file::act", NULL, (const char *const[]){"f32[1] 0"}, &out),
               TENON_DENIED);
  CHECK_TEXT(tenon_error(), "the file could not be read");
  unload(library);
}

TEST("the program alone checks the rules for loading: a file of rules that it does not use, or "
     "that the worker process may not read, is ignored") {
  const char *folders[] = {TEST_LIBRARIES};
  const tenon_policy_t policy = {.size = sizeof policy, .folder_count = 1, .folders = folders};
  setenv("TENON_POLICY", "/nowhere/rules", 1);
  CHECK_STATUS(tenon_policy_set(&policy), TENON_OK);
  tenon_library_t *library = load(CONTRACT, (tenon_isolation_t){0});
  if (library) unload(library);
  folders[0] = "/nowhere";
  CHECK_STATUS(tenon_policy_set(&policy), TENON_OK);
  const tenon_isolation_t isolation = {.size = sizeof isolation, .allow = TENON_ALLOW_EXTEND};
  CHECK_STATUS(tenon_library_load_isolated(CONTRACT, TENON_LOAD_UNLOADABLE, &isolation, &library),
               TENON_DENIED);
  CHECK_TEXT(tenon_error(), "rule folders (tenon_policy_set)");
  unsetenv("TENON_POLICY");
  CHECK_STATUS(tenon_policy_set(NULL), TENON_OK);
}

TEST("sockets, and files to write, can be opened where that is allowed") {
  static const char *const ours[] = {TEST_LIBRARIES "/misbehave"};
  static const char *const elsewhere[] = {"/nowhere"};
  static const char *const input[] = {"f32[1] -1"};
  static const char made[] =
      TEST_LIBRARIES "/misbehave/written--1"; /* isolation_rounds writes files with other names. */
  tenon_tensor_t *out = NULL;
  tenon_library_t *library =
      load(MISBEHAVING("connects"), (tenon_isolation_t){.allow = TENON_ALLOW_NETWORK});
  CHECK_STATUS(call_op("connects::act", NULL, input, &out), TENON_OK);
  tenon_tensor_release(out);
  out = NULL;
  unload(library);
  tenon_isolation_t isolation = {
      .allow = TENON_ALLOW_WRITE, .writable = elsewhere, .writable_count = 1};
  library = load(MISBEHAVING("writes_file"), isolation);
  CHECK_STATUS(call_op("writes_file::act", NULL, input, &out), TENON_DENIED);
  CHECK_TEXT(tenon_error(), "the file could not be made");
  CHECK(access(made, F_OK) != 0);
  unload(library);
  isolation.writable = ours;
  library = load(MISBEHAVING("writes_file"), isolation);
  CHECK_STATUS(call_op("writes_file::act", NULL, input, &out), TENON_OK);
  tenon_tensor_release(out);
  CHECK(unlink(made) == 0);
  unload(library);
}

TEST("loading an isolated library again gives the same library, and with other settings it is an "
     "error") {
  tenon_isolation_t isolation = {.size = sizeof isolation, .allow = TENON_ALLOW_EXTEND};
  tenon_library_t *library = load(CONTRACT, isolation);
  tenon_library_t *again = NULL;
  CHECK_STATUS(tenon_library_load_isolated(CONTRACT, 0, &isolation, &again), TENON_OK);
  CHECK(again == library);
  tenon_library_release(again);
  CHECK_STATUS(tenon_library_load(CONTRACT, TENON_LOAD_UNLOADABLE, &again), TENON_OK);
  CHECK(again == library);
  tenon_library_release(again);
  isolation.deadline_ms = 77;
  CHECK_STATUS(tenon_library_load_isolated(CONTRACT, 0, &isolation, &again), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "isolated with other settings");
  tenon_library_release(library);
  tenon_shutdown();
  CHECK_STATUS(tenon_library_load(CONTRACT, TENON_LOAD_UNLOADABLE, &library), TENON_OK);
  CHECK_STATUS(tenon_library_load_isolated(CONTRACT, 0, &isolation, &again), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "it is already loaded into this process");
  CHECK_STATUS(tenon_library_unload(library), TENON_OK);
}

TEST("wrong settings, and libraries that cannot be isolated, are refused") {
  static const char *const relative[] = {"here"};
  tenon_library_t *library = NULL;
  tenon_isolation_t isolation = {.size = sizeof isolation, .allow = 1u << 30};
  CHECK_STATUS(tenon_library_load_isolated(CONTRACT, 0, &isolation, &library), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "unknown bits 0x40000000 in `allow`");
  isolation = (tenon_isolation_t){.size = sizeof isolation, .child_count = 9};
  CHECK_STATUS(tenon_library_load_isolated(CONTRACT, 0, &isolation, &library), TENON_RANGE);
  isolation =
      (tenon_isolation_t){.size = sizeof isolation, .readable_count = 1, .readable = relative};
  CHECK_STATUS(tenon_library_load_isolated(CONTRACT, 0, &isolation, &library), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "expected an absolute path");
  isolation = (tenon_isolation_t){0};
  CHECK_STATUS(tenon_library_load_isolated(CONTRACT, 0, &isolation, &library), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "tenon_isolation_t.size is not set");
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/libpartner.so", TENON_LOAD_ISOLATED, &library),
               TENON_INVALID);
  CHECK_TEXT(tenon_error(), "which no loaded library defines");
  CHECK(library == NULL && processes_below(1, NULL) == 0);
  tenon_tensor_t *tensor = NULL;
  const int64_t shape[1] = {1};
  CHECK_STATUS(tenon_library_load(CONTRACT, TENON_LOAD_UNLOADABLE, &library), TENON_OK);
  CHECK_STATUS(tenon_library_tensor_create(library, tenon_dtype(TENON_F32), 1, shape, &tensor),
               TENON_PRECONDITION);
  CHECK_STATUS(tenon_library_unload(library), TENON_OK);
}

TEST("kernels for other libraries' operators are accepted only where that is allowed") {
  static const char *const f64[] = {"f64[2] 1 2", "f64[2] 3 4"};
  static const char *const f32[] = {"f32[2] 1 2", "f32[2] 3 4"};
  tenon_library_t *library = NULL;
  CHECK_STATUS(tenon_library_load(MISBEHAVING("extends"), TENON_LOAD_ISOLATED, &library),
               TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "it adds kernels to core::add, an operator of another library: load it "
                            "with TENON_ALLOW_EXTEND");
  check_call("core::add", NULL, f64, "f64[2] 4 6");
  library = load(MISBEHAVING("extends"), (tenon_isolation_t){0});
  check_call("core::add", NULL, f64, "f64[2] 42 42");
  check_call("core::add", NULL, f32, "f32[2] 4 6");
  unload(library);
  check_call("core::add", NULL, f64, "f64[2] 4 6");
}

TEST("nothing is left behind") {
  tenon_shutdown();
  CHECK(processes_below(1, NULL) == 0);
  CHECK(shared_mappings() == 0);
}
