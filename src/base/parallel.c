/* What both forms of parallel-for share: how many threads, how the range is cut, how a part's failure comes back.
 * Invariant: parts are cut the same way for the same count, grain and threads, so results do not depend on timing. */
#include "base/parallel.h"

#include <stdlib.h>

#include "base/parallel_run.h"
#include "base/status.h"
#include "base/thread.h"

static int32_t standard(void) {
  static int32_t count; /* benign race: every thread computes the same */
  int32_t known = __atomic_load_n(&count, __ATOMIC_RELAXED);
  if (known) return known;
  const char *text = getenv("TENON_THREADS");
  long asked = text ? strtol(text, NULL, 10) : 0;
  known = asked > 0 && asked <= 1024 ? (int32_t)asked : tn_processor_count();
  __atomic_store_n(&count, known, __ATOMIC_RELAXED);
  return known;
}

int32_t tn_parallel_threads(void) {
  const tn_thread_t *thread = tn_thread();
  return thread->inside ? 1 : thread->threads ? thread->threads : standard();
}

void tn_parallel_set(int32_t count) {
  tn_thread()->threads = count > 0 ? count : 0;
  tn_parallel_apply(count > 0 ? count : standard());
}

void tn_parallel_part(tn_job_t *job, int32_t index) {
  int64_t each = job->count / job->parts, more = job->count % job->parts;
  int64_t begin = index * each + (index < more ? index : more), end = begin + each + (index < more);
  tn_thread_t *thread = tn_thread();
  tn_thread_calls_t before = thread->calls;
  thread->inside++, thread->calls = job->calls;
  tenon_status_t status = job->part(job->argument, begin, end);
  thread->inside--, thread->calls = before;
  int32_t none = TENON_OK;
  if (status != TENON_OK &&
      __atomic_compare_exchange_n(&job->status, &none, status, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    size_t i = 0;
    for (const char *text = tn_error(); text[i] && i + 1 < sizeof job->error; i++) job->error[i] = text[i];
    job->error[i] = 0;
  }
}

tenon_status_t tn_parallel(int64_t count, int64_t grain, tn_part_fn part, void *argument) {
  if (count <= 0) return TENON_OK;
  int64_t parts = count / (grain > 0 ? grain : 1);
  int32_t threads = parts > 1 ? tn_parallel_threads() : 1;
  if (parts < threads) threads = (int32_t)parts;
  if (threads <= 1) return part(argument, 0, count);
  tn_job_t job = {part, argument, count, threads, tn_thread()->calls, TENON_OK, ""};
  tn_parallel_run(&job);
  return job.status == TENON_OK ? TENON_OK : tn_fail(job.status, "%s", job.error);
}
