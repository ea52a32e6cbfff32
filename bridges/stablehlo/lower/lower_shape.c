/* Lowers operations that move elements or make new ones by position: broadcasts, reshapes, slices,
 * padding, iota, and constants, with extents from the program's text. */
#include <string.h>

#include "lower/arguments.h"
#include "lower/expression.h"
#include "lower/lower.h"

/* constants */

static void lower_constant(hlo_lower_t *lower) {
  const hlo_attr_t *attr = hlo_attr(lower, "value", NULL);
  if (!attr || attr->kind != HLO_ATTR_TENSOR || !attr->tensor) {
    hlo_wrong(lower, "expected a constant dense<...>");
    return;
  }
  if (!hlo_type_equal(attr->type, hlo_result_type(lower, 0)))
    hlo_wrong(lower, "the constant has another type than the result");
  hlo_give_bound(lower, 0, hlo_constant(lower, attr));
}

static void lower_iota(hlo_lower_t *lower) {
  const hlo_type_t *type = hlo_result_type(lower, 0);
  int64_t axis = hlo_attr_int(lower, "dim", "iota_dimension", -1);
  if (axis < 0 || axis >= type->ndim || !hlo_type_is_static(type))
    hlo_wrong(lower, "axis %lld does not exist in the result", (long long)axis);
  if (hlo_stopped(lower)) return;
  tenon_edge_t steps = hlo_iota(lower, type->dims[axis], (int32_t)axis, type->ndim);
  hlo_bound_t made = hlo_real(EDGE_NONE);
  made.narrow = hlo_cast(lower, steps, hlo_part_dtype(type->dtype));
  made.edge = hlo_expand(lower, made.narrow, type->dims, type->ndim);
  if (hlo_is_complex(type)) {
    made.imaginary = hlo_run(lower, EDGES(made.edge), "expand(0:a, shape(a))");
    made.narrow = EDGE_NONE;
  }
  hlo_give_bound(lower, 0, made);
}

/* broadcasts */

/* Puts the axes of an operand at `dims` of the result; the other axes have extent 1. */
static tenon_edge_t place_axes(hlo_lower_t *lower, tenon_edge_t edge, const int64_t *dims,
                               int32_t count, int32_t ndim) {
  int64_t perm[TENON_RANK_MAX], others[TENON_RANK_MAX];
  int32_t placed = 0, other = 0;
  char text[HLO_JOIN_MAX];
  for (int64_t axis = 0; axis < ndim; axis++) {
    if (!hlo_contains(dims, count, axis)) {
      others[other++] = axis;
      continue;
    }
    for (int32_t i = 0; i < count; i++)
      if (dims[i] == axis) perm[placed++] = i;
  }
  if (!count) return edge; /* A scalar broadcasts as it is. */
  edge = hlo_transpose(lower, edge, perm, count);
  if (!other) return edge;
  return hlo_run(lower, EDGES(edge), "unsqueeze(a, [%s])",
                 hlo_join(others, other, text, sizeof text));
}

static int32_t read_broadcast_axes(hlo_lower_t *lower, int64_t *out_dims) {
  int32_t ndim = hlo_result_type(lower, 0)->ndim;
  int32_t count = hlo_attr_axes(lower, "dims", "broadcast_dimensions", ndim, out_dims);
  if (count != hlo_operand_type(lower, 0)->ndim)
    hlo_wrong(lower, "expected %d axes of the result, found %d",
              (int)hlo_operand_type(lower, 0)->ndim, (int)count);
  return count;
}

static void lower_broadcast(hlo_lower_t *lower) {
  int64_t dims[HLO_INTS_MAX];
  const hlo_type_t *type = hlo_result_type(lower, 0);
  tenon_edge_t x = hlo_edge(lower, 0);
  int32_t count = read_broadcast_axes(lower, dims);
  if (hlo_stopped(lower)) return;
  if (hlo_type_equal(type, hlo_operand_type(lower, 0)) && count == type->ndim) {
    bool is_same = true;
    for (int32_t i = 0; i < count; i++)
      is_same &= dims[i] == i;
    if (is_same && lower->part < 0) hlo_give_bound(lower, 0, *hlo_operand(lower, 0));
    if (is_same && lower->part >= 0) hlo_give(lower, 0, x);
    if (is_same) return;
  }
  if (!hlo_type_is_static(type)) hlo_wrong(lower, "the result must have fixed extents");
  tenon_edge_t narrow = place_axes(lower, x, dims, count, type->ndim);
  tenon_edge_t wide = hlo_expand(lower, narrow, type->dims, type->ndim);
  if (lower->part >= 0) {
    hlo_give(lower, 0, wide);
    return;
  }
  hlo_bound_t made = hlo_real(wide);
  made.narrow = narrow;
  hlo_give_bound(lower, 0, made);
}

