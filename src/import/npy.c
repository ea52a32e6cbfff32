/* Reads and writes .npy files: magic bytes, version, a Python dictionary as text ('descr',
 * 'fortran_order', 'shape'), then the elements. Strings are NumPy's fixed-width unicode (four bytes
 * a character) in the file, and UTF-8 in tensors. Invariant: sizes from the header are compared
 * with the size of the file before anything is allocated. */
#include "import/npy.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "core/dtype.h"
#include "core/sparse.h"

#define MAGIC "\x93NUMPY"
enum {
  MAGIC_SIZE = 6,
  ALIGNMENT = 64,
};

/* Dtypes by NumPy's kind and size. The first match counts, in reading and in writing. */
static const struct {
  char kind;
  uint8_t size;
  uint32_t dtype;
} types[] = {
    {'b', 1, TENON_BOOL}, {'i', 1, TENON_I8},    {'i', 2, TENON_I16}, {'i', 4, TENON_I32},
    {'i', 8, TENON_I64},  {'u', 1, TENON_U8},    {'u', 2, TENON_U16}, {'u', 4, TENON_U32},
    {'u', 8, TENON_U64},  {'f', 2, TENON_F16},   {'f', 4, TENON_F32}, {'f', 8, TENON_F64},
    {'c', 8, TENON_C64},  {'c', 16, TENON_C128}, {'V', 1, TENON_U8},  {'V', 2, TENON_U16},
    {'V', 4, TENON_U32},  {'V', 8, TENON_U64},
};
enum { TYPE_COUNT = sizeof types / sizeof *types };

typedef struct header_t {
  char order;
  char kind;     /* `order` is one of < > | =, `kind` one of those in `types` or U, S */
  int64_t width; /* the number in descr: bytes, or unicode characters */
  bool is_fortran;
  int32_t ndim;
  int64_t shape[TENON_RANK_MAX];
} header_t;

/* The header's Python text */

typedef struct reader_t {
  const char *at;
  const char *end;
} reader_t;

static void skip_space(reader_t *reader) {
  while (reader->at < reader->end && isspace((unsigned char)*reader->at))
    reader->at++;
}

static bool take_token(reader_t *reader, const char *text) {
  size_t size = strlen(text);
  skip_space(reader);
  if ((size_t)(reader->end - reader->at) < size || memcmp(reader->at, text, size) != 0)
    return false;
  reader->at += size;
  return true;
}

static bool take_text(reader_t *reader, char *out_text, size_t capacity) {
  size_t size = 0;
  char quote = 0;
  if (take_token(reader, "'"))
    quote = '\'';
  else if (take_token(reader, "\""))
    quote = '"';
  if (!quote) return false;
  for (; reader->at < reader->end && *reader->at != quote; reader->at++) {
    if (size + 1 >= capacity || *reader->at == '\\') return false;
    out_text[size++] = *reader->at;
  }
  out_text[size] = 0;
  return take_token(reader, quote == '"' ? "\"" : "'");
}

static bool take_number(reader_t *reader, int64_t *out_number) {
  skip_space(reader);
  const char *begin = reader->at;
  for (*out_number = 0; reader->at < reader->end && isdigit((unsigned char)*reader->at);
       reader->at++)
    if (!tn_mul(*out_number, 10, out_number) || !tn_add(*out_number, *reader->at - '0', out_number))
      return false;
  return reader->at > begin;
}

static bool take_shape(reader_t *reader, header_t *header) {
  if (!take_token(reader, "(")) return false;
  while (!take_token(reader, ")")) {
    if (header->ndim == TENON_RANK_MAX || !take_number(reader, &header->shape[header->ndim++]))
      return false;
    take_token(reader, "L"); /* Python 2 wrote long integers with an L */
    if (!take_token(reader, ",")) return take_token(reader, ")");
  }
  return true;
}

static bool take_descr(reader_t *reader, header_t *header) {
  char text[32];
  if (!take_text(reader, text, sizeof text) || strlen(text) < 3) return false;
  header->order = text[0];
  header->kind = text[1];
  reader_t number = {text + 2, text + strlen(text)};
  return strchr("<>|=", text[0]) && take_number(&number, &header->width) && number.at == number.end;
}

