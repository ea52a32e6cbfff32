/* Shape patterns: parses TENON_SHAPES and TENON_SHARDING when a library is loaded, and applies
 * SHAPES in every infer and every call. Invariant: in parsed patterns a result uses only names that
 * an input or an attribute may bind. */
#include "core/pattern.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "core/lexer.h"
#include "core/match.h"
#include "core/nearest.h"
#include "core/value.h"

enum { NAMES_MAX = 64 };

/* parsing */

typedef struct parser_t {
  tn_lexer_t lexer;
  const tn_schema_t *schema;
  tn_arena_t *arena;
  bool is_sharding;
  bool has_leading;       /* some input has leading extents */
  const char *leading_at; /* position of "..." in a result */
  tn_pattern_t *patterns; /* inputs, then results */
  uint32_t name_count;
  const char *names[NAMES_MAX];
  int32_t attrs[NAMES_MAX];
  bool is_bound[NAMES_MAX];       /* an input binds the name */
  const char *used_at[NAMES_MAX]; /* position where a result uses the name */
} parser_t;

static const tn_argument_t *argument_at(const tn_schema_t *schema, uint32_t i) {
  return i < schema->input_count ? &schema->inputs[i] : &schema->outputs[i - schema->input_count];
}

static tenon_status_t take_argument(parser_t *p, uint32_t count, const char *expected,
                                    uint32_t *out_index) {
  tn_lexer_t *lexer = &p->lexer;
  tn_nearest_t nearest;
  for (*out_index = 0; *out_index < count; ++*out_index)
    if (tn_lexer_is(lexer, argument_at(p->schema, *out_index)->name)) {
      tn_lexer_next(lexer);
      return TENON_OK;
    }
  if (lexer->kind != TN_TOKEN_NAME) return tn_lexer_expected(lexer, expected);
  tn_nearest_begin(&nearest, lexer->start, lexer->size);
  for (uint32_t i = 0; i < count; i++)
    tn_nearest_offer(&nearest, argument_at(p->schema, i)->name);
  return tn_lexer_fail(lexer, "expected %s, found '%.*s'%s", expected, (int)lexer->size,
                       lexer->start, tn_nearest_say(&nearest));
}

static tenon_status_t take_extent_name(parser_t *p, bool is_input, int64_t *out_index) {
  const tn_lexer_t *lexer = &p->lexer;
  uint32_t i = 0;
  while (i < p->name_count && !tn_lexer_is(lexer, p->names[i]))
    i++;
  *out_index = i;
  if (i == p->name_count) {
    int32_t attr = p->is_sharding ? -1 : tn_schema_attr(p->schema, lexer->start, lexer->size);
    if (i == NAMES_MAX) return tn_lexer_fail(lexer, "more than %d names of extents", NAMES_MAX);
    if (attr >= 0 && p->schema->attrs[attr].kind != TENON_KIND_INT &&
        p->schema->attrs[attr].kind != TENON_KIND_DIM)
      return tn_lexer_fail(lexer,
                           "attribute '%s' is not an int or a dim, so it cannot be an extent",
                           p->schema->attrs[attr].name);
    p->names[i] = tn_arena_text(p->arena, lexer->start, lexer->size);
    if (!p->names[i]) return tn_no_memory("shapes", lexer->size);
    p->attrs[i] = attr;
    p->is_bound[i] = false;
    p->used_at[i] = NULL;
    p->name_count++;
  }
  if (is_input)
    p->is_bound[i] = true;
  else if (!p->used_at[i])
    p->used_at[i] = lexer->start;
  return TENON_OK;
}

