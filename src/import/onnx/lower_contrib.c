/* Lowerings of the domain com.microsoft, which ONNX Runtime's optimizer writes: activations,
 * normalisations, fused products and convolutions, and operators that became ONNX's own later.
 * Attention, quantised operators and packed weights are in the other files lower_contrib_*.c. */
#include <stdio.h>
#include <string.h>

#include "import/onnx/lower_contrib.h"

#define WINDOW                                                                                     \
  "strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad{NOTSET: explicit, "          \
  "SAME_UPPER: same_upper, SAME_LOWER: same_lower, VALID: valid}"

/* Activations that are an attribute of a fused operator */

/* An activation of ONNX, the operator of core, and its parameters with their defaults. */
typedef struct activation_t {
  const char *name;
  const char *core;
  const char *parameters[2]; /* NULL: there is none */
  double defaults[2];
} activation_t;

static const activation_t activations[] = {
    {"Relu", "relu", {NULL, NULL}, {0, 0}},
    {"Sigmoid", "sigmoid", {NULL, NULL}, {0, 0}},
    {"Tanh", "tanh", {NULL, NULL}, {0, 0}},
    {"HardSwish", "hard_swish", {NULL, NULL}, {0, 0}},
    {"LeakyRelu", "leaky_relu", {"alpha", NULL}, {0.01, 0}},
    {"Elu", "elu", {"alpha", NULL}, {1, 0}},
    {"HardSigmoid", "hard_sigmoid", {"alpha", "beta"}, {0.2, 0.5}},
};

/* The activation `name` of x. Its parameters are in the order in which FusedConv lists them. */
static tn_ref_t *activate(tn_lower_t *lower, const char *name, tn_ref_t *x,
                          const double *parameters, size_t count) {
  char text[120] = "";
  int length = 0;
  if (!*name) return x;
  if (strcmp(name, "Clip") == 0 && count == 2)
    return tn_lower_run(lower, TN_REFS(x), "clip(a, %.9g:a, %.9g:a)", parameters[0], parameters[1]);
  for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
    const activation_t *activation = &activations[i];
    if (strcmp(activation->name, name) != 0) continue;
    for (size_t k = 0; k < 2 && activation->parameters[k]; k++)
      length +=
          snprintf(text + length, sizeof text - (size_t)length, ", %s=%.9g",
                   activation->parameters[k], k < count ? parameters[k] : activation->defaults[k]);
    return tn_lower_run(lower, TN_REFS(x), "%s(a%s)", activation->core, text);
  }
  tn_lower_missing(lower, "activation '%.60s' with %zu parameters is unknown", name, count);
  return NULL;
}

/* The activation of the attributes `activation` and `activation_params`. */
static tn_ref_t *activate_conv(tn_lower_t *lower, tn_ref_t *x) {
  const char *name = tn_lower_text(lower, "activation", "");
  const tn_onnx_attribute_t *list = tn_lower_typed(lower, "activation_params", TN_ATTRIBUTE_FLOATS);
  if (!list) return activate(lower, name, x, NULL, 0);
  return activate(lower, name, x, list->floats.items, list->floats.count);
}

/* Products */

static bool is_vector(tn_lower_t *lower, tn_ref_t *x) { return tn_lower_rank(lower, x) == 1; }

/* x with its first axis behind its batch axes, as transBatchA and transBatchB ask for. */
static tn_ref_t *turn_batch(tn_lower_t *lower, tn_ref_t *x, const char *attribute) {
  char perm[TENON_RANK_MAX * 4];
  int length = 0;
  if (!tn_lower_int(lower, attribute, 0)) return x;
  int32_t rank = tn_lower_rank(lower, x);
  if (rank < 3) return x;
  for (int32_t i = 1; i < rank - 1; i++)
    length += snprintf(perm + length, sizeof perm - (size_t)length, "%d, ", (int)i);
  return tn_lower_run(lower, TN_REFS(x), "transpose(a, perm=[%s0, %d])", perm, (int)(rank - 1));
}

