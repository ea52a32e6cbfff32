/* Matrix products, convolutions, pools, recurrent networks, attention, quantisation, transforms. */
#include <string.h>

#include "import/onnx/lower.h"

#define WINDOW "strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad{NOTSET: explicit}"
#define POOL "kernel=kernel_shape, " WINDOW ", ceil_mode=ceil_mode"

/* clang-format off */
static const tn_rule_t rules[] = {
  {"MatMul(a, b) = matmul(a, b)", 1, NULL},
  {"Gemm(a, b, c?, -broadcast) = gemm(a, b, c, alpha=alpha?1.0, beta=beta?1.0, trans_a=transA, trans_b=transB)", 1, NULL},
  {"Conv(x, w, b?, -kernel_shape) = conv(x, w, b, group=group?1, " WINDOW ")", 1, NULL},
  {"ConvTranspose(x, w, b?, -kernel_shape) = conv_transpose(x, w, b, group=group?1, output_padding=output_padding, "
   "output_shape=output_shape, " WINDOW ")", 1, NULL},
  {"DeformConv(x, w, offset, b?, mask?, -kernel_shape) = deform_conv(x, w, offset, b, mask, group=group?1, "
   "offset_group=offset_group?1, strides=strides, pads=pads, dilations=dilations)", 19, NULL},
  {"MaxPool(x) = max_pool(x, storage_order=storage_order, " POOL ")", 1, NULL},
  {"AveragePool(x) = average_pool(x, count_include_pad=count_include_pad, " POOL ")", 1, NULL},
  {"LpPool(x) = lp_pool(x, p=p?2, " POOL ")", 1, NULL},
  {"MaxUnpool(x, indices, shape?) = max_unpool(x, indices, shape, kernel=kernel_shape, pads=pads, strides=strides)", 9, NULL},
  {"GlobalAveragePool(x) = global_average_pool(x)", 1, NULL},
  {"GlobalMaxPool(x) = global_max_pool(x)", 1, NULL},
  {"GlobalLpPool(x) = global_lp_pool(x, p=p?2)", 1, NULL},
  {"Einsum(*xs) = einsum(xs, equation=equation)", 12, NULL},
  {"Det(x) = det(x)", 11, NULL},
  {"DFT(x, length?) = dft(x, length, @axis?1:i64, inverse=inverse, onesided=onesided)", 17, NULL},
  {"DFT(x, length?, axis?) = dft(x, length, axis, inverse=inverse, onesided=onesided)", 20, NULL},
  {"STFT(signal, step, window?, length?) = stft(signal, step, window, length, onesided=onesided?True)", 17, NULL},
};
/* clang-format on */

TN_RULES(tn_rules_heavy, "");
