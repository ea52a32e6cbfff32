/* A call and an unload meet in every order that a processor may give them.
 *
 * A call of unloadable code counts itself in a per-thread counter with a plain store, and then
 * reads its table entry again (tn_entry_hold in dispatch/call.c). The unload removes the entry,
 * passes a barrier on all threads, and then reads the counters (tn_registry_unload). On a processor
 * the counter's store may stay in the store buffer while the entry is read; only the barrier forces
 * it out. Such an order occurs by itself once in millions of calls, or never: stress_test.c waits
 * for it.
 *
 * This test forces it. The linker redirects the call's second read of the entry, the barrier and
 * the reads of counters to this file. The file passes a baton between the two threads, so that
 * exactly one of them runs, and holds the counter's store back. A plan says at which moment of the
 * unload the call is counted, at which one the count becomes visible, and at which one the entry is
 * read; all plans are tried. The kernel always runs last, which is the worst case for the unload.
 *
 * If a part of the protection is removed, one of the plans must end in code of an unloaded
 * library. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "check.h"
#include "tensors.h"

#include "dispatch/call.h"
#include "operators.h"

/* the baton */

enum {
  UNLOADER,
  CALLER,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t passed = PTHREAD_COND_INITIALIZER;
static int runs; /* the thread that has the baton */

static void wait_for_baton(int me) {
  pthread_mutex_lock(&lock);
  while (runs != me)
    pthread_cond_wait(&passed, &lock);
  pthread_mutex_unlock(&lock);
}

static void give_baton(int to) {
  pthread_mutex_lock(&lock);
  runs = to;
  pthread_cond_broadcast(&passed);
  pthread_mutex_unlock(&lock);
}

static void pass_baton(int me, int to) {
  give_baton(to);
  wait_for_baton(me);
}

/* the plan */

/* Moments of an unload: its beginning, before and after each barrier, before each read of a
 * counter, its end. */
enum { MOMENTS_MOST = 16 };

typedef enum mutant_t {
  NONE,
  NO_BARRIER,
  BARRIER_TOO_EARLY,
  NO_SECOND_LOOK,
} mutant_t;

/* All three are moments.  A barrier between `counted` and `visible` makes the count visible. */
typedef struct plan_t {
  int counted;
  int visible;
  int looked;
} plan_t;

static mutant_t mutant;
static plan_t plan;
static int moment, moments, barriers;
static bool is_called, is_counted, is_visible; /* is_called: a call can be held */
static bool is_over;                           /* the unload is over */
static uint32_t *counter;

static void make_visible(void) {
  if (is_counted && !is_visible) __atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST);
  is_visible |= is_counted;
}

/* The unloader reaches its next moment, and the call proceeds as far as the plan says. */
static void come_to_moment(void) {
  moment++;
  if (!is_called) return;
  if (moment >= plan.counted) is_counted = true;
  if (moment >= plan.visible) make_visible();
  if (moment == plan.looked) pass_baton(UNLOADER, CALLER);
}

int __real_tn_thread_barrier(void);
int __wrap_tn_thread_barrier(void);
uint64_t __real_tn_thread_gate(int gate);
uint64_t __wrap_tn_thread_gate(int gate);
const tn_table_entry_t *__real_tn_entry_again(tenon_call_t *call);
const tn_table_entry_t *__wrap_tn_entry_again(tenon_call_t *call);

static bool is_unloading;

int __wrap_tn_thread_barrier(void) {
  int is_there = __real_tn_thread_barrier();
  if (!is_unloading) return is_there;
  come_to_moment();
  barriers++;
  if (mutant != NO_BARRIER && (mutant != BARRIER_TOO_EARLY || barriers == 1)) make_visible();
  come_to_moment();
  return is_there;
}

uint64_t __wrap_tn_thread_gate(int gate) {
  if (is_unloading) come_to_moment();
  return __real_tn_thread_gate(gate);
}

/* The call has just counted itself. The count is undone here, and is made again when the plan says
 * so. */
const tn_table_entry_t *__wrap_tn_entry_again(tenon_call_t *call) {
  const tn_table_entry_t *held = tn_frame_of(call)->entry;
  const tn_table_entry_t *again;
  if (!is_called || counter) return mutant == NO_SECOND_LOOK ? held : __real_tn_entry_again(call);
  counter = &tn_thread()->gates[held->gate];
  __atomic_fetch_sub(counter, 1, __ATOMIC_SEQ_CST);
  pass_baton(CALLER, UNLOADER);
  again = mutant == NO_SECOND_LOOK ? held : __real_tn_entry_again(call);
  if (!is_over) pass_baton(CALLER, UNLOADER); /* The call runs to its end. */
  return again;
}

/* one unload */

static tenon_status_t no_kernel(tenon_call_t *call) {
  return tenon_fail(call, TENON_INTERNAL, "no argument leads to this backend");
}

/* clang-format off */
static const tenon_item_t stressed_items[] = {
  TENON_OP("swapped(Tensor x) -> Tensor",
    TENON_TYPES("x: f64; out = x"), TENON_TRAITS(TENON_POINTWISE),
    TENON_KERNEL("nowhere strided quantised", no_kernel)),
  {TENON_TAG_END, 0, 0, 0, 0}};
/* clang-format on */
static const tenon_descriptor_t stressed = {
    sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "stressed", "1.0.0", stressed_items};