static void lower_dynamic_broadcast(hlo_lower_t *lower) {
  int64_t dims[HLO_INTS_MAX];
  tenon_edge_t x = hlo_edge(lower, 0);
  int32_t count = read_broadcast_axes(lower, dims);
  if (hlo_stopped(lower)) return;
  tenon_edge_t narrow = place_axes(lower, x, dims, count, hlo_result_type(lower, 0)->ndim);
  tenon_edge_t shape = hlo_cast(lower, hlo_edge(lower, 1), tenon_dtype(TENON_I64));
  hlo_bound_t made = hlo_real(hlo_run(lower, EDGES(narrow, shape), "expand(a, b)"));
  made.narrow = narrow;
  hlo_give_bound(lower, 0, made);
}

/* reshapes */

static void lower_reshape(hlo_lower_t *lower) {
  const hlo_type_t *type = hlo_result_type(lower, 0);
  tenon_edge_t x = hlo_edge(lower, 0);
  if (hlo_stopped(lower)) return;
  if (!hlo_type_is_static(type)) hlo_wrong(lower, "the result must have fixed extents");
  hlo_give(lower, 0, hlo_reshape(lower, x, type->dims, type->ndim));
}

static void lower_dynamic_reshape(hlo_lower_t *lower) {
  tenon_edge_t shape = hlo_cast(lower, hlo_edge(lower, 1), tenon_dtype(TENON_I64));
  hlo_give(lower, 0,
           hlo_run(lower, EDGES(hlo_edge(lower, 0), shape), "reshape(a, b, allow_zero=True)"));
}

static void lower_transpose(hlo_lower_t *lower) {
  int64_t perm[HLO_INTS_MAX];
  int32_t ndim = hlo_operand_type(lower, 0)->ndim;
  int32_t count = hlo_attr_axes(lower, "dims", "permutation", ndim, perm);
  if (count != ndim) hlo_wrong(lower, "expected %d axes, found %d", (int)ndim, (int)count);
  hlo_give(lower, 0, hlo_transpose(lower, hlo_edge(lower, 0), perm, count));
}

static void lower_reverse(hlo_lower_t *lower) {
  int64_t dims[HLO_INTS_MAX];
  tenon_edge_t x = hlo_edge(lower, 0);
  int32_t count =
      hlo_attr_axes(lower, "dims", "dimensions", hlo_operand_type(lower, 0)->ndim, dims);
  for (int32_t i = 0; i < count; i++)
    x = hlo_slice(lower, x, (int32_t)dims[i], -1, -(INT64_C(1) << 62), -1);
  hlo_give(lower, 0, x);
}

/* slices */

typedef struct ranges_t {
  int64_t begin[HLO_INTS_MAX];
  int64_t end[HLO_INTS_MAX];
  int64_t step[HLO_INTS_MAX];
} ranges_t;

static void read_ranges(hlo_lower_t *lower, int32_t ndim, ranges_t *out) {
  const hlo_attr_t *ranges = hlo_attr(lower, "ranges", NULL);
  if (!ranges) {
    hlo_attr_exactly(lower, "start_indices", NULL, ndim, 0, out->begin);
    hlo_attr_exactly(lower, "limit_indices", NULL, ndim, 0, out->end);
    hlo_attr_exactly(lower, "strides", NULL, ndim, 1, out->step);
    return;
  }
  if (ranges->count != ndim)
    hlo_wrong(lower, "expected %d ranges, found %d", (int)ndim, (int)ranges->count);
  for (int32_t i = 0; i < ndim && !hlo_stopped(lower); i++) {
    const hlo_attr_t *range = &ranges->items[i];
    if (range->count < 2 || range->count > 3) {
      hlo_wrong(lower, "expected a range begin:end or begin:end:step");
      return;
    }
    out->begin[i] = range->items[0].integer;
    out->end[i] = range->items[1].integer;
    out->step[i] = range->count == 3 ? range->items[2].integer : 1;
  }
}

