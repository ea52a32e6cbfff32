/* Calls write to no shared memory, and tenon_op_run takes no lock, allocates nothing and makes no
 * system call. All that is allocated before the calls comes from one region. This region and the
 * program's data, including libtenon's, become read-only while two threads call. Each such test
 * runs in a process of its own, which a write or a system call ends. */
#include <dlfcn.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "check.h"
#include "core/tensor.h"
#include "sanitizer.h"
#include "tensors.h"

#include "operators.h"
#include "probes.h"

#ifdef IS_INSTRUMENTED
TEST("calls write to no shared memory") {
  SKIP("sanitizers have an allocator and locks of their own");
}
#else

/* the region, and the counters */

enum { REGION_SIZE = 64 << 20 };
static char *region;
static size_t region_used;
static int fills_region; /* new allocations come from the region */
static _Thread_local int64_t allocations, locks;

void *__libc_malloc(size_t size);
void *__libc_realloc(void *pointer, size_t size);
void __libc_free(void *pointer);

static bool is_in_region(const void *pointer) {
  return region && (const char *)pointer >= region && (const char *)pointer < region + REGION_SIZE;
}

void *malloc(size_t size) {
  allocations++;
  if (!fills_region) return __libc_malloc(size);
  size_t at = region_used + 16;
  region_used = (at + size + 15) & ~(size_t)15;
  if (region_used > REGION_SIZE) abort();
  memcpy(region + at - 8, &size, sizeof size);
  return region + at;
}

void *calloc(size_t count, size_t size) {
  void *block = malloc(count * size);
  return block ? memset(block, 0, count * size) : NULL;
}

void *realloc(void *pointer, size_t size) {
  size_t before = size;
  if (!fills_region && !is_in_region(pointer)) {
    allocations++;
    return __libc_realloc(pointer, size);
  }
  if (is_in_region(pointer)) memcpy(&before, (char *)pointer - 8, sizeof before);
  void *block = malloc(
      /* A block that the system's allocator gave before the region existed is not grown here. */
      size);
  if (pointer && block) memcpy(block, pointer, before < size ? before : size);
  return block;
}

void free(void *pointer) {
  if (!is_in_region(pointer)) __libc_free(pointer);
}

#define COUNTED(name, type)                                                                        \
  int name(type *lock) {                                                                           \
    static int (*real)(type *);                                                                    \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name);                                          \
    locks++;                                                                                       \
    return real(lock);                                                                             \
  }
COUNTED(pthread_mutex_lock, pthread_mutex_t)
COUNTED(pthread_mutex_trylock, pthread_mutex_t)
COUNTED(pthread_rwlock_rdlock, pthread_rwlock_t)
COUNTED(pthread_rwlock_wrlock, pthread_rwlock_t)

static int close_program(struct dl_phdr_info *info, size_t size,
                         void *context) { /* The first object is the program. */
  (void)size;
  (void)context;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *h = &info->dlpi_phdr[i];
    uintptr_t begin = (info->dlpi_addr + h->p_vaddr) & ~(uintptr_t)4095;
    uintptr_t end = (info->dlpi_addr + h->p_vaddr + h->p_memsz + 4095) & ~(uintptr_t)4095;
    if (h->p_type == PT_LOAD && h->p_flags & PF_W &&
        mprotect((void *)begin, end - begin, PROT_READ) != 0)
      _exit(3);
  }
  return 1;
}

/* calls */

static double id[4] = {0, 1, 2, 3};
static int64_t shared_count;

static tenon_status_t counting(tenon_call_t *call) { /* counts forbidden requests */
  shared_count++;
  return probe_kernel(call);
}

static tenon_status_t taking_memory(tenon_call_t *call) {
  char *volatile block = malloc(100);
  free(block);
  return probe_kernel(call);
}

static tenon_status_t asking_system(tenon_call_t *call) {
  syscall(SYS_getppid);
  return probe_kernel(call);
}

