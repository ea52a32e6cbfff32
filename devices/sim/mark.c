/* Marks. A mark is a point in a stream that can be waited for. It knows which work is finished when
 * the stream reaches it, and with which failure the stream has reached it. */
#include "mark.h"

#include <stdlib.h>
#include <time.h>

tenon_status_t sim_mark_create(tenon_on_t on, sim_clock_t *clock, const sim_piece_t *last,
                               sim_mark_t **out_mark) {
  sim_mark_t *mark = calloc(1, sizeof *mark);
  uint32_t count = clock->count > sim.host.count ? clock->count : sim.host.count;
  if (!mark || !sim_clock_reserve(&mark->clock, count) || !sim_clock_reserve(clock, count)) {
    if (mark) sim_clock_free(&mark->clock);
    free(mark);
    return tenon_fail(on, TENON_MEMORY, "sim: no host memory for a mark of a stream");
  }
  sim_clock_join(clock, &sim.host);
  sim_clock_join(&mark->clock, clock);
  mark->references = 1;
  mark->last = *last;
  pthread_cond_init(&mark->reached, NULL);
  *out_mark = mark;
  return TENON_OK;
}

void sim_mark_reach(sim_mark_t *mark, const sim_failure_t *failure) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  mark->time = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  mark->failure = *failure;
  mark->done = true;
  pthread_cond_broadcast(&mark->reached);
}

void sim_mark_wait(sim_mark_t *mark, sim_failure_t *out_failure) {
  while (!mark->done)
    pthread_cond_wait(&mark->reached, &sim.lock);
  sim_host_knows(&mark->clock);
  *out_failure = mark->failure;
  sim_mark_release(mark);
}

void sim_mark_release(sim_mark_t *mark) {
  if (--mark->references) return;
  sim_clock_free(&mark->clock);
  /* `reached` is not destroyed: it holds no resource, and in a child after a fork the destruction
   * could wait forever for waiters that exist only in the parent. */
  free(mark);
}
