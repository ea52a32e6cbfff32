/* Pieces of random graphs: pointwise nodes, reductions, norms, products, casts and conditions. A
 * piece reads some values of a draft, adds nodes, and returns its result; -1: it adds nothing here.
 * Numbers stay bounded, and what jumps (comparisons, rounding) reads exact values only, so that
 * runs of different precision stay close. */
#ifndef TENON_TESTS_RANDOM_PIECES_H
#define TENON_TESTS_RANDOM_PIECES_H

#include "draft.h"

/* Building */

/* Adds a node with one result that has this bound and the shape and the dtype of x. */
static int32_t add_like(draft_t *d, const char *op, const char *attrs, int32_t x, double most) {
  part_t *part = add_part(d, op);
  read_value(d, part, x);
  if (attrs) snprintf(part->attrs, sizeof part->attrs, "%s", attrs);
  value_t value = d->values[x];
  value.most = most;
  value.is_exact = false;
  return add_result(d, value);
}

/* The shape of two values that are broadcast; false: they cannot be. */
static bool broadcast(const value_t *a, const value_t *b, value_t *out) {
  const int32_t rank = a->rank > b->rank ? a->rank : b->rank;
  out->rank = rank;
  for (int32_t i = 0; i < rank; i++) {
    const int32_t at = i - rank + a->rank;
    const int32_t bt = i - rank + b->rank;
    const extent_t x = at >= 0 ? a->shape[at] : fixed(1);
    const extent_t y = bt >= 0 ? b->shape[bt] : fixed(1);
    if (!same_extent(x, y) && !is_one(x) && !is_one(y)) return false;
    out->shape[i] = is_one(x) ? y : x;
  }
  return true;
}

/* Adds a node that reads two values, which can be broadcast. */
static int32_t add_two(draft_t *d, const char *op, int32_t a, int32_t b, uint32_t dtype,
                       double most) {
  part_t *part = add_part(d, op);
  value_t value = {.dtype = dtype, .most = most};
  if (!CHECK(broadcast(&d->values[a], &d->values[b], &value))) abort();
  read_value(d, part, a);
  read_value(d, part, b);
  return add_result(d, value);
}

static int32_t add_mul(draft_t *d, int32_t a, int32_t b) {
  return add_two(d, "core::mul", a, b, d->values[a].dtype, d->values[a].most * d->values[b].most);
}

static int32_t add_sum(draft_t *d, int32_t a, int32_t b) {
  return add_two(d, "core::add", a, b, d->values[a].dtype, d->values[a].most + d->values[b].most);
}

static int32_t add_cast(draft_t *d, int32_t x, uint32_t to) {
  const int32_t result = add_like(d, "core::cast", NULL, x, d->values[x].most);
  d->nodes[d->node_count - 1].to = to;
  d->values[result].dtype = to;
  return result;
}

static int32_t add_clip(draft_t *d, int32_t x, double low, double high) {
  const uint32_t dtype = d->values[x].dtype;
  const int32_t least = add_scalar(d, dtype, low);
  const int32_t most = add_scalar(d, dtype, high);
  const int32_t result = add_like(d, "core::clip", NULL, x, fmax(fabs(low), fabs(high)));
  part_t *part = &d->nodes[d->node_count - 1];
  read_value(d, part, least);
  read_value(d, part, most);
  return result;
}

/* |x| + 0.5 */
static int32_t add_positive(draft_t *d, int32_t x) {
  const int32_t size = add_like(d, "core::abs", NULL, x, d->values[x].most);
  return add_sum(d, size, add_scalar(d, d->values[x].dtype, 0.5));
}

/* x, or a value of its elements that are at most `most` */
static int32_t bounded(draft_t *d, int32_t x, double most) {
  if (d->values[x].most <= most) return x;
  if (chance(d, 40)) return add_clip(d, x, -most, most);
  if (chance(d, 50)) return add_like(d, "core::tanh", NULL, x, 1);
  const double scale = most / d->values[x].most;
  if (scale < 1e-3) return add_clip(d, x, -most, most);
  const int32_t by = add_scalar(d, d->values[x].dtype, scale);
  const int32_t result = add_mul(d, x, by);
  d->values[result].most = most;
  return result;
}

