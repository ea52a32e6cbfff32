/* What a host does with Tenon, while requests to the system fail: an allocation, a file, a map, a
 * thread, a program, a stream. The n-th request fails, or the n-th and all after it, or a random
 * share. The outcome must always be an error with a message, or the right result; nothing leaks,
 * and the next attempt gives the bits of the first.
 *
 * FAULT_EVERY=N tries only each N-th request (1; 50 where a whole run takes minutes), from
 * FAULT_FROM on (by date); FAULT_RANDOM=N tries N random plans; FAULT_MODEL names the model's file,
 * build/zoo/minilm_twin.onnx of bench/models/make_zoo.py. */
#include "base/status.h"
#include "check.h"
#include "core/tensor.h"
#include "sanitizer.h"
#include "tensors.h"

#include "operators.h"

#include <dirent.h>
#include <execinfo.h>
#include <math.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"
#include "device/there.h"

#include "device/refusing.h"
#ifdef IS_INSTRUMENTED
#include <sanitizer/lsan_interface.h>
size_t __sanitizer_get_current_allocated_bytes(void); /* gcc installs no header of it */
#else
#include "allocator.h"
#endif

enum {
  PORTS = 8,
  THREADS = 4,
  LARGE = 1 << 16,
};
#define TRY(call)                                                                                  \
  do {                                                                                             \
    if ((status = (call)) != TENON_OK) goto end;                                                   \
  } while (0)

/* Adds the bits of the results to *out_bits; frees all that it made, also if it fails. */
typedef tenon_status_t (*verbs_fn)(uint64_t *out_bits);

static char folder[64];
static tenon_status_t use_runtime(uint64_t *out_bits);

static void add_bits(uint64_t *bits, const void *data, size_t size) {
  const unsigned char *at = data;
  for (size_t i = 0; i < size; i++)
    *bits = (*bits ^ at[i]) * 1099511628211u;
}

static void add_tensor(uint64_t *bits, const tenon_tensor_t *t) {
  add_bits(bits, t->shape, (size_t)t->ndim * sizeof *t->shape);
  add_bits(bits, t->data, (size_t)tenon_count(t) * t->dtype.bits / 8);
}

/* counters */

typedef struct held_t {
  int64_t bytes;
  int64_t files;
  int64_t threads;
} held_t;

static int64_t entries(const char *path) {
  int64_t count = 0;
  DIR *list = opendir(path);
  while (list && readdir(list))
    count++;
  if (list) closedir(list);
  return count;
}

static tenon_device_t device;

/* What a device still works with is no leak. It is released when the work is done, which takes
 * longer on a busy machine. The status is that of work which an attempt has made fail. */
static void settle(void) {
  if (!device.type) return;
  (void)tenon_device_synchronize(device);
  CHECK_STATUS(tenon_memory_trim(device), TENON_OK);
}

static held_t held(void) {
  settle();
#ifdef IS_INSTRUMENTED
  int64_t bytes = (int64_t)__sanitizer_get_current_allocated_bytes();
#else
  int64_t bytes = allocator_held();
#endif
  return (held_t){bytes, entries("/proc/self/fd"), entries("/proc/self/task")};
}

/* attempts */

typedef struct trial_t {
  const char *name;
  verbs_fn verbs;
  uint64_t expected;
  int64_t failed; /* attempts so far that ended with an error */
} trial_t;

static void complain(const trial_t *t, const fault_plan_t *plan, const char *what) {
  char text[1000];
  if (plan->at)
    snprintf(text, sizeof text, "%s: request %lld%s: %s", t->name, (long long)plan->at,
             plan->times > 1 ? " and all after it" : "", what);
  else
    snprintf(text, sizeof text, "%s: seed %llu, one in %u: %s", t->name,
             (unsigned long long)plan->seed, (unsigned)plan->share, what);
  check_report(0, __FILE__, __LINE__, text, tenon_error());
}

/* Makes one failing attempt and one that succeeds; returns how many requests the first one made. */
static int64_t attempt(trial_t *t, const fault_plan_t *plan) {
  uint64_t bits = 0;
  /* Scratch memory must be allocated again, and an old message must not be taken for a new one. */
  tn_thread_drop();
  fault_begin(plan);
  tenon_status_t status = t->verbs(&bits);
  int64_t asked = fault_count(FAULT_KINDS);
  fault_end();
  t->failed += status != TENON_OK;
  if (status == TENON_OK && bits != t->expected) complain(t, plan, "a wrong result");
  if (status != TENON_OK && !*tenon_error() && t->verbs != use_runtime)
    complain(t, plan, "an error without a text");
  if (status == TENON_INTERNAL) complain(t, plan, "an error that Tenon did not expect");
  bits = 0;
  if (t->verbs(&bits) != TENON_OK)
    complain(t, plan, "the next attempt fails");
  else if (bits != t->expected)
    complain(t, plan, "the next attempt gives other bits");
  return asked;
}

