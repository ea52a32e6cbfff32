/* Parses rewriting rules. Invariant: every index in a parsed rule is valid, every name of `after`
 * stands in `before`, and terms nest at most DEPTH_MOST levels. */
#include "core/rule.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/lexer.h"

enum {
  DEPTH_MOST = 32,
  TERMS_MOST = 16, /* of a call or a choice */
};

typedef struct parser_t {
  tn_lexer_t lexer;
  const char *ns;
  tn_arena_t *arena;
  tn_rewrite_text_t *rule;
  bool is_after; /* names must be known */
} parser_t;

/* Names */

static tenon_status_t take_name(parser_t *p, int32_t *out_index) {
  tn_rewrite_text_t *rule = p->rule;
  const char *name;
  const char *at = p->lexer.start;
  TN_TRY(tn_lexer_name(&p->lexer, p->arena, "a name", &name));
  for (uint32_t i = 0; i < rule->name_count; i++)
    if (strcmp(rule->names[i], name) == 0) {
      *out_index = (int32_t)i;
      return TENON_OK;
    }
  if (p->is_after)
    return tn_lexer_fail_at(&p->lexer, at, "'%s' does not stand in the text to replace", name);
  if (rule->name_count == TN_REWRITE_NAMES)
    return tn_lexer_fail_at(&p->lexer, at, "a rule has at most %d names", TN_REWRITE_NAMES);
  *out_index = (int32_t)rule->name_count;
  rule->names[rule->name_count++] = name;
  return TENON_OK;
}

/* Terms */

static tenon_status_t parse_term(parser_t *p, int depth, tn_term_t *out);

static bool is_operator(const tn_lexer_t *lexer) {
  tn_lexer_t ahead = *lexer;
  tn_lexer_next(&ahead);
  return ahead.kind == '(' || ahead.kind == TN_TOKEN_SCOPE;
}

static bool is_attribute(const tn_lexer_t *lexer) {
  tn_lexer_t ahead = *lexer;
  tn_lexer_next(&ahead);
  return lexer->kind == TN_TOKEN_NAME && ahead.kind == '=';
}

/* Copies what was parsed on the stack to the arena. */
static tenon_status_t keep(parser_t *p, const void *items, size_t count, size_t size,
                           const void **out) {
  void *copy = tn_arena_array(p->arena, count + 1, size);
  if (!copy) return tn_no_memory("a rule", count * size);
  if (count) memcpy(copy, items, count * size);
  *out = copy;
  return TENON_OK;
}

static tenon_status_t parse_attribute(parser_t *p, tn_term_attr_t *out) {
  tn_lexer_t *lexer = &p->lexer;
  *out = (tn_term_attr_t){.index = -1};
  TN_TRY(tn_lexer_name(lexer, p->arena, "the name of an attribute", &out->name));
  tn_lexer_next(lexer); /* "=" */
  if (tn_lexer_take(lexer, '$') || (lexer->kind == TN_TOKEN_NAME && !tn_lexer_is(lexer, "True") &&
                                    !tn_lexer_is(lexer, "False") && !tn_lexer_is(lexer, "None")))
    return take_name(p, &out->index);
  return tn_lexer_literal(lexer, p->arena, &out->literal);
}

static tenon_status_t parse_node(parser_t *p, int depth, tn_term_t *out) {
  tn_lexer_t *lexer = &p->lexer;
  tn_term_t terms[TERMS_MOST];
  tn_term_attr_t attrs[TERMS_MOST];
  out->kind = TN_TERM_CALL;
  TN_TRY(tn_lexer_operator(lexer, p->arena, p->ns, &out->op));
  TN_TRY(tn_lexer_expect(lexer, '(', "'(' and operands"));
  bool is_open = lexer->kind != ')';
  while (is_open) {
    if (out->count == TERMS_MOST || out->attr_count == TERMS_MOST)
      return tn_lexer_fail(lexer, "a call has more than %d operands or attributes", TERMS_MOST);
    if (is_attribute(lexer))
      TN_TRY(parse_attribute(p, &attrs[out->attr_count++]));
    else if (out->attr_count)
      return tn_lexer_fail(lexer, "an operand cannot follow an attribute");
    else
      TN_TRY(parse_term(p, depth + 1, &terms[out->count++]));
    is_open = tn_lexer_take(lexer, ',');
  }
  TN_TRY(tn_lexer_expect(lexer, ')', "',' or ')'"));
  TN_TRY(keep(p, attrs, out->attr_count, sizeof *attrs, (const void **)&out->attrs));
  return keep(p, terms, out->count, sizeof *terms, (const void **)&out->terms);
}

/* Parses the alternatives; the lexer is after the "(". */
static tenon_status_t parse_choice(parser_t *p, int depth, tn_term_t *out) {
  tn_lexer_t *lexer = &p->lexer;
  tn_term_t terms[TERMS_MOST];
  out->kind = TN_TERM_CHOICE;
  do {
    if (out->count == TERMS_MOST)
      return tn_lexer_fail(lexer, "a choice has more than %d alternatives", TERMS_MOST);
    TN_TRY(parse_term(p, depth + 1, &terms[out->count++]));
  } while (tn_lexer_take(lexer, '|'));
  TN_TRY(tn_lexer_expect(lexer, ')', "'|' or ')'"));
  return keep(p, terms, out->count, sizeof *terms, (const void **)&out->terms);
}