static void lower_slice(hlo_lower_t *lower) {
  ranges_t ranges = {0};
  tenon_edge_t x = hlo_edge(lower, 0);
  int32_t ndim = hlo_operand_type(lower, 0)->ndim;
  read_ranges(lower, ndim, &ranges);
  for (int32_t i = 0; i < ndim && !hlo_stopped(lower); i++) {
    if (ranges.begin[i] < 0 || ranges.end[i] < ranges.begin[i] || ranges.step[i] < 1)
      hlo_wrong(lower, "range %d must be begin:end:step with 0 <= begin <= end and step >= 1",
                (int)i);
    x = hlo_slice(lower, x, i, ranges.begin[i], ranges.end[i], ranges.step[i]);
  }
  hlo_give(lower, 0, x);
}

/* Takes `size` elements from a position that is known when the program runs, by a gather: the
 * result has a known extent. */
static tenon_edge_t take_range(hlo_lower_t *lower, tenon_edge_t x, int32_t axis, tenon_edge_t begin,
                               int64_t size) {
  tenon_edge_t extent = hlo_extent_edge(lower, x, axis);
  begin =
      hlo_run(lower, EDGES(begin, extent),
              "min(max(reshape(cast(a, to=i64), [1]), 0:i64), sub(b, %lld:i64))", (long long)size);
  if (size > 1) begin = hlo_run(lower, EDGES(begin, hlo_iota(lower, size, 0, 1)), "add(a, b)");
  return hlo_run(lower, EDGES(x, begin), "gather(a, b, axis=%d)", (int)axis);
}

static void lower_dynamic_slice(hlo_lower_t *lower) {
  int64_t sizes[HLO_INTS_MAX];
  const hlo_type_t *type = hlo_operand_type(lower, 0);
  tenon_edge_t x = hlo_edge(lower, 0);
  hlo_attr_exactly(lower, "sizes", "slice_sizes", type->ndim, 0, sizes);
  if (lower->op->operand_count != 1 + type->ndim)
    hlo_wrong(lower, "expected %d positions, found %d", (int)type->ndim,
              (int)lower->op->operand_count - 1);
  for (int32_t i = 0; i < type->ndim && !hlo_stopped(lower); i++) {
    int64_t begin[HLO_INTS_MAX];
    int64_t extent = type->dims[i];
    if (sizes[i] < 0 || (extent >= 0 && sizes[i] > extent))
      hlo_wrong(lower, "size %lld of axis %d is out of range", (long long)sizes[i], (int)i);
    if (sizes[i] == extent || hlo_stopped(lower)) continue;
    if (extent >= 0 && hlo_known(lower, 1 + i, begin) == 1) {
      int64_t last = extent - sizes[i];
      int64_t first = begin[0] < 0 ? 0 : begin[0];
      if (first > last) first = last;
      x = hlo_slice(lower, x, i, first, first + sizes[i], 1);
    } else {
      x = take_range(lower, x, i, hlo_edge(lower, 1 + i), sizes[i]);
    }
  }
  hlo_give(lower, 0, x);
}

/* Bounds and steps are tensors with one integer for each axis. */
static void lower_real_dynamic_slice(hlo_lower_t *lower) {
  tenon_edge_t parts[3];
  tenon_edge_t axes = hlo_iota(lower, hlo_operand_type(lower, 0)->ndim, 0, 1);
  for (int32_t i = 0; i < 3; i++)
    parts[i] = hlo_cast(lower, hlo_edge(lower, 1 + i), tenon_dtype(TENON_I64));
  hlo_give(lower, 0,
           hlo_run(lower, EDGES(hlo_edge(lower, 0), parts[0], parts[1], axes, parts[2]),
                   "slice(a, b, c, d, e)"));
}

/* padding and joining */

static void lower_pad(hlo_lower_t *lower) {
  int64_t low[HLO_INTS_MAX], high[HLO_INTS_MAX], interior[HLO_INTS_MAX];
  int32_t ndim = hlo_operand_type(lower, 0)->ndim;
  hlo_attr_exactly(lower, "low", "edge_padding_low", ndim, 0, low);
  hlo_attr_exactly(lower, "high", "edge_padding_high", ndim, 0, high);
  hlo_attr_exactly(lower, "interior", "interior_padding", ndim, 0, interior);
  tenon_edge_t x = hlo_edge(lower, 0);
  tenon_edge_t value = hlo_edge(lower, 1);
  if (hlo_stopped(lower)) return;
  hlo_give(lower, 0, hlo_pad(lower, x, value, low, high, interior, ndim));
}

