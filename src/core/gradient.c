/* Gradient formulas: parses TENON_GRADIENT into calls over inputs, results, attributes and
 * gradients. Called by the registry when a library is loaded; the tape and the adapters read the
 * result. Invariant: every index in a parsed formula is valid, calls nest at most DEPTH_MAX levels,
 * and every input that may be a float has a formula. */
#include "core/gradient.h"

#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "core/lexer.h"
#include "core/nearest.h"

enum { DEPTH_MAX = 64, VALUES_MAX = 128, /* of one call */ };

typedef struct parser_t {
  tn_lexer_t lexer;
  const tn_schema_t *schema;
  const tn_types_t *types;
  tn_arena_t *arena;
} parser_t;

/* arguments that can have a gradient */

/* Whether the dtype can be a float of any width or complex. */
static bool may_be_float(const tn_types_t *types, const tn_type_source_t *source) {
  uint64_t floats = ((uint64_t)1 << TN_DTYPE_STRING) - ((uint64_t)1 << TN_DTYPE_F4E2M1);
  if (source->kind == TN_TYPE_VARIABLE) return (types->sets[source->index] & floats) != 0;
  if (source->kind == TN_TYPE_FIXED) return (floats >> tn_dtype_index(source->fixed) & 1) != 0;
  return true;
}

static int32_t first_float_result(const parser_t *p) {
  for (uint32_t i = 0; i < p->schema->output_count; i++)
    if (may_be_float(p->types, &p->types->outputs[i])) return (int32_t)i;
  return -1;
}

/* values */

static tenon_status_t fail_unknown_name(const parser_t *p, const char *expected,
                                        const tn_argument_t *arguments, uint32_t count) {
  const tn_lexer_t *lexer = &p->lexer;
  const tn_schema_t *schema = p->schema;
  tn_nearest_t nearest;
  if (lexer->kind != TN_TOKEN_NAME) return tn_lexer_expected(lexer, expected);
  tn_nearest_begin(&nearest, lexer->start, lexer->size);
  for (uint32_t i = 0; i < count; i++)
    tn_nearest_offer(&nearest, arguments[i].name);
  if (!arguments) {
    for (uint32_t i = 0; i < schema->argument_count; i++)
      tn_nearest_offer(&nearest, schema->arguments[i]->name);
    for (uint32_t i = 0; i < schema->output_count; i++)
      tn_nearest_offer(&nearest, schema->outputs[i].name);
    tn_nearest_offer(&nearest, "grad");
  }
  return tn_lexer_fail(lexer, "expected %s, found '%.*s'%s", expected, (int)lexer->size,
                       lexer->start, tn_nearest_say(&nearest));
}

/* Parses "grad" or "grad.result"; the current token is "grad". */
static tenon_status_t parse_grad(parser_t *p, tn_gradient_value_t *out) {
  tn_lexer_t *lexer = &p->lexer;
  const tn_schema_t *schema = p->schema;
  const char *at = lexer->start;
  out->kind = TN_GRADIENT_GRAD;
  tn_lexer_next(lexer);
  if (tn_lexer_take(lexer, '.')) {
    out->index =
        lexer->kind == TN_TOKEN_NAME ? tn_schema_output(schema, lexer->start, lexer->size) : -1;
    if (out->index < 0)
      return fail_unknown_name(p, "the name of a result", schema->outputs, schema->output_count);
    if (!may_be_float(p->types, &p->types->outputs[out->index]))
      return tn_lexer_fail(lexer, "result '%s' is never a float, so it has no gradient",
                           schema->outputs[out->index].name);
    tn_lexer_next(lexer);
    return TENON_OK;
  }
  if (tn_schema_input(schema, "grad", 4) >= 0 || tn_schema_attr(schema, "grad", 4) >= 0)
    return tn_lexer_fail_at(lexer, at,
                            "'grad' is ambiguous: it is the gradient of the result and also the "
                            "name of an argument; write grad.RESULT, or rename the argument");
  out->index = first_float_result(p);
  return out->index >= 0
             ? TENON_OK
             : tn_lexer_fail_at(lexer, at, "'grad' has no meaning here: no result is ever a float");
}