static tenon_status_t parse_literal(parser_t *p, tn_term_t *out) {
  tn_lexer_t *lexer = &p->lexer;
  const char *at = lexer->start;
  tenon_value_t *value = &out->literal;
  TN_TRY(tn_lexer_literal(lexer, p->arena, value));
  if (value->kind == TENON_KIND_INT)
    *value = (tenon_value_t){TENON_KIND_FLOAT, 0, {.f = (double)value->as.i}};
  if (value->kind == TENON_KIND_FLOAT)
    out->kind = TN_TERM_NUMBER;
  else if (value->kind == TENON_KIND_INTS)
    out->kind = TN_TERM_AXES;
  else if (value->kind == TENON_KIND_NONE)
    out->kind = TN_TERM_ABSENT;
  else
    return tn_lexer_fail_at(lexer, at, "expected a number, a list of axes or None");
  return TENON_OK;
}

static tenon_status_t parse_term(parser_t *p, int depth, tn_term_t *out) {
  tn_lexer_t *lexer = &p->lexer;
  *out = (tn_term_t){.index = -1};
  if (depth > DEPTH_MOST)
    return tn_lexer_fail(lexer, "terms are nested more than %d levels deep", DEPTH_MOST);
  if (!p->is_after && tn_lexer_take(lexer, '(')) return parse_choice(p, depth, out);
  if (tn_lexer_take(lexer, '$')) {
    out->kind = TN_TERM_SCALAR;
    return take_name(p, &out->index);
  }
  bool is_name = lexer->kind == TN_TOKEN_NAME && !tn_lexer_is(lexer, "None");
  if (!is_name) return parse_literal(p, out);
  if (is_operator(lexer)) return parse_node(p, depth, out);
  out->kind = TN_TERM_VALUE;
  TN_TRY(take_name(p, &out->index));
  out->is_optional = tn_lexer_take(lexer, '?');
  return TENON_OK;
}

/* Rules */

/* Whether the term is a call, or a choice of nothing else. */
static bool is_call(const tn_term_t *term) {
  for (uint32_t i = 0; term->kind == TN_TERM_CHOICE && i < term->count; i++)
    if (!is_call(&term->terms[i])) return false;
  return term->kind == TN_TERM_CALL || term->kind == TN_TERM_CHOICE;
}

static bool has_calls(const tn_term_t *call) {
  for (uint32_t i = 0; i < call->count; i++)
    if (call->terms[i].kind == TN_TERM_CALL) return true;
  return false;
}

static tenon_status_t parse_rule(const char *text, const char *ns, tn_arena_t *arena,
                                 tn_rewrite_text_t *out_rule) {
  parser_t p = {.ns = ns, .arena = arena, .rule = out_rule};
  tn_lexer_t *lexer = &p.lexer;
  *out_rule = (tn_rewrite_text_t){.text = text};
  tn_lexer_open(lexer, "rule", text);
  TN_TRY(tn_lexer_name(lexer, arena, "the name of the rule", &out_rule->name));
  TN_TRY(tn_lexer_expect(lexer, ':', "':' after the name"));
  const char *before = lexer->start;
  TN_TRY(parse_term(&p, 0, &out_rule->before));
  if (!is_call(&out_rule->before))
    return tn_lexer_fail_at(lexer, before, "expected a call of an operator");
  TN_TRY(tn_lexer_expect(lexer, TN_TOKEN_ARROW, "'->' and what to put in its place"));
  const char *after = lexer->start;
  p.is_after = true;
  TN_TRY(parse_term(&p, 0, &out_rule->after));
  if (lexer->kind != TN_TOKEN_END) return tn_lexer_expected(lexer, "the end");
  const uint8_t kind = out_rule->after.kind;
  if ((kind != TN_TERM_CALL && kind != TN_TERM_VALUE) || has_calls(&out_rule->after))
    return tn_lexer_fail_at(lexer, after, "expected a name, or one call of an operator");
  return TENON_OK;
}

/* Lists */

tenon_status_t tn_rewrite_list_create(tn_rewrite_list_t **out_list) {
  *out_list = tn_allocate_zero(1, sizeof **out_list);
  if (!*out_list) return tn_no_memory("a list of rules", sizeof **out_list);
  (*out_list)->references = 1;
  return TENON_OK;
}

void tn_rewrite_list_retain(tn_rewrite_list_t *list) {
  __atomic_fetch_add(&list->references, 1, __ATOMIC_RELAXED);
}

void tn_rewrite_list_release(tn_rewrite_list_t *list) {
  if (!list || __atomic_fetch_sub(&list->references, 1, __ATOMIC_ACQ_REL) != 1) return;
  tn_arena_clear(&list->arena);
  tn_release_memory(list);
}

/* Puts the namespace before the rule's name. */
static tenon_status_t qualify_name(tn_rewrite_text_t *rule, const char *ns, tn_arena_t *arena) {
  const size_t size = strlen(ns) + strlen(rule->name) + 3;
  char *name = tn_arena_allocate(arena, size);
  if (!name) return tn_no_memory("a rule", size);
  snprintf(name, size, "%s::%s", ns, rule->name);
  rule->name = name;
  return TENON_OK;
}

tenon_status_t tn_rewrite_list_add(tn_rewrite_list_t *list, const char *text, const char *ns) {
  tn_rewrite_text_t *rule = tn_arena_allocate(&list->arena, sizeof *rule);
  const char *copy = tn_arena_text(&list->arena, text, strlen(text));
  if (!rule || !copy) return tn_no_memory("a rule", sizeof *rule);
  TN_TRY(parse_rule(copy, ns, &list->arena, rule));
  if (strcmp(ns, "core") != 0) TN_TRY(qualify_name(rule, ns, &list->arena));
  *(list->last ? &list->last->next : &list->first) = rule;
  list->last = rule;
  list->count++;
  return TENON_OK;
}
