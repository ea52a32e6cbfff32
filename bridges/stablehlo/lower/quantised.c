/* Quantised types, whose values are kept as their integers. Element-wise operations are computed on
 * the floats that the operands stand for. Called by region.c. Invariant: the integers of a result
 * are in the range that its type states. */
#include "lower/quantised.h"

#include <string.h>

#include "lower/arguments.h"
#include "lower/expression.h"

bool hlo_has_quantised(const hlo_lower_t *lower) {
  const hlo_op_t *op = lower->op;
  for (int32_t i = 0; i < op->operand_count; i++)
    if (op->operands[i]->type->quant) return true;
  for (int32_t i = 0; i < op->result_count; i++)
    if (op->results[i]->type->quant) return true;
  return false;
}

/* Returns the scales, or the zeros, in the form that broadcasts to a value of the type. */
static tenon_edge_t parameters(hlo_lower_t *lower, const hlo_type_t *type, bool are_zeros) {
  const hlo_quant_t *quant = type->quant;
  int64_t shape[TENON_RANK_MAX];
  tenon_tensor_t *tensor = NULL;
  const int32_t ndim = quant->axis < 0 ? 0 : type->ndim;
  if (quant->axis >= 0 && (quant->axis >= ndim || type->dims[quant->axis] != quant->count))
    hlo_wrong(lower, "expected a scale for each index of axis %d", (int)quant->axis);
  for (int32_t i = 0; i < ndim; i++)
    shape[i] = i == quant->axis ? quant->count : 1;
  if (hlo_stopped(lower) ||
      hlo_has_failed(lower, tenon_tensor_create(tenon_dtype(TENON_F64), ndim, shape, &tensor)))
    return EDGE_NONE;
  double *values = tensor->data;
  for (int32_t i = 0; i < quant->count; i++)
    values[i] = are_zeros ? (double)quant->zeros[i] : quant->scales[i];
  return hlo_cast(lower, hlo_tensor(lower, tensor), quant->expressed);
}

/* Returns the floats that an operand stands for, or the operand itself if it is not quantised. */
static tenon_edge_t floats_of(hlo_lower_t *lower, int32_t index) {
  const hlo_type_t *type = hlo_operand_type(lower, index);
  tenon_edge_t x = hlo_edge(lower, index);
  if (!type->quant || hlo_stopped(lower)) return x;
  tenon_edge_t scales = parameters(lower, type, false);
  tenon_edge_t zeros = parameters(lower, type, true);
  return hlo_run(lower, EDGES(x, scales, zeros), "mul(sub(cast(a, to=%s), c), b)",
                 tenon_dtype_name(type->quant->expressed));
}

/* Gives floats as the only result, as the integers of its type if that is quantised. */
static void give_floats(hlo_lower_t *lower, tenon_edge_t x) {
  const hlo_type_t *type = hlo_result_type(lower, 0);
  if (type->quant && !hlo_stopped(lower)) {
    tenon_edge_t scales = parameters(lower, type, false);
    tenon_edge_t zeros = parameters(lower, type, true);
    x = hlo_run(lower, EDGES(x, scales, zeros),
                "cast(round(min(max(add(div(a, b), c), %lld:a), %lld:a)), to=%s)",
                (long long)type->quant->least, (long long)type->quant->most,
                tenon_dtype_name(type->dtype));
  }
  hlo_give(lower, 0, x);
}

/* Whether all operands and results have one scale and zero, the same for all of them. */
static bool have_one_scale(const hlo_lower_t *lower) {
  const hlo_op_t *op = lower->op;
  const hlo_quant_t *first = op->results[0]->type->quant;
  for (int32_t i = 0; i < op->operand_count; i++) {
    const hlo_quant_t *quant = op->operands[i]->type->quant;
    if (!first || !quant || first->axis >= 0 || !hlo_quant_equal(first, quant)) return false;
  }
  return true;
}

static bool is_named(const hlo_lower_t *lower, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(names[i], lower->op->name) == 0) return true;
  return false;
}

static void lower_elementwise(hlo_lower_t *lower) {
  tenon_edge_t edges[6];
  const char *text = lower->row->text;
  const int32_t count = lower->op->operand_count;
  if (count > 6 || count != hlo_text_operands(text)) {
    hlo_wrong(lower, "expected %d operands, found %d", (int)hlo_text_operands(text), (int)count);
    return;
  }
  for (int32_t i = 0; i < count; i++)
    edges[i] = floats_of(lower, i);
  if (!hlo_stopped(lower))
    give_floats(lower, hlo_run_text(lower, edges, (size_t)count, text, NULL));
}

void hlo_lower_quantised(hlo_lower_t *lower) {
  static const char *const moves[] = {
      "stablehlo.broadcast_in_dim", "stablehlo.concatenate", "stablehlo.reshape",
      "stablehlo.reverse",          "stablehlo.slice",       "stablehlo.transpose"};
  static const char *const converts[] = {"stablehlo.uniform_dequantize",
                                         "stablehlo.uniform_quantize"};
  const hlo_op_t *op = lower->op;
  const hlo_row_t *row = lower->row;
  const bool is_single = op->operand_count == 1 && op->result_count == 1;
  if (!hlo_has_quantised(lower)) hlo_wrong(lower, "expected a quantised type");
  if (lower->elements) hlo_missing(lower, "quantised types in a region for single elements");
  if (hlo_stopped(lower)) return;
  if (strcmp(op->name, "func.call") == 0 || (is_named(lower, moves, sizeof moves / sizeof *moves) &&
                                             op->result_count == 1 && have_one_scale(lower)))
    row->lower(lower);
  else if (strcmp(op->name, "stablehlo.bitcast_convert") == 0 && is_single)
    hlo_give(lower, 0, hlo_edge(lower, 0));
  else if (is_named(lower, converts, sizeof converts / sizeof *converts) && is_single)
    give_floats(lower, floats_of(lower, 0));
  else if (row->text && row->flags & HLO_ELEMENTWISE && op->result_count == 1)
    lower_elementwise(lower);
  else
    hlo_missing(lower, "quantised types: write it without quantisation");
}
