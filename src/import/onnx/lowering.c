/* Runs the texts of lowerings (lower.h describes their language) on a node, in one pass from left
 * to right: calls are added while the text is read. Called by node.c for each node that has a
 * lowering, and by the functions of lower_*.c for parts of what they build. Invariant: a malformed
 * text is a bug of this importer; it ends in an error that quotes the text, and is never read
 * beyond its end. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "import/onnx/lower.h"

enum {
  NAMES_MAX = 32,
  OPERANDS_MAX = 16,
  NAME_MAX_SIZE = 64,
  LITERAL_MAX_SIZE = 128,
};

/* A parameter, or a name that a statement defined. */
typedef struct name_t {
  const char *text;
  size_t size;
  tn_operand_t operand;
} name_t;

typedef struct run_t {
  tn_lower_t *lower;
  const char *text;
  const char *at;
  name_t names[NAMES_MAX];
  size_t name_count;
} run_t;

typedef struct word_t {
  const char *text;
  size_t size;
} word_t;

/* Reading */

static bool has_stopped(const run_t *run) {
  return run->lower->status != TENON_OK || run->lower->is_missing;
}

static void report_malformed(run_t *run, const char *expected) {
  tn_lower_fail(run->lower, "bug in the importer: lowering '%s' is wrong at column %d: expected %s",
                run->text, (int)(run->at - run->text) + 1, expected);
}

static char peek_char(run_t *run) {
  while (*run->at == ' ')
    run->at++;
  return *run->at;
}

static bool take_char(run_t *run, char c) {
  if (peek_char(run) != c) return false;
  run->at++;
  return true;
}

static void need_char(run_t *run, char c) {
  char text[] = {'\'', c, '\'', 0};
  if (!has_stopped(run) && !take_char(run, c)) report_malformed(run, text);
}

static bool is_word_character(char c) { return isalnum((unsigned char)c) || c == '_'; }

static word_t take_word(run_t *run) {
  (void)peek_char(run);
  word_t word = {run->at, 0};
  while (is_word_character(run->at[0]))
    run->at++;
  word.size = (size_t)(run->at - word.text);
  if (!word.size || word.size >= NAME_MAX_SIZE) report_malformed(run, "a name");
  return word;
}

static bool is_same_word(word_t a, const char *text, size_t size) {
  return a.size == size && memcmp(a.text, text, size) == 0;
}

static void word_text(word_t word, char *out_text) {
  size_t size = word.size < NAME_MAX_SIZE ? word.size : NAME_MAX_SIZE - 1;
  memcpy(out_text, word.text, size);
  out_text[size] = 0;
}

/* Reads a literal of the schema language: 'text', a number, True, [1, 2]. Quotes are removed. */
static void take_literal(run_t *run, char *out_text) {
  char open = peek_char(run);
  char close = open == '[' ? ']' : 0;
  if (open == '\'') {
    close = '\'';
    run->at++;
  }
  const char *begin = run->at;
  if (close) {
    while (*run->at && *run->at != close)
      run->at++;
    run->at += close == ']' && *run->at;
  } else {
    while (is_word_character(*run->at) || (*run->at && strchr("+-.", *run->at)))
      run->at++;
  }
  size_t size = (size_t)(run->at - begin);
  if (size >= LITERAL_MAX_SIZE) {
    report_malformed(run, "a shorter literal");
    size = 0;
  }
  memcpy(out_text, begin, size);
  out_text[size] = 0;
  if (close == '\'') need_char(run, '\'');
}

static const tn_operand_t *find_name(const run_t *run, word_t word) {
  for (size_t i = 0; i < run->name_count; i++)
    if (is_same_word(word, run->names[i].text, run->names[i].size)) return &run->names[i].operand;
  return NULL;
}

static void add_name(run_t *run, word_t word, tn_operand_t operand) {
  if (run->name_count == NAMES_MAX)
    report_malformed(run, "fewer names");
  else
    run->names[run->name_count++] = (name_t){word.text, word.size, operand};
}

