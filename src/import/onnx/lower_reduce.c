/* Lowerings of reductions, normalisations and softmax. Axes are an input in the newest operator
 * sets and an attribute in older ones. */
#include <string.h>

#include "import/onnx/lower.h"

/* Before operator set 13 these operators treated x as a matrix, with all axes from `axis` on as
 * one. */
static void lower_flat(tn_lower_t *lower) {
  int64_t axis = tn_lower_int(lower, "axis", 1);
  tn_ref_t *x = lower->inputs[0];
  const char *type = lower->node->type;
  const char *name = "log_softmax";
  if (strcmp(type, "Softmax") == 0) name = "softmax";
  if (strcmp(type, "Hardmax") == 0) name = "hardmax";
  if (x->ndim > 0 && (axis == x->ndim - 1 || axis == -1))
    lower->outputs[0] = tn_lower_run(lower, TN_REFS(x), "%s(a, axis=-1)", name);
  else
    lower->outputs[0] =
        tn_lower_run(lower, TN_REFS(x), "reshape(%s(flatten(a, axis=%lld), axis=-1), shape(a))",
                     name, (long long)axis);
}

/* All axes except axis 1, as a constant. */
static tn_ref_t *other_axes(tn_lower_t *lower, tn_ref_t *x) {
  int64_t axes[TENON_RANK_MAX];
  size_t count = 0;
  for (int32_t i = 0, rank = tn_lower_rank(lower, x); i < rank; i++)
    if (i != 1) axes[count++] = i;
  return tn_lower_ints(lower, axes, count);
}

/* Batch normalisation in training: normalises by the mean and variance of the batch, and moves the
 * running mean and variance towards them. */
static void lower_batch_norm_training(tn_lower_t *lower, double epsilon, double momentum) {
  tn_ref_t *x = lower->inputs[0];
  tn_ref_t *axes = other_axes(lower, x);
  tn_ref_t *mean = tn_lower_run(lower, TN_REFS(x, axes), "reduce_mean(a, b, keepdims=True)");
  tn_ref_t *var = tn_lower_run(lower, TN_REFS(x, axes, mean),
                               "d = sub(a, c); reduce_mean(mul(d, d), b, keepdims=True)");
  mean = tn_lower_run(lower, TN_REFS(mean, axes), "squeeze(a, b)");
  var = tn_lower_run(lower, TN_REFS(var, axes), "squeeze(a, b)");
  tn_ref_t *now[] = {mean, var};
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(x, lower->inputs[1], lower->inputs[2], mean, var),
                                   "batch_norm(a, b, c, d, e, epsilon=%.17g)", epsilon);
  for (int32_t i = 0; i < 2 && i + 1 < lower->output_count; i++)
    lower->outputs[i + 1] =
        tn_lower_run(lower, TN_REFS(lower->inputs[3 + i], now[i]),
                     "add(mul(a, %.17g:a), mul(cast(b, to=:a), %.17g:a))", momentum, 1 - momentum);
}

static void lower_batch_norm(tn_lower_t *lower) {
  const tn_onnx_attribute_t *momentum = tn_lower_typed(lower, "momentum", TN_ATTRIBUTE_FLOAT);
  const tn_onnx_attribute_t *epsilon = tn_lower_typed(lower, "epsilon", TN_ATTRIBUTE_FLOAT);
  double e = epsilon ? epsilon->f : 1e-5;
  bool is_test = tn_lower_int(lower, "is_test", lower->version >= 7) != 0;
  bool training = !is_test;
  if (tn_lower_int(lower, "spatial", 1) == 0)
    tn_lower_missing(lower,
                     "attribute 'spatial' = 0 (statistics for each position) is not supported");
  if (lower->version < 7 && !lower->import->missing)
    /* All runtimes treat models of that time as inference models. */
    training = false;
  if (lower->version >= 14)
    training = tn_lower_int(lower, "training_mode", 0) != 0;
  else if (lower->version >= 7)
    training = lower->output_count > 1;
  if (training && lower->version < 14)
    tn_lower_missing(lower,
                     "batch normalisation in training before operator set 14 is not supported");
  if (training)
    lower_batch_norm_training(lower, e, momentum ? momentum->f : 0.9);
  else
    lower->outputs[0] =
        tn_lower_run(lower, lower->inputs, 5, "batch_norm(a, b, c, d, e, epsilon=%.17g)", e);
}

