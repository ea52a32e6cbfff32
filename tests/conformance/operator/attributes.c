/* Checks attributes: omitted attributes have their defaults, every choice works, and extreme values
 * are handled. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/text.h"
#include "core/value.h"
#include "run.h"

enum {
  VALUES = 16,
  MEMORY_MOST = 4,
};

static void check_defaults(const subject_t *subject) {
  example_t t;
  tn_example_options_t o = {.rank = -1, .has_defaults = true};
  if (example_make(subject, &o, options.seed, "defaults", &t) && t.is_taken) {
    ran_t stated, left_out;
    way_t plain = {.op = subject->reference, .attrs = subject->op->schema.defaults};
    run_way(&t, &plain, &stated);
    run_way(&t, &(way_t){.no_attrs = true}, &left_out);
    const char *differs = NULL;
    if (stated.status == TENON_OK && left_out.status != TENON_OK) differs = left_out.error;
    if (stated.status == TENON_OK && left_out.status == TENON_OK)
      differs = ran_differs(&t, &stated, &left_out, 4);
    if (differs)
      finding(
          &t, NULL,
          subject->reference
              ? "a call without attributes returns what the reference returns with the schema's "
                "defaults"
              : "a call without attributes returns what a call with the schema's defaults returns",
          "use the same defaults in the schema and in the kernel", "%s", differs);
    ran_free(&stated);
    ran_free(&left_out);
  }
  example_free(&t);
}

/* Tries one value of an attribute: the call is either refused or computed. */
static void try_value(const subject_t *subject, uint32_t index, tenon_value_t value, bool must_work,
                      const char *what) {
  const tn_argument_t *attr = &subject->op->schema.attrs[index];
  for (uint32_t sample = 0; sample < (must_work ? tn_example_count(subject->op) : 1); sample++) {
    tenon_value_t attrs[EXAMPLE_ARGUMENTS] = {{0}};
    example_t t;
    ran_t ran, expected;
    char label[96], words[1500];
    tn_text_t text = {0};
    attrs[index] = value;
    tn_value_print(attr, &value, &text);
    snprintf(label, sizeof label, "%s=%.40s", attr->name, tn_text_get(&text));
    snprintf(words, sizeof words, "%s(%s=%s), infer only", subject->name, attr->name,
             tn_text_get(&text));
    tn_text_clear(&text);
    tn_example_options_t o = {.index = sample, .rank = -1, .attrs = attrs};
    if (!is_label_chosen(label)) continue;
    doing(NULL, NULL, words);
    bool is_made = example_make(subject, &o, options.seed, label, &t);
    if (!is_made || !t.is_taken) {
      example_free(&t);
      continue;
    }
    int64_t most = 0;
    for (uint32_t i = 0; i < subject->op->input_count; i++)
      if (t.inputs[i] && tenon_count(t.inputs[i]) > most) most = tenon_count(t.inputs[i]);
    if (most < 1 << 24) {
      run_way(
          &t,
          &(way_t){.provides_outputs = !must_work ? false : true, .place = AT_TAIL, .poison = 0x55},
          &ran);
      if (ran.status != TENON_OK && must_work)
        note(&t, "attrs.choices", "%s: infer accepts the value, but the call fails: %s", label,
             ran.error);
      if (ran.status == TENON_OK && subject->reference) {
        run_way(&t, &(way_t){.op = subject->reference}, &expected);
        const char *differs =
            expected.status == TENON_OK ? ran_differs(&t, &expected, &ran, 4) : NULL;
        if (differs) finding(&t, NULL, what, "compare with the reference", "%s", differs);
        ran_free(&expected);
      }
      ran_free(&ran);
    }
    example_free(&t);
  }
}

