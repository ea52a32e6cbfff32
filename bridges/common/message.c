/* Reads and writes messages of Protocol Buffers; see message.h. */
#include "common/message.h"

#include <stdlib.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_message_varint(bytes_t *rest, uint64_t *out) {
  *out = 0;
  for (int32_t shift = 0; rest->size > 0 && shift < 64; shift += 7) {
    const uint8_t byte = (uint8_t)*rest->data;
    rest->data++;
    rest->size--;
    *out |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

static bool skip_message_bytes(bytes_t *rest, uint64_t size) {
  if (size > rest->size) return false;
  rest->data += size;
  rest->size -= size;
  return true;
}

static bool read_field_value(bytes_t *rest, uint32_t wire, field_t *out) {
  uint64_t size = 0;
  switch (wire) {
  case WIRE_VARINT:
    return read_message_varint(rest, &out->value);
  case WIRE_64:
    return skip_message_bytes(rest, 8);
  case WIRE_32:
    return skip_message_bytes(rest, 4);
  case WIRE_BYTES:
    if (!read_message_varint(rest, &size)) return false;
    out->is_bytes = true;
    out->bytes = (bytes_t){rest->data, size};
    return skip_message_bytes(rest, size);
  default:
    return false;
  }
}

bool message_next(bytes_t *rest, field_t *out, bool *is_damaged) {
  const bytes_t before = *rest;
  uint64_t key = 0;
  if (rest->size == 0) return false;
  *out = (field_t){.number = 0};
  if (!read_message_varint(rest, &key) || !read_field_value(rest, (uint32_t)(key & 7), out)) {
    *is_damaged = true;
    return false;
  }
  out->number = (uint32_t)(key >> 3);
  out->whole = (bytes_t){before.data, before.size - rest->size};
  return true;
}

bool bytes_equal(bytes_t bytes, const char *text) {
  return bytes.size == strlen(text) && !memcmp(bytes.data, text, bytes.size);
}

bool bytes_same(bytes_t a, bytes_t b) {
  return a.size == b.size && !memcmp(a.data, b.data, a.size);
}

/* ---- writing --------------------------------------------------------------------------------- */

void message_append(message_t *m, bytes_t bytes) {
  if (m->is_failed || bytes.size == 0) return;
  if (bytes.size > m->capacity - m->size) {
    const size_t capacity = 2 * m->capacity + bytes.size + 256;
    char *data = realloc(m->data, capacity);
    m->is_failed = !data;
    if (!data) return;
    m->data = data;
    m->capacity = capacity;
  }
  memcpy(m->data + m->size, bytes.data, bytes.size);
  m->size += bytes.size;
}

static void append_message_varint(message_t *m, uint64_t value) {
  char bytes[10];
  size_t size = 0;
  for (; value >= 0x80; value >>= 7)
    bytes[size++] = (char)(value | 0x80);
  bytes[size++] = (char)value;
  message_append(m, (bytes_t){bytes, size});
}

void message_number(message_t *m, uint32_t field, uint64_t value) {
  append_message_varint(m, (uint64_t)field << 3 | WIRE_VARINT);
  append_message_varint(m, value);
}

void message_bytes(message_t *m, uint32_t field, bytes_t bytes) {
  append_message_varint(m, (uint64_t)field << 3 | WIRE_BYTES);
  append_message_varint(m, bytes.size);
  message_append(m, bytes);
}

void message_text(message_t *m, uint32_t field, const char *text) {
  message_bytes(m, field, (bytes_t){text, strlen(text)});
}

void message_float(message_t *m, uint32_t field, float value) {
  append_message_varint(m, (uint64_t)field << 3 | WIRE_32);
  message_append(m, (bytes_t){(const char *)&value, sizeof value});
}

enum { LENGTH_BYTES = 5 }; /* of a message inside */

size_t message_open(message_t *m, uint32_t field) {
  static const char room[LENGTH_BYTES];
  append_message_varint(m, (uint64_t)field << 3 | WIRE_BYTES);
  message_append(m, (bytes_t){room, sizeof room});
  return m->size;
}

void message_close(message_t *m, size_t position) {
  if (m->is_failed) return;
  uint64_t size = m->size - position;
  for (size_t i = 0; i < LENGTH_BYTES; i++, size >>= 7)
    m->data[position - LENGTH_BYTES + i] =
        (char)((size & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
  m->is_failed = size != 0; /* more than 32 GiB */
}

void message_free(message_t *m) { free(m->data); }
