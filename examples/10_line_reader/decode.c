/* decode.c: the operator reader::ctc_decode, a prefix beam search. It is part of the library of
 * ctc.c.
 *
 * The texts that the search has met form a tree, in which each text is one node, whichever path led
 * to it. The beam is the sorted list of the best texts. Each call allocates all memory once.
 *
 * Invariant: the kept texts depend only on the numbers of the line. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/check.h>

#include "ctc.h"

/* the alphabet */

enum {
  ATTR_ALPHABET,
  ATTR_BLANK,
  ATTR_BEAM,
};
enum {
  BEAM_MAX = 1 << 16,
  CODE_MAX = 0x10FFFF,
};

typedef struct alphabet_t {
  const char *text; /* the attribute, which lives as long as this */
  int64_t count;
  uint32_t starts[]; /* start of each character, and the end of the last one */
} alphabet_t;

/* Returns how many bytes the UTF-8 character at `s` has; 0: there is no valid character. */
static uint32_t character(const unsigned char *s, uint32_t size, uint32_t *code) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  uint32_t bytes = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
  if (!bytes || bytes > size) return 0;
  *code = bytes == 1 ? *s : *s & (0x7Fu >> bytes);
  for (uint32_t i = 1; i < bytes; i++) {
    if (s[i] >> 6 != 2) return 0;
    *code = *code << 6 | (s[i] & 0x3Fu);
  }
  /* A longer form than needed, a code past the last one, and a surrogate are not valid. */
  return *code < least[bytes] || *code > CODE_MAX || *code >> 11 == 0x1B ? 0 : bytes;
}

static tenon_status_t alphabet_read(tenon_node_t *node, alphabet_t *alphabet, uint8_t *seen) {
  uint32_t size = node->attrs[ATTR_ALPHABET].count;
  uint32_t code = 0;
  for (uint32_t at = 0, bytes; at < size; at += bytes) {
    bytes = character((const unsigned char *)alphabet->text + at, size - at, &code);
    if (!bytes) return tenon_fail(node, TENON_INVALID, "alphabet is not UTF-8 at its byte %u", at);
    if (seen[code / 8] >> code % 8 & 1)
      return tenon_fail(node, TENON_INVALID,
                        "alphabet has '%.*s' (U+%04X) twice, again at its character %lld",
                        (int)bytes, alphabet->text + at, code, (long long)alphabet->count);
    seen[code / 8] |= (uint8_t)(1u << code % 8);
    alphabet->starts[alphabet->count++] = at;
  }
  alphabet->starts[alphabet->count] = size;
  return TENON_OK;
}

static tenon_status_t alphabet_create(tenon_node_t *node) {
  const tenon_value_t *text = &node->attrs[ATTR_ALPHABET];
  alphabet_t *alphabet =
      malloc(sizeof *alphabet + ((size_t)text->count + 1) * sizeof *alphabet->starts);
  uint8_t *seen = calloc(CODE_MAX / 8 + 1, 1);
  tenon_status_t status = TENON_MEMORY;
  if (alphabet && seen) {
    *alphabet = (alphabet_t){text->as.s, 0};
    status = alphabet_read(node, alphabet, seen);
  } else
    (void)tenon_fail(node, status, "no memory for an alphabet of %u bytes", text->count);
  free(seen);
  if (status == TENON_OK)
    node->state = alphabet;
  else
    free(alphabet);
  return status;
}

/* the search */

/* A text that the search has met: the text of `parent` plus one class. Each text is one node,
 * whichever path led to it. */
typedef struct node_t {
  int32_t parent;
  /* The child that was met last; -1: none. */
  int32_t child;
  /* The child that was met before this one; -1: none. */
  int32_t sibling;
  int32_t class; /* -1: the empty text */
  int32_t place; /* index in the beam; -1: not in the beam */
} node_t;

/* A text with the logarithms of its probability: with a blank as the last frame, without one, and
 * both together. */