static void check_choices(const subject_t *subject) {
  if (!plain_works(subject)) return;
  for (uint32_t i = 0; i < subject->op->schema.attr_count; i++) {
    const tn_argument_t *a = &subject->op->schema.attrs[i];
    for (uint32_t c = 0; a->kind == TENON_KIND_CHOICE && c < a->choice_count; c++)
      try_value(subject, i, (tenon_value_t){.kind = TENON_KIND_CHOICE, .as.i = c}, true,
                "every choice of an attribute is computed");
    for (int64_t c = 0; a->kind == TENON_KIND_BOOL && c < 2; c++)
      try_value(subject, i, (tenon_value_t){.kind = TENON_KIND_BOOL, .as.i = c}, true,
                "both values of an attribute are computed");
  }
}

/* Tries values that a caller may pass: a call that infer does not refuse must return. */
static void check_limits(const subject_t *subject) {
  static const int64_t ints[] = {
      0,         -1,        1, 2, 3, 4, -2, -3, -4, -5, INT32_MAX, INT32_MIN, (int64_t)1 << 31,
      INT64_MAX, INT64_MIN, 64};
  static const double floats[] = {0, -1, 1e38, 1e-300, 1e300};
  static const int64_t lists[][3] = {
      {0, 0, 0}, {-1, -1, -1}, {INT64_MAX, 1, 1}, {INT64_MIN, 0, 0}, {64, 64, 64}};
  struct rlimit memory;
  getrlimit(RLIMIT_AS, &memory);
  struct rlimit less = {(rlim_t)MEMORY_MOST << 30, memory.rlim_max};
  /* So that results of absurd sizes are refused instead of allocated. */
  setrlimit(RLIMIT_AS, &less);
  const char *what = "a value that infer accepts is computed";
  for (uint32_t i = 0; i < subject->op->schema.attr_count; i++) {
    const tn_argument_t *a = &subject->op->schema.attrs[i];
    for (size_t k = 0; a->kind == TENON_KIND_INT && k < sizeof ints / sizeof *ints; k++)
      try_value(subject, i, (tenon_value_t){.kind = TENON_KIND_INT, .as.i = ints[k]}, false, what);
    for (size_t k = 0; a->kind == TENON_KIND_FLOAT && k < sizeof floats / sizeof *floats; k++)
      try_value(subject, i, (tenon_value_t){.kind = TENON_KIND_FLOAT, .as.f = floats[k]}, false,
                what);
    for (size_t k = 0; a->kind == TENON_KIND_INTS && k < sizeof lists / sizeof *lists; k++)
      for (uint32_t count = 0; count <= 3; count++) {
        if (a->count >= 0 && (uint32_t)a->count != count) continue;
        try_value(subject, i,
                  (tenon_value_t){.kind = TENON_KIND_INTS, .count = count, .as.ints = lists[k]},
                  false, what);
      }
    if (a->kind == TENON_KIND_STR)
      try_value(subject, i, (tenon_value_t){.kind = TENON_KIND_STR, .as.s = ""}, false, what);
  }
  setrlimit(RLIMIT_AS, &memory);
}

static const char *lacks_defaults(const subject_t *s) {
  if (!s->op->schema.attr_count) return "the operator has no attributes";
  if (s->op->schema.needs_attrs) return "an attribute has no default";
  return subject_is_pure(s) ? NULL : "its results do not depend on its arguments alone";
}
static const char *lacks_attrs(const subject_t *s) {
  return s->op->schema.attr_count ? NULL : "the operator has no attributes";
}
static const char *lacks_choices(const subject_t *s) {
  for (uint32_t i = 0; i < s->op->schema.attr_count; i++)
    if (s->op->schema.attrs[i].kind == TENON_KIND_CHOICE ||
        s->op->schema.attrs[i].kind == TENON_KIND_BOOL)
      return NULL;
  return "the operator has no choice or bool attributes";
}

const check_t checks_attributes[] = {
    {"attrs.defaults", "A call without attributes equals a call with the schema's defaults.", NULL,
     lacks_defaults, check_defaults},
    {"attrs.choices", "Every choice, and True and False, with every example call.", NULL,
     lacks_choices, check_choices},
    {"attrs.limits", "Extreme attribute values are either refused or computed.", NULL, lacks_attrs,
     check_limits},
    {NULL, NULL, NULL, NULL, NULL}};
