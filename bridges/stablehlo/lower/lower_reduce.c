/* Lowers reductions. Regions with one known operation become a reduction of core; all other regions
 * are applied to halves of the tensors, log2(n) times, in the order of the elements. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lower/arguments.h"
#include "lower/body.h"
#include "lower/expression.h"
#include "lower/reduce.h"
#include "lower/region.h"

/* regions */

const char *hlo_region_operation(const hlo_region_t *region) {
  const hlo_op_t *op = region->first;
  const hlo_op_t *last = region->last;
  if (!last || region->arg_count != 2 || op->next != last || op->operand_count != 2) return "";
  if (op->result_count != 1 || last->operand_count != 1 || last->operands[0] != op->results[0])
    return "";
  bool is_plain = op->operands[0] == region->args[0] && op->operands[1] == region->args[1];
  bool is_swapped = op->operands[0] == region->args[1] && op->operands[1] == region->args[0];
  return is_plain || is_swapped ? op->name : "";
}

/* Reads the values of f16 that are neutral for some operation; all others become NaN. */
static double half_number(uint64_t bits) {
  if (bits == 0xFC00) return -INFINITY;
  if (bits == 0x7C00) return INFINITY;
  if (bits == 0x3C00) return 1;
  return (bits & 0x7FFF) == 0 ? 0 : NAN;
}

/* Reads the only element of a constant as a double. */
static bool constant_number(const hlo_attr_t *attr, double *out) {
  tenon_dtype_t dtype = attr->tensor->dtype;
  const char *data = attr->tensor->data;
  uint64_t bits = 0;
  float single;
  if (tenon_count(attr->tensor) != 1 || dtype.bits > 64) return false;
  memcpy(&bits, data, dtype.bits / 8);
  if (dtype.code == 0)
    *out = (double)((int64_t)(bits << (64 - dtype.bits)) >> (64 - dtype.bits));
  else if (dtype.code == 1 || dtype.code == 6)
    *out = (double)bits;
  else if (tenon_dtype_id(dtype) == TENON_F64)
    memcpy(out, data, sizeof *out);
  else if (tenon_dtype_id(dtype) == TENON_F16)
    *out = half_number(bits);
  else if (tenon_dtype_id(dtype) == TENON_F32 || tenon_dtype_id(dtype) == TENON_BF16) {
    uint32_t word = (uint32_t)(dtype.bits == 16 ? bits << 16 : bits);
    memcpy(&single, &word, sizeof single);
    *out = (double)single;
  } else {
    return false;
  }
  return true;
}

bool hlo_is_neutral(hlo_lower_t *lower, int32_t operand, const char *operation) {
  const hlo_bound_t *value = hlo_operand(lower, operand);
  const hlo_type_t *type = hlo_operand_type(lower, operand);
  double number;
  if (!value->constant || !constant_number(value->constant, &number)) return false;
  /* Those of the operand: the constant may have been converted. */
  tenon_dtype_t dtype = type->dtype;
  int bits = type->bits ? type->bits : dtype.bits;
  bool is_signed = dtype.code == 0;
  double least = is_signed ? -ldexp(1, bits - 1) : 0;
  double most = is_signed ? ldexp(1, bits - 1) - 1 : ldexp(1, bits) - 1;
  if (dtype.code == 6) most = 1;
  if (hlo_is_float(dtype)) {
    least = -INFINITY;
    most = INFINITY;
  }
  if (strcmp(operation, "stablehlo.add") == 0 || strcmp(operation, "stablehlo.or") == 0)
    return number == 0;
  if (strcmp(operation, "stablehlo.multiply") == 0) return number == 1;
  if (strcmp(operation, "stablehlo.and") == 0) return dtype.code == 6 && number == 1;
  if (strcmp(operation, "stablehlo.maximum") == 0) return number == least;
  return strcmp(operation, "stablehlo.minimum") == 0 && number == most;
}

bool hlo_combine(hlo_lower_t *lower, const hlo_region_t *region, const tenon_edge_t *a,
                 const tenon_edge_t *b, int32_t count, tenon_edge_t *out) {
  tenon_edge_t *args = hlo_lower_take(lower, 2 * (size_t)count, sizeof *args);
  if (!args) return false;
  memcpy(args, a, (size_t)count * sizeof *args);
  memcpy(args + count, b, (size_t)count * sizeof *args);
  return hlo_inline_elements(lower, region, args, 2 * count, out, count);
}

/* one known operation */

static const char *reduction_of(const char *operation, tenon_dtype_t dtype) {
  static const struct {
    const char *operation;
    const char *reduction;
    const char *bool_reduction;
  } known[] = {
      {"stablehlo.add", "reduce_sum", "reduce_max"},
      {"stablehlo.multiply", "reduce_prod", "reduce_min"},
      {"stablehlo.maximum", "reduce_max", "reduce_max"},
      {"stablehlo.minimum", "reduce_min", "reduce_min"},
      {"stablehlo.or", NULL, "reduce_max"},
      {"stablehlo.and", NULL, "reduce_min"},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].operation, operation) == 0)
      return hlo_is_bool(dtype) ? known[i].bool_reduction : known[i].reduction;
  return NULL;
}

