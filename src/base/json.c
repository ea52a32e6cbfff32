/* One pass of recursive descent.  Invariant: `at` never passes `end`, and after a failure nothing
 * more is read. */
#include "base/json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

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

typedef struct link_t { /* an item of a list or object that is being read */
  struct link_t *next;
  const char *name;
  tn_json_t value;
} link_t;

static bool read_value(reader_t *r, tn_json_t *out);

static bool fail(reader_t *r, const char *what) {
  if (r->status == TENON_OK)
    r->status = tn_fail(TENON_INVALID, "line %u, column %u: %s", (unsigned)r->line,
                        (unsigned)(r->at - r->line_start + 1), what);
  return false;
}

static bool no_memory(reader_t *r) {
  if (r->status == TENON_OK) r->status = tn_no_memory("a JSON text", 0);
  return false;
}

static char peek(reader_t *r) { /* 0 at the end, which no token starts with */
  for (; r->at < r->end; r->at++) {
    if (*r->at == '\n') {
      r->line++;
      r->line_start = r->at + 1;
    } else if (*r->at != ' ' && *r->at != '\t' && *r->at != '\r')
      return *r->at;
  }
  return 0;
}

static bool take(reader_t *r, char c) {
  if (peek(r) != c) return false;
  r->at++;
  return true;
}

/* texts */

static bool hex4(reader_t *r, uint32_t *out) {
  *out = 0;
  for (int i = 0; i < 4; i++, r->at++) {
    char c = r->at < r->end ? *r->at : 0;
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return fail(r, "expected four hexadecimal digits");
    *out = *out << 4 | (uint32_t)digit;
  }
  return true;
}

static char *put_utf8(char *to, uint32_t code) {
  int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
  *to++ = (char)(lead[more] | code >> (6 * more));
  while (more-- > 0)
    *to++ = (char)(0x80 | (code >> (6 * more) & 0x3F));
  return to;
}

