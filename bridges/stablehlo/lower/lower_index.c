/* Lowers gather, scatter and dynamic_update_slice with all their numbers of dimensions. Trailing
 * axes that are taken as a whole are rows; the leading axes are joined to one, whose positions are
 * computed from the indices. So a lookup of rows is one gather, whatever the numbers say. */
#include <string.h>

#include "lower/arguments.h"
#include "lower/expression.h"
#include "lower/reduce.h"
#include "lower/region.h"
#include "lower/scan.h"

typedef struct indexing_t {
  const hlo_type_t *type;        /* Of the operand. */
  int64_t window[HLO_INTS_MAX];  /* The axes of the result or the updates that are in the window. */
  int64_t dropped[HLO_INTS_MAX]; /* Axes of the operand that the window does not have. */
  int64_t batch[HLO_INTS_MAX];   /* Axes of the operand that are batches. */
  int64_t index_batch[HLO_INTS_MAX]; /* The axes of the indices that belong to them. */
  int64_t map[HLO_INTS_MAX];         /* The axis of the operand for each part of an index. */
  int64_t sizes[HLO_INTS_MAX];       /* The extents of a window, for each axis of the operand. */
  int32_t window_count;
  int32_t dropped_count;
  int32_t batch_count;
  int32_t map_count;
  tenon_edge_t operand;
  tenon_edge_t size_source; /* Where sizes of -1 are: the updates, or a list of all sizes. */
  bool is_size_list;
  int64_t vector_axis; /* The axis of the indices that has the parts of an index. */
  int32_t places;      /* The number of axes of the indices without this one. */
  int32_t rows;        /* The first axis of the rows. */
} indexing_t;

/* reading */

static int32_t read_dimension_numbers(hlo_lower_t *lower, const hlo_attr_t *numbers,
                                      const char *name, int64_t most, int64_t *out) {
  int32_t count = hlo_ints_of(lower, hlo_attr_find(numbers, name), out);
  for (int32_t i = 0; i < count && !hlo_stopped(lower); i++)
    if (out[i] < 0 || out[i] >= most || hlo_contains(out, i, out[i]))
      hlo_wrong(lower, "%s: axis %lld does not exist or occurs twice", name, (long long)out[i]);
  return count < 0 ? 0 : count;
}

/* The names of the fields for a gather and a scatter. */
typedef struct fields_t {
  const char *attr;
  const char *window;
  const char *dropped;
  const char *batch;
  const char *index_batch;
  const char *map;
} fields_t;

static void read_indexing(hlo_lower_t *lower, const fields_t *fields, const hlo_type_t *type,
                          const hlo_type_t *indices, int32_t window_rank, indexing_t *out) {
  const hlo_attr_t *numbers = hlo_attr(lower, fields->attr, NULL);
  const hlo_attr_t *vector = numbers ? hlo_attr_find(numbers, "index_vector_dim") : NULL;
  int32_t index_batch_count;
  *out = (indexing_t){.type = type};
  if (!numbers || numbers->kind != HLO_ATTR_DICT) hlo_wrong(lower, "expected %s", fields->attr);
  out->vector_axis = vector ? vector->integer : 0;
  if (out->vector_axis < 0 || out->vector_axis > indices->ndim)
    hlo_wrong(lower, "index_vector_dim %lld does not exist", (long long)out->vector_axis);
  out->window_count =
      read_dimension_numbers(lower, numbers, fields->window, window_rank, out->window);
  out->dropped_count =
      read_dimension_numbers(lower, numbers, fields->dropped, type->ndim, out->dropped);
  out->batch_count = read_dimension_numbers(lower, numbers, fields->batch, type->ndim, out->batch);
  index_batch_count =
      read_dimension_numbers(lower, numbers, fields->index_batch, indices->ndim, out->index_batch);
  out->map_count = read_dimension_numbers(lower, numbers, fields->map, type->ndim, out->map);
  out->places = indices->ndim - (out->vector_axis < indices->ndim);
  if (hlo_stopped(lower)) return;
  if (index_batch_count != out->batch_count ||
      hlo_contains(out->index_batch, index_batch_count, out->vector_axis) ||
      out->window_count + out->dropped_count + out->batch_count != type->ndim ||
      out->window_count + out->places != window_rank)
    hlo_wrong(lower, "the numbers of dimensions do not match the operands");
  int64_t parts = out->vector_axis < indices->ndim ? indices->dims[out->vector_axis] : 1;
  if (parts != out->map_count)
    hlo_wrong(lower, "an index has %lld parts, but %d axes are stated", (long long)parts,
              (int)out->map_count);
}

