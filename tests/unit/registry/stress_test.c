/* Kernels are registered, overridden, undone, loaded and unloaded without pause while other threads
 * call them. Each answer must be that of a kernel that was in the table at some moment of the call,
 * according to a model of the resolution order. The memory of unloaded libraries is poisoned, so
 * that a call which is still inside one crashes. STRESS_SECONDS and STRESS_CALLERS make the test
 * longer (`make stress`).
 *
 * `make stress` also runs this program with a part of the protection removed, and reports whether
 * the test noticed: that depends on the processor and the scheduler. interleaving_test.c forces the
 * orders of events against which the protection works. */
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/processors.h"
#include "base/thread.h"
#include "check.h"
#include "core/tensor.h"
#include "sanitizer.h"
#include "tensors.h"

#include "operators.h"
#include "probes.h"

#ifdef TEST_MUTANT
enum {
  IS_MUTANT = 1
  /* The tests without protection of libraries that are unloaded: nearly all calls go into such
 * libraries. */
};
#else
enum { IS_MUTANT = 0 };
#endif

static int64_t number_of(const char *name, int64_t standard) {
  const char *text = getenv(name);
  return text ? strtoll(text, NULL, 10) : standard;
}

/* unloaded libraries */

static int64_t poisoned;

#ifndef IS_INSTRUMENTED
typedef struct range_t {
  uintptr_t begin;
  uintptr_t end;
} range_t;

static int find_range(struct dl_phdr_info *info, size_t size, void *pointer) {
  range_t *range = pointer;
  (void)size;
  if (info->dlpi_addr != range->begin) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_LOAD &&
        info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz > range->end)
      range->end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
  return 1;
}

/* Replaces the system's function: the addresses of an unloaded library stay unmapped for long, and
 * nothing else gets them. */
int dlclose(void *handle) {
  enum { KEPT = 4096 };
  static range_t kept[KEPT];
  static int (*system_dlclose)(void *);
  struct link_map *map = NULL;
  if (!system_dlclose) *(void **)&system_dlclose = dlsym(RTLD_NEXT, "dlclose");
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return system_dlclose(handle);
  range_t range = {map->l_addr, 0};
  dl_iterate_phdr(find_range, &range);
  int status = system_dlclose(handle);
  size_t size = (range.end - range.begin + 4095) & ~(size_t)4095;
  if (mmap((void *)range.begin, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
           -1, 0) != (void *)range.begin)
    return status;
  range_t *place = &kept[poisoned++ % KEPT];
  if (place->end) munmap((void *)place->begin, (place->end - place->begin + 4095) & ~(size_t)4095);
  *place = range;
  return status;
}
#endif

static void tell(int number) {
  static const char text[] = "a call ran code of a library that is gone\n";
  (void)number;
  (void)!write(2, text, sizeof text - 1);
  _exit(9);
}

/* permitted answers */

enum {
  CPU,
  CPU_STRIDED,
  NPU,
  NPU_STRIDED,
  LATE,
  LATE_STRIDED,
  SWAPPED,
  CALLS,
};
enum {
  MISSING = -1,
  RING = 1 << 14,
};

/* Changes are numbered. Before a change is made, the right answer after it is stored. A call that
 * began after change `ended` and returned before `begun` + 1 may give the answer after any change
 * from `ended` to `begun`, and no other. */
typedef struct truth_t {
  int64_t begun;
  int64_t ended;
  int32_t answers[RING][CALLS];
} truth_t;
/* The first for registrations of the program, the second for the libraries. */
static truth_t truths[2];

static void will_be(truth_t *truth, const int32_t *answers) {
  int32_t *place = truth->answers[(truth->begun + 1) % RING];
  for (int i = 0; i < CALLS; i++)
    __atomic_store_n(&place[i], answers[i], __ATOMIC_RELAXED);
  __atomic_store_n(&truth->begun, truth->begun + 1, __ATOMIC_SEQ_CST);
}

