/* The pool of threads behind the parallel loop, with real threads: threads that do not wake,
 * threads that are held inside a part, forks, shutdown, and more loops at once than the pool has
 * room for.
 * Invariant: no test depends on the speed of a thread. Threads meet at gates, and a loop that
 * should end without help runs while all helpers are known to be stopped. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/parallel.h"
#include "base/poll.h"
#include "base/status.h"
#include "base/thread.h"
#include "check.h"
#include "loops.h"
#include "sanitizer.h"

extern char **environ;

#ifdef HAS_TSAN
enum { RESTARTS = 0 };
#else
enum { RESTARTS = SA_RESTART };
#endif

enum { TASKS_MOST = 512, ITEMS_MOST = 5000, AT_ONCE = 24 };

static void wait_until(const _Atomic int *count, int least) {
  while (*count < least)
    rest();
}

/* loops that check themselves */

typedef struct items_t {
  int64_t caller;
  _Atomic int parts;
  _Atomic int parts_of_others;
  _Atomic uint8_t marks[ITEMS_MOST];
} items_t;

static tenon_status_t mark(void *argument, int64_t begin, int64_t end) {
  items_t *items = argument;
  items->parts++;
  if (tn_thread_id() != items->caller) items->parts_of_others++;
  for (int64_t i = begin; i < end; i++)
    items->marks[i]++;
  return TENON_OK;
}

/* Runs a loop and returns the number of items that were not processed exactly once. */
static int run_items(items_t *items, int64_t count, int64_t grain) {
  int mistakes = 0;
  memset(items, 0, sizeof *items);
  items->caller = tn_thread_id();
  mistakes += tn_parallel(count, grain, mark, items) != TENON_OK;
  for (int64_t i = 0; i < ITEMS_MOST; i++)
    mistakes += items->marks[i] != (i < count);
  return mistakes;
}

typedef struct meeting_t {
  int count;
  _Atomic int begun;
  int64_t ids[64];
} meeting_t;

static tenon_status_t meet(void *argument, int64_t begin, int64_t end) {
  meeting_t *meeting = argument;
  (void)end;
  meeting->ids[begin] = tn_thread_id();
  meeting->begun++;
  wait_until(&meeting->begun, meeting->count);
  return TENON_OK;
}

/* Runs a loop whose parts wait for one another, so that each needs a thread of its own. */
static void check_meeting(int32_t threads) {
  meeting_t meeting = {.count = threads};
  tn_parallel_set(threads);
  CHECK_STATUS(tn_parallel(threads, 1, meet, &meeting), TENON_OK);
  CHECK(meeting.ids[0] == tn_thread_id());
  for (int i = 0; i < threads; i++)
    for (int k = 0; k < i; k++)
      CHECK(meeting.ids[i] != meeting.ids[k]);
}

/* threads that do not wake */

typedef struct tasks_t {
  int count;
  pid_t ids[TASKS_MOST];
} tasks_t;

static bool has_task(const tasks_t *tasks, pid_t id) {
  for (int i = 0; i < tasks->count; i++)
    if (tasks->ids[i] == id) return true;
  return false;
}

/* The threads of this process, without those in `known`. */
static tasks_t list_tasks(const tasks_t *known) {
  tasks_t found = {0};
  DIR *folder = opendir("/proc/self/task");
  for (struct dirent *entry = NULL; folder && (entry = readdir(folder));) {
    const pid_t id = (pid_t)atoi(entry->d_name);
    if (id > 0 && found.count < TASKS_MOST && !(known && has_task(known, id)))
      found.ids[found.count++] = id;
  }
  if (folder) closedir(folder);
  return found;
}

static void do_nothing(void *unused) { (void)unused; }

/* Ends the pool's threads, and lists those that are not the pool's. A sanitizer may start a thread
 * of its own when the process starts its first one. */
