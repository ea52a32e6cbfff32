/* Lowers operators that look up, order or count elements, and operators that create tensors of
 * numbers. Indices may be floats. */
#include <stdio.h>
#include <string.h>

#include "attribute.h"
#include "lowering.h"

/* Converts indices to i64 within [0, extent of x's axis). Indices outside are clipped or, in the
 * mode wrap, taken modulo the extent. */
static tenon_edge_t bounded(lower_t *lower, tenon_edge_t x, tenon_edge_t indices, long long axis,
                            const char *mode) {
  tenon_edge_t at = lower_run(lower, EDGES(indices), "cast(a, to='i64')");
  tenon_edge_t count = lower_run(lower, EDGES(x), "gather(shape(a), %lld:i64)", axis);
  if (strcmp(mode, "raise") == 0) return at;
  if (strcmp(mode, "wrap") == 0) return lower_run(lower, EDGES(at, count), "mod(a, b)");
  return lower_run(lower, EDGES(at, count), "max(min(a, sub(b, 1:i64)), 0:i64)");
}

static void lower_take_op(lower_t *lower) {
  long long axis = attr_int(lower, "axis", 0);
  tenon_edge_t x = lower->inputs[0];
  tenon_edge_t at = bounded(lower, x, lower->inputs[1], axis, attr_text(lower, "mode", "clip"));
  lower_give(lower, lower_run(lower, EDGES(x, at), "gather(a, b, axis=%lld)", axis));
}

/* Picks from each row the element with the given index. */
static void lower_pick(lower_t *lower) {
  bool is_take = strcmp(lower->node->op, "batch_take") == 0;
  bool keep = attr_bool(lower, "keepdims", false);
  long long axis = attr_int(lower, "axis", is_take ? 1 : -1);
  tenon_edge_t x = lower->inputs[0];
  tenon_edge_t at = bounded(lower, x, lower->inputs[1], axis, attr_text(lower, "mode", "clip"));
  bool is_wide =
      lower_rank_of(lower, at) >= 0 && lower_rank_of(lower, at) == lower_rank_of(lower, x);
  if (!is_wide) at = lower_run(lower, EDGES(at), "unsqueeze(a, [%lld]:i64)", axis);
  tenon_edge_t y = lower_run(lower, EDGES(x, at), "gather_elements(a, b, axis=%lld)", axis);
  lower_give(lower, keep ? y : lower_run(lower, EDGES(y), "squeeze(a, [%lld]:i64)", axis));
}

/* Converts indices from MXNet's form, one row for each axis, to the form of core's operators, one
 * tuple for each element. */
static tenon_edge_t tuples(lower_t *lower, tenon_edge_t indices) {
  int64_t perm[TENON_RANK_MAX];
  int32_t rank = lower_rank(lower, indices);
  for (int32_t i = 0; i < rank; i++)
    perm[i] = (i + 1) % rank;
  return lower_run(lower, EDGES(indices), "cast(transpose(a, perm=%s), to='i64')",
                   attr_list(lower, perm, rank));
}

static void lower_gather_nd(lower_t *lower) {
  tenon_edge_t at = tuples(lower, lower->inputs[1]);
  lower_give(lower, lower_run(lower, EDGES(lower->inputs[0], at), "gather_nd(a, b)"));
}

static void lower_scatter_nd(lower_t *lower) {
  int64_t shape[INTS_MAX];
  int32_t count = attr_ints(lower, "shape", shape);
  tenon_edge_t at = tuples(lower, lower->inputs[1]);
  tenon_edge_t extents = lower_ints(lower, shape, count > 0 ? (size_t)count : 0);
  lower_give(lower, lower_run(lower, EDGES(lower->inputs[0], at, extents),
                              "scatter_nd(expand(0:a, c), b, a)"));
}

