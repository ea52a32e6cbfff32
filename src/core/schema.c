/* The schema language: parses `ns::name.overload(arguments) -> results` into tn_schema_t. Called by
 * the registry when a library is loaded. Invariant: in a parsed schema all names differ, alias
 * marks pair up, and every length and default fits its argument, so later code does not check them
 * again. */
#include "core/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "core/lexer.h"
#include "core/nearest.h"
#include "core/value.h"

enum {
  /* Largest number of inputs, of attributes and of results: op.h represents sets of each as
   * 64-bit masks. */
  ARGUMENTS_MAX = 64
};
enum {
  INPUTS,
  ATTRS,
  RESULTS,
  GROUPS,
};

/* An argument, and the positions of its parts in the text. */
typedef struct draft_t {
  tn_argument_t argument;
  const char *at; /* its name, or its type if it has no name */
  const char *mark;
  const char *count; /* the length in "[n]", which is resolved after the whole text is parsed */
  const char *value; /* the default, which is resolved at the end too */
} draft_t;

typedef struct parser_t {
  tn_lexer_t lexer;
  tn_arena_t *arena;
  const char *library;
  tn_schema_t *schema;
  uint32_t counts[GROUPS];
  uint32_t order_count;
  draft_t *drafts[GROUPS];
  uint8_t order[2 * ARGUMENTS_MAX]; /* group << 7 | index */
  bool is_keyword;                  /* after "*" */
  const draft_t *defaulted;         /* the last positional argument with a default */
} parser_t;

static const struct {
  const char *word;
  uint32_t kind;
  uint32_t list; /* TENON_KIND_NONE: the type has no list form */
} types[] = {{"bool", TENON_KIND_BOOL, TENON_KIND_NONE},
             {"int", TENON_KIND_INT, TENON_KIND_INTS},
             {"dim", TENON_KIND_DIM, TENON_KIND_DIMS},
             {"float", TENON_KIND_FLOAT, TENON_KIND_FLOATS},
             {"str", TENON_KIND_STR, TENON_KIND_STRS},
             {"dtype", TENON_KIND_DTYPE, TENON_KIND_NONE},
             {"device", TENON_KIND_DEVICE, TENON_KIND_NONE},
             {"scalar", TENON_KIND_FLOAT, TENON_KIND_NONE},
             {"tensor", TENON_KIND_TENSOR, TENON_KIND_TENSORS},
             {"graph", TENON_KIND_GRAPH, TENON_KIND_NONE}};
enum { TYPES = sizeof types / sizeof *types };

static const char *const group_names[GROUPS] = {"inputs", "attributes", "results"};
static const char *const group_words[GROUPS] = {"an input", "an attribute", "a result"};

/* types */

static tenon_status_t fail_schema_memory(size_t size) { return tn_no_memory("a schema", size); }

static const char *type_word(int index) {
  if (index == 0) return "Tensor";
  return index <= TYPES ? types[index - 1].word : NULL;
}

/* Parses "(a!)" and "[n]" after "Tensor". */
static tenon_status_t parse_tensor(tn_lexer_t *lexer, draft_t *draft) {
  tn_argument_t *argument = &draft->argument;
  argument->is_tensor = true;
  argument->kind = TENON_KIND_TENSOR;
  if (tn_lexer_take(lexer, '(')) {
    if (lexer->kind != TN_TOKEN_NAME || lexer->size != 1)
      return tn_lexer_expected(lexer, "a mark of one letter");
    argument->mark = lexer->start[0];
    draft->mark = lexer->start;
    tn_lexer_next(lexer);
    argument->is_written = tn_lexer_take(lexer, '!');
    TN_TRY(tn_lexer_expect(lexer, ')', "')' after the mark"));
  }
  if (!tn_lexer_take(lexer, '[')) return TENON_OK;
  argument->kind = TENON_KIND_TENSORS;
  if (lexer->kind == TN_TOKEN_NAME || lexer->kind == TN_TOKEN_INT) {
    draft->count = lexer->start;
    tn_lexer_next(lexer);
  }
  return tn_lexer_expect(lexer, ']', "a number, an int attribute or ']'");
}

