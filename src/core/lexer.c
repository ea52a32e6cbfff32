/* The tokenizer for the declarations of an operator, their literals, and the messages about them.
 * Called by every parser in src/core. It reads the text once and allocates only what a caller
 * keeps; lexer.h states the invariant. */
#include "core/lexer.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "core/dtype.h"
#include "core/nearest.h"

/* tokens */

static inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
/* Letters, digits and '_': one bit for each character. */
static inline bool is_identifier_character(char c) {
  static const uint64_t bits[4] = {0x03ff000000000000, 0x07fffffe87fffffe, 0, 0};
  return bits[(unsigned char)c >> 6] >> (c & 63) & 1;
}
static inline bool is_letter(char c) { return is_identifier_character(c) && !is_digit(c); }
static inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* One of ()[],=;*?!@| which are always tokens of one character. */
static inline bool is_sign(char c) {
  static const uint64_t bits[4] = {0xa800171200000000, 0x1000000028000001, 0, 0};
  return bits[(unsigned char)c >> 6] >> (c & 63) & 1;
}

static const char *mark_bad(tn_lexer_t *lexer, const char *end, const char *why) {
  lexer->kind = TN_TOKEN_BAD;
  lexer->bad = why;
  return end;
}

static const char *read_number(tn_lexer_t *lexer, const char *at) {
  const char *start = at;
  bool has_digits = false;
  lexer->kind = TN_TOKEN_INT;
  if (*at == '-') at++;
  for (; is_digit(*at); at++)
    has_digits = true;
  if (*at == '.') {
    lexer->kind = TN_TOKEN_FLOAT;
    for (at++; is_digit(*at); at++)
      has_digits = true;
  }
  if (has_digits && (*at == 'e' || *at == 'E')) {
    lexer->kind = TN_TOKEN_FLOAT;
    at += at[1] == '-' || at[1] == '+' ? 2 : 1;
    if (!is_digit(*at)) has_digits = false;
    while (is_digit(*at))
      at++;
  }
  if (!has_digits && strncmp(start, "-inf", 4) == 0) {
    lexer->kind = TN_TOKEN_FLOAT;
    at = start + 4;
    has_digits = true;
  }
  if (has_digits && !is_identifier_character(*at)) return at;
  while (is_identifier_character(*at))
    at++;
  return mark_bad(lexer, at, "which is not a number");
}

static const char *read_string(tn_lexer_t *lexer, const char *at) {
  lexer->kind = TN_TOKEN_TEXT;
  for (at++; *at && *at != '\''; at++)
    if (*at == '\\' && at[1]) at++;
  return *at ? at + 1 : mark_bad(lexer, at, "a string without its closing quote");
}

static const char *skip_space(const tn_lexer_t *lexer, const char *at) {
  while (is_space(*at) || (lexer->is_file && *at == '#')) {
    if (*at == '#')
      at += strcspn(at, "\n");
    else
      at++;
  }
  return at;
}

/* Reads a token that only files have. */
static const char *read_of_file(tn_lexer_t *lexer, const char *at) {
  const bool is_value = *at == '%' && is_digit(at[1]);
  lexer->kind = is_value ? TN_TOKEN_VALUE : *at;
  if (!is_value && *at != '{' && *at != '}') return mark_bad(lexer, at + 1, "which is no token");
  for (at++; is_value && is_digit(*at); at++)
    continue;
  return at;
}

