/* Evaluates an arithmetic expression by recursive descent; see formula.h. The levels are sum,
 * product and factor. */
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

static double parse_sum(parser_t *p);

static double fail_at(parser_t *p, const char *expected) {
  if (!p->failed)
    text_add(p->why, "'%s', column %d: expected %s", p->text, (int)(p->at - p->text) + 1, expected);
  p->failed = true;
  return 0;
}

static char next_character(parser_t *p) {
  while (isspace((unsigned char)*p->at))
    p->at++;
  return *p->at;
}

static double parse_name(parser_t *p) {
  char word[64];
  const char *begin = p->at;
  int64_t index = -1;
  double value = 0;
  size_t size = 0;
  while (isalnum((unsigned char)p->at[size]) || p->at[size] == '_')
    size++;
  snprintf(word, sizeof word, "%.*s", (int)size, p->at);
  p->at += size;
  if (next_character(p) == '[') {
    char *end = NULL;
    index = strtoll(++p->at, &end, 10);
    if (end == p->at || index < 0 || *end != ']') return fail_at(p, "an axis number and ]");
    p->at = end + 1;
  }
  if (size >= sizeof word || !p->find(p->context, word, index, &value)) {
    p->at = begin;
    return fail_at(p, "the name of an extent or of an argument, optionally with [axis]");
  }
  return value;
}

static double parse_factor(parser_t *p) {
  char *end = NULL;
  double value;
  if (next_character(p) == '(') {
    if (++p->depth > 50) return fail_at(p, "at most 50 nested brackets");
    p->at++;
    value = parse_sum(p);
    if (next_character(p) != ')') return fail_at(p, ")");
    p->depth--;
    p->at++;
    return value;
  }
  if (*p->at == '-') {
    p->at++;
    return ++p->depth > 50 ? fail_at(p, "at most 50 nested signs") : -parse_factor(p);
  }
  if (isalpha((unsigned char)*p->at) || *p->at == '_') return parse_name(p);
  value = strtod(p->at, &end);
  if (end == p->at) return fail_at(p, "a number, a name or (");
  p->at = end;
  return value;
}

static double parse_product(parser_t *p) {
  double value = parse_factor(p);
  while (!p->failed && (next_character(p) == '*' || *p->at == '/')) {
    const bool times = *p->at++ == '*';
    double other = parse_factor(p);
    value = times ? value * other : value / other;
  }
  return value;
}

static double parse_sum(parser_t *p) {
  double value = parse_product(p);
  while (!p->failed && (next_character(p) == '+' || *p->at == '-')) {
    const bool plus = *p->at++ == '+';
    double other = parse_product(p);
    value = plus ? value + other : value - other;
  }
  return value;
}

bool formula_value(const char *text, formula_fn find, void *context, double *out_value,
                   text_t *why) {
  parser_t p = {text, text, find, context, why, 0, false};
  *out_value = parse_sum(&p);
  if (!p.failed && next_character(&p)) fail_at(&p, "+ - * / or the end");
  return !p.failed;
}
