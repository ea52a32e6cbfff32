/* The division of a loop into parts, the number of threads, and how the failure of a part is
 * reported. The pool (parallel_pool.c) decides which thread runs which part.
 * Invariant: results do not depend on timing, because the division does not. */
#include "base/parallel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/environment_check.h"
#include "base/parallel_pool.h"
#include "base/poll.h"
#include "base/processors.h"
#include "base/status.h"
#include "base/thread.h"

enum { ERROR_SIZE = 1024 };
enum {
  PARTS_OF_THREAD = 4, /* more than one, so that no thread waits long for another one's part */
  PARTS_OF_ANY = 32,   /* with TENON_DETERMINISTIC=1 */
  PARTS_MOST = 32767,  /* the pool counts parts in 15 bits */
  PIECES_OF_PART = 16, /* with a cancellation callback, which is asked between two pieces */
};

enum { THREADS_MOST = 1024 };

static tn_mutex_t failures = TN_MUTEX_INIT;
static const tenon_thread_pool_t *process_pool; /* atomic */

static int32_t default_threads(void) {
  static int32_t count; /* benign race: every thread computes the same value */
  int32_t known = __atomic_load_n(&count, __ATOMIC_RELAXED);
  if (known) return known;
  known = (int32_t)tn_environment_number("TENON_THREADS", THREADS_MOST);
  if (!known) known = tn_processors().count;
  __atomic_store_n(&count, known, __ATOMIC_RELAXED);
  return known;
}

static bool is_deterministic(void) {
  static int32_t answer; /* 0: not read yet; benign race as above */
  int32_t known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
  if (!known) {
    known = 1 + (tn_environment_number("TENON_DETERMINISTIC", 1) == 1);
    __atomic_store_n(&answer, known, __ATOMIC_RELAXED);
  }
  return known == 2;
}

static const tenon_thread_pool_t *pool_of(const tn_thread_t *thread) {
  return thread->pool ? thread->pool : __atomic_load_n(&process_pool, __ATOMIC_ACQUIRE);
}

/* A pool of the program limits the number, because it has no further threads. */
static int32_t threads_of(const tn_thread_t *thread, const tenon_thread_pool_t *pool) {
  if (!pool) return thread->threads ? thread->threads : default_threads();
  int32_t count = pool->count(pool->state);
  if (count > THREADS_MOST) count = THREADS_MOST;
  if (thread->threads && thread->threads < count) count = thread->threads;
  return count > 1 ? count : 1;
}

int32_t tn_parallel_threads(void) {
  const tn_thread_t *thread = tn_thread();
  return thread->inside ? 1 : threads_of(thread, pool_of(thread));
}

void tn_parallel_set(int32_t count) { tn_thread()->threads = count > 0 ? count : 0; }

tenon_status_t tn_parallel_pool_set(const tenon_thread_pool_t *pool, int32_t is_process) {
  if (pool && !TENON_HAS(pool, state))
    return tn_fail(TENON_INVALID, "a pool of threads: size: expected at least %zu, found %u",
                   offsetof(tenon_thread_pool_t, state) + sizeof pool->state, (unsigned)pool->size);
  if (pool && (!pool->count || !pool->lend))
    return tn_fail(TENON_INVALID,
                   "a pool of threads: expected the functions count and lend, "
                   "found no function %s",
                   pool->count ? "lend" : "count");
  if (is_process)
    __atomic_store_n(&process_pool, pool, __ATOMIC_RELEASE);
  else
    tn_thread()->pool = pool;
  return TENON_OK;
}

const tenon_thread_pool_t *tn_parallel_pool(int32_t is_process) {
  return is_process ? __atomic_load_n(&process_pool, __ATOMIC_ACQUIRE) : tn_thread()->pool;
}

static bool has_failed(const tn_job_t *job) {
  return __atomic_load_n(&job->failed, __ATOMIC_RELAXED) < job->parts;
}

/* Runs [begin, end) in pieces of at least `least` items. Stops early when a piece fails, when the
 * caller's cancellation callback ends the call, or when another part has failed. */