static tn_operand_t single_operand(run_t *run, tn_ref_t *edge) {
  tn_operand_t operand = {NULL, 0, false};
  if (!edge) return operand;
  tn_ref_t **room = tn_arena_allocate(&run->lower->import->arena, sizeof *room);
  if (!room) {
    if (!has_stopped(run)) run->lower->status = tn_no_memory("a node", sizeof *room);
    return operand;
  }
  *room = edge;
  return (tn_operand_t){room, 1, false};
}

/* Values */

static tn_operand_t take_value(run_t *run);

/* Reads the dtype after ":", as in ":x" (the dtype of a value) or ":f32". */
static tenon_dtype_t take_dtype(run_t *run) {
  tenon_dtype_t dtype = {0, 0, 0};
  word_t word = take_word(run);
  const tn_operand_t *operand = find_name(run, word);
  if (operand && operand->count) return tn_lower_dtype(run->lower, operand->edges[0]);
  if (!operand && !tn_dtype_parse(word.text, word.size, &dtype))
    report_malformed(run, "a value or a dtype");
  if (operand) tn_lower_fail(run->lower, "input `%.*s` is missing", (int)word.size, word.text);
  return dtype;
}

static tn_operand_t number_list(run_t *run) { /* called after "[" */
  int64_t values[LITERAL_MAX_SIZE];
  size_t count = 0;
  while (!has_stopped(run) && !take_char(run, ']')) {
    char *end;
    if (count == LITERAL_MAX_SIZE)
      report_malformed(run, "a shorter list");
    else {
      values[count++] = strtoll(run->at, &end, 10);
      run->at = end;
    }
    if (peek_char(run) != ']') need_char(run, ',');
  }
  need_char(run, ':');
  if (!is_same_word(take_word(run), "i64", 3)) report_malformed(run, "i64");
  return single_operand(run, tn_lower_ints(run->lower, values, count));
}

static tn_operand_t value_list(run_t *run) { /* called after "[" */
  tn_ref_t *edges[OPERANDS_MAX];
  int32_t count = 0;
  while (!has_stopped(run) && !take_char(run, ']')) {
    tn_operand_t item = take_value(run);
    for (int32_t i = 0; i < item.count; i++) {
      if (count == OPERANDS_MAX) report_malformed(run, "fewer items");
      if (!has_stopped(run)) edges[count++] = item.edges[i];
    }
    if (peek_char(run) != ']') need_char(run, ',');
  }
  tn_ref_t **room = tn_arena_array(&run->lower->import->arena, (size_t)count + 1, sizeof *room);
  if (!room || has_stopped(run)) return single_operand(run, NULL);
  memcpy(room, edges, (size_t)count * sizeof *room);
  return (tn_operand_t){room, count, true};
}

/* Reads an attribute of the node as a tensor: "@axes", "@max:x", "@k?1:i64". */
static tn_operand_t attribute_value(run_t *run) {
  char name[NAME_MAX_SIZE];
  char literal[LITERAL_MAX_SIZE] = "";
  tn_lower_t *lower = run->lower;
  word_text(take_word(run), name);
  if (take_char(run, '?')) take_literal(run, literal);
  tn_attr_t *attr = has_stopped(run) ? NULL : tn_lower_attr(lower, name);
  if (!take_char(run, ':')) {
    if (!attr && *literal) report_malformed(run, "a dtype for the default");
    return single_operand(run, tn_lower_attr_tensor(lower, name));
  }
  tenon_dtype_t dtype = take_dtype(run);
  if (!attr)
    return single_operand(run,
                          *literal ? tn_lower_scalar(lower, dtype, strtod(literal, NULL)) : NULL);
  if (TN_HAS(attr->proto, 3))
    return single_operand(run, tn_lower_scalar(lower, dtype, (double)tn_lower_int(lower, name, 0)));
  const tn_onnx_attribute_t *proto = tn_lower_typed(lower, name, TN_ATTRIBUTE_FLOAT);
  return single_operand(run, proto ? tn_lower_scalar(lower, dtype, proto->f) : NULL);
}

/* Sets an attribute of the operator that is called: "name=source" among the arguments. */
static void set_text(run_t *run, tenon_attrs_t *attrs, const char *name, const char *text) {
  if (!has_stopped(run)) run->lower->status = tenon_attrs_parse(attrs, name, text);
}