static void lower_one_hot(lower_t *lower) {
  const char *dtype = tenon_dtype_name(attr_dtype(lower, "dtype", tenon_dtype(TENON_F32)));
  lower_give(lower,
             lower_run(lower, lower->inputs, 1,
                       "where(equal(unsqueeze(cast(a, to='i64'), [-1]:i64), range(0:i64, %lld:i64, "
                       "1:i64)), %.17g:%s, %.17g:%s)",
                       (long long)attr_int(lower, "depth", 0), attr_float(lower, "on_value", 1),
                       dtype, attr_float(lower, "off_value", 0), dtype));
}

static void lower_boolean_mask(lower_t *lower) {
  lower_give(lower, lower_run(lower, lower->inputs, 2, "compress(a, not_equal(b, 0:b), axis=%lld)",
                              (long long)attr_int(lower, "axis", 0)));
}

/* sorting */

/* Returns x and the axis along which it is sorted. Without an axis all elements are sorted as one
 * row. */
static tenon_edge_t along(lower_t *lower, int64_t otherwise, long long *out_axis) {
  const char *text = NULL;
  for (int32_t i = 0; i < lower->node->attr_count; i++)
    if (strcmp(lower->node->attrs[i].name, "axis") == 0) text = lower->node->attrs[i].value;
  bool is_flat = text ? strcmp(text, "None") == 0 : otherwise == INT64_MIN;
  *out_axis = is_flat ? 0 : attr_int(lower, "axis", otherwise);
  if (is_flat) (void)attr_int(lower, "axis", 0);
  return is_flat ? lower_run(lower, lower->inputs, 1, "reshape(a, [-1]:i64)") : lower->inputs[0];
}

static void lower_order(lower_t *lower) {
  long long axis;
  const char *op = lower->node->op;
  const char *type = attr_text(lower, "ret_typ", strcmp(op, "sort") == 0 ? "value" : "indices");
  bool is_top = strstr(op, "topk") != NULL;
  bool ascends = attr_bool(lower, "is_ascend", !is_top);
  tenon_dtype_t dtype = attr_dtype(lower, "dtype", tenon_dtype(TENON_F32));
  tenon_edge_t x = along(lower, -1, &axis);
  long long k = is_top ? attr_int(lower, "k", 1) : 0; /* 0: all elements */
  tenon_edge_t count = k > 0 ? lower_run(lower, EDGES(x), "[%lld]:i64", k)
                             : lower_run(lower, EDGES(x), "gather(shape(a), [%lld]:i64)", axis);
  values_t both = lower_run_all(lower, EDGES(x, count),
                                "v, i = top_k(a, b, axis=%lld, largest=%s); (v, cast(i, to='%s'))",
                                axis, ascends ? "False" : "True", tenon_dtype_name(dtype));
  if (both.count < 2) return;
  if (strcmp(type, "mask") == 0)
    lower_missing(lower, "its attribute ret_typ=mask");
  else if (strcmp(type, "both") == 0)
    lower->outputs = both;
  else
    lower_give(lower, both.edges[strcmp(type, "value") != 0]);
}

static void lower_arg(lower_t *lower) {
  long long axis;
  bool is_channel = strcmp(lower->node->op, "argmax_channel") == 0;
  const char *core = strstr(lower->node->op, "argmin") ? "arg_min" : "arg_max";
  tenon_edge_t x = along(lower, is_channel ? 1 : INT64_MIN, &axis);
  bool is_flat = x != lower->inputs[0];
  bool keep = attr_bool(lower, "keepdims", false);
  if (is_flat && keep && lower_rank(lower, lower->inputs[0]) != 1)
    lower_missing(lower, "its attribute keepdims=True without an axis");
  const char *dtype = strncmp(lower->node->op, "_np", 3) == 0 ? "'i64'" : ":a";
  lower_give(lower, lower_run(lower, EDGES(x), "cast(%s(a, axis=%lld, keepdims=%s), to=%s)", core,
                              axis, keep || is_flat ? "True" : "False", dtype));
}

/* sequences: the time axis is axis 0, or axis 1 if the attribute `axis` is 1 */

/* Returns the lengths of the sequences; EDGE_NONE: every sequence has full length. */
static tenon_edge_t lengths_of(lower_t *lower) {
  bool used = attr_bool(lower, "use_sequence_length", false);
  return used ? lower_run(lower, EDGES(lower_input(lower, 1)), "cast(a, to='i64')") : EDGE_NONE;
}