/* Parses one extent after "[". `is_input`: all arguments of this declaration are inputs. */
static tenon_status_t parse_extent(parser_t *p, bool is_input, tn_pattern_extent_t *out) {
  tn_lexer_t *lexer = &p->lexer;
  if (lexer->kind == TN_TOKEN_INT) {
    tenon_value_t number;
    const char *at = lexer->start;
    TN_TRY(tn_lexer_literal(lexer, p->arena, &number));
    if (number.as.i < 0)
      return tn_lexer_fail_at(lexer, at, "an extent must be at least 0, found %" PRId64,
                              number.as.i);
    *out = (tn_pattern_extent_t){TN_EXTENT_NUMBER, number.as.i};
    return TENON_OK;
  }
  if (lexer->kind == TN_TOKEN_DOTS)
    return tn_lexer_fail(lexer, "'...' stands for the leading extents, so it must come first");
  if (lexer->kind != TN_TOKEN_NAME)
    return tn_lexer_expected(lexer, "an extent (a name, a number, '_') or ']'");
  if (tn_lexer_is(lexer, "_")) {
    if (!is_input && !p->is_sharding)
      return tn_lexer_fail(lexer, "'_' accepts any extent, but the extents of a result must be "
                                  "known: give it a name, or leave it to infer");
    *out = (tn_pattern_extent_t){TN_EXTENT_ANY, 0};
  } else {
    out->kind = TN_EXTENT_NAME;
    TN_TRY(take_extent_name(p, is_input, &out->number));
  }
  tn_lexer_next(lexer);
  return TENON_OK;
}

static tenon_status_t parse_extents(parser_t *p, bool is_input, tn_pattern_t *out) {
  tn_lexer_t *lexer = &p->lexer;
  *out = (tn_pattern_t){.is_given = true, .same_as = -1};
  TN_TRY(tn_lexer_expect(lexer, '[', "'['"));
  size_t room = tn_lexer_count(lexer, ']');
  if (room > TENON_RANK_MAX + 1)
    return tn_lexer_fail(lexer, "a tensor has at most %d extents", TENON_RANK_MAX);
  tn_pattern_extent_t *extents = tn_arena_array(p->arena, room, sizeof *extents);
  if (!extents) return tn_no_memory("shapes", room * sizeof *extents);
  out->extents = extents;
  if (lexer->kind == TN_TOKEN_DOTS) {
    out->has_leading = true;
    if (is_input)
      p->has_leading = true;
    else if (!p->leading_at)
      p->leading_at = lexer->start;
    tn_lexer_next(lexer);
    if (tn_lexer_take(lexer, ']')) return TENON_OK;
    TN_TRY(tn_lexer_expect(lexer, ',', "',' or ']'"));
  } else if (tn_lexer_take(lexer, ']')) {
    return TENON_OK;
  }
  do {
    if (out->count == TENON_RANK_MAX)
      return tn_lexer_fail(lexer, "a tensor has at most %d extents", TENON_RANK_MAX);
    TN_TRY(parse_extent(p, is_input, &extents[out->count++]));
  } while (tn_lexer_take(lexer, ','));
  return tn_lexer_expect(lexer, ']', "',' or ']'");
}

static tenon_status_t parse_same(parser_t *p, uint32_t argument) {
  tn_lexer_t *lexer = &p->lexer;
  const char *at = lexer->start;
  uint32_t input;
  tn_lexer_next(lexer);
  if (p->is_sharding)
    return tn_lexer_fail_at(lexer, at, "expected ':' and extents: sharding does not allow '='");
  const char *name = argument_at(p->schema, argument)->name;
  bool is_list = argument_at(p->schema, argument)->kind == TENON_KIND_TENSORS;
  if (argument < p->schema->input_count && is_list)
    return tn_lexer_fail_at(lexer, at, "input '%s' is a list, and '=' is for one tensor", name);
  at = lexer->start;
  TN_TRY(take_argument(p, p->schema->input_count, "an input", &input));
  const tn_argument_t *of = &p->schema->inputs[input];
  if (of->kind == TENON_KIND_TENSORS || of->is_optional)
    return tn_lexer_fail_at(lexer, at, "input '%s' %s, so no argument can take its shape", of->name,
                            of->is_optional ? "is optional" : "is a list");
  if (input >= argument)
    return tn_lexer_fail_at(lexer, at,
                            "input '%s' does not come before '%s': the input after '=' must be an "
                            "earlier one",
                            of->name, name);
  p->patterns[argument] = (tn_pattern_t){.is_given = true, .same_as = (int32_t)input};
  return TENON_OK;
}

