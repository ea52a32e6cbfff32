/* The parallel loop: how it is divided, its failures and its cancellation callback; and the limits
 * on instruction sets. The threads that run the parts are tested in pool_test.c. */
#include "base/parallel.h"

#include <stdlib.h>
#include <time.h>

#include "base/cpu.h"
#include "base/poll.h"
#include "base/status.h"
#include "base/thread.h"
#include "check.h"

/* The division is tested without TENON_DETERMINISTIC, which pool_test.c sets. */
static __attribute__((constructor)) void unset(void) { unsetenv("TENON_DETERMINISTIC"); }

typedef struct marks_t {
  int32_t *marks;
  int64_t count;
  int64_t grain;
  int32_t parts;
  int32_t inner;
  int32_t wrong;
  int64_t fails_at;
} marks_t;

static tenon_status_t mark(void *argument, int64_t begin, int64_t end) {
  marks_t *m = argument;
  __atomic_fetch_add(&m->parts, 1, __ATOMIC_RELAXED);
  if (end - begin < m->grain && end - begin != m->count)
    __atomic_fetch_add(&m->wrong, 1, __ATOMIC_RELAXED);
  for (int64_t i = begin; i < end; i++)
    __atomic_fetch_add(&m->marks[i], 1, __ATOMIC_RELAXED);
  if (m->fails_at >= begin && m->fails_at < end)
    return tn_fail(TENON_RANGE, "item %lld", (long long)m->fails_at);
  return TENON_OK;
}

static int32_t run_marks(int64_t count, int64_t grain) {
  marks_t m = {calloc((size_t)count + 1, sizeof(int32_t)), count, grain, 0, 0, 0, -1};
  int32_t mistakes = 0;
  CHECK_STATUS(tn_parallel(count, grain, mark, &m), TENON_OK);
  for (int64_t i = 0; i < count; i++)
    mistakes += m.marks[i] != 1;
  CHECK(mistakes == 0 && m.wrong == 0);
  free(m.marks);
  return m.parts;
}

/* The number of parts that a loop has on so many threads, if it has items enough. */
static int32_t parts_on(int32_t threads) { return threads == 1 ? 1 : 4 * threads; }

TEST("every item is processed once, in parts that are large enough") {
  for (int32_t threads = 1; threads <= 9; threads += 2) {
    tn_parallel_set(threads);
    CHECK(tn_parallel_threads() == threads);
    CHECK(run_marks(0, 1) == 0);
    CHECK(run_marks(1, 1) == 1);
    CHECK(run_marks(1000, 1) == parts_on(threads));
    CHECK(run_marks(1001, 300) == (threads == 1 ? 1 : 3));
    CHECK(run_marks(10, 100) == 1);
    CHECK(run_marks(5, 0) == (threads == 1 ? 1 : 5));
  }
  tn_parallel_set(200); /* There are never so many threads. */
  CHECK(run_marks(100000, 1) == 800);
  tn_parallel_set(0);
}

TEST("a loop on any number of threads is complete, even on more than there can be") {
  for (int32_t threads = 1000; threads <= 1000000; threads *= 10) {
    tn_parallel_set(threads);
    run_marks(1000000, 1);
  }
  tn_parallel_set(INT32_MAX);
  run_marks(1000000, 1);
  for (int64_t count = 1 << 14; count <= 1 << 18; count *= 2)
    for (int64_t more = -1; more <= 1; more++)
      run_marks(count + more, 1);
  tn_parallel_shutdown();
  tn_parallel_set(0);
}

TEST("a loop returns the first failure with its message after every part has ended") {
  for (int32_t threads = 1; threads <= 4; threads++) {
    marks_t m = {calloc(100, sizeof(int32_t)), 100, 1, 0, 0, 0, 77};
    tn_parallel_set(threads);
    tn_fail(TENON_OK, "before");
    CHECK_STATUS(tn_parallel(100, 1, mark, &m), TENON_RANGE);
    CHECK(strcmp(tn_error(), "item 77") == 0 && m.parts == parts_on(threads));
    free(m.marks);
  }
  tn_parallel_set(0);
}

static tenon_status_t fail_but_first(void *unused, int64_t begin, int64_t end) {
  (void)unused;
  (void)end;
  return begin == 0 ? TENON_OK : tn_fail(TENON_RANGE, "part %lld", (long long)begin);
}

TEST("of several failures the one of the part with the lowest number is returned") {
  for (int32_t threads = 2; threads <= 10; threads += 2) {
    const int32_t parts = parts_on(threads);
    char text[32];
    /* The second part fails. It begins where the first one ends, and the first parts are the larger
     * ones. */
    snprintf(text, sizeof text, "part %d", 1200 / parts + (1200 % parts != 0));
    tn_parallel_set(threads);
    CHECK_STATUS(tn_parallel(1200, 1, fail_but_first, NULL), TENON_RANGE);
    CHECK(strcmp(tn_error(), text) == 0);
  }
  tn_parallel_set(0);
}

static tenon_status_t note_thread(void *argument, int64_t begin, int64_t end) {
  (void)end;
  if (begin == 0) *(int64_t *)argument = tn_thread_id();
  return TENON_OK;
}

