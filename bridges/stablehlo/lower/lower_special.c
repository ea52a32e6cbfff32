/* Lowers special functions of CHLO that are sums of many terms: the Bessel function I1, scaled by
 * exp(-|x|), the Hurwitz zeta function, and the polygamma functions. The coefficients of I1 are
 * those of Cephes for f32. */
#include <math.h>

#include "lower/arguments.h"
#include "lower/expression.h"
#include "lower/lower.h"
#include "lower/math.h"

/* Sums a Chebyshev series, whose first coefficient belongs to the highest polynomial. */
static tenon_edge_t chebyshev(hlo_lower_t *lower, tenon_edge_t x, const double *coefficients,
                              int count) {
  tenon_edge_t now = hlo_run(lower, EDGES(x), "%.17g:a", coefficients[0]);
  tenon_edge_t before = hlo_run(lower, EDGES(x), "0:a");
  tenon_edge_t older = before;
  for (int i = 1; i < count; i++) {
    older = before;
    before = now;
    now =
        hlo_run(lower, EDGES(x, before, older), "add(sub(mul(a, b), c), %.17g:a)", coefficients[i]);
  }
  return hlo_run(lower, EDGES(now, older), "mul(0.5:a, sub(a, b))");
}

static void lower_bessel_i1e(hlo_lower_t *lower) {
  static const double near[] = {
      9.38153738649577178388E-9,  -4.44505912879632808065E-8, 2.00329475355213526229E-7,
      -8.56872026469545474066E-7, 3.47025130813767847674E-6,  -1.32731636560394358279E-5,
      4.78156510755005422638E-5,  -1.61760815825896745588E-4, 5.12285956168575772895E-4,
      -1.51357245063125314899E-3, 4.15642294431288815669E-3,  -1.05640848946261981558E-2,
      2.47264490306265168283E-2,  -5.29459812080949914269E-2, 1.02643658689847095384E-1,
      -1.76416518357834055153E-1, 2.52587186443633654823E-1};
  static const double far[] = {-3.83538038596423702205E-9, -2.63146884688951950684E-8,
                               -2.51223623787020892529E-7, -3.88256480887769039346E-6,
                               -1.10588938762623716291E-4, -9.76109749136146840777E-3,
                               7.78576235018280120474E-1};
  tenon_edge_t x = hlo_edge(lower, 0);
  if (!hlo_stopped(lower) && hlo_dtype(lower, x).bits > 32)
    hlo_missing(lower, "f64: the series is for 32 bits");
  tenon_edge_t size = hlo_run(lower, EDGES(x), "abs(a)");
  tenon_edge_t inner = hlo_run(lower, EDGES(size), "sub(mul(0.5:a, a), 2:a)");
  tenon_edge_t outer = hlo_run(lower, EDGES(size), "sub(div(32:a, a), 2:a)");
  tenon_edge_t small = chebyshev(lower, inner, near, sizeof near / sizeof *near);
  tenon_edge_t large = chebyshev(lower, outer, far, sizeof far / sizeof *far);
  hlo_give(lower, 0,
           hlo_run(lower, EDGES(x, size, small, large),
                   "mul(sign(a), where(less_equal(b, 8:b), mul(b, c), div(d, sqrt(b))))"));
}

/* The sum of (q + k)^-s over k >= 0, for s > 1 and q > 0: ten terms, then the formula of Euler and
 * Maclaurin. */
static tenon_edge_t hurwitz_zeta(hlo_lower_t *lower, tenon_edge_t s, tenon_edge_t q) {
  /* (2n)! / B(2n) */
  static const double divisors[] = {12.0,          -720.0,
                                    30240.0,       -1209600.0,
                                    47900160.0,    -1.8924375803183791606e9,
                                    7.47242496e10, -2.950130727918164224e12};
  const int terms = 10;
  tenon_edge_t sum = hlo_run(lower, EDGES(s, q), "pow(b, neg(a))");
  for (int k = 1; k < terms; k++)
    sum = hlo_run(lower, EDGES(sum, s, q), "add(a, pow(add(c, %d:c), neg(b)))", k);
  tenon_edge_t end = hlo_run(lower, EDGES(q), "add(a, %d:a)", terms);
  tenon_edge_t power = hlo_run(lower, EDGES(s, end), "pow(b, neg(a))");
  sum = hlo_run(lower, EDGES(sum, power, end, s),
                "add(a, add(div(mul(b, c), sub(d, 1:d)), mul(0.5:b, b)))");
  tenon_edge_t factor = hlo_run(lower, EDGES(s, power, end), "div(mul(a, b), c)");
  for (size_t i = 0; i < sizeof divisors / sizeof *divisors; i++) {
    sum = hlo_run(lower, EDGES(sum, factor), "add(a, div(b, %.17g:b))", divisors[i]);
    factor =
        hlo_run(lower, EDGES(factor, s, end),
                "div(div(mul(mul(a, add(b, %zu:b)), add(b, %zu:b)), c), c)", 2 * i + 1, 2 * i + 2);
  }
  return sum;
}

static tenon_edge_t not_a_number(hlo_lower_t *lower, tenon_edge_t like) {
  return hlo_stopped(lower) ? EDGE_NONE : hlo_scalar(lower, hlo_dtype(lower, like), NAN);
}

static void lower_zeta(hlo_lower_t *lower) {
  tenon_edge_t s = hlo_edge(lower, 0);
  tenon_edge_t q = hlo_edge(lower, 1);
  tenon_edge_t sum = hurwitz_zeta(lower, s, q);
  hlo_give(lower, 0,
           hlo_run(lower, EDGES(s, q, sum, not_a_number(lower, s)),
                   "where(equal(a, 1:a), reciprocal(0:a), where(or(less(a, 1:a), less_equal(b, "
                   "0:b)), d, c))"));
}

/* (-1)^(n + 1) n! zeta(n + 1, x). Order 0 is the digamma function. */
static void lower_polygamma(hlo_lower_t *lower) {
  tenon_edge_t n = hlo_edge(lower, 0);
  tenon_edge_t x = hlo_edge(lower, 1);
  tenon_edge_t zeta = hurwitz_zeta(lower, hlo_run(lower, EDGES(n), "add(a, 1:a)"), x);
  tenon_edge_t next = hlo_run(lower, EDGES(n), "add(a, 1:a)");
  tenon_edge_t factorial = hlo_run(lower, EDGES(hlo_gamma_log(lower, next)), "exp(a)");
  tenon_edge_t sign = hlo_run(lower, EDGES(n), "sub(mul(2:a, mod(a, 2:a, fmod=True)), 1:a)");
  tenon_edge_t value = hlo_run(lower, EDGES(sign, factorial, zeta), "mul(mul(a, b), c)");
  hlo_give(lower, 0,
           hlo_run(lower, EDGES(n, x, hlo_digamma(lower, x), value, not_a_number(lower, x)),
                   "where(equal(a, 0:a), c, where(or(less_equal(b, 0:b), not_equal(a, floor(a))), "
                   "e, d))"));
}

static const hlo_row_t rows[] = {
    {"chlo.bessel_i1e", NULL, NULL, NULL, lower_bessel_i1e, HLO_ELEMENTWISE, NULL},
    {"chlo.polygamma", NULL, NULL, NULL, lower_polygamma, HLO_ELEMENTWISE, NULL},
    {"chlo.zeta", NULL, NULL, NULL, lower_zeta, HLO_ELEMENTWISE, NULL},
};

HLO_ROWS(hlo_rows_special);