static tenon_status_t read_header(reader_t reader, header_t *out_header) {
  bool has_descr = false;
  bool has_order = false;
  bool has_shape = false;
  bool good = take_token(&reader, "{");
  char key[32];
  memset(out_header, 0, sizeof *out_header);
  while (good && !take_token(&reader, "}")) {
    good = take_text(&reader, key, sizeof key) && take_token(&reader, ":");
    if (good && strcmp(key, "descr") == 0) {
      if (!take_descr(&reader, out_header))
        return tn_fail(
            TENON_INVALID,
            "'descr' is not a simple type such as '<f4'; records and objects are not supported");
      has_descr = true;
    } else if (good && strcmp(key, "fortran_order") == 0) {
      has_order = true;
      out_header->is_fortran = take_token(&reader, "True");
      good = out_header->is_fortran || take_token(&reader, "False");
    } else if (good && strcmp(key, "shape") == 0) {
      has_shape = !has_shape;
      good = has_shape && take_shape(&reader, out_header);
    } else {
      good = false;
    }
    if (good && !take_token(&reader, ",")) {
      good = take_token(&reader, "}");
      break;
    }
  }
  if (good && has_descr && has_order && has_shape) return TENON_OK;
  return tn_fail(TENON_INVALID,
                 "the header is not a dictionary of 'descr', 'fortran_order' and 'shape' with at "
                 "most %d extents",
                 TENON_RANK_MAX);
}

/* Reading */

bool tn_npy_is(const tn_file_t *file) {
  return file->size >= MAGIC_SIZE && memcmp(file->data, MAGIC, MAGIC_SIZE) == 0;
}

/* Writes one character as UTF-8. Returns the number of bytes; 0: it is not a character. */
static size_t encode_utf8(uint32_t c, char *out) {
  if (c < 0x80) {
    out[0] = (char)c;
    return 1;
  }
  if (c < 0x800) {
    out[0] = (char)(0xc0 | c >> 6);
    out[1] = (char)(0x80 | (c & 63));
    return 2;
  }
  if (c >= 0xd800 && c < 0xe000) return 0;
  if (c < 0x10000) {
    out[0] = (char)(0xe0 | c >> 12);
    out[1] = (char)(0x80 | (c >> 6 & 63));
    out[2] = (char)(0x80 | (c & 63));
    return 3;
  }
  if (c > 0x10ffff) return 0;
  out[0] = (char)(0xf0 | c >> 18);
  out[1] = (char)(0x80 | (c >> 12 & 63));
  out[2] = (char)(0x80 | (c >> 6 & 63));
  out[3] = (char)(0x80 | (c & 63));
  return 4;
}

static tenon_status_t read_strings(const header_t *header, const unsigned char *data,
                                   tenon_tensor_t *tensor) {
  size_t width = (size_t)header->width;
  size_t unit = header->kind == 'U' ? 4 : 1;
  char *text = tn_allocate(width * 4);
  if (!text) return tn_no_memory("a string", width * 4);
  tenon_status_t status = TENON_OK;
  for (int64_t i = 0; i < tenon_count(tensor) && status == TENON_OK; i++, data += width * unit) {
    size_t length = width;
    size_t size = 0;
    uint32_t c = 0;
    for (bool is_end = true; is_end && length; length -= is_end)
      for (size_t j = 0; j < unit; j++)
        is_end = is_end && data[(length - 1) * unit + j] == 0;
    for (size_t j = 0; j < length && status == TENON_OK; j++) {
      const unsigned char *p = data + j * unit;
      if (unit == 1) text[size++] = (char)*p;
      if (unit == 1) continue;
      c = header->order == '>'
              ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]
              : (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
      size_t more = encode_utf8(c, text + size);
      if (!more)
        status =
            tn_fail(TENON_INVALID, "string %lld contains %#x, which is not a Unicode character",
                    (long long)i, (unsigned)c);
      size += more;
    }
    if (status == TENON_OK) status = tenon_tensor_set_string(tensor, i, text, size);
  }
  tn_release_memory(text);
  return status;
}

static void read_numbers(const header_t *header, const unsigned char *data,
                         tenon_tensor_t *tensor) {
  size_t size = (size_t)(tenon_count(tensor) * header->width);
  size_t unit = header->kind == 'c' ? (size_t)header->width / 2 : (size_t)header->width;
  unsigned char *to = tensor->data;
  if (size) memcpy(to, data, size);
  for (size_t at = 0; header->order == '>' && at < size; at += unit)
    for (size_t i = 0; i < unit / 2; i++) {
      unsigned char byte = to[at + i];
      to[at + i] = to[at + unit - 1 - i];
      to[at + unit - 1 - i] = byte;
    }
  for (size_t i = 0; header->kind == 'b' && i < size; i++)
    to[i] = to[i] != 0;
}

/* Converts elements that were stored with the first axis fastest, as a tensor of the reversed
 * shape, to row-major order. */
