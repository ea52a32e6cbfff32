/* Loops on threads that the program lends (tenon_thread_pool_set), which call `help` in every way
 * that the header allows: at once, from a queue, on the calling thread, late, too often, never.
 * Invariant: no test depends on the speed of a thread. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
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

enum { ITEMS_MOST = 2000, QUEUE = 4096, LENDERS = 4 };

typedef void (*help_fn)(void *argument);

/* loops that check themselves */

typedef struct items_t {
  int64_t caller;
  _Atomic int parts;
  _Atomic int parts_of_others;
  _Atomic int first_by_caller;
  _Atomic uint8_t marks[ITEMS_MOST];
} items_t;

static tenon_status_t mark(void *argument, int64_t begin, int64_t end) {
  items_t *items = argument;
  items->parts++;
  if (tn_thread_id() != items->caller) items->parts_of_others++;
  if (begin == 0) items->first_by_caller = tn_thread_id() == items->caller;
  for (int64_t i = begin; i < end; i++)
    items->marks[i]++;
  return TENON_OK;
}

/* Runs a loop and returns the number of mistakes. */
static int run_items(items_t *items, int64_t count, int64_t grain) {
  int mistakes = 0;
  memset(items, 0, sizeof *items);
  items->caller = tn_thread_id();
  mistakes += tn_parallel(count, grain, mark, items) != TENON_OK;
  mistakes += !items->first_by_caller;
  for (int64_t i = 0; i < ITEMS_MOST; i++)
    mistakes += items->marks[i] != (i < count);
  return mistakes;
}

static int run_many(void) {
  static _Thread_local items_t items;
  int mistakes = 0;
  for (int64_t count = 1; count <= ITEMS_MOST; count = count * 3 / 2 + 1)
    mistakes += run_items(&items, count, 1 + count % 3);
  return mistakes;
}

/* pools */

typedef struct lender_t {
  int32_t threads;
  _Atomic int asked; /* calls of `lend` */
  _Atomic int most;  /* helpers that were asked for at once */
} lender_t;

static int32_t count(void *state) { return ((lender_t *)state)->threads; }

static void note(void *state, int32_t helpers) {
  lender_t *lender = state;
  lender->asked++;
  if (helpers > lender->most) lender->most = helpers;
}

static void lend_nothing(void *state, int32_t helpers, help_fn help, void *argument) {
  (void)help;
  (void)argument;
  note(state, helpers);
}

/* As a pool does whose threads are all busy. */
static void lend_caller(void *state, int32_t helpers, help_fn help, void *argument) {
  note(state, helpers);
  for (int32_t i = 0; i < helpers; i++)
    help(argument);
}

typedef struct request_t {
  help_fn help;
  void *argument;
} request_t;

static void *serve_once(void *pointer) {
  const request_t *request = pointer;
  request->help(request->argument);
  return NULL;
}

/* As OpenMP does: returns after all threads have helped, of which the caller is one. */
static void lend_and_wait(void *state, int32_t helpers, help_fn help, void *argument) {
  pthread_t threads[LENDERS];
  const request_t request = {help, argument};
  int32_t made = 0;
  note(state, helpers);
  while (made < helpers && made < LENDERS &&
         !pthread_create(&threads[made], NULL, serve_once, (void *)&request))
    made++;
  help(argument);
  for (int32_t i = 0; i < made; i++)
    pthread_join(threads[i], NULL);
}

/* A queue whose threads may come late: they serve a request only while `is_open`. */
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_changed = PTHREAD_COND_INITIALIZER;
static request_t queue[QUEUE];
static int queued;
static bool is_open;
static bool is_over;
static _Atomic int served;
static pthread_t servers[LENDERS];

static void *serve_queue(void *unused) {
  (void)unused;
  pthread_mutex_lock(&queue_lock);
  while (!is_over || queued) {
    if (!is_open || !queued) {
      pthread_cond_wait(&queue_changed, &queue_lock);
      continue;
    }
    const request_t request = queue[--queued];
    pthread_mutex_unlock(&queue_lock);
    request.help(request.argument);
    served++;
    pthread_mutex_lock(&queue_lock);
  }
  pthread_mutex_unlock(&queue_lock);
  return NULL;
}

static void change_queue(bool opens, bool ends) {
  pthread_mutex_lock(&queue_lock);
  is_open = opens;
  is_over = ends;
  pthread_cond_broadcast(&queue_changed);
  pthread_mutex_unlock(&queue_lock);
}

static void start_queue(bool opens) {
  change_queue(opens, false);
  served = queued = 0;
  for (int i = 0; i < LENDERS; i++)
    CHECK(pthread_create(&servers[i], NULL, serve_queue, NULL) == 0);
}

/* Returns after all requests in the queue have been served. */
static void stop_queue(void) {
  change_queue(true, true);
  for (int i = 0; i < LENDERS; i++)
    pthread_join(servers[i], NULL);
}

