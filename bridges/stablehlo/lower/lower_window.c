/* Lowers reduce_window and select_and_scatter. A window is a box, so each axis is reduced by
 * itself: shifted copies of the operand are combined, long windows by doubling. */
#include <string.h>

#include "lower/arguments.h"
#include "lower/expression.h"
#include "lower/reduce.h"
#include "lower/region.h"

enum { POSITIONS_MAX = 4096, DOUBLING_FROM = 6 };

typedef struct window_t {
  int64_t size[HLO_INTS_MAX];
  int64_t stride[HLO_INTS_MAX];
  int64_t dilation[HLO_INTS_MAX];
  int64_t low[HLO_INTS_MAX];
  int64_t high[HLO_INTS_MAX];
  int64_t interior[HLO_INTS_MAX];
  int32_t ndim;
} window_t;

static void read_window(hlo_lower_t *lower, window_t *w) {
  int64_t pads[HLO_INTS_MAX];
  w->ndim = hlo_operand_type(lower, 0)->ndim;
  hlo_attr_exactly(lower, "window_dimensions", NULL, w->ndim, 1, w->size);
  hlo_attr_exactly(lower, "window_strides", NULL, w->ndim, 1, w->stride);
  hlo_attr_exactly(lower, "window_dilations", NULL, w->ndim, 1, w->dilation);
  hlo_attr_exactly(lower, "base_dilations", NULL, w->ndim, 1, w->interior);
  hlo_attr_exactly(lower, "padding", NULL, 2 * w->ndim, 0, pads);
  for (int32_t i = 0; i < w->ndim && !hlo_stopped(lower); i++) {
    const int64_t positive[] = {w->size[i], w->stride[i], w->dilation[i], w->interior[i]};
    for (int k = 0; k < 4; k++)
      if (positive[k] < 1 || !hlo_is_moderate(positive[k]))
        hlo_wrong(lower, "sizes, strides and dilations of a window must be 1 or more, found %lld",
                  (long long)positive[k]);
    if (!hlo_is_moderate(pads[2 * i]) || !hlo_is_moderate(pads[2 * i + 1]))
      hlo_wrong(lower, "padding of axis %d is out of range", (int)i);
    if (hlo_stopped(lower)) return;
    w->interior[i]--;
    w->low[i] = pads[2 * i];
    w->high[i] = pads[2 * i + 1];
  }
}

/* one axis */

typedef struct axis_t { /* The reduction of one axis. */
  const hlo_region_t *region;
  int32_t count; /* Of operands. */
  int32_t axis;
  int64_t extent; /* What is left of it. */
} axis_t;

/* Combines the first elements with those `distance` further on; the axis gets shorter by it. */
static void combine_shifted(hlo_lower_t *lower, axis_t *a, tenon_edge_t *edges,
                            const tenon_edge_t *others, int64_t distance) {
  tenon_edge_t *first = hlo_lower_take(lower, 2 * (size_t)a->count, sizeof *first);
  if (!first || hlo_stopped(lower)) return;
  tenon_edge_t *second = first + a->count;
  for (int32_t i = 0; i < a->count; i++) {
    first[i] = hlo_slice(lower, edges[i], a->axis, 0, a->extent - distance, 1);
    second[i] = hlo_slice(lower, others[i], a->axis, distance, a->extent, 1);
  }
  a->extent -= distance;
  (void)hlo_combine(lower, a->region, first, second, a->count, edges);
}

/* Windows of a power of two elements are combined of two halves; a window of another size, of a
 * window with the greatest such size and the rest. */