static tenon_status_t parse_call(parser_t *p, int depth, tn_gradient_value_t *out);

/* Whether the current name is an operator: a name followed by "(" or "::", or by "." and an
 * overload. */
static bool is_operator(const tn_lexer_t *lexer) {
  tn_lexer_t ahead = *lexer;
  tn_lexer_next(&ahead);
  if (ahead.kind == '.') {
    tn_lexer_next(&ahead);
    tn_lexer_next(&ahead);
    return ahead.kind == '(' || !tn_lexer_is(lexer, "grad");
  }
  return ahead.kind == '(' || ahead.kind == TN_TOKEN_SCOPE;
}

static tenon_status_t parse_value(parser_t *p, int depth, tn_gradient_value_t *out) {
  tn_lexer_t *lexer = &p->lexer;
  tn_lexer_t ahead = *lexer;
  const tn_schema_t *schema = p->schema;
  *out = (tn_gradient_value_t){.index = -1};
  tn_lexer_next(&ahead);
  if (lexer->kind == TN_TOKEN_NAME && ahead.kind == '=') {
    TN_TRY(tn_lexer_name(lexer, p->arena, "a name", &out->keyword));
    tn_lexer_next(lexer);
  }
  if (lexer->kind == '@') {
    tn_lexer_next(lexer);
    if (!tn_lexer_is(lexer, "state")) return tn_lexer_expected(lexer, "'state' after '@'");
    out->kind = TN_GRADIENT_STATE;
    tn_lexer_next(lexer);
    return TENON_OK;
  }
  if (lexer->kind != TN_TOKEN_NAME) {
    out->kind = TN_GRADIENT_LITERAL;
    return tn_lexer_literal(lexer, p->arena, &out->literal);
  }
  if (is_operator(lexer)) return parse_call(p, depth + 1, out);
  if (tn_lexer_is(lexer, "grad")) return parse_grad(p, out);
  if ((out->index = tn_schema_input(schema, lexer->start, lexer->size)) >= 0) {
    out->kind = TN_GRADIENT_INPUT;
  } else if ((out->index = tn_schema_attr(schema, lexer->start, lexer->size)) >= 0) {
    out->kind = TN_GRADIENT_ATTR;
  } else if ((out->index = tn_schema_output(schema, lexer->start, lexer->size)) >= 0) {
    out->kind = TN_GRADIENT_OUTPUT;
  } else {
    tn_lexer_t token = *lexer;
    out->kind = TN_GRADIENT_LITERAL;
    if (tn_lexer_literal(lexer, p->arena, &out->literal) == TENON_OK) return TENON_OK;
    *lexer = token;
    return fail_unknown_name(
        p, "an input, a result, an attribute, grad, @state, a literal or a call", NULL, 0);
  }
  tn_lexer_next(lexer);
  return TENON_OK;
}

static bool is_repeated(const tn_gradient_value_t *arguments, uint32_t count) {
  for (uint32_t i = 0; i < count && arguments[count].keyword; i++)
    if (arguments[i].keyword && strcmp(arguments[i].keyword, arguments[count].keyword) == 0)
      return true;
  return false;
}

/* Upper bound of the number of values of a call; the lexer is after the "(". */
static size_t count_values(const tn_lexer_t *lexer) {
  tn_lexer_t ahead = *lexer;
  size_t count = 1;
  for (int depth = 0; depth >= 0 && count <= VALUES_MAX; tn_lexer_next(&ahead)) {
    if (ahead.kind == TN_TOKEN_END || ahead.kind == TN_TOKEN_BAD) break;
    if (ahead.kind == '(' || ahead.kind == '[') depth++;
    if (ahead.kind == ')' || ahead.kind == ']') depth--;
    if (ahead.kind == ',' && depth == 0) count++;
  }
  return count;
}