static tenon_status_t parse_choices(parser_t *p, tn_argument_t *argument) {
  tn_lexer_t *lexer = &p->lexer;
  size_t room = tn_lexer_count(lexer, ']');
  if (room > INT32_MAX) return tn_lexer_fail(lexer, "too many choices");
  const char **choices = tn_arena_array(p->arena, room, sizeof *choices);
  if (!choices) return fail_schema_memory(room * sizeof *choices);
  uint32_t count = 0;
  uint32_t size;
  do {
    const char *at = lexer->start;
    if (lexer->kind != TN_TOKEN_TEXT) return tn_lexer_expected(lexer, "a 'choice'");
    TN_TRY(tn_lexer_text(lexer, p->arena, &choices[count], &size));
    for (uint32_t i = 0; i < count && count <= 256;
         /* the check is quadratic; longer lists are not written by hand */
         i++)
      if (strcmp(choices[i], choices[count]) == 0)
        return tn_lexer_fail_at(lexer, at, "choice '%.60s' is listed twice", choices[i]);
    count++;
  } while (tn_lexer_take(lexer, ','));
  argument->kind = TENON_KIND_CHOICE;
  argument->choices = choices;
  argument->choice_count = count;
  return tn_lexer_expect(lexer, ']', "',' or ']'");
}

static tenon_status_t parse_attribute(parser_t *p, draft_t *draft) {
  tn_lexer_t *lexer = &p->lexer;
  tn_argument_t *argument = &draft->argument;
  int type = 0;
  while (type < TYPES && !tn_lexer_is(lexer, types[type].word))
    type++;
  if (type == TYPES)
    return tn_lexer_unknown(
        lexer, "a type (Tensor, bool, int, dim, float, str, dtype, device, scalar, tensor, graph)",
        NULL, type_word);
  argument->kind = types[type].kind;
  argument->is_scalar = strcmp(types[type].word, "scalar") == 0;
  tn_lexer_next(lexer);
  if (lexer->kind != '[') return TENON_OK;
  if (types[type].list == TENON_KIND_NONE)
    return tn_lexer_fail(lexer, "the type %s has no list form", types[type].word);
  tn_lexer_next(lexer);
  if (argument->kind == TENON_KIND_STR && lexer->kind == TN_TOKEN_TEXT)
    return parse_choices(p, argument);
  argument->kind = types[type].list;
  if (lexer->kind == TN_TOKEN_INT) {
    draft->count = lexer->start;
    tn_lexer_next(lexer);
  }
  return tn_lexer_expect(lexer, ']', "a number or ']'");
}

/* arguments and results */

static bool is_same_name(const char *known, const char *name, size_t size) {
  size_t i = 0;
  while (i < size && known[i] && known[i] == name[i])
    i++;
  return i == size && known[i] == 0;
}

static draft_t *find_argument(const parser_t *p, const char *name, size_t size, int *out_group) {
  for (int group = 0; group < GROUPS; group++)
    for (uint32_t i = 0; i < p->counts[group]; i++) {
      draft_t *draft = &p->drafts[group][i];
      const char *known = draft->argument.name;
      if (known && is_same_name(known, name, size)) {
        *out_group = group;
        return draft;
      }
    }
  return NULL;
}

static tenon_status_t check_name(const parser_t *p, int group, const char *at, const char *name) {
  static const char *const literals[] = {"True", "False", "None", "inf", "nan"};
  int other;
  for (size_t i = 0; i < sizeof literals / sizeof *literals; i++)
    if (strcmp(name, literals[i]) == 0)
      return tn_lexer_fail_at(&p->lexer, at, "'%s' is a literal, not a name", name);
  if (!find_argument(p, name, strlen(name), &other)) return TENON_OK;
  if (group == other && group == RESULTS)
    return tn_lexer_fail_at(&p->lexer, at, "two results are named '%s'", name);
  if (group == RESULTS)
    return tn_lexer_fail_at(&p->lexer, at,
                            "this result is named '%s', like %s: choose another name", name,
                            group_words[other]);
  return tn_lexer_fail_at(&p->lexer, at, "two arguments are named '%s'", name);
}

static tenon_status_t add_argument(parser_t *p, int group, const draft_t *draft) {
  uint32_t count = p->counts[group];
  if (count == ARGUMENTS_MAX)
    return tn_lexer_fail_at(&p->lexer, draft->at, "more than %d %s", ARGUMENTS_MAX,
                            group_names[group]);
  p->drafts[group][count] = *draft;
  p->drafts[group][count].argument.index = (int32_t)count;
  p->counts[group] = count + 1;
  if (group != RESULTS) p->order[p->order_count++] = (uint8_t)((uint32_t)group << 7 | count);
  return TENON_OK;
}

