/* Compares results with expected ones; see run.h. Integers, bools and strings are compared exactly,
 * floats with a tolerance for a different summation order of a few hundred terms. Two NaNs are
 * equal, and so are equal infinities. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/dtype.h"
#include "core/element.h"
#include "run.h"

static char words[700];

/* Distance between 1 and the next number of a floating-point dtype; 0 for other dtypes. */
static double step_of(tenon_dtype_t dtype) {
  switch (tenon_dtype_id(dtype)) {
  case TENON_F64:
  case TENON_C128:
    return 0x1p-52;
  case TENON_F32:
  case TENON_C64:
    return 0x1p-23;
  case TENON_F16:
    return 0x1p-10;
  case TENON_BF16:
    return 0x1p-7;
  default:
    return dtype.code >= 7 && dtype.code < 200 ? 0x1p-1 : 0;
  }
}

static double allowance(tenon_dtype_t dtype) { /* tolerance as a multiple of that step */
  if (step_of(dtype) < 0x1p-50) return 4096;
  return step_of(dtype) < 0x1p-20 ? 128 : 2;
}

static bool is_near(double a, double b, double relative, double absolute) {
  if (a == b || (isnan(a) && isnan(b))) return true;
  if (isnan(a) || isnan(b) || isinf(a) || isinf(b)) return false;
  return fabs(a - b) <= absolute + relative * fmax(fabs(a), fabs(b));
}

static void print_index(const tenon_tensor_t *t, int64_t index, char *out, size_t capacity) {
  int64_t at[TENON_RANK_MAX];
  size_t used = 0;
  for (int32_t d = t->ndim - 1; d >= 0; d--) {
    at[d] = index % t->shape[d];
    index /= t->shape[d];
  }
  out[0] = 0;
  for (int32_t d = 0; d < t->ndim && used < capacity; d++)
    used +=
        (size_t)snprintf(out + used, capacity - used, "%s%lld", d ? ", " : "[", (long long)at[d]);
  if (t->ndim && used < capacity) snprintf(out + used, capacity - used, "]");
}

static const char *texts_differ(const char *name, const tenon_tensor_t *a,
                                const tenon_tensor_t *b) {
  const tenon_string_t *x = a->data;
  const tenon_string_t *y = b->data;
  for (int64_t i = 0; i < tenon_count(a); i++) {
    if (x[i].size == y[i].size && (!x[i].size || memcmp(x[i].data, y[i].data, x[i].size) == 0))
      continue;
    const char *expected = x[i].data ? x[i].data : "";
    const char *found = y[i].data ? y[i].data : "";
    snprintf(words, sizeof words, "element %lld of %s is '%.*s', expected '%.*s'", (long long)i,
             name, (int)y[i].size, found, (int)x[i].size, expected);
    return words;
  }
  return NULL;
}

static const char *elements_differ(const char *name, const tenon_tensor_t *a,
                                   const tenon_tensor_t *b, double tolerance) {
  double step = step_of(a->dtype) * allowance(a->dtype) * tolerance;
  double largest = 0;
  double worst = 0;
  int64_t count = tenon_count(a);
  int64_t wrong = 0;
  int64_t first = -1;
  for (int64_t i = 0; i < count && step > 0; i++) {
    double x = fabs(tn_element_get(a->dtype, a->data, i, NULL));
    if (isfinite(x) && x > largest) largest = x;
  }
  for (int64_t i = 0; i < count; i++) {
    double p, q;
    double x = tn_element_get(a->dtype, a->data, i, &p);
    double y = tn_element_get(b->dtype, b->data, i, &q);
    bool exact = step == 0 && a->dtype.bits <= 64 && a->dtype.bits >= 8;
    size_t size = a->dtype.bits / 8u;
    bool same =
        exact ? memcmp((char *)a->data + (size_t)i * size, (char *)b->data + (size_t)i * size,
                       size) == 0 ||
                    (x == y && step_of(a->dtype) > 0)
              : is_near(x, y, step, step * largest / 4) && is_near(p, q, step, step * largest / 4);
    if (exact && step_of(a->dtype) > 0 && isnan(x) && isnan(y)) same = true;
    if (same) continue;
    wrong++;
    if (first < 0) first = i;
    if (fabs(x - y) > worst) worst = fabs(x - y);
  }
  if (!wrong) return NULL;
  char place[200];
  print_index(a, first, place, sizeof place);
  double x = tn_element_get(a->dtype, a->data, first, NULL);
  double y = tn_element_get(b->dtype, b->data, first, NULL);
  snprintf(words, sizeof words,
           "%s%s is %.9g, expected %.9g; %lld of %lld elements differ, by up to %.3g", name, place,
           y, x, (long long)wrong, (long long)count, worst);
  return words;
}

const char *tensor_differs(const char *name, const tenon_tensor_t *a, const tenon_tensor_t *b,
                           double tolerance) {
  char x[300], y[300];
  if (!a || !b) {
    if (a == b) return NULL;
    snprintf(words, sizeof words, "%s is %s", name,
             a ? "missing, expected a tensor" : "a tensor, expected none");
    return words;
  }
  if (!tn_dtype_same(a->dtype, b->dtype) || a->ndim != b->ndim ||
      memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) != 0) {
    snprintf(words, sizeof words, "%s is %s%s, expected %s%s", name, tn_dtype_name(b->dtype),
             tn_shape_print(b->ndim, b->shape, y, sizeof y), tn_dtype_name(a->dtype),
             tn_shape_print(a->ndim, a->shape, x, sizeof x));
    return words;
  }
  if (tn_dtype_is(a->dtype, TENON_LIST)) {
    for (int64_t i = 0; i < a->shape[0]; i++) {
      char item[100];
      snprintf(item, sizeof item, "%s[%lld]", name, (long long)i);
      tenon_tensor_t *p = tensor_dense(tenon_item(a, i));
      tenon_tensor_t *q = tensor_dense(tenon_item(b, i));
      const char *differs = tensor_differs(item, p, q, tolerance);
      tenon_tensor_release(p);
      tenon_tensor_release(q);
      if (differs) return differs;
    }
    return NULL;
  }
  if (tn_dtype_is(a->dtype, TENON_STRING)) return texts_differ(name, a, b);
  if (a->detail || b->detail) return NULL; /* sparse tensors are not compared */
  return elements_differ(name, a, b, tolerance);
}

const char *ran_differs(const example_t *t, const ran_t *expected, const ran_t *found,
                        double tolerance) {
  const tn_schema_t *schema = &t->op->schema;
  for (uint32_t o = 0; o < schema->output_count; o++) {
    char name[100];
    snprintf(name, sizeof name, "result %s", schema->outputs[o].name);
    const char *differs = tensor_differs(name, expected->outputs[o], found->outputs[o], tolerance);
    if (differs) return differs;
  }
  for (uint32_t i = 0; i < schema->input_count; i++) {
    if (!schema->inputs[i].is_written || !expected->written[i] || !found->written[i]) continue;
    char name[100];
    snprintf(name, sizeof name, "input %s, which the call writes to,", schema->inputs[i].name);
    const char *differs = tensor_differs(name, expected->written[i], found->written[i], tolerance);
    if (differs) return differs;
  }
  return NULL;
}
