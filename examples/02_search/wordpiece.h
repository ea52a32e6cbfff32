/* wordpiece.h: converts text to the token numbers that BERT models expect. It does not depend on
 * Tenon. It runs BERT's basic tokeniser (clean, decompose, strip accents, lower-case, split at
 * spaces and punctuation), then WordPiece (the longest known piece first), with the same numbers as
 * Hugging Face's BertTokenizerFast. text_ops.c makes an operator of it. A tokeniser does not change
 * after its creation, so any number of threads may encode with it. */
#ifndef WORDPIECE_H
#define WORDPIECE_H

#include <stdbool.h>
#include <stdint.h>

enum {
  WORDPIECE_PAD,
  WORDPIECE_UNK,
  WORDPIECE_CLS,
  WORDPIECE_SEP,
  WORDPIECE_MASK,
  WORDPIECE_SPECIAL_COUNT,
};
/* "[PAD]", "[UNK]", ... */
extern const char *const wordpiece_special_names[WORDPIECE_SPECIAL_COUNT];

typedef struct wordpiece_t wordpiece_t;

/* Creates a tokeniser for a vocabulary of one word per line, numbered from 0. `lower` folds case
 * and accents. The tokeniser points into `vocabulary`, which must outlive it. Returns NULL if
 * memory runs out; release it with free(). */
wordpiece_t *wordpiece_create(const char *vocabulary, uint32_t size, bool lower);
/* The number of a special word; -1: the vocabulary lacks it. */
int32_t wordpiece_special(const wordpiece_t *pieces, int32_t special);
/* Writes [CLS], at most capacity - 2 pieces of the text, and [SEP]. Returns how many numbers it
 * wrote. `capacity` is at least 2. Bytes that are not UTF-8 are dropped, as U+FFFD is. */
int32_t wordpiece_encode(const wordpiece_t *pieces, const char *text, uint64_t size, int32_t *ids,
                         int32_t capacity);

#endif
