/* Pieces of random graphs that rewriting rules look for and that a text does not describe: norms,
 * softmax, attention and rotary embeddings as exporters write them out, moves that undo each other,
 * and 8-bit numbers. */
#ifndef TENON_TESTS_RANDOM_WRITTEN_H
#define TENON_TESTS_RANDOM_WRITTEN_H

#include "control.h"

/* Adds a reduction over the axes, which stay. */
static int32_t add_kept_fold(draft_t *d, const char *op, int32_t x, int32_t first, double most) {
  int32_t axes[RANK_MOST];
  value_t value = d->values[x];
  int32_t count = 0;
  const bool is_negative = chance(d, 50);
  for (int32_t i = first; i < value.rank; i++) {
    axes[count++] = is_negative ? i - value.rank : i;
    value.shape[i] = fixed(1);
  }
  const int32_t list = add_list(d, count, axes);
  part_t *part = add_part(d, op);
  read_value(d, part, x);
  read_value(d, part, list);
  value.most = most;
  value.is_exact = false;
  return add_result(d, value);
}

static int32_t add_sub(draft_t *d, int32_t a, int32_t b) {
  return add_two(d, "core::sub", a, b, d->values[a].dtype, d->values[a].most + d->values[b].most);
}

static int32_t write_softmax(draft_t *d) {
  const int32_t x = find_bounded(d, 8);
  if (x < 0 || !d->values[x].rank) return -1;
  const int32_t last = d->values[x].rank - 1;
  const int32_t most = add_kept_fold(d, "core::reduce_max", x, last, 8);
  const int32_t power = add_like(d, "core::exp", NULL, add_sub(d, x, most), 1);
  const int32_t sum = add_kept_fold(d, "core::reduce_sum", power, last, ELEMENTS_MOST);
  return add_two(d, "core::div", power, sum, d->values[x].dtype, 1);
}

/* (x - mean) / deviation over the axes from `first` on */
static int32_t write_centred(draft_t *d, int32_t x, int32_t first) {
  const int32_t mean = add_kept_fold(d, "core::reduce_mean", x, first, d->values[x].most);
  const int32_t centred = add_sub(d, x, mean);
  const int32_t square = add_mul(d, centred, centred);
  const int32_t variance = add_kept_fold(d, "core::reduce_mean", square, first, 100);
  const int32_t moved = add_sum(d, variance, add_scalar(d, d->values[x].dtype, 0.1));
  const int32_t deviation = add_like(d, "core::rsqrt", NULL, moved, 3.2);
  const int32_t result = add_mul(d, centred, deviation);
  d->values[result].most = 30;
  return result;
}

static int32_t write_layer_norm(draft_t *d) {
  const int32_t x = find_bounded(d, 8);
  if (x < 0 || !d->values[x].rank) return -1;
  int32_t y = write_centred(d, x, d->values[x].rank - 1);
  const int32_t scale = add_row_of(d, x);
  const int32_t bias = add_row_of(d, x);
  if (scale >= 0 && chance(d, 70)) y = add_mul(d, y, scale);
  if (bias >= 0 && chance(d, 70)) y = add_sum(d, y, bias);
  return bounded(d, y, 8);
}

static int32_t write_instance_norm(draft_t *d) {
  const int32_t x = find_image(d);
  if (x < 0) return x;
  const int32_t channels = d->values[x].shape[1].plus;
  int32_t y = write_centred(d, x, 2);
  y = add_mul(d, y, add_per_channel(d, channels, 0.5, 1.5));
  if (chance(d, 70)) y = add_sum(d, y, add_per_channel(d, channels, -1, 1));
  return bounded(d, y, 8);
}

