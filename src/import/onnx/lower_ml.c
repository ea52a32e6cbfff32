/* Domain ai.onnx.ml: what classic learning adds. */
#include "import/onnx/lower.h"

/* clang-format off */
static const tn_rule_t rules[] = {
  {"ArrayFeatureExtractor(x, y) = gather(x, y, axis=-1)", 1, NULL},
  {"Binarizer(x) = cast(greater(x, @threshold?0:x), to=:x)", 1, NULL},
};
/* clang-format on */

TN_RULES(tn_rules_ml, "ai.onnx.ml");
