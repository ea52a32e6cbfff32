/* A growing text, for messages and dumps.  Failure to grow is remembered and reported once, by
 * tn_text_take. */
#ifndef TN_BASE_TEXT_H
#define TN_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <tenon/op.h>

typedef struct tn_text_t {
  char *data; /* terminated; NULL while empty */
  size_t size;
  size_t capacity;
  bool failed;
} tn_text_t;

void tn_text_add(tn_text_t *text, const char *format, ...) TENON_FORMAT(2, 3);
void tn_text_list(tn_text_t *text, const char *format, va_list arguments);
void tn_text_bytes(tn_text_t *text, const char *data, size_t size);
/* Adds a string of JSON, with its quotes; what is no UTF-8 becomes U+FFFD. */
void tn_text_json(tn_text_t *text, const char *string);
const char *tn_text_get(const tn_text_t *text); /* "" while empty */
/* Gives the text to the caller, who frees it by tn_release_memory; NULL (and a message) when it
 * could not grow. */
char *tn_text_take(tn_text_t *text);
void tn_text_clear(tn_text_t *text);

#endif
