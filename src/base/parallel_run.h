/* Interface between parallel.c and its two implementations ("backends" here): a loop is a job of
 * `parts` parts, and the backend calls tn_parallel_part once for each index. */
#ifndef TN_BASE_PARALLEL_RUN_H
#define TN_BASE_PARALLEL_RUN_H

#include "base/parallel.h"
#include "base/thread.h"

typedef struct tn_job_t {
  tn_part_fn part;
  void *argument;
  int64_t count;
  int64_t least; /* smallest number of items in a piece */
  int32_t parts;
  int32_t is_watched;
  tn_thread_calls_t calls; /* call state of the thread that started the loop */
  int32_t status;          /* first failure */
  char error[1024];
} tn_job_t;

void tn_parallel_part(tn_job_t *job, int32_t index);
void tn_parallel_run(tn_job_t *job); /* backend: returns when all parts are done */
/* backend: sets the number of threads for this thread's loops, including loops of other
 * libraries */
void tn_parallel_apply(int32_t threads);

#endif
