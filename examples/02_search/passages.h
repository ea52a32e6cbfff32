/* passages.h: plain text in passages of a sensible length, for search.c.  Nothing here knows Tenon but for its strings.
 */
#ifndef PASSAGES_H
#define PASSAGES_H

#include <tenon/tenon.h>

typedef struct passages_t {
  char *text;
  size_t size;
  tenon_string_t *items; /* they point into the text */
  int64_t count;
} passages_t;

/* Appends a file to the text; 0 if it cannot be read, or without memory: errno says why. */
int passages_read(passages_t *passages, const char *path);
/* Cuts the text, once it is complete: paragraphs until they are long enough together, or else as far as a sentence, or
 * a word, goes; the shortest first, so that a batch of neighbours needs little padding.  0 without memory. */
int passages_cut(passages_t *passages);
void passages_free(passages_t *passages);
/* Prints the beginning of a passage on one line. */
void passage_print(tenon_string_t passage);

#endif