static bool has_window(const indexing_t *x, int64_t axis) {
  return !hlo_contains(x->dropped, x->dropped_count, axis) &&
         !hlo_contains(x->batch, x->batch_count, axis);
}

/* Finds where the rows begin, and checks the extents. */
static void find_rows(hlo_lower_t *lower, indexing_t *x) {
  const hlo_type_t *type = x->type;
  x->rows = type->ndim;
  while (x->rows > 0 && type->dims[x->rows - 1] >= 0 &&
         x->sizes[x->rows - 1] == type->dims[x->rows - 1] && has_window(x, x->rows - 1))
    x->rows--;
  for (int32_t i = 0; i < type->ndim && !hlo_stopped(lower); i++) {
    if (type->dims[i] >= 0 && x->sizes[i] > type->dims[i])
      hlo_wrong(lower, "a window has %lld elements along axis %d, the operand has %lld",
                (long long)x->sizes[i], (int)i, (long long)type->dims[i]);
    if (!has_window(x, i) && x->sizes[i] > 1)
      hlo_wrong(lower, "axis %d is left out of the window, which has %lld elements there", (int)i,
                (long long)x->sizes[i]);
  }
}

/* extents, which may be known only when the program runs: scalars of i64 */

static tenon_edge_t operand_extent(hlo_lower_t *lower, const indexing_t *x, int64_t axis) {
  if (x->type->dims[axis] >= 0)
    return hlo_run(lower, NULL, 0, "%lld:i64", (long long)x->type->dims[axis]);
  return hlo_run(lower, EDGES(hlo_extent_edge(lower, x->operand, (int32_t)axis)), "reshape(a, [])");
}

/* The extent of a window along an axis of the operand. */
static tenon_edge_t window_extent(hlo_lower_t *lower, const indexing_t *x, int64_t axis) {
  int64_t own = 0;
  if (x->sizes[axis] >= 0) return hlo_run(lower, NULL, 0, "%lld:i64", (long long)x->sizes[axis]);
  for (int64_t i = 0; i < axis; i++)
    own += has_window(x, i);
  tenon_edge_t size = x->is_size_list
                          ? hlo_slice(lower, x->size_source, 0, axis, axis + 1, 1)
                          : hlo_extent_edge(lower, x->size_source, (int32_t)x->window[own]);
  return hlo_run(lower, EDGES(size), "reshape(cast(a, to=i64), [])");
}

/* The number of rows that axes [first, rows) have: the distance between neighbours along the axis
 * before `first`. */
static tenon_edge_t row_count(hlo_lower_t *lower, const indexing_t *x, int64_t first) {
  int64_t known = 1;
  for (int64_t i = first; i < x->rows; i++)
    if (x->type->dims[i] >= 0) known *= x->type->dims[i];
  tenon_edge_t count = hlo_run(lower, NULL, 0, "%lld:i64", (long long)known);
  for (int64_t i = first; i < x->rows; i++)
    if (x->type->dims[i] < 0)
      count = hlo_run(lower, EDGES(count, operand_extent(lower, x, i)), "mul(a, b)");
  return count;
}

/* 0, 1, ... below an extent along one of `ndim` axes. */
static tenon_edge_t steps_below(hlo_lower_t *lower, tenon_edge_t extent, int32_t axis,
                                int32_t ndim) {
  int64_t dims[TENON_RANK_MAX];
  for (int32_t i = 0; i < ndim; i++)
    dims[i] = i == axis ? -1 : 1;
  tenon_edge_t steps = hlo_run(lower, EDGES(extent), "range(0:i64, a, 1:i64)");
  return ndim == 1 ? steps : hlo_reshape(lower, steps, dims, ndim);
}