static void reduce_long(hlo_lower_t *lower, axis_t *a, tenon_edge_t *edges, int64_t size,
                        int64_t dilation) {
  tenon_edge_t *power = hlo_lower_take(lower, 2 * (size_t)a->count, sizeof *power);
  if (!power) return;
  tenon_edge_t *made = power + a->count;
  int64_t made_size = 0;
  int64_t extent = a->extent;
  axis_t powers = *a;
  memcpy(power, edges, (size_t)a->count * sizeof *power);
  for (int64_t part = 1; part <= size && !hlo_stopped(lower); part *= 2) {
    if (size & part) {
      /* Window = the `made_size` elements so far, then `part` elements of the powers. */
      int64_t left = extent - (made_size + part - 1) * dilation;
      for (int32_t i = 0; i < a->count; i++) {
        tenon_edge_t tail = hlo_slice(lower, power[i], a->axis, made_size * dilation,
                                      made_size * dilation + left, 1);
        made[i] = made_size ? hlo_slice(lower, made[i], a->axis, 0, left, 1) : tail;
        edges[i] = tail;
      }
      if (made_size) (void)hlo_combine(lower, a->region, made, edges, a->count, made);
      made_size += part;
    }
    if (2 * part <= size) combine_shifted(lower, &powers, power, power, part * dilation);
  }
  memcpy(edges, made, (size_t)a->count * sizeof *edges);
  a->extent = extent - (size - 1) * dilation;
}

static void reduce_axis(hlo_lower_t *lower, const window_t *w, axis_t *a, tenon_edge_t *edges) {
  int64_t size = w->size[a->axis];
  int64_t dilation = w->dilation[a->axis];
  int64_t stride = w->stride[a->axis];
  int64_t reach = (size - 1) * dilation + 1;
  int64_t places = a->extent < reach ? 0 : (a->extent - reach) / stride + 1;
  int64_t used = places ? (places - 1) * stride + 1 : 0;
  tenon_edge_t *shifted = hlo_lower_take(lower, 2 * (size_t)a->count, sizeof *shifted);
  if (!shifted) return;
  if (places && size >= DOUBLING_FROM) {
    reduce_long(lower, a, edges, size, dilation);
    for (int32_t i = 0; i < a->count; i++)
      edges[i] = hlo_slice(lower, edges[i], a->axis, 0, used, stride);
    return;
  }
  tenon_edge_t *whole = shifted + a->count;
  memcpy(whole, edges, (size_t)a->count * sizeof *whole);
  for (int64_t k = 0; k < size && !hlo_stopped(lower) && (places || !k); k++) {
    int64_t begin = k * dilation;
    for (int32_t i = 0; i < a->count; i++)
      shifted[i] = hlo_slice(lower, whole[i], a->axis, begin, begin + used, stride);
    if (k)
      (void)hlo_combine(lower, a->region, edges, shifted, a->count, edges);
    else
      memcpy(edges, shifted, (size_t)a->count * sizeof *edges);
  }
}

/* reduce_window */

static void reduce_windows(hlo_lower_t *lower, const window_t *w, const hlo_region_t *region,
                           int32_t count) {
  tenon_edge_t *edges = hlo_lower_take(lower, 2 * (size_t)count, sizeof *edges);
  if (!edges || hlo_stopped(lower)) return;
  tenon_edge_t *inits = edges + count;
  for (int32_t i = 0; i < count; i++) {
    inits[i] = hlo_edge(lower, count + i);
    edges[i] = hlo_pad(lower, hlo_edge(lower, i), inits[i], w->low, w->high, w->interior, w->ndim);
  }
  for (int32_t i = w->ndim - 1; i >= 0 && !hlo_stopped(lower); i--) {
    axis_t axis = {region, count, i, hlo_extent(lower, edges[0], i)};
    if (w->size[i] == 1 && w->stride[i] == 1) continue;
    if (axis.extent < 0) hlo_missing(lower, "windows along an axis of unknown extent");
    if (!hlo_stopped(lower)) reduce_axis(lower, w, &axis, edges);
  }
  if (count > 1 || !hlo_is_neutral(lower, 1, hlo_region_operation(region)))
    (void)hlo_combine(lower, region, inits, edges, count, edges);
  for (int32_t i = 0; i < count && !hlo_stopped(lower); i++)
    hlo_give(lower, i, edges[i]);
}

