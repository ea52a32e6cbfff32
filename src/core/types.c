/* Type rules: parses TENON_TYPES when a library is loaded, and applies the rules in every infer and
 * every call. Invariant: in parsed rules every input and every result has a source, so applying
 * them needs no look-up by name and no memory. */
#include "core/types.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "core/lexer.h"
#include "core/nearest.h"

/* parsing */

enum {
  VARIABLES_MAX = TN_TYPE_VARIABLES,
  ARGUMENTS_MAX = 128,
};
enum {
  UNSTATED,
  WAITING,
  ASKED,
  KNOWN,
};

/* The type of an input or a result while TENON_TYPES is parsed. */
typedef struct draft_t {
  uint8_t state;
  const char *source;    /* WAITING: position of its source */
  const char *at;        /* position of its name */
  tn_type_source_t type; /* KNOWN */
} draft_t;

typedef struct parser_t {
  tn_lexer_t lexer;
  const tn_schema_t *schema;
  tn_arena_t *arena;
  draft_t drafts[ARGUMENTS_MAX]; /* inputs, then results */
  uint32_t variable_count;
  uint64_t sets[VARIABLES_MAX];
  const char *names[VARIABLES_MAX];
  /* position of a type variable's name; NULL if the variable has no name of its own */
  const char *variables[VARIABLES_MAX];
} parser_t;

static const char *argument_name(const tn_schema_t *schema, uint32_t i) {
  return i < schema->input_count ? schema->inputs[i].name
                                 : schema->outputs[i - schema->input_count].name;
}

/* Index among inputs and results; -1 if the token is neither. */
static int32_t find_argument(const parser_t *p, const tn_lexer_t *token) {
  uint32_t count = p->schema->input_count + p->schema->output_count;
  for (uint32_t i = 0; i < count; i++)
    if (tn_lexer_is(token, argument_name(p->schema, i))) return (int32_t)i;
  return -1;
}

static int32_t find_variable(const parser_t *p, const tn_lexer_t *token) {
  for (uint32_t i = 0; i < p->variable_count; i++)
    if (p->variables[i] && tn_lexer_is(token, p->names[i])) return (int32_t)i;
  return -1;
}

static tenon_status_t fail_unknown_name(const parser_t *p, const tn_lexer_t *token,
                                        bool is_source) {
  tn_nearest_t nearest;
  const tn_schema_t *schema = p->schema;
  uint32_t count = schema->input_count + schema->output_count;
  tn_nearest_begin(&nearest, token->start, token->size);
  for (uint32_t i = 0; i < count; i++)
    tn_nearest_offer(&nearest, argument_name(schema, i));
  for (uint32_t i = 0; is_source && i < p->variable_count; i++)
    if (p->variables[i]) tn_nearest_offer(&nearest, p->names[i]);
  for (int i = 0; is_source && tn_dtype_word(i); i++)
    tn_nearest_offer(&nearest, tn_dtype_word(i));
  return tn_lexer_fail(
      token, "expected %s, found '%.*s'%s",
      is_source ? "an input, a result, a type variable, a dtype, an attribute of type dtype or '?'"
                : "an input or a result",
      (int)token->size, token->start, tn_nearest_say(&nearest));
}

static tenon_status_t parse_set(parser_t *p, uint64_t *out_set) {
  tn_lexer_t *lexer = &p->lexer;
  *out_set = 0;
  do {
    uint64_t set = lexer->kind == TN_TOKEN_NAME ? tn_dtype_set(lexer->start, lexer->size) : 0;
    if (!set)
      return tn_lexer_unknown(lexer, "a dtype or a class of dtypes (any, float, int, ...)", NULL,
                              tn_dtype_word);
    *out_set |= set;
    tn_lexer_next(lexer);
  } while (tn_lexer_take(lexer, '|'));
  return TENON_OK;
}

static tenon_status_t add_variable(parser_t *p, const tn_lexer_t *name, bool is_named) {
  uint32_t i = p->variable_count;
  if (i == VARIABLES_MAX) return tn_lexer_fail(name, "more than %d sets of dtypes", VARIABLES_MAX);
  if (!(p->names[i] = tn_arena_text(p->arena, name->start, name->size)))
    return tn_no_memory("types", name->size);
  p->variables[i] = is_named ? name->start : NULL;
  p->variable_count = i + 1;
  return TENON_OK;
}