static void lower_dynamic_pad(hlo_lower_t *lower) {
  static const int64_t none[HLO_INTS_MAX] = {0};
  int64_t interior[HLO_INTS_MAX] = {0};
  tenon_edge_t x = hlo_edge(lower, 0);
  int32_t count = hlo_known(lower, 4, interior);
  bool is_spread = false;
  if (hlo_stopped(lower)) return;
  if (count < 0) hlo_missing(lower, "interior padding that is not a constant");
  for (int32_t i = 0; i < count; i++)
    is_spread |= interior[i] != 0;
  if (count >= 0 && count != hlo_operand_type(lower, 0)->ndim)
    hlo_wrong(lower, "expected an interior padding for each axis");
  if (is_spread && !hlo_stopped(lower))
    x = hlo_pad(lower, x, hlo_edge(lower, 1), none, none, interior, count);
  tenon_edge_t low = hlo_cast(lower, hlo_edge(lower, 2), tenon_dtype(TENON_I64));
  tenon_edge_t high = hlo_cast(lower, hlo_edge(lower, 3), tenon_dtype(TENON_I64));
  tenon_edge_t value = hlo_edge(lower, 1);
  hlo_give(lower, 0,
           hlo_run(lower, EDGES(x, low, high, value), "pad(a, concat([b, c], axis=0), d)"));
}

static void lower_concatenate(hlo_lower_t *lower) {
  int32_t count = lower->op->operand_count;
  int64_t axis = hlo_attr_int(lower, "dim", "dimension", -1);
  tenon_edge_t *edges = hlo_lower_take(lower, (size_t)count, sizeof *edges);
  if (axis < 0 || axis >= hlo_operand_type(lower, 0)->ndim)
    hlo_wrong(lower, "axis %lld does not exist", (long long)axis);
  if (!edges || hlo_stopped(lower)) return;
  for (int32_t i = 0; i < count; i++)
    edges[i] = hlo_edge(lower, i);
  if (!hlo_stopped(lower)) hlo_give(lower, 0, hlo_concat(lower, edges, count, (int32_t)axis));
}

/* extents at run time */

static void lower_get_dimension_size(hlo_lower_t *lower) {
  int64_t axis = hlo_attr_int(lower, "dim", "dimension", -1);
  const hlo_type_t *type = hlo_operand_type(lower, 0);
  tenon_edge_t x = hlo_operand(lower, 0)->edge;
  if (axis < 0 || axis >= type->ndim) hlo_wrong(lower, "axis %lld does not exist", (long long)axis);
  if (hlo_stopped(lower)) return;
  tenon_edge_t extent = hlo_extent_edge(lower, x, (int32_t)axis);
  hlo_give(lower, 0,
           hlo_run(lower, EDGES(extent), "cast(reshape(a, []), to=%s)",
                   tenon_dtype_name(hlo_result_type(lower, 0)->dtype)));
}

static void lower_dynamic_iota(hlo_lower_t *lower) {
  const hlo_type_t *type = hlo_result_type(lower, 0);
  int64_t axis = hlo_attr_int(lower, "dim", "iota_dimension", -1);
  int64_t dims[TENON_RANK_MAX];
  if (axis < 0 || axis >= type->ndim) hlo_wrong(lower, "axis %lld does not exist", (long long)axis);
  tenon_edge_t shape = hlo_cast(lower, hlo_edge(lower, 0), tenon_dtype(TENON_I64));
  if (hlo_stopped(lower)) return;
  for (int32_t i = 0; i < type->ndim; i++)
    dims[i] = i == axis ? -1 : 1;
  tenon_edge_t extent =
      hlo_run(lower, EDGES(hlo_slice(lower, shape, 0, axis, axis + 1, 1)), "reshape(a, [])");
  tenon_edge_t steps = hlo_run(lower, EDGES(extent), "cast(range(0:i64, a, 1:i64), to=%s)",
                               tenon_dtype_name(type->dtype));
  steps = hlo_reshape(lower, steps, dims, type->ndim);
  hlo_give(lower, 0, hlo_run(lower, EDGES(steps, shape), "expand(a, b)"));
}

/* values without elements of their own */

static void lower_same(hlo_lower_t *lower) {
  if (lower->op->operand_count != lower->op->result_count)
    hlo_wrong(lower, "expected as many results as operands");
  for (int32_t i = 0; i < lower->op->result_count && !hlo_stopped(lower); i++)
    hlo_give_bound(lower, i, *hlo_operand(lower, i));
}

