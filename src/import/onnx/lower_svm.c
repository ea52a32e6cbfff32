/* Lowerings of SVMClassifier and SVMRegressor. The scores of pairs of classes are sums of kernel
 * values, so they are one product with a matrix that is made of the coefficients here.
 * Invariant: all sizes are checked before a list is read. */
#include <string.h>

#include "base/status.h"
#include "import/onnx/lower_ml.h"

enum { PAIRS_MAX = 1 << 26 };

/* The kernel values of x and the support vectors [count, features]: [rows, count]. */
static tn_ref_t *lower_kernel(tn_lower_t *lower, tn_ref_t *x, const double *vectors, int64_t count,
                              size_t total) {
  size_t parameter_count = 0;
  const char *kind = tn_lower_text(lower, "kernel_type", "LINEAR");
  const double *parameters = tn_ml_floats(lower, "kernel_params", &parameter_count);
  const double none[3] = {0};
  if (count < 1 || !total || total % (size_t)count)
    tn_lower_fail(lower,
                  "the support vectors have %zu numbers for %lld vectors: expected the same number "
                  "for each",
                  total, (long long)count);
  if (parameter_count && parameter_count != 3)
    tn_lower_fail(lower,
                  "attribute 'kernel_params': expected gamma, coef0 and degree, found %zu numbers",
                  parameter_count);
  if (tn_ml_has_stopped(lower)) return NULL;
  if (!parameters) parameters = none;
  tn_ref_t *matrix = tn_ml_matrix(lower, vectors, count, (int64_t)total / count);
  tn_ref_t *gamma = tn_lower_scalar(lower, tenon_dtype(TENON_F32), parameters[0]);
  tn_ref_t *offset = tn_lower_scalar(lower, tenon_dtype(TENON_F32), parameters[1]);
  tn_ref_t *degree = tn_lower_scalar(lower, tenon_dtype(TENON_F32), parameters[2]);
  if (strcmp(kind, "RBF") == 0)
    return tn_lower_run(lower, TN_REFS(x, matrix, gamma),
                        "exp(mul(squared_distance(a, b), neg(c)))");
  tn_ref_t *product = tn_lower_run(lower, TN_REFS(x, matrix), "gemm(a, b, trans_b=True)");
  if (strcmp(kind, "LINEAR") == 0) return product;
  product = tn_lower_run(lower, TN_REFS(product, gamma, offset), "add(mul(a, b), c)");
  if (strcmp(kind, "SIGMOID") == 0) return tn_lower_run(lower, TN_REFS(product), "tanh(a)");
  if (strcmp(kind, "POLY") == 0) return tn_lower_run(lower, TN_REFS(product, degree), "pow(a, b)");
  tn_lower_fail(lower,
                "attribute 'kernel_type': expected LINEAR, POLY, RBF or SIGMOID, found '%.100s'",
                kind);
  return NULL;
}

static void lower_svm_regressor(tn_lower_t *lower) {
  size_t total = 0;
  size_t count = 0;
  size_t rho_count = 0;
  const double *vectors = tn_ml_floats(lower, "support_vectors", &total);
  const double *coefficients = tn_ml_floats(lower, "coefficients", &count);
  const double *rho = tn_ml_floats(lower, "rho", &rho_count);
  int64_t supports = tn_lower_int(lower, "n_supports", 0);
  bool is_one_class = tn_lower_int(lower, "one_class", 0) != 0;
  (void)tn_ml_transform(lower); /* ONNX Runtime does not apply it, either */
  if (!count || !rho_count || (supports && (size_t)supports != count))
    tn_lower_fail(lower,
                  "there are %zu coefficients and %zu numbers in 'rho' for %lld support vectors: "
                  "expected one coefficient for each, and one 'rho'",
                  count, rho_count, (long long)supports);
  tn_ref_t *x = tn_ml_has_stopped(lower) ? NULL : tn_ml_rows(lower, "f32");
  if (tn_ml_has_stopped(lower)) return;
  (void)tn_lower_attr(lower, "kernel_type");
  (void)tn_lower_attr(lower, "kernel_params");
  if (supports) x = lower_kernel(lower, x, vectors, supports, total);
  tn_ref_t *weights =
      tn_ml_has_stopped(lower) ? NULL : tn_ml_matrix(lower, coefficients, 1, (int64_t)count);
  tn_ref_t *bias = tn_ml_has_stopped(lower) ? NULL : tn_ml_matrix(lower, rho, 0, 1);
  tn_ref_t *y = tn_lower_run(lower, TN_REFS(x, weights, bias), "gemm(a, b, c, trans_b=True)");
  if (is_one_class) y = tn_lower_run(lower, TN_REFS(y), "where(greater(a, 0:f32), 1:f32, -1:f32)");
  lower->outputs[0] = y;
}

