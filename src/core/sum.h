/* Sums of products with integer coefficients: the normal form of symbolic extents.  Called by
 * extent.c alone; knows atoms only by number.  Invariant: terms are ordered (higher degree first,
 * then by factors), none is zero, no two have the same factors; so equal sums are equal byte for
 * byte. */
#ifndef TN_CORE_SUM_H
#define TN_CORE_SUM_H

#include <stdbool.h>
#include <stdint.h>

enum {
  TN_TERMS_MAX = 16,
  TN_FACTORS_MAX = 8,
};

typedef struct tn_term_t {
  int64_t coefficient;
  uint32_t count;
  uint32_t
      factors[TN_FACTORS_MAX]; /* numbers of atoms, ascending; one that is squared is there twice */
} tn_term_t;

typedef struct tn_sum_t { /* no terms: zero */
  uint32_t count;
  tn_term_t terms[TN_TERMS_MAX];
} tn_sum_t;

typedef enum {
  TN_SUM_OK,
  TN_SUM_LARGE,
  TN_SUM_OVERFLOW,
} tn_sum_result_t; /* LARGE: more terms or factors than fit */

void tn_sum_constant(tn_sum_t *out_sum, int64_t number);
void tn_sum_atom(tn_sum_t *out_sum, uint32_t atom);
/* a + scale * b.  `out_sum` may be neither. */
tn_sum_result_t tn_sum_add(const tn_sum_t *a, const tn_sum_t *b, int64_t scale, tn_sum_t *out_sum);
tn_sum_result_t tn_sum_multiply(const tn_sum_t *a, const tn_sum_t *b, tn_sum_t *out_sum);
/* The quotient if a = quotient * b for polynomials; false: there is none, or it does not fit. */
bool tn_sum_divide(const tn_sum_t *a, const tn_sum_t *b, tn_sum_t *out_quotient);
/* a = divisor * quotient + rest, coefficients of the rest in [0, divisor); divisor > 0. */
void tn_sum_split(const tn_sum_t *a, int64_t divisor, tn_sum_t *out_quotient, tn_sum_t *out_rest);
/* Greatest common divisor of the coefficients but the constant's; 0 when there are none. */
int64_t tn_sum_common(const tn_sum_t *sum);
bool tn_sum_is_constant(const tn_sum_t *sum, int64_t *out_number);
/* Is it 1 * one atom? */
bool tn_sum_is_atom(const tn_sum_t *sum, uint32_t *out_atom);
int64_t tn_gcd(int64_t a, int64_t b);
static inline int64_t tn_floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

#endif
