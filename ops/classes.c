/* What models of classical machine learning do after their sums: classify (labels and scores), and
 * pairwise_classes (votes and probabilities of support vector machines). Both work row by row on
 * matrices of f32 [rows, columns].
 * Invariant: the greatest of equal numbers is the first. */
#include "axes.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/check.h>

enum {
  TRANSFORM_NONE,
  TRANSFORM_LOGISTIC,
  TRANSFORM_SOFTMAX,
  TRANSFORM_SOFTMAX_ZERO,
  TRANSFORM_PROBIT,
};
enum {
  SECOND_NONE,
  SECOND_COMPLEMENT,
  SECOND_NEGATIVE,
};
enum {
  RULE_MOST,
  RULE_THRESHOLD,
};
enum {
  A_TRANSFORM,
  A_SECOND,
  A_RULE,
  A_THRESHOLD,
};
enum { WORK = 1 << 12 }; /* elements that justify a thread */

static float logistic(float x) {
  float v = 1 / (1 + expf(-fabsf(x)));
  return x < 0 ? 1 - v : v;
}

/* The inverse of the error function by Winitzki's formula, which ONNX Runtime uses too.
 * Source: S. Winitzki, A handy approximation for the error function and its inverse, 2008. */
static float probit(float p) {
  const float a = 0.147f;
  float y = 2 * p - 1;
  float log = logf((1 - y) * (1 + y));
  float v = 2 / (3.14159f * a) + 0.5f * log;
  float root = sqrtf(-v + sqrtf(v * v - log / a));
  return 1.41421356f * (y < 0 ? -root : root);
}

static void softmax(float *row, int64_t n, int keeps_zero) {
  float most = -INFINITY;
  float sum = 0;
  for (int64_t i = 0; i < n; i++)
    most = row[i] > most ? row[i] : most;
  for (int64_t i = 0; i < n; i++) {
    if (keeps_zero && fabsf(row[i]) <= 1e-7f) {
      row[i] *= expf(-most);
      continue;
    }
    row[i] = expf(row[i] - most);
    sum += row[i];
  }
  for (int64_t i = 0; i < n; i++)
    row[i] /= sum;
}

static void transform_row(float *row, int64_t n, int64_t transform) {
  switch (transform) {
  case TRANSFORM_LOGISTIC:
    for (int64_t i = 0; i < n; i++)
      row[i] = logistic(row[i]);
    return;
  case TRANSFORM_PROBIT:
    for (int64_t i = 0; i < n; i++)
      row[i] = probit(row[i]);
    return;
  case TRANSFORM_SOFTMAX:
  case TRANSFORM_SOFTMAX_ZERO:
    softmax(row, n, transform == TRANSFORM_SOFTMAX_ZERO);
    return;
  default:
    return;
  }
}

/* The two scores of a single one. */
static void write_both(float score, int64_t transform, int64_t second, float *row) {
  if (transform == TRANSFORM_LOGISTIC) {
    row[0] = logistic(-score);
    row[1] = logistic(score);
    return;
  }
  row[0] = second == SECOND_NEGATIVE ? -score : 1 - score;
  row[1] = score;
}

static tenon_status_t classify_part(tenon_call_t *call, void *argument, int64_t begin,
                                    int64_t end) {
  const tenon_value_t *attrs = call->attrs;
  const float *x = (const float *)call->inputs[0]->data;
  int64_t n = call->inputs[0]->shape[1];
  int64_t *label = call->outputs[0] ? (int64_t *)call->outputs[0]->data : NULL;
  float *out = call->outputs[1] ? (float *)call->outputs[1]->data : NULL;
  int64_t width = attrs[A_SECOND].as.i == SECOND_NONE ? n : 2;
  (void)argument;
  for (int64_t r = begin; r < end; r++) {
    const float *row = x + r * n;
    int64_t most = 0;
    for (int64_t i = 1; i < n; i++)
      if (row[i] > row[most]) most = i;
    if (attrs[A_RULE].as.i == RULE_THRESHOLD) most = row[n - 1] > (float)attrs[A_THRESHOLD].as.f;
    if (label) label[r] = most;
    if (!out) continue;
    if (width != n) {
      write_both(row[0], attrs[A_TRANSFORM].as.i, attrs[A_SECOND].as.i, out + r * 2);
      continue;
    }
    memcpy(out + r * n, row, (size_t)n * sizeof *row);
    transform_row(out + r * n, n, attrs[A_TRANSFORM].as.i);
  }
  return TENON_OK;
}