/* positions */

/* Brings the parts of an index to the last axis. */
static tenon_edge_t arrange_indices(hlo_lower_t *lower, const indexing_t *x, tenon_edge_t indices) {
  int64_t perm[TENON_RANK_MAX];
  int32_t count = 0;
  indices = hlo_cast(lower, indices, tenon_dtype(TENON_I64));
  if (x->vector_axis >= x->places && hlo_rank(lower, indices) == x->places)
    return hlo_run(lower, EDGES(indices), "unsqueeze(a, [-1])");
  for (int32_t i = 0; i <= x->places; i++)
    if (i != x->vector_axis) perm[count++] = i;
  perm[count++] = x->vector_axis;
  return hlo_transpose(lower, indices, perm, count);
}

/* Part `part` of each index: a tensor with the places of the indices as axes. */
static tenon_edge_t index_part(hlo_lower_t *lower, const indexing_t *x, tenon_edge_t indices,
                               int32_t part) {
  indices = hlo_slice(lower, indices, x->places, part, part + 1, 1);
  return hlo_run(lower, EDGES(indices), "squeeze(a, [%d])", (int)x->places);
}

static tenon_edge_t add_edges(hlo_lower_t *lower, tenon_edge_t a, tenon_edge_t b) {
  if (a == EDGE_NONE) return b;
  return hlo_run(lower, EDGES(a, b), "add(a, b)");
}

/* Adds the number of the batch, for each axis that is one. */
static tenon_edge_t add_batches(hlo_lower_t *lower, const indexing_t *x, tenon_edge_t sum) {
  for (int32_t i = 0; i < x->batch_count && !hlo_stopped(lower); i++) {
    int64_t axis = x->index_batch[i] - (x->index_batch[i] > x->vector_axis);
    tenon_edge_t extent = operand_extent(lower, x, x->batch[i]);
    tenon_edge_t steps = steps_below(lower, extent, (int32_t)axis, x->places);
    steps = hlo_run(lower, EDGES(steps, row_count(lower, x, x->batch[i] + 1)), "mul(a, b)");
    sum = add_edges(lower, sum, steps);
  }
  return sum;
}

/* Adds the positions within a window, as more axes after the places. *out_axes: their number. */
static tenon_edge_t add_window(hlo_lower_t *lower, const indexing_t *x, tenon_edge_t sum,
                               int32_t *out_axes) {
  int64_t axes[TENON_RANK_MAX];
  char text[HLO_JOIN_MAX];
  int32_t count = 0;
  int32_t next = 0;
  for (int32_t i = 0; i < x->rows; i++)
    if (has_window(x, i)) {
      axes[count] = x->places + count;
      count++;
    }
  *out_axes = count;
  if (x->places + count >= TENON_RANK_MAX) hlo_missing(lower, "indices with so many axes");
  if (!count || hlo_stopped(lower)) return sum;
  sum = hlo_run(lower, EDGES(sum), "unsqueeze(a, [%s])", hlo_join(axes, count, text, sizeof text));
  for (int32_t i = 0; i < x->rows; i++) {
    if (!has_window(x, i)) continue;
    tenon_edge_t steps = steps_below(lower, window_extent(lower, x, i), next++, count);
    sum = hlo_run(lower, EDGES(sum, steps, row_count(lower, x, i + 1)), "add(a, mul(b, c))");
  }
  return sum;
}

/* The first row of each window. Gathers clamp each part of an index; scatters ask for *out_valid,
 * which tells whether the whole window lies inside. */
