/* Writes control flow: if, and loops and scans as while. The host has given the bodies the types of
 * their operands. Invariant: after a body the graph, the values and the node are those from before
 * it. */
#include <string.h>

#include "base/status.h"
#include "write/operation.h"

/* A value with one element, without axes. */
static hlo_val_t scalar_of(hlo_write_t *w, hlo_val_t value) {
  if (hlo_write_stopped(w)) return value;
  if (hlo_val_count(&value) != 1)
    hlo_write_missing(w, "its condition or its number of iterations is not one element");
  return hlo_to_shape(w, value, 0, NULL);
}

/* bodies */

typedef struct outside_t { /* What a body replaces in hlo_write_t. */
  const tenon_graph_t *graph;
  const hlo_val_t **values;
  int32_t edge_count;
  tenon_graph_part_t node;
  tenon_op_info_t op;
  const hlo_write_row_t *row;
} outside_t;

static outside_t enter_body(hlo_write_t *w, const tenon_graph_t *graph) {
  const outside_t outside = {w->graph, w->values, w->edge_count, w->node, w->op, w->row};
  tenon_graph_edge_t edge = {.size = sizeof edge};
  w->graph = graph;
  w->edge_count = 0;
  while (tenon_graph_edge(graph, w->edge_count, &edge, NULL) == TENON_OK)
    w->edge_count++;
  w->values = tn_arena_array(w->arena, (size_t)w->edge_count + 1, sizeof *w->values);
  if (!w->values) (void)hlo_write_failed(w, tn_no_memory("a program", 0));
  return outside;
}

/* Returns whether the body and its outputs were written. */
static bool leave_body(hlo_write_t *w, const outside_t *outside) {
  const bool is_fine = !hlo_write_stopped(w);
  w->graph = outside->graph;
  w->values = outside->values;
  w->edge_count = outside->edge_count;
  w->node = outside->node;
  w->op = outside->op;
  w->row = outside->row;
  w->is_missing = false;
  return is_fine;
}

/* Reshapes a value to the type that the body expects, and makes it the input. */
static void bind_input(hlo_write_t *w, int32_t index, hlo_val_t value) {
  tenon_port_t port = {.size = sizeof port};
  if (hlo_write_stopped(w) || hlo_write_failed(w, tenon_graph_input(w->graph, index, &port)))
    return;
  hlo_val_t type = hlo_edge_type(w, port.edge);
  if (hlo_write_stopped(w)) return;
  if (!hlo_same_shape(&type, &value) && hlo_val_count(&type) == 1 && hlo_val_count(&value) == 1)
    value = hlo_to_shape(w, value, type.ndim, type.dims);
  if (!hlo_same_shape(&type, &value) || tenon_dtype_id(type.dtype) != tenon_dtype_id(value.dtype))
    hlo_write_missing(w, "input %d of its body has another type than its operand", (int)index);
  hlo_bind(w, port.edge, value);
}

/* Writes the nodes of the body and takes an output, which must have a type. */
static hlo_val_t take_output(hlo_write_t *w, int32_t index, const hlo_val_t *type) {
  tenon_port_t port = {.size = sizeof port};
  hlo_val_t value = {.id = -1};
  if (hlo_write_stopped(w) || hlo_write_failed(w, tenon_graph_output(w->graph, index, &port)))
    return value;
  value = hlo_edge_value(w, port.edge);
  if (hlo_write_stopped(w)) return value;
  if (!hlo_same_shape(type, &value) && hlo_val_count(type) == 1 && hlo_val_count(&value) == 1)
    value = hlo_to_shape(w, value, type->ndim, type->dims);
  if (!hlo_same_shape(type, &value) || tenon_dtype_id(type->dtype) != tenon_dtype_id(value.dtype))
    hlo_write_missing(w,
                      "output %d of its body changes its shape or its dtype, which must be the "
                      "same in all iterations and branches",
                      (int)index);
  return value;
}

