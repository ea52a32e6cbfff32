/* Control flow as ordinary operators: if, loop and scan, whose bodies are graphs. Importers create
 * them from ONNX's If, Loop and Scan. Outer values that a body uses are the inputs `captured`,
 * which are the last inputs of the body. Result types cannot be inferred here, so the attributes
 * `dtypes` (values of tenon_dtype_id(), 0: unknown) and `ranks` (-1: unknown) state them. The
 * kernels are for the CPU, so a call on a device falls back: bodies run on the host.
 * Invariant: a body gets fresh tensors and never sees one that a later iteration changes. */
#include <string.h>
#include <tenon/op.h>

#include "axes.h"

typedef struct tensors_t { /* growable list */
  tenon_tensor_t **items;
  int64_t count;
  int64_t capacity;
} tensors_t;

static tenon_status_t tensors_add(tenon_call_t *call, tensors_t *list, tenon_tensor_t *tensor) {
  if (list->count == list->capacity) {
    int64_t capacity = list->capacity ? 2 * list->capacity : 16;
    tenon_tensor_t **items = call->host->allocate(call, (uint64_t)capacity * sizeof *items);
    if (!items) return TENON_MEMORY;
    if (list->count) memcpy(items, list->items, (size_t)list->count * sizeof *items);
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->count++] = tensor;
  return TENON_OK;
}

static tenon_tensor_t **allocate_inputs(tenon_call_t *call, int64_t count) {
  tenon_tensor_t **items = call->host->allocate(call, (uint64_t)(count + 1) * sizeof *items);
  if (items) memset(items, 0, (size_t)(count + 1) * sizeof *items);
  return items;
}

static void release_all(tenon_call_t *call, tenon_tensor_t *const *tensors, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    call->host->release(call, tensors[i]);
}

static void put_list(tenon_tensor_t **inputs, int64_t at, const tenon_tensor_t *list) {
  for (int64_t i = 0; i < list->shape[0]; i++)
    inputs[at + i] = tenon_item(list, i);
}

/* Assigns these tensors as the items of the only result, a list. */
static tenon_status_t assign_items(tenon_call_t *call, tenon_tensor_t **items) {
  tenon_tensor_t list = *call->outputs[0];
  list.data = items;
  return call->host->assign(call, 0, &list);
}

/* Reads the only element of an input in host memory. */
static tenon_status_t read_scalar(tenon_call_t *call, const tenon_tensor_t *tensor,
                                  int64_t *out_value) {
  if (tenon_count(tensor) != 1)
    return tenon_fail(call, TENON_INVALID, "expected one element, found %" PRId64,
                      tenon_count(tensor));
  *out_value =
      tensor->dtype.bits == 8 ? *(const uint8_t *)tensor->data != 0 : tensor_int(tensor, 0);
  return TENON_OK;
}

/* inference: the attributes state the results */

static tenon_status_t state_results(tenon_infer_t *infer, const tenon_value_t *count,
                                    const tenon_value_t *dtypes, const tenon_value_t *ranks) {
  tenon_meta_t *list = infer->outputs[0];
  for (uint32_t i = 0; list && i < list->count && i < (uint32_t)count->as.i; i++) {
    tenon_meta_t *out = list->items[i];
    int64_t rank = i < ranks->count ? ranks->as.ints[i] : -1;
    if (!out) continue;
    if (i < dtypes->count) out->dtype = tenon_dtype((uint32_t)dtypes->as.ints[i]);
    TENON_TRY(out_unknown(infer, out, rank < 0 || rank > TENON_RANK_MAX ? -1 : (int32_t)rank));
  }
  return TENON_OK;
}

/* if */

enum {
  IF_THEN,
  IF_ELSE,
  IF_COUNT,
  IF_DTYPES,
  IF_RANKS,
};

static tenon_status_t if_infer(tenon_infer_t *infer) {
  return state_results(infer, &infer->attrs[IF_COUNT], &infer->attrs[IF_DTYPES],
                       &infer->attrs[IF_RANKS]);
}