static void reduce_known(hlo_lower_t *lower, const hlo_region_t *region, const char *reduction,
                         const int64_t *dims, int32_t count) {
  char text[HLO_JOIN_MAX];
  const char *operation = hlo_region_operation(region);
  tenon_edge_t x = hlo_edge(lower, 0);
  tenon_edge_t init = hlo_edge(lower, 1);
  if (count)
    x = hlo_run(lower, EDGES(x), "%s(a, [%s], keepdims=False)", reduction,
                hlo_join(dims, count, text, sizeof text));
  if (!hlo_is_neutral(lower, 1, operation)) {
    if (lower->part >= 0)
      x = hlo_run(lower, EDGES(init, x), "add(a, b)");
    else
      (void)hlo_combine(lower, region, &init, &x, 1, &x);
  }
  hlo_give(lower, 0, x);
}

/* any region */

/* Combines neighbours along an axis until one element is left, and removes the axis. */
static void reduce_axis(hlo_lower_t *lower, const hlo_region_t *region, tenon_edge_t *edges,
                        int32_t count, int32_t axis, int64_t extent) {
  tenon_edge_t *first = hlo_lower_take(lower, 3 * (size_t)count, sizeof *first);
  tenon_edge_t *second = first + count;
  tenon_edge_t *rest = second + count;
  if (!first) return;
  while (extent > 1 && !hlo_stopped(lower)) {
    int64_t even = extent / 2 * 2;
    for (int32_t i = 0; i < count; i++) {
      first[i] = hlo_slice(lower, edges[i], axis, 0, even, 2);
      second[i] = hlo_slice(lower, edges[i], axis, 1, even, 2);
      rest[i] = hlo_slice(lower, edges[i], axis, even, extent, 1);
    }
    if (!hlo_combine(lower, region, first, second, count, edges)) return;
    for (int32_t i = 0; i < count && even < extent; i++)
      edges[i] = hlo_concat(lower, (tenon_edge_t[]){edges[i], rest[i]}, 2, axis);
    extent = even / 2 + extent % 2;
  }
  for (int32_t i = 0; i < count; i++)
    edges[i] = hlo_run(lower, EDGES(edges[i]), "squeeze(a, [%d])", (int)axis);
}

/* Sets the attributes of core::scan over one axis of each operand. */
static void set_scan(hlo_lower_t *lower, tenon_attrs_t *attrs, const tenon_edge_t *edges,
                     int32_t count, int32_t axis) {
  int64_t *numbers = hlo_lower_take(lower, (size_t)count, sizeof *numbers);
  int32_t ndim = hlo_rank(lower, edges[0]);
  if (!numbers || hlo_stopped(lower)) return;
  (void)hlo_has_failed(lower, tenon_attrs_int(attrs, "count", count));
  for (int32_t i = 0; i < count && !hlo_stopped(lower); i++)
    numbers[i] = (int64_t)tenon_dtype_id(hlo_dtype(lower, edges[i]));
  (void)hlo_has_failed(lower, tenon_attrs_ints(attrs, "dtypes", numbers, (uint32_t)count));
  for (int32_t i = 0; i < count; i++)
    numbers[i] = ndim - 1;
  (void)hlo_has_failed(lower, tenon_attrs_ints(attrs, "ranks", numbers, (uint32_t)count));
  for (int32_t i = 0; i < count; i++)
    numbers[i] = axis;
  (void)hlo_has_failed(lower, tenon_attrs_ints(attrs, "input_axes", numbers, (uint32_t)count));
}

/* Builds the body of the scan: it combines the states with one slice of each operand. */
static const tenon_graph_t *build_scan(hlo_lower_t *lower, const hlo_region_t *region,
                                       const tenon_edge_t *states, const tenon_edge_t *edges,
                                       int32_t count, hlo_body_t *body) {
  int64_t unknown[TENON_RANK_MAX];
  tenon_edge_t *first = hlo_lower_take(lower, 2 * (size_t)count, sizeof *first);
  const hlo_type_t rest = {.kind = HLO_TENSOR, .ndim = hlo_rank(lower, states[0]), .dims = unknown};
  for (int32_t i = 0; i < TENON_RANK_MAX; i++)
    unknown[i] = -1;
  hlo_body_collect(lower, body, region);
  hlo_body_begin(lower, body);
  for (int32_t i = 0; i < count && first; i++)
    first[i] = hlo_body_input(lower, body->outer, states[i], &rest);
  for (int32_t i = 0; i < count && first; i++)
    first[count + i] = hlo_body_input(lower, body->outer, edges[i], &rest);
  hlo_body_capture(lower, body);
  if (first && hlo_combine(lower, region, first, first + count, count, first))
    for (int32_t i = 0; i < count; i++)
      hlo_body_output(lower, first[i]);
  return hlo_body_finish(lower, body);
}