/* Parses names (":" set | "=" source). */
static tenon_status_t parse_declaration(parser_t *p) {
  tn_lexer_t *lexer = &p->lexer;
  tn_lexer_t first = *lexer;
  tn_lexer_t name;
  int32_t arguments[ARGUMENTS_MAX];
  uint32_t count = 0;
  do {
    name = *lexer;
    if (name.kind != TN_TOKEN_NAME)
      return tn_lexer_expected(lexer, "the name of an input or a result");
    int32_t found = find_argument(p, &name);
    tn_lexer_next(lexer);
    if (found < 0) {
      if (count || lexer->kind != ':') return fail_unknown_name(p, &name, false);
      if (tn_schema_attr(p->schema, name.start, name.size) >= 0)
        return tn_lexer_fail(&name, "'%.*s' is an attribute: only inputs and results have dtypes",
                             (int)name.size, name.start);
      if (find_variable(p, &name) >= 0)
        return tn_lexer_fail(&name, "type variable '%.*s' is declared twice", (int)name.size,
                             name.start);
      break;
    }
    draft_t *draft = &p->drafts[found];
    if (draft->state != UNSTATED)
      return tn_lexer_fail(&name, "the dtype of '%s' is declared twice",
                           argument_name(p->schema, (uint32_t)found));
    draft->state = WAITING;
    draft->at = name.start;
    arguments[count++] = found;
  } while (tn_lexer_take(lexer, ','));
  if (lexer->kind == '=') {
    tn_lexer_next(lexer);
    if (lexer->kind != TN_TOKEN_NAME && lexer->kind != '?')
      return tn_lexer_expected(lexer, "a source of the dtype");
    for (uint32_t i = 0; i < count; i++)
      p->drafts[arguments[i]].source = lexer->start;
    tn_lexer_next(lexer);
    return TENON_OK;
  }
  TN_TRY(tn_lexer_expect(lexer, ':', "',', ':' and a set of dtypes, or '=' and a source"));
  TN_TRY(add_variable(p, &first, count == 0));
  uint32_t variable = p->variable_count - 1;
  TN_TRY(parse_set(p, &p->sets[variable]));
  for (uint32_t i = 0; i < count; i++) {
    if ((uint32_t)arguments[i] >= p->schema->input_count)
      return tn_lexer_fail_at(lexer, p->drafts[arguments[i]].at,
                              "'%s' is a result, so its dtype must be declared with '=': only "
                              "inputs accept a set of dtypes",
                              argument_name(p->schema, (uint32_t)arguments[i]));
    p->drafts[arguments[i]].state = KNOWN;
    p->drafts[arguments[i]].type =
        (tn_type_source_t){.kind = TN_TYPE_VARIABLE, .index = (int32_t)variable};
  }
  return TENON_OK;
}

/* Resolves the source of argument i. Sources may be declared in any order, so this function is
 * recursive. */
static tenon_status_t resolve_source(parser_t *p, uint32_t i) {
  draft_t *draft = &p->drafts[i];
  tn_lexer_t token = p->lexer;
  if (draft->state == KNOWN || draft->state == UNSTATED) return TENON_OK;
  if (draft->state == ASKED)
    return tn_lexer_fail_at(&p->lexer, draft->at, "the dtype of '%s' depends on itself",
                            argument_name(p->schema, i));
  draft->state = ASKED;
  token.next = draft->source;
  tn_lexer_next(&token);
  tn_type_source_t *type = &draft->type;
  int32_t index = find_argument(p, &token);
  if (token.kind == '?') {
    *type = (tn_type_source_t){.kind = TN_TYPE_OPEN};
  } else if (index >= 0) {
    TN_TRY(resolve_source(p, (uint32_t)index));
    if (p->drafts[index].state != KNOWN)
      return tn_lexer_fail(&token, "the dtype of '%.*s' is not declared", (int)token.size,
                           token.start);
    *type = p->drafts[index].type;
  } else if ((index = find_variable(p, &token)) >= 0) {
    *type = (tn_type_source_t){.kind = TN_TYPE_VARIABLE, .index = index};
  } else if ((index = tn_schema_attr(p->schema, token.start, token.size)) >= 0) {
    if (p->schema->attrs[index].kind != TENON_KIND_DTYPE)
      return tn_lexer_fail(&token, "'%.*s' is an attribute, but not of type dtype", (int)token.size,
                           token.start);
    *type = (tn_type_source_t){.kind = TN_TYPE_ATTR, .index = index};
  } else if (tn_dtype_parse(token.start, token.size, &type->fixed)) {
    type->kind = TN_TYPE_FIXED;
  } else {
    return fail_unknown_name(p, &token, true);
  }
  draft->state = KNOWN;
  return TENON_OK;
}

