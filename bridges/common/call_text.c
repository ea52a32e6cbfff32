/* Reads the texts of custom calls. A text may come from anywhere: each part is checked. */
#include "common/call_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tenon_status_t text_fail(const text_t *text, const char *expected) {
  char message[400];
  snprintf(
      message, sizeof message,
      "the attribute `call` of a custom call is damaged: column %d: expected %s, found '%.20s': "
      "make such calls with tenon.jax",
      (int)(text->at - text->text) + 1, expected, text->at);
  return tenon_error_set(TENON_INVALID, message);
}

bool text_take(text_t *text, const char *word) {
  const size_t size = strlen(word);
  if (strncmp(text->at, word, size) != 0) return false;
  text->at += size;
  return true;
}

/* Copies the text up to a character, which is skipped. */
static tenon_status_t read_word(text_t *text, const char *end, char name[TEXT_NAME_MOST]) {
  const size_t size = strcspn(text->at, end);
  if (!size || size >= TEXT_NAME_MOST || !text->at[size]) return text_fail(text, "a name");
  memcpy(name, text->at, size);
  name[size] = 0;
  text->at += size + 1;
  return TENON_OK;
}

static tenon_status_t read_unsigned(text_t *text, uint64_t most, uint64_t *out_number) {
  char *end;
  if (*text->at < '0' || *text->at > '9') return text_fail(text, "a number");
  *out_number = strtoull(text->at, &end, 10);
  if (*out_number > most) return text_fail(text, "a smaller number");
  text->at = end;
  return TENON_OK;
}

tenon_status_t text_read_name(text_t *text, char name[TEXT_NAME_MOST]) {
  return read_word(text, "(", name);
}

tenon_status_t text_read_counts(text_t *text, uint32_t input_count, const bool *is_list,
                                int32_t *out_counts, uint32_t *out_total) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < input_count; i++) {
    uint64_t count = 0;
    if (i && !text_take(text, ", ")) return text_fail(text, "a number of operands for each input");
    out_counts[i] = -1;
    if (text_take(text, "-")) continue;
    const tenon_status_t status = read_unsigned(text, is_list[i] ? TEXT_OPERANDS_MOST : 1, &count);
    if (status != TENON_OK) return status;
    if (!count && !is_list[i]) return text_fail(text, "1 or - for an input that is no list");
    out_counts[i] = (int32_t)count;
    total += count;
  }
  if (total > TEXT_OPERANDS_MOST) return text_fail(text, "at most 256 operands");
  *out_total = (uint32_t)total;
  return text_take(text, ")") ? TENON_OK : text_fail(text, "')' after the inputs");
}

/* Returns the end of a literal, which is ";" outside of quotes, or the end of the text. */
static const char *end_of_literal(const char *at) {
  bool is_quoted = false;
  for (; *at; at++) {
    if (*at == '\\' && is_quoted && at[1])
      at++;
    else if (*at == '\'')
      is_quoted = !is_quoted;
    else if (*at == ';' && !is_quoted)
      break;
  }
  return at;
}

