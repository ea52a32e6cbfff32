/* Writes operators that view, move or join data. */
#include <string.h>

#include "write/operation.h"

/* The elements in the same order, with the shape that inference found. */
static void write_reshape(hlo_write_t *w) {
  hlo_val_t type = hlo_result(w, 0);
  hlo_give_val(w, 0, hlo_to_shape(w, hlo_in(w, 0), type.ndim, type.dims));
}

static void write_expand(hlo_write_t *w) {
  hlo_val_t type = hlo_result(w, 0);
  hlo_give_val(w, 0, hlo_broadcast_to(w, hlo_in(w, 0), &type));
}

static void write_transpose(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  int64_t perm[TENON_RANK_MAX];
  const tenon_value_t *stated = hlo_write_attr(w, "perm");
  bool is_stated = stated && stated->kind == TENON_KIND_INTS;
  for (int32_t i = 0; i < a.ndim; i++) {
    perm[i] = a.ndim - 1 - i;
    if (is_stated && i < (int32_t)stated->count) perm[i] = hlo_axis(w, stated->as.ints[i], a.ndim);
  }
  if (!hlo_write_stopped(w)) hlo_give_val(w, 0, hlo_permute(w, a, perm));
}

static void write_concat(hlo_write_t *w) {
  int32_t count = hlo_operand_count(w, 0);
  hlo_val_t first = hlo_in(w, 0);
  hlo_val_t *items = tn_arena_array(w->arena, (size_t)count + 1, sizeof *items);
  int32_t axis = hlo_axis(w, hlo_write_int(w, "axis"), first.ndim);
  if (!items) (void)hlo_write_failed(w, TENON_MEMORY);
  for (int32_t i = 0; i < count && !hlo_write_stopped(w); i++)
    items[i] = hlo_item(w, 0, i);
  if (!hlo_write_stopped(w)) hlo_give_val(w, 0, hlo_join_items(w, items, count, axis));
}

static void write_split(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  int64_t start = 0;
  int32_t axis = hlo_axis(w, hlo_write_int(w, "axis"), a.ndim);
  for (int32_t i = 0; i < w->node.output_count && !hlo_write_stopped(w); i++) {
    int64_t size = hlo_result(w, i).dims[axis];
    hlo_give_val(w, i, hlo_cut_axis(w, a, axis, start, start + size));
    start += size;
  }
}

static int64_t clamp(int64_t value, int64_t least, int64_t most) {
  if (value < least) return least;
  return value > most ? most : value;
}

/* One axis of a slice, whose step may be negative: the axis is turned first. */
typedef struct range_t {
  int64_t starts[TENON_RANK_MAX];
  int64_t ends[TENON_RANK_MAX];
  int64_t steps[TENON_RANK_MAX];
  int64_t turned[TENON_RANK_MAX];
  int32_t turned_count;
} range_t;

static void set_range(range_t *range, int32_t axis, int64_t extent, int64_t start, int64_t end,
                      int64_t step) {
  /* Steps beyond the extent take one element. */
  const int64_t most = extent ? extent : 1;
  step = clamp(step, -most, most);
  if (start < 0) start = start < -extent ? -extent - 1 : start;
  if (start < 0) start += extent;
  if (end < 0) end = end < -extent ? -extent - 1 : end;
  if (end < 0) end += extent;
  if (step > 0) {
    range->starts[axis] = clamp(start, 0, extent);
    range->ends[axis] = clamp(end, range->starts[axis], extent);
    range->steps[axis] = step;
    return;
  }
  start = extent ? clamp(start, 0, extent - 1) : -1;
  end = clamp(end, -1, start);
  range->turned[range->turned_count++] = axis;
  range->starts[axis] = extent - 1 - start;
  range->ends[axis] = extent - 1 - end;
  range->steps[axis] = -step;
}

