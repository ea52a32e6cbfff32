/* A growing text and a list of texts, used wherever the command composes text. A failed allocation
 * is remembered in `failed`, and text_get reports it, so callers need not check each step. */
#ifndef TOOLS_TEXT_H
#define TOOLS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/op.h>

typedef struct text_t {
  char *data; /* terminated; NULL while empty */
  size_t size;
  size_t capacity;
  bool failed;
} text_t;

void text_add(text_t *text, const char *format, ...) TENON_FORMAT(2, 3);
void text_bytes(text_t *text, const char *data, size_t size);
/* Returns "" while empty, and "out of memory" after a failed allocation. */
const char *text_get(const text_t *text);
void text_clear(text_t *text); /* keeps the memory */
void text_free(text_t *text);

typedef struct texts_t { /* owns its items */
  char **items;
  int32_t count;
  int32_t capacity;
} texts_t;

bool texts_add(texts_t *list, const char *text); /* copies the text; false: out of memory */
void texts_sort(texts_t *list);
void texts_free(texts_t *list);
bool texts_has(const texts_t *list, const char *text);

/* The part of a path after its last separator. */
const char *text_file_name(const char *path);
bool text_ends_with(const char *text, const char *end);
/* `*` stands for any run of characters, `?` for one. */
bool text_matches(const char *text, const char *pattern);
/* The nearest of `count` names, or NULL if none is near enough to be a misspelling. */
const char *text_nearest(const char *name, const char *const *names, int32_t count);

/* Bytes of the UTF-8 character at `text`; 0 if it is not valid UTF-8 (RFC 3629). */
size_t text_character(const char *text);
/* Adds `text` as text of an XML element. Control characters become blanks, and bytes that are not
 * valid UTF-8 become U+FFFD. */
void text_add_xml(text_t *out, const char *text);

#endif