static tenon_edge_t first_rows(hlo_lower_t *lower, const indexing_t *x, tenon_edge_t indices,
                               tenon_edge_t *out_valid) {
  tenon_edge_t sum = EDGE_NONE;
  for (int32_t i = 0; i < x->map_count && !hlo_stopped(lower); i++) {
    int64_t axis = x->map[i];
    tenon_edge_t part = index_part(lower, x, indices, i);
    tenon_edge_t most = hlo_run(
        lower, EDGES(operand_extent(lower, x, axis), window_extent(lower, x, axis)), "sub(a, b)");
    if (out_valid) {
      tenon_edge_t valid =
          hlo_run(lower, EDGES(part, most), "and(greater_equal(a, 0:i64), less_equal(a, b))");
      *out_valid =
          *out_valid == EDGE_NONE ? valid : hlo_run(lower, EDGES(*out_valid, valid), "and(a, b)");
    }
    if (axis >= x->rows) continue;
    if (!out_valid) part = hlo_run(lower, EDGES(part, most), "min(max(a, 0:i64), b)");
    part = hlo_run(lower, EDGES(part, row_count(lower, x, axis + 1)), "mul(a, b)");
    sum = add_edges(lower, sum, part);
  }
  sum = add_batches(lower, x, sum);
  if (sum != EDGE_NONE) return sum;
  /* No axis is indexed: each window begins at row 0. */
  return hlo_run(lower, EDGES(indices), "mul(reduce_sum(a, [-1], keepdims=False), 0:i64)");
}

/* The operand as rows: [number of rows, trailing axes...]. The trailing extents are known. */
static tenon_edge_t as_rows(hlo_lower_t *lower, const indexing_t *x) {
  int64_t dims[TENON_RANK_MAX + 1] = {-1};
  int32_t count = 1;
  bool is_empty = false;
  if (x->rows == 1) return x->operand;
  if (x->type->ndim - x->rows + 1 > TENON_RANK_MAX) hlo_missing(lower, "operands of so many axes");
  for (int32_t i = x->rows; i < x->type->ndim; i++) {
    is_empty |= x->type->dims[i] == 0;
    dims[count++] = x->type->dims[i];
  }
  if (is_empty || hlo_type_is_static(x->type)) {
    dims[0] = 1;
    for (int32_t i = 0; i < x->rows; i++)
      dims[0] *= x->type->dims[i] < 0 ? 1 : x->type->dims[i];
  }
  return hlo_stopped(lower) ? EDGE_NONE : hlo_reshape(lower, x->operand, dims, count);
}

/* gather */

/* Moves the axes [places..., window...] to where the result, or the updates, have them. */
static void window_order(const indexing_t *x, int32_t ndim, int64_t *perm) {
  int32_t place = 0;
  for (int32_t i = 0; i < ndim; i++) {
    perm[i] = -1;
    for (int32_t k = 0; k < x->window_count; k++)
      if (x->window[k] == i) perm[i] = x->places + k;
    if (perm[i] < 0) perm[i] = place++;
  }
}

/* One axis is indexed and all others are taken as a whole. *out_axis: this axis. */
static bool is_lookup(const indexing_t *x, int64_t *out_axis) {
  if (x->map_count != 1 || x->dropped_count != 1 || x->batch_count) return false;
  *out_axis = x->map[0];
  if (x->dropped[0] != *out_axis || x->sizes[*out_axis] != 1) return false;
  for (int32_t i = 0; i < x->type->ndim; i++)
    if (i != *out_axis && x->sizes[i] != x->type->dims[i]) return false;
  return true;
}

static void gather_lookup(hlo_lower_t *lower, const indexing_t *x, tenon_edge_t indices,
                          int64_t axis) {
  int64_t perm[TENON_RANK_MAX];
  int32_t ndim = hlo_result_type(lower, 0)->ndim;
  tenon_edge_t places = index_part(lower, x, indices, 0);
  tenon_edge_t extent = hlo_extent_edge(lower, x->operand, (int32_t)axis);
  places = hlo_run(lower, EDGES(places, extent), "min(max(a, 0:i64), sub(reshape(b, []), 1:i64))");
  tenon_edge_t found =
      hlo_run(lower, EDGES(x->operand, places), "gather(a, b, axis=%d)", (int)axis);
  /* The places stand where the axis was: the window axes before it come first. */
  window_order(x, ndim, perm);
  for (int32_t i = 0; i < ndim; i++) {
    if (perm[i] < x->places)
      perm[i] += axis;
    else if (perm[i] - x->places < axis)
      perm[i] -= x->places;
  }
  hlo_give(lower, 0, hlo_transpose(lower, found, perm, ndim));
}

