/* Reads attributes from texts. Called when a kernel is created and while shapes are inferred. The
 * texts come from models and callers, so every byte is checked. */
#include "attribute.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

bool attribute_find(const tenon_value_t *list, const char *name, tenon_string_t *out_value) {
  const size_t size = strlen(name);
  for (uint32_t i = 0; i < list->count; i++) {
    const tenon_string_t *text = &list->as.strs[i];
    if (text->size <= size || text->data[size] != '=' || memcmp(text->data, name, size) != 0)
      continue;
    *out_value = (tenon_string_t){text->data + size + 1, text->size - size - 1};
    return true;
  }
  return false;
}

/* numbers */

enum { NUMBER_MOST = 64 }; /* the length of a number */

static bool copy_number(tenon_string_t text, char out[NUMBER_MOST]) {
  if (!text.size || text.size >= NUMBER_MOST || isspace((unsigned char)*text.data)) return false;
  memcpy(out, text.data, text.size);
  out[text.size] = 0;
  return strlen(out) == text.size;
}

bool attribute_int(tenon_string_t text, int64_t *out) {
  char number[NUMBER_MOST];
  char *end;
  if (!copy_number(text, number)) return false;
  const bool is_true = strcmp(number, "True") == 0;
  if (is_true || strcmp(number, "False") == 0) {
    *out = is_true;
    return true;
  }
  errno = 0;
  *out = strtoll(number, &end, 10);
  return !*end && !errno;
}

bool attribute_float(tenon_string_t text, float *out) {
  char number[NUMBER_MOST];
  char *end;
  if (!copy_number(text, number)) return false;
  *out = strtof(number, &end);
  return !*end;
}

/* lists */

static tenon_string_t skip_list_spaces(tenon_string_t text) {
  while (text.size && isspace((unsigned char)*text.data)) {
    text.data++;
    text.size--;
  }
  return text;
}

/* Takes one character if it comes next. */
static bool take_character(tenon_string_t *text, char c) {
  *text = skip_list_spaces(*text);
  if (!text->size || *text->data != c) return false;
  text->data++;
  text->size--;
  return true;
}

/* Removes the brackets of a list: [1, 2] or (1, 2). */
static bool take_brackets(tenon_string_t *text) {
  *text = skip_list_spaces(*text);
  while (text->size && isspace((unsigned char)text->data[text->size - 1]))
    text->size--;
  if (text->size < 2) return false;
  const char last = text->data[text->size - 1];
  if (!(*text->data == '[' && last == ']') && !(*text->data == '(' && last == ')')) return false;
  text->data++;
  text->size -= 2;
  return true;
}

/* Takes the next number of a list, up to a comma. */
static tenon_string_t take_number(tenon_string_t *text) {
  *text = skip_list_spaces(*text);
  tenon_string_t item = {text->data, 0};
  while (item.size < text->size && item.data[item.size] != ',')
    item.size++;
  text->data += item.size;
  text->size -= item.size;
  while (item.size && isspace((unsigned char)item.data[item.size - 1]))
    item.size--;
  return item;
}

typedef bool (*read_item_fn)(tenon_string_t item, void *out);

static bool read_int_item(tenon_string_t item, void *out) { return attribute_int(item, out); }
static bool read_float_item(tenon_string_t item, void *out) { return attribute_float(item, out); }

static bool read_number_list(tenon_string_t text, size_t size, read_item_fn read, void **out,
                             size_t *out_count) {
  char *items = malloc((text.size + 1) * size);
  size_t count = 0;
  bool good = items && take_brackets(&text);
  for (text = skip_list_spaces(text); good && text.size; text = skip_list_spaces(text)) {
    good = read(take_number(&text), items + count * size);
    count++;
    if (good && text.size) good = take_character(&text, ',');
  }
  *out = items;
  *out_count = count;
  if (good) return true;
  free(items);
  *out = NULL;
  return false;
}

bool attribute_ints(tenon_string_t text, int64_t **out, size_t *out_count) {
  void *items;
  bool good = read_number_list(text, sizeof **out, read_int_item, &items, out_count);
  *out = items;
  return good;
}

