/* Interprets the text of a lowering (its language is described in lowering.h) on a node, in one
 * pass from left to right that adds calls while it reads. Called by node.c for each node that has a
 * lowering, by the functions of lower_*.c for parts of their results, and by model.c and rank.c for
 * the marks of inputs. Invariant: a malformed text is a bug of Tenon; the interpreter then fails
 * with an error that quotes the text, and never reads beyond its end. */
#include "lowering.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attribute.h"

enum {
  NAMES_MAX = 40,
  OPERANDS_MAX = 64,
  WORD_MAX_SIZE = 64,
  TEXT_MAX_SIZE = 2048,
};

typedef struct name_t { /* a parameter, or a value that a statement defines */
  const char *text;
  size_t size;
  values_t values;
} name_t;

typedef struct run_t {
  lower_t *lower;
  const char *text;
  const char *at;
  name_t names[NAMES_MAX];
  size_t name_count;
} run_t;

typedef struct word_t {
  char text[WORD_MAX_SIZE];
  size_t size;
} word_t;

static const values_t nothing = {NULL, 0, false};

/* reading */

static bool stopped(const run_t *run) { return lower_stopped(run->lower); }

static void malformed(run_t *run, const char *expected) {
  lower_fail(run->lower, "our lowering '%s' is wrong at column %d: expected %s", run->text,
             (int)(run->at - run->text) + 1, expected);
}

static char peek(run_t *run) {
  while (*run->at == ' ')
    run->at++;
  return *run->at;
}

static bool take_character(run_t *run, char c) {
  if (peek(run) != c) return false;
  run->at++;
  return true;
}

static void need(run_t *run, char c) {
  char text[] = {'\'', c, '\'', 0};
  if (!stopped(run) && !take_character(run, c)) malformed(run, text);
}

static bool is_word_character(char c) { return isalnum((unsigned char)c) || c == '_'; }

static word_t take_word(run_t *run) {
  word_t word = {"", 0};
  (void)peek(run);
  while (is_word_character(*run->at) && word.size + 1 < WORD_MAX_SIZE)
    word.text[word.size++] = *run->at++;
  word.text[word.size] = 0;
  if (!word.size || is_word_character(*run->at)) malformed(run, "a name");
  return word;
}

/* Reads a literal of the schema language: 'text', a number, True or [1, 2]. Quotes are removed. */
static void take_literal(run_t *run, char *out_text, size_t room) {
  char open = peek(run);
  char close = open == '\'' ? '\'' : 0;
  if (open == '[') close = ']';
  const char *begin = run->at += open == '\'';
  if (close) {
    while (*run->at && *run->at != close)
      run->at++;
    run->at += close == ']' && *run->at;
  } else {
    while (is_word_character(*run->at) || (*run->at && strchr("+-.", *run->at)))
      run->at++;
  }
  size_t size = (size_t)(run->at - begin);
  if (size >= room) {
    malformed(run, "a shorter literal");
    size = 0;
  }
  memcpy(out_text, begin, size);
  out_text[size] = 0;
  if (close == '\'') need(run, '\'');
}

static const values_t *find_name(const run_t *run, const word_t *word) {
  for (size_t i = 0; i < run->name_count; i++)
    if (run->names[i].size == word->size && memcmp(run->names[i].text, word->text, word->size) == 0)
      return &run->names[i].values;
  return NULL;
}

static void add_name(run_t *run, const char *text, size_t size, values_t values) {
  if (run->name_count == NAMES_MAX)
    malformed(run, "fewer names");
  else
    run->names[run->name_count++] = (name_t){text, size, values};
}

static values_t one(run_t *run, tenon_edge_t edge) {
  tenon_edge_t *room = lower_take(run->lower, 1, sizeof *room);
  if (!room) return nothing;
  *room = edge;
  return (values_t){room, 1, false};
}

/* values */

static values_t take_value(run_t *run);

