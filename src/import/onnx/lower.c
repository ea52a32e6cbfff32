/* What lowerings build with: failures, calls of core operators, constants, and what is known of a
 * value. Called by the functions of lower_*.c, lowering.c, attribute.c, custom.c and node.c.
 * Invariant: every call goes through tn_lower_call, which tracks dtypes and results of unsupported
 * operators. */
#include "import/onnx/lower.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "core/convert.h"
#include "core/dtype.h"
#include "graph/graph.h"
#include "operator/names.h"

/* Failures */

void tn_lower_fail(tn_lower_t *lower, const char *format, ...) {
  va_list arguments;
  if (lower->status != TENON_OK || lower->is_missing) return;
  va_start(arguments, format);
  lower->status = tn_fail_list(TENON_INVALID, format, arguments);
  va_end(arguments);
}

bool tn_lower_has_failed(tn_lower_t *lower, tenon_status_t status) {
  if (lower->status == TENON_OK) lower->status = status;
  return lower->status != TENON_OK;
}

/* Each reason is kept once for all nodes of one operator, since a file may have any number of them.
 */
static void add_missing(tn_lower_t *lower, const char *reason, bool is_unloaded) {
  tn_import_t *import = lower->import;
  tn_missing_t **place = &import->missing;
  lower->is_missing = true;
  for (; *place; place = &(*place)->next)
    if (strcmp((*place)->type, lower->node->type) == 0 &&
        strcmp((*place)->domain, lower->node->domain) == 0 && (*place)->version == lower->version &&
        strcmp((*place)->reason, reason) == 0) {
      (*place)->count++;
      return;
    }
  tn_missing_t *missing = tn_arena_allocate(&import->arena, sizeof *missing);
  const char *text = tn_arena_text(&import->arena, reason, strlen(reason));
  if (!missing || !text) {
    (void)tn_lower_has_failed(lower, tn_no_memory("a message", sizeof *missing));
    return;
  }
  *missing = (tn_missing_t){.type = lower->node->type,
                            .domain = lower->node->domain,
                            .node = lower->name,
                            .reason = text,
                            .is_unloaded = is_unloaded,
                            .version = lower->version,
                            .count = 1};
  *place = missing;
}

