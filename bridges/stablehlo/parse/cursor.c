/* Characters and words of a program's text. Called by all other files of the parser. Invariant: the
 * position never passes the end of the text, and a failure states a line and a column. */
#include "parse/cursor.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* failures */

void hlo_place(const char *begin, const char *at, int *out_line, int *out_column) {
  int line = 1;
  const char *start = begin;
  for (const char *p = begin; p < at; p++)
    if (*p == '\n') {
      line++;
      start = p + 1;
    }
  *out_line = line;
  *out_column = (int)(at - start) + 1;
}

bool hlo_failed(const hlo_cursor_t *cursor) { return cursor->status != TENON_OK; }

static void fail_list(hlo_cursor_t *cursor, const char *at, const char *format, va_list arguments) {
  int line, column;
  hlo_place(cursor->begin, at, &line, &column);
  (void)tn_fail_list(TENON_INVALID, format, arguments);
  cursor->status = tn_prefix(TENON_INVALID, "line %d, column %d: ", line, column);
}

void hlo_fail_at(hlo_cursor_t *cursor, const char *at, const char *format, ...) {
  va_list arguments;
  if (hlo_failed(cursor)) return;
  va_start(arguments, format);
  fail_list(cursor, at, format, arguments);
  va_end(arguments);
}

/* Copies what comes next, for a message: a word, or some characters. */
static void describe_next(const hlo_cursor_t *cursor, char *out, size_t room) {
  size_t size = 0;
  const char *at = cursor->at;
  if (at >= cursor->end) {
    snprintf(out, room, "the end of the file");
    return;
  }
  while (at + size < cursor->end && size < 30 && !isspace((unsigned char)at[size]) &&
         (size == 0 || !strchr("()<>[]{},:=", at[size])))
    size++;
  if (!size) size = 1;
  snprintf(out, room, "'%.*s'", (int)size, at);
  for (char *p = out; *p; p++)
    if (!isprint((unsigned char)*p)) *p = ' ';
}

void hlo_expected(hlo_cursor_t *cursor, const char *format, ...) {
  char what[300], found[60];
  va_list arguments;
  if (hlo_failed(cursor)) return;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  (void)hlo_peek(cursor);
  describe_next(cursor, found, sizeof found);
  hlo_fail_at(cursor, cursor->at,
              "expected %s, found %s: write the program again with jax.jit(f).lower(...).as_text() "
              "or with jax.export",
              what, found);
}

/* memory */

void *hlo_take(hlo_cursor_t *cursor, size_t count, size_t size) {
  if (hlo_failed(cursor)) return NULL;
  void *room = tn_arena_array(cursor->arena, count ? count : 1, size);
  if (!room) cursor->status = tn_no_memory("a program", 0);
  return room;
}

const char *hlo_take_text(hlo_cursor_t *cursor, const char *text, size_t size) {
  const char *copy = hlo_failed(cursor) ? NULL : tn_arena_text(cursor->arena, text, size);
  if (!copy && !hlo_failed(cursor)) cursor->status = tn_no_memory("a program", 0);
  return copy ? copy : "";
}

void *hlo_list_add(hlo_cursor_t *cursor, hlo_list_t *list, size_t size) {
  if (list->count == HLO_LIST_MAX)
    hlo_fail_at(cursor, cursor->at, "a list has more than %d items, which is not supported",
                HLO_LIST_MAX);
  if (list->count == list->capacity) {
    int32_t capacity = list->capacity ? 2 * list->capacity : 4;
    char *items = hlo_take(cursor, (size_t)capacity, size);
    if (!items) return NULL;
    if (list->count) memcpy(items, list->items, (size_t)list->count * size);
    list->items = items;
    list->capacity = capacity;
  }
  if (hlo_failed(cursor)) return NULL;
  return (char *)list->items + (size_t)list->count++ * size;
}

bool hlo_enter(hlo_cursor_t *cursor) {
  if (cursor->depth >= HLO_DEPTH_MAX)
    hlo_fail_at(cursor, cursor->at, "more than %d levels of nesting, which are not supported",
                HLO_DEPTH_MAX);
  cursor->depth++;
  return !hlo_failed(cursor);
}

void hlo_leave(hlo_cursor_t *cursor) { cursor->depth--; }

/* characters */

char hlo_peek(hlo_cursor_t *cursor) {
  if (hlo_failed(cursor)) return 0;
  while (cursor->at < cursor->end) {
    char c = *cursor->at;
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      cursor->at++;
    } else if (c == '/' && cursor->at[1] == '/') {
      while (cursor->at < cursor->end && *cursor->at != '\n')
        cursor->at++;
    } else {
      return c;
    }
  }
  return 0;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || (c && strchr("_.$-", c)); }

bool hlo_sees(hlo_cursor_t *cursor, const char *text) {
  size_t size = strlen(text);
  (void)hlo_peek(cursor);
  if (hlo_failed(cursor) || (size_t)(cursor->end - cursor->at) < size) return false;
  if (memcmp(cursor->at, text, size) != 0) return false;
  return !isalnum((unsigned char)text[size - 1]) || !is_word(cursor->at[size]);
}

bool hlo_accept(hlo_cursor_t *cursor, const char *text) {
  if (!hlo_sees(cursor, text)) return false;
  cursor->at += strlen(text);
  return true;
}

bool hlo_expect(hlo_cursor_t *cursor, const char *text) {
  if (hlo_accept(cursor, text)) return true;
  hlo_expected(cursor, "'%s'", text);
  return false;
}

/* words */

