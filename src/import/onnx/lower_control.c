/* Lowers If, Loop and Scan to core operators with graphs as attributes. Values that a body uses
 * from outside become explicit inputs after the declared ones, the same inputs for both branches of
 * an If. The known types of the results are stated as attributes, because the operators cannot look
 * into their graphs. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "import/onnx/lower.h"

/* Builds the body that an attribute holds; false on failure, or if it cannot be supported. */
static bool build_body(tn_lower_t *lower, const char *name, tn_ref_t *const *shared,
                       size_t shared_count, tn_body_t *body) {
  tn_attr_t *attr = tn_lower_attr(lower, name);
  const tn_onnx_attribute_t *proto = tn_lower_typed(lower, name, TN_ATTRIBUTE_GRAPH);
  if (!proto || !proto->g) {
    tn_lower_fail(lower, "attribute '%s': expected a graph", name);
    return false;
  }
  if (tn_lower_has_failed(lower, tn_body_build(lower->import, attr->scope, lower->scope->site,
                                               proto->g, shared, shared_count, body)))
    lower->status = tn_prefix(lower->status, "%s: ", name);
  if (lower->import->missing) lower->is_missing = true;
  return lower->status == TENON_OK;
}

static void set_graph(tn_lower_t *lower, tenon_attrs_t *attrs, const char *name, tn_body_t *body) {
  tenon_graph_t *graph = NULL;
  tenon_value_t value = {TENON_KIND_GRAPH, 0, {0}};
  if (lower->status != TENON_OK || tn_lower_has_failed(lower, tn_body_finish(body, &graph))) return;
  value.as.graph = graph;
  (void)tn_lower_has_failed(lower, tenon_attrs_set(attrs, name, &value));
  tenon_graph_release(graph);
}

/* What is known about a result: the dtype as tenon_dtype_id() numbers it, 0 if unknown; the rank,
 * -1 if unknown. */
typedef struct known_t {
  int64_t dtype;
  int64_t rank;
  const tn_ref_t *list; /* a sequence or an optional value of the same type; NULL: a tensor */
} known_t;

static known_t known_of(const tn_ref_t *edge, int32_t more_axes) {
  known_t known = {edge->dtype.bits ? (int64_t)tenon_dtype_id(edge->dtype) : 0, -1, NULL};
  if (edge->ndim >= 0) known.rank = edge->ndim + more_axes;
  if (edge->kind == TN_REF_TENSOR) return known;
  return (known_t){(int64_t)tenon_dtype_id(tenon_dtype(TENON_LIST)), 1, edge};
}

/* What is known about a result that may come from either of two values. */
static known_t known_of_both(known_t a, known_t b) {
  if (!a.dtype) a.dtype = b.dtype;
  if (a.rank != b.rank) a.rank = -1;
  if (!a.list) a.list = b.list;
  return a;
}

static void set_known(tn_lower_t *lower, tenon_attrs_t *attrs, const known_t *known,
                      int32_t count) {
  int64_t *numbers = tn_arena_array(&lower->import->arena, (size_t)count + 1, sizeof *numbers);
  if (!numbers) (void)tn_lower_has_failed(lower, tn_no_memory("a node", 0));
  if (lower->status != TENON_OK) return;
  (void)tn_lower_has_failed(lower, tenon_attrs_int(attrs, "count", count));
  for (int32_t i = 0; i < count; i++)
    numbers[i] = known[i].dtype;
  (void)tn_lower_has_failed(lower, tenon_attrs_ints(attrs, "dtypes", numbers, (uint32_t)count));
  for (int32_t i = 0; i < count; i++)
    numbers[i] = known[i].rank;
  (void)tn_lower_has_failed(lower, tenon_attrs_ints(attrs, "ranks", numbers, (uint32_t)count));
}

static void add_outputs(tn_lower_t *lower, const tenon_op_t *op, tenon_attrs_t *attrs,
                        const known_t *known, const tn_operand_t *operands, int32_t operand_count) {
  int32_t count = 0;
  tn_ref_t **edges = tn_lower_call(lower, op, attrs, operands, operand_count, &count);
  for (int32_t i = 0; edges && i < count && i < lower->output_count; i++) {
    if (known[i].dtype) edges[i]->dtype = tenon_dtype((uint32_t)known[i].dtype);
    edges[i]->ndim = (int32_t)known[i].rank;
    if (known[i].list) tn_ref_like(edges[i], known[i].list);
    lower->outputs[i] = edges[i];
  }
}

static tn_operand_t captured_operand(const tn_body_t *body) {
  return (tn_operand_t){body->site.captured, (int32_t)body->site.captured_count, true};
}

