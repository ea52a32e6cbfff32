/* Checks the gradient formulas of an operator for values that MXNet cannot provide. MXNet's
 * backward sees the inputs as they are after the call, so a formula must not read an input that the
 * call overwrites. The text was checked when its library was loaded. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "direct.h"

static bool is_word_character(char c) { return isalnum((unsigned char)c) || c == '_'; }

static const char *skip_spaces(const char *at) {
  while (isspace((unsigned char)*at))
    at++;
  return at;
}

static int32_t input_of(const operator_t *self, const char *name, size_t size) {
  for (int32_t i = 0; i < self->input_count; i++)
    if (strlen(self->inputs[i].name) == size && memcmp(self->inputs[i].name, name, size) == 0)
      return i;
  return -1;
}

static const char *skip_quoted(const char *at) { /* from the first quote to behind the last one */
  for (at++; *at && *at != '\''; at++)
    if (*at == '\\' && at[1]) at++;
  return *at ? at + 1 : at;
}

/* Words that stand for values: not names of operators or of their arguments, nor a result of
 * `grad.result`. */
static void check_values(operator_t *self, const char *at, const char *end) {
  while (at < end) {
    if (*at == '\'') {
      at = skip_quoted(at);
      continue;
    }
    const char *start = at;
    while (at < end && is_word_character(*at))
      at++;
    if (at == start) {
      at++;
      continue;
    }
    const char *next = skip_spaces(at);
    bool is_name = *next == '(' || *next == ':' || *next == '=' || start[-1] == '.' ||
                   start[-1] == ':' || start[-1] == '@';
    int32_t i = is_name ? -1 : input_of(self, start, (size_t)(at - start));
    if (i >= 0 && self->inputs[i].is_written && !*self->why)
      snprintf(self->why, sizeof self->why,
               "%.80s: its gradient reads %.80s as it was before the call wrote to it, but MXNet "
               "does not keep this value",
               self->full, self->inputs[i].name);
  }
}

/* Where there is no memory for it the rule is recorded. */
static void direct_add(operator_t *self, const int32_t *targets, int32_t count, const char *body,
                       const char *end) {
  direct_t direct, *grown;
  if (!count || !direct_read(self, targets, count, body, end, &direct)) return;
  if (!(grown = realloc(self->directs, ((size_t)self->direct_count + 1) * sizeof *grown))) return;
  self->directs = grown;
  self->directs[self->direct_count++] = direct;
}

/* names ":" ("none" | "error" | call) */
static void read_rule(operator_t *self, const char *at, const char *end) {
  const char *colon = memchr(at, ':', (size_t)(end - at));
  const char *body = skip_spaces(colon + 1);
  int32_t targets[OPERATOR_MOST];
  int32_t count = 0;
  bool is_none =
      strncmp(body, "none", 4) == 0 && !is_word_character(body[4]) && skip_spaces(body + 4) >= end;
  for (const char *word; (at = skip_spaces(at)) < colon; at = *at == ',' ? at + 1 : at) {
    for (word = at; is_word_character(*at);)
      at++;
    int32_t i = input_of(self, word, (size_t)(at - word));
    if (at == word) at++;
    if (i < 0) continue;
    targets[count++] = i;
    if (is_none)
      self->without |= (uint64_t)1 << i;
    else if (self->inputs[i].is_written && !*self->why)
      snprintf(self->why, sizeof self->why,
               "%.80s: it writes to %.80s, which therefore has no gradient in MXNet; declare this "
               "gradient as 'none' to export the operator",
               self->full, self->inputs[i].name);
  }
  if (is_none) return;
  check_values(self, body, end);
  direct_add(self, targets, count, body, end);
}

void operator_rules(operator_t *self, const char *text) {
  const char *start = text;
  for (const char *at = text;; at++) {
    if (*at == '\'') at = skip_quoted(at) - 1;
    if (*at && *at != ';') continue;
    read_rule(self, start, at);
    if (!*at) return;
    start = at + 1;
  }
}