void tn_lexer_next(tn_lexer_t *lexer) {
  const char *at = skip_space(lexer, lexer->next);
  lexer->start = at;
  lexer->bad = NULL;
  if (is_letter(*at)) {
    lexer->kind = TN_TOKEN_NAME;
    while (is_identifier_character(*at))
      at++;
    if (at - lexer->start > TN_NAME_MAX) mark_bad(lexer, at, "a name of more than 255 bytes");
  } else if (is_sign(*at)) {
    lexer->kind = *at++;
  } else if (*at == '-' && at[1] == '>') {
    lexer->kind = TN_TOKEN_ARROW;
    at += 2;
  } else if (is_digit(*at) || *at == '-' || (*at == '.' && is_digit(at[1]))) {
    at = read_number(lexer, at);
  } else if (*at == '\'') {
    at = read_string(lexer, at);
  } else if (at[0] == ':' && at[1] == ':') {
    lexer->kind = TN_TOKEN_SCOPE;
    at += 2;
  } else if (at[0] == '.' && at[1] == '.' && at[2] == '.') {
    lexer->kind = TN_TOKEN_DOTS;
    at += 3;
  } else if (*at == ':' || *at == '.') {
    lexer->kind = *at++;
  } else if (*at == 0) {
    lexer->kind = TN_TOKEN_END;
  } else if (lexer->is_file) {
    at = read_of_file(lexer, at);
  } else {
    at = mark_bad(lexer, at + 1, "which no declaration may contain");
  }
  lexer->next = at;
  lexer->size = (size_t)(at - lexer->start);
}

void tn_lexer_open(tn_lexer_t *lexer, const char *what, const char *source) {
  *lexer = (tn_lexer_t){.what = what, .text = source, .next = source};
  tn_lexer_next(lexer);
}

void tn_lexer_open_file(tn_lexer_t *lexer, const char *source) {
  *lexer = (tn_lexer_t){.what = "text", .is_file = true, .text = source, .next = source};
  tn_lexer_next(lexer);
}

bool tn_lexer_take(tn_lexer_t *lexer, int kind) {
  if (lexer->kind != kind) return false;
  tn_lexer_next(lexer);
  return true;
}

bool tn_lexer_is(const tn_lexer_t *lexer, const char *word) {
  if (lexer->kind != TN_TOKEN_NAME) return false;
  size_t i = 0; /* words are short, and most differ in the first letter */
  while (i < lexer->size && lexer->start[i] == word[i])
    i++;
  return i == lexer->size && word[i] == 0;
}

tenon_status_t tn_lexer_expect(tn_lexer_t *lexer, int kind, const char *expected) {
  return tn_lexer_take(lexer, kind) ? TENON_OK : tn_lexer_expected(lexer, expected);
}

size_t tn_lexer_count(const tn_lexer_t *lexer, int close) {
  tn_lexer_t ahead = *lexer;
  size_t count = 1;
  for (; ahead.kind != close && ahead.kind != TN_TOKEN_END && ahead.kind != TN_TOKEN_BAD;
       tn_lexer_next(&ahead))
    count += ahead.kind == ',';
  return count;
}

/* failures */

const char *tn_escape(const char *data, size_t size, char *out_text, size_t capacity) {
  size_t used = 0;
  for (size_t i = 0; i < size; i++) {
    unsigned char c = (unsigned char)data[i];
    bool plain = c >= 0x20 && c < 0x7f;
    /* keep room for "..." while more follows */
    size_t need = plain ? 1 : 4;
    if (i + 1 < size) need += 3;
    if (used + need >= capacity) {
      used += (size_t)snprintf(out_text + used, capacity - used, "...");
      break;
    }
    if (plain)
      out_text[used++] = (char)c;
    else
      used += (size_t)snprintf(out_text + used, capacity - used, "\\x%02x", c);
  }
  out_text[used < capacity ? used : capacity - 1] = 0;
  return out_text;
}

size_t tn_lexer_line(const tn_lexer_t *lexer, const char *at) {
  size_t line = 1;
  for (const char *c = lexer->text; c < at; c++)
    line += *c == '\n';
  return line;
}