static void gather_any(hlo_lower_t *lower, indexing_t *x) {
  int64_t perm[TENON_RANK_MAX];
  int64_t axis = 0;
  int32_t axes = 0;
  int32_t ndim = hlo_result_type(lower, 0)->ndim;
  x->operand = hlo_edge(lower, 0);
  tenon_edge_t indices = arrange_indices(lower, x, hlo_edge(lower, 1));
  if (is_lookup(x, &axis) && !hlo_stopped(lower)) {
    gather_lookup(lower, x, indices, axis);
    return;
  }
  find_rows(lower, x);
  if (hlo_stopped(lower)) return;
  tenon_edge_t rows = first_rows(lower, x, indices, NULL);
  rows = add_window(lower, x, rows, &axes);
  tenon_edge_t found = hlo_run(lower, EDGES(as_rows(lower, x), rows), "gather(a, b, axis=0)");
  window_order(x, ndim, perm);
  hlo_give(lower, 0, hlo_transpose(lower, found, perm, ndim));
}

static const fields_t gather_fields = {"dimension_numbers",           "offset_dims",
                                       "collapsed_slice_dims",        "operand_batching_dims",
                                       "start_indices_batching_dims", "start_index_map"};

static void lower_gather(hlo_lower_t *lower) {
  indexing_t *x = hlo_lower_take(lower, 1, sizeof *x);
  if (!x || hlo_stopped(lower)) return;
  read_indexing(lower, &gather_fields, hlo_operand_type(lower, 0), hlo_operand_type(lower, 1),
                hlo_result_type(lower, 0)->ndim, x);
  hlo_attr_exactly(lower, "slice_sizes", NULL, x->type->ndim, 0, x->sizes);
  if (!hlo_stopped(lower)) gather_any(lower, x);
}

static void lower_dynamic_gather(hlo_lower_t *lower) {
  indexing_t *x = hlo_lower_take(lower, 1, sizeof *x);
  const hlo_type_t *result = hlo_result_type(lower, 0);
  int32_t own = 0;
  if (!x || hlo_stopped(lower)) return;
  read_indexing(lower, &gather_fields, hlo_operand_type(lower, 0), hlo_operand_type(lower, 1),
                result->ndim, x);
  if (hlo_stopped(lower)) return;
  int32_t count = hlo_known(lower, 2, x->sizes);
  if (count >= 0 && count != x->type->ndim) hlo_wrong(lower, "expected a size for each axis");
  for (int32_t i = 0; i < x->type->ndim && count < 0; i++)
    x->sizes[i] = has_window(x, i) ? result->dims[x->window[own++]] : 1;
  x->size_source = hlo_edge(lower, 2);
  x->is_size_list = true;
  if (!hlo_stopped(lower)) gather_any(lower, x);
}

/* scatter */

/* Returns the reduction of scatter_nd that a region stands for; NULL: there is none. */
static const char *scatter_reduction(const hlo_region_t *region) {
  static const char *const known[][2] = {
      {"stablehlo.add", "add"},     {"stablehlo.multiply", "mul"}, {"stablehlo.maximum", "max"},
      {"stablehlo.minimum", "min"}, {"stablehlo.or", "max"},       {"stablehlo.and", "min"}};
  const char *operation = hlo_region_operation(region);
  if (region->first == region->last && region->arg_count == 2 && region->last->operand_count == 1 &&
      region->last->operands[0] == region->args[1])
    return "none";
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i][0], operation) == 0) return known[i][1];
  return NULL;
}

/* Writes rows. `places` has the number of a row for each update; rows are combined by `reduction`.
 * The number after the last row means that the update is dropped: a row more takes it. */
