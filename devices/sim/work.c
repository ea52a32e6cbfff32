/* Pieces of work: how they are enqueued, and the thread of a stream that runs them.
 *
 * Invariant: a piece of work holds everything that it uses (memory, marks, programs) until it is
 * finished or abandoned. */
#include "plugin.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* one piece */

static sim_work_t *empty(const char *kind, uint64_t ticket, const void *argument, uint64_t bytes,
                         uint32_t regions) {
  uint64_t listed = regions * (sizeof(sim_region_t) + sizeof(void *));
  uint64_t head = (sizeof(sim_work_t) + 15) / 16 * 16;
  sim_work_t *work = calloc(1, head + (bytes + 15) / 16 * 16 + listed);
  if (!work) return NULL;
  work->argument = (char *)work + head;
  work->regions = (sim_region_t *)(void *)((char *)work->argument + (bytes + 15) / 16 * 16);
  work->addresses = (void **)(work->regions + regions);
  work->argument_bytes = bytes;
  work->region_count = regions;
  work->piece.ticket = ticket;
  snprintf(work->piece.kind, sizeof work->piece.kind, "%s", kind);
  if (bytes && argument) memcpy(work->argument, argument, bytes);
  return work;
}

static tenon_status_t no_memory(tenon_on_t on) {
  return tenon_fail(on, TENON_MEMORY, "sim: no host memory for a piece of work");
}

static void pin(sim_work_t *work, uint32_t i) {
  sim_region_t *region = &work->regions[i];
  if (region->memory) region->memory->pins++;
  work->addresses[i] =
      region->memory ? region->memory->work + region->begin : (void *)(uintptr_t)region->begin;
}

tenon_status_t sim_work_create(tenon_on_t on, uint64_t ticket, const char *kind,
                               sim_work_fn function, const void *argument, uint64_t bytes,
                               uint32_t range_count, const sim_use_t *ranges,
                               sim_work_t **out_work) {
  sim_work_t *work = empty(kind, ticket, argument, bytes, range_count);
  if (!work) return no_memory(on);
  work->function = function;
  for (uint32_t i = 0; i < range_count; i++) {
    const sim_use_t *range = &ranges[i];
    sim_region_t *region = &work->regions[i];
    region->bytes = range->range.bytes;
    region->is_write = range->range.is_write;
    if (range->is_host) {
      region->begin = (uintptr_t)range->range.memory.handle + range->range.memory.offset;
    } else if (range->range.memory.handle ||
               /* a range of 0 bytes, of a tensor without elements, uses nothing */
               region->bytes) {
      tenon_device_context_t of = *on; /* failures are reported to `on` */
      of.ordinal = range->peer ? range->peer->ordinal : on->ordinal;
      tenon_status_t status = sim_memory_find(&of, kind, range->range.memory, region->bytes,
                                              &region->memory, &region->begin);
      if (status) {
        work->region_count = i;
        sim_work_free(work);
        return status;
      }
    }
    pin(work, i);
  }
  *out_work = work;
  return TENON_OK;
}

tenon_status_t sim_work_copy(tenon_on_t on, const sim_work_t *from, uint64_t ticket,
                             sim_work_t **out_copy) {
  sim_work_t *work =
      empty(from->piece.kind, ticket, from->argument, from->argument_bytes, from->region_count);
  if (!work) return no_memory(on);
  for (uint32_t i = 0; i < from->region_count; i++) {
    const sim_memory_t *memory = from->regions[i].memory;
    if (memory && memory->freed && !memory->imports) {
      void *handle = (void *)memory->key;
      work->region_count = i;
      sim_work_free(work);
      sim_find(NULL, NULL, "sim: a replay uses memory %p after it was freed", handle);
      return tenon_fail(on, TENON_INVALID, "sim: a replay uses memory %p after it was freed",
                        handle);
    }
    work->regions[i] = from->regions[i];
    pin(work, i);
  }
  work->function = from->function;
  work->callback = from->callback;
  work->release = from->release;
  work->retain = from->retain;
  if (work->retain) work->retain(work->argument);
  *out_copy = work;
  return TENON_OK;
}

void sim_work_free(sim_work_t *work) {
  for (uint32_t i = 0; i < work->region_count; i++)
    if (work->regions[i].memory) sim_memory_unpin(work->regions[i].memory);
  if (work->release) work->release(work->argument);
  if (work->reach) sim_mark_release(work->reach);
  if (work->await) sim_mark_release(work->await);
  free(work);
}

