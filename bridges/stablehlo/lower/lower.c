/* What lowerings build with: failures, values, calls of operators, constants, and what is known of
 * a value. Called by all other files of lower/. Invariant: each result that is set has the type
 * that the program states for it. */
#include "lower/lower.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "common/constant.h"
#include "lower/scan.h"
#include "parse/cursor.h"

/* failures */

bool hlo_stopped(const hlo_lower_t *lower) {
  return lower->status != TENON_OK || lower->is_missing;
}

bool hlo_has_failed(hlo_lower_t *lower, tenon_status_t status) {
  if (lower->status == TENON_OK) lower->status = status;
  return lower->status != TENON_OK;
}

void hlo_wrong(hlo_lower_t *lower, const char *format, ...) {
  va_list arguments;
  if (hlo_stopped(lower)) return;
  va_start(arguments, format);
  lower->status = tn_fail_list(TENON_INVALID, format, arguments);
  va_end(arguments);
}

void hlo_missing(hlo_lower_t *lower, const char *format, ...) {
  char reason[300];
  hlo_missing_t **link = &lower->missing;
  va_list arguments;
  if (hlo_stopped(lower)) return;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  lower->is_missing = true;
  while (*link &&
         (strcmp((*link)->name, lower->op->name) != 0 || strcmp((*link)->reason, reason) != 0))
    link = &(*link)->next;
  if (!*link && lower->missing_count < HLO_MISSING_MAX) {
    *link = tn_arena_array(lower->arena, 1, sizeof **link);
    const char *text = tn_arena_text(lower->arena, reason, strlen(reason));
    if (!*link || !text) {
      *link = NULL;
      lower->status = tn_no_memory("a message", 0);
      return;
    }
    **link = (hlo_missing_t){.name = lower->op->name, .reason = text, .at = lower->op->at};
    lower->missing_count++;
  }
  if (*link) (*link)->count++;
}

void *hlo_lower_take(hlo_lower_t *lower, size_t count, size_t size) {
  void *room = tn_arena_array(lower->arena, count ? count : 1, size);
  if (!room && lower->status == TENON_OK) lower->status = tn_no_memory("a program", 0);
  return room;
}

/* values */

hlo_bound_t hlo_real(tenon_edge_t edge) {
  return (hlo_bound_t){.edge = edge, .imaginary = EDGE_NONE, .narrow = EDGE_NONE, .is_set = true};
}

hlo_bound_t hlo_complex(tenon_edge_t real, tenon_edge_t imaginary) {
  return (hlo_bound_t){.edge = real, .imaginary = imaginary, .narrow = EDGE_NONE, .is_set = true};
}

bool hlo_is_complex(const hlo_type_t *type) {
  return type->kind == HLO_TENSOR && type->dtype.code == 5;
}

bool hlo_is_float(tenon_dtype_t dtype) { return dtype.code == 2 || dtype.code == 4; }
bool hlo_is_bool(tenon_dtype_t dtype) { return dtype.code == 6; }

tenon_dtype_t hlo_part_dtype(tenon_dtype_t dtype) {
  if (dtype.code != 5) return dtype;
  return tenon_dtype(dtype.bits == 128 ? TENON_F64 : TENON_F32);
}

hlo_bound_t *hlo_bound_of(hlo_lower_t *lower, const hlo_value_t *value) {
  static hlo_bound_t none = {.edge = EDGE_NONE, .imaginary = EDGE_NONE, .narrow = EDGE_NONE};
  hlo_bound_t *bound = &lower->frame->bound[value->index];
  if (bound->is_set) return bound;
  hlo_wrong(lower, "%%%.60s has no value here", value->name);
  return &none;
}

hlo_bound_t *hlo_operand(hlo_lower_t *lower, int32_t index) {
  static hlo_bound_t none = {.edge = EDGE_NONE, .imaginary = EDGE_NONE, .narrow = EDGE_NONE};
  if (index >= lower->op->operand_count) {
    hlo_wrong(lower, "operand %d is missing", (int)index);
    return &none;
  }
  return hlo_bound_of(lower, lower->op->operands[index]);
}

tenon_edge_t hlo_edge(hlo_lower_t *lower, int32_t index) {
  const hlo_bound_t *bound = hlo_operand(lower, index);
  if (bound->imaginary != EDGE_NONE && lower->part < 0)
    hlo_missing(lower, "operands that are complex");
  if (bound->imaginary != EDGE_NONE && lower->part == 1) return bound->imaginary;
  if (bound->stacked) bound->scan->writes[bound->stacked - 1].is_bad = true;
  if (bound->edge == EDGE_NONE) hlo_wrong(lower, "operand %d is not a tensor", (int)index);
  return bound->edge;
}