/* Does the same, and checks that nothing stays allocated: what stays grows with each further
 * attempt. */
static int64_t attempt_held(trial_t *t, const fault_plan_t *plan) {
  enum { AGAIN = 5 };
  held_t before = held();
  int64_t asked = attempt(t, plan);
  held_t after = held();
  for (int again = 0;; again++) {
    if (after.bytes <= before.bytes && after.files <= before.files &&
        after.threads <= before.threads)
      return asked;
    if (again == AGAIN) break;
    before = after;
    (void)attempt(t, plan);
    after = held();
  }
  char text[200];
  snprintf(text, sizeof text, "%lld bytes, %lld descriptors, %lld threads are lost each time",
           (long long)(after.bytes - before.bytes), (long long)(after.files - before.files),
           (long long)(after.threads - before.threads));
  complain(t, plan, text);
  return asked;
}

static int64_t setting(const char *name, int64_t usual) {
  const char *text = getenv(name);
  return text && *text ? strtoll(text, NULL, 10) : usual;
}

/* `usual`: the distance between failing requests if FAULT_EVERY is not set. */
static void try_all(const char *name, verbs_fn verbs, int64_t usual) {
  trial_t t = {name, verbs, 0, 0};
  int64_t every = setting("FAULT_EVERY", usual);
  int64_t from = setting("FAULT_FROM", (int64_t)(time(NULL) / 86400));
  int64_t random = setting("FAULT_RANDOM", 40);
  int64_t requests = 0;
  for (int warm = 0; warm < 3;
       /* The kernels of the first run of a process may be tuned during it. */
       warm++) {
    uint64_t bits = 0;
    if (!CHECK_STATUS(verbs(&bits), TENON_OK)) return;
    CHECK(warm < 2 || bits == t.expected);
    t.expected = bits;
  }
  if (every < 1) every = 1;
  for (int sticky = 0; sticky < 2 && check_failures < 20; sticky++)
    for (int64_t n = 1 + from % every, asked = n; check_failures < 20; n += every) {
      fault_plan_t plan = {.kinds = FAULT_ALL, .at = n, .times = sticky ? INT64_MAX : 1};
      asked = attempt_held(&t, &plan);
      if (asked > requests) requests = asked;
      if (asked < n) break; /* The request was not reached. */
    }
  for (int64_t i = 0; i < random && check_failures < 20; i++) {
    fault_plan_t plan = {
        .kinds = FAULT_ALL, .seed = (uint64_t)(from * 1000 + i), .share = 1u << (2 + i % 10)};
    (void)attempt_held(&t, &plan);
  }
#ifdef HAS_ASAN
  CHECK(__lsan_do_recoverable_leak_check() == 0);
#endif
  CHECK(t.failed > 0 || every > requests);
  printf("%s: %lld requests, each %lld from %lld on; %lld attempts failed\n", name,
         (long long)requests, (long long)every, (long long)(1 + from % every), (long long)t.failed);
  fflush(stdout);
}

/* libraries */

static tenon_status_t call_of(const tenon_op_t *op, int64_t count, uint64_t *bits) {
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  tenon_status_t status;
  TRY(tenon_tensor_create(tenon_dtype(TENON_F32), 1, &count, &x));
  for (int64_t i = 0; i < count; i++)
    ((float *)x->data)[i] = (float)i / 8;
  TRY(tenon_op_call(op, NULL, &x, &y, 0));
  add_tensor(bits, y);
end:
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  return status;
}

/* Loads a library, calls its operators, reads its description and unloads it. */
static tenon_status_t use_library(uint64_t *bits) {
  tenon_library_t *library = NULL;
  tenon_library_t *other = NULL;
  const tenon_op_t *op;
  char *text = NULL;
  tenon_status_t status;
  TRY(tenon_library_load(TEST_LIBRARIES "/libopens.so", TENON_LOAD_UNLOADABLE, &other));
  TRY(tenon_library_load(TEST_LIBRARIES "/libgood.so", TENON_LOAD_UNLOADABLE, &library));
  TRY(tenon_op_find("good::doubles", &op));
  TRY(call_of(op, 5, bits));
  TRY(tenon_library_inspect(TEST_LIBRARIES "/libgood.so", &text, NULL));
  add_bits(bits, text, strlen(text));
  tenon_text_release(text);
  text = NULL;
  TRY(tenon_op_dump(op, &text));
  TRY(tenon_library_unload(library));
  library = NULL;
end:
  tenon_text_release(text);
  tenon_library_release(library);
  tenon_library_release(other);
  return status;
}

