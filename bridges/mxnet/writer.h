/* A text that grows as it is written, used for graphs in the JSON form that MXNet's libraries
 * read. */
#ifndef BRIDGES_MXNET_WRITER_H
#define BRIDGES_MXNET_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <tenon/op.h>

typedef struct writer_t { /* starts as zeros; `text` is the caller's to free */
  char *text;
  size_t size;
  size_t capacity;
  bool failed; /* no memory */
} writer_t;

void writer_add(writer_t *writer, const char *format, ...) TENON_FORMAT(2, 3);
/* A string of JSON with its quotes.  Libraries keep escapes as they stand, so there are none but
 * where JSON needs them. */
void writer_quote(writer_t *writer, const char *text);

#endif
