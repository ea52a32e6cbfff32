/* Operations of StableHLO with types that follow from the operands. Called by the writers. */
#include "write/operation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const hlo_val_t none = {.id = -1};

/* element-wise */

hlo_val_t hlo_unary(hlo_write_t *w, const char *name, hlo_val_t a) {
  return hlo_emit(w, name, a, "", NULL, &a, 1);
}

hlo_val_t hlo_binary(hlo_write_t *w, const char *name, hlo_val_t a, hlo_val_t b) {
  const hlo_val_t operands[] = {a, b};
  return hlo_emit(w, name, a, "", NULL, operands, 2);
}

hlo_val_t hlo_compare_by(hlo_write_t *w, const char *direction, hlo_val_t a, hlo_val_t b) {
  const hlo_val_t operands[] = {a, b};
  hlo_val_t type = a;
  type.dtype = tenon_dtype(TENON_BOOL);
  return hlo_emit(
      w, "stablehlo.compare", type,
      hlo_format(w, "comparison_direction = #stablehlo<comparison_direction %s>", direction), NULL,
      operands, 2);
}

hlo_val_t hlo_select(hlo_write_t *w, hlo_val_t condition, hlo_val_t a, hlo_val_t b) {
  const hlo_val_t operands[] = {condition, a, b};
  return hlo_emit(w, "stablehlo.select", a, "", NULL, operands, 3);
}

hlo_val_t hlo_convert(hlo_write_t *w, hlo_val_t a, tenon_dtype_t dtype) {
  if (tenon_dtype_id(a.dtype) == tenon_dtype_id(dtype)) return a;
  hlo_val_t type = a;
  type.dtype = dtype;
  return hlo_emit(w, "stablehlo.convert", type, "", NULL, &a, 1);
}

hlo_val_t hlo_fill(hlo_write_t *w, const hlo_val_t *like, double number) {
  return hlo_broadcast_in(w, hlo_number(w, like->dtype, number), NULL, like->ndim, like->dims);
}

/* shapes */

hlo_val_t hlo_broadcast_in(hlo_write_t *w, hlo_val_t a, const int64_t *axes, int32_t ndim,
                           const int64_t *dims) {
  hlo_val_t type = hlo_type_of(a.dtype, ndim, dims);
  return hlo_emit(w, "stablehlo.broadcast_in_dim", type,
                  hlo_format(w, "broadcast_dimensions = %s", hlo_array_text(w, axes, a.ndim)), NULL,
                  &a, 1);
}

hlo_val_t hlo_broadcast_to(hlo_write_t *w, hlo_val_t a, const hlo_val_t *like) {
  int64_t axes[TENON_RANK_MAX];
  if (hlo_write_stopped(w) || hlo_same_shape(&a, like)) return a;
  for (int32_t i = 0; i < a.ndim; i++)
    axes[i] = i + like->ndim - a.ndim;
  return hlo_broadcast_in(w, a, axes, like->ndim, like->dims);
}

hlo_val_t hlo_along(hlo_write_t *w, hlo_val_t a, int32_t axis, const hlo_val_t *like) {
  int64_t axes[] = {axis};
  return hlo_broadcast_in(w, a, axes, like->ndim, like->dims);
}

hlo_val_t hlo_to_shape(hlo_write_t *w, hlo_val_t a, int32_t ndim, const int64_t *dims) {
  hlo_val_t type = hlo_type_of(a.dtype, ndim, dims);
  if (hlo_write_stopped(w) || hlo_same_shape(&a, &type)) return a;
  return hlo_emit(w, "stablehlo.reshape", type, "", NULL, &a, 1);
}

hlo_val_t hlo_permute(hlo_write_t *w, hlo_val_t a, const int64_t *perm) {
  hlo_val_t type = a;
  for (int32_t i = 0; i < a.ndim; i++)
    type.dims[i] = a.dims[perm[i]];
  return hlo_emit(w, "stablehlo.transpose", type,
                  hlo_format(w, "permutation = %s", hlo_array_text(w, perm, a.ndim)), NULL, &a, 1);
}

