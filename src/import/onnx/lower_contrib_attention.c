/* Lowerings of the attention operators of com.microsoft whose queries, keys and values have the
 * same heads: each becomes core::attention, with the masks of these operators as numbers that are
 * added to the scores. */
#include <stdio.h>
#include <string.h>

#include "import/onnx/lower_contrib.h"

enum { HEADS_MOST = 1 << 20 };

int64_t tn_contrib_heads(tn_lower_t *lower, const char *name) {
  int64_t heads = tn_lower_int(lower, name, 0);
  if (heads >= 1 && heads <= HEADS_MOST) return heads;
  tn_lower_fail(lower, "attribute '%s' is %lld: expected a number of heads from 1 to %d", name,
                (long long)heads, HEADS_MOST);
  return 1;
}

void tn_contrib_scale(tn_lower_t *lower, char out_text[40]) {
  const tn_onnx_attribute_t *scale = tn_lower_typed(lower, "scale", TN_ATTRIBUTE_FLOAT);
  *out_text = 0;
  if (scale && scale->f != 0) snprintf(out_text, 40, "scale=%.9g, ", scale->f);
}

static void refuse_flag(tn_lower_t *lower, const char *name) {
  if (tn_lower_int(lower, name, 0))
    tn_lower_missing(lower,
                     "attribute '%s' is set, which ONNX Runtime's CPU provider does not "
                     "support either: export the model for the CPU",
                     name);
}

static void refuse_input(tn_lower_t *lower, int32_t index, const char *name) {
  if (tn_lower_input(lower, index))
    tn_lower_missing(lower,
                     "input `%s` is not supported: export the model with past and present "
                     "in tensors of their own",
                     name);
}

/* Masks */

/* A mask of lengths: [batch], or [2 * batch] with the ends followed by the beginnings. `total` is
 * the number of keys. */
static tn_ref_t *mask_of_lengths(tn_lower_t *lower, tn_ref_t *mask, tn_ref_t *x, tn_ref_t *total) {
  int64_t count = tn_lower_find_extent(lower, mask, 0);
  int64_t batch = tn_lower_find_extent(lower, x, 0);
  tn_ref_t *columns = tn_lower_run(lower, TN_REFS(total), "range(0:i64, a, 1:i64)");
  if (count < 0 || batch < 0 || count == batch)
    return tn_lower_run(lower, TN_REFS(mask, columns, x),
                        "less(b, reshape(cast(a, to='i64'), concat([shape(c, start=0, end=1), "
                        "[1, 1, 1]:i64], axis=0)))");
  if (count == 2 * batch)
    return tn_lower_run(lower, TN_REFS(mask, columns),
                        "end, begin = split(reshape(cast(a, to='i64'), [2, -1, 1, 1, 1]:i64), "
                        "axis=0, count=2); and(less(b, squeeze(end, [0]:i64)), "
                        "greater_equal(b, squeeze(begin, [0]:i64)))");
  tn_lower_missing(lower,
                   "the mask has %lld elements for %lld rows: expected the length of each "
                   "row, or ends and beginnings",
                   (long long)count, (long long)batch);
  return NULL;
}

/* The mask as numbers to add to scores [batch, heads, queries, keys]: 0 for keys that take part,
 * else the attribute mask_filter_value. NULL: there is no mask. */
static tn_ref_t *mask_numbers(tn_lower_t *lower, tn_ref_t *mask, tn_ref_t *x, tn_ref_t *total) {
  const tn_onnx_attribute_t *attr = tn_lower_typed(lower, "mask_filter_value", TN_ATTRIBUTE_FLOAT);
  double filter = attr ? attr->f : -10000.0;
  tn_ref_t *keeps = NULL;
  if (!mask) return NULL;
  switch (tn_lower_rank(lower, mask)) {
  case 1:
    keeps = mask_of_lengths(lower, mask, x, total);
    break;
  case 2:
    keeps = tn_lower_run(lower, TN_REFS(mask), "greater(unsqueeze(a, [1, 2]:i64), 0:a)");
    break;
  case 3:
    keeps = tn_lower_run(lower, TN_REFS(mask), "greater(unsqueeze(a, [1]:i64), 0:a)");
    break;
  default:
    tn_lower_missing(lower, "the mask has %d axes: expected 1 to 3",
                     (int)tn_lower_rank(lower, mask));
  }
  return tn_lower_run(lower, TN_REFS(keeps, x), "where(a, 0:b, %.9g:b)", filter);
}