static tenon_status_t check_all_stated(const parser_t *p) {
  tn_text_t names = {0};
  uint32_t count = p->schema->input_count + p->schema->output_count;
  for (uint32_t i = 0; i < count; i++)
    if (p->drafts[i].state == UNSTATED) {
      const char *role = i < p->schema->input_count ? "input" : "result";
      tn_text_add(&names, "%s%s '%s'", names.size ? ", " : "", role, argument_name(p->schema, i));
    }
  if (!names.size && !names.failed) return TENON_OK;
  tn_lexer_fail(&p->lexer, "every input and result needs a declared dtype; missing for %s",
                tn_text_get(&names));
  tn_text_clear(&names);
  return TENON_INVALID;
}

static tenon_status_t check_bound(const parser_t *p) {
  /* variables of any input, and variables of an input that is not optional */
  uint32_t drawn = 0;
  uint32_t bound = 0;
  const tn_schema_t *schema = p->schema;
  for (uint32_t i = 0; i < schema->input_count; i++) {
    if (p->drafts[i].type.kind != TN_TYPE_VARIABLE) continue;
    drawn |= 1u << p->drafts[i].type.index;
    if (!schema->inputs[i].is_optional) bound |= 1u << p->drafts[i].type.index;
  }
  for (uint32_t v = 0; v < p->variable_count; v++)
    if (!(drawn >> v & 1))
      return tn_lexer_fail_at(
          &p->lexer, p->variables[v],
          "'%s' is not an input or a result, and no input uses it as a type variable", p->names[v]);
  for (uint32_t i = 0; i < schema->output_count; i++) {
    const draft_t *draft = &p->drafts[schema->input_count + i];
    if (draft->type.kind == TN_TYPE_VARIABLE && !(bound >> draft->type.index & 1))
      return tn_lexer_fail_at(
          &p->lexer, draft->at,
          "the dtype of '%s' depends on '%s', which only optional inputs determine",
          schema->outputs[i].name, p->names[draft->type.index]);
  }
  return TENON_OK;
}

/* The dtype of a set to try first: f32 if the set has it. */
static tenon_dtype_t likely_dtype(uint64_t set) {
  return tn_dtype_at(set >> TN_DTYPE_F32 & 1 ? TN_DTYPE_F32 : __builtin_ctzll(set));
}