static tenon_status_t parse_declaration(parser_t *p) {
  tn_lexer_t *lexer = &p->lexer;
  uint32_t arguments[2 * 64];
  uint32_t count = 0;
  uint32_t total = p->schema->input_count + p->schema->output_count;
  bool is_input = true;
  do {
    const char *at = lexer->start;
    TN_TRY(take_argument(p, total, "an input or a result", &arguments[count]));
    tn_pattern_t *pattern = &p->patterns[arguments[count]];
    if (pattern->is_given)
      return tn_lexer_fail_at(lexer, at, "'%s' is declared twice",
                              argument_at(p->schema, arguments[count])->name);
    pattern->is_given = true;
    if (arguments[count] >= p->schema->input_count) is_input = false;
    count++;
  } while (tn_lexer_take(lexer, ','));
  if (lexer->kind == '=' && count == 1) return parse_same(p, arguments[0]);
  TN_TRY(tn_lexer_expect(lexer, ':',
                         count == 1 ? "',', ':' and extents, or '=' and an input"
                                    : "',' or ':' and extents"));
  tn_pattern_t pattern;
  TN_TRY(parse_extents(p, is_input, &pattern));
  for (uint32_t i = 0; i < count; i++) {
    p->patterns[arguments[i]] = pattern;
    if (is_input || arguments[i] >= p->schema->input_count) continue;
    /* in "x, out: [n]" x binds the names that out uses */
    if (pattern.has_leading) p->has_leading = true;
    for (int32_t k = 0; k < pattern.count; k++)
      if (pattern.extents[k].kind == TN_EXTENT_NAME) p->is_bound[pattern.extents[k].number] = true;
  }
  return TENON_OK;
}

/* Returns whether the text continues with this word and a name. An argument may have the word as
 * its name, too; ',' or ':' follows it. */
static bool starts_with(const parser_t *p, const char *word) {
  tn_lexer_t ahead = p->lexer;
  if (!p->is_sharding || !tn_lexer_is(&ahead, word)) return false;
  tn_lexer_next(&ahead);
  return ahead.kind == TN_TOKEN_NAME;
}

/* Parses "sum k, n": extents of inputs that no result has. If they are split, each part computes a
 * part of the sum that is the result. */
static tenon_status_t parse_sums(parser_t *p) {
  tn_lexer_t *lexer = &p->lexer;
  tn_lexer_next(lexer);
  do {
    uint32_t i = 0;
    while (i < p->name_count && !tn_lexer_is(lexer, p->names[i]))
      i++;
    if (i == p->name_count || !p->is_bound[i])
      return tn_lexer_expected(lexer, "the name of an extent of an input");
    if (p->used_at[i])
      return tn_lexer_fail(lexer, "extent '%s' is also one of a result, so it is not summed",
                           p->names[i]);
    tn_lexer_next(lexer);
  } while (tn_lexer_take(lexer, ','));
  return TENON_OK;
}

/* Parses "axis = -1" or "bias = None" after "if": the value of an attribute, or the absence of an
 * optional input. */
static tenon_status_t parse_condition(parser_t *p) {
  tn_lexer_t *lexer = &p->lexer;
  const tn_schema_t *schema = p->schema;
  const char *at = lexer->start;
  const int32_t attr = tn_schema_attr(schema, lexer->start, lexer->size);
  uint32_t input = 0;
  tenon_value_t value;
  while (input < schema->input_count && !tn_lexer_is(lexer, schema->inputs[input].name))
    input++;
  if (attr < 0 && (input == schema->input_count || !schema->inputs[input].is_optional))
    return tn_lexer_expected(lexer, "an attribute or an optional input");
  tn_lexer_next(lexer);
  TN_TRY(tn_lexer_expect(lexer, '=', "'=' and a value"));
  TN_TRY(tn_lexer_literal(lexer, p->arena, &value));
  if (attr < 0 && value.kind != TENON_KIND_NONE)
    return tn_lexer_fail_at(lexer, at, "'%s' is an input, whose only condition is '= None'",
                            schema->inputs[input].name);
  if (attr < 0 || tn_value_fit(&schema->attrs[attr], &value, p->arena, &value) == TENON_OK)
    return TENON_OK;
  return tn_lexer_fail_at(lexer, at, "attribute '%s' cannot have this value",
                          schema->attrs[attr].name);
}

/* Parses "if axis = -1, bias = None": the calls for which the declaration is. */
static tenon_status_t parse_conditions(parser_t *p) {
  tn_lexer_next(&p->lexer);
  do
    TN_TRY(parse_condition(p));
  while (tn_lexer_take(&p->lexer, ','));
  return TENON_OK;
}