static tenon_status_t to_row_major(tenon_tensor_t **tensor, const header_t *header) {
  int64_t strides[TENON_RANK_MAX];
  int64_t stride = 1;
  tenon_tensor_t *view = NULL;
  tenon_tensor_t *turned = NULL;
  for (int32_t i = 0; i < header->ndim; stride *= header->shape[i++])
    strides[i] = stride;
  tenon_status_t status =
      tn_tensor_view_of(*tensor, (*tensor)->dtype, 0, header->ndim, header->shape, strides, &view);
  if (status == TENON_OK) status = tenon_tensor_copy(view, &turned);
  tenon_tensor_release(view);
  tenon_tensor_release(*tensor);
  *tensor = turned;
  return status;
}

static tenon_status_t read_elements(const header_t *header, const unsigned char *data, size_t size,
                                    tenon_tensor_t **out_tensor) {
  bool is_text = header->kind == 'U' || header->kind == 'S';
  tenon_dtype_t dtype = tenon_dtype(TENON_STRING);
  int64_t need = tn_shape_count(header->ndim, header->shape);
  int64_t bytes = header->width;
  int64_t reversed[TENON_RANK_MAX];
  int type = 0;
  while (type < TYPE_COUNT &&
         (types[type].kind != header->kind || types[type].size != header->width))
    type++;
  if (!is_text && type == TYPE_COUNT)
    return tn_fail(TENON_INVALID, "element type '%c%lld' is not supported", header->kind,
                   (long long)header->width);
  if (!is_text) dtype = tenon_dtype(types[type].dtype);
  if (need < 0 || (header->kind == 'U' && !tn_mul(bytes, 4, &bytes)) ||
      !tn_mul(need, bytes, &need) || (uint64_t)need > size ||
      (is_text && bytes == 0 && tn_shape_count(header->ndim, header->shape) > INT32_MAX))
    return tn_fail(
        TENON_INVALID,
        "the file is too short: its header states more elements than fit in the %zu bytes after it",
        size);
  for (int32_t i = 0; i < header->ndim; i++)
    reversed[i] = header->shape[header->is_fortran ? header->ndim - 1 - i : i];
  TN_TRY(tenon_tensor_create(dtype, header->ndim, reversed, out_tensor));
  tenon_status_t status = TENON_OK;
  if (is_text)
    status = read_strings(header, data, *out_tensor);
  else
    read_numbers(header, data, *out_tensor);
  if (status == TENON_OK && header->is_fortran && header->ndim > 1)
    status = to_row_major(out_tensor, header);
  if (status == TENON_OK) return TENON_OK;
  tenon_tensor_release(*out_tensor);
  *out_tensor = NULL;
  return status;
}

tenon_status_t tn_npy_read(const tn_file_t *file, tenon_tensor_t **out_tensor) {
  header_t header;
  const unsigned char *at = file->data;
  size_t begin = 8;
  size_t size = 0;
  size_t length_size = file->size > 7 && at[6] == 1 ? 2 : 4;
  if (file->size < begin + length_size)
    return tn_fail(TENON_INVALID, "the .npy file is too short: it ends within its header");
  if (at[6] < 1 || at[6] > 3)
    return tn_fail(TENON_UNIMPLEMENTED,
                   ".npy format %d.%d is not supported: expected format 1, 2 or 3", at[6], at[7]);
  for (size_t i = 0; i < length_size; i++)
    size |= (size_t)at[begin + i] << 8 * i;
  begin += length_size;
  if (size > file->size - begin)
    return tn_fail(TENON_INVALID, "the .npy file is too short: it ends within its header");
  TN_TRY(
      read_header((reader_t){(const char *)at + begin, (const char *)at + begin + size}, &header));
  begin += size;
  return read_elements(&header, at + begin, file->size - begin, out_tensor);
}

/* Writing */

/* Reads the next character of UTF-8 text; false: the text is not valid. */
static bool decode_utf8(const char **at, const char *end, uint32_t *out_c) {
  unsigned char lead = (unsigned char)*(*at)++;
  int more = -1;
  if (lead < 0x80)
    more = 0;
  else if (lead >> 5 == 6)
    more = 1;
  else if (lead >> 4 == 14)
    more = 2;
  else if (lead >> 3 == 30)
    more = 3;
  static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  if (more < 0 || end - *at < more) return false;
  uint32_t c = more ? lead & (0x3fu >> more) : lead;
  for (int i = 0; i < more; i++) {
    unsigned char byte = (unsigned char)*(*at)++;
    if (byte >> 6 != 2) return false;
    c = c << 6 | (byte & 63u);
  }
  *out_c = c;
  return c >= least[more] && c <= 0x10ffff && !(c >= 0xd800 && c < 0xe000);
}

