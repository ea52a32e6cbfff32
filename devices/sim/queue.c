/* The queue of a stream, and the thread that runs it. The thread is started with the first work of
 * the stream. Work of a stream that captures goes to the captured graph instead. */
#include "queue.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"

enum { STACK = 1 << 20 };

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

static void await(sim_stream_t *stream, sim_mark_t *mark) {
  while (!mark->done)
    pthread_cond_wait(&mark->reached, &sim.lock);
  if (mark->failure.code) sim_stream_fail(stream, &mark->failure);
}

/* The function of the thread of a stream. */
static void *run_queue(void *argument) {
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
    if (work->reach) sim_mark_reach(work->reach, &stream->failure);
    if (!(stream->first = work->next)) stream->end = &stream->first;
    sim_work_free(work);
  }
  stream->ended = true;
  pthread_cond_broadcast(&sim.ended);
  sim_unlock();
  return NULL;
}

static tenon_status_t start_thread(tenon_on_t on, sim_stream_t *stream) {
  if (stream->has_thread) return TENON_OK;
  pthread_attr_t attributes;
  sigset_t all, before;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the threads of the host */
  int error = pthread_create(&stream->thread, &attributes, run_queue, stream);
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

/* appending */

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
  if (!sim_clock_reserve(&stream->clock, count) || !sim_check_reserve(work))
    status = tenon_fail(on, TENON_MEMORY, "sim: no host memory for a piece of work");
  if (!status) status = start_thread(on, stream);
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