static tasks_t list_others(void) {
  tn_spawned_t first;
  tn_parallel_shutdown();
  CHECK(tn_spawn(&first, do_nothing, NULL));
  tn_join(&first);
  return list_tasks(NULL);
}

static _Atomic int parked;
static _Atomic int is_open;

static void park(int number) {
  const int before = errno;
  (void)number;
  parked++;
  while (!is_open)
    rest();
  parked--;
  errno = before;
}

/* The thread sanitizer runs a handler when the system call that the signal interrupts has returned,
 * so this call must not be restarted. */
static void park_all(const tasks_t *tasks, int flags) {
  struct sigaction action = {.sa_handler = park, .sa_flags = flags};
  sigaction(SIGUSR1, &action, NULL);
  is_open = 0;
  for (int i = 0; i < tasks->count; i++)
    CHECK(syscall(SYS_tgkill, getpid(), tasks->ids[i], SIGUSR1) == 0);
  wait_until(&parked, tasks->count);
}

static void open_gate(void) {
  is_open = 1;
  while (parked)
    rest();
}

static void check_loops_alone(void) {
  static const int32_t threads[] = {2, 3, 8};
  static const int64_t counts[] = {1, 2, 3, 7, 8, 31, 32, 33, 64, 1000, ITEMS_MOST};
  static items_t items;
  for (int t = 0; t < 3; t++)
    for (int c = 0; c < 11; c++) {
      tn_parallel_set(threads[t]);
      CHECK(run_items(&items, counts[c], 1 + c % 3) == 0);
      CHECK(items.parts >= 1 && items.parts_of_others == 0);
    }
}

TEST("loops end while no thread of the pool wakes, and threads that wake help again") {
  const tasks_t others = list_others();
  check_meeting(8);
  const tasks_t workers = list_tasks(&others);
  if (!CHECK(workers.count == 7)) return;
  for (int round = 0; round < 20; round++) {
    /* The threads look for work or sleep already, depending on the round. */
    for (int i = 0; i < round % 4; i++)
      rest();
    park_all(&workers, round % 2 ? RESTARTS : 0);
    check_loops_alone();
    open_gate();
    check_meeting(8);
  }
  CHECK(list_tasks(&others).count == 7);
  tn_parallel_set(0);
}

TEST("loops end while some threads of the pool do not wake, and the others help") {
  const tasks_t others = list_others();
  check_meeting(8);
  tasks_t workers = list_tasks(&others);
  if (!CHECK(workers.count == 7)) return;
  for (int stopped = 1; stopped < 7; stopped++) {
    static items_t items;
    workers.count = stopped;
    park_all(&workers, 0);
    for (int64_t count = 1; count < 200; count += 13)
      CHECK(run_items(&items, count, 1) == 0);
    open_gate();
  }
  check_meeting(8);
  tn_parallel_set(0);
}

/* threads that are held inside a part */

typedef struct held_t {
  int32_t threads;
  int most; /* the first threads that help, so many of them, are held */
  int64_t caller;
  _Atomic int helping;
  _Atomic int begun;
  _Atomic int done;
  _Atomic int is_open;
  _Atomic int clock; /* counts the ends of held parts, and of the loop */
  _Atomic int ended_at;
} held_t;

static tenon_status_t hold(void *argument, int64_t begin, int64_t end) {
  static _Thread_local const held_t *known;
  held_t *held = argument;
  (void)end;
  held->begun++;
  if (tn_thread_id() == held->caller) {
    if (begin == 0) wait_until(&held->helping, held->most);
  } else if (known != held) {
    known = held;
    if (held->helping++ < held->most) {
      wait_until(&held->is_open, 1);
      held->clock++;
    }
  }
  held->done++;
  return TENON_OK;
}

static void run_held(void *argument) {
  held_t *held = argument;
  tn_parallel_set(held->threads);
  held->caller = tn_thread_id();
  CHECK_STATUS(tn_parallel(1000, 1, hold, held), TENON_OK);
  held->ended_at = ++held->clock;
}