static void call_swapped(void *pointer) {
  double in[4] = {0};
  double *out = pointer;
  int64_t shape[1] = {4};
  int64_t strides[1] = {1};
  tenon_tensor_t x, y;
  tenon_tensor_t *inputs[1] = {&x};
  tenon_tensor_t *outputs[1] = {&y};
  CHECK_STATUS(tenon_tensor_view(&x, in, tenon_dtype(TENON_F64), 1, shape, strides, NULL),
               TENON_OK);
  CHECK_STATUS(tenon_tensor_view(&y, out, tenon_dtype(TENON_F64), 1, shape, strides, NULL),
               TENON_OK);
  wait_for_baton(CALLER);
  CHECK_STATUS(tenon_op_run(op_of("stressed::swapped"), NULL, inputs, outputs), TENON_OK);
  give_baton(UNLOADER);
}

static tenon_library_t *load(int number) {
  tenon_library_t *library = NULL;
  char path[1000];
  snprintf(path, sizeof path, "%s/libretired_%d.so", TEST_LIBRARIES, number);
  CHECK_STATUS(tenon_library_load(path, TENON_LOAD_UNLOADABLE, &library), TENON_OK);
  return library;
}

static tenon_status_t unload(tenon_library_t *library) {
  moment = -1;
  barriers = 0;
  is_unloading = true;
  come_to_moment();
  tenon_status_t status = tenon_library_unload(library);
  come_to_moment();
  is_unloading = false;
  return status;
}

/* Two libraries have a kernel, and the newer one's kernel is called while that library is unloaded.
 * Returns whether the library was unloaded. */
static bool try_plan(const plan_t *wanted, tenon_library_t **newer) {
  tn_spawned_t thread;
  double out[4] = {-1, -1, -1, -1};
  plan = *wanted;
  counter = NULL;
  is_called = true;
  is_counted = is_visible = is_over = false;
  runs = UNLOADER;
  if (!CHECK(tn_spawn(&thread, call_swapped, out))) return false;
  pass_baton(UNLOADER, CALLER); /* The call has run up to its second read of the entry. */
  tenon_status_t status = unload(*newer);
  is_counted = is_over = true;
  make_visible();
  pass_baton(UNLOADER, CALLER); /* The kernel runs. */
  is_called = false;
  tn_join(&thread);
  if (status != TENON_OK) CHECK_STATUS(status, TENON_UNAVAILABLE);
  CHECK(out[0] == (status == TENON_OK ? 0 : 1) && out[1] == out[0] && out[3] == out[0]);
  if (status == TENON_OK) *newer = load(1);
  return status == TENON_OK;
}

static void say_and_exit(int number) {
  char text[200];
  (void)number;
  int size =
      snprintf(text, sizeof text,
               "counted at moment %d, visible at %d, looked at %d: ran a library that is gone\n",
               plan.counted, plan.visible, plan.looked);
  (void)!write(1, text, (size_t)size);
  _exit(9);
}

static int try_all_plans(void) {
  int tried = 0;
  int unloaded = 0;
  signal(SIGABRT, say_and_exit);
  signal(SIGSEGV, say_and_exit);
  signal(SIGBUS, say_and_exit);
  CHECK_STATUS(tenon_library_add(&stressed, NULL, NULL, NULL), TENON_OK);
  tenon_library_t *older = load(0);
  tenon_library_t *newer = load(1);
  void *kept = dlopen(TEST_LIBRARIES "/libretired_1.so",
                      /* Its code stays mapped, and reports if it runs too late. */
                      RTLD_NOW);
  CHECK(kept != NULL);
  CHECK_STATUS(unload(newer), TENON_OK);
  moments = moment + 1;
  newer = load(1);
  for (int counted = 0; counted < moments; counted++)
    for (int visible = counted; visible < moments; visible++)
      for (int looked = counted; looked < moments && !check_failures; looked++, tried++)
        unloaded += try_plan(&(plan_t){counted, visible, looked}, &newer);
  CHECK(moments >= 6 && moments < MOMENTS_MOST && unloaded > 0 && unloaded < tried);
  printf("%d orders of a call and an unload of %d moments: unloaded in %d, refused in %d\n", tried,
         moments, unloaded, tried - unloaded);
  CHECK_STATUS(tenon_library_unload(newer), TENON_OK);
  CHECK_STATUS(tenon_library_unload(older), TENON_OK);
  tenon_shutdown();
  dlclose(kept);
  return check_failures != 0;
}

/* Returns the exit status of a process that tries all plans until one of them fails. */
static int run_mutant(mutant_t wanted) {
  int status = -1;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    mutant = wanted;
    int result = try_all_plans();
    fflush(NULL);
    _exit(result);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST("a library is not unloaded under a call, in any order of the two") {
  CHECK(run_mutant(NONE) == 0);
}

TEST("without the barrier, the library can be unloaded under a call") {
  CHECK(run_mutant(NO_BARRIER) == 9);
}

TEST("with a barrier only before the kernels are removed, the library can be unloaded under a "
     "call") {
  CHECK(run_mutant(BARRIER_TOO_EARLY) == 9);
}

TEST("if a counted call does not read its entry again, the library can be unloaded under it") {
  CHECK(run_mutant(NO_SECOND_LOOK) == 9);
}