static void is_now(truth_t *truth) {
  __atomic_store_n(&truth->ended, truth->begun, __ATOMIC_RELEASE);
}

/* -1: the change is so long ago that its answer is not stored any more. */
static int is_right(truth_t *truth, int call, int64_t first, double answer) {
  int64_t last = __atomic_load_n(&truth->begun, __ATOMIC_SEQ_CST);
  int found = 0;
  for (int64_t i = first; i <= last && last - first < RING / 2 && !found; i++)
    found = __atomic_load_n(&truth->answers[i % RING][call], __ATOMIC_RELAXED) == answer;
  return __atomic_load_n(&truth->begun, __ATOMIC_SEQ_CST) - first < RING / 2 ? found : -1;
}

/* operators */

static int64_t until;    /* the end, in the time of tn_now */
static int stop, broken; /* broken: a dense kernel got a strided tensor */

static tenon_status_t answer(tenon_call_t *call) {
  for (int i = 0; i < 4; i++)
    ((double *)call->outputs[0]->data)[i] = *(const double *)call->context;
  return TENON_OK;
}

static tenon_status_t answer_dense(tenon_call_t *call) {
  if (call->inputs[0]->strides[0] != 2 || call->inputs[0]->strides[1] != 1)
    __atomic_store_n(&broken, 1, __ATOMIC_RELAXED);
  return answer(call);
}

static tenon_status_t nowhere(tenon_call_t *call) {
  return tenon_fail(call, TENON_INTERNAL, "nobody names this backend");
}

/* clang-format off */
static const tenon_item_t stressed_items[] = {
  TENON_OP("changed(Tensor x) -> Tensor",
    TENON_TYPES("x: f32|f64; out = x"), TENON_TRAITS(TENON_POINTWISE),
    TENON_KERNEL("nowhere strided quantised", nowhere)),
  TENON_OP("swapped(Tensor x) -> Tensor",
    TENON_TYPES("x: f64; out = x"), TENON_TRAITS(TENON_POINTWISE),
    TENON_KERNEL("nowhere strided quantised", nowhere)),
  {TENON_TAG_END, 0, 0, 0, 0}};
/* clang-format on */
static const tenon_descriptor_t stressed = {
    sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "stressed", "1.0.0", stressed_items};

/* threads that call */

enum {
  COLD_SIZE = 64 << 20,
  COLD_LINES = 48,
};

typedef struct caller_t {
  int64_t calls;
  int64_t wrong;
  int64_t unknown;
  int64_t missing;
  uint64_t random;
} caller_t;

