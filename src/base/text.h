/* A growing string for messages and dumps. A failure to grow is remembered and reported once, by
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
/* Appends `string` as a JSON string with quotes. Bytes that are not valid UTF-8 become U+FFFD. */
void tn_text_json(tn_text_t *text, const char *string);
const char *tn_text_get(const tn_text_t *text); /* "" while empty */
/* Hands the string to the caller, who frees it with tn_release_memory. Returns NULL and sets a
 * message if the string could not grow. */
char *tn_text_take(tn_text_t *text);
void tn_text_clear(tn_text_t *text);

/* The value of a hexadecimal digit; -1: it is none. */
static inline int tn_hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

#endif