typedef struct entry_t {
  double blank;
  double label;
  double score;
  /* The entry of the previous beam that the text comes from, and the class that was added; -1:
   * none. */
  int32_t from;
  int32_t class;
  int32_t node; /* only for entries of the beam */
} entry_t;

/* The state of the search for one line; its memory is used again for the next line. */
typedef struct search_t {
  double *row; /* log_probs of a frame */
  entry_t *beam;
  /* The best entries of the frame, best first. While a frame is processed, `found` is a heap with
   * the worst entry first. */
  entry_t *found;
  node_t *nodes;
  char *text;
  /* For each class: whether the beam has the text that an entry makes with this class. Always true
   * for the blank. */
  bool *taken;
  double least; /* the lowest score of a full heap, else -inf */
  int64_t count;
  int64_t found_count;
  int64_t node_count;
  int64_t classes;
  int64_t blank;
  int64_t width;
} search_t;

static bool is_better(const entry_t *a, const entry_t *b) {
  if (a->score != b->score) return a->score > b->score;
  return a->from != b->from ? a->from < b->from : a->class < b->class;
}

/* Replaces the worst entry of the heap. */
static void replace_worst(entry_t *heap, int64_t count, entry_t entry) {
  int64_t at = 0;
  for (int64_t k; (k = 2 * at + 1) < count; at = k) {
    if (k + 1 < count && is_better(&heap[k], &heap[k + 1])) k++;
    if (is_better(&heap[k], &entry)) break;
    heap[at] = heap[k];
  }
  heap[at] = entry;
}

static void offer(search_t *search, entry_t entry) {
  entry_t *heap = search->found;
  if (entry.score == -INFINITY) return;
  if (search->found_count < search->width) {
    int64_t at = search->found_count++;
    for (; at > 0 && is_better(&heap[(at - 1) / 2], &entry); at = (at - 1) / 2)
      heap[at] = heap[(at - 1) / 2];
    heap[at] = entry;
  } else if (is_better(&entry, heap)) {
    replace_worst(heap, search->width, entry);
  }
  if (search->found_count == search->width) search->least = heap->score;
}

/* Offers what an entry becomes in one frame: the same text, and the text with one more class. */
static void grow(search_t *search, int32_t from) {
  const entry_t *entry = &search->beam[from];
  const node_t *node = &search->nodes[entry->node];
  const double *row = search->row;
  entry_t same = {entry->score + row[search->blank], -INFINITY, 0, from, -1, -1};
  if (node->class >= 0) {
    const node_t *parent = &search->nodes[node->parent];
    const entry_t *above = parent->place >= 0 ? &search->beam[parent->place] : NULL;
    double added = !above ? -INFINITY : parent->class == node->class ? above->blank : above->score;
    same.label = log_sum(entry->label, added, -INFINITY) + row[node->class];
  }
  same.score = log_sum(same.blank, same.label, -INFINITY);
  offer(search, same);
  for (int32_t k = node->child; k >= 0; k = search->nodes[k].sibling)
    search->taken[search->nodes[k].class] = search->nodes[k].place >= 0;
  for (int32_t c = 0; c < search->classes; c++) {
    double score = (c == node->class ? entry->blank : entry->score) + row[c];
    if (score >= search->least && !search->taken[c])
      offer(search, (entry_t){-INFINITY, score, score, from, c, -1});
  }
  for (int32_t k = node->child; k >= 0; k = search->nodes[k].sibling)
    search->taken[search->nodes[k].class] = false;
}

/* The node of an entry in `found`. */
static int32_t node_of(search_t *search, const entry_t *entry) {
  int32_t parent = search->beam[entry->from].node;
  int32_t node = search->nodes[parent].child;
  if (entry->class < 0) return parent;
  while (node >= 0 && search->nodes[node].class != entry->class)
    node = search->nodes[node].sibling;
  if (node >= 0) return node;
  node = (int32_t)search->node_count++;
  search->nodes[node] = (node_t){parent, -1, search->nodes[parent].child, entry->class, -1};
  return search->nodes[parent].child = node;
}

