/* Finds blocks of nodes that repeat, such as the layers of a network, for pictures. */
#include "base/memory.h"
#include "base/status.h"
#include "graph/picture.h"

enum {
  SMALLEST = 2,  /* nodes of a block */
  LONGEST = 512, /* nodes of a block */
  LEAST = 6,     /* nodes that need not be drawn again, or the block is not worth a box */
};

typedef struct finder_t {
  const tn_sequence_t *sequence;
  tn_repeat_t *found;
  size_t count;
  size_t capacity;
} finder_t;

static int32_t hidden_by(const tn_repeat_t *repeat) { return (repeat->count - 1) * repeat->size; }

/* Takes the block of `size` nodes from a run of nodes begin .. end - 1, each of which equals the
 * one `size` later, if it hides more than the best one so far. */
static void consider(const finder_t *f, int32_t begin, int32_t end, int32_t size,
                     tn_repeat_t *best) {
  int32_t first = begin;
  while (first < end && !f->sequence->may_begin[first])
    first++;
  const tn_repeat_t repeat = {first, size, (end - first) / size + 1};
  if (end - first >= size && hidden_by(&repeat) > hidden_by(best)) *best = repeat;
}

static bool are_alike(const tn_sequence_t *s, int32_t a, int32_t b) {
  return s->signs[a] == s->signs[b] && s->is_like(s->context, a, b);
}

/* The block in begin .. end - 1 that hides most nodes; of several the one with the fewest nodes. */
static tn_repeat_t find_best(const finder_t *f, int32_t begin, int32_t end) {
  tn_repeat_t best = {begin, 0, 1};
  for (int32_t size = SMALLEST; size <= LONGEST && 2 * size <= end - begin; size++) {
    int32_t start = begin;
    for (int32_t i = begin; i + size <= end; i++) {
      if (i + size < end && are_alike(f->sequence, i, i + size)) continue;
      consider(f, start, i, size, &best);
      start = i + 1;
    }
  }
  return best;
}

static tenon_status_t find_between(finder_t *f, int32_t begin, int32_t end) {
  const tn_repeat_t best = find_best(f, begin, end);
  if (hidden_by(&best) < LEAST) return TENON_OK;
  TN_TRY(find_between(f, begin, best.first));
  if (!tn_grow((void **)&f->found, &f->capacity, f->count, sizeof *f->found))
    return tn_no_memory("a picture", f->count);
  f->found[f->count++] = best;
  return find_between(f, best.first + best.size * best.count, end);
}

tenon_status_t tn_picture_repeats(const tn_sequence_t *sequence, tn_repeat_t **out_repeats,
                                  size_t *out_count) {
  finder_t finder = {.sequence = sequence};
  const tenon_status_t status = find_between(&finder, 0, sequence->count);
  *out_repeats = finder.found;
  *out_count = finder.count;
  if (status == TENON_OK) return TENON_OK;
  tn_release_memory(finder.found);
  *out_repeats = NULL;
  *out_count = 0;
  return status;
}