static tenon_status_t if_run(tenon_call_t *call) {
  int64_t condition = 0;
  int64_t count = call->attrs[IF_COUNT].as.i;
  tenon_tensor_t **results = allocate_inputs(call, count);
  if (!results) return TENON_MEMORY;
  TENON_TRY(read_scalar(call, call->inputs[0], &condition));
  const tenon_graph_t *graph = call->attrs[condition ? IF_THEN : IF_ELSE].as.graph;
  TENON_TRY(call->host->evaluate(call, graph, (uint32_t)call->inputs[1]->shape[0],
                                 (tenon_tensor_t *const *)call->inputs[1]->data, (uint32_t)count,
                                 results));
  return assign_items(call, results);
}

/* iterations: shared by loop and scan */

/* Stacks the tensors of all iterations along a new first axis. Without iterations the result is
 * empty. */
static tenon_status_t stack_iterations(tenon_call_t *call, const tensors_t *rounds,
                                       const tenon_value_t *dtypes, const tenon_value_t *ranks,
                                       int64_t index, tenon_tensor_t **out_tensor) {
  int64_t shape[TENON_RANK_MAX] = {0};
  int64_t bytes = 1;
  tenon_dtype_t dtype = tenon_dtype(TENON_F32);
  int32_t ndim = 1;
  if (rounds->count) {
    const tenon_tensor_t *first = rounds->items[0];
    if (tenon_dtype_id(first->dtype) == TENON_LIST)
      return tenon_fail(call, TENON_INVALID,
                        "result %" PRId64 " of each iteration is a list: expected a tensor, since "
                        "these results are stacked",
                        index);
    if (first->ndim == TENON_RANK_MAX)
      return tenon_fail(
          call, TENON_INVALID,
          "results cannot be stacked: they already have the maximum number of dimensions");
    dtype = first->dtype;
    ndim = first->ndim + 1;
    shape[0] = rounds->count;
    bytes = tenon_count(first);
    for (int32_t i = 1; i < ndim; i++)
      shape[i] = first->shape[i - 1];
  } else {
    if (index < dtypes->count && dtypes->as.ints[index])
      dtype = tenon_dtype((uint32_t)dtypes->as.ints[index]);
    if (index < ranks->count && ranks->as.ints[index] > 0) ndim = (int32_t)ranks->as.ints[index];
  }
  tenon_tensor_t *all = *out_tensor = call->host->temporary(call, dtype, ndim, shape);
  if (!all) return TENON_MEMORY;
  for (int64_t i = 0; i < rounds->count; i++) {
    tenon_tensor_t *from = rounds->items[i];
    int same = from->ndim == ndim - 1 && tenon_dtype_id(from->dtype) == tenon_dtype_id(dtype);
    for (int32_t k = 0; same && k < from->ndim; k++)
      same = from->shape[k] == shape[k + 1];
    if (!same)
      return tenon_fail(call, TENON_INVALID,
                        "result %" PRId64 " of iteration %" PRId64
                        " has another shape or dtype than in earlier iterations; results of all "
                        "iterations are stacked into one tensor",
                        index, i);
    tenon_tensor_t *to =
        call->host->view(call, all, i * bytes, ndim - 1, shape + 1, all->strides + 1);
    if (!to) return TENON_MEMORY;
    TENON_TRY(call->host->invoke(call, call->uses[0], NULL, &from, &to));
    call->host->release(call, to);
  }
  return TENON_OK;
}

/* loop */

enum {
  LOOP_BODY,
  LOOP_COUNT,
  LOOP_DTYPES,
  LOOP_RANKS,
};
enum {
  LOOP_STATES,
  LOOP_CAPTURED,
  LOOP_TRIPS,
  LOOP_CONDITION,
};

static tenon_status_t loop_infer(tenon_infer_t *infer) {
  return state_results(infer, &infer->attrs[LOOP_COUNT], &infer->attrs[LOOP_DTYPES],
                       &infer->attrs[LOOP_RANKS]);
}

