/* Lowerings of the domain ai.onnx.ml, except trees (lower_trees.c) and support vector machines
 * (lower_svm.c). A vector is one row, as in ONNX Runtime. */
#include "import/onnx/lower_ml.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "core/dtype.h"

bool tn_ml_has_stopped(const tn_lower_t *lower) {
  return lower->status != TENON_OK || lower->is_missing;
}

/* Calls */

tenon_value_t tn_ml_int(int64_t value) {
  tenon_value_t out = {TENON_KIND_INT, 0, {0}};
  out.as.i = value;
  return out;
}

tenon_value_t tn_ml_text(const char *value) {
  tenon_value_t out = {TENON_KIND_STR, (uint32_t)strlen(value), {0}};
  out.as.s = value;
  return out;
}

tenon_value_t tn_ml_held(tenon_tensor_t *tensor) {
  tenon_value_t out = {TENON_KIND_TENSOR, 1, {0}};
  out.as.tensor = tensor;
  return out;
}

tenon_tensor_t *tn_ml_tensor(tn_lower_t *lower, tenon_dtype_t dtype, int32_t ndim,
                             const int64_t *shape) {
  tenon_tensor_t *tensor = NULL;
  if (tn_ml_has_stopped(lower) ||
      tn_lower_has_failed(lower, tenon_tensor_create(dtype, ndim, shape, &tensor)))
    return NULL;
  return tn_lower_tensor(lower, tensor) ? tensor : NULL;
}

tenon_tensor_t *tn_ml_constant(tn_lower_t *lower, tn_ref_t *edge) {
  const tenon_tensor_t *tensor = NULL;
  if (tn_ml_has_stopped(lower) || !edge ||
      tn_lower_has_failed(lower, tn_ref_value(lower->import, edge, &tensor)))
    return NULL;
  return (tenon_tensor_t *)(uintptr_t)tensor;
}

static tn_ref_t **call_with(tn_lower_t *lower, const tenon_op_t *op, tenon_attrs_t *attrs,
                            const tn_ml_attr_t *given, size_t count, tn_ref_t *x) {
  tn_operand_t operand = {&x, 1, false};
  int32_t results = 0;
  for (size_t i = 0; i < count; i++)
    if (given[i].name &&
        tn_lower_has_failed(lower, tenon_attrs_set(attrs, given[i].name, &given[i].value)))
      return NULL;
  return tn_lower_call(lower, op, attrs, &operand, 1, &results);
}

tn_ref_t **tn_ml_call(tn_lower_t *lower, const char *name, const tn_ml_attr_t *attrs, size_t count,
                      tn_ref_t *x) {
  tenon_attrs_t *made = NULL;
  const tenon_op_t *op = tn_ml_has_stopped(lower) || !x ? NULL : tn_lower_op(lower, name);
  if (!op || tn_lower_has_failed(lower, tenon_attrs_create(op, &made))) return NULL;
  tn_ref_t **results = call_with(lower, op, made, attrs, count, x);
  tenon_attrs_release(made);
  return results;
}

/* Inputs and attributes */

tn_ref_t *tn_ml_rows(tn_lower_t *lower, const char *dtype) {
  tn_ref_t *x = lower->inputs[0];
  tenon_dtype_t now = tn_lower_dtype(lower, x);
  int32_t ndim = x->ndim;
  if (strcmp(tn_dtype_name(now), dtype) != 0)
    x = tn_lower_run(lower, TN_REFS(x), "cast(a, to='%s')", dtype);
  if (ndim == 1) x = tn_lower_run(lower, TN_REFS(x), "unsqueeze(a, [0]:i64)");
  return x;
}

const double *tn_ml_floats(tn_lower_t *lower, const char *name, size_t *out_count) {
  char tensor_name[64];
  const tn_onnx_attribute_t *proto = tn_lower_typed(lower, name, TN_ATTRIBUTE_FLOATS);
  snprintf(tensor_name, sizeof tensor_name, "%s_as_tensor", name);
  *out_count = proto ? proto->floats.count : 0;
  if (proto || !tn_lower_attr(lower, tensor_name)) return proto ? proto->floats.items : NULL;
  const tenon_tensor_t *tensor = tn_ml_constant(lower, tn_lower_attr_tensor(lower, tensor_name));
  if (!tensor) return NULL;
  size_t count = (size_t)tenon_count(tensor);
  double *values = tn_arena_array(&lower->import->arena, count + 1, sizeof *values);
  if (!values) (void)tn_lower_has_failed(lower, tn_no_memory("a list", count));
  bool is_wide = tn_dtype_is(tensor->dtype, TENON_F64);
  if (!is_wide && !tn_dtype_is(tensor->dtype, TENON_F32))
    tn_lower_fail(lower, "attribute '%s': expected f32 or f64, found %s", tensor_name,
                  tn_dtype_name(tensor->dtype));
  if (tn_ml_has_stopped(lower)) return NULL;
  for (size_t i = 0; i < count; i++)
    values[i] =
        is_wide ? ((const double *)tensor->data)[i] : (double)((const float *)tensor->data)[i];
  *out_count = count;
  return values;
}