TEST("the caller runs the first part") {
  tn_parallel_set(4);
  for (int i = 0; i < 200; i++) {
    int64_t found = 0;
    CHECK_STATUS(tn_parallel(100, 1, note_thread, &found), TENON_OK);
    CHECK(found == tn_thread_id());
  }
  tn_parallel_set(0);
}

static tenon_status_t nest(void *argument, int64_t begin, int64_t end) {
  marks_t *m = argument;
  for (int64_t i = begin; i < end; i++) {
    marks_t inner = {m->marks + 10 * i, 10, 1, 0, 0, 0, -1};
    if (tn_parallel(10, 1, mark, &inner) != TENON_OK || inner.parts != 1 ||
        tn_parallel_threads() != 1)
      __atomic_fetch_add(&m->wrong, 1, __ATOMIC_RELAXED);
  }
  return TENON_OK;
}

TEST("a loop inside a loop runs on the thread that starts it") {
  marks_t m = {calloc(1000, sizeof(int32_t)), 100, 1, 0, 0, 0, -1};
  int32_t mistakes = 0;
  tn_parallel_set(4);
  CHECK_STATUS(tn_parallel(100, 1, nest, &m), TENON_OK);
  for (int i = 0; i < 1000; i++)
    mistakes += m.marks[i] != 1;
  CHECK(mistakes == 0 && m.wrong == 0);
  free(m.marks);
  tn_parallel_set(0);
}

static void loop_on(void *pointer) {
  int32_t *mistakes = pointer;
  tn_parallel_set(3);
  for (int i = 0; i < 300; i++) {
    int32_t marks[64] = {0};
    marks_t m = {marks, 64, 1, 0, 0, 0, -1};
    if (tn_parallel(64, 1, mark, &m) != TENON_OK) ++*mistakes;
    for (int k = 0; k < 64; k++)
      *mistakes += marks[k] != 1;
  }
}

TEST("several threads can run loops at once") {
  int32_t mistakes[3] = {0};
  tn_spawned_t threads[3];
  for (int i = 0; i < 3; i++)
    CHECK(tn_spawn(&threads[i], loop_on, &mistakes[i]));
  for (int i = 0; i < 3; i++)
    tn_join(&threads[i]);
  CHECK(mistakes[0] + mistakes[1] + mistakes[2] == 0);
}

TEST("loops run again after shutdown") {
  tn_parallel_set(4);
  for (int i = 0; i < 3; i++) {
    CHECK(run_marks(100, 1) == 16);
    tn_parallel_shutdown();
  }
  tn_parallel_shutdown();
  tn_parallel_set(0);
  CHECK(tn_parallel_threads() >= 1);
}

typedef struct asked_t {
  int32_t times;
  int32_t last; /* the number of the call that cancels the loop */
} asked_t;

static tenon_status_t ask(void *state) {
  asked_t *asked = state;
  return ++asked->times == asked->last ? TENON_CANCELLED : TENON_OK;
}

TEST("a loop with a cancellation callback is cut into more parts, each large enough, and can be "
     "cancelled") {
  for (int32_t threads = 1; threads <= 3; threads += 2) {
    asked_t asked = {0, 0};
    const tenon_poll_t poll = {ask, &asked};
    const int32_t parts = parts_on(threads);
    tn_parallel_set(threads);
    CHECK(tenon_poll_set(&poll) == NULL);
    const int32_t pieces = run_marks(10000, 1);
    CHECK(pieces > 8 * parts && pieces <= 16 * parts);
    /* The caller's own part is cut, and the callback is asked after each piece. */
    CHECK(asked.times > 8 && asked.times <= pieces);
    CHECK(run_marks(1000, 100) <= 10 && run_marks(10, 100) == 1);
    asked.times = 0;
    asked.last = 3;
    marks_t m = {calloc(10000, sizeof(int32_t)), 10000, 1, 0, 0, 0, -1};
    CHECK_STATUS(tn_parallel(10000, 1, mark, &m), TENON_CANCELLED);
    CHECK(strcmp(tn_error(), "cancelled by the caller's callback") == 0 && asked.times == 3 &&
          m.wrong == 0);
    /* The caller's part began, and did not end. */
    CHECK(m.marks[0] == 1 && m.marks[10000 / parts - 1] == 0);
    free(m.marks);
    m = (marks_t){calloc(100, sizeof(int32_t)), 100, 1, 0, 0, 0, 7};
    CHECK_STATUS(tn_parallel(100, 1, mark, &m), TENON_RANGE);
    free(m.marks);
    CHECK(tenon_poll_set(NULL) == &poll && run_marks(1000, 1) == parts);
  }
  tn_parallel_set(0);
}

TEST("with a cancellation callback a part of any size is cut into at most 16 pieces") {
  asked_t asked = {0, 0};
  const tenon_poll_t poll = {ask, &asked};
  tn_parallel_set(1);
  tenon_poll_set(&poll);
  for (int64_t count = 1; count <= 1000; count++) {
    const int32_t pieces = run_marks(count, 1);
    CHECK(pieces <= 16 && (count < 16 || pieces >= 8));
  }
  tenon_poll_set(NULL);
  tn_parallel_set(0);
}