static tenon_status_t loop_run(tenon_call_t *call) {
  const tenon_tensor_t *states = call->inputs[LOOP_STATES];
  const tenon_tensor_t *captured = call->inputs[LOOP_CAPTURED];
  int64_t count = call->attrs[LOOP_COUNT].as.i;
  int64_t state_count = states->shape[0];
  int64_t more = INT64_MAX;
  int64_t go_on = 1;
  tenon_tensor_t **inputs = allocate_inputs(call, 2 + state_count + captured->shape[0]);
  tenon_tensor_t **current = allocate_inputs(call, count);
  tenon_tensor_t **results = allocate_inputs(call, 1 + count);
  tenon_tensor_t *condition = call->inputs[LOOP_CONDITION];
  tensors_t *rounds = call->host->allocate(call, (uint64_t)(count + 1) * sizeof *rounds);
  if (!inputs || !current || !results || !rounds) return TENON_MEMORY;
  if (count < state_count)
    return tenon_fail(call, TENON_INVALID,
                      "`count` is smaller than the number of states; it must count the states and "
                      "the stacked results");
  memset(rounds, 0, (size_t)(count + 1) * sizeof *rounds);
  if (call->inputs[LOOP_TRIPS]) TENON_TRY(read_scalar(call, call->inputs[LOOP_TRIPS], &more));
  if (condition)
    TENON_TRY(read_scalar(call, condition, &go_on));
  else if (!(condition = call->host->temporary(call, tenon_dtype(TENON_BOOL), 0, NULL)))
    return TENON_MEMORY;
  if (!call->inputs[LOOP_CONDITION]) *(uint8_t *)condition->data = 1;
  put_list(current, 0, states);
  put_list(inputs, 2 + state_count, captured);
  for (int64_t round = 0; round < more && go_on; round++) {
    inputs[0] = call->host->temporary(call, tenon_dtype(TENON_I64), 0, NULL);
    if (!inputs[0]) return TENON_MEMORY;
    *(int64_t *)inputs[0]->data = round;
    inputs[1] = condition;
    memset(results, 0, (size_t)(1 + count) * sizeof *results);
    if (state_count) memcpy(inputs + 2, current, (size_t)state_count * sizeof *inputs);
    TENON_TRY(call->host->evaluate(call, call->attrs[LOOP_BODY].as.graph,
                                   (uint32_t)(2 + state_count + captured->shape[0]), inputs,
                                   (uint32_t)(1 + count), results));
    TENON_TRY(read_scalar(call, condition = results[0], &go_on));
    release_all(call, inputs, round ? 2 + state_count : 1); /* The first states are the caller's. */
    if (state_count) memcpy(current, results + 1, (size_t)state_count * sizeof *current);
    for (int64_t i = state_count; i < count; i++)
      TENON_TRY(tensors_add(call, &rounds[i], results[1 + i]));
  }
  for (int64_t i = state_count; i < count; i++)
    TENON_TRY(stack_iterations(call, &rounds[i], &call->attrs[LOOP_DTYPES],
                               &call->attrs[LOOP_RANKS], i, &current[i]));
  return assign_items(call, current);
}

/* scan */

enum {
  SCAN_BODY,
  SCAN_COUNT,
  SCAN_DTYPES,
  SCAN_RANKS,
  SCAN_INPUT_AXES,
  SCAN_INPUT_REVERSE,
  SCAN_OUTPUT_AXES,
  SCAN_OUTPUT_REVERSE,
};

static tenon_status_t scan_infer(tenon_infer_t *infer) {
  return state_results(infer, &infer->attrs[SCAN_COUNT], &infer->attrs[SCAN_DTYPES],
                       &infer->attrs[SCAN_RANKS]);
}

static int64_t list_element(const tenon_value_t *list, int64_t i) {
  return i < list->count ? list->as.ints[i] : 0;
}

/* Axis of the i-th scanned input, counted from the front. */
static tenon_status_t scan_axis(tenon_call_t *call, int64_t i, int32_t *out_axis) {
  const tenon_tensor_t *x = tenon_item(call->inputs[1], i);
  return axis_wrap(call, list_element(&call->attrs[SCAN_INPUT_AXES], i), x->ndim, out_axis);
}