static tenon_status_t parse_default(parser_t *p, draft_t *draft) {
  tn_lexer_t *lexer = &p->lexer;
  tn_argument_t *argument = &draft->argument;
  tenon_value_t ignored;
  argument->has_default = true;
  draft->value = lexer->start;
  if (!argument->is_tensor) return tn_lexer_literal(lexer, p->arena, &argument->value);
  if (!argument->is_optional)
    return tn_lexer_fail(lexer,
                         "only an optional input (%s?) can have a default, and the default is None",
                         argument->kind == TENON_KIND_TENSOR ? "Tensor" : "Tensor[]");
  if (!tn_lexer_is(lexer, "None"))
    return tn_lexer_expected(lexer, "None, the only possible default of an input");
  return tn_lexer_literal(lexer, p->arena, &ignored);
}

static tenon_status_t take_host(tn_lexer_t *lexer, tn_argument_t *argument) {
  if (!argument->is_tensor)
    return tn_lexer_fail(lexer, "@host is only for tensors: attributes are always in host memory");
  tn_lexer_next(lexer);
  if (!tn_lexer_is(lexer, "host")) return tn_lexer_expected(lexer, "'host' after '@'");
  tn_lexer_next(lexer);
  argument->is_host = true;
  return TENON_OK;
}

/* Parses "**" before the name of the argument that accepts all other arguments. */
static tenon_status_t take_open(parser_t *p, tn_argument_t *argument) {
  tn_lexer_t *lexer = &p->lexer;
  if (argument->kind != TENON_KIND_STRS || argument->is_optional || argument->count >= 0 ||
      !p->is_keyword)
    return tn_lexer_fail(lexer, "only a 'str[]' after '*' can accept all other arguments");
  tn_lexer_next(lexer);
  TN_TRY(tn_lexer_expect(lexer, '*', "'**'"));
  argument->is_open = argument->has_default = true;
  argument->value = (tenon_value_t){.kind = TENON_KIND_STRS};
  return TENON_OK;
}

static tenon_status_t parse_argument(parser_t *p) {
  tn_lexer_t *lexer = &p->lexer;
  if (lexer->kind == '*') {
    if (p->is_keyword) return tn_lexer_fail(lexer, "'*' appears twice");
    p->is_keyword = true;
    tn_lexer_next(lexer);
    return lexer->kind == ',' ? TENON_OK : tn_lexer_expected(lexer, "',' and arguments after '*'");
  }
  draft_t draft = {.argument = {.count = -1, .count_attr = -1, .is_keyword = p->is_keyword}};
  tn_argument_t *argument = &draft.argument;
  if (tn_lexer_is(lexer, "Tensor")) {
    tn_lexer_next(lexer);
    TN_TRY(parse_tensor(lexer, &draft));
  } else {
    TN_TRY(parse_attribute(p, &draft));
  }
  int group = argument->is_tensor ? INPUTS : ATTRS;
  argument->is_optional = tn_lexer_take(lexer, '?');
  if (lexer->kind == '@') TN_TRY(take_host(lexer, argument));
  draft.at = lexer->start;
  if (lexer->kind == '*') TN_TRY(take_open(p, argument));
  TN_TRY(tn_lexer_name(lexer, p->arena, "a name", &argument->name));
  TN_TRY(check_name(p, group, draft.at, argument->name));
  if (argument->is_open && lexer->kind != ')')
    return tn_lexer_expected(lexer, "')': the argument that accepts all others must be the last");
  if (tn_lexer_take(lexer, '='))
    TN_TRY(parse_default(p, &draft));
  else if (p->defaulted && !p->is_keyword && !argument->is_optional)
    return tn_lexer_fail_at(
        lexer, draft.at,
        "'%s' has no default but follows '%s', which has one: put it first, or after '*'",
        argument->name, p->defaulted->argument.name);
  TN_TRY(add_argument(p, group, &draft));
  if (argument->has_default && !p->is_keyword)
    p->defaulted = &p->drafts[group][p->counts[group] - 1];
  return TENON_OK;
}