static void lower_reduce_window(hlo_lower_t *lower) {
  window_t *w = hlo_lower_take(lower, 1, sizeof *w);
  int32_t count = lower->op->operand_count / 2;
  const hlo_region_t *region = hlo_region(lower, 0);
  if (count < 1 || lower->op->operand_count != 2 * count || lower->op->result_count != count)
    hlo_wrong(lower, "expected as many results and initial values as operands");
  if (!w || !region || hlo_stopped(lower)) return;
  read_window(lower, w);
  for (int32_t i = 1; i < count && !hlo_stopped(lower); i++)
    if (hlo_operand_type(lower, i)->ndim != w->ndim)
      hlo_wrong(lower, "the operands have different numbers of axes");
  if (!hlo_stopped(lower)) reduce_windows(lower, w, region, count);
}

/* select_and_scatter */

typedef struct choosing_t { /* The positions of a window, one after the other. */
  const window_t *w;
  int64_t places[TENON_RANK_MAX]; /* How many windows there are along each axis. */
  int64_t at[TENON_RANK_MAX];     /* The position within the window. */
} choosing_t;

static tenon_edge_t slice_position(hlo_lower_t *lower, const choosing_t *c, tenon_edge_t x) {
  for (int32_t i = 0; i < c->w->ndim; i++)
    x = hlo_slice(lower, x, i, c->at[i], c->at[i] + (c->places[i] - 1) * c->w->stride[i] + 1,
                  c->w->stride[i]);
  return x;
}

static bool next_position(choosing_t *c) {
  for (int32_t i = c->w->ndim - 1; i >= 0; i--) {
    if (++c->at[i] < c->w->size[i]) return true;
    c->at[i] = 0;
  }
  return false;
}

/* Finds for each window the number of the position that the region selects. Padding is never
 * selected. */
static tenon_edge_t choose_positions(hlo_lower_t *lower, choosing_t *c, const hlo_region_t *region,
                                     tenon_edge_t x, tenon_edge_t inside) {
  tenon_edge_t best = EDGE_NONE;
  tenon_edge_t chosen = EDGE_NONE;
  tenon_edge_t has_any = EDGE_NONE;
  long long number = 0;
  do {
    tenon_edge_t value = slice_position(lower, c, x);
    tenon_edge_t valid = inside == EDGE_NONE ? EDGE_NONE : slice_position(lower, c, inside);
    if (!number) {
      best = value;
      has_any = valid;
      chosen = hlo_run(lower, EDGES(value), "expand(0:i32, shape(a))");
      continue;
    }
    tenon_edge_t keeps = EDGE_NONE;
    if (!hlo_combine(lower, region, &best, &value, 1, &keeps)) return EDGE_NONE;
    if (inside != EDGE_NONE) {
      keeps = hlo_run(lower, EDGES(keeps, has_any, valid), "or(and(a, b), not(c))");
      has_any = hlo_run(lower, EDGES(has_any, valid), "or(a, b)");
    }
    best = hlo_run(lower, EDGES(keeps, best, value), "where(a, b, c)");
    chosen = hlo_run(lower, EDGES(keeps, chosen), "where(a, b, %lld:i32)", number);
  } while (++number && next_position(c) && !hlo_stopped(lower));
  return chosen;
}

/* Adds up, for each position, the source where it was chosen, at its place in the padded operand.
 */
static tenon_edge_t scatter_positions(hlo_lower_t *lower, choosing_t *c, const hlo_region_t *region,
                                      const int64_t *extents, tenon_edge_t chosen,
                                      tenon_edge_t source, tenon_edge_t init) {
  int64_t high[TENON_RANK_MAX] = {0}, interior[TENON_RANK_MAX] = {0};
  tenon_edge_t sum = EDGE_NONE;
  long long number = 0;
  do {
    tenon_edge_t part =
        hlo_run(lower, EDGES(chosen, source, init), "where(equal(a, %lld:i32), b, c)", number);
    for (int32_t i = 0; i < c->w->ndim; i++) {
      interior[i] = c->w->stride[i] - 1;
      high[i] = extents[i] - c->at[i] - ((c->places[i] - 1) * c->w->stride[i] + 1);
    }
    part = hlo_pad(lower, part, init, c->at, high, interior, c->w->ndim);
    if (!number) {
      sum = part;
      continue;
    }
    if (!hlo_combine(lower, region, &sum, &part, 1, &sum)) return EDGE_NONE;
  } while (++number && next_position(c) && !hlo_stopped(lower));
  return sum;
}