static tenon_status_t scan_length(tenon_call_t *call, int64_t *out_length) {
  for (int64_t i = 0; i < call->inputs[1]->shape[0]; i++) {
    int32_t axis = 0;
    TENON_TRY(scan_axis(call, i, &axis));
    int64_t extent = tenon_item(call->inputs[1], i)->shape[axis];
    if (i && extent != *out_length)
      return tenon_fail(call, TENON_INVALID,
                        "scanned inputs must have equal extents along their axes, but have %" PRId64
                        " and %" PRId64 "",
                        *out_length, extent);
    *out_length = extent;
  }
  return TENON_OK;
}

/* The slice of the i-th scanned input for one iteration. */
static tenon_status_t scan_slice(tenon_call_t *call, int64_t i, int64_t round, int64_t length,
                                 tenon_tensor_t **out_slice) {
  const tenon_tensor_t *x = tenon_item(call->inputs[1], i);
  int64_t shape[TENON_RANK_MAX], strides[TENON_RANK_MAX];
  int64_t at = list_element(&call->attrs[SCAN_INPUT_REVERSE], i) ? length - 1 - round : round;
  int32_t axis = 0;
  int32_t ndim = 0;
  TENON_TRY(scan_axis(call, i, &axis));
  for (int32_t k = 0; k < x->ndim; k++)
    if (k != axis) {
      shape[ndim] = x->shape[k];
      strides[ndim++] = x->strides[k];
    }
  *out_slice = call->host->view(call, x, at * x->strides[axis], ndim, shape, strides);
  return *out_slice ? TENON_OK : TENON_MEMORY;
}

/* Moves the stacking axis to its output axis and reverses it if requested. */
static tenon_status_t scan_result(tenon_call_t *call, tensors_t *rounds, int64_t index,
                                  int64_t scanned, tenon_tensor_t **out_tensor) {
  int64_t shape[TENON_RANK_MAX], strides[TENON_RANK_MAX];
  int32_t to = 0;
  tenon_tensor_t *all = NULL;
  for (int64_t i = 0;
       list_element(&call->attrs[SCAN_OUTPUT_REVERSE], scanned) && i < rounds->count / 2; i++) {
    tenon_tensor_t *other = rounds->items[i];
    rounds->items[i] = rounds->items[rounds->count - 1 - i];
    rounds->items[rounds->count - 1 - i] = other;
  }
  TENON_TRY(stack_iterations(call, rounds, &call->attrs[SCAN_DTYPES], &call->attrs[SCAN_RANKS],
                             index, &all));
  TENON_TRY(axis_wrap(call, list_element(&call->attrs[SCAN_OUTPUT_AXES], scanned), all->ndim, &to));
  for (int32_t k = 0; k < all->ndim; k++) {
    int32_t from = k < to ? k + 1 : k;
    if (k == to) from = 0;
    shape[k] = all->shape[from];
    strides[k] = all->strides[from];
  }
  *out_tensor = to ? call->host->view(call, all, 0, all->ndim, shape, strides) : all;
  return *out_tensor ? TENON_OK : TENON_MEMORY;
}

