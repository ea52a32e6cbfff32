/* Parallel-for on OpenMP's threads. oneDNN uses the same pool, so the processors are not
 * oversubscribed. */
#include <omp.h>

#include "base/parallel_run.h"

void tn_parallel_run(tn_job_t *job) {
#pragma omp parallel num_threads(job->parts)
  {
    int32_t team = omp_get_num_threads(); /* may be smaller than requested */
    for (int32_t i = omp_get_thread_num(); i < job->parts; i += team)
      tn_parallel_part(job, i);
  }
}

void tn_parallel_apply(int32_t threads) { omp_set_num_threads(threads); }
void tn_parallel_shutdown(void) {}
/* A forked child would wait for the threads of this pool, which do not exist in the child. */
void tn_parallel_before_fork(void) { omp_pause_resource_all(omp_pause_soft); }
void tn_parallel_in_child(void) {}
const char *tn_parallel_name(void) { return "openmp"; }