static void write_slice(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  int64_t starts[TENON_RANK_MAX];
  int64_t ends[TENON_RANK_MAX];
  int64_t axes[TENON_RANK_MAX];
  int64_t steps[TENON_RANK_MAX];
  range_t range = {.turned_count = 0};
  int32_t count = hlo_known_ints(w, 1, starts, TENON_RANK_MAX);
  int32_t end_count = hlo_known_ints(w, 2, ends, TENON_RANK_MAX);
  int32_t axis_count = hlo_known_ints(w, 3, axes, TENON_RANK_MAX);
  int32_t step_count = hlo_known_ints(w, 4, steps, TENON_RANK_MAX);
  if (count != end_count || count > a.ndim) hlo_write_missing(w, "starts and ends differ");
  for (int32_t i = 0; i < a.ndim; i++)
    set_range(&range, i, a.dims[i], 0, a.dims[i], 1);
  for (int32_t i = 0; i < count && !hlo_write_stopped(w); i++) {
    int32_t axis = hlo_axis(w, i < axis_count ? axes[i] : i, a.ndim);
    int64_t step = i < step_count ? steps[i] : 1;
    if (!step) hlo_write_missing(w, "a step of 0");
    if (!hlo_write_stopped(w)) set_range(&range, axis, a.dims[axis], starts[i], ends[i], step);
  }
  if (range.turned_count) a = hlo_turn(w, a, range.turned, range.turned_count);
  if (!hlo_write_stopped(w))
    hlo_give_val(w, 0, hlo_cut(w, a, range.starts, range.ends, range.steps));
}

/* Reads the widths of padding: for each axis the elements before and after. */
static void read_pads(hlo_write_t *w, const hlo_val_t *a, int64_t *low, int64_t *high) {
  int64_t pads[2 * TENON_RANK_MAX];
  int64_t axes[TENON_RANK_MAX];
  int32_t count = hlo_known_ints(w, 1, pads, 2 * TENON_RANK_MAX) / 2;
  int32_t axis_count = hlo_known_ints(w, 3, axes, TENON_RANK_MAX);
  for (int32_t i = 0; i < a->ndim; i++) {
    low[i] = 0;
    high[i] = 0;
  }
  for (int32_t i = 0; i < count && !hlo_write_stopped(w); i++) {
    int32_t axis = hlo_axis(w, i < axis_count ? axes[i] : i, a->ndim);
    low[axis] = pads[i];
    high[axis] = pads[i + count];
  }
}

/* The `count` elements that continue an axis before or after it. */
static hlo_val_t continuation(hlo_write_t *w, hlo_val_t a, int32_t axis, int64_t count,
                              const char *mode, bool is_before) {
  int64_t extent = a.dims[axis];
  int64_t turned[] = {axis};
  if (strcmp(mode, "edge") == 0) {
    hlo_val_t type = a;
    int64_t at = is_before ? 0 : extent - 1;
    type.dims[axis] = count;
    return hlo_broadcast_to(w, hlo_cut_axis(w, a, axis, at, at + 1), &type);
  }
  if (count > extent - (*mode == 'r')) hlo_write_missing(w, "padding is wider than its axis");
  if (hlo_write_stopped(w)) return a;
  int64_t start = is_before ? 1 : extent - 1 - count;
  if (strcmp(mode, "wrap") == 0) start = is_before ? extent - count : 0;
  if (strcmp(mode, "wrap") == 0) return hlo_cut_axis(w, a, axis, start, start + count);
  return hlo_turn(w, hlo_cut_axis(w, a, axis, start, start + count), turned, 1);
}

static hlo_val_t continue_axis(hlo_write_t *w, hlo_val_t a, int32_t axis, int64_t low, int64_t high,
                               const char *mode) {
  hlo_val_t parts[3];
  int32_t count = 0;
  if (low > 0) parts[count++] = continuation(w, a, axis, low, mode, true);
  int64_t start = low < 0 ? -low : 0;
  int64_t end = high < 0 ? a.dims[axis] + high : a.dims[axis];
  parts[count++] = hlo_cut_axis(w, a, axis, start, end);
  if (high > 0) parts[count++] = continuation(w, a, axis, high, mode, false);
  return count > 1 && !hlo_write_stopped(w) ? hlo_join_items(w, parts, count, axis) : parts[0];
}

static void write_pad(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  int64_t low[TENON_RANK_MAX];
  int64_t high[TENON_RANK_MAX];
  const char *mode = hlo_write_choice(w, "mode");
  read_pads(w, &a, low, high);
  if (hlo_write_stopped(w)) return;
  if (strcmp(mode, "constant") == 0) {
    hlo_val_t number = hlo_operand_count(w, 2) ? hlo_in(w, 2) : hlo_number(w, a.dtype, 0);
    number = hlo_to_shape(w, number, 0, NULL);
    hlo_give_val(w, 0, hlo_pad_with(w, a, number, low, high));
    return;
  }
  for (int32_t i = 0; i < a.ndim && !hlo_write_stopped(w); i++)
    if (low[i] || high[i]) a = continue_axis(w, a, i, low[i], high[i], mode);
  hlo_give_val(w, 0, a);
}

