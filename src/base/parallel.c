/* The part of parallel-for that is common to both implementations: the number of threads, how the
 * range is divided, and how the failure of a part is reported. Invariant: the division depends only
 * on count, grain, threads and whether a cancellation callback is set, so results do not depend on
 * timing. */
#include "base/parallel.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/environment_check.h"
#include "base/parallel_run.h"
#include "base/poll.h"
#include "base/status.h"
#include "base/thread.h"

/* What TENON_THREADS asks for; 0: nothing. */
static int32_t asked_threads(void) { return (int32_t)tn_environment_number("TENON_THREADS", 1024); }

static int32_t default_threads(void) {
  static int32_t count; /* benign race: every thread computes the same value */
  int32_t known = __atomic_load_n(&count, __ATOMIC_RELAXED);
  if (known) return known;
  known = asked_threads();
  if (!known) known = tn_processor_count();
  __atomic_store_n(&count, known, __ATOMIC_RELAXED);
  return known;
}

void tn_parallel_begin_thread(void) {
  int32_t asked = asked_threads();
  if (asked) tn_parallel_apply(asked);
}

int32_t tn_parallel_threads(void) {
  const tn_thread_t *thread = tn_thread();
  if (thread->inside) return 1;
  return thread->threads ? thread->threads : default_threads();
}

void tn_parallel_set(int32_t count) {
  tn_thread()->threads = count > 0 ? count : 0;
  tn_parallel_apply(count > 0 ? count : default_threads());
}

/* Runs [begin, end) in pieces of at least `least` items. Stops early when a piece fails, when the
 * caller's cancellation callback ends the call, or when another thread's part has failed. */
static tenon_status_t run_pieces(tn_job_t *job, int64_t begin, int64_t end) {
  enum { MOST = 64 };
  int64_t each = (end - begin) / MOST;
  int64_t stop;
  if (each < job->least) each = job->least;
  for (; end - begin >= 2 * each; begin = stop) {
    stop = begin + each;
    TN_TRY(job->part(job->argument, begin, stop));
    TN_TRY(tn_poll());
    if (__atomic_load_n(&job->status, __ATOMIC_RELAXED) != TENON_OK) return TENON_OK;
  }
  return job->part(job->argument, begin, end);
}

void tn_parallel_part(tn_job_t *job, int32_t index) {
  int64_t each = job->count / job->parts;
  int64_t more = job->count % job->parts;
  int64_t begin = index * each + (index < more ? index : more);
  int64_t end = begin + each + (index < more);
  tn_thread_t *thread = tn_thread();
  tn_thread_calls_t before = thread->calls;
  thread->inside++;
  thread->calls = job->calls;
  tenon_status_t status =
      job->is_watched ? run_pieces(job, begin, end) : job->part(job->argument, begin, end);
  thread->inside--;
  thread->calls = before;
  int32_t none = TENON_OK;
  if (status != TENON_OK && __atomic_compare_exchange_n(&job->status, &none, status, 0,
                                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    size_t i = 0;
    for (const char *text = tn_error(); text[i] && i + 1 < sizeof job->error; i++)
      job->error[i] = text[i];
    job->error[i] = 0;
  }
}

tenon_status_t tn_parallel(int64_t count, int64_t grain, tn_part_fn part, void *argument) {
  if (count <= 0) return TENON_OK;
  int64_t parts = count / (grain > 0 ? grain : 1);
  int32_t threads = parts > 1 ? tn_parallel_threads() : 1;
  if (parts < threads) threads = (int32_t)parts;
  bool is_watched = tn_thread()->poll != NULL;
  if (threads <= 1 && !is_watched) return part(argument, 0, count);
  tn_job_t job = {
      part,     argument, count, grain > 0 ? grain : 1, threads, is_watched, tn_thread()->calls,
      TENON_OK, ""};
  if (threads <= 1) return run_pieces(&job, 0, count);
  tn_parallel_run(&job);
  return job.status == TENON_OK ? TENON_OK : tn_fail(job.status, "%s", job.error);
}