static tenon_status_t fail_at_position(const tn_lexer_t *lexer, const char *at,
                                       const char *message) {
  enum {
    BEFORE = 120,
    AFTER = 160,
  };
  char shown[4 * (BEFORE + AFTER) + 8];
  const char *line = lexer->text;
  size_t column = 1;
  for (const char *c = lexer->text; lexer->is_file && c < at; c++)
    if (*c == '\n') line = c + 1;
  for (const char *c = line; c < at; c++)
    column += ((unsigned char)*c & 0xc0) != 0x80; /* count characters, not bytes */
  if (lexer->is_file)
    return tn_fail(TENON_INVALID, "line %zu, column %zu: %s", tn_lexer_line(lexer, at), column,
                   message);
  size_t before = (size_t)(at - lexer->text);
  size_t cut = before > BEFORE ? before - BEFORE : 0;
  size_t size = before - cut;
  while (size < before - cut + AFTER && lexer->text[cut + size])
    size++;
  const char *head = cut ? "..." : "";
  const char *tail = lexer->text[cut + size] ? "..." : "";
  return tn_fail(TENON_INVALID, "%s '%s%s%s': column %zu: %s", lexer->what, head,
                 tn_escape(lexer->text + cut, size, shown, sizeof shown), tail, column, message);
}

static tenon_status_t fail_with_list(const tn_lexer_t *lexer, const char *at, const char *format,
                                     va_list arguments) {
  char message[1024];
  vsnprintf(message, sizeof message, format, arguments);
  return fail_at_position(lexer, at, message);
}

tenon_status_t tn_lexer_fail(const tn_lexer_t *lexer, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  tenon_status_t status = fail_with_list(lexer, lexer->start, format, arguments);
  va_end(arguments);
  return status;
}

tenon_status_t tn_lexer_fail_at(const tn_lexer_t *lexer, const char *at, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  tenon_status_t status = fail_with_list(lexer, at, format, arguments);
  va_end(arguments);
  return status;
}

tenon_status_t tn_lexer_expected(const tn_lexer_t *lexer, const char *expected) {
  char found[64];
  if (lexer->kind == TN_TOKEN_END)
    return tn_lexer_fail(lexer, "expected %s, found the end of the text", expected);
  tn_escape(lexer->start, lexer->size, found, sizeof found);
  if (lexer->kind == TN_TOKEN_TEXT)
    return tn_lexer_fail(lexer, "expected %s, found the string %s", expected, found);
  if (!lexer->bad) return tn_lexer_fail(lexer, "expected %s, found '%s'", expected, found);
  return tn_lexer_fail(lexer, "expected %s, found '%s', %s", expected, found, lexer->bad);
}

tenon_status_t tn_lexer_unknown(const tn_lexer_t *lexer, const char *expected,
                                const char *const *words, const char *(*more)(int index)) {
  char found[64];
  tn_nearest_t nearest;
  if (lexer->kind != TN_TOKEN_NAME) return tn_lexer_expected(lexer, expected);
  tn_nearest_begin(&nearest, lexer->start, lexer->size);
  for (; words && *words; words++)
    tn_nearest_offer(&nearest, *words);
  for (int i = 0; more && more(i); i++)
    tn_nearest_offer(&nearest, more(i));
  tn_escape(lexer->start, lexer->size, found, sizeof found);
  return tn_lexer_fail(lexer, "expected %s, found '%s'%s", expected, found,
                       tn_nearest_say(&nearest));
}

/* numbers */

/* strtod and printf use the decimal point of the locale. This function finds that character without
 * taking a lock. */
static size_t decimal_point(char out_point[16]) {
  char sample[32];
  int size = snprintf(sample, sizeof sample, "%.1f", 0.5); /* "0.5" */
  if (size < 3 || size > 16) {
    out_point[0] = '.';
    return 1;
  }
  memcpy(out_point, sample + 1, (size_t)size - 2);
  return (size_t)size - 2;
}

