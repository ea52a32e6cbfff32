/* TensorFlow's strings have 24 bytes. The two lowest bits of the first one tell how the rest is
 * laid out; the size is stored above them. Little-endian processors only.
 * Source: the facts in tsl/platform/ctstring_internal.h, written anew. */
#include "text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { KIND_SMALL = 0, KIND_LARGE = 1, KIND_OFFSET = 2, KIND_VIEW = 3, KIND_MASK = 3 };
enum { SMALL_MOST = 22 }; /* bytes of a small string, which end with a zero byte */

typedef struct large_t {
  size_t size;
  size_t capacity;
  char *data; /* from malloc; TensorFlow frees it */
} large_t;

typedef struct view_t {
  size_t size;
  const char *data;
  void *owner;
} view_t;

typedef struct offset_t {
  uint32_t size;
  uint32_t offset; /* of the bytes, from the element */
  uint32_t count;
} offset_t;

_Static_assert(sizeof(large_t) == TEXT_SIZE, "a string has 24 bytes");

tenon_string_t text_read(const void *element) {
  const unsigned char *bytes = element;
  large_t large;
  view_t view;
  offset_t offset;
  switch (*bytes & KIND_MASK) {
  case KIND_LARGE:
    memcpy(&large, element, sizeof large);
    return (tenon_string_t){large.data, large.size >> 2};
  case KIND_VIEW:
    memcpy(&view, element, sizeof view);
    return (tenon_string_t){view.data, view.size >> 2};
  case KIND_OFFSET:
    memcpy(&offset, element, sizeof offset);
    return (tenon_string_t){(const char *)element + offset.offset, offset.size >> 2};
  default:
    return (tenon_string_t){(const char *)element + 1, *bytes >> 2};
  }
}

bool text_write(void *element, const char *data, size_t size) {
  unsigned char *bytes = element;
  if (size <= SMALL_MOST) {
    *bytes = (unsigned char)(size << 2 | KIND_SMALL);
    if (size) memcpy(bytes + 1, data, size);
    bytes[1 + size] = 0;
    return true;
  }
  const size_t capacity = ((size + 1 + 15) & ~(size_t)15) - 1;
  const large_t large = {size << 2 | KIND_LARGE, capacity, malloc(capacity + 1)};
  if (!large.data) return false;
  memcpy(large.data, data, size);
  large.data[size] = 0;
  memcpy(element, &large, sizeof large);
  return true;
}