static tenon_status_t read_bits(text_t *text, const char *name, text_bits_t *bits) {
  const struct {
    const char *name;
    uint64_t *bits;
  } fields[] = {{"@wanted", &bits->wanted},
                {"@padded", &bits->padded},
                {"@given", &bits->given},
                {"@inputs", &bits->inputs},
                {"@forward", &bits->is_forward}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (strcmp(name, fields[i].name) == 0) return read_unsigned(text, UINT64_MAX, fields[i].bits);
  return text_fail(text, "@wanted, @padded, @given, @inputs or @forward");
}

static int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads the dtype of a tensor. Returns false if the literal is no tensor. */
static bool read_dtype(text_t *text, tenon_dtype_t *out_dtype) {
  char name[32];
  const size_t size = strspn(text->at, "abcdefghijklmnopqrstuvwxyz0123456789");
  if (!size || size >= sizeof name || text->at[size] != '[') return false;
  memcpy(name, text->at, size);
  name[size] = 0;
  if (tenon_dtype_parse(name, out_dtype) != TENON_OK) return false;
  text->at += size + 1;
  return true;
}

/* Reads "2, 3] " after the bracket. Fails unless the elements have as many bytes as are there. */
static tenon_status_t read_shape(text_t *text, tenon_dtype_t dtype, const char *end, int32_t *ndim,
                                 int64_t shape[TENON_RANK_MAX]) {
  uint64_t bytes = dtype.bits / 8;
  if (!bytes || dtype.bits % 8 || dtype.code >= 200) return text_fail(text, "a tensor of numbers");
  *ndim = 0;
  while (!text_take(text, "] ")) {
    uint64_t extent = 0;
    if (*ndim == TENON_RANK_MAX) return text_fail(text, "at most 64 axes");
    if (*ndim && !text_take(text, ", ")) return text_fail(text, "', ' or ']' in a shape");
    const tenon_status_t status = read_unsigned(text, INT64_MAX, &extent);
    if (status != TENON_OK) return status;
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return text_fail(text, "a smaller shape");
    shape[(*ndim)++] = (int64_t)extent;
  }
  if (bytes == (uint64_t)(end - text->at) / 2 && (end - text->at) % 2 == 0) return TENON_OK;
  return text_fail(text, "two digits for each byte of the tensor");
}

/* Reads the elements of a tensor of bytes, up to the end. */
static tenon_status_t read_elements(text_t *text, const char *end, const tenon_tensor_t *tensor) {
  uint8_t *to = tensor->data;
  const bool is_bool = tenon_dtype_id(tensor->dtype) == TENON_BOOL;
  for (; text->at < end; text->at += 2) {
    const int high = digit_of(text->at[0]);
    const int low = digit_of(text->at[1]);
    if (high < 0 || low < 0) return text_fail(text, "hexadecimal digits");
    *to++ = is_bool ? (high | low) != 0 : (uint8_t)(high << 4 | low);
  }
  return TENON_OK;
}

/* Sets an attribute to a tensor, whose dtype was read. */
static tenon_status_t read_tensor(text_t *text, tenon_attrs_t *attrs, const char *name,
                                  tenon_dtype_t dtype, const char *end) {
  int64_t shape[TENON_RANK_MAX];
  int32_t ndim = 0;
  tenon_value_t value = {.kind = TENON_KIND_TENSOR};
  tenon_status_t status = read_shape(text, dtype, end, &ndim, shape);
  if (status == TENON_OK) status = tenon_tensor_create(dtype, ndim, shape, &value.as.tensor);
  if (status != TENON_OK) return status;
  status = read_elements(text, end, value.as.tensor);
  if (status == TENON_OK) status = tenon_attrs_set(attrs, name, &value);
  tenon_tensor_release(value.as.tensor);
  return status;
}

static tenon_status_t read_attribute(text_t *text, tenon_attrs_t *attrs, const char *name) {
  const char *end = end_of_literal(text->at);
  tenon_dtype_t dtype;
  if (read_dtype(text, &dtype)) return read_tensor(text, attrs, name, dtype, end);
  char *literal = strndup(text->at, (size_t)(end - text->at));
  if (!literal) return tenon_error_set(TENON_MEMORY, "out of memory");
  const tenon_status_t status = tenon_attrs_parse(attrs, name, literal);
  free(literal);
  text->at = end;
  return status;
}

tenon_status_t text_read_fields(text_t *text, tenon_attrs_t *attrs, text_bits_t *out_bits) {
  char name[TEXT_NAME_MOST];
  *out_bits = (text_bits_t){.wanted = 0};
  while (*text->at) {
    if (!text_take(text, "; ")) return text_fail(text, "'; '");
    tenon_status_t status = read_word(text, "=", name);
    if (status != TENON_OK) return status;
    status = *name == '@' || !attrs ? read_bits(text, name, out_bits)
                                    : read_attribute(text, attrs, name);
    if (status != TENON_OK) return status;
  }
  return TENON_OK;
}
