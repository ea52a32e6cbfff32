/* Lowers chlo.scan to core::scan: the body takes slices of the inputs, then the carries, and
 * returns slices of the outputs, then the carries; core::scan has the carries first. Invariant:
 * carries and slices have the types that the body states. */
#include "lower/arguments.h"
#include "lower/body.h"
#include "lower/expression.h"
#include "lower/region.h"

typedef struct chlo_scan_t {
  const hlo_region_t *region;
  int32_t inputs;
  int32_t carries;
  int32_t outputs;
  int64_t axis;
  tenon_edge_t *edges;      /* The carries before the first step, then the inputs. */
  const hlo_type_t **types; /* Of the carries, then of the outputs. */
} chlo_scan_t;

/* Whether a type is that of another one without an axis. */
static bool is_slice(const hlo_type_t *slice, const hlo_type_t *whole, int64_t axis) {
  hlo_type_t other = *whole;
  int64_t dims[TENON_RANK_MAX];
  if (axis < 0 || axis >= whole->ndim) return false;
  other.ndim--;
  other.dims = dims;
  for (int32_t i = 0; i < other.ndim; i++)
    dims[i] = whole->dims[i < axis ? i : i + 1];
  return hlo_type_equal(slice, &other);
}

static void check_operands(hlo_lower_t *lower, const chlo_scan_t *scan) {
  int64_t extent = -1;
  for (int32_t i = 0; i < scan->inputs && !hlo_stopped(lower); i++) {
    const hlo_type_t *type = hlo_operand_type(lower, i);
    if (!is_slice(scan->region->args[i]->type, type, scan->axis)) {
      hlo_wrong(lower, "argument %d of the body is no slice of the input along axis %lld", (int)i,
                (long long)scan->axis);
      return;
    }
    if (extent >= 0 && type->dims[scan->axis] >= 0 && type->dims[scan->axis] != extent)
      hlo_wrong(lower, "the inputs have different extents along the axis");
    if (type->dims[scan->axis] >= 0) extent = type->dims[scan->axis];
  }
  for (int32_t i = scan->inputs; i < lower->op->operand_count && !hlo_stopped(lower); i++)
    if (!hlo_type_equal(scan->region->args[i]->type, hlo_operand_type(lower, i)))
      hlo_wrong(lower, "argument %d of the body has another type than the operand", (int)i);
  for (int32_t i = 0; i < lower->op->operand_count; i++)
    if (hlo_part_count(scan->region->args[i]->type) != 1) hlo_missing(lower, "complex operands");
  for (int32_t i = 0; i < lower->op->result_count; i++)
    if (hlo_part_count(hlo_result_type(lower, i)) != 1) hlo_missing(lower, "complex results");
}

static bool read_scan(hlo_lower_t *lower, chlo_scan_t *scan) {
  int64_t counts[HLO_INTS_MAX] = {0};
  const hlo_op_t *op = lower->op;
  const int32_t count = hlo_attr_ints(lower, "operandSegmentSizes", NULL, counts);
  scan->region = hlo_region(lower, 0);
  scan->axis = hlo_attr_int(lower, "dimension", NULL, -1);
  if (hlo_stopped(lower)) return false;
  if (count != 2 || counts[0] < 1 || counts[1] < 0 || counts[1] > op->result_count ||
      counts[1] > op->operand_count || counts[0] != op->operand_count - counts[1])
    hlo_wrong(lower, "expected the numbers of inputs and of carries as operandSegmentSizes");
  if (scan->region->arg_count != op->operand_count ||
      scan->region->last->operand_count != op->result_count)
    hlo_wrong(lower, "expected a body with an argument for each operand, and as many results");
  if (hlo_stopped(lower)) return false;
  scan->inputs = (int32_t)counts[0];
  scan->carries = (int32_t)counts[1];
  scan->outputs = op->result_count - scan->carries;
  check_operands(lower, scan);
  scan->edges = hlo_lower_take(lower, (size_t)op->operand_count, sizeof *scan->edges);
  scan->types = hlo_lower_take(lower, (size_t)op->result_count, sizeof *scan->types);
  if (hlo_stopped(lower)) return false;
  for (int32_t i = 0; i < op->operand_count; i++)
    scan->edges[i] = hlo_edge(lower, i < scan->carries ? scan->inputs + i : i - scan->carries);
  for (int32_t i = 0; i < op->result_count; i++)
    scan->types[i] =
        hlo_result_type(lower, i < scan->carries ? scan->outputs + i : i - scan->carries);
  return !hlo_stopped(lower);
}

