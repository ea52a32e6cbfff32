/* The known word that is nearest to one that is not. */
#ifndef TN_CORE_NEAREST_H
#define TN_CORE_NEAREST_H

#include <stddef.h>

enum { TN_NEAREST_MOST = 64 }; /* letters of words that are compared */

/* Insertions, deletions, replacements and exchanges of neighbours that make one word of another,
 * regardless of case; SIZE_MAX for words of more letters. */
size_t tn_edits(const char *a, size_t a_size, const char *b, size_t b_size);

/* Offer the candidates, then ask for "; did you mean 'axis'?" or "". */
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