/* Checks that the body has the inputs and outputs that the writers count on. */
static bool check_body(hlo_write_t *w, const tenon_graph_t *body, int32_t inputs, int32_t outputs) {
  if (tenon_graph_input_count(body) != inputs || tenon_graph_output_count(body) != outputs)
    hlo_write_missing(w, "its body has %d inputs and %d outputs, expected %d and %d",
                      (int)tenon_graph_input_count(body), (int)tenon_graph_output_count(body),
                      (int)inputs, (int)outputs);
  return !hlo_write_stopped(w);
}

static const tenon_graph_t *body_of(hlo_write_t *w, const char *name) {
  const tenon_value_t *value = hlo_write_attr(w, name);
  if (value && value->kind == TENON_KIND_GRAPH) return value->as.graph;
  hlo_write_missing(w, "it has no body");
  return NULL;
}

/* printing */

static hlo_val_t *take_values(hlo_write_t *w, int32_t count) {
  hlo_val_t *values = tn_arena_array(w->arena, (size_t)count + 1, sizeof *values);
  if (!values) (void)hlo_write_failed(w, tn_no_memory("a program", (size_t)count));
  return values;
}

static void print_values(hlo_write_t *w, const hlo_val_t *values, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    fprintf(w->out, "%s%s", i ? ", " : "", hlo_val_text(w, &values[i]));
}

static void print_return(hlo_write_t *w, const hlo_val_t *values, int32_t count) {
  if (hlo_write_stopped(w)) return;
  fprintf(w->out, "      \"stablehlo.return\"(");
  print_values(w, values, count);
  fprintf(w->out, ") : ");
  hlo_print_types(w->out, values, count);
  fprintf(w->out, " -> ()\n");
}

/* Begins an operation with several results and regions. The results get their names. */
static void print_begin(hlo_write_t *w, const char *name, hlo_val_t *results, int32_t count,
                        const hlo_val_t *operands, int32_t operand_count) {
  for (int32_t i = 0; i < count; i++) {
    results[i].id = w->next;
    results[i].part = i;
    results[i].is_part = true;
  }
  fprintf(w->out, "    ");
  if (count) fprintf(w->out, "%%v%d:%d = ", (int)w->next++, (int)count);
  fprintf(w->out, "\"%s\"(", name);
  print_values(w, operands, operand_count);
  fprintf(w->out, ") ({\n");
}

static void print_end(hlo_write_t *w, const hlo_val_t *results, int32_t count,
                      const hlo_val_t *operands, int32_t operand_count) {
  fprintf(w->out, "    }) : ");
  hlo_print_types(w->out, operands, operand_count);
  fprintf(w->out, " -> ");
  hlo_print_types(w->out, results, count);
  fprintf(w->out, "\n");
}

/* Prints the head of a region whose arguments have the types of these values, and names them. */
static void print_arguments(hlo_write_t *w, hlo_val_t *arguments, int32_t count) {
  fprintf(w->out, "    ^bb0(");
  for (int32_t i = 0; i < count; i++) {
    arguments[i].id = w->next++;
    arguments[i].is_part = false;
    fprintf(w->out, "%s%s: ", i ? ", " : "", hlo_val_text(w, &arguments[i]));
    hlo_print_type(w->out, &arguments[i]);
  }
  fprintf(w->out, "):\n");
}

/* if */

static void write_branch(hlo_write_t *w, const tenon_graph_t *graph, const hlo_val_t *captured,
                         int32_t captured_count, const hlo_val_t *types, int32_t count) {
  if (!check_body(w, graph, captured_count, count)) return;
  hlo_val_t *results = take_values(w, count);
  const outside_t outside = enter_body(w, graph);
  for (int32_t i = 0; i < captured_count; i++)
    bind_input(w, i, captured[i]);
  if (!hlo_write_stopped(w)) w->write_nodes(w);
  for (int32_t i = 0; i < count && !hlo_write_stopped(w); i++)
    results[i] = take_output(w, i, &types[i]);
  print_return(w, results, count);
  (void)leave_body(w, &outside);
}

