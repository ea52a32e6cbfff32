/* Lowers mathematical functions of CHLO, which JAX emits for functions that StableHLO lacks. The
 * series are those that XLA expands these operations to. */
#include "lower/math.h"

#include <math.h>
#include <stdio.h>

#include "lower/arguments.h"
#include "lower/expression.h"
#include "lower/lower.h"

/* series */

/* The polynomial with these coefficients, the highest power first. */
static tenon_edge_t polynomial(hlo_lower_t *lower, tenon_edge_t x, const double *coefficients,
                               int count) {
  tenon_edge_t sum = hlo_run(lower, EDGES(x), "%.17g:a", coefficients[0]);
  for (int i = 1; i < count; i++)
    sum = hlo_run(lower, EDGES(sum, x), "add(mul(a, b), %.17g:b)", coefficients[i]);
  return sum;
}

/* log(1 + a), also for small a. */
#define LOG1P                                                                                      \
  "where(equal(add(a, 1:a), 1:a), a, div(mul(log(add(a, 1:a)), a), sub(add(a, 1:a), 1:a)))"

/* Lanczos's approximation of the gamma function with g = 7. */
static const double lanczos[] = {
    676.520368121885098567009190444019, -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,   -176.61502916214059906584551354,
    12.507343278686904814458936853,     -0.13857109526572011689554707,
    9.984369578019570859563e-6,         1.50563273514931155834e-7};
enum { LANCZOS_COUNT = sizeof lanczos / sizeof *lanczos };
#define LANCZOS_BASE 0.99999999999980993227684700473478

/* log(z + 7.5), computed so that small z are exact. */
static tenon_edge_t lanczos_log(hlo_lower_t *lower, tenon_edge_t z) {
  tenon_edge_t ratio = hlo_run(lower, EDGES(z), "div(a, 7.5:a)");
  return hlo_run(lower, EDGES(hlo_run_text(lower, EDGES(ratio), LOG1P, NULL)),
                 "add(a, 2.01490302054226466:a)");
}

tenon_edge_t hlo_gamma_log(hlo_lower_t *lower, tenon_edge_t x) {
  tenon_edge_t z = hlo_run(lower, EDGES(x), "where(less(a, 0.5:a), neg(a), sub(a, 1:a))");
  tenon_edge_t sum = hlo_run(lower, EDGES(x), "%.17g:a", LANCZOS_BASE);
  for (int i = 0; i < LANCZOS_COUNT; i++)
    sum = hlo_run(lower, EDGES(sum, z), "add(a, div(%.17g:b, add(b, %d:b)))", lanczos[i], i + 1);
  tenon_edge_t log_t = lanczos_log(lower, z);
  tenon_edge_t positive = hlo_run(lower, EDGES(z, log_t, sum),
                                  "add(add(mul(sub(add(a, 0.5:a), div(add(a, 7.5:a), b)), b), "
                                  "0.91893853320467274:a), log(c))");
  tenon_edge_t fraction = hlo_run(lower, EDGES(x), "sub(abs(a), floor(abs(a)))");
  fraction = hlo_run(lower, EDGES(fraction), "where(greater(a, 0.5:a), sub(1:a, a), a)");
  tenon_edge_t reflection =
      hlo_run(lower, EDGES(fraction), "log(sin(mul(a, 3.14159265358979324:a)))");
  tenon_edge_t reflected =
      hlo_run(lower, EDGES(reflection, positive),
              "where(is_inf(a), neg(a), sub(sub(1.14472988584940017:a, a), b))");
  return hlo_run(lower, EDGES(x, reflected, positive),
                 "where(is_inf(a), abs(a), where(less(a, 0.5:a), b, c))");
}

static void lower_lgamma(hlo_lower_t *lower) {
  hlo_give(lower, 0, hlo_gamma_log(lower, hlo_edge(lower, 0)));
}

tenon_edge_t hlo_digamma(hlo_lower_t *lower, tenon_edge_t x) {
  tenon_edge_t z = hlo_run(lower, EDGES(x), "where(less(a, 0.5:a), neg(a), sub(a, 1:a))");
  tenon_edge_t above = hlo_run(lower, EDGES(x), "0:a");
  tenon_edge_t below = hlo_run(lower, EDGES(x), "%.17g:a", LANCZOS_BASE);
  for (int i = 0; i < LANCZOS_COUNT; i++) {
    tenon_edge_t term = hlo_run(lower, EDGES(z), "div(%.17g:a, add(a, %d:a))", lanczos[i], i + 1);
    above = hlo_run(lower, EDGES(above, term, z), "sub(a, div(b, add(c, %d:c)))", i + 1);
    below = hlo_run(lower, EDGES(below, term), "add(a, b)");
  }
  tenon_edge_t positive = hlo_run(lower, EDGES(lanczos_log(lower, z), above, below, z),
                                  "sub(add(a, div(b, c)), div(7:d, add(d, 7.5:d)))");
  tenon_edge_t angle = hlo_run(lower, EDGES(x),
                               "mul(add(a, abs(floor(add(a, 0.5:a)))), "
                               "3.14159265358979324:a)");
  tenon_edge_t reflected = hlo_run(lower, EDGES(positive, angle),
                                   "sub(a, div(mul(3.14159265358979324:b, cos(b)), sin(b)))");
  tenon_edge_t nothing =
      hlo_scalar(lower, hlo_stopped(lower) ? tenon_dtype(TENON_F32) : hlo_dtype(lower, x), NAN);
  return hlo_run(lower, EDGES(x, reflected, positive, nothing),
                 "where(and(less_equal(a, 0:a), equal(a, floor(a))), d, where(less(a, 0.5:a), b, "
                 "c))");
}