static void scatter_selected(hlo_lower_t *lower, const window_t *w, const hlo_region_t *select,
                             const hlo_region_t *scatter) {
  const int64_t zeros[TENON_RANK_MAX] = {0};
  choosing_t c = {.w = w};
  int64_t extents[TENON_RANK_MAX], low[TENON_RANK_MAX], high[TENON_RANK_MAX];
  bool is_padded = false;
  const hlo_type_t *type = hlo_operand_type(lower, 0);
  const hlo_type_t *source_type = hlo_operand_type(lower, 1);
  tenon_edge_t x = hlo_edge(lower, 0);
  tenon_edge_t inside = EDGE_NONE;
  for (int32_t i = 0; i < w->ndim; i++) {
    c.places[i] = source_type->dims[i];
    extents[i] = type->dims[i] + w->low[i] + w->high[i];
    low[i] = -w->low[i];
    high[i] = -w->high[i];
    is_padded |= w->low[i] != 0 || w->high[i] != 0;
    if (c.places[i] < 1 || extents[i] < w->size[i] ||
        c.places[i] - 1 > (extents[i] - w->size[i]) / w->stride[i])
      hlo_missing(lower, "windows that reach beyond the operand, or none");
  }
  if (is_padded) {
    inside = hlo_run(lower, EDGES(x), "expand(cast(1:i32, to=bool), shape(a))");
    tenon_edge_t outside = hlo_run(lower, EDGES(x), "cast(0:i32, to=bool)");
    inside = hlo_pad(lower, inside, outside, w->low, w->high, zeros, w->ndim);
    x = hlo_pad(lower, x, hlo_run(lower, EDGES(x), "0:a"), w->low, w->high, zeros, w->ndim);
  }
  tenon_edge_t chosen = choose_positions(lower, &c, select, x, inside);
  memset(c.at, 0, sizeof c.at);
  tenon_edge_t sum = scatter_positions(lower, &c, scatter, extents, chosen, hlo_edge(lower, 1),
                                       hlo_edge(lower, 2));
  if (!hlo_stopped(lower))
    hlo_give(lower, 0, hlo_pad(lower, sum, hlo_edge(lower, 2), low, high, zeros, w->ndim));
}

static void lower_select_and_scatter(hlo_lower_t *lower) {
  window_t *w = hlo_lower_take(lower, 1, sizeof *w);
  const hlo_region_t *select = hlo_region(lower, 0);
  const hlo_region_t *scatter = hlo_region(lower, 1);
  int64_t positions = 1;
  if (!w || !select || !scatter || hlo_stopped(lower)) return;
  read_window(lower, w);
  if (hlo_operand_type(lower, 1)->ndim != w->ndim)
    hlo_wrong(lower, "the source has another number of axes than the operand");
  for (int32_t i = 0; i < w->ndim && !hlo_stopped(lower); i++) {
    positions = positions > POSITIONS_MAX ? positions : positions * w->size[i];
    if (hlo_operand_type(lower, 0)->dims[i] < 0 || hlo_operand_type(lower, 1)->dims[i] < 0)
      hlo_missing(lower, "windows along an axis of unknown extent");
  }
  if (positions > POSITIONS_MAX) hlo_missing(lower, "windows of more than 4096 elements");
  if (!hlo_stopped(lower) && !hlo_is_neutral(lower, 2, hlo_region_operation(scatter)))
    hlo_missing(lower, "an initial value that is not neutral for its second region");
  if (!hlo_stopped(lower)) scatter_selected(lower, w, select, scatter);
}

static const hlo_row_t rows[] = {
    {"stablehlo.reduce_window", NULL, NULL, NULL, lower_reduce_window, 0, NULL},
    {"stablehlo.select_and_scatter", NULL, NULL, NULL, lower_select_and_scatter, 0, NULL},
};

HLO_ROWS(hlo_rows_window);
