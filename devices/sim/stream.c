/* Streams and marks. The thread of a stream is started with the first work of the stream. A mark is
 * a point in a stream that can be waited for.
 *
 * Invariant: a stream that was destroyed still does the work that is enqueued in it; then its
 * thread ends and is joined. */
#include "plugin.h"

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  STACK = 1 << 20,
  SLOTS = 512,
};

/* Finds a slot in the vector clocks: a new one, or one whose last stream the host knows to be
 * finished. Beyond SLOTS, one whose last stream has finished in fact is enough. */
static bool slot_take(uint32_t *out_slot) {
  for (uint32_t i = 0; i < sim.slot_count; i++) {
    if (sim.slots[i].taken ||
        (sim_clock_at(&sim.host, i) < sim.slots[i].tick && sim.slot_count < SLOTS))
      continue;
    sim.slots[i].taken = true;
    *out_slot = i;
    return true;
  }
  if (sim.slot_count == sim.slot_room) {
    uint32_t room = sim.slot_room * 2 + 16;
    sim_slot_t *slots = realloc(sim.slots, room * sizeof *slots);
    if (!slots) return false;
    sim.slots = slots;
    sim.slot_room = room;
  }
  if (!sim_clock_reserve(&sim.host, sim.slot_count + 1)) return false;
  sim.slots[sim.slot_count] = (sim_slot_t){true, 0};
  *out_slot = sim.slot_count++;
  return true;
}

static void stream_free(sim_stream_t *stream) {
  while (stream->fresh_count)
    sim_mark_release(stream->fresh[--stream->fresh_count]);
  if (stream->captured) sim_captured_free(stream->captured);
  sim.slots[stream->slot].taken = false;
  sim_clock_t *past = &sim.ordinals[stream->object.ordinal].past;
  if (sim_clock_reserve(past, stream->clock.count)) sim_clock_join(past, &stream->clock);
  sim_clock_free(&stream->clock);
  pthread_cond_destroy(&stream->came);
  free(stream);
}

/* Removes one ended stream from the list. */
static sim_stream_t *ended(void) {
  for (sim_stream_t **at = &sim.streams; *at; at = &(*at)->next) {
    if (!(*at)->ended) continue;
    sim_stream_t *stream = *at;
    *at = stream->next;
    return stream;
  }
  return NULL;
}

static void reap(void) {
  for (sim_stream_t *stream; (stream = ended());) {
    if (stream->has_thread) { /* the thread does not need the lock any more */
      sim_unlock();
      pthread_join(stream->thread, NULL);
      sim_lock();
    }
    stream_free(stream);
  }
}

tenon_status_t sim_stream_start(tenon_on_t on, sim_stream_t **out_stream) {
  reap();
  sim_stream_t *stream = calloc(1, sizeof *stream);
  if (!stream || !slot_take(&stream->slot)) {
    free(stream);
    return tenon_fail(on, TENON_MEMORY, "sim: no host memory for a stream");
  }
  stream->object.ordinal = on->ordinal;
  stream->number = sim.ordinals[on->ordinal].stream_count++;
  stream->tick = sim.slots[stream->slot].tick;
  stream->users = 1;
  stream->end = &stream->first;
  stream->random = sim.settings.seed * 0xD1342543DE82EF95u + ++sim.stream_order;
  stream->last = (sim_piece_t){0, on->ordinal, stream->number, "start"};
  pthread_cond_init(&stream->came, NULL);
  stream->next = sim.streams;
  sim.streams = stream;
  *out_stream = stream;
  return TENON_OK;
}

tenon_status_t sim_stream_thread(tenon_on_t on, sim_stream_t *stream) {
  if (stream->has_thread) return TENON_OK;
  pthread_attr_t attributes;
  sigset_t all, before;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the threads of the host */
  int error = pthread_create(&stream->thread, &attributes, sim_stream_work, stream);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  if (error)
    return tenon_fail(
        on, TENON_UNAVAILABLE,
        "sim: the system cannot start a thread for stream %d of ordinal %d (error %d)",
        stream->number, on->ordinal, error);
  stream->has_thread = true;
  return TENON_OK;
}

tenon_status_t sim_stream_find(tenon_on_t on, void *handle, sim_stream_t **out_stream) {
  if (handle) return sim_handle_find(on, SIM_STREAM, handle, out_stream);
  *out_stream = sim.ordinals[on->ordinal].own;
  return *out_stream ? TENON_OK : sim_usable(on);
}

tenon_status_t sim_stream_enter(tenon_on_t on, void *handle, sim_stream_t **out_stream) {
  TENON_TRY(sim_stream_find(on, handle, out_stream));
  return sim_failure_say(on, &(*out_stream)->failure, NULL);
}

void sim_stream_fail(sim_stream_t *stream, const sim_failure_t *failure) {
  if (stream->failure.code) return;
  stream->failure = *failure;
  stream->failure.order = ++sim.failure_order;
}