static void lower_digamma(hlo_lower_t *lower) {
  hlo_give(lower, 0, hlo_digamma(lower, hlo_edge(lower, 0)));
}

/* error functions */

static void lower_erf_inv(hlo_lower_t *lower) {
  static const double small[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                 -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                 -0.00417768164,  0.246640727,    1.50140941};
  static const double large[] = {-0.000200214257, 0.000100950558, 0.00134934322,
                                 -0.00367342844,  0.00573950773,  -0.0076224613,
                                 0.00943887047,   1.00167406,     2.83297682};
  tenon_edge_t x = hlo_edge(lower, 0);
  tenon_edge_t squared = hlo_run(lower, EDGES(x), "neg(mul(a, a))");
  tenon_edge_t w =
      hlo_run(lower, EDGES(hlo_run_text(lower, EDGES(squared), LOG1P, NULL)), "neg(a)");
  tenon_edge_t near = polynomial(lower, hlo_run(lower, EDGES(w), "sub(a, 2.5:a)"), small, 9);
  tenon_edge_t far = polynomial(lower, hlo_run(lower, EDGES(w), "sub(sqrt(a), 3:a)"), large, 9);
  tenon_edge_t y = hlo_run(lower, EDGES(w, near, far, x), "mul(where(less(a, 5:a), b, c), d)");
  bool is_double = !hlo_stopped(lower) && tenon_dtype_id(hlo_dtype(lower, x)) == TENON_F64;
  for (int i = 0; i < 2 && is_double; i++) /* Newton's steps */
    y = hlo_run(lower, EDGES(y, x),
                "sub(a, div(sub(erf(a), b), mul(1.12837916709551257:a, exp(neg(mul(a, a))))))");
  hlo_give(lower, 0, hlo_run(lower, EDGES(x, y), "where(equal(abs(a), 1:a), div(a, 0:a), b)"));
}

/* neighbours */

static void lower_next_after(hlo_lower_t *lower) {
  tenon_edge_t x = hlo_edge(lower, 0);
  tenon_edge_t y = hlo_edge(lower, 1);
  if (hlo_stopped(lower)) return;
  tenon_dtype_t dtype = hlo_dtype(lower, x);
  const char *integers = tenon_dtype_name(hlo_integers_like(dtype, true));
  const char *own = tenon_dtype_name(dtype);
  tenon_edge_t bits = hlo_run(lower, EDGES(x), "bit_cast(a, to=%s)", integers);
  /* Away from zero the bits grow, whatever the sign is. */
  tenon_edge_t grows = hlo_run(lower, EDGES(x, y), "equal(less(a, b), greater(a, 0:a))");
  tenon_edge_t moved = hlo_run(lower, EDGES(bits, grows), "where(b, add(a, 1:a), sub(a, 1:a))");
  tenon_edge_t least = hlo_run(lower, EDGES(y, bits),
                               "bitwise_or(bitwise_and(bit_cast(a, to=%s), shift_left(1:b, %d:b)), "
                               "1:b)",
                               integers, dtype.bits - 1);
  tenon_edge_t next =
      hlo_run(lower, EDGES(x, least, moved), "bit_cast(where(equal(a, 0:a), b, c), to=%s)", own);
  tenon_edge_t same = hlo_run(lower, EDGES(x, y, next), "where(equal(a, b), b, c)");
  hlo_give(lower, 0,
           hlo_run(lower, EDGES(x, y, same), "where(or(is_nan(a), is_nan(b)), add(a, b), c)"));
}

static void lower_top_k(hlo_lower_t *lower) {
  int64_t count = hlo_attr_int(lower, "k", NULL, -1);
  tenon_edge_t x = hlo_edge(lower, 0);
  if (count < 0) hlo_wrong(lower, "expected the attribute k");
  hlo_edges_t found = hlo_run_all(lower, EDGES(x), "top_k(a, [%lld], axis=-1)", (long long)count);
  if (hlo_stopped(lower)) return;
  hlo_give(lower, 0, found.edges[0]);
  hlo_give(lower, 1, hlo_cast(lower, found.edges[1], hlo_result_type(lower, 1)->dtype));
}

