/* Lowerings of operators on strings. */
#include "core/dtype.h"
#include "import/onnx/lower_ml.h"

/* The items of n-grams are strings or ints. */
static void lower_tfidf(tn_lower_t *lower) {
  static const char *const names[] = {"ngram_counts",    "ngram_indexes",  "min_gram_length",
                                      "max_gram_length", "max_skip_count", "mode"};
  const tenon_op_t *op = tn_lower_op(lower, "core::ngram_counts");
  bool is_text = tn_dtype_is(tn_lower_dtype(lower, lower->inputs[0]), TENON_STRING);
  tn_ref_t *x = lower->inputs[0];
  tenon_tensor_t *pool =
      tn_ml_constant(lower, tn_lower_attr_tensor(lower, is_text ? "pool_strings" : "pool_int64s"));
  tenon_attrs_t *attrs = NULL;
  (void)tn_lower_attr(lower, is_text ? "pool_int64s" : "pool_strings");
  if (!pool)
    tn_lower_fail(lower, "the node has no attribute '%s'",
                  is_text ? "pool_strings" : "pool_int64s");
  if (!is_text) x = tn_lower_run(lower, TN_REFS(x), "cast(a, to='i64')");
  if (!op || !x || tn_lower_has_failed(lower, TENON_OK)) return;
  if (tn_lower_has_failed(lower, tenon_attrs_create(op, &attrs))) return;
  tenon_value_t value = tn_ml_held(pool);
  (void)tn_lower_has_failed(lower, tenon_attrs_set(attrs, "pool", &value));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    tn_attr_t *attr = tn_lower_attr(lower, names[i]);
    if (!attr) tn_lower_fail(lower, "the node has no attribute '%s'", names[i]);
    if (attr) (void)tn_lower_set(lower, attr, op, attrs, names[i], names[i]);
  }
  tn_attr_t *weights = tn_lower_attr(lower, "weights");
  if (weights) (void)tn_lower_set(lower, weights, op, attrs, "weights", "weights");
  tn_operand_t operand = {&x, 1, false};
  int32_t count = 0;
  tn_ref_t **results = tn_lower_call(lower, op, attrs, &operand, 1, &count);
  if (results) {
    results[0]->dtype = tenon_dtype(TENON_F32);
    lower->outputs[0] = results[0];
  }
  tenon_attrs_release(attrs);
}

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"StringConcat(a, b) = string_concat(a, b)", 20, NULL},
  {"StringSplit(x) = string_split(x, delimiter=delimiter, maxsplit=maxsplit)", 20, NULL},
  {"StringNormalizer(x, -locale) = "
   "string_normalizer(x, case=case_change_action, is_case_sensitive=is_case_sensitive, "
   "stopwords=stopwords)", 10, NULL},
  {"TfIdfVectorizer(x)", 9, lower_tfidf},
  {"RegexFullMatch(x) = regex_full_match(x, pattern=pattern)", 20, NULL},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_text, "");
