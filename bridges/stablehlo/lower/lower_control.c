/* Lowers operations with regions that run a number of times which depends on data: while, if and
 * case; calls of functions; and regions that are applied to elements. Complex values are carried as
 * two tensors, tokens as none. */
#include <string.h>

#include "lower/arguments.h"
#include "lower/body.h"
#include "lower/expression.h"
#include "lower/lower.h"
#include "lower/region.h"
#include "lower/scan.h"

/* values as lists of edges */

static void add_parts(const hlo_bound_t *bound, const hlo_type_t *type, tenon_edge_t *edges,
                      int32_t *count) {
  if (hlo_part_count(type) > 0) edges[(*count)++] = bound->edge;
  if (hlo_part_count(type) > 1) edges[(*count)++] = bound->imaginary;
}

static hlo_bound_t take_parts(const hlo_type_t *type, const tenon_edge_t *edges, int32_t *next) {
  hlo_bound_t bound = hlo_real(EDGE_NONE);
  if (hlo_part_count(type) > 0) bound.edge = edges[(*next)++];
  if (hlo_part_count(type) > 1) bound.imaginary = edges[(*next)++];
  return bound;
}

static const hlo_type_t **result_types(hlo_lower_t *lower) {
  const hlo_type_t **types = hlo_lower_take(lower, (size_t)lower->op->result_count, sizeof *types);
  for (int32_t i = 0; types && i < lower->op->result_count; i++)
    types[i] = lower->op->results[i]->type;
  return types;
}

static void give_parts(hlo_lower_t *lower, hlo_edges_t edges) {
  int32_t next = 0;
  for (int32_t i = 0; i < lower->op->result_count && !hlo_stopped(lower); i++)
    hlo_give_bound(lower, i, take_parts(hlo_result_type(lower, i), edges.edges, &next));
}

/* if and case */

/* Builds the graph of one branch. The captured values are the same for all branches. */
static tenon_graph_t *build_branch(hlo_lower_t *lower, hlo_body_t *body,
                                   const hlo_region_t *region) {
  int32_t count = lower->op->result_count;
  int32_t edge_count = 0;
  hlo_bound_t *results = hlo_lower_take(lower, (size_t)count, sizeof *results);
  tenon_edge_t *edges = hlo_lower_take(lower, 2 * (size_t)count, sizeof *edges);
  hlo_body_begin(lower, body);
  hlo_body_capture(lower, body);
  if (results && edges && hlo_inline_region(lower, region, NULL, 0, results, count))
    for (int32_t i = 0; i < count; i++)
      add_parts(&results[i], hlo_result_type(lower, i), edges, &edge_count);
  for (int32_t i = 0; i < edge_count; i++)
    hlo_body_output(lower, edges[i]);
  return hlo_body_finish(lower, body);
}

static hlo_edges_t call_if(hlo_lower_t *lower, tenon_edge_t condition, const hlo_edges_t *captured,
                           tenon_graph_t *yes, tenon_graph_t *no) {
  const tenon_op_t *op = NULL;
  tenon_attrs_t *attrs = NULL;
  const hlo_type_t **types = result_types(lower);
  hlo_edges_t operands[2] = {{&condition, 1, false}, *captured};
  if (hlo_stopped(lower) || hlo_has_failed(lower, tenon_op_find("core::if", &op)) ||
      hlo_has_failed(lower, tenon_attrs_create(op, &attrs))) {
    tenon_graph_release(yes);
    tenon_graph_release(no);
    return (hlo_edges_t){NULL, 0, false};
  }
  hlo_set_graph(lower, attrs, "then", yes);
  hlo_set_graph(lower, attrs, "else", no);
  hlo_set_results(lower, attrs, types, lower->op->result_count);
  return hlo_call(lower, op, attrs, operands, 2, 0);
}

static void lower_if(hlo_lower_t *lower) {
  const hlo_region_t *yes = hlo_region(lower, 0);
  const hlo_region_t *no = hlo_region(lower, 1);
  hlo_body_t body = {0};
  tenon_edge_t condition = hlo_edge(lower, 0);
  if (!yes || !no || hlo_stopped(lower)) return;
  hlo_body_collect(lower, &body, yes);
  hlo_body_collect(lower, &body, no);
  tenon_graph_t *then_graph = build_branch(lower, &body, yes);
  tenon_graph_t *else_graph = build_branch(lower, &body, no);
  hlo_edges_t captured = {body.captured, body.captured_count, true};
  give_parts(lower, call_if(lower, condition, &captured, then_graph, else_graph));
}

