/* Runs texts such as "mul(a, exp(b))", which call core operators. Called by lowerings. The texts
 * are our own, so an error in one is a defect of this bridge; it is reported, not assumed away. */
#include "lower/expression.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { ARGUMENTS_MAX = 8, ITEMS_MAX = 256 };

typedef struct text_t {
  hlo_lower_t *lower;
  const char *at;
  const tenon_edge_t *edges;
  size_t count;
} text_t;

static hlo_edges_t run_value(text_t *text);

static void skip_spaces(text_t *text) { text->at += strspn(text->at, " "); }

static bool take(text_t *text, char c) {
  skip_spaces(text);
  if (*text->at != c) return false;
  text->at++;
  return true;
}

static void fail_text(text_t *text) {
  hlo_wrong(text->lower, "the bridge cannot read its own text at '%.40s'; please report this",
            text->at);
}

static size_t word_size(const char *at) {
  size_t size = 0;
  while (isalnum((unsigned char)at[size]) || at[size] == '_')
    size++;
  return size;
}

static hlo_edges_t one_edge(hlo_lower_t *lower, tenon_edge_t edge) {
  tenon_edge_t *room = hlo_lower_take(lower, 1, sizeof *room);
  if (room) *room = edge;
  return (hlo_edges_t){room, room != NULL, false};
}

/* Returns the edge that a letter names. */
static tenon_edge_t letter_edge(text_t *text, char letter) {
  size_t index = (size_t)(letter - 'a');
  if (letter < 'a' || index >= text->count) fail_text(text);
  return hlo_stopped(text->lower) ? EDGE_NONE : text->edges[index];
}

/* Reads 1.5:a or 1:i64. */
static hlo_edges_t run_number(text_t *text) {
  char *stop;
  char name[40];
  tenon_dtype_t dtype = tenon_dtype(TENON_F32);
  double value = strtod(text->at, &stop);
  text->at = stop;
  if (!take(text, ':')) fail_text(text);
  size_t size = word_size(text->at);
  snprintf(name, sizeof name, "%.*s", (int)(size < 39 ? size : 39), text->at);
  if (size == 1)
    dtype = hlo_dtype(text->lower, letter_edge(text, *text->at));
  else if (!hlo_stopped(text->lower))
    (void)hlo_has_failed(text->lower, tenon_dtype_parse(name, &dtype));
  text->at += size;
  return one_edge(text->lower, hlo_scalar(text->lower, dtype, value));
}

/* Reads a list of integers, which becomes a constant, or of values. */
static hlo_edges_t run_list(text_t *text) {
  int64_t integers[ITEMS_MAX];
  tenon_edge_t items[ITEMS_MAX];
  int32_t count = 0;
  skip_spaces(text);
  bool is_integer = isdigit((unsigned char)*text->at) || *text->at == '-' || *text->at == ']';
  while (!hlo_stopped(text->lower) && !take(text, ']')) {
    if (count == ITEMS_MAX || !*text->at) fail_text(text);
    if (hlo_stopped(text->lower)) break;
    if (is_integer) {
      char *stop;
      integers[count++] = strtoll(text->at, &stop, 10);
      text->at = stop;
    } else {
      hlo_edges_t value = run_value(text);
      items[count++] = value.count ? value.edges[0] : EDGE_NONE;
    }
    (void)take(text, ',');
  }
  if (is_integer) return one_edge(text->lower, hlo_ints(text->lower, integers, count));
  tenon_edge_t *copy = hlo_lower_take(text->lower, (size_t)count, sizeof *copy);
  if (copy && count) memcpy(copy, items, (size_t)count * sizeof *copy);
  return (hlo_edges_t){copy, copy ? count : 0, true};
}

/* Reads the literal of an attribute, up to the comma or bracket after it, and sets it. */
static void set_literal(text_t *text, tenon_attrs_t *attrs, const char *name) {
  char literal[512];
  size_t size = 0;
  int depth = 0;
  skip_spaces(text);
  while (text->at[size] && (depth || !strchr(",)", text->at[size]))) {
    depth += text->at[size] == '[';
    depth -= text->at[size] == ']';
    size++;
  }
  if (size >= sizeof literal) fail_text(text);
  if (hlo_stopped(text->lower)) return;
  snprintf(literal, sizeof literal, "%.*s", (int)size, text->at);
  text->at += size;
  (void)hlo_has_failed(text->lower, tenon_attrs_parse(attrs, name, literal));
}

