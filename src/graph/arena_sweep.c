/* The sweep over time: a block is placed when its life begins, in the smallest free segment that
 * fits, and its segment is free again when its life ends. Called by arena_plan.c. The segments form
 * a list by offset, so that free neighbours are joined, and the free ones also form a treap by size
 * and offset, so that each block takes logarithmic time. Invariant: no two neighbours in the list
 * are free. */
#include "graph/arena_sweep.h"

#include "base/memory.h"
#include "base/status.h"

enum { NO_SEGMENT = -1 };

typedef struct segment_t {
  uint64_t offset;
  uint64_t size;
  int32_t before; /* neighbours by offset */
  int32_t after;
  int32_t smaller; /* children in the treap of free segments */
  int32_t larger;
  bool is_free;
} segment_t;

typedef struct sweep_t {
  segment_t *segments; /* those without memory form a list by `after`, which begins at `unused` */
  int32_t unused;
  int32_t last; /* the segment with the greatest offset */
  int32_t root; /* of the treap */
} sweep_t;

/* The treap of free segments */

/* Pseudorandom numbers keep the treap balanced; equal plans have equal numbers. */
static uint32_t priority_of(int32_t segment) { return ((uint32_t)segment + 1) * 2654435769u; }

static bool is_smaller(const sweep_t *sweep, int32_t a, int32_t b) {
  const segment_t *x = &sweep->segments[a];
  const segment_t *y = &sweep->segments[b];
  return x->size != y->size ? x->size < y->size : x->offset < y->offset;
}

static int32_t *child_towards(sweep_t *sweep, int32_t at, int32_t segment) {
  segment_t *s = &sweep->segments[at];
  return is_smaller(sweep, at, segment) ? &s->larger : &s->smaller;
}

static void add_free(sweep_t *sweep, int32_t segment) {
  segment_t *added = &sweep->segments[segment];
  int32_t *link = &sweep->root;
  while (*link != NO_SEGMENT && priority_of(*link) > priority_of(segment))
    link = child_towards(sweep, *link, segment);
  int32_t rest = *link;
  int32_t *smaller = &added->smaller;
  int32_t *larger = &added->larger;
  *link = segment;
  while (rest != NO_SEGMENT) {
    int32_t *next = child_towards(sweep, rest, segment);
    if (next == &sweep->segments[rest].larger) {
      *smaller = rest;
      smaller = next;
    } else {
      *larger = rest;
      larger = next;
    }
    rest = *next;
  }
  *smaller = NO_SEGMENT;
  *larger = NO_SEGMENT;
  added->is_free = true;
}

static void remove_free(sweep_t *sweep, int32_t segment) {
  int32_t *link = &sweep->root;
  while (*link != segment)
    link = child_towards(sweep, *link, segment);
  int32_t smaller = sweep->segments[segment].smaller;
  int32_t larger = sweep->segments[segment].larger;
  while (smaller != NO_SEGMENT && larger != NO_SEGMENT) {
    if (priority_of(smaller) > priority_of(larger)) {
      *link = smaller;
      link = &sweep->segments[smaller].larger;
      smaller = *link;
    } else {
      *link = larger;
      link = &sweep->segments[larger].smaller;
      larger = *link;
    }
  }
  *link = smaller != NO_SEGMENT ? smaller : larger;
  sweep->segments[segment].is_free = false;
}

/* The smallest free segment of at least `size` bytes. */
static int32_t find_free(const sweep_t *sweep, uint64_t size) {
  int32_t found = NO_SEGMENT;
  for (int32_t at = sweep->root; at != NO_SEGMENT;) {
    const segment_t *s = &sweep->segments[at];
    if (s->size >= size) found = at;
    at = s->size >= size ? s->smaller : s->larger;
  }
  return found;
}

/* The list of segments */