static tenon_status_t parse_result(parser_t *p) {
  tn_lexer_t *lexer = &p->lexer;
  draft_t draft = {.argument = {.count = -1, .count_attr = -1}, .at = lexer->start};
  if (!tn_lexer_is(lexer, "Tensor"))
    return tn_lexer_unknown(lexer, "a result (Tensor)", (const char *const[]){"Tensor", NULL},
                            NULL);
  tn_lexer_next(lexer);
  TN_TRY(parse_tensor(lexer, &draft));
  draft.argument.is_optional = tn_lexer_take(lexer, '?');
  const char *at = lexer->start;
  if (lexer->kind == '@') TN_TRY(take_host(lexer, &draft.argument));
  if (draft.argument.is_host && draft.argument.mark)
    return tn_lexer_fail_at(lexer, at,
                            "a result that is @host owns its memory, so it cannot be an alias");
  if (lexer->kind == TN_TOKEN_NAME) {
    draft.at = lexer->start;
    TN_TRY(tn_lexer_name(lexer, p->arena, "a name", &draft.argument.name));
    TN_TRY(check_name(p, RESULTS, draft.at, draft.argument.name));
  }
  return add_argument(p, RESULTS, &draft);
}

/* checks and defaults that need the whole schema */

static tenon_status_t name_results(parser_t *p) {
  char name[16];
  for (uint32_t i = 0; i < p->counts[RESULTS]; i++) {
    draft_t *draft = &p->drafts[RESULTS][i];
    if (draft->argument.name) continue;
    snprintf(name, sizeof name, p->counts[RESULTS] == 1 ? "out" : "out%u", i);
    TN_TRY(check_name(p, RESULTS, draft->at, name));
    draft->argument.name = tn_arena_text(p->arena, name, strlen(name));
    if (!draft->argument.name) return fail_schema_memory(sizeof name);
  }
  return TENON_OK;
}

static tenon_status_t resolve_count(parser_t *p, draft_t *draft) {
  if (!draft->count) return TENON_OK;
  tn_lexer_t at = p->lexer;
  at.next = draft->count;
  tn_lexer_next(&at);
  if (at.kind == TN_TOKEN_INT) {
    tenon_value_t count;
    TN_TRY(tn_lexer_literal(&at, p->arena, &count));
    if (count.as.i < 0 || count.as.i > INT32_MAX)
      return tn_lexer_fail_at(&at, draft->count,
                              "a length must be at least 0 and below 2^31, found %" PRId64,
                              count.as.i);
    draft->argument.count = (int32_t)count.as.i;
    return TENON_OK;
  }
  int group;
  const draft_t *by = find_argument(p, at.start, at.size, &group);
  if (by && group == ATTRS && by->argument.kind == TENON_KIND_INT && !by->argument.is_optional) {
    draft->argument.count_attr = by->argument.index;
    return TENON_OK;
  }
  tn_nearest_t nearest;
  tn_nearest_begin(&nearest, at.start, at.size);
  for (uint32_t i = 0; i < p->counts[ATTRS] && !by; i++)
    tn_nearest_offer(&nearest, p->drafts[ATTRS][i].argument.name);
  return tn_lexer_fail(
      &at, "a length must be a number or an int attribute that is not optional; '%.*s' is %s%s",
      (int)at.size, at.start, by ? "another argument" : "unknown", tn_nearest_say(&nearest));
}

static tenon_status_t resolve_default(parser_t *p, draft_t *draft) {
  tn_argument_t *attr = &draft->argument;
  tenon_value_t literal = attr->value;
  if (!attr->has_default || attr->is_tensor) return TENON_OK;
  tenon_status_t status = tn_value_fit(attr, &literal, p->arena, &attr->value);
  if (status != TENON_INVALID) return status;
  return tn_lexer_fail_at(&p->lexer, draft->value, "default of '%s': %s", attr->name, tn_error());
}

static const draft_t *find_mark(const parser_t *p, int group, char mark, const draft_t *except) {
  for (uint32_t i = 0; i < p->counts[group]; i++)
    if (p->drafts[group][i].argument.mark == mark && &p->drafts[group][i] != except)
      return &p->drafts[group][i];
  return NULL;
}

static tenon_status_t check_input_mark(const parser_t *p, const draft_t *draft) {
  const tn_argument_t *a = &draft->argument;
  const draft_t *twin = find_mark(p, INPUTS, a->mark, draft);
  if (twin)
    return tn_lexer_fail_at(&p->lexer, draft->mark,
                            "inputs '%s' and '%s' have the same mark '%c': use another letter",
                            a->name, twin->argument.name, a->mark);
  if (a->is_written || find_mark(p, RESULTS, a->mark, NULL)) return TENON_OK;
  return tn_lexer_fail_at(&p->lexer, draft->mark,
                          "the mark says that a result is a view of '%s', but no result has this "
                          "mark; an input that is written is marked (%c!)",
                          a->name, a->mark);
}