/* Starts the runtime, uses it and ends it. */
static tenon_status_t use_runtime(uint64_t *bits) {
  const tenon_op_t *op;
  tenon_status_t status;
  TRY(tenon_start());
  TRY(tenon_op_find("core::exp", &op));
  tenon_threads_set(THREADS);
  TRY(call_of(op, LARGE, bits));
end:
  /* The shutdown frees the message. */
  CHECK(status == TENON_OK || *tenon_error());
  tenon_shutdown();
  return status;
}

/* models */

static const char *model_path(void) {
  static char path[600];
  const char *build = getenv("TENON_BUILD");
  const char *given = getenv("FAULT_MODEL");
  if (given)
    snprintf(path, sizeof path, "%s", given);
  else
    snprintf(path, sizeof path, "%s/zoo/minilm_twin.onnx", build ? build : "build");
  return access(path, R_OK) == 0 ? path : NULL;
}

/* Makes the tokens 1, 2, ... and a mask of ones. */
static tenon_status_t input_of(const tenon_graph_t *graph, int32_t i, tenon_tensor_t **out_input) {
  int64_t shape[TENON_RANK_MAX];
  tenon_port_t port = {.size = sizeof port};
  TENON_TRY(tenon_graph_input(graph, i, &port));
  for (int32_t d = 0; d < port.ndim; d++)
    shape[d] = port.axes[d].extent < 0 ? 8 : port.axes[d].extent;
  TENON_TRY(tenon_tensor_create(port.dtype, port.ndim, shape, out_input));
  for (int64_t k = 0; k < tenon_count(*out_input); k++)
    ((int64_t *)(*out_input)->data)[k] = strstr(port.name, "mask") ? 1 : k + 1;
  return TENON_OK;
}

/* A sum of the results of the last model, in which each place counts differently. */
static double result_sum;

static void add_results(const tenon_tensor_t *t) {
  for (int64_t i = 0; tenon_dtype_id(t->dtype) == TENON_F32 && i < tenon_count(t); i++)
    result_sum += (double)((const float *)t->data)[i] * (double)(1 + i % 7);
}

/* Imports, compiles and runs a model twice, and saves and loads its results. */
static tenon_status_t run_model(const tenon_compile_t *options, uint64_t *bits) {
  tenon_graph_t *graph = NULL;
  tenon_executable_t *e = NULL;
  tenon_tensor_t *inputs[PORTS] = {NULL};
  tenon_tensor_t *outputs[PORTS] = {NULL};
  tenon_tensor_t *back = NULL;
  char *text = NULL;
  char path[100];
  tenon_status_t status;
  snprintf(path, sizeof path, "%s/y.npy", folder);
  TRY(tenon_graph_load(model_path(), NULL, &graph));
  TRY(tenon_executable_create(graph, options, &e));
  int32_t input_count = tenon_graph_input_count(graph);
  int32_t output_count = tenon_graph_output_count(graph);
  if (input_count > PORTS || output_count > PORTS)
    return tn_fail(TENON_RANGE, "more ports than this test has");
  for (int32_t i = 0; i < input_count; i++)
    TRY(input_of(graph, i, &inputs[i]));
  for (int run = 0; run < 2; run++) {
    for (int32_t o = 0; o < output_count; o++) {
      tenon_tensor_release(outputs[o]);
      outputs[o] = NULL;
    }
    status = tenon_executable_run(e, inputs, outputs, NULL);
    for (int32_t o = 0; o < output_count; o++)
      CHECK((outputs[o] != NULL) == (status == TENON_OK));
    if (status != TENON_OK) goto end;
    result_sum = 0;
    for (int32_t o = 0; o < output_count; o++) {
      add_tensor(bits, outputs[o]);
      add_results(outputs[o]);
    }
  }
  TRY(tenon_tensor_save(outputs[0], path));
  TRY(tenon_tensor_load(path, &back));
  add_tensor(bits, back);
  TRY(tenon_executable_dump(e, "plan", &text));
end:
  tenon_text_release(text);
  tenon_tensor_release(back);
  for (int32_t i = 0; i < PORTS; i++) {
    tenon_tensor_release(inputs[i]);
    tenon_tensor_release(outputs[i]);
  }
  tenon_executable_release(e);
  tenon_graph_release(graph);
  return status;
}