/* Choosing values */

typedef bool (*wanted_t)(const draft_t *d, const value_t *value);

static bool is_any(const draft_t *d, const value_t *value) { return d && value; }

/* A value of this dtype which `is_wanted` takes; -1: there is none. Later values, and those that
 * nothing reads, are likelier. */
static int32_t find_value(draft_t *d, uint32_t dtype, wanted_t is_wanted) {
  int32_t found = -1;
  for (int tries = 0; tries < 24 && d->value_count; tries++) {
    const uint32_t a = pick(d, (uint32_t)d->value_count);
    const uint32_t b = pick(d, (uint32_t)d->value_count);
    const int32_t v = (int32_t)(a > b ? a : b);
    const value_t *value = &d->values[v];
    if (value->dtype != dtype || value->constant || !is_wanted(d, value) ||
        count_of(value, d->most) > ELEMENTS_MOST)
      continue;
    found = v;
    if (!value->is_read || tries > 8) break;
  }
  return found;
}

static extent_t pick_extent(draft_t *d) {
  static const int32_t sizes[] = {1, 2, 3, 4, 4, 6, 8, 16};
  if (d->is_body || chance(d, 60)) return fixed(sizes[pick(d, 8)]);
  return chance(d, 70) ? (extent_t){1, 0, 0} : (extent_t){0, 1, 0};
}

static int32_t add_random_input(draft_t *d, uint32_t dtype) {
  extent_t shape[RANK_MOST] = {{0}};
  const int32_t rank = (int32_t)pick(d, 4) + (int32_t)pick(d, 2);
  for (int32_t i = 0; i < rank; i++)
    shape[i] = pick_extent(d);
  value_t sized = {.rank = rank};
  memcpy(sized.shape, shape, sizeof sized.shape);
  const double most = is_float(dtype) ? 1 + pick(d, 3) : 3;
  if (count_of(&sized, d->most) <= ELEMENTS_MOST / 4) return add_input(d, dtype, rank, shape, most);
  return add_input(d, dtype, 1, (extent_t[]){{1, 0, 0}}, most);
}

/* A value of the draft's floats. */
static int32_t find_float(draft_t *d, wanted_t is_wanted) {
  const int32_t v = find_value(d, d->dtype, is_wanted);
  if (v >= 0 || d->is_body) return v;
  const int32_t other = add_random_input(d, d->dtype);
  return is_wanted(d, &d->values[other]) ? other : -1;
}

static int32_t find_bounded(draft_t *d, double most) {
  const int32_t x = find_float(d, is_any);
  return x < 0 ? x : bounded(d, x, most);
}

/* An input of this shape, or in bodies a constant; -1: there can be none. */
static int32_t add_fresh(draft_t *d, uint32_t dtype, int32_t rank, const extent_t *shape) {
  int64_t known[RANK_MOST];
  bool is_known = true;
  for (int32_t i = 0; i < rank; i++) {
    is_known &= is_fixed(shape[i]);
    known[i] = shape[i].plus;
  }
  if (is_known && (d->is_body || chance(d, 50)))
    return add_constant(d, dtype, rank, known, NULL, -1.5, 1.5);
  return d->is_body ? -1 : add_input(d, dtype, rank, shape, 2);
}