tenon_status_t sim_work_submit(tenon_on_t on, sim_stream_t *stream, sim_work_t *work) {
  uint32_t count = sim.host.count > stream->slot + 1 ? sim.host.count : stream->slot + 1;
  tenon_status_t status = TENON_OK;
  work->piece.ordinal = on->ordinal;
  work->piece.stream = stream->number;
  if (stream->captured) {
    *stream->captured->end = work;
    stream->captured->end = &work->next;
    return TENON_OK;
  }
  if (!sim_clock_reserve(&stream->clock, count) || !sim_check_reserve(work)) status = no_memory(on);
  if (!status) status = sim_stream_thread(on, stream);
  if (status) {
    sim_work_free(work);
    return status;
  }
  sim_clock_join(&stream->clock, &sim.host);
  if (work->function || work->callback) {
    sim_clock_set(&stream->clock, stream->slot, ++stream->tick);
    sim.slots[stream->slot].tick = stream->tick;
    stream->last = work->piece;
    while (stream->fresh_count)
      sim_mark_release(stream->fresh[--stream->fresh_count]);
  }
  if (work->function) {
    sim_check(stream, work);
    if (sim.settings.fault && !--sim.settings.fault && !work->failure) {
      work->failure = TENON_INTERNAL;
      snprintf(work->failure_text, SIM_TEXT,
               "sim: %s (ticket %" PRIu64
               ", stream %d of ordinal %d) fails because a setting says so (fault=N)",
               work->piece.kind, work->piece.ticket, stream->number, on->ordinal);
    }
    if (sim.settings.lose[on->ordinal] && !--sim.settings.lose[on->ordinal]) work->loses = true;
  }
  *stream->end = work;
  stream->end = &work->next;
  pthread_cond_signal(&stream->came);
  return TENON_OK;
}

tenon_status_t sim_work_enqueue(tenon_on_t on, void *handle, uint64_t ticket, const char *kind,
                                sim_work_fn function, const void *argument, uint64_t bytes,
                                uint32_t range_count, const sim_use_t *ranges, int call) {
  sim_stream_t *stream;
  sim_work_t *work;
  TENON_TRY(sim_enter(on));
  tenon_status_t status = sim_inject(on, call);
  if (!status) status = sim_stream_enter(on, handle, &stream);
  if (!status)
    status =
        sim_work_create(on, ticket, kind, function, argument, bytes, range_count, ranges, &work);
  if (!status) status = sim_work_submit(on, stream, work);
  return sim_leave(status);
}

/* the thread of a stream */

static uint64_t draw(uint64_t *state) { /* splitmix64 */
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

static void TENON_FORMAT(4, 5) fail(sim_stream_t *stream, const sim_work_t *work,
                                    tenon_status_t code, const char *format, ...) {
  sim_failure_t failure = {code, work->piece.ticket, 0, {0}};
  va_list list;
  va_start(list, format);
  vsnprintf(failure.text, SIM_TEXT, format, list);
  va_end(list);
  sim_stream_fail(stream, &failure);
}

static void run(sim_stream_t *stream, sim_work_t *work) {
  const sim_piece_t *piece = &work->piece;
  char message[SIM_TEXT] = "";
  if (stream->failure.code) return;
  if (work->loses) sim.ordinals[piece->ordinal].lost = true;
  if (sim.ordinals[piece->ordinal].lost) {
    fail(stream, work, TENON_ABORTED,
         "sim: ordinal %d is lost, and %s (ticket %" PRIu64 ", stream %d) with it", piece->ordinal,
         piece->kind, piece->ticket, piece->stream);
    return;
  }
  if (work->failure) {
    fail(stream, work, work->failure, "%s", work->failure_text);
    return;
  }
  sim_unlock();
  tenon_status_t status = work->function(work->argument, work->addresses, message);
  sim_lock();
  if (status) /* a query returns UNAVAILABLE for work that is not finished yet */
    fail(stream, work, status == TENON_UNAVAILABLE ? TENON_ABORTED : status,
         "sim: %s (ticket %" PRIu64 ", stream %d of ordinal %d): %s", piece->kind, piece->ticket,
         piece->stream, piece->ordinal, message);
}

void sim_mark_reach(const sim_stream_t *stream, sim_mark_t *mark) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  mark->time = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  mark->failure = stream->failure;
  mark->done = true;
  pthread_cond_broadcast(&mark->reached);
}

static void await(sim_stream_t *stream, sim_mark_t *mark) {
  while (!mark->done)
    pthread_cond_wait(&mark->reached, &sim.lock);
  if (mark->failure.code) sim_stream_fail(stream, &mark->failure);
}

void *sim_stream_work(void *argument) {
  sim_stream_t *stream = argument;
  sim_lock();
  for (;;) {
    while (!stream->first && !stream->closed)
      pthread_cond_wait(&stream->came, &sim.lock);
    sim_work_t *work = stream->first;
    if (!work) break;
    if (sim.settings.delay) {
      uint64_t wait = draw(&stream->random) % (sim.settings.delay + 1);
      struct timespec time = {(time_t)(wait / 1000000), (long)(wait % 1000000) * 1000};
      sim_unlock();
      nanosleep(&time, NULL);
      sim_lock();
    }
    if (work->await) await(stream, work->await);
    if (work->function) run(stream, work);
    if (work->callback) {
      tenon_status_t status = stream->failure.code;
      if (work->reach)
        sim_host_knows(&work->reach->clock); /* the host learns that the stream has come this far */
      sim_unlock();
      work->callback(*(void **)work->argument, status);
      sim_lock();
    }
    if (work->reach) sim_mark_reach(stream, work->reach);
    if (!(stream->first = work->next)) stream->end = &stream->first;
    sim_work_free(work);
  }
  stream->ended = true;
  pthread_cond_broadcast(&sim.ended);
  sim_unlock();
  return NULL;
}