/* A transpose of a vector has no effect, as in ONNX Runtime. */
static tn_ref_t *multiply(tn_lower_t *lower, tn_ref_t *a, tn_ref_t *b) {
  const tn_onnx_attribute_t *alpha = tn_lower_typed(lower, "alpha", TN_ATTRIBUTE_FLOAT);
  bool turns_a = tn_lower_int(lower, "transA", 0) != 0;
  bool turns_b = tn_lower_int(lower, "transB", 0) != 0;
  turns_a = turns_a && !is_vector(lower, a);
  turns_b = turns_b && !is_vector(lower, b);
  const char *first = turns_a ? ", transpose_a=True" : "";
  const char *second = turns_b ? ", transpose_b=True" : "";
  tn_ref_t *y = tn_lower_run(lower, TN_REFS(a, b), "matmul(a, b%s%s)", first, second);
  if (!alpha || alpha->f == 1) return y;
  return tn_lower_run(lower, TN_REFS(y), "mul(a, %.9g:a)", alpha->f);
}

static void lower_fused_matmul(tn_lower_t *lower) {
  tn_ref_t *a = turn_batch(lower, lower->inputs[0], "transBatchA");
  tn_ref_t *b = turn_batch(lower, lower->inputs[1], "transBatchB");
  lower->outputs[0] = multiply(lower, a, b);
}

static void lower_fused_gemm(tn_lower_t *lower) {
  static const char *const names[] = {"activation_alpha", "activation_beta", "activation_gamma"};
  double parameters[3] = {0};
  size_t count = 0;
  for (size_t i = 0; i < 3; i++) {
    const tn_onnx_attribute_t *attr = tn_lower_typed(lower, names[i], TN_ATTRIBUTE_FLOAT);
    if (!attr) continue;
    parameters[i] = attr->f;
    count = i + 1;
  }
  const char *name = tn_lower_text(lower, "activation", "");
  tn_ref_t *y =
      tn_lower_run(lower, TN_REFS(lower->inputs[0], lower->inputs[1], tn_lower_input(lower, 2)),
                   "gemm(a, b, c, alpha=alpha?1.0, beta=beta?1.0, trans_a=transA, trans_b=transB)");
  lower->outputs[0] = activate(lower, name, y, parameters, count);
}

/* Convolutions. With channels last, the weights have the same layout as x. */

tn_ref_t *tn_contrib_move_channels(tn_lower_t *lower, tn_ref_t *x, int32_t rank, bool to_last) {
  char perm[TENON_RANK_MAX * 4];
  int length = 0;
  for (int32_t i = 2; i < rank; i++)
    length +=
        snprintf(perm + length, sizeof perm - (size_t)length, ", %d", (int)(to_last ? i : i - 1));
  if (to_last) return tn_lower_run(lower, TN_REFS(x), "transpose(a, perm=[0%s, 1])", perm);
  return tn_lower_run(lower, TN_REFS(x), "transpose(a, perm=[0, %d%s])", (int)(rank - 1), perm);
}

static void lower_fused_conv(tn_lower_t *lower) {
  bool is_last = strncmp(lower->node->type, "Nhwc", 4) == 0;
  tn_ref_t *x = lower->inputs[0];
  tn_ref_t *w = lower->inputs[1];
  tn_ref_t *sum = tn_lower_input(lower, 3);
  int32_t rank = is_last ? tn_lower_rank(lower, w) : 4;
  (void)tn_lower_attr(lower, "kernel_shape");
  if (rank < 3) tn_lower_fail(lower, "w has %d axes: expected at least 3", (int)rank);
  if (is_last) {
    x = tn_contrib_move_channels(lower, x, rank, false);
    w = tn_contrib_move_channels(lower, w, rank, false);
    if (sum) sum = tn_contrib_move_channels(lower, sum, rank, false);
  }
  tn_ref_t *y = tn_lower_run(lower, TN_REFS(x, w, tn_lower_input(lower, 2), sum),
                             "conv(a, b, c, d, group=group?1, " WINDOW ")");
  y = activate_conv(lower, y);
  lower->outputs[0] = is_last ? tn_contrib_move_channels(lower, y, rank, true) : y;
}