/* Reduces an axis whose extent is known only when the program runs: a scan over its elements. */
static void scan_axis(hlo_lower_t *lower, const hlo_region_t *region, tenon_edge_t *edges,
                      const tenon_edge_t *inits, int32_t count, int32_t axis) {
  const tenon_op_t *op = NULL;
  tenon_attrs_t *attrs = NULL;
  hlo_body_t body = {0};
  tenon_value_t graph = {TENON_KIND_GRAPH, 0, {0}};
  tenon_edge_t *states = hlo_lower_take(lower, (size_t)count, sizeof *states);
  for (int32_t i = 0; i < count && states; i++)
    states[i] = hlo_run(lower, EDGES(inits[i], edges[i]),
                        "expand(a, concat([shape(b, end=%d), shape(b, start=%d)], axis=0))",
                        (int)axis, (int)axis + 1);
  if (!states || hlo_stopped(lower)) return;
  graph.as.graph = build_scan(lower, region, states, edges, count, &body);
  if (!hlo_stopped(lower) && !hlo_has_failed(lower, tenon_op_find("core::scan", &op)) &&
      !hlo_has_failed(lower, tenon_attrs_create(op, &attrs))) {
    (void)hlo_has_failed(lower, tenon_attrs_set(attrs, "body", &graph));
    set_scan(lower, attrs, edges, count, axis);
    const hlo_edges_t operands[] = {
        {states, count, true}, {edges, count, true}, {body.captured, body.captured_count, true}};
    hlo_edges_t results = hlo_call(lower, op, attrs, operands, 3, count);
    for (int32_t i = 0; i < count && !hlo_stopped(lower); i++)
      edges[i] = results.edges[i];
  }
  tenon_graph_release((tenon_graph_t *)(uintptr_t)graph.as.graph);
}

static int compare_integers(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a;
  int64_t y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void reduce_any(hlo_lower_t *lower, const hlo_region_t *region, int64_t *dims,
                       int32_t dim_count, int32_t count) {
  const hlo_type_t *type = hlo_operand_type(lower, 0);
  tenon_edge_t *edges = hlo_lower_take(lower, 2 * (size_t)count, sizeof *edges);
  tenon_edge_t *inits = edges + count;
  bool is_empty = false;
  if (!edges) return;
  for (int32_t i = 0; i < count; i++) {
    edges[i] = hlo_edge(lower, i);
    inits[i] = hlo_edge(lower, count + i);
  }
  qsort(dims, (size_t)dim_count, sizeof *dims, compare_integers);
  for (int32_t i = dim_count - 1; i >= 0 && !hlo_stopped(lower); i--) {
    int64_t extent = type->dims[dims[i]];
    if (extent < 0) scan_axis(lower, region, edges, inits, count, (int32_t)dims[i]);
    is_empty |= extent == 0;
    if (extent > 0 && !is_empty) reduce_axis(lower, region, edges, count, (int32_t)dims[i], extent);
  }
  for (int32_t i = 0; i < count && is_empty; i++) {
    const hlo_type_t *result = hlo_result_type(lower, i);
    edges[i] = hlo_expand(lower, inits[i], result->dims, result->ndim);
  }
  if (!is_empty && !hlo_combine(lower, region, inits, edges, count, edges)) return;
  for (int32_t i = 0; i < count; i++)
    hlo_give(lower, i, edges[i]);
}

static void lower_reduce(hlo_lower_t *lower) {
  int64_t dims[HLO_INTS_MAX];
  int32_t count = lower->op->operand_count / 2;
  const hlo_region_t *region = hlo_region(lower, 0);
  int32_t dim_count =
      hlo_attr_axes(lower, "dimensions", NULL, hlo_operand_type(lower, 0)->ndim, dims);
  if (count < 1 || lower->op->operand_count != 2 * count || lower->op->result_count != count)
    hlo_wrong(lower, "expected as many results and initial values as operands");
  for (int32_t i = 1; i < count && !hlo_stopped(lower); i++)
    if (hlo_operand_type(lower, i)->ndim != hlo_operand_type(lower, 0)->ndim)
      hlo_wrong(lower, "the operands have different numbers of axes");
  if (!region || hlo_stopped(lower)) return;
  const char *reduction =
      count == 1 ? reduction_of(hlo_region_operation(region), hlo_operand_type(lower, 0)->dtype)
                 : NULL;
  if (lower->part >= 0 && (!reduction || strcmp(reduction, "reduce_sum") != 0))
    hlo_missing(lower, "complex operands in a region other than a sum");
  if (reduction)
    reduce_known(lower, region, reduction, dims, dim_count);
  else
    reduce_any(lower, region, dims, dim_count, count);
}

static const hlo_row_t rows[] = {
    {"stablehlo.reduce", NULL, NULL, NULL, lower_reduce, HLO_BY_PARTS, NULL},
};

HLO_ROWS(hlo_rows_reduce);
