/* Makes a random graph from a number. */
#ifndef TENON_TESTS_RANDOM_GENERATE_H
#define TENON_TESTS_RANDOM_GENERATE_H

#include "planted.h"

typedef int32_t (*piece_t)(draft_t *d);

/* Adds a piece; those that stand here more often are likelier. */
static int32_t add_piece(draft_t *d) {
  static const piece_t pieces[] = {
      add_function,         add_function,    add_function,  add_arithmetic,
      add_arithmetic,       add_arithmetic,  add_root,      add_choice,
      add_limits,           add_detour,      add_fold,      add_fold,
      add_softmax,          add_norm,        add_norm,      add_linear,
      add_linear,           add_scores,      add_transpose, add_reshape,
      add_thin_axis,        add_slice,       add_concat,    add_split,
      add_gather,           add_expand,      add_pad,       add_size,
      add_computed_reshape, add_integers,    add_conv,      add_conv,
      add_branches,         add_padded_conv, add_pool,      add_max_pool,
      add_branch,           add_loop};
  return pieces[pick(d, sizeof pieces / sizeof *pieces)](d);
}

/* Adds a piece that a rule without a text looks for. */
static int32_t add_written(draft_t *d) {
  static const piece_t pieces[] = {
      write_softmax,     write_layer_norm,   write_instance_norm,      write_group_norm,
      write_attention,   write_rotary,       write_same_shape,         write_cast_back,
      write_whole_slice, write_whole_gather, write_single_split,       write_transposes,
      write_reshapes,    write_joined_axes,  write_transposed_product, write_again,
      write_again,       write_quantised,    write_joined_again};
  return pieces[pick(d, sizeof pieces / sizeof *pieces)](d);
}

static int32_t add_planted(draft_t *d, const tn_rules_t *rules) {
  const tn_rewrite_use_t *use;
  do
    use = &rules->uses[pick(d, (uint32_t)rules->count)];
  while (!use->text);
  return plant_rule(d, use->text);
}

/* The results of a graph: its last values, which no node reads, and one in the middle. */
static void choose_outputs(draft_t *d) {
  for (int32_t v = d->value_count - 1; v >= 0 && d->output_count < 5; v--)
    if (d->values[v].node >= 0 && !d->values[v].is_read) d->outputs[d->output_count++] = v;
  for (int tries = 0; tries < 20; tries++) {
    const int32_t v = (int32_t)pick(d, (uint32_t)d->value_count);
    bool is_there = d->values[v].node < 0;
    for (int32_t o = 0; o < d->output_count; o++)
      is_there |= d->outputs[o] == v;
    if (is_there) continue;
    d->outputs[d->output_count++] = v;
    return;
  }
}

static uint32_t pick_dtype(draft_t *d) {
  const uint32_t number = pick(d, 100);
  if (number < 72) return TENON_F32;
  if (number < 84) return TENON_F16;
  return number < 90 ? TENON_BF16 : TENON_F64;
}

static draft_t *generate(uint64_t seed, const tn_rules_t *rules) {
  draft_t *d = create_draft(seed);
  const bool is_large = chance(d, 4);
  d->dtype = pick_dtype(d);
  d->is_dynamic = chance(d, 50);
  d->is_nameless = d->is_dynamic && chance(d, 25);
  d->most = is_large ? (lengths_t){600, 5}
                     : (lengths_t){3 + (int32_t)pick(d, 10), 2 + (int32_t)pick(d, 6)};
  for (uint32_t i = 1 + pick(d, 2); i > 0; i--)
    add_random_input(d, d->dtype);
  for (uint32_t steps = 3 + pick(d, chance(d, 15) ? 30 : 10); steps > 0; steps--) {
    const uint32_t kind = pick(d, 10);
    if (kind < 2)
      add_written(d);
    else if (kind < 4)
      add_planted(d, rules);
    else
      add_piece(d);
  }
  choose_outputs(d);
  return d;
}

#endif