hlo_val_t hlo_cut(hlo_write_t *w, hlo_val_t a, const int64_t *starts, const int64_t *ends,
                  const int64_t *steps) {
  hlo_val_t type = a;
  for (int32_t i = 0; i < a.ndim; i++)
    type.dims[i] = (ends[i] - starts[i] + steps[i] - 1) / steps[i];
  return hlo_emit(w, "stablehlo.slice", type,
                  hlo_format(w, "start_indices = %s, limit_indices = %s, strides = %s",
                             hlo_array_text(w, starts, a.ndim), hlo_array_text(w, ends, a.ndim),
                             hlo_array_text(w, steps, a.ndim)),
                  NULL, &a, 1);
}

hlo_val_t hlo_cut_axis(hlo_write_t *w, hlo_val_t a, int32_t axis, int64_t start, int64_t end) {
  int64_t starts[TENON_RANK_MAX] = {0};
  int64_t ends[TENON_RANK_MAX];
  int64_t steps[TENON_RANK_MAX];
  for (int32_t i = 0; i < a.ndim; i++) {
    ends[i] = a.dims[i];
    steps[i] = 1;
  }
  starts[axis] = start;
  ends[axis] = end;
  return hlo_cut(w, a, starts, ends, steps);
}

hlo_val_t hlo_turn(hlo_write_t *w, hlo_val_t a, const int64_t *axes, int32_t count) {
  return hlo_emit(w, "stablehlo.reverse", a,
                  hlo_format(w, "dimensions = %s", hlo_array_text(w, axes, count)), NULL, &a, 1);
}

hlo_val_t hlo_join_items(hlo_write_t *w, const hlo_val_t *items, int32_t count, int32_t axis) {
  hlo_val_t type = items[0];
  for (int32_t i = 1; i < count; i++)
    type.dims[axis] += items[i].dims[axis];
  return hlo_emit(w, "stablehlo.concatenate", type, hlo_format(w, "dimension = %d : i64", axis),
                  NULL, items, count);
}

void hlo_check_window(hlo_write_t *w, const int64_t *numbers, int32_t count, int64_t least) {
  for (int32_t i = 0; i < count && !hlo_write_stopped(w); i++)
    if (numbers[i] < least || numbers[i] > HLO_WINDOW_MOST)
      hlo_write_missing(w, "a window or padding has the number %lld, expected %lld to %d",
                        (long long)numbers[i], (long long)least, (int)HLO_WINDOW_MOST);
}

hlo_val_t hlo_pad_with(hlo_write_t *w, hlo_val_t a, hlo_val_t number, const int64_t *low,
                       const int64_t *high) {
  const hlo_val_t operands[] = {a, number};
  int64_t inside[TENON_RANK_MAX] = {0};
  hlo_val_t type = a;
  hlo_check_window(w, low, a.ndim, -HLO_WINDOW_MOST);
  hlo_check_window(w, high, a.ndim, -HLO_WINDOW_MOST);
  if (hlo_write_stopped(w)) return none;
  for (int32_t i = 0; i < a.ndim; i++)
    type.dims[i] += low[i] + high[i];
  return hlo_emit(w, "stablehlo.pad", type,
                  hlo_format(w,
                             "edge_padding_low = %s, edge_padding_high = %s, interior_padding = %s",
                             hlo_array_text(w, low, a.ndim), hlo_array_text(w, high, a.ndim),
                             hlo_array_text(w, inside, a.ndim)),
                  NULL, operands, 2);
}

hlo_val_t hlo_count_along(hlo_write_t *w, hlo_val_t type, int32_t axis) {
  return hlo_emit(w, "stablehlo.iota", type, hlo_format(w, "iota_dimension = %d : i64", axis), NULL,
                  NULL, 0);
}

/* reductions */

const char *hlo_region_of(hlo_write_t *w, const char *name, tenon_dtype_t dtype) {
  char *text = NULL;
  size_t size = 0;
  hlo_val_t scalar = hlo_type_of(dtype, 0, NULL);
  FILE *out = open_memstream(&text, &size);
  if (!out) return hlo_format(w, "%s", "");
  hlo_print_type(out, &scalar);
  fclose(out);
  const char *type = hlo_format(w, "%s", text ? text : "");
  free(text);
  if (!name)
    return hlo_format(w,
                      "    ^bb0(%%a: %s, %%b: %s):\n      \"stablehlo.return\"(%%b) : (%s) -> ()\n",
                      type, type, type);
  return hlo_format(w,
                    "    ^bb0(%%a: %s, %%b: %s):\n      %%r = \"%s\"(%%a, %%b) : (%s, %s) -> %s\n"
                    "      \"stablehlo.return\"(%%r) : (%s) -> ()\n",
                    type, type, name, type, type, type, type);
}

