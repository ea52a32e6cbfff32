/* Integers of 2 and 4 bits, which are computed as integers of 8 bits. Called by region.c, by
 * model.c for inputs, and by lower_pointwise.c. Invariant: each value of such a type is in range,
 * so operations that move or compare elements need nothing, and those that compute give results
 * whose lowest bits are right. */
#include "lower/narrow.h"

#include <string.h>

#include "lower/expression.h"

/* Operations whose results are in range if their operands are. */
static const char *const exact[] = {"chlo.scan",
                                    "chlo.top_k",
                                    "func.call",
                                    "sdy.sharding_constraint",
                                    "stablehlo.and",
                                    "stablehlo.broadcast_in_dim",
                                    "stablehlo.case",
                                    "stablehlo.clamp",
                                    "stablehlo.compare",
                                    "stablehlo.composite",
                                    "stablehlo.concatenate",
                                    "stablehlo.constant",
                                    "stablehlo.dynamic_broadcast_in_dim",
                                    "stablehlo.dynamic_gather",
                                    "stablehlo.dynamic_pad",
                                    "stablehlo.dynamic_reshape",
                                    "stablehlo.dynamic_slice",
                                    "stablehlo.dynamic_update_slice",
                                    "stablehlo.gather",
                                    "stablehlo.get_dimension_size",
                                    "stablehlo.get_tuple_element",
                                    "stablehlo.if",
                                    "stablehlo.map",
                                    "stablehlo.maximum",
                                    "stablehlo.minimum",
                                    "stablehlo.optimization_barrier",
                                    "stablehlo.or",
                                    "stablehlo.pad",
                                    "stablehlo.real_dynamic_slice",
                                    "stablehlo.remainder",
                                    "stablehlo.reshape",
                                    "stablehlo.reverse",
                                    "stablehlo.select",
                                    "stablehlo.sign",
                                    "stablehlo.slice",
                                    "stablehlo.sort",
                                    "stablehlo.transpose",
                                    "stablehlo.tuple",
                                    "stablehlo.while",
                                    "stablehlo.xor"};

/* Operations whose results need to be brought into range. */
static const char *const wrapping[] = {"stablehlo.abs",
                                       "stablehlo.add",
                                       "stablehlo.bitcast_convert",
                                       "stablehlo.convert",
                                       "stablehlo.count_leading_zeros",
                                       "stablehlo.divide",
                                       "stablehlo.dot",
                                       "stablehlo.dot_general",
                                       "stablehlo.dynamic_iota",
                                       "stablehlo.iota",
                                       "stablehlo.multiply",
                                       "stablehlo.negate",
                                       "stablehlo.not",
                                       "stablehlo.popcnt",
                                       "stablehlo.reduce",
                                       "stablehlo.reduce_window",
                                       "stablehlo.scatter",
                                       "stablehlo.shift_left",
                                       "stablehlo.shift_right_arithmetic",
                                       "stablehlo.shift_right_logical",
                                       "stablehlo.subtract"};

static bool contains(const char *const *names, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

tenon_edge_t hlo_narrow(hlo_lower_t *lower, tenon_edge_t edge, int bits, bool is_signed) {
  if (!bits || edge == EDGE_NONE) return edge;
  if (!is_signed) return hlo_run(lower, EDGES(edge), "bitwise_and(a, %d:a)", (1 << bits) - 1);
  return hlo_run(lower, EDGES(edge), "shift_right(shift_left(a, %d:a), %d:a)", 8 - bits, 8 - bits);
}

void hlo_narrow_check(hlo_lower_t *lower) {
  const hlo_op_t *op = lower->op;
  int bits = 0;
  for (int32_t i = 0; i < op->operand_count; i++)
    bits |= op->operands[i]->type->bits;
  for (int32_t i = 0; i < op->result_count; i++)
    bits |= op->results[i]->type->bits;
  if (bits && !contains(exact, sizeof exact / sizeof *exact, op->name) &&
      !contains(wrapping, sizeof wrapping / sizeof *wrapping, op->name))
    hlo_missing(lower, "elements of fewer than 8 bits");
}

void hlo_narrow_results(hlo_lower_t *lower) {
  const hlo_op_t *op = lower->op;
  if (!contains(wrapping, sizeof wrapping / sizeof *wrapping, op->name)) return;
  for (int32_t i = 0; i < op->result_count && !hlo_stopped(lower); i++) {
    const hlo_type_t *type = op->results[i]->type;
    hlo_bound_t *bound = &lower->frame->bound[op->results[i]->index];
    if (!type->bits || !bound->is_set) continue;
    bound->edge = hlo_narrow(lower, bound->edge, type->bits, type->dtype.code == 0);
    bound->narrow = hlo_narrow(lower, bound->narrow, type->bits, type->dtype.code == 0);
    bound->constant = NULL;
  }
}