/* Another operand for a node that reads x: of its shape, of a part of it, or a number. */
static int32_t find_partner(draft_t *d, int32_t x) {
  const value_t like = d->values[x];
  for (int tries = 0; tries < 12; tries++) {
    const int32_t v = (int32_t)pick(d, (uint32_t)d->value_count);
    value_t ignored;
    if (d->values[v].dtype == like.dtype && !d->values[v].constant &&
        broadcast(&like, &d->values[v], &ignored) && count_of(&ignored, d->most) <= ELEMENTS_MOST &&
        (same_shape(&like, &d->values[v]) || tries > 6))
      return v;
  }
  const int32_t skip = like.rank ? (int32_t)pick(d, (uint32_t)like.rank + 1) : 0;
  extent_t shape[RANK_MOST];
  for (int32_t i = skip; i < like.rank; i++)
    shape[i - skip] = chance(d, 25) ? fixed(1) : like.shape[i];
  const int32_t v = add_fresh(d, like.dtype, like.rank - skip, shape);
  return v >= 0 ? v : add_scalar(d, like.dtype, pick_number(d, -1.5, 1.5));
}

/* Pointwise nodes */

typedef struct function_t {
  const char *op;
  const char *attrs;
  double domain; /* the greatest number that it takes; 0: any */
  double range;  /* no result is larger; 0: not larger than the operand and 1 */
} function_t;

static int32_t add_function(draft_t *d) {
  static const function_t functions[] = {
      {"core::abs", NULL, 0, 0},        {"core::neg", NULL, 0, 0},
      {"core::relu", NULL, 0, 0},       {"core::tanh", NULL, 0, 1},
      {"core::sigmoid", NULL, 0, 1},    {"core::erf", NULL, 0, 1},
      {"core::gelu", NULL, 0, 0},       {"core::gelu", "approximate=tanh", 8, 0},
      {"core::silu", NULL, 0, 0},       {"core::softplus", NULL, 0, 0},
      {"core::softsign", NULL, 0, 1},   {"core::mish", NULL, 0, 0},
      {"core::sin", NULL, 8, 1},        {"core::cos", NULL, 8, 1},
      {"core::exp", NULL, 2, 7.4},      {"core::leaky_relu", "alpha=0.2", 0, 0},
      {"core::elu", "alpha=0.7", 0, 0}, {"core::hard_sigmoid", NULL, 0, 1},
      {"core::hard_swish", NULL, 0, 0}, {"core::atan", NULL, 0, 1.6},
      {"rnd::bend", NULL, 8, 0},        {"rnd::bend", NULL, 8, 0},
      {"core::identity", NULL, 0, 0},   {"core::silu", "alpha=1.7", 0, 0},
      {"core::celu", NULL, 0, 0},
  };
  const function_t *f = &functions[pick(d, sizeof functions / sizeof *functions)];
  int32_t x = find_float(d, is_any);
  if (x < 0) return x;
  if (f->domain > 0) x = bounded(d, x, f->domain);
  return add_like(d, f->op, f->attrs, x, f->range > 0 ? f->range : d->values[x].most + 1);
}

/* Functions of positive numbers. */
static int32_t add_root(draft_t *d) {
  static const function_t functions[] = {{"core::sqrt", NULL, 0, 0},
                                         {"core::rsqrt", NULL, 0, 1.5},
                                         {"core::log", NULL, 0, 0},
                                         {"core::reciprocal", NULL, 0, 2}};
  const function_t *f = &functions[pick(d, 4)];
  const int32_t x = find_bounded(d, 30);
  if (x < 0) return x;
  const int32_t y = add_positive(d, x);
  return add_like(d, f->op, NULL, y, f->range > 0 ? f->range : d->values[y].most);
}

static int32_t add_arithmetic(draft_t *d) {
  static const char *const ops[] = {"core::add", "core::sub", "core::mul", "core::max",
                                    "core::min", "core::div", "rnd::blend"};
  enum { DIV = 5, BLEND = 6 };
  const uint32_t which = pick(d, 7);
  int32_t x = find_bounded(d, 16);
  if (x < 0) return x;
  int32_t y = bounded(d, find_partner(d, x), 16);
  if (which == DIV) y = add_positive(d, y);
  const value_t *a = &d->values[x];
  const value_t *b = &d->values[y];
  const double most = which == DIV ? 2 * a->most : fmax(a->most * b->most, a->most + b->most);
  const bool is_turned = which != DIV && which != BLEND && chance(d, 30);
  const uint32_t dtype = a->dtype;
  return is_turned ? add_two(d, ops[which], y, x, dtype, most)
                   : add_two(d, ops[which], x, y, dtype, most);
}