static tenon_status_t check_result_mark(const parser_t *p, const draft_t *draft) {
  const tn_argument_t *a = &draft->argument;
  const draft_t *of = find_mark(p, INPUTS, a->mark, NULL);
  if (!of)
    return tn_lexer_fail_at(&p->lexer, draft->mark,
                            "result '%s' has the mark '%c', but no input has it", a->name, a->mark);
  if (of->argument.is_written == a->is_written) return TENON_OK;
  const char *sign = a->is_written ? "!" : "";
  const char *input_sign = a->is_written ? "" : "!";
  return tn_lexer_fail_at(&p->lexer, draft->mark,
                          "result '%s' is marked (%c%s), but input '%s' is marked (%c%s)", a->name,
                          a->mark, sign, of->argument.name, a->mark, input_sign);
}

static tenon_status_t check_marks(const parser_t *p) {
  for (uint32_t i = 0; i < p->counts[INPUTS]; i++)
    if (p->drafts[INPUTS][i].mark) TN_TRY(check_input_mark(p, &p->drafts[INPUTS][i]));
  for (uint32_t i = 0; i < p->counts[RESULTS]; i++)
    if (p->drafts[RESULTS][i].mark) TN_TRY(check_result_mark(p, &p->drafts[RESULTS][i]));
  return TENON_OK;
}

static tenon_status_t store_schema(parser_t *p) {
  tn_schema_t *schema = p->schema;
  uint32_t total = p->counts[INPUTS] + p->counts[ATTRS] + p->counts[RESULTS];
  tn_argument_t *all = tn_arena_array(p->arena, total, sizeof *all);
  tn_argument_t *groups[GROUPS];
  tn_argument_t *next = all;
  tenon_value_t *defaults = tn_arena_array(p->arena, p->counts[ATTRS], sizeof *defaults);
  const tn_argument_t **arguments = tn_arena_array(p->arena, p->order_count, sizeof *arguments);
  if (!all || !defaults || !arguments) return fail_schema_memory(total * sizeof *all);
  for (int group = 0; group < GROUPS; group++) {
    groups[group] = next;
    for (uint32_t i = 0; i < p->counts[group]; i++)
      *next++ = p->drafts[group][i].argument;
  }
  for (uint32_t i = 0; i < p->counts[ATTRS]; i++) {
    defaults[i] = groups[ATTRS][i].value;
    if (!groups[ATTRS][i].has_default && !groups[ATTRS][i].is_optional) schema->needs_attrs = true;
  }
  for (uint32_t i = 0; i < p->order_count; i++)
    arguments[i] = &groups[p->order[i] >> 7][p->order[i] & 127];
  schema->argument_count = p->order_count;
  schema->arguments = arguments;
  schema->defaults = defaults;
  schema->input_count = p->counts[INPUTS];
  schema->attr_count = p->counts[ATTRS];
  schema->output_count = p->counts[RESULTS];
  schema->inputs = groups[INPUTS];
  schema->attrs = groups[ATTRS];
  schema->outputs = groups[RESULTS];
  return TENON_OK;
}

/* the whole schema */

static tenon_status_t parse_head(parser_t *p) {
  tn_schema_t *schema = p->schema;
  tn_lexer_t *lexer = &p->lexer;
  const char *at = lexer->start;
  TN_TRY(tn_lexer_name(lexer, p->arena, "the operator's name", &schema->name));
  if (tn_lexer_take(lexer, TN_TOKEN_SCOPE)) {
    schema->ns = schema->name;
    TN_TRY(tn_lexer_name(lexer, p->arena, "the operator's name", &schema->name));
  } else {
    size_t size = p->library ? strlen(p->library) : 0;
    if (!size || size > TN_NAME_MAX || !tn_is_name(p->library, size))
      return tn_lexer_fail_at(lexer, at,
                              "the operator has no namespace, and the library's name cannot serve "
                              "as one: expected [A-Za-z_][A-Za-z0-9_]*");
    if (!(schema->ns = tn_arena_text(p->arena, p->library, size))) return fail_schema_memory(size);
  }
  schema->overload = "";
  if (tn_lexer_take(lexer, '.'))
    TN_TRY(tn_lexer_name(lexer, p->arena, "the overload's name", &schema->overload));
  size_t ns = strlen(schema->ns);
  size_t name = strlen(schema->name);
  size_t overload = strlen(schema->overload);
  char *full = tn_arena_allocate(p->arena, ns + name + overload + 4);
  if (!full) return fail_schema_memory(ns + name + overload + 4);
  snprintf(full, ns + name + overload + 4, overload ? "%s::%s.%s" : "%s::%s", schema->ns,
           schema->name, schema->overload);
  schema->full = full;
  return TENON_OK;
}