TEST(
    "while threads are held inside a part the caller runs all other parts, and the loop ends after "
    "the held ones") {
  static held_t loops[16];
  held_t *held = loops;
  for (int32_t threads = 2; threads <= 5; threads++)
    for (int most = 1; most < threads; most++) {
      tn_spawned_t user;
      *held = (held_t){.threads = threads, .most = most};
      CHECK(tn_spawn(&user, run_held, held));
      wait_until(&held->done, 4 * threads - most);
      for (int i = 0; i < 20; i++)
        rest();
      CHECK(held->done == 4 * threads - most && held->ended_at == 0);
      held->is_open = 1;
      tn_join(&user);
      CHECK(held->begun == 4 * threads && held->done == 4 * threads);
      CHECK(held->ended_at == most + 1);
      held++;
    }
}

/* no more threads than were asked for */

typedef struct load_t {
  _Atomic int now;
  _Atomic int most;
} load_t;

static load_t of_all;

static void enter(load_t *load) {
  const int now = ++load->now;
  int most = load->most;
  while (now > most && !__atomic_compare_exchange_n(&load->most, &most, now, false,
                                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    ;
}

static tenon_status_t count_load(void *argument, int64_t begin, int64_t end) {
  load_t *load = argument;
  (void)end;
  enter(load);
  enter(&of_all);
  for (int64_t i = 0; i < 1 + begin % 3; i++)
    tn_thread_yield();
  of_all.now--;
  load->now--;
  return TENON_OK;
}

TEST("a loop never runs on more threads than it asked for, however many the pool has") {
  check_meeting(12);
  for (int32_t threads = 1; threads <= 6; threads++) {
    load_t load = {0};
    tn_parallel_set(threads);
    for (int i = 0; i < 200; i++)
      CHECK_STATUS(tn_parallel(100, 1, count_load, &load), TENON_OK);
    CHECK(load.most >= 1 && load.most <= threads && load.now == 0);
  }
  tn_parallel_set(0);
}

static void run_loads(void *argument) {
  load_t *load = argument;
  tn_parallel_set(2);
  for (int i = 0; i < 300; i++)
    CHECK_STATUS(tn_parallel(100, 1, count_load, load), TENON_OK);
}

static int32_t load_of_four(void) {
  load_t loads[4] = {0};
  tn_spawned_t users[4];
  of_all.most = 0;
  for (int i = 0; i < 4; i++)
    CHECK(tn_spawn(&users[i], run_loads, &loads[i]));
  for (int i = 0; i < 4; i++)
    tn_join(&users[i]);
  for (int i = 0; i < 4; i++)
    CHECK(loads[i].most >= 1 && loads[i].most <= 2);
  return of_all.most;
}

TEST("loops of four threads at once run on these and on the threads of the pool") {
  tn_parallel_shutdown();
  CHECK(load_of_four() <= 5); /* Each loop asks for one more thread, so the pool has one. */
  check_meeting(8);
  CHECK(load_of_four() <= 8); /* Each asks for two. */
  tn_parallel_set(0);
}

/* failures, nested loops, cancellation */

static tenon_status_t fail_some(void *argument, int64_t begin, int64_t end) {
  const uint32_t failing = *(const uint32_t *)argument;
  (void)end;
  return failing >> begin & 1 ? tn_fail(TENON_RANGE, "part %lld", (long long)begin) : TENON_OK;
}

static void check_failures_of(int rounds) {
  uint32_t random = 12345;
  for (int i = 0; i < rounds; i++) {
    char text[32];
    random = random * 1664525 + 1013904223;
    const uint32_t failing = random >> 16 | 1u << 15;
    snprintf(text, sizeof text, "part %d", __builtin_ctz(failing));
    CHECK_STATUS(tn_parallel(16, 1, fail_some, (void *)&failing), TENON_RANGE);
    CHECK(strcmp(tn_error(), text) == 0);
  }
}

TEST("whatever the threads do, a loop returns the message of the failed part with the lowest "
     "number") {
  tn_parallel_set(4);
  check_failures_of(1000);
  tn_parallel_set(0);
}

typedef struct nested_t {
  _Atomic int mistakes;
  _Atomic int parts;
} nested_t;

static tenon_status_t nest(void *argument, int64_t begin, int64_t end) {
  nested_t *nested = argument;
  for (int64_t i = begin; i < end; i++) {
    items_t *items = calloc(1, sizeof *items);
    nested->mistakes += run_items(items, 100 + i, 1) + items->parts_of_others;
    nested->mistakes += tn_parallel_threads() != 1;
    nested->parts += items->parts;
    free(items);
  }
  return TENON_OK;
}

static tenon_status_t nest_failures(void *argument, int64_t begin, int64_t end) {
  TN_TRY(nest(argument, begin, end));
  for (int64_t i = begin; i < end; i++) {
    const uint32_t failing = i > 20;
    const tenon_status_t status = tn_parallel(16, 1, fail_some, (void *)&failing);
    if (status != TENON_OK) return tn_fail(status, "item %lld: %s", (long long)i, tn_error());
  }
  return TENON_OK;
}

TEST("a loop inside a loop runs on its caller's thread, and its failure is the outer one's") {
  for (int i = 0; i < 20; i++) {
    nested_t nested = {0};
    tn_parallel_set(3);
    CHECK_STATUS(tn_parallel(48, 1, nest, &nested), TENON_OK);
    CHECK(nested.mistakes == 0 && nested.parts == 48 && tn_parallel_threads() == 3);
    CHECK_STATUS(tn_parallel(48, 1, nest_failures, &nested), TENON_RANGE);
    CHECK(strcmp(tn_error(), "item 21: part 0") == 0 && nested.mistakes == 0);
  }
  tn_parallel_set(0);
}

TEST("loops that are cancelled at any time leave the pool as it was") {
  for (int32_t threads = 2; threads <= 4; threads++)
    for (int i = 1; i <= 200; i++) {
      static items_t items;
      asked_t asked = {tn_thread_id(), 0, i % 20, 0};
      const tenon_poll_t poll = {ask, &asked};
      memset(&items, 0, sizeof items);
      tn_parallel_set(threads);
      tenon_poll_set(&poll);
      const tenon_status_t status = tn_parallel(ITEMS_MOST, 1, mark, &items);
      tenon_poll_set(NULL);
      /* The caller alone asks, and not again after it was told to cancel. */
      CHECK(asked.by_others == 0 && (!asked.last || asked.times <= asked.last));
      CHECK(status == (asked.times == asked.last ? TENON_CANCELLED : TENON_OK));
      CHECK(asked.times > 8 || asked.times == asked.last);
      CHECK(run_items(&items, 100, 1) == 0);
    }
  check_meeting(4);
  tn_parallel_set(0);
}

/* several threads, shutdown */

static void loop_often(void *argument) {
  _Atomic int *running = argument;
  items_t *items = calloc(1, sizeof *items);
  tn_parallel_set(3);
  for (int i = 0; i < 200; i++)
    CHECK(run_items(items, 1 + i * 7 % 500, 1) == 0);
  free(items);
  --*running;
}

static void shut_down(void *unused) {
  (void)unused;
  tn_parallel_shutdown();
}

TEST("the pool can be shut down by several threads while others run loops") {
  _Atomic int running = 3;
  tn_spawned_t users[3];
  for (int i = 0; i < 3; i++)
    CHECK(tn_spawn(&users[i], loop_often, (void *)&running));
  while (running) {
    tn_spawned_t other;
    CHECK(tn_spawn(&other, shut_down, NULL));
    tn_parallel_shutdown();
    tn_join(&other);
  }
  for (int i = 0; i < 3; i++)
    tn_join(&users[i]);
  check_meeting(4);
  tn_parallel_set(0);
}

TEST("after shutdown the pool has no threads, and the next loop starts as many as it asks for") {
  static const int32_t threads[] = {2, 5, 3, 1, 8, 8, 4};
  const tasks_t others = list_others();
  for (int i = 0; i < 7; i++) {
    check_meeting(threads[i]);
    CHECK(list_tasks(&others).count == threads[i] - 1);
    for (int k = 0; k <= i % 3; k++)
      tn_parallel_shutdown();
    /* A thread that has been joined may still be listed for a moment. */
    while (list_tasks(&others).count)
      rest();
  }
  check_meeting(3);
  check_meeting(6);
  check_meeting(2);
  CHECK(list_tasks(&others).count == 5);
  tn_parallel_set(0);
}

static void loop_once(void *argument) {
  items_t *items = calloc(1, sizeof *items);
  tn_parallel_set(2 + *(int *)argument % 3);
  CHECK(run_items(items, 50, 1) == 0);
  free(items);
}

TEST("many threads that run one loop each leave nothing behind but the pool's own threads") {
  const tasks_t others = list_others();
  for (int i = 0; i < 100; i++) {
    int numbers[5];
    tn_spawned_t users[5];
    for (int k = 0; k < 5; k++) {
      numbers[k] = i + k;
      CHECK(tn_spawn(&users[k], loop_once, &numbers[k]));
    }
    for (int k = 0; k < 5; k++)
      tn_join(&users[k]);
  }
  while (list_tasks(&others).count > 3)
    rest();
  check_meeting(4);
  tn_parallel_set(0);
}

static _Atomic int in_loops;

static tenon_status_t mark_together(void *argument, int64_t begin, int64_t end) {
  if (begin == 0) {
    in_loops++;
    wait_until(&in_loops, AT_ONCE);
  }
  return mark(argument, begin, end);
}

static void loop_together(void *argument) {
  items_t *items = argument;
  tn_parallel_set(4);
  items->caller = tn_thread_id();
  CHECK_STATUS(tn_parallel(1000, 1, mark_together, items), TENON_OK);
}

TEST("more loops at once than the pool has room for are complete") {
  items_t *items = calloc(AT_ONCE, sizeof *items);
  for (int round = 0; round < 5; round++) {
    tn_spawned_t users[AT_ONCE];
    int mistakes = 0;
    in_loops = 0;
    memset(items, 0, AT_ONCE * sizeof *items);
    for (int i = 0; i < AT_ONCE; i++)
      CHECK(tn_spawn(&users[i], loop_together, &items[i]));
    for (int i = 0; i < AT_ONCE; i++)
      tn_join(&users[i]);
    for (int i = 0; i < AT_ONCE; i++)
      for (int k = 0; k < 1000; k++)
        mistakes += items[i].marks[k] != 1;
    CHECK(mistakes == 0);
  }
  free(items);
}

TEST("sixteen threads run loops of all sizes at once") {
  _Atomic int running = 16;
  tn_spawned_t users[16];
  for (int i = 0; i < 16; i++)
    CHECK(tn_spawn(&users[i], loop_often, (void *)&running));
  for (int i = 0; i < 16; i++)
    tn_join(&users[i]);
  CHECK(running == 0);
}

/* equal bits */

static _Atomic int over;

static void keep_busy(void *unused) {
  (void)unused;
  while (!over)
    for (volatile int i = 0; i < 1000; i++)
      ;
}

static void loop_until_over(void *unused) {
  items_t *items = calloc(1, sizeof *items);
  (void)unused;
  tn_parallel_set(2);
  while (!over)
    CHECK(run_items(items, 100, 1) == 0);
  free(items);
}

typedef struct sum_t {
  float values[4096];
  float partial[4096]; /* of the part that begins at this item */
} sum_t;

static tenon_status_t add(void *argument, int64_t begin, int64_t end) {
  sum_t *sum = argument;
  float total = 0;
  for (int64_t i = begin; i < end; i++)
    total += sum->values[i];
  sum->partial[begin] = total;
  return TENON_OK;
}

static float sum_of(sum_t *sum) {
  float total = 0;
  memset(sum->partial, 0, sizeof sum->partial);
  CHECK_STATUS(tn_parallel(4096, 16, add, sum), TENON_OK);
  for (int i = 0; i < 4096; i++)
    total += sum->partial[i];
  return total;
}

TEST("a sum has equal bits in a thousand loops while other threads are busy") {
  static sum_t sum;
  tn_spawned_t users[2];
  int differing = 0;
  over = 0;
  CHECK(tn_spawn(&users[0], keep_busy, NULL));
  CHECK(tn_spawn(&users[1], loop_until_over, NULL));
  tn_parallel_set(4);
  for (int i = 0; i < 4096; i++)
    sum.values[i] = 1 / (float)(i + 1);
  const float first = sum_of(&sum);
  for (int i = 0; i < 1000; i++) {
    const float found = sum_of(&sum);
    differing += memcmp(&found, &first, sizeof found) != 0;
  }
  CHECK(differing == 0);
  over = 1;
  for (int i = 0; i < 2; i++)
    tn_join(&users[i]);
  tn_parallel_set(0);
}

typedef struct division_t {
  _Atomic int parts;
  int64_t ends[ITEMS_MOST]; /* of the part that begins at this item */
} division_t;

static tenon_status_t note_part(void *argument, int64_t begin, int64_t end) {
  division_t *division = argument;
  division->parts++;
  division->ends[begin] = end;
  return TENON_OK;
}

typedef struct loop_size_t {
  int64_t count;
  int64_t grain;
  division_t *expected;
  _Atomic int differing;
} loop_size_t;

static division_t *divide(int64_t count, int64_t grain) {
  division_t *division = calloc(1, sizeof *division);
  CHECK_STATUS(tn_parallel(count, grain, note_part, division), TENON_OK);
  return division;
}

static tenon_status_t divide_inside(void *argument, int64_t begin, int64_t end) {
  loop_size_t *size = argument;
  division_t *division = divide(size->count, size->grain);
  (void)begin;
  (void)end;
  size->differing += memcmp(division, size->expected, sizeof *division) != 0;
  free(division);
  return TENON_OK;
}

static void check_division(int64_t count, int64_t grain) {
  static const int32_t threads[] = {1, 2, 3, 7};
  const int64_t most = count / grain < 1 ? 1 : count / grain;
  tn_parallel_set(1);
  loop_size_t size = {count, grain, divide(count, grain), 0};
  CHECK(size.expected->parts == (most < 32 ? most : 32));
  for (int i = 0; i < 4; i++) {
    tn_parallel_set(threads[i]);
    CHECK_STATUS(divide_inside(&size, 0, 1), TENON_OK);
    CHECK_STATUS(tn_parallel(40, 1, divide_inside, &size), TENON_OK);
  }
  CHECK(size.differing == 0);
  free(size.expected);
  tn_parallel_set(0);
}

TEST("with TENON_DETERMINISTIC=1 the parts are the same on any number of threads, and in loops "
     "inside loops") {
  const char *value = getenv("TENON_DETERMINISTIC");
  if (!value || strcmp(value, "1") != 0) { /* This process has read the variable already. */
    char *arguments[] = {"pool_test", "TENON_DETERMINISTIC=1", NULL};
    pid_t child = 0;
    int status = -1;
    setenv("TENON_DETERMINISTIC", "1", 1);
    fflush(NULL);
    CHECK(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) == 0);
    unsetenv("TENON_DETERMINISTIC");
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return;
  }
  for (int64_t grain = 1; grain < 3000; grain = grain * 2 + 1) {
    check_division(ITEMS_MOST, grain);
    check_division(1 + grain, grain);
    check_division(31 * grain % ITEMS_MOST + 1, grain);
    check_division(33 * grain % ITEMS_MOST + 1, grain);
  }
}

/* fork */

#ifdef IS_INSTRUMENTED
TEST("a child of fork runs loops on threads of its own") {
  SKIP("a child of a process with threads cannot start threads under a sanitizer");
}
#else

static void loop_in_child(void) {
  static items_t items;
  check_meeting(3);
  for (int64_t count = 1; count < 300; count += 17)
    CHECK(run_items(&items, count, 1) == 0);
  tn_parallel_set(4);
  check_failures_of(20);
  check_meeting(8);
  tn_parallel_shutdown();
  check_meeting(2);
}

/* A child that hangs is ended, and counts as a failure. */
static void check_child(void *unused) {
  int status = -1;
  (void)unused;
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    alarm(120);
    check_failures = 0;
    loop_in_child();
    _exit(check_failures ? 1 : 0);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

TEST("a child of fork runs loops on threads of its own") {
  CHECK_STATUS(tenon_start(), TENON_OK);
  check_child(NULL);
  check_meeting(4);
  for (int i = 0; i < 10; i++) {
    check_child(NULL);
    check_meeting(4);
  }
  tn_parallel_shutdown();
  check_child(NULL);
  tn_parallel_set(0);
}

TEST("a child does so, too, if other threads of its parent are inside a loop") {
  CHECK_STATUS(tenon_start(), TENON_OK);
  for (int i = 0; i < 5; i++) {
    static held_t loops[5];
    held_t *held = &loops[i];
    tn_spawned_t user;
    tn_spawned_t forking;
    *held = (held_t){.threads = 4, .most = 2};
    CHECK(tn_spawn(&user, run_held, held));
    wait_until(&held->helping, 2);
    check_child(NULL);
    CHECK(tn_spawn(&forking, check_child, NULL));
    tn_join(&forking);
    held->is_open = 1;
    tn_join(&user);
    CHECK(held->done == 16);
    check_meeting(4);
  }
  tn_parallel_set(0);
}

static void fail_until_over(void *unused) {
  (void)unused;
  tn_parallel_set(3);
  while (!over)
    check_failures_of(1);
}

TEST("a child does so, too, if other threads of its parent run loops and fail all the time") {
  tn_spawned_t users[3];
  CHECK_STATUS(tenon_start(), TENON_OK);
  over = 0;
  for (int i = 0; i < 2; i++)
    CHECK(tn_spawn(&users[i], fail_until_over, NULL));
  CHECK(tn_spawn(&users[2], loop_until_over, NULL));
  for (int i = 0; i < 40; i++)
    check_child(NULL);
  over = 1;
  for (int i = 0; i < 3; i++)
    tn_join(&users[i]);
  check_meeting(3);
  tn_parallel_set(0);
}

static tenon_status_t fork_inside(void *argument, int64_t begin, int64_t end) {
  _Atomic int *failures = argument;
  (void)end;
  if (begin % 5) return TENON_OK;
  int status = -1;
  const pid_t child = fork();
  if (child == 0) {
    items_t *items = calloc(1, sizeof *items);
    _exit(items && run_items(items, 100, 1) == 0 && items->parts_of_others == 0 ? 0 : 1);
  }
  *failures += child < 0 || waitpid(child, &status, 0) != child || status != 0;
  return TENON_OK;
}

TEST("a part may fork, and its child may run a loop") {
  CHECK_STATUS(tenon_start(), TENON_OK);
  _Atomic int failures = 0;
  tn_parallel_set(3);
  for (int i = 0; i < 5; i++)
    CHECK_STATUS(tn_parallel(100, 1, fork_inside, (void *)&failures), TENON_OK);
  CHECK(failures == 0);
  check_meeting(3);
  tn_parallel_set(0);
}
#endif

TEST("nothing is left behind") {
  tn_parallel_shutdown();
  tenon_shutdown();
}
