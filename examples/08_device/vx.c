/* vx.c: a complete device outside of Tenon, as a template to copy. It has memory, streams, events,
 * and the other features of tenon/device.h; README.md explains it. The accelerator is simulated:
 * each stream is a thread that does its pieces of work in order (stream.c), and device memory is
 * host memory under disguised addresses, so that a host that dereferences one crashes (memory.c).
 * This file holds the device table and the smaller functions. */
#include "vx.h"
#include <stdlib.h>
#include <string.h>

/* callbacks, recordings, and a failure for tests */

static void run_callback(stream_t *s, work_t *w) { w->function(w->argument, s->status); }

static tenon_status_t vx_callback(tenon_on_t on, void *stream,
                                  void (*function)(void *, tenon_status_t), void *argument) {
  work_t *w = work_new(on, run_callback, 0);
  if (!w) return TENON_MEMORY;
  w->function = function;
  w->argument = argument;
  enqueue(stream_of(on, stream), w);
  return TENON_OK;
}

static tenon_status_t vx_record_begin(tenon_on_t on, void *stream) {
  stream_t *s = stream_of(on, stream);
  lock();
  int already = s->recorded != NULL;
  if (!already) {
    s->recording = NULL;
    s->recorded = &s->recording;
  }
  unlock();
  return already ? tenon_fail(on, TENON_PRECONDITION, "vx: the stream is being recorded already")
                 : TENON_OK;
}

static tenon_status_t vx_record_end(tenon_on_t on, void *stream, void **out_recording) {
  stream_t *s = stream_of(on, stream);
  recording_t *recording = malloc(sizeof *recording);
  if (!recording) return tenon_fail(on, TENON_MEMORY, "vx: no host memory for a recording");
  lock();
  int recorded = s->recorded != NULL;
  if (recorded) {
    recording->first = s->recording;
    s->recorded = NULL;
  }
  unlock();
  if (recorded) {
    *out_recording = recording;
    return TENON_OK;
  }
  free(recording);
  return tenon_fail(on, TENON_PRECONDITION, "vx: the stream is not being recorded");
}

static void works_free(work_t *w) {
  for (work_t *next; w; w = next) {
    next = w->next;
    free(w);
  }
}

static tenon_status_t vx_replay(tenon_on_t on, void *stream, void *recording, uint64_t ticket) {
  work_t *copies = NULL;
  work_t **last = &copies;
  for (const work_t *of = ((recording_t *)recording)->first; of;
       of = of->next, last = &(*last)->next) {
    if (!(*last = work_new(on, of->run, ticket))) {
      works_free(copies);
      return TENON_MEMORY;
    }
    **last = *of;
    (*last)->ticket = ticket;
    (*last)->next = NULL;
  }
  enqueue(stream_of(on, stream), copies);
  return TENON_OK;
}

static void vx_recording_free(tenon_on_t on, void *recording) {
  (void)on;
  works_free(((recording_t *)recording)->first);
  free(recording);
}

static void run_failure(stream_t *s, work_t *w) {
  lock();
  stream_fail(s, TENON_INTERNAL, w->ticket);
  unlock();
}

/* For the conformance suite: enqueues a piece of work that fails when the stream reaches it. */
static tenon_status_t enqueue_failure(tenon_on_t on, void *stream, uint64_t ticket) {
  work_t *w = work_new(on, run_failure, ticket);
  if (!w) return TENON_MEMORY;
  enqueue(stream_of(on, stream), w);
  return TENON_OK;
}
static tenon_status_t (*failure_hook)(tenon_on_t, void *, uint64_t) = enqueue_failure;

static void *vx_native(tenon_on_t on, const char *name, void *stream) {
  if (strcmp(name, "enqueue_failure") == 0) return &failure_hook;
  return strcmp(name, "stream") == 0 ? stream_of(on, stream) : NULL;
}

/* the device itself */

static tenon_status_t vx_enumerate(tenon_device_context_t *context, int32_t *out_count) {
  (void)context;
  *out_count = ORDINALS;
  return TENON_OK;
}

static tenon_status_t vx_start(tenon_device_context_t *context) {
  return vx_stream_create(context, &context->state);
}

static void vx_stop(tenon_device_context_t *context) {
  lock();
  for (stream_t *s = vx.streams; s; s = s->next) {
    if (s->ordinal == context->ordinal) {
      s->closing = 1;
      pthread_cond_signal(&s->filled);
    }
  }
  /* Streams of peers may still use memory of this ordinal. */
  uint64_t until = vx.sequence;
  for (stream_t *s = vx.streams; s;) {
    int wait =
        s->ordinal == context->ordinal ? !s->finished : s->first && s->first->sequence <= until;
    if (wait) pthread_cond_wait(&vx.progress, &vx.lock);
    s = wait ? vx.streams : s->next;
  }
  reap(context->ordinal);
  for (block_t *b = vx.blocks, *next; b; b = next) {
    next = b->next;
    if (b->ordinal == context->ordinal) block_free(b);
  }
  unlock();
}

static tenon_status_t vx_properties(tenon_on_t on, tenon_device_properties_t *out) {
  (void)on;
  out->features =
      TENON_DEVICE_ADDRESSES | TENON_DEVICE_OVERLAPS | TENON_DEVICE_TIMES | TENON_DEVICE_BLAMES;
  out->name = "an accelerator made of threads";
  out->driver = "vx 1.0";
  out->target = "vx-1";
  out->memory = TOTAL;
  out->alignment = ALIGNMENT;
  out->units = 1;
  out->group_most = 1;
  return TENON_OK;
}

static const tenon_device_table_t vx_table = {
    .size = sizeof vx_table,
    .abi = TENON_DEVICE_ABI,
    .name = "vx",
    .type = 12, /* DLPack's code for a device that it does not know */
    .enumerate = vx_enumerate,
    .start = vx_start,
    .stop = vx_stop,
    .properties = vx_properties,
    .allocate = vx_allocate,
    .free = vx_free,
    .copy = vx_copy,
    .synchronize = vx_synchronize,
    .stream_create = vx_stream_create,
    .stream_destroy = vx_stream_destroy,
    .stream_query = vx_stream_query,
    .stream_synchronize = vx_stream_synchronize,
    .event_create = vx_event_create,
    .event_destroy = vx_event_destroy,
    .event_record = vx_event_record,
    .event_query = vx_event_query,
    .event_synchronize = vx_event_synchronize,
    .stream_wait = vx_stream_wait,
    .event_time = vx_event_time,
    .memory_free = vx_memory_free,
    .fill = vx_fill,
    .peers = vx_peers,
    .host_allocate = vx_host_allocate,
    .host_free = vx_host_free,
    .callback = vx_callback,
    .native = vx_native,
    .memory_import = vx_memory_import,
    .memory_forget = vx_forget,
    .stream_import = vx_stream_import,
    .stream_forget = vx_forget,
    .record_begin = vx_record_begin,
    .record_end = vx_record_end,
    .replay = vx_replay,
    .recording_free = vx_recording_free,
};

TENON_LIBRARY(vx, "1.0.0", TENON_DEVICE(&vx_table))
