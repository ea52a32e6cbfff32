/* Lowers operations one after the other: those of regions, and those of functions that are called,
 * each time anew. Called by model.c and by lowerings with regions. Invariant: an operation that
 * fails is named with its line and column. */
#include "lower/region.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "lower/narrow.h"
#include "lower/quantised.h"
#include "lower/scan.h"
#include "lower/table.h"
#include "parse/cursor.h"

/* single operations */

static void mark_missing(hlo_lower_t *lower) {
  for (int32_t i = 0; i < lower->op->result_count; i++)
    lower->frame->bound[lower->op->results[i]->index] = (hlo_bound_t){.edge = EDGE_NONE,
                                                                      .imaginary = EDGE_NONE,
                                                                      .narrow = EDGE_NONE,
                                                                      .is_set = true,
                                                                      .is_missing = true};
}

static bool has_missing_operand(hlo_lower_t *lower) {
  for (int32_t i = 0; i < lower->op->operand_count; i++)
    if (hlo_operand(lower, i)->is_missing) return true;
  return false;
}

static bool has_complex(const hlo_op_t *op) {
  for (int32_t i = 0; i < op->operand_count; i++)
    if (hlo_is_complex(op->operands[i]->type)) return true;
  for (int32_t i = 0; i < op->result_count; i++)
    if (hlo_is_complex(op->results[i]->type)) return true;
  return false;
}

/* In a region for single elements, an operation between equal types without axes changes nothing.
 */
static bool is_identity(const hlo_op_t *op) {
  static const char *const names[] = {"stablehlo.broadcast_in_dim", "stablehlo.reshape",
                                      "stablehlo.transpose"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(op->name, names[i]) == 0)
      return op->operand_count == 1 && op->result_count == 1 && op->results[0]->type->ndim == 0 &&
             hlo_type_equal(op->operands[0]->type, op->results[0]->type);
  return false;
}

static void run_row(hlo_lower_t *lower, const hlo_row_t *row) {
  lower->row = row;
  if (row->refusal)
    hlo_missing(lower, "%s", row->refusal);
  else
    hlo_narrow_check(lower);
  if (hlo_stopped(lower)) return;
  if (hlo_has_quantised(lower)) {
    hlo_lower_quantised(lower);
  } else if (lower->elements && is_identity(lower->op)) {
    hlo_give_bound(lower, 0, *hlo_operand(lower, 0));
  } else if (lower->elements && !(row->flags & HLO_ELEMENTWISE)) {
    hlo_missing(lower, "it stands in a region that is for single elements");
  } else if (row->flags & HLO_BY_PARTS && has_complex(lower->op)) {
    for (lower->part = 0; lower->part < 2 && !hlo_stopped(lower); lower->part++)
      row->lower(lower);
    lower->part = -1;
  } else {
    row->lower(lower);
  }
  hlo_narrow_results(lower);
}

/* Checks that the lowering has set all results. */
static void check_results(hlo_lower_t *lower) {
  for (int32_t i = 0; i < lower->op->result_count && !hlo_stopped(lower); i++)
    if (!lower->frame->bound[lower->op->results[i]->index].is_set)
      hlo_wrong(lower, "result %d does not exist: the operation has fewer results", (int)i);
}

void hlo_lower_one(hlo_lower_t *lower, const hlo_op_t *op) {
  const hlo_op_t *outer_op = lower->op;
  const hlo_row_t *outer_row = lower->row;
  int32_t outer_part = lower->part;
  lower->op = op;
  lower->part = -1;
  for (int32_t i = 0; i < op->result_count; i++)
    lower->frame->bound[op->results[i]->index].is_set = false;
  lower->operation_count += 1 + op->operand_count / 64;
  if (lower->operation_count > HLO_OPERATIONS_MAX)
    hlo_wrong(lower,
              "the program has more than %d operations after its calls are inlined, which "
              "is not supported",
              HLO_OPERATIONS_MAX);
  if (has_missing_operand(lower))
    lower->is_missing = true;
  else if (!hlo_stopped(lower))
    run_row(lower, hlo_row_find(op->name));
  if (lower->scans && !hlo_stopped(lower)) hlo_scan_tag(lower);
  check_results(lower);
  if (lower->status != TENON_OK) {
    char place[80];
    hlo_module_place(lower->module, op->at, place, sizeof place);
    /* The message of an inner operation already has a place. */
    if (strncmp(tenon_error(), "line ", 5) != 0 && strncmp(tenon_error(), "byte ", 5) != 0)
      lower->status = tn_prefix(lower->status, "%s: %.80s: ", place, op->name);
  } else if (lower->is_missing) {
    mark_missing(lower);
    lower->is_missing = false;
  }
  lower->op = outer_op;
  lower->row = outer_row;
  lower->part = outer_part;
}

/* regions */

const hlo_region_t *hlo_region(hlo_lower_t *lower, int32_t index) {
  if (index < lower->op->region_count && lower->op->regions[index].last)
    return &lower->op->regions[index];
  hlo_wrong(lower, "expected a region number %d with a return", (int)index);
  return NULL;
}

static bool is_return(const hlo_op_t *op) {
  return strcmp(op->name, "stablehlo.return") == 0 || strcmp(op->name, "func.return") == 0;
}