static int32_t write_group_norm(draft_t *d) {
  const int32_t x = find_image(d);
  if (x < 0) return x;
  const value_t from = d->values[x];
  const int32_t channels = from.shape[1].plus;
  const int32_t groups = channels % 2 == 0 && chance(d, 70) ? 2 : 1;
  const double side = (double)(from.shape[2].n + from.shape[2].m);
  if (side > 0 || !is_fixed(from.shape[3])) return -1; /* their product is no extent */
  const extent_t extents[3] = {from.shape[0], fixed(groups),
                               fixed(channels / groups * from.shape[2].plus * from.shape[3].plus)};
  const int32_t numbers[3] = {0, groups, -1};
  const int32_t grouped = add_reshape_to(d, x, add_list(d, 3, numbers), 3, extents);
  const int64_t row[1] = {groups};
  const double ones[2] = {1, 1}, zeros[2] = {0, 0};
  const int32_t scale = add_constant(d, from.dtype, 1, row, ones, 0, 0);
  const int32_t bias = add_constant(d, from.dtype, 1, row, zeros, 0, 0);
  const int32_t normed = add_like(d, "core::instance_norm", "epsilon=0.1", grouped, 30);
  read_value(d, &d->nodes[d->node_count - 1], scale);
  read_value(d, &d->nodes[d->node_count - 1], bias);
  const int32_t shape = add_shape(d, x);
  int32_t y = add_reshape_to(d, normed, shape, 4, from.shape);
  y = add_mul(d, y, add_per_channel(d, channels, 0.5, 1.5));
  if (chance(d, 70)) y = add_sum(d, y, add_per_channel(d, channels, -1, 1));
  return bounded(d, y, 8);
}

/* An input [batch, heads, length, size]. */
static int32_t add_heads(draft_t *d, extent_t batch, int32_t heads, extent_t length, int32_t size) {
  const extent_t shape[4] = {batch, fixed(heads), length, fixed(size)};
  return add_input(d, d->dtype, 4, shape, 1.5);
}

static int32_t add_moved_axes(draft_t *d, int32_t x, const int *order) {
  value_t value = d->values[x];
  part_t *part = begin_move(d, "core::transpose", x);
  snprintf(part->attrs, sizeof part->attrs, "perm=[%d,%d,%d,%d]", order[0], order[1], order[2],
           order[3]);
  for (int i = 0; i < 4; i++)
    value.shape[i] = d->values[x].shape[order[i]];
  return add_result(d, value);
}

static int32_t add_product(draft_t *d, int32_t a, int32_t b, double most) {
  value_t value = d->values[a];
  value.shape[value.rank - 1] = d->values[b].shape[value.rank - 1];
  value.most = most;
  value.is_exact = false;
  part_t *part = add_part(d, "core::matmul");
  read_value(d, part, a);
  read_value(d, part, b);
  return add_result(d, value);
}

/* Heads as a part of the last axis, which a reshape and a transpose take apart. */
static int32_t add_flat_heads(draft_t *d, extent_t batch, int32_t heads, extent_t length,
                              int32_t size) {
  static const int order[4] = {0, 2, 1, 3};
  const int32_t numbers[4] = {0, 0, heads, size};
  const extent_t flat[3] = {batch, length, fixed(heads * size)};
  const extent_t apart[4] = {batch, length, fixed(heads), fixed(size)};
  const int32_t x = add_input(d, d->dtype, 3, flat, 1.5);
  const int32_t y = add_reshape_to(d, x, add_list(d, 4, numbers), 4, apart);
  return add_moved_axes(d, y, order);
}