static bool read_escape(reader_t *r, char **to) { /* behind the backslash */
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
  if (c != 'u') return fail(r, "expected an escape of JSON after '\\'");
  r->at++;
  if (!hex4(r, &code)) return false;
  if (code >= 0xD800 && code < 0xE000) {
    if (code >= 0xDC00 || r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
      return fail(r, "half of a surrogate pair");
    r->at += 2;
    if (!hex4(r, &low)) return false;
    if (low < 0xDC00 || low >= 0xE000) return fail(r, "half of a surrogate pair");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  if (!code) return fail(r, "a text with a character 0");
  *to = put_utf8(*to, code);
  return true;
}

/* How many bytes the character takes; 0: it is no UTF-8. */
static size_t utf8_size(const char *at, const char *end) {
  unsigned char c = (unsigned char)*at;
  if (c < 0x80) return 1;
  size_t size = c >= 0xC2 && c < 0xE0   ? 2
                : c >= 0xE0 && c < 0xF0 ? 3
                : c >= 0xF0 && c < 0xF5 ? 4
                                        : 0;
  if (!size || (size_t)(end - at) < size) return 0;
  for (size_t i = 1; i < size; i++)
    if (((unsigned char)at[i] & 0xC0) != 0x80) return 0;
  unsigned char next = (unsigned char)at[1]; /* overlong, surrogates, beyond U+10FFFF */
  if ((c == 0xE0 && next < 0xA0) || (c == 0xED && next >= 0xA0) || (c == 0xF0 && next < 0x90) ||
      (c == 0xF4 && next >= 0x90))
    return 0;
  return size;
}

static bool read_text(reader_t *r, const char **out_text, size_t *out_size) { /* behind the quote */
  const char *close = r->at;
  while (close < r->end && *close != '"')
    close += *close == '\\' && close + 1 < r->end ? 2 : 1;
  if (close >= r->end) return fail(r, "a text that does not end");
  /* unescaped, it is no longer */
  char *text = tn_arena_allocate(r->arena, (size_t)(close - r->at) + 1);
  char *to = text;
  if (!text) return no_memory(r);
  while (r->at < close) {
    size_t size = utf8_size(r->at, close);
    if ((unsigned char)*r->at < ' ')
      return fail(r, "a control character in a text; it is written as an escape");
    if (!size) return fail(r, "a text that is no UTF-8");
    if (*r->at != '\\') {
      memcpy(to, r->at, size);
      to += size;
      r->at += size;
    } else if (r->at++, !read_escape(r, &to))
      return false;
  }
  r->at = close + 1;
  *out_text = text;
  *out_size = (size_t)(to - text);
  return true;
}

/* numbers and words */

static bool digits(const char **at, const char *end) {
  const char *begin = *at;
  while (*at < end && **at >= '0' && **at <= '9')
    ++*at;
  return *at > begin;
}

static bool read_number(reader_t *r, tn_json_t *out) {
  const char *at = r->at;
  if (at < r->end && *at == '-') at++;
  const char *first = at;
  bool good = digits(&at, r->end) && (at - first == 1 || *first != '0');
  if (good && at < r->end && *at == '.') {
    at++;
    good = digits(&at, r->end);
  }
  if (good && at < r->end && (*at == 'e' || *at == 'E')) {
    at++;
    if (at < r->end && (*at == '+' || *at == '-')) at++;
    good = digits(&at, r->end);
  }
  if (!good) return fail(r, "expected a value of JSON");
  out->kind = TN_JSON_NUMBER;
  out->count = (size_t)(at - r->at);
  if (!(out->text = tn_arena_text(r->arena, r->at, out->count))) return no_memory(r);
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
  if (!sorted) return no_memory(r);
  memcpy(sorted, object->names, object->count * sizeof *sorted);
  qsort(sorted, object->count, sizeof *sorted, compare_names);
  for (size_t i = 1; i < object->count && !twice; i++)
    if (strcmp(sorted[i - 1], sorted[i]) == 0) twice = sorted[i];
  if (twice) r->status = tn_json_fail(object, "an object with two members '%.60s'", twice);
  return !twice;
}

static bool keep(reader_t *r, const link_t *first, tn_json_t *out) {
  tn_json_t *items = tn_arena_array(r->arena, out->count + 1, sizeof *items);
  const char **names =
      tn_arena_array(r->arena, out->kind == TN_JSON_OBJECT ? out->count + 1 : 1, sizeof *names);
  if (!items || !names) return no_memory(r);
  for (size_t i = 0; first; first = first->next, i++) {
    items[i] = first->value;
    if (out->kind == TN_JSON_OBJECT) names[i] = first->name;
  }
  out->items = items;
  out->names = names;
  return out->kind != TN_JSON_OBJECT || check_names(r, out);
}

static bool read_items(reader_t *r, char close, tn_json_t *out) { /* behind the bracket */
  link_t *first = NULL;
  link_t **last = &first;
  size_t ignored;
  while (!take(r, close)) {
    if (out->count && !take(r, ','))
      return fail(r, close == ']' ? "expected ',' or ']'" : "expected ',' or '}'");
    link_t *link = tn_arena_array(r->arena, 1, sizeof *link);
    if (!link) return no_memory(r);
    if (close == '}') {
      if (!take(r, '"')) return fail(r, "expected the name of a member");
      if (!read_text(r, &link->name, &ignored)) return false;
      if (!take(r, ':')) return fail(r, "expected ':'");
    }
    if (!read_value(r, &link->value)) return false;
    *last = link;
    last = &link->next;
    out->count++;
  }
  return keep(r, first, out);
}

static bool read_value(reader_t *r, tn_json_t *out) {
  char c = peek(r);
  out->line = r->line;
  out->column = (uint32_t)(r->at - r->line_start + 1);
  if (c == '"') {
    out->kind = TN_JSON_TEXT;
    r->at++;
    return read_text(r, &out->text, &out->count);
  }
  if (c != '[' && c != '{')
    return c ? read_word(r, out) : fail(r, "expected a value of JSON, found the end");
  if (r->depth == DEPTH_MAX) return fail(r, "nested deeper than 64");
  out->kind = c == '[' ? TN_JSON_LIST : TN_JSON_OBJECT;
  r->depth++;
  r->at++;
  bool good = read_items(r, c == '[' ? ']' : '}', out);
  r->depth--;
  return good;
}

tenon_status_t tn_json_read(const char *data, size_t size, tn_arena_t *arena,
                            const tn_json_t **out_root) {
  if (!size) data = ""; /* of an empty file there is none */
  reader_t r = {data, data + size, data, 1, 0, arena, TENON_OK};
  tn_json_t *root = tn_arena_array(arena, 1, sizeof *root);
  if (!root) return tn_no_memory("a JSON text", 0);
  if (read_value(&r, root) && (peek(&r) || r.at < r.end))
    (void)fail(&r, "expected the end of the file");
  *out_root = root;
  return r.status;
}

/* looking at it */

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
  static const char *const names[] = {"null",   "a bool", "a number",
                                      "a text", "a list", "an object"};
  return names[kind];
}

tenon_status_t tn_json_fail(const tn_json_t *at, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  tenon_status_t status = tn_fail_list(TENON_INVALID, format, arguments);
  va_end(arguments);
  return tn_prefix(status, "line %u, column %u: ", (unsigned)at->line, (unsigned)at->column);
}