static void write_if(hlo_write_t *w) {
  const tenon_graph_t *yes = body_of(w, "then");
  const tenon_graph_t *no = body_of(w, "else");
  const int32_t count = w->node.output_count;
  const int32_t captured_count = hlo_operand_count(w, 1);
  hlo_val_t condition = scalar_of(w, hlo_in(w, 0));
  hlo_val_t *captured = take_values(w, captured_count);
  hlo_val_t *results = take_values(w, count);
  for (int32_t i = 0; i < captured_count && !hlo_write_stopped(w); i++)
    captured[i] = hlo_item(w, 1, i);
  for (int32_t i = 0; i < count && !hlo_write_stopped(w); i++)
    results[i] = hlo_result(w, i);
  if (hlo_write_stopped(w)) return;
  print_begin(w, "stablehlo.if", results, count, &condition, 1);
  write_branch(w, yes, captured, captured_count, results, count);
  fprintf(w->out, "    }, {\n");
  write_branch(w, no, captured, captured_count, results, count);
  print_end(w, results, count, &condition, 1);
  for (int32_t i = 0; i < count; i++)
    hlo_give_val(w, i, results[i]);
}

/* loops */

typedef struct repeat_t {
  const tenon_graph_t *body;
  bool is_scan;
  bool has_condition; /* is carried */
  bool has_limit;     /* is carried, because it depends on data */
  int64_t trips;      /* -1: not known */
  int32_t state_count;
  int32_t scan_count;
  int32_t stacked_count;
  int32_t captured_count;
  /* What the operation carries, in this order: the iteration, the condition, the states, the
   * stacked results; and what stays the same: the limit, scanned and captured values. */
  int32_t first_state;
  int32_t first_stacked;
  int32_t first_fixed;
  int32_t first_scan;
  int32_t first_captured;
  int32_t count;
  hlo_val_t *operands;
  hlo_val_t *arguments; /* of a region */
  hlo_val_t *results;
} repeat_t;

enum { LOOP_STATES, LOOP_CAPTURED, LOOP_TRIPS, LOOP_CONDITION };
enum { SCAN_STATES, SCAN_SCANS, SCAN_CAPTURED };

/* Reads a constant scalar; `otherwise` if the edge is none. */
static int64_t known_scalar(hlo_write_t *w, const tenon_graph_t *graph, tenon_edge_t edge,
                            int64_t otherwise) {
  tenon_graph_edge_t about = {.size = sizeof about};
  if (hlo_write_failed(w, tenon_graph_edge(graph, edge, &about, NULL))) return otherwise;
  const tenon_tensor_t *tensor = about.constant;
  if (!tensor || tenon_count(tensor) != 1) return otherwise;
  const uint32_t id = tenon_dtype_id(tensor->dtype);
  if (id == TENON_BOOL) return *(const uint8_t *)tensor->data != 0;
  if (id == TENON_I32) return *(const int32_t *)tensor->data;
  return id == TENON_I64 ? *(const int64_t *)tensor->data : otherwise;
}

/* Whether the body's condition is always true. */
static bool goes_on(hlo_write_t *w, const tenon_graph_t *body) {
  tenon_port_t port = {.size = sizeof port};
  if (hlo_write_failed(w, tenon_graph_output(body, 0, &port))) return false;
  return known_scalar(w, body, port.edge, 0) == 1;
}

static bool read_loop(hlo_write_t *w, repeat_t *r) {
  r->state_count = hlo_operand_count(w, LOOP_STATES);
  r->captured_count = hlo_operand_count(w, LOOP_CAPTURED);
  r->stacked_count = w->node.output_count - r->state_count;
  r->trips = -1;
  if (!check_body(w, r->body, 2 + r->state_count + r->captured_count, 1 + w->node.output_count))
    return false;
  r->has_condition = hlo_operand_count(w, LOOP_CONDITION) || !goes_on(w, r->body);
  if (hlo_operand_count(w, LOOP_TRIPS)) {
    r->trips = known_scalar(w, w->graph, w->node.operands[LOOP_TRIPS].edges[0], -1);
    r->has_limit = r->trips < 0;
  }
  if (r->stacked_count > 0 && (r->trips < 0 || r->has_condition))
    hlo_write_missing(w,
                      "it stacks results of a number of iterations that depends on data: give the "
                      "loop a constant number of trips and let its condition stay true, or write "
                      "the rows into a state of fixed size");
  return !hlo_write_stopped(w);
}

static int64_t listed(hlo_write_t *w, const char *name, int32_t index) {
  const tenon_value_t *value = hlo_write_attr(w, name);
  return value && value->kind == TENON_KIND_INTS && (uint32_t)index < value->count
             ? value->as.ints[index]
             : 0;
}