const int64_t *tn_ml_ints(tn_lower_t *lower, const char *name, size_t *out_count) {
  const tn_onnx_attribute_t *proto = tn_lower_typed(lower, name, TN_ATTRIBUTE_INTS);
  *out_count = proto ? proto->ints.count : 0;
  return proto ? proto->ints.items : NULL;
}

tn_ref_t *tn_ml_matrix(tn_lower_t *lower, const double *values, int64_t rows, int64_t columns) {
  const int64_t shape[2] = {rows, columns};
  const int64_t skipped = rows ? 0 : 1;
  tenon_tensor_t *tensor = NULL;
  if (tn_ml_has_stopped(lower) ||
      tn_lower_has_failed(lower, tenon_tensor_create(tenon_dtype(TENON_F32), (int32_t)(2 - skipped),
                                                     shape + skipped, &tensor)))
    return NULL;
  for (int64_t i = 0; i < (rows ? rows : 1) * columns; i++)
    ((float *)tensor->data)[i] = (float)values[i];
  return tn_lower_tensor(lower, tensor);
}

const char *tn_ml_transform(tn_lower_t *lower) {
  static const char *const names[][2] = {{"NONE", "none"},
                                         {"LOGISTIC", "logistic"},
                                         {"SOFTMAX", "softmax"},
                                         {"SOFTMAX_ZERO", "softmax_zero"},
                                         {"PROBIT", "probit"}};
  const char *text = tn_lower_text(lower, "post_transform", "NONE");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i][0], text) == 0) return names[i][1];
  tn_lower_fail(lower,
                "attribute 'post_transform': expected NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or "
                "PROBIT, found '%.100s'",
                text);
  return "none";
}

/* Scores and labels */

static tn_ref_t **call_classify(tn_lower_t *lower, tn_ref_t *scores,
                                const tn_ml_classes_t *classes) {
  tenon_value_t threshold = {TENON_KIND_FLOAT, 0, {0}};
  threshold.as.f = classes->threshold;
  const tn_ml_attr_t attrs[] = {{"transform", tn_ml_text(classes->transform)},
                                {"second", tn_ml_text(classes->second)},
                                {"rule", tn_ml_text(classes->rule)},
                                {"threshold", threshold}};
  return tn_ml_call(lower, "core::classify", attrs, sizeof attrs / sizeof *attrs, scores);
}

tn_ref_t *tn_ml_transformed(tn_lower_t *lower, tn_ref_t *scores, int64_t columns,
                            const char *transform) {
  const tn_ml_classes_t classes = {transform, "none", "most", 0};
  bool is_same = strcmp(transform, "none") == 0 || (columns == 1 && strcmp(transform, "probit"));
  if (is_same) return scores;
  tn_ref_t **results = call_classify(lower, scores, &classes);
  return results ? results[1] : NULL;
}

tn_ref_t *tn_ml_labels(tn_lower_t *lower, const char *ints, const char *strings,
                       int64_t *out_count) {
  tn_ref_t *labels = NULL;
  const tn_attr_t *text = tn_lower_attr(lower, strings);
  const tn_attr_t *number = tn_lower_attr(lower, ints);
  if (text && text->proto->strings.count)
    labels = tn_lower_attr_tensor(lower, strings);
  else if (number)
    labels = tn_lower_attr_tensor(lower, ints);
  const tenon_tensor_t *tensor = tn_ml_constant(lower, labels);
  *out_count = tensor ? tenon_count(tensor) : 0;
  if (*out_count < 1)
    tn_lower_fail(lower, "the node has no class labels: expected the attribute '%s' or '%s'", ints,
                  strings);
  return labels;
}

void tn_ml_classify(tn_lower_t *lower, tn_ref_t *scores, tn_ref_t *labels,
                    const tn_ml_classes_t *classes) {
  tn_ref_t **results = call_classify(lower, scores, classes);
  if (!results || tn_ml_has_stopped(lower)) return;
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(labels, results[0]), "gather(a, b, axis=0)");
  if (lower->output_count > 1) lower->outputs[1] = results[1];
}