static tenon_status_t use_model(uint64_t *bits) {
  tenon_status_t status = use_library(bits);
  return status == TENON_OK ? run_model(NULL, bits) : status;
}

/* Does the same on a device, on a stream of its own, since a failed stream stays failed. */
static tenon_status_t use_device(uint64_t *bits) {
  tenon_compile_t options = {.size = sizeof options, .device = device};
  tenon_stream_t *stream = NULL;
  tenon_status_t status;
  TRY(tenon_stream_create(device, &stream));
  TRY(tenon_stream_use(device, stream, NULL));
  TRY(run_model(&options, bits));
end:
  (void)tenon_stream_use(device, NULL, NULL);
  tenon_stream_release(stream);
  return status;
}

/* libraries from source */

static const char source[] = "#include <tenon/op.h>\n"
                             "static tenon_status_t half(const tenon_loop_t *loop) {\n"
                             "  const float *x = (const float *)loop->data[0];\n"
                             "  float *y = (float *)loop->data[1];\n"
                             "  for (int64_t i = 0; i < loop->count; i++) y[i] = x[i] / 2;\n"
                             "  return TENON_OK;\n"
                             "}\n"
                             "TENON_LIBRARY(halves, \"1\", TENON_OP(\"half(Tensor x) -> Tensor\", "
                             "TENON_TYPES(\"x: f32; out = x\"),\n"
                             "  TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_GRADIENT(\"x: "
                             "none\"), TENON_LOOP(\"f32 -> f32\", half)))\n";

static tenon_status_t use_source(uint64_t *bits) {
  tenon_library_t *library = NULL;
  const tenon_op_t *op;
  char path[100];
  tenon_status_t status;
  snprintf(path, sizeof path, "%s/halves.c", folder);
  TRY(tenon_library_load_source(path, TENON_LOAD_UNLOADABLE, &library));
  TRY(tenon_op_find("halves::half", &op));
  TRY(call_of(op, 5, bits));
end:
  tenon_library_release(library);
  return status;
}

/* isolated libraries */

static tenon_status_t use_isolated(uint64_t *bits) {
  const tenon_isolation_t isolation = {.size = sizeof isolation, .shared = 64 << 20};
  tenon_library_t *library = NULL;
  const tenon_op_t *op;
  tenon_status_t status;
  TRY(tenon_library_load_isolated(TEST_LIBRARIES "/libgood.so", TENON_LOAD_UNLOADABLE, &isolation,
                                  &library));
  TRY(tenon_op_find("good::doubles", &op));
  TRY(call_of(op, 5, bits));
end:
  tenon_library_release(library);
  return status;
}

/* all */

static void begin(void) {
  if (*folder) return;
  snprintf(folder, sizeof folder, "/tmp/tenon-verbs-XXXXXX");
  char path[100];
  CHECK(mkdtemp(folder) != NULL);
  CHECK(setenv("TENON_CACHE", folder, 1) ==
        /* Compiled code stays cached from the first time on. */
        0);
  snprintf(path, sizeof path, "%s/halves.c", folder);
  FILE *file = fopen(path, "w");
  if (CHECK(file && fputs(source, file) >= 0)) fclose(file);
}

TEST("the runtime starts, works and ends, or reports why it cannot") {
  begin();
  try_all("runtime", use_runtime, 50);
}

TEST("a library is loaded, called and unloaded, or is not loaded at all") {
  begin();
  CHECK_STATUS(tenon_start(), TENON_OK);
  try_all("library", use_library, 1);
}

TEST("a library is built from source and loaded, or is not loaded at all") {
  begin();
  try_all("source", use_source, 10);
}

TEST("a library is loaded into a worker process, called and unloaded, or is not loaded at all") {
  begin();
  try_all("isolated", use_isolated, 10);
}

TEST("a model is imported, compiled and run, or the failure is reported") {
  begin();
  if (!model_path())
    SKIP("build/zoo/minilm_twin.onnx is not there (bench/models/make_zoo.py makes it)");
  try_all("model", use_model, 50);
}

/* sim remembers memory that was released last, so that it finds later uses; that must not look like
 * a leak. */