hlo_val_t hlo_reduce_axes(hlo_write_t *w, const char *name, hlo_val_t a, double start,
                          const int64_t *axes, int32_t count) {
  const hlo_val_t operands[] = {a, hlo_number(w, a.dtype, start)};
  hlo_val_t type = hlo_type_of(a.dtype, 0, NULL);
  for (int32_t i = 0; i < a.ndim; i++) {
    bool is_reduced = false;
    for (int32_t k = 0; k < count; k++)
      is_reduced = is_reduced || axes[k] == i;
    if (!is_reduced) type.dims[type.ndim++] = a.dims[i];
  }
  return hlo_emit(w, "stablehlo.reduce", type,
                  hlo_format(w, "dimensions = %s", hlo_array_text(w, axes, count)),
                  hlo_region_of(w, name, a.dtype), operands, 2);
}

hlo_val_t hlo_reduce_keep(hlo_write_t *w, const char *name, hlo_val_t a, double start,
                          const int64_t *axes, int32_t count) {
  hlo_val_t type = a;
  for (int32_t k = 0; k < count; k++)
    type.dims[axes[k]] = 1;
  return hlo_to_shape(w, hlo_reduce_axes(w, name, a, start, axes, count), a.ndim, type.dims);
}

const char *hlo_padding_text(hlo_write_t *w, const int64_t *low, const int64_t *high,
                             int32_t count) {
  const char *text = "";
  for (int32_t i = 0; i < count; i++)
    text = hlo_format(w, "%s%s[%lld, %lld]", text, i ? ", " : "", (long long)low[i],
                      (long long)high[i]);
  if (!count) return "dense<> : tensor<0x2xi64>";
  return hlo_format(w, "dense<[%s]> : tensor<%dx2xi64>", text, (int)count);
}

hlo_val_t hlo_reduce_windows(hlo_write_t *w, const char *name, hlo_val_t a, double start,
                             const hlo_window_t *window) {
  const hlo_val_t operands[] = {a, hlo_number(w, a.dtype, start)};
  hlo_val_t type = a;
  hlo_check_window(w, window->extents, a.ndim, 1);
  hlo_check_window(w, window->strides, a.ndim, 1);
  hlo_check_window(w, window->dilations, a.ndim, 1);
  hlo_check_window(w, window->low, a.ndim, -HLO_WINDOW_MOST);
  hlo_check_window(w, window->high, a.ndim, -HLO_WINDOW_MOST);
  if (hlo_write_stopped(w)) return none;
  for (int32_t i = 0; i < a.ndim; i++) {
    int64_t span = (window->extents[i] - 1) * window->dilations[i] + 1;
    int64_t room = a.dims[i] + window->low[i] + window->high[i] - span;
    type.dims[i] = room < 0 ? 0 : room / window->strides[i] + 1;
  }
  return hlo_emit(
      w, "stablehlo.reduce_window", type,
      hlo_format(
          w, "window_dimensions = %s, window_strides = %s, window_dilations = %s, padding = %s",
          hlo_array_text(w, window->extents, a.ndim), hlo_array_text(w, window->strides, a.ndim),
          hlo_array_text(w, window->dilations, a.ndim),
          hlo_padding_text(w, window->low, window->high, a.ndim)),
      hlo_region_of(w, name, a.dtype), operands, 2);
}

double hlo_lowest(tenon_dtype_t dtype) {
  if (hlo_dtype_is_float(dtype)) return -INFINITY;
  if (hlo_dtype_is_unsigned(dtype) || hlo_dtype_is_bool(dtype)) return 0;
  return -ldexp(1, dtype.bits - 1);
}

double hlo_highest(tenon_dtype_t dtype) {
  if (hlo_dtype_is_float(dtype)) return INFINITY;
  if (hlo_dtype_is_bool(dtype)) return 1;
  return ldexp(1, dtype.bits - (hlo_dtype_is_unsigned(dtype) ? 0 : 1)) - 1;
}

/* products */