static tenon_graph_t *build_body(hlo_lower_t *lower, const chlo_scan_t *scan, hlo_body_t *body) {
  const hlo_region_t *region = scan->region;
  const int32_t result_count = lower->op->result_count;
  hlo_bound_t *args = hlo_lower_take(lower, (size_t)region->arg_count, sizeof *args);
  hlo_bound_t *results = hlo_lower_take(lower, (size_t)result_count, sizeof *results);
  hlo_body_collect(lower, body, region);
  hlo_body_begin(lower, body);
  for (int32_t i = 0; args && i < region->arg_count; i++) {
    const int32_t k = i < scan->carries ? scan->inputs + i : i - scan->carries;
    args[k] = hlo_real(hlo_body_input(lower, body->outer, scan->edges[i], region->args[k]->type));
  }
  hlo_body_capture(lower, body);
  if (args && results &&
      hlo_inline_region(lower, region, args, region->arg_count, results, result_count))
    for (int32_t i = 0; i < result_count; i++) {
      const int32_t k = i < scan->carries ? scan->outputs + i : i - scan->carries;
      hlo_body_output(lower, results[k].edge);
    }
  return hlo_body_finish(lower, body);
}

/* Sets an attribute to `count` times the same integer. */
static void set_all(hlo_lower_t *lower, tenon_attrs_t *attrs, const char *name, int64_t value,
                    int32_t count) {
  int64_t *values = hlo_lower_take(lower, (size_t)count, sizeof *values);
  for (int32_t i = 0; values && i < count; i++)
    values[i] = value;
  if (!hlo_stopped(lower))
    (void)hlo_has_failed(lower, tenon_attrs_ints(attrs, name, values, (uint32_t)count));
}

static void lower_scan(hlo_lower_t *lower) {
  chlo_scan_t scan = {0};
  hlo_body_t body = {0};
  const tenon_op_t *op = NULL;
  tenon_attrs_t *attrs = NULL;
  if (!read_scan(lower, &scan)) return;
  tenon_graph_t *graph = build_body(lower, &scan, &body);
  if (hlo_stopped(lower) || hlo_has_failed(lower, tenon_op_find("core::scan", &op)) ||
      hlo_has_failed(lower, tenon_attrs_create(op, &attrs))) {
    tenon_graph_release(graph);
    return;
  }
  const int64_t is_reversed = hlo_attr_int(lower, "is_reverse", NULL, 0);
  hlo_set_graph(lower, attrs, "body", graph);
  hlo_set_results(lower, attrs, scan.types, lower->op->result_count);
  set_all(lower, attrs, "input_axes", scan.axis, scan.inputs);
  set_all(lower, attrs, "input_reverse", is_reversed, scan.inputs);
  set_all(lower, attrs, "output_axes", scan.axis, scan.outputs);
  set_all(lower, attrs, "output_reverse", is_reversed, scan.outputs);
  const hlo_edges_t operands[] = {{scan.edges, scan.carries, true},
                                  {scan.edges + scan.carries, scan.inputs, true},
                                  {body.captured, body.captured_count, true}};
  hlo_edges_t results = hlo_call(lower, op, attrs, operands, 3, lower->op->result_count);
  for (int32_t i = 0; i < results.count && !hlo_stopped(lower); i++)
    hlo_give(lower, i < scan.carries ? scan.outputs + i : i - scan.carries, results.edges[i]);
}

static const hlo_row_t rows[] = {
    {"chlo.scan", NULL, NULL, NULL, lower_scan, 0, NULL},
};

HLO_ROWS(hlo_rows_scan);