static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void call_all(void *pointer) {
  static const char *const backends[] = {"cpu", "npu", "late_63"};
  static int64_t shape[2] = {2, 2};
  static int64_t rows[2] = {2, 1};
  static int64_t columns[2] = {1, 2};
  caller_t *c = pointer;
  double in[4] = {0};
  /* Stores to this memory take long, and later stores wait for them. */
  char *cold = calloc(COLD_SIZE, 1);
  const tenon_op_t *changed = op_of("stressed::changed");
  const tenon_op_t *swapped = op_of("stressed::swapped");
  tenon_tensor_t x[3], y[3];
  for (int i = 0; i < 3; i++) {
    tenon_tensor_t *probe = probe_tensor(backends[i], in);
    CHECK_STATUS(tenon_tensor_view(&x[i], in, tenon_dtype(TENON_F64), 2, shape, rows, NULL),
                 TENON_OK);
    x[i].keys = probe->keys & ~TN_TENSOR_OWNED;
    x[i].device = probe->device;
    y[i] = x[i];
    tenon_tensor_release(probe);
  }
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    uint64_t random = next_random(&c->random);
    int call = IS_MUTANT || random % 3 ? SWAPPED : (int)(random / 3 % SWAPPED);
    tenon_tensor_t in_view = x[call == SWAPPED ? 0 : call / 2];
    tenon_tensor_t out_view = y[call == SWAPPED ? 0 : call / 2];
    tenon_tensor_t *inputs[1] = {&in_view};
    tenon_tensor_t *outputs[1] = {&out_view};
    double out[4] = {MISSING, MISSING, MISSING, MISSING};
    if (call < SWAPPED && call & 1) {
      in_view.strides = columns;
      in_view.keys |= TN_KEY_STRIDED;
    }
    out_view.data = out;
    truth_t *truth = &truths[call == SWAPPED];
    in[0] = call == SWAPPED ? (double)(random >> 20 & 4095) : 0;
    int64_t first = __atomic_load_n(&truth->ended, __ATOMIC_ACQUIRE);
    for (int i = 0; i < COLD_LINES; i++)
      cold[(random >> 8) * 64 * (uint64_t)(2 * i + 1) % COLD_SIZE] = 1;
    tenon_status_t status =
        tenon_op_run(call == SWAPPED ? swapped : changed, NULL, inputs, outputs);
    bool one = out[0] == out[1] && out[0] == out[2] && out[0] == out[3];
    int right = one && status == (out[0] == MISSING ? TENON_UNIMPLEMENTED : TENON_OK)
                    ? is_right(truth, call, first, out[0])
                    : 0;
    c->calls++;
    c->wrong += right == 0;
    c->unknown += right < 0;
    c->missing += out[0] == MISSING;
    if (right == 0 && !__atomic_exchange_n(&broken, 1, __ATOMIC_RELAXED))
      fprintf(stderr, "call %d: answer %g, status %d: %s\n", call, out[0], (int)status,
              status ? tenon_error() : "");
    if (__atomic_load_n(&broken, __ATOMIC_RELAXED)) __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  }
  free(cold);
}

/* threads that change registrations */

enum {
  CHANGES = 20000,
  LIVE = 12,
};
enum {
  AT_CPU,
  AT_CPU_STRIDED,
  AT_COMPOSITE,
  AT_NPU,
  AT_LATE,
  AT_CPU_F32,
  AT_NPU_F32,
  AT_LATE_F32,
  AT_NPU_FALLBACK,
  AT_LATE_FALLBACK,
  PLACES,
};

/* A registration that was not undone. */
typedef struct live_t {
  tenon_registration_t *registration;
  int place;
  int serial;
  bool is_preferred;
} live_t;

typedef struct changer_t {
  live_t live[LIVE];
  int count;
  int serials;
  int64_t changes;
  int64_t rounds;
  uint64_t random;
} changer_t;
static double serials[CHANGES + 1];

/* The resolution order over the registered kernels, in the order of registration. */
static int32_t newest(const changer_t *c, int place, int other) {
  for (int i = c->count - 1; i >= 0; i--)
    if (c->live[i].place == place || c->live[i].place == other) return c->live[i].serial;
  return MISSING;
}

static int32_t on_device(const changer_t *c, int place, int fallback) {
  int32_t own = newest(c, place, place);
  int32_t composite = newest(c, AT_COMPOSITE, AT_COMPOSITE);
  int32_t falls = newest(c, fallback, fallback);
  bool prefers = false;
  for (int i = 0; i < c->count; i++)
    prefers |= c->live[i].place == fallback && c->live[i].is_preferred;
  return own != MISSING ? own : prefers ? falls : composite != MISSING ? composite : falls;
}

static void right_answers(const changer_t *c, int32_t *answers) {
  int32_t cpu = newest(c, AT_CPU, AT_CPU_STRIDED);
  answers[CPU] = answers[CPU_STRIDED] =
      cpu != MISSING ? cpu : newest(c, AT_COMPOSITE, AT_COMPOSITE);
  answers[NPU] = answers[NPU_STRIDED] = on_device(c, AT_NPU, AT_NPU_FALLBACK);
  answers[LATE] = answers[LATE_STRIDED] = on_device(c, AT_LATE, AT_LATE_FALLBACK);
  answers[SWAPPED] = MISSING;
}

