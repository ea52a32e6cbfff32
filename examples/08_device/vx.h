/* What the parts of the vx device know of each other: a stream is a thread with a list of pieces of
 * work, an event stands for a mark in a stream, and memory has a block before it. */
#ifndef VX_H
#define VX_H

#define _POSIX_C_SOURCE 200809L /* threads and their clock; before any other header */
#include <pthread.h>
#include <tenon/device.h>

#define ORDINALS 2
#define ALIGNMENT 256
#define TOTAL ((uint64_t)8 << 30) /* bytes of an ordinal */
#define DISGUISE ((uintptr_t)1 << 62)

typedef struct
    mark_t { /* a place in a stream; an event stands for the one that was recorded last */
  uint32_t users;
  uint32_t done;
  tenon_status_t status; /* the stream's, when it came here */
  uint64_t ticket;
  int64_t time;
} mark_t;

typedef struct block_t { /* lies ALIGNMENT bytes before the memory it describes */
  struct block_t *next;
  struct block_t **link;
  uint64_t bytes;
  uint32_t drops; /* streams that have not come to where it was freed */
  int32_t ordinal;
} block_t;

typedef struct stream_t stream_t;
typedef struct work_t { /* a piece of work; what it needs of these */
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
  work_t **last; /* a piece stays here while it is done */
  work_t *recording;
  work_t **recorded; /* recorded is not NULL: where the next piece of the recording goes */
  int closing;
  int finished;
  tenon_status_t status; /* of the first piece that failed */
  uint64_t ticket;       /* and its ticket */
};

typedef struct event_t {
  mark_t *mark; /* NULL: never recorded */
} event_t;

typedef struct recording_t {
  work_t *first;
} recording_t;

extern struct vx_t { /* one lock keeps the example short */
  pthread_mutex_t lock;
  pthread_cond_t progress; /* a piece is done, or a stream has finished */
  uint64_t sequence;       /* of the last piece of any stream */
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

/* stream.c: a piece of work, NULL where there is no host memory, and said so; enqueue takes a list
 * of them, also into a recording. */
work_t *work_new(tenon_on_t on, void (*run)(stream_t *, work_t *), uint64_t ticket);
void enqueue(stream_t *s, work_t *list);
/* With the lock: past any recording; a stream's first failure stays; waits for what was enqueued up
 * to there; joins the threads of destroyed streams that are at their end. */
void push(stream_t *s, work_t *w);
void stream_fail(stream_t *s, tenon_status_t status, uint64_t ticket);
void drain(stream_t *s, uint64_t sequence);
void reap(int32_t ordinal);
tenon_status_t blame(tenon_on_t on, tenon_status_t status, uint64_t ticket, tenon_fault_t *fault);

/* Slots of the table: stream.c, memory.c. */
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
void block_free(block_t *b); /* with the lock */

#endif
