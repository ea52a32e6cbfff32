/* Sums of products with integer coefficients: the normal form of symbolic extents. Used only by
 * extent.c; atoms are known by number. Invariant: terms are sorted (higher degree first, then by
 * factors), no term is zero, and no two terms have the same factors. Equal sums are therefore equal
 * byte for byte. */
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
  /* atom numbers in ascending order; a squared atom appears twice */
  uint32_t factors[TN_FACTORS_MAX];
} tn_term_t;

/* A sum; without terms it is zero. */
typedef struct tn_sum_t {
  uint32_t count;
  tn_term_t terms[TN_TERMS_MAX];
} tn_sum_t;

typedef enum {
  TN_SUM_OK,
  TN_SUM_LARGE, /* more terms or factors than fit */
  TN_SUM_OVERFLOW,
} tn_sum_result_t;

void tn_sum_constant(tn_sum_t *out_sum, int64_t number);
void tn_sum_atom(tn_sum_t *out_sum, uint32_t atom);
/* Computes a + scale * b. `out_sum` must be a separate object. */
tn_sum_result_t tn_sum_add(const tn_sum_t *a, const tn_sum_t *b, int64_t scale, tn_sum_t *out_sum);
tn_sum_result_t tn_sum_multiply(const tn_sum_t *a, const tn_sum_t *b, tn_sum_t *out_sum);
/* Polynomial division: the quotient with a = quotient * b. Returns false if there is none or it
 * does not fit. */
bool tn_sum_divide(const tn_sum_t *a, const tn_sum_t *b, tn_sum_t *out_quotient);
/* Splits a = divisor * quotient + rest with divisor > 0 and the coefficients of the rest in [0,
 * divisor). */
void tn_sum_split(const tn_sum_t *a, int64_t divisor, tn_sum_t *out_quotient, tn_sum_t *out_rest);
/* Greatest common divisor of all coefficients except the constant term; 0 if there are none. */
int64_t tn_sum_common(const tn_sum_t *sum);
bool tn_sum_is_constant(const tn_sum_t *sum, int64_t *out_number);
/* Whether the sum is exactly one atom with coefficient 1. */
bool tn_sum_is_atom(const tn_sum_t *sum, uint32_t *out_atom);
int64_t tn_gcd(int64_t a, int64_t b);
static inline int64_t tn_floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

#endif