static void set_dtype(run_t *run, tenon_attrs_t *attrs, const char *name, tenon_dtype_t dtype) {
  tenon_value_t value = {TENON_KIND_DTYPE, 0, {0}};
  value.as.dtype = dtype;
  if (!has_stopped(run)) run->lower->status = tenon_attrs_set(attrs, name, &value);
}

/* Reads "{NOTSET: explicit, ...}" after an attribute, which maps its values to other names. Writes
 * "" if the value is not listed. */
static void take_renaming(run_t *run, const tn_attr_t *attr, char *out_text) {
  char from[LITERAL_MAX_SIZE], to[LITERAL_MAX_SIZE];
  char value[LITERAL_MAX_SIZE] = "";
  *out_text = 0;
  if (attr && TN_HAS(attr->proto, 4))
    snprintf(value, sizeof value, "%.*s",
             (int)(attr->proto->s.size < 100 ? attr->proto->s.size : 100),
             (const char *)attr->proto->s.data);
  else if (attr)
    snprintf(value, sizeof value, "%lld", (long long)attr->proto->i);
  while (!has_stopped(run) && !take_char(run, '}')) {
    take_literal(run, from);
    need_char(run, ':');
    take_literal(run, to);
    if (attr && strcmp(from, value) == 0) memcpy(out_text, to, sizeof to);
    if (peek_char(run) != '}') need_char(run, ',');
  }
}

static void take_source(run_t *run, const tenon_op_t *op, tenon_attrs_t *attrs,
                        const char *argument) {
  char literal[LITERAL_MAX_SIZE] = "";
  char name[NAME_MAX_SIZE], number[32];
  char c = peek_char(run);
  if (take_char(run, '#')) {
    snprintf(number, sizeof number, "%d", (int)run->lower->output_count);
    set_text(run, attrs, argument, number);
    return;
  }
  if (take_char(run, ':')) {
    set_dtype(run, attrs, argument, take_dtype(run));
    return;
  }
  bool is_literal = c == '\'' || c == '[' || c == '-' || c == '.' || isdigit((unsigned char)c) ||
                    strncmp(run->at, "True", 4) == 0 || strncmp(run->at, "False", 5) == 0;
  if (is_literal) {
    take_literal(run, literal);
    set_text(run, attrs, argument, literal);
    return;
  }
  word_text(take_word(run), name);
  tn_attr_t *attr = has_stopped(run) ? NULL : tn_lower_attr(run->lower, name);
  if (take_char(run, '?')) {
    if (take_char(run, ':')) {
      tenon_dtype_t dtype = take_dtype(run);
      if (!attr) set_dtype(run, attrs, argument, dtype);
    } else {
      take_literal(run, literal);
      if (!attr) set_text(run, attrs, argument, literal);
    }
  }
  if (take_char(run, '{')) {
    take_renaming(run, attr, literal);
    if (attr && *literal) {
      set_text(run, attrs, argument, literal);
      return;
    }
  }
  if (attr && !has_stopped(run))
    (void)tn_lower_set(run->lower, attr, op, attrs, argument, argument);
}

/* Reads the arguments of a call, after its "(", and adds the call to the graph. */
static tn_operand_t take_call(run_t *run, word_t word) {
  char name[NAME_MAX_SIZE + 8] = "core::";
  char argument[NAME_MAX_SIZE];
  tn_operand_t operands[OPERANDS_MAX];
  tn_operand_t result = {NULL, 0, false};
  int32_t count = 0;
  tenon_attrs_t *attrs = NULL;
  word_text(word, name + 6);
  const tenon_op_t *op = tn_lower_op(run->lower, name);
  if (!op) return result;
  run->lower->status = tenon_attrs_create(op, &attrs);
  while (!has_stopped(run) && !take_char(run, ')')) {
    const char *begin = run->at;
    if (isalpha((unsigned char)peek_char(run))) {
      word_text(take_word(run), argument);
      if (take_char(run, '=')) {
        take_source(run, op, attrs, argument);
        if (peek_char(run) != ')') need_char(run, ',');
        continue;
      }
      run->at = begin;
    }
    if (count == OPERANDS_MAX)
      report_malformed(run, "fewer operands");
    else
      operands[count++] = take_value(run);
    if (peek_char(run) != ')') need_char(run, ',');
  }
  if (!has_stopped(run)) {
    tn_ref_t **edges = tn_lower_call(run->lower, op, attrs, operands, count, &result.count);
    result.edges = edges;
    if (!edges) result.count = 0;
  }
  tenon_attrs_release(attrs);
  return result;
}

