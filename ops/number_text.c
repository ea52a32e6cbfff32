/* Numbers as text; see number_text.h. The C library converts; this file keeps the locale's decimal
 * point out and finds the shortest digits.
 * Invariant: nothing is allocated; any thread may call. */
#include "number_text.h"
#include "simd/math.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  LONGEST = 500,
  POINT = 8,
};

static int is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* The decimal point of this locale. */
static size_t locale_point(char out[POINT]) {
  char sample[16];
  int n = snprintf(sample, sizeof sample, "%.1f", 1.5);
  size_t size = n > 2 && n - 2 < POINT ? (size_t)(n - 2) : 1;
  memcpy(out, n > 2 ? sample + 1 : ".", size);
  return size;
}

static int same_word(const char *text, uint64_t size, const char *word) {
  if (size != strlen(word)) return 0;
  for (uint64_t i = 0; i < size; i++)
    if ((text[i] | 0x20) != word[i]) return 0;
  return 1;
}
/* Recognises inf, nan and the like. Returns 0 for any other word. */
static int word_number(const char *text, uint64_t size, double *out) {
  static const struct {
    const char *word;
    double value;
  } words[] = {{"inf", INFINITY}, {"infinity", INFINITY}, {"nan", NAN}, {"true", 1}, {"false", 0}};
  int sign = size > 0 && (*text == '-' || *text == '+');
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (same_word(text + sign, size - (uint64_t)sign, words[i].word)) {
      *out = sign && *text == '-' ? -words[i].value : words[i].value;
      return 1;
    }
  return 0;
}

static tenon_string_t trimmed_text(tenon_string_t text) {
  while (text.size && is_space(text.data[0])) {
    text.data++;
    text.size--;
  }
  while (text.size && is_space(text.data[text.size - 1]))
    text.size--;
  return text;
}

/* Copies the number with the locale's decimal point. Returns 0 if its characters cannot form a
 * decimal number. */
static int to_locale(tenon_string_t text, char out[LONGEST + POINT + 1]) {
  char dot[POINT];
  size_t dot_size = locale_point(dot);
  size_t n = 0;
  int points = 0;
  if (text.size == 0 || text.size > LONGEST) return 0;
  for (uint64_t i = 0; i < text.size; i++) {
    char c = text.data[i];
    if (c == '.' && points++ == 0) {
      memcpy(out + n, dot, dot_size);
      n += dot_size;
    } else if (is_digit(c) || c == '+' || c == '-' || c == 'e' || c == 'E') {
      out[n++] = c;
    } else {
      return 0;
    }
  }
  out[n] = 0;
  return 1;
}

int core_number_of_text(tenon_string_t text, double *out) {
  char buffer[LONGEST + POINT + 1], *end;
  text = trimmed_text(text);
  if (word_number(text.data, text.size, out)) return 1;
  if (!to_locale(text, buffer)) return 0;
  *out = strtod(buffer, &end);
  return *end == 0;
}

int core_single_of_text(tenon_string_t text, float *out) {
  char buffer[LONGEST + POINT + 1], *end;
  double word;
  text = trimmed_text(text);
  if (word_number(text.data, text.size, &word)) {
    *out = (float)word;
    return 1;
  }
  if (!to_locale(text, buffer)) return 0;
  *out = strtof(buffer, &end);
  return *end == 0;
}

int core_integer_of_text(tenon_string_t text, int64_t *out) {
  tenon_string_t t = trimmed_text(text);
  int negative = t.size && *t.data == '-';
  uint64_t i = t.size && (*t.data == '-' || *t.data == '+');
  uint64_t value = 0;
  double real;
  for (uint64_t first = i; i < t.size && is_digit(t.data[i]) && i - first < 20; i++) {
    uint64_t digit = (uint64_t)(t.data[i] - '0');
    if (value > (UINT64_MAX - digit) / 10) break;
    value = value * 10 + digit;
    if (i + 1 == t.size) {
      *out = (int64_t)(negative ? 0 - value : value);
      return 1;
    }
  }
  if (!core_number_of_text(text, &real)) return 0;
  /* A fraction, an exponent, or out of range: NaN becomes 0, others are clamped to the range of
   * int64_t. */
  *out = tn_int64(real);
  return 1;
}

/* Turns "1.234e+05", as C writes it, into plain digits where that is short. */
static uint64_t lay_out(const char *scientific, char *out) {
  char digits[24];
  int count = 0;
  int exponent;
  uint64_t n = 0;
  const char *at = scientific;
  if (*at == '-') out[n++] = *at++;
  for (; *at && *at != 'e'; at++)
    if (is_digit(*at) && count < (int)sizeof digits) digits[count++] = *at;
  exponent = *at ? atoi(at + 1) : 0;
  while (count > 1 && digits[count - 1] == '0')
    count--;
  if (exponent < -4 || exponent >= 16) {
    out[n++] = digits[0];
    if (count > 1) out[n++] = '.';
    memcpy(out + n, digits + 1, (size_t)(count - 1));
    n += (uint64_t)(count - 1);
    return n + (uint64_t)snprintf(out + n, 8, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
  }
  if (exponent < 0) {
    out[n++] = '0';
    out[n++] = '.';
  }
  for (int i = exponent + 1; i < 0; i++)
    out[n++] = '0';
  for (int i = 0; i < count || i <= exponent; i++) {
    if (i == exponent + 1 && i > 0) out[n++] = '.';
    out[n++] = i < count ? digits[i] : '0';
  }
  if (exponent >= 0 && count <= exponent + 1) {
    out[n++] = '.';
    out[n++] = '0';
  }
  return n;
}

uint64_t core_number_to_text(double x, core_narrow_fn narrow, const void *context,
                             char out[NUMBER_TEXT_SIZE]) {
  char buffer[48];
  const char *word = NULL;
  if (isnan(x)) word = "NaN";
  if (isinf(x)) word = x > 0 ? "INF" : "-INF";
  if (word) {
    memcpy(out, word, strlen(word));
    return strlen(word);
  }
  for (int precision = 0; precision < 17; precision++) {
    snprintf(buffer, sizeof buffer, "%.*e", precision, x);
    if (narrow(strtod(buffer, NULL), context) == x) break;
  }
  return lay_out(buffer, out);
}
