/* Lowerings of losses, which are built from gathers and reductions. */
#include <stdio.h>
#include <string.h>

#include "import/onnx/lower.h"

/* The loss of log-probabilities [N, C, ...] for classes [N, ...]. Classes equal to ignore_index do
 * not contribute. */
static tn_ref_t *build_likelihood(tn_lower_t *lower, tn_ref_t *x, tn_ref_t *target,
                                  tn_ref_t *weight) {
  const char *reduction = tn_lower_text(lower, "reduction", "mean");
  bool ignores = tn_lower_attr(lower, "ignore_index") != NULL;
  bool mean = strcmp(reduction, "mean") == 0;
  long long ignored = tn_lower_int(lower, "ignore_index", 0);
  tn_ref_t *skip = NULL;
  tn_ref_t *share = NULL;
  tn_ref_t *loss;
  if (!mean && strcmp(reduction, "sum") != 0 && strcmp(reduction, "none") != 0)
    tn_lower_fail(lower, "attribute 'reduction': expected mean, sum or none, found '%.40s'",
                  reduction);
  if (ignores) {
    skip = tn_lower_run(lower, TN_REFS(target), "equal(a, %lld:a)", ignored);
    target = tn_lower_run(lower, TN_REFS(target, skip), "where(b, 0:a, a)");
  }
  loss = tn_lower_run(lower, TN_REFS(x, target),
                      "neg(squeeze(gather_elements(a, unsqueeze(b, [1]:i64), axis=1), [1]:i64))");
  if (weight) share = tn_lower_run(lower, TN_REFS(weight, target), "gather(a, b)");
  if (ignores && weight)
    share = tn_lower_run(lower, TN_REFS(skip, share), "where(a, 0:b, b)");
  else if (ignores)
    share = tn_lower_run(lower, TN_REFS(skip, x), "cast(not(a), to=:b)");
  if (share) loss = tn_lower_run(lower, TN_REFS(loss, share), "mul(a, b)");
  if (strcmp(reduction, "none") == 0) return loss;
  if (!mean || share)
    loss = tn_lower_run(lower, TN_REFS(loss), "reduce_sum(a, keepdims=False)");
  else
    return tn_lower_run(lower, TN_REFS(loss), "reduce_mean(a, keepdims=False)");
  return mean ? tn_lower_run(lower, TN_REFS(loss, share), "div(a, reduce_sum(b, keepdims=False))")
              : loss;
}

static void lower_likelihood(tn_lower_t *lower) {
  tn_ref_t *weight = lower->input_count > 2 ? lower->inputs[2] : NULL;
  lower->outputs[0] = build_likelihood(lower, lower->inputs[0], lower->inputs[1], weight);
}

static void lower_cross_entropy(tn_lower_t *lower) {
  tn_ref_t *weight = lower->input_count > 2 ? lower->inputs[2] : NULL;
  tn_ref_t *logs = tn_lower_run(lower, TN_REFS(lower->inputs[0]), "log_softmax(a, axis=1)");
  if (lower->output_count > 1) lower->outputs[1] = logs;
  if (logs) lower->outputs[0] = build_likelihood(lower, logs, lower->inputs[1], weight);
}

static const tn_lowering_t lowerings[] = {
    {"NegativeLogLikelihoodLoss(x, target, weight?)", 12, lower_likelihood},
    {"SoftmaxCrossEntropyLoss(x, target, weight?)", 12, lower_cross_entropy},
};

TN_LOWERINGS(tn_lowerings_loss, "");