/* Linear models */

/* The product with the coefficients [targets, features]; NULL on failure. */
static tn_ref_t *lower_product(tn_lower_t *lower, int64_t targets) {
  size_t count = 0;
  size_t intercept_count = 0;
  const double *coefficients = tn_ml_floats(lower, "coefficients", &count);
  const double *intercepts = tn_ml_floats(lower, "intercepts", &intercept_count);
  if (targets < 1 || !count || count % (size_t)targets)
    tn_lower_fail(lower,
                  "there are %zu coefficients for %lld targets: expected the same number for each "
                  "target",
                  count, (long long)targets);
  if (intercept_count && intercept_count != (size_t)targets)
    tn_lower_fail(lower, "there are %zu intercepts for %lld targets", intercept_count,
                  (long long)targets);
  if (tn_ml_has_stopped(lower)) return NULL;
  tn_ref_t *matrix = tn_ml_matrix(lower, coefficients, targets, (int64_t)count / targets);
  tn_ref_t *x = tn_ml_rows(lower, "f32");
  if (!intercepts) return tn_lower_run(lower, TN_REFS(x, matrix), "gemm(a, b, trans_b=True)");
  tn_ref_t *bias = tn_ml_matrix(lower, intercepts, 0, targets);
  return tn_lower_run(lower, TN_REFS(x, matrix, bias), "gemm(a, b, c, trans_b=True)");
}

static void lower_linear_regressor(tn_lower_t *lower) {
  int64_t targets = tn_lower_int(lower, "targets", 1);
  const char *transform = tn_ml_transform(lower);
  tn_ref_t *scores = lower_product(lower, targets);
  lower->outputs[0] = tn_ml_transformed(lower, scores, targets, transform);
}

static void lower_linear_classifier(tn_lower_t *lower) {
  tn_ml_classes_t classes = {tn_ml_transform(lower), "none", "most", 0};
  int64_t label_count = 0;
  size_t intercepts = 0;
  tn_ref_t *labels = tn_ml_labels(lower, "classlabels_ints", "classlabels_strings", &label_count);
  (void)tn_ml_floats(lower, "intercepts", &intercepts);
  (void)tn_lower_int(lower, "multi_class", 0); /* has no meaning for the result */
  int64_t targets = intercepts ? (int64_t)intercepts : label_count;
  if (targets != label_count && (targets != 1 || label_count != 2))
    tn_lower_fail(lower, "there are %lld class labels for %lld scores", (long long)label_count,
                  (long long)targets);
  if (targets == 1) {
    classes.rule = "threshold";
    classes.second = label_count == 2 ? "complement" : "none";
    if (label_count == 1 || strcmp(classes.transform, "probit") == 0)
      tn_lower_missing(lower, "one score needs two class labels and no PROBIT");
  }
  tn_ref_t *scores = lower_product(lower, targets);
  tn_ml_classify(lower, scores, labels, &classes);
}

/* Features */

static void lower_scaler(tn_lower_t *lower) {
  static const char *const names[2] = {"offset", "scale"};
  static const char *const texts[2] = {"sub(a, b)", "mul(a, b)"};
  tn_ref_t *x = lower->inputs[0];
  if (!tn_dtype_is(tn_lower_dtype(lower, x), TENON_F32))
    x = tn_lower_run(lower, TN_REFS(x), "cast(a, to='f32')");
  for (int k = 0; k < 2; k++) {
    size_t count = 0;
    const double *values = tn_ml_floats(lower, names[k], &count);
    if (!count) continue;
    x = tn_lower_run(lower, TN_REFS(x, tn_ml_matrix(lower, values, 0, (int64_t)count)), "%s",
                     texts[k]);
  }
  lower->outputs[0] = x;
}

/* Rows whose norm is 0 stay as they are. */
static void lower_normaliser(tn_lower_t *lower) {
  static const char *const norms[][2] = {
      {"MAX", "reduce_max"}, {"L1", "reduce_l1"}, {"L2", "reduce_l2"}};
  const char *norm = tn_lower_text(lower, "norm", "MAX");
  tn_ref_t *x = lower->inputs[0];
  if (!tn_dtype_is(tn_lower_dtype(lower, x), TENON_F32))
    x = tn_lower_run(lower, TN_REFS(x), "cast(a, to='f32')");
  for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
    if (strcmp(norms[i][0], norm) == 0) {
      tn_ref_t *size = tn_lower_run(lower, TN_REFS(x), "%s(a, [-1]:i64)", norms[i][1]);
      lower->outputs[0] =
          tn_lower_run(lower, TN_REFS(x, size), "div(a, where(equal(b, 0:f32), 1:f32, b))");
      return;
    }
  tn_lower_fail(lower, "attribute 'norm': expected MAX, L1 or L2, found '%.100s'", norm);
}

