/* sums: cumulative sums of x; a thread of the library logs how many elements are not 0. Defect: the
 * call does not wait for the thread.
 * Found as: threads.after */
#include <pthread.h>
#include <time.h>

#include "defect.h"

typedef struct log_t {
  const float *x;
  int64_t count;
} log_t;

static int64_t logged;

static void *count(void *argument) {
  const log_t log = *(const log_t *)argument;
  struct timespec a_while = {0, 10000000};
  if (PLANTED(1, 0)) nanosleep(&a_while, 0);
  for (int64_t i = 0; i < log.count; i++)
    if (log.x[i] != 0) __atomic_add_fetch(&logged, 1, __ATOMIC_RELAXED);
  return 0;
}

static tenon_status_t sums_run(tenon_call_t *call) {
  static __thread log_t log;
  pthread_t thread;
  log = (log_t){f32_in(call, 0), count_in(call, 0)};
  if (pthread_create(&thread, 0, count, &log))
    return tenon_fail(call, TENON_UNAVAILABLE, "no thread can be started");
  for (int64_t i = 0; i < log.count; i++)
    f32_out(call, 0)[i] = log.x[i] + (i ? f32_out(call, 0)[i - 1] : 0);
  if (PLANTED(1, 0))
    pthread_detach(thread);
  else
    pthread_join(thread, 0);
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("sums(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE, TENON_KERNEL("cpu", sums_run)))
