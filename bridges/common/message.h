/* Messages of Protocol Buffers, as far as graphs of other systems need them: reading one field
 * after another, and writing. A damaged message ends the reading. Each bridge that needs it
 * compiles message.c in. */
#ifndef BRIDGES_COMMON_MESSAGE_H
#define BRIDGES_COMMON_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bytes_t { /* not terminated by a zero byte */
  const char *data;
  size_t size;
} bytes_t;

typedef struct field_t {
  uint32_t number;
  bool is_bytes;  /* otherwise a number */
  uint64_t value; /* of a number */
  bytes_t bytes;  /* of bytes */
  bytes_t whole;  /* the field with its key, to be copied */
} field_t;

/* Reads the field at the beginning of `rest` and moves on. Returns false at the end. `*is_damaged`
 * is set if the message is not valid. */
bool message_next(bytes_t *rest, field_t *out, bool *is_damaged);

bool bytes_equal(bytes_t bytes, const char *text);
bool bytes_same(bytes_t a, bytes_t b);

/* A message that is written. Memory that is missing is noted, and nothing is written any more. */
typedef struct message_t {
  char *data;
  size_t size;
  size_t capacity;
  bool is_failed;
} message_t;

void message_append(message_t *m, bytes_t bytes);
void message_bytes(message_t *m, uint32_t field, bytes_t bytes);
void message_text(message_t *m, uint32_t field, const char *text);
void message_number(message_t *m, uint32_t field, uint64_t value);
void message_float(message_t *m, uint32_t field, float value);
/* Begins a message inside, of any size; message_close ends it. Returns the position for the latter.
 * Messages inside are written in place, so their length takes five bytes. */
size_t message_open(message_t *m, uint32_t field);
void message_close(message_t *m, size_t position);
void message_free(message_t *m);

#endif
