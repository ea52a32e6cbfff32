/* Streams: their life, their slots in the vector clocks, and their failures. The queue and the
 * thread of a stream are in queue.c.
 *
 * Invariant: a stream that was destroyed still does the work that is enqueued in it; then its
 * thread ends and is joined. */
#include "stream.h"

#include <stdlib.h>

enum { SLOTS = 512 };

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