static bool is_exact_value(const draft_t *d, const value_t *value) {
  return is_any(d, value) && value->is_exact;
}

/* A condition of exact numbers. */
static int32_t add_condition(draft_t *d) {
  static const char *const ops[] = {"core::greater", "core::less", "core::greater_equal",
                                    "core::less_equal", "core::equal"};
  static const char *const joins[] = {"core::and", "core::or", "core::xor"};
  const int32_t x = find_value(d, chance(d, 70) ? d->dtype : TENON_I64, is_exact_value);
  if (x < 0) return x;
  const uint32_t dtype = d->values[x].dtype;
  const int32_t other = add_scalar(d, dtype, dtype == TENON_I64 ? 1 : 0.25);
  int32_t c = add_two(d, ops[pick(d, 5)], x, other, TENON_BOOL, 1);
  if (chance(d, 30)) c = add_like(d, "core::not", NULL, c, 1);
  if (chance(d, 20)) {
    const int32_t zero = add_scalar(d, dtype, 0);
    const int32_t second = add_two(d, "core::less", x, zero, TENON_BOOL, 1);
    c = add_two(d, joins[pick(d, 3)], c, second, TENON_BOOL, 1);
  }
  d->values[c].is_exact = true;
  return c;
}

static int32_t add_choice(draft_t *d) {
  const int32_t c = add_condition(d);
  if (c < 0) return c;
  const value_t condition = d->values[c];
  int32_t x = -1;
  value_t shape;
  for (int tries = 0; tries < 8 && x < 0; tries++) {
    x = find_float(d, is_any);
    if (x >= 0 && (!broadcast(&condition, &d->values[x], &shape) ||
                   count_of(&shape, d->most) > ELEMENTS_MOST))
      x = -1;
  }
  if (x < 0) return add_cast(d, c, d->dtype);
  const int32_t y = chance(d, 50) ? add_scalar(d, d->dtype, -0.5) : x;
  const int32_t other = y == x ? add_like(d, "core::neg", NULL, x, d->values[x].most) : y;
  part_t *part = add_part(d, "core::where");
  read_value(d, part, c);
  read_value(d, part, x);
  read_value(d, part, other);
  shape.dtype = d->dtype;
  shape.most = d->values[x].most + 1;
  shape.is_exact = false;
  return add_result(d, shape);
}

static int32_t add_limits(draft_t *d) {
  const int32_t x = find_float(d, is_any);
  if (x < 0) return x;
  return chance(d, 30) ? add_clip(d, x, 0, 6) : add_clip(d, x, -1.25, 2.5);
}

/* To another dtype, a few nodes there, and back. */
static int32_t add_detour(draft_t *d) {
  static const uint32_t dtypes[] = {TENON_F16, TENON_BF16, TENON_F32, TENON_F64};
  const int32_t x = find_bounded(d, 16);
  if (x < 0) return x;
  int32_t y = add_cast(d, x, dtypes[pick(d, 4)]);
  if (chance(d, 60)) y = add_sum(d, y, y);
  if (chance(d, 40)) y = add_like(d, "core::tanh", NULL, y, 1);
  if (chance(d, 30) && d->values[y].rank) y = add_like(d, "core::softmax", NULL, y, 1);
  return add_cast(d, y, d->dtype);
}

/* Rows */

static bool has_row(const draft_t *d, const value_t *value) { return d && value->rank > 0; }

static int32_t add_axes(draft_t *d, int32_t x, bool *is_reduced) {
  const int32_t rank = d->values[x].rank;
  int32_t axes[RANK_MOST], count = 0;
  for (int32_t i = 0; i < rank; i++)
    is_reduced[i] = chance(d, 30);
  is_reduced[chance(d, 60) ? rank - 1 : (int32_t)pick(d, (uint32_t)rank)] = true;
  const bool is_negative = chance(d, 50);
  for (int32_t i = 0; i < rank; i++)
    if (is_reduced[i]) axes[count++] = is_negative ? i - rank : i;
  return add_list(d, count, axes);
}

