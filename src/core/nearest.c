/* Finds the known word nearest to an unknown one, for suggestions in messages. Called by the
 * parsers and by the look-up of operators. */
#include "core/nearest.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static char lower_case(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

size_t tn_edits(const char *a, size_t n, const char *b, size_t m) {
  size_t rows[3][TN_NEAREST_MOST + 1];
  size_t *before = rows[0];
  size_t *last = rows[1];
  size_t *now = rows[2];
  if (n > TN_NEAREST_MOST || m > TN_NEAREST_MOST) return SIZE_MAX;
  for (size_t j = 0; j <= m; j++) {
    last[j] = j;
    before[j] = j;
  }
  for (size_t i = 1; i <= n; i++) {
    now[0] = i;
    for (size_t j = 1; j <= m; j++) {
      size_t least = last[j - 1] + (lower_case(a[i - 1]) != lower_case(b[j - 1]));
      if (last[j] + 1 < least) least = last[j] + 1;
      if (now[j - 1] + 1 < least) least = now[j - 1] + 1;
      bool is_swap = i > 1 && j > 1 && lower_case(a[i - 1]) == lower_case(b[j - 2]) &&
                     lower_case(a[i - 2]) == lower_case(b[j - 1]);
      if (is_swap && before[j - 2] + 1 < least) least = before[j - 2] + 1;
      now[j] = least;
    }
    size_t *free_row = before;
    before = last;
    last = now;
    now = free_row;
  }
  return last[m];
}

void tn_nearest_begin(tn_nearest_t *nearest, const char *word, size_t size) {
  nearest->word = word;
  nearest->size = size;
  nearest->best = NULL;
  nearest->distance = SIZE_MAX;
}

void tn_nearest_offer(tn_nearest_t *nearest, const char *candidate) {
  size_t size = strlen(candidate);
  size_t longer = size > nearest->size ? size : nearest->size;
  size_t distance = tn_edits(nearest->word, nearest->size, candidate, size);
  if (distance < nearest->distance && distance <= longer / 3) {
    nearest->distance = distance;
    nearest->best = candidate;
  }
}

const char *tn_nearest_say(tn_nearest_t *nearest) {
  if (!nearest->best) return "";
  snprintf(nearest->text, sizeof nearest->text, "; did you mean '%s'?", nearest->best);
  return nearest->text;
}