static void fill_memory_of_sim(void) {
  enum { REMEMBERED = 1100 };
  int64_t count = 1;
  for (int i = 0; i < REMEMBERED && check_failures == 0; i++) {
    tenon_tensor_t *t = NULL;
    CHECK_STATUS(tenon_tensor_create_on(device, tenon_dtype(TENON_F32), 1, &count, &t), TENON_OK);
    tenon_tensor_release(t);
    CHECK_STATUS(tenon_memory_trim(device), TENON_OK);
  }
}

TEST("a model is imported, compiled and run on a device, or the failure is reported") {
  begin();
  if (!model_path())
    SKIP("build/zoo/minilm_twin.onnx is not there (bench/models/make_zoo.py makes it)");
  device = sim_open(0, "check=count");
  fill_memory_of_sim();
  refusing_begin(device);
  try_all("device", use_device, 500);
  refusing_end(device);
}

/* requests of other libraries */

#ifndef IS_INSTRUMENTED
enum {
  FINE,
  FAILED,
  WRONG,
  NEXT_FAILED,
  OURS_CRASHED,
  THEIRS_CRASHED,
  ENDS,
};

/* Determines whose code failed: that of the frame in which the signal arrived. */
static void crashed(int signal) {
  extern char __executable_start[], etext[];
  void *frames[3];
  int count = backtrace(frames, 3);
  const char *at = count == 3 ? frames[2] : NULL;
  _exit(signal == SIGSEGV && at >= __executable_start && at < etext ? OURS_CRASHED
                                                                    : THEIRS_CRASHED);
}

/* Whether the results are the expected ones: without memory for packed weights other kernels run,
 * whose last bits differ. */
static bool is_expected(uint64_t bits, const uint64_t *expected, double sum) {
  return bits == expected[0] || bits == expected[1] || fabs(result_sum - sum) <= 1e-4 * fabs(sum);
}

static int in_child_process(uint64_t seed, uint32_t share, const uint64_t *expected) {
  const double sum = result_sum;
  uint64_t bits = 0;
  uint64_t next = 0;
  void *frames[1];
  (void)backtrace(frames, 1); /* This loads the libraries that backtrace needs. */
  (void)signal(SIGSEGV, crashed);
  (void)signal(SIGABRT, crashed);
  allocator_fail(seed, share);
  tenon_status_t status = use_model(&bits);
  allocator_fail(0, 0);
  if (status == TENON_OK && !is_expected(bits, expected, sum)) return WRONG;
  if (use_model(&next) != TENON_OK) return NEXT_FAILED;
  if (!is_expected(next, expected, sum)) return WRONG;
  return status == TENON_OK ? FINE : FAILED;
}
#endif

TEST("when other libraries get no memory, Tenon's own code goes on or reports the failure") {
#ifdef IS_INSTRUMENTED
  SKIP("sanitizers have allocators of their own");
#else
  static const char *const ends[ENDS] = {
      "fine", "an error", "wrong", "the next failed", "crash of ours", "crash of theirs"};
  int64_t found[ENDS] = {0};
  int64_t others = setting("FAULT_OTHERS", 20);
  int64_t from = setting("FAULT_FROM", time(NULL) / 86400);
  uint64_t expected[2] = {0};
  begin();
  if (!model_path())
    SKIP("build/zoo/minilm_twin.onnx is not there (bench/models/make_zoo.py makes it)");
  /* The first run of a process has other kernels than the next one: see try_all. */
  tenon_shutdown();
  CHECK_STATUS(use_model(&expected[0]), TENON_OK);
  CHECK_STATUS(use_model(&expected[1]), TENON_OK);
  tenon_shutdown();
  for (int64_t i = 0; i < others; i++) {
    uint64_t seed = (uint64_t)(from * 1000 + i);
    int status = -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
      _exit(alarm(120) ? FAILED : in_child_process(seed, 1u << (3 + i % 9), expected));
    CHECK(waitpid(child, &status, 0) == child);
    int end =
        WIFEXITED(status) && WEXITSTATUS(status) < ENDS ? WEXITSTATUS(status) : THEIRS_CRASHED;
    char what[80];
    snprintf(what, sizeof what, "seed %llu, one in %u: %s", (unsigned long long)seed,
             1u << (3 + i % 9), ends[end]);
    check_report(end != WRONG && end != NEXT_FAILED && end != OURS_CRASHED, __FILE__, __LINE__,
                 what, NULL);
    found[end]++;
  }
  for (int end = 0; end < ENDS; end++)
    printf("others: %s: %lld\n", ends[end], (long long)found[end]);
#endif
}

TEST("nothing is left behind") {
  char command[100];
  tenon_shutdown();
  snprintf(command, sizeof command, "rm -rf %s", folder);
  CHECK(system(command) == 0);
}