/* Optional values: a body may give a sequence or a tensor where another gives an optional value */

/* Whether `edge` has to become a list of one item, as an optional value of the type of `like`. */
static bool is_wrapped(const tn_ref_t *edge, const tn_ref_t *like) {
  return like->kind == TN_REF_OPTIONAL && edge->kind != TN_REF_OPTIONAL && !edge->is_missing;
}

/* Makes result `i` of a body an optional value. */
static void wrap_result(tn_lower_t *lower, tn_body_t *body, size_t i, const tn_ref_t *like) {
  const tenon_op_t *op = tn_lower_op(lower, "core::optional");
  const tenon_operand_t operand = {1, &body->outputs[i]->id};
  tn_ref_t *edge = tn_ref_new(lower->import, &body->site, body->outputs[i]->name);
  if (!op || !edge) {
    (void)tn_lower_has_failed(lower, op ? TENON_MEMORY : TENON_OK);
    return;
  }
  tn_ref_like(edge, like);
  (void)tn_lower_has_failed(
      lower, tenon_builder_node(body->site.builder, NULL, op, NULL, &operand, &edge->id, 1));
  body->outputs[i] = edge;
}

/* If */

static void build_if(tn_lower_t *lower, const tenon_op_t *op, tenon_attrs_t *attrs, tn_body_t *yes,
                     tn_body_t *no) {
  if (!build_body(lower, "then_branch", NULL, 0, yes) ||
      !build_body(lower, "else_branch", yes->site.captured, yes->site.captured_count, no) ||
      lower->is_missing)
    return;
  size_t count = (size_t)lower->output_count;
  if (yes->graph->inputs.count || no->graph->inputs.count)
    tn_lower_fail(lower, "the branches have %zu and %zu inputs of their own: expected none",
                  yes->graph->inputs.count, no->graph->inputs.count);
  if (yes->graph->outputs.count != count || no->graph->outputs.count != count)
    tn_lower_fail(lower, "the node has %zu outputs, but the branches have %zu and %zu", count,
                  yes->graph->outputs.count, no->graph->outputs.count);
  for (size_t i = 0; i < no->site.captured_count && lower->status == TENON_OK; i++)
    (void)tn_lower_has_failed(lower, tn_body_share(lower->import, yes, no->site.captured[i]));
  known_t *known = tn_arena_array(&lower->import->arena, count + 1, sizeof *known);
  if (!known) (void)tn_lower_has_failed(lower, tn_no_memory("a node", 0));
  if (lower->status != TENON_OK) return;
  for (size_t i = 0; i < count; i++) {
    if (is_wrapped(yes->outputs[i], no->outputs[i])) wrap_result(lower, yes, i, no->outputs[i]);
    if (is_wrapped(no->outputs[i], yes->outputs[i])) wrap_result(lower, no, i, yes->outputs[i]);
  }
  for (size_t i = 0; i < count && lower->status == TENON_OK; i++)
    known[i] = known_of_both(known_of(yes->outputs[i], 0), known_of(no->outputs[i], 0));
  set_graph(lower, attrs, "then", yes);
  set_graph(lower, attrs, "else", no);
  set_known(lower, attrs, known, lower->output_count);
  tn_operand_t operands[] = {{lower->inputs, 1, false}, captured_operand(no)};
  add_outputs(lower, op, attrs, known, operands, 2);
}

static void lower_if(tn_lower_t *lower) {
  tn_body_t yes = {0};
  tn_body_t no = {0};
  tenon_attrs_t *attrs = NULL;
  const tenon_op_t *op = tn_lower_op(lower, "core::if");
  if (!op || tn_lower_has_failed(lower, TENON_OK)) return;
  if (tn_lower_has_failed(lower, tenon_attrs_create(op, &attrs))) return;
  build_if(lower, op, attrs, &yes, &no);
  tn_body_clear(&yes);
  tn_body_clear(&no);
  tenon_attrs_release(attrs);
}

/* Loop and Scan */

/* Checks the inputs and outputs of a body and finds what is known about the results. The first
 * `state_count` results are carried from one evaluation to the next. The first `skipped_inputs`
 * inputs and `skipped_outputs` outputs of the body belong to the loop itself. */
