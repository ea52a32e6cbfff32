/* The domain com.microsoft.nchwc: operators in a layout of one kind of processor, which ONNX
 * Runtime's sessions write at the level ORT_ENABLE_ALL. They are refused by name. */
#include "import/onnx/lower.h"

static void refuse_layout(tn_lower_t *lower) {
  tn_lower_missing(lower, "this operator has the layout of the processor on which ONNX Runtime "
                          "optimised the model: save the model at the level "
                          "ORT_ENABLE_EXTENDED, or load the original model");
}

static const tn_lowering_t lowerings[] = {
    {"Conv", 1, refuse_layout},         {"MaxPool", 1, refuse_layout},
    {"AveragePool", 1, refuse_layout},  {"GlobalMaxPool", 1, refuse_layout},
    {"ReorderInput", 1, refuse_layout}, {"GlobalAveragePool", 1, refuse_layout},
    {"Upsample", 1, refuse_layout},     {"ReorderOutput", 1, refuse_layout},
};

TN_LOWERINGS(tn_lowerings_contrib_layouts, "com.microsoft.nchwc");