const hlo_type_t *hlo_operand_type(hlo_lower_t *lower, int32_t index) {
  static const hlo_type_t none = {.kind = HLO_OTHER};
  if (index < lower->op->operand_count) return lower->op->operands[index]->type;
  hlo_wrong(lower, "operand %d is missing", (int)index);
  return &none;
}

const hlo_type_t *hlo_result_type(hlo_lower_t *lower, int32_t index) {
  static const hlo_type_t none = {.kind = HLO_OTHER};
  if (index < lower->op->result_count) return lower->op->results[index]->type;
  hlo_wrong(lower, "result %d is missing", (int)index);
  return &none;
}

/* properties of values */

static bool read_port(hlo_lower_t *lower, tenon_edge_t edge, tenon_port_t *out) {
  *out = (tenon_port_t){.size = sizeof *out, .ndim = -1};
  if (!hlo_stopped(lower) && edge < 0) hlo_wrong(lower, "an operand is not a tensor");
  return !hlo_stopped(lower) &&
         !hlo_has_failed(lower, tenon_builder_value(lower->builder, edge, out));
}

tenon_dtype_t hlo_dtype(hlo_lower_t *lower, tenon_edge_t edge) {
  tenon_port_t port;
  if (read_port(lower, edge, &port) && port.dtype.bits == 0)
    hlo_wrong(lower, "the dtype of an operand is unknown");
  return port.dtype;
}

int32_t hlo_rank(hlo_lower_t *lower, tenon_edge_t edge) {
  tenon_port_t port;
  if (read_port(lower, edge, &port) && port.ndim < 0)
    hlo_wrong(lower, "the rank of an operand is unknown");
  return port.ndim < 0 ? 0 : port.ndim;
}

int64_t hlo_extent(hlo_lower_t *lower, tenon_edge_t edge, int32_t axis) {
  tenon_port_t port;
  if (!read_port(lower, edge, &port) || axis >= port.ndim) return -1;
  return port.axes[axis].extent;
}

/* results */

/* Writes what is known of a value: f32[2, ?]. */
static void describe_port(const tenon_port_t *port, char *out, size_t room) {
  size_t used = (size_t)snprintf(out, room, "%s[", tenon_dtype_name(port->dtype));
  for (int32_t i = 0; i < port->ndim && used < room; i++) {
    const char *comma = i ? ", " : "";
    if (port->axes[i].extent < 0)
      used += (size_t)snprintf(out + used, room - used, "%s?", comma);
    else
      used += (size_t)snprintf(out + used, room - used, "%s%lld", comma,
                               (long long)port->axes[i].extent);
  }
  if (used < room) snprintf(out + used, room - used, "]");
}

/* Compares what is known of a value with the type that the program states. *out_is_vague: the type
 * says more about the extents. */
static bool matches(const tenon_port_t *port, const hlo_type_t *type, tenon_dtype_t dtype,
                    bool *out_is_vague) {
  *out_is_vague = port->ndim < 0 && hlo_type_is_static(type);
  if (port->dtype.bits && tenon_dtype_id(port->dtype) != tenon_dtype_id(dtype)) return false;
  if (port->ndim < 0) return true;
  if (port->ndim != type->ndim) return false;
  for (int32_t i = 0; i < type->ndim; i++) {
    if (port->axes[i].extent >= 0 && type->dims[i] >= 0 && port->axes[i].extent != type->dims[i])
      return false;
    *out_is_vague |= port->axes[i].extent < 0 && hlo_type_is_static(type);
  }
  return true;
}

/* Checks one part of a result; states its extents in the graph if inference does not know them. */
static tenon_edge_t check_result_part(hlo_lower_t *lower, const hlo_type_t *type,
                                      tenon_edge_t edge) {
  tenon_port_t port;
  bool is_vague = false;
  char stated[200] = "", found[200] = "";
  const tenon_op_t *reshape = NULL;
  tenon_attrs_t *attrs = NULL;
  if (!read_port(lower, edge, &port)) return edge;
  if (!matches(&port, type, hlo_part_dtype(type->dtype), &is_vague)) {
    hlo_type_text(type, stated, sizeof stated);
    describe_port(&port, found, sizeof found);
    hlo_wrong(lower,
              "the operation states the result %s, but its operands give %s: the file is "
              "damaged",
              stated, found);
  }
  if (!is_vague || hlo_stopped(lower)) return edge;
  tenon_edge_t shape = hlo_ints(lower, type->dims, type->ndim);
  hlo_edges_t operands[2] = {{&edge, 1, false}, {&shape, 1, false}};
  if (hlo_has_failed(lower, tenon_op_find("core::reshape", &reshape)) ||
      hlo_has_failed(lower, tenon_attrs_create(reshape, &attrs)) ||
      hlo_has_failed(lower, tenon_attrs_int(attrs, "allow_zero", 1)))
    return edge;
  hlo_edges_t results = hlo_call(lower, reshape, attrs, operands, 2, 1);
  return results.count ? results.edges[0] : EDGE_NONE;
}

