/* Faults of streams, events and callbacks. */
#include "faults.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FAULT(fault, slot, function)                                                               \
  static void fault(tenon_device_table_t *table) { table->slot = function; }

static tenon_status_t wait_nothing(tenon_on_t on, void *stream, tenon_on_t of, void *event) {
  (void)on;
  (void)stream;
  (void)of;
  (void)event;
  return TENON_OK;
}
FAULT(wait_missing, stream_wait, wait_nothing)

static tenon_status_t wait_own(tenon_on_t on, void *stream, tenon_on_t of, void *event) {
  return of == on ? correct.stream_wait(on, stream, of, event) : TENON_OK;
}
FAULT(wait_of_others_missing, stream_wait, wait_own)

static tenon_status_t record_done(tenon_on_t on, void *event, void *stream) {
  TENON_TRY(correct.event_record(on, event, stream));
  lock();
  ((event_t *)event)->mark->done = 1;
  unlock();
  return TENON_OK;
}
FAULT(event_early, event_record, record_done)

static tenon_status_t record_once(tenon_on_t on, void *event, void *stream) {
  return ((event_t *)event)->mark ? TENON_OK : correct.event_record(on, event, stream);
}
FAULT(record_forgotten, event_record, record_once)

static void destroy_done(tenon_on_t on, void *event) { /* wakes waiters too early */
  lock();
  if (((event_t *)event)->mark) ((event_t *)event)->mark->done = 1;
  pthread_cond_broadcast(&vx.progress);
  unlock();
  correct.event_destroy(on, event);
}
FAULT(event_destroyed_wakes, event_destroy, destroy_done)

static void destroy_nothing(tenon_on_t on, void *event) {
  (void)on;
  (void)event;
}
FAULT(event_leak, event_destroy, destroy_nothing)

static tenon_status_t synchronize_for_ever(tenon_on_t on, void *event) {
  while (!((event_t *)event)->mark)
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  return correct.event_synchronize(on, event);
}
FAULT(event_hangs, event_synchronize, synchronize_for_ever)

static tenon_status_t time_down(tenon_on_t on, void *event, int64_t *out_time) {
  TENON_TRY(correct.event_time(on, event, out_time));
  *out_time = -*out_time;
  return TENON_OK;
}
FAULT(time_backwards, event_time, time_down)

static void destroy_only_done(tenon_on_t on, void *event) {
  if (((event_t *)event)->mark && !((event_t *)event)->mark->done) abort();
  correct.event_destroy(on, event);
}
FAULT(event_destroyed_aborts, event_destroy, destroy_only_done)

static tenon_status_t create_same_event(tenon_on_t on, void **out_event) {
  static void *same;
  if (!same) TENON_TRY(correct.event_create(on, &same));
  *out_event = same;
  return TENON_OK;
}
static void events_shared(tenon_device_table_t *table) {
  table->event_create = create_same_event;
  table->event_destroy = destroy_nothing;
}

/* Inserts a copy before the last enqueued one, unless that has begun. */
static tenon_status_t copy_before(tenon_on_t on, void *stream, const tenon_copy_t *copy) {
  static _Atomic unsigned count;
  stream_t *s = stream_of(on, stream);
  TENON_TRY(correct.copy(on, stream, copy));
  if (copy->direction != TENON_COPY_WITHIN || ++count % 8) return TENON_OK;
  lock();
  work_t *w = s->first; /* this one is running */
  while (!s->recorded && w && w->next && w->next->next && w->next->next->next)
    w = w->next;
  if (!s->recorded && w && w->next && w->next->next && w->next->run == w->next->next->run) {
    work_t *a = w->next;
    work_t *b = a->next;
    w->next = b;
    a->next = NULL;
    b->next = a;
    s->last = &a->next;
  }
  unlock();
  return TENON_OK;
}
FAULT(order_broken, copy, copy_before)

static tenon_status_t query_done(tenon_on_t on, void *stream, tenon_fault_t *fault) {
  tenon_status_t status = correct.stream_query(on, stream, fault);
  return status == TENON_UNAVAILABLE ? TENON_OK : status;
}
FAULT(query_early, stream_query, query_done)