static tenon_status_t parse_call(parser_t *p, int depth, tn_gradient_value_t *out) {
  tn_lexer_t *lexer = &p->lexer;
  if (depth > DEPTH_MAX)
    return tn_lexer_fail(lexer, "calls are nested more than %d levels deep", DEPTH_MAX);
  out->kind = TN_GRADIENT_CALL;
  TN_TRY(tn_lexer_operator(lexer, p->arena, p->schema->ns, &out->name));
  TN_TRY(tn_lexer_expect(lexer, '(', "'(' and the values of the call"));
  if (tn_lexer_take(lexer, ')')) return TENON_OK;
  size_t room = count_values(lexer);
  if (room > VALUES_MAX) return tn_lexer_fail(lexer, "a call has more than %d values", VALUES_MAX);
  tn_gradient_value_t *arguments = tn_arena_array(p->arena, room, sizeof *arguments);
  if (!arguments) return tn_no_memory("a gradient", room * sizeof *arguments);
  bool has_keyword = false;
  do {
    const char *at = lexer->start;
    tn_gradient_value_t *value = &arguments[out->argument_count];
    TN_TRY(parse_value(p, depth, value));
    if (has_keyword && !value->keyword)
      return tn_lexer_fail_at(lexer, at, "a value without a name cannot follow one with a name");
    if (is_repeated(arguments, out->argument_count))
      return tn_lexer_fail_at(lexer, at, "'%s' is given two values", value->keyword);
    has_keyword = value->keyword != NULL;
    out->argument_count++;
  } while (tn_lexer_take(lexer, ','));
  out->arguments = arguments;
  return tn_lexer_expect(lexer, ')', "',' or ')'");
}

/* formulas */

/* Core operators that use only the shape and dtype of some arguments, not the elements: a bit mask
 * of those arguments. */
static bool is_shape_only(const char *op, uint32_t argument) {
  static const struct {
    const char *op;
    uint32_t arguments;
  } known[] = {{"core::shape", 1},
               {"core::size", 1},
               {"core::size_ratio", 3},
               {"core::cast_like", 2},
               {"core::layer_norm_backward", 8},
               {"core::gemm_backward", 8}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].op, op) == 0) return known[i].arguments >> argument & 1;
  return false;
}

static void collect_uses(const tn_gradient_value_t *call, tn_gradient_formula_t *formula) {
  for (uint32_t i = 0; i < call->argument_count; i++) {
    const tn_gradient_value_t *value = &call->arguments[i];
    bool shaped = !value->keyword && i < 32 && is_shape_only(call->name, i);
    uint64_t bit = value->index >= 0 ? (uint64_t)1 << value->index : 0;
    if (value->kind == TN_GRADIENT_CALL) collect_uses(value, formula);
    if (value->kind == TN_GRADIENT_GRAD) formula->grads_used |= bit;
    if (value->kind == TN_GRADIENT_STATE) formula->reads_state = true;
    if (value->kind == TN_GRADIENT_INPUT)
      *(shaped ? &formula->inputs_shaped : &formula->inputs_used) |= bit;
    if (value->kind == TN_GRADIENT_OUTPUT)
      *(shaped ? &formula->outputs_shaped : &formula->outputs_used) |= bit;
  }
}