static int32_t write_attention(draft_t *d) {
  static const int order[4] = {0, 1, 3, 2};
  if (d->is_body) return -1;
  const int32_t heads = 1 + (int32_t)pick(d, 3);
  const int32_t size = 4 << pick(d, 2);
  const extent_t batch = fixed(1 + (int32_t)pick(d, 2));
  const extent_t length = {1, 0, 0};
  const extent_t keys = chance(d, 70) ? length : (extent_t){0, 1, 0};
  const bool is_flat = chance(d, 40);
  const int32_t q = is_flat ? add_flat_heads(d, batch, heads, length, size)
                            : add_heads(d, batch, heads, length, size);
  const int32_t k = is_flat ? add_flat_heads(d, batch, heads, keys, size)
                            : add_heads(d, batch, heads, keys, size);
  const int32_t v = is_flat ? add_flat_heads(d, batch, heads, keys, size)
                            : add_heads(d, batch, heads, keys, size);
  int32_t turned = add_moved_axes(d, k, order);
  const int32_t scaled = chance(d, 30) ? add_mul(d, q, add_scalar(d, d->dtype, 0.7)) : q;
  if (chance(d, 30)) turned = add_mul(d, turned, add_scalar(d, d->dtype, 1.25));
  int32_t scores = add_product(d, scaled, turned, 40);
  if (chance(d, 70)) scores = add_mul(d, scores, add_scalar(d, d->dtype, 0.35));
  if (chance(d, 50))
    scores = add_sum(d, scores, add_input(d, d->dtype, 2, (extent_t[]){length, keys}, 1));
  const int32_t weights = add_like(d, "core::softmax", NULL, scores, 1);
  int32_t y = add_product(d, weights, v, 2);
  if (!is_flat || chance(d, 30)) return y;
  static const int back[4] = {0, 2, 1, 3};
  const int32_t numbers[3] = {0, 0, heads * size};
  const extent_t flat[3] = {batch, length, fixed(heads * size)};
  y = add_moved_axes(d, y, back);
  return add_reshape_to(d, y, add_list(d, 3, numbers), 3, flat);
}

/* Half of the last axis of x. */
static int32_t add_half(draft_t *d, int32_t x, int32_t size, bool is_second) {
  const int32_t half = size / 2, zero = 0, three = 3, one = 1, end = 99999999;
  value_t value = d->values[x];
  const int32_t lists[4] = {add_list(d, 1, is_second ? &half : &zero),
                            add_list(d, 1, is_second ? &end : &half), add_list(d, 1, &three),
                            add_list(d, 1, &one)};
  part_t *part = begin_move(d, "core::slice", x);
  for (int i = 0; i < 4; i++)
    read_value(d, part, lists[i]);
  value.shape[3] = fixed(half);
  return add_result(d, value);
}

static int32_t add_pair(draft_t *d, int32_t a, int32_t b) {
  value_t value = d->values[a];
  const int32_t values[2] = {a, b};
  value.shape[value.rank - 1].plus += d->values[b].shape[value.rank - 1].plus;
  value.most = fmax(value.most, d->values[b].most);
  part_t *part = add_part(d, "core::concat");
  read_list(d, part, values, 2);
  snprintf(part->attrs, sizeof part->attrs, "axis=-1");
  return add_result(d, value);
}

static int32_t write_rotary(draft_t *d) {
  if (d->is_body) return -1;
  const int32_t size = 4 << pick(d, 2);
  const extent_t batch = fixed(1 + (int32_t)pick(d, 2));
  const extent_t length = {1, 0, 0};
  const int32_t x = add_heads(d, batch, 1 + (int32_t)pick(d, 3), length, size);
  const extent_t shape[3] = {batch, length, fixed(size / 2)};
  const int32_t angles = add_input(d, d->dtype, 3, shape, 3);
  const int32_t both = add_pair(d, angles, angles);
  const extent_t apart[4] = {batch, fixed(1), length, fixed(size)};
  const int32_t one = 1;
  int32_t waves[2];
  for (int i = 0; i < 2; i++) {
    waves[i] = add_like(d, i ? "core::sin" : "core::cos", NULL, both, 1);
    waves[i] = add_reshape_to(d, waves[i], add_list(d, 1, &one), 4, apart);
    d->nodes[d->node_count - 1].op = "core::unsqueeze";
  }
  const int32_t second = add_half(d, x, size, true);
  const int32_t first = add_half(d, x, size, false);
  const int32_t negative = add_like(d, "core::neg", NULL, second, d->values[x].most);
  const int32_t turned = add_pair(d, negative, first);
  return add_sum(d, add_mul(d, x, waves[0]), add_mul(d, turned, waves[1]));
}

/* Moves that do nothing, or undo each other */

static int32_t write_same_shape(draft_t *d) {
  const int32_t x = find_float(d, is_any);
  if (x < 0) return x;
  const value_t from = d->values[x];
  const uint32_t way = pick(d, 3);
  if (way == 0) return add_cast(d, x, from.dtype);
  const int32_t shape = add_shape(d, x);
  const int32_t y = add_reshape_to(d, x, shape, from.rank, from.shape);
  if (way == 1) d->nodes[d->node_count - 1].op = "core::expand";
  return y;
}

