/* Parallel-for.  One of parallel_openmp.c (shares OpenMP's threads with oneDNN) and
 * parallel_posix.c (threads of our own, which the thread sanitizer understands) is compiled.  A
 * loop begun inside a loop runs on its own thread. */
#ifndef TN_BASE_PARALLEL_H
#define TN_BASE_PARALLEL_H

#include <stdint.h>
#include <tenon/op.h>

typedef tenon_status_t (*tn_part_fn)(void *argument, int64_t begin, int64_t end);

/* Runs parts that cover [0, count), each of at least `grain`; returns the first failure, with its
 * message in this thread. */
tenon_status_t tn_parallel(int64_t count, int64_t grain, tn_part_fn part, void *argument);
/* Threads that a parallel-for of this thread uses; `count` 0 resets to the default (TENON_THREADS,
 * else processors). */
void tn_parallel_set(int32_t count);
int32_t tn_parallel_threads(void);
void tn_parallel_shutdown(void);
/* Around a fork: what the child cannot have of the threads is let go before, or forgotten in it;
 * loops start new ones. */
void tn_parallel_before_fork(void);
void tn_parallel_in_child(void);
const char *tn_parallel_name(void); /* "openmp" or "posix" */

#endif