static tenon_status_t scan_run(tenon_call_t *call) {
  const tenon_tensor_t *states = call->inputs[0];
  const tenon_tensor_t *scans = call->inputs[1];
  const tenon_tensor_t *captured = call->inputs[2];
  int64_t count = call->attrs[SCAN_COUNT].as.i;
  int64_t state_count = states->shape[0];
  int64_t scan_count = scans->shape[0];
  int64_t length = 0;
  tenon_tensor_t **inputs = allocate_inputs(call, state_count + scan_count + captured->shape[0]);
  tenon_tensor_t **current = allocate_inputs(call, count);
  tenon_tensor_t **results = allocate_inputs(call, count);
  tensors_t *rounds = call->host->allocate(call, (uint64_t)(count + 1) * sizeof *rounds);
  if (!inputs || !current || !results || !rounds) return TENON_MEMORY;
  if (count < state_count)
    return tenon_fail(call, TENON_INVALID,
                      "`count` is smaller than the number of states; it must count the states and "
                      "the scanned results");
  memset(rounds, 0, (size_t)(count + 1) * sizeof *rounds);
  TENON_TRY(scan_length(call, &length));
  put_list(current, 0, states);
  put_list(inputs, state_count + scan_count, captured);
  for (int64_t round = 0; round < length; round++) {
    memset(results, 0, (size_t)count * sizeof *results);
    if (state_count) memcpy(inputs, current, (size_t)state_count * sizeof *inputs);
    for (int64_t i = 0; i < scan_count; i++)
      TENON_TRY(scan_slice(call, i, round, length, &inputs[state_count + i]));
    TENON_TRY(call->host->evaluate(call, call->attrs[SCAN_BODY].as.graph,
                                   (uint32_t)(state_count + scan_count + captured->shape[0]),
                                   inputs, (uint32_t)count, results));
    release_all(call, inputs + state_count, scan_count);
    if (round) release_all(call, inputs, state_count); /* The first states are the caller's. */
    if (state_count) memcpy(current, results, (size_t)state_count * sizeof *current);
    for (int64_t i = state_count; i < count; i++)
      TENON_TRY(tensors_add(call, &rounds[i], results[i]));
  }
  for (int64_t i = state_count; i < count; i++)
    TENON_TRY(scan_result(call, &rounds[i], i, i - state_count, &current[i]));
  return assign_items(call, current);
}

/* list_map */

enum {
  MAP_BODY,
  MAP_COUNT,
};

static int is_list_value(const tenon_tensor_t *t) { return tenon_dtype_id(t->dtype) == TENON_LIST; }

static tenon_status_t map_infer(tenon_infer_t *infer) {
  tenon_meta_t *list = infer->outputs[0];
  for (uint32_t i = 0; list && i < list->count; i++) {
    if (!list->items[i]) continue;
    list->items[i]->dtype = tenon_dtype(TENON_LIST);
    TENON_TRY(out_unknown(infer, list->items[i], 1));
  }
  return TENON_OK;
}

/* The number of items of the lists among the inputs, which must be equal. */
static tenon_status_t map_length(tenon_call_t *call, int64_t *out_length) {
  const tenon_tensor_t *xs = call->inputs[0];
  *out_length = -1;
  for (int64_t i = 0; i < xs->shape[0]; i++) {
    const tenon_tensor_t *x = tenon_item(xs, i);
    if (!is_list_value(x)) continue;
    if (*out_length >= 0 && x->shape[0] != *out_length)
      return tenon_fail(call, TENON_INVALID,
                        "the lists must have equal numbers of items, but have %" PRId64
                        " and %" PRId64,
                        *out_length, x->shape[0]);
    *out_length = x->shape[0];
  }
  if (*out_length >= 0) return TENON_OK;
  return tenon_fail(call, TENON_INVALID, "no input is a list: expected at least one");
}

/* Gives the tensors of all rounds as lists, one for each result of the body. */
static tenon_status_t assign_lists(tenon_call_t *call, const tensors_t *rounds, int64_t count) {
  static int64_t stride = 1;
  tenon_tensor_t *lists = call->host->allocate(call, (uint64_t)(count + 1) * sizeof *lists);
  tenon_tensor_t **items = allocate_inputs(call, count);
  int64_t *lengths = call->host->allocate(call, (uint64_t)(count + 1) * sizeof *lengths);
  if (!lists || !items || !lengths) return TENON_MEMORY;
  for (int64_t i = 0; i < count; i++) {
    lengths[i] = rounds[i].count;
    lists[i] = (tenon_tensor_t){.data = rounds[i].items,
                                .device = {1, 0},
                                .ndim = 1,
                                .dtype = tenon_dtype(TENON_LIST),
                                .shape = &lengths[i],
                                .strides = &stride};
    items[i] = &lists[i];
  }
  return assign_items(call, items);
}