enum {
  RUN,
  CALL_INTO,
  CALL,
  BOUND,
  STRIDED,
};
typedef struct way_t {
  const char *op;
  const char *inputs[3];
  const char *output;
  const char *backend; /* backend: of all tensors of the call; NULL: the CPU */
  int entry;
} way_t;
static const way_t ways[] = {
    {"core::add", {"f32[4] 1 2 3 4", "f32[4] 1 1 1 1"}, "f32[4] 2 3 4 5", NULL, RUN},
    {"probe::plain", {"f64[1] 5"}, "f64[1] 1", NULL, RUN},
    {"probe::plain", {"f64[1] 5"}, "f64[1] 2", "npu", RUN},
    {"probe::plain", {"f64[1] 5"}, "f64[1] 3", "late_63", RUN},
    {"core::softmax", {"f32[2,2] 1 1 1 1"}, "f32[2,2] 0.5 0.5 0.5 0.5", NULL, RUN},
    {"core::matmul", {"f32[2,2] 1 2 3 4", "f32[2,2] 1 0 0 1"}, "f32[2,2] 1 2 3 4", NULL, RUN},
    {"contract::scale", {"f32[2] 1 2", "f32[2] 2 2"}, "f32[2] 2 4", NULL, RUN},
    {"core::mul", {"f32[2,2] 1 2 3 4", "f32[2] 1 10"}, "f32[2,2] 1 20 3 40", NULL, BOUND},
    {"core::mul", {"f32[2,2] 1 2 3 4", "f32[2] 1 10"}, "f32[2,2] 1 20 3 40", NULL, CALL_INTO},
    {"core::add", {"f32[4] 1 2 3 4", "f32[4] 1 1 1 1"}, "f32[4] 2 3 4 5", NULL, CALL},
    {"contract::median", {"f32[3] 3 1 2"}, "f32[] 2", NULL, CALL_INTO},
    {"contract::median", {"f32[3] 3 1 2"}, "f32[] 2", NULL, CALL},
    {"probe::plain", {"f64[1] 5"}, "f64[1] 2", "npu", CALL_INTO},
    {"contract::stack", {"{i32[2] 1 2; i32[2] 3 4}"}, "i32[2,2] 1 2 3 4", NULL, CALL},
    {"core::add", {"f32[2,2] 1 2 3 4", "f32[2,2] 1 1 1 1"}, "f32[2,2] 2 3 4 5", NULL, STRIDED}};
enum { WAYS = sizeof ways / sizeof *ways };

/* The threads share this. */
typedef struct prepared_t {
  const tenon_op_t *op;
  tenon_bound_t *bound;
  tenon_tensor_t *inputs[3];
  tenon_tensor_t *expected;
} prepared_t;
static prepared_t prepared[WAYS + 1];

static void on_backend(tenon_tensor_t *t, const char *backend) {
  double value = 0;
  tenon_tensor_t *probe = probe_tensor(backend, &value);
  t->keys = (t->keys & ~TN_KEY_CPU) | (probe->keys & ~TN_TENSOR_OWNED);
  t->device = probe->device;
  tenon_tensor_release(probe);
}

TENON_C const tenon_descriptor_t *tenon_library_contract(void);

static void prepare(void) {
  char name[32];
  tenon_device_t device;
  region = mmap(NULL, REGION_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  fills_region = 1;
  probe_start();
  CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
  CHECK_STATUS(tenon_device_find("npu", 0, &device), TENON_OK);
  for (int i = 0; i < 64; i++) {
    snprintf(name, sizeof name, "late_%d", i);
    CHECK_STATUS(tenon_device_find(name, 0, &device), TENON_OK);
  }
  probe_add("probe::plain", "cpu", &id[1], 0);
  probe_add("probe::plain", "npu", &id[2], 0);
  probe_add("probe::plain", "late_63", &id[3], 0);
  for (int w = 0; w < WAYS; w++) {
    prepared_t *p = &prepared[w];
    p->op = op_of(ways[w].op);
    p->expected = tensor_of(ways[w].output);
    for (int i = 0; i < 3; i++) {
      if (!ways[w].inputs[i]) continue;
      p->inputs[i] = ways[w].entry == STRIDED ? tensor_strided(ways[w].inputs[i])
                                              : tensor_of(ways[w].inputs[i]);
      if (ways[w].backend) on_backend(p->inputs[i], ways[w].backend);
    }
    if (ways[w].entry == BOUND) CHECK_STATUS(tenon_bound_create(p->op, NULL, &p->bound), TENON_OK);
  }
  prepared[WAYS] = prepared[1]; /* with a kernel that does something forbidden */
  fills_region = 0;
}

/* The results of one thread. */
static void make_outputs(tenon_tensor_t **outputs) {
  for (int w = 0; w <= WAYS; w++) {
    outputs[w] = tensor_like(prepared[w].expected);
    if (w < WAYS && ways[w].backend) on_backend(outputs[w], ways[w].backend);
  }
}

static tenon_status_t call_once(int way, tenon_tensor_t **outputs) {
  const prepared_t *p = &prepared[way];
  tenon_tensor_t *made[2] = {NULL};
  tenon_tensor_t *given[2] = {outputs[way], NULL};
  switch (way < WAYS ? ways[way].entry : RUN) {
  case BOUND:
    return tenon_bound_run(p->bound, p->inputs, given);
  case CALL_INTO:
    return tenon_op_call_into(p->op, NULL, p->inputs, given);
  case CALL:
    TENON_TRY(tenon_op_call(p->op, NULL, p->inputs, made, 1));
    memcpy(outputs[way]->data, made[0]->data,
           (size_t)tenon_count(made[0]) * made[0]->dtype.bits / 8);
    tenon_tensor_release(made[0]);
    return TENON_OK;
  default:
    return tenon_op_run(p->op, NULL, p->inputs, given);
  }
}

static bool are_right(tenon_tensor_t **outputs) {
  for (int w = 0; w < WAYS; w++)
    if (!tensor_equal(outputs[w], prepared[w].expected, 1e-6)) return false;
  return true;
}

/* processes */

/* Runs a process and returns its exit status, or 100 plus the signal. */
static int in_process(int (*function)(int), int argument) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) _exit(function(argument));
  int status = 0;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

