/* The parser of TENON_SAMPLES, which declares example inputs. Called when a library is loaded.
 * Invariant: every name in a parsed example is an argument of the schema or an extent of that
 * example. */
#include "core/samples.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "core/dtype.h"
#include "core/lexer.h"
#include "core/nearest.h"
#include "core/value.h"

enum { NAMES_MAX = 64 };

typedef struct parser_t {
  tn_lexer_t lexer;
  const tn_schema_t *schema;
  tn_arena_t *arena;
  uint32_t name_count;
  const char *names[NAMES_MAX];
  int32_t name_attrs[NAMES_MAX];
} parser_t;

static const char *const fills[] = {"normal", "uniform", "integers", "permutation",
                                    "zeros",  "ones",    NULL};

static void *allocate_items(parser_t *p, size_t count, size_t size) {
  return tn_arena_array(p->arena, count + 1, size);
}

/* Finds the extent with this name, or adds the name to the current call. */
static tenon_status_t take_extent_name(parser_t *p, const char *at, size_t size,
                                       int32_t *out_index) {
  uint32_t i = 0;
  while (i < p->name_count && (strlen(p->names[i]) != size || memcmp(p->names[i], at, size) != 0))
    i++;
  *out_index = (int32_t)i;
  if (i < p->name_count) return TENON_OK;
  int32_t attr = tn_schema_attr(p->schema, at, size);
  if (i == NAMES_MAX)
    return tn_lexer_fail_at(&p->lexer, at, "more than %d names of extents in one call", NAMES_MAX);
  if (attr >= 0 && p->schema->attrs[attr].kind != TENON_KIND_INT &&
      p->schema->attrs[attr].kind != TENON_KIND_DIM)
    return tn_lexer_fail_at(&p->lexer, at,
                            "attribute '%s' is not an int or a dim, so it cannot be an extent",
                            p->schema->attrs[attr].name);
  if (!(p->names[i] = tn_arena_text(p->arena, at, size))) return tn_no_memory("samples", size);
  p->name_attrs[i] = attr;
  p->name_count++;
  return TENON_OK;
}

/* Parses a number, True, False, an extent's name, or a name with a minus sign. The lexer reports
 * "-n" as a bad number. */
static tenon_status_t take_amount(parser_t *p, const char *expected, tn_amount_t *out) {
  tn_lexer_t *lexer = &p->lexer;
  *out = (tn_amount_t){.name = -1};
  bool is_word = lexer->kind == TN_TOKEN_NAME && !tn_lexer_is(lexer, "True") &&
                 !tn_lexer_is(lexer, "False") && !tn_lexer_is(lexer, "inf") &&
                 !tn_lexer_is(lexer, "nan");
  out->is_negative = lexer->kind == TN_TOKEN_BAD && lexer->start[0] == '-' &&
                     tn_is_name(lexer->start + 1, lexer->size - 1);
  if (is_word || out->is_negative) {
    TN_TRY(take_extent_name(p, lexer->start + out->is_negative, lexer->size - out->is_negative,
                            &out->name));
    tn_lexer_next(lexer);
    return TENON_OK;
  }
  if (lexer->kind == '[' || lexer->kind == TN_TOKEN_TEXT) return tn_lexer_expected(lexer, expected);
  tenon_value_t literal;
  const char *at = lexer->start;
  TN_TRY(tn_lexer_literal(lexer, p->arena, &literal));
  if (literal.kind != TENON_KIND_BOOL && literal.kind != TENON_KIND_INT &&
      literal.kind != TENON_KIND_FLOAT)
    return tn_lexer_fail_at(lexer, at, "expected %s", expected);
  out->number = literal.kind == TENON_KIND_FLOAT ? literal.as.f : (double)literal.as.i;
  return TENON_OK;
}

static tenon_status_t parse_texts(parser_t *p, size_t count, tn_fill_t *out) {
  tenon_string_t *texts = allocate_items(p, count, sizeof *texts);
  if (!texts) return tn_no_memory("samples", count * sizeof *texts);
  do {
    uint32_t size = 0;
    tenon_string_t *text = &texts[out->count++];
    TN_TRY(tn_lexer_text(&p->lexer, p->arena, &text->data, &size));
    text->size = size;
  } while (tn_lexer_take(&p->lexer, ','));
  out->texts = texts;
  return tn_lexer_expect(&p->lexer, ']', "',' or ']'");
}

