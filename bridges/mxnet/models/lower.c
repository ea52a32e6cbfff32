/* What lowerings build with: failures, the inputs and outputs of the node, calls of core operators,
 * constants, and what is known of a value. Called by the functions of lower_*.c, by lowering.c,
 * attribute.c and custom.c, and by node.c. Invariant: every call goes through lower_call, and
 * values of unsupported operators reach no call. */
#include "lower.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "common/constant.h"

/* failures */

bool lower_stopped(const lower_t *lower) { return lower->status != TENON_OK || lower->is_missing; }

static bool failed(lower_t *lower, tenon_status_t status) {
  if (lower->status == TENON_OK) lower->status = status;
  return lower->status != TENON_OK;
}

void lower_fail(lower_t *lower, const char *format, ...) {
  va_list arguments;
  if (lower_stopped(lower)) return;
  va_start(arguments, format);
  lower->status = tn_fail_list(TENON_INVALID, format, arguments);
  va_end(arguments);
}

void lower_missing(lower_t *lower, const char *format, ...) {
  char reason[300];
  model_t *model = lower->model;
  missing_t **link = &model->missing;
  va_list arguments;
  if (lower_stopped(lower)) return;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  lower->is_missing = true;
  while (*link &&
         (strcmp((*link)->op, lower->node->op) != 0 || strcmp((*link)->reason, reason) != 0))
    link = &(*link)->next;
  if (!*link) {
    *link = tn_arena_array(&model->arena, 1, sizeof **link);
    const char *text = tn_arena_text(&model->arena, reason, strlen(reason));
    if (!*link || !text) {
      *link = NULL;
      lower->status = tn_no_memory("a message", 0);
      return;
    }
    (*link)->op = lower->node->op;
    (*link)->reason = text;
    model->missing_count++;
  }
  missing_t *missing = *link;
  size_t used = strlen(missing->nodes);
  size_t room = sizeof missing->nodes - used;
  if (++missing->count <= 4)
    snprintf(missing->nodes + used, room, "%s%.50s", used ? ", " : "", lower->node->name);
  else if (missing->count == 5)
    snprintf(missing->nodes + used, room, ", ...");
}

void *lower_take(lower_t *lower, size_t count, size_t size) {
  void *room = tn_arena_array(&lower->model->arena, count, size);
  if (!room && !lower_stopped(lower)) lower->status = tn_no_memory("a model", 0);
  return room;
}

/* inputs and outputs */

tenon_edge_t lower_input(const lower_t *lower, int32_t index) {
  return index < lower->input_count ? lower->inputs[index] : EDGE_NONE;
}

void lower_give(lower_t *lower, tenon_edge_t edge) {
  size_t count = (size_t)lower->outputs.count;
  /* The array is full, so its size is doubled. */
  if ((count & (count - 1)) == 0) {
    tenon_edge_t *grown = lower_take(lower, 2 * count + 1, sizeof *grown);
    if (grown && count) memcpy(grown, lower->outputs.edges, count * sizeof *grown);
    lower->outputs.edges = grown;
  }
  if (lower_stopped(lower) || !lower->outputs.edges) return;
  lower->outputs.edges[count] = edge;
  lower->outputs.count++;
}

/* Returns the number of results of a call; -1: the operator does not state it. */
static int32_t result_count(const tenon_op_t *op, const tenon_value_t *values) {
  tenon_argument_t result = {.size = sizeof result};
  int64_t total = 0;
  for (int32_t i = 0; tenon_op_argument(op, TENON_ARGUMENT_OUTPUT, i, &result) == TENON_OK; i++) {
    int64_t count = 1;
    if (result.kind == TENON_KIND_TENSORS)
      count = result.count_attr >= 0 ? values[result.count_attr].as.i : result.count;
    if (count < 0 || count > 1 << 20) return -1;
    total += count;
  }
  return total > 1 << 20 ? -1 : (int32_t)total;
}