void tn_lower_missing(tn_lower_t *lower, const char *format, ...) {
  char reason[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  add_missing(lower, reason, false);
}

void tn_lower_unloaded(tn_lower_t *lower, const char *op) { add_missing(lower, op, true); }

/* Calls */

const tenon_op_t *tn_lower_op(tn_lower_t *lower, const char *name) {
  if (lower->is_missing || lower->status != TENON_OK) return NULL;
  const tenon_op_t *op = tn_registry_find(name);
  if (!op) tn_lower_missing(lower, "it is lowered to %s, which this build does not have", name);
  return op;
}

static tenon_dtype_t operand_dtype(const tn_operand_t *operand) {
  for (int32_t i = 0; i < operand->count; i++)
    if (operand->edges[i]->dtype.bits) return operand->edges[i]->dtype;
  return (tenon_dtype_t){0, 0, 0};
}

/* The dtype of a result as far as the operator's type declaration tells it; inference finds the
 * others later. */
static tenon_dtype_t result_dtype(const tenon_op_t *op, uint32_t result,
                                  const tenon_value_t *values, const tn_operand_t *operands,
                                  int32_t operand_count) {
  const tn_type_source_t *source = &op->types.outputs[result];
  tenon_dtype_t dtype = {0, 0, 0};
  if (source->kind == TN_TYPE_FIXED) return source->fixed;
  if (source->kind == TN_TYPE_ATTR && values[source->index].kind == TENON_KIND_DTYPE)
    return values[source->index].as.dtype;
  for (int32_t i = 0; source->kind == TN_TYPE_VARIABLE && i < operand_count && !dtype.bits; i++)
    if (op->types.inputs[i].kind == TN_TYPE_VARIABLE && op->types.inputs[i].index == source->index)
      dtype = operand_dtype(&operands[i]);
  for (uint32_t i = 0; source->kind == TN_TYPE_OPEN && i < op->schema.attr_count && !dtype.bits;
       i++) {
    if (values[i].kind == TENON_KIND_DTYPE) dtype = values[i].as.dtype;
    if (values[i].kind == TENON_KIND_TENSOR && values[i].as.tensor)
      dtype = values[i].as.tensor->dtype;
  }
  return dtype;
}

static int32_t result_count(const tn_lower_t *lower, const tenon_op_t *op, uint32_t result,
                            const tenon_value_t *values) {
  const tn_argument_t *argument = &op->schema.outputs[result];
  if (argument->kind != TENON_KIND_TENSORS) return 1;
  if (argument->count >= 0) return argument->count;
  int64_t count = argument->count_attr >= 0 ? values[argument->count_attr].as.i : lower->rest;
  return count < 0 || count > 1 << 20 ? -1 : (int32_t)count;
}

/* Finds the ids of all operands in the builder. False if an operand comes from an unsupported
 * operator, or after a failure. */
static bool operand_ids(tn_lower_t *lower, const tenon_op_t *op, const tn_operand_t *operands,
                        int32_t operand_count, tenon_operand_t *out_operands) {
  for (int32_t i = 0; i < operand_count; i++) {
    tenon_edge_t *ids =
        tn_arena_array(&lower->import->arena, (size_t)operands[i].count + 1, sizeof *ids);
    if (!ids) return !tn_lower_has_failed(lower, tn_no_memory("a node", 0));
    if (operands[i].count > 1 && op->schema.inputs[i].kind != TENON_KIND_TENSORS) {
      tn_lower_fail(lower, "%s takes one tensor as `%s`, found %d", op->name,
                    op->schema.inputs[i].name, (int)operands[i].count);
      return false;
    }
    for (int32_t j = 0; j < operands[i].count; j++) {
      tn_ref_t *edge = operands[i].edges[j];
      if (edge->kind != TN_REF_TENSOR && op->types.inputs[i].kind != TN_TYPE_OPEN)
        tn_lower_fail(lower, "'%.200s' is %s, but %s takes tensors", edge->name,
                      edge->kind == TN_REF_SEQUENCE ? "a sequence" : "an optional value", op->name);
      if (lower->status != TENON_OK) return false;
      if (tn_lower_has_failed(lower, tn_ref_join(lower->import, lower->scope->site, edge, &edge)) ||
          edge->is_missing)
        return false;
      ids[j] = edge->id;
    }
    out_operands[i] = (tenon_operand_t){operands[i].count, ids};
  }
  return true;
}

static tn_ref_t *result_ref(tn_lower_t *lower, tenon_edge_t id, bool is_whole,
                            tenon_dtype_t dtype) {
  tn_ref_t *edge = tn_ref_new(lower->import, lower->scope->site, lower->name);
  if (edge) {
    edge->is_missing = !is_whole;
    edge->id = is_whole ? id : -1;
    edge->dtype = dtype;
  } else
    (void)tn_lower_has_failed(lower, TENON_MEMORY);
  return edge;
}

tn_ref_t **tn_lower_call(tn_lower_t *lower, const tenon_op_t *op, tenon_attrs_t *attrs,
                         const tn_operand_t *operands, int32_t operand_count, int32_t *out_count) {
  tn_arena_t *arena = &lower->import->arena;
  const tenon_value_t *values = NULL;
  int32_t total = 0;
  *out_count = 0;
  if (lower->is_missing || lower->status != TENON_OK ||
      tn_lower_has_failed(lower, tenon_attrs_values(attrs, &values)))
    return NULL;
  if (operand_count > (int32_t)op->schema.input_count) {
    tn_lower_fail(lower, "%s takes %u inputs, found %d", op->name, op->schema.input_count,
                  (int)operand_count);
    return NULL;
  }
  for (uint32_t i = 0; i < op->schema.output_count; i++) {
    int32_t count = result_count(lower, op, i, values);
    if (count < 0) tn_lower_fail(lower, "the number of results of %s is not known", op->name);
    total += count;
  }
  /* Written inputs that the operator does not return are values of the node, too. */
  int32_t written = 0;
  while (tn_op_written(op, written) >= 0)
    written++;
  total += written;
  tenon_operand_t *ids = tn_arena_array(arena, op->schema.input_count + 1, sizeof *ids);
  tenon_edge_t *results = tn_arena_array(arena, (size_t)total + 1, sizeof *results);
  tn_ref_t **edges = tn_arena_array(arena, (size_t)total + 1, sizeof *edges);
  if (!ids || !results || !edges) (void)tn_lower_has_failed(lower, tn_no_memory("a node", 0));
  if (lower->status != TENON_OK) return NULL;
  bool is_whole = operand_ids(lower, op, operands, operand_count, ids);
  if (lower->status != TENON_OK) return NULL;
  if (is_whole &&
      tn_lower_has_failed(lower, tenon_builder_node(lower->scope->site->builder, lower->name, op,
                                                    values, ids, results, total)))
    return NULL;
  int32_t at = 0;
  for (uint32_t i = 0; i < op->schema.output_count; i++)
    for (int32_t j = 0, n = result_count(lower, op, i, values); j < n; j++, at++)
      edges[at] = result_ref(lower, results[at], is_whole,
                             result_dtype(op, i, values, operands, operand_count));
  for (int32_t k = 0; k < written; k++, at++) {
    int32_t input = tn_op_written(op, k);
    tenon_dtype_t dtype =
        input < operand_count ? operand_dtype(&operands[input]) : (tenon_dtype_t){0, 0, 0};
    edges[at] = result_ref(lower, results[at], is_whole, dtype);
  }
  *out_count = at;
  return lower->status == TENON_OK ? edges : NULL;
}

/* Constants */

tn_ref_t *tn_lower_tensor(tn_lower_t *lower, tenon_tensor_t *tensor) {
  tn_ref_t *edge = NULL;
  (void)tn_lower_has_failed(
      lower, tn_ref_constant(lower->import, lower->scope->site, lower->name, tensor, &edge));
  return edge;
}

tn_ref_t *tn_lower_ints(tn_lower_t *lower, const int64_t *values, size_t count) {
  tenon_tensor_t *tensor;
  int64_t extent = (int64_t)count;
  if (lower->status != TENON_OK ||
      tn_lower_has_failed(lower, tenon_tensor_create(tenon_dtype(TENON_I64), 1, &extent, &tensor)))
    return NULL;
  if (count) memcpy(tensor->data, values, count * sizeof *values);
  return tn_lower_tensor(lower, tensor);
}

/* The bits of an integer with this value. Values out of range become the nearest integer and NaN
 * becomes 0; negative numbers wrap if the dtype is unsigned. */
static uint64_t integer_of(tenon_dtype_t dtype, double value) {
  const int digits = dtype.bits - (dtype.code == 0); /* code 0: signed */
  const double end = ldexp(1, digits);
  const double least = dtype.code == 0 ? -end : -0x1p63;
  if (value >= end) return UINT64_MAX >> (64 - digits);
  if (value <= least) return dtype.code == 0 ? (uint64_t)1 << digits : (uint64_t)INT64_MIN;
  if (value < 0) return (uint64_t)(int64_t)value;
  return value > 0 ? (uint64_t)value : 0;
}

tn_ref_t *tn_lower_scalar(tn_lower_t *lower, tenon_dtype_t dtype, double value) {
  tenon_tensor_t *tensor;
  uint64_t number = 0;
  float narrow = (float)value;
  if (lower->status != TENON_OK) return NULL;
  if (dtype.bits % 8 || dtype.bits > 64 || dtype.code > 14 || tenon_dtype_id(dtype) == TENON_C64) {
    tn_lower_fail(lower, "constants of type %s are not supported", tn_dtype_name(dtype));
    return NULL;
  }
  if (tn_lower_has_failed(lower, tenon_tensor_create(dtype, 0, NULL, &tensor))) return NULL;
  if (tenon_dtype_id(dtype) == TENON_BOOL)
    number = value != 0;
  else if (dtype.code <= 1)
    number = integer_of(dtype, value);
  if (dtype.code <= 1 || dtype.code == 6)
    memcpy(tensor->data, &number, dtype.bits / 8u);
  else if (tenon_dtype_id(dtype) == TENON_F64)
    memcpy(tensor->data, &value, sizeof value);
  else if (tenon_dtype_id(dtype) == TENON_F32)
    memcpy(tensor->data, &narrow, sizeof narrow);
  else
    tn_convert(&narrow, tenon_dtype(TENON_F32), tensor->data, dtype, 1);
  return tn_lower_tensor(lower, tensor);
}

bool tn_lower_known(tn_lower_t *lower, tn_ref_t *edge, int64_t *out_values, int32_t capacity,
                    int32_t *out_count) {
  const tenon_tensor_t *tensor = NULL;
  if (!edge || edge->is_missing || lower->status != TENON_OK ||
      tn_lower_has_failed(lower, tn_ref_value(lower->import, edge, &tensor)) || !tensor)
    return false;
  int64_t count = tenon_count(tensor);
  if (count > capacity) return false;
  for (int64_t i = 0; i < count; i++) {
    switch (tenon_dtype_id(tensor->dtype)) {
    case TENON_I64:
      out_values[i] = ((const int64_t *)tensor->data)[i];
      break;
    case TENON_I32:
      out_values[i] = ((const int32_t *)tensor->data)[i];
      break;
    case TENON_BOOL:
      out_values[i] = ((const uint8_t *)tensor->data)[i];
      break;
    default:
      return false;
    }
  }
  *out_count = (int32_t)count;
  return true;
}

const tenon_tensor_t *tn_lower_constant(tn_lower_t *lower, tn_ref_t *edge, const char *name) {
  const tenon_tensor_t *tensor = NULL;
  if (lower->status != TENON_OK || !edge || edge->is_missing ||
      tn_lower_has_failed(lower, tn_ref_value(lower->import, edge, &tensor)))
    return NULL;
  if (!tensor) tn_lower_missing(lower, "input `%s` is not a constant", name);
  return tensor;
}

/* Fills in the element type, the rank and the extents of a value that the file does not state, as
 * far as inference finds them. */
static void infer_type(tn_lower_t *lower, tn_ref_t *edge) {
  tenon_port_t port = {.size = sizeof port};
  tenon_builder_t *builder = edge->site->builder;
  if ((edge->ndim >= 0 && edge->dtype.bits) || edge->id < 0 || edge->items) return;
  if (tn_lower_has_failed(lower, tn_builder_infer(builder)) ||
      tn_lower_has_failed(lower, tenon_builder_value(builder, edge->id, &port)))
    return;
  if (!edge->dtype.bits) edge->dtype = port.dtype;
  if (edge->ndim >= 0 || port.ndim < 0) return;
  int64_t *extents = tn_arena_array(&lower->import->arena, (size_t)port.ndim + 1, sizeof *extents);
  if (!extents) {
    (void)tn_lower_has_failed(lower, tn_no_memory("a shape", (size_t)port.ndim));
    return;
  }
  for (int32_t i = 0; i < port.ndim; i++)
    extents[i] = port.axes[i].extent;
  edge->ndim = port.ndim;
  edge->extents = extents;
}

int32_t tn_lower_rank(tn_lower_t *lower, tn_ref_t *edge) {
  if (lower->status != TENON_OK || !edge || edge->is_missing) return 0;
  infer_type(lower, edge);
  if (lower->status != TENON_OK) return 0;
  if (edge->ndim < 0)
    tn_lower_fail(lower,
                  "the rank of '%.200s' must be known to import this operator: add value_info to "
                  "the model, for example with ONNX shape inference",
                  edge->name);
  return edge->ndim;
}

int64_t tn_lower_find_extent(tn_lower_t *lower, tn_ref_t *edge, int32_t axis) {
  int32_t rank = tn_lower_rank(lower, edge);
  if (lower->status != TENON_OK || !edge || edge->is_missing) return 1;
  if (axis < -rank || axis >= rank) {
    tn_lower_fail(lower, "'%.200s' has %d axes, so it has no axis %d", edge->name, (int)rank,
                  (int)axis);
    return 1;
  }
  if (axis < 0) axis += rank;
  return edge->extents ? edge->extents[axis] : -1;
}

int64_t tn_lower_extent(tn_lower_t *lower, tn_ref_t *edge, int32_t axis) {
  int64_t extent = tn_lower_find_extent(lower, edge, axis);
  if (lower->status != TENON_OK || !edge || edge->is_missing) return 1;
  if (extent >= 0) return extent;
  tn_lower_fail(lower,
                "extent %d of '%.200s' must be known to import this operator: add value_info to "
                "the model, for example with ONNX shape inference",
                (int)axis, edge->name);
  return 1;
}

tenon_dtype_t tn_lower_dtype(tn_lower_t *lower, tn_ref_t *edge) {
  if (lower->status != TENON_OK || !edge || edge->is_missing) return tenon_dtype(TENON_F32);
  infer_type(lower, edge);
  if (lower->status != TENON_OK) return tenon_dtype(TENON_F32);
  if (!edge->dtype.bits)
    tn_lower_fail(lower,
                  "the element type of '%.200s' must be known to import this operator: add "
                  "value_info to the model, for example with ONNX shape inference",
                  edge->name);
  return edge->dtype;
}