tenon_status_t tn_types_parse(const char *text, const tn_schema_t *schema, tn_arena_t *arena,
                              tn_types_t *out_types) {
  parser_t p;
  uint32_t count = schema->input_count + schema->output_count;
  *out_types = (tn_types_t){0};
  if (!text && !count) return TENON_OK;
  if (!text)
    return tn_fail(
        TENON_INVALID,
        "TENON_TYPES is missing: declare the dtypes of every input and result, such as \"%s: any\"",
        argument_name(schema, 0));
  p.schema = schema;
  p.arena = arena;
  p.variable_count = 0;
  memset(p.drafts, 0, count * sizeof *p.drafts);
  char *copy = tn_arena_text(arena, text, strlen(text));
  tn_type_source_t *sources = tn_arena_array(arena, count, sizeof *sources);
  if (!copy || !sources) return tn_no_memory("types", strlen(text));
  tn_lexer_open(&p.lexer, "types", copy);
  if (p.lexer.kind != TN_TOKEN_END) {
    do
      TN_TRY(parse_declaration(&p));
    while (tn_lexer_take(&p.lexer, ';'));
  }
  TN_TRY(tn_lexer_expect(&p.lexer, TN_TOKEN_END, "';' or the end"));
  for (uint32_t i = 0; i < count; i++) {
    TN_TRY(resolve_source(&p, i));
  }
  TN_TRY(check_all_stated(&p));
  TN_TRY(check_bound(&p));
  uint64_t *sets = tn_arena_array(arena, p.variable_count, sizeof *sets);
  const char **names = tn_arena_array(arena, p.variable_count, sizeof *names);
  if (!sets || !names) return tn_no_memory("types", p.variable_count * sizeof *sets);
  for (uint32_t i = 0; i < p.variable_count; i++) {
    sets[i] = p.sets[i];
    names[i] = p.names[i];
  }
  uint32_t bound = 0;
  for (uint32_t i = 0; i < count; i++) {
    sources[i] = p.drafts[i].type;
    sources[i].binds = sources[i].kind == TN_TYPE_VARIABLE && !(bound >> sources[i].index & 1);
    if (sources[i].binds) bound |= 1u << sources[i].index;
    if (sources[i].kind == TN_TYPE_VARIABLE)
      sources[i].fixed = likely_dtype(p.sets[sources[i].index]);
    sources[i].is_list =
        (i < schema->input_count ? &schema->inputs[i] : &schema->outputs[i - schema->input_count])
            ->kind == TENON_KIND_TENSORS;
  }
  *out_types = (tn_types_t){.text = copy,
                            .variable_count = p.variable_count,
                            .sets = sets,
                            .names = names,
                            .inputs = sources,
                            .outputs = sources + schema->input_count};
  return TENON_OK;
}

/* applying */

typedef struct word_t {
  char text[40];
} word_t;

static word_t name_dtype(tenon_dtype_t dtype) {
  word_t word;
  const char *name = tn_dtype_name(dtype);
  if (name[0] == '?')
    snprintf(word.text, sizeof word.text, "dtype %u of %u bits, %u lanes", dtype.code, dtype.bits,
             dtype.lanes);
  else
    snprintf(word.text, sizeof word.text, "%s", name);
  return word;
}

/* The dtype of an input, or of the first item of a list that has one. Returns false if the input is
 * absent, an empty list, or of unknown dtype. */
static bool input_dtype(const tenon_meta_t *meta, bool is_list, tenon_dtype_t *out_dtype) {
  if (!meta) return false;
  if (!is_list) {
    *out_dtype = meta->dtype;
    return meta->dtype.bits != 0;
  }
  for (uint32_t k = 0; meta->items && k < meta->count; k++)
    if (meta->items[k] && meta->items[k]->dtype.bits) {
      *out_dtype = meta->items[k]->dtype;
      return true;
    }
  return false;
}

/* Finds the first input of a type variable and its dtype. Returns the input's index, or -1. */
static int32_t bound_by(const tn_types_t *types, const tn_schema_t *schema,
                        tenon_meta_t *const *inputs, int32_t variable, tenon_dtype_t *out_dtype) {
  for (uint32_t i = 0; i < schema->input_count; i++) {
    const tn_type_source_t *source = &types->inputs[i];
    if (source->kind != TN_TYPE_VARIABLE || source->index != variable) continue;
    if (input_dtype(inputs[i], source->is_list, out_dtype)) return (int32_t)i;
  }
  return -1;
}