/* Reads "x", which stands for the dtype of this value, or the name of a dtype such as "f32". */
static tenon_dtype_t take_dtype(run_t *run) {
  tenon_dtype_t dtype = {0, 0, 0};
  word_t word = take_word(run);
  const values_t *values = find_name(run, &word);
  if (values && values->count) return lower_dtype(run->lower, values->edges[0]);
  if (tenon_dtype_parse(word.text, &dtype) != TENON_OK) malformed(run, "a value or a dtype");
  return dtype;
}

static values_t take_constant(run_t *run) {
  char literal[WORD_MAX_SIZE] = "";
  double number;
  if (take_character(run, '@')) {
    word_t name = take_word(run);
    if (take_character(run, '?')) take_literal(run, literal, sizeof literal);
    if (!*literal && !attr_text(run->lower, name.text, NULL))
      lower_fail(run->lower, "attribute '%s' is missing", name.text);
    number = attr_float(run->lower, name.text, strtod(literal, NULL));
  } else {
    take_literal(run, literal, sizeof literal);
    number = strtod(literal, NULL);
  }
  need(run, ':');
  return one(run, stopped(run) ? EDGE_NONE : lower_scalar(run->lower, take_dtype(run), number));
}

/* Reads the items of a list of numbers; the "[" has been read. */
static values_t number_list(run_t *run) {
  int64_t values[OPERANDS_MAX];
  size_t count = 0;
  while (!stopped(run) && !take_character(run, ']')) {
    char *end;
    if (count == OPERANDS_MAX)
      malformed(run, "a shorter list");
    else {
      values[count++] = strtoll(run->at, &end, 10);
      run->at = end;
    }
    if (peek(run) != ']') need(run, ',');
  }
  need(run, ':');
  if (!stopped(run) && strcmp(take_word(run).text, "i64") != 0) malformed(run, "i64");
  return one(run, lower_ints(run->lower, values, count));
}

/* Reads the items of a list of values; the "[" has been read. */
static values_t value_list(run_t *run) {
  tenon_edge_t *edges = lower_take(run->lower, OPERANDS_MAX, sizeof *edges);
  int32_t count = 0;
  while (!stopped(run) && !take_character(run, ']')) {
    values_t item = take_value(run);
    for (int32_t i = 0; i < item.count && !stopped(run); i++) {
      if (count == OPERANDS_MAX)
        malformed(run, "fewer items");
      else
        edges[count++] = item.edges[i];
    }
    if (peek(run) != ']') need(run, ',');
  }
  return (values_t){edges, stopped(run) ? 0 : count, true};
}

/* Reads the value of an attribute; "name=" has been read. */
static void set_attr(run_t *run, const tenon_op_t *op, tenon_attrs_t *attrs, const char *name) {
  char literal[TEXT_MAX_SIZE / 4];
  char c = peek(run);
  lower_t *lower = run->lower;
  if (take_character(run, ':')) {
    tenon_value_t value = {TENON_KIND_DTYPE, 0, {0}};
    value.as.dtype = take_dtype(run);
    if (!stopped(run)) lower->status = tenon_attrs_set(attrs, name, &value);
  } else if (!isalpha((unsigned char)c) || strncmp(run->at, "True", 4) == 0 ||
             strncmp(run->at, "False", 5) == 0) {
    take_literal(run, literal, sizeof literal);
    if (!stopped(run)) lower->status = tenon_attrs_parse(attrs, name, literal);
  } else {
    word_t from = take_word(run);
    *literal = 0;
    if (take_character(run, '?')) take_literal(run, literal, sizeof literal);
    if (!attr_give(lower, from.text, op, attrs, name) && !stopped(run) && *literal)
      lower->status = tenon_attrs_parse(attrs, name, literal);
  }
}

