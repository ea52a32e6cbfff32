/* Parallel-for on a pool of threads that all loops of the process share. A loop waits only for
 * parts that another thread has begun, never for a thread to wake: its caller runs whatever no
 * other thread has begun. A loop inside another loop runs on its caller's thread alone. */
#ifndef TN_BASE_PARALLEL_H
#define TN_BASE_PARALLEL_H

#include <stdint.h>
#include <tenon/tenon.h>

typedef tenon_status_t (*tn_part_fn)(void *argument, int64_t begin, int64_t end);

/* Divides [0, count) into parts of at least `grain` items and runs them in parallel. Returns the
 * failure of the first part that failed, in the order of the items; its message is set in the
 * calling thread. The division depends on count, grain, the number of threads and whether a
 * cancellation callback is set, never on timing. With TENON_DETERMINISTIC=1 it does not depend on
 * the number of threads either. */
tenon_status_t tn_parallel(int64_t count, int64_t grain, tn_part_fn part, void *argument);
/* The number of parts into which tn_parallel divides a loop of the calling thread. */
int32_t tn_parallel_parts(int64_t count, int64_t grain);
/* The number of threads that loops of the calling thread use. `count` 0 restores the default:
 * TENON_THREADS, else the number of processors that the process may use (base/processors.h). */
void tn_parallel_set(int32_t count);
int32_t tn_parallel_threads(void);
/* tenon_thread_pool_set: the program's threads in place of the pool's. */
tenon_status_t tn_parallel_pool_set(const tenon_thread_pool_t *pool, int32_t is_process);
const tenon_thread_pool_t *tn_parallel_pool(int32_t is_process);
void tn_parallel_shutdown(void);
/* Called in the child after a fork, which has none of the pool's threads. The next loop starts new
 * ones. */
void tn_parallel_in_child(void);

#endif