static int32_t write_cast_back(draft_t *d) {
  const int32_t x = find_float(d, is_any);
  if (x < 0 || d->dtype == TENON_F64) return -1;
  const uint32_t wide = d->dtype == TENON_F32 || chance(d, 50) ? TENON_F64 : TENON_F32;
  return add_cast(d, add_cast(d, x, wide), d->dtype);
}

static int32_t write_whole_slice(draft_t *d) {
  const int32_t zero = 0, end = 99999999;
  const int32_t x = find_float(d, has_row);
  if (x < 0) return x;
  const int32_t axis = (int32_t)pick(d, (uint32_t)d->values[x].rank);
  const int32_t lists[3] = {add_list(d, 1, &zero), add_list(d, 1, &end), add_list(d, 1, &axis)};
  const value_t value = d->values[x];
  part_t *part = begin_move(d, "core::slice", x);
  for (int i = 0; i < 3; i++)
    read_value(d, part, lists[i]);
  return add_result(d, value);
}

static int32_t write_whole_gather(draft_t *d) {
  int32_t numbers[16];
  const int32_t x = find_float(d, has_row);
  if (x < 0) return x;
  const value_t value = d->values[x];
  const int32_t axis = (int32_t)pick(d, (uint32_t)value.rank);
  const int32_t count = value.shape[axis].plus;
  if (!is_fixed(value.shape[axis]) || count > 16) return -1;
  for (int32_t i = 0; i < count; i++)
    numbers[i] = i - (chance(d, 30) ? count : 0);
  const int32_t indices = add_list(d, count, numbers);
  part_t *part = begin_move(d, "core::gather", x);
  read_value(d, part, indices);
  snprintf(part->attrs, sizeof part->attrs, "axis=%d", (int)axis);
  return add_result(d, value);
}

static int32_t write_single_split(draft_t *d) {
  const int32_t x = find_float(d, has_row);
  if (x < 0) return x;
  const value_t value = d->values[x];
  part_t *part = begin_move(d, "core::split", x);
  read_value(d, part, -1);
  snprintf(part->attrs, sizeof part->attrs, "axis=0; count=1");
  return add_result(d, value);
}

/* Values that are joined, and joined again with another one before or behind them. */
static int32_t write_joined_again(draft_t *d) {
  static const char *const ops[] = {"core::neg", "core::abs", "core::relu"};
  int32_t values[3];
  const int32_t x = find_float(d, has_row);
  if (x < 0) return x;
  const int32_t axis = chance(d, 50) ? 0 : (int32_t)pick(d, (uint32_t)d->values[x].rank);
  for (int32_t i = 0; i < 3; i++)
    values[i] = add_like(d, ops[i], NULL, x, d->values[x].most);
  const int32_t at = (int32_t)pick(d, 2);
  const int32_t few = join_values(d, values + at, 2, axis);
  if (few < 0) return -1;
  if (chance(d, 50)) add_like(d, "core::neg", NULL, few, d->values[few].most);
  return join_values(d, values, 3, axis);
}

/* Two transposes in turn, or one that changes nothing. */
static int32_t write_transposes(draft_t *d) {
  static const char *const same[] = {
      "", "perm=[0]", "perm=[0,1]", "perm=[0,1,2]", "perm=[0,1,2,3]", "perm=[0,1,2,3,4]"};
  static const char *const turns[] = {
      "", "perm=[0]", "perm=[1,0]", "perm=[1,2,0]", "perm=[1,2,3,0]", "perm=[1,2,3,4,0]"};
  int32_t x = find_float(d, has_row);
  if (x < 0) return x;
  const bool is_same = chance(d, 40);
  for (uint32_t i = is_same ? 1 : 2; i > 0; i--) {
    value_t value = d->values[x];
    part_t *part = begin_move(d, "core::transpose", x);
    snprintf(part->attrs, sizeof part->attrs, "%s", is_same ? same[value.rank] : turns[value.rank]);
    for (int32_t k = 0; k < value.rank && !is_same; k++)
      value.shape[k] = d->values[x].shape[(k + 1) % value.rank];
    x = add_result(d, value);
  }
  return x;
}