static tenon_status_t check_bound(const parser_t *p) {
  if (p->leading_at && !p->has_leading)
    return tn_lexer_fail_at(&p->lexer, p->leading_at,
                            "no input declares the leading extents '...' of this result");
  for (uint32_t i = 0; i < p->name_count && !p->is_sharding; i++) {
    if (!p->used_at[i] || p->is_bound[i] || p->attrs[i] >= 0) continue;
    tn_nearest_t nearest;
    tn_nearest_begin(&nearest, p->names[i], strlen(p->names[i]));
    for (uint32_t k = 0; k < p->name_count; k++)
      if (p->is_bound[k]) tn_nearest_offer(&nearest, p->names[k]);
    for (uint32_t k = 0; k < p->schema->attr_count; k++)
      tn_nearest_offer(&nearest, p->schema->attrs[k].name);
    return tn_lexer_fail_at(
        &p->lexer, p->used_at[i],
        "extent '%s' of a result is neither an extent of an input nor an int or dim attribute%s",
        p->names[i], tn_nearest_say(&nearest));
  }
  return TENON_OK;
}

/* Parses declarations of arguments, and in a sharding "sum" and "if" after them. */
static tenon_status_t parse_rules(parser_t *p) {
  p->has_leading = false;
  p->leading_at = NULL;
  p->name_count = 0;
  for (uint32_t i = 0; i < p->schema->input_count + p->schema->output_count; i++)
    p->patterns[i] = (tn_pattern_t){.same_as = -1};
  do {
    if (starts_with(p, "sum")) {
      TN_TRY(parse_sums(p));
      parser_t ahead = *p;
      if (!tn_lexer_take(&ahead.lexer, ';') || !starts_with(&ahead, "if")) break;
      tn_lexer_next(&p->lexer);
    }
    if (starts_with(p, "if")) {
      TN_TRY(parse_conditions(p));
      break;
    }
    TN_TRY(parse_declaration(p));
  } while (tn_lexer_take(&p->lexer, ';'));
  return check_bound(p);
}

static tenon_status_t parse_patterns(const char *text, bool is_sharding, const tn_schema_t *schema,
                                     tn_arena_t *arena, tn_patterns_t *out_patterns) {
  parser_t p;
  uint32_t total = schema->input_count + schema->output_count;
  *out_patterns = (tn_patterns_t){0};
  tn_pattern_t *patterns = tn_arena_array(arena, total, sizeof *patterns);
  if (!patterns) return tn_no_memory("shapes", total * sizeof *patterns);
  for (uint32_t i = 0; i < total; i++)
    patterns[i].same_as = -1;
  out_patterns->inputs = patterns;
  out_patterns->outputs = patterns + schema->input_count;
  if (!text)
    return is_sharding ? TENON_OK
                       : tn_matcher_create(out_patterns, schema, arena, &out_patterns->matcher);
  char *copy = tn_arena_text(arena, text, strlen(text));
  if (!copy) return tn_no_memory("shapes", strlen(text));
  p.schema = schema;
  p.arena = arena;
  p.is_sharding = is_sharding;
  p.patterns = patterns;
  tn_lexer_open(&p.lexer, is_sharding ? "sharding" : "shapes", copy);
  TN_TRY(parse_rules(&p));
  while (is_sharding && tn_lexer_take(&p.lexer, '|')) /* another declaration, for other calls */
    TN_TRY(parse_rules(&p));
  TN_TRY(tn_lexer_expect(&p.lexer, TN_TOKEN_END, "';' or the end"));
  const char **names = tn_arena_array(arena, p.name_count, sizeof *names);
  int32_t *attrs = tn_arena_array(arena, p.name_count, sizeof *attrs);
  if (!names || !attrs) return tn_no_memory("shapes", p.name_count * sizeof *names);
  for (uint32_t i = 0; i < p.name_count; i++) {
    names[i] = p.names[i];
    attrs[i] = p.attrs[i];
  }
  out_patterns->text = copy;
  out_patterns->name_count = p.name_count;
  out_patterns->names = names;
  out_patterns->name_attrs = attrs;
  return is_sharding ? TENON_OK
                     : tn_matcher_create(out_patterns, schema, arena, &out_patterns->matcher);
}

tenon_status_t tn_patterns_parse(const char *text, bool is_sharding, const tn_schema_t *schema,
                                 tn_arena_t *arena, tn_patterns_t *out_patterns) {
  tenon_status_t status = parse_patterns(text, is_sharding, schema, arena, out_patterns);
  if (status == TENON_MEMORY) /* a caller can tell from the text that only memory was missing */
    out_patterns->text = text;
  return status;
}