static tenon_status_t parse_list(parser_t *p, tn_fill_t *out) {
  size_t count = tn_lexer_count(&p->lexer, ']');
  out->kind = TN_FILL_LIST;
  if (p->lexer.kind == TN_TOKEN_TEXT) return parse_texts(p, count, out);
  tn_amount_t *numbers = allocate_items(p, count, sizeof *numbers);
  if (!numbers) return tn_no_memory("samples", count * sizeof *numbers);
  out->numbers = numbers;
  if (tn_lexer_take(&p->lexer, ']')) return TENON_OK;
  do
    TN_TRY(take_amount(p, "a number, True, False or an extent", &numbers[out->count++]));
  while (tn_lexer_take(&p->lexer, ','));
  return tn_lexer_expect(&p->lexer, ']', "',' or ']'");
}

static tenon_status_t parse_fill(parser_t *p, tn_fill_t *out) {
  tn_lexer_t *lexer = &p->lexer;
  *out = (tn_fill_t){.kind = TN_FILL_USUAL, .low = {.name = -1}, .high = {.name = -1}};
  if (tn_lexer_take(lexer, '[')) return parse_list(p, out);
  if (lexer->kind != TN_TOKEN_NAME) return TENON_OK;
  int kind = 0;
  while (fills[kind] && !tn_lexer_is(lexer, fills[kind]))
    kind++;
  if (!fills[kind])
    return tn_lexer_unknown(
        lexer,
        "normal, uniform(low, high), integers(low, high), permutation, zeros, ones or [list]",
        fills, NULL);
  out->kind = (uint8_t)(TN_FILL_NORMAL + kind);
  tn_lexer_next(lexer);
  if (out->kind != TN_FILL_UNIFORM && out->kind != TN_FILL_INTEGERS) return TENON_OK;
  const char *at = lexer->start;
  TN_TRY(tn_lexer_expect(lexer, '(', "'(' and the bounds"));
  TN_TRY(take_amount(p, "a number or an extent", &out->low));
  TN_TRY(tn_lexer_expect(lexer, ',', "',' and the upper bound"));
  TN_TRY(take_amount(p, "a number or an extent", &out->high));
  if (out->low.name < 0 && out->high.name < 0 && !(out->low.number < out->high.number))
    return tn_lexer_fail_at(lexer, at,
                            "the lower bound must be less than the upper bound, which is excluded");
  return tn_lexer_expect(lexer, ')', "')'");
}

static tenon_status_t parse_tensor(parser_t *p, tn_sample_tensor_t *out) {
  tn_lexer_t *lexer = &p->lexer;
  *out = (tn_sample_tensor_t){{0, 0, 0}, 0, NULL, {0}};
  if (lexer->kind == TN_TOKEN_NAME) {
    if (!tn_dtype_parse(lexer->start, lexer->size, &out->dtype))
      return tn_lexer_unknown(lexer, "a dtype or '['", NULL, tn_dtype_word);
    tn_lexer_next(lexer);
  }
  TN_TRY(tn_lexer_expect(
      lexer, '[', out->dtype.bits ? "'[' and the extents" : "a dtype, or '[' and the extents"));
  size_t count = lexer->kind == ']' ? 0 : tn_lexer_count(lexer, ']');
  if (count > TENON_RANK_MAX)
    return tn_lexer_fail(lexer, "a tensor has at most %d extents", TENON_RANK_MAX);
  tn_amount_t *extents = allocate_items(p, count, sizeof *extents);
  if (!extents) return tn_no_memory("samples", count * sizeof *extents);
  for (; out->ndim < (int32_t)count; out->ndim++) {
    if (out->ndim) TN_TRY(tn_lexer_expect(lexer, ',', "',' or ']'"));
    const char *at = lexer->start;
    tn_amount_t *extent = &extents[out->ndim];
    TN_TRY(take_amount(p, "an extent (a name or a number)", extent));
    if (extent->is_negative || extent->number < 0 || extent->number != floor(extent->number) ||
        extent->number > 0x1p53)
      return tn_lexer_fail_at(lexer, at, "an extent must be a whole number of at least 0");
  }
  out->extents = extents;
  TN_TRY(tn_lexer_expect(lexer, ']', "',' or ']'"));
  return parse_fill(p, &out->fill);
}

