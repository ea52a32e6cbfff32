/* Lowerings of matrix products, convolutions, pools, recurrent networks, attention, quantisation
 * and transforms. */
#include <string.h>

#include "import/onnx/lower.h"

#define WINDOW                                                                                     \
  "strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad{NOTSET: explicit, "          \
  "SAME_UPPER: same_upper, SAME_LOWER: same_lower, VALID: valid}"
#define RECURRENT                                                                                  \
  "direction=direction, activations=activations, activation_alpha=activation_alpha, "              \
  "activation_beta=activation_beta, "                                                              \
  "clip=clip, layout=layout"
#define POOL "kernel=kernel_shape, " WINDOW ", ceil_mode=ceil_mode"

/* PyTorch's TorchScript exporter writes real signals as [batch, length], without the last axis that
 * ONNX specifies, and other runtimes accept them. */
static void lower_stft(tn_lower_t *lower) {
  tn_ref_t *signal = lower->inputs[0];
  const char *onesided = tn_lower_int(lower, "onesided", 1) ? "True" : "False";
  if (signal->ndim == 2) signal = tn_lower_run(lower, TN_REFS(signal), "unsqueeze(a, [-1]:i64)");
  lower->outputs[0] =
      tn_lower_run(lower, TN_REFS(signal, lower->inputs[1], lower->inputs[2], lower->inputs[3]),
                   "stft(a, b, c, d, onesided=%s)", onesided);
}

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"MatMul(a, b) = matmul(a, b)", 1, NULL},
  {"Gemm(a, b, c?, -broadcast) = "
   "gemm(a, b, c, alpha=alpha?1.0, beta=beta?1.0, trans_a=transA, trans_b=transB)", 1, NULL},
  {"Conv(x, w, b?, -kernel_shape) = conv(x, w, b, group=group?1, " WINDOW ")", 1, NULL},
  {"ConvTranspose(x, w, b?, -kernel_shape) = "
   "conv_transpose(x, w, b, group=group?1, output_padding=output_padding, "
   "output_shape=output_shape, " WINDOW ")", 1, NULL},
  {"DeformConv(x, w, offset, b?, mask?, -kernel_shape) = "
   "deform_conv(x, w, offset, b, mask, group=group?1, offset_group=offset_group?1, "
   "strides=strides, pads=pads, dilations=dilations)", 19, NULL},
  {"MaxPool(x) = max_pool(x, storage_order=storage_order, " POOL ")", 1, NULL},
  {"AveragePool(x) = average_pool(x, count_include_pad=count_include_pad, " POOL ")", 1, NULL},
  {"LpPool(x) = lp_pool(x, p=p?2, " POOL ")", 1, NULL},
  {"MaxUnpool(x, indices, shape?) = "
   "max_unpool(x, indices, shape, kernel=kernel_shape, pads=pads, strides=strides)", 9, NULL},
  {"GlobalAveragePool(x) = global_average_pool(x)", 1, NULL},
  {"GlobalMaxPool(x) = global_max_pool(x)", 1, NULL},
  {"GlobalLpPool(x) = global_lp_pool(x, p=p?2)", 1, NULL},
  {"RNN(x, w, r, b?, lens?, h?, -hidden_size, -output_sequence) = "
   "rnn(x, w, r, b, lens, h, " RECURRENT ")", 1, NULL},
  {"GRU(x, w, r, b?, lens?, h?, -hidden_size, -output_sequence) = "
   "gru(x, w, r, b, lens, h, linear_before_reset=linear_before_reset, " RECURRENT ")", 1, NULL},
  {"LSTM(x, w, r, b?, lens?, h?, c?, p?, -hidden_size, -output_sequence) = "
   "lstm(x, w, r, b, lens, h, c, p, input_forget=input_forget, " RECURRENT ")", 1, NULL},
  {"Attention(q, k, v, mask?, past_key?, past_value?, nonpad?, -softmax_precision) = "
   "attention(q, k, v, mask, past_key, past_value, nonpad, scale=scale, is_causal=is_causal, "
   "softcap=softcap?0.0, q_num_heads=q_num_heads?0, kv_num_heads=kv_num_heads?0, "
   "qk_matmul_output_mode=qk_matmul_output_mode?0)", 23, NULL},
  {"LinearAttention(q, k, v, past?, decay?, beta?, -chunk_size) = "
   "linear_attention(q, k, v, past, decay, beta, q_num_heads=q_num_heads, "
   "kv_num_heads=kv_num_heads, update_rule=update_rule, scale=scale?0.0)", 27, NULL},
  {"CausalConvWithState(x, w, b?, past?) = "
   "causal_conv(x, w, b, past, activation=activation{swish: silu})", 27, NULL},
  {"RotaryEmbedding(x, cos, sin, ids?) = "
   "rotary_embedding(x, cos, sin, ids, interleaved=interleaved, num_heads=num_heads?0, "
   "rotary_embedding_dim=rotary_embedding_dim?0)", 23, NULL},
  {"QuantizeLinear(x, scale, zero?) = "
   "quantize_linear(x, scale, zero, axis=axis?1, block_size=block_size, output_dtype=output_dtype, "
   "precision=precision, saturate=saturate)", 10, NULL},
  {"DequantizeLinear(x, scale, zero?) = "
   "dequantize_linear(x, scale, zero, axis=axis?1, block_size=block_size, "
   "output_dtype=output_dtype)", 10, NULL},
  {"DynamicQuantizeLinear(x) = dynamic_quantize_linear(x)", 11, NULL},
  {"MatMulInteger(a, b, a_zero?, b_zero?) = matmul_integer(a, b, a_zero, b_zero)", 10, NULL},
  {"ConvInteger(x, w, x_zero?, w_zero?, -kernel_shape) = "
   "conv_integer(x, w, x_zero, w_zero, group=group?1, " WINDOW ")", 10, NULL},
  {"QLinearMatMul(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero) = "
   "qlinear_matmul(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero)", 10, NULL},
  {"QLinearConv(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b?, -kernel_shape) = "
   "qlinear_conv(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b, group=group?1, " WINDOW
   ")", 10, NULL},
  {"Einsum(*xs) = einsum(xs, equation=equation)", 12, NULL},
  {"Det(x) = det(x)", 11, NULL},
  {"DFT(x, length?) = dft(x, length, @axis?1:i64, inverse=inverse, onesided=onesided)", 17, NULL},
  {"DFT(x, length?, axis?) = dft(x, length, axis, inverse=inverse, onesided=onesided)", 20, NULL},
  {"STFT(signal, step, window?, length?)", 17, lower_stft},
  {"MelWeightMatrix(bins, length, rate, lower, upper) = "
   "cast(mel_weights(bins, length, rate, cast(lower, to='f64'), cast(upper, to='f64')), "
   "to=output_datatype?'f32')", 17, NULL},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_heavy, "");
