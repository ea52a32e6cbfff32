/* Lowers batch normalisation, random numbers of the operation rng, and products by equations. JAX
 * does not emit these operations; other frameworks do. */
#include <string.h>

#include "lower/arguments.h"
#include "lower/expression.h"
#include "lower/lower.h"

typedef struct norm_t {
  int64_t axes[TENON_RANK_MAX];  /* All but the axis of the features. */
  int64_t shape[TENON_RANK_MAX]; /* 1, except for the features. */
  int32_t ndim;
  double epsilon;
} norm_t;

static void read_norm(hlo_lower_t *lower, norm_t *norm) {
  const hlo_type_t *type = hlo_operand_type(lower, 0);
  const hlo_attr_t *epsilon = hlo_attr(lower, "epsilon", NULL);
  int64_t feature = hlo_attr_int(lower, "feature_index", NULL, -1);
  int32_t count = 0;
  if (feature < 0 || feature >= type->ndim)
    hlo_wrong(lower, "feature_index %lld does not exist", (long long)feature);
  norm->ndim = type->ndim;
  norm->epsilon = epsilon ? epsilon->number : 0;
  for (int32_t i = 0; i < type->ndim; i++) {
    norm->shape[i] = i == feature ? -1 : 1;
    if (i != feature) norm->axes[count++] = i;
  }
}

/* Gives a value for each feature the axes of the operand. */
static tenon_edge_t spread(hlo_lower_t *lower, const norm_t *norm, tenon_edge_t x) {
  return hlo_stopped(lower) ? EDGE_NONE : hlo_reshape(lower, x, norm->shape, norm->ndim);
}

static tenon_edge_t mean(hlo_lower_t *lower, const norm_t *norm, tenon_edge_t x) {
  char text[HLO_JOIN_MAX];
  return hlo_run(lower, EDGES(x), "reduce_mean(a, [%s], keepdims=False)",
                 hlo_join(norm->axes, norm->ndim - 1, text, sizeof text));
}

static tenon_edge_t normalise(hlo_lower_t *lower, const norm_t *norm, tenon_edge_t x,
                              tenon_edge_t center, tenon_edge_t variance) {
  return hlo_run(lower, EDGES(x, spread(lower, norm, center), spread(lower, norm, variance)),
                 "mul(sub(a, b), rsqrt(add(c, %.9g:c)))", norm->epsilon);
}

static tenon_edge_t scale_and_shift(hlo_lower_t *lower, const norm_t *norm, tenon_edge_t x) {
  tenon_edge_t scale = spread(lower, norm, hlo_edge(lower, 1));
  return hlo_run(lower, EDGES(x, scale, spread(lower, norm, hlo_edge(lower, 2))),
                 "add(mul(a, b), c)");
}

static void lower_norm_inference(hlo_lower_t *lower) {
  norm_t norm = {0};
  read_norm(lower, &norm);
  tenon_edge_t center = hlo_edge(lower, 3);
  tenon_edge_t x = normalise(lower, &norm, hlo_edge(lower, 0), center, hlo_edge(lower, 4));
  hlo_give(lower, 0, scale_and_shift(lower, &norm, x));
}

static void lower_norm_training(hlo_lower_t *lower) {
  norm_t norm = {0};
  read_norm(lower, &norm);
  tenon_edge_t x = hlo_edge(lower, 0);
  tenon_edge_t center = mean(lower, &norm, x);
  tenon_edge_t squares =
      hlo_run(lower, EDGES(x, spread(lower, &norm, center)), "mul(sub(a, b), sub(a, b))");
  tenon_edge_t variance = mean(lower, &norm, squares);
  tenon_edge_t out = normalise(lower, &norm, x, center, variance);
  hlo_give(lower, 0, scale_and_shift(lower, &norm, out));
  hlo_give(lower, 1, center);
  hlo_give(lower, 2, variance);
}

static void lower_norm_grad(hlo_lower_t *lower) {
  norm_t norm = {0};
  char text[HLO_JOIN_MAX];
  read_norm(lower, &norm);
  tenon_edge_t variance = hlo_edge(lower, 3);
  tenon_edge_t center = hlo_edge(lower, 2);
  tenon_edge_t dy = hlo_edge(lower, 4);
  tenon_edge_t unit = normalise(lower, &norm, hlo_edge(lower, 0), center, variance);
  tenon_edge_t product = hlo_run(lower, EDGES(dy, unit), "mul(a, b)");
  tenon_edge_t mean_dy = spread(lower, &norm, mean(lower, &norm, dy));
  tenon_edge_t mean_product = spread(lower, &norm, mean(lower, &norm, product));
  tenon_edge_t inner =
      hlo_run(lower, EDGES(dy, mean_dy, unit, mean_product), "sub(sub(a, b), mul(c, d))");
  tenon_edge_t factor = hlo_run(lower, EDGES(hlo_edge(lower, 1), variance),
                                "mul(a, rsqrt(add(b, %.9g:b)))", norm.epsilon);
  hlo_give(lower, 0, hlo_run(lower, EDGES(inner, spread(lower, &norm, factor)), "mul(a, b)"));
  hlo_join(norm.axes, norm.ndim - 1, text, sizeof text);
  hlo_give(lower, 1, hlo_run(lower, EDGES(product), "reduce_sum(a, [%s], keepdims=False)", text));
  hlo_give(lower, 2, hlo_run(lower, EDGES(dy), "reduce_sum(a, [%s], keepdims=False)", text));
}

/* Numbers of Tenon's generator: a program gets the same distribution, but other numbers. */
static void lower_rng(hlo_lower_t *lower) {
  const char *kind = hlo_attr_word(lower, "distribution", "rng_distribution", "");
  const char *dtype = tenon_dtype_name(hlo_result_type(lower, 0)->dtype);
  tenon_edge_t shape = hlo_cast(lower, hlo_edge(lower, 2), tenon_dtype(TENON_I64));
  tenon_edge_t a = hlo_edge(lower, 0);
  tenon_edge_t b = hlo_edge(lower, 1);
  if (!hlo_stopped(lower) && !hlo_is_float(hlo_dtype(lower, a)))
    hlo_missing(lower, "random integers");
  if (strcmp(kind, "UNIFORM") == 0)
    hlo_give(
        lower, 0,
        hlo_run(lower, EDGES(a, b, shape), "add(a, mul(sub(b, a), uniform(c, dtype=%s)))", dtype));
  else if (strcmp(kind, "NORMAL") == 0)
    hlo_give(lower, 0,
             hlo_run(lower, EDGES(a, b, shape), "add(a, mul(b, normal(c, dtype=%s)))", dtype));
  else
    hlo_wrong(lower, "expected the distribution UNIFORM or NORMAL, found %.30s", kind);
}

static const hlo_row_t rows[] = {
    {"stablehlo.batch_norm_grad", NULL, NULL, NULL, lower_norm_grad, 0, NULL},
    {"stablehlo.batch_norm_inference", NULL, NULL, NULL, lower_norm_inference, 0, NULL},
    {"stablehlo.batch_norm_training", NULL, NULL, NULL, lower_norm_training, 0, NULL},
    {"stablehlo.rng", NULL, NULL, NULL, lower_rng, 0, NULL},
};

HLO_ROWS(hlo_rows_norm);
