/* Finds rows that loops write. Called by lower_control.c, lower_index.c and region.c. Invariant: a
 * tag of a value holds in every iteration, and a stacked state has no edge, so that any other use
 * of it fails and the loop is lowered again without stacking it. */
#include "lower/scan.h"

#include <string.h>

#include "lower/arguments.h"

/* the loop */

/* Returns the index of a state whose argument a value is; -1: it is none. */
static int32_t state_with_argument(const hlo_region_t *region, const hlo_value_t *value) {
  for (int32_t i = 0; i < region->arg_count; i++)
    if (region->args[i] == value) return i;
  return -1;
}

/* Reads a constant integer that an operation of the region defines. */
static bool constant_of(const hlo_value_t *value, int64_t *out) {
  const hlo_attr_t *attr = value->op ? hlo_attr_find(&value->op->attrs, "value") : NULL;
  int32_t small;
  if (!attr || attr->kind != HLO_ATTR_TENSOR || value->type->ndim || attr->tensor->dtype.code != 0)
    return false;
  if (attr->tensor->dtype.bits == 64) {
    memcpy(out, attr->tensor->data, sizeof *out);
    return true;
  }
  if (attr->tensor->dtype.bits != 32) return false;
  memcpy(&small, attr->tensor->data, sizeof small);
  *out = small;
  return true;
}

static const hlo_op_t *op_named(const hlo_value_t *value, const char *name) {
  bool fits = value->op && strcmp(value->op->name, name) == 0 && value->op->operand_count == 2;
  return fits ? value->op : NULL;
}

/* Reads `counter < trips` from the condition and `counter + 1` from the step. */
static bool find_counter(hlo_lower_t *lower, hlo_scan_t *scan) {
  const hlo_region_t *condition = &lower->op->regions[0];
  const hlo_region_t *step = &lower->op->regions[1];
  int64_t begin[HLO_INTS_MAX];
  int64_t one = 0;
  if (hlo_stopped(lower) || condition->last->operand_count != 1) return false;
  const hlo_op_t *compare = op_named(condition->last->operands[0], "stablehlo.compare");
  if (!compare) return false;
  const hlo_attr_t *direction = hlo_attr_find(&compare->attrs, "word0");
  if (!direction) direction = hlo_attr_find(&compare->attrs, "comparison_direction");
  if (!direction || !direction->text || strcmp(direction->text, "LT") != 0) return false;
  scan->counter = state_with_argument(condition, compare->operands[0]);
  if (scan->counter < 0 || !constant_of(compare->operands[1], &scan->trips)) return false;
  const hlo_op_t *add = op_named(step->last->operands[scan->counter], "stablehlo.add");
  if (!add || state_with_argument(step, add->operands[0]) != scan->counter) return false;
  if (!constant_of(add->operands[1], &one) || one != 1 || scan->trips < 1) return false;
  return hlo_known(lower, scan->counter, begin) == 1 && begin[0] == 0;
}

bool hlo_scan_find(hlo_lower_t *lower, hlo_scan_t *scan) {
  int32_t count = lower->op->operand_count;
  bool has_any = false;
  *scan = (hlo_scan_t){.writes = hlo_lower_take(lower, (size_t)count, sizeof *scan->writes)};
  if (!scan->writes || lower->elements || !find_counter(lower, scan)) return false;
  for (int32_t i = 0; i < count; i++) {
    const hlo_type_t *type = hlo_operand_type(lower, i);
    const hlo_region_t *step = &lower->op->regions[1];
    bool is_fixed = step->last->operands[i] == step->args[i];
    scan->writes[i] = (hlo_row_write_t){.update = EDGE_NONE};
    scan->writes[i].is_stacked = !is_fixed && hlo_type_is_static(type) && !hlo_is_complex(type) &&
                                 type->ndim > 0 && type->ndim < TENON_RANK_MAX &&
                                 type->dims[0] == scan->trips;
    has_any |= scan->writes[i].is_stacked;
  }
  return has_any;
}

hlo_bound_t hlo_scan_state(const hlo_scan_t *scan, int32_t index, hlo_bound_t bound) {
  if (index == scan->counter) {
    bound.scan = scan;
    bound.slope = 1;
    bound.offset = 0;
  } else if (scan->writes[index].is_stacked) {
    bound = hlo_real(EDGE_NONE);
    bound.scan = scan;
    bound.stacked = index + 1;
  }
  return bound;
}

/* tags */

typedef struct linear_t { /* slope * counter + offset */
  const hlo_scan_t *scan;
  int64_t slope;
  int64_t offset;
} linear_t;

/* Reads an operand as a linear function; constants have slope 0. Numbers are small, so that sums
 * stay within 32 bits. */