static void add(changer_t *c, int place, bool is_preferred) {
  static const char *const wheres[] = {"cpu",     "cpu strided", "composite",   "npu", "late_63",
                                       "cpu f32", "npu f32",     "late_63 f32", "npu", "late_63"};
  int32_t answers[CALLS];
  int32_t there = newest(c, place,
                         place == AT_CPU           ? AT_CPU_STRIDED
                         : place == AT_CPU_STRIDED ? AT_CPU
                                                   : place);
  live_t *fresh = &c->live[c->count++];
  *fresh = (live_t){NULL, place, ++c->serials, is_preferred};
  right_answers(c, answers);
  will_be(&truths[0], answers);
  double *context = &serials[fresh->serial];
  if (place >= AT_NPU_FALLBACK)
    CHECK_STATUS(tenon_fallback_add(wheres[place], answer, context, NULL,
                                    is_preferred ? TENON_PREFERRED : 0, &fresh->registration),
                 TENON_OK);
  else
    CHECK_STATUS(tenon_kernel_add(
                     "stressed::changed", wheres[place],
                     place == AT_CPU_STRIDED || place == AT_COMPOSITE ? answer : answer_dense,
                     context, NULL, there == MISSING ? 0 : TENON_OVERRIDE, &fresh->registration),
                 TENON_OK);
  is_now(&truths[0]);
}

static void undo(changer_t *c, int index) {
  int32_t answers[CALLS];
  live_t gone = c->live[index];
  memmove(&c->live[index], &c->live[index + 1], (size_t)(--c->count - index) * sizeof gone);
  right_answers(c, answers);
  will_be(&truths[0], answers);
  tenon_registration_release(gone.registration);
  is_now(&truths[0]);
}

static void change_all(void *pointer) {
  changer_t *c = pointer;
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED) && c->serials < CHANGES && tn_now() < until) {
    uint64_t random = next_random(&c->random);
    int place = (int)((random >> 8) % PLACES);
    bool is_taken = place >= AT_NPU_FALLBACK && newest(c, place, place) != MISSING;
    if (c->count == LIVE || (c->count && (is_taken || random & 1)))
      undo(c, (int)((random >> 32) % (uint64_t)c->count));
    else if (!is_taken)
      add(c, place, random >> 20 & 1);
    c->changes++;
    if (IS_MUTANT) usleep(1000);
  }
  while (c->count)
    undo(c, c->count - 1);
}

typedef struct swapper_t {
  int64_t loads;
  int64_t unloads;
  int64_t busy;
} swapper_t;

static tenon_library_t *load(int number) {
  tenon_library_t *library = NULL;
  char path[1000];
  snprintf(path, sizeof path, "%s/libretired_%d.so", TEST_LIBRARIES, number);
  CHECK_STATUS(tenon_library_load(path, TENON_LOAD_UNLOADABLE, &library), TENON_OK);
  return library;
}

/* Loads at most two libraries, of which the newer one answers; at times none is loaded, or the
 * newer one is unloaded first. */
static void swap_all(void *pointer) {
  swapper_t *s = pointer;
  tenon_library_t *loaded[2] = {NULL};
  int numbers[2] = {MISSING, MISSING};
  int count = 0;
  int32_t answers[CALLS] = {0};
  for (int round = 0; count || !__atomic_load_n(&stop, __ATOMIC_RELAXED); round++) {
    if (count < (round % 16 < 8 ? 2 : 1) && !__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
      answers[SWAPPED] = numbers[count] = round % 4;
      will_be(&truths[1], answers);
      loaded[count] = load(round % 4);
      count++;
      s->loads++;
      is_now(&truths[1]);
    }
    while (count == 2 || (count && round % 16 >= 8) ||
           (count && __atomic_load_n(&stop, __ATOMIC_RELAXED))) {
      int gone = count == 2 && round % 8 == 7; /* The newer one is unloaded first. */
      int32_t before = numbers[count - 1];
      int32_t after = count == 1 ? MISSING : numbers[!gone];
      answers[SWAPPED] = after;
      will_be(&truths[1], answers);
      tenon_status_t status = tenon_library_unload(loaded[gone]);
      if (status == TENON_OK) {
        count--;
        loaded[0] = loaded[!gone];
        numbers[0] = numbers[!gone];
        s->unloads++;
      } else
        CHECK_STATUS(status, TENON_UNAVAILABLE), s->busy++;
      answers[SWAPPED] = status == TENON_OK ? after : before;
      will_be(&truths[1], answers);
      is_now(&truths[1]);
    }
  }
}

