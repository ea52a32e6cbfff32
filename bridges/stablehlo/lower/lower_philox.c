/* Lowers rng_bit_generator by the algorithm Philox 4x32-10 (Salmon and others, "Parallel random
 * numbers: as easy as 1, 2, 3"), which XLA uses on CPUs and GPUs. The state has a key and a
 * counter, each of 64 bits; each counter gives four words of 32 bits, which are computed here in 64
 * bits. */
#include <string.h>

#include "lower/arguments.h"
#include "lower/expression.h"
#include "lower/lower.h"

/* The low 32 bits, and the high ones. */
static tenon_edge_t low_word(hlo_lower_t *lower, tenon_edge_t x) {
  return hlo_run(lower, EDGES(x), "bitwise_and(a, 4294967295:u64)");
}

static tenon_edge_t high_word(hlo_lower_t *lower, tenon_edge_t x) {
  return hlo_run(lower, EDGES(x), "shift_right(a, 32:u64)");
}

/* Mixes four words in ten rounds; the key grows from round to round. */
static void mix_words(hlo_lower_t *lower, tenon_edge_t *words, tenon_edge_t *keys) {
  for (int round = 0; round < 10 && !hlo_stopped(lower); round++) {
    tenon_edge_t first = hlo_run(lower, EDGES(words[0]), "mul(a, %u:u64)", 0xD2511F53u);
    tenon_edge_t second = hlo_run(lower, EDGES(words[2]), "mul(a, %u:u64)", 0xCD9E8D57u);
    words[0] = hlo_run(lower, EDGES(high_word(lower, second), words[1], keys[0]),
                       "bitwise_xor(bitwise_xor(a, b), c)");
    words[2] = hlo_run(lower, EDGES(high_word(lower, first), words[3], keys[1]),
                       "bitwise_xor(bitwise_xor(a, b), c)");
    words[1] = low_word(lower, second);
    words[3] = low_word(lower, first);
    keys[0] = low_word(lower, hlo_run(lower, EDGES(keys[0]), "add(a, %u:u64)", 0x9E3779B9u));
    keys[1] = low_word(lower, hlo_run(lower, EDGES(keys[1]), "add(a, %u:u64)", 0xBB67AE85u));
  }
}

/* Makes `count` numbers of 64 or 32 bits of the words of all counters. */
static tenon_edge_t join_words(hlo_lower_t *lower, const tenon_edge_t *words, int64_t count,
                               int bits) {
  tenon_edge_t all =
      hlo_run(lower, EDGES(words[0], words[1], words[2], words[3]),
              "concat([unsqueeze(a, [1]), unsqueeze(b, [1]), unsqueeze(c, [1]), unsqueeze(d, "
              "[1])], axis=1)");
  if (bits == 64) {
    tenon_edge_t low = hlo_run(lower, EDGES(all), "slice(a, [0], [4], [1], [2])");
    tenon_edge_t high = hlo_run(lower, EDGES(all), "slice(a, [1], [4], [1], [2])");
    all = hlo_run(lower, EDGES(low, high), "bitwise_or(a, shift_left(b, 32:u64))");
  }
  all = hlo_run(lower, EDGES(all), "reshape(a, [-1])");
  all = hlo_slice(lower, all, 0, 0, count, 1);
  return bits == 64 ? all : hlo_run(lower, EDGES(all), "cast(a, to=u32)");
}

static void lower_bits(hlo_lower_t *lower) {
  const char *algorithm = hlo_attr_word(lower, "algorithm", "rng_algorithm", "DEFAULT");
  const hlo_type_t *state_type = hlo_operand_type(lower, 0);
  const hlo_type_t *type = hlo_result_type(lower, 1);
  int64_t count = 1;
  if (strcmp(algorithm, "THREE_FRY") == 0)
    hlo_missing(lower, "the algorithm THREE_FRY: use DEFAULT or PHILOX");
  if (state_type->ndim != 1 || state_type->dims[0] != 2 || state_type->dtype.bits != 64)
    hlo_missing(lower, "a state other than tensor<2xui64>");
  if (!hlo_type_is_static(type) || type->dtype.code > 1 || type->dtype.bits < 32)
    hlo_missing(lower, "results other than integers of 32 or 64 bits with known extents");
  for (int32_t i = 0; i < type->ndim && !hlo_stopped(lower); i++)
    count *= type->dims[i];
  if (hlo_stopped(lower)) return;
  int64_t per_counter = type->dtype.bits == 64 ? 2 : 4;
  int64_t counters = count / per_counter + (count % per_counter != 0);
  tenon_edge_t state = hlo_cast(lower, hlo_edge(lower, 0), tenon_dtype(TENON_U64));
  tenon_edge_t key = hlo_slice(lower, state, 0, 0, 1, 1);
  tenon_edge_t counter = hlo_slice(lower, state, 0, 1, 2, 1);
  tenon_edge_t steps =
      hlo_run(lower, EDGES(hlo_iota(lower, counters, 0, 1), counter), "add(cast(a, to=u64), b)");
  tenon_edge_t keys[2] = {low_word(lower, key), high_word(lower, key)};
  tenon_edge_t words[4] = {low_word(lower, steps), high_word(lower, steps)};
  words[2] = hlo_run(lower, EDGES(keys[0], steps), "expand(a, shape(b))");
  words[3] = hlo_run(lower, EDGES(keys[1], steps), "expand(a, shape(b))");
  mix_words(lower, words, keys);
  tenon_edge_t bits = join_words(lower, words, count, type->dtype.bits);
  tenon_edge_t next = hlo_run(lower, EDGES(key, counter), "concat([a, add(b, %lld:u64)], axis=0)",
                              (long long)counters);
  hlo_give(lower, 0,
           hlo_run(lower, EDGES(next), "bit_cast(a, to=%s)", tenon_dtype_name(state_type->dtype)));
  bits = hlo_run(lower, EDGES(bits), "bit_cast(a, to=%s)", tenon_dtype_name(type->dtype));
  hlo_give(lower, 1, hlo_reshape(lower, bits, type->dims, type->ndim));
}

static const hlo_row_t rows[] = {
    {"stablehlo.rng_bit_generator", NULL, NULL, NULL, lower_bits, 0, NULL},
};

HLO_ROWS(hlo_rows_philox);