static known_t *known_of_results(tn_lower_t *lower, const tn_body_t *body, tn_ref_t *const *states,
                                 int32_t state_count, int32_t scan_count, int32_t skipped_inputs,
                                 int32_t skipped_outputs, bool keeps_shape) {
  int32_t inputs = skipped_inputs + state_count + scan_count;
  int32_t results = (int32_t)body->graph->outputs.count - skipped_outputs;
  if (body->graph->inputs.count != (size_t)inputs)
    tn_lower_fail(lower, "the body has %zu inputs, expected %d", body->graph->inputs.count,
                  (int)inputs);
  if (results < state_count || results < lower->output_count)
    tn_lower_fail(lower,
                  "the body has %d outputs: expected at least %d values that are carried on, and "
                  "%d outputs in all",
                  (int)results, (int)state_count, (int)lower->output_count);
  known_t *known =
      tn_arena_array(&lower->import->arena, body->graph->outputs.count + 1, sizeof *known);
  if (!known) (void)tn_lower_has_failed(lower, tn_no_memory("a node", 0));
  for (int32_t i = 0; lower->status == TENON_OK && i < results; i++) {
    known_t out = known_of(body->outputs[skipped_outputs + i], i >= state_count);
    known[i] = i < state_count ? known_of_both(known_of(states[i], 0), out) : out;
    if (i < state_count && keeps_shape) known[i].rank = states[i]->ndim;
  }
  return lower->status == TENON_OK ? known : NULL;
}

/* A value of this dtype, for the inputs of a body that belong to a loop itself. */
static tn_ref_t *typed_ref(tn_lower_t *lower, uint32_t dtype) {
  tn_ref_t *edge = tn_ref_new(lower->import, lower->scope->site, "");
  if (edge)
    edge->dtype = tenon_dtype(dtype);
  else
    (void)tn_lower_has_failed(lower, TENON_MEMORY);
  return edge;
}

/* Values with the types of a body's declared inputs, for files that do not state them. */
static tn_ref_t *const *input_types(tn_lower_t *lower, const char *name, int32_t skipped,
                                    tn_ref_t *const *edges, int32_t count) {
  const tn_onnx_attribute_t *proto = tn_lower_typed(lower, name, TN_ATTRIBUTE_GRAPH);
  size_t places = proto && proto->g ? proto->g->inputs.count : 0;
  tn_ref_t **like = tn_arena_array(&lower->import->arena, places + 1, sizeof *like);
  if (!like) (void)tn_lower_has_failed(lower, tn_no_memory("a node", 0));
  for (size_t i = 0; like && i < places && i < (size_t)(skipped + count); i++) {
    if (i >= (size_t)skipped)
      like[i] = edges[i - (size_t)skipped];
    else
      like[i] = typed_ref(lower, i == 0 ? TENON_I64 : TENON_BOOL);
  }
  return like;
}

/* From operator set 16 on, a state may begin as an optional value and be carried on as a sequence
 * or a tensor, which is then present. Returns a set of these states: bit i stands for state i. */
static uint64_t wrap_states(tn_lower_t *lower, tn_body_t *body, tn_ref_t *const *states,
                            int32_t count) {
  uint64_t wrapped = 0;
  for (int32_t i = 0; i < count && i < 64 && lower->status == TENON_OK; i++) {
    if ((size_t)i + 1 >= body->graph->outputs.count) break;
    if (!is_wrapped(body->outputs[i + 1], states[i])) continue;
    wrap_result(lower, body, (size_t)i + 1, states[i]);
    wrapped |= (uint64_t)1 << i;
  }
  return wrapped;
}

/* The state that a loop gives in the end, without the list around it. */
static void unwrap_output(tn_lower_t *lower, int32_t i) {
  tn_ref_t *state = lower->outputs[i];
  if (!state || lower->status != TENON_OK) return;
  tn_ref_t *item = tn_lower_run(lower, TN_REFS(state), "optional_get(a%s)",
                                state->holds_sequence ? ", dtype='list', rank=1" : "");
  lower->outputs[i] = item;
  if (!item) return;
  if (state->holds_sequence) {
    tn_ref_like(item, state);
    item->kind = TN_REF_SEQUENCE;
    item->holds_sequence = false;
  } else if (!item->dtype.bits) {
    item->dtype = state->item_dtype;
  }
}

