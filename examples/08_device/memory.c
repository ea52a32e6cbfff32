/* memory.c: device memory, copies within it and to and from the host, and fills. */
#include "vx.h"
#include <stdlib.h>
#include <string.h>

tenon_status_t vx_allocate(tenon_on_t on, uint64_t bytes, void **out_handle) {
  lock();
  uint64_t left = TOTAL - vx.used[on->ordinal];
  uint64_t room = bytes + (ALIGNMENT - bytes % ALIGNMENT) % ALIGNMENT;
  block_t *b = bytes <= left && room <= left ? aligned_alloc(ALIGNMENT, ALIGNMENT + room) : NULL;
  if (b) {
    *b = (block_t){.next = vx.blocks, .link = &vx.blocks, .bytes = room, .ordinal = on->ordinal};
    if (b->next) b->next->link = &b->next;
    vx.blocks = b;
    vx.used[on->ordinal] += room;
  }
  unlock();
  if (!b)
    return tenon_fail(on, TENON_MEMORY, "vx:%d: no memory for %llu bytes; %llu are free",
                      on->ordinal, (unsigned long long)bytes, (unsigned long long)left);
  *out_handle = hidden((char *)b + ALIGNMENT);
  return TENON_OK;
}

/* Call this with the lock. */
void block_free(block_t *b) {
  vx.used[b->ordinal] -= b->bytes;
  *b->link = b->next;
  if (b->next) b->next->link = b->link;
  free(b);
}

static void run_drop(stream_t *s, work_t *w) {
  (void)s;
  lock();
  if (--w->block->drops == 0) block_free(w->block);
  unlock();
}

/* Each stream, including those of peers, releases the block when it reaches this point. The last
 * one frees it. */
void vx_free(tenon_on_t on, void *handle) {
  block_t *b = (block_t *)(void *)((char *)hidden(handle) - ALIGNMENT);
  lock();
  /* The share of this call. */
  b->drops = 1;
  for (stream_t *s = vx.streams; s; s = s->next) {
    if (!s->first) continue;
    work_t *w = work_new(on, run_drop, 0);
    /* Without memory for work that frees the block later, wait here. */
    if (w) {
      w->block = b;
      b->drops++;
      push(s, w);
    } else
      drain(s, vx.sequence);
  }
  if (--b->drops == 0) block_free(b);
  unlock();
}

tenon_status_t vx_memory_free(tenon_on_t on, uint64_t *out_bytes) {
  lock();
  *out_bytes = TOTAL - vx.used[on->ordinal];
  unlock();
  return TENON_OK;
}

static void run_copy(stream_t *s, work_t *w) {
  if (!s->status) memmove(w->to, w->from, w->bytes);
}

tenon_status_t vx_copy(tenon_on_t on, void *stream, const tenon_copy_t *copy) {
  work_t *w = work_new(on, run_copy, copy->ticket);
  if (!w) return TENON_MEMORY;
  w->bytes = copy->bytes;
  w->from = copy->direction == TENON_COPY_IN ? (char *)copy->from.handle + copy->from.offset
                                             : shown(copy->from);
  w->to = copy->direction == TENON_COPY_OUT ? (char *)copy->to.handle + copy->to.offset
                                            : shown(copy->to);
  enqueue(stream_of(on, stream), w);
  return TENON_OK;
}

static void run_fill(stream_t *s, work_t *w) {
  for (uint64_t i = 0; !s->status && i < w->bytes; i += w->pattern_bytes)
    memcpy(w->to + i, w->pattern, w->pattern_bytes);
}

tenon_status_t vx_fill(tenon_on_t on, void *stream, uint64_t ticket, tenon_memory_t to,
                       uint64_t bytes, const void *pattern, uint32_t pattern_bytes) {
  work_t *w = work_new(on, run_fill, ticket);
  if (!w) return TENON_MEMORY;
  w->to = shown(to);
  w->bytes = bytes;
  w->pattern_bytes = pattern_bytes;
  memcpy(w->pattern, pattern, pattern_bytes);
  enqueue(stream_of(on, stream), w);
  return TENON_OK;
}

int32_t vx_peers(tenon_on_t on, tenon_on_t from) { return on->ordinal != from->ordinal; }

tenon_status_t vx_host_allocate(tenon_on_t on, uint64_t bytes, void **out_data) {
  *out_data = malloc(bytes);
  return *out_data ? TENON_OK
                   : tenon_fail(on, TENON_MEMORY, "vx: no host memory for %llu bytes",
                                (unsigned long long)bytes);
}

void vx_host_free(tenon_on_t on, void *data) {
  (void)on;
  free(data);
}

/* Imported memory and streams belong to another user of this accelerator, who has the same handles
 * for them. */
tenon_status_t vx_memory_import(tenon_on_t on, void *native, uint64_t bytes, void **out_handle) {
  (void)on;
  (void)bytes;
  *out_handle = native;
  return TENON_OK;
}
tenon_status_t vx_stream_import(tenon_on_t on, void *native, void **out_stream) {
  (void)on;
  *out_stream = native;
  return TENON_OK;
}
void vx_forget(tenon_on_t on, void *native) {
  (void)on;
  (void)native;
}
