/* Pieces of random graphs that move elements, compute shapes, or compute with integers. */
#ifndef TENON_TESTS_RANDOM_VIEWS_H
#define TENON_TESTS_RANDOM_VIEWS_H

#include "pieces.h"

/* Adds a node that moves elements of x; its other operands follow. */
static part_t *begin_move(draft_t *d, const char *op, int32_t x) {
  part_t *part = add_part(d, op);
  read_value(d, part, x);
  return part;
}

static int32_t add_transpose(draft_t *d) {
  int32_t order[RANK_MOST];
  char *at;
  const int32_t x = find_float(d, has_row);
  if (x < 0) return x;
  value_t value = d->values[x];
  const value_t from = value;
  for (int32_t i = 0; i < from.rank; i++)
    order[i] = i;
  for (int32_t i = from.rank - 1; i > 0; i--) {
    const int32_t other = (int32_t)pick(d, (uint32_t)i + 1);
    const int32_t kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
  part_t *part = begin_move(d, "core::transpose", x);
  at = part->attrs + snprintf(part->attrs, sizeof part->attrs, "perm=[");
  for (int32_t i = 0; i < from.rank; i++) {
    at += snprintf(at, 8, "%s%d", i ? "," : "", (int)order[i]);
    value.shape[i] = from.shape[order[i]];
  }
  snprintf(at, 4, "]");
  return add_result(d, value);
}

/* The shape of x as a value, which is computed when the graph runs. */
static int32_t add_shape(draft_t *d, int32_t x) {
  begin_move(d, "core::shape", x);
  value_t value = {.dtype = TENON_I64, .rank = 1, .most = ELEMENTS_MOST};
  value.shape[0] = fixed(d->values[x].rank);
  return add_result(d, value);
}

static int32_t add_reshape_to(draft_t *d, int32_t x, int32_t shape, int32_t rank,
                              const extent_t *extents) {
  value_t value = d->values[x];
  part_t *part = begin_move(d, "core::reshape", x);
  read_value(d, part, shape);
  value.rank = rank;
  for (int32_t i = 0; i < rank; i++)
    value.shape[i] = extents[i];
  return add_result(d, value);
}

/* The product of two extents; false: it is none. */
static bool multiply(extent_t a, extent_t b, extent_t *out) {
  const extent_t e = is_fixed(a) ? b : a;
  const int32_t by = is_fixed(a) ? a.plus : b.plus;
  *out = (extent_t){e.n * by, e.m * by, e.plus * by};
  return is_fixed(a) || is_fixed(b);
}

/* Adds a reshape to constant extents, of which one at most depends on lengths. */
static int32_t add_known_reshape(draft_t *d, int32_t x, int32_t rank, const extent_t *extents) {
  int32_t numbers[RANK_MOST];
  int32_t dynamic = 0;
  for (int32_t i = 0; i < rank; i++) {
    numbers[i] = is_fixed(extents[i]) ? extents[i].plus : -1;
    dynamic += !is_fixed(extents[i]);
  }
  if (dynamic > 1) return -1;
  if (dynamic == 0 && rank && chance(d, 40)) numbers[pick(d, (uint32_t)rank)] = -1;
  return add_reshape_to(d, x, add_list(d, rank, numbers), rank, extents);
}

/* Takes an axis apart, or joins two. */
static int32_t add_reshape(draft_t *d) {
  extent_t extents[RANK_MOST];
  int32_t rank = 0;
  const int32_t x = find_float(d, has_row);
  if (x < 0) return x;
  const value_t from = d->values[x];
  const int32_t axis = (int32_t)pick(d, (uint32_t)from.rank);
  const bool joins = axis + 1 < from.rank && chance(d, 60);
  for (int32_t i = 0; i < from.rank; i++) {
    const extent_t e = from.shape[i];
    const bool parts = i == axis && !joins && is_fixed(e) && e.plus % 2 == 0;
    if (i != axis || (!joins && !parts) || (parts && from.rank == RANK_MOST)) {
      extents[rank++] = e;
    } else if (joins) {
      if (!multiply(e, from.shape[++i], &extents[rank++])) return -1;
    } else {
      extents[rank++] = fixed(e.plus / 2);
      extents[rank++] = fixed(2);
    }
  }
  return add_known_reshape(d, x, rank, extents);
}

/* An axis of one, away or there. */
static int32_t add_thin_axis(draft_t *d) {
  const int32_t x = find_float(d, is_any);
  if (x < 0) return x;
  const value_t from = d->values[x];
  for (int32_t i = 0; i < from.rank; i++)
    if (is_one(from.shape[i])) {
      extent_t extents[RANK_MOST];
      for (int32_t k = 0; k < from.rank - 1; k++)
        extents[k] = from.shape[k + (k >= i)];
      const int32_t axes = add_list(d, 1, &i);
      const int32_t result = add_reshape_to(d, x, axes, from.rank - 1, extents);
      d->nodes[d->node_count - 1].op = "core::squeeze";
      return result;
    }
  if (from.rank == RANK_MOST) return -1;
  extent_t extents[RANK_MOST];
  const int32_t at = (int32_t)pick(d, (uint32_t)from.rank + 1);
  for (int32_t k = 0; k <= from.rank; k++)
    extents[k] = k == at ? fixed(1) : from.shape[k - (k > at)];
  const int32_t axes = add_list(d, 1, &at);
  const int32_t result = add_reshape_to(d, x, axes, from.rank + 1, extents);
  d->nodes[d->node_count - 1].op = "core::unsqueeze";
  return result;
}

/* Without the first or last element of an axis, every second element, or all in reverse. */
static int32_t add_slice(draft_t *d) {
  const int32_t x = find_float(d, has_row);
  if (x < 0) return x;
  value_t value = d->values[x];
  const int32_t axis = (int32_t)pick(d, (uint32_t)value.rank);
  extent_t *e = &value.shape[axis];
  const lengths_t least = {3, 2};
  int32_t numbers[3] = {0, 9999999, 1};
  const uint32_t way = pick(d, 5);
  if (length_of(*e, least) < 2) return -1;
  if (way == 0) numbers[0] = 1;
  if (way == 1) numbers[1] = -1;
  if (way <= 1) e->plus--;
  if (way == 2 && !is_fixed(*e)) return -1;
  if (way == 2) {
    numbers[2] = 2;
    e->plus = (e->plus + 1) / 2;
  }
  if (way == 3) {
    numbers[0] = -1;
    numbers[1] = -9999999;
    numbers[2] = -1;
  }
  const int32_t starts = add_list(d, 1, &numbers[0]);
  const int32_t ends = add_list(d, 1, &numbers[1]);
  const int32_t axes = add_list(d, 1, &axis);
  const int32_t steps = add_list(d, 1, &numbers[2]);
  part_t *part = begin_move(d, "core::slice", x);
  read_value(d, part, starts);
  read_value(d, part, ends);
  read_value(d, part, axes);
  if (numbers[2] != 1) read_value(d, part, steps);
  return add_result(d, value);
}

/* A concat of values of the same shape. */
static int32_t join_values(draft_t *d, const int32_t *values, int32_t count, int32_t axis) {
  value_t value = d->values[values[0]];
  for (int32_t i = 1; i < count; i++) {
    value.most = fmax(value.most, d->values[values[i]].most);
    value.is_exact &= d->values[values[i]].is_exact;
  }
  if (count_of(&value, d->most) * count > ELEMENTS_MOST) return -1;
  part_t *part = add_part(d, "core::concat");
  read_list(d, part, values, count);
  snprintf(part->attrs, sizeof part->attrs, "axis=%d",
           (int)(chance(d, 50) ? axis : axis - value.rank));
  extent_t *e = &value.shape[axis];
  *e = (extent_t){e->n * count, e->m * count, e->plus * count};
  return add_result(d, value);
}

/* Of x, of another value that has its shape, or of parts of x that were taken apart. */
static int32_t add_concat(draft_t *d) {
  const int32_t x = find_float(d, has_row);
  if (x < 0) return x;
  const value_t value = d->values[x];
  const int32_t axis = (int32_t)pick(d, (uint32_t)value.rank);
  int32_t values[3] = {x, x, x};
  const int32_t count = 1 + (int32_t)pick(d, 3);
  for (int32_t i = 1; i < count; i++)
    for (int tries = 0; tries < 6; tries++) {
      const int32_t v = (int32_t)pick(d, (uint32_t)d->value_count);
      const value_t *other = &d->values[v];
      if (other->dtype == value.dtype && !other->constant && same_shape(other, &d->values[x])) {
        values[i] = v;
        break;
      }
    }
  return join_values(d, values, count, axis);
}

static int32_t add_split(draft_t *d) {
  const int32_t x = find_float(d, has_row);
  if (x < 0) return x;
  value_t value = d->values[x];
  const int32_t axis = (int32_t)pick(d, (uint32_t)value.rank);
  extent_t *e = &value.shape[axis];
  if (e->n % 2 || e->m % 2 || e->plus % 2) return -1;
  *e = (extent_t){e->n / 2, e->m / 2, e->plus / 2};
  part_t *part = begin_move(d, "core::split", x);
  read_value(d, part, -1);
  snprintf(part->attrs, sizeof part->attrs, "axis=%d; count=2", (int)axis);
  const int32_t first = add_result(d, value);
  const int32_t second = add_result(d, value);
  if (chance(d, 40)) return first;
  return add_two(d, "core::mul", second, first, value.dtype, value.most * value.most);
}

static int32_t add_gather(draft_t *d) {
  int32_t numbers[4];
  const int32_t x = find_float(d, has_row);
  if (x < 0) return x;
  value_t value = d->values[x];
  const int32_t axis = (int32_t)pick(d, (uint32_t)value.rank);
  const int32_t count = 1 + (int32_t)pick(d, 4);
  const int64_t extent = length_of(value.shape[axis], (lengths_t){3, 2});
  for (int32_t i = 0; i < count; i++)
    numbers[i] = (int32_t)pick(d, (uint32_t)extent) - (chance(d, 30) ? (int32_t)extent : 0);
  int32_t indices = add_list(d, count, numbers);
  if (!d->is_body && extent >= 2 && chance(d, 40)) {
    indices = add_input(d, TENON_I64, 1, (extent_t[]){fixed(count)}, 1);
    d->values[indices].is_exact = true;
  }
  part_t *part = begin_move(d, "core::gather", x);
  read_value(d, part, indices);
  snprintf(part->attrs, sizeof part->attrs, "axis=%d", (int)axis);
  value.shape[axis] = fixed(count);
  return add_result(d, value);
}

/* Broadcasts x to the shape of another value, which is computed when the graph runs. */
static int32_t add_expand(draft_t *d) {
  const int32_t x = find_float(d, is_any);
  const int32_t y = find_float(d, is_any);
  if (x < 0 || y < 0) return -1;
  value_t value = d->values[x];
  if (!broadcast(&d->values[x], &d->values[y], &value) || count_of(&value, d->most) > ELEMENTS_MOST)
    return -1;
  const int32_t shape = add_shape(d, y);
  part_t *part = begin_move(d, "core::expand", x);
  read_value(d, part, shape);
  return add_result(d, value);
}

static int32_t add_pad(draft_t *d) {
  int32_t pads[2 * RANK_MOST] = {0};
  const int32_t x = find_float(d, has_row);
  if (x < 0) return x;
  value_t value = d->values[x];
  const int32_t axis = (int32_t)pick(d, (uint32_t)value.rank);
  pads[axis] = (int32_t)pick(d, 2);
  pads[axis + value.rank] = (int32_t)pick(d, 3);
  value.shape[axis].plus += pads[axis] + pads[axis + value.rank];
  if (count_of(&value, d->most) > ELEMENTS_MOST) return -1;
  const int32_t list = add_list(d, 2 * value.rank, pads);
  const int32_t fill = chance(d, 50) ? add_scalar(d, value.dtype, 0.5) : -1;
  part_t *part = begin_move(d, "core::pad", x);
  read_value(d, part, list);
  read_value(d, part, fill);
  value.most = fmax(value.most, 0.5);
  return add_result(d, value);
}

/* Shapes that are computed: joined axes by gather, product and concat. */
static int32_t add_computed_reshape(draft_t *d) {
  extent_t extents[2];
  const int32_t x = find_float(d, has_row);
  if (x < 0 || d->values[x].rank < 2) return -1;
  const value_t from = d->values[x];
  const int32_t last = from.rank - 1;
  const int32_t zero = 0, all = 9999999, minus = -1;
  const int32_t shape = add_shape(d, x);
  const int32_t starts = add_list(d, 1, chance(d, 50) ? &last : &minus);
  const int32_t ends = add_list(d, 1, &all);
  part_t *part = begin_move(d, "core::slice", shape);
  read_value(d, part, starts);
  read_value(d, part, ends);
  value_t value = {.dtype = TENON_I64, .rank = 1, .most = 1000};
  value.shape[0] = fixed(1);
  int32_t parts[2] = {-1, add_result(d, value)};
  parts[0] = add_list(d, 1, &minus);
  const int32_t axes = add_list(d, 1, &zero);
  if (from.rank == 2 && chance(d, 50)) {
    part = begin_move(d, "core::gather", shape);
    read_value(d, part, axes);
    snprintf(part->attrs, sizeof part->attrs, "axis=0");
    parts[0] = add_result(d, value);
  }
  part = add_part(d, "core::concat");
  read_list(d, part, parts, 2);
  snprintf(part->attrs, sizeof part->attrs, "axis=0");
  value.shape[0] = fixed(2);
  const int32_t computed = add_result(d, value);
  extents[0] = from.shape[0];
  extents[1] = from.shape[last];
  for (int32_t i = 1; i < last; i++)
    if (!multiply(extents[0], from.shape[i], &extents[0])) return -1;
  return add_reshape_to(d, x, computed, 2, extents);
}

/* The number of elements, as a float that scales x. */
static int32_t add_size(draft_t *d) {
  const int32_t x = find_bounded(d, 8);
  if (x < 0) return x;
  begin_move(d, "core::size", x);
  const int32_t size = add_result(d, (value_t){.dtype = TENON_I64, .most = ELEMENTS_MOST});
  const int32_t less = add_two(d, "core::mod", size, add_scalar(d, TENON_I64, 7), TENON_I64, 7);
  const int32_t number = add_cast(d, less, d->dtype);
  return bounded(d, add_mul(d, x, number), 16);
}

/* Integers, which become floats at the end. */
static int32_t add_integers(draft_t *d) {
  static const char *const ops[] = {"core::add", "core::sub", "core::mul", "core::max"};
  const uint32_t dtype = chance(d, 50) ? TENON_I64 : TENON_I32;
  int32_t x = find_value(d, dtype, is_exact_value);
  if (x < 0 && d->is_body) return -1;
  if (x < 0) x = add_random_input(d, dtype);
  const double most = d->values[x].most;
  if (most > 1000) return -1;
  const int32_t by = add_scalar(d, dtype, 1 + pick(d, 3));
  int32_t y = add_two(d, ops[pick(d, 4)], x, by, dtype, 3 * most + 3);
  if (chance(d, 30)) y = add_like(d, "core::neg", NULL, y, d->values[y].most);
  d->values[y].is_exact = true;
  const int32_t mod = add_two(d, "core::mod", y, add_scalar(d, dtype, 5), dtype, 5);
  return add_cast(d, mod, d->dtype);
}

#endif