/* The linker redirects tn_mutex_unlock to this function: the loop has noted the failure of a part
 * when it unlocks the mutex that guards failures. */
static _Thread_local int is_failing;
static _Atomic int is_noted;
void __real_tn_mutex_unlock(tn_mutex_t *mutex);
void __wrap_tn_mutex_unlock(tn_mutex_t *mutex);
void __wrap_tn_mutex_unlock(tn_mutex_t *mutex) {
  __real_tn_mutex_unlock(mutex);
  if (is_failing) is_noted = 1;
}

typedef struct pieces_t {
  _Atomic int begun; /* pieces that another thread than the caller began */
  _Atomic int by_caller;
} pieces_t;

static void wait_for(const _Atomic int *flag) {
  const struct timespec time = {0, 1000000};
  while (!*flag)
    nanosleep(&time, NULL);
}

static tenon_status_t fail_or_wait(void *argument, int64_t begin, int64_t end) {
  pieces_t *pieces = argument;
  (void)end;
  if (begin == 0) {
    wait_for(&pieces->begun);
    const tenon_status_t status = tn_fail(TENON_RANGE, "the first");
    is_failing = 1;
    return status;
  }
  if (is_failing) {
    pieces->by_caller++;
    return TENON_OK;
  }
  pieces->begun++;
  wait_for(&is_noted);
  return TENON_OK;
}

TEST("when a part of a loop with a cancellation callback fails, the parts of other threads end "
     "early and the remaining ones do not begin") {
  asked_t asked = {0, 0};
  const tenon_poll_t poll = {ask, &asked};
  pieces_t pieces = {0};
  tn_parallel_set(2);
  tenon_poll_set(&poll);
  is_noted = 0;
  CHECK_STATUS(tn_parallel(10000, 1, fail_or_wait, &pieces), TENON_RANGE);
  is_failing = 0;
  CHECK(strcmp(tn_error(), "the first") == 0);
  CHECK(pieces.begun == 1 && pieces.by_caller == 0 && asked.times == 0);
  tenon_poll_set(NULL);
  tn_parallel_set(0);
}

/* instruction sets */

TEST("the instruction sets of contract 1 have ranks, and unknown names have none") {
  CHECK(tn_cpu_rank("", 0) == 0 && tn_cpu_has(0) && tn_cpu_rank("sse9", 4) == -1 &&
        !tn_cpu_has(-1) && !tn_cpu_has(99));
  CHECK(tn_cpu_rank("avx2", 4) < tn_cpu_rank("avx512", 6) &&
        tn_cpu_rank("avx512", 6) < tn_cpu_rank("avx512vnni", 10));
  for (int i = 0; tn_cpu_word(i); i++)
    CHECK(tn_cpu_rank(tn_cpu_word(i), strlen(tn_cpu_word(i))) == i);
  CHECK(tn_cpu_word(-1) == NULL);
}

/* Sets the variable (NULL: removes it), and has it read as at a start of the runtime. */
static void limit_to(const char *word) {
  if (word)
    setenv("TENON_CPU_CAPABILITY", word, 1);
  else
    unsetenv("TENON_CPU_CAPABILITY");
  tn_cpu_limit_read();
}

TEST(
    "TENON_CPU_CAPABILITY disables what is above it, and an unknown name is ignored and reported") {
  const char *value = NULL;
  /* The environment of the whole test run may limit the instruction sets. */
  limit_to(NULL);
  int avx2 = tn_cpu_rank("avx2", 4);
  int avx512 = tn_cpu_rank("avx512", 6);
  int has2 = tn_cpu_has(avx2);
  int has512 = tn_cpu_has(avx512);
  limit_to("avx2");
  CHECK(tn_cpu_has(avx2) == has2 && !tn_cpu_has(avx512) && tn_cpu_limit_valid(&value));
  /* Without a start nothing changes. */
  setenv("TENON_CPU_CAPABILITY", "default", 1);
  CHECK(tn_cpu_has(avx2) == has2);
  limit_to("default");
  CHECK(!tn_cpu_has(avx2) && !tn_cpu_has(avx512) && tn_cpu_has(0) && tn_cpu_limit_valid(&value));
  limit_to("");
  CHECK(tn_cpu_has(avx2) == has2 && tn_cpu_limit_valid(&value));
  limit_to("avx1024");
  CHECK(tn_cpu_has(avx512) == has512 && !tn_cpu_limit_valid(&value) &&
        strcmp(value, "avx1024") == 0);
  limit_to(NULL);
  CHECK(tn_cpu_limit_valid(&value));
#if defined(__x86_64__)
  CHECK(has2 == !!__builtin_cpu_supports("avx2") ||
        /* The compiler's own probe gives the expected value. */
        !__builtin_cpu_supports("fma"));
  CHECK(!has512 || __builtin_cpu_supports("avx512f"));
#endif
}

TEST("nothing is left behind") {
  tn_parallel_shutdown();
  tn_thread_drop();
}