static void build_loop(tn_lower_t *lower, const tenon_op_t *op, tenon_attrs_t *attrs,
                       tn_body_t *body) {
  int32_t count = lower->input_count > 2 ? lower->input_count - 2 : 0;
  body->like = input_types(lower, "body", 2, lower->inputs + 2, count);
  if (!build_body(lower, "body", NULL, 0, body) || lower->is_missing) return;
  uint64_t wrapped = wrap_states(lower, body, lower->inputs + 2, count);
  known_t *known = known_of_results(lower, body, lower->inputs + 2, count, 0, 2, 1, false);
  if (!known) return;
  set_graph(lower, attrs, "body", body);
  set_known(lower, attrs, known, (int32_t)body->graph->outputs.count - 1);
  tn_operand_t operands[] = {{lower->inputs + 2, count, true},
                             captured_operand(body),
                             {lower->inputs, lower->inputs[0] != NULL, false},
                             {lower->inputs + 1, lower->inputs[1] != NULL, false}};
  add_outputs(lower, op, attrs, known, operands, 4);
  for (int32_t i = 0; i < lower->output_count && i < 64; i++)
    if (wrapped >> i & 1) unwrap_output(lower, i);
}

/* Sets a list argument from an attribute that has one number for each of `count` axes or
 * directions. */
static void set_list(tn_lower_t *lower, tenon_attrs_t *attrs, const char *name,
                     const char *argument, int32_t count) {
  const tn_onnx_attribute_t *proto = tn_lower_typed(lower, name, TN_ATTRIBUTE_INTS);
  if (!proto) return;
  if (proto->ints.count != (size_t)count)
    tn_lower_fail(lower, "attribute '%s': expected %d integers, found %zu", name, (int)count,
                  proto->ints.count);
  if (lower->status == TENON_OK)
    (void)tn_lower_has_failed(
        lower, tenon_attrs_ints(attrs, argument, proto->ints.items, (uint32_t)count));
}

static void build_scan(tn_lower_t *lower, const tenon_op_t *op, tenon_attrs_t *attrs,
                       tn_body_t *body) {
  int64_t scans = tn_lower_int(lower, "num_scan_inputs", 0);
  if (scans < 1 || scans > lower->input_count) {
    tn_lower_fail(lower, "attribute 'num_scan_inputs': expected 1 to %d, found %lld",
                  (int)lower->input_count, (long long)scans);
    return;
  }
  int32_t scan_count = (int32_t)scans;
  int32_t count = lower->input_count - scan_count;
  body->like = input_types(lower, "body", 0, lower->inputs, lower->input_count);
  if (!build_body(lower, "body", NULL, 0, body) || lower->is_missing) return;
  known_t *known = known_of_results(lower, body, lower->inputs, count, scan_count, 0, 0, true);
  if (!known) return;
  int32_t results = (int32_t)body->graph->outputs.count;
  set_list(lower, attrs, "scan_input_axes", "input_axes", scan_count);
  set_list(lower, attrs, "scan_input_directions", "input_reverse", scan_count);
  set_list(lower, attrs, "directions", "input_reverse", scan_count); /* its name in Scan 8 */
  set_list(lower, attrs, "scan_output_axes", "output_axes", results - count);
  set_list(lower, attrs, "scan_output_directions", "output_reverse", results - count);
  set_graph(lower, attrs, "body", body);
  set_known(lower, attrs, known, results);
  tn_operand_t operands[] = {{lower->inputs, count, true},
                             {lower->inputs + count, scan_count, true},
                             captured_operand(body)};
  add_outputs(lower, op, attrs, known, operands, 3);
}

static void lower_repeated(tn_lower_t *lower) {
  bool is_loop = strcmp(lower->node->type, "Loop") == 0;
  const tenon_op_t *op = tn_lower_op(lower, is_loop ? "core::loop" : "core::scan");
  tn_body_t body = {0};
  tenon_attrs_t *attrs = NULL;
  for (int32_t i = is_loop ? 2 : 0; i < lower->input_count; i++)
    if (!lower->inputs[i]) tn_lower_fail(lower, "input %d is missing", (int)i);
  if (!op || lower->status != TENON_OK ||
      tn_lower_has_failed(lower, tenon_attrs_create(op, &attrs)))
    return;
  if (is_loop)
    build_loop(lower, op, attrs, &body);
  else
    build_scan(lower, op, attrs, &body);
  tn_body_clear(&body);
  tenon_attrs_release(attrs);
}

/* SequenceMap */

static void build_map(tn_lower_t *lower, const tenon_op_t *op, tenon_attrs_t *attrs,
                      tn_body_t *body) {
  const int32_t count = lower->input_count;
  if (!build_body(lower, "body", NULL, 0, body) || lower->is_missing) return;
  const int32_t results = (int32_t)body->graph->outputs.count;
  if (body->graph->inputs.count != (size_t)count || results < lower->output_count)
    tn_lower_fail(lower, "the body has %zu inputs and %d outputs, but the node has %d and %d",
                  body->graph->inputs.count, (int)results, (int)count, (int)lower->output_count);
  if (lower->status != TENON_OK) return;
  set_graph(lower, attrs, "body", body);
  (void)tn_lower_has_failed(lower, tenon_attrs_int(attrs, "count", results));
  const tn_operand_t operands[] = {{lower->inputs, count, true}, captured_operand(body)};
  int32_t made = 0;
  tn_ref_t **edges = tn_lower_call(lower, op, attrs, operands, 2, &made);
  for (int32_t i = 0; edges && i < made && i < lower->output_count; i++) {
    edges[i]->item_dtype = body->outputs[i]->dtype;
    edges[i]->item_ndim = body->outputs[i]->ndim;
    lower->outputs[i] = edges[i];
  }
}