/* Reads the arguments of a call and adds it; the "(" has been read. */
static values_t take_call(run_t *run, const char *name) {
  char full[WORD_MAX_SIZE + 8];
  values_t operands[OPERANDS_MAX];
  values_t result = nothing;
  const tenon_op_t *op = NULL;
  tenon_attrs_t *attrs = NULL;
  lower_t *lower = run->lower;
  int32_t count = 0;
  snprintf(full, sizeof full, "core::%s", name);
  if (stopped(run) || (lower->status = tenon_op_find(full, &op)) != TENON_OK ||
      (lower->status = tenon_attrs_create(op, &attrs)) != TENON_OK)
    return result;
  while (!stopped(run) && !take_character(run, ')')) {
    const char *begin = run->at;
    word_t word = isalpha((unsigned char)peek(run)) ? take_word(run) : (word_t){"", 0};
    if (word.size && take_character(run, '='))
      set_attr(run, op, attrs, word.text);
    else {
      run->at = begin;
      if (count == OPERANDS_MAX)
        malformed(run, "fewer operands");
      else
        operands[count++] = take_value(run);
    }
    if (peek(run) != ')') need(run, ',');
  }
  if (!stopped(run)) result = lower_call(lower, op, attrs, operands, count, -1);
  tenon_attrs_release(attrs);
  return result;
}

static values_t take_value(run_t *run) {
  char c = peek(run);
  if (stopped(run)) return nothing;
  if (c == '@' || c == '-' || isdigit((unsigned char)c)) return take_constant(run);
  if (take_character(run, '[')) {
    c = peek(run);
    return c == '-' || c == ']' || isdigit((unsigned char)c) ? number_list(run) : value_list(run);
  }
  word_t word = take_word(run);
  if (strcmp(word.text, "_") == 0) return nothing;
  if (take_character(run, '(')) {
    values_t results = take_call(run, word.text);
    /* As an operand, a call stands for its first result. */
    return (values_t){results.edges, results.count > 0, false};
  }
  const values_t *found = find_name(run, &word);
  if (!found) malformed(run, "a value");
  return found ? *found : nothing;
}

/* statements and results */

/* Reads a statement such as "a, b = call(...);". Returns false and reads nothing if there is no
 * statement. */
static bool take_statement(run_t *run) {
  struct {
    const char *text;
    size_t size;
  } words[OPERANDS_MAX];
  int32_t count = 0;
  const char *begin = run->at;
  do {
    if (count == OPERANDS_MAX || !isalpha((unsigned char)peek(run))) break;
    words[count].text = run->at;
    words[count++].size = take_word(run).size;
  } while (take_character(run, ','));
  if (!count || peek(run) != '=') {
    run->at = begin;
    return false;
  }
  need(run, '=');
  word_t word = take_word(run);
  values_t result = nothing;
  if (take_character(run, '('))
    result = take_call(run, word.text);
  else
    malformed(run, "a call");
  need(run, ';');
  for (int32_t i = 0; i < count && !stopped(run); i++) {
    if (i >= result.count)
      malformed(run, "a call with more results");
    else
      add_name(run, words[i].text, words[i].size, (values_t){result.edges + i, 1, false});
  }
  return true;
}

static values_t take_results(run_t *run) {
  values_t result = nothing;
  const char *begin = run->at;
  if (!take_character(run, '(')) {
    word_t word = isalpha((unsigned char)peek(run)) ? take_word(run) : (word_t){"", 0};
    if (word.size && take_character(run, '(')) return take_call(run, word.text);
    run->at = begin;
    return take_value(run);
  }
  result.edges = lower_take(run->lower, OPERANDS_MAX, sizeof *result.edges);
  while (!stopped(run) && !take_character(run, ')')) {
    values_t value = take_value(run);
    if (result.count == OPERANDS_MAX)
      malformed(run, "fewer results");
    else
      result.edges[result.count++] = value.count ? value.edges[0] : EDGE_NONE;
    if (peek(run) != ')') need(run, ',');
  }
  return result;
}

static values_t run_body(run_t *run) {
  while (!stopped(run) && take_statement(run)) {
  }
  values_t result = nothing;
  if (!stopped(run)) result = take_results(run);
  if (!stopped(run) && peek(run)) malformed(run, "the end");
  return stopped(run) ? nothing : result;
}