static bool read_scan(hlo_write_t *w, repeat_t *r) {
  r->is_scan = true;
  r->state_count = hlo_operand_count(w, SCAN_STATES);
  r->scan_count = hlo_operand_count(w, SCAN_SCANS);
  r->captured_count = hlo_operand_count(w, SCAN_CAPTURED);
  r->stacked_count = w->node.output_count - r->state_count;
  for (int32_t i = 0; i < r->scan_count && !hlo_write_stopped(w); i++) {
    hlo_val_t whole = hlo_item(w, SCAN_SCANS, i);
    int32_t axis = hlo_axis(w, listed(w, "input_axes", i), whole.ndim);
    if (!whole.ndim) hlo_write_missing(w, "a scanned input has no axis");
    if (!hlo_write_stopped(w) && i && whole.dims[axis] != r->trips)
      hlo_write_missing(w, "scanned inputs have different extents");
    if (!hlo_write_stopped(w)) r->trips = whole.dims[axis];
  }
  return check_body(w, r->body, r->state_count + r->scan_count + r->captured_count,
                    w->node.output_count);
}

/* The first value of the condition. */
static hlo_val_t first_condition(hlo_write_t *w) {
  if (!hlo_operand_count(w, LOOP_CONDITION)) return hlo_number(w, tenon_dtype(TENON_BOOL), 1);
  return scalar_of(w, hlo_in(w, LOOP_CONDITION));
}

/* Lists the operands of the operation. */
static void list_operands(hlo_write_t *w, repeat_t *r) {
  int32_t next = 0;
  const int32_t captured = r->is_scan ? SCAN_CAPTURED : LOOP_CAPTURED;
  r->operands[next++] = hlo_number(w, tenon_dtype(TENON_I64), 0);
  if (r->has_condition) r->operands[next++] = first_condition(w);
  r->first_state = next;
  for (int32_t i = 0; i < r->state_count; i++)
    r->operands[next++] = hlo_item(w, 0, i);
  r->first_stacked = next;
  for (int32_t i = 0; i < r->stacked_count; i++) {
    const hlo_val_t type = hlo_result(w, r->state_count + i);
    r->operands[next++] = hlo_fill(w, &type, 0);
  }
  r->first_fixed = next;
  if (r->has_limit)
    r->operands[next++] =
        hlo_convert(w, scalar_of(w, hlo_in(w, LOOP_TRIPS)), tenon_dtype(TENON_I64));
  r->first_scan = next;
  for (int32_t i = 0; i < r->scan_count; i++)
    r->operands[next++] = hlo_item(w, SCAN_SCANS, i);
  r->first_captured = next;
  for (int32_t i = 0; i < r->captured_count; i++)
    r->operands[next++] = hlo_item(w, captured, i);
  r->count = next;
}

static void write_condition(hlo_write_t *w, repeat_t *r) {
  hlo_val_t more = {.id = -1};
  print_arguments(w, r->arguments, r->count);
  if (r->has_condition) more = r->arguments[1];
  if (r->has_limit || r->trips >= 0) {
    hlo_val_t limit = r->arguments[r->first_fixed];
    if (!r->has_limit) limit = hlo_whole_number(w, r->trips);
    const hlo_val_t is_left = hlo_compare_by(w, "LT", r->arguments[0], limit);
    more = r->has_condition ? hlo_binary(w, "stablehlo.and", is_left, more) : is_left;
  } else if (!r->has_condition) {
    more = hlo_number(w, tenon_dtype(TENON_BOOL), 1);
  }
  print_return(w, &more, 1);
}

/* The iteration, counted from the end if the list says so for this item. */
static hlo_val_t position_of(hlo_write_t *w, const repeat_t *r, const char *list, int32_t item) {
  if (!listed(w, list, item)) return r->arguments[0];
  return hlo_binary(w, "stablehlo.subtract", hlo_whole_number(w, r->trips - 1), r->arguments[0]);
}

