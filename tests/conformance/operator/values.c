/* Compares results with the author's reference, also for special numbers, and checks pointwise
 * operators element by element. */
#include <math.h>
#include <string.h>

#include "core/dtype.h"
#include "core/element.h"
#include "run.h"

static void against_reference(example_t *t, const way_t *way, const char *what) {
  ran_t ran, expected;
  way_t reference = *way;
  reference.op = t->subject->reference;
  reference.layout = LAYOUT_DENSE;
  reference.is_unguarded = true;
  run_way(t, &reference, &expected);
  if (expected.status == TENON_OK) {
    run_way(t, way, &ran);
    const char *differs = ran.status != TENON_OK ? ran.error : ran_differs(t, &expected, &ran, 4);
    if (differs)
      finding(t, NULL, what,
              "compare the kernel with the reference; if the reference is wrong, correct "
              "TENON_REFERENCE",
              "%s", differs);
    ran_free(&ran);
  } else if (expected.status != TENON_UNIMPLEMENTED) {
    finding(t, "reference.fails",
            "the reference computes each call, or returns TENON_UNIMPLEMENTED",
            "correct TENON_REFERENCE", "the reference fails: %s", expected.error);
  }
  ran_free(&expected);
}

static void check_reference(const subject_t *subject) {
  examples_t all = examples(subject, true);
  for (example_t *t; (t = examples_next(&all));)
    against_reference(t, &(way_t){0}, "results equal those of the reference");
}

static void check_special(const subject_t *subject, double number, double other, const char *what) {
  examples_t all = examples(subject, true);
  for (example_t *t; (t = examples_next(&all));) {
    bool any = false;
    for (uint32_t i = 0; i < t->op->input_count; i++) {
      tenon_tensor_t *x = t->inputs[i];
      if (!x || (x->dtype.code != 2 && x->dtype.code != 4) || t->op->schema.inputs[i].is_host)
        continue;
      for (int64_t k = i; k < tenon_count(x); k += 3)
        tn_element_put(x->dtype, x->data, k, k & 1 ? number : other, 0);
      any = true;
    }
    if (any) against_reference(t, &(way_t){0}, what);
  }
}

static void nan_values(const subject_t *s) {
  check_special(s, (double)NAN, (double)NAN, "NaN in inputs gives what the reference returns");
}
static void inf_values(const subject_t *s) {
  check_special(s, (double)INFINITY, -(double)INFINITY,
                "infinities in inputs give what the reference returns");
}

/* Permuted elements must give permuted results. */
static void check_elements(const subject_t *subject) {
  examples_t all = examples(subject, !options.quick);
  for (example_t *t; (t = examples_next(&all));) {
    ran_t before, after;
    int64_t count = -1;
    int64_t shift = 3;
    bool fits = true;
    for (uint32_t i = 0; i < t->op->input_count; i++) {
      const tenon_tensor_t *x = t->inputs[i];
      if (!x) continue;
      fits = fits && x->dtype.bits >= 8 && x->dtype.code < 200 &&
             (count < 0 || count == tenon_count(x));
      count = tenon_count(x);
    }
    if (!fits || count < 4) continue;
    run_plainly(t, &before);
    for (uint32_t i = 0; i < t->op->input_count; i++) {
      tenon_tensor_t *x = t->inputs[i];
      tenon_tensor_t *copy = x ? tensor_dense(x) : NULL;
      if (!copy) continue;
      size_t size = x->dtype.bits / 8u;
      for (int64_t k = 0; k < count; k++)
        memcpy((char *)x->data + (size_t)((k + shift) % count) * size,
               (char *)copy->data + (size_t)k * size, size);
      tenon_tensor_release(copy);
    }
    run_plainly(t, &after);
    for (uint32_t o = 0;
         o < t->op->output_count && before.status == TENON_OK && after.status == TENON_OK; o++) {
      tenon_tensor_t *x = before.outputs[o];
      tenon_tensor_t *copy =
          x && x->dtype.code < 200 && x->dtype.bits >= 8 && tenon_count(x) == count
              ? tensor_dense(x)
              : NULL;
      if (!copy) continue;
      size_t size = x->dtype.bits / 8u;
      for (int64_t k = 0; k < count; k++)
        memcpy((char *)x->data + (size_t)((k + shift) % count) * size,
               (char *)copy->data + (size_t)k * size, size);
      tenon_tensor_release(copy);
      const char *differs = tensor_differs(t->op->schema.outputs[o].name, x, after.outputs[o], 1);
      if (differs)
        finding(
            t, NULL,
            "element i of a pointwise operator's result depends only on elements i of its inputs",
            "remove TENON_POINTWISE, or do not read neighbouring elements",
            "after inputs were shifted by three elements, results differ: %s", differs);
    }
    ran_free(&before);
    ran_free(&after);
  }
}

static const char *lacks_reference(const subject_t *s) {
  return s->reference ? NULL : "no TENON_REFERENCE is declared";
}
static const char *lacks_reference_floats(const subject_t *s) {
  if (!s->reference) return "no TENON_REFERENCE is declared";
  return subject_has_floats(s, false) ? NULL : "it takes no floating-point inputs";
}
static const char *lacks_elements(const subject_t *s) {
  return s->op->traits & TENON_POINTWISE && !(s->op->traits & TENON_RANDOM) && subject_is_pure(s)
             ? NULL
             : "it is not pointwise";
}

const check_t checks_values[] = {
    {"reference.values", "Results equal those of the reference, in each dtype.", "reference.fails",
     lacks_reference, check_reference},
    {"values.nan", "The same with NaN among the elements.", NULL, lacks_reference_floats,
     nan_values},
    {"values.inf", "The same with infinities.", NULL, lacks_reference_floats, inf_values},
    {"pointwise.elements", "Pointwise operators: permuted elements give permuted results.", NULL,
     lacks_elements, check_elements},
    {NULL, NULL, NULL, NULL, NULL}};