static void lower_imputer(tn_lower_t *lower) {
  tn_ref_t *x = lower->inputs[0];
  bool is_float = tn_lower_dtype(lower, x).code == 2;
  const char *name = is_float ? "imputed_value_floats" : "imputed_value_int64s";
  (void)tn_lower_attr(lower, is_float ? "imputed_value_int64s" : "imputed_value_floats");
  (void)tn_lower_attr(lower, is_float ? "replaced_value_int64" : "replaced_value_float");
  tn_ref_t *values = tn_lower_attr_tensor(lower, name);
  if (!values) tn_lower_fail(lower, "the node has no attribute '%s'", name);
  values = tn_lower_run(lower, TN_REFS(values, x), "cast_like(a, b)");
  const tn_onnx_attribute_t *replaced =
      is_float ? tn_lower_typed(lower, "replaced_value_float", TN_ATTRIBUTE_FLOAT) : NULL;
  if (replaced && isnan(replaced->f)) {
    lower->outputs[0] = tn_lower_run(lower, TN_REFS(x, values), "where(is_nan(a), b, a)");
    return;
  }
  int64_t number = is_float ? 0 : tn_lower_int(lower, "replaced_value_int64", 0);
  tn_ref_t *old =
      tn_lower_scalar(lower, tn_lower_dtype(lower, x), replaced ? replaced->f : (double)number);
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(x, old, values), "where(equal(a, b), c, a)");
}

/* Concatenates the first `dimension` columns of each input, filled up with zeros. */
static void lower_feature_vectoriser(tn_lower_t *lower) {
  size_t count = 0;
  const int64_t *dimensions = tn_ml_ints(lower, "inputdimensions", &count);
  tn_ref_t *all = NULL;
  if (count && count != (size_t)lower->input_count)
    tn_lower_fail(lower, "attribute 'inputdimensions': found %zu numbers for %d inputs", count,
                  (int)lower->input_count);
  for (int32_t i = 0; i < lower->input_count && !tn_ml_has_stopped(lower); i++) {
    tn_ref_t *x = lower->inputs[i];
    int32_t ndim = tn_lower_rank(lower, x);
    int64_t width = ndim == 2 && x->extents ? x->extents[1] : -1;
    x = tn_lower_run(lower, TN_REFS(x), "cast(a, to='f32')");
    if (ndim == 1) x = tn_lower_run(lower, TN_REFS(x), "unsqueeze(a, [0]:i64)");
    if (ndim > 2) x = tn_lower_run(lower, TN_REFS(x), "flatten(a, axis=1)");
    if (count && dimensions[i] < 0)
      tn_lower_fail(lower, "attribute 'inputdimensions': expected 0 or more, found %lld",
                    (long long)dimensions[i]);
    if (count && width != dimensions[i])
      x = tn_lower_run(lower, TN_REFS(x),
                       "slice(pad(a, [0, 0, 0, %lld]:i64), [0]:i64, [%lld]:i64, [1]:i64)",
                       (long long)dimensions[i], (long long)dimensions[i]);
    all = all ? tn_lower_run(lower, TN_REFS(all, x), "concat([a, b], axis=1)") : x;
  }
  lower->outputs[0] = all;
}

/* A vector is one row, and the indices are a list, whatever their shape. */
static void lower_array_feature_extractor(tn_lower_t *lower) {
  tn_ref_t *x = lower->inputs[0];
  if (x->ndim == 1) x = tn_lower_run(lower, TN_REFS(x), "unsqueeze(a, [0]:i64)");
  lower->outputs[0] =
      tn_lower_run(lower, TN_REFS(x, lower->inputs[1]), "gather(a, reshape(b, [-1]:i64), axis=-1)");
}

/* Keys */