/* Lists the operands of a dynamic slice: values, then a start for each axis. */
static int32_t list_starts(hlo_write_t *w, hlo_val_t position, int32_t axis, int32_t ndim,
                           hlo_val_t *operands, int32_t count) {
  const hlo_val_t zero = hlo_whole_number(w, 0);
  for (int32_t d = 0; d < ndim; d++)
    operands[count++] = d == axis ? position : zero;
  return count;
}

/* One slice of a scanned input, without its axis. */
static hlo_val_t take_slice(hlo_write_t *w, const repeat_t *r, int32_t item, int32_t axis,
                            hlo_val_t position) {
  hlo_val_t operands[1 + TENON_RANK_MAX] = {r->arguments[r->first_scan + item]};
  hlo_val_t type = operands[0];
  hlo_val_t row = hlo_type_of(type.dtype, 0, NULL);
  type.dims[axis] = 1;
  for (int32_t d = 0; d < type.ndim; d++)
    if (d != axis) row.dims[row.ndim++] = type.dims[d];
  int32_t count = list_starts(w, position, axis, type.ndim, operands, 1);
  hlo_val_t slice =
      hlo_emit(w, "stablehlo.dynamic_slice", type,
               hlo_format(w, "slice_sizes = %s", hlo_array_text(w, type.dims, type.ndim)), NULL,
               operands, count);
  return hlo_to_shape(w, slice, row.ndim, row.dims);
}

/* Puts the result of an iteration into the stacked ones. */
static hlo_val_t put_row(hlo_write_t *w, const repeat_t *r, int32_t item, hlo_val_t row,
                         int32_t axis, hlo_val_t position) {
  hlo_val_t operands[2 + TENON_RANK_MAX] = {r->arguments[r->first_stacked + item]};
  hlo_val_t type = operands[0];
  hlo_val_t part = type;
  part.dims[axis] = 1;
  operands[1] = hlo_to_shape(w, row, part.ndim, part.dims);
  int32_t count = list_starts(w, position, axis, type.ndim, operands, 2);
  return hlo_emit(w, "stablehlo.dynamic_update_slice", type, "", NULL, operands, count);
}

/* The axis of a stacked result. */
static int32_t stacked_axis(hlo_write_t *w, const repeat_t *r, int32_t item) {
  const hlo_val_t *type = &r->operands[r->first_stacked + item];
  return r->is_scan ? hlo_axis(w, listed(w, "output_axes", item), type->ndim) : 0;
}

/* The type of one iteration's part of a stacked result. */
static hlo_val_t row_type(const hlo_val_t *stacked, int32_t axis) {
  hlo_val_t row = hlo_type_of(stacked->dtype, 0, NULL);
  for (int32_t d = 0; d < stacked->ndim; d++)
    if (d != axis) row.dims[row.ndim++] = stacked->dims[d];
  return row;
}

/* Gives the body's inputs their values: arguments of the region, and slices of scanned inputs. */
static void bind_inputs(hlo_write_t *w, const repeat_t *r, const hlo_val_t *slices) {
  int32_t next = 0;
  if (!r->is_scan) {
    bind_input(w, next++, r->arguments[0]);
    bind_input(w, next++,
               r->has_condition ? r->arguments[1] : hlo_number(w, tenon_dtype(TENON_BOOL), 1));
  }
  for (int32_t i = 0; i < r->state_count; i++)
    bind_input(w, next++, r->arguments[r->first_state + i]);
  for (int32_t i = 0; i < r->scan_count; i++)
    bind_input(w, next++, slices[i]);
  for (int32_t i = 0; i < r->captured_count; i++)
    bind_input(w, next++, r->arguments[r->first_captured + i]);
}

/* Writes the body and takes its outputs: the condition, the states, and the rows. */
static bool write_body(hlo_write_t *w, const repeat_t *r, const hlo_val_t *slices,
                       const hlo_val_t *row_types, hlo_val_t *next, hlo_val_t *rows) {
  int32_t output = 0;
  const outside_t outside = enter_body(w, r->body);
  bind_inputs(w, r, slices);
  if (!hlo_write_stopped(w)) w->write_nodes(w);
  if (r->has_condition) next[1] = take_output(w, 0, &r->arguments[1]);
  output += !r->is_scan;
  for (int32_t i = 0; i < r->state_count; i++)
    next[r->first_state + i] = take_output(w, output++, &r->arguments[r->first_state + i]);
  for (int32_t i = 0; i < r->stacked_count; i++)
    rows[i] = take_output(w, output++, &row_types[i]);
  return leave_body(w, &outside);
}

