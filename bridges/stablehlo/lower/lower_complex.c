/* Lowers arguments, logarithms and powers, which complex numbers compute through each other. */
#include "lower/arguments.h"
#include "lower/expression.h"
#include "lower/lower.h"
#include "lower/math.h"

/* arguments and logarithms */

tenon_edge_t hlo_atan2(hlo_lower_t *lower, tenon_edge_t y, tenon_edge_t x) {
  /* atan(y / x) is in the right half; signs choose the half, also those of zeros. */
  tenon_edge_t signed_y = hlo_run(lower, EDGES(y), "where(equal(a, 0:a), reciprocal(a), a)");
  tenon_edge_t signed_x = hlo_run(lower, EDGES(x), "where(equal(a, 0:a), reciprocal(a), a)");
  tenon_edge_t both_infinite = hlo_run(lower, EDGES(y, x), "and(is_inf(a), is_inf(b))");
  tenon_edge_t is_origin = hlo_run(lower, EDGES(y, x), "and(equal(a, 0:a), equal(b, 0:b))");
  tenon_edge_t angle = hlo_run(lower, EDGES(y, x, both_infinite, is_origin),
                               "where(d, 0:a, where(c, 0.78539816339744831:a, "
                               "atan(div(abs(a), abs(b)))))");
  angle = hlo_run(lower, EDGES(angle, signed_x),
                  "where(less(b, 0:b), sub(3.14159265358979324:a, a), a)");
  angle = hlo_run(lower, EDGES(angle, signed_y), "where(less(b, 0:b), neg(a), a)");
  return angle;
}

/* The real part of the logarithm of x + iy. */
static tenon_edge_t log_size(hlo_lower_t *lower, tenon_edge_t x, tenon_edge_t y) {
  return hlo_run(lower, EDGES(x, y), "mul(0.5:a, log(add(mul(a, a), mul(b, b))))");
}

/* For complex operands, -i log((x + iy) / sqrt(x^2 + y^2)). */
static void lower_atan2(hlo_lower_t *lower) {
  const hlo_bound_t *y = hlo_operand(lower, 0);
  const hlo_bound_t *x = hlo_operand(lower, 1);
  if (x->imaginary == EDGE_NONE && y->imaginary == EDGE_NONE) {
    hlo_give(lower, 0, hlo_atan2(lower, y->edge, x->edge));
    return;
  }
  if (x->imaginary == EDGE_NONE || y->imaginary == EDGE_NONE)
    hlo_wrong(lower, "only one operand is complex");
  if (hlo_stopped(lower)) return;
  const tenon_edge_t parts[] = {x->edge, x->imaginary, y->edge, y->imaginary};
  tenon_edge_t above[] = {hlo_run(lower, parts, 4, "sub(a, d)"),
                          hlo_run(lower, parts, 4, "add(b, c)")};
  tenon_edge_t square[] = {
      hlo_run(lower, parts, 4, "add(sub(mul(a, a), mul(b, b)), sub(mul(c, c), mul(d, d)))"),
      hlo_run(lower, parts, 4, "mul(2:a, add(mul(a, b), mul(c, d)))")};
  tenon_edge_t real = hlo_run(
      lower, EDGES(hlo_atan2(lower, above[1], above[0]), hlo_atan2(lower, square[1], square[0])),
      "sub(a, mul(0.5:b, b))");
  tenon_edge_t imaginary = hlo_run(
      lower, EDGES(log_size(lower, above[0], above[1]), log_size(lower, square[0], square[1])),
      "sub(mul(0.5:b, b), a)");
  hlo_give_bound(lower, 0, hlo_complex(real, imaginary));
}

static void lower_log(hlo_lower_t *lower) {
  const hlo_bound_t *x = hlo_operand(lower, 0);
  if (x->imaginary == EDGE_NONE) {
    hlo_give(lower, 0, hlo_run(lower, EDGES(x->edge), "log(a)"));
    return;
  }
  tenon_edge_t real = log_size(lower, x->edge, x->imaginary);
  hlo_give_bound(lower, 0, hlo_complex(real, hlo_atan2(lower, x->imaginary, x->edge)));
}

/* For complex numbers, log(1 + z). Its real part is half of log1p(x^2 + 2x + y^2). */
static void lower_log1p(hlo_lower_t *lower) {
  const hlo_bound_t *x = hlo_operand(lower, 0);
  if (x->imaginary == EDGE_NONE) {
    hlo_lower_text(lower);
    return;
  }
  tenon_edge_t above =
      hlo_run(lower, EDGES(x->edge, x->imaginary), "add(mul(a, add(a, 2:a)), mul(b, b))");
  tenon_edge_t logarithm = hlo_run_text(lower, EDGES(above), lower->row->text, NULL);
  tenon_edge_t real = hlo_run(lower, EDGES(logarithm), "mul(0.5:a, a)");
  tenon_edge_t one_more = hlo_run(lower, EDGES(x->edge), "add(a, 1:a)");
  hlo_give_bound(lower, 0, hlo_complex(real, hlo_atan2(lower, x->imaginary, one_more)));
}