/* A classifier: the attributes that both forms use. */
typedef struct svm_t {
  tn_ref_t *labels;
  int64_t classes;
  const double *coefficients;
  size_t coefficient_count;
  const double *rho;
  size_t rho_count;
  const int64_t *supports; /* by class */
  size_t support_count;
  tn_ml_classes_t form;
} svm_t;

static bool are_positive(const svm_t *svm) {
  for (size_t i = 0; i < svm->coefficient_count; i++)
    if (svm->coefficients[i] < 0) return false;
  return true;
}

/* Without support vectors: a linear model with one vector of coefficients for each class. Of two
 * classes the second one is chosen if the greater score is large enough, as in ONNX Runtime. */
static void lower_linear_svm(tn_lower_t *lower, const svm_t *svm) {
  if (!svm->rho_count || !svm->coefficient_count || svm->coefficient_count % (size_t)svm->classes)
    tn_lower_fail(lower,
                  "there are %zu coefficients and %zu numbers in 'rho' for %lld classes: expected "
                  "the same number of coefficients for each class",
                  svm->coefficient_count, svm->rho_count, (long long)svm->classes);
  if (tn_ml_has_stopped(lower)) return;
  tn_ref_t *matrix = tn_ml_matrix(lower, svm->coefficients, svm->classes,
                                  (int64_t)svm->coefficient_count / svm->classes);
  tn_ref_t *bias = tn_ml_matrix(lower, svm->rho, 0, 1);
  tn_ref_t *scores = tn_lower_run(lower, TN_REFS(tn_ml_rows(lower, "f32"), matrix, bias),
                                  "gemm(a, b, c, trans_b=True)");
  tn_ml_classify(lower, scores, svm->labels, &svm->form);
  if (svm->classes != 2) return;
  tn_ref_t *is_large;
  if (are_positive(svm))
    is_large = tn_lower_run(lower, TN_REFS(scores),
                            "greater_equal(reduce_max(a, [1]:i64, keepdims=False), 0.5:f32)");
  else
    is_large = tn_lower_run(lower, TN_REFS(scores),
                            "greater(reduce_max(a, [1]:i64, keepdims=False), 0:f32)");
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(is_large, svm->labels, lower->outputs[0]),
                                   "where(a, gather(b, 1:i64), c)");
}

/* The matrix [vectors, pairs] of coefficients: in the column of classes i < j, those of the vectors
 * of class i against j, and of the vectors of class j against i. */
static tn_ref_t *pair_matrix(tn_lower_t *lower, const svm_t *svm, int64_t vectors, int64_t pairs) {
  const int64_t shape[2] = {vectors, pairs};
  tenon_tensor_t *tensor = NULL;
  if (tn_ml_has_stopped(lower) ||
      tn_lower_has_failed(lower, tenon_tensor_create(tenon_dtype(TENON_F32), 2, shape, &tensor)))
    return NULL;
  float *to = tensor->data;
  memset(to, 0, (size_t)(vectors * pairs) * sizeof *to);
  int64_t pair = 0;
  int64_t begin_i = 0;
  for (int64_t i = 0; i < svm->classes; begin_i += svm->supports[i], i++) {
    int64_t begin_j = begin_i + svm->supports[i];
    for (int64_t j = i + 1; j < svm->classes; begin_j += svm->supports[j], j++, pair++) {
      for (int64_t v = begin_i; v < begin_i + svm->supports[i]; v++)
        to[v * pairs + pair] = (float)svm->coefficients[(j - 1) * vectors + v];
      for (int64_t v = begin_j; v < begin_j + svm->supports[j]; v++)
        to[v * pairs + pair] = (float)svm->coefficients[i * vectors + v];
    }
  }
  return tn_lower_tensor(lower, tensor);
}

/* Checks the sizes of a classifier with support vectors. Returns their number. */
static int64_t check_pairs(tn_lower_t *lower, const svm_t *svm, int64_t pairs) {
  int64_t vectors = 0;
  if (svm->support_count != (size_t)svm->classes || svm->classes < 2)
    tn_lower_fail(lower,
                  "attribute 'vectors_per_class': found %zu numbers for %lld classes: expected one "
                  "for each of 2 classes or more",
                  svm->support_count, (long long)svm->classes);
  for (size_t i = 0; i < svm->support_count && !tn_ml_has_stopped(lower); i++) {
    if (svm->supports[i] < 0 || svm->supports[i] > PAIRS_MAX)
      tn_lower_fail(lower, "attribute 'vectors_per_class': found %lld",
                    (long long)svm->supports[i]);
    else
      vectors += svm->supports[i];
  }
  if (tn_ml_has_stopped(lower)) return 0;
  if (vectors > PAIRS_MAX / pairs)
    tn_lower_missing(lower, "%lld support vectors and %lld pairs of classes are too many",
                     (long long)vectors, (long long)pairs);
  else if (svm->rho_count < (size_t)pairs ||
           svm->coefficient_count < (size_t)((svm->classes - 1) * vectors))
    tn_lower_fail(lower,
                  "there are %zu coefficients and %zu numbers in 'rho': %lld classes with %lld "
                  "support vectors need %lld and %lld",
                  svm->coefficient_count, svm->rho_count, (long long)svm->classes,
                  (long long)vectors, (long long)((svm->classes - 1) * vectors), (long long)pairs);
  return vectors;
}