static tenon_status_t classify_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  if (x->shape[0] == 0) return TENON_OK;
  if (x->shape[1] == 0) return tenon_fail(call, TENON_INVALID, "x has no columns to choose from");
  return call->host->parallel(call, x->shape[0], WORK / x->shape[1] + 1, classify_part, NULL);
}

static tenon_status_t matrix_check(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  if (x->ndim == 2) return TENON_OK;
  return tenon_fail(infer, TENON_INVALID, "x has shape %s; expected [rows, columns]",
                    dims_text(x->dims, x->ndim).text);
}

static tenon_status_t classify_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  int is_single = infer->attrs[A_SECOND].as.i != SECOND_NONE;
  TENON_TRY(matrix_check(infer));
  if (is_single && dim_differ(x->dims[1], tenon_extent(1)))
    return tenon_fail(infer, TENON_INVALID,
                      "x has shape %s; expected [rows, 1], because a second score is added",
                      dims_text(x->dims, x->ndim).text);
  if (infer->outputs[0]) {
    infer->outputs[0]->ndim = 1;
    infer->outputs[0]->dims[0] = x->dims[0];
  }
  if (!infer->outputs[1]) return TENON_OK;
  out_like(infer->outputs[1], x);
  if (is_single) infer->outputs[1]->dims[1] = tenon_extent(2);
  return TENON_OK;
}

/* pairwise_classes */

enum {
  P_CLASSES,
  P_PROB_A,
  P_PROB_B,
};

static int64_t pairs_of(int64_t classes) { return classes * (classes - 1) / 2; }

/* Probabilities of classes from those of pairs. r[i * n + j] is the probability of class i against
 * class j; q has room for n * n numbers, row for n.
 * Source: T.-F. Wu, C.-J. Lin, R. Weng, Probability estimates for multi-class classification by
 * pairwise coupling, 2004, the second method; iterated as libsvm does. */
static void couple(int64_t n, const float *r, float *q, float *row, float *p) {
  enum { ROUNDS = 100 };
  for (int64_t i = 0; i < n; i++) {
    p[i] = 1 / (float)n;
    q[i * n + i] = 0;
    for (int64_t j = 0; j < n; j++) {
      if (j == i) continue;
      q[i * n + i] += r[j * n + i] * r[j * n + i];
      q[i * n + j] = -r[j * n + i] * r[i * n + j];
    }
  }
  for (int round = 0; round < ROUNDS; round++) {
    float total = 0;
    float error = 0;
    for (int64_t i = 0; i < n; i++) {
      row[i] = 0;
      for (int64_t j = 0; j < n; j++)
        row[i] += q[i * n + j] * p[j];
      total += p[i] * row[i];
    }
    for (int64_t i = 0; i < n; i++)
      error = fmaxf(error, fabsf(row[i] - total));
    if (error < 0.005f / (float)n) return;
    for (int64_t i = 0; i < n; i++) {
      float step = (total - row[i]) / q[i * n + i];
      p[i] += step;
      total = (total + step * (step * q[i * n + i] + 2 * row[i])) / (1 + step) / (1 + step);
      for (int64_t j = 0; j < n; j++) {
        row[j] = (row[j] + step * q[i * n + j]) / (1 + step);
        p[j] /= 1 + step;
      }
    }
  }
}