/* powers */

/* For complex numbers, the root with a third of the angle. */
static void lower_cbrt(hlo_lower_t *lower) {
  const hlo_bound_t *x = hlo_operand(lower, 0);
  if (x->imaginary == EDGE_NONE) {
    hlo_lower_text(lower);
    return;
  }
  tenon_edge_t size = hlo_run(lower, EDGES(x->edge, x->imaginary),
                              "pow(add(mul(a, a), mul(b, b)), 0.16666666666666667:a)");
  tenon_edge_t angle = hlo_run(lower, EDGES(hlo_atan2(lower, x->imaginary, x->edge)),
                               "mul(a, 0.33333333333333333:a)");
  hlo_give_bound(lower, 0,
                 hlo_complex(hlo_run(lower, EDGES(size, angle), "mul(a, cos(b))"),
                             hlo_run(lower, EDGES(size, angle), "mul(a, sin(b))")));
}

/* core::pow has signed integers of 32 and 64 bits. The low bits of a power are those of the power
 * of wider integers. */
static tenon_edge_t real_power(hlo_lower_t *lower, tenon_edge_t x, tenon_edge_t y) {
  if (hlo_stopped(lower)) return EDGE_NONE;
  tenon_dtype_t dtype = hlo_dtype(lower, x);
  bool is_narrow = dtype.code == 0 && dtype.bits < 32;
  if (dtype.code != 1 && !is_narrow) return hlo_run(lower, EDGES(x, y), "pow(a, b)");
  return hlo_run(lower, EDGES(x, y), "cast(pow(cast(a, to=i64), cast(b, to=i64)), to=%s)",
                 tenon_dtype_name(dtype));
}

static void lower_power(hlo_lower_t *lower) {
  const hlo_bound_t *x = hlo_operand(lower, 0);
  const hlo_bound_t *y = hlo_operand(lower, 1);
  if (x->imaginary == EDGE_NONE && y->imaginary == EDGE_NONE) {
    hlo_give(lower, 0, real_power(lower, x->edge, y->edge));
    return;
  }
  if (x->imaginary == EDGE_NONE || y->imaginary == EDGE_NONE)
    hlo_wrong(lower, "only one operand is complex");
  /* exp(y log x), and 0 for the base 0. */
  tenon_edge_t length = log_size(lower, x->edge, x->imaginary);
  tenon_edge_t angle = hlo_atan2(lower, x->imaginary, x->edge);
  tenon_edge_t scale =
      hlo_run(lower, EDGES(length, angle, y->edge, y->imaginary), "exp(sub(mul(a, c), mul(b, d)))");
  tenon_edge_t turn =
      hlo_run(lower, EDGES(length, angle, y->edge, y->imaginary), "add(mul(a, d), mul(b, c))");
  tenon_edge_t is_zero = hlo_run(lower, EDGES(length, length), "is_inf(a)");
  hlo_give_bound(
      lower, 0,
      hlo_complex(hlo_run(lower, EDGES(scale, turn, is_zero), "where(c, 0:a, mul(a, cos(b)))"),
                  hlo_run(lower, EDGES(scale, turn, is_zero), "where(c, 0:a, mul(a, sin(b)))")));
}

static const hlo_row_t rows[] = {
    {"stablehlo.atan2", NULL, NULL, NULL, lower_atan2, HLO_ELEMENTWISE, NULL},
    {"stablehlo.cbrt", "mul(sign(a), pow(abs(a), 0.33333333333333333:a))", NULL, NULL, lower_cbrt,
     HLO_ELEMENTWISE, NULL},
    {"stablehlo.log", NULL, NULL, NULL, lower_log, HLO_ELEMENTWISE, NULL},
    {"stablehlo.log_plus_one",
     "where(or(equal(add(a, 1:a), 1:a), equal(a, reciprocal(0:a))), a, div(mul(log(add(a, 1:a)), "
     "a), sub(add(a, 1:a), 1:a)))",
     NULL, NULL, lower_log1p, HLO_ELEMENTWISE, NULL},
    {"stablehlo.power", NULL, NULL, NULL, lower_power, HLO_ELEMENTWISE, NULL},
};

HLO_ROWS(hlo_rows_complex);
