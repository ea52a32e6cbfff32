/* Between parallel.c and its two backends: a job of `parts` parts; the backend calls
 * tn_parallel_part for each index. */
#ifndef TN_BASE_PARALLEL_RUN_H
#define TN_BASE_PARALLEL_RUN_H

#include "base/parallel.h"
#include "base/thread.h"

typedef struct tn_job_t {
  tn_part_fn part;
  void *argument;
  int64_t count;
  int64_t least; /* items, and those of a piece at least */
  int32_t parts;
  int32_t is_watched;
  tn_thread_calls_t calls; /* of the thread that began it */
  int32_t status;          /* first failure */
  char error[1024];
} tn_job_t;

void tn_parallel_part(tn_job_t *job, int32_t index);
void tn_parallel_run(tn_job_t *job); /* backend: returns when every part is done */
void tn_parallel_apply(
    int32_t threads); /* backend: this thread's loops, also those of libraries, use so many */

#endif