static tenon_edge_t scatter_rows(hlo_lower_t *lower, const indexing_t *x, tenon_edge_t places,
                                 tenon_edge_t updates, const char *reduction, bool has_dropped) {
  tenon_edge_t rows = as_rows(lower, x);
  tenon_dtype_t dtype = hlo_dtype(lower, x->operand);
  if (hlo_stopped(lower)) return EDGE_NONE;
  bool is_cast = hlo_is_bool(dtype) && strcmp(reduction, "none") != 0;
  if (is_cast) {
    rows = hlo_cast(lower, rows, tenon_dtype(TENON_I32));
    updates = hlo_cast(lower, updates, tenon_dtype(TENON_I32));
    if (strcmp(reduction, "add") == 0) reduction = "max";
    if (strcmp(reduction, "mul") == 0) reduction = "min";
  }
  if (has_dropped) {
    int64_t pads[2 * TENON_RANK_MAX] = {0};
    char text[HLO_JOIN_MAX];
    int32_t ndim = x->type->ndim - x->rows + 1;
    pads[ndim] = 1;
    rows = hlo_run(lower, EDGES(rows), "pad(a, [%s], 0:a)",
                   hlo_join(pads, 2 * ndim, text, sizeof text));
  }
  rows = hlo_run(lower, EDGES(rows, places, updates),
                 "scatter_nd(a, unsqueeze(b, [-1]), c, reduction='%s')", reduction);
  if (has_dropped) rows = hlo_run(lower, EDGES(rows), "slice(a, [0], [-1], [0])");
  if (is_cast) rows = hlo_cast(lower, rows, dtype);
  if (x->rows == 1) return rows;
  return hlo_run(lower, EDGES(rows, x->operand), "reshape(a, shape(b), allow_zero=True)");
}

/* Combines what the rows hold with the updates, by a region of any kind. Each row is updated at
 * most once. */
static tenon_edge_t combine_rows(hlo_lower_t *lower, const indexing_t *x,
                                 const hlo_region_t *region, tenon_edge_t places,
                                 tenon_edge_t updates) {
  tenon_edge_t out = EDGE_NONE;
  tenon_edge_t old = hlo_run(lower, EDGES(as_rows(lower, x), places, row_count(lower, x, 0)),
                             "gather(a, min(b, sub(c, 1:i64)), axis=0)");
  (void)hlo_combine(lower, region, &old, &updates, 1, &out);
  return out;
}

static void scatter_any(hlo_lower_t *lower, indexing_t *x, const hlo_region_t *region) {
  int64_t perm[TENON_RANK_MAX], back[TENON_RANK_MAX];
  int32_t axes = 0;
  const hlo_type_t *update_type = hlo_operand_type(lower, 2);
  const char *reduction = scatter_reduction(region);
  tenon_edge_t valid = EDGE_NONE;
  tenon_edge_t updates = hlo_edge(lower, 2);
  tenon_edge_t indices = arrange_indices(lower, x, hlo_edge(lower, 1));
  x->operand = hlo_edge(lower, 0);
  x->size_source = updates;
  find_rows(lower, x);
  if (!reduction && !hlo_attr_int(lower, "unique_indices", NULL, 0))
    hlo_missing(lower, "a region that is not a sum, product, maximum, minimum or replacement, for "
                       "indices that may repeat");
  if (lower->part >= 0 && (!reduction || (strcmp(reduction, "add") && strcmp(reduction, "none"))))
    hlo_missing(lower, "complex operands in a region other than a sum or a replacement");
  if (hlo_stopped(lower)) return;
  window_order(x, update_type->ndim, perm);
  for (int32_t i = 0; i < update_type->ndim; i++)
    back[perm[i]] = i;
  updates = hlo_transpose(lower, updates, back, update_type->ndim);
  tenon_edge_t rows = first_rows(lower, x, indices, &valid);
  tenon_edge_t beyond = row_count(lower, x, 0);
  if (valid != EDGE_NONE)
    /* A place outside moves all rows of its window out, whatever their positions in it are. */
    rows = hlo_run(lower, EDGES(rows, valid, beyond), "where(b, a, c)");
  rows = add_window(lower, x, rows, &axes);
  if (valid != EDGE_NONE) rows = hlo_run(lower, EDGES(rows, beyond), "min(a, b)");
  if (!reduction) {
    updates = combine_rows(lower, x, region, rows, updates);
    reduction = "none";
  }
  hlo_give(lower, 0, scatter_rows(lower, x, rows, updates, reduction, valid != EDGE_NONE));
}