static void write_step(hlo_write_t *w, repeat_t *r) {
  hlo_val_t *slices = take_values(w, r->scan_count);
  hlo_val_t *row_types = take_values(w, r->stacked_count);
  hlo_val_t *rows = take_values(w, r->stacked_count);
  hlo_val_t *next = take_values(w, r->count);
  if (hlo_write_stopped(w)) return;
  print_arguments(w, r->arguments, r->count);
  for (int32_t i = 0; i < r->count; i++)
    next[i] = r->arguments[i];
  for (int32_t i = 0; i < r->scan_count; i++) {
    int32_t axis = hlo_axis(w, listed(w, "input_axes", i), r->operands[r->first_scan + i].ndim);
    slices[i] = take_slice(w, r, i, axis, position_of(w, r, "input_reverse", i));
  }
  for (int32_t i = 0; i < r->stacked_count; i++)
    row_types[i] = row_type(&r->operands[r->first_stacked + i], stacked_axis(w, r, i));
  if (!write_body(w, r, slices, row_types, next, rows)) return;
  for (int32_t i = 0; i < r->stacked_count; i++)
    next[r->first_stacked + i] =
        put_row(w, r, i, rows[i], stacked_axis(w, r, i), position_of(w, r, "output_reverse", i));
  next[0] = hlo_binary(w, "stablehlo.add", r->arguments[0], hlo_whole_number(w, 1));
  print_return(w, next, r->count);
}

/* The results of the node: those of the operation that are states or stacked. */
static void give_results(hlo_write_t *w, const repeat_t *r, const hlo_val_t *values) {
  for (int32_t i = 0; i < w->node.output_count; i++)
    hlo_give_val(w, i, values[r->first_state + i]);
}

/* Checks that states keep the types that inference found for the results. */
static void check_states(hlo_write_t *w, const repeat_t *r) {
  for (int32_t i = 0; i < r->state_count && !hlo_write_stopped(w); i++) {
    const hlo_val_t type = hlo_result(w, i);
    const hlo_val_t *state = &r->operands[r->first_state + i];
    if (hlo_write_stopped(w) || (hlo_same_shape(&type, state) &&
                                 tenon_dtype_id(type.dtype) == tenon_dtype_id(state->dtype)))
      continue;
    hlo_write_missing(w, "iterations change the shape or the dtype of state %d", (int)i);
  }
}

static void write_while(hlo_write_t *w, repeat_t *r) {
  const int32_t most = 4 + w->node.output_count + r->scan_count + r->captured_count;
  r->operands = take_values(w, most);
  r->arguments = take_values(w, most);
  r->results = take_values(w, most);
  if (hlo_write_stopped(w)) return;
  list_operands(w, r);
  check_states(w, r);
  if (hlo_write_stopped(w)) return;
  if (r->trips == 0) {
    give_results(w, r, r->operands);
    return;
  }
  for (int32_t i = 0; i < r->count; i++) {
    r->arguments[i] = r->operands[i];
    r->results[i] = r->operands[i];
  }
  print_begin(w, "stablehlo.while", r->results, r->count, r->operands, r->count);
  write_condition(w, r);
  fprintf(w->out, "    }, {\n");
  write_step(w, r);
  print_end(w, r->results, r->count, r->operands, r->count);
  give_results(w, r, r->results);
}

static void write_loop(hlo_write_t *w) {
  repeat_t r = {.body = body_of(w, "body")};
  if (r.body && read_loop(w, &r)) write_while(w, &r);
}

static void write_scan(hlo_write_t *w) {
  repeat_t r = {.body = body_of(w, "body"), .trips = -1};
  if (r.body && read_scan(w, &r)) write_while(w, &r);
}

static const hlo_write_row_t rows[] = {
    {"if", NULL, write_if},
    {"loop", NULL, write_loop},
    {"scan", NULL, write_scan},
};

HLO_WRITE_ROWS(hlo_write_rows_control);