/* Builds a graph that chooses among the branches from `first` on. Its inputs are the index and the
 * captured values, which its own branches capture again. */
static tenon_graph_t *build_choice(hlo_lower_t *lower, hlo_body_t *body, int32_t first,
                                   tenon_edge_t index, const hlo_type_t *index_type);

/* Adds the node that runs branch `first` if the index equals its number, else one of the others. */
static hlo_edges_t choose_branch(hlo_lower_t *lower, const hlo_body_t *outer, int32_t first,
                                 tenon_edge_t index, const hlo_type_t *index_type) {
  hlo_body_t body = {.values = outer->values, .count = outer->count};
  int32_t last = lower->op->region_count - 1;
  tenon_edge_t condition = hlo_run(lower, EDGES(index), "equal(a, %d:a)", (int)first);
  const hlo_region_t *region = hlo_region(lower, first);
  if (!region || hlo_stopped(lower)) return (hlo_edges_t){NULL, 0, false};
  tenon_graph_t *yes = build_choice(lower, &body, -1 - first, index, index_type);
  tenon_graph_t *no =
      build_choice(lower, &body, first + 1 == last ? -1 - last : first + 1, index, index_type);
  int32_t count = body.captured_count + 1;
  tenon_edge_t *edges = hlo_lower_take(lower, (size_t)count, sizeof *edges);
  if (edges && body.captured_count)
    memcpy(edges + 1, body.captured, (size_t)body.captured_count * sizeof *edges);
  if (edges) edges[0] = index;
  hlo_edges_t captured = {edges, count, true};
  return call_if(lower, condition, &captured, yes, no);
}

static tenon_graph_t *build_choice(hlo_lower_t *lower, hlo_body_t *body, int32_t first,
                                   tenon_edge_t index, const hlo_type_t *index_type) {
  int32_t count = lower->op->result_count;
  int32_t edge_count = 0;
  hlo_bound_t *results = hlo_lower_take(lower, (size_t)count, sizeof *results);
  tenon_edge_t *edges = hlo_lower_take(lower, 2 * (size_t)count, sizeof *edges);
  hlo_body_begin(lower, body);
  tenon_edge_t inner = hlo_body_input(lower, body->outer, index, index_type);
  hlo_body_capture(lower, body);
  if (first >= 0) {
    hlo_edges_t chosen = choose_branch(lower, body, first, inner, index_type);
    for (int32_t i = 0; i < chosen.count; i++)
      hlo_body_output(lower, chosen.edges[i]);
    return hlo_body_finish(lower, body);
  }
  const hlo_region_t *region = hlo_region(lower, -1 - first);
  if (results && edges && hlo_inline_region(lower, region, NULL, 0, results, count))
    for (int32_t i = 0; i < count; i++)
      add_parts(&results[i], hlo_result_type(lower, i), edges, &edge_count);
  for (int32_t i = 0; i < edge_count; i++)
    hlo_body_output(lower, edges[i]);
  return hlo_body_finish(lower, body);
}

static void lower_case(hlo_lower_t *lower) {
  hlo_body_t body = {0};
  int32_t count = lower->op->region_count;
  tenon_edge_t index = hlo_edge(lower, 0);
  if (count > 60) hlo_missing(lower, "more than 60 branches");
  for (int32_t i = 0; i < count && !hlo_stopped(lower); i++) {
    const hlo_region_t *region = hlo_region(lower, i);
    if (region) hlo_body_collect(lower, &body, region);
  }
  if (!hlo_region(lower, 0) || hlo_stopped(lower)) return;
  if (count == 1) {
    hlo_bound_t *results = hlo_lower_take(lower, (size_t)lower->op->result_count, sizeof *results);
    if (!results ||
        !hlo_inline_region(lower, hlo_region(lower, 0), NULL, 0, results, lower->op->result_count))
      return;
    for (int32_t i = 0; i < lower->op->result_count; i++)
      hlo_give_bound(lower, i, results[i]);
    return;
  }
  give_parts(lower, choose_branch(lower, &body, 0, index, hlo_operand_type(lower, 0)));
}

/* while */

typedef struct loop_t {
  const hlo_region_t *condition;
  const hlo_region_t *step;
  bool *is_fixed;       /* States that each step returns as they are. */
  hlo_bound_t *current; /* The values of the states inside. */
  tenon_edge_t *states; /* Their edges outside, of those that are carried. */
  int32_t state_count;
  const hlo_type_t **types; /* Of the states that are carried, then of those that are stacked. */
  int32_t type_count;
  hlo_body_t body;
  hlo_scan_t scan;
} loop_t;

