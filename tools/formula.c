/* Arithmetic in a text; see formula.h.  Recursive descent: sum, product, factor. */
#include "formula.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser_t {
  const char *text;
  const char *at;
  formula_fn find;
  void *context;
  text_t *why;
  int depth;
  bool failed;
} parser_t;

static double sum(parser_t *p);

static double fail(parser_t *p, const char *expected) {
  if (!p->failed)
    text_add(p->why, "'%s', column %d: expected %s", p->text, (int)(p->at - p->text) + 1, expected);
  p->failed = true;
  return 0;
}

static char next(parser_t *p) {
  while (isspace((unsigned char)*p->at))
    p->at++;
  return *p->at;
}

static double name(parser_t *p) {
  char word[64];
  const char *begin = p->at;
  int64_t index = -1;
  double value = 0;
  size_t size = 0;
  while (isalnum((unsigned char)p->at[size]) || p->at[size] == '_')
    size++;
  snprintf(word, sizeof word, "%.*s", (int)size, p->at);
  p->at += size;
  if (next(p) == '[') {
    char *end = NULL;
    index = strtoll(++p->at, &end, 10);
    if (end == p->at || index < 0 || *end != ']') return fail(p, "the number of an axis and ]");
    p->at = end + 1;
  }
  if (size >= sizeof word || !p->find(p->context, word, index, &value)) {
    p->at = begin;
    return fail(p, "an extent's name, or an argument's, perhaps with [axis]");
  }
  return value;
}

static double factor(parser_t *p) {
  char *end = NULL;
  double value;
  if (next(p) == '(') {
    if (++p->depth > 50) return fail(p, "fewer brackets");
    p->at++;
    value = sum(p);
    if (next(p) != ')') return fail(p, ")");
    p->depth--;
    p->at++;
    return value;
  }
  if (*p->at == '-') {
    p->at++;
    return ++p->depth > 50 ? fail(p, "fewer signs") : -factor(p);
  }
  if (isalpha((unsigned char)*p->at) || *p->at == '_') return name(p);
  value = strtod(p->at, &end);
  if (end == p->at) return fail(p, "a number, a name or (");
  p->at = end;
  return value;
}

static double product(parser_t *p) {
  double value = factor(p);
  while (!p->failed && (next(p) == '*' || *p->at == '/')) {
    const bool times = *p->at++ == '*';
    double other = factor(p);
    value = times ? value * other : value / other;
  }
  return value;
}

static double sum(parser_t *p) {
  double value = product(p);
  while (!p->failed && (next(p) == '+' || *p->at == '-')) {
    const bool plus = *p->at++ == '+';
    double other = product(p);
    value = plus ? value + other : value - other;
  }
  return value;
}

bool formula_value(const char *text, formula_fn find, void *context, double *out_value,
                   text_t *why) {
  parser_t p = {text, text, find, context, why, 0, false};
  *out_value = sum(&p);
  if (!p.failed && next(&p)) fail(&p, "+ - * / or the end");
  return !p.failed;
}
