/* Checks that every dtype that TENON_TYPES allows works, and that all of them compute the same. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/dtype.h"
#include "core/element.h"
#include "run.h"

static void check_each(const subject_t *subject) {
  examples_t all = examples(subject, true);
  bool any = !is_label_chosen(""); /* a dtype that --case names is reported here */
  for (example_t *t; (t = examples_any(&all));) {
    ran_t ran;
    if (t->is_taken) run_plainly(t, &ran);
    any |= t->is_taken && ran.status == TENON_OK;
    if (!any) { /* even the preferred dtype fails, which another check reports */
      if (t->is_taken) ran_free(&ran);
      example_free(&all.now);
      return;
    }
    if (!t->is_taken || ran.status != TENON_OK)
      finding(t, NULL, "a dtype that TENON_TYPES allows is computed",
              "add a kernel for this dtype, or remove it from TENON_TYPES", "%s: %s", t->label,
              t->is_taken ? ran.error : t->why);
    if (t->is_taken) ran_free(&ran);
  }
}

enum {
  INTS = 0,
  UINTS = 1,
};

static bool is_float(tenon_dtype_t d) {
  return d.code == 2 || d.code == 4 || (d.code >= 7 && d.code < 200);
}

/* Half the smallest positive number, or an equivalent tolerance. */
static double least_of(tenon_dtype_t d) {
  if (tn_dtype_is(d, TENON_F16)) return 0x1p-24;
  return d.code >= 7 ? 0x1p-6 : 0x1p-126;
}

/* Finds the widest dtype of the same kind that the type variable allows. */
static bool find_widest(uint64_t set, tenon_dtype_t of, tenon_dtype_t *out) {
  static const uint32_t floats[] = {TENON_F64, TENON_F32, 0};
  static const uint32_t ints[] = {TENON_I64, TENON_I32, 0};
  const uint32_t *order = of.code <= UINTS ? ints : NULL;
  if (is_float(of)) order = floats;
  for (; order && *order; order++)
    if (set >> tn_dtype_index(tenon_dtype(*order)) & 1 && tenon_dtype(*order).bits > of.bits) {
      *out = tenon_dtype(*order);
      return true;
    }
  return false;
}

static tenon_tensor_t *convert_tensor(const tenon_tensor_t *from, tenon_dtype_t to) {
  tenon_tensor_t *out;
  if (tenon_tensor_create(to, from->ndim, from->shape, &out) != TENON_OK) return NULL;
  for (int64_t i = 0; i < tenon_count(from); i++) {
    double imaginary;
    double number = tn_element_get(from->dtype, from->data, i, &imaginary);
    tn_element_put(to, out->data, i, number, imaginary);
  }
  return out;
}

static double step_of(tenon_dtype_t d) {
  switch (tenon_dtype_id(d)) {
  case TENON_F32:
    return 0x1p-23 * 32;
  case TENON_F16:
    return 0x1p-10;
  case TENON_BF16:
    return 0x1p-7;
  default:
    return is_float(d) ? 0x1p-1 : 0;
  }
}

/* Reports elements that differ by more than rounding to the narrow dtype explains. */
static void compare_result(const example_t *t, const char *name, const tenon_tensor_t *narrow,
                           const tenon_tensor_t *wide, tenon_dtype_t input) {
  double step = fmax(step_of(narrow->dtype), is_float(input) ? step_of(input) : 0);
  double largest = 0;
  if (narrow->ndim != wide->ndim ||
      memcmp(narrow->shape, wide->shape, (size_t)narrow->ndim * sizeof(int64_t)) != 0) {
    finding(t, "shapes.infer", "the shape of a result is the same in each dtype",
            "correct infer or TENON_SHAPES", "%s", tensor_differs(name, wide, narrow, 1));
    return;
  }
  if (is_float(wide->dtype) != is_float(narrow->dtype) || narrow->dtype.code >= 200 ||
      wide->dtype.code == 5)
    return;
  if (is_float(input) && !is_float(narrow->dtype))
    return; /* which of two numbers is larger may depend on rounding */
  for (int64_t i = 0; i < tenon_count(wide); i++)
    largest = fmax(largest, fabs(tn_element_get(wide->dtype, wide->data, i, NULL)));
  if (!isfinite(largest)) return;
  double most = narrow->dtype.code == INTS ? ldexp(1, narrow->dtype.bits - 1) - 1
                                           : ldexp(1, narrow->dtype.bits) - 1;
  if (!is_float(narrow->dtype) && largest > most) return;
  for (int64_t i = 0; i < tenon_count(wide); i++) {
    double x = tn_element_get(wide->dtype, wide->data, i, NULL);
    double y = tn_element_get(narrow->dtype, narrow->data, i, NULL);
    if (!is_float(narrow->dtype) && x < 0 && narrow->dtype.code == UINTS) continue;
    if (x == y || isnan(x) ||
        fabs(x - y) <= 4 * step * fmax(fabs(x), largest) + least_of(narrow->dtype))
      continue;
    finding(t, NULL, "every dtype computes the same, except for rounding",
            "compare the kernel of this dtype with the others",
            "%s: element %lld is %.6g; the same numbers in %s give %.6g", name, (long long)i, y,
            tn_dtype_name(wide->dtype), x);
    return;
  }
}

