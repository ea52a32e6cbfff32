/* Writes the protobuf wire format from the end of a file to its beginning. The length of a message
 * is then known before its header is written, so that bytes are copied only once. A message is
 * written last field first. */
#ifndef TN_ONNX_WRITER_H
#define TN_ONNX_WRITER_H

#include <stddef.h>
#include <tenon/op.h>

typedef struct tn_writer_t {
  unsigned char *data; /* the last `size` of `capacity` bytes are written */
  size_t capacity;
  size_t size;
  tenon_status_t status; /* the first failure; nothing is written after it */
} tn_writer_t;

#define TN_WRITER_MOST ((size_t)INT32_MAX) /* bytes; protobuf does not allow longer messages */

void tn_writer_clear(tn_writer_t *writer);
static inline const unsigned char *tn_writer_get(const tn_writer_t *writer) { /* `size` bytes */
  return writer->data + (writer->capacity - writer->size);
}
/* reserves memory for `size` more bytes */
void tn_write_reserve(tn_writer_t *writer, uint64_t size);
void tn_write_int(tn_writer_t *writer, uint32_t field, int64_t value);
void tn_write_float(tn_writer_t *writer, uint32_t field, float value);
void tn_write_bytes(tn_writer_t *writer, uint32_t field, const void *data, uint64_t size);
void tn_write_text(tn_writer_t *writer, uint32_t field, const char *text);
/* Turns everything that was written since the size was `before` into a message, as `field` of the
 * message around it. */
void tn_write_message(tn_writer_t *writer, uint32_t field, size_t before);
/* Writes a field of spaces, so that the size afterwards is `offset` bytes less than a multiple of
 * `alignment` (at most 64). */
void tn_write_padding(tn_writer_t *writer, uint32_t field, uint64_t offset, size_t alignment);

#endif
