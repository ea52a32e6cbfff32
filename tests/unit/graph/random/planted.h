/* Plants what rewriting rules look for: the parsed text of a rule becomes nodes of a draft. */
#ifndef TENON_TESTS_RANDOM_PLANTED_H
#define TENON_TESTS_RANDOM_PLANTED_H

#include "graph/passes/rules.h"
#include "written.h"

enum { TERMS_MOST = 64 };

typedef struct planting_t {
  draft_t *draft;
  const tn_rewrite_text_t *text;
  int32_t x; /* what names without a shape of their own stand for first */
  int32_t names[TN_REWRITE_NAMES];
  int32_t term_count;
  const tn_term_t *terms[TERMS_MOST]; /* calls and choices that were planted, and their values */
  int32_t values[TERMS_MOST];
} planting_t;

static bool equal_terms(const tn_term_t *a, const tn_term_t *b) {
  bool is_equal = a->kind == b->kind && a->index == b->index && a->count == b->count;
  if (a->kind == TN_TERM_CALL) is_equal = is_equal && strcmp(a->op, b->op) == 0;
  if (a->kind == TN_TERM_NUMBER) is_equal = is_equal && a->literal.as.f == b->literal.as.f;
  for (uint32_t i = 0; is_equal && i < a->count; i++)
    is_equal = equal_terms(&a->terms[i], &b->terms[i]);
  return is_equal;
}

static int32_t plant(planting_t *p, const tn_term_t *term);

/* What a name stands for: a scale or bias is a row, other names are x or a value of its shape. */
static int32_t plant_name(planting_t *p, const tn_term_t *term) {
  int32_t *value = &p->names[term->index];
  const char *name = p->text->names[term->index];
  if (*value >= 0) return *value;
  if (term->is_optional && chance(p->draft, 50)) return -1;
  if (strcmp(name, "scale") == 0 || strcmp(name, "bias") == 0)
    *value = add_row_of(p->draft, p->x);
  else
    *value = p->x;
  return *value;
}

/* Numbers that the rule leaves open; the same one wherever the name stands. */
static int32_t plant_scalar(planting_t *p, const tn_term_t *term) {
  int32_t *value = &p->names[term->index];
  if (*value < 0)
    *value = add_scalar(p->draft, p->draft->values[p->x].dtype, pick_number(p->draft, 0.1, 0.7));
  return *value;
}

static int32_t plant_axes(planting_t *p, const tn_term_t *term) {
  int32_t numbers[8];
  for (uint32_t i = 0; i < term->literal.count && i < 8; i++)
    numbers[i] = (int32_t)term->literal.as.ints[i];
  return add_list(p->draft, (int32_t)term->literal.count, numbers);
}

static void write_attrs(planting_t *p, const tn_term_t *term, char *out, size_t size) {
  size_t used = 0;
  out[0] = 0;
  for (uint32_t i = 0; i < term->attr_count; i++) {
    const tn_term_attr_t *attr = &term->attrs[i];
    const char *separator = used ? "; " : "";
    if (attr->index >= 0)
      used += (size_t)snprintf(out + used, size - used, "%s%s=%s", separator, attr->name,
                               strcmp(attr->name, "epsilon") == 0 ? "0.1" : "-1");
    else if (attr->literal.kind == TENON_KIND_STR)
      used += (size_t)snprintf(out + used, size - used, "%s%s=%.*s", separator, attr->name,
                               (int)attr->literal.count, attr->literal.as.s);
    else if (attr->literal.kind == TENON_KIND_FLOAT)
      used += (size_t)snprintf(out + used, size - used, "%s%s=%.17g", separator, attr->name,
                               attr->literal.as.f);
    else
      used += (size_t)snprintf(out + used, size - used, "%s%s=%lld", separator, attr->name,
                               (long long)attr->literal.as.i);
  }
  CHECK(p && used < size);
}

/* The result of a call, which has the shape of its operands or, of a reduction, a last axis of
 * one. */
static int32_t plant_call(planting_t *p, const tn_term_t *term) {
  draft_t *d = p->draft;
  int32_t operands[OPERANDS_MOST];
  value_t value = {.dtype = d->values[p->x].dtype, .most = 16};
  for (uint32_t i = 0; i < term->count; i++)
    operands[i] = plant(p, &term->terms[i]);
  const bool is_sum = strcmp(term->op, "core::add") == 0 || strcmp(term->op, "core::mul") == 0;
  const bool is_turned = is_sum && chance(d, 30);
  part_t *part = add_part(d, term->op);
  write_attrs(p, term, part->attrs, sizeof part->attrs);
  for (uint32_t i = 0; i < term->count; i++) {
    const bool has_shape = operands[i] >= 0 && term->terms[i].kind != TN_TERM_AXES;
    value_t other = value;
    read_value(d, part, operands[is_turned ? 1 - i : i]);
    if (has_shape && broadcast(&value, &d->values[operands[i]], &other)) value = other;
  }
  const bool is_reduced = strncmp(term->op, "core::reduce_", 13) == 0;
  if (is_reduced) value.shape[value.rank - 1] = fixed(1);
  return add_result(d, value);
}

static int32_t plant(planting_t *p, const tn_term_t *term) {
  const bool is_shared = term->kind == TN_TERM_CALL || term->kind == TN_TERM_CHOICE;
  for (int32_t i = 0; is_shared && i < p->term_count; i++)
    if (equal_terms(p->terms[i], term)) return p->values[i];
  int32_t value = -1;
  switch (term->kind) {
  case TN_TERM_VALUE:
    return plant_name(p, term);
  case TN_TERM_SCALAR:
    return plant_scalar(p, term);
  case TN_TERM_NUMBER:
    return add_scalar(p->draft, p->draft->values[p->x].dtype, term->literal.as.f);
  case TN_TERM_AXES:
    return plant_axes(p, term);
  case TN_TERM_ABSENT:
    return -1;
  case TN_TERM_CALL:
    value = plant_call(p, term);
    break;
  default:
    value = plant(p, &term->terms[pick(p->draft, term->count)]);
    break;
  }
  CHECK(p->term_count < TERMS_MOST);
  p->terms[p->term_count] = term;
  p->values[p->term_count++] = value;
  return value;
}

static bool reads_rows(const tn_term_t *term) {
  bool reads =
      term->kind == TN_TERM_AXES ||
      (term->kind == TN_TERM_CALL && (strstr(term->op, "norm") || strstr(term->op, "max")));
  for (uint32_t i = 0; i < term->count; i++)
    reads |= reads_rows(&term->terms[i]);
  return reads;
}

/* Adds the nodes that a rule replaces. */
static int32_t plant_rule(draft_t *d, const tn_rewrite_text_t *text) {
  planting_t p = {.draft = d, .text = text};
  const bool is_logical = strstr(text->text, "not(") != NULL;
  p.x = is_logical ? add_condition(d) : find_bounded(d, 3);
  if (p.x < 0 || (reads_rows(&text->before) && !d->values[p.x].rank)) return -1;
  if (d->is_body && strstr(text->text, "scale")) return -1;
  for (int i = 0; i < TN_REWRITE_NAMES; i++)
    p.names[i] = -1;
  int32_t y = plant(&p, &text->before);
  if (is_logical) return add_cast(d, y, d->dtype);
  return chance(d, 70) ? add_clip(d, y, -4, 4) : add_like(d, "core::tanh", NULL, y, 1);
}

#endif