enum {
  CALLERS = 2,
  CALLS_OF_EACH = 500000,
};
typedef struct stage_t { /* This stays writable. */
  int ready;
  int may_go;
  int done;
  int wrong;
  int ways;
} stage_t;

static void *call_often(void *pointer) {
  stage_t *stage = pointer;
  tenon_tensor_t *outputs[WAYS + 1];
  make_outputs(outputs);
  int wrong = 0;
  for (int i = 0; i < 20 * WAYS; i++)
    /* The first calls bind symbols and create blocks. */
    wrong |= call_once(i % WAYS, outputs) != TENON_OK;
  if (wrong) fprintf(stderr, "%s\n", tenon_error());
  sched_yield();
  __atomic_fetch_add(&stage->ready, 1, __ATOMIC_ACQ_REL);
  while (!__atomic_load_n(&stage->may_go, __ATOMIC_ACQUIRE))
    sched_yield();
  for (int i = 0, way = 0; i < CALLS_OF_EACH; i++) {
    wrong |= call_once(way, outputs) != TENON_OK;
    if (++way == stage->ways) way = 0;
  }
  __atomic_fetch_or(&stage->wrong, wrong || !are_right(outputs), __ATOMIC_ACQ_REL);
  __atomic_fetch_add(&stage->done, 1, __ATOMIC_ACQ_REL);
  while (pause())
    continue; /* A thread that ends writes to shared memory. */
  return NULL;
}

static int call_read_only(int ways_count) {
  stage_t *stage = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_t threads[CALLERS];
  stage->ways = ways_count;
  for (int i = 0; i < CALLERS; i++)
    if (pthread_create(&threads[i], NULL, call_often, stage) != 0) return 2;
  while (__atomic_load_n(&stage->ready, __ATOMIC_ACQUIRE) < CALLERS)
    sched_yield();
  if (mprotect(region, REGION_SIZE, PROT_READ) != 0) return 3;
  dl_iterate_phdr(close_program, NULL);
  __atomic_store_n(&stage->may_go, 1, __ATOMIC_RELEASE);
  while (__atomic_load_n(&stage->done, __ATOMIC_ACQUIRE) < CALLERS)
    sched_yield();
  syscall(SYS_exit_group, stage->wrong ? 1 : 0);
  return 4;
}

TEST("a million calls of two threads do not write to operators, kernels, shared inputs or "
     "libtenon's data") {
  tenon_registration_t *r = NULL;
  prepare();
  CHECK(in_process(call_read_only, WAYS) == 0);
  fills_region = 1; /* The test would notice forbidden writes. */
  CHECK_STATUS(tenon_kernel_add("probe::plain", "cpu", counting, &id[1], NULL, TENON_OVERRIDE, &r),
               TENON_OK);
  fills_region = 0;
  CHECK(in_process(call_read_only, WAYS) == 100 + SIGSEGV);
  tenon_registration_release(r);
  printf("%d calls of %d kinds\n", CALLERS * CALLS_OF_EACH, WAYS);
}

/* counting */

static bool is_run(int way) {
  return way == WAYS || ways[way].entry == RUN || ways[way].entry == BOUND;
}

static int
run_without_system(int last) { /* A system call other than exit ends the process by SIGSYS. */
  static struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                                      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
                                      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                                      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  tenon_tensor_t *outputs[WAYS + 1];
  int wrong = 0;
  make_outputs(outputs);
  for (int w = 0; w < last; w++)
    wrong |= call_once(w, outputs) != TENON_OK;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    return 5;
  allocations = locks = 0;
  for (int i = 0; i < 20000; i++)
    for (int w = 0; w < last; w++)
      if (is_run(w)) wrong |= call_once(w, outputs) != TENON_OK;
  int status = wrong ? 1 : allocations ? 6 : locks ? 7 : 0;
  syscall(SYS_exit_group, status);
  return 4;
}

TEST("tenon_op_run takes no lock, allocates nothing and makes no system call") {
  static const struct {
    tenon_run_fn run;
    int status;
  } bad[] = {{taking_memory, 6}, {asking_system, 100 + SIGSYS}};
  tenon_registration_t *r = NULL;
  CHECK(in_process(run_without_system, WAYS) == 0);
  /* The test would notice forbidden requests. */
  for (int i = 0; i < 2; i++) {
    CHECK_STATUS(
        tenon_kernel_add("probe::plain", "cpu", bad[i].run, &id[1], NULL, TENON_OVERRIDE, &r),
        TENON_OK);
    CHECK(in_process(run_without_system, WAYS + 1) == bad[i].status);
    tenon_registration_release(r);
  }
  CHECK_STATUS(tenon_kernel_add("probe::plain", "cpu serial", probe_kernel, &id[1], NULL,
                                TENON_OVERRIDE, &r),
               TENON_OK);
  CHECK(in_process(run_without_system, WAYS + 1) == 7);
  tenon_registration_release(r);
}

TEST("nothing is left behind") { tenon_shutdown(); }
#endif
