/* Checks that the f32 functions of ops/simd/math.h stay within the error bounds that they state,
 * against libm's functions of double. It tests every 509th float, or, with an argument N, every
 * N-th (1: all of them, which takes minutes). The exit status is 0 if all bounds hold. Invariant:
 * the reference is libm's, whose double results are exact to far less than an ulp of f32. */
#include "../../../ops/simd/math.h"
#include <stdio.h>
#include <stdlib.h>

/* Returns the distance from the reference in units in the last place of f32; 0 if it is the nearest
 * f32, or NaN as expected. */
static double ulps(float found, double expected) {
  float nearest = (float)expected;
  int exponent;
  if (isnan(expected) || isnan(found)) return isnan(expected) && isnan(found) ? 0 : INFINITY;
  if (found == nearest) return !signbit(found) == !signbit(expected) ? 0 : INFINITY;
  if (isinf(found) ||
      isinf(nearest)) /* The step from the largest number to infinity counts as one. */
    return fabs(fabs(isinf(found) ? expected : (double)found) - 0x1.fffffep127) <= 0x1p104
               ? 1
               : INFINITY;
  frexp(expected, &exponent);
  return fabs((double)found - expected) / ldexp(1, exponent < -125 ? -149 : exponent - 24);
}

static double sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }

static double normal(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }

static const struct check_t {
  const char *name;
  float (*f)(float);
  double (*reference)(double);
  double low;
  double high;
  double bound;
  /* clang-format off */
} checks[] = {
    {"exp", tn_expf, exp, -INFINITY, INFINITY, 1.1},
    {"exp, -87.3 <= x <= 0", tn_exp_downf, exp, -87.3, 0, 1.1},
    {"expm1", tn_expm1f, expm1, -INFINITY, INFINITY, 2},
    {"log", tn_logf, log, -INFINITY, INFINITY, 1},
    {"log1p, 0 <= x <= 1", tn_log1pf_unit, log1p, 0, 1, 1.5},
    {"tanh", tn_tanhf, tanh, -INFINITY, INFINITY, 1.5},
    {"sigmoid", tn_sigmoidf, sigmoid, -INFINITY, INFINITY, 2.5},
    {"erf", tn_erff, erf, -INFINITY, INFINITY, 1.5},
    {"normal, -3 <= x", tn_normalf, normal, -3, INFINITY, 12},
    {"normal, x <= -3", tn_normalf, normal, -8, -3, 23},
    {"erfc", tn_erfcf, erfc, -INFINITY, INFINITY, 7},
    {"sin", tn_sinf, sin, -0x1p20, 0x1p20, 0.6},
    {"cos", tn_cosf, cos, -0x1p20, 0x1p20, 0.6},
    {"tan", tn_tanf, tan, -0x1p20, 0x1p20, 0.6},
    {"rint", tn_rintf, rint, -INFINITY, INFINITY, 0},
    {"floor", tn_floorf, floor, -INFINITY, INFINITY, 0},
    {"ceil", tn_ceilf, ceil, -INFINITY, INFINITY, 0},
    {"trunc", tn_truncf, trunc, -INFINITY, INFINITY, 0},
};
/* clang-format on */

static int report(const char *name, double worst, double bound, const char *where) {
  printf("%-20s %8.3f ulp of %g allowed%s%s\n", name, worst, bound,
         worst > bound ? ", exceeded at " : "", where);
  return worst > bound;
}

static int check_one(const struct check_t *c, uint64_t step) {
  double worst = 0;
  char where[64] = "";
  for (uint64_t n = 0; n < 0x100000000 + step; n += step) {
    /* The last one is infinity. */
    uint32_t bits = n < 0x100000000 ? (uint32_t)n : 0x7f800000u;
    float x = tn_float32(bits);
    double d;
    if (!isnan(x) && ((double)x < c->low || (double)x > c->high)) continue;
    d = ulps(c->f(x), c->reference((double)x));
    if (d > worst && d > c->bound)
      snprintf(where, sizeof where, "%a (0x%08x)", (double)x, (unsigned)bits);
    worst = d > worst ? d : worst;
  }
  return report(c->name, worst, c->bound, where);
}

/* Tests bases and exponents of every size and sign, and all pairs of special numbers. */
static int check_power(uint64_t step) {
  static const float special[] = {0,       0.5f,           1,         2,        3,  1.5f,
                                  0x1p24f, 0x1.fffffep23f, 0x1p-149f, INFINITY, NAN};
  enum { COUNT = 2 * sizeof special / sizeof *special };
  double worst = 0;
  char where[64] = "";
  uint64_t state = 1;
  for (uint64_t i = 0; i < 0x80000000 / step + COUNT * COUNT; i++) {
    float x, y;
    double d;
    if (i < COUNT * COUNT) {
      x = special[i % COUNT / 2];
      y = special[i / COUNT / 2];
      if (i & 1) x = -x;
      if (i / COUNT & 1) y = -y;
    } else {
      state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
      x = tn_float32((uint32_t)(state >> 32) & (i & 1 ? 0xffffffffu : 0x7fffffffu));
      /* The result is then near 2^k for |k| < 160; every eighth exponent is an integer. */
      y = (float)(((double)(state & 0xffff) / 32768 - 1) * 160 / log2(fabs((double)x)));
      if ((i & 7) == 0) y = tn_rintf(y);
    }
    d = ulps(tn_powf(x, y), pow((double)x, (double)y));
    if (d > worst && d > 0.6)
      snprintf(where, sizeof where, "%a to the power of %a", (double)x, (double)y);
    worst = d > worst ? d : worst;
  }
  return report("pow", worst, 0.6, where);
}

int main(int count, char **arguments) {
  uint64_t step = count > 1 ? strtoull(arguments[1], NULL, 10) : 509;
  int failed = 0;
  if (step == 0) {
    fprintf(stderr, "math_test: the step between floats is a number from 1, not \"%s\"\n",
            arguments[1]);
    return 2;
  }
  for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
    failed |= check_one(&checks[i], step);
  return failed | check_power(step);
}
