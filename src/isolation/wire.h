/* The encoding of messages between the host and a worker process: numbers of 8 bytes and runs of
 * bytes, in order. Invariant: a reader never looks beyond the end of its message; reading a
 * malformed message gives 0 and sets `failed`. */
#ifndef TN_ISOLATION_WIRE_H
#define TN_ISOLATION_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <tenon/op.h>

typedef struct tn_wire_t {
  unsigned char *data;
  uint64_t size; /* of the buffer, or of the message */
  uint64_t at;
  bool failed; /* the message did not fit, or was malformed */
} tn_wire_t;

static inline tn_wire_t tn_wire(void *data, uint64_t size) {
  return (tn_wire_t){data, size, 0, false};
}

/* Consumes `size` bytes and the padding to a multiple of 8. Returns: their address, or NULL if the
 * message has fewer bytes. */
void *tn_wire_take(tn_wire_t *wire, uint64_t size);
void tn_put(tn_wire_t *wire, uint64_t number);
/* The bytes, preceded by their count. */
void tn_put_bytes(tn_wire_t *wire, const void *data, uint64_t size);
void tn_put_text(tn_wire_t *wire, const char *text); /* NULL differs from "" */
/* `count` numbers of 8 bytes each, without their count. */
void tn_put_numbers(tn_wire_t *wire, const void *data, uint64_t count);
uint64_t tn_get(tn_wire_t *wire);
/* Sets `failed` and returns `least` if the number is outside the range. */
int64_t tn_get_between(tn_wire_t *wire, int64_t least, int64_t most);
const void *tn_get_bytes(tn_wire_t *wire, uint64_t *out_size); /* a pointer into the message */
const char *tn_get_text(tn_wire_t *wire); /* the same, ends with NUL; NULL: none */
/* The same, as part of a message to the program's user: control characters become '?', so that the
 * text cannot act on a terminal. */
const char *tn_get_message(tn_wire_t *wire);
const void *tn_get_numbers(tn_wire_t *wire, uint64_t count);

#endif