void hlo_give_bound(hlo_lower_t *lower, int32_t index, hlo_bound_t bound) {
  const hlo_type_t *type = hlo_result_type(lower, index);
  if (hlo_stopped(lower)) return;
  if (type->kind == HLO_TENSOR && !lower->elements && !bound.stacked) {
    bool is_complex = hlo_is_complex(type);
    if (is_complex != (bound.imaginary != EDGE_NONE))
      hlo_wrong(lower, "the operation states a result that is %s, but its operands say otherwise",
                is_complex ? "complex" : "real");
    bound.edge = check_result_part(lower, type, bound.edge);
    if (is_complex) bound.imaginary = check_result_part(lower, type, bound.imaginary);
  }
  if (hlo_stopped(lower)) return;
  bound.is_set = true;
  lower->frame->bound[lower->op->results[index]->index] = bound;
}

void hlo_give(hlo_lower_t *lower, int32_t index, tenon_edge_t edge) {
  const hlo_type_t *type = hlo_result_type(lower, index);
  if (hlo_stopped(lower)) return;
  if (lower->part < 0 || !hlo_is_complex(type)) {
    hlo_give_bound(lower, index, hlo_real(edge));
    return;
  }
  hlo_bound_t *bound = &lower->frame->bound[lower->op->results[index]->index];
  if (lower->part == 0)
    *bound = hlo_real(edge); /* The other part follows. */
  else
    hlo_give_bound(lower, index, hlo_complex(bound->edge, edge));
}

/* calls */

/* Returns the number of results of a call; -1: the operator does not state it. */
static int32_t call_result_count(const tenon_op_t *op, const tenon_value_t *values) {
  tenon_argument_t result = {.size = sizeof result};
  int64_t total = 0;
  for (int32_t i = 0; tenon_op_argument(op, TENON_ARGUMENT_OUTPUT, i, &result) == TENON_OK; i++) {
    int64_t count = 1;
    if (result.kind == TENON_KIND_TENSORS)
      count = result.count_attr >= 0 ? values[result.count_attr].as.i : result.count;
    if (count < 0 || count > HLO_LIST_MAX) return -1;
    total += count;
  }
  return total > HLO_LIST_MAX ? -1 : (int32_t)total;
}

static hlo_edges_t add_node(hlo_lower_t *lower, const tenon_op_t *op, tenon_attrs_t *attrs,
                            const hlo_edges_t *operands, int32_t operand_count, int32_t wanted) {
  const hlo_edges_t none = {NULL, 0, false};
  const tenon_value_t *values = NULL;
  tenon_op_info_t info = {.size = sizeof info};
  char name[100];
  if (hlo_stopped(lower) || hlo_has_failed(lower, tenon_attrs_values(attrs, &values))) return none;
  tenon_op_info(op, &info);
  int32_t count = call_result_count(op, values);
  if (count < 0) count = wanted;
  if (operand_count > info.input_count)
    hlo_wrong(lower, "%s takes %d inputs, found %d", info.name, info.input_count, operand_count);
  tenon_operand_t *given = hlo_lower_take(lower, (size_t)info.input_count + 1, sizeof *given);
  tenon_edge_t *results = hlo_lower_take(lower, (size_t)count + 1, sizeof *results);
  for (int32_t i = 0; i < operand_count && !hlo_stopped(lower); i++) {
    bool is_there = operands[i].is_list || (operands[i].count && operands[i].edges[0] != EDGE_NONE);
    given[i] = (tenon_operand_t){is_there ? operands[i].count : 0, operands[i].edges};
  }
  if (hlo_stopped(lower)) return none;
  bool has_result = lower->op && lower->op->result_count > 0;
  const char *result = has_result ? lower->op->results[0]->name : "";
  const char *op_name = lower->op ? lower->op->name : "";
  snprintf(name, sizeof name, "%.40s%s%.40s", op_name, has_result ? " %" : "", result);
  if (hlo_has_failed(lower,
                     tenon_builder_node(lower->builder, name, op, values, given, results, count)))
    return none;
  return (hlo_edges_t){results, count, false};
}

