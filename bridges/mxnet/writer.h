/* A text that grows as it is written. It holds graphs in the JSON form that MXNet's libraries
 * read. */
#ifndef BRIDGES_MXNET_WRITER_H
#define BRIDGES_MXNET_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <tenon/op.h>

typedef struct writer_t { /* must be zeroed before use; the caller frees `text` */
  char *text;
  size_t size;
  size_t capacity;
  bool failed; /* memory ran out */
} writer_t;

void writer_add(writer_t *writer, const char *format, ...) TENON_FORMAT(2, 3);
/* Writes a JSON string with its quotes. Libraries do not decode escapes, so only characters that
 * JSON requires to be escaped are. */
void writer_quote(writer_t *writer, const char *text);

#endif
