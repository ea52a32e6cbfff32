/* wordpiece.c: the tokeniser of wordpiece.h: a hash table of pieces, classes of characters, and the
 * tokenisation of one text.
 *
 * text_ops.c calls it. Everything about a text lives in one run_t on the stack of wordpiece_encode,
 * so threads share only the constant table. utf8proc provides Unicode's tables; `young` lists where
 * Hugging Face's tables are older. */
#include "wordpiece.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

enum { WORD_MAX = 100 }; /* characters; a longer word is [UNK] */

const char *const wordpiece_special_names[WORDPIECE_SPECIAL_COUNT] = {"[PAD]", "[UNK]", "[CLS]",
                                                                      "[SEP]", "[MASK]"};

/* the table of pieces */

typedef struct piece_t {
  /* Hash of the text; the lowest bit says that the piece continues a word ("##" in the
   * vocabulary). */
  uint32_t key;
  uint32_t start;
  uint32_t size; /* 0: the slot is empty */
  int32_t id;
} piece_t;

struct wordpiece_t {
  const char *vocabulary;
  /* Number of slots - 1. */
  uint32_t mask;
  uint32_t longest; /* bytes of the longest piece */
  bool lower;
  int32_t special[WORDPIECE_SPECIAL_COUNT];
  piece_t slots[];
};

/* FNV-1a, one byte at a time, because every prefix of a word is looked up. */
static const uint32_t hash_seed = 2166136261u;
static uint32_t hash_byte(uint32_t hash, uint8_t byte) { return (hash ^ byte) * 16777619u; }
static uint32_t hash_key(uint32_t hash, bool inside) { return hash << 1 | inside; }

/* The slot of a piece, or the empty slot where it belongs. */
static const piece_t *piece_find(const wordpiece_t *pieces, const void *text, uint32_t size,
                                 uint32_t key) {
  for (uint32_t at = key * 2654435769u >> 8;; at++) {
    const piece_t *slot = &pieces->slots[at & pieces->mask];
    if (slot->size == 0) return slot;
    if (slot->key == key && slot->size == size &&
        !memcmp(pieces->vocabulary + slot->start, text, size))
      return slot;
  }
}

static int32_t piece_id(const wordpiece_t *pieces, const char *text) {
  uint32_t hash = hash_seed;
  uint32_t size = (uint32_t)strlen(text);
  for (uint32_t i = 0; i < size; i++)
    hash = hash_byte(hash, (uint8_t)text[i]);
  const piece_t *slot = piece_find(pieces, text, size, hash_key(hash, false));
  return slot->size ? slot->id : -1;
}

static void piece_add(wordpiece_t *pieces, uint32_t start, uint32_t end, int32_t id) {
  const char *text = pieces->vocabulary;
  bool inside = end - start > 2 && text[start] == '#' && text[start + 1] == '#';
  if (inside) start += 2;
  uint32_t hash = hash_seed;
  for (uint32_t i = start; i < end; i++)
    hash = hash_byte(hash, (uint8_t)text[i]);
  uint32_t key = hash_key(hash, inside);
  ptrdiff_t at = piece_find(pieces, text + start, end - start, key) - pieces->slots;
  /* If two lines are equal, the later one counts. */
  pieces->slots[at] = (piece_t){key, start, end - start, id};
  if (end - start > pieces->longest) pieces->longest = end - start;
}

wordpiece_t *wordpiece_create(const char *vocabulary, uint32_t size, bool lower) {
  uint32_t lines = 1;
  for (uint32_t i = 0; i < size; i++)
    lines += vocabulary[i] == '\n';
  uint64_t slot_count = 16;
  while (slot_count < 2 * (uint64_t)lines)
    slot_count *= 2;
  wordpiece_t *pieces = calloc(1, sizeof *pieces + slot_count * sizeof(piece_t));
  if (!pieces) return NULL;
  pieces->vocabulary = vocabulary;
  pieces->mask = (uint32_t)(slot_count - 1);
  pieces->lower = lower;
  uint32_t start = 0;
  for (int32_t id = 0; start < size; id++) {
    const char *newline = memchr(vocabulary + start, '\n', size - start);
    uint32_t next = newline ? (uint32_t)(newline - vocabulary) : size;
    uint32_t end = next;
    if (end > start && vocabulary[end - 1] == '\r') end--;
    if (end > start) piece_add(pieces, start, end, id);
    start = next + 1;
  }
  for (int i = 0; i < WORDPIECE_SPECIAL_COUNT; i++)
    pieces->special[i] = piece_id(pieces, wordpiece_special_names[i]);
  return pieces;
}

int32_t wordpiece_special(const wordpiece_t *pieces, int32_t special) {
  return pieces->special[special];
}

/* classes of characters */

typedef enum class_t {
  CLASS_WORD,
  CLASS_SPACE,
  CLASS_PUNCTUATION,
  CLASS_ACCENT,
  CLASS_DROPPED,
} class_t;

typedef struct range_t {
  int32_t first;
  int32_t last;
} range_t;