/* The upper half of the bits of a product. Elements of up to 32 bits are multiplied as 64 bits. */
static void lower_mulhi(hlo_lower_t *lower) {
  tenon_edge_t x = hlo_edge(lower, 0);
  tenon_edge_t y = hlo_edge(lower, 1);
  if (hlo_stopped(lower)) return;
  tenon_dtype_t dtype = hlo_dtype(lower, x);
  const char *own = tenon_dtype_name(dtype);
  if (dtype.code > 1) hlo_wrong(lower, "expected integers");
  if (hlo_stopped(lower)) return;
  if (dtype.bits < 64) {
    const char *wide = dtype.code == 0 ? "i64" : "u64";
    tenon_edge_t product =
        hlo_run(lower, EDGES(x, y), "mul(cast(a, to=%s), cast(b, to=%s))", wide, wide);
    hlo_give(lower, 0,
             hlo_run(lower, EDGES(product), "cast(shift_right(a, %d:a), to=%s)", dtype.bits, own));
    return;
  }
  tenon_edge_t a = hlo_run(lower, EDGES(x), "bit_cast(a, to=u64)");
  tenon_edge_t b = hlo_run(lower, EDGES(y), "bit_cast(a, to=u64)");
  tenon_edge_t low_a = hlo_run(lower, EDGES(a), "bitwise_and(a, 4294967295:a)");
  tenon_edge_t low_b = hlo_run(lower, EDGES(b), "bitwise_and(a, 4294967295:a)");
  tenon_edge_t middle = hlo_run(lower, EDGES(a, low_a, low_b),
                                "add(mul(shift_right(a, 32:a), c), shift_right(mul(b, c), 32:a))");
  tenon_edge_t other = hlo_run(lower, EDGES(b, low_a, middle),
                               "add(mul(shift_right(a, 32:a), b), bitwise_and(c, 4294967295:a))");
  tenon_edge_t high = hlo_run(lower, EDGES(a, b, middle, other),
                              "add(add(mul(shift_right(a, 32:a), shift_right(b, 32:a)), "
                              "shift_right(c, 32:a)), shift_right(d, 32:a))");
  high = hlo_run(lower, EDGES(high), "bit_cast(a, to=%s)", own);
  if (dtype.code == 0) /* A negative number was taken as 2^64 more. */
    high = hlo_run(lower, EDGES(high, x, y),
                   "sub(sub(a, where(less(b, 0:b), c, 0:b)), where(less(c, 0:b), b, 0:b))");
  hlo_give(lower, 0, high);
}

static void lower_conjugate(hlo_lower_t *lower) {
  hlo_bound_t bound = *hlo_operand(lower, 0);
  if (bound.imaginary != EDGE_NONE)
    bound.imaginary = hlo_run(lower, EDGES(bound.imaginary), "neg(a)");
  bound.narrow = EDGE_NONE;
  bound.constant = NULL;
  hlo_give_bound(lower, 0, bound);
}

static const hlo_row_t rows[] = {
    {"chlo.acos", "acos(a)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"chlo.acosh", "acosh(a)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"chlo.asin", "asin(a)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"chlo.asinh", "asinh(a)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"chlo.atan", "atan(a)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"chlo.atanh", "atanh(a)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"chlo.conj", NULL, NULL, NULL, lower_conjugate, HLO_ELEMENTWISE, NULL},
    {"chlo.cosh", "cosh(a)", NULL, "mul(cosh(a), cos(b)); mul(sinh(a), sin(b))", hlo_lower_text,
     HLO_ELEMENTWISE, NULL},
    {"chlo.digamma", NULL, NULL, NULL, lower_digamma, HLO_ELEMENTWISE, NULL},
    {"chlo.erf", "erf(a)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"chlo.erf_inv", NULL, NULL, NULL, lower_erf_inv, HLO_ELEMENTWISE, NULL},
    {"chlo.erfc", "erfc(a)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"chlo.is_inf", "is_inf(a)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"chlo.is_neg_inf", "is_inf(a, positive=False)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE,
     NULL},
    {"chlo.is_pos_inf", "is_inf(a, negative=False)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE,
     NULL},
    {"chlo.lgamma", NULL, NULL, NULL, lower_lgamma, HLO_ELEMENTWISE, NULL},
    {"chlo.mulhi", NULL, NULL, NULL, lower_mulhi, HLO_ELEMENTWISE, NULL},
    {"chlo.next_after", NULL, NULL, NULL, lower_next_after, HLO_ELEMENTWISE, NULL},
    {"chlo.sinh", "sinh(a)", NULL, "mul(sinh(a), cos(b)); mul(cosh(a), sin(b))", hlo_lower_text,
     HLO_ELEMENTWISE, NULL},
    {"chlo.square", "mul(a, a)", NULL, "sub(mul(a, a), mul(b, b)); mul(2:a, mul(a, b))",
     hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"chlo.tan", "tan(a)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"chlo.top_k", NULL, NULL, NULL, lower_top_k, 0, NULL},
};

HLO_ROWS(hlo_rows_math);