static tenon_status_t parse_formula(parser_t *p, uint64_t *named, tn_gradient_formula_t *out) {
  tn_lexer_t *lexer = &p->lexer;
  tn_lexer_t first = *lexer;
  const tn_schema_t *schema = p->schema;
  int32_t inputs[64];
  *out = (tn_gradient_formula_t){0};
  do {
    int32_t input =
        lexer->kind == TN_TOKEN_NAME ? tn_schema_input(schema, lexer->start, lexer->size) : -1;
    if (input < 0)
      return fail_unknown_name(p, "the name of an input", schema->inputs, schema->input_count);
    if (*named >> input & 1)
      return tn_lexer_fail(lexer, "input '%s' has two gradient formulas",
                           schema->inputs[input].name);
    *named |= (uint64_t)1 << input;
    inputs[out->input_count++] = input;
    tn_lexer_next(lexer);
  } while (tn_lexer_take(lexer, ','));
  TN_TRY(tn_lexer_expect(lexer, ':', "',' or ':' and a call, none or error"));
  int32_t *copy = tn_arena_array(p->arena, out->input_count, sizeof *copy);
  if (!copy) return tn_no_memory("a gradient", out->input_count * sizeof *copy);
  memcpy(copy, inputs, out->input_count * sizeof *copy);
  out->inputs = copy;
  if (lexer->kind != TN_TOKEN_NAME || !is_operator(lexer)) {
    out->kind = tn_lexer_is(lexer, "none") ? TN_FORMULA_NONE : TN_FORMULA_ERROR;
    if (!tn_lexer_is(lexer, "none") && !tn_lexer_is(lexer, "error"))
      return tn_lexer_unknown(lexer, "a call, none or error",
                              (const char *const[]){"none", "error", NULL}, NULL);
    tn_lexer_next(lexer);
    return TENON_OK;
  }
  for (uint32_t i = 0; i < out->input_count; i++, tn_lexer_next(&first), tn_lexer_next(&first))
    if (!may_be_float(p->types, &p->types->inputs[inputs[i]]))
      return tn_lexer_fail(&first, "input '%s' is never a float, so it has no gradient",
                           schema->inputs[inputs[i]].name);
  out->kind = TN_FORMULA_CALL;
  out->call.index = -1;
  TN_TRY(parse_call(p, 1, &out->call));
  collect_uses(&out->call, out);
  return TENON_OK;
}

static tenon_status_t check_named(const parser_t *p, uint64_t named) {
  tn_text_t names = {0};
  for (uint32_t i = 0; i < p->schema->input_count; i++)
    if (!(named >> i & 1) && may_be_float(p->types, &p->types->inputs[i]))
      tn_text_add(&names, "%s'%s'", names.size ? ", " : "", p->schema->inputs[i].name);
  if (!names.size && !names.failed) return TENON_OK;
  tn_lexer_fail(&p->lexer,
                "every input that may be a float needs a gradient formula (a call, none or error); "
                "missing for %s",
                tn_text_get(&names));
  tn_text_clear(&names);
  return TENON_INVALID;
}

tenon_status_t tn_gradient_parse(const char *text, const tn_schema_t *schema,
                                 const tn_types_t *types, tn_arena_t *arena,
                                 tn_gradient_t *out_gradient) {
  parser_t p = {.schema = schema, .types = types, .arena = arena};
  uint64_t named = 0;
  *out_gradient = (tn_gradient_t){0};
  if (!text) return TENON_OK;
  char *copy = tn_arena_text(arena, text, strlen(text));
  /* no input has two formulas */
  tn_gradient_formula_t *formulas =
      tn_arena_array(arena, schema->input_count + 1, sizeof *formulas);
  if (!copy || !formulas) return tn_no_memory("a gradient", strlen(text));
  tn_lexer_open(&p.lexer, "gradient", copy);
  uint32_t count = 0;
  do
    TN_TRY(parse_formula(&p, &named, &formulas[count++]));
  while (tn_lexer_take(&p.lexer, ';'));
  TN_TRY(tn_lexer_expect(&p.lexer, TN_TOKEN_END, "';' or the end"));
  TN_TRY(check_named(&p, named));
  *out_gradient = (tn_gradient_t){copy, count, formulas, false};
  for (uint32_t i = 0; i < count; i++)
    out_gradient->reads_state |= formulas[i].reads_state;
  return TENON_OK;
}

static tenon_status_t walk_value(const tn_gradient_value_t *value,
                                 tenon_status_t (*visit)(void *, const char *), void *context) {
  if (value->kind != TN_GRADIENT_CALL) return TENON_OK;
  TN_TRY(visit(context, value->name));
  for (uint32_t i = 0; i < value->argument_count; i++)
    TN_TRY(walk_value(&value->arguments[i], visit, context));
  return TENON_OK;
}

tenon_status_t tn_gradient_walk(const tn_gradient_t *gradient,
                                tenon_status_t (*visit)(void *context, const char *name),
                                void *context) {
  for (uint32_t i = 0; i < gradient->formula_count; i++)
    if (gradient->formulas[i].kind == TN_FORMULA_CALL)
      TN_TRY(walk_value(&gradient->formulas[i].call, visit, context));
  return TENON_OK;
}