bool tn_number_parse(const char *source, size_t size, double *out_number) {
  static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  char buffer[160], point[16];
  uint64_t digits = 0;
  int exponent = 0;
  int stated = 0;
  bool is_negative = size && source[0] == '-';
  bool is_exact = true;
  bool after_point = false;
  size_t i = is_negative;
  for (; i < size && (is_digit(source[i]) || source[i] == '.'); i++) {
    if (source[i] == '.') {
      after_point = true;
    } else {
      if (digits > ((uint64_t)1 << 53) / 10 - 1) is_exact = false;
      if (is_exact) {
        digits = digits * 10 + (uint64_t)(source[i] - '0');
        exponent -= after_point;
      }
    }
  }
  if (i < size && (source[i] == 'e' || source[i] == 'E')) {
    bool is_minus = source[++i] == '-';
    if (is_minus || source[i] == '+') i++;
    for (; i < size && is_digit(source[i]) && stated < 10000; i++)
      stated = stated * 10 + (source[i] - '0');
    exponent += is_minus ? -stated : stated;
  }
  /* both factors are exact, so the result is rounded only once */
  if (is_exact && i == size && exponent >= -22 && exponent <= 22) {
    double value =
        exponent < 0 ? (double)digits / powers[-exponent] : (double)digits * powers[exponent];
    *out_number = is_negative ? -value : value;
    return true;
  }
  size_t point_size = decimal_point(point);
  size_t used = 0;
  for (i = 0; i < size; i++) {
    if (used + point_size + 1 >= sizeof buffer) return false;
    if (source[i] == '.') {
      memcpy(buffer + used, point, point_size);
      used += point_size;
    } else
      buffer[used++] = source[i];
  }
  buffer[used] = 0;
  *out_number = strtod(buffer, NULL);
  return (*out_number <= DBL_MAX && *out_number >= -DBL_MAX) || strcmp(buffer, "-inf") == 0;
}

void tn_number_print(double number, char out_text[32]) {
  char raw[48];
  if (number != number) {
    memcpy(out_text, "nan", 4);
    return;
  }
  for (int precision = 15; precision <= 17; precision++) {
    snprintf(raw, sizeof raw, "%.*g", precision, number);
    if (strtod(raw, NULL) == number) break;
  }
  size_t used = 0;
  for (const char *c = raw; *c && used + 4 < 32; c++) {
    bool is_known = is_identifier_character(*c) || *c == '-' || *c == '+';
    if (!is_known && c > raw && is_digit(c[-1])) /* first byte of the locale's decimal point */
      out_text[used++] = '.';
    if (is_known) out_text[used++] = *c;
  }
  out_text[used] = 0;
  if (!out_text[strspn(out_text, "-0123456789")]) /* otherwise the text would be read as an int */
    memcpy(out_text + used, ".0", 3);
}

static bool parse_integer(const char *source, size_t size, int64_t *out_number) {
  int64_t value = 0;
  bool is_negative = size && source[0] == '-';
  /* negative numbers, because INT64_MIN has no positive counterpart */
  for (size_t i = is_negative; i < size; i++)
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_sub_overflow(value, source[i] - '0', &value))
      return false;
  if (!is_negative && value == INT64_MIN) return false;
  *out_number = is_negative ? value : -value;
  return true;
}

/* names, strings, literals */

static tenon_status_t fail_lexer_memory(const tn_lexer_t *lexer, size_t size) {
  return tn_no_memory(lexer->what, size);
}

tenon_status_t tn_lexer_name(tn_lexer_t *lexer, tn_arena_t *arena, const char *expected,
                             const char **out_name) {
  if (lexer->kind != TN_TOKEN_NAME) return tn_lexer_expected(lexer, expected);
  if (!(*out_name = tn_arena_text(arena, lexer->start, lexer->size)))
    return fail_lexer_memory(lexer, lexer->size);
  tn_lexer_next(lexer);
  return TENON_OK;
}