/* Reads a scalar constant: a number (or inf) and the dtype that it is to have. */
static tn_operand_t take_scalar(run_t *run) {
  char literal[LITERAL_MAX_SIZE];
  take_literal(run, literal);
  need_char(run, ':');
  return single_operand(run, tn_lower_scalar(run->lower, take_dtype(run), strtod(literal, NULL)));
}

static tn_operand_t take_value(run_t *run) {
  char c = peek_char(run);
  tn_operand_t result = {NULL, 0, false};
  if (has_stopped(run)) return result;
  if (take_char(run, '@')) return attribute_value(run);
  if (take_char(run, '[')) {
    c = peek_char(run);
    return isdigit((unsigned char)c) || c == '-' || c == ']' ? number_list(run) : value_list(run);
  }
  if (isdigit((unsigned char)c) || c == '-' || c == '.') return take_scalar(run);
  if (c == '_' && !is_word_character(run->at[1])) {
    run->at++;
    return result;
  }
  word_t word = take_word(run);
  if (has_stopped(run)) return result;
  if (take_char(run, '(')) {
    result = take_call(run, word);
    result.count = result.count > 1 ? 1 : result.count; /* as an operand: only the first result */
    return result;
  }
  const tn_operand_t *operand = find_name(run, word);
  if (!operand) report_malformed(run, "a name that is defined");
  return operand ? *operand : result;
}

/* Statements */

/* Reads "a, b = call;". False, with nothing read, if no statement follows. */
static bool take_statement(run_t *run) {
  word_t words[OPERANDS_MAX];
  int32_t count = 0;
  const char *begin = run->at;
  do {
    if (count == OPERANDS_MAX || !isalpha((unsigned char)peek_char(run))) break;
    words[count++] = take_word(run);
  } while (take_char(run, ','));
  if (!count || peek_char(run) != '=') {
    run->at = begin;
    return false;
  }
  need_char(run, '=');
  word_t word = take_word(run);
  tn_operand_t result = {NULL, 0, false};
  if (take_char(run, '('))
    result = take_call(run, word);
  else
    report_malformed(run, "a call");
  need_char(run, ';');
  for (int32_t i = 0; i < count && !has_stopped(run); i++)
    add_name(run, words[i],
             i < result.count ? (tn_operand_t){result.edges + i, 1, false}
                              : single_operand(run, NULL));
  return true;
}

/* Reads the results after the statements: all results of a call, or one value. */
static tn_operand_t take_results(run_t *run) {
  (void)peek_char(run);
  const char *begin = run->at;
  if (isalpha((unsigned char)*begin)) {
    word_t word = take_word(run);
    if (take_char(run, '(')) return take_call(run, word);
  }
  run->at = begin;
  return take_value(run);
}

static tn_operand_t run_right_side(run_t *run) {
  while (!has_stopped(run) && take_statement(run)) {
  }
  tn_operand_t result = {NULL, 0, false};
  if (!has_stopped(run)) result = take_results(run);
  if (!has_stopped(run) && peek_char(run)) report_malformed(run, "the end");
  return result;
}

