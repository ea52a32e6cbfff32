/* Faults of memory, copies and fills. */
#include "faults.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FAULT(fault, slot, function)                                                               \
  static void fault(tenon_device_table_t *table) { table->slot = function; }

/* Does work a little later on a thread outside the streams, which no wait covers. */
static void *later_thread(void *argument) {
  work_t *w = argument;
  nanosleep(&(struct timespec){0, 30000000}, NULL);
  memmove(w->to, w->from, w->bytes);
  free(w);
  return NULL;
}
static void run_later(stream_t *s, work_t *w) {
  pthread_t thread;
  work_t *own = malloc(sizeof *own);
  (void)s;
  if (!own) return;
  *own = *w;
  if (pthread_create(&thread, NULL, later_thread, own) == 0) pthread_detach(thread);
}

/* A copy that is executed by `run` if direction and stream match (direction 0: any; only streams
 * other than NULL). */
static tenon_status_t copy_by(tenon_on_t on, void *stream, const tenon_copy_t *copy,
                              uint32_t direction, void (*run)(stream_t *, work_t *)) {
  if (direction && copy->direction != direction) return correct.copy(on, stream, copy);
  work_t *w = work_new(on, run, copy->ticket);
  if (!w) return TENON_MEMORY;
  w->bytes = copy->bytes;
  w->from = copy->direction == TENON_COPY_IN ? (char *)copy->from.handle + copy->from.offset
                                             : shown(copy->from);
  w->to = copy->direction == TENON_COPY_OUT ? (char *)copy->to.handle + copy->to.offset
                                            : shown(copy->to);
  enqueue(stream_of(on, stream), w);
  return TENON_OK;
}

static tenon_status_t in_late(tenon_on_t on, void *stream, const tenon_copy_t *copy) {
  return stream ? copy_by(on, stream, copy, TENON_COPY_IN, run_later)
                : correct.copy(on, stream, copy);
}
FAULT(copy_in_late, copy, in_late)

static tenon_status_t out_late(tenon_on_t on, void *stream, const tenon_copy_t *copy) {
  return stream ? copy_by(on, stream, copy, TENON_COPY_OUT, run_later)
                : correct.copy(on, stream, copy);
}
FAULT(copy_out_not_waited, copy, out_late)

/* Keeps what it read from a host address and assumes that the contents do not change. */
static tenon_status_t in_stale(tenon_on_t on, void *stream, const tenon_copy_t *copy) {
  static struct {
    void *at;
    uint64_t bytes;
    char kept[8192];
  } cache[256];
  tenon_copy_t stale = *copy;
  unsigned k = (unsigned)((uintptr_t)copy->from.handle / 16 % 256);
  if (copy->direction != TENON_COPY_IN || copy->bytes > sizeof cache[k].kept)
    return correct.copy(on, stream, copy);
  if (cache[k].at != copy->from.handle || cache[k].bytes != copy->bytes) {
    cache[k].at = copy->from.handle;
    cache[k].bytes = copy->bytes;
    memcpy(cache[k].kept, copy->from.handle, copy->bytes);
  }
  stale.from.handle = cache[k].kept;
  return correct.copy(on, stream, &stale);
}
FAULT(copy_in_stale, copy, in_stale)

static void run_forwards(stream_t *s, work_t *w) {
  for (uint64_t i = 0; !s->status && i < w->bytes; i++)
    ((volatile char *)w->to)[i] = w->from[i];
}
static tenon_status_t within_forwards(tenon_on_t on, void *stream, const tenon_copy_t *copy) {
  return copy_by(on, stream, copy, TENON_COPY_WITHIN, run_forwards);
}
FAULT(overlap_forwards, copy, within_forwards)

static tenon_status_t within_words(tenon_on_t on, void *stream, const tenon_copy_t *copy) {
  tenon_copy_t rounded = *copy;
  if (copy->direction == TENON_COPY_WITHIN) rounded.bytes = (copy->bytes + 7) / 8 * 8;
  return correct.copy(on, stream, &rounded);
}
FAULT(copy_by_words, copy, within_words)

static tenon_status_t offset_cut(tenon_on_t on, void *stream, const tenon_copy_t *copy) {
  tenon_copy_t cut = *copy;
  cut.from.offset &= 0xFFFFFFFFu;
  cut.to.offset &= 0xFFFFFFFFu;
  return correct.copy(on, stream, &cut);
}
FAULT(offset_32_bits, copy, offset_cut)