/* applying */

typedef struct match_t {
  const tn_patterns_t *patterns;
  const tn_schema_t *schema;
  tenon_infer_t *infer;
  uint64_t bound; /* bit mask of names */
  tenon_dim_t names[NAMES_MAX];
  int32_t leading_count;
  tenon_dim_t leading[TENON_RANK_MAX]; /* from the last axis to the first */
} match_t;

static void print_dim(tenon_dim_t dim, tn_text_t *text) {
  if (tenon_is_known(dim))
    tn_text_add(text, "%" PRId64, dim.value);
  else
    tn_text_add(text, "?");
}

static void print_pattern(const match_t *m, const tn_pattern_t *pattern, tn_text_t *text) {
  tn_text_add(text, "[%s", pattern->has_leading ? "..." : "");
  for (int32_t i = 0; i < pattern->count; i++) {
    const tn_pattern_extent_t *extent = &pattern->extents[i];
    if (i || pattern->has_leading) tn_text_add(text, ", ");
    if (extent->kind == TN_EXTENT_NAME)
      tn_text_add(text, "%s", m->patterns->names[extent->number]);
    else if (extent->kind == TN_EXTENT_NUMBER)
      tn_text_add(text, "%" PRId64, extent->number);
    else
      tn_text_add(text, "_");
  }
  tn_text_add(text, "]");
}

static void print_shape(const tenon_meta_t *meta, tn_text_t *text) {
  tn_text_add(text, "[");
  for (int32_t i = 0; i < meta->ndim; i++) {
    if (i) tn_text_add(text, ", ");
    print_dim(meta->dims[i], text);
  }
  tn_text_add(text, "]");
}

/* The argument that bound a name, for messages. */
static const char *binder_of(const match_t *m, int64_t name) {
  if (m->patterns->name_attrs[name] >= 0)
    return m->schema->attrs[m->patterns->name_attrs[name]].name;
  for (uint32_t i = 0; i < m->schema->input_count; i++)
    for (int32_t k = 0; m->infer->inputs[i] && k < m->patterns->inputs[i].count; k++) {
      const tn_pattern_extent_t *extent = &m->patterns->inputs[i].extents[k];
      if (extent->kind == TN_EXTENT_NAME && extent->number == name)
        return m->schema->inputs[i].name;
    }
  return "";
}

/* `extent` is NULL if the rank is wrong. */
static tenon_status_t fail_mismatch(const match_t *m, uint32_t input, const tenon_meta_t *meta,
                                    const tn_pattern_extent_t *extent) {
  tn_text_t expected = {0};
  tn_text_t found = {0};
  int32_t same_as = m->patterns->inputs[input].same_as;
  if (same_as < 0) {
    print_pattern(m, &m->patterns->inputs[input], &expected);
  } else {
    print_shape(m->infer->inputs[same_as], &expected);
    tn_text_add(&expected, ", as '%s' has", m->schema->inputs[same_as].name);
  }
  if (extent && extent->kind == TN_EXTENT_NAME) {
    tn_text_add(&expected, " with %s = ", m->patterns->names[extent->number]);
    print_dim(m->names[extent->number], &expected);
    tn_text_add(&expected, ", from '%s'", binder_of(m, extent->number));
  }
  print_shape(meta, &found);
  tn_fail(TENON_INVALID, "operator '%s': input '%s': expected shape %s, found %s", m->schema->full,
          m->schema->inputs[input].name, tn_text_get(&expected), tn_text_get(&found));
  tn_text_clear(&expected);
  tn_text_clear(&found);
  return TENON_INVALID;
}

static bool differ(tenon_dim_t a, tenon_dim_t b) {
  return a.value != b.value && tenon_is_known(a) && tenon_is_known(b);
}

static void copy_shape(const tenon_meta_t *from, tenon_meta_t *to) {
  for (int32_t i = 0; i < from->ndim; i++)
    to->dims[i] = from->dims[i];
  to->ndim = from->ndim;
}