static tenon_status_t parse_input(parser_t *p, const tn_argument_t *argument,
                                  tn_sample_input_t *out) {
  tn_lexer_t *lexer = &p->lexer;
  size_t room_count = 1;
  if (lexer->kind == '=') {
    tn_lexer_next(lexer);
    if (!argument->is_optional)
      return tn_lexer_fail(lexer, "input '%s' is not optional: expected ':' and its description",
                           argument->name);
    if (!tn_lexer_is(lexer, "None"))
      return tn_lexer_expected(lexer, "None: an input is described after ':'");
    tn_lexer_next(lexer);
    out->form = TN_SAMPLE_ABSENT;
    return TENON_OK;
  }
  TN_TRY(tn_lexer_expect(lexer, ':', "':' and a description of the input, or '= None'"));
  bool is_list = argument->kind == TENON_KIND_TENSORS;
  if (is_list) {
    TN_TRY(tn_lexer_expect(lexer, '(', "'(' and the tensors of the list"));
    for (tn_lexer_t ahead = *lexer; ahead.kind != ')' && ahead.kind != TN_TOKEN_END;
         tn_lexer_next(&ahead))
      room_count += ahead.kind == ',';
  }
  tn_sample_tensor_t *tensors = allocate_items(p, room_count, sizeof *tensors);
  if (!tensors) return tn_no_memory("samples", room_count * sizeof *tensors);
  out->form = TN_SAMPLE_GIVEN;
  out->tensors = tensors;
  if (is_list && tn_lexer_take(lexer, ')')) return TENON_OK;
  do
    TN_TRY(parse_tensor(p, &tensors[out->count++]));
  while (is_list && tn_lexer_take(lexer, ','));
  return is_list ? tn_lexer_expect(lexer, ')', "',' or ')'") : TENON_OK;
}

/* Stores a number as an element; false if attributes of this dtype cannot be stated. */
static bool set_element(const tenon_tensor_t *tensor, int64_t i, double number) {
  switch (tenon_dtype_id(tensor->dtype)) {
  case TENON_I64:
    ((int64_t *)tensor->data)[i] = (int64_t)number;
    return true;
  case TENON_I32:
    ((int32_t *)tensor->data)[i] = (int32_t)number;
    return true;
  case TENON_F32:
    ((float *)tensor->data)[i] = (float)number;
    return true;
  case TENON_F64:
    ((double *)tensor->data)[i] = number;
    return true;
  default:
    return false;
  }
}

/* Makes the tensor of an attribute in the arena. It is not owned, so nothing retains it. */
static tenon_status_t make_attr_tensor(parser_t *p, const tn_sample_tensor_t *from, const char *at,
                                       tenon_tensor_t **out) {
  enum { ELEMENTS_MAX = 1 << 12 };
  tenon_tensor_t *made = allocate_items(p, 1, sizeof *made);
  int64_t *shape = allocate_items(p, (size_t)from->ndim, sizeof *shape);
  int64_t *strides = allocate_items(p, (size_t)from->ndim, sizeof *strides);
  int64_t count = 1;
  bool is_known = from->dtype.bits >= 8 && from->fill.kind == TN_FILL_LIST;
  if (!made || !shape || !strides) return tn_no_memory("samples", sizeof *made);
  for (int32_t i = from->ndim - 1; i >= 0; i--) {
    is_known = is_known && from->extents[i].name < 0 && from->extents[i].number <= ELEMENTS_MAX;
    shape[i] = is_known ? (int64_t)from->extents[i].number : 0;
    strides[i] = count;
    count *= shape[i];
    is_known = is_known && count <= ELEMENTS_MAX;
  }
  bool is_text = tenon_dtype_id(from->dtype) == TENON_STRING;
  if (!is_known || from->fill.count != (uint32_t)count || is_text != (from->fill.texts != NULL))
    return tn_lexer_fail_at(&p->lexer, at,
                            "the tensor of an attribute needs a dtype, extents as numbers, and a "
                            "list of all its elements");
  *made = (tenon_tensor_t){.device = {1, 0},
                           .ndim = from->ndim,
                           .dtype = from->dtype,
                           .shape = shape,
                           .strides = strides};
  *out = made;
  if (is_text) {
    made->data = (void *)(uintptr_t)from->fill.texts;
    return TENON_OK;
  }
  if (!(made->data = allocate_items(p, (size_t)count, from->dtype.bits / 8u)))
    return tn_no_memory("samples", (size_t)count);
  for (int64_t i = 0; i < count; i++)
    if (from->fill.numbers[i].name >= 0 || !set_element(made, i, from->fill.numbers[i].number))
      return tn_lexer_fail_at(&p->lexer, at,
                              "the tensor of an attribute must have numbers of i32, i64, f32 or "
                              "f64, or strings");
  return TENON_OK;
}