/* One staging buffer for copies in, shared by all threads. */
static tenon_status_t in_staged(tenon_on_t on, void *stream, const tenon_copy_t *copy) {
  static char stage[100000];
  tenon_copy_t staged = *copy;
  if (copy->direction != TENON_COPY_IN || copy->bytes > sizeof stage)
    return correct.copy(on, stream, copy);
  memcpy(stage, copy->from.handle, copy->bytes);
  staged.from.handle = stage;
  TENON_TRY(correct.copy(on, stream, &staged));
  return correct.stream_synchronize(on, stream, NULL);
}
FAULT(shared_stage, copy, in_staged)

static tenon_status_t peer_at_once(tenon_on_t on, void *stream, const tenon_copy_t *copy) {
  if (copy->direction != TENON_COPY_PEER) return correct.copy(on, stream, copy);
  memmove(shown(copy->to), shown(copy->from), copy->bytes);
  return TENON_OK;
}
FAULT(peer_at_once_, copy, peer_at_once)

static tenon_status_t fill_low(tenon_on_t on, void *stream, uint64_t ticket, tenon_memory_t to,
                               uint64_t bytes, const void *pattern, uint32_t pattern_bytes) {
  to.offset -= to.offset % 8;
  return correct.fill(on, stream, ticket, to, bytes, pattern, pattern_bytes);
}
FAULT(fill_offset, fill, fill_low)

static tenon_status_t allocate_odd(tenon_on_t on, uint64_t bytes, void **out_handle) {
  TENON_TRY(correct.allocate(on, bytes, out_handle)); /* its block has room at the end */
  *out_handle = (char *)*out_handle + 8;
  return TENON_OK;
}
static tenon_status_t allocate_more(tenon_on_t on, uint64_t bytes, void **out_handle) {
  return bytes > UINT64_MAX / 2 ? correct.allocate(on, bytes, out_handle)
                                : allocate_odd(on, bytes + 256, out_handle);
}
static void free_odd(tenon_on_t on, void *handle) { correct.free(on, (char *)handle - 8); }
static void wrong_alignment(tenon_device_table_t *table) {
  table->allocate = allocate_more;
  table->free = free_odd;
}

static void *arena[ORDINALS];
static uint64_t at[ORDINALS];

static tenon_status_t start_arena(tenon_device_context_t *context) {
  arena[context->ordinal] = NULL;
  at[context->ordinal] = 0;
  return correct.start(context);
}

/* Allocates pieces of one large block with sizes rounded by `round`; pieces are never freed. */
static tenon_status_t piece_of(tenon_on_t on, uint64_t bytes, void **out_handle, int64_t more) {
  uint64_t step = bytes < 256 ? 256 : (uint64_t)((int64_t)(bytes / 256 * 256) + more);
  if (bytes > 1000000) return correct.allocate(on, bytes, out_handle);
  lock();
  if (at[on->ordinal] + 2000000 > (uint64_t)1 << 30) {
    at[on->ordinal] = 0;
    arena[on->ordinal] = NULL;
  }
  int fresh = !arena[on->ordinal];
  unlock();
  if (fresh) TENON_TRY(correct.allocate(on, (uint64_t)1 << 30, &arena[on->ordinal]));
  lock();
  *out_handle = (char *)arena[on->ordinal] + at[on->ordinal];
  at[on->ordinal] += step;
  unlock();
  return TENON_OK;
}
static tenon_status_t allocate_down(tenon_on_t on, uint64_t bytes, void **out_handle) {
  return piece_of(on, bytes, out_handle, 0);
}
static tenon_status_t allocate_overlap(tenon_on_t on, uint64_t bytes, void **out_handle) {
  return piece_of(on, bytes, out_handle, bytes > 4096 ? -2048 : 256);
}
static void free_large(tenon_on_t on, void *handle) {
  (void)on;
  (void)handle;
}
static void size_rounded_down(tenon_device_table_t *table) {
  table->allocate = allocate_down;
  table->free = free_large;
  table->start = start_arena;
}
static void overlapping(tenon_device_table_t *table) {
  table->allocate = allocate_overlap;
  table->free = free_large;
  table->start = start_arena;
}

FAULT(leak, free, free_large)

static void free_now(tenon_on_t on, void *handle) {
  (void)on;
  lock();
  block_free((block_t *)(void *)((char *)hidden(handle) - ALIGNMENT));
  unlock();
}
FAULT(free_early, free, free_now)