/* Checks an input that must have the shape of an earlier one, or deduces the earlier one. */
static tenon_status_t match_same(match_t *m, uint32_t input, const tenon_meta_t *meta) {
  tenon_meta_t *of = m->infer->inputs[m->patterns->inputs[input].same_as];
  if (!of) return TENON_OK; /* the call is refused elsewhere: that input is not optional */
  if (of->ndim < 0) {
    copy_shape(meta, of);
    return TENON_OK;
  }
  if (of->ndim != meta->ndim) return fail_mismatch(m, input, meta, NULL);
  for (int32_t i = 0; i < meta->ndim; i++) {
    if (of->dims[i].value == meta->dims[i].value) continue;
    if (differ(of->dims[i], meta->dims[i])) return fail_mismatch(m, input, meta, NULL);
    (void)tenon_dim(m->infer, TENON_DIM_EQUAL, of->dims[i], meta->dims[i]);
  }
  return TENON_OK;
}

/* Matches one shape with the pattern of an input: binds names and leading extents, or checks
 * them. */
static tenon_status_t match_input(match_t *m, uint32_t input, const tenon_meta_t *meta) {
  const tn_pattern_t *pattern = &m->patterns->inputs[input];
  int32_t leading = meta->ndim - pattern->count;
  if (meta->ndim < 0) return TENON_OK; /* the shape is deduced later */
  if (pattern->same_as >= 0) return match_same(m, input, meta);
  if (pattern->has_leading ? leading < 0 : leading != 0) return fail_mismatch(m, input, meta, NULL);
  for (int32_t i = 0; i < leading; i++) {
    tenon_dim_t *to = &m->leading[i];
    tenon_dim_t found = meta->dims[leading - 1 - i];
    if (i == m->leading_count) {
      *to = found;
      m->leading_count++;
    } else if (to->value == found.value || found.value == 1) {
      continue;
    } else if (to->value == 1) {
      *to = found;
    } else if (differ(*to, found)) {
      return tn_fail(TENON_INVALID,
                     "operator '%s': input '%s': leading extent %d is %" PRId64
                     ", which does not broadcast with extent %" PRId64 " of the inputs before it",
                     m->schema->full, m->schema->inputs[input].name, leading - 1 - i, found.value,
                     to->value);
    } else {
      *to = tenon_dim(m->infer, TENON_DIM_BROADCAST, *to, found);
    }
  }
  for (int32_t i = 0; i < pattern->count; i++) {
    const tn_pattern_extent_t *extent = &pattern->extents[i];
    tenon_dim_t found = meta->dims[leading + i];
    if (extent->kind == TN_EXTENT_ANY) continue;
    if (extent->kind == TN_EXTENT_NAME && !(m->bound >> extent->number & 1)) {
      m->names[extent->number] = found;
      m->bound |= (uint64_t)1 << extent->number;
      continue;
    }
    tenon_dim_t expected =
        extent->kind == TN_EXTENT_NAME ? m->names[extent->number] : tenon_extent(extent->number);
    if (expected.value == found.value) continue;
    if (differ(expected, found)) return fail_mismatch(m, input, meta, extent);
    expected = tenon_dim(m->infer, TENON_DIM_EQUAL, expected, found);
    if (extent->kind == TN_EXTENT_NAME) m->names[extent->number] = expected;
  }
  return TENON_OK;
}

/* Fills in a shape. Returns false if a name in the pattern is not bound. */
static bool build_shape(const match_t *m, const tn_pattern_t *pattern, tenon_meta_t *out,
                        const tn_pattern_extent_t **out_free) {
  int32_t leading = pattern->has_leading ? m->leading_count : 0;
  for (int32_t i = 0; i < pattern->count; i++) {
    const tn_pattern_extent_t *extent = &pattern->extents[i];
    *out_free = extent;
    if (extent->kind == TN_EXTENT_ANY) return false;
    if (extent->kind == TN_EXTENT_NAME && !(m->bound >> extent->number & 1)) return false;
    if (leading + i >= TENON_RANK_MAX) break;
    out->dims[leading + i] =
        extent->kind == TN_EXTENT_NAME ? m->names[extent->number] : tenon_extent(extent->number);
  }
  for (int32_t i = 0; i < leading; i++)
    out->dims[leading - 1 - i] = m->leading[i];
  out->ndim = leading + pattern->count;
  return true;
}