static tenon_status_t run_pieces(tn_job_t *job, int64_t begin, int64_t end) {
  int64_t each = (end - begin + PIECES_OF_PART - 1) / PIECES_OF_PART;
  int64_t stop;
  if (each < job->least) each = job->least;
  each += (job->least - each % job->least) % job->least; /* parts may be made for multiples */
  if (job->shared_poll) TN_TRY(tn_poll());
  for (; end - begin >= 2 * each; begin = stop) {
    if (has_failed(job)) return TENON_OK;
    stop = begin + each;
    TN_TRY(job->part(job->argument, begin, stop));
    TN_TRY(tn_poll());
  }
  if (has_failed(job)) return TENON_OK;
  TN_TRY(job->part(job->argument, begin, end));
  return tn_poll();
}

/* Keeps the failure of the part with the lowest number, so that the same message is reported
 * whichever part fails first. */
static void report_failure(tn_job_t *job, int32_t number, tenon_status_t status) {
  tn_mutex_lock(&failures);
  if (number < __atomic_load_n(&job->failed, __ATOMIC_RELAXED)) {
    size_t i = 0;
    for (const char *text = tn_error(); text[i] && i + 1 < ERROR_SIZE; i++)
      job->error[i] = text[i];
    job->error[i] = 0;
    job->status = status;
    __atomic_store_n(&job->failed, number, __ATOMIC_RELAXED);
  }
  tn_mutex_unlock(&failures);
}

static void run_job_part(tn_job_t *job, int32_t number) {
  const int64_t each = job->count / job->parts;
  const int64_t more = job->count % job->parts;
  const int64_t begin = number * each + (number < more ? number : more);
  const int64_t end = begin + each + (number < more);
  const tenon_status_t status =
      job->is_watched ? run_pieces(job, begin, end) : job->part(job->argument, begin, end);
  if (status != TENON_OK) report_failure(job, number, status);
}

void tn_job_part(tn_job_t *job, int32_t number) {
  tn_thread_t *thread = tn_thread();
  const tn_thread_calls_t before = thread->calls;
  const tenon_poll_t *poll = thread->poll;
  thread->inside++;
  thread->calls = job->calls;
  if (job->shared_poll) thread->poll = job->shared_poll;
  run_job_part(job, number);
  thread->inside--;
  thread->calls = before;
  thread->poll = poll;
}

static int64_t parts_of(int64_t count, int64_t grain, int32_t threads) {
  int64_t most = count / grain;
  int64_t wanted = (int64_t)threads * PARTS_OF_THREAD;
  if (is_deterministic())
    wanted = PARTS_OF_ANY;
  else if (threads <= 1)
    wanted = 1;
  if (wanted > PARTS_MOST) wanted = PARTS_MOST;
  if (most > wanted) most = wanted;
  return most < 1 ? 1 : most;
}

int32_t tn_parallel_parts(int64_t count, int64_t grain) {
  return (int32_t)parts_of(count, grain, tn_parallel_threads());
}

tenon_status_t tn_parallel(int64_t count, int64_t grain, tn_part_fn part, void *argument) {
  if (count <= 0) return TENON_OK;
  if (grain < 1) grain = 1;
  tn_thread_t *thread = tn_thread();
  const tenon_thread_pool_t *pool = pool_of(thread);
  int32_t threads = count / grain > 1 && !thread->inside ? threads_of(thread, pool) : 1;
  const int32_t parts = (int32_t)parts_of(count, grain, threads);
  const bool is_watched = thread->poll != NULL;
  if (threads > parts) threads = parts;
  if (parts == 1 && !is_watched) return part(argument, 0, count);
  char error[ERROR_SIZE];
  tn_job_t job = {.part = part,
                  .argument = argument,
                  .count = count,
                  .least = grain,
                  .parts = parts,
                  .threads = threads,
                  .is_watched = is_watched,
                  .shared_poll = thread->is_poll_shared ? thread->poll : NULL,
                  .pool = pool,
                  .calls = thread->calls,
                  .failed = parts,
                  .status = TENON_OK,
                  .error = error};
  if (threads > 1)
    tn_pool_run(&job);
  else
    for (int32_t i = 0; i < parts; i++)
      run_job_part(&job, i);
  return job.failed == parts ? TENON_OK : tn_fail(job.status, "%s", error);
}

void tn_parallel_shutdown(void) { tn_pool_shutdown(); }

void tn_parallel_in_child(void) {
  failures = (tn_mutex_t)TN_MUTEX_INIT; /* a thread that the child lacks may have held it */
  process_pool = NULL;                  /* its threads do not exist in the child either */
  tn_thread()->pool = NULL;
  tn_pool_in_child();
}