static int32_t add_fold(draft_t *d) {
  static const char *const ops[] = {"core::reduce_mean", "core::reduce_sum", "core::reduce_max",
                                    "core::reduce_min",  "core::reduce_l2",  "core::reduce_mean"};
  enum { SUM = 1, L2 = 4 };
  bool is_reduced[RANK_MOST];
  const uint32_t which = pick(d, 6);
  const int32_t x = find_float(d, has_row);
  if (x < 0) return x;
  const int32_t axes = add_axes(d, x, is_reduced);
  const bool keeps = chance(d, 60);
  const value_t from = d->values[x];
  value_t value = {.dtype = from.dtype, .most = from.most};
  for (int32_t i = 0; i < from.rank; i++) {
    if (is_reduced[i] && (which == SUM || which == L2))
      value.most *= (double)length_of(from.shape[i], d->most);
    if (!is_reduced[i] || keeps)
      value.shape[value.rank++] = is_reduced[i] ? fixed(1) : from.shape[i];
  }
  if (which == L2) return -1 + 0 * axes; /* its derivative is not bounded at 0 */
  part_t *part = add_part(d, ops[which]);
  if (!keeps) snprintf(part->attrs, sizeof part->attrs, "keepdims=False");
  read_value(d, part, x);
  read_value(d, part, axes);
  return bounded(d, add_result(d, value), 16);
}

static int32_t add_softmax(draft_t *d) {
  const int32_t x = find_float(d, has_row);
  if (x < 0) return x;
  const int32_t axis = chance(d, 70) ? -1 : (int32_t)pick(d, (uint32_t)d->values[x].rank);
  char attrs[32];
  snprintf(attrs, sizeof attrs, "axis=%d", (int)axis);
  const bool is_log = chance(d, 25);
  return is_log ? add_like(d, "core::log_softmax", attrs, x, 2 * d->values[x].most + 10)
                : add_like(d, "core::softmax", attrs, x, 1);
}

static int32_t add_row_of(draft_t *d, int32_t x) {
  const value_t *value = &d->values[x];
  return add_fresh(d, value->dtype, 1, (extent_t[]){value->shape[value->rank - 1]});
}

static int32_t add_norm(draft_t *d) {
  static const char *const ops[] = {"core::layer_norm", "core::rms_norm", "rnd::centre",
                                    "rnd::weigh"};
  const uint32_t which = pick(d, 4);
  int32_t x = find_float(d, has_row);
  if (x < 0) return x;
  x = bounded(d, x, 30);
  const int32_t scale = which == 3 || (which < 2 && chance(d, 60)) ? add_row_of(d, x) : -1;
  if (which == 3 && scale < 0) return -1;
  const int32_t bias = which == 0 && scale >= 0 && chance(d, 60) ? add_row_of(d, x) : -1;
  const int32_t result = add_like(d, ops[which], which < 2 ? "epsilon=0.1" : NULL, x, 32);
  part_t *part = &d->nodes[d->node_count - 1];
  if (which != 2) read_value(d, part, scale);
  if (which == 0) read_value(d, part, bias);
  return bounded(d, result, 16);
}

/* Products */

static bool has_known_row(const draft_t *d, const value_t *value) {
  return has_row(d, value) && is_fixed(value->shape[value->rank - 1]) && value->rank < RANK_MOST;
}