static void lower_tuple(hlo_lower_t *lower) {
  int32_t count = lower->op->operand_count;
  hlo_bound_t *items = hlo_lower_take(lower, (size_t)count, sizeof *items);
  hlo_bound_t made = hlo_real(EDGE_NONE);
  if (hlo_result_type(lower, 0)->item_count != count)
    hlo_wrong(lower, "the tuple has another number of items than the operation has operands");
  if (!items || hlo_stopped(lower)) return;
  for (int32_t i = 0; i < count; i++)
    items[i] = *hlo_operand(lower, i);
  made.items = items;
  hlo_give_bound(lower, 0, made);
}

static void lower_tuple_item(hlo_lower_t *lower) {
  int64_t index[HLO_INTS_MAX] = {0};
  const hlo_bound_t *tuple = hlo_operand(lower, 0);
  if (hlo_attr_ints(lower, "ranges", "index", index) != 1) hlo_wrong(lower, "expected an index");
  if (!tuple->items || index[0] < 0 || index[0] >= hlo_operand_type(lower, 0)->item_count)
    hlo_wrong(lower, "item %lld does not exist", (long long)index[0]);
  if (!hlo_stopped(lower)) hlo_give_bound(lower, 0, tuple->items[index[0]]);
}

static void lower_token(hlo_lower_t *lower) { hlo_give_bound(lower, 0, hlo_real(EDGE_NONE)); }

static const hlo_row_t rows[] = {
    {"stablehlo.after_all", NULL, NULL, NULL, lower_token, 0, NULL},
    {"stablehlo.broadcast", NULL, NULL, NULL, NULL, 0,
     "the specification no longer has it: use broadcast_in_dim"},
    {"stablehlo.broadcast_in_dim", NULL, NULL, NULL, lower_broadcast, HLO_BY_PARTS, NULL},
    {"stablehlo.concatenate", NULL, NULL, NULL, lower_concatenate, HLO_BY_PARTS, NULL},
    {"stablehlo.constant", NULL, NULL, NULL, lower_constant, HLO_ELEMENTWISE, NULL},
    {"stablehlo.create_token", NULL, NULL, NULL, lower_token, 0, NULL},
    {"stablehlo.dynamic_broadcast_in_dim", NULL, NULL, NULL, lower_dynamic_broadcast, 0, NULL},
    {"stablehlo.dynamic_iota", NULL, NULL, NULL, lower_dynamic_iota, 0, NULL},
    {"stablehlo.dynamic_pad", NULL, NULL, NULL, lower_dynamic_pad, HLO_BY_PARTS, NULL},
    {"stablehlo.dynamic_reshape", NULL, NULL, NULL, lower_dynamic_reshape, HLO_BY_PARTS, NULL},
    {"stablehlo.dynamic_slice", NULL, NULL, NULL, lower_dynamic_slice, HLO_BY_PARTS, NULL},
    {"stablehlo.get_dimension_size", NULL, NULL, NULL, lower_get_dimension_size, 0, NULL},
    {"stablehlo.get_tuple_element", NULL, NULL, NULL, lower_tuple_item, 0, NULL},
    {"stablehlo.iota", NULL, NULL, NULL, lower_iota, 0, NULL},
    {"stablehlo.optimization_barrier", NULL, NULL, NULL, lower_same, 0, NULL},
    {"stablehlo.pad", NULL, NULL, NULL, lower_pad, HLO_BY_PARTS, NULL},
    {"stablehlo.real_dynamic_slice", NULL, NULL, NULL, lower_real_dynamic_slice, HLO_BY_PARTS,
     NULL},
    {"stablehlo.reshape", NULL, NULL, NULL, lower_reshape, HLO_BY_PARTS, NULL},
    {"stablehlo.reverse", NULL, NULL, NULL, lower_reverse, HLO_BY_PARTS, NULL},
    {"stablehlo.slice", NULL, NULL, NULL, lower_slice, HLO_BY_PARTS, NULL},
    {"stablehlo.transpose", NULL, NULL, NULL, lower_transpose, HLO_BY_PARTS, NULL},
    {"stablehlo.tuple", NULL, NULL, NULL, lower_tuple, 0, NULL},
    {"sdy.sharding_constraint", NULL, NULL, NULL, lower_same, 0, NULL},
};

HLO_ROWS(hlo_rows_shape);