static tenon_status_t map_run(tenon_call_t *call) {
  const tenon_tensor_t *xs = call->inputs[0];
  const tenon_tensor_t *captured = call->inputs[1];
  const int64_t count = call->attrs[MAP_COUNT].as.i;
  const int64_t inputs_count = xs->shape[0] + captured->shape[0];
  int64_t length = 0;
  tenon_tensor_t **inputs = allocate_inputs(call, inputs_count);
  tenon_tensor_t **results = allocate_inputs(call, count);
  tensors_t *rounds = call->host->allocate(call, (uint64_t)(count + 1) * sizeof *rounds);
  if (!inputs || !results || !rounds) return TENON_MEMORY;
  memset(rounds, 0, (size_t)(count + 1) * sizeof *rounds);
  TENON_TRY(map_length(call, &length));
  put_list(inputs, 0, xs);
  put_list(inputs, xs->shape[0], captured);
  for (int64_t round = 0; round < length; round++) {
    for (int64_t i = 0; i < xs->shape[0]; i++)
      if (is_list_value(tenon_item(xs, i))) inputs[i] = tenon_item(tenon_item(xs, i), round);
    memset(results, 0, (size_t)count * sizeof *results);
    TENON_TRY(call->host->evaluate(call, call->attrs[MAP_BODY].as.graph, (uint32_t)inputs_count,
                                   inputs, (uint32_t)count, results));
    for (int64_t i = 0; i < count; i++)
      TENON_TRY(tensors_add(call, &rounds[i], results[i]));
  }
  return assign_lists(call, rounds, count);
}

#define RESULTS "int count, int[] dtypes=[], int[] ranks=[]"

/* clang-format off */
TENON_ITEMS(core_control,
  TENON_OP("if(Tensor @host condition, Tensor[] captured, *, graph then, graph else, " RESULTS
           ") -> Tensor[count]",
    TENON_DOC("Evaluates one of two graphs, both of which take `captured`, and gives its results."),
    TENON_TYPES("condition: bool; captured = ?; out = ?"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(if_infer),
    TENON_KERNEL("cpu strided quantised", if_run)),
  TENON_OP("loop(Tensor[] states, Tensor[] captured, Tensor? @host trips=None, "
           "Tensor? @host condition=None, *, graph body, " RESULTS ") -> Tensor[count]",
    TENON_DOC("Evaluates body(iteration, condition, states, captured) -> (condition, states, "
              "more) until the condition is\n"
              "false or `trips` iterations are done. Gives the final states, "
              "then the `more` of all iterations, stacked along\na new first axis."),
    TENON_TYPES("states = ?; captured = ?; trips: i64|i32; condition: bool; out = ?"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(loop_infer),
    TENON_USES("core::contiguous"),
    TENON_KERNEL("cpu strided quantised", loop_run)),
  TENON_OP("scan(Tensor[] states, Tensor[] scans, Tensor[] captured, *, graph body, " RESULTS
           ", int[] input_axes=[], int[] input_reverse=[], int[] output_axes=[], "
           "int[] output_reverse=[]) -> Tensor[count]",
    TENON_DOC("Evaluates body(states, slices, captured) -> (states, "
              "more) for the slices of `scans` along their axes,\n"
              "backwards where input_reverse is 1. Gives the final states, "
              "then the `more` of all iterations stacked along\noutput_axes."),
    TENON_TYPES("states = ?; scans = ?; captured = ?; out = ?"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(scan_infer),
    TENON_USES("core::contiguous"),
    TENON_KERNEL("cpu strided quantised", scan_run)),
  TENON_OP("list_map(Tensor[] xs, Tensor[] captured, *, graph body, int count) -> Tensor[count]",
    TENON_DOC("Evaluates body(items, captured) for the items of the lists among `xs`, at one "
              "position after the other;\ntensors among `xs` are given to each evaluation. "
              "Gives the results as lists."),
    TENON_TYPES("xs = ?; captured = ?; out = ?"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(map_infer),
    TENON_KERNEL("cpu strided quantised", map_run)))
/* clang-format on */