static void lower_nhwc_max_pool(tn_lower_t *lower) {
  const tn_onnx_attribute_t *kernel = tn_lower_typed(lower, "kernel_shape", TN_ATTRIBUTE_INTS);
  int32_t rank = tn_lower_rank(lower, lower->inputs[0]);
  if (!kernel) tn_lower_fail(lower, "attribute 'kernel_shape' is missing");
  if (rank < 3) tn_lower_fail(lower, "x has %d axes: expected at least 3", (int)rank);
  tn_ref_t *x = tn_contrib_move_channels(lower, lower->inputs[0], rank, false);
  tn_ref_t *y = tn_lower_run(lower, TN_REFS(x),
                             "max_pool(a, kernel=kernel_shape, ceil_mode=ceil_mode, " WINDOW ")");
  lower->outputs[0] = tn_contrib_move_channels(lower, y, rank, true);
}

static void lower_conv_transpose(tn_lower_t *lower) {
  int64_t pads[2 * TENON_RANK_MAX];
  char text[2 * TENON_RANK_MAX * 22] = "";
  int32_t count = 0;
  tn_ref_t *values = tn_lower_input(lower, 2);
  (void)tn_lower_attr(lower, "kernel_shape");
  if (values && !tn_lower_known(lower, values, pads, 2 * TENON_RANK_MAX, &count))
    tn_lower_missing(lower, "input `Pads` is not a constant: state it as an initialiser");
  for (int32_t i = 0, length = 0; i < count; i++)
    length += snprintf(text + length, sizeof text - (size_t)length, "%s%lld", i ? ", " : "",
                       (long long)pads[i]);
  lower->outputs[0] = tn_lower_run(
      lower, TN_REFS(lower->inputs[0], lower->inputs[1], tn_lower_input(lower, 3)),
      "conv_transpose(a, b, c, group=group?1, output_padding=output_padding, strides=strides, "
      "dilations=dilations, pads=[%s], auto_pad=auto_pad{NOTSET: explicit, SAME_UPPER: same_upper, "
      "SAME_LOWER: same_lower, VALID: valid})",
      text);
}

/* Normalisations */

/* The sum of the inputs and the bias is normalised, and is an output of its own. */
static void lower_skip_norm(tn_lower_t *lower) {
  bool is_simple = strcmp(lower->node->type, "SkipSimplifiedLayerNormalization") == 0;
  tn_ref_t *beta = is_simple ? NULL : tn_lower_input(lower, 3);
  tn_ref_t *bias = tn_lower_input(lower, is_simple ? 3 : 4);
  tn_ref_t *sum = tn_lower_run(lower, TN_REFS(lower->inputs[0], lower->inputs[1]), "add(a, b)");
  if (bias) sum = tn_lower_run(lower, TN_REFS(sum, bias), "add(a, b)");
  if (is_simple)
    lower->outputs[0] = tn_lower_run(lower, TN_REFS(sum, lower->inputs[2]),
                                     "rms_norm(a, b, epsilon=epsilon?1e-12)");
  else
    lower->outputs[0] = tn_lower_run(lower, TN_REFS(sum, lower->inputs[2], beta),
                                     "layer_norm(a, b, c, epsilon=epsilon?1e-12)");
  if (lower->output_count > 3) lower->outputs[3] = sum;
}

/* The words of a sentence, their positions and segments as vectors, summed and normalised. */
typedef struct embedding_t {
  tn_ref_t *ids;
  tn_ref_t *positions; /* NULL: 0, 1, ... */
  tn_ref_t *segments;  /* may be NULL, as may mask */
  tn_ref_t *mask;
  tn_ref_t *tables[5]; /* words, positions, segments, gamma, beta */
  tn_ref_t *scales[5]; /* of quantised tables */
  tn_ref_t *zeros[5];
  bool is_quantised;
} embedding_t;

