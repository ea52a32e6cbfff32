/* A growing string. Every layer uses it to build messages, dumps and reports. */
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

static bool reserve_text(tn_text_t *text, size_t more) {
  if (text->failed || more > SIZE_MAX / 4 - text->size) {
    text->failed = true;
    return false;
  }
  size_t need = text->size + more + 1;
  size_t capacity = text->capacity ? text->capacity : 64;
  if (need <= text->capacity) return true;
  while (capacity < need)
    capacity *= 2;
  char *data = tn_reallocate(text->data, capacity);
  if (!data) {
    text->failed = true;
    return false;
  }
  text->data = data;
  text->capacity = capacity;
  return true;
}

void tn_text_bytes(tn_text_t *text, const char *data, size_t size) {
  if (!reserve_text(text, size)) return;
  if (size) memcpy(text->data + text->size, data, size);
  text->size += size;
  text->data[text->size] = 0;
}

void tn_text_list(tn_text_t *text, const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int need = vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (need < 0 || !reserve_text(text, (size_t)need)) return;
  vsnprintf(text->data + text->size, (size_t)need + 1, format, arguments);
  text->size += (size_t)need;
}

void tn_text_add(tn_text_t *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  tn_text_list(text, format, arguments);
  va_end(arguments);
}

/* Bytes of the UTF-8 character at `c`; 0 if it is not valid UTF-8 (RFC 3629). */
static int utf8_size(const unsigned char *c) {
  if (*c < 0x80) return 1;
  if (*c < 0xc2 || *c >= 0xf5) return 0;
  int size = 2 + (*c >= 0xe0) + (*c >= 0xf0);
  for (int i = 1; i < size; i++)
    if ((c[i] & 0xc0) != 0x80) return 0;
  if ((*c == 0xe0 && c[1] < 0xa0) || (*c == 0xed && c[1] > 0x9f)) return 0;
  return (*c == 0xf0 && c[1] < 0x90) || (*c == 0xf4 && c[1] > 0x8f) ? 0 : size;
}

void tn_text_json(tn_text_t *text, const char *string) {
  tn_text_bytes(text, "\"", 1);
  for (const unsigned char *c = (const unsigned char *)string; *c;) {
    int size = utf8_size(c);
    if (*c == '"' || *c == '\\')
      tn_text_add(text, "\\%c", *c);
    else if (*c < 0x20)
      tn_text_add(text, "\\u%04x", *c);
    else if (size)
      tn_text_bytes(text, (const char *)c, (size_t)size);
    else
      tn_text_add(text, "\\ufffd");
    c += size ? size : 1;
  }
  tn_text_bytes(text, "\"", 1);
}

const char *tn_text_get(const tn_text_t *text) { return text->data ? text->data : ""; }

char *tn_text_take(tn_text_t *text) {
  tn_text_bytes(text, "", 0);
  char *data = text->data;
  if (text->failed) {
    tn_release_memory(data);
    data = NULL;
    (void)tn_no_memory("a text", text->size);
  }
  *text = (tn_text_t){0};
  return data;
}

void tn_text_clear(tn_text_t *text) {
  tn_release_memory(text->data);
  *text = (tn_text_t){0};
}