static bool is_stacked(const loop_t *loop, int32_t index) {
  return loop->scan.writes && loop->scan.writes[index].is_stacked;
}

static bool is_carried(const loop_t *loop, int32_t index) {
  return !loop->is_fixed[index] && !is_stacked(loop, index);
}

static bool read_loop(hlo_lower_t *lower, loop_t *loop) {
  int32_t count = lower->op->operand_count;
  loop->condition = hlo_region(lower, 0);
  loop->step = hlo_region(lower, 1);
  loop->is_fixed = hlo_lower_take(lower, (size_t)count, sizeof *loop->is_fixed);
  loop->current = hlo_lower_take(lower, (size_t)count, sizeof *loop->current);
  loop->states = hlo_lower_take(lower, 2 * (size_t)count, sizeof *loop->states);
  loop->types = hlo_lower_take(lower, (size_t)count, sizeof *loop->types);
  if (hlo_stopped(lower)) return false;
  if (loop->step->arg_count != count || loop->condition->arg_count != count ||
      loop->step->last->operand_count != count || lower->op->result_count != count)
    hlo_wrong(lower, "expected regions with %d arguments, and as many results", (int)count);
  for (int32_t i = 0; i < count && !hlo_stopped(lower); i++) {
    loop->is_fixed[i] = loop->step->last->operands[i] == loop->step->args[i];
    if (!hlo_type_equal(hlo_operand_type(lower, i), hlo_result_type(lower, i)))
      hlo_wrong(lower, "result %d has another type than its operand", (int)i);
    if (hlo_operand_type(lower, i)->kind == HLO_TUPLE) hlo_missing(lower, "a tuple as a state");
  }
  return !hlo_stopped(lower);
}

/* Lists the states that are carried, and the types of all results of the loop. A stacked state has
 * one axis more: the rows keep theirs. */
static void list_states(hlo_lower_t *lower, loop_t *loop) {
  int32_t count = lower->op->operand_count;
  loop->state_count = 0;
  loop->type_count = 0;
  for (int32_t i = 0; i < count && !hlo_stopped(lower); i++) {
    if (!is_carried(loop, i)) continue;
    add_parts(hlo_operand(lower, i), hlo_operand_type(lower, i), loop->states, &loop->state_count);
    loop->types[loop->type_count++] = hlo_operand_type(lower, i);
  }
  for (int32_t i = 0; i < count && !hlo_stopped(lower); i++) {
    if (!is_stacked(loop, i)) continue;
    hlo_type_t *type = hlo_lower_take(lower, 1, sizeof *type);
    if (!type) return;
    *type = *hlo_operand_type(lower, i);
    type->ndim++;
    loop->types[loop->type_count++] = type;
  }
}

/* Lowers the condition with the current states. */
static tenon_edge_t loop_condition(hlo_lower_t *lower, const loop_t *loop) {
  hlo_bound_t result = hlo_real(EDGE_NONE);
  (void)hlo_inline_region(lower, loop->condition, loop->current, lower->op->operand_count, &result,
                          1);
  return result.edge;
}

/* Adds the inputs of the body: iteration, condition, states, then what it captures. Fixed states
 * are operands of the operation, which are collected as values from outside. */
static void add_loop_inputs(hlo_lower_t *lower, loop_t *loop) {
  tenon_edge_t unused;
  int32_t next = 0;
  tenon_edge_t *inner = hlo_lower_take(lower, (size_t)loop->state_count, sizeof *inner);
  if (hlo_stopped(lower) ||
      hlo_has_failed(lower, tenon_builder_input(lower->builder, NULL, tenon_dtype(TENON_I64), 0,
                                                NULL, &unused)) ||
      hlo_has_failed(lower, tenon_builder_input(lower->builder, NULL, tenon_dtype(TENON_BOOL), 0,
                                                NULL, &unused)))
    return;
  for (int32_t i = 0, k = 0; i < lower->op->operand_count; i++)
    for (int32_t part = 0; is_carried(loop, i) && part < hlo_part_count(hlo_operand_type(lower, i));
         part++, k++)
      inner[k] =
          hlo_body_input(lower, loop->body.outer, loop->states[k], hlo_operand_type(lower, i));
  hlo_body_capture(lower, &loop->body);
  for (int32_t i = 0; i < lower->op->operand_count && !hlo_stopped(lower); i++) {
    hlo_bound_t *current = &loop->current[i];
    *current = hlo_real(EDGE_NONE);
    if (loop->is_fixed[i])
      *current = *hlo_operand(lower, i);
    else if (is_carried(loop, i))
      *current = take_parts(hlo_operand_type(lower, i), inner, &next);
    if (loop->scan.writes) *current = hlo_scan_state(&loop->scan, i, *current);
  }
}

