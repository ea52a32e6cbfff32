/* Arithmetic on sums of products; see sum.h. The size is fixed, nothing is allocated, and every
 * overflow is reported. */
#include "core/sum.h"

#include <string.h>

void tn_sum_constant(tn_sum_t *out_sum, int64_t number) {
  out_sum->count = number != 0;
  out_sum->terms[0].coefficient = number;
  out_sum->terms[0].count = 0;
}

void tn_sum_atom(tn_sum_t *out_sum, uint32_t atom) {
  out_sum->count = 1;
  out_sum->terms[0].coefficient = 1;
  out_sum->terms[0].count = 1;
  out_sum->terms[0].factors[0] = atom;
}

/* Graded lexicographic order, which multiplication preserves. Negative if `a` comes first. */
static int compare_terms(const tn_term_t *a, const tn_term_t *b) {
  if (a->count != b->count) return a->count > b->count ? -1 : 1;
  for (uint32_t i = 0; i < a->count; i++)
    if (a->factors[i] != b->factors[i]) return a->factors[i] < b->factors[i] ? -1 : 1;
  return 0;
}

tn_sum_result_t tn_sum_add(const tn_sum_t *a, const tn_sum_t *b, int64_t scale, tn_sum_t *out_sum) {
  out_sum->count = 0;
  for (uint32_t i = 0, k = 0; i < a->count || k < b->count;) {
    int order = i == a->count ? 1 : -1;
    if (i < a->count && k < b->count) order = compare_terms(&a->terms[i], &b->terms[k]);
    tn_term_t term = order <= 0 ? a->terms[i] : b->terms[k];
    int64_t scaled = 0;
    if (order >= 0 && __builtin_mul_overflow(b->terms[k].coefficient, scale, &scaled))
      return TN_SUM_OVERFLOW;
    if (order > 0) term.coefficient = 0;
    if (__builtin_add_overflow(term.coefficient, scaled, &term.coefficient)) return TN_SUM_OVERFLOW;
    i += order <= 0;
    k += order >= 0;
    if (term.coefficient == 0) continue;
    if (out_sum->count == TN_TERMS_MAX) return TN_SUM_LARGE;
    out_sum->terms[out_sum->count++] = term;
  }
  return TN_SUM_OK;
}

static tn_sum_result_t multiply_term(const tn_sum_t *a, const tn_term_t *term, tn_sum_t *out) {
  out->count = a->count;
  for (uint32_t i = 0; i < a->count; i++) {
    const tn_term_t *from = &a->terms[i];
    tn_term_t *to = &out->terms[i];
    if (from->count + term->count > TN_FACTORS_MAX) return TN_SUM_LARGE;
    if (__builtin_mul_overflow(from->coefficient, term->coefficient, &to->coefficient))
      return TN_SUM_OVERFLOW;
    to->count = 0;
    /* merge two sorted lists of factors */
    for (uint32_t k = 0, l = 0; k < from->count || l < term->count;) {
      bool is_from = l == term->count || (k < from->count && from->factors[k] <= term->factors[l]);
      to->factors[to->count++] = is_from ? from->factors[k++] : term->factors[l++];
    }
  }
  return TN_SUM_OK;
}

tn_sum_result_t tn_sum_multiply(const tn_sum_t *a, const tn_sum_t *b, tn_sum_t *out_sum) {
  tn_sum_t part;
  tn_sum_t sum = {0};
  for (uint32_t i = 0; i < b->count; i++) {
    tn_sum_result_t result = multiply_term(a, &b->terms[i], &part);
    if (result == TN_SUM_OK) result = tn_sum_add(&sum, &part, 1, out_sum);
    if (result != TN_SUM_OK) return result;
    sum = *out_sum;
  }
  *out_sum = sum;
  return TN_SUM_OK;
}

static bool divide_term(const tn_term_t *a, const tn_term_t *b, tn_term_t *out) {
  if (a->coefficient % b->coefficient != 0) return false;
  out->coefficient = a->coefficient / b->coefficient;
  out->count = 0;
  uint32_t k = 0;
  for (uint32_t i = 0; i < a->count; i++) {
    if (k < b->count && a->factors[i] == b->factors[k])
      k++;
    else
      out->factors[out->count++] = a->factors[i];
  }
  return k == b->count;
}

bool tn_sum_divide(const tn_sum_t *a, const tn_sum_t *b, tn_sum_t *out_quotient) {
  tn_sum_t rest = *a;
  tn_sum_t part, next;
  out_quotient->count = 0;
  /* leading terms decrease, so the terms of the quotient come in order */
  while (b->count && rest.count) {
    tn_term_t term;
    if (b->terms[0].coefficient == -1 && rest.terms[0].coefficient == INT64_MIN) return false;
    if (out_quotient->count == TN_TERMS_MAX || !divide_term(&rest.terms[0], &b->terms[0], &term))
      return false;
    if (multiply_term(b, &term, &part) != TN_SUM_OK ||
        tn_sum_add(&rest, &part, -1, &next) != TN_SUM_OK)
      return false;
    rest = next;
    out_quotient->terms[out_quotient->count++] = term;
  }
  return b->count > 0;
}

void tn_sum_split(const tn_sum_t *a, int64_t divisor, tn_sum_t *out_quotient, tn_sum_t *out_rest) {
  out_quotient->count = out_rest->count = 0;
  for (uint32_t i = 0; i < a->count; i++) {
    tn_term_t term = a->terms[i];
    int64_t quotient = tn_floor_div(term.coefficient, divisor);
    int64_t rest = term.coefficient % divisor;
    term.coefficient = quotient;
    if (term.coefficient) out_quotient->terms[out_quotient->count++] = term;
    term.coefficient = rest < 0 ? rest + divisor : rest;
    if (term.coefficient) out_rest->terms[out_rest->count++] = term;
  }
}

/* Greatest common divisor; magnitudes must be below 2^63. */
int64_t tn_gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a < 0 ? -a : a;
}

int64_t tn_sum_common(const tn_sum_t *sum) {
  int64_t common = 0;
  for (uint32_t i = 0; i < sum->count; i++)
    if (sum->terms[i].count)
      common =
          sum->terms[i].coefficient == INT64_MIN ? 1 : tn_gcd(sum->terms[i].coefficient, common);
  return common;
}

bool tn_sum_is_constant(const tn_sum_t *sum, int64_t *out_number) {
  if (sum->count > 1 || (sum->count && sum->terms[0].count)) return false;
  *out_number = sum->count ? sum->terms[0].coefficient : 0;
  return true;
}

bool tn_sum_is_atom(const tn_sum_t *sum, uint32_t *out_atom) {
  if (sum->count != 1 || sum->terms[0].count != 1 || sum->terms[0].coefficient != 1) return false;
  *out_atom = sum->terms[0].factors[0];
  return true;
}
