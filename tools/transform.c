/* The rounding of Fourier transforms; see transform.h.
 *
 * A fast transform of n numbers in a format of unit roundoff u gives y with an error e for which
 * |e|_2 <= c u log2(n) |y|_2, where c is about 7 for powers of two (Higham, Accuracy and Stability
 * of Numerical Algorithms, theorem 24.2). No bound relative to each number holds: where numbers
 * cancel to zero, a right result has the rounding of those that cancelled. The allowance of a line
 * is u log2(n) |y|_2 with the norm of the expected line: c is 1, less than the theorem permits. */
#include "transform.h"

#include <math.h>
#include <string.h>

#include "element.h"

enum { DFT_AXIS = 2 }; /* the operand of core::dft */

/* The lines of a result [outer, n, inner, parts]. */
typedef struct lines_t {
  int64_t outer;
  int64_t n;
  int64_t inner;
  int64_t parts; /* 2: real and imaginary part; 1: real numbers */
} lines_t;

static double unit_roundoff(tenon_dtype_t dtype) {
  if (tenon_dtype_id(dtype) == TENON_F32) return 0x1p-24;
  return tenon_dtype_id(dtype) == TENON_F64 ? 0x1p-53 : 0;
}

/* The number that an edge holds, if it is a constant or an input of the graph. */
static bool read_edge(const tenon_graph_t *graph, tenon_edge_t edge, tenon_tensor_t *const *inputs,
                      int64_t *out_value) {
  tenon_graph_edge_t info = {.size = sizeof info};
  if (tenon_graph_edge(graph, edge, &info, NULL) != TENON_OK) return false;
  const tenon_tensor_t *tensor = info.constant;
  if (!tensor && info.input >= 0) tensor = inputs[info.input];
  if (!tensor || tenon_count(tensor) != 1) return false;
  *out_value = element_integer(tensor, 0);
  return true;
}

/* The axis of a result of `rank` axes along which it was transformed; -1: it is no transform. */
static int64_t transformed_axis(const tenon_graph_t *graph, int32_t index,
                                tenon_tensor_t *const *inputs, int32_t rank) {
  tenon_port_t port = {.size = sizeof port};
  tenon_graph_edge_t edge = {.size = sizeof edge};
  tenon_graph_part_t node = {.size = sizeof node};
  tenon_op_info_t op = {.size = sizeof op};
  int64_t axis = -2;
  if (tenon_graph_output(graph, index, &port) != TENON_OK ||
      tenon_graph_edge(graph, port.edge, &edge, NULL) != TENON_OK || edge.node < 0 ||
      tenon_graph_node(graph, edge.node, &node) != TENON_OK)
    return -1;
  tenon_op_info(node.op, &op);
  if (strcmp(op.name, "core::dft") != 0 && strcmp(op.name, "core::stft") != 0) return -1;
  if (strcmp(op.name, "core::dft") == 0 && node.operands[DFT_AXIS].count == 1 &&
      !read_edge(graph, node.operands[DFT_AXIS].edges[0], inputs, &axis))
    return -1;
  if (axis < 0) axis += rank;
  return axis < rank - 1 ? axis : -1;
}

static bool has_equal_form(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  bool is_equal = tenon_dtype_id(a->dtype) == tenon_dtype_id(b->dtype) && a->ndim == b->ndim &&
                  element_is_dense(a) && element_is_dense(b);
  for (int32_t i = 0; is_equal && i < a->ndim; i++)
    is_equal = a->shape[i] == b->shape[i];
  return is_equal;
}

/* The line begins at `begin`, and its numbers are `inner * parts` apart. */
static bool compare_line(const lines_t *lines, int64_t begin, const tenon_tensor_t *expected,
                         const tenon_tensor_t *found, const tolerance_t *tolerance) {
  const int64_t step = lines->inner * lines->parts;
  double squares = 0;
  for (int64_t i = 0; i < lines->n * lines->parts; i++) {
    const double number =
        element_number(expected, begin + i / lines->parts * step + i % lines->parts);
    squares += number * number;
  }
  const double rounding =
      unit_roundoff(expected->dtype) * log2((double)lines->n) * sqrt(squares) + tolerance->absolute;
  if (!isfinite(rounding)) return false; /* it would permit everything */
  for (int64_t i = 0; i < lines->n * lines->parts; i++) {
    const int64_t at = begin + i / lines->parts * step + i % lines->parts;
    const double number = element_number(expected, at);
    const double difference = fabs(element_number(found, at) - number);
    if (!(difference <= rounding + tolerance->relative * fabs(number))) return false;
  }
  return true;
}

bool transform_agrees(const tenon_graph_t *graph, int32_t index, tenon_tensor_t *const *inputs,
                      const tenon_tensor_t *expected, const tenon_tensor_t *found,
                      const tolerance_t *tolerance) {
  if (!has_equal_form(expected, found) || unit_roundoff(expected->dtype) == 0) return false;
  const int32_t rank = expected->ndim;
  const int64_t axis = transformed_axis(graph, index, inputs, rank);
  if (axis < 0) return false;
  lines_t lines = {1, expected->shape[axis], 1, expected->shape[rank - 1]};
  for (int32_t i = 0; i < rank - 1; i++) {
    if (i < axis) lines.outer *= expected->shape[i];
    if (i > axis) lines.inner *= expected->shape[i];
  }
  const int64_t step = lines.n * lines.inner * lines.parts;
  bool agrees = true;
  for (int64_t i = 0; i < lines.outer * lines.inner && agrees; i++) {
    const int64_t begin = i / lines.inner * step + i % lines.inner * lines.parts;
    agrees = compare_line(&lines, begin, expected, found, tolerance);
  }
  return agrees;
}