/* Whether the sorted ranges contain a character. */
static bool in_ranges(const range_t *ranges, size_t count, int32_t c) {
  while (count > 0) {
    const range_t *middle = ranges + count / 2;
    if (c < middle->first)
      count /= 2;
    else if (c > middle->last) {
      count -= count / 2 + 1;
      ranges = middle + 1;
    } else
      return true;
  }
  return false;
}

/* Hugging Face's tables of punctuation, accents and format characters are those of Unicode 8: a
 * character that was assigned later counts as part of a word. */
static const range_t young[] = {
    {0x61D, 0x61D},     {0x7FD, 0x7FD},     {0x890, 0x8E2},     {0x9FD, 0x9FE},
    {0xA76, 0xA76},     {0xAFA, 0xAFF},     {0xB55, 0xB55},     {0xC04, 0xC3C},
    {0xC77, 0xC77},     {0xC84, 0xC84},     {0xD00, 0xD00},     {0xD3B, 0xD3C},
    {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x180F, 0x1886},
    {0x1ABF, 0x1ACE},   {0x1B7D, 0x1B7E},   {0x1DF6, 0x1DFB},   {0x2E43, 0x2E5D},
    {0xA82C, 0xA82C},   {0xA8C5, 0xA8C5},   {0xA8FF, 0xA8FF},   {0xA9BD, 0xA9BD},
    {0x10D24, 0x10F89}, {0x11070, 0x11074}, {0x110C2, 0x110CD}, {0x111CF, 0x111CF},
    {0x1123E, 0x11241}, {0x1133B, 0x1133B}, {0x11438, 0x1145E}, {0x11660, 0x1166C},
    {0x116B9, 0x116B9}, {0x1182F, 0x11FFF}, {0x12FF1, 0x13455}, {0x16E97, 0x16F4F},
    {0x16FE2, 0x16FE4}, {0x1CF00, 0x1CF46}, {0x1E000, 0x1E4EF}, {0x1E944, 0x1E95F}};