/* The rows `ids` of a table as floats; all of it if ids is NULL. */
static tn_ref_t *embedded_rows(tn_lower_t *lower, const embedding_t *embedding, int table,
                               tn_ref_t *ids) {
  tn_ref_t *rows = embedding->tables[table];
  if (ids) rows = tn_lower_run(lower, TN_REFS(rows, ids), "gather(a, b, axis=0)");
  if (!embedding->is_quantised) return rows;
  return tn_lower_run(lower, TN_REFS(rows, embedding->scales[table], embedding->zeros[table]),
                      "dequantize_linear(a, b, c)");
}

static void embed(tn_lower_t *lower, embedding_t *embedding) {
  tn_ref_t *ids = embedding->ids;
  tn_ref_t *counts;
  if (!embedding->segments != !embedding->tables[2])
    tn_lower_fail(lower, "segment_ids and segment_embedding must be given together, but only one "
                         "is given");
  if (!embedding->positions)
    embedding->positions = tn_lower_run(
        lower, TN_REFS(ids), "range(0:i64, squeeze(shape(a, start=1, end=2), [0]:i64), 1:i64)");
  tn_ref_t *words = embedded_rows(lower, embedding, 0, ids);
  tn_ref_t *places = embedded_rows(lower, embedding, 1, embedding->positions);
  tn_ref_t *sum = tn_lower_run(lower, TN_REFS(words, places), "add(a, b)");
  if (embedding->segments)
    sum = tn_lower_run(lower, TN_REFS(sum, embedded_rows(lower, embedding, 2, embedding->segments)),
                       "add(a, b)");
  lower->outputs[0] = tn_lower_run(lower,
                                   TN_REFS(sum, embedded_rows(lower, embedding, 3, NULL),
                                           embedded_rows(lower, embedding, 4, NULL)),
                                   "layer_norm(a, b, c, epsilon=epsilon?1e-12)");
  if (embedding->mask)
    counts =
        tn_lower_run(lower, TN_REFS(embedding->mask), "reduce_sum(a, [1]:i64, keepdims=False)");
  else
    counts = tn_lower_run(lower, TN_REFS(ids),
                          "cast(expand(0:i64, shape(a, start=0, end=1)), to='i32')");
  if (lower->output_count > 1) lower->outputs[1] = counts;
  if (lower->output_count > 2 && !embedding->is_quantised) lower->outputs[2] = sum;
}

static void lower_embed_norm(tn_lower_t *lower) {
  embedding_t embedding = {.ids = lower->inputs[0],
                           .segments = tn_lower_input(lower, 1),
                           .mask = tn_lower_input(lower, 7),
                           .positions = tn_lower_input(lower, 8)};
  (void)tn_lower_attr(lower, "mask_index_type");
  for (int32_t i = 0; i < 5; i++)
    embedding.tables[i] = tn_lower_input(lower, 2 + i);
  embed(lower, &embedding);
}

static void lower_quantised_embed_norm(tn_lower_t *lower) {
  embedding_t embedding = {.ids = lower->inputs[0],
                           .segments = tn_lower_input(lower, 1),
                           .mask = tn_lower_input(lower, 7),
                           .is_quantised = true};
  for (int32_t i = 0; i < 5; i++) {
    embedding.tables[i] = tn_lower_input(lower, 2 + i);
    embedding.scales[i] = tn_lower_input(lower, 8 + i);
    embedding.zeros[i] = tn_lower_input(lower, 13 + i);
  }
  if (embedding.segments && !embedding.scales[2])
    tn_lower_fail(lower, "segment_ids are given, but segment_embedding_scale is missing");
  embed(lower, &embedding);
}

/* Others */

static void lower_fast_gelu(tn_lower_t *lower) {
  tn_ref_t *x = lower->inputs[0];
  tn_ref_t *bias = tn_lower_input(lower, 1);
  if (bias) x = tn_lower_run(lower, TN_REFS(x, bias), "add(a, b)");
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(x), "gelu(a, approximate='tanh')");
}

