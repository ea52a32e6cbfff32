/* Reads and writes messages. Every read and write goes through tn_wire_take, which checks the
 * bounds. */
#include "isolation/wire.h"

#include <string.h>

void *tn_wire_take(tn_wire_t *wire, uint64_t size) {
  uint64_t left = wire->size - wire->at;
  if (wire->failed || size > left || (size + 7) / 8 * 8 > left) {
    wire->failed = true;
    return NULL;
  }
  void *bytes = wire->data + wire->at;
  wire->at += (size + 7) / 8 * 8;
  return bytes;
}

void tn_put(tn_wire_t *wire, uint64_t number) {
  void *bytes = tn_wire_take(wire, sizeof number);
  if (bytes) memcpy(bytes, &number, sizeof number);
}

void tn_put_bytes(tn_wire_t *wire, const void *data, uint64_t size) {
  tn_put(wire, size);
  void *bytes = tn_wire_take(wire, size);
  if (bytes && size) memcpy(bytes, data, size);
}

void tn_put_text(tn_wire_t *wire, const char *text) {
  tn_put_bytes(wire, text, text ? strlen(text) + 1 : 0);
}

void tn_put_numbers(tn_wire_t *wire, const void *data, uint64_t count) {
  void *bytes = count <= UINT64_MAX / 16 ? tn_wire_take(wire, count * 8) : NULL;
  if (bytes && count) memcpy(bytes, data, count * 8);
  wire->failed |= !bytes;
}

uint64_t tn_get(tn_wire_t *wire) {
  uint64_t number = 0;
  const void *bytes = tn_wire_take(wire, sizeof number);
  if (bytes) memcpy(&number, bytes, sizeof number);
  return number;
}

int64_t tn_get_between(tn_wire_t *wire, int64_t least, int64_t most) {
  int64_t number = (int64_t)tn_get(wire);
  if (number >= least && number <= most) return number;
  wire->failed = true;
  return least;
}

const void *tn_get_bytes(tn_wire_t *wire, uint64_t *out_size) {
  *out_size = tn_get(wire);
  const void *bytes = tn_wire_take(wire, *out_size);
  if (!bytes) *out_size = 0;
  return bytes;
}

const char *tn_get_text(tn_wire_t *wire) {
  uint64_t size;
  const char *text = tn_get_bytes(wire, &size);
  if (!text || !size) return NULL;
  if (!text[size - 1]) return text;
  wire->failed = true;
  return NULL;
}

const char *tn_get_message(tn_wire_t *wire) {
  const uint64_t begin = wire->at;
  const char *text = tn_get_text(wire);
  if (!text) return NULL;
  char *c = (char *)wire->data + begin + sizeof(uint64_t);
  for (; *c; c++)
    if (((unsigned char)*c < ' ' && *c != '\n' && *c != '\t') || *c == 127) *c = '?';
  return text;
}

const void *tn_get_numbers(tn_wire_t *wire, uint64_t count) {
  const void *bytes = count <= UINT64_MAX / 16 ? tn_wire_take(wire, count * 8) : NULL;
  wire->failed |= !bytes;
  return bytes;
}