/* Adds the outputs of the body: states, then rows. */
static void add_loop_outputs(hlo_lower_t *lower, loop_t *loop, const hlo_bound_t *results) {
  int32_t edge_count = 0;
  int32_t count = lower->op->operand_count;
  tenon_edge_t *edges = hlo_lower_take(lower, 2 * (size_t)count, sizeof *edges);
  if (!edges) return;
  for (int32_t i = 0; i < count; i++) {
    if (is_carried(loop, i)) {
      add_parts(&results[i], hlo_operand_type(lower, i), edges, &edge_count);
      loop->current[i] = results[i];
    } else if (is_stacked(loop, i) && !hlo_scan_is_written(&loop->scan, i, &results[i])) {
      loop->scan.writes[i].is_bad = true;
      hlo_wrong(lower, "state %d is not written in each iteration", (int)i);
    }
  }
  hlo_body_output(lower, loop_condition(lower, loop));
  for (int32_t i = 0; i < edge_count; i++)
    hlo_body_output(lower, edges[i]);
  for (int32_t i = 0; i < count && !hlo_stopped(lower); i++)
    if (is_stacked(loop, i)) hlo_body_output(lower, loop->scan.writes[i].update);
}

static tenon_graph_t *build_loop(hlo_lower_t *lower, loop_t *loop) {
  int32_t count = lower->op->operand_count;
  hlo_bound_t *results = hlo_lower_take(lower, (size_t)count, sizeof *results);
  lower->scans += loop->scan.writes != NULL;
  hlo_body_begin(lower, &loop->body);
  loop->scan.builder = lower->builder;
  add_loop_inputs(lower, loop);
  if (results && hlo_inline_region(lower, loop->step, loop->current, count, results, count))
    add_loop_outputs(lower, loop, results);
  lower->scans -= loop->scan.writes != NULL;
  return hlo_body_finish(lower, &loop->body);
}

/* Forgets a failure, and operations that were found missing after `last`. */
static void forget_failure(hlo_lower_t *lower, hlo_missing_t *last, int32_t count) {
  lower->status = TENON_OK;
  lower->is_missing = false;
  lower->missing_count = count;
  if (last)
    last->next = NULL;
  else
    lower->missing = NULL;
}

/* Decides which states are still to be stacked after a failure: those without another use, unless
 * the failure has another reason. */
static bool drop_bad_states(hlo_lower_t *lower, loop_t *loop) {
  bool has_bad = false;
  bool has_any = false;
  for (int32_t i = 0; i < lower->op->operand_count; i++)
    has_bad |= loop->scan.writes[i].is_stacked && loop->scan.writes[i].is_bad;
  for (int32_t i = 0; i < lower->op->operand_count; i++) {
    hlo_row_write_t *write = &loop->scan.writes[i];
    write->is_stacked = write->is_stacked && has_bad && !write->is_bad;
    write->update = EDGE_NONE;
    has_any |= write->is_stacked;
  }
  return has_any;
}

/* Builds the body with stacked rows. If a state that was to be stacked has another use, the body is
 * built again without stacking it. */
static tenon_graph_t *build_scan(hlo_lower_t *lower, loop_t *loop) {
  hlo_missing_t *last = lower->missing;
  int32_t count = lower->missing_count;
  while (last && last->next)
    last = last->next;
  bool has_stacked = hlo_scan_find(lower, &loop->scan);
  for (int attempt = 0; attempt < 3 && has_stacked; attempt++) {
    list_states(lower, loop);
    tenon_graph_t *graph = build_loop(lower, loop);
    if (!hlo_stopped(lower) || lower->status == TENON_MEMORY) return graph;
    has_stacked = drop_bad_states(lower, loop);
    forget_failure(lower, last, count);
  }
  loop->scan.writes = NULL;
  list_states(lower, loop);
  return build_loop(lower, loop);
}