/* Flat, and as it was again. */
static int32_t write_reshapes(draft_t *d) {
  extent_t all = fixed(1);
  const int32_t minus = -1;
  const int32_t x = find_float(d, has_row);
  if (x < 0) return x;
  const value_t from = d->values[x];
  for (int32_t i = 0; i < from.rank; i++)
    if (!multiply(all, from.shape[i], &all)) return -1;
  const int32_t flat = add_reshape_to(d, x, add_list(d, 1, &minus), 1, &all);
  return add_known_reshape(d, flat, from.rank, from.shape);
}

/* Exchanges the last two axes of a value whose first axes are joined meanwhile. */
static int32_t write_joined_axes(draft_t *d) {
  int32_t numbers[RANK_MOST], joined[3] = {1, 0, 0};
  const int32_t x = find_float(d, has_row);
  if (x < 0 || d->values[x].rank < 3) return -1;
  const value_t from = d->values[x];
  extent_t back[RANK_MOST], flat[3] = {{0}};
  for (int32_t i = 0; i < from.rank; i++) {
    if (!is_fixed(from.shape[i])) return -1;
    const int32_t other = i < from.rank - 2 ? i : 2 * from.rank - 3 - i;
    back[i] = from.shape[other];
    numbers[i] = back[i].plus;
    if (i < from.rank - 2) joined[0] *= from.shape[i].plus;
  }
  joined[1] = from.shape[from.rank - 2].plus;
  joined[2] = from.shape[from.rank - 1].plus;
  for (int i = 0; i < 3; i++)
    flat[i] = fixed(joined[i]);
  const int32_t y = add_reshape_to(d, x, add_list(d, 3, joined), 3, flat);
  value_t value = d->values[y];
  value.shape[1] = flat[2];
  value.shape[2] = flat[1];
  part_t *part = begin_move(d, "core::transpose", y);
  snprintf(part->attrs, sizeof part->attrs, "perm=[0,2,1]");
  const int32_t z = add_result(d, value);
  return add_reshape_to(d, z, add_list(d, from.rank, numbers), from.rank, back);
}

static int32_t write_transposed_product(draft_t *d) {
  const int32_t x = find_bounded(d, 4);
  if (x < 0 || d->values[x].rank != 2 || !is_fixed(d->values[x].shape[1])) return -1;
  const int64_t depth = d->values[x].shape[1].plus;
  const int64_t shape[2] = {depth, 1 + (int64_t)pick(d, 8)};
  const int32_t weights = add_constant(d, d->dtype, 2, shape, NULL, -0.5, 0.5);
  const int32_t product = add_product(d, x, weights, 2 * (double)depth);
  value_t value = d->values[product];
  part_t *part = begin_move(d, "core::transpose", product);
  snprintf(part->attrs, sizeof part->attrs, "%s", chance(d, 50) ? "perm=[1,0]" : "");
  const extent_t rows = value.shape[0];
  value.shape[0] = value.shape[1];
  value.shape[1] = rows;
  return bounded(d, add_result(d, value), 8);
}

/* Computes what a node computes again. */
static int32_t write_again(draft_t *d) {
  if (!d->node_count) return -1;
  const int32_t n = (int32_t)pick(d, (uint32_t)d->node_count);
  const part_t from = d->nodes[n];
  if (from.bodies[0] || from.result_count != 1 || from.keeps) return -1;
  part_t *part = add_part(d, from.op);
  *part = from;
  part->result_count = 0;
  return add_result(d, d->values[from.results[0]]);
}

/* 8-bit numbers: scales are powers of two, so that each precision rounds the same numbers */

static int32_t add_quantised(draft_t *d, int32_t x, double scale) {
  const int32_t by = add_scalar(d, TENON_F32, scale);
  const int32_t zero = add_scalar(d, TENON_U8, 128);
  const int32_t result = add_like(d, "core::quantize_linear", NULL, x, 255);
  part_t *part = &d->nodes[d->node_count - 1];
  read_value(d, part, by);
  read_value(d, part, zero);
  part->keeps = true;
  d->values[result].dtype = TENON_U8;
  d->values[result].keeps = true;
  return result;
}