/* Each is a word of its own. The gap before 0x2B920 is Hugging Face's. */
static const range_t ideographs[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                     {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
                                     {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};

#define IN(ranges, c) in_ranges(ranges, sizeof ranges / sizeof *ranges, c)

/* clang-format off */
/* The class of each Unicode category. A category that is missing here has CLASS_WORD (0). */
static const uint8_t classes[] = {
  [UTF8PROC_CATEGORY_ZS] = CLASS_SPACE, [UTF8PROC_CATEGORY_ZL] = CLASS_SPACE,
  [UTF8PROC_CATEGORY_ZP] = CLASS_SPACE,
  [UTF8PROC_CATEGORY_PC] = CLASS_PUNCTUATION, [UTF8PROC_CATEGORY_PD] = CLASS_PUNCTUATION,
  [UTF8PROC_CATEGORY_PS] = CLASS_PUNCTUATION, [UTF8PROC_CATEGORY_PE] = CLASS_PUNCTUATION,
  [UTF8PROC_CATEGORY_PI] = CLASS_PUNCTUATION, [UTF8PROC_CATEGORY_PF] = CLASS_PUNCTUATION,
  [UTF8PROC_CATEGORY_PO] = CLASS_PUNCTUATION, [UTF8PROC_CATEGORY_MN] = CLASS_ACCENT,
  [UTF8PROC_CATEGORY_CC] = CLASS_DROPPED, [UTF8PROC_CATEGORY_CF] = CLASS_DROPPED,
  [UTF8PROC_CATEGORY_CS] = CLASS_DROPPED, [UTF8PROC_CATEGORY_CO] = CLASS_DROPPED
};
/* clang-format on */

static class_t class_of(int32_t c) {
  if (c < 128) {
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') return CLASS_SPACE;
    if (c < ' ' || c == 127) return CLASS_DROPPED;
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return letter ? CLASS_WORD : CLASS_PUNCTUATION;
  }
  if (c == 0xFFFD) return CLASS_DROPPED;
  /* The classes of these three characters have changed since Unicode 8. */
  if (c == 0x166D || c == 0x111C9) return CLASS_PUNCTUATION;
  if (c == 0x1734) return CLASS_ACCENT;
  if (IN(young, c)) return CLASS_WORD;
  size_t category = (size_t)utf8proc_category(c);
  return category < sizeof classes ? (class_t)classes[category] : CLASS_WORD;
}

/* Canonical combining class: the order of marks after their letter. */
static int combining(int32_t c) { return c < 128 ? 0 : utf8proc_get_property(c)->combining_class; }

/* a run over one text */

typedef struct run_t {
  const wordpiece_t *pieces;
  int32_t *ids;
  int32_t count;
  int32_t capacity;
  int32_t length;  /* characters of the word so far, or one more than a word may have */
  int32_t settled; /* characters that no later mark sorts before */
  int32_t word[WORD_MAX];
} run_t;

static void emit(run_t *run, int32_t id) {
  if (run->count < run->capacity) run->ids[run->count++] = id;
}

/* Splits the word into pieces, the longest known one first; a word with an unknown rest is [UNK] as
 * a whole. */
static void word_end(run_t *run) {
  const wordpiece_t *pieces = run->pieces;
  int32_t length = run->length;
  int32_t found[WORD_MAX];
  int32_t found_count = 0;
  uint32_t ends[WORD_MAX + 1]; /* bytes of the first i characters */
  uint32_t keys[WORD_MAX + 1]; /* hashes of the characters from `begin` to i */
  uint8_t bytes[4 * WORD_MAX];
  run->length = run->settled = 0;
  ends[0] = 0;
  bool known = length <= WORD_MAX;
  for (int32_t i = 0; known && i < length; i++)
    ends[i + 1] = ends[i] + (uint32_t)utf8proc_encode_char(run->word[i], bytes + ends[i]);
  for (int32_t begin = 0; known && begin < length;) {
    uint32_t hash = hash_seed;
    int32_t end = begin;
    while (end < length && ends[end + 1] - ends[begin] <= pieces->longest) {
      for (uint32_t at = ends[end]; at < ends[end + 1]; at++)
        hash = hash_byte(hash, bytes[at]);
      keys[++end] = hash_key(hash, begin > 0);
    }
    const piece_t *piece = NULL;
    for (; end > begin; end--) {
      piece = piece_find(pieces, bytes + ends[begin], ends[end] - ends[begin], keys[end]);
      if (piece->size) break;
    }
    known = end > begin;
    if (known) found[found_count++] = piece->id;
    begin = end;
  }
  if (!known) {
    found[0] = pieces->special[WORDPIECE_UNK];
    found_count = 1;
  }
  for (int32_t i = 0; i < found_count; i++)
    emit(run, found[i]);
}

/* Adds a character of a word, in the canonical order of its marks. */
static void word_add(run_t *run, int32_t c) {
  if (run->length > WORD_MAX) return;
  int32_t at = run->length++;
  int32_t order = combining(c);
  if (at == WORD_MAX) return;
  for (; order && at > run->settled && combining(run->word[at - 1]) > order; at--)
    run->word[at] = run->word[at - 1];
  run->word[at] = c;
  if (!order) run->settled = run->length;
}

/* Takes one character of the text after case and accents were folded. */
static void take_folded(run_t *run, int32_t c) {
  class_t class = class_of(c);
  if (class == CLASS_ACCENT && run->pieces->lower) {
    if (!combining(c)) run->settled = run->length;
    return;
  }
  if (class == CLASS_SPACE || class == CLASS_PUNCTUATION) word_end(run);
  if (class == CLASS_SPACE) return;
  word_add(run, run->pieces->lower ? utf8proc_tolower(c) : c);
  if (class == CLASS_PUNCTUATION) word_end(run);
}

/* Takes one character of the text as it was written. */
static void take(run_t *run, int32_t c) {
  if (class_of(c) == CLASS_DROPPED) return;
  int32_t parts[8] = {c};
  utf8proc_ssize_t part_count = 1;
  if (c >= 128 && run->pieces->lower)
    part_count = utf8proc_decompose_char(c, parts, 8, UTF8PROC_DECOMPOSE, NULL);
  bool alone = c >= 0x3400 && IN(ideographs, c);
  if (alone) word_end(run);
  for (utf8proc_ssize_t i = 0; i < part_count; i++)
    take_folded(run, parts[i]);
  if (alone) word_end(run);
}

/* The special word that the text starts with, or WORDPIECE_SPECIAL_COUNT. */
static int special_at(const wordpiece_t *pieces, const char *text, uint64_t size) {
  int i = 0;
  for (; i < WORDPIECE_SPECIAL_COUNT; i++) {
    size_t length = strlen(wordpiece_special_names[i]);
    if (pieces->special[i] >= 0 && length <= size &&
        !memcmp(text, wordpiece_special_names[i], length))
      break;
  }
  return i;
}

int32_t wordpiece_encode(const wordpiece_t *pieces, const char *text, uint64_t size, int32_t *ids,
                         int32_t capacity) {
  run_t run = {.pieces = pieces, .ids = ids, .capacity = capacity - 1}; /* room for [SEP] */
  emit(&run, pieces->special[WORDPIECE_CLS]);
  for (uint64_t at = 0; at < size && run.count < run.capacity;) {
    int special =
        text[at] == '[' ? special_at(pieces, text + at, size - at) : WORDPIECE_SPECIAL_COUNT;
    if (special < WORDPIECE_SPECIAL_COUNT) {
      word_end(&run);
      emit(&run, pieces->special[special]);
      at += strlen(wordpiece_special_names[special]);
      continue;
    }
    int32_t c = (uint8_t)text[at];
    utf8proc_ssize_t length = 1;
    if (c >= 128) {
      length = utf8proc_iterate((const uint8_t *)text + at,
                                size - at < 4 ? (utf8proc_ssize_t)(size - at) : 4, &c);
      if (length <= 0) {
        c = 0xFFFD;
        length = 1;
      }
    }
    at += (uint64_t)length;
    take(&run, c);
  }
  word_end(&run);
  run.capacity++;
  emit(&run, pieces->special[WORDPIECE_SEP]);
  return run.count;
}
