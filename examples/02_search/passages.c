/* passages.c: reads files, cuts them, prints a passage.  Called by search.c. */
#include "passages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 300, MOST = 1000, HEADING = 80, PRINTED = 160, CHUNK = 1 << 16 }; /* bytes */

int passages_read(passages_t *passages, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return 0;
  for (size_t got = 1; got > 0; passages->size += got) {
    char *text = realloc(passages->text, passages->size + CHUNK);
    if (!text) break;
    passages->text = text;
    got = fread(text + passages->size, 1, CHUNK, file);
  }
  int is_read = feof(file) && !ferror(file);
  fclose(file);
  return is_read;
}

/* Where the passage that begins here ends.  A short paragraph at its end is the heading of the next one. */
static const char *cut(const char *begin, const char *last) {
  const char *limit = last - begin > MOST ? begin + MOST : last, *word = limit, *sentence = NULL, *paragraph = begin;
  for (const char *end = begin + 1; end < limit; end++) {
    if (*end != ' ' && *end != '\n') continue;
    word = end;
    if (end[-1] == '\n' && end[0] == '\n') {
      if (end - begin > LEAST) return end - paragraph < HEADING && paragraph - begin > LEAST / 2 ? paragraph : end;
      paragraph = end;
    }
    if (end - begin > LEAST && strchr(".;:?!", end[-1])) sentence = end;
  }
  return limit == last ? last : sentence ? sentence : word;
}

static int by_size(const void *a, const void *b) {
  uint64_t x = ((const tenon_string_t *)a)->size, y = ((const tenon_string_t *)b)->size;
  return (x > y) - (x < y);
}

int passages_cut(passages_t *passages) {
  const char *begin = passages->text, *last = begin + passages->size;
  while (begin < last) {
    if (strchr(" \n\r\t\f", *begin)) {
      begin++;
      continue;
    }
    const char *end = cut(begin, last);
    tenon_string_t *items = realloc(passages->items, (size_t)(passages->count + 1) * sizeof *items);
    if (!items) return 0;
    passages->items = items;
    items[passages->count++] = (tenon_string_t){begin, (uint64_t)(end - begin)};
    begin = end;
  }
  if (passages->count) qsort(passages->items, (size_t)passages->count, sizeof *passages->items, by_size);
  return 1;
}

void passages_free(passages_t *passages) {
  free(passages->text);
  free(passages->items);
  *passages = (passages_t){0};
}

void passage_print(tenon_string_t passage) {
  uint64_t i = 0;
  int is_gap = 0; /* since the last character that was printed; none at the end */
  for (; i < passage.size && (i < PRINTED || (passage.data[i] & 0xC0) == 0x80); i++) { /* whole UTF-8 characters */
    int is_space = passage.data[i] && strchr(" \n\r\t", passage.data[i]);
    if (!is_space && is_gap) putchar(' ');
    if (!is_space) putchar(passage.data[i]);
    is_gap = is_space;
  }
  puts(i < passage.size ? "..." : "");
}
