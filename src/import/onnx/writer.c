/* Writes the protobuf wire format backwards. Called by export.c. Invariant: sizes are checked
 * before memory is allocated. */
#include "import/onnx/writer.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "import/onnx/wire.h"

void tn_writer_clear(tn_writer_t *writer) {
  tn_release_memory(writer->data);
  *writer = (tn_writer_t){0};
}

static bool has_room(tn_writer_t *writer, uint64_t more) {
  if (writer->status != TENON_OK) return false;
  if (more > TN_WRITER_MOST - writer->size) {
    writer->status =
        tn_fail(TENON_RANGE, "the file exceeds 2 GiB, the largest size that protobuf allows");
    return false;
  }
  size_t needed = writer->size + (size_t)more;
  size_t capacity = writer->capacity < 2048 ? 4096 : 2 * writer->capacity;
  if (needed <= writer->capacity) return true;
  if (capacity < needed) capacity = needed;
  unsigned char *data = tn_allocate(capacity);
  if (!data) {
    writer->status = tn_no_memory("a file", capacity);
    return false;
  }
  if (writer->size) memcpy(data + capacity - writer->size, tn_writer_get(writer), writer->size);
  tn_release_memory(writer->data);
  writer->data = data;
  writer->capacity = capacity;
  return true;
}

void tn_write_reserve(tn_writer_t *writer, uint64_t size) { (void)has_room(writer, size); }

static void put_bytes(tn_writer_t *writer, const void *data, uint64_t size) {
  if (!size || !has_room(writer, size)) return;
  writer->size += (size_t)size;
  memcpy(writer->data + (writer->capacity - writer->size), data, (size_t)size);
}

static void put_varint(tn_writer_t *writer, uint64_t value) {
  unsigned char bytes[10];
  size_t count = 0;
  for (; value > 0x7f; value >>= 7)
    bytes[count++] = (unsigned char)(value | 0x80);
  bytes[count++] = (unsigned char)value;
  put_bytes(writer, bytes, count);
}

static void put_tag(tn_writer_t *writer, uint32_t field, uint32_t kind) {
  put_varint(writer, field << 3 | kind);
}

void tn_write_int(tn_writer_t *writer, uint32_t field, int64_t value) {
  put_varint(writer, (uint64_t)value);
  put_tag(writer, field, TN_WIRE_VARINT);
}

void tn_write_float(tn_writer_t *writer, uint32_t field, float value) {
  unsigned char bytes[4];
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  for (int i = 0; i < 4; i++)
    bytes[i] = (unsigned char)(bits >> 8 * i);
  put_bytes(writer, bytes, sizeof bytes);
  put_tag(writer, field, TN_WIRE_32);
}

void tn_write_bytes(tn_writer_t *writer, uint32_t field, const void *data, uint64_t size) {
  put_bytes(writer, data, size);
  put_varint(writer, size);
  put_tag(writer, field, TN_WIRE_BYTES);
}

void tn_write_text(tn_writer_t *writer, uint32_t field, const char *text) {
  tn_write_bytes(writer, field, text, strlen(text));
}

void tn_write_message(tn_writer_t *writer, uint32_t field, size_t before) {
  put_varint(writer, writer->size - before);
  put_tag(writer, field, TN_WIRE_BYTES);
}

void tn_write_padding(tn_writer_t *writer, uint32_t field, uint64_t offset, size_t alignment) {
  static const char spaces[] = "                                                                ";
  /* 2 bytes for the tag and the length */
  size_t over = (size_t)((writer->size + offset + 2) % alignment);
  tn_write_bytes(writer, field, spaces, over ? alignment - over : 0);
}
