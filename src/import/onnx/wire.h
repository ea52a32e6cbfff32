/* Reads the protobuf wire format in place: field after field, without copies. Called by model.c,
 * which knows the messages, and by tensor.c for fields with elements. Invariant: nothing outside
 * [at, end) is read. */
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

/* A part of the file; data NULL: absent. */
typedef struct tn_bytes_t {
  const unsigned char *data;
  size_t size;
} tn_bytes_t;

typedef struct tn_wire_t {
  const unsigned char *begin;
  const unsigned char *at;
  const unsigned char *end; /* `begin` is the beginning of the file, for offsets in messages */
  const char *fault;        /* what is wrong at `at`; NULL: nothing */
} tn_wire_t;

typedef struct tn_field_t {
  uint32_t number;
  uint32_t kind;    /* TN_WIRE_... */
  uint64_t value;   /* VARINT, and the bits of 32 and 64 */
  tn_bytes_t bytes; /* BYTES */
} tn_field_t;

static inline tn_wire_t tn_wire_open(const unsigned char *file, tn_bytes_t message) {
  return (tn_wire_t){file, message.data, message.data + message.size, NULL};
}
/* Reads the next field. False at the end of the message and if it is malformed; tn_wire_status
 * tells which. */
bool tn_wire_next(tn_wire_t *wire, tn_field_t *out_field);
/* Reads one varint, as packed lists have them. False as in tn_wire_next. */
bool tn_wire_varint(tn_wire_t *wire, uint64_t *out_value);
/* TENON_OK, or TENON_INVALID with the offset in the file. */
tenon_status_t tn_wire_status(const tn_wire_t *wire);

#endif