/* Sets the outputs from the scores of pairs. */
static void lower_votes(tn_lower_t *lower, const svm_t *svm, tn_ref_t *scores, int64_t pairs) {
  size_t a_count = 0;
  size_t b_count = 0;
  tenon_value_t a = {TENON_KIND_FLOATS, (uint32_t)pairs, {0}};
  tenon_value_t b = a;
  a.as.floats = tn_ml_floats(lower, "prob_a", &a_count);
  b.as.floats = tn_ml_floats(lower, "prob_b", &b_count);
  bool is_sure = a_count > 0;
  if (a_count != b_count || (is_sure && a_count < (size_t)pairs))
    tn_lower_fail(lower,
                  "attributes 'prob_a' and 'prob_b': found %zu and %zu numbers, expected %lld, one "
                  "for each pair of classes",
                  a_count, b_count, (long long)pairs);
  if (tn_ml_has_stopped(lower)) return;
  const tn_ml_attr_t attrs[] = {{"classes", tn_ml_int(svm->classes)},
                                {is_sure ? "prob_a" : NULL, a},
                                {is_sure ? "prob_b" : NULL, b}};
  tn_ref_t **results = tn_ml_call(lower, "core::pairwise_classes", attrs, 3, scores);
  if (!results) return;
  tn_ref_t *label = results[0];
  tn_ml_classes_t form = svm->form;
  if (!is_sure && svm->classes == 2)
    form.second = strcmp(form.transform, "none") == 0 ? "negative" : "complement";
  if (is_sure) scores = results[1];
  tn_ml_classify(lower, scores, svm->labels, &form);
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(svm->labels, label), "gather(a, b, axis=0)");
}

static void lower_svm_classifier(tn_lower_t *lower) {
  svm_t svm = {.form = {tn_ml_transform(lower), "none", "most", 0}};
  size_t total = 0;
  svm.labels = tn_ml_labels(lower, "classlabels_ints", "classlabels_strings", &svm.classes);
  svm.coefficients = tn_ml_floats(lower, "coefficients", &svm.coefficient_count);
  svm.rho = tn_ml_floats(lower, "rho", &svm.rho_count);
  svm.supports = tn_ml_ints(lower, "vectors_per_class", &svm.support_count);
  const double *vectors = tn_ml_floats(lower, "support_vectors", &total);
  if (tn_ml_has_stopped(lower)) return;
  if (!total) {
    (void)tn_lower_attr(lower, "kernel_type");
    (void)tn_lower_attr(lower, "kernel_params");
    (void)tn_lower_attr(lower, "prob_a");
    (void)tn_lower_attr(lower, "prob_b");
    lower_linear_svm(lower, &svm);
    return;
  }
  if (svm.classes > 1 << 14) tn_lower_missing(lower, "more than 16384 classes");
  int64_t pairs = svm.classes * (svm.classes - 1) / 2;
  int64_t count = tn_ml_has_stopped(lower) ? 0 : check_pairs(lower, &svm, pairs);
  tn_ref_t *x = tn_ml_has_stopped(lower) ? NULL : tn_ml_rows(lower, "f32");
  if (tn_ml_has_stopped(lower)) return;
  tn_ref_t *kernel = lower_kernel(lower, x, vectors, count, total);
  tn_ref_t *matrix = pair_matrix(lower, &svm, count, pairs);
  tn_ref_t *bias = tn_ml_has_stopped(lower) ? NULL : tn_ml_matrix(lower, svm.rho, 0, pairs);
  tn_ref_t *scores = tn_lower_run(lower, TN_REFS(kernel, matrix, bias), "gemm(a, b, c)");
  if (!tn_ml_has_stopped(lower)) lower_votes(lower, &svm, scores, pairs);
}

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"SVMClassifier(x)", 1, lower_svm_classifier},
  {"SVMRegressor(x)", 1, lower_svm_regressor},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_svm, "ai.onnx.ml");