static tenon_status_t count_characters(tenon_string_t string, int64_t index, int64_t *out_count) {
  const char *at = string.data;
  const char *end = string.data + string.size;
  uint32_t c;
  for (*out_count = 0; at < end; ++*out_count)
    if (!decode_utf8(&at, end, &c))
      return tn_fail(TENON_INVALID,
                     "string %lld is not valid UTF-8, so it cannot be written to a .npy file",
                     (long long)index);
  return TENON_OK;
}

static void write_strings(const tenon_tensor_t *tensor, int64_t width, FILE *file) {
  const tenon_string_t *strings = tensor->data;
  for (int64_t i = 0, n = tenon_count(tensor); i < n; i++) {
    const char *at = strings[i].data;
    const char *end = strings[i].data + strings[i].size;
    for (int64_t j = 0; j < width; j++) {
      uint32_t c = 0;
      if (at < end) (void)decode_utf8(&at, end, &c); /* count_characters has found them valid */
      unsigned char bytes[4] = {(unsigned char)c, (unsigned char)(c >> 8), (unsigned char)(c >> 16),
                                0};
      fwrite(bytes, 1, sizeof bytes, file);
    }
  }
}

/* Writes elements of 2, 4 or 6 bits, one a byte. */
static void write_packed(const tenon_tensor_t *tensor, FILE *file) {
  const unsigned char *data = tensor->data;
  unsigned bits = tensor->dtype.bits;
  for (uint64_t i = 0, n = (uint64_t)tenon_count(tensor); i < n; i++) {
    unsigned value = 0;
    for (uint64_t b = 0; b < bits; b++)
      value |= (unsigned)(data[(i * bits + b) / 8] >> (i * bits + b) % 8 & 1) << b;
    putc((int)value, file);
  }
}

static void write_header(const tenon_tensor_t *tensor, const char *descr, FILE *file,
                         tn_text_t *text) {
  tn_text_add(text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
  for (int32_t i = 0; i < tensor->ndim; i++)
    tn_text_add(text, "%s%lld", i ? ", " : "", (long long)tensor->shape[i]);
  if (tensor->ndim == 1) tn_text_add(text, ",");
  tn_text_add(text, "), }");
  while ((MAGIC_SIZE + 4 + text->size + 1) % ALIGNMENT && !text->failed)
    tn_text_add(text, " ");
  tn_text_add(text, "\n");
  if (text->failed) return;
  unsigned char head[4] = {1, 0, (unsigned char)text->size, (unsigned char)(text->size >> 8)};
  fwrite(MAGIC, 1, MAGIC_SIZE, file);
  fwrite(head, 1, sizeof head, file);
  fwrite(text->data, 1, text->size, file);
}

tenon_status_t tn_npy_write(const tenon_tensor_t *tensor, FILE *file) {
  char descr[32];
  tn_text_t text = {0};
  int type = 0;
  int64_t width = 1;
  int64_t length;
  unsigned bytes = tensor->dtype.bits < 8 ? 1 : tensor->dtype.bits / 8u;
  bool is_text = tn_dtype_is(tensor->dtype, TENON_STRING);
  if (tn_dtype_is(tensor->dtype, TENON_LIST))
    return tn_fail(
        TENON_INVALID,
        "a list of tensors cannot be written to a .npy file: write its tensors one by one");
  if (tn_layout(tensor))
    return tn_fail(TENON_UNIMPLEMENTED,
                   "a sparse tensor (%s) cannot be written to a .npy file: convert it to a dense "
                   "tensor first (core::to_dense)",
                   tn_layout_name(tn_layout(tensor)));
  while (type < TYPE_COUNT && types[type].dtype != tenon_dtype_id(tensor->dtype))
    type++;
  for (int64_t i = 0; is_text && i < tenon_count(tensor); i++) {
    TN_TRY(count_characters(((tenon_string_t *)tensor->data)[i], i, &length));
    if (length > width) width = length;
  }
  if (is_text)
    snprintf(descr, sizeof descr, "<U%lld", (long long)width);
  else {
    char kind = type < TYPE_COUNT ? types[type].kind : 'u';
    snprintf(descr, sizeof descr, "%c%c%u", bytes == 1 ? '|' : '<', kind, bytes);
  }
  write_header(tensor, descr, file, &text);
  bool failed = text.failed;
  tn_text_clear(&text);
  if (failed) return tn_no_memory("a .npy header", 0);
  if (is_text)
    write_strings(tensor, width, file);
  else if (tensor->dtype.bits < 8)
    write_packed(tensor, file);
  else if (tenon_count(tensor))
    fwrite(tensor->data, bytes, (size_t)tenon_count(tensor), file);
  return TENON_OK; /* the caller checks the stream for write errors */
}