/* The first of these attributes that the node has, as a list; NULL: none. */
static tn_ref_t *first_list(tn_lower_t *lower, const char *const *names, size_t count) {
  tn_ref_t *found = NULL;
  for (size_t i = 0; i < count; i++) {
    const tn_attr_t *attr = tn_lower_attr(lower, names[i]);
    bool is_full = attr && (attr->proto->strings.count || attr->proto->ints.count ||
                            attr->proto->floats.count || attr->proto->t);
    if (is_full && found)
      tn_lower_fail(lower, "several attributes list the same: '%s' is one of them", names[i]);
    else if (is_full)
      found = tn_lower_attr_tensor(lower, names[i]);
  }
  return found;
}

/* What stands for unknown keys, with the dtype of the values. */
static tenon_tensor_t *default_value(tn_lower_t *lower, const tenon_tensor_t *values) {
  tenon_tensor_t *given = tn_lower_attr(lower, "default_tensor")
                              ? tn_ml_constant(lower, tn_lower_attr_tensor(lower, "default_tensor"))
                              : NULL;
  const char *text = tn_lower_text(lower, "default_string", "_Unused");
  int64_t number = tn_lower_int(lower, "default_int64", -1);
  const tn_onnx_attribute_t *real = tn_lower_typed(lower, "default_float", TN_ATTRIBUTE_FLOAT);
  double value = real ? real->f : -0.0;
  if (given || tn_ml_has_stopped(lower)) return given;
  if (tn_dtype_is(values->dtype, TENON_STRING)) {
    given = tn_ml_tensor(lower, values->dtype, 0, NULL);
    if (given)
      (void)tn_lower_has_failed(lower, tenon_tensor_set_string(given, 0, text, strlen(text)));
    return given;
  }
  if (values->dtype.code != 2) value = (double)number;
  return tn_ml_constant(lower, tn_lower_scalar(lower, values->dtype, value));
}

static void lower_lookup(tn_lower_t *lower, tn_ref_t *keys, tn_ref_t *values) {
  tenon_tensor_t *from = tn_ml_constant(lower, keys);
  tenon_tensor_t *to = tn_ml_constant(lower, values);
  if (!from || !to) return;
  tn_ref_t *x = lower->inputs[0];
  tenon_dtype_t dtype = tn_lower_dtype(lower, x);
  bool is_text = tn_dtype_is(from->dtype, TENON_STRING);
  if (is_text != tn_dtype_is(dtype, TENON_STRING))
    tn_lower_fail(lower, "the keys are %s, but x is %s", tn_dtype_name(from->dtype),
                  tn_dtype_name(dtype));
  tenon_tensor_t *otherwise = default_value(lower, to);
  if (!otherwise) return;
  if (strcmp(tn_dtype_name(dtype), tn_dtype_name(from->dtype)) != 0)
    x = tn_lower_run(lower, TN_REFS(x), "cast(a, to='%s')", tn_dtype_name(from->dtype));
  const tn_ml_attr_t attrs[] = {
      {"keys", tn_ml_held(from)}, {"values", tn_ml_held(to)}, {"otherwise", tn_ml_held(otherwise)}};
  tn_ref_t **results = tn_ml_call(lower, "core::label_encode", attrs, 3, x);
  if (!results) return;
  results[0]->dtype = to->dtype;
  lower->outputs[0] = results[0];
}

/* Creates the numbers 0 to count - 1. */
static tn_ref_t *count_up(tn_lower_t *lower, tn_ref_t *of) {
  const tenon_tensor_t *tensor = tn_ml_constant(lower, (tn_ref_t *)(uintptr_t)of);
  tenon_tensor_t *made = NULL;
  if (!tensor || tn_lower_has_failed(
                     lower, tenon_tensor_create(tenon_dtype(TENON_I64), 1, tensor->shape, &made)))
    return NULL;
  for (int64_t i = 0; i < made->shape[0]; i++)
    ((int64_t *)made->data)[i] = i;
  return tn_lower_tensor(lower, made);
}

static void lower_label_encoder(tn_lower_t *lower) {
  static const char *const keys[] = {"keys_tensor", "keys_strings", "keys_int64s", "keys_floats"};
  static const char *const values[] = {"values_tensor", "values_strings", "values_int64s",
                                       "values_floats"};
  tn_ref_t *from = first_list(lower, keys, 4);
  tn_ref_t *to = first_list(lower, values, 4);
  if (!from || !to)
    tn_lower_fail(lower, "the node lists no keys, or no values: expected one attribute keys_* and "
                         "one attribute values_*");
  lower_lookup(lower, from, to);
}