static void run_arguments(text_t *text, tenon_attrs_t *attrs, hlo_edges_t *operands,
                          int32_t *out_count) {
  *out_count = 0;
  while (!hlo_stopped(text->lower) && !take(text, ')')) {
    char name[60];
    size_t size = word_size(text->at);
    if (size && size < sizeof name && text->at[size] == '=') {
      memcpy(name, text->at, size);
      name[size] = 0;
      text->at += size + 1;
      set_literal(text, attrs, name);
    } else if (*out_count == ARGUMENTS_MAX || !*text->at) {
      fail_text(text);
    } else {
      operands[(*out_count)++] = run_value(text);
    }
    (void)take(text, ',');
  }
}

static hlo_edges_t run_call(text_t *text, size_t size) {
  char name[80];
  const tenon_op_t *op = NULL;
  tenon_attrs_t *attrs = NULL;
  hlo_edges_t operands[ARGUMENTS_MAX];
  int32_t count = 0;
  snprintf(name, sizeof name, "core::%.*s", (int)(size < 60 ? size : 60), text->at);
  text->at += size + 1;
  if (hlo_has_failed(text->lower, tenon_op_find(name, &op)) ||
      hlo_has_failed(text->lower, tenon_attrs_create(op, &attrs)))
    return (hlo_edges_t){NULL, 0, false};
  run_arguments(text, attrs, operands, &count);
  return hlo_call(text->lower, op, attrs, operands, count, 1);
}

static hlo_edges_t run_value(text_t *text) {
  const hlo_edges_t none = {NULL, 0, false};
  skip_spaces(text);
  if (hlo_stopped(text->lower)) return none;
  size_t size = word_size(text->at);
  if (take(text, '[')) return run_list(text);
  if (isdigit((unsigned char)*text->at) || *text->at == '-') return run_number(text);
  if (size && text->at[size] == '(') return run_call(text, size);
  if (take(text, '_')) return none;
  if (size != 1) {
    fail_text(text);
    return none;
  }
  return one_edge(text->lower, letter_edge(text, *text->at++));
}

tenon_edge_t hlo_run_text(hlo_lower_t *lower, const tenon_edge_t *edges, size_t count,
                          const char *string, tenon_edge_t *out_second) {
  text_t text = {lower, string, edges, count};
  if (out_second) *out_second = EDGE_NONE;
  hlo_edges_t first = run_value(&text);
  if (take(&text, ';') && out_second) {
    hlo_edges_t second = run_value(&text);
    if (second.count) *out_second = second.edges[0];
  }
  return hlo_stopped(lower) || !first.count ? EDGE_NONE : first.edges[0];
}

static hlo_edges_t run_format(hlo_lower_t *lower, const tenon_edge_t *edges, size_t count,
                              const char *format, va_list arguments) {
  char string[4096];
  text_t text = {lower, string, edges, count};
  int size = vsnprintf(string, sizeof string, format, arguments);
  if (size < 0 || (size_t)size >= sizeof string) hlo_missing(lower, "an attribute is too long");
  return run_value(&text);
}

hlo_edges_t hlo_run_all(hlo_lower_t *lower, const tenon_edge_t *edges, size_t count,
                        const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  hlo_edges_t results = run_format(lower, edges, count, format, arguments);
  va_end(arguments);
  return results;
}

tenon_edge_t hlo_run(hlo_lower_t *lower, const tenon_edge_t *edges, size_t count,
                     const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  hlo_edges_t results = run_format(lower, edges, count, format, arguments);
  va_end(arguments);
  return hlo_stopped(lower) || !results.count ? EDGE_NONE : results.edges[0];
}

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

int32_t hlo_text_operands(const char *text) {
  int32_t most = 0;
  for (const char *p = text; *p; p++) {
    bool is_inside = p > text && is_name(p[-1]);
    if (*p < 'a' || *p > 'f' || is_inside || is_name(p[1]) || p[1] == '(') continue;
    if (*p - 'a' + 1 > most) most = *p - 'a' + 1;
  }
  return most;
}