/* Reads the left side, which names the node's inputs. */
static void bind_parameters(run_t *run) {
  tn_lower_t *lower = run->lower;
  int32_t next = 0;
  (void)take_word(run);
  need_char(run, '(');
  while (!has_stopped(run) && !take_char(run, ')')) {
    if (take_char(run, '-')) {
      char name[NAME_MAX_SIZE];
      word_text(take_word(run), name);
      (void)tn_lower_attr(lower, name);
    } else {
      bool is_list = take_char(run, '*');
      word_t word = take_word(run);
      tn_ref_t *edge = next < lower->input_count ? lower->inputs[next] : NULL;
      bool is_optional = take_char(run, '?');
      if (!is_list && !is_optional && !edge)
        tn_lower_fail(lower, "input %d (`%.*s`) is missing", (int)next, (int)word.size, word.text);
      for (int32_t i = next; is_list && i < lower->input_count; i++)
        if (!lower->inputs[i]) tn_lower_fail(lower, "input %d is missing", (int)i);
      int32_t count = is_list ? lower->input_count - next : 1;
      add_name(run, word,
               is_list ? (tn_operand_t){lower->inputs + next, count < 0 ? 0 : count, true}
                       : single_operand(run, edge));
      next += count < 0 ? 0 : count;
    }
    if (peek_char(run) != ')') need_char(run, ',');
  }
  if (next < lower->input_count)
    tn_lower_fail(lower, "expected at most %d inputs, found %d", (int)next,
                  (int)lower->input_count);
}

/* Whether an input comes from an unsupported operator, so that its type is not known. Nodes with
 * bodies are read nevertheless, because the bodies may have unsupported operators of their own. */
static bool lacks_input(const tn_lower_t *lower) {
  bool lacks = false;
  for (int32_t i = 0; i < lower->input_count; i++)
    lacks |= lower->inputs[i] && lower->inputs[i]->is_missing;
  for (size_t i = 0; i < lower->attrs.count && lacks; i++)
    lacks = !lower->attrs.items[i].proto->g;
  return lacks;
}

void tn_lowering_run(const tn_lowering_t *lowering, tn_lower_t *lower) {
  run_t run = {lower, lowering->text, lowering->text, {{0}}, 0};
  if (strchr(lowering->text, '(')) bind_parameters(&run);
  if (lower->status != TENON_OK) return;
  if (lowering->lower) {
    /* A lowering without parameters refuses its operator, whatever the inputs are. */
    lower->is_missing = strchr(lowering->text, '(') && lacks_input(lower);
    if (!lower->is_missing) lowering->lower(lower);
    return;
  }
  need_char(&run, '=');
  tn_operand_t results = run_right_side(&run);
  if (has_stopped(&run)) return;
  if (results.count < lower->output_count)
    tn_lower_fail(lower, "expected at most %d outputs, found %d", (int)results.count,
                  (int)lower->output_count);
  for (int32_t i = 0; i < lower->output_count && i < results.count; i++)
    lower->outputs[i] = results.edges[i];
}

static tn_operand_t run_text(tn_lower_t *lower, tn_ref_t *const *edges, size_t count,
                             const char *format, va_list arguments) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
  char text[1024];
  tn_operand_t results = {NULL, 0, false};
  if (lower->status != TENON_OK || lower->is_missing) return results;
  int size = vsnprintf(text, sizeof text, format, arguments);
  run_t run = {lower, text, text, {{0}}, 0};
  if (size < 0 || (size_t)size >= sizeof text) report_malformed(&run, "a shorter text");
  for (size_t i = 0; i < count && i < sizeof letters - 1; i++)
    add_name(&run, (word_t){letters + i, 1}, single_operand(&run, edges[i]));
  if (!has_stopped(&run)) results = run_right_side(&run);
  if (has_stopped(&run)) results.count = 0;
  return results;
}

tn_ref_t *tn_lower_run(tn_lower_t *lower, tn_ref_t *const *edges, size_t count, const char *format,
                       ...) {
  va_list arguments;
  va_start(arguments, format);
  tn_operand_t results = run_text(lower, edges, count, format, arguments);
  va_end(arguments);
  return results.count ? results.edges[0] : NULL;
}

tn_ref_t *const *tn_lower_run_all(tn_lower_t *lower, tn_ref_t *const *edges, size_t count,
                                  int32_t *out_count, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  tn_operand_t results = run_text(lower, edges, count, format, arguments);
  va_end(arguments);
  *out_count = results.count;
  return results.count ? results.edges : NULL;
}