static tn_ref_t *add_optional(tn_lower_t *lower, tn_ref_t *a, tn_ref_t *b) {
  if (!a || !b) return a ? a : b;
  return tn_lower_run(lower, TN_REFS(a, b), "add(a, b)");
}

/* The number of keys: those of the past, whose axis is the last but one, and `count` new ones. */
static tn_ref_t *total_keys(tn_lower_t *lower, tn_ref_t *past, tn_ref_t *x, int axis) {
  tn_ref_t *count = tn_lower_run(lower, TN_REFS(x), "squeeze(shape(a, start=%d, end=%d), [0]:i64)",
                                 axis, axis + 1);
  if (!past) return count;
  return tn_lower_run(lower, TN_REFS(count, past),
                      "add(a, squeeze(shape(b, start=-2, end=-1), [0]:i64))");
}

/* Attention and QAttention: one product gives queries, keys and values. */

typedef struct packed_t {
  tn_ref_t *x;       /* [batch, length, inputs] */
  tn_ref_t *product; /* [batch, length, queries + keys + values] */
  tn_ref_t *mask;
  tn_ref_t *past; /* [2, batch, heads, length, size] */
  tn_ref_t *bias; /* numbers that are added to the scores */
} packed_t;

static void attend_packed(tn_lower_t *lower, const packed_t *packed) {
  int64_t heads = tn_contrib_heads(lower, "num_heads");
  bool is_causal = tn_lower_int(lower, "unidirectional", 0) != 0;
  tn_ref_t *sizes = tn_lower_attr_tensor(lower, "qkv_hidden_sizes");
  tn_ref_t *total = total_keys(lower, packed->past, packed->x, 1);
  tn_ref_t *key = NULL;
  tn_ref_t *value = NULL;
  int32_t count = 0;
  char scale[40];
  refuse_flag(lower, "do_rotary");
  refuse_flag(lower, "past_present_share_buffer");
  (void)tn_lower_int(lower, "rotary_embedding_dim", 0);
  tn_contrib_scale(lower, scale);
  tn_ref_t *mask = mask_numbers(lower, packed->mask, packed->product, total);
  mask = add_optional(lower, mask, packed->bias);
  if (packed->past) {
    key =
        tn_lower_run(lower, TN_REFS(packed->past), "squeeze(slice(a, [0]:i64, [1]:i64), [0]:i64)");
    value =
        tn_lower_run(lower, TN_REFS(packed->past), "squeeze(slice(a, [1]:i64, [2]:i64), [0]:i64)");
  }
  tn_ref_t *const *results = tn_lower_run_all(
      lower, TN_REFS(packed->product, sizes, mask, key, value), &count,
      "q, k, v = split(a, b, axis=-1, count=3); attention(q, k, v, c, d, e, %sis_causal=%s, "
      "q_num_heads=%lld, kv_num_heads=%lld)",
      scale, is_causal ? "True" : "False", (long long)heads, (long long)heads);
  if (count < 3) return;
  lower->outputs[0] = results[0];
  if (lower->output_count > 1)
    lower->outputs[1] =
        tn_lower_run(lower, TN_REFS(results[1], results[2]),
                     "concat([unsqueeze(a, [0]:i64), unsqueeze(b, [0]:i64)], axis=0)");
}

static void lower_attention(tn_lower_t *lower) {
  packed_t packed = {.x = lower->inputs[0],
                     .mask = tn_lower_input(lower, 3),
                     .past = tn_lower_input(lower, 4),
                     .bias = tn_lower_input(lower, 5)};
  refuse_input(lower, 6, "past_sequence_length");
  packed.product = tn_lower_run(
      lower, TN_REFS(packed.x, lower->inputs[1], tn_lower_input(lower, 2)), "matmul(a, b, c)");
  attend_packed(lower, &packed);
}

