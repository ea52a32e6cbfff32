/* Pieces of random graphs over images: convolutions with what stands before and behind them. */
#ifndef TENON_TESTS_RANDOM_IMAGES_H
#define TENON_TESTS_RANDOM_IMAGES_H

#include "views.h"

static bool is_image(const draft_t *d, const value_t *value) {
  return is_any(d, value) && value->rank == 4 && is_fixed(value->shape[1]) &&
         length_of(value->shape[2], (lengths_t){3, 2}) >= 3 &&
         length_of(value->shape[3], (lengths_t){3, 2}) >= 3;
}

static int32_t find_image(draft_t *d) {
  int32_t x = find_value(d, d->dtype, is_image);
  if (x >= 0 && chance(d, 80)) return bounded(d, x, 4);
  if (d->is_body) return -1;
  static const int32_t channels[] = {1, 2, 3, 4, 8, 16};
  const extent_t side = chance(d, 30) ? (extent_t){1, 0, 0} : fixed(3 + (int32_t)pick(d, 7));
  const extent_t batch = chance(d, 30) ? (extent_t){0, 1, 0} : fixed(1);
  const extent_t shape[4] = {batch, fixed(channels[pick(d, 6)]), side, side};
  x = add_input(d, d->dtype, 4, shape, 2);
  return count_of(&d->values[x], d->most) <= ELEMENTS_MOST ? x : -1;
}

/* Constants for each channel: shape [channels, 1, 1], with an axis of batches or without. */
static int32_t add_per_channel(draft_t *d, int32_t channels, double low, double high) {
  const int64_t shape[4] = {1, channels, 1, 1};
  const bool has_batch = chance(d, 20);
  if (has_batch) return add_constant(d, d->dtype, 4, shape, NULL, low, high);
  return add_constant(d, d->dtype, 3, shape + 1, NULL, low, high);
}

static int32_t add_batch_norm(draft_t *d, int32_t x) {
  const int64_t channels = d->values[x].shape[1].plus;
  int32_t operands[4];
  for (int i = 0; i < 4; i++)
    operands[i] = add_constant(d, d->dtype, 1, &channels, NULL, 0.5, 1.5);
  const int32_t result = add_like(d, "core::batch_norm", NULL, x, 3 * d->values[x].most + 4);
  for (int i = 0; i < 4; i++)
    read_value(d, &d->nodes[d->node_count - 1], operands[i]);
  return result;
}

/* A constant for each channel, or for all. */
static int32_t add_factor(draft_t *d, int32_t channels, double low, double high) {
  if (chance(d, 20)) return add_scalar(d, d->dtype, pick_number(d, low, high));
  return add_per_channel(d, channels, low, high);
}

/* A scale and a shift of channels, as a norm or written out. */
static int32_t add_scales(draft_t *d, int32_t x) {
  const int32_t channels = d->values[x].shape[1].plus;
  if (chance(d, 40)) return add_batch_norm(d, x);
  int32_t y = x;
  if (chance(d, 70)) {
    const int32_t by = add_factor(d, channels, 0.5, 1.5);
    const double most = 2 * d->values[y].most;
    const bool divides = chance(d, 25);
    y = divides ? add_two(d, "core::div", y, by, d->dtype, most) : add_mul(d, y, by);
  }
  if (chance(d, 70)) {
    const int32_t by = add_factor(d, channels, -1, 1);
    const double most = d->values[y].most + 1;
    const uint32_t way = pick(d, 4);
    if (way == 0) return add_two(d, "core::sub", y, by, d->dtype, most);
    if (way == 1) return add_two(d, "core::sub", by, y, d->dtype, most);
    y = way == 2 ? add_sum(d, by, y) : add_sum(d, y, by);
  }
  return y;
}

/* A convolution with padding that keeps the extents, or without padding if `is_tight`. It may have
 * a group for each channel, and distances between the elements of its kernel. */