hlo_edges_t hlo_call(hlo_lower_t *lower, const tenon_op_t *op, tenon_attrs_t *attrs,
                     const hlo_edges_t *operands, int32_t operand_count, int32_t wanted) {
  hlo_edges_t results = add_node(lower, op, attrs, operands, operand_count, wanted);
  tenon_attrs_release(attrs);
  return results;
}

/* constants */

tenon_edge_t hlo_tensor(hlo_lower_t *lower, tenon_tensor_t *tensor) {
  tenon_edge_t edge = EDGE_NONE;
  if (!hlo_stopped(lower))
    (void)hlo_has_failed(lower, tenon_builder_constant(lower->builder, NULL, tensor, &edge));
  tenon_tensor_release(tensor);
  return edge;
}

tenon_edge_t hlo_ints(hlo_lower_t *lower, const int64_t *values, int32_t count) {
  tenon_tensor_t *tensor = NULL;
  if (hlo_stopped(lower) ||
      hlo_has_failed(lower, constant_integers(values, (size_t)count, &tensor)))
    return EDGE_NONE;
  return hlo_tensor(lower, tensor);
}

tenon_edge_t hlo_scalar(hlo_lower_t *lower, tenon_dtype_t dtype, double value) {
  tenon_tensor_t *tensor = NULL;
  if (hlo_stopped(lower) || hlo_has_failed(lower, constant_scalar(dtype, value, &tensor)))
    return EDGE_NONE;
  return hlo_tensor(lower, tensor);
}

/* Copies one part of each complex element into a tensor of its own. */
static tenon_edge_t constant_part(hlo_lower_t *lower, const tenon_tensor_t *tensor, int part) {
  tenon_tensor_t *made;
  tenon_dtype_t dtype = hlo_part_dtype(tensor->dtype);
  size_t size = dtype.bits / 8;
  if (hlo_stopped(lower) ||
      hlo_has_failed(lower, tenon_tensor_create(dtype, tensor->ndim, tensor->shape, &made)))
    return EDGE_NONE;
  for (int64_t i = 0; i < tenon_count(made); i++)
    memcpy((char *)made->data + (size_t)i * size,
           (const char *)tensor->data + (2 * (size_t)i + (size_t)part) * size, size);
  return hlo_tensor(lower, made);
}

static tenon_edge_t retained_tensor(hlo_lower_t *lower, tenon_tensor_t *tensor) {
  tenon_tensor_retain(tensor);
  return hlo_tensor(lower, tensor);
}

/* Expands a scalar to the extents of a type. */
static tenon_edge_t expand_scalar(hlo_lower_t *lower, tenon_edge_t edge, const hlo_type_t *type) {
  const tenon_op_t *expand = NULL;
  tenon_attrs_t *attrs = NULL;
  tenon_edge_t shape = hlo_ints(lower, type->dims, type->ndim);
  hlo_edges_t operands[2] = {{&edge, 1, false}, {&shape, 1, false}};
  if (hlo_stopped(lower) || hlo_has_failed(lower, tenon_op_find("core::expand", &expand)) ||
      hlo_has_failed(lower, tenon_attrs_create(expand, &attrs)))
    return EDGE_NONE;
  hlo_edges_t results = hlo_call(lower, expand, attrs, operands, 2, 1);
  return results.count ? results.edges[0] : EDGE_NONE;
}

hlo_bound_t hlo_constant(hlo_lower_t *lower, const hlo_attr_t *attr) {
  hlo_bound_t bound = hlo_real(EDGE_NONE);
  bound.constant = attr;
  if (hlo_is_complex(attr->type)) {
    bound.edge = constant_part(lower, attr->tensor, 0);
    bound.imaginary = constant_part(lower, attr->tensor, 1);
  } else {
    bound.edge = retained_tensor(lower, attr->tensor);
  }
  if (!attr->is_splat) return bound;
  if (bound.imaginary == EDGE_NONE) bound.narrow = bound.edge;
  bound.edge = expand_scalar(lower, bound.edge, attr->type);
  if (bound.imaginary != EDGE_NONE)
    bound.imaginary = expand_scalar(lower, bound.imaginary, attr->type);
  return bound;
}
