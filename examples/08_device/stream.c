/* stream.c: streams, which are threads, and events, which refer to marks in streams. */
#include "vx.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct vx_t vx = {.lock = PTHREAD_MUTEX_INITIALIZER, .progress = PTHREAD_COND_INITIALIZER};

static void *worker(void *argument) {
  stream_t *s = argument;
  lock();
  for (;;) {
    while (!s->first && !s->closing)
      pthread_cond_wait(&s->filled, &vx.lock);
    work_t *w = s->first;
    if (!w) break;
    unlock();
    w->run(s, w);
    lock();
    s->first = w->next;
    if (!s->first) s->last = &s->first;
    free(w);
    pthread_cond_broadcast(&vx.progress);
  }
  s->finished = 1;
  pthread_cond_broadcast(&vx.progress);
  unlock();
  return NULL;
}

work_t *work_new(tenon_on_t on, void (*run)(stream_t *, work_t *), uint64_t ticket) {
  work_t *w = calloc(1, sizeof *w);
  if (w) {
    w->run = run;
    w->ticket = ticket;
  } else
    tenon_fail(on, TENON_MEMORY, "vx: no host memory for a piece of work");
  return w;
}

/* Call this with the lock. */
void push(stream_t *s, work_t *w) {
  w->sequence = ++vx.sequence;
  *s->last = w;
  s->last = &w->next;
  pthread_cond_signal(&s->filled);
}

void enqueue(stream_t *s, work_t *list) {
  lock();
  for (work_t *w = list, *next; w; w = next) {
    next = w->next;
    w->next = NULL;
    if (s->recorded) {
      *s->recorded = w;
      s->recorded = &w->next;
    } else
      push(s, w);
  }
  unlock();
}

/* Call this with the lock: waits until the stream has done the work up to `sequence`. */
void drain(stream_t *s, uint64_t sequence) {
  while (s->first && s->first->sequence <= sequence)
    pthread_cond_wait(&vx.progress, &vx.lock);
}

/* Call this with the lock: joins the threads of destroyed streams that have finished. */
void reap(int32_t ordinal) {
  for (stream_t **at = &vx.streams; *at;) {
    stream_t *s = *at;
    if (s->ordinal != ordinal || !s->finished) {
      at = &s->next;
      continue;
    }
    *at = s->next;
    /* The thread has released the lock for the last time, so joining does not block. */
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->filled);
    free(s);
  }
}

/* Call this with the lock. The first failure is kept. */
void stream_fail(stream_t *s, tenon_status_t status, uint64_t ticket) {
  if (!s->status) {
    s->status = status;
    s->ticket = ticket;
  }
}

tenon_status_t blame(tenon_on_t on, tenon_status_t status, uint64_t ticket, tenon_fault_t *fault) {
  if (status == TENON_OK) return TENON_OK;
  if (fault) fault->ticket = ticket;
  return tenon_fail(on, status, "vx:%d: the piece of work with ticket %llu failed", on->ordinal,
                    (unsigned long long)ticket);
}

tenon_status_t vx_stream_create(tenon_on_t on, void **out_stream) {
  stream_t *s = calloc(1, sizeof *s);
  if (!s) return tenon_fail(on, TENON_MEMORY, "vx: no host memory for a stream");
  s->ordinal = on->ordinal;
  s->last = &s->first;
  pthread_cond_init(&s->filled, NULL);
  lock();
  reap(on->ordinal);
  int error = pthread_create(&s->thread, NULL, worker, s);
  if (!error) {
    s->next = vx.streams;
    vx.streams = s;
  }
  unlock();
  if (error) {
    pthread_cond_destroy(&s->filled);
    free(s);
    return tenon_fail(on, TENON_MEMORY, "vx: no thread for a stream: %s", strerror(error));
  }
  *out_stream = s;
  return TENON_OK;
}

/* The thread of the stream does the remaining work and is joined later. */
void vx_stream_destroy(tenon_on_t on, void *stream) {
  (void)on;
  lock();
  ((stream_t *)stream)->closing = 1;
  pthread_cond_signal(&((stream_t *)stream)->filled);
  unlock();
}

tenon_status_t vx_stream_query(tenon_on_t on, void *stream, tenon_fault_t *fault) {
  stream_t *s = stream_of(on, stream);
  lock();
  int busy = s->first != NULL;
  tenon_status_t status = s->status;
  uint64_t ticket = s->ticket;
  unlock();
  return busy && !status ? TENON_UNAVAILABLE : blame(on, status, ticket, fault);
}

tenon_status_t vx_stream_synchronize(tenon_on_t on, void *stream, tenon_fault_t *fault) {
  stream_t *s = stream_of(on, stream);
  lock();
  drain(s, vx.sequence);
  tenon_status_t status = s->status;
  uint64_t ticket = s->ticket;
  unlock();
  return blame(on, status, ticket, fault);
}

