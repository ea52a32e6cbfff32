/* Lowerings of the operators of com.microsoft that decoders with a recurrent state consist of:
 * linear attention, causal convolutions, gates and gated norms. */
#include <string.h>

#include "import/onnx/lower_contrib.h"

/* Refuses the node if the attribute asks for another form. */
static void expect_int(tn_lower_t *lower, const char *name, int64_t expected) {
  int64_t found = tn_lower_int(lower, name, expected);
  if (found != expected)
    tn_lower_missing(lower, "attribute '%s' is %lld: expected %lld", name, (long long)found,
                     (long long)expected);
}

static void set_outputs(tn_lower_t *lower, tn_ref_t *const *all, int32_t count) {
  for (int32_t i = 0; i < count && i < lower->output_count; i++)
    lower->outputs[i] = all[i];
}

static void lower_linear_attention(tn_lower_t *lower) {
  int32_t count = 0;
  expect_int(lower, "state_window", 0);
  (void)tn_lower_attr(lower, "chunk_size"); /* how a GPU divides the work */
  tn_ref_t *const *all = tn_lower_run_all(
      lower,
      TN_REFS(lower->inputs[0], lower->inputs[1], lower->inputs[2], tn_lower_input(lower, 3),
              tn_lower_input(lower, 4), tn_lower_input(lower, 5)),
      &count,
      "linear_attention(a, b, c, d, e, f, q_num_heads=q_num_heads, kv_num_heads=kv_num_heads, "
      "update_rule=update_rule?'gated_delta', scale=scale?0.0)");
  set_outputs(lower, all, count);
}

static void lower_causal_conv(tn_lower_t *lower) {
  int32_t count = 0;
  expect_int(lower, "state_window", 0);
  expect_int(lower, "channels_last", 0);
  expect_int(lower, "dilation", 1);
  expect_int(lower, "ndim", 1);
  tn_ref_t *const *all =
      tn_lower_run_all(lower,
                       TN_REFS(lower->inputs[0], lower->inputs[1], tn_lower_input(lower, 2),
                               tn_lower_input(lower, 3)),
                       &count, "causal_conv(a, b, c, d, activation=activation{swish: silu})");
  set_outputs(lower, all, count);
}

/* The gates of linear attention; those of the decay are computed in f32. */
static void lower_linear_gate(tn_lower_t *lower) {
  tn_ref_t *b = tn_lower_input(lower, 3);
  lower->outputs[0] =
      tn_lower_run(lower, TN_REFS(lower->inputs[0], lower->inputs[1], lower->inputs[2]),
                   "cast_like(mul(c, softplus(add(cast(a, to='f32'), b))), a)");
  if (lower->output_count > 1 && b)
    lower->outputs[1] = tn_lower_run(lower, TN_REFS(b), "sigmoid(a)");
}

/* Each run of as many elements as scale has is a row. */
static void lower_gated_norm(tn_lower_t *lower) {
  const char *name = tn_lower_text(lower, "activation", "silu");
  const bool is_sigmoid = strcmp(name, "sigmoid") == 0;
  if (!is_sigmoid && strcmp(name, "silu") != 0 && strcmp(name, "swish") != 0)
    tn_lower_fail(lower, "attribute 'activation' is '%.60s': expected silu, swish or sigmoid",
                  name);
  tn_ref_t *y = tn_lower_run(lower, TN_REFS(lower->inputs[0], lower->inputs[1]),
                             "reshape(rms_norm(reshape(a, concat([[-1]:i64, shape(b)], axis=0)), "
                             "b, epsilon=epsilon?1e-5), shape(a))");
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(y, lower->inputs[2]), "mul(a, %s(b))",
                                   is_sigmoid ? "sigmoid" : "silu");
}

static void lower_scaled_silu(tn_lower_t *lower) {
  tn_ref_t *scale = tn_lower_input(lower, 1);
  const tn_onnx_attribute_t *alpha = tn_lower_typed(lower, "alpha", TN_ATTRIBUTE_FLOAT);
  if (scale)
    lower->outputs[0] =
        tn_lower_run(lower, TN_REFS(lower->inputs[0], scale), "silu(mul(a, cast_like(b, a)))");
  else
    lower->outputs[0] = tn_lower_run(lower, TN_REFS(lower->inputs[0]), "silu(mul(a, %.9g:a))",
                                     alpha ? alpha->f : 1.0);
}

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"LinearAttention(q, k, v, past?, decay?, beta?)", 1, lower_linear_attention},
  {"LinearAttentionGate(a, bias, scale, b?)", 1, lower_linear_gate},
  {"CausalConvWithState(x, w, b?, past?)", 1, lower_causal_conv},
  {"GatedRMSNorm(x, scale, gate)", 1, lower_gated_norm},
  {"GatedAdd(x, y, gate) = add(x, mul(y, gate))", 1, NULL},
  {"ScaledSiLU(x, scale?)", 1, lower_scaled_silu},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_contrib_states, "com.microsoft");