hlo_val_t hlo_product(hlo_write_t *w, hlo_val_t a, hlo_val_t b) {
  const hlo_val_t operands[] = {a, b};
  int64_t batch[TENON_RANK_MAX];
  hlo_val_t type = a;
  if (hlo_write_stopped(w)) return none;
  for (int32_t i = 0; i < a.ndim - 2; i++)
    batch[i] = i;
  type.dims[a.ndim - 1] = b.dims[b.ndim - 1];
  const char *batches = hlo_list_text(w, batch, a.ndim - 2);
  return hlo_emit(w, "stablehlo.dot_general", type,
                  hlo_format(w,
                             "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = %s, "
                             "rhs_batching_dimensions = %s, lhs_contracting_dimensions = [%d], "
                             "rhs_contracting_dimensions = [%d]>",
                             batches, batches, a.ndim - 1, b.ndim - 2),
                  NULL, operands, 2);
}

/* gather */

typedef struct taken_t { /* What a gather takes: whole axes of `a`, except for positions. */
  int32_t vector_axis;   /* The axis of the indices that holds coordinates. */
  int32_t first;         /* The first axis of `a` that is a position, */
  int32_t count;         /* and their number. */
  int32_t offset_count;
  int64_t offsets[TENON_RANK_MAX]; /* The axes of the result that are whole axes of `a`. */
} taken_t;

static hlo_val_t gather_rows(hlo_write_t *w, hlo_val_t a, hlo_val_t indices, hlo_val_t type,
                             const taken_t *t) {
  const hlo_val_t operands[] = {a, indices};
  int64_t taken[TENON_RANK_MAX];
  int64_t sizes[TENON_RANK_MAX];
  for (int32_t i = 0; i < t->count; i++)
    taken[i] = t->first + i;
  for (int32_t i = 0; i < a.ndim; i++)
    sizes[i] = i >= t->first && i < t->first + t->count ? 1 : a.dims[i];
  const char *positions = hlo_list_text(w, taken, t->count);
  return hlo_emit(w, "stablehlo.gather", type,
                  hlo_format(w,
                             "dimension_numbers = #stablehlo.gather<offset_dims = %s, "
                             "collapsed_slice_dims = %s, start_index_map = %s, "
                             "index_vector_dim = %d>, slice_sizes = %s, indices_are_sorted = false",
                             hlo_list_text(w, t->offsets, t->offset_count), positions, positions,
                             (int)t->vector_axis, hlo_array_text(w, sizes, a.ndim)),
                  NULL, operands, 2);
}

hlo_val_t hlo_take_along(hlo_write_t *w, hlo_val_t a, hlo_val_t indices, int32_t axis) {
  taken_t taken = {.vector_axis = indices.ndim, .first = axis, .count = 1};
  hlo_val_t type = hlo_type_of(a.dtype, 0, NULL);
  if (a.ndim + indices.ndim > TENON_RANK_MAX)
    hlo_write_missing(w, "a result has more than %d axes", TENON_RANK_MAX);
  if (hlo_write_stopped(w)) return none;
  for (int32_t i = 0; i < a.ndim; i++) {
    if (i != axis) {
      taken.offsets[taken.offset_count++] = type.ndim;
      type.dims[type.ndim++] = a.dims[i];
      continue;
    }
    for (int32_t k = 0; k < indices.ndim; k++)
      type.dims[type.ndim++] = indices.dims[k];
  }
  return gather_rows(w, a, indices, type, &taken);
}

hlo_val_t hlo_take_at(hlo_write_t *w, hlo_val_t a, hlo_val_t indices) {
  taken_t taken = {.vector_axis = indices.ndim - 1};
  hlo_val_t type = hlo_type_of(a.dtype, 0, NULL);
  if (hlo_write_stopped(w)) return none;
  const int32_t depth = (int32_t)indices.dims[indices.ndim - 1];
  for (int32_t i = 0; i < indices.ndim - 1; i++)
    type.dims[type.ndim++] = indices.dims[i];
  for (int32_t i = depth; i < a.ndim; i++) {
    taken.offsets[taken.offset_count++] = type.ndim;
    type.dims[type.ndim++] = a.dims[i];
  }
  taken.count = depth;
  return gather_rows(w, a, indices, type, &taken);
}

hlo_val_t hlo_from_start(hlo_write_t *w, hlo_val_t indices, int64_t extent) {
  if (hlo_write_stopped(w) || hlo_dtype_is_unsigned(indices.dtype)) return indices;
  hlo_val_t zero = hlo_fill(w, &indices, 0);
  hlo_val_t wrapped =
      hlo_binary(w, "stablehlo.add", indices, hlo_fill(w, &indices, (double)extent));
  return hlo_select(w, hlo_compare_by(w, "LT", indices, zero), wrapped, indices);
}