/* Takes an unused segment and inserts it after another one. */
static int32_t insert_segment(sweep_t *sweep, int32_t before, uint64_t offset, uint64_t size) {
  int32_t made = sweep->unused;
  segment_t *s = &sweep->segments[made];
  sweep->unused = s->after;
  int32_t after = before == NO_SEGMENT ? NO_SEGMENT : sweep->segments[before].after;
  *s = (segment_t){.offset = offset, .size = size, .before = before, .after = after};
  if (before != NO_SEGMENT) sweep->segments[before].after = made;
  if (after != NO_SEGMENT) sweep->segments[after].before = made;
  if (sweep->last == before) sweep->last = made;
  return made;
}

/* Gives the memory of a segment to the one before it. */
static void join_segment(sweep_t *sweep, int32_t segment) {
  segment_t *s = &sweep->segments[segment];
  sweep->segments[s->before].size += s->size;
  sweep->segments[s->before].after = s->after;
  if (s->after != NO_SEGMENT) sweep->segments[s->after].before = s->before;
  if (sweep->last == segment) sweep->last = s->before;
  s->after = sweep->unused;
  sweep->unused = segment;
}

/* A block of no bytes has no segment. */
static int32_t take_segment(sweep_t *sweep, uint64_t size) {
  if (!size) return NO_SEGMENT;
  int32_t found = find_free(sweep, size);
  if (found == NO_SEGMENT && sweep->last != NO_SEGMENT && sweep->segments[sweep->last].is_free) {
    found = sweep->last; /* The arena grows by what is missing. */
    remove_free(sweep, found);
    sweep->segments[found].size = size;
    return found;
  }
  if (found == NO_SEGMENT) {
    const segment_t *last = sweep->last == NO_SEGMENT ? NULL : &sweep->segments[sweep->last];
    return insert_segment(sweep, sweep->last, last ? last->offset + last->size : 0, size);
  }
  remove_free(sweep, found);
  segment_t *s = &sweep->segments[found];
  if (s->size > size) {
    add_free(sweep, insert_segment(sweep, found, s->offset + size, s->size - size));
    s->size = size;
  }
  return found;
}

static void release_segment(sweep_t *sweep, int32_t segment) {
  if (segment == NO_SEGMENT) return;
  int32_t after = sweep->segments[segment].after;
  int32_t before = sweep->segments[segment].before;
  if (after != NO_SEGMENT && sweep->segments[after].is_free) {
    remove_free(sweep, after);
    join_segment(sweep, after);
  }
  if (before != NO_SEGMENT && sweep->segments[before].is_free) {
    remove_free(sweep, before);
    join_segment(sweep, segment);
    segment = before;
  }
  add_free(sweep, segment);
}

tenon_status_t tn_arena_sweep(tn_lifetime_t *lifetimes, tn_lifetime_t *const *by_first,
                              tn_lifetime_t *const *by_last, size_t count, uint64_t *out_size) {
  /* Each block has one segment, and before each of these there may be a free one. */
  size_t most = 2 * count + 2;
  sweep_t sweep = {.last = NO_SEGMENT, .root = NO_SEGMENT};
  sweep.segments = most < INT32_MAX ? tn_allocate(most * sizeof *sweep.segments) : NULL;
  int32_t *segment_of = tn_allocate((count + 1) * sizeof *segment_of);
  if (!sweep.segments || !segment_of) {
    tn_release_memory(sweep.segments);
    tn_release_memory(segment_of);
    return tn_no_memory("a memory plan", most * sizeof *sweep.segments);
  }
  for (size_t i = 0; i < most; i++)
    sweep.segments[i].after = (int32_t)i + 1;
  *out_size = 0;
  size_t ended = 0;
  for (size_t i = 0; i < count; i++) {
    tn_lifetime_t *block = by_first[i];
    for (; by_last[ended]->last < block->first; ended++)
      release_segment(&sweep, segment_of[by_last[ended] - lifetimes]);
    int32_t segment = take_segment(&sweep, block->size);
    segment_of[block - lifetimes] = segment;
    block->offset = segment == NO_SEGMENT ? 0 : sweep.segments[segment].offset;
    if (block->offset + block->size > *out_size) *out_size = block->offset + block->size;
  }
  tn_release_memory(sweep.segments);
  tn_release_memory(segment_of);
  return TENON_OK;
}
