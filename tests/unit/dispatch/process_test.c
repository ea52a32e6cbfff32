/* Processes: a child of fork calls, registers, runs loops and executables, and unloads, whatever
 * other threads of its parent did at that moment. If the system refuses membarrier, everything
 * works except unloading, which reports the reason. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/parallel.h"
#include "base/thread.h"
#include "check.h"
#include "sanitizer.h"
#include "tensors.h"

#include "operators.h"
#include "probes.h"

#ifdef HAS_ASAN
enum { MANY_THREADS = 0 };
#else
enum { MANY_THREADS = 1 };
#endif

TENON_C const tenon_descriptor_t *tenon_library_contract(void);

static double id[] = {0, 1, 2, 3};
static tenon_library_t *partner;
static tenon_executable_t *executable;

static tenon_status_t load_partner(uint32_t flags) {
  return tenon_library_load(TEST_LIBRARIES "/libpartner.so", flags, &partner);
}

/* A sum over so many elements that several threads share it. */
static void check_loop(void) {
  int64_t extent = 1 << 20;
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 1, &extent, &x), TENON_OK);
  for (int64_t i = 0; i < extent; i++)
    ((float *)x->data)[i] = 1;
  CHECK_STATUS(tenon_op_call(op_of("core::add"), NULL, (tenon_tensor_t *[]){x, x}, &out, 0),
               TENON_OK);
  for (int64_t i = 0; out && i < extent; i++)
    if (((float *)out->data)[i] != 2 && CHECK(((float *)out->data)[i] == 2) == 0) break;
  tenon_tensor_release(x);
  tenon_tensor_release(out);
}

static void check_graph_runs(void) {
  int64_t shape[2] = {256, 256};
  tenon_tensor_t *inputs[2] = {NULL};
  tenon_tensor_t *out = NULL;
  for (int i = 0; i < 2; i++) {
    CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 2, shape, &inputs[i]), TENON_OK);
    for (int64_t k = 0; k < 256 * 256; k++)
      ((float *)inputs[i]->data)[k] = (float)(i + 1);
  }
  CHECK_STATUS(tenon_executable_run(executable, inputs, &out, NULL), TENON_OK);
  CHECK(out && ((float *)out->data)[0] == 512 && ((float *)out->data)[256 * 256 - 1] == 512);
  for (int i = 0; i < 2; i++)
    tenon_tensor_release(inputs[i]);
  tenon_tensor_release(out);
}

static void check_registering(void) {
  tenon_registration_t *r = probe_add("probe::plain", "npu", &id[1], 0);
  tenon_registration_t *s = probe_add("probe::plain", "npu", &id[2], TENON_OVERRIDE);
  tenon_device_t device;
  CHECK_ANSWER("probe::plain", "npu", 2);
  tenon_registration_release(s);
  CHECK_ANSWER("probe::plain", "npu", 1);
  tenon_registration_release(r);
  CHECK_STATUS(tenon_device_find("of_this_process", 0, &device), TENON_OK);
}

static void begin(void) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t inputs[16] = {graph_input(b, "x", TENON_F32, 2), graph_input(b, "y", TENON_F32, 2),
                             -1, -1};
  tenon_edge_t product;
  setenv("TENON_THREADS", MANY_THREADS ? "4" : "1", 1);
  CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
  probe_start();
  graph_node(b, NULL, "core::matmul", NULL, inputs, &product, 1);
  graph_output(b, "product", product);
  executable = graph_compile(b, 0);
  /* threads were started, and states created */
  check_loop();
  check_graph_runs();
  check_registering();
}

/* Runs a function in a child, which must end within half a minute and without a failed check. */
static void in_child(void (*function)(void)) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    alarm(30);
    check_failures = 0;
    function();
    _exit(check_failures ? 1 : 0);
  }
  int status = 0;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  char text[100];
  snprintf(text, sizeof text, "a child ended with status %#x", (unsigned)status);
  check_report(status == 0, __FILE__, __LINE__, "a child that finds nothing wrong", text);
}

#ifdef HAS_TSAN
TEST("a child of fork calls, registers, loops and unloads") {
  SKIP("the thread sanitizer ends children of processes with threads");
}
#else

static int over;

static void halve_often(void *pointer) {
  double in[4096] = {0};
  double out[4096];
  int64_t extent = 4096;
  int64_t strides[2];
  tenon_tensor_t x, y;
  tenon_tensor_t *inputs[1] = {&x};
  tenon_tensor_t *outputs[1] = {&y};
  CHECK_STATUS(tenon_tensor_view(&x, in, tenon_dtype(TENON_F64), 1, &extent, NULL, &strides[0]),
               TENON_OK);
  CHECK_STATUS(tenon_tensor_view(&y, out, tenon_dtype(TENON_F64), 1, &extent, NULL, &strides[1]),
               TENON_OK);
  while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
    CHECK_STATUS(tenon_op_run(pointer, NULL, inputs, outputs), TENON_OK);
}

