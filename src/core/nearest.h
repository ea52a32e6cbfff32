/* Suggestions for misspelled words: the known word nearest to an unknown one. */
#ifndef TN_CORE_NEAREST_H
#define TN_CORE_NEAREST_H

#include <stddef.h>

enum { TN_NEAREST_MOST = 64 }; /* longest word that is compared, in bytes */

/* Edit distance, ignoring case: insertions, deletions, replacements and swaps of neighbours.
 * Returns SIZE_MAX for words longer than TN_NEAREST_MOST. */
size_t tn_edits(const char *a, size_t a_size, const char *b, size_t b_size);

/* Call tn_nearest_offer for each candidate; then tn_nearest_say returns "; did you mean 'axis'?" or
 * "". */
typedef struct tn_nearest_t {
  const char *word;
  const char *best;
  size_t size;
  size_t distance;
  char text[TN_NEAREST_MOST + 24];
} tn_nearest_t;
void tn_nearest_begin(tn_nearest_t *nearest, const char *word, size_t size);
void tn_nearest_offer(tn_nearest_t *nearest, const char *candidate);
const char *tn_nearest_say(tn_nearest_t *nearest);

#endif
