/* Comparison of tensors; see compare.h. */
#include "compare.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "element.h"
#include "summary.h"

/* Returns how far a number is from the expected one; negative if it is within the tolerance. */
static double number_error(double expected, double found, const tolerance_t *tolerance) {
  if (expected == found || (isnan(expected) && isnan(found))) return -1;
  if (!isfinite(expected) || !isfinite(found)) return HUGE_VAL;
  double difference = fabs(found - expected);
  return difference <= tolerance->absolute + tolerance->relative * fabs(expected) ? -1 : difference;
}

static bool same_string(tenon_string_t a, tenon_string_t b) {
  return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, (size_t)a.size) == 0);
}

/* Returns how far element `index` is from the expected one; negative if they agree. */
static double element_error(const tenon_tensor_t *expected, const tenon_tensor_t *found,
                            int64_t index, const tolerance_t *tolerance) {
  switch (element_class(expected->dtype)) {
  case ELEMENT_STRING:
    return same_string(element_string(expected, index), element_string(found, index)) ? -1 : 1;
  case ELEMENT_FLOAT:
    return number_error(element_number(expected, index), element_number(found, index), tolerance);
  case ELEMENT_COMPLEX: {
    double real =
        number_error(element_number(expected, index), element_number(found, index), tolerance);
    double imaginary = number_error(element_imaginary(expected, index),
                                    element_imaginary(found, index), tolerance);
    return real > imaginary ? real : imaginary;
  }
  case ELEMENT_BOOL:
    return element_number(expected, index) == element_number(found, index) ? -1 : 1;
  default:
    if (element_bits(expected, index) == element_bits(found, index)) return -1;
    return fabs(element_number(expected, index) - element_number(found, index));
  }
}

static bool compare_elements(const tenon_tensor_t *expected, const tenon_tensor_t *found,
                             const tolerance_t *tolerance, text_t *why) {
  int64_t count = tenon_count(expected);
  int64_t wrong = 0;
  int64_t worst = 0;
  double largest = -1;
  for (int64_t i = 0; i < count; i++) {
    double off = element_error(expected, found, i, tolerance);
    if (off < 0) continue;
    wrong++;
    if (off > largest) {
      largest = off;
      worst = i;
    }
  }
  if (wrong == 0) return true;
  text_add(why, "%" PRId64 " of %" PRId64 " elements differ, most at ", wrong, count);
  summary_add_index(why, expected, worst);
  text_add(why, ": expected ");
  summary_add_element(why, expected, worst);
  text_add(why, ", found ");
  summary_add_element(why, found, worst);
  if (element_class(expected->dtype) != ELEMENT_STRING) text_add(why, " (off by %.3g)", largest);
  return false;
}

static bool compare_lists(const tenon_tensor_t *expected, const tenon_tensor_t *found,
                          const tolerance_t *tolerance, text_t *why) {
  bool same = true;
  if (expected->shape[0] != found->shape[0]) {
    text_add(why, "expected a list of %" PRId64 ", found one of %" PRId64, expected->shape[0],
             found->shape[0]);
    return false;
  }
  for (int64_t i = 0; same && i < expected->shape[0]; i++) {
    text_t item = {NULL, 0, 0, false};
    same = compare_tensors(tenon_item(expected, i), tenon_item(found, i), tolerance, &item);
    if (!same) text_add(why, "item %" PRId64 ": %s", i, text_get(&item));
    text_free(&item);
  }
  return same;
}

bool compare_tensors(const tenon_tensor_t *expected, const tenon_tensor_t *found,
                     const tolerance_t *tolerance, text_t *why) {
  bool same_shape = expected->ndim == found->ndim;
  if (tenon_dtype_id(expected->dtype) != tenon_dtype_id(found->dtype)) {
    text_add(why, "expected dtype %s, found %s", tenon_dtype_name(expected->dtype),
             tenon_dtype_name(found->dtype));
    return false;
  }
  if (expected->detail || found->detail) {
    text_add(why, "expected a %s tensor, found a %s tensor", tenon_tensor_layout(expected),
             tenon_tensor_layout(found));
    return false; /* no file contains sparse or quantised tensors, so they are not compared */
  }
  if (element_class(expected->dtype) == ELEMENT_LIST)
    return compare_lists(expected, found, tolerance, why);
  for (int32_t i = 0; same_shape && i < expected->ndim; i++)
    same_shape = expected->shape[i] == found->shape[i];
  if (!same_shape) {
    text_add(why, "expected shape ");
    summary_add_shape(why, expected->ndim, expected->shape);
    text_add(why, ", found ");
    summary_add_shape(why, found->ndim, found->shape);
    return false;
  }
  if (tolerance->shape_only) return true;
  if (element_class(expected->dtype) == ELEMENT_OTHER) {
    text_add(why, "dtype %s cannot be compared", tenon_dtype_name(expected->dtype));
    return false;
  }
  if (element_is_dense(expected) && element_is_dense(found))
    return compare_elements(expected, found, tolerance, why);
  tenon_tensor_t *left = NULL;
  tenon_tensor_t *right = NULL;
  bool same = false;
  if (tenon_tensor_copy(expected, &left) != TENON_OK ||
      tenon_tensor_copy(found, &right) != TENON_OK)
    text_add(why, "%s", tenon_error());
  else
    same = compare_elements(left, right, tolerance, why);
  tenon_tensor_release(left);
  tenon_tensor_release(right);
  return same;
}