static tenon_status_t query_last(tenon_on_t on, void *stream,
                                 tenon_fault_t *fault) { /* ignores the work that is running */
  stream_t *s = stream_of(on, stream);
  lock();
  int few = s->first && !s->first->next;
  unlock();
  return few ? TENON_OK : correct.stream_query(on, stream, fault);
}
FAULT(query_misses_last, stream_query, query_last)

static tenon_status_t synchronize_first(tenon_on_t on) {
  return correct.stream_synchronize(on, NULL, NULL);
}
FAULT(synchronize_first_only, synchronize, synchronize_first)

static tenon_status_t synchronize_nothing(tenon_on_t on, void *stream, tenon_fault_t *fault) {
  return stream ? TENON_OK : correct.stream_synchronize(on, stream, fault);
}
FAULT(stream_not_waited, stream_synchronize, synchronize_nothing)

static tenon_status_t synchronize_again(tenon_on_t on, void *stream, tenon_fault_t *fault) {
  static _Atomic int idle_waits;
  stream_t *s = stream_of(on, stream);
  lock();
  int idle = !s->first;
  unlock();
  if (idle && ++idle_waits > 100)
    return tenon_fail(on, TENON_PRECONDITION, "vx: the stream has no work");
  if (!idle) idle_waits = 0;
  return correct.stream_synchronize(on, stream, fault);
}
FAULT(idle_wait_fails, stream_synchronize, synchronize_again)

static void destroy_drops(tenon_on_t on, void *stream) { /* drops copies that have not begun */
  stream_t *s = stream;
  lock();
  for (work_t *w = s->first ? s->first->next : NULL; w; w = w->next) {
    if (w->to) w->bytes = 0;
  }
  unlock();
  correct.stream_destroy(on, stream);
}
FAULT(destroy_drops_work, stream_destroy, destroy_drops)

static _Atomic int created;
static tenon_status_t create_shared(tenon_on_t on,
                                    void **out_stream) { /* every second stream is the same */
  static void *last;
  if (created++ % 2 && last) {
    *out_stream = last;
    return TENON_OK;
  }
  TENON_TRY(correct.stream_create(on, out_stream));
  last = *out_stream;
  return TENON_OK;
}
static void destroy_shared(tenon_on_t on, void *stream) {
  (void)on;
  (void)stream;
}
static void streams_shared(tenon_device_table_t *table) {
  table->stream_create = create_shared;
  table->stream_destroy = destroy_shared;
}

static tenon_status_t call_twice(tenon_on_t on, void *stream,
                                 void (*function)(void *, tenon_status_t), void *argument) {
  TENON_TRY(correct.callback(on, stream, function, argument));
  return correct.callback(on, stream, function, argument);
}
FAULT(callback_twice, callback, call_twice)

static tenon_status_t call_now(tenon_on_t on, void *stream,
                               void (*function)(void *, tenon_status_t), void *argument) {
  (void)on;
  (void)stream;
  function(argument, TENON_OK);
  return TENON_OK;
}
FAULT(callback_early, callback, call_now)

static tenon_status_t call_never(tenon_on_t on, void *stream,
                                 void (*function)(void *, tenon_status_t), void *argument) {
  (void)on;
  (void)stream;
  (void)function;
  (void)argument;
  return TENON_OK;
}
FAULT(callback_lost, callback, call_never)

const fault_t order_faults[] = {{"wait_missing", wait_missing},
                                {"wait_of_others_missing", wait_of_others_missing},
                                {"event_early", event_early},
                                {"record_forgotten", record_forgotten},
                                {"event_destroyed_wakes", event_destroyed_wakes},
                                {"event_leak", event_leak},
                                {"event_hangs", event_hangs},
                                {"time_backwards", time_backwards},
                                {"order_broken", order_broken},
                                {"query_early", query_early},
                                {"query_misses_last", query_misses_last},
                                {"synchronize_first_only", synchronize_first_only},
                                {"stream_not_waited", stream_not_waited},
                                {"destroy_drops_work", destroy_drops_work},
                                {"streams_shared", streams_shared},
                                {"callback_twice", callback_twice},
                                {"callback_early", callback_early},
                                {"callback_lost", callback_lost},
                                {"event_destroyed_aborts", event_destroyed_aborts},
                                {"events_shared", events_shared},
                                {"idle_wait_fails", idle_wait_fails},
                                {0}};