static int32_t add_conv_to(draft_t *d, int32_t x, int32_t filters, int32_t kernel, bool is_tight) {
  value_t value = d->values[x];
  const int32_t channels = value.shape[1].plus;
  const int32_t groups = filters % channels == 0 && chance(d, 15) ? channels : 1;
  const int32_t dilation = !is_tight && chance(d, 15) ? 2 : 1;
  const double size = 1 / sqrt((double)(channels / groups * kernel * kernel));
  const int64_t shape[4] = {filters, channels / groups, kernel, kernel};
  const int64_t row[1] = {filters};
  const int32_t weights = add_constant(d, d->dtype, 4, shape, NULL, -size, size);
  const int32_t bias = chance(d, 50) ? add_constant(d, d->dtype, 1, row, NULL, -1, 1) : -1;
  part_t *part = add_part(d, "core::conv");
  const int pad = is_tight ? 0 : kernel / 2 * dilation;
  read_value(d, part, x);
  read_value(d, part, weights);
  read_value(d, part, bias);
  snprintf(part->attrs, sizeof part->attrs, "pads=[%d,%d,%d,%d]; group=%d; dilations=[%d,%d]", pad,
           pad, pad, pad, (int)groups, (int)dilation, (int)dilation);
  value.most = value.most / size + 1;
  value.is_exact = false;
  value.shape[1] = fixed(filters);
  for (int i = 2; i < 4 && is_tight; i++)
    value.shape[i].plus -= kernel - 1;
  return add_result(d, value);
}

static int32_t add_conv(draft_t *d) {
  static const int32_t counts[] = {1, 2, 4, 8, 16};
  int32_t x = find_image(d);
  if (x < 0) return x;
  const int32_t kernel = chance(d, 50) ? 1 : 3;
  const int32_t filters = chance(d, 30) ? d->values[x].shape[1].plus : counts[pick(d, 5)];
  value_t sized = d->values[x];
  sized.shape[1] = fixed(filters);
  if (count_of(&sized, d->most) > ELEMENTS_MOST) return -1;
  if (chance(d, 25)) x = bounded(d, add_scales(d, x), 8);
  int32_t y = add_conv_to(d, x, filters, kernel, kernel == 3 && chance(d, 20));
  if (chance(d, 50)) y = add_scales(d, y);
  if (chance(d, 25)) y = add_activation(d, y);
  if (chance(d, 30)) y = add_sum(d, y, find_partner(d, y));
  if (chance(d, 50)) y = add_activation(d, y);
  return bounded(d, y, 8);
}

/* Two convolutions of one value, or one and the value itself. */
static int32_t add_branches(draft_t *d) {
  const int32_t x = find_image(d);
  if (x < 0) return x;
  const int32_t channels = d->values[x].shape[1].plus;
  const int32_t y = add_conv_to(d, x, channels, 3, false);
  const int32_t z = chance(d, 70) ? add_conv_to(d, x, channels, 1, false) : x;
  const int32_t sum = chance(d, 50) ? add_sum(d, y, z) : add_sum(d, z, y);
  return bounded(d, chance(d, 50) ? add_activation(d, sum) : sum, 8);
}

/* Zeros around an image, then a convolution without padding. */
static int32_t add_padded_conv(draft_t *d) {
  const int32_t x = find_image(d);
  if (x < 0) return x;
  const int32_t pads[8] = {0, 0, 1, 1, 0, 0, 1, (int32_t)pick(d, 2)};
  value_t value = d->values[x];
  value.shape[2].plus += 2;
  value.shape[3].plus += 1 + pads[7];
  const int32_t list = add_list(d, 8, pads);
  part_t *part = begin_move(d, "core::pad", x);
  read_value(d, part, list);
  const int32_t padded = add_result(d, value);
  return bounded(d, add_conv_to(d, padded, 4, 3, true), 8);
}

/* A mean over all positions. */
static int32_t add_pool(draft_t *d) {
  static const int32_t positions[] = {2, 3}, negative[] = {-1, -2};
  const int32_t x = find_image(d);
  if (x < 0) return x;
  value_t value = d->values[x];
  const int32_t axes = add_list(d, 2, chance(d, 50) ? positions : negative);
  const bool is_named = chance(d, 20);
  part_t *part = add_part(d, is_named ? "core::global_average_pool" : "core::reduce_mean");
  read_value(d, part, x);
  if (!is_named) read_value(d, part, axes);
  value.shape[2] = fixed(1);
  value.shape[3] = fixed(1);
  value.is_exact = false;
  return add_result(d, value);
}

/* The greatest elements of windows. */
static int32_t add_max_pool(draft_t *d) {
  const int32_t x = find_image(d);
  if (x < 0) return x;
  value_t value = d->values[x];
  part_t *part = add_part(d, "core::max_pool");
  read_value(d, part, x);
  snprintf(part->attrs, sizeof part->attrs, "kernel=[2,2]");
  value.shape[2].plus--;
  value.shape[3].plus--;
  return add_result(d, value);
}

#endif