static tenon_status_t parse_lists(parser_t *p) {
  tn_lexer_t *lexer = &p->lexer;
  TN_TRY(tn_lexer_expect(lexer, '(', "'(' and the arguments"));
  if (lexer->kind != ')') {
    do
      TN_TRY(parse_argument(p));
    while (tn_lexer_take(lexer, ','));
  }
  TN_TRY(tn_lexer_expect(lexer, ')', "',' or ')'"));
  TN_TRY(tn_lexer_expect(lexer, TN_TOKEN_ARROW, "'->' and the results"));
  if (!tn_lexer_take(lexer, '(')) {
    TN_TRY(parse_result(p));
  } else if (!tn_lexer_take(lexer, ')')) {
    do
      TN_TRY(parse_result(p));
    while (tn_lexer_take(lexer, ','));
    TN_TRY(tn_lexer_expect(lexer, ')', "',' or ')'"));
  }
  return tn_lexer_expect(lexer, TN_TOKEN_END, "the end");
}

tenon_status_t tn_schema_parse(const char *text, const char *library, tn_arena_t *arena,
                               tn_schema_t *out_schema) {
  draft_t drafts[GROUPS][ARGUMENTS_MAX];
  parser_t p;
  if (!text) return tn_fail(TENON_INVALID, "an operator has no schema: its text is NULL");
  *out_schema = (tn_schema_t){0};
  p.arena = arena;
  p.library = library;
  p.schema = out_schema;
  p.order_count = 0;
  p.is_keyword = false;
  p.defaulted = NULL;
  for (int group = 0; group < GROUPS; group++) {
    p.drafts[group] = drafts[group];
    p.counts[group] = 0;
  }
  if (!(out_schema->text = tn_arena_text(arena, text, strlen(text))))
    return fail_schema_memory(strlen(text));
  tn_lexer_open(&p.lexer, "schema", out_schema->text);
  TN_TRY(parse_head(&p));
  TN_TRY(parse_lists(&p));
  TN_TRY(name_results(&p));
  for (int group = 0; group < GROUPS; group++)
    for (uint32_t i = 0; i < p.counts[group]; i++) {
      TN_TRY(resolve_count(&p, &drafts[group][i]));
      TN_TRY(resolve_default(&p, &drafts[group][i]));
    }
  TN_TRY(check_marks(&p));
  return store_schema(&p);
}

static int32_t index_of(const tn_argument_t *arguments, uint32_t count, const char *name,
                        size_t size) {
  for (uint32_t i = 0; i < count; i++)
    if (is_same_name(arguments[i].name, name, size)) return (int32_t)i;
  return -1;
}

int32_t tn_schema_input(const tn_schema_t *schema, const char *name, size_t size) {
  return index_of(schema->inputs, schema->input_count, name, size);
}

int32_t tn_schema_attr(const tn_schema_t *schema, const char *name, size_t size) {
  return index_of(schema->attrs, schema->attr_count, name, size);
}

bool tn_schema_is_open(const tn_schema_t *schema) {
  return schema->attr_count && schema->attrs[schema->attr_count - 1].is_open;
}

int32_t tn_schema_output(const tn_schema_t *schema, const char *name, size_t size) {
  return index_of(schema->outputs, schema->output_count, name, size);
}

bool tn_is_name(const char *text, size_t size) {
  for (size_t i = 0; i < size; i++) {
    bool is_digit = text[i] >= '0' && text[i] <= '9';
    bool is_upper = text[i] >= 'A' && text[i] <= 'Z';
    bool is_lower = text[i] >= 'a' && text[i] <= 'z';
    if (!is_upper && !is_lower && text[i] != '_' && !(is_digit && i)) return false;
  }
  return size > 0;
}
