/* Lowerings of the domain ai.onnx.preview.training: steps of optimisers, for any number of tensors
 * at once, and gradients (lower_gradient.c). */
#include <string.h>

#include "import/onnx/lower.h"

static double float_attr(tn_lower_t *lower, const char *name, double otherwise) {
  const tn_onnx_attribute_t *proto = tn_lower_typed(lower, name, TN_ATTRIBUTE_FLOAT);
  return proto ? proto->f : otherwise;
}

/* Inputs are the rate R, the step T, and then `kinds` groups with one tensor each (tensors,
 * gradients, states). Returns item i of group `kind`. */
static tn_ref_t *group_item(const tn_lower_t *lower, int32_t kinds, int32_t kind, int32_t i) {
  return lower->inputs[2 + kind * ((lower->input_count - 2) / kinds) + i];
}

static int32_t group_size(tn_lower_t *lower, int32_t kinds) {
  int32_t size = (lower->input_count - 2) / kinds;
  if (size * kinds != lower->input_count - 2 || size * (kinds - 1) != lower->output_count)
    tn_lower_fail(lower,
                  "the node has %d inputs and %d outputs: expected 2 inputs and %d more for each "
                  "tensor, and %d outputs for each tensor",
                  (int)lower->input_count, (int)lower->output_count, kinds, kinds - 1);
  return lower->status == TENON_OK ? size : 0;
}

/* The gradient plus the contribution of the norm coefficient. */
static tn_ref_t *add_norm(tn_lower_t *lower, tn_ref_t *gradient, tn_ref_t *x) {
  return tn_lower_run(lower, TN_REFS(gradient, x), "add(a, mul(b, %.17g:b))",
                      float_attr(lower, "norm_coefficient", 0));
}

static void lower_adagrad(tn_lower_t *lower) {
  double decay = float_attr(lower, "decay_factor", 0);
  double epsilon = float_attr(lower, "epsilon", 1e-6);
  int32_t n = group_size(lower, 3);
  for (int32_t i = 0; i < n; i++) {
    tn_ref_t *x = group_item(lower, 3, 0, i);
    tn_ref_t *g = add_norm(lower, group_item(lower, 3, 1, i), x);
    tn_ref_t *h = tn_lower_run(lower, TN_REFS(group_item(lower, 3, 2, i), g), "add(a, mul(b, b))");
    tn_ref_t *rate =
        tn_lower_run(lower, TN_REFS(lower->inputs[0], lower->inputs[1], x),
                     "div(cast(a, to=:c), add(mul(cast(b, to=:c), %.17g:c), 1:c))", decay);
    lower->outputs[i] = tn_lower_run(lower, TN_REFS(x, g, h, rate),
                                     "sub(a, div(mul(d, b), add(sqrt(c), %.17g:a)))", epsilon);
    lower->outputs[n + i] = h;
  }
}

static void lower_adam(tn_lower_t *lower) {
  double alpha = float_attr(lower, "alpha", 0.9);
  double beta = float_attr(lower, "beta", 0.999);
  double epsilon = float_attr(lower, "epsilon", 1e-6);
  double after = float_attr(lower, "norm_coefficient_post", 0);
  int32_t n = group_size(lower, 4);
  for (int32_t i = 0; i < n; i++) {
    tn_ref_t *x = group_item(lower, 4, 0, i);
    tn_ref_t *g = add_norm(lower, group_item(lower, 4, 1, i), x);
    tn_ref_t *v = tn_lower_run(lower, TN_REFS(group_item(lower, 4, 2, i), g),
                               "add(mul(a, %.17g:a), mul(b, %.17g:b))", alpha, 1 - alpha);
    tn_ref_t *h = tn_lower_run(lower, TN_REFS(group_item(lower, 4, 3, i), g),
                               "add(mul(a, %.17g:a), mul(mul(b, b), %.17g:b))", beta, 1 - beta);
    /* the rate corrects for the start of the averages, except in the very first step */
    tn_ref_t *rate =
        tn_lower_run(lower, TN_REFS(lower->inputs[0], lower->inputs[1], x),
                     "t = cast(b, to=:c); r = cast(a, to=:c); where(greater(b, 0:b), "
                     "div(mul(r, sqrt(sub(1:c, pow(%.17g:c, t)))), sub(1:c, pow(%.17g:c, t))), r)",
                     beta, alpha);
    tn_ref_t *y = tn_lower_run(lower, TN_REFS(x, v, h, rate),
                               "sub(a, div(mul(d, b), add(sqrt(c), %.17g:a)))", epsilon);
    lower->outputs[i] = tn_lower_run(lower, TN_REFS(y), "mul(a, %.17g:a)", 1 - after);
    lower->outputs[n + i] = v;
    lower->outputs[2 * n + i] = h;
  }
}

static void lower_momentum(tn_lower_t *lower) {
  double alpha = float_attr(lower, "alpha", 0);
  double beta = float_attr(lower, "beta", 0);
  const char *mode = tn_lower_text(lower, "mode", "standard");
  bool nesterov = strcmp(mode, "nesterov") == 0;
  int32_t n = group_size(lower, 3);
  if (!nesterov && strcmp(mode, "standard") != 0)
    tn_lower_fail(lower, "attribute 'mode': expected standard or nesterov, found '%.40s'", mode);
  for (int32_t i = 0; i < n; i++) {
    tn_ref_t *x = group_item(lower, 3, 0, i);
    tn_ref_t *g = add_norm(lower, group_item(lower, 3, 1, i), x);
    tn_ref_t *share = tn_lower_run(lower, TN_REFS(lower->inputs[1], x),
                                   "where(greater(a, 0:a), %.17g:b, 1:b)", beta);
    tn_ref_t *v = tn_lower_run(lower, TN_REFS(group_item(lower, 3, 2, i), g, share),
                               "add(mul(a, %.17g:a), mul(c, b))", alpha);
    tn_ref_t *step =
        nesterov ? tn_lower_run(lower, TN_REFS(g, v), "add(a, mul(b, %.17g:b))", alpha) : v;
    lower->outputs[i] =
        tn_lower_run(lower, TN_REFS(x, step, lower->inputs[0]), "sub(a, mul(cast(c, to=:a), b))");
    lower->outputs[n + i] = v;
  }
}

static const tn_lowering_t lowerings[] = {
    {"Adagrad(rate, step, *xs)", 1, lower_adagrad},
    {"Adam(rate, step, *xs)", 1, lower_adam},
    {"Gradient(*xs)", 1, tn_lower_gradient},
    {"Momentum(rate, step, *xs)", 1, lower_momentum},
};

TN_LOWERINGS(tn_lowerings_training, "ai.onnx.preview.training");