/* The first version knows strings and their positions. */
static void lower_label_encoder_1(tn_lower_t *lower) {
  tn_ref_t *classes = tn_lower_attr_tensor(lower, "classes_strings");
  bool is_text = tn_dtype_is(tn_lower_dtype(lower, lower->inputs[0]), TENON_STRING);
  if (!classes) tn_lower_fail(lower, "the node has no attribute 'classes_strings'");
  tn_ref_t *numbers = count_up(lower, classes);
  if (is_text)
    lower_lookup(lower, classes, numbers);
  else
    lower_lookup(lower, numbers, classes);
}

static void lower_category_mapper(tn_lower_t *lower) {
  tn_ref_t *texts = tn_lower_attr_tensor(lower, "cats_strings");
  tn_ref_t *numbers = tn_lower_attr_tensor(lower, "cats_int64s");
  bool is_text = tn_dtype_is(tn_lower_dtype(lower, lower->inputs[0]), TENON_STRING);
  if (!texts || !numbers)
    tn_lower_fail(lower, "expected the attributes 'cats_strings' and 'cats_int64s'");
  if (is_text)
    lower_lookup(lower, texts, numbers);
  else
    lower_lookup(lower, numbers, texts);
}

static void lower_one_hot_encoder(tn_lower_t *lower) {
  static const char *const names[] = {"cats_int64s", "cats_strings"};
  tenon_value_t zeros = tn_ml_int(tn_lower_int(lower, "zeros", 1) != 0);
  tenon_tensor_t *categories = tn_ml_constant(lower, first_list(lower, names, 2));
  tn_ref_t *x = lower->inputs[0];
  if (!categories)
    tn_lower_fail(lower, "the node has no categories: expected one attribute cats_*");
  if (tn_ml_has_stopped(lower)) return;
  bool is_text = tn_dtype_is(categories->dtype, TENON_STRING);
  if (is_text != tn_dtype_is(tn_lower_dtype(lower, x), TENON_STRING))
    tn_lower_fail(lower, "the categories are %s, but x is %s", tn_dtype_name(categories->dtype),
                  tn_dtype_name(x->dtype));
  if (!is_text) x = tn_lower_run(lower, TN_REFS(x), "cast(a, to='i64')");
  zeros.kind = TENON_KIND_BOOL;
  const tn_ml_attr_t attrs[] = {{"categories", tn_ml_held(categories)}, {"zeros", zeros}};
  tn_ref_t **results = tn_ml_call(lower, "core::category_one_hot", attrs, 2, x);
  if (results) lower->outputs[0] = results[0];
}

/* Maps */

/* Graphs of this runtime have no maps. The tensor of scores, whose columns are the keys of the maps
 * in their order, serves the same purpose. */
static void lower_zip_map(tn_lower_t *lower) {
  (void)tn_lower_attr(lower, "classlabels_strings");
  (void)tn_lower_attr(lower, "classlabels_int64s");
  lower->outputs[0] = tn_lower_run(lower, lower->inputs, 1, "identity(a)");
  if (!lower->outputs[0]) return;
  lower->outputs[0]->is_map = true;
  fprintf(stderr,
          "tenon: note: output '%.200s' of node '%.200s' (ZipMap) is the tensor of scores, a row "
          "for each input and a column for each class, instead of a list of maps\n",
          lower->node->outputs.items[0], lower->name);
}

static void lower_map(tn_lower_t *lower) {
  tn_lower_missing(lower, "its input is a map, but graphs of this runtime contain tensors only: "
                          "export the model with a tensor as its input");
}

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"ArrayFeatureExtractor(x, y)", 1, lower_array_feature_extractor},
  {"Binarizer(x) = cast(greater(x, @threshold?0:x), to=:x)", 1, NULL},
  {"CastMap(x)", 1, lower_map},
  {"CategoryMapper(x)", 1, lower_category_mapper},
  {"DictVectorizer(x)", 1, lower_map},
  {"FeatureVectorizer(*xs)", 1, lower_feature_vectoriser},
  {"Imputer(x)", 1, lower_imputer},
  {"LabelEncoder(x)", 1, lower_label_encoder_1},
  {"LabelEncoder(x)", 2, lower_label_encoder},
  {"LinearClassifier(x)", 1, lower_linear_classifier},
  {"LinearRegressor(x)", 1, lower_linear_regressor},
  {"Normalizer(x)", 1, lower_normaliser},
  {"OneHotEncoder(x)", 1, lower_one_hot_encoder},
  {"Scaler(x)", 1, lower_scaler},
  {"ZipMap(x)", 1, lower_zip_map},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_ml, "ai.onnx.ml");