static bool read_linear(hlo_lower_t *lower, int32_t index, linear_t *out) {
  const hlo_bound_t *bound = hlo_operand(lower, index);
  int64_t numbers[HLO_INTS_MAX];
  *out = (linear_t){bound->scan, bound->slope, bound->offset};
  if (bound->scan && !bound->stacked) return true;
  *out = (linear_t){NULL, 0, 0};
  if (!bound->constant || hlo_operand_type(lower, index)->ndim) return false;
  if (hlo_operand_type(lower, index)->dtype.code != 0) return false;
  if (hlo_known(lower, index, numbers) != 1) return false;
  out->offset = numbers[0];
  return out->offset > -(1 << 28) && out->offset < 1 << 28;
}

static void tag_sum(hlo_lower_t *lower, hlo_bound_t *result, int sign) {
  linear_t a, b;
  if (!read_linear(lower, 0, &a) || !read_linear(lower, 1, &b)) return;
  if (a.scan && b.scan && a.scan != b.scan) return;
  int64_t slope = a.slope + sign * b.slope;
  int64_t offset = a.offset + sign * b.offset;
  bool is_small = slope >= -1 && slope <= 1 && offset > -(1 << 28) && offset < 1 << 28;
  if (!is_small || (!a.scan && !b.scan)) return;
  result->scan = a.scan ? a.scan : b.scan;
  result->slope = slope;
  result->offset = offset;
}

/* Finds whether `linear < 0` holds in all iterations or in none. */
static void tag_comparison(hlo_lower_t *lower, hlo_bound_t *result) {
  linear_t a, b;
  const char *direction = hlo_attr_word(lower, "word0", "comparison_direction", "");
  if (strcmp(direction, "LT") != 0 || !read_linear(lower, 0, &a) || !read_linear(lower, 1, &b))
    return;
  if (!a.scan || b.scan || b.offset != 0 || a.scan->trips > 1 << 28) return;
  int64_t first = a.offset;
  int64_t last = a.offset + a.slope * (a.scan->trips - 1);
  if (first >= 0 && last >= 0) result->truth = -1;
  if (first < 0 && last < 0) result->truth = 1;
}

void hlo_scan_tag(hlo_lower_t *lower) {
  const hlo_op_t *op = lower->op;
  if (op->result_count != 1 || op->results[0]->type->kind != HLO_TENSOR) return;
  hlo_bound_t *result = &lower->frame->bound[op->results[0]->index];
  if (strcmp(op->name, "stablehlo.select") == 0 && hlo_operand(lower, 0)->truth) {
    *result = *hlo_operand(lower, hlo_operand(lower, 0)->truth > 0 ? 1 : 2);
    return;
  }
  if (op->results[0]->type->ndim) return;
  if (strcmp(op->name, "stablehlo.add") == 0) tag_sum(lower, result, 1);
  if (strcmp(op->name, "stablehlo.subtract") == 0) tag_sum(lower, result, -1);
  if (strcmp(op->name, "stablehlo.compare") == 0) tag_comparison(lower, result);
  if (strcmp(op->name, "stablehlo.convert") == 0 && op->results[0]->type->dtype.code == 0 &&
      op->results[0]->type->dtype.bits >= 32) {
    const hlo_bound_t *operand = hlo_operand(lower, 0);
    if (!operand->scan || operand->stacked) return;
    result->scan = operand->scan;
    result->slope = operand->slope;
    result->offset = operand->offset;
  }
}

/* rows */

bool hlo_scan_write(hlo_lower_t *lower) {
  const hlo_bound_t operand = *hlo_operand(lower, 0);
  const hlo_type_t *type = hlo_operand_type(lower, 0);
  const hlo_type_t *part = hlo_operand_type(lower, 1);
  linear_t row;
  if (!operand.stacked || hlo_stopped(lower)) return false;
  hlo_row_write_t *write = &operand.scan->writes[operand.stacked - 1];
  bool fits = lower->builder == operand.scan->builder && write->update == EDGE_NONE &&
              part->ndim == type->ndim && part->dims[0] == 1 && read_linear(lower, 2, &row) &&
              row.scan == operand.scan;
  for (int32_t i = 1; i < type->ndim && fits; i++)
    fits = part->dims[i] == type->dims[i];
  bool is_forward = fits && row.slope == 1 && row.offset == 0;
  bool is_backward = fits && row.slope == -1 && row.offset == operand.scan->trips - 1;
  if (!is_forward && !is_backward) {
    write->is_bad = true;
    hlo_wrong(lower, "the rows of a loop are not written in order");
    return true;
  }
  write->is_reversed = is_backward;
  write->update = hlo_edge(lower, 1);
  hlo_give_bound(lower, 0, operand);
  return true;
}

bool hlo_scan_is_written(const hlo_scan_t *scan, int32_t index, const hlo_bound_t *result) {
  return result->stacked == index + 1 && result->scan == scan &&
         scan->writes[index].update != EDGE_NONE;
}