values_t lower_call(lower_t *lower, const tenon_op_t *op, tenon_attrs_t *attrs,
                    const values_t *operands, int32_t operand_count, int32_t wanted) {
  const tenon_value_t *values = NULL;
  tenon_op_info_t info = {.size = sizeof info};
  values_t none = {NULL, 0, false};
  if (lower_stopped(lower) || failed(lower, tenon_attrs_values(attrs, &values))) return none;
  tenon_op_info(op, &info);
  int32_t count = result_count(op, values);
  if (count < 0) count = wanted;
  if (operand_count > info.input_count)
    lower_fail(lower, "%s takes %d inputs, found %d", info.name, info.input_count, operand_count);
  tenon_operand_t *given = lower_take(lower, (size_t)info.input_count + 1, sizeof *given);
  tenon_edge_t *results = lower_take(lower, (size_t)count + 1, sizeof *results);
  for (int32_t i = 0; i < operand_count && !lower_stopped(lower); i++) {
    bool is_there = operands[i].is_list || (operands[i].count && operands[i].edges[0] != EDGE_NONE);
    given[i] = (tenon_operand_t){is_there ? operands[i].count : 0, operands[i].edges};
  }
  if (lower_stopped(lower) ||
      failed(lower, tenon_builder_node(lower->model->builder, lower->node->name, op, values, given,
                                       results, count)))
    return none;
  return (values_t){results, count, false};
}

/* constants */

tenon_edge_t lower_tensor(lower_t *lower, tenon_tensor_t *tensor) {
  tenon_edge_t edge = EDGE_NONE;
  if (!lower_stopped(lower))
    (void)failed(lower, tenon_builder_constant(lower->model->builder, NULL, tensor, &edge));
  tenon_tensor_release(tensor);
  return edge;
}

tenon_edge_t lower_ints(lower_t *lower, const int64_t *values, size_t count) {
  tenon_tensor_t *tensor = NULL;
  if (lower_stopped(lower) || failed(lower, constant_integers(values, count, &tensor)))
    return EDGE_NONE;
  return lower_tensor(lower, tensor);
}

tenon_edge_t lower_scalar(lower_t *lower, tenon_dtype_t dtype, double value) {
  tenon_tensor_t *tensor = NULL;
  if (lower_stopped(lower) || failed(lower, constant_scalar(dtype, value, &tensor)))
    return EDGE_NONE;
  return lower_tensor(lower, tensor);
}

/* known properties of values */

static bool read_port(lower_t *lower, tenon_edge_t edge, tenon_port_t *out) {
  *out = (tenon_port_t){.size = sizeof *out, .ndim = -1};
  if (!lower_stopped(lower) && edge < 0) lower_fail(lower, "an input is missing");
  return !lower_stopped(lower) &&
         !failed(lower, tenon_builder_value(lower->model->builder, edge, out));
}

int32_t lower_rank_of(lower_t *lower, tenon_edge_t edge) {
  tenon_port_t port;
  if (!read_port(lower, edge, &port) || port.ndim >= 0) return port.ndim;
  for (int32_t i = 0; i < lower->input_count; i++)
    if (lower->inputs[i] == edge) return lower->model->ranks[lower->node->inputs[i].node];
  return -1;
}

int32_t lower_rank(lower_t *lower, tenon_edge_t edge) {
  int32_t rank = lower_rank_of(lower, edge);
  if (rank < 0)
    lower_missing(
        lower,
        "the rank of its input is unknown: state the shape of the model's inputs (__shape__)");
  return rank < 0 ? 0 : rank;
}

int64_t lower_extent(lower_t *lower, tenon_edge_t edge, int32_t axis) {
  tenon_port_t port;
  if (!read_port(lower, edge, &port) || port.ndim < 0) return -1;
  if (axis < 0) axis += port.ndim;
  return axis >= 0 && axis < port.ndim && port.axes[axis].extent >= 0 ? port.axes[axis].extent : -1;
}

tenon_dtype_t lower_dtype(lower_t *lower, tenon_edge_t edge) {
  tenon_port_t port;
  if (read_port(lower, edge, &port) && port.dtype.bits == 0)
    lower_fail(lower, "the dtype of an input is unknown");
  return port.dtype;
}

bool lower_is_float(lower_t *lower, tenon_edge_t edge) {
  tenon_dtype_t dtype = lower_dtype(lower, edge);
  return dtype.code == 2 || dtype.code == 4;
}

int64_t lower_axis(lower_t *lower, tenon_edge_t edge, int64_t axis) {
  int32_t rank = axis < 0 ? lower_rank(lower, edge) : lower_rank_of(lower, edge);
  if (axis < -TENON_RANK_MAX || axis >= (rank < 0 ? TENON_RANK_MAX : rank) ||
      (rank >= 0 && axis < -rank))
    lower_fail(lower, "axis %lld does not exist: the tensor has %d axes", (long long)axis,
               (int)rank);
  return axis < 0 ? axis + rank : axis;
}
