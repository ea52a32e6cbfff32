/* The pool of threads behind parallel.c. A loop is a job: its parts are numbered from 0, and each
 * is run once, by the thread that claims it. */
#ifndef TN_BASE_PARALLEL_POOL_H
#define TN_BASE_PARALLEL_POOL_H

#include "base/parallel.h"
#include "base/thread.h"

typedef struct tn_job_t {
  tn_part_fn part;
  void *argument;
  int64_t count;
  int64_t least; /* smallest number of items in a piece */
  int32_t parts;
  int32_t threads; /* most threads that run parts, with the caller; at least 2 */
  int32_t is_watched;
  /* the caller's cancellation callback, if every thread may ask it; NULL: only the caller may */
  const struct tenon_poll_t *shared_poll;
  const tenon_thread_pool_t *pool; /* its threads help; NULL: the threads of this pool */
  int32_t has_begun;               /* the caller has run the first part */
  uint32_t done;                   /* parts that the caller has run */
  tn_thread_calls_t calls;         /* call state of the thread that started the loop */
  int32_t failed;                  /* number of the first part that failed; `parts`: none; atomic */
  int32_t status;                  /* of that part */
  char *error;                     /* its message */
} tn_job_t;

/* parallel.c: runs one part. */
void tn_job_part(tn_job_t *job, int32_t number);
/* Runs all parts. Returns when they are done. */
void tn_pool_run(tn_job_t *job);
void tn_pool_shutdown(void);
void tn_pool_in_child(void);

#endif
