/* copied: x, copied by a thread of the kernel's own.  Defect: does not wait for it.
 * Found as: threads.after */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "defect.h"

typedef struct work_t {
  void *to;
  const void *from;
  size_t bytes;
} work_t;

static void *copy(void *argument) {
  const work_t work = *(const work_t *)argument;
  struct timespec a_while = {0, 20000000};
  if (PLANTED(1, 0)) nanosleep(&a_while, 0);
  if (work.bytes) memcpy(work.to, work.from, work.bytes);
  return 0;
}

static tenon_status_t copied_run(tenon_call_t *call) {
  PLANTED(static __thread, ) work_t work;
  pthread_t thread;
  work = (work_t){f32_out(call, 0), f32_in(call, 0), (size_t)count_in(call, 0) * sizeof(float)};
  if (pthread_create(&thread, 0, copy, &work))
    return tenon_fail(call, TENON_UNAVAILABLE, "no thread can be started");
  if (PLANTED(1, 0))
    pthread_detach(thread);
  else
    pthread_join(thread, 0);
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("copied(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE, TENON_KERNEL("cpu", copied_run)))