static tenon_status_t fill_output(const match_t *m, uint32_t output, tenon_meta_t *out) {
  const tn_pattern_t *pattern = &m->patterns->outputs[output];
  const tn_pattern_extent_t *extent;
  const char *name = m->schema->outputs[output].name;
  if (pattern->same_as >= 0) {
    const tenon_meta_t *of = m->infer->inputs[pattern->same_as];
    if (!of)
      return tn_fail(TENON_INVALID,
                     "operator '%s': result '%s' has the shape of '%s', which is absent",
                     m->schema->full, name, m->schema->inputs[pattern->same_as].name);
    copy_shape(of, out);
    return TENON_OK;
  }
  if (pattern->has_leading && m->leading_count + pattern->count > TENON_RANK_MAX)
    return tn_fail(TENON_INVALID,
                   "operator '%s': result '%s' would have %d extents: expected at most %d",
                   m->schema->full, name, m->leading_count + pattern->count, TENON_RANK_MAX);
  if (build_shape(m, pattern, out, &extent)) return TENON_OK;
  return tn_fail(
      TENON_INVALID,
      "operator '%s': extent '%s' of result '%s' is stated by no input or attribute that is given",
      m->schema->full, m->patterns->names[extent->number], name);
}

static tenon_status_t bind_attrs(match_t *m) {
  for (uint32_t i = 0; i < m->patterns->name_count; i++) {
    int32_t attr = m->patterns->name_attrs[i];
    if (attr < 0 || m->infer->attrs[attr].kind == TENON_KIND_NONE) continue;
    const tenon_value_t *value = &m->infer->attrs[attr];
    tenon_dim_t dim = value->kind == TENON_KIND_DIM ? value->as.dim : tenon_extent(value->as.i);
    if (dim.value < 0 && (value->kind == TENON_KIND_INT || tenon_is_known(dim)))
      return tn_fail(
          TENON_INVALID,
          "operator '%s': attribute '%s' is an extent: expected at least 0, found %" PRId64,
          m->schema->full, m->schema->attrs[attr].name, dim.value);
    m->names[i] = dim;
    m->bound |= (uint64_t)1 << i;
  }
  return TENON_OK;
}

tenon_status_t tn_patterns_apply(const tn_patterns_t *patterns, const tn_schema_t *schema,
                                 tenon_infer_t *infer) {
  match_t m;
  bool is_deduced = false;
  m.patterns = patterns;
  m.schema = schema;
  m.infer = infer;
  m.bound = 0;
  m.leading_count = 0;
  if (!patterns->text) return TENON_OK;
  TN_TRY(bind_attrs(&m));
  for (uint32_t i = 0; i < schema->input_count; i++) {
    const tenon_meta_t *meta = infer->inputs[i];
    if (!meta || !patterns->inputs[i].is_given) continue;
    if (schema->inputs[i].kind == TENON_KIND_TENSORS) {
      for (uint32_t k = 0; meta->items && k < meta->count; k++)
        if (meta->items[k]) TN_TRY(match_input(&m, i, meta->items[k]));
    } else {
      if (meta->ndim < 0) is_deduced = true;
      TN_TRY(match_input(&m, i, meta));
    }
  }
  for (uint32_t i = 0; is_deduced && i < schema->input_count; i++) {
    const tn_pattern_extent_t *ignored;
    tenon_meta_t *meta = infer->inputs[i];
    const tn_pattern_t *pattern = &patterns->inputs[i];
    if (!meta || !pattern->is_given || schema->inputs[i].kind != TENON_KIND_TENSOR ||
        meta->ndim >= 0)
      continue;
    /* if a name is not bound, the infer function deduces the shape */
    const tenon_meta_t *of = pattern->same_as >= 0 ? infer->inputs[pattern->same_as] : NULL;
    if (of)
      copy_shape(of, meta);
    else if (pattern->same_as < 0 && !pattern->has_leading)
      (void)build_shape(&m, pattern, meta, &ignored);
  }
  for (uint32_t i = 0; i < schema->output_count; i++) {
    tenon_meta_t *out = infer->outputs[i];
    if (!out || !patterns->outputs[i].is_given) continue;
    if (schema->outputs[i].kind != TENON_KIND_TENSORS) TN_TRY(fill_output(&m, i, out));
    for (uint32_t k = 0;
         schema->outputs[i].kind == TENON_KIND_TENSORS && out->items && k < out->count; k++)
      if (out->items[k]) TN_TRY(fill_output(&m, i, out->items[k]));
  }
  return TENON_OK;
}