static void write_tile(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  int64_t repeats[TENON_RANK_MAX];
  int32_t count = hlo_known_ints(w, 1, repeats, TENON_RANK_MAX);
  if (count != a.ndim) hlo_write_missing(w, "repeats are not one for each axis");
  for (int32_t i = 0; i < a.ndim && !hlo_write_stopped(w); i++) {
    hlo_val_t parts[64];
    if (repeats[i] == 1) continue;
    if (repeats[i] < 1 || repeats[i] > 64) {
      hlo_write_missing(w, "more than 64 repeats, or none");
      return;
    }
    for (int64_t k = 0; k < repeats[i]; k++)
      parts[k] = a;
    a = hlo_join_items(w, parts, (int32_t)repeats[i], i);
  }
  hlo_give_val(w, 0, a);
}

/* Splits axes, permutes them, and joins them again. */
static void give_permuted(hlo_write_t *w, const int64_t *split, const int64_t *perm,
                          int32_t count) {
  hlo_val_t type = hlo_result(w, 0);
  hlo_val_t value = hlo_to_shape(w, hlo_in(w, 0), count, split);
  if (hlo_write_stopped(w)) return;
  value = hlo_permute(w, value, perm);
  hlo_give_val(w, 0, hlo_to_shape(w, value, type.ndim, type.dims));
}

static void write_depth_to_space(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  int64_t block = hlo_write_int(w, "block");
  bool is_crd = strcmp(hlo_write_choice(w, "mode"), "CRD") == 0;
  if (a.ndim != 4 || block < 1) hlo_write_missing(w, "expected 4 axes");
  if (hlo_write_stopped(w)) return;
  int64_t depth = a.dims[1] / (block * block);
  const int64_t dcr[] = {a.dims[0], block, block, depth, a.dims[2], a.dims[3]};
  const int64_t crd[] = {a.dims[0], depth, block, block, a.dims[2], a.dims[3]};
  static const int64_t dcr_perm[] = {0, 3, 4, 1, 5, 2};
  static const int64_t crd_perm[] = {0, 1, 4, 2, 5, 3};
  if (is_crd)
    give_permuted(w, crd, crd_perm, 6);
  else
    give_permuted(w, dcr, dcr_perm, 6);
}

/* Keeps one triangle of matrices: column - row is compared with k. */
static void write_trilu(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  int64_t k = 0;
  (void)hlo_known_ints(w, 1, &k, 1);
  if (a.ndim < 2) hlo_write_missing(w, "expected matrices");
  if (hlo_write_stopped(w)) return;
  hlo_val_t type = a;
  type.dtype = tenon_dtype(TENON_I64);
  hlo_val_t distance = hlo_binary(w, "stablehlo.subtract", hlo_count_along(w, type, a.ndim - 1),
                                  hlo_count_along(w, type, a.ndim - 2));
  const char *direction = hlo_write_int(w, "upper") ? "GE" : "LE";
  hlo_val_t kept = hlo_compare_by(w, direction, distance, hlo_fill(w, &type, (double)k));
  hlo_give_val(w, 0, hlo_select(w, kept, a, hlo_fill(w, &a, 0)));
}

static const hlo_write_row_t rows[] = {
    {"reshape", NULL, write_reshape},
    {"flatten", NULL, write_reshape},
    {"squeeze", NULL, write_reshape},
    {"unsqueeze", NULL, write_reshape},
    {"view", NULL, write_reshape},
    {"expand", NULL, write_expand},
    {"transpose", NULL, write_transpose},
    {"concat", NULL, write_concat},
    {"split", NULL, write_split},
    {"slice", NULL, write_slice},
    {"pad", NULL, write_pad},
    {"tile", NULL, write_tile},
    {"depth_to_space", NULL, write_depth_to_space},
    {"trilu", NULL, write_trilu},
};

HLO_WRITE_ROWS(hlo_write_rows_shape);