values_t lower_run_all(lower_t *lower, const tenon_edge_t *edges, size_t count, const char *format,
                       ...) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
  char text[TEXT_MAX_SIZE];
  va_list arguments;
  if (lower_stopped(lower)) return nothing;
  va_start(arguments, format);
  int size = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  run_t run = {lower, text, text, {{0}}, 0};
  if (size < 0 || (size_t)size >= sizeof text) malformed(&run, "a shorter text");
  for (size_t i = 0; i < count && i < sizeof letters - 1; i++)
    add_name(&run, letters + i, 1, edges[i] == EDGE_NONE ? nothing : one(&run, edges[i]));
  return run_body(&run);
}

tenon_edge_t lower_run(lower_t *lower, const tenon_edge_t *edges, size_t count, const char *format,
                       ...) {
  char text[TEXT_MAX_SIZE];
  va_list arguments;
  if (lower_stopped(lower)) return EDGE_NONE;
  va_start(arguments, format);
  int size = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (size < 0 || (size_t)size >= sizeof text) {
    lower_fail(lower, "our lowering '%.60s...' is too long", text);
    return EDGE_NONE;
  }
  values_t results = lower_run_all(lower, edges, count, "%s", text);
  return results.count ? results.edges[0] : EDGE_NONE;
}

/* parameters */

/* Interprets the left side, which gives names to the node's inputs. */
static void bind_parameters(run_t *run) {
  lower_t *lower = run->lower;
  int32_t next = 0;
  run->at += strcspn(run->at, "(");
  need(run, '(');
  while (!stopped(run) && !take_character(run, ')')) {
    bool is_ignored = take_character(run, '-');
    bool is_list = take_character(run, '*');
    bool is_needed = true;
    bool is_looked_at = true;
    (void)peek(run);
    const char *name = run->at;
    word_t word = take_word(run);
    for (; *run->at && strchr("?!~#=+^%", *run->at); run->at++) {
      is_needed &= *run->at != '?';
      is_looked_at &= *run->at != '~';
    }
    if (is_ignored) {
      (void)attr_text(lower, word.text, NULL);
    } else {
      int32_t left = lower->input_count > next ? lower->input_count - next : 0;
      int32_t count = is_list ? left : left > 0;
      if (is_needed && !is_list && !left)
        lower_fail(lower, "input %d (`%s`) is missing", (int)next, word.text);
      for (int32_t i = next; i < next + count && is_looked_at && !stopped(run); i++)
        if (lower->inputs[i] == EDGE_NONE)
          lower_fail(lower, "input %d has no value: nothing gives it", (int)i);
      add_name(run, name, word.size,
               (values_t){(tenon_edge_t *)lower->inputs + next, count, is_list});
      next += count;
    }
    if (peek(run) != ')') need(run, ',');
  }
  if (next < lower->input_count)
    lower_fail(lower, "expected at most %d inputs, found %d", (int)next, (int)lower->input_count);
}

bool lowering_has_mark(const lowering_t *lowering, int32_t index, char mark) {
  const char *at = strchr(lowering->text, '(');
  for (int32_t i = 0; at && *at && *at != ')' && i <= index; i++) {
    at += 1 + strspn(at + 1, " ");
    /* Ignored attributes are not inputs. */
    while (*at == '-') {
      at += strcspn(at, ",)");
      if (*at == ',') at += 1 + strspn(at + 1, " ");
    }
    size_t size = strcspn(at, ",)");
    if (*at == '*' || i == index) return memchr(at, mark, size) != NULL;
    at += size;
  }
  return false;
}

void lowering_run(const lowering_t *lowering, lower_t *lower) {
  run_t run = {lower, lowering->text, lowering->text, {{0}}, 0};
  bind_parameters(&run);
  if (lower_stopped(lower)) return;
  if (lowering->lower) {
    lowering->lower(lower);
    return;
  }
  need(&run, '=');
  lower->outputs = run_body(&run);
}
