/* Which operators autocast runs in lower precision, and which it runs in f32. Operators in the
 * first list gain most from lower precision and accumulate in f32 anyway; the results of those in
 * the second lose too many digits. All other operators run in the dtype of their inputs. */
#include <tenon/op.h>

#define LOWER(name) TENON_EXTEND("core::" #name, TENON_RULE("autocast lower"))
#define SINGLE(name) TENON_EXTEND("core::" #name, TENON_RULE("autocast f32"))

/* clang-format off */
TENON_ITEMS(core_autocast,
  LOWER(matmul),
  LOWER(gemm),
  LOWER(einsum),
  LOWER(conv),
  LOWER(conv_transpose),
  LOWER(deform_conv),
  LOWER(causal_conv),
  LOWER(attention),
  LOWER(linear_attention),
  LOWER(lstm),
  LOWER(gru),
  LOWER(rnn),
  SINGLE(exp),
  SINGLE(log),
  SINGLE(pow),
  SINGLE(reciprocal),
  SINGLE(rsqrt),
  SINGLE(softplus),
  SINGLE(acos),
  SINGLE(asin),
  SINGLE(cosh),
  SINGLE(sinh),
  SINGLE(tan),
  SINGLE(softmax),
  SINGLE(log_softmax),
  SINGLE(layer_norm),
  SINGLE(rms_norm),
  SINGLE(group_norm),
  SINGLE(lp_norm),
  SINGLE(mean_variance_norm),
  SINGLE(cum_sum),
  SINGLE(cum_prod),
  SINGLE(reduce_sum),
  SINGLE(reduce_prod),
  SINGLE(reduce_l1),
  SINGLE(reduce_l2),
  SINGLE(reduce_log_sum),
  SINGLE(reduce_log_sum_exp),
  SINGLE(reduce_sum_square))
/* clang-format on */
