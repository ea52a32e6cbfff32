#include "writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void writer_add(writer_t *w, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const size_t more = (size_t)vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (!w->failed && w->size + more + 1 > w->capacity) {
    char *grown = realloc(w->text, w->capacity = 2 * (w->size + more + 1));
    if (grown)
      w->text = grown;
    else
      w->failed = true;
  }
  if (!w->failed) {
    vsnprintf(w->text + w->size, more + 1, format, again);
    w->size += more;
  }
  va_end(again);
}

void writer_quote(writer_t *w, const char *text) {
  writer_add(w, "\"");
  for (; *text; text++) {
    const unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      writer_add(w, "\\%c", c);
    else if (c < ' ')
      writer_add(w, "\\u%04x", c);
    else
      writer_add(w, "%c", c);
  }
  writer_add(w, "\"");
}