static tenon_status_t parse_attr(parser_t *p, const tn_argument_t *attr, tenon_value_t *out) {
  tenon_value_t literal;
  TN_TRY(tn_lexer_expect(&p->lexer, '=', "'=' and a value"));
  const char *at = p->lexer.start;
  if (attr->kind == TENON_KIND_TENSOR && !tn_lexer_is(&p->lexer, "None")) {
    tn_sample_tensor_t tensor;
    *out = (tenon_value_t){.kind = TENON_KIND_TENSOR, .count = 1};
    TN_TRY(parse_tensor(p, &tensor));
    return make_attr_tensor(p, &tensor, at, &out->as.tensor);
  }
  TN_TRY(tn_lexer_literal(&p->lexer, p->arena, &literal));
  char why[512];
  tenon_status_t status = tn_value_fit(attr, &literal, p->arena, out);
  if (status == TENON_OK || status == TENON_MEMORY) return status;
  strncpy(why, tn_error(), sizeof why - 1)[sizeof why - 1] = 0;
  return tn_lexer_fail_at(&p->lexer, at, "attribute '%s': %s", attr->name, why);
}

static tenon_status_t parse_argument(parser_t *p, tn_sample_input_t *inputs, tenon_value_t *attrs,
                                     bool *has_attr) {
  tn_lexer_t *lexer = &p->lexer;
  const tn_schema_t *schema = p->schema;
  const char *at = lexer->start;
  if (lexer->kind != TN_TOKEN_NAME) return tn_lexer_expected(lexer, "an input or an attribute");
  int32_t input = tn_schema_input(schema, at, lexer->size);
  int32_t attr = tn_schema_attr(schema, at, lexer->size);
  if (input < 0 && attr < 0) {
    tn_nearest_t nearest;
    tn_nearest_begin(&nearest, at, lexer->size);
    for (uint32_t i = 0; i < schema->argument_count; i++)
      tn_nearest_offer(&nearest, schema->arguments[i]->name);
    return tn_lexer_fail(lexer, "expected an input or an attribute, found '%.*s'%s",
                         (int)lexer->size, at, tn_nearest_say(&nearest));
  }
  if (input >= 0 ? inputs[input].form != TN_SAMPLE_UNSTATED : has_attr[attr])
    return tn_lexer_fail(lexer, "'%.*s' is stated twice in one call", (int)lexer->size, at);
  tn_lexer_next(lexer);
  if (input >= 0) return parse_input(p, &schema->inputs[input], &inputs[input]);
  has_attr[attr] = true;
  return parse_attr(p, &schema->attrs[attr], &attrs[attr]);
}

static tenon_status_t parse_call(parser_t *p, tn_sample_t *out) {
  const tn_schema_t *schema = p->schema;
  tn_sample_input_t *inputs = allocate_items(p, schema->input_count, sizeof *inputs);
  tenon_value_t *attrs = allocate_items(p, schema->attr_count, sizeof *attrs);
  bool *has_attr = allocate_items(p, schema->attr_count, sizeof *has_attr);
  if (!inputs || !attrs || !has_attr)
    return tn_no_memory("samples", schema->argument_count * sizeof *inputs);
  p->name_count = 0;
  do
    TN_TRY(parse_argument(p, inputs, attrs, has_attr));
  while (tn_lexer_take(&p->lexer, ','));
  const char **names = allocate_items(p, p->name_count, sizeof *names);
  int32_t *name_attrs = allocate_items(p, p->name_count, sizeof *name_attrs);
  if (!names || !name_attrs) return tn_no_memory("samples", p->name_count * sizeof *names);
  memcpy(names, p->names, p->name_count * sizeof *names);
  memcpy(name_attrs, p->name_attrs, p->name_count * sizeof *name_attrs);
  *out = (tn_sample_t){inputs, attrs, has_attr, p->name_count, names, name_attrs};
  return TENON_OK;
}

tenon_status_t tn_samples_parse(const char *text, const tn_schema_t *schema, tn_arena_t *arena,
                                tn_samples_t *out_samples) {
  *out_samples = (tn_samples_t){0};
  if (!text) return TENON_OK;
  parser_t p = {.schema = schema, .arena = arena};
  const char *copy = tn_arena_text(arena, text, strlen(text));
  size_t count = 1;
  for (const char *c = text; *c; c++)
    count += *c == ';';
  tn_sample_t *calls = copy ? allocate_items(&p, count, sizeof *calls) : NULL;
  if (!calls) return tn_no_memory("samples", count * sizeof *calls);
  tn_lexer_open(&p.lexer, "samples", copy);
  do
    TN_TRY(parse_call(&p, &calls[out_samples->count++]));
  while (tn_lexer_take(&p.lexer, ';') && p.lexer.kind != TN_TOKEN_END);
  out_samples->text = copy;
  out_samples->calls = calls;
  return tn_lexer_expect(&p.lexer, TN_TOKEN_END, "',', ';' or the end");
}