static void frame(search_t *search) {
  entry_t *found = search->found;
  search->found_count = 0;
  search->least = -INFINITY;
  for (int32_t i = 0; i < search->count; i++)
    grow(search, i);
  /* This sorts the heap. */
  for (int64_t n = search->found_count; n > 1;) {
    entry_t worst = found[0];
    n--;
    replace_worst(found, n, found[n]);
    found[n] = worst;
  }
  for (int64_t i = 0; i < search->found_count; i++)
    found[i].node = node_of(search, &found[i]);
  for (int64_t i = 0; i < search->count; i++)
    search->nodes[search->beam[i].node].place = -1;
  for (int64_t i = 0; i < search->found_count; i++)
    search->nodes[found[i].node].place = (int32_t)i;
  search->found = search->beam;
  search->beam = found;
  search->count = search->found_count;
}

static tenon_status_t decode_line(tenon_call_t *call, search_t *search, int64_t n) {
  const tenon_tensor_t *x = call->inputs[0];
  const alphabet_t *alphabet = call->state;
  int64_t frames = ((const int64_t *)call->inputs[1]->data)[n];
  int64_t size = 0;
  search->nodes[0] = (node_t){-1, -1, -1, -1, 0};
  search->beam[0] = (entry_t){0, -INFINITY, 0, -1, -1, 0};
  search->count = search->node_count = 1;
  for (int64_t t = 0; t < frames; t++) {
    for (int64_t c = 0; c < search->classes; c++) {
      search->row[c] = number(x, (t * x->shape[1] + n) * search->classes + c);
      if (!(search->row[c] < INFINITY))
        return tenon_fail(
            call, TENON_INVALID,
            "log_probs[%lld][%lld][%lld] is %g, which is not the logarithm of a probability",
            (long long)t, (long long)n, (long long)c, search->row[c]);
    }
    frame(search);
  }
  /* The text is written from its last character to its first. */
  char *end = search->text + 4 * frames;
  for (int32_t k = search->count ? search->beam[0].node : 0; k > 0; k = search->nodes[k].parent) {
    int64_t i = search->nodes[k].class - (search->nodes[k].class > search->blank);
    uint32_t bytes = alphabet->starts[i + 1] - alphabet->starts[i];
    size += bytes;
    memcpy(end - size, alphabet->text + alphabet->starts[i], bytes);
  }
  ((float *)call->outputs[1]->data)[n] = (float)(search->count ? search->beam[0].score : -INFINITY);
  return call->host->set_string(call, call->outputs[0], n, end - size, (uint64_t)size);
}

/* the operator */

static tenon_status_t decode_validate(tenon_node_t *node) {
  int64_t beam = node->attrs[ATTR_BEAM].as.i;
  if (beam >= 1 && beam <= BEAM_MAX) return TENON_OK;
  return tenon_fail(node, TENON_INVALID, "beam is %lld, but must be from 1 to %d", (long long)beam,
                    BEAM_MAX);
}

typedef struct room_t {
  unsigned char *memory;
  int64_t width;
  int64_t frames;
  int64_t lane_size;
  int64_t lane_count;
} room_t;

/* Lane i processes lines i, i + lane_count, ... */
static tenon_status_t decode_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const room_t *room = argument;
  const int64_t *shape = call->inputs[0]->shape;
  const int64_t width = room->width;
  for (int64_t lane = begin; lane < end; lane++) {
    search_t search = {.classes = shape[2], .blank = call->attrs[ATTR_BLANK].as.i, .width = width};
    search.row = (double *)(void *)(room->memory + lane * room->lane_size);
    search.beam = (entry_t *)(void *)(search.row + shape[2]);
    search.found = search.beam + width;
    search.nodes = (node_t *)(void *)(search.found + width);
    search.text = (char *)(search.nodes + 1 + width * room->frames);
    search.taken = (bool *)(search.text + 4 * room->frames);
    memset(search.taken, 0, (size_t)shape[2]);
    search.taken[search.blank] = true;
    for (int64_t n = lane; n < shape[1]; n += room->lane_count)
      TENON_TRY(decode_line(call, &search, n));
  }
  return TENON_OK;
}

