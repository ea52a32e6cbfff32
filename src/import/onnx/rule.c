/* Runs the texts of rules (their language: lower.h) on a node: one pass from left to right, calling
 * as it reads. Called by node.c for each node that has a rule, and by the functions of lower_*.c
 * for parts of what they build. Invariant: a text that is malformed is our bug, and still ends in
 * an error that shows it, never beyond its end. */
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

#define FAMILIES(X)                                                                                \
  X(pointwise)                                                                                     \
  X(shape)                                                                                         \
  X(reduce) X(heavy) X(preview) X(text) X(random) X(control) X(sequence) X(loss) X(ml) X(training)
#define DECLARE(name) extern const tn_rules_t tn_rules_##name;
#define LIST(name) &tn_rules_##name,
FAMILIES(DECLARE)
static const tn_rules_t *const families[] = {FAMILIES(LIST)};

typedef struct name_t { /* a parameter, or what a statement defined */
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

/* reading */

static bool stopped(const run_t *run) {
  return run->lower->status != TENON_OK || run->lower->is_missing;
}

static void malformed(run_t *run, const char *expected) {
  tn_lower_fail(run->lower, "our rule '%s' is wrong at column %d: expected %s", run->text,
                (int)(run->at - run->text) + 1, expected);
}

static char peek(run_t *run) {
  while (*run->at == ' ')
    run->at++;
  return *run->at;
}

static bool take(run_t *run, char c) {
  if (peek(run) != c) return false;
  run->at++;
  return true;
}

static void need(run_t *run, char c) {
  char text[] = {'\'', c, '\'', 0};
  if (!stopped(run) && !take(run, c)) malformed(run, text);
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static word_t take_word(run_t *run) {
  (void)peek(run);
  word_t word = {run->at, 0};
  while (is_word(run->at[0]))
    run->at++;
  word.size = (size_t)(run->at - word.text);
  if (!word.size || word.size >= NAME_MAX_SIZE) malformed(run, "a name");
  return word;
}

static bool is_same(word_t a, const char *text, size_t size) {
  return a.size == size && memcmp(a.text, text, size) == 0;
}

static void word_text(word_t word, char *out_text) {
  size_t size = word.size < NAME_MAX_SIZE ? word.size : NAME_MAX_SIZE - 1;
  memcpy(out_text, word.text, size);
  out_text[size] = 0;
}

/* A literal of the schema language: 'text', number, True, [1, 2]; quotes are left out. */
static void take_literal(run_t *run, char *out_text) {
  char open = peek(run);
  char close = open == '\'' ? '\'' : open == '[' ? ']' : 0;
  const char *begin = run->at += open == '\'';
  if (close) {
    while (*run->at && *run->at != close)
      run->at++;
    run->at += close == ']' && *run->at;
  } else {
    while (is_word(*run->at) || (*run->at && strchr("+-.", *run->at)))
      run->at++;
  }
  size_t size = (size_t)(run->at - begin);
  if (size >= LITERAL_MAX_SIZE) {
    malformed(run, "a shorter literal");
    size = 0;
  }
  memcpy(out_text, begin, size);
  out_text[size] = 0;
  if (close == '\'') need(run, '\'');
}

static const tn_operand_t *find_name(const run_t *run, word_t word) {
  for (size_t i = 0; i < run->name_count; i++)
    if (is_same(word, run->names[i].text, run->names[i].size)) return &run->names[i].operand;
  return NULL;
}

static void add_name(run_t *run, word_t word, tn_operand_t operand) {
  if (run->name_count == NAMES_MAX)
    malformed(run, "fewer names");
  else
    run->names[run->name_count++] = (name_t){word.text, word.size, operand};
}

static tn_operand_t one(run_t *run, tn_ref_t *edge) {
  tn_operand_t operand = {NULL, 0, false};
  if (!edge) return operand;
  tn_ref_t **room = tn_arena_allocate(&run->lower->import->arena, sizeof *room);
  if (!room) {
    if (!stopped(run)) run->lower->status = tn_no_memory("a node", sizeof *room);
    return operand;
  }
  *room = edge;
  return (tn_operand_t){room, 1, false};
}

/* values */

static tn_operand_t take_value(run_t *run);

/* ":x" or ":f32": the dtype of a value, or that one. */
static tenon_dtype_t take_dtype(run_t *run) {
  tenon_dtype_t dtype = {0, 0, 0};
  word_t word = take_word(run);
  const tn_operand_t *operand = find_name(run, word);
  if (operand && operand->count) return tn_lower_dtype(run->lower, operand->edges[0]);
  if (!operand && !tn_dtype_parse(word.text, word.size, &dtype))
    malformed(run, "a value or a dtype");
  if (operand) tn_lower_fail(run->lower, "input `%.*s` is missing", (int)word.size, word.text);
  return dtype;
}

static tn_operand_t number_list(run_t *run) { /* after "[" */
  int64_t values[LITERAL_MAX_SIZE];
  size_t count = 0;
  while (!stopped(run) && !take(run, ']')) {
    char *end;
    if (count == LITERAL_MAX_SIZE)
      malformed(run, "a shorter list");
    else {
      values[count++] = strtoll(run->at, &end, 10);
      run->at = end;
    }
    if (peek(run) != ']') need(run, ',');
  }
  need(run, ':');
  if (!is_same(take_word(run), "i64", 3)) malformed(run, "i64");
  return one(run, tn_lower_ints(run->lower, values, count));
}

static tn_operand_t value_list(run_t *run) { /* after "[" */
  tn_ref_t *edges[OPERANDS_MAX];
  int32_t count = 0;
  while (!stopped(run) && !take(run, ']')) {
    tn_operand_t item = take_value(run);
    for (int32_t i = 0; i < item.count; i++) {
      if (count == OPERANDS_MAX) malformed(run, "fewer items");
      if (!stopped(run)) edges[count++] = item.edges[i];
    }
    if (peek(run) != ']') need(run, ',');
  }
  tn_ref_t **room = tn_arena_array(&run->lower->import->arena, (size_t)count + 1, sizeof *room);
  if (!room || stopped(run)) return one(run, NULL);
  memcpy(room, edges, (size_t)count * sizeof *room);
  return (tn_operand_t){room, count, true};
}

/* "@axes", "@max:x", "@k?1:i64": an attribute of the node as a tensor. */
static tn_operand_t attribute_value(run_t *run) {
  char name[NAME_MAX_SIZE];
  char literal[LITERAL_MAX_SIZE] = "";
  tn_lower_t *lower = run->lower;
  word_text(take_word(run), name);
  if (take(run, '?')) take_literal(run, literal);
  tn_attr_t *attr = stopped(run) ? NULL : tn_lower_attr(lower, name);
  if (!take(run, ':')) {
    if (!attr && *literal) malformed(run, "a dtype for the default");
    return one(run, tn_lower_attr_tensor(lower, name));
  }
  tenon_dtype_t dtype = take_dtype(run);
  if (!attr)
    return one(run, *literal ? tn_lower_scalar(lower, dtype, strtod(literal, NULL)) : NULL);
  if (TN_HAS(attr->proto, 3))
    return one(run, tn_lower_scalar(lower, dtype, (double)tn_lower_int(lower, name, 0)));
  const tn_onnx_attribute_t *proto = tn_lower_typed(lower, name, TN_ATTRIBUTE_FLOAT);
  return one(run, proto ? tn_lower_scalar(lower, dtype, proto->f) : NULL);
}

/* One argument of a call that stands before a "=": an attribute of the operator. */
static void set_text(run_t *run, tenon_attrs_t *attrs, const char *name, const char *text) {
  if (!stopped(run)) run->lower->status = tenon_attrs_parse(attrs, name, text);
}

static void set_dtype(run_t *run, tenon_attrs_t *attrs, const char *name, tenon_dtype_t dtype) {
  tenon_value_t value = {TENON_KIND_DTYPE, 0, {0}};
  value.as.dtype = dtype;
  if (!stopped(run)) run->lower->status = tenon_attrs_set(attrs, name, &value);
}

/* "{NOTSET: explicit, ...}" after an attribute: what its value is called here; gives "" when it is
 * not listed. */
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
  while (!stopped(run) && !take(run, '}')) {
    take_literal(run, from);
    need(run, ':');
    take_literal(run, to);
    if (attr && strcmp(from, value) == 0) memcpy(out_text, to, sizeof to);
    if (peek(run) != '}') need(run, ',');
  }
}

static void take_source(run_t *run, const tenon_op_t *op, tenon_attrs_t *attrs,
                        const char *argument) {
  char literal[LITERAL_MAX_SIZE] = "";
  char name[NAME_MAX_SIZE], number[32];
  char c = peek(run);
  if (take(run, '#')) {
    snprintf(number, sizeof number, "%d", (int)run->lower->output_count);
    set_text(run, attrs, argument, number);
    return;
  }
  if (take(run, ':')) {
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
  tn_attr_t *attr = stopped(run) ? NULL : tn_lower_attr(run->lower, name);
  if (take(run, '?')) {
    if (take(run, ':')) {
      tenon_dtype_t dtype = take_dtype(run);
      if (!attr) set_dtype(run, attrs, argument, dtype);
    } else {
      take_literal(run, literal);
      if (!attr) set_text(run, attrs, argument, literal);
    }
  }
  if (take(run, '{')) {
    take_renaming(run, attr, literal);
    if (attr && *literal) {
      set_text(run, attrs, argument, literal);
      return;
    }
  }
  if (attr && !stopped(run)) (void)tn_lower_set(run->lower, attr, op, attrs, argument, argument);
}

/* The arguments of a call, after its "("; then the call. */
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
  while (!stopped(run) && !take(run, ')')) {
    const char *begin = run->at;
    if (isalpha((unsigned char)peek(run))) {
      word_text(take_word(run), argument);
      if (take(run, '=')) {
        take_source(run, op, attrs, argument);
        if (peek(run) != ')') need(run, ',');
        continue;
      }
      run->at = begin;
    }
    if (count == OPERANDS_MAX)
      malformed(run, "fewer operands");
    else
      operands[count++] = take_value(run);
    if (peek(run) != ')') need(run, ',');
  }
  if (!stopped(run)) {
    tn_ref_t **edges = tn_lower_call(run->lower, op, attrs, operands, count, &result.count);
    result.edges = edges;
    if (!edges) result.count = 0;
  }
  tenon_attrs_release(attrs);
  return result;
}

/* A number or a name of inf, with the dtype that it is to have. */
static tn_operand_t scalar(run_t *run) {
  char literal[LITERAL_MAX_SIZE];
  take_literal(run, literal);
  need(run, ':');
  return one(run, tn_lower_scalar(run->lower, take_dtype(run), strtod(literal, NULL)));
}

static tn_operand_t take_value(run_t *run) {
  char c = peek(run);
  tn_operand_t result = {NULL, 0, false};
  if (stopped(run)) return result;
  if (take(run, '@')) return attribute_value(run);
  if (take(run, '[')) {
    c = peek(run);
    return isdigit((unsigned char)c) || c == '-' || c == ']' ? number_list(run) : value_list(run);
  }
  if (isdigit((unsigned char)c) || c == '-' || c == '.') return scalar(run);
  if (c == '_' && !is_word(run->at[1])) {
    run->at++;
    return result;
  }
  word_t word = take_word(run);
  if (stopped(run)) return result;
  if (take(run, '(')) {
    result = take_call(run, word);
    result.count = result.count > 1 ? 1 : result.count; /* as an operand, the first result */
    return result;
  }
  const tn_operand_t *operand = find_name(run, word);
  if (!operand) malformed(run, "a name that is defined");
  return operand ? *operand : result;
}

/* statements */

/* "a, b = call;"; false, with nothing read, when the next thing is no statement. */
static bool take_statement(run_t *run) {
  word_t words[OPERANDS_MAX];
  int32_t count = 0;
  const char *begin = run->at;
  do {
    if (count == OPERANDS_MAX || !isalpha((unsigned char)peek(run))) break;
    words[count++] = take_word(run);
  } while (take(run, ','));
  if (!count || peek(run) != '=') {
    run->at = begin;
    return false;
  }
  need(run, '=');
  word_t word = take_word(run);
  tn_operand_t result = {NULL, 0, false};
  if (take(run, '('))
    result = take_call(run, word);
  else
    malformed(run, "a call");
  need(run, ';');
  for (int32_t i = 0; i < count && !stopped(run); i++)
    add_name(run, words[i],
             i < result.count ? (tn_operand_t){result.edges + i, 1, false} : one(run, NULL));
  return true;
}

/* The results after the statements: all of a call, or one value. */
static tn_operand_t take_results(run_t *run) {
  (void)peek(run);
  const char *begin = run->at;
  if (isalpha((unsigned char)*begin)) {
    word_t word = take_word(run);
    if (take(run, '(')) return take_call(run, word);
  }
  run->at = begin;
  return take_value(run);
}

static tn_operand_t run_body(run_t *run) {
  while (!stopped(run) && take_statement(run)) {
  }
  tn_operand_t result = {NULL, 0, false};
  if (!stopped(run)) result = take_results(run);
  if (!stopped(run) && peek(run)) malformed(run, "the end");
  return result;
}

/* The left side: gives names to the node's inputs. */
static void bind_parameters(run_t *run) {
  tn_lower_t *lower = run->lower;
  int32_t next = 0;
  (void)take_word(run);
  need(run, '(');
  while (!stopped(run) && !take(run, ')')) {
    if (take(run, '-')) {
      char name[NAME_MAX_SIZE];
      word_text(take_word(run), name);
      (void)tn_lower_attr(lower, name);
    } else {
      bool is_list = take(run, '*');
      word_t word = take_word(run);
      tn_ref_t *edge = next < lower->input_count ? lower->inputs[next] : NULL;
      bool is_optional = take(run, '?');
      if (!is_list && !is_optional && !edge)
        tn_lower_fail(lower, "input %d (`%.*s`) is missing", (int)next, (int)word.size, word.text);
      for (int32_t i = next; is_list && i < lower->input_count; i++)
        if (!lower->inputs[i]) tn_lower_fail(lower, "input %d is missing", (int)i);
      int32_t count = is_list ? lower->input_count - next : 1;
      add_name(run, word,
               is_list ? (tn_operand_t){lower->inputs + next, count < 0 ? 0 : count, true}
                       : one(run, edge));
      next += count < 0 ? 0 : count;
    }
    if (peek(run) != ')') need(run, ',');
  }
  if (next < lower->input_count)
    tn_lower_fail(lower, "expected at most %d inputs, found %d", (int)next,
                  (int)lower->input_count);
}

void tn_rule_run(const tn_rule_t *rule, tn_lower_t *lower) {
  run_t run = {lower, rule->text, rule->text, {{0}}, 0};
  if (strchr(rule->text, '(')) bind_parameters(&run);
  if (lower->status != TENON_OK) return;
  if (rule->lower) {
    rule->lower(lower);
    return;
  }
  need(&run, '=');
  tn_operand_t results = run_body(&run);
  if (stopped(&run)) return;
  if (results.count < lower->output_count)
    tn_lower_fail(lower, "expected at most %d outputs, found %d", (int)results.count,
                  (int)lower->output_count);
  for (int32_t i = 0; i < lower->output_count && i < results.count; i++)
    lower->outputs[i] = results.edges[i];
}

tn_ref_t *tn_lower_run(tn_lower_t *lower, tn_ref_t *const *edges, size_t count, const char *format,
                       ...) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
  char text[1024];
  va_list arguments;
  if (lower->status != TENON_OK || lower->is_missing) return NULL;
  va_start(arguments, format);
  int size = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  run_t run = {lower, text, text, {{0}}, 0};
  if (size < 0 || (size_t)size >= sizeof text) malformed(&run, "a shorter text");
  for (size_t i = 0; i < count && i < sizeof letters - 1; i++)
    add_name(&run, (word_t){letters + i, 1}, one(&run, edges[i]));
  tn_operand_t results = {NULL, 0, false};
  if (!stopped(&run)) results = run_body(&run);
  return !stopped(&run) && results.count ? results.edges[0] : NULL;
}

/* the index */

const tn_rules_t *tn_rules_at(size_t index) {
  return index < sizeof families / sizeof *families ? families[index] : NULL;
}

bool tn_rules_have(const char *domain) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    if (strcmp(families[i]->domain, domain) == 0) return true;
  return false;
}

tenon_status_t tn_rules_index(tn_import_t *import) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    for (size_t j = 0; j < families[i]->count; j++) {
      const tn_rule_t *rule = &families[i]->items[j];
      char key[NAME_MAX_SIZE * 2];
      size_t name = strcspn(rule->text, "(");
      int size = snprintf(key, sizeof key, "%s\n%.*s", families[i]->domain, (int)name, rule->text);
      tn_choice_t *choice = tn_arena_allocate(&import->arena, sizeof *choice);
      if (!choice) return tn_no_memory("the table of operators", sizeof *choice);
      choice->rule = rule;
      choice->next = tn_map_get(&import->rules, key, (size_t)size);
      if (!tn_map_put(&import->rules, key, (size_t)size, choice))
        return tn_no_memory("the table of operators", 0);
    }
  return TENON_OK;
}