static long long time_axis(lower_t *lower) {
  long long axis = attr_int(lower, "axis", 0);
  if (axis != 0 && axis != 1)
    lower_fail(lower, "attribute 'axis': expected 0 or 1, found %lld", axis);
  return axis;
}

static void lower_sequence_mask(lower_t *lower) {
  long long axis = time_axis(lower);
  double value = attr_float(lower, "value", 0);
  tenon_edge_t x = lower->inputs[0];
  tenon_edge_t lengths = lengths_of(lower);
  if (lengths == EDGE_NONE) {
    lower_give(lower, x);
    return;
  }
  tenon_edge_t inside = lower_run(lower, EDGES(x, lengths),
                                  "less(unsqueeze(range(0:i64, gather(shape(a), %lld:i64), 1:i64), "
                                  "[%lld]:i64), unsqueeze(b, [%lld]:i64))",
                                  axis, 1 - axis, axis);
  for (int32_t rank = lower_rank(lower, x), i = 2; i < rank; i++)
    inside = lower_run(lower, EDGES(inside), "unsqueeze(a, [-1]:i64)");
  lower_give(lower, lower_run(lower, EDGES(x, inside), "where(b, a, %.17g:a)", value));
}

static void lower_sequence_last(lower_t *lower) {
  long long axis = time_axis(lower);
  tenon_edge_t x = lower->inputs[0];
  tenon_edge_t lengths = lengths_of(lower);
  if (lengths == EDGE_NONE) {
    lower_give(lower, lower_run(lower, EDGES(x), "gather(a, -1:i64, axis=%lld)", axis));
    return;
  }
  lower_give(lower,
             lower_run(lower, EDGES(x, lengths),
                       "at = unsqueeze(sub(b, 1:i64), [1]:i64); "
                       "row = unsqueeze(range(0:i64, gather(shape(b), 0:i64), 1:i64), [1]:i64); "
                       "gather_nd(a, concat([%s], axis=1))",
                       axis == 1 ? "row, at" : "at, row"));
}

static void lower_sequence_reverse(lower_t *lower) {
  tenon_edge_t x = lower->inputs[0];
  tenon_edge_t lengths = lengths_of(lower);
  if (attr_int(lower, "axis", 0) != 0) lower_missing(lower, "its attribute axis");
  if (lengths == EDGE_NONE)
    lower_give(lower,
               lower_run(lower, EDGES(x), "slice(a, [-1]:i64, [%lld]:i64, [0]:i64, [-1]:i64)",
                         (long long)INT64_MIN));
  else
    lower_give(lower, lower_run(lower, EDGES(x, lengths),
                                "reverse_sequence(a, b, batch_axis=1, time_axis=0)"));
}

/* tensors of numbers */

/* MXNet infers an extent of 0 from the operators that use the result. Here it becomes 1, which
 * broadcasts. */
static void lower_filled(lower_t *lower) {
  int64_t shape[INTS_MAX];
  const char *op = lower->node->op;
  int32_t count = attr_ints(lower, "shape", shape);
  const char *value_name = strncmp(op, "_np", 3) == 0 ? "fill_value" : "value";
  double value = strstr(op, "ones") != NULL;
  if (strstr(op, "full")) value = attr_float(lower, value_name, 0);
  for (int32_t i = 0; i < count; i++)
    if (shape[i] == 0 && !lower->model->symbol.is_np_shape) shape[i] = 1;
  tenon_dtype_t dtype = attr_dtype(lower, "dtype", tenon_dtype(TENON_F32));
  tenon_edge_t extents = lower_ints(lower, shape, count > 0 ? (size_t)count : 0);
  lower_give(lower, lower_run(lower, EDGES(extents), "expand(%.17g:%s, a)", value,
                              tenon_dtype_name(dtype)));
}