static void free_twice(tenon_on_t on, void *handle) {
  correct.synchronize(on);
  correct.free(on, handle);
  free((char *)hidden(handle) - ALIGNMENT);
}
FAULT(double_free, free, free_twice)

static tenon_device_context_t first;
static tenon_status_t allocate_on_first(tenon_on_t on, uint64_t bytes, void **out_handle) {
  first = *on;
  first.ordinal = 0;
  return correct.allocate(&first, bytes, out_handle);
}
FAULT(wrong_ordinal, allocate, allocate_on_first)

static tenon_status_t allocate_code(tenon_on_t on, uint64_t bytes, void **out_handle) {
  tenon_status_t status = correct.allocate(on, bytes, out_handle);
  return status == TENON_MEMORY ? tenon_fail(on, TENON_INTERNAL, "vx: error 2") : status;
}
FAULT(memory_wrong_code, allocate, allocate_code)

static tenon_status_t allocate_silent(tenon_on_t on, uint64_t bytes, void **out_handle) {
  return bytes > TOTAL ? TENON_MEMORY : correct.allocate(on, bytes, out_handle);
}
FAULT(silent, allocate, allocate_silent)

static tenon_status_t allocate_wraps(tenon_on_t on, uint64_t bytes, void **out_handle) {
  return correct.allocate(on, bytes + 255 < bytes ? 256 : bytes, out_handle);
}
FAULT(size_wraps, allocate, allocate_wraps)

static tenon_status_t allocate_counts(tenon_on_t on, uint64_t bytes,
                                      void **out_handle) { /* counts even what it refuses */
  tenon_status_t status = correct.allocate(on, bytes, out_handle);
  lock();
  if (status) vx.used[on->ordinal] += 4096;
  unlock();
  return status;
}
FAULT(refused_counts, allocate, allocate_counts)

static tenon_status_t level_above(tenon_on_t on, uint64_t *out_bytes) {
  (void)on;
  *out_bytes = 2 * TOTAL;
  return TENON_OK;
}
FAULT(level_too_high, memory_free, level_above)

static tenon_status_t pinned_same(tenon_on_t on, uint64_t bytes, void **out_data) {
  static void *same;
  if (bytes > 2000000) return correct.host_allocate(on, bytes, out_data);
  if (!same) TENON_TRY(correct.host_allocate(on, 2000000, &same));
  *out_data = same;
  return TENON_OK;
}
static void pinned_keep(tenon_on_t on, void *data) {
  (void)on;
  (void)data;
}
static void pinned_shared(tenon_device_table_t *table) {
  table->host_allocate = pinned_same;
  table->host_free = pinned_keep;
}

static tenon_status_t pinned_code(tenon_on_t on, uint64_t bytes, void **out_data) {
  return correct.host_allocate(on, bytes, out_data) ? tenon_fail(on, TENON_INTERNAL, "vx: error 2")
                                                    : TENON_OK;
}
FAULT(pinned_wrong_code, host_allocate, pinned_code)

static int32_t peers_two(tenon_on_t on, tenon_on_t from) {
  (void)on;
  (void)from;
  return 2;
}
FAULT(peers_answer, peers, peers_two)

const fault_t copy_faults[] = {{"copy_in_late", copy_in_late},
                               {"copy_out_not_waited", copy_out_not_waited},
                               {"copy_in_stale", copy_in_stale},
                               {"overlap_forwards", overlap_forwards},
                               {"copy_by_words", copy_by_words},
                               {"offset_32_bits", offset_32_bits},
                               {"shared_stage", shared_stage},
                               {"peer_at_once", peer_at_once_},
                               {"fill_offset", fill_offset},
                               {"wrong_alignment", wrong_alignment},
                               {"size_rounded_down", size_rounded_down},
                               {"overlapping", overlapping},
                               {"leak", leak},
                               {"free_early", free_early},
                               {"double_free", double_free},
                               {"wrong_ordinal", wrong_ordinal},
                               {"memory_wrong_code", memory_wrong_code},
                               {"silent", silent},
                               {"size_wraps", size_wraps},
                               {"refused_counts", refused_counts},
                               {"level_too_high", level_too_high},
                               {"pinned_shared", pinned_shared},
                               {"pinned_wrong_code", pinned_wrong_code},
                               {"peers_answer", peers_answer},
                               {0}};