static int32_t add_dequantised(draft_t *d, int32_t x, double scale, uint32_t type, int32_t zero) {
  const int32_t by = add_scalar(d, TENON_F32, scale);
  const int32_t from = add_scalar(d, type, zero);
  const int32_t result = add_like(d, "core::dequantize_linear", NULL, x, 255 * scale);
  part_t *part = &d->nodes[d->node_count - 1];
  read_value(d, part, by);
  read_value(d, part, from);
  part->keeps = true;
  d->values[result].dtype = TENON_F32;
  d->values[result].keeps = true;
  return result;
}

static int32_t add_byte_weights(draft_t *d, int32_t rank, const int64_t *shape) {
  const int32_t w = add_constant(d, TENON_I8, rank, shape, NULL, -20, 20);
  return add_dequantised(d, w, 0.0625, TENON_I8, 0);
}

/* Marks the last node as one of f32 in each precision. */
static int32_t keep_last(draft_t *d, int32_t value) {
  d->nodes[d->node_count - 1].keeps = true;
  d->values[value].keeps = true;
  return value;
}

static int32_t write_quantised_product(draft_t *d, int32_t x, int32_t depth, bool is_image) {
  const int32_t columns = 1 + (int32_t)pick(d, 6);
  const int64_t matrix[2] = {depth, columns}, kernel[4] = {columns, depth, 1, 1};
  const int32_t rank = is_image ? 4 : 2;
  const int32_t w = add_byte_weights(d, rank, is_image ? kernel : matrix);
  value_t value = d->values[x];
  part_t *part = add_part(d, is_image ? "core::conv" : "core::matmul");
  part->keeps = true;
  read_value(d, part, x);
  read_value(d, part, w);
  value.shape[is_image ? 1 : value.rank - 1] = fixed(columns);
  return keep_last(d, add_result(d, value));
}

static int32_t write_quantised(draft_t *d) {
  static const char *const tables[] = {"core::erf", "core::tanh", "core::sigmoid"};
  const double scale = 0.03125;
  if (d->is_body || d->dtype != TENON_F32) return -1;
  const bool is_image = chance(d, 40);
  const int32_t depth = 1 + (int32_t)pick(d, 8);
  const extent_t shape[4] = {
      is_image ? fixed(1) : (extent_t){1, 0, 0}, fixed(depth), fixed(4), {1, 0, 0}};
  const int32_t source = add_input(d, TENON_F32, is_image ? 4 : 2, shape, 3);
  const int32_t bytes = add_quantised(d, source, scale);
  const int32_t x = add_dequantised(d, bytes, scale, TENON_U8, 128);
  const uint32_t way = pick(d, 5);
  int32_t y = x;
  double next = scale;
  if (way == 0) y = write_quantised_product(d, x, depth, is_image);
  if (way == 0) next = 0.25;
  if (way == 1) {
    const int32_t other = add_input(d, TENON_F32, is_image ? 4 : 2, shape, 3);
    const int32_t more = add_dequantised(d, add_quantised(d, other, 0.0625), 0.0625, TENON_U8, 128);
    y = keep_last(d, add_sum(d, x, more));
    next = 0.0625;
  }
  if (way == 2 && !is_image) {
    value_t value = d->values[x];
    value.shape[0] = shape[1];
    value.shape[1] = shape[0];
    part_t *part = begin_move(d, "core::transpose", x);
    snprintf(part->attrs, sizeof part->attrs, "perm=[1,0]");
    y = keep_last(d, add_result(d, value));
  }
  if (way == 3) y = keep_last(d, add_like(d, tables[pick(d, 3)], NULL, x, 1));
  const int32_t last = add_dequantised(d, add_quantised(d, y, next), next, TENON_U8, 128);
  return bounded(d, add_sum(d, last, add_scalar(d, TENON_F32, 0.5)), 8);
}

#endif
