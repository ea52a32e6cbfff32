/* Declarations that the files of the vx device share. A stream is a thread with a list of pieces of
 * work, an event refers to a mark in a stream, and each allocation has a block header before it. */
#ifndef VX_H
#define VX_H

#define _POSIX_C_SOURCE 200809L /* for threads and their clock; must precede every other header */
#include <pthread.h>
#include <tenon/device.h>

#define ORDINALS 2
#define ALIGNMENT 256
#define TOTAL ((uint64_t)8 << 30) /* bytes of memory of each ordinal */
#define DISGUISE ((uintptr_t)1 << 62)

/* A point in a stream. An event refers to the mark that it recorded last. */
typedef struct mark_t {
  uint32_t users;
  uint32_t done;
  tenon_status_t status; /* status of the stream when it reached the mark */
  uint64_t ticket;
  int64_t time;
} mark_t;

/* A header that lies ALIGNMENT bytes before the memory that it describes. */
typedef struct block_t {
  struct block_t *next;
  struct block_t **link;
  uint64_t bytes;
  uint32_t drops; /* streams that have not reached the point where the memory was freed */
  int32_t ordinal;
} block_t;

typedef struct stream_t stream_t;
/* A piece of work; each kind uses some of these fields. */
typedef struct work_t {
  struct work_t *next;
  void (*run)(stream_t *stream, struct work_t *work);
  uint64_t sequence;
  uint64_t ticket;
  uint64_t bytes;
  char *to;
  const char *from;
  uint8_t pattern[8];
  uint32_t pattern_bytes;
  void (*function)(void *argument, tenon_status_t status);
  void *argument;
  mark_t *mark;
  block_t *block;
} work_t;

struct stream_t {
  stream_t *next;
  int32_t ordinal;
  pthread_t thread;
  pthread_cond_t filled;
  work_t *first;
  /* A piece of work stays in the list while it runs. */
  work_t **last;
  work_t *recording;
  /* Where the next piece of the recording goes; NULL: the stream is not being recorded. */
  work_t **recorded;
  int closing;
  int finished;
  tenon_status_t status; /* of the first piece of work that failed */
  uint64_t ticket;       /* the ticket of that piece */
};

typedef struct event_t {
  mark_t *mark; /* NULL: never recorded */
} event_t;

typedef struct recording_t {
  work_t *first;
} recording_t;

/* One lock keeps the example short. */
extern struct vx_t {
  pthread_mutex_t lock;
  pthread_cond_t progress; /* signalled when a piece of work is done, or a stream has finished */
  uint64_t sequence;       /* the number of the last piece of work, over all streams */
  stream_t *streams;
  block_t *blocks;
  uint64_t used[ORDINALS];
} vx;

static inline void lock(void) { pthread_mutex_lock(&vx.lock); }
static inline void unlock(void) { pthread_mutex_unlock(&vx.lock); }
static inline void *hidden(void *pointer) { return (void *)((uintptr_t)pointer ^ DISGUISE); }
static inline char *shown(tenon_memory_t m) { return (char *)hidden(m.handle) + m.offset; }
static inline stream_t *stream_of(tenon_on_t on, void *stream) {
  return stream ? stream : on->state;
}

/* stream.c: work_new makes a piece of work (NULL: no host memory, which it has reported); enqueue
 * appends a list of them to the stream or to its recording. */
work_t *work_new(tenon_on_t on, void (*run)(stream_t *, work_t *), uint64_t ticket);
void enqueue(stream_t *s, work_t *list);
/* Call these with the lock. push appends work without regard to a recording; stream_fail keeps the
 * first failure of a stream; drain waits for all work up to `sequence`; reap joins the threads of
 * destroyed streams that have finished. */
void push(stream_t *s, work_t *w);
void stream_fail(stream_t *s, tenon_status_t status, uint64_t ticket);
void drain(stream_t *s, uint64_t sequence);
void reap(int32_t ordinal);
tenon_status_t blame(tenon_on_t on, tenon_status_t status, uint64_t ticket, tenon_fault_t *fault);

/* Functions of the device table, in stream.c and memory.c. */
tenon_status_t vx_stream_create(tenon_on_t on, void **out_stream);
void vx_stream_destroy(tenon_on_t on, void *stream);
tenon_status_t vx_stream_query(tenon_on_t on, void *stream, tenon_fault_t *fault);
tenon_status_t vx_stream_synchronize(tenon_on_t on, void *stream, tenon_fault_t *fault);
tenon_status_t vx_synchronize(tenon_on_t on);
tenon_status_t vx_event_create(tenon_on_t on, void **out_event);
void vx_event_destroy(tenon_on_t on, void *event);
tenon_status_t vx_event_record(tenon_on_t on, void *event, void *stream);
tenon_status_t vx_event_query(tenon_on_t on, void *event);
tenon_status_t vx_event_synchronize(tenon_on_t on, void *event);
tenon_status_t vx_stream_wait(tenon_on_t on, void *stream, tenon_on_t of, void *event);
tenon_status_t vx_event_time(tenon_on_t on, void *event, int64_t *out_time);
tenon_status_t vx_allocate(tenon_on_t on, uint64_t bytes, void **out_handle);
void vx_free(tenon_on_t on, void *handle);
tenon_status_t vx_memory_free(tenon_on_t on, uint64_t *out_bytes);
tenon_status_t vx_copy(tenon_on_t on, void *stream, const tenon_copy_t *copy);
tenon_status_t vx_fill(tenon_on_t on, void *stream, uint64_t ticket, tenon_memory_t to,
                       uint64_t bytes, const void *pattern, uint32_t pattern_bytes);
int32_t vx_peers(tenon_on_t on, tenon_on_t from);
tenon_status_t vx_host_allocate(tenon_on_t on, uint64_t bytes, void **out_data);
void vx_host_free(tenon_on_t on, void *data);
tenon_status_t vx_memory_import(tenon_on_t on, void *native, uint64_t bytes, void **out_handle);
tenon_status_t vx_stream_import(tenon_on_t on, void *native, void **out_stream);
void vx_forget(tenon_on_t on, void *native);
void block_free(block_t *b); /* call this with the lock */

#endif