static void lower_arange(lower_t *lower) {
  double start = attr_float(lower, "start", 0);
  double step = attr_float(lower, "step", 1);
  bool has_stop = attr_text(lower, "stop", NULL) != NULL;
  double stop = has_stop ? attr_float(lower, "stop", 0) : start;
  long long times = attr_int(lower, "repeat", 1);
  tenon_dtype_t dtype = attr_dtype(lower, "dtype", tenon_dtype(TENON_F32));
  if (attr_bool(lower, "infer_range", false))
    lower_missing(lower, "its attribute infer_range=True");
  if (!has_stop) start = 0;
  tenon_edge_t y =
      lower_run(lower, NULL, 0, "cast(range(%.17g:f64, %.17g:f64, %.17g:f64), to='%s')", start,
                stop, step, tenon_dtype_name(dtype));
  if (times > 1)
    y = lower_run(lower, EDGES(y),
                  "reshape(expand(unsqueeze(a, [1]:i64), [1, %lld]:i64), [-1]:i64)", times);
  lower_give(lower, y);
}

static void lower_arange_like(lower_t *lower) {
  double start = attr_float(lower, "start", 0);
  double step = attr_float(lower, "step", 1);
  int64_t axis = attr_int(lower, "axis", INT64_MIN);
  if (attr_int(lower, "repeat", 1) != 1) lower_missing(lower, "its attribute repeat");
  tenon_edge_t x = lower->inputs[0];
  tenon_edge_t count =
      axis == INT64_MIN ? lower_run(lower, EDGES(x), "size(a)")
                        : lower_run(lower, EDGES(x), "gather(shape(a), %lld:i64)", (long long)axis);
  tenon_edge_t y =
      lower_run(lower, EDGES(x, count),
                "add(mul(cast(range(0:i64, b, 1:i64), to=:a), %.17g:a), %.17g:a)", step, start);
  lower_give(lower, axis == INT64_MIN ? lower_run(lower, EDGES(y, x), "reshape(a, shape(b))") : y);
}

static void lower_eye(lower_t *lower) {
  long long rows = attr_int(lower, "N", 1);
  long long columns = attr_int(lower, "M", 0);
  long long k = attr_int(lower, "k", 0);
  tenon_dtype_t dtype = attr_dtype(lower, "dtype", tenon_dtype(TENON_F32));
  lower_give(lower, lower_run(lower, NULL, 0, "eye_like(expand(0:%s, [%lld, %lld]:i64), k=%lld)",
                              tenon_dtype_name(dtype), rows, columns > 0 ? columns : rows, k));
}

/* clang-format off: a table with one lowering in each entry */
/* clang-format off */
static const lowering_t lowerings[] = {
  {"Embedding|_contrib_SparseEmbedding(x#+, w!, -input_dim, -output_dim, -dtype, -sparse_grad, -deterministic) = "
   "gather(w, cast(x, to='i64'))", NULL},
  {"take|_npi_take(x, indices)", lower_take_op},
  {"pick|batch_take(x, indices)", lower_pick},
  {"gather_nd|_npi_gather_nd(x, indices)", lower_gather_nd},
  {"scatter_nd(x, indices)", lower_scatter_nd},
  {"one_hot|_npx_one_hot(x)", lower_one_hot},
  {"_contrib_boolean_mask(x, mask)", lower_boolean_mask},
  {"topk|_npx_topk(x)", lower_order},
  {"sort|argsort(x)", lower_order},
  {"argmax|argmin|argmax_channel|_npi_argmax|_npi_argmin(x)", lower_arg},
  {"SequenceMask(x=, lengths?#)", lower_sequence_mask},
  {"SequenceLast(x, lengths?#)", lower_sequence_last},
  {"SequenceReverse(x=, lengths?#)", lower_sequence_reverse},
  {"_zeros|_zeros_without_dtype|_ones|_full|_npi_zeros|_npi_ones|_npi_full()", lower_filled},
  {"_arange|_npi_arange()", lower_arange},
  {"_contrib_arange_like|_npx_arange_like(x)", lower_arange_like},
  {"_eye|_npi_eye()", lower_eye},
};
/* clang-format on */

LOWERINGS(lowerings_index);