const char *hlo_word(hlo_cursor_t *cursor, const char *what) {
  char c = hlo_peek(cursor);
  const char *start = cursor->at;
  if (!isalpha((unsigned char)c) && c != '_') {
    hlo_expected(cursor, "%s", what);
    return "";
  }
  /* A '-' ends the word if it begins an arrow. */
  while (is_word(*cursor->at) && !(cursor->at[0] == '-' && cursor->at[1] == '>'))
    cursor->at++;
  return hlo_take_text(cursor, start, (size_t)(cursor->at - start));
}

const char *hlo_name(hlo_cursor_t *cursor, char sign, const char *what) {
  if (hlo_peek(cursor) != sign) {
    hlo_expected(cursor, "%s", what);
    return "";
  }
  const char *start = ++cursor->at;
  if (sign == '@' && *cursor->at == '"') return hlo_text(cursor, NULL);
  while (is_word(*cursor->at) && !(cursor->at[0] == '-' && cursor->at[1] == '>'))
    cursor->at++;
  if (cursor->at == start) hlo_expected(cursor, "%s", what);
  return hlo_take_text(cursor, start, (size_t)(cursor->at - start));
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* Reads one character of a string, after a backslash. */
static char escaped(hlo_cursor_t *cursor) {
  char c = *cursor->at++;
  int high = hex_digit(c);
  int low = high < 0 ? -1 : hex_digit(*cursor->at);
  if (low >= 0) {
    cursor->at++;
    return (char)(high * 16 + low);
  }
  if (c == 'n') return '\n';
  return c == 't' ? '\t' : c;
}

const char *hlo_text(hlo_cursor_t *cursor, size_t *out_size) {
  size_t size = 0;
  if (hlo_peek(cursor) != '"') {
    hlo_expected(cursor, "a string");
    return "";
  }
  const char *start = ++cursor->at;
  const char *stop = start;
  while (stop < cursor->end && *stop != '"' && *stop != '\n')
    stop += *stop == '\\' && stop + 1 < cursor->end ? 2 : 1;
  if (stop >= cursor->end || *stop != '"') {
    hlo_fail_at(cursor, start, "a string has no end: the file is damaged");
    return "";
  }
  char *out = hlo_take(cursor, (size_t)(stop - start) + 1, 1);
  while (out && cursor->at < stop) {
    char c = *cursor->at++;
    out[size++] = c == '\\' ? escaped(cursor) : c;
  }
  if (!out) return "";
  cursor->at = stop + 1;
  if (out_size) *out_size = size;
  return out;
}

bool hlo_integer(hlo_cursor_t *cursor, int64_t *out_value) {
  char c = hlo_peek(cursor);
  const char *start = cursor->at;
  uint64_t value = 0;
  bool is_negative = c == '-';
  *out_value = 0;
  if (is_negative) cursor->at++;
  if (!isdigit((unsigned char)*cursor->at)) {
    cursor->at = start;
    hlo_expected(cursor, "an integer");
    return false;
  }
  while (isdigit((unsigned char)*cursor->at)) {
    uint64_t digit = (uint64_t)(*cursor->at++ - '0');
    if (value > (UINT64_MAX - digit) / 10) {
      hlo_fail_at(cursor, start, "an integer does not fit into 64 bits: the file is damaged");
      return false;
    }
    value = value * 10 + digit;
  }
  *out_value = (int64_t)(is_negative ? 0 - value : value);
  return true;
}

/* parts without a meaning here */

/* Skips a string without a copy of it. */
static void skip_text(hlo_cursor_t *cursor) {
  const char *start = cursor->at++;
  while (cursor->at < cursor->end && *cursor->at != '"' && *cursor->at != '\n')
    cursor->at += *cursor->at == '\\' && cursor->at + 1 < cursor->end ? 2 : 1;
  if (cursor->at < cursor->end && *cursor->at == '"')
    cursor->at++;
  else
    hlo_fail_at(cursor, start, "a string has no end: the file is damaged");
}

void hlo_skip_bracket(hlo_cursor_t *cursor) {
  static const char open[] = "([{<";
  static const char close[] = ")]}>";
  char stack[4 * HLO_DEPTH_MAX];
  int depth = 0;
  const char *start = cursor->at;
  while (!hlo_failed(cursor)) {
    char c = hlo_peek(cursor);
    const char *opening = c ? strchr(open, c) : NULL;
    if (!c || depth == (int)sizeof stack) {
      hlo_fail_at(cursor, start, "a bracket has no end: the file is damaged");
    } else if (c == '"') {
      skip_text(cursor);
    } else if (c == '-' && cursor->at[1] == '>') {
      cursor->at += 2;
    } else if (opening) {
      stack[depth++] = close[opening - open];
      cursor->at++;
    } else if (strchr(close, c)) {
      if (!depth || stack[depth - 1] != c) {
        hlo_expected(cursor, "'%c'", depth ? stack[depth - 1] : '(');
        return;
      }
      cursor->at++;
      if (--depth == 0) return;
    } else {
      cursor->at++;
    }
  }
}

const char *hlo_location(hlo_cursor_t *cursor) {
  const char *name = NULL;
  if (!hlo_accept(cursor, "loc")) return NULL;
  if (hlo_peek(cursor) != '(') {
    hlo_expected(cursor, "'(' after loc");
    return NULL;
  }
  const char *start = cursor->at;
  if (cursor->at[1] == '"') {
    cursor->at++;
    name = hlo_text(cursor, NULL);
    if (hlo_peek(cursor) != ')') name = NULL;
    cursor->at = start;
  }
  hlo_skip_bracket(cursor);
  return name;
}