/* Marks the values that a missing operation leaves without a value. */
static void lower_operations(hlo_lower_t *lower, const hlo_region_t *region, hlo_bound_t *out,
                             int32_t count) {
  for (const hlo_op_t *op = region->first; op != region->last && lower->status == TENON_OK;
       op = op->next)
    hlo_lower_one(lower, op);
  if (!is_return(region->last) || region->last->operand_count != count) {
    hlo_wrong(lower, "expected a region that ends with a return of %d values", (int)count);
    return;
  }
  for (int32_t i = 0; i < count && lower->status == TENON_OK; i++) {
    out[i] = *hlo_bound_of(lower, region->last->operands[i]);
    if (out[i].is_missing) lower->is_missing = true;
  }
}

bool hlo_inline_region(hlo_lower_t *lower, const hlo_region_t *region, const hlo_bound_t *args,
                       int32_t arg_count, hlo_bound_t *out, int32_t count) {
  if (!region || hlo_stopped(lower)) return false;
  if (region->arg_count != arg_count) {
    hlo_wrong(lower, "expected a region with %d arguments, found %d", (int)arg_count,
              (int)region->arg_count);
    return false;
  }
  for (int32_t i = 0; i < arg_count; i++) {
    lower->frame->bound[region->args[i]->index] = args[i];
    lower->frame->bound[region->args[i]->index].is_set = true;
  }
  lower_operations(lower, region, out, count);
  return !hlo_stopped(lower);
}

bool hlo_inline_elements(hlo_lower_t *lower, const hlo_region_t *region, const tenon_edge_t *args,
                         int32_t arg_count, tenon_edge_t *out, int32_t count) {
  hlo_bound_t *given = hlo_lower_take(lower, (size_t)arg_count, sizeof *given);
  hlo_bound_t *results = hlo_lower_take(lower, (size_t)count, sizeof *results);
  if (!given || !results) return false;
  for (int32_t i = 0; i < arg_count; i++)
    given[i] = hlo_real(args[i]);
  lower->elements++;
  bool is_done = hlo_inline_region(lower, region, given, arg_count, results, count);
  lower->elements--;
  for (int32_t i = 0; i < count; i++) {
    out[i] = is_done ? results[i].edge : EDGE_NONE;
    if (is_done && results[i].imaginary != EDGE_NONE)
      hlo_missing(lower, "complex numbers in its region");
  }
  return is_done && !hlo_stopped(lower);
}

/* functions */

const hlo_function_t *hlo_function_find(const hlo_module_t *module, const char *name) {
  for (const hlo_function_t *function = module->functions; function; function = function->next)
    if (strcmp(function->name, name) == 0) return function;
  return NULL;
}

bool hlo_inline_body(hlo_lower_t *lower, const hlo_function_t *function, const hlo_bound_t *args,
                     int32_t arg_count, hlo_bound_t *out, int32_t count) {
  hlo_frame_t frame = {.outer = lower->frame,
                       .function = function,
                       .level = lower->frame ? lower->frame->level + 1 : 0};
  if (hlo_stopped(lower)) return false;
  if (frame.level > HLO_CALLS_MAX)
    hlo_wrong(lower, "more than %d levels of calls; recursion is not supported", HLO_CALLS_MAX);
  lower->bound_count += function->value_count;
  if (lower->bound_count > HLO_BOUND_MAX)
    hlo_wrong(lower,
              "the program has more than %d values after its calls are inlined, which is not "
              "supported",
              HLO_BOUND_MAX);
  if (hlo_stopped(lower)) return false;
  /* Not from the arena: a function may be called many times. */
  frame.bound = calloc((size_t)function->value_count + 1, sizeof *frame.bound);
  if (!frame.bound) {
    lower->status = tn_no_memory("the values of a function", 0);
    return false;
  }
  lower->frame = &frame;
  bool is_done = hlo_inline_region(lower, &function->body, args, arg_count, out, count);
  lower->frame = frame.outer;
  free(frame.bound);
  return is_done;
}

/* Gives the results of a function that the current operation calls with its operands. */
static void call_function(hlo_lower_t *lower, const hlo_function_t *function, hlo_bound_t *args,
                          hlo_bound_t *out) {
  const hlo_op_t *op = lower->op;
  for (int32_t i = 0; i < op->operand_count && !hlo_stopped(lower); i++) {
    args[i] = *hlo_operand(lower, i);
    if (i < function->body.arg_count && !lower->elements &&
        !hlo_type_equal(op->operands[i]->type, function->body.args[i]->type))
      hlo_wrong(lower, "operand %d has another type than the function @%.80s states", (int)i,
                function->name);
  }
  if (!hlo_inline_body(lower, function, args, op->operand_count, out, op->result_count)) return;
  for (int32_t i = 0; i < op->result_count; i++)
    hlo_give_bound(lower, i, out[i]);
}

void hlo_inline_function(hlo_lower_t *lower, const char *name) {
  const hlo_function_t *function = hlo_function_find(lower->module, name);
  size_t args = (size_t)lower->op->operand_count;
  size_t all = args + (size_t)lower->op->result_count;
  if (!function) {
    hlo_wrong(lower, "the function @%.80s does not exist in the program", name);
    return;
  }
  hlo_bound_t *room = calloc(all + 1, sizeof *room);
  if (room)
    call_function(lower, function, room, room + args);
  else
    lower->status = tn_no_memory("the operands of a function", 0);
  free(room);
}