static void lend_queue(void *state, int32_t helpers, help_fn help, void *argument) {
  note(state, helpers);
  pthread_mutex_lock(&queue_lock);
  for (int32_t i = 0; i < helpers && queued < QUEUE; i++)
    queue[queued++] = (request_t){help, argument};
  pthread_cond_broadcast(&queue_changed);
  pthread_mutex_unlock(&queue_lock);
}

typedef void (*lend_fn)(void *state, int32_t helpers, help_fn help, void *argument);

static tenon_thread_pool_t pool_of(lender_t *lender, lend_fn lend) {
  return (tenon_thread_pool_t){sizeof(tenon_thread_pool_t), count, lend, lender};
}

/* the tests */

TEST("whatever a pool does with requests, each item is processed once and the caller has the first "
     "part") {
  static const lend_fn ways[] = {lend_nothing, lend_caller, lend_and_wait, lend_queue};
  tn_parallel_shutdown();
  start_queue(true);
  for (int i = 0; i < 4; i++) {
    lender_t lender = {.threads = 3};
    const tenon_thread_pool_t pool = pool_of(&lender, ways[i]);
    CHECK_STATUS(tenon_thread_pool_set(&pool, 0), TENON_OK);
    CHECK(tenon_thread_pool_get(0) == &pool && !tenon_thread_pool_get(1));
    CHECK(tenon_threads_get() == 3);
    for (int round = 0; round < 20; round++)
      CHECK(run_many() == 0);
    CHECK(lender.asked > 100 && lender.most == 2);
    CHECK_STATUS(tenon_thread_pool_set(NULL, 0), TENON_OK);
  }
  stop_queue();
}

TEST("requests that are served after their loops, during other loops, do no harm") {
  lender_t lender = {.threads = LENDERS};
  const tenon_thread_pool_t pool = pool_of(&lender, lend_queue);
  start_queue(false);
  tenon_thread_pool_set(&pool, 0);
  for (int round = 0; round < 30; round++) {
    CHECK(run_many() == 0); /* Nobody helps; requests pile up. */
    change_queue(true, false);
    CHECK(run_many() == 0);
    change_queue(false, false);
  }
  tenon_thread_pool_set(NULL, 0);
  change_queue(true, false);
  tn_parallel_set(3);
  CHECK(run_many() == 0); /* Late requests of the other pool meet loops on Tenon's own threads. */
  tn_parallel_set(0);
  stop_queue();
  CHECK(served > 0);
}

typedef struct meeting_t {
  int count;
  _Atomic int begun;
} meeting_t;

static tenon_status_t meet(void *argument, int64_t begin, int64_t end) {
  meeting_t *meeting = argument;
  (void)begin;
  (void)end;
  meeting->begun++;
  while (meeting->begun < meeting->count)
    rest();
  return TENON_OK;
}

TEST("as many threads help as the pool counts, and fewer if the program wants fewer") {
  static const lend_fn ways[] = {lend_and_wait, lend_queue};
  start_queue(true);
  for (int i = 0; i < 2; i++)
    for (int32_t threads = 1; threads <= LENDERS; threads++) {
      lender_t lender = {.threads = threads};
      const tenon_thread_pool_t pool = pool_of(&lender, ways[i]);
      meeting_t meeting = {.count = threads};
      tenon_thread_pool_set(&pool, 0);
      CHECK_STATUS(tn_parallel(threads, 1, meet, &meeting), TENON_OK);
      CHECK(lender.most == threads - 1 && lender.asked == (threads > 1));
      tn_parallel_set(2);
      CHECK(tenon_threads_get() == (threads < 2 ? threads : 2));
      lender.most = 0;
      CHECK(run_many() == 0 && lender.most == (threads > 1));
      tn_parallel_set(100);
      CHECK(tenon_threads_get() == threads);
      tn_parallel_set(0);
      tenon_thread_pool_set(NULL, 0);
    }
  stop_queue();
}

TEST("a pool that counts no threads, or too many, is taken as 1 or as the most that Tenon uses") {
  lender_t lender = {.threads = -5};
  const tenon_thread_pool_t pool = pool_of(&lender, lend_caller);
  tenon_thread_pool_set(&pool, 0);
  CHECK(tenon_threads_get() == 1);
  CHECK(run_many() == 0 && lender.asked == 0);
  lender.threads = INT32_MAX;
  CHECK(tenon_threads_get() == 1024);
  CHECK(run_many() == 0 && lender.most <= 255);
  tenon_thread_pool_set(NULL, 0);
}

static void run_in_thread(void *mistakes) { *(int *)mistakes = run_many(); }