static void agree_with(example_t *narrow, uint32_t variable, tenon_dtype_t wide) {
  const tenon_op_t *op = narrow->op;
  tenon_dtype_t dtypes[TN_TYPE_VARIABLES];
  example_t t;
  memcpy(dtypes, narrow->plan.variables, sizeof dtypes);
  dtypes[variable] = wide;
  tn_example_options_t o = {.dtypes = dtypes, .rank = -1};
  if (!example_make(narrow->subject, &o, narrow->seed, narrow->label, &t)) return;
  for (uint32_t i = 0; i < op->input_count && t.is_taken; i++) {
    const tenon_tensor_t *from = narrow->inputs[i];
    if (!from || !t.inputs[i] || from->dtype.code == 5 || from->dtype.code >= 200) continue;
    if (tn_dtype_same(from->dtype, t.inputs[i]->dtype) && tn_dtype_same(from->dtype, wide))
      continue;
    tenon_tensor_t *same = convert_tensor(from, t.inputs[i]->dtype);
    if (same) {
      tenon_tensor_release(t.inputs[i]);
      t.inputs[i] = same;
    }
  }
  ran_t a, b;
  memset(&a, 0, sizeof a);
  memset(&b, 0, sizeof b);
  if (t.is_taken) run_plainly(&t, &b);
  if (t.is_taken && b.status == TENON_OK) run_plainly(narrow, &a);
  for (uint32_t r = 0;
       r < op->output_count && t.is_taken && a.status == TENON_OK && b.status == TENON_OK; r++)
    if (a.outputs[r] && b.outputs[r] && a.outputs[r]->dtype.code < 200 &&
        a.outputs[r]->dtype.bits >= 8 && !a.outputs[r]->detail && !b.outputs[r]->detail)
      compare_result(narrow, op->schema.outputs[r].name, a.outputs[r], b.outputs[r],
                     narrow->plan.variables[variable]);
  ran_free(&a);
  ran_free(&b);
  example_free(&t);
}

static void check_agreement(const subject_t *subject) {
  examples_t all = examples(subject, true);
  for (example_t *t; (t = examples_next(&all));)
    for (uint32_t v = 0; v < t->op->types.variable_count; v++) {
      tenon_dtype_t wide;
      if (t->plan.sample && t->plan.sample != &t->op->samples.calls[0]) continue;
      if (find_widest(t->op->types.sets[v], t->plan.variables[v], &wide)) agree_with(t, v, wide);
    }
}

static const char *lacks_results(const subject_t *s) {
  if (!subject_is_pure(s) || s->op->traits & TENON_RANDOM)
    return "its results do not depend on its arguments alone";
  return subject_runs_code(s) ? NULL : "a view runs no code";
}

const check_t checks_types[] = {
    {"types.each", "Every dtype that TENON_TYPES allows is computed.", NULL, NULL, check_each},
    {"types.agree",
     "Every dtype returns what the widest returns, except for rounding, and results of the same "
     "shape.",
     "shapes.infer", lacks_results, check_agreement},
    {NULL, NULL, NULL, NULL, NULL}};