tenon_status_t sim_failure_say(const void *on, const sim_failure_t *failure, tenon_fault_t *fault) {
  if (!failure->code) return TENON_OK;
  if (fault) fault->ticket = sim.settings.blame ? failure->ticket : 0;
  return tenon_fail((tenon_on_t)on, failure->code, "%s", failure->text);
}

void sim_stream_close(sim_stream_t *stream) {
  stream->closed = true;
  if (stream->object.handle) sim_handle_drop(&stream->object);
  if (!stream->has_thread) stream->ended = true;
  pthread_cond_signal(&stream->came);
}

void sim_stream_stop(int32_t ordinal) {
  for (sim_stream_t *stream = sim.streams; stream; stream = stream->next)
    if (stream->object.ordinal == ordinal) sim_stream_close(stream);
  for (;;) {
    reap();
    sim_stream_t *left = sim.streams;
    while (left && left->object.ordinal != ordinal)
      left = left->next;
    if (!left) return;
    if (!left->ended) pthread_cond_wait(&sim.ended, &sim.lock);
  }
}

/* marks */

void sim_mark_release(sim_mark_t *mark) {
  if (--mark->references) return;
  sim_clock_free(&mark->clock);
  free(
      /* `reached` holds no resource. Destroying it in a child after a fork could wait forever for
       * waiters that exist only in the parent. */
      mark);
}

tenon_status_t sim_mark_create(tenon_on_t on, sim_stream_t *stream, sim_mark_t **out_mark) {
  sim_mark_t *mark = calloc(1, sizeof *mark);
  uint32_t count = stream->clock.count > sim.host.count ? stream->clock.count : sim.host.count;
  if (!mark || !sim_clock_reserve(&mark->clock, count) ||
      !sim_clock_reserve(&stream->clock, count)) {
    if (mark) sim_clock_free(&mark->clock);
    free(mark);
    return tenon_fail(on, TENON_MEMORY, "sim: no host memory for a mark of a stream");
  }
  sim_clock_join(&stream->clock, &sim.host);
  sim_clock_join(&mark->clock, &stream->clock);
  mark->references = 1;
  mark->last = stream->last;
  pthread_cond_init(&mark->reached, NULL);
  *out_mark = mark;
  return TENON_OK;
}

tenon_status_t sim_mark_push(tenon_on_t on, sim_stream_t *stream, sim_mark_t **out_mark) {
  sim_mark_t *mark;
  sim_work_t *work;
  TENON_TRY(sim_mark_create(on, stream, &mark));
  if (!stream->first) { /* the stream is there already, so no thread is needed */
    sim_mark_reach(stream, mark);
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

void sim_host_knows(const sim_clock_t *clock) {
  sim_clock_join(&sim.host, clock);
} /* the clock of the host has room for all slots */

void sim_mark_wait(sim_mark_t *mark, sim_failure_t *out_failure) {
  while (!mark->done)
    pthread_cond_wait(&mark->reached, &sim.lock);
  sim_host_knows(&mark->clock);
  *out_failure = mark->failure;
  sim_mark_release(mark);
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

tenon_status_t sim_stream_create(tenon_on_t on, void **out_stream) {
  sim_stream_t *stream;
  TENON_TRY(sim_enter(on));
  tenon_status_t status = sim_inject(on, SIM_CALL_STREAM_CREATE);
  if (!status) status = sim_stream_start(on, &stream);
  if (status) return sim_leave(status);
  if ((status = sim_handle_create(on, SIM_STREAM, &stream->object))) {
    sim_stream_close(stream);
    return sim_leave(status);
  }
  *out_stream = stream->object.handle;
  return sim_leave(TENON_OK);
}

void sim_stream_destroy(tenon_on_t on, void *handle) {
  sim_stream_t *stream;
  sim_lock();
  if (handle && !sim_handle_find(on, SIM_STREAM, handle, &stream) && !--stream->users)
    sim_stream_close(stream);
  sim_unlock();
}

tenon_status_t sim_stream_import(tenon_on_t on, void *native, void **out_stream) {
  sim_stream_t *stream;
  TENON_TRY(sim_enter(on));
  tenon_status_t status = sim_stream_find(on, native, &stream);
  if (!status) *out_stream = native;
  if (!status && native) stream->users++;
  return sim_leave(status);
}

tenon_status_t sim_stream_query(tenon_on_t on, void *handle, tenon_fault_t *fault) {
  sim_stream_t *stream;
  sim_lock();
  tenon_status_t status = sim_stream_find(on, handle, &stream);
  if (!status) status = sim_failure_say(on, &stream->failure, fault);
  if (!status) status = sim_usable(on);
  if (!status && stream->first) status = TENON_UNAVAILABLE;
  if (!status) sim_host_knows(&stream->clock);
  return sim_leave(status);
}

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
  if (!stream->captured && (status = sim_mark_create(on, stream, &work->reach)))
    sim_work_free(work);
  else
    status = sim_work_submit(on, stream, work);
  return sim_leave(status);
}