tenon_status_t tn_lexer_operator(tn_lexer_t *lexer, tn_arena_t *arena, const char *ns,
                                 const char **out_full) {
  char full[3 * TN_NAME_MAX + 8];
  size_t used = 0;
  tn_lexer_t ahead = *lexer;
  tn_lexer_next(&ahead);
  if (lexer->kind == TN_TOKEN_NAME && ahead.kind != TN_TOKEN_SCOPE && ns) {
    size_t size = strlen(ns);
    if (size > TN_NAME_MAX)
      return tn_lexer_fail(lexer, "the namespace has more than %d bytes", TN_NAME_MAX);
    memcpy(full, ns, size);
    memcpy(full + size, "::", 2);
    used = size + 2;
  }
  for (const char *expected = "an operator";; expected = "a name") {
    if (lexer->kind != TN_TOKEN_NAME) return tn_lexer_expected(lexer, expected);
    memcpy(full + used, lexer->start, lexer->size);
    used += lexer->size;
    tn_lexer_next(lexer);
    bool has_overload = memchr(full, '.', used) != NULL;
    bool is_scope = lexer->kind == TN_TOKEN_SCOPE && !has_overload && !memchr(full, ':', used);
    if (!is_scope && (lexer->kind != '.' || has_overload)) break;
    memcpy(full + used, lexer->start, lexer->size);
    used += lexer->size;
    tn_lexer_next(lexer);
  }
  *out_full = tn_arena_text(arena, full, used);
  return *out_full ? TENON_OK : fail_lexer_memory(lexer, used);
}

/* Reads an escape sequence. Returns the number of its characters, or 0 if there is none like it. */
static size_t read_escape(const char *at, const char *end, char *out_character) {
  if (at[1] == '\\' || at[1] == '\'' || at[1] == 'n') {
    *out_character = at[1] == 'n' ? '\n' : at[1];
    return 2;
  }
  if (at[1] != 'x' || end - at < 4 || tn_hex_digit(at[2]) < 0 || tn_hex_digit(at[3]) < 0) return 0;
  *out_character = (char)(tn_hex_digit(at[2]) * 16 + tn_hex_digit(at[3]));
  return 4;
}

tenon_status_t tn_lexer_text(tn_lexer_t *lexer, tn_arena_t *arena, const char **out_text,
                             uint32_t *out_size) {
  if (lexer->kind != TN_TOKEN_TEXT) return tn_lexer_expected(lexer, "a 'string' in single quotes");
  if (lexer->size > UINT32_MAX) return tn_lexer_fail(lexer, "a string of more than 4 GiB");
  char *copy = tn_arena_text(arena, lexer->start + 1, lexer->size - 2);
  if (!copy) return fail_lexer_memory(lexer, lexer->size);
  uint32_t size = 0;
  const char *end = lexer->start + lexer->size - 1;
  for (const char *c = lexer->start + 1; c < end; size++) {
    const size_t used = *c == '\\' ? read_escape(c, end, &copy[size]) : 1;
    if (*c != '\\') copy[size] = *c;
    if (!used)
      return tn_lexer_fail_at(lexer, c,
                              "unknown escape sequence: expected \\\\, \\', \\n or \\x and two "
                              "hexadecimal digits");
    c += used;
  }
  copy[size] = 0;
  *out_text = copy;
  *out_size = size;
  tn_lexer_next(lexer);
  return TENON_OK;
}

static tenon_status_t fail_not_literal(const tn_lexer_t *lexer) {
  const char *expected = "a literal (True, False, None, a number, a 'string', a dtype, a [list])";
  static const char *const literals[] = {"True", "False", "None", "inf", "nan", NULL};
  return tn_lexer_unknown(lexer, expected, literals, tn_dtype_word);
}

static tenon_status_t literal_name(tn_lexer_t *lexer, tenon_value_t *out) {
  *out = (tenon_value_t){0};
  if (tn_lexer_is(lexer, "True") || tn_lexer_is(lexer, "False")) {
    out->kind = TENON_KIND_BOOL;
    out->as.i = lexer->size == 4;
  } else if (tn_lexer_is(lexer, "inf") || tn_lexer_is(lexer, "nan")) {
    out->kind = TENON_KIND_FLOAT;
    out->as.f = lexer->start[0] == 'i' ? (double)INFINITY : (double)NAN;
  } else if (tn_dtype_parse_value(lexer->start, lexer->size, &out->as.dtype))
    out->kind = TENON_KIND_DTYPE;
  else if (!tn_lexer_is(lexer, "None"))
    return fail_not_literal(lexer);
  tn_lexer_next(lexer);
  return TENON_OK;
}