void tn_lower_map(tn_lower_t *lower) {
  tn_body_t body = {0};
  tenon_attrs_t *attrs = NULL;
  const tenon_op_t *op = tn_lower_op(lower, "core::list_map");
  if (!op || lower->status != TENON_OK ||
      tn_lower_has_failed(lower, tenon_attrs_create(op, &attrs)))
    return;
  build_map(lower, op, attrs, &body);
  tn_body_clear(&body);
  tenon_attrs_release(attrs);
}

/* Scan 8 has a batch: it scans each item of the first axis by itself. */

enum { BATCH_MAX = 256 };

/* The item of a batch, without the first axis. */
static tn_ref_t *item_of_batch(tn_lower_t *lower, tn_ref_t *x, int32_t item) {
  return tn_lower_run(lower, TN_REFS(x), "squeeze(slice(a, [%d]:i64, [%d]:i64, [0]:i64), [0]:i64)",
                      (int)item, (int)item + 1);
}

/* Scans one item, whose results get the first axis again. */
static void scan_item(tn_lower_t *lower, int32_t item, tn_ref_t **out_results) {
  tn_lower_t one = *lower;
  const size_t inputs = (size_t)lower->input_count - 1;
  one.inputs = tn_arena_array(&lower->import->arena, inputs + 1, sizeof *one.inputs);
  one.input_count = (int32_t)inputs;
  one.outputs = out_results;
  if (!one.inputs) (void)tn_lower_has_failed(lower, tn_no_memory("a node", inputs));
  for (size_t i = 0; i < inputs && lower->status == TENON_OK; i++)
    one.inputs[i] = item_of_batch(lower, lower->inputs[i + 1], item);
  if (lower->status != TENON_OK || lower->is_missing) return;
  lower_repeated(&one);
  lower->status = one.status;
  lower->is_missing = one.is_missing;
  for (int32_t o = 0; o < lower->output_count && lower->status == TENON_OK; o++)
    out_results[o] = tn_lower_run(lower, TN_REFS(out_results[o]), "unsqueeze(a, [0]:i64)");
}

static void lower_batch(tn_lower_t *lower) {
  static const tn_lowering_t join = {"Concat(*xs) = concat(xs, axis=0)", 1, NULL};
  const size_t count = (size_t)lower->output_count;
  const int64_t batch = tn_lower_find_extent(lower, lower->inputs[1], 0);
  if (lower->inputs[0]) tn_lower_missing(lower, "sequences of different lengths");
  if (batch < 1 || batch > BATCH_MAX)
    tn_lower_missing(lower, "a batch of 1 to %d items is expected", BATCH_MAX);
  tn_ref_t **all = tn_arena_array(&lower->import->arena, count * BATCH_MAX + 1, sizeof *all);
  if (!all) (void)tn_lower_has_failed(lower, tn_no_memory("a node", count));
  if (lower->status != TENON_OK || lower->is_missing) return;
  for (int32_t i = 0; i < (int32_t)batch && lower->status == TENON_OK && !lower->is_missing; i++)
    scan_item(lower, i, all + (size_t)i * count);
  for (size_t o = 0; o < count && lower->status == TENON_OK && !lower->is_missing; o++) {
    tn_lower_t joined = *lower;
    tn_ref_t *items[BATCH_MAX];
    for (int64_t i = 0; i < batch; i++)
      items[i] = all[(size_t)i * count + o];
    joined.inputs = items;
    joined.input_count = (int32_t)batch;
    joined.outputs = &lower->outputs[o];
    joined.output_count = 1;
    tn_lowering_run(&join, &joined);
    lower->status = joined.status;
  }
}

static const tn_lowering_t lowerings[] = {
    {"If(condition)", 1, lower_if},
    {"Loop", 1, lower_repeated},
    {"Scan(lengths?, *xs)", 8, lower_batch},
    {"Scan", 9, lower_repeated},
};

TN_LOWERINGS(tn_lowerings_control, "");