TEST("a pool of the process serves all threads that have none of their own") {
  lender_t all = {.threads = 3};
  lender_t own = {.threads = 2};
  const tenon_thread_pool_t of_all = pool_of(&all, lend_and_wait);
  const tenon_thread_pool_t of_thread = pool_of(&own, lend_caller);
  tn_spawned_t other;
  int mistakes = -1;
  CHECK_STATUS(tenon_thread_pool_set(&of_all, 1), TENON_OK);
  CHECK(tenon_thread_pool_get(1) == &of_all && !tenon_thread_pool_get(0));
  tenon_thread_pool_set(&of_thread, 0);
  CHECK(run_many() == 0 && own.asked > 0 && all.asked == 0);
  CHECK(tn_spawn(&other, run_in_thread, &mistakes));
  tn_join(&other);
  CHECK(mistakes == 0 && all.asked > 0);
  tenon_thread_pool_set(NULL, 0);
  const int before = all.asked;
  CHECK(run_many() == 0 && all.asked > before);
  tenon_thread_pool_set(NULL, 1);
  CHECK(!tenon_thread_pool_get(1));
}

static tenon_status_t fail_some(void *argument, int64_t begin, int64_t end) {
  (void)argument;
  (void)end;
  return begin % 3 == 2 ? tn_fail(TENON_RANGE, "part %lld", (long long)begin) : TENON_OK;
}

static tenon_status_t nest(void *argument, int64_t begin, int64_t end) {
  _Atomic int *mistakes = argument;
  for (int64_t i = begin; i < end; i++) {
    items_t *items = calloc(1, sizeof *items);
    *mistakes += run_items(items, 50 + i, 1) + items->parts_of_others;
    free(items);
  }
  return TENON_OK;
}

TEST("failures, nested loops and cancellation are the same on lent threads") {
  static const lend_fn ways[] = {lend_caller, lend_and_wait, lend_queue};
  start_queue(true);
  for (int i = 0; i < 3; i++) {
    lender_t lender = {.threads = 4};
    const tenon_thread_pool_t pool = pool_of(&lender, ways[i]);
    tenon_thread_pool_set(&pool, 0);
    for (int round = 0; round < 50; round++) {
      _Atomic int mistakes = 0;
      asked_t asked = {tn_thread_id(), 0, 1 + round % 4, 0};
      const tenon_poll_t poll = {ask, &asked};
      static items_t items;
      CHECK_STATUS(tn_parallel(16, 1, fail_some, NULL), TENON_RANGE);
      CHECK(strcmp(tn_error(), "part 2") == 0);
      CHECK_STATUS(tn_parallel(16, 1, nest, (void *)&mistakes), TENON_OK);
      CHECK(mistakes == 0);
      memset(&items, 0, sizeof items);
      items.caller = tn_thread_id();
      tenon_poll_set(&poll);
      CHECK_STATUS(tn_parallel(ITEMS_MOST, 1, mark, &items), TENON_CANCELLED);
      tenon_poll_set(NULL);
      CHECK(asked.by_others == 0 && asked.times == asked.last);
    }
    tenon_thread_pool_set(NULL, 0);
  }
  stop_queue();
}

#ifdef IS_INSTRUMENTED
TEST("the child of a fork uses Tenon's own threads") {
  SKIP("a child of a process with threads cannot start threads under a sanitizer");
}
#else
TEST("the child of a fork uses Tenon's own threads") {
  lender_t lender = {.threads = 3};
  const tenon_thread_pool_t pool = pool_of(&lender, lend_and_wait);
  CHECK_STATUS(tenon_thread_pool_set(&pool, 0), TENON_OK);
  CHECK_STATUS(tenon_thread_pool_set(&pool, 1), TENON_OK);
  const pid_t child = fork();
  if (!child) {
    const bool none = !tenon_thread_pool_get(0) && !tenon_thread_pool_get(1);
    tn_parallel_set(2);
    _exit(none && run_many() == 0 && lender.asked == 0 ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(tenon_thread_pool_get(0) == &pool);
  CHECK(run_many() == 0 && lender.asked > 0);
  tenon_thread_pool_set(NULL, 0);
  tenon_thread_pool_set(NULL, 1);
}
#endif

TEST("a pool that is too short or lacks a function is refused, and the one before stays") {
  lender_t lender = {.threads = 2};
  const tenon_thread_pool_t good = pool_of(&lender, lend_caller);
  tenon_thread_pool_t bad = good;
  tenon_thread_pool_set(&good, 0);
  bad.size = 8;
  CHECK_STATUS(tenon_thread_pool_set(&bad, 0), TENON_INVALID);
  CHECK(strstr(tn_error(), "size: expected at least 32, found 8") != NULL);
  bad = good;
  bad.count = NULL;
  CHECK_STATUS(tenon_thread_pool_set(&bad, 1), TENON_INVALID);
  CHECK(strstr(tn_error(), "found no function count") != NULL);
  bad = good;
  bad.lend = NULL;
  CHECK_STATUS(tenon_thread_pool_set(&bad, 0), TENON_INVALID);
  CHECK(strstr(tn_error(), "found no function lend") != NULL);
  CHECK(tenon_thread_pool_get(0) == &good && !tenon_thread_pool_get(1));
  tenon_thread_pool_set(NULL, 0);
}
