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

/* Skips a string from its first quote to the character behind the last one. */
static const char *skip_quoted(const char *at) {
  for (at++; *at && *at != '\''; at++)
    if (*at == '\\' && at[1]) at++;
  return *at ? at + 1 : at;
}

/* Checks the words of a formula that stand for values. Names of operators, of arguments and of the
 * result in `grad.result` do not. */
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

/* Keeps a formula that is a single call. If memory runs out, the tape is used instead. */
static void direct_add(operator_t *self, const int32_t *targets, int32_t count, const char *body,
                       const char *end) {
  direct_t direct, *grown;
  if (!count || !direct_read(self, targets, count, body, end, &direct)) return;
  if (!(grown = realloc(self->directs, ((size_t)self->direct_count + 1) * sizeof *grown))) return;
  self->directs = grown;
  self->directs[self->direct_count++] = direct;
}

/* Reads one formula: names ":" ("none" | "error" | call). */
static void read_formula(operator_t *self, const char *at, const char *end) {
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

void operator_formulas(operator_t *self, const char *text) {
  const char *start = text;
  for (const char *at = text;; at++) {
    if (*at == '\'') at = skip_quoted(at) - 1;
    if (*at && *at != ';') continue;
    read_formula(self, start, at);
    if (!*at) return;
    start = at + 1;
  }
}