static void lower_scatter(hlo_lower_t *lower) {
  static const fields_t fields = {"scatter_dimension_numbers",     "update_window_dims",
                                  "inserted_window_dims",          "input_batching_dims",
                                  "scatter_indices_batching_dims", "scatter_dims_to_operand_dims"};
  indexing_t *x = hlo_lower_take(lower, 1, sizeof *x);
  const hlo_region_t *region = hlo_region(lower, 0);
  const hlo_type_t *updates = hlo_operand_type(lower, 2);
  if (lower->op->operand_count != 3) hlo_missing(lower, "several operands");
  if (!x || !region || hlo_stopped(lower)) return;
  read_indexing(lower, &fields, hlo_operand_type(lower, 0), hlo_operand_type(lower, 1),
                updates->ndim, x);
  for (int32_t i = 0, k = 0; i < x->type->ndim && !hlo_stopped(lower); i++) {
    x->sizes[i] = 1;
    if (!has_window(x, i)) continue;
    x->sizes[i] = updates->dims[x->window[k++]];
  }
  if (!hlo_stopped(lower)) scatter_any(lower, x, region);
}

/* dynamic_update_slice */

static void lower_update_slice(hlo_lower_t *lower) {
  if (hlo_scan_write(lower)) return;
  indexing_t *x = hlo_lower_take(lower, 1, sizeof *x);
  const hlo_type_t *type = hlo_operand_type(lower, 0);
  const hlo_type_t *part = hlo_operand_type(lower, 1);
  tenon_edge_t update = hlo_edge(lower, 1);
  tenon_edge_t *starts = hlo_lower_take(lower, TENON_RANK_MAX, sizeof *starts);
  int32_t axes = 0;
  if (lower->op->operand_count != 2 + type->ndim || part->ndim != type->ndim)
    hlo_wrong(lower, "expected an update with as many axes, and a position for each");
  if (!x || !starts || hlo_stopped(lower)) return;
  *x = (indexing_t){.type = type,
                    .operand = hlo_edge(lower, 0),
                    .size_source = update,
                    .window_count = type->ndim,
                    .map_count = type->ndim};
  for (int32_t i = 0; i < type->ndim; i++) {
    x->map[i] = x->window[i] = i;
    x->sizes[i] = part->dims[i];
    starts[i] = hlo_run(lower, EDGES(hlo_edge(lower, 2 + i)), "reshape(cast(a, to=i64), [1])");
  }
  find_rows(lower, x);
  if (hlo_stopped(lower)) return;
  if (x->rows == 0) { /* The update is as large as the operand. */
    hlo_give(lower, 0, update);
    return;
  }
  tenon_edge_t indices = hlo_concat(lower, starts, type->ndim, 0);
  tenon_edge_t rows = add_window(lower, x, first_rows(lower, x, indices, NULL), &axes);
  hlo_give(lower, 0, scatter_rows(lower, x, rows, update, "none", false));
}

static const hlo_row_t rows[] = {
    {"stablehlo.dynamic_gather", NULL, NULL, NULL, lower_dynamic_gather, HLO_BY_PARTS, NULL},
    {"stablehlo.dynamic_update_slice", NULL, NULL, NULL, lower_update_slice, HLO_BY_PARTS, NULL},
    {"stablehlo.gather", NULL, NULL, NULL, lower_gather, HLO_BY_PARTS, NULL},
    {"stablehlo.scatter", NULL, NULL, NULL, lower_scatter, HLO_BY_PARTS, NULL},
};

HLO_ROWS(hlo_rows_index);