/* The inputs are scalars or vectors of one element. */
static void lower_range(tn_lower_t *lower) {
  tn_ref_t *start = lower->inputs[0];
  tn_ref_t *delta = tn_lower_input(lower, 2);
  if (!delta) delta = tn_lower_run(lower, TN_REFS(start), "1:a");
  lower->outputs[0] =
      tn_lower_run(lower, TN_REFS(start, lower->inputs[1], delta),
                   "range(reshape(a, []:i64), reshape(b, []:i64), reshape(c, []:i64))");
}

static void lower_dropout(tn_lower_t *lower) {
  tn_ref_t *residual = tn_lower_input(lower, 2);
  tn_ref_t *training = tn_lower_input(lower, 4);
  int64_t is_training = 0;
  int32_t count = 0;
  (void)tn_lower_attr(lower, "seed");
  if (training && (!tn_lower_known(lower, training, &is_training, 1, &count) || is_training))
    tn_lower_missing(lower, "training_mode is not a constant false: export the model for "
                            "inference");
  tn_ref_t *sum = tn_lower_run(lower, TN_REFS(lower->inputs[0], lower->inputs[1]), "add(a, b)");
  if (residual) sum = tn_lower_run(lower, TN_REFS(sum, residual), "add(a, b)");
  lower->outputs[0] = sum;
}

/* The outputs are the distinct values in the order of their first occurrence, for each element the
 * number of its value, and how often each value occurs. */
static void lower_unique(tn_lower_t *lower) {
  int32_t count = 0;
  tn_ref_t *const *all =
      tn_lower_run_all(lower, TN_REFS(lower->inputs[0]), &count, "unique(a, sorted=False)");
  static const int32_t order[] = {0, 2, 3};
  for (int32_t i = 0; i < 3 && i < lower->output_count && count == 4; i++)
    lower->outputs[i] = all[order[i]];
}

static void lower_cdist(tn_lower_t *lower) {
  const char *metric = tn_lower_text(lower, "metric", "sqeuclidean");
  tn_ref_t *y =
      tn_lower_run(lower, TN_REFS(lower->inputs[0], lower->inputs[1]), "squared_distance(a, b)");
  if (strcmp(metric, "euclidean") == 0)
    y = tn_lower_run(lower, TN_REFS(y), "sqrt(a)");
  else if (strcmp(metric, "sqeuclidean") != 0)
    tn_lower_missing(lower, "metric '%.60s' is unknown: expected euclidean or sqeuclidean", metric);
  lower->outputs[0] = y;
}