bool attribute_floats(tenon_string_t text, float **out, size_t *out_count) {
  void *items;
  bool good = read_number_list(text, sizeof **out, read_float_item, &items, out_count);
  *out = items;
  return good;
}

/* Reads a quoted string, with \\, \', \" and \n. */
static bool take_quoted(tenon_string_t *text, char **at) {
  const char quote = text->size ? *text->data : 0;
  if (quote != '\'' && quote != '"') return false;
  size_t i = 1;
  for (; i < text->size && text->data[i] != quote; i++) {
    char c = text->data[i];
    if (c == '\\') {
      if (++i == text->size) return false;
      c = text->data[i] == 'n' ? '\n' : text->data[i];
    }
    *(*at)++ = c;
  }
  *(*at)++ = 0;
  if (i == text->size) return false;
  text->data += i + 1;
  text->size -= i + 1;
  return true;
}

bool attribute_strings(tenon_string_t text, char ***out, size_t *out_count) {
  /* A list of n strings has at least 3 n - 1 characters between its brackets. */
  char **items = malloc((text.size + 2) * (sizeof *items + 2));
  char *at = items ? (char *)(items + text.size + 1) : NULL;
  size_t count = 0;
  bool good = items && take_brackets(&text);
  for (text = skip_list_spaces(text); good && text.size; text = skip_list_spaces(text)) {
    items[count++] = at;
    good = take_quoted(&text, &at);
    text = skip_list_spaces(text);
    if (good && text.size) good = take_character(&text, ',');
  }
  *out = items;
  *out_count = count;
  if (good) return true;
  free(items);
  *out = NULL;
  return false;
}

/* tensors */

static int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_bytes(tenon_string_t text, unsigned char *out, size_t size) {
  if (text.size != 2 * size) return false;
  for (size_t i = 0; i < size; i++) {
    const int high = digit_of(text.data[2 * i]);
    const int low = digit_of(text.data[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = (unsigned char)(high << 4 | low);
  }
  return true;
}

static tenon_status_t refuse_tensor(tenon_string_t text) {
  char why[160];
  snprintf(why, sizeof why,
           "'%.*s' is not a tensor: expected dtype, shape and elements, such as f32[1] 0000803f",
           text.size < 40 ? (int)text.size : 40, text.data);
  return tenon_error_set(TENON_INVALID, why);
}

tenon_status_t attribute_tensor(tenon_string_t text, tenon_tensor_t **out) {
  char name[16];
  int64_t shape[TENON_RANK_MAX];
  int32_t ndim = 0;
  tenon_dtype_t dtype;
  tenon_string_t rest = text;
  size_t size = 0;
  *out = NULL;
  while (size < rest.size && size < sizeof name - 1 && rest.data[size] != '[')
    size++;
  snprintf(name, sizeof name, "%.*s", (int)size, rest.data);
  rest.data += size;
  rest.size -= size;
  if (!take_character(&rest, '[') || tenon_dtype_parse(name, &dtype) != TENON_OK ||
      dtype.bits % 8 || tenon_dtype_id(dtype) == TENON_STRING)
    return refuse_tensor(text);
  while (!take_character(&rest, ']')) {
    tenon_string_t item = {rest.data, 0};
    while (item.size < rest.size && isdigit((unsigned char)item.data[item.size]))
      item.size++;
    if (ndim == TENON_RANK_MAX || !attribute_int(item, &shape[ndim++])) return refuse_tensor(text);
    rest.data += item.size;
    rest.size -= item.size;
    (void)take_character(&rest, ',');
  }
  rest = skip_list_spaces(rest);
  tenon_status_t status = tenon_tensor_create(dtype, ndim, shape, out);
  if (status != TENON_OK) return status;
  if (read_bytes(rest, (*out)->data, (size_t)tenon_count(*out) * dtype.bits / 8)) return TENON_OK;
  tenon_tensor_release(*out);
  *out = NULL;
  return refuse_tensor(text);
}
