/* The test of Kolmogorov and Smirnov for two samples: the largest difference between their
 * empirical distribution functions. With equal numbers in a sample, as those of bernoulli, it
 * refuses less often than the level says. */
#include "distribution.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "element.h"

/* The critical value for large samples at a level of 0.001, times sqrt(n / 2) for n elements. */
#define CRITICAL 1.9495

static int compare_numbers(const void *a, const void *b) {
  const double left = *(const double *)a;
  const double right = *(const double *)b;
  return (left > right) - (left < right);
}

/* The sorted elements; NaN counts as the largest number. NULL if memory runs out. */
static double *sorted_elements(const tenon_tensor_t *tensor, int64_t count) {
  double *numbers = malloc(((size_t)count + 1) * sizeof *numbers);
  for (int64_t i = 0; numbers && i < count; i++) {
    const double number = element_number(tensor, i);
    numbers[i] = number == number ? number : (double)INFINITY;
  }
  if (numbers) qsort(numbers, (size_t)count, sizeof *numbers, compare_numbers);
  return numbers;
}

/* The largest difference of the distribution functions, as a number of elements. */
static int64_t largest_difference(const double *a, const double *b, int64_t count) {
  int64_t largest = 0;
  int64_t i = 0;
  int64_t k = 0;
  while (i < count && k < count) {
    const double at = a[i] < b[k] ? a[i] : b[k];
    while (i < count && a[i] <= at)
      i++;
    while (k < count && b[k] <= at)
      k++;
    if (llabs(i - k) > largest) largest = llabs(i - k);
  }
  return largest;
}

static bool compare_dense(const tenon_tensor_t *expected, const tenon_tensor_t *found,
                          text_t *why) {
  const int64_t count = tenon_count(expected);
  double *a = sorted_elements(expected, count);
  double *b = sorted_elements(found, count);
  const int64_t difference = a && b ? largest_difference(a, b, count) : 0;
  const double limit = CRITICAL * sqrt(2 * (double)count);
  const bool is_fine = a && b && (double)difference <= limit;
  if (!a || !b)
    text_add(why, "out of memory");
  else if (!is_fine)
    text_add(why,
             "the numbers have another distribution: the distribution functions differ by %.3g, "
             "expected at most %.3g for %" PRId64 " random numbers",
             (double)difference / (double)count, limit / (double)count, count);
  free(a);
  free(b);
  return is_fine;
}

bool distribution_compare(const tenon_tensor_t *expected, const tenon_tensor_t *found,
                          text_t *why) {
  const element_class_t class = element_class(expected->dtype);
  const bool is_number = class == ELEMENT_BOOL || class == ELEMENT_INT || class == ELEMENT_UINT ||
                         class == ELEMENT_FLOAT;
  tenon_tensor_t *left = NULL;
  tenon_tensor_t *right = NULL;
  bool is_fine = false;
  if (!is_number) return true;
  if (tenon_tensor_copy(expected, &left) != TENON_OK ||
      tenon_tensor_copy(found, &right) != TENON_OK)
    text_add(why, "%s", tenon_error());
  else
    is_fine = compare_dense(left, right, why);
  tenon_tensor_release(left);
  tenon_tensor_release(right);
  return is_fine;
}