tenon_status_t vx_synchronize(tenon_on_t on) {
  tenon_status_t status = TENON_OK;
  uint64_t ticket = 0;
  lock();
  uint64_t until = vx.sequence;
  for (stream_t *s = vx.streams; s;) {
    if (s->ordinal == on->ordinal && s->first && s->first->sequence <= until) {
      pthread_cond_wait(&vx.progress, &vx.lock);
      /* the list may have changed during the wait */
      s = vx.streams;
      status = TENON_OK;
      continue;
    }
    if (s->ordinal == on->ordinal && !s->closing && !status) {
      status = s->status;
      ticket = s->ticket;
    }
    s = s->next;
  }
  unlock();
  return blame(on, status, ticket, NULL);
}

/* events */

/* Call this with the lock. */
static void mark_release(mark_t *mark) {
  if (mark && --mark->users == 0) free(mark);
}

static void run_mark(stream_t *s, work_t *w) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  lock();
  w->mark->status = s->status;
  w->mark->ticket = s->ticket;
  w->mark->time = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  w->mark->done = 1;
  mark_release(w->mark);
  pthread_cond_broadcast(&vx.progress);
  unlock();
}

static void run_wait(stream_t *s, work_t *w) {
  lock();
  while (!w->mark->done)
    pthread_cond_wait(&vx.progress, &vx.lock);
  if (w->mark->status) stream_fail(s, w->mark->status, w->mark->ticket);
  mark_release(w->mark);
  unlock();
}

tenon_status_t vx_event_create(tenon_on_t on, void **out_event) {
  *out_event = calloc(1, sizeof(event_t));
  return *out_event ? TENON_OK : tenon_fail(on, TENON_MEMORY, "vx: no host memory for an event");
}

void vx_event_destroy(tenon_on_t on, void *event) {
  (void)on;
  lock();
  mark_release(((event_t *)event)->mark);
  unlock();
  free(event);
}

tenon_status_t vx_event_record(tenon_on_t on, void *event, void *stream) {
  event_t *e = event;
  stream_t *s = stream_of(on, stream);
  work_t *w = work_new(on, run_mark, 0);
  if (!w) return TENON_MEMORY;
  if (!(w->mark = calloc(1, sizeof *w->mark))) {
    free(w);
    return tenon_fail(on, TENON_MEMORY, "vx: no host memory for a mark");
  }
  lock();
  int recorded = s->recorded != NULL;
  if (!recorded) {
    mark_release(e->mark);
    /* One reference is for the event, the other for the piece of work. */
    e->mark = w->mark;
    w->mark->users = 2;
    push(s, w);
  }
  unlock();
  if (!recorded) return TENON_OK;
  free(w->mark);
  free(w);
  return tenon_fail(on, TENON_UNIMPLEMENTED, "vx: a recording cannot contain events");
}

/* A copy of the mark that an event refers to now. */
static mark_t event_mark(event_t *e) {
  lock();
  mark_t mark = e->mark ? *e->mark : (mark_t){.done = 1};
  unlock();
  return mark;
}

tenon_status_t vx_event_query(tenon_on_t on, void *event) {
  mark_t mark = event_mark(event);
  return mark.done ? blame(on, mark.status, mark.ticket, NULL) : TENON_UNAVAILABLE;
}

tenon_status_t vx_event_synchronize(tenon_on_t on, void *event) {
  lock();
  mark_t *mark = ((event_t *)event)->mark;
  if (mark) mark->users++;
  while (mark && !mark->done)
    pthread_cond_wait(&vx.progress, &vx.lock);
  mark_t copy = mark ? *mark : (mark_t){.done = 1};
  mark_release(mark);
  unlock();
  return blame(on, copy.status, copy.ticket, NULL);
}

tenon_status_t vx_stream_wait(tenon_on_t on, void *stream, tenon_on_t of, void *event) {
  (void)of; /* marks are the same on all ordinals */
  stream_t *s = stream_of(on, stream);
  work_t *w = work_new(on, run_wait, 0);
  if (!w) return TENON_MEMORY;
  lock();
  int recorded = s->recorded != NULL;
  if (!recorded) w->mark = ((event_t *)event)->mark;
  /* An event that was never recorded has no mark to wait for. */
  if (w->mark) {
    w->mark->users++;
    push(s, w);
  } else
    free(w);
  unlock();
  return recorded ? tenon_fail(on, TENON_UNIMPLEMENTED, "vx: a recording cannot contain events")
                  : TENON_OK;
}

tenon_status_t vx_event_time(tenon_on_t on, void *event, int64_t *out_time) {
  mark_t mark = event_mark(event);
  if (!mark.done || !mark.time) return TENON_UNAVAILABLE;
  *out_time = mark.time;
  return blame(on, mark.status, mark.ticket, NULL);
}
