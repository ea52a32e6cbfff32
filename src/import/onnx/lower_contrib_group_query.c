/* Lowering of GroupQueryAttention of com.microsoft: attention of decoders, whose query heads share
 * the heads of keys and values, with rotary embedding and a cache whose rows have lengths of their
 * own. */
#include <stdio.h>

#include "import/onnx/lower_contrib.h"

enum {
  QUERY,
  KEY,
  VALUE,
  PAST_KEY,
  PAST_VALUE,
  LENGTHS,
  TOTAL,
  COS,
  SIN,
  POSITIONS,
  BIAS,
  FIRST_REFUSED,
};

typedef struct group_t {
  int64_t heads;
  int64_t kv_heads;
  tn_ref_t *q; /* [batch, length, heads * size] */
  tn_ref_t *k;
  tn_ref_t *v;
  tn_ref_t *begin;     /* [batch]: the position of each row's first query */
  tn_ref_t *positions; /* [batch, length] */
} group_t;

static void refuse_options(tn_lower_t *lower) {
  static const char *const inputs[] = {"head_sink", "k_scale", "v_scale", "q_norm_weight",
                                       "k_norm_weight"};
  static const char *const flags[] = {"smooth_softmax", "qk_output", "sliding_window_cache",
                                      "kv_cache_bit_width"};
  for (int32_t i = 0; i < 5; i++)
    if (tn_lower_input(lower, FIRST_REFUSED + i))
      tn_lower_missing(lower, "input `%s` is not supported", inputs[i]);
  for (int32_t i = 0; i < 4; i++)
    if (tn_lower_int(lower, flags[i], 0) > 0)
      tn_lower_missing(lower, "attribute '%s' is %lld: expected 0", flags[i],
                       (long long)tn_lower_int(lower, flags[i], 0));
  (void)tn_lower_attr(lower, "k_quant_type");
  (void)tn_lower_attr(lower, "v_quant_type");
  (void)tn_lower_attr(lower, "qk_norm_epsilon");
  if (tn_lower_int(lower, "causal", 1) != 1)
    tn_lower_missing(lower, "attribute 'causal' is 0: expected 1");
}

/* Takes queries, keys and values apart if they are one input. */
static void unpack_group(tn_lower_t *lower, group_t *group) {
  group->q = lower->inputs[QUERY];
  group->k = tn_lower_input(lower, KEY);
  group->v = tn_lower_input(lower, VALUE);
  if (tn_lower_rank(lower, group->q) != 3)
    tn_lower_fail(lower, "query has %d axes: expected [batch, length, heads * size]",
                  (int)tn_lower_rank(lower, group->q));
  if (!group->k != !group->v)
    tn_lower_fail(lower, "key and value must be given together, but only one is given");
  if (group->k) return;
  int64_t hidden = tn_lower_extent(lower, group->q, 2);
  int64_t parts = group->heads + 2 * group->kv_heads;
  if (hidden % parts)
    tn_lower_fail(lower,
                  "query has %lld elements in each position, which is not a multiple of "
                  "its %lld heads",
                  (long long)hidden, (long long)parts);
  int64_t size = hidden / parts;
  int32_t count = 0;
  tn_ref_t *const *all = tn_lower_run_all(
      lower, TN_REFS(group->q), &count, "split(a, [%lld, %lld, %lld]:i64, axis=-1, count=3)",
      (long long)(size * group->heads), (long long)(size * group->kv_heads),
      (long long)(size * group->kv_heads));
  if (count != 3) return;
  group->q = all[0];
  group->k = all[1];
  group->v = all[2];
}

/* LENGTHS holds the last valid position of each row. A prompt begins at 0, whatever its padding. */
static void find_positions(tn_lower_t *lower, group_t *group) {
  tn_ref_t *lengths = lower->inputs[LENGTHS];
  group->begin = tn_lower_run(lower, TN_REFS(group->q, lengths),
                              "max(add(sub(reshape(cast(b, to='i64'), [-1]:i64), "
                              "shape(a, start=1, end=2)), 1:i64), 0:i64)");
  group->positions = tn_lower_run(lower, TN_REFS(group->q, group->begin),
                                  "add(unsqueeze(b, [1]:i64), range(0:i64, "
                                  "squeeze(shape(a, start=1, end=2), [0]:i64), 1:i64))");
}

