/* moved: x, copied; on sim (devices/sim) by a piece of work for STREAM that copies LESS bytes too
 * few. With LATE, a thread of the library enqueues it after the kernel has returned. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/device.h>
#include <time.h>

#include "../../../devices/sim/sim.h"
#include "defect.h"

#ifndef LESS
#define LESS 0
#endif
#ifndef LATE
#define LATE 0
#endif

typedef struct move_t {
  const sim_table_t *sim;
  tenon_on_t on;
  void *stream;
  uint64_t ticket;
  uint64_t bytes;
  sim_range_t ranges[2];
} move_t;

static tenon_status_t copy_now(tenon_call_t *call) {
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    f32_out(call, 0)[i] = f32_in(call, 0)[i];
  return TENON_OK;
}

static tenon_status_t copy_then(void *argument, void *const *addresses, char *message) {
  (void)message;
  memcpy(addresses[1], addresses[0], *(const uint64_t *)argument);
  return TENON_OK;
}

static tenon_status_t enqueue(const move_t *m) {
  return m->sim->enqueue(m->on, m->stream, m->ticket, "moved", copy_then, &m->bytes,
                         sizeof m->bytes, 2, m->ranges);
}

/* By then the check has read the result, even if the machine is busy. */
static void *enqueue_late(void *argument) {
  struct timespec a_while = {0, 400000000};
  nanosleep(&a_while, 0);
  enqueue((const move_t *)argument);
  free(argument);
  return 0;
}

static tenon_status_t copy_sim(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *out = call->outputs[0];
  uint64_t bytes = (uint64_t)tenon_count(x) * 4;
  move_t move = {
      (const sim_table_t *)call->host->native(call, "sim"),
      call->device,
      STREAM,
      call->ticket,
      bytes > LESS ? bytes - LESS : 0,
      {{{x->data, x->byte_offset}, bytes, 0, 0}, {{out->data, out->byte_offset}, bytes, 1, 0}}};
  if (!bytes) return TENON_OK;
  if (!move.sim) return tenon_fail(call, TENON_UNIMPLEMENTED, "the device is no sim");
  if (!LATE) return enqueue(&move);
  move_t *later = (move_t *)malloc(sizeof *later);
  pthread_t thread;
  if (!later) return tenon_fail(call, TENON_MEMORY, "no memory for a thread");
  *later = move;
  if (pthread_create(&thread, 0, enqueue_late, later)) {
    free(later);
    return TENON_UNAVAILABLE;
  }
  pthread_detach(thread);
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("moved(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE, TENON_KERNEL("cpu", copy_now),
    TENON_KERNEL("sim f32", copy_sim)))
