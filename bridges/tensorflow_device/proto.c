/* The wire format of Protocol Buffers, as far as kernels need it. */
#include "proto.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *out) {
  *out = 0;
  for (int32_t shift = 0; *at < end && shift < 64; shift += 7) {
    const uint8_t byte = *(*at)++;
    *out |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

/* Reads the size of the value at `at`. */
static bool read_size(const uint8_t **at, const uint8_t *end, uint32_t wire, uint64_t *out) {
  uint64_t value = 0;
  *out = 0;
  if (wire == WIRE_VARINT) return read_varint(at, end, &value);
  if (wire == WIRE_BYTES) return read_varint(at, end, out) && *out <= (uint64_t)(end - *at);
  *out = wire == WIRE_64 ? 8 : 4;
  return (wire == WIRE_64 || wire == WIRE_32) && *out <= (uint64_t)(end - *at);
}

bool proto_find(const void *message, size_t size, uint32_t field, proto_text_t *out) {
  const uint8_t *at = message;
  const uint8_t *end = at + size;
  uint64_t key = 0;
  uint64_t bytes = 0;
  while (at < end && read_varint(&at, end, &key) &&
         read_size(&at, end, (uint32_t)(key & 7), &bytes)) {
    if (key >> 3 == field && (key & 7) == WIRE_BYTES) {
      *out = (proto_text_t){(const char *)at, bytes};
      return true;
    }
    at += bytes;
  }
  return false;
}
