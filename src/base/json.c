/* The JSON reader: recursive descent in one pass. Invariant: `at` never passes `end`, and nothing
 * is read after the first failure. */
#include "base/json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"

enum { DEPTH_MAX = 64 };

typedef struct reader_t {
  const char *at;
  const char *end;
  const char *line_start;
  uint32_t line;
  int depth;
  tn_arena_t *arena;
  tenon_status_t status;
} reader_t;

/* One item of a list or object while the list or object is being read. */
typedef struct link_t {
  struct link_t *next;
  const char *name;
  tn_json_t value;
} link_t;

static bool read_value(reader_t *r, tn_json_t *out);

static bool fail_reader(reader_t *r, const char *what) {
  if (r->status == TENON_OK)
    r->status = tn_fail(TENON_INVALID, "line %u, column %u: %s", (unsigned)r->line,
                        (unsigned)(r->at - r->line_start + 1), what);
  return false;
}

static bool fail_reader_memory(reader_t *r) {
  if (r->status == TENON_OK) r->status = tn_no_memory("a JSON document", 0);
  return false;
}

/* Skips white space and returns the next character, or 0 at the end. No token starts with 0. */
static char peek_char(reader_t *r) {
  for (; r->at < r->end; r->at++) {
    if (*r->at == '\n') {
      r->line++;
      r->line_start = r->at + 1;
    } else if (*r->at != ' ' && *r->at != '\t' && *r->at != '\r')
      return *r->at;
  }
  return 0;
}

static bool take_char(reader_t *r, char c) {
  if (peek_char(r) != c) return false;
  r->at++;
  return true;
}

/* strings */

static bool read_hex4(reader_t *r, uint32_t *out) {
  *out = 0;
  for (int i = 0; i < 4; i++, r->at++) {
    int digit = r->at < r->end ? tn_hex_digit(*r->at) : -1;
    if (digit < 0) return fail_reader(r, "expected four hexadecimal digits");
    *out = *out << 4 | (uint32_t)digit;
  }
  return true;
}

static char *put_utf8(char *to, uint32_t code) {
  static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
  int more = (code >= 0x80) + (code >= 0x800) + (code >= 0x10000);
  *to++ = (char)(lead[more] | code >> (6 * more));
  while (more-- > 0)
    *to++ = (char)(0x80 | (code >> (6 * more) & 0x3F));
  return to;
}