static void lower_quantised_attention(tn_lower_t *lower) {
  packed_t packed = {
      .x = lower->inputs[0], .mask = tn_lower_input(lower, 5), .past = tn_lower_input(lower, 8)};
  tn_ref_t *product = tn_contrib_integer_matmul(lower, packed.x, lower->inputs[1], lower->inputs[3],
                                                lower->inputs[4], tn_lower_input(lower, 6),
                                                tn_lower_input(lower, 7));
  packed.product = tn_lower_run(lower, TN_REFS(product, lower->inputs[2]), "add(a, b)");
  attend_packed(lower, &packed);
}

/* MultiHeadAttention */

/* Adds the part of the bias that belongs to queries (0), keys (1) or values (2). Queries and keys
 * have the same size. */
static tn_ref_t *add_bias(tn_lower_t *lower, tn_ref_t *x, tn_ref_t *bias, tn_ref_t *query,
                          int part) {
  static const char *const slices[] = {
      "n = shape(c, start=2); add(a, slice(b, [0]:i64, n))",
      "n = shape(c, start=2); add(a, slice(b, n, add(n, n)))",
      "n = shape(c, start=2); add(a, slice(b, add(n, n), [9223372036854775807]:i64))"};
  if (!bias) return x;
  return tn_lower_run(lower, TN_REFS(x, bias, query), "%s", slices[part]);
}

/* Keys and values with four axes come from the encoder's cache, with their bias. */
static void lower_multi_head(tn_lower_t *lower) {
  tn_ref_t *query = lower->inputs[0];
  tn_ref_t *key = tn_lower_input(lower, 1);
  tn_ref_t *value = tn_lower_input(lower, 2);
  tn_ref_t *bias = tn_lower_input(lower, 3);
  tn_ref_t *past = tn_lower_input(lower, 6);
  int64_t heads = tn_contrib_heads(lower, "num_heads");
  bool is_causal = tn_lower_int(lower, "unidirectional", 0) != 0;
  int32_t count = 0;
  char scale[40];
  tn_contrib_scale(lower, scale);
  refuse_input(lower, 8, "past_sequence_length");
  refuse_input(lower, 9, "cache_indirection");
  if (!key || !value) {
    tn_lower_missing(lower, "query, key and value are packed in one input, which ONNX Runtime's "
                            "CPU provider does not support either: pass them as three inputs");
    return;
  }
  int32_t rank = tn_lower_rank(lower, key);
  if (tn_lower_rank(lower, query) != 3 || (rank != 3 && rank != 4))
    tn_lower_fail(lower,
                  "query and key have %d and %d axes: expected 3 for the query, and 3 or 4 "
                  "for the key",
                  (int)tn_lower_rank(lower, query), (int)rank);
  tn_ref_t *total = total_keys(lower, past, key, rank == 4 ? 2 : 1);
  tn_ref_t *mask = mask_numbers(lower, tn_lower_input(lower, 4), query, total);
  mask = add_optional(lower, mask, tn_lower_input(lower, 5));
  tn_ref_t *q = add_bias(lower, query, bias, query, 0);
  if (rank == 3) {
    key = add_bias(lower, key, bias, query, 1);
    value = add_bias(lower, value, bias, query, 2);
  }
  tn_ref_t *const *results =
      tn_lower_run_all(lower, TN_REFS(q, key, value, mask, past, tn_lower_input(lower, 7)), &count,
                       "attention(a, b, c, d, e, f, %sis_causal=%s, q_num_heads=%lld, "
                       "kv_num_heads=%lld)",
                       scale, is_causal ? "True" : "False", (long long)heads, (long long)heads);
  for (int32_t i = 0; i < 3 && i < lower->output_count && i < count; i++)
    lower->outputs[i] = results[i];
}

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"Attention(x, w, bias?, mask?, past?, attention_bias?, past_length?)", 1, lower_attention},
  {"QAttention(x, w, bias, x_scale, w_scale, mask?, x_zero?, w_zero?, past?)", 1,
   lower_quantised_attention},
  {"MultiHeadAttention(q, k?, v?, bias?, mask?, attention_bias?, past_k?, past_v?, past_length?, "
   "cache_indirection?)", 1, lower_multi_head},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_contrib_attention, "com.microsoft");