static void work(void) {
  check_loop();
  check_graph_runs();
  check_registering();
  /* No call is inside it in this process. */
  CHECK_STATUS(tenon_library_unload(partner), TENON_OK);
  CHECK_STATUS(load_partner(TENON_LOAD_UNLOADABLE), TENON_OK);
  CHECK_STATUS(tenon_library_unload(partner), TENON_OK);
}

static void work_and_end(void) {
  work();
  tenon_executable_release(executable);
  tenon_shutdown();
}

TEST("a child of fork calls, registers, loops, runs executables and unloads") {
  begin();
  CHECK_STATUS(load_partner(TENON_LOAD_UNLOADABLE), TENON_OK);
  in_child(work);
  check_loop();
  check_graph_runs();
  in_child(work_and_end);
  check_loop();
  check_graph_runs();
  CHECK_STATUS(tenon_library_unload(partner), TENON_OK);
}

#define NO_THREADS                                                                                 \
  "a child of fork hangs in the address sanitizer's allocator if a thread of its parent was in it"

TEST("a child of fork does so, too, while a thread of its parent is in the library") {
  tn_spawned_t thread;
  if (!MANY_THREADS) SKIP(NO_THREADS);
  CHECK_STATUS(load_partner(TENON_LOAD_UNLOADABLE), TENON_OK);
  over = 0;
  CHECK(tn_spawn(&thread, halve_often, (void *)(uintptr_t)op_of("contract::halve")));
  for (int i = 0; i < 10; i++) {
    in_child(i < 8 ? work : work_and_end);
    check_loop();
    check_graph_runs();
  }
  over = 1;
  tn_join(&thread);
  CHECK_STATUS(tenon_library_unload(partner), TENON_OK);
}

static void register_often(void *pointer) {
  const char *backend = pointer;
  while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
    tenon_registration_t *r = probe_add("probe::plain", backend, &id[3], 0);
    tenon_registration_t *f = probe_fallback(backend, &id[2], 0);
    tenon_registration_release(r);
    tenon_registration_release(f);
  }
}

TEST("a child of fork finds complete tables, and can change them, while other threads of its "
     "parent change theirs") {
  tn_spawned_t threads[2];
  if (!MANY_THREADS) SKIP(NO_THREADS);
  over = 0;
  for (int i = 0; i < 2; i++)
    CHECK(tn_spawn(&threads[i], register_often, i ? "back" : "front"));
  for (int i = 0; i < 30; i++)
    in_child(check_registering);
  over = 1;
  for (int i = 0; i < 2; i++)
    tn_join(&threads[i]);
}
#endif

/* without membarrier */

static void refuse_membarrier(void) {
  static struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                                      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
                                      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void without_barrier(void) {
  tenon_tensor_t *x = tensor_of("f64[2] 2 4");
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(load_partner(TENON_LOAD_UNLOADABLE), TENON_OK);
  refuse_membarrier();
  CHECK_STATUS(tenon_library_unload(partner), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "cannot unload library partner: this system cannot tell whether a call "
                            "is in it (membarrier)");
  CHECK_STATUS(tenon_op_call(op_of("contract::halve"), NULL, &x, &out, 0),
               TENON_OK); /* Nothing has changed. */
  CHECK_TENSOR(out, "f64[2] 1 2");
  check_registering();
  char *text = NULL;
  CHECK_STATUS(tenon_doctor(&text), TENON_OK);
  CHECK_TEXT(text, "unloading        no: the system call membarrier is missing or refused\n");
  tenon_text_release(text);
  tenon_tensor_release(x);
  tenon_tensor_release(out);
}

static void load_without_barrier(void) {
  refuse_membarrier();
  CHECK_STATUS(load_partner(TENON_LOAD_UNLOADABLE), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "libpartner.so: TENON_LOAD_UNLOADABLE: this system cannot tell whether "
                            "a call is in a library");
  CHECK_STATUS(load_partner(0), TENON_OK);
  CHECK_STATUS(tenon_library_unload(partner), TENON_PRECONDITION);
}

TEST("without membarrier, unloading and loading as unloadable are refused, and calls and "
     "registrations work") {
#ifdef HAS_TSAN
  begin();
#endif
  in_child(without_barrier);
  in_child(load_without_barrier);
}

TEST("nothing is left behind") {
  tenon_executable_release(executable);
  tenon_shutdown();
}