static int32_t add_activation(draft_t *d, int32_t x) {
  static const function_t functions[] = {{"core::relu", NULL, 0, 0},
                                         {"core::gelu", NULL, 0, 0},
                                         {"core::silu", NULL, 0, 0},
                                         {"core::tanh", NULL, 0, 1},
                                         {"core::sigmoid", NULL, 0, 1},
                                         {"core::leaky_relu", NULL, 0, 0},
                                         {"core::mish", NULL, 0, 0},
                                         {"core::hard_swish", NULL, 0, 0},
                                         {"core::silu", "alpha=1.7", 0, 0},
                                         {"core::elu", "alpha=0.5", 0, 0},
                                         {"core::hard_sigmoid", "alpha=0.3; beta=0.4", 0, 1}};
  const function_t *f = &functions[pick(d, sizeof functions / sizeof *functions)];
  return add_like(d, f->op, f->attrs, x, d->values[x].most + 1);
}

/* A product with constant weights: a matmul, or of matrices also a gemm. */
static int32_t add_weighted(draft_t *d, int32_t x, int32_t columns) {
  value_t value = d->values[x];
  const int32_t depth = value.shape[value.rank - 1].plus;
  const double size = 1 / sqrt((double)depth);
  const bool is_gemm = value.rank == 2 && chance(d, 30);
  const bool is_turned = chance(d, 30);
  const int32_t rows = is_turned ? columns : depth;
  const int64_t shape[2] = {rows, depth + columns - rows};
  const int32_t weights = add_constant(d, value.dtype, 2, shape, NULL, -size, size);
  part_t *part = add_part(d, is_gemm ? "core::gemm" : "core::matmul");
  read_value(d, part, x);
  read_value(d, part, weights);
  snprintf(part->attrs, sizeof part->attrs, "%s=%s", is_gemm ? "trans_b" : "transpose_b",
           is_turned ? "True" : "False");
  value.shape[value.rank - 1] = fixed(columns);
  value.most *= depth * size;
  value.is_exact = false;
  return add_result(d, value);
}

/* A product with constant weights, with what networks put behind it. */
static int32_t add_linear(draft_t *d) {
  static const int32_t sizes[] = {1, 3, 4, 8, 16, 24};
  const int32_t x = find_bounded(d, 4);
  if (x < 0 || !has_known_row(d, &d->values[x])) return -1;
  const uint32_t dtype = d->values[x].dtype;
  const int64_t row[1] = {sizes[pick(d, 6)]};
  int32_t y = add_weighted(d, x, (int32_t)row[0]);
  if (chance(d, 30)) y = add_mul(d, y, add_constant(d, dtype, 1, row, NULL, 0.5, 1.5));
  if (chance(d, 60)) y = add_sum(d, y, add_constant(d, dtype, 1, row, NULL, -1, 1));
  if (chance(d, 20)) y = add_sum(d, y, find_partner(d, y));
  if (chance(d, 50)) y = add_activation(d, y);
  return bounded(d, y, 16);
}

/* The product of a value and a transposed one: the scores of its rows. */
static int32_t add_scores(draft_t *d) {
  const int32_t x = find_bounded(d, 3);
  if (x < 0 || d->values[x].rank < 2 || d->values[x].rank > 4) return -1;
  value_t value = d->values[x];
  const int32_t rank = value.rank;
  value_t turned = value;
  turned.shape[rank - 1] = value.shape[rank - 2];
  turned.shape[rank - 2] = value.shape[rank - 1];
  turned.is_exact = false;
  value.shape[rank - 1] = value.shape[rank - 2];
  value.most *= value.most * (double)length_of(turned.shape[rank - 2], d->most);
  value.is_exact = false;
  if (count_of(&value, d->most) > ELEMENTS_MOST) return -1;
  part_t *part = add_part(d, "core::transpose");
  static const char *const orders[] = {"perm=[1,0]", "perm=[0,2,1]", "perm=[0,1,3,2]"};
  snprintf(part->attrs, sizeof part->attrs, "%s", orders[rank - 2]);
  read_value(d, part, x);
  const int32_t y = add_result(d, turned);
  part = add_part(d, "core::matmul");
  read_value(d, part, x);
  read_value(d, part, y);
  const int32_t scores = add_result(d, value);
  if (chance(d, 30)) return bounded(d, scores, 8);
  return add_like(d, "core::softmax", NULL, bounded(d, scores, 8), 1);
}

#endif
