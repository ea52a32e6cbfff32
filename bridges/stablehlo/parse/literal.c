/* The elements of constants: dense<1.0>, dense<[[1, 2], [3, 4]]>, dense<"0x...">, and
 * dense_resource<name>, whose bytes are at the end of the file. Called by attribute.c. Invariant: a
 * tensor is created only if the text has at least one character for each of its elements, so a
 * short text cannot ask for much memory; equal elements are kept once. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "parse/parse.h"

enum { WORD_MAX = 64 }; /* Characters of a number. */

/* single elements */

static void store_integer(char *to, uint32_t bits, uint64_t value) {
  uint8_t narrow = (uint8_t)value;
  uint16_t half = (uint16_t)value;
  uint32_t single = (uint32_t)value;
  if (bits <= 8) memcpy(to, &narrow, 1);
  if (bits == 16) memcpy(to, &half, 2);
  if (bits == 32) memcpy(to, &single, 4);
  if (bits == 64) memcpy(to, &value, 8);
}

static bool store_float(char *to, tenon_dtype_t dtype, double value) {
  float single = (float)value;
  uint16_t narrow;
  if (tenon_dtype_id(dtype) == TENON_F32) {
    memcpy(to, &single, sizeof single);
  } else if (tenon_dtype_id(dtype) == TENON_F64) {
    memcpy(to, &value, sizeof value);
  } else if (hlo_narrow_float(dtype, value, &narrow)) {
    store_integer(to, dtype.bits, narrow);
  } else {
    return false;
  }
  return true;
}

/* Reads one number of a dtype that is not complex. */
static void parse_scalar(hlo_cursor_t *cursor, tenon_dtype_t dtype, char *to) {
  char word[WORD_MAX + 1];
  char *stop = word;
  size_t size = 0;
  (void)hlo_peek(cursor);
  const char *at = cursor->at;
  while (size < WORD_MAX &&
         (isalnum((unsigned char)at[size]) || strchr("+-.", at[size] ? at[size] : ' ')))
    size++;
  memcpy(word, at, size);
  word[size] = 0;
  bool is_hex = strncmp(word, "0x", 2) == 0 || strncmp(word, "0X", 2) == 0;
  bool is_float = dtype.code == 2 || dtype.code == 4 || (dtype.code >= 7 && dtype.code <= 14);
  bool is_stored = true;
  if (dtype.code == 6 && (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)) {
    *to = word[0] == 't';
    stop = word + size;
  } else if (is_hex) {
    store_integer(to, dtype.bits, strtoull(word, &stop, 16));
  } else if (is_float) {
    is_stored = store_float(to, dtype, strtod(word, &stop));
  } else if (dtype.code == 0) {
    store_integer(to, dtype.bits, (uint64_t)strtoll(word, &stop, 10));
  } else if (dtype.code == 1 || dtype.code == 6) {
    store_integer(to, dtype.bits, strtoull(word, &stop, 10));
  } else {
    is_stored = false;
  }
  if (!is_stored)
    hlo_fail_at(cursor, at,
                "constants of this element type are supported in hexadecimal only, found '%s'",
                word);
  if (!size || *stop) hlo_expected(cursor, "a number");
  if (!hlo_failed(cursor)) cursor->at += size;
}

static void parse_element(hlo_cursor_t *cursor, tenon_dtype_t dtype, char *to) {
  if (dtype.code != 5) {
    parse_scalar(cursor, dtype, to);
    return;
  }
  tenon_dtype_t part = tenon_dtype(dtype.bits == 128 ? TENON_F64 : TENON_F32);
  (void)hlo_expect(cursor, "(");
  parse_scalar(cursor, part, to);
  (void)hlo_expect(cursor, ",");
  parse_scalar(cursor, part, to + dtype.bits / 16);
  (void)hlo_expect(cursor, ")");
}

/* tensors */

static tenon_tensor_t *take_tensor(hlo_cursor_t *cursor, tenon_dtype_t dtype, int32_t ndim,
                                   const int64_t *dims) {
  tenon_tensor_t *tensor = NULL;
  if (hlo_failed(cursor)) return NULL;
  cursor->status = hlo_module_tensor(cursor->module, cursor->arena, dtype, ndim, dims, &tensor);
  return tensor;
}

