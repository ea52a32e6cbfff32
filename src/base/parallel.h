/* Parallel-for. A build compiles one of two implementations: parallel_openmp.c, which shares
 * OpenMP's threads with oneDNN, or parallel_posix.c, whose own threads the thread sanitizer
 * understands. A loop inside another loop runs on its caller's thread alone. */
#ifndef TN_BASE_PARALLEL_H
#define TN_BASE_PARALLEL_H

#include <stdint.h>
#include <tenon/op.h>

typedef tenon_status_t (*tn_part_fn)(void *argument, int64_t begin, int64_t end);

/* Divides [0, count) into parts of at least `grain` items and runs them in parallel. Returns the
 * first failure; its message is set in the calling thread. */
tenon_status_t tn_parallel(int64_t count, int64_t grain, tn_part_fn part, void *argument);
/* The number of threads that loops of the calling thread use. `count` 0 restores the default:
 * TENON_THREADS, else the number of processors. */
void tn_parallel_set(int32_t count);
int32_t tn_parallel_threads(void);
/* Called once on each thread, before its first loop: TENON_THREADS holds for loops of other
 * libraries, too, so that oneDNN does not divide its work by another number. */
void tn_parallel_begin_thread(void);
void tn_parallel_shutdown(void);
/* Called around a fork. Worker threads do not exist in the child: before the fork their pool is
 * released, or the child forgets it. The next loop starts new threads. */
void tn_parallel_before_fork(void);
void tn_parallel_in_child(void);
const char *tn_parallel_name(void); /* "openmp" or "posix" */

#endif