/* Operator set 18 had one scale and bias for each group. */
static void lower_group_norm(tn_lower_t *lower) {
  tn_ref_t *x = lower->inputs[0];
  const tn_onnx_attribute_t *epsilon = tn_lower_typed(lower, "epsilon", TN_ATTRIBUTE_FLOAT);
  long long groups = tn_lower_int(lower, "num_groups", 0);
  tn_ref_t *each =
      tn_lower_run(lower, TN_REFS(x), "div(shape(a, start=1, end=2), [%lld]:i64)", groups);
  tn_ref_t *wide[2];
  for (int i = 0; i < 2; i++)
    wide[i] = tn_lower_run(
        lower, TN_REFS(lower->inputs[1 + i], each),
        "reshape(expand(unsqueeze(a, [1]:i64), concat([[%lld]:i64, b], axis=0)), [-1]:i64)",
        groups);
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(x, wide[0], wide[1]),
                                   "group_norm(a, b, c, groups=%lld, epsilon=%.17g)", groups,
                                   epsilon ? epsilon->f : 1e-5);
}

/* clang-format off */
#define REDUCTION(onnx, core, changed)                                                             \
  {#onnx "(x) = " #core "(x, @axes, keepdims=keepdims?True)", 1, NULL},                            \
  {#onnx "(x, axes?) = " #core "(x, axes, keepdims=keepdims?True, "                                \
   "noop_with_empty_axes=noop_with_empty_axes)", changed, NULL}

static const tn_lowering_t lowerings[] = {
  REDUCTION(ReduceSum, reduce_sum, 13),
  REDUCTION(ReduceMean, reduce_mean, 18),
  REDUCTION(ReduceMax, reduce_max, 18),
  REDUCTION(ReduceMin, reduce_min, 18),
  REDUCTION(ReduceProd, reduce_prod, 18),
  REDUCTION(ReduceL1, reduce_l1, 18),
  REDUCTION(ReduceL2, reduce_l2, 18),
  REDUCTION(ReduceLogSum, reduce_log_sum, 18),
  REDUCTION(ReduceLogSumExp, reduce_log_sum_exp, 18),
  REDUCTION(ReduceSumSquare, reduce_sum_square, 18),
  {"ArgMax(x) = "
   "arg_max(x, axis=axis?0, keepdims=keepdims?True, select_last_index=select_last_index)", 1, NULL},
  {"ArgMin(x) = "
   "arg_min(x, axis=axis?0, keepdims=keepdims?True, select_last_index=select_last_index)", 1, NULL},
  {"CumSum(x, axis) = cum_sum(x, axis, exclusive=exclusive, reverse=reverse)", 11, NULL},
  {"CumProd(x, axis) = cum_prod(x, axis, exclusive=exclusive, reverse=reverse)", 26, NULL},
  {"Softmax(x)", 1, lower_flat},
  {"Softmax(x) = softmax(x, axis=axis?-1)", 13, NULL},
  {"LogSoftmax(x)", 1, lower_flat},
  {"LogSoftmax(x) = log_softmax(x, axis=axis?-1)", 13, NULL},
  {"Hardmax(x)", 1, lower_flat},
  {"Hardmax(x) = hardmax(x, axis=axis?-1)", 13, NULL},
  {"LayerNormalization(x, scale, bias?, -stash_type) = "
   "layer_norm(x, scale, bias, axis=axis?-1, epsilon=epsilon?1e-5)", 17, NULL},
  /* ONNX Runtime's optimizer writes this into models of any operator set, and so it does
   * SimplifiedLayerNormalization. */
  {"LayerNormalization(x, scale, bias?, -stash_type) = "
   "layer_norm(x, scale, bias, axis=axis?-1, epsilon=epsilon?1e-5)", 1, NULL},
  {"RMSNormalization(x, scale, -stash_type) = "
   "rms_norm(x, scale, axis=axis?-1, epsilon=epsilon?1e-5)", 23, NULL},
  {"SimplifiedLayerNormalization(x, scale, -stash_type) = "
   "rms_norm(x, scale, axis=axis?-1, epsilon=epsilon?1e-5)", 1, NULL},
  {"InstanceNormalization(x, scale, bias) = "
   "instance_norm(x, scale, bias, epsilon=epsilon?1e-5)", 1, NULL},
  {"GroupNormalization(x, scale, bias)", 18, lower_group_norm},
  {"GroupNormalization(x, scale, bias, -stash_type) = "
   "group_norm(x, scale, bias, groups=num_groups, epsilon=epsilon?1e-5)", 21, NULL},
  {"BatchNormalization(x, scale, bias, mean, var)", 1, lower_batch_norm},
  {"LpNormalization(x) = lp_norm(x, axis=axis?-1, p=p?2)", 1, NULL},
  {"MeanVarianceNormalization(x) = mean_variance_norm(x, axes=axes?[0, 2, 3])", 9, NULL},
  {"LRN(x) = lrn(x, size=size, alpha=alpha?0.0001, beta=beta?0.75, bias=bias?1.0)", 1, NULL},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_reduce, "");