/* Reads an escape sequence. `at` is after the backslash. */
static bool read_escape(reader_t *r, char **to) {
  static const char from[] = "\"\\/bfnrt";
  static const char into[] = "\"\\/\b\f\n\r\t";
  char c = r->at < r->end ? *r->at : 0;
  const char *known = c ? strchr(from, c) : NULL;
  uint32_t code, low;
  if (known) {
    *(*to)++ = into[known - from];
    r->at++;
    return true;
  }
  if (c != 'u') return fail_reader(r, "expected a JSON escape sequence after '\\'");
  r->at++;
  if (!read_hex4(r, &code)) return false;
  if (code >= 0xD800 && code < 0xE000) {
    if (code >= 0xDC00 || r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
      return fail_reader(r, "an unpaired surrogate in a \\u escape");
    r->at += 2;
    if (!read_hex4(r, &low)) return false;
    if (low < 0xDC00 || low >= 0xE000)
      return fail_reader(r, "an unpaired surrogate in a \\u escape");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  if (!code) return fail_reader(r, "a string with the character U+0000, which is not supported");
  *to = put_utf8(*to, code);
  return true;
}

/* Bytes of the UTF-8 character at `at`; 0 if it is not valid UTF-8. */
static size_t utf8_size(const char *at, const char *end) {
  unsigned char c = (unsigned char)*at;
  if (c < 0x80) return 1;
  if (c < 0xC2 || c >= 0xF5) return 0;
  size_t size = (size_t)2 + (c >= 0xE0) + (c >= 0xF0);
  if ((size_t)(end - at) < size) return 0;
  for (size_t i = 1; i < size; i++)
    if (((unsigned char)at[i] & 0xC0) != 0x80) return 0;
  /* reject overlong forms, surrogates and code points beyond U+10FFFF */
  unsigned char next = (unsigned char)at[1];
  if ((c == 0xE0 && next < 0xA0) || (c == 0xED && next >= 0xA0) || (c == 0xF0 && next < 0x90) ||
      (c == 0xF4 && next >= 0x90))
    return 0;
  return size;
}

/* Reads a string. `at` is after the opening quote. */
static bool read_text(reader_t *r, const char **out_text, size_t *out_size) {
  const char *close = r->at;
  while (close < r->end && *close != '"')
    close += *close == '\\' && close + 1 < r->end ? 2 : 1;
  if (close >= r->end) return fail_reader(r, "a string without a closing quote");
  /* the unescaped string is never longer than the escaped one */
  char *text = tn_arena_allocate(r->arena, (size_t)(close - r->at) + 1);
  char *to = text;
  if (!text) return fail_reader_memory(r);
  while (r->at < close) {
    size_t size = utf8_size(r->at, close);
    if ((unsigned char)*r->at < ' ')
      return fail_reader(r, "an unescaped control character in a string; write it as \\uXXXX");
    if (!size) return fail_reader(r, "a string that is not valid UTF-8");
    if (*r->at != '\\') {
      memcpy(to, r->at, size);
      to += size;
      r->at += size;
    } else {
      r->at++;
      if (!read_escape(r, &to)) return false;
    }
  }
  r->at = close + 1;
  *out_text = text;
  *out_size = (size_t)(to - text);
  return true;
}

/* numbers and literals */

static bool skip_digits(const char **at, const char *end) {
  const char *begin = *at;
  while (*at < end && **at >= '0' && **at <= '9')
    ++*at;
  return *at > begin;
}

static bool read_number(reader_t *r, tn_json_t *out) {
  const char *at = r->at;
  if (at < r->end && *at == '-') at++;
  const char *first = at;
  bool good = skip_digits(&at, r->end) && (at - first == 1 || *first != '0');
  if (good && at < r->end && *at == '.') {
    at++;
    good = skip_digits(&at, r->end);
  }
  if (good && at < r->end && (*at == 'e' || *at == 'E')) {
    at++;
    if (at < r->end && (*at == '+' || *at == '-')) at++;
    good = skip_digits(&at, r->end);
  }
  if (!good) return fail_reader(r, "expected a JSON value");
  out->kind = TN_JSON_NUMBER;
  out->count = (size_t)(at - r->at);
  if (!(out->text = tn_arena_text(r->arena, r->at, out->count))) return fail_reader_memory(r);
  r->at = at;
  return true;
}

static bool read_word(reader_t *r, tn_json_t *out) {
  static const struct {
    const char *text;
    tn_json_kind_t kind;
    size_t count;
  } words[] = {{"true", TN_JSON_BOOL, 1}, {"false", TN_JSON_BOOL, 0}, {"null", TN_JSON_NULL, 0}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t size = strlen(words[i].text);
    if ((size_t)(r->end - r->at) < size || memcmp(r->at, words[i].text, size) != 0) continue;
    out->kind = words[i].kind;
    out->count = words[i].count;
    r->at += size;
    return true;
  }
  return read_number(r, out);
}

/* lists and objects */

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool check_names(reader_t *r, const tn_json_t *object) {
  const char **sorted = tn_arena_array(r->arena, object->count + 1, sizeof *sorted);
  const char *twice = NULL;
  if (!sorted) return fail_reader_memory(r);
  memcpy(sorted, object->names, object->count * sizeof *sorted);
  qsort(sorted, object->count, sizeof *sorted, compare_names);
  for (size_t i = 1; i < object->count && !twice; i++)
    if (strcmp(sorted[i - 1], sorted[i]) == 0) twice = sorted[i];
  if (twice) r->status = tn_json_fail(object, "an object with two members named '%.60s'", twice);
  return !twice;
}

static bool store_items(reader_t *r, const link_t *first, tn_json_t *out) {
  tn_json_t *items = tn_arena_array(r->arena, out->count + 1, sizeof *items);
  const char **names =
      tn_arena_array(r->arena, out->kind == TN_JSON_OBJECT ? out->count + 1 : 1, sizeof *names);
  if (!items || !names) return fail_reader_memory(r);
  for (size_t i = 0; first; first = first->next, i++) {
    items[i] = first->value;
    if (out->kind == TN_JSON_OBJECT) names[i] = first->name;
  }
  out->items = items;
  out->names = names;
  return out->kind != TN_JSON_OBJECT || check_names(r, out);
}

/* Reads the items of a list or the members of an object. `at` is after the opening bracket. */
static bool read_items(reader_t *r, char close, tn_json_t *out) {
  link_t *first = NULL;
  link_t **last = &first;
  size_t ignored;
  while (!take_char(r, close)) {
    if (out->count && !take_char(r, ','))
      return fail_reader(r, close == ']' ? "expected ',' or ']'" : "expected ',' or '}'");
    link_t *link = tn_arena_array(r->arena, 1, sizeof *link);
    if (!link) return fail_reader_memory(r);
    if (close == '}') {
      if (!take_char(r, '"')) return fail_reader(r, "expected a member name in double quotes");
      if (!read_text(r, &link->name, &ignored)) return false;
      if (!take_char(r, ':')) return fail_reader(r, "expected ':'");
    }
    if (!read_value(r, &link->value)) return false;
    *last = link;
    last = &link->next;
    out->count++;
  }
  return store_items(r, first, out);
}

static bool read_value(reader_t *r, tn_json_t *out) {
  char c = peek_char(r);
  out->line = r->line;
  out->column = (uint32_t)(r->at - r->line_start + 1);
  if (c == '"') {
    out->kind = TN_JSON_TEXT;
    r->at++;
    return read_text(r, &out->text, &out->count);
  }
  if (c != '[' && c != '{')
    return c ? read_word(r, out)
             : fail_reader(r, "expected a JSON value, found the end of the file");
  if (r->depth == DEPTH_MAX) return fail_reader(r, "nested more than 64 levels deep");
  out->kind = c == '[' ? TN_JSON_LIST : TN_JSON_OBJECT;
  r->depth++;
  r->at++;
  bool good = read_items(r, c == '[' ? ']' : '}', out);
  r->depth--;
  return good;
}

tenon_status_t tn_json_read(const char *data, size_t size, tn_arena_t *arena,
                            const tn_json_t **out_root) {
  if (!size) data = ""; /* an empty file has no data */
  reader_t r = {data, data + size, data, 1, 0, arena, TENON_OK};
  tn_json_t *root = tn_arena_array(arena, 1, sizeof *root);
  if (!root) return tn_no_memory("a JSON document", 0);
  if (read_value(&r, root) && (peek_char(&r) || r.at < r.end))
    (void)fail_reader(&r, "expected the end of the file");
  *out_root = root;
  return r.status;
}

/* queries */

const tn_json_t *tn_json_find(const tn_json_t *object, const char *name) {
  if (!object || object->kind != TN_JSON_OBJECT) return NULL;
  for (size_t i = 0; i < object->count; i++)
    if (strcmp(object->names[i], name) == 0) return &object->items[i];
  return NULL;
}

bool tn_json_integer(const tn_json_t *value, int64_t *out_value) {
  char *end;
  if (value->kind != TN_JSON_NUMBER || strpbrk(value->text, ".eE")) return false;
  errno = 0;
  *out_value = strtoll(value->text, &end, 10);
  return errno == 0;
}

const char *tn_json_kind_name(tn_json_kind_t kind) {
  static const char *const names[] = {"null",     "a bool", "a number",
                                      "a string", "a list", "an object"};
  return names[kind];
}

tenon_status_t tn_json_fail(const tn_json_t *at, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  tenon_status_t status = tn_fail_list(TENON_INVALID, format, arguments);
  va_end(arguments);
  return tn_prefix(status, "line %u, column %u: ", (unsigned)at->line, (unsigned)at->column);
}