static void collect_loop(hlo_lower_t *lower, loop_t *loop) {
  hlo_op_t fixed = {
      .operands = hlo_lower_take(lower, (size_t)lower->op->operand_count, sizeof *fixed.operands)};
  hlo_region_t region = {.first = &fixed, .last = &fixed, .depth = INT32_MAX};
  hlo_body_collect(lower, &loop->body, loop->condition);
  hlo_body_collect(lower, &loop->body, loop->step);
  if (!fixed.operands) return;
  for (int32_t i = 0; i < lower->op->operand_count; i++)
    if (loop->is_fixed[i]) fixed.operands[fixed.operand_count++] = lower->op->operands[i];
  hlo_body_collect(lower, &loop->body, &region);
}

/* Gives a stacked state: its rows, in the order of the first axis. */
static void give_rows(hlo_lower_t *lower, const loop_t *loop, int32_t index, tenon_edge_t rows) {
  const hlo_type_t *type = hlo_result_type(lower, index);
  rows = hlo_reshape(lower, rows, type->dims, type->ndim);
  if (loop->scan.writes[index].is_reversed)
    rows = hlo_slice(lower, rows, 0, -1, -(INT64_C(1) << 62), -1);
  hlo_give(lower, index, rows);
}

static void give_states(hlo_lower_t *lower, const loop_t *loop, hlo_edges_t edges) {
  int32_t next = 0;
  int32_t count = lower->op->result_count;
  for (int32_t i = 0; i < count && !hlo_stopped(lower); i++) {
    if (loop->is_fixed[i])
      hlo_give_bound(lower, i, *hlo_operand(lower, i));
    else if (is_carried(loop, i))
      hlo_give_bound(lower, i, take_parts(hlo_result_type(lower, i), edges.edges, &next));
  }
  for (int32_t i = 0; i < count && !hlo_stopped(lower); i++)
    if (is_stacked(loop, i)) give_rows(lower, loop, i, edges.edges[next++]);
}

static void lower_while(hlo_lower_t *lower) {
  loop_t *loop = hlo_lower_take(lower, 1, sizeof *loop);
  const tenon_op_t *op = NULL;
  tenon_attrs_t *attrs = NULL;
  if (!loop || !read_loop(lower, loop)) return;
  for (int32_t i = 0; i < lower->op->operand_count; i++)
    loop->current[i] = *hlo_operand(lower, i);
  tenon_edge_t condition = loop_condition(lower, loop);
  collect_loop(lower, loop);
  if (hlo_stopped(lower)) return;
  tenon_graph_t *graph = build_scan(lower, loop);
  if (hlo_stopped(lower) || hlo_has_failed(lower, tenon_op_find("core::loop", &op)) ||
      hlo_has_failed(lower, tenon_attrs_create(op, &attrs))) {
    tenon_graph_release(graph);
    return;
  }
  hlo_set_graph(lower, attrs, "body", graph);
  hlo_set_results(lower, attrs, loop->types, loop->type_count);
  hlo_edges_t operands[4] = {{loop->states, loop->state_count, true},
                             {loop->body.captured, loop->body.captured_count, true},
                             {NULL, 0, false},
                             {&condition, 1, false}};
  give_states(lower, loop, hlo_call(lower, op, attrs, operands, 4, 0));
}

/* calls, and regions for elements */

static void lower_call(hlo_lower_t *lower) {
  hlo_inline_function(lower, hlo_attr_word(lower, "callee", NULL, ""));
}

static void lower_map(hlo_lower_t *lower) {
  int32_t count = lower->op->operand_count;
  const hlo_region_t *region = hlo_region(lower, 0);
  const hlo_type_t *type = hlo_result_type(lower, 0);
  tenon_edge_t *edges = hlo_lower_take(lower, (size_t)count, sizeof *edges);
  tenon_edge_t result = EDGE_NONE;
  for (int32_t i = 0; edges && i < count; i++)
    edges[i] = hlo_edge(lower, i);
  if (!edges || !hlo_inline_elements(lower, region, edges, count, &result, 1)) return;
  hlo_give(lower, 0,
           hlo_type_is_static(type) ? hlo_expand(lower, result, type->dims, type->ndim) : result);
}

static const hlo_row_t rows[] = {
    {"func.call", NULL, NULL, NULL, lower_call, HLO_ELEMENTWISE, NULL},
    {"stablehlo.case", NULL, NULL, NULL, lower_case, 0, NULL},
    {"stablehlo.if", NULL, NULL, NULL, lower_if, 0, NULL},
    {"stablehlo.map", NULL, NULL, NULL, lower_map, 0, NULL},
    {"stablehlo.while", NULL, NULL, NULL, lower_while, 0, NULL},
};

HLO_ROWS(hlo_rows_control);
