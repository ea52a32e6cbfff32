/* A growing text and a list of texts; see text.h. Invariant: `data` is terminated whenever it is
 * not NULL. */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve_bytes(text_t *text, size_t more) {
  if (text->failed) return false;
  if (more < text->capacity - text->size) return true;
  if (more >= SIZE_MAX / 2 - text->size) return !(text->failed = true);
  size_t capacity = (text->size + more + 1) * 2;
  char *data = realloc(text->data, capacity);
  if (!data) return !(text->failed = true);
  text->data = data;
  text->capacity = capacity;
  text->data[text->size] = 0;
  return true;
}

void text_add(text_t *text, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int size = vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (size >= 0 && reserve_bytes(text, (size_t)size)) {
    vsnprintf(text->data + text->size, (size_t)size + 1, format, arguments);
    text->size += (size_t)size;
  }
  va_end(arguments);
}

void text_bytes(text_t *text, const char *data, size_t size) {
  if (!reserve_bytes(text, size)) return;
  if (size > 0) memcpy(text->data + text->size, data, size);
  text->data[text->size += size] = 0;
}

const char *text_get(const text_t *text) {
  if (text->failed) return "out of memory";
  return text->data ? text->data : "";
}

void text_clear(text_t *text) {
  if (text->data) text->data[0] = 0;
  text->size = 0;
}

void text_free(text_t *text) {
  free(text->data);
  *text = (text_t){NULL, 0, 0, false};
}

bool texts_add(texts_t *list, const char *text) {
  size_t size = strlen(text) + 1;
  if (list->count == list->capacity) {
    if (list->capacity > INT32_MAX / 4) return false;
    int32_t capacity = list->capacity * 2 + 8;
    char **items = realloc(list->items, (size_t)capacity * sizeof *items);
    if (!items) return false;
    list->items = items;
    list->capacity = capacity;
  }
  char *copy = malloc(size);
  if (!copy) return false;
  list->items[list->count++] = memcpy(copy, text, size);
  return true;
}

/* Names that begin with numbers stand in the order of the numbers: 999-x comes before 1000-x. */
static int compare_items(const void *a, const void *b) {
  const char *left = *(char *const *)a;
  const char *right = *(char *const *)b;
  size_t left_digits = strspn(left, "0123456789");
  size_t right_digits = strspn(right, "0123456789");
  if (left_digits && right_digits && left_digits != right_digits)
    return left_digits < right_digits ? -1 : 1;
  return strcmp(left, right);
}

void texts_sort(texts_t *list) {
  if (list->count > 1) qsort(list->items, (size_t)list->count, sizeof *list->items, compare_items);
}

void texts_free(texts_t *list) {
  for (int32_t i = 0; i < list->count; i++)
    free(list->items[i]);
  free(list->items);
  *list = (texts_t){NULL, 0, 0};
}

bool texts_has(const texts_t *list, const char *text) {
  for (int32_t i = 0; i < list->count; i++)
    if (strcmp(list->items[i], text) == 0) return true;
  return false;
}

const char *text_file_name(const char *path) {
  const char *separator = strrchr(path, '/');
  return separator ? separator + 1 : path;
}

bool text_ends_with(const char *text, const char *end) {
  size_t size = strlen(text);
  size_t end_size = strlen(end);
  return size >= end_size && memcmp(text + size - end_size, end, end_size) == 0;
}

bool text_matches(const char *text, const char *pattern) {
  /* Position of the last `*`, and where in the text its match ends. */
  const char *star = NULL;
  const char *retry = NULL;
  while (*text) {
    if (*pattern == '*') {
      star = pattern++;
      retry = text;
    } else if (*pattern == '?' || *pattern == *text) {
      pattern++;
      text++;
    } else if (star) {
      pattern = star + 1;
      text = ++retry;
    } else {
      return false;
    }
  }
  while (*pattern == '*')
    pattern++;
  return *pattern == 0;
}

enum { NAME_LIMIT = 64 };

/* Number of edits (insert, delete, replace, swap of neighbours) from `a` to `b`: optimal string
 * alignment distance. */
static size_t edit_distance(const char *a, const char *b) {
  size_t rows[3][NAME_LIMIT + 1];
  size_t a_size = strlen(a);
  size_t b_size = strlen(b);
  if (a_size > NAME_LIMIT || b_size > NAME_LIMIT) return NAME_LIMIT;
  for (size_t j = 0; j <= b_size; j++)
    rows[0][j] = j;
  for (size_t i = 1; i <= a_size; i++) {
    size_t *row = rows[i % 3];
    size_t *above = rows[(i + 2) % 3];
    size_t *twice = rows[(i + 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= b_size; j++) {
      size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
      if (above[j] + 1 < best) best = above[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && twice[j - 2] + 1 < best)
        best = twice[j - 2] + 1;
      row[j] = best;
    }
  }
  return rows[a_size % 3][b_size];
}

const char *text_nearest(const char *name, const char *const *names, int32_t count) {
  const char *nearest = NULL;
  /* At most a third of the letters plus one may be wrong. */
  size_t size = strlen(name);
  size_t least = size / 3 + 2;
  for (int32_t i = 0; i < count; i++) {
    size_t edits = edit_distance(name, names[i]);
    if (size >= 2 && strncmp(name, names[i], size) == 0) edits = 1; /* `name` is a prefix */
    if (edits < least && edits < size + 1) {
      nearest = names[i];
      least = edits;
    }
  }
  return nearest;
}

size_t text_character(const char *text) {
  const unsigned char *c = (const unsigned char *)text;
  if (*c < 0x80) return 1;
  if (*c < 0xc2 || *c >= 0xf5) return 0;
  size_t size = (size_t)(2 + (*c >= 0xe0) + (*c >= 0xf0));
  for (size_t i = 1; i < size; i++)
    if ((c[i] & 0xc0) != 0x80) return 0;
  if ((*c == 0xe0 && c[1] < 0xa0) || (*c == 0xed && c[1] > 0x9f)) return 0;
  bool is_beyond = (*c == 0xf0 && c[1] < 0x90) || (*c == 0xf4 && c[1] > 0x8f);
  return is_beyond ? 0 : size;
}

void text_add_xml(text_t *out, const char *text) {
  while (*text) {
    size_t size = text_character(text);
    if (*text == '<')
      text_add(out, "&lt;");
    else if (*text == '&')
      text_add(out, "&amp;");
    else if (*text == '"')
      text_add(out, "&quot;");
    else if (size)
      text_bytes(out, (unsigned char)*text < ' ' ? " " : text, size);
    else
      text_add(out, "\xef\xbf\xbd");
    text += size ? size : 1;
  }
}
