/* Lowerings of the domain ai.onnx.ml. */
#include "import/onnx/lower.h"

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"ArrayFeatureExtractor(x, y) = gather(x, y, axis=-1)", 1, NULL},
  {"Binarizer(x) = cast(greater(x, @threshold?0:x), to=:x)", 1, NULL},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_ml, "ai.onnx.ml");