static void vote(const tenon_value_t *attrs, const float *scores, float *room, int64_t *label,
                 float *p) {
  int64_t n = attrs[P_CLASSES].as.i;
  int64_t pair = 0;
  float *votes = room;
  float *r = room + n;
  memset(votes, 0, (size_t)n * sizeof *votes);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = i + 1; j < n; j++, pair++) {
      votes[scores[pair] > 0 ? i : j] += 1;
      if (!p || !attrs[P_PROB_A].count) continue;
      float a = (float)attrs[P_PROB_A].as.floats[pair];
      float b = (float)attrs[P_PROB_B].as.floats[pair];
      float value = 1 - logistic(scores[pair] * a + b);
      value = fminf(fmaxf(value, 1e-7f), 1 - 1e-7f);
      r[i * n + j] = value;
      r[j * n + i] = 1 - value;
    }
  if (label) {
    *label = 0;
    for (int64_t i = 1; i < n; i++)
      if (votes[i] > votes[*label]) *label = i;
  }
  if (p && attrs[P_PROB_A].count) couple(n, r, r + n * n, r + 2 * n * n, p);
  for (int64_t i = 0; p && !attrs[P_PROB_A].count && i < n; i++)
    p[i] = votes[i] / (float)pairs_of(n);
}

static tenon_status_t pairwise_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  int64_t n = call->attrs[P_CLASSES].as.i;
  int64_t *label = call->outputs[0] ? (int64_t *)call->outputs[0]->data : NULL;
  float *p = call->outputs[1] ? (float *)call->outputs[1]->data : NULL;
  float *room = (float *)call->host->allocate(call, (uint64_t)(2 * n * n + 2 * n) * sizeof *room);
  if (!room) return TENON_MEMORY;
  for (int64_t i = 0; i < x->shape[0]; i++) {
    int64_t *own_label = label ? label + i : NULL;
    float *own_p = p ? p + i * n : NULL;
    vote(call->attrs, (const float *)x->data + i * pairs_of(n), room, own_label, own_p);
  }
  return TENON_OK;
}

static tenon_status_t pairwise_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  const tenon_value_t *attrs = infer->attrs;
  int64_t n = attrs[P_CLASSES].as.i;
  TENON_TRY(matrix_check(infer));
  if (n < 2 || n > 1 << 14)
    return tenon_fail(infer, TENON_INVALID,
                      "classes is %" PRId64 "; expected a number from 2 to 16384", n);
  if (dim_differ(x->dims[1], tenon_extent(pairs_of(n))))
    return tenon_fail(infer, TENON_INVALID,
                      "x has shape %s; expected [rows, %" PRId64 "], a score for each pair of "
                      "%" PRId64 " classes",
                      dims_text(x->dims, x->ndim).text, pairs_of(n), n);
  if (attrs[P_PROB_A].count != attrs[P_PROB_B].count ||
      (attrs[P_PROB_A].count && attrs[P_PROB_A].count != pairs_of(n)))
    return tenon_fail(infer, TENON_INVALID,
                      "prob_a lists %u and prob_b %u numbers; expected none, or %" PRId64
                      ", one for each pair of classes",
                      attrs[P_PROB_A].count, attrs[P_PROB_B].count, pairs_of(n));
  if (infer->outputs[0]) {
    infer->outputs[0]->ndim = 1;
    infer->outputs[0]->dims[0] = x->dims[0];
  }
  if (!infer->outputs[1]) return TENON_OK;
  infer->outputs[1]->ndim = 2;
  infer->outputs[1]->dims[0] = x->dims[0];
  infer->outputs[1]->dims[1] = tenon_extent(n);
  return TENON_OK;
}

/* squared_distance */