/* ids are positions, or the first position of every row. */
static void lower_rotary(tn_lower_t *lower) {
  tn_ref_t *x = lower->inputs[0];
  tn_ref_t *ids = lower->inputs[1];
  int64_t heads = tn_lower_int(lower, "num_heads", 0);
  int64_t size = tn_lower_int(lower, "rotary_embedding_dim", 0);
  int64_t half = tn_lower_extent(lower, lower->inputs[2], -1);
  int32_t rank = tn_lower_rank(lower, x);
  const tn_onnx_attribute_t *scale = tn_lower_typed(lower, "scale", TN_ATTRIBUTE_FLOAT);
  if (scale && scale->f != 1) tn_lower_missing(lower, "attribute 'scale' is not 1");
  if (tn_lower_int(lower, "is_packed_batching", 0))
    tn_lower_missing(lower, "attribute 'is_packed_batching' is set");
  if (heads < 0 || size < 0)
    tn_lower_fail(lower,
                  "attributes num_heads and rotary_embedding_dim are %lld and %lld: "
                  "expected 0 or more",
                  (long long)heads, (long long)size);
  if (rank != 3 && rank != 4)
    tn_lower_fail(lower,
                  "input has %d axes: expected [batch, length, heads * size] or "
                  "[batch, heads, length, size]",
                  (int)rank);
  if (rank == 3 && !heads) {
    int64_t hidden = tn_lower_extent(lower, x, 2);
    if (half < 1 || hidden % (2 * half))
      tn_lower_fail(lower,
                    "input has %lld elements in each position, which is not a multiple of "
                    "the head size %lld",
                    (long long)hidden, (long long)(2 * half));
    else
      heads = hidden / (2 * half);
  }
  if (tn_lower_rank(lower, ids) == 1)
    ids = tn_lower_run(lower, TN_REFS(x, ids),
                       "expand(add(unsqueeze(b, [0]:i64), range(0:i64, squeeze(shape(a, start=%d, "
                       "end=%d), [0]:i64), 1:i64)), concat([shape(a, start=0, end=1), "
                       "shape(a, start=%d, end=%d)], axis=0))",
                       (int)rank - 2, (int)rank - 1, (int)rank - 2, (int)rank - 1);
  lower->outputs[0] =
      tn_lower_run(lower, TN_REFS(x, lower->inputs[2], lower->inputs[3], ids),
                   "rotary_embedding(a, b, c, d, interleaved=interleaved, num_heads=%lld, "
                   "rotary_embedding_dim=%lld)",
                   (long long)heads, (long long)size);
}

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"Gelu(x) = gelu(x)", 1, NULL},
  {"BiasGelu(x, bias) = gelu(add(x, bias))", 1, NULL},
  {"FastGelu(x, bias?)", 1, lower_fast_gelu},
  {"QuickGelu(x) = silu(x, alpha=alpha?1.702)", 1, NULL},
  {"BiasSplitGelu(x, bias) = "
   "left, right = split(add(x, bias), axis=-1, count=2); mul(left, gelu(right))", 1, NULL},
  {"BiasAdd(x, bias, skip) = add(add(x, bias), skip)", 1, NULL},
  {"BiasDropout(x, bias, residual?, ratio?, training?)", 1, lower_dropout},
  {"FusedMatMul(a, b)", 1, lower_fused_matmul},
  {"TransposeMatMul(a, b)", 1, lower_fused_matmul},
  {"FusedGemm(a, b, c?)", 1, lower_fused_gemm},
  {"GemmFastGelu(x, w, bias?) = gelu(matmul(x, w, bias), approximate='tanh')", 1, NULL},
  {"FusedConv(x, w, b?, z?)", 1, lower_fused_conv},
  {"NhwcFusedConv(x, w, b?, z?)", 1, lower_fused_conv},
  {"NhwcConv(x, w, b?)", 1, lower_fused_conv},
  {"NhwcMaxPool(x)", 1, lower_nhwc_max_pool},
  {"ConvTransposeWithDynamicPads(x, w, pads?, b?)", 1, lower_conv_transpose},
  {"SkipLayerNormalization(x, skip, gamma, beta?, bias?)", 1, lower_skip_norm},
  {"SkipSimplifiedLayerNormalization(x, skip, gamma, bias?)", 1, lower_skip_norm},
  {"EmbedLayerNormalization(ids, segments?, words, positions, segment_table?, gamma, beta, mask?, "
   "position_ids?)", 1, lower_embed_norm},
  {"QEmbedLayerNormalization(ids, segments?, words, positions, segment_table?, gamma, beta, mask?, "
   "word_scale, position_scale, segment_scale?, gamma_scale, beta_scale, word_zero, "
   "position_zero, segment_zero?, gamma_zero, beta_zero)", 1, lower_quantised_embed_norm},
  {"RotaryEmbedding(x, ids, cos, sin)", 1, lower_rotary},
  {"CDist(a, b)", 1, lower_cdist},
  {"ExpandDims(x, axis) = unsqueeze(x, reshape(axis, [1]:i64))", 1, NULL},
  {"GatherND(x, indices) = gather_nd(x, indices)", 1, NULL},
  {"GridSample(x, grid) = "
   "grid_sample(x, grid, mode=mode{bilinear: linear, bicubic: cubic}, padding=padding_mode, "
   "align_corners=align_corners)", 1, NULL},
  {"Pad(x, pads, value?) = pad(x, pads, value, mode=mode)", 1, NULL},
  {"Range(start, limit, delta?)", 1, lower_range},
  {"SampleOp(x) = identity(x)", 1, NULL},
  {"Trilu(x, k?) = trilu(x, k, upper=upper)", 1, NULL},
  {"Unique(x)", 1, lower_unique},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_contrib, "com.microsoft");