static tenon_status_t decode_run(tenon_call_t *call) {
  enum { LANES_MAX = 64 };
  const int64_t *shape = call->inputs[0]->shape;
  const int64_t *lengths = call->inputs[1]->data;
  room_t room = {.width = call->attrs[ATTR_BEAM].as.i,
                 .lane_count = shape[1] < LANES_MAX ? shape[1] : LANES_MAX};
  TENON_TRY(lengths_check(call, call->inputs[1], "lengths", shape[0], "the frames of log_probs"));
  for (int64_t n = 0; n < shape[1]; n++)
    if (lengths[n] > room.frames) room.frames = lengths[n];
  if (shape[2] > INT32_MAX || room.frames > (INT32_MAX - 1) / room.width)
    return tenon_fail(
        call, TENON_INVALID,
        "a beam of %lld over %lld frames of %lld classes is too large: make beam smaller",
        (long long)room.width, (long long)room.frames, (long long)shape[2]);
  room.lane_size = shape[2] * (int64_t)(sizeof(double) + sizeof(bool)) +
                   2 * room.width * (int64_t)sizeof(entry_t) +
                   (1 + room.width * room.frames) * (int64_t)sizeof(node_t) + 4 * room.frames;
  room.lane_size = (room.lane_size + 63) / 64 * 64;
  room.memory = call->host->allocate(call, (uint64_t)(room.lane_count * room.lane_size));
  return room.memory ? call->host->parallel(call, room.lane_count, 1, decode_part, &room)
                     : TENON_MEMORY;
}

static tenon_status_t decode_infer(tenon_infer_t *infer) {
  const alphabet_t *alphabet = infer->state;
  tenon_dim_t classes = infer->inputs[0]->dims[2];
  TENON_TRY(blank_check(infer, infer->attrs[ATTR_BLANK].as.i, classes));
  if (!tenon_is_known(classes) || classes.value == alphabet->count + 1) return TENON_OK;
  return tenon_fail(infer, TENON_INVALID,
                    "alphabet has %lld characters, but log_probs has %lld classes: one for each "
                    "character, and the blank",
                    (long long)alphabet->count, (long long)classes.value);
}

/* clang-format off */
TENON_ITEMS(reader_decode,
  TENON_OP("ctc_decode(Tensor log_probs, Tensor lengths, *, str alphabet, int blank=0, int "
           "beam=16) -> (Tensor@host text, Tensor score)",
    TENON_DOC("The most probable text of each line, by prefix beam search (Hannun et al., 2014), "
              "without a language model.\n"
              "log_probs is [frames, lines, classes]; lengths says how many frames a line has. "
              "alphabet is UTF-8, each character once, in the order of the classes without the "
              "blank: its i-th character, from 0, is class i + 1 if i >= blank, else class i.\n"
              "score is the logarithm of the sum over those alignments of the text that stayed "
              "in the beam: all of them if the beam is wide enough.\n"
              "Of texts with equal scores, the search keeps the one that comes from the better "
              "text of the frame before, then the one that adds nothing, then the one with the "
              "lower class. A line in which no text is possible has the text '' and the score "
              "-inf."),
    TENON_SAMPLES("log_probs: [t, n, 4] uniform(-3, -0.1), lengths: [n] integers(1, t), alphabet "
                  "= 'abc'"),
    TENON_TYPES("log_probs: f32|f64; lengths: i64; text = string; score = f32"),
    TENON_SHAPES("log_probs: [t, n, c]; lengths: [n]; text, score: [n]"),
    TENON_TRAITS(TENON_PURE),
    TENON_VALIDATE(decode_validate),
    TENON_STATE(alphabet_create, free),
    TENON_INFER(decode_infer),
    TENON_KERNEL("cpu", decode_run)))
/* clang-format on */