static tenon_status_t distance_part(tenon_call_t *call, void *argument, int64_t begin,
                                    int64_t end) {
  enum { SIDE = 8 };
  const float *a = (const float *)call->inputs[0]->data;
  const float *b = (const float *)call->inputs[1]->data;
  int64_t count = call->inputs[1]->shape[0];
  int64_t width = call->inputs[1]->shape[1];
  int64_t whole = width / SIDE * SIDE;
  float *out = (float *)call->outputs[0]->data;
  (void)argument;
  for (int64_t i = begin; i < end; i++)
    for (int64_t j = 0; j < count; j++) {
      const float *u = a + i * width;
      const float *v = b + j * width;
      float part[SIDE] = {0};
      float sum = 0;
      for (int64_t k = 0; k < whole; k += SIDE)
        for (int l = 0; l < SIDE; l++)
          part[l] += (u[k + l] - v[k + l]) * (u[k + l] - v[k + l]);
      for (int l = 0; l < SIDE; l++)
        sum += part[l];
      for (int64_t k = whole; k < width; k++)
        sum += (u[k] - v[k]) * (u[k] - v[k]);
      out[i * count + j] = sum;
    }
  return TENON_OK;
}

static tenon_status_t distance_run(tenon_call_t *call) {
  const tenon_tensor_t *b = call->inputs[1];
  int64_t rows = call->inputs[0]->shape[0];
  int64_t work = b->shape[0] * b->shape[1] + 1;
  return rows ? call->host->parallel(call, rows, WORK / work + 1, distance_part, NULL) : TENON_OK;
}

static tenon_status_t distance_infer(tenon_infer_t *infer) {
  const tenon_meta_t *a = infer->inputs[0];
  const tenon_meta_t *b = infer->inputs[1];
  if (a->ndim != 2 || b->ndim != 2 || dim_differ(a->dims[1], b->dims[1]))
    return tenon_fail(infer, TENON_INVALID,
                      "a has shape %s and b %s; expected matrices with rows of equal length",
                      dims_text(a->dims, a->ndim).text, dims_text(b->dims, b->ndim).text);
  infer->outputs[0]->ndim = 2;
  infer->outputs[0]->dims[0] = a->dims[0];
  infer->outputs[0]->dims[1] = b->dims[0];
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(core_classes,
  TENON_OP("classify(Tensor x, *, str['none', 'logistic', 'softmax', 'softmax_zero', 'probit'] "
           "transform='none', str['none', 'complement', 'negative'] second='none', "
           "str['most', 'threshold'] rule='most', float threshold=0.0) "
           "-> (Tensor? label, Tensor? scores)",
    TENON_DOC("The class of each row of x, and its scores, transformed.\n"
              "The class is the column of the greatest score, or 1 if the last score is above the "
              "threshold, else 0. `second` makes two scores of the only one, x: 1 - x and x, or -x "
              "and x; if the transform is logistic, the logistic functions of -x and x."),
    TENON_SAMPLES("x: [n, 3]; x: [n, 1], second = 'complement', rule = 'threshold'"),
    TENON_TYPES("x: f32; label = i64; scores = f32"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(classify_infer),
    TENON_KERNEL("cpu", classify_run)),
  TENON_OP("pairwise_classes(Tensor x, *, int classes, float[] prob_a=[], float[] prob_b=[]) "
           "-> (Tensor? label, Tensor? probabilities)",
    TENON_DOC("The class with the most votes, from a score for each pair of classes: a positive "
              "one is a vote for the first class of the pair.\nProbabilities follow from those of "
              "the pairs, 1 / (1 + exp(prob_a * x + prob_b)); without prob_a, they are shares of "
              "votes."),
    TENON_SAMPLES("x: [n, 3], classes = 3, prob_a = [-1.0, -0.5, -2.0], prob_b = [0.0, 0.1, 0.2]"),
    TENON_TYPES("x: f32; label = i64; probabilities = f32"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(pairwise_infer),
    TENON_KERNEL("cpu", pairwise_run)),
  TENON_OP("squared_distance(Tensor a, Tensor b) -> Tensor",
    TENON_DOC("The squared distance of each row of a to each row of b."),
    TENON_SAMPLES("a: [n, 5], b: [m, 5]"),
    TENON_TYPES("a, b: f32; out = f32"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(distance_infer),
    TENON_KERNEL("cpu", distance_run)))
/* clang-format on */
