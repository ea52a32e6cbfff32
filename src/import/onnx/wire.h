/* The protobuf wire format, read in place: fields one after another, no copies.  Called by model.c,
 * which knows the messages, and by tensor.c for element fields.  Invariant: nothing outside [at,
 * end) is ever read. */
#ifndef TN_ONNX_WIRE_H
#define TN_ONNX_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <tenon/op.h>

enum {
  TN_WIRE_VARINT = 0,
  TN_WIRE_64 = 1,
  TN_WIRE_BYTES = 2,
  TN_WIRE_32 = 5,
};

typedef struct tn_bytes_t { /* part of the file; data NULL: absent */
  const unsigned char *data;
  size_t size;
} tn_bytes_t;

typedef struct tn_wire_t {
  const unsigned char *begin;
  const unsigned char *at;
  const unsigned char *end; /* begin: of the file, for messages */
  const char *fault;        /* what was wrong at `at`, NULL: nothing */
} tn_wire_t;

typedef struct tn_field_t {
  uint32_t number;
  uint32_t kind;    /* TN_WIRE_... */
  uint64_t value;   /* VARINT; the bits of 32 and 64 */
  tn_bytes_t bytes; /* BYTES */
} tn_field_t;

static inline tn_wire_t tn_wire_open(const unsigned char *file, tn_bytes_t message) {
  return (tn_wire_t){file, message.data, message.data + message.size, NULL};
}
/* The next field; false at the end and at a fault, which tn_wire_status tells apart. */
bool tn_wire_next(tn_wire_t *wire, tn_field_t *out_field);
/* One varint, as packed lists have them; false like tn_wire_next. */
bool tn_wire_varint(tn_wire_t *wire, uint64_t *out_value);
/* OK, or INVALID with the offset in the file. */
tenon_status_t tn_wire_status(const tn_wire_t *wire);

#endif
