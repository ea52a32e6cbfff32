/* Waits of the host for streams, and callbacks. A wait pushes a mark into the queue of the stream,
 * and then waits for the mark. */
#include "synchronize.h"

#include <sched.h>
#include <stdlib.h>

tenon_status_t sim_mark_push(tenon_on_t on, sim_stream_t *stream, sim_mark_t **out_mark) {
  sim_mark_t *mark;
  sim_work_t *work;
  TENON_TRY(sim_mark_create(on, &stream->clock, &stream->last, &mark));
  if (!stream->first) { /* the stream has no work left, so it is at the mark already */
    sim_mark_reach(mark, &stream->failure);
    *out_mark = mark;
    return TENON_OK;
  }
  tenon_status_t status = sim_work_create(on, 0, "mark", NULL, NULL, 0, 0, NULL, &work);
  if (!status) {
    work->reach = mark;
    mark->references++;
    status = sim_work_submit(on, stream, work);
  }
  if (status)
    sim_mark_release(mark);
  else
    *out_mark = mark;
  return status;
}

/* Waits without a mark when there was no memory for one. Memory that the work of a stream uses is
 * released after a wait, so a wait must not fail for lack of memory. */
static void drain(sim_stream_t *stream) {
  while (stream->first) {
    sim_unlock();
    sched_yield();
    sim_lock();
  }
  sim_host_knows(&stream->clock);
}

static void drain_all(int32_t ordinal) {
  for (sim_stream_t *stream = sim.streams; stream; stream = stream->next)
    if (stream->object.ordinal == ordinal && !stream->captured && stream->first) {
      drain(stream);
      stream = sim.streams; /* the list may have changed during the wait */
    }
}

/* Functions of the device table */

tenon_status_t sim_stream_synchronize(tenon_on_t on, void *handle, tenon_fault_t *fault) {
  sim_stream_t *stream;
  sim_mark_t *mark;
  sim_failure_t failure;
  sim_lock();
  tenon_status_t status = sim_stream_find(on, handle, &stream);
  if (!status && stream->captured)
    status = tenon_fail(on, TENON_PRECONDITION,
                        "sim: synchronize of stream %d of ordinal %d, which captures work",
                        stream->number, on->ordinal);
  if (status) return sim_leave(status);
  if ((status = sim_mark_push(on, stream, &mark)) == TENON_OK)
    sim_mark_wait(mark, &failure);
  else {
    drain(stream);
    failure = stream->failure;
  }
  status = sim_failure_say(on, &failure, fault);
  return sim_leave(status ? status : sim_usable(on));
}

tenon_status_t sim_synchronize(tenon_on_t on) {
  sim_failure_t first = {0};
  sim_failure_t failure;
  sim_mark_t **marks = NULL;
  uint32_t count = 0;
  uint32_t room = 0;
  tenon_status_t status = TENON_OK;
  TENON_TRY(sim_enter(on));
  for (sim_stream_t *stream = sim.streams; stream; stream = stream->next)
    room += stream->object.ordinal == on->ordinal;
  marks = calloc(room + 1, sizeof *marks);
  for (sim_stream_t *stream = sim.streams; stream && marks && !status; stream = stream->next) {
    if (stream->object.ordinal != on->ordinal || stream->captured) continue;
    if (stream->ended) {
      sim_host_knows(&stream->clock);
      continue;
    }
    status = sim_mark_push(on, stream, &marks[count]);
    count += !status;
  }
  sim_host_knows(&sim.ordinals[on->ordinal].past);
  for (uint32_t i = 0; i < count; i++) {
    sim_mark_wait(marks[i], &failure);
    if (failure.code && (!first.code || failure.order < first.order)) first = failure;
  }
  if (!marks || status) { /* the failures of the streams are reported separately */
    drain_all(on->ordinal);
    for (const sim_stream_t *stream = sim.streams; stream; stream = stream->next)
      if (stream->object.ordinal == on->ordinal && stream->failure.code && !first.code)
        first = stream->failure;
  }
  free(marks);
  return sim_leave(sim_failure_say(on, &first, NULL));
}

tenon_status_t sim_callback(tenon_on_t on, void *handle,
                            void (*function)(void *argument, tenon_status_t status),
                            void *argument) {
  sim_stream_t *stream;
  sim_work_t *work;
  TENON_TRY(sim_enter(on));
  tenon_status_t status = sim_stream_find(on, handle, &stream);
  if (!status)
    status = sim_work_create(on, 0, "callback", NULL, &argument, sizeof argument, 0, NULL, &work);
  if (status) return sim_leave(status);
  work->callback = function;
  if (!stream->captured &&
      (status = sim_mark_create(on, &stream->clock, &stream->last, &work->reach)))
    sim_work_free(work);
  else
    status = sim_work_submit(on, stream, work);
  return sim_leave(status);
}
