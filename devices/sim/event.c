/* Events. An event refers to the mark (mark.h) that it recorded last. */
#include "event.h"

#include <stdlib.h>

#include "check.h"
#include "synchronize.h"

typedef struct sim_event_t {
  sim_object_t object;
  sim_mark_t *mark; /* NULL: never recorded */
} sim_event_t;

tenon_status_t sim_event_create(tenon_on_t on, void **out_event) {
  TENON_TRY(sim_enter(on));
  tenon_status_t status = sim_inject(on, SIM_CALL_EVENT_CREATE);
  if (status) return sim_leave(status);
  sim_event_t *event = calloc(1, sizeof *event);
  if (!event) return sim_leave(tenon_fail(on, TENON_MEMORY, "sim: no host memory for an event"));
  if ((status = sim_handle_create(on, SIM_EVENT, &event->object)))
    free(event);
  else
    *out_event = event->object.handle;
  return sim_leave(status);
}

void sim_event_free(sim_object_t *object) {
  sim_event_t *event = (sim_event_t *)object;
  if (event->mark) sim_mark_release(event->mark);
  free(event);
}

void sim_event_destroy(tenon_on_t on, void *handle) {
  sim_lock();
  sim_object_t *object = handle ? sim_handle_end(on, SIM_EVENT, handle) : NULL;
  if (object) sim_event_free(object);
  sim_unlock();
}

tenon_status_t sim_event_record(tenon_on_t on, void *handle, void *stream_handle) {
  sim_event_t *event;
  sim_stream_t *stream;
  sim_mark_t *mark;
  TENON_TRY(sim_enter(on));
  tenon_status_t status = sim_handle_find(on, SIM_EVENT, handle, &event);
  if (!status) status = sim_stream_enter(on, stream_handle, &stream);
  if (!status && stream->captured)
    status = tenon_fail(
        on, TENON_UNIMPLEMENTED,
        "sim: a captured graph cannot hold events: record them before or after the capture");
  if (!status) status = sim_mark_push(on, stream, &mark);
  if (status) return sim_leave(status);
  if (event->mark) sim_mark_release(event->mark);
  event->mark = mark;
  return sim_leave(TENON_OK);
}

tenon_status_t sim_event_query(tenon_on_t on, void *handle) {
  sim_event_t *event;
  TENON_TRY(sim_enter(on));
  tenon_status_t status = sim_handle_find(on, SIM_EVENT, handle, &event);
  if (status || !event->mark) return sim_leave(status);
  if (!event->mark->done) return sim_leave(TENON_UNAVAILABLE);
  sim_host_knows(&event->mark->clock);
  return sim_leave(sim_failure_say(on, &event->mark->failure, NULL));
}

tenon_status_t sim_event_synchronize(tenon_on_t on, void *handle) {
  sim_event_t *event;
  sim_failure_t failure;
  TENON_TRY(sim_enter(on));
  tenon_status_t status = sim_handle_find(on, SIM_EVENT, handle, &event);
  if (status || !event->mark) return sim_leave(status);
  event->mark->references++; /* the event may be recorded again or destroyed during the wait */
  sim_mark_wait(event->mark, &failure);
  return sim_leave(sim_failure_say(on, &failure, NULL));
}

tenon_status_t sim_stream_wait(tenon_on_t on, void *stream_handle, tenon_on_t of, void *handle) {
  sim_stream_t *stream;
  sim_event_t *event;
  sim_work_t *work;
  TENON_TRY(sim_enter(on));
  tenon_device_context_t there = *on; /* failures are reported to `on` */
  there.ordinal = of ? of->ordinal : on->ordinal;
  tenon_status_t status = sim_handle_find(&there, SIM_EVENT, handle, &event);
  if (!status) status = sim_stream_enter(on, stream_handle, &stream);
  if (!status && stream->captured)
    status = tenon_fail(on, TENON_UNIMPLEMENTED,
                        "sim: a captured graph cannot wait for events: wait before the capture");
  if (status || !event->mark) return sim_leave(status);
  sim_mark_t *mark = event->mark;
  uint32_t count = mark->clock.count > sim.host.count ? mark->clock.count : sim.host.count;
  if (!sim_clock_reserve(&stream->clock, count))
    return sim_leave(tenon_fail(on, TENON_MEMORY, "sim: no host memory for a wait"));
  if ((status = sim_work_create(on, 0, "wait", NULL, NULL, 0, 0, NULL, &work)))
    return sim_leave(status);
  /* One reference is for the work, the other for the code below. */
  work->await = mark;
  mark->references += 2;
  if (!(status = sim_work_submit(on, stream, work))) {
    sim_check_wait(stream, mark);
    sim_clock_join(&stream->clock, &mark->clock);
  }
  sim_mark_release(mark);
  return sim_leave(status);
}

tenon_status_t sim_event_time(tenon_on_t on, void *handle, int64_t *out_time) {
  sim_event_t *event;
  TENON_TRY(sim_enter(on));
  tenon_status_t status = sim_handle_find(on, SIM_EVENT, handle, &event);
  if (status) return sim_leave(status);
  if (!event->mark)
    return sim_leave(
        tenon_fail(on, TENON_PRECONDITION, "sim: an event that was never recorded has no time"));
  if (!event->mark->done) return sim_leave(TENON_UNAVAILABLE);
  *out_time = event->mark->time;
  return sim_leave(TENON_OK);
}