static size_t element_size(tenon_dtype_t dtype) { return (size_t)dtype.bits / 8; }

static int64_t element_count(const hlo_type_t *type) {
  int64_t count = 1;
  for (int32_t i = 0; i < type->ndim; i++)
    count *= type->dims[i];
  return count;
}

/* Reads nested lists whose lengths are the extents of the type. */
static char *parse_nested(hlo_cursor_t *cursor, const hlo_type_t *type, int32_t axis, char *to) {
  if (axis == type->ndim) {
    parse_element(cursor, type->dtype, to);
    return to + element_size(type->dtype);
  }
  (void)hlo_expect(cursor, "[");
  for (int64_t i = 0; i < type->dims[axis] && !hlo_failed(cursor); i++) {
    if (i && !hlo_expect(cursor, ",")) break;
    to = parse_nested(cursor, type, axis + 1, to);
  }
  (void)hlo_expect(cursor, "]");
  return to;
}

static int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads hexadecimal digits, two for each byte, up to the closing quote. Returns false if there are
 * others or not `size` bytes. */
static bool decode_bytes(const char *digits, const char *end, char *out, size_t size) {
  if ((size_t)(end - digits) < 2 * size + 1) return false;
  for (size_t i = 0; i < size; i++) {
    int high = digit_of(digits[2 * i]);
    int low = digit_of(digits[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = (char)(high * 16 + low);
  }
  return digits[2 * size] == '"';
}

/* Reads "0x..." : all elements, or one that all equal. `skipped`: bytes before the elements. */
static void parse_bytes(hlo_cursor_t *cursor, const hlo_type_t *type, size_t skipped,
                        hlo_attr_t *attr) {
  const char *digits = cursor->at + 3;
  size_t size = element_size(type->dtype);
  size_t left = (size_t)(cursor->end - cursor->at);
  if (left < 4 || memcmp(cursor->at, "\"0x", 3) != 0) {
    hlo_expected(cursor, "a string \"0x...\" with the elements");
    return;
  }
  int64_t count = element_count(type);
  char first[16];
  attr->is_splat = type->ndim > 0 && !skipped && decode_bytes(digits, cursor->end, first, size);
  if (!attr->is_splat && (uint64_t)count > left / 2 / size) {
    hlo_fail_at(cursor, cursor->at, "a constant has fewer elements than its type states");
    return;
  }
  attr->tensor = attr->is_splat ? take_tensor(cursor, type->dtype, 0, NULL)
                                : take_tensor(cursor, type->dtype, type->ndim, type->dims);
  if (!attr->tensor) return;
  if (attr->is_splat) count = 1;
  if (!decode_bytes(digits + 2 * skipped, cursor->end, attr->tensor->data, (size_t)count * size))
    hlo_fail_at(cursor, cursor->at,
                "the bytes of a constant do not match its type: the file is damaged");
}

/* Reads bools in hexadecimal. Older versions of MLIR write one bit for each element, newer ones one
 * byte. */
static void parse_bits(hlo_cursor_t *cursor, const hlo_type_t *type, hlo_attr_t *attr) {
  const char *digits = cursor->at + 3;
  int64_t count = element_count(type);
  size_t left = (size_t)(cursor->end - cursor->at);
  size_t size = (size_t)(count + 7) / 8;
  char one[1];
  if (left < 4 || memcmp(cursor->at, "\"0x", 3) != 0 || (uint64_t)count / 16 > left) {
    hlo_expected(cursor, "a string \"0x...\" with the elements");
    return;
  }
  char *bits = hlo_take(cursor, size + 1, 1);
  attr->is_splat = count > 8 && decode_bytes(digits, cursor->end, one, 1);
  attr->tensor = attr->is_splat ? take_tensor(cursor, type->dtype, 0, NULL)
                                : take_tensor(cursor, type->dtype, type->ndim, type->dims);
  if (!bits || !attr->tensor) return;
  char *elements = attr->tensor->data;
  if (attr->is_splat) {
    *elements = one[0] != 0;
  } else if (decode_bytes(digits, cursor->end, bits, size)) {
    for (int64_t i = 0; i < count; i++)
      elements[i] = bits[i / 8] >> (i % 8) & 1;
  } else if (decode_bytes(digits, cursor->end, elements, (size_t)count)) {
    for (int64_t i = 0; i < count; i++)
      elements[i] = elements[i] != 0;
  } else {
    hlo_fail_at(cursor, cursor->at,
                "the bytes of a constant do not match its type: the file is damaged");
  }
}

/* Reads the elements of dense<...> from the text after the bracket. */
static void parse_elements(hlo_cursor_t *cursor, const hlo_type_t *type, hlo_attr_t *attr) {
  char c = hlo_peek(cursor);
  int64_t count = element_count(type);
  if (c == '"') {
    if (type->dtype.code == 6)
      parse_bits(cursor, type, attr);
    else
      parse_bytes(cursor, type, 0, attr);
    return;
  }
  if (c == '>' && count != 0) hlo_expected(cursor, "the elements of the constant");
  attr->is_splat = c != '[' && c != '>' && type->ndim > 0;
  if (!attr->is_splat && count > cursor->end - cursor->at)
    hlo_fail_at(cursor, cursor->at, "a constant has fewer elements than its type states");
  attr->tensor = attr->is_splat ? take_tensor(cursor, type->dtype, 0, NULL)
                                : take_tensor(cursor, type->dtype, type->ndim, type->dims);
  if (!attr->tensor || c == '>') return;
  (void)parse_nested(cursor, type, attr->is_splat ? type->ndim : 0, attr->tensor->data);
  (void)hlo_expect(cursor, ">");
}

/* Finds `name: "0x...` in the section of resources at the end of the file. */
static const char *find_resource(const hlo_cursor_t *cursor, const char *name) {
  size_t size = strlen(name);
  for (const char *p = cursor->resources; p && (p = strstr(p, name)); p += size) {
    const char *value = p + size;
    if (isalnum((unsigned char)p[-1]) || p[-1] == '_') continue;
    if (*value == '"') value++;
    value += strspn(value, " \n\t");
    if (*value++ != ':') continue;
    value += strspn(value, " \n\t");
    if (strncmp(value, "\"0x", 3) == 0) return value;
  }
  return NULL;
}

/* Reads the bytes of a resource, which begin with their alignment as 32 bits. */
static void parse_resource(hlo_cursor_t *cursor, const char *name, hlo_attr_t *attr) {
  const char *at = cursor->at;
  const char *found = *name ? find_resource(cursor, name) : NULL;
  if (!found) {
    hlo_fail_at(cursor, at,
                "the resource '%.80s' is not in the file: the end of the file is missing", name);
    return;
  }
  cursor->at = found;
  parse_bytes(cursor, attr->type, 4, attr);
  cursor->at = at;
}

void hlo_parse_dense(hlo_cursor_t *cursor, hlo_attr_t *attr) {
  const char *at = cursor->at;
  const char *word = hlo_word(cursor, "dense");
  attr->kind = HLO_ATTR_TENSOR;
  attr->at = at;
  if (hlo_peek(cursor) != '<') {
    hlo_expected(cursor, "'<' after %s", word);
    return;
  }
  const char *begin = cursor->at + 1;
  hlo_skip_bracket(cursor);
  (void)hlo_expect(cursor, ":");
  attr->type = hlo_parse_type(cursor);
  if (!hlo_failed(cursor) && !hlo_type_is_static(attr->type))
    hlo_fail_at(cursor, at, "a constant has a type without fixed extents: the file is damaged");
  if (hlo_failed(cursor)) return;
  const char *after = cursor->at;
  cursor->at = begin;
  if (strcmp(word, "dense_resource") == 0)
    parse_resource(cursor, hlo_word(cursor, "the name of a resource"), attr);
  else
    parse_elements(cursor, attr->type, attr);
  if (!hlo_failed(cursor) && !hlo_narrow_integers(attr->type, attr->tensor))
    hlo_fail_at(cursor, at,
                "a constant has an element that needs more than the %d bits of its type",
                (int)attr->type->bits);
  if (!hlo_failed(cursor)) cursor->at = after;
}