static tn_ref_t *rotate(tn_lower_t *lower, const group_t *group, tn_ref_t *x, int64_t heads) {
  tn_ref_t *cos = tn_lower_input(lower, COS);
  tn_ref_t *sin = tn_lower_input(lower, SIN);
  tn_ref_t *positions = tn_lower_input(lower, POSITIONS);
  if (!cos || !sin) {
    tn_lower_fail(lower, "attribute 'do_rotary' is set, but cos_cache or sin_cache is missing");
    return NULL;
  }
  return tn_lower_run(
      lower, TN_REFS(x, cos, sin, positions ? positions : group->positions),
      "rotary_embedding(a, b, c, d, interleaved=rotary_interleaved, num_heads=%lld, "
      "rotary_embedding_dim=%lld)",
      (long long)heads, (long long)(2 * tn_lower_extent(lower, cos, -1)));
}

/* The keys or values of the cache with the new ones written behind the valid ones of each row. */
static tn_ref_t *update_cache(tn_lower_t *lower, const group_t *group, tn_ref_t *x,
                              tn_ref_t *past) {
  x = tn_lower_run(lower, TN_REFS(x),
                   "transpose(reshape(a, [0, 0, %lld, -1]:i64), perm=[0, 2, 1, 3])",
                   (long long)group->kv_heads);
  if (!past) return x;
  tn_ref_t *total = lower->inputs[TOTAL];
  tn_ref_t *room = tn_lower_run(lower, TN_REFS(past, total),
                                "n = shape(a, start=2, end=3); concat([[0, 0, 0, 0, 0, 0]:i64, "
                                "sub(max(n, reshape(cast(b, to='i64'), [1]:i64)), n), [0]:i64], "
                                "axis=0)");
  return tn_lower_run(lower, TN_REFS(past, room, x, group->begin),
                      "tensor_scatter(pad(a, b), c, d, axis=2)");
}

/* True for the keys that a query sees: those up to its own position, and within the window. */
static tn_ref_t *visible_keys(tn_lower_t *lower, const group_t *group, tn_ref_t *keys) {
  int64_t window = tn_lower_int(lower, "local_window_size", -1);
  tn_ref_t *columns = tn_lower_run(
      lower, TN_REFS(keys), "range(0:i64, squeeze(shape(a, start=2, end=3), [0]:i64), 1:i64)");
  tn_ref_t *rows = tn_lower_run(lower, TN_REFS(group->positions), "unsqueeze(a, [1, 3]:i64)");
  tn_ref_t *seen = tn_lower_run(lower, TN_REFS(columns, rows), "less_equal(a, b)");
  if (window < 0) return seen;
  return tn_lower_run(lower, TN_REFS(columns, rows, seen), "and(c, greater(a, sub(b, %lld:i64)))",
                      (long long)window);
}

static void lower_group_query(tn_lower_t *lower) {
  group_t group = {.heads = tn_contrib_heads(lower, "num_heads"),
                   .kv_heads = tn_contrib_heads(lower, "kv_num_heads")};
  char scale[40];
  tn_contrib_scale(lower, scale);
  refuse_options(lower);
  if (group.heads % group.kv_heads)
    tn_lower_fail(lower, "num_heads is %lld, which is not a multiple of kv_num_heads, %lld",
                  (long long)group.heads, (long long)group.kv_heads);
  tn_ref_t *past = tn_lower_input(lower, PAST_KEY);
  if (!past != !tn_lower_input(lower, PAST_VALUE))
    tn_lower_fail(lower, "past_key and past_value must be given together, but only one is given");
  unpack_group(lower, &group);
  find_positions(lower, &group);
  (void)tn_lower_attr(lower, "rotary_interleaved");
  if (tn_lower_int(lower, "do_rotary", 0)) {
    group.q = rotate(lower, &group, group.q, group.heads);
    group.k = rotate(lower, &group, group.k, group.kv_heads);
  }
  tn_ref_t *key = update_cache(lower, &group, group.k, past);
  tn_ref_t *value = update_cache(lower, &group, group.v, tn_lower_input(lower, PAST_VALUE));
  tn_ref_t *mask = visible_keys(lower, &group, key);
  tn_ref_t *bias = tn_lower_input(lower, BIAS);
  if (bias) mask = tn_lower_run(lower, TN_REFS(mask, bias), "where(a, b, -inf:b)");
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(group.q, key, value, mask),
                                   "attention(a, b, c, d, %ssoftcap=softcap?0.0, q_num_heads=%lld, "
                                   "kv_num_heads=%lld)",
                                   scale, (long long)group.heads, (long long)group.kv_heads);
  if (lower->output_count > 1) lower->outputs[1] = key;
  if (lower->output_count > 2) lower->outputs[2] = value;
}

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"GroupQueryAttention(q, k?, v?, past_k?, past_v?, lengths, total, cos?, sin?, positions?, "
   "bias?, head_sink?, k_scale?, v_scale?, q_norm?, k_norm?)", 1, lower_group_query},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_contrib_group_query, "com.microsoft");