static tenon_status_t fail_dtype(const tn_types_t *types, const tn_schema_t *schema,
                                 const tenon_value_t *attrs, tenon_meta_t *const *inputs,
                                 uint32_t i, tenon_dtype_t found) {
  const tn_type_source_t *source = &types->inputs[i];
  const char *name = schema->inputs[i].name;
  const char *item = source->is_list ? "an item of " : "";
  int index = tn_dtype_index(found);
  char expected[160];
  char why[600] = "";
  if (tn_dtype_is(found, TENON_LIST))
    return tn_fail(TENON_INVALID, "operator '%s': input '%s': expected a tensor, found a list",
                   schema->full, name);
  if (source->kind == TN_TYPE_FIXED) {
    snprintf(expected, sizeof expected, "%s", name_dtype(source->fixed).text);
  } else if (source->kind == TN_TYPE_ATTR) {
    snprintf(expected, sizeof expected, "%s", name_dtype(attrs[source->index].as.dtype).text);
    snprintf(why, sizeof why, ", from attribute '%s'", schema->attrs[source->index].name);
  } else if (index >= 0 && types->sets[source->index] >> index & 1) {
    tenon_dtype_t first = found;
    int32_t by = bound_by(types, schema, inputs, source->index, &first);
    snprintf(expected, sizeof expected, "%s", name_dtype(first).text);
    if (by >= 0) snprintf(why, sizeof why, ", the dtype of '%s'", schema->inputs[by].name);
  } else {
    tn_dtype_set_print(types->sets[source->index], expected, sizeof expected);
  }
  return tn_fail(TENON_INVALID, "operator '%s': %sinput '%s': expected %s%s, found %s; cast it",
                 schema->full, item, name, expected, why, name_dtype(found).text);
}

bool tn_types_admit(const tn_types_t *types, const tn_type_source_t *source,
                    const tenon_value_t *attrs, tenon_dtype_t dtype) {
  if (source->kind == TN_TYPE_FIXED) return tn_dtype_same(source->fixed, dtype);
  if (source->kind == TN_TYPE_ATTR && attrs[source->index].kind != TENON_KIND_NONE)
    return tn_dtype_same(attrs[source->index].as.dtype, dtype);
  int index = tn_dtype_index(dtype);
  return index >= 0 &&
         (source->kind != TN_TYPE_VARIABLE || types->sets[source->index] >> index & 1);
}

typedef struct bound_t {
  uint32_t seen; /* bit mask of variables */
  tenon_dtype_t dtypes[VARIABLES_MAX];
} bound_t;

static inline bool admit_dtype(const tn_types_t *types, const tn_type_source_t *source,
                               const tenon_value_t *attrs, tenon_dtype_t dtype, bound_t *bound) {
  if (source->kind == TN_TYPE_VARIABLE) {
    int32_t v = source->index;
    if (bound->seen >> v & 1) return tn_dtype_same(bound->dtypes[v], dtype);
    if (!tn_types_admit(types, source, attrs, dtype)) return false;
    bound->seen |= 1u << v;
    bound->dtypes[v] = dtype;
    return true;
  }
  return tn_types_admit(types, source, attrs, dtype);
}

static tenon_status_t admit_list(const tn_types_t *types, const tn_schema_t *schema,
                                 const tenon_value_t *attrs, tenon_meta_t *const *inputs,
                                 uint32_t i, bound_t *bound) {
  const tenon_meta_t *list = inputs[i];
  if (!tn_dtype_is(list->dtype, TENON_LIST))
    return tn_fail(TENON_INVALID,
                   "operator '%s': input '%s': expected a list of tensors, found one %s",
                   schema->full, schema->inputs[i].name, name_dtype(list->dtype).text);
  for (uint32_t k = 0; k < list->count; k++) {
    if (!list->items || !list->items[k])
      return tn_fail(TENON_INVALID, "operator '%s': input '%s': item %u is missing", schema->full,
                     schema->inputs[i].name, k);
    if (!admit_dtype(types, &types->inputs[i], attrs, list->items[k]->dtype, bound))
      return fail_dtype(types, schema, attrs, inputs, i, list->items[k]->dtype);
  }
  return TENON_OK;
}

static tenon_status_t fail_missing_inputs(const tn_schema_t *schema, tenon_meta_t *const *inputs) {
  tn_text_t names = {0};
  for (uint32_t i = 0; i < schema->input_count; i++)
    if (!inputs[i] && !schema->inputs[i].is_optional)
      tn_text_add(&names, "%s'%s'", names.size ? ", " : "", schema->inputs[i].name);
  tn_fail(TENON_INVALID, "operator '%s' needs input %s, which is not given", schema->full,
          tn_text_get(&names));
  tn_text_clear(&names);
  return TENON_INVALID;
}