/* the whole test */

enum { CALLERS_MOST = 64 };
static caller_t callers[CALLERS_MOST];

TEST("kernels and libraries come and go without pause while others call, and each answer is of one "
     "then registered") {
  int count = (int)number_of("STRESS_CALLERS", tn_processors().count);
  until = tn_now() + number_of("STRESS_SECONDS", 3) * 1000000000;
  changer_t changer = {.random = 88172645463325252u};
  swapper_t swapper = {0};
  count = count < 1 ? 1 : count > CALLERS_MOST ? CALLERS_MOST : count;
  for (int i = 0; i <= CHANGES; i++)
    serials[i] = i;
  for (int i = 0; i < count; i++)
    callers[i].random = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1);
  mallopt(M_PERTURB, 0x5a);
  signal(SIGSEGV, tell);
  signal(SIGBUS, tell);
  signal(SIGILL, tell);
  signal(SIGABRT, tell);
  /* The test has rounds, since undone registrations stay until shutdown. */
  while (tn_now() < until && !broken) {
    tn_spawned_t threads[CALLERS_MOST], changes, swaps;
    int32_t none[CALLS];
    tenon_device_t device;
    char name[32];
    stop = 0;
    changer.serials = 0;
    CHECK_STATUS(tenon_library_add(&stressed, NULL, NULL, NULL), TENON_OK);
    CHECK_STATUS(tenon_device_find("npu", 0, &device), TENON_OK);
    for (int i = 0; i < 64; i++) {
      snprintf(name, sizeof name, "late_%d", i);
      CHECK_STATUS(tenon_device_find(name, 0, &device), TENON_OK);
    }
    tenon_registration_t *memory[2];
    probe_memory("npu", memory);
    probe_memory("late_63", memory);
    for (int i = 0; i < CALLS; i++)
      none[i] = MISSING;
    for (int i = 0; i < 2; i++) {
      will_be(&truths[i], none);
      is_now(&truths[i]);
    }
    for (int i = 0; i < count; i++)
      CHECK(tn_spawn(&threads[i], call_all, &callers[i]));
    CHECK(tn_spawn(&changes, change_all, &changer) && tn_spawn(&swaps, swap_all, &swapper));
    tn_join(&changes);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    tn_join(&swaps);
    for (int i = 0; i < count; i++)
      tn_join(&threads[i]);
    changer.rounds++;
    tenon_shutdown();
  }
  caller_t sum = {0};
  for (int i = 0; i < count; i++) {
    sum.calls += callers[i].calls;
    sum.wrong += callers[i].wrong;
    sum.unknown += callers[i].unknown;
    sum.missing += callers[i].missing;
  }
  CHECK(!broken && sum.wrong == 0);
  CHECK(sum.calls > 0 && sum.unknown < sum.calls / 10 && changer.changes > 0 &&
        swapper.unloads > 0);
  printf("%d callers: %lld calls (%lld found no kernel, %lld lasted too long to be judged); %lld "
         "registrations and undoings, %lld libraries loaded, %lld unloaded, %lld poisoned, %lld "
         "times in use; %lld rounds\n",
         count, (long long)sum.calls, (long long)sum.missing, (long long)sum.unknown,
         (long long)changer.changes, (long long)swapper.loads, (long long)swapper.unloads,
         (long long)poisoned, (long long)swapper.busy, (long long)changer.rounds);
}