static tenon_status_t literal_item(tn_lexer_t *lexer, tn_arena_t *arena, tenon_value_t *out) {
  *out = (tenon_value_t){0};
  switch (lexer->kind) {
  case TN_TOKEN_TEXT:
    out->kind = TENON_KIND_STR;
    return tn_lexer_text(lexer, arena, &out->as.s, &out->count);
  case TN_TOKEN_INT:
    out->kind = TENON_KIND_INT;
    if (!parse_integer(lexer->start, lexer->size, &out->as.i))
      return tn_lexer_fail(lexer,
                           "the integer does not fit 64 bits (write a float with a decimal point)");
    break;
  case TN_TOKEN_FLOAT:
    out->kind = TENON_KIND_FLOAT;
    if (!tn_number_parse(lexer->start, lexer->size, &out->as.f))
      return tn_lexer_fail(lexer, "the number is too large or too long for a 64-bit float");
    break;
  default:
    return literal_name(lexer, out);
  }
  tn_lexer_next(lexer);
  return TENON_OK;
}

/* The kind of a list of items of this kind; NONE if a list cannot hold them. */
static uint32_t list_kind(uint32_t kind) {
  switch (kind) {
  case TENON_KIND_STR:
    return TENON_KIND_STRS;
  case TENON_KIND_INT:
    return TENON_KIND_INTS;
  case TENON_KIND_FLOAT:
    return TENON_KIND_FLOATS;
  default:
    return TENON_KIND_NONE;
  }
}

static tenon_status_t literal_list(tn_lexer_t *lexer, tn_arena_t *arena, tenon_value_t *out) {
  size_t room = tn_lexer_count(lexer, ']');
  if (room > UINT32_MAX) return tn_lexer_fail(lexer, "a list of more than 2^32 items");
  tenon_string_t *strs = NULL;
  int64_t *ints = NULL;
  double *floats = NULL;
  uint32_t kind = TENON_KIND_INTS;
  uint32_t count = 0;
  while (lexer->kind != ']') {
    tenon_value_t item;
    const char *at = lexer->start;
    if (count) TN_TRY(tn_lexer_expect(lexer, ',', "',' or ']'"));
    if (count) at = lexer->start;
    TN_TRY(literal_item(lexer, arena, &item));
    uint32_t list = list_kind(item.kind);
    if (list == TENON_KIND_NONE)
      return tn_lexer_fail_at(lexer, at, "expected a list of numbers or a list of strings");
    if (!count) {
      void *items =
          tn_arena_array(arena, room, list == TENON_KIND_STRS ? sizeof *strs : sizeof *ints);
      if (!items) return fail_lexer_memory(lexer, room * sizeof *strs);
      kind = list;
      strs = items;
      ints = items;
      floats = items;
    }
    /* [1, 2.5]: widen in place, the element sizes are equal */
    if (kind == TENON_KIND_INTS && list == TENON_KIND_FLOATS) {
      for (uint32_t i = 0; i < count; i++) {
        double widened = (double)ints[i];
        memcpy(&floats[i], &widened, sizeof widened);
      }
      kind = TENON_KIND_FLOATS;
    }
    if (kind != list && !(kind == TENON_KIND_FLOATS && list == TENON_KIND_INTS))
      return tn_lexer_fail_at(lexer, at, "a list cannot contain both numbers and strings");
    if (kind == TENON_KIND_STRS)
      strs[count] = (tenon_string_t){item.as.s, item.count};
    else if (kind == TENON_KIND_INTS)
      ints[count] = item.as.i;
    else
      floats[count] = list == TENON_KIND_INTS ? (double)item.as.i : item.as.f;
    count++;
  }
  *out = (tenon_value_t){.kind = kind, .count = count, .as.ints = ints};
  tn_lexer_next(lexer);
  return TENON_OK;
}

tenon_status_t tn_lexer_literal(tn_lexer_t *lexer, tn_arena_t *arena, tenon_value_t *out_value) {
  return tn_lexer_take(lexer, '[') ? literal_list(lexer, arena, out_value)
                                   : literal_item(lexer, arena, out_value);
}