static void set_output(tenon_meta_t *out, bool is_list, tenon_dtype_t dtype) {
  if (!is_list) {
    out->dtype = dtype;
    return;
  }
  out->dtype = tenon_dtype(TENON_LIST);
  for (uint32_t k = 0; out->items && k < out->count; k++)
    if (out->items[k]) out->items[k]->dtype = dtype;
}

tenon_status_t tn_types_apply(const tn_types_t *types, const tn_schema_t *schema,
                              const tenon_value_t *attrs, tenon_meta_t *const *inputs,
                              tenon_meta_t *const *outputs) {
  bound_t bound;
  bound.seen = 0;
  for (uint32_t i = 0; i < schema->input_count; i++) {
    if (!inputs[i]) {
      if (!schema->inputs[i].is_optional) return fail_missing_inputs(schema, inputs);
    } else if (types->inputs[i].is_list) {
      TN_TRY(admit_list(types, schema, attrs, inputs, i, &bound));
    } else if (!admit_dtype(types, &types->inputs[i], attrs, inputs[i]->dtype, &bound)) {
      return fail_dtype(types, schema, attrs, inputs, i, inputs[i]->dtype);
    }
  }
  for (uint32_t i = 0; i < schema->output_count; i++) {
    const tn_type_source_t *source = &types->outputs[i];
    if (!outputs[i] || source->kind == TN_TYPE_OPEN) continue;
    if (source->kind == TN_TYPE_FIXED) {
      set_output(outputs[i], source->is_list, source->fixed);
    } else if (source->kind == TN_TYPE_ATTR) {
      if (attrs[source->index].kind == TENON_KIND_DTYPE)
        set_output(outputs[i], source->is_list, attrs[source->index].as.dtype);
    } else if (bound.seen >> source->index & 1) {
      set_output(outputs[i], source->is_list, bound.dtypes[source->index]);
    } else {
      return tn_fail(
          TENON_INVALID,
          "operator '%s': the dtype of '%s' is that of the items of '%s', which is an empty list",
          schema->full, schema->outputs[i].name, types->names[source->index]);
    }
  }
  return TENON_OK;
}

bool tn_types_fill(const tn_types_t *types, const tn_schema_t *schema, const tenon_value_t *attrs,
                   tenon_meta_t *const *inputs) {
  bool is_whole = true;
  for (uint32_t i = 0; i < schema->input_count; i++) {
    const tn_type_source_t *source = &types->inputs[i];
    tenon_meta_t *meta = inputs[i];
    tenon_meta_t *const *items = source->is_list && meta ? meta->items : &meta;
    for (uint32_t k = 0, count = !meta             ? 0
                                 : source->is_list ? meta->count
                                                   : 1;
         items && k < count; k++) {
      tenon_dtype_t *dtype = &items[k]->dtype;
      if (dtype->bits) continue;
      if (source->kind == TN_TYPE_FIXED)
        *dtype = source->fixed;
      else if (source->kind == TN_TYPE_ATTR && attrs[source->index].kind == TENON_KIND_DTYPE)
        *dtype = attrs[source->index].as.dtype;
      else if (source->kind != TN_TYPE_VARIABLE ||
               bound_by(types, schema, inputs, source->index, dtype) < 0)
        is_whole = false;
    }
  }
  return is_whole;
}

bool tn_types_output(const tn_types_t *types, const tn_schema_t *schema, const tenon_value_t *attrs,
                     tenon_meta_t *const *inputs, uint32_t output, tenon_dtype_t *out_dtype) {
  const tn_type_source_t *source = &types->outputs[output];
  switch (source->kind) {
  case TN_TYPE_FIXED:
    *out_dtype = source->fixed;
    return true;
  case TN_TYPE_ATTR:
    *out_dtype = attrs[source->index].as.dtype;
    return attrs[source->index].kind == TENON_KIND_DTYPE;
  case TN_TYPE_VARIABLE:
    return bound_by(types, schema, inputs, source->index, out_dtype) >= 0;
  default:
    return false;
  }
}
