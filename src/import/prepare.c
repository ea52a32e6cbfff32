/* Prepares a graph for a writer: types, constants, and the bodies of control flow, which core::if,
 * core::loop and core::scan hold as attributes. Their operators cannot look into bodies, so the
 * types of their results are found here. Called by export.c. Invariant: the graph that is given and
 * its bodies do not change. */
#include "import/prepare.h"

#include <string.h>

#include "base/status.h"
#include "core/dtype.h"
#include "core/sparse.h"
#include "graph/passes/pass.h"
#include "import/trips.h"

enum {
  NODES_MOST = 1 << 20, /* nodes of bodies that are inferred for one graph */
  ATTEMPTS = 6,         /* to find extents of states that no iteration changes */
  BOUND_MOST = 256,     /* elements of captured constants that move into bodies */
};

typedef struct preparation_t {
  int64_t nodes; /* that may still be inferred */
} preparation_t;

typedef struct type_t {
  tenon_dtype_t dtype;          /* bits == 0: unknown */
  int32_t ndim;                 /* -1: unknown */
  int64_t dims[TENON_RANK_MAX]; /* -1: unknown */
} type_t;

typedef struct control_kind_t {
  const char *op;
  int32_t body_count;
  int32_t captured; /* the operand of captured values */
} control_kind_t;

static const control_kind_t kinds[] = {
    {"core::if", 2, 1}, {"core::loop", 1, 1}, {"core::scan", 1, 2}};

typedef struct control_t { /* A node with bodies. */
  preparation_t *preparation;
  tenon_graph_t *graph;
  tn_node_t *node;
  const control_kind_t *kind;
  tn_arena_t arena;
  type_t *inputs; /* of the bodies */
  int32_t input_count;
  int32_t captured_count;
  type_t *results;
  tenon_graph_t *bodies[2];
} control_t;

static const type_t unknown = {.ndim = -1};

/* types */

static type_t edge_type(const tenon_graph_t *graph, tenon_edge_t index) {
  const tn_edge_t *edge = &graph->edges[index];
  type_t type = {.dtype = edge->dtype, .ndim = edge->layout ? -1 : edge->ndim};
  for (int32_t d = 0; d < type.ndim; d++) {
    const tenon_dim_t dim = tn_extents_resolve(graph->extents, edge->dims[d]);
    type.dims[d] = tenon_is_known(dim) && dim.value >= 0 ? dim.value : -1;
  }
  return type;
}

/* What holds for values of either type. */
static type_t join_types(type_t a, const type_t *b) {
  if (!a.dtype.bits) a.dtype = b->dtype;
  if (a.ndim != b->ndim) a.ndim = -1;
  for (int32_t d = 0; d < a.ndim; d++)
    if (a.dims[d] != b->dims[d]) a.dims[d] = -1;
  return a;
}

static bool is_same_type(const type_t *a, const type_t *b) {
  return a->ndim == b->ndim &&
         (a->ndim <= 0 || memcmp(a->dims, b->dims, (size_t)a->ndim * sizeof *a->dims) == 0);
}

/* The type with one axis more. */
static type_t with_axis(type_t type, int64_t axis, int64_t extent) {
  if (type.ndim < 0 || type.ndim == TENON_RANK_MAX) return unknown;
  if (axis < 0) axis += type.ndim + 1;
  if (axis < 0 || axis > type.ndim) return unknown;
  for (int32_t d = type.ndim++; d > axis; d--)
    type.dims[d] = type.dims[d - 1];
  type.dims[axis] = extent;
  return type;
}

/* The type without one of its axes. */
static type_t without_axis(type_t type, int64_t axis) {
  if (axis < 0) axis += type.ndim;
  if (axis < 0 || axis >= type.ndim) return unknown;
  type.ndim--;
  for (int32_t d = (int32_t)axis; d < type.ndim; d++)
    type.dims[d] = type.dims[d + 1];
  return type;
}

/* bodies */

/* Gives an input of a body the extents of its operand. Extents that only the body states stay. */
static tenon_status_t set_extents(tenon_graph_t *body, size_t index, const type_t *type) {
  tn_edge_t *edge = &body->edges[body->inputs[index]];
  tenon_axis_t *axes = tn_arena_array(&body->arena, TENON_RANK_MAX, sizeof *axes);
  if (!axes || !edge->dims) return tn_no_memory("a body", 0);
  if (edge->ndim >= 0 && edge->ndim != type->ndim)
    return tn_fail(TENON_INVALID, "input '%s' of the body has %d axes, its operand %d", edge->name,
                   (int)edge->ndim, (int)type->ndim);
  for (int32_t d = 0; d < type->ndim; d++) {
    if (edge->ndim < 0) TN_TRY(tn_extents_symbol(body->extents, NULL, &edge->dims[d]));
    if (type->dims[d] >= 0)
      TN_TRY(tn_extents_operate(body->extents, TENON_DIM_EQUAL, edge->dims[d],
                                tenon_extent(type->dims[d]), &edge->dims[d]));
    edge->dims[d] = tn_extents_resolve(body->extents, edge->dims[d]);
    axes[d] = (tenon_axis_t){tenon_is_known(edge->dims[d]) ? edge->dims[d].value : -1, NULL};
  }
  edge->ndim = type->ndim;
  body->input_axes[index] = axes;
  return TENON_OK;
}

static tenon_status_t set_type(tenon_graph_t *body, size_t index, const type_t *type) {
  tn_edge_t *edge = &body->edges[body->inputs[index]];
  if (type->dtype.bits && edge->dtype.bits &&
      tenon_dtype_id(type->dtype) != tenon_dtype_id(edge->dtype))
    return tn_fail(TENON_INVALID, "input '%s' of the body is %s, its operand %s", edge->name,
                   tn_dtype_name(edge->dtype), tn_dtype_name(type->dtype));
  if (type->dtype.bits) edge->dtype = type->dtype;
  return type->ndim < 0 ? TENON_OK : set_extents(body, index, type);
}

/* Captured values that are small constants, such as axes, are constants of the bodies. */
static bool is_bound(const control_t *c, int32_t captured) {
  const tenon_edge_t edge = c->node->operands[c->kind->captured].edges[captured];
  const tenon_tensor_t *constant = c->graph->edges[edge].constant;
  return constant && !tn_layout(constant) && tenon_count(constant) <= BOUND_MOST;
}

/* Makes an input of a body a constant. */
static void bind_input(tenon_graph_t *body, size_t index, tenon_tensor_t *tensor) {
  tn_edge_bind_constant(body, body->inputs[index], tensor);
  body->edges[body->inputs[index]].input = -1;
  for (size_t i = index + 1; i < body->input_count; i++) {
    body->inputs[i - 1] = body->inputs[i];
    body->input_axes[i - 1] = body->input_axes[i];
    body->edges[body->inputs[i]].input--;
  }
  body->input_count--;
}

/* Notes the extents of the outputs, which copies of a graph do not have. */
static tenon_status_t name_axes(tenon_graph_t *graph, bool is_body) {
  graph->output_axes =
      tn_arena_array(&graph->arena, graph->output_count + 1, sizeof *graph->output_axes);
  if (!graph->output_axes) return tn_no_memory("a graph", graph->output_count);
  for (size_t i = 0; i < graph->output_count; i++) {
    const tn_edge_t *edge = &graph->edges[graph->outputs[i]];
    TN_TRY(tn_axes_make(graph, graph->outputs[i], &graph->arena, &graph->output_axes[i]));
    /* Symbols of a body have no meaning outside. */
    for (int32_t d = 0; is_body && d < edge->ndim; d++)
      graph->output_axes[i][d].name = NULL;
  }
  return TENON_OK;
}

static tenon_status_t prepare_graph(preparation_t *preparation, tenon_graph_t *graph);

static tenon_status_t prepare_body(const control_t *c, tenon_graph_t *body) {
  const tenon_operand_t *captured = &c->node->operands[c->kind->captured];
  const int32_t own = c->input_count - c->captured_count;
  if (body->input_count != (size_t)c->input_count)
    return tn_fail(TENON_INVALID, "the body has %zu inputs, expected %d", body->input_count,
                   (int)c->input_count);
  c->preparation->nodes -= (int64_t)body->node_count + 1;
  if (c->preparation->nodes < 0) return tn_fail(TENON_RANGE, "bodies have too many nodes");
  for (int32_t i = 0; i < c->input_count; i++)
    TN_TRY(set_type(body, (size_t)i, &c->inputs[i]));
  for (int32_t k = c->captured_count; k-- > 0;)
    if (is_bound(c, k))
      bind_input(body, (size_t)(own + k), c->graph->edges[captured->edges[k]].constant);
  TN_TRY(prepare_graph(c->preparation, body));
  return name_axes(body, true);
}

/* Builds the body of an attribute for the types in `inputs`. */
static tenon_status_t build_body(control_t *c, int32_t which, size_t output_count) {
  tenon_graph_t *body = NULL;
  TN_TRY(tn_graph_copy(c->node->attrs[which].as.graph, &body));
  tenon_status_t status = prepare_body(c, body);
  if (status == TENON_OK && body->output_count != output_count)
    status = tn_fail(TENON_INVALID, "the body has %zu outputs, expected %zu", body->output_count,
                     output_count);
  if (status != TENON_OK) {
    tenon_graph_release(body);
    return status;
  }
  tenon_graph_release(c->bodies[which]);
  c->bodies[which] = body;
  return TENON_OK;
}

/* Builds the body of a loop. Extents of states that an iteration changes become unknown, and the
 * body is built again, until no iteration changes those that are left. */
static tenon_status_t build_repeated(control_t *c, int32_t first_state, int32_t state_count,
                                     int32_t skipped_outputs) {
  for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
    bool is_changed = false;
    TN_TRY(build_body(c, 0, (size_t)(skipped_outputs + c->node->output_count)));
    for (int32_t i = 0; i < state_count; i++) {
      type_t *state = &c->inputs[first_state + i];
      const tenon_graph_t *body = c->bodies[0];
      const type_t after = edge_type(body, body->outputs[skipped_outputs + i]);
      const type_t both = join_types(*state, &after);
      is_changed |= !is_same_type(&both, state);
      *state = attempt + 2 < ATTEMPTS || is_same_type(&both, state) ? both : unknown;
      if (!state->dtype.bits) state->dtype = both.dtype;
    }
    if (!is_changed) return TENON_OK;
  }
  return tn_fail(TENON_INVALID, "the shapes of states do not settle");
}

/* if */

static tenon_status_t build_branches(control_t *c) {
  const size_t count = (size_t)c->node->output_count;
  TN_TRY(build_body(c, 0, count));
  TN_TRY(build_body(c, 1, count));
  for (size_t i = 0; i < count; i++) {
    const type_t other = edge_type(c->bodies[1], c->bodies[1]->outputs[i]);
    c->results[i] = join_types(edge_type(c->bodies[0], c->bodies[0]->outputs[i]), &other);
  }
  return TENON_OK;
}

/* loop */

enum {
  LOOP_STATES,
  LOOP_CAPTURED,
  LOOP_TRIPS,
  LOOP_CONDITION,
};

/* Adds a constant with one element. */
static tenon_status_t add_number(tenon_graph_t *graph, uint32_t dtype, int64_t number,
                                 tenon_edge_t *out_edge) {
  tenon_tensor_t *tensor = NULL;
  TN_TRY(tenon_tensor_create(tenon_dtype(dtype), 0, NULL, &tensor));
  if (dtype == TENON_BOOL)
    *(uint8_t *)tensor->data = number != 0;
  else
    *(int64_t *)tensor->data = number;
  tenon_status_t status = tn_graph_add_edge(graph, NULL, NULL, out_edge);
  if (status == TENON_OK) tn_edge_bind_constant(graph, *out_edge, tensor);
  tenon_tensor_release(tensor);
  return status;
}

/* States the number of iterations instead of a condition. */
static tenon_status_t state_trips(control_t *c, int64_t trips) {
  tenon_operand_t *operands = (tenon_operand_t *)(uintptr_t)c->node->operands;
  tenon_edge_t *edge = tn_arena_array(&c->graph->arena, 1, sizeof *edge);
  if (!edge) return tn_no_memory("a loop", 0);
  TN_TRY(add_number(c->bodies[0], TENON_BOOL, 1, &c->bodies[0]->outputs[0]));
  TN_TRY(tn_pass_dead_code(c->bodies[0]));
  TN_TRY(add_number(c->graph, TENON_I64, trips, edge));
  operands[LOOP_TRIPS] = (tenon_operand_t){1, edge};
  operands[LOOP_CONDITION].count = 0;
  return TENON_OK;
}

static tenon_status_t build_loop_body(control_t *c) {
  const int32_t states = c->node->operands[LOOP_STATES].count;
  const tenon_operand_t *condition = &c->node->operands[LOOP_CONDITION];
  c->inputs[0] = (type_t){.dtype = tenon_dtype(TENON_I64)};
  c->inputs[1] = (type_t){.dtype = tenon_dtype(TENON_BOOL)};
  if (condition->count && edge_type(c->graph, condition->edges[0]).ndim != 0)
    c->inputs[1].ndim = -1;
  if (c->node->output_count < states) return tn_fail(TENON_INVALID, "a state has no result");
  TN_TRY(build_repeated(c, 2, states, 1));
  const int64_t trips = tn_loop_trips(c->graph, c->node, c->bodies[0]);
  for (int32_t i = 0; i < c->node->output_count; i++) {
    const type_t type = edge_type(c->bodies[0], c->bodies[0]->outputs[1 + i]);
    c->results[i] = i < states ? c->inputs[2 + i] : with_axis(type, 0, trips);
  }
  return trips < 0 ? TENON_OK : state_trips(c, trips);
}

/* scan */

static int64_t listed(const control_t *c, const char *name, int32_t index) {
  const int32_t attr = tn_schema_attr(&c->node->op->schema, name, strlen(name));
  if (attr < 0) return 0;
  const tenon_value_t *value = &c->node->attrs[attr];
  return value->kind == TENON_KIND_INTS && (uint32_t)index < value->count ? value->as.ints[index]
                                                                          : 0;
}

static tenon_status_t build_scan_body(control_t *c) {
  const int32_t states = c->node->operands[0].count;
  const tenon_operand_t *scans = &c->node->operands[1];
  int64_t length = -1;
  for (int32_t i = 0; i < scans->count; i++) {
    const type_t whole = edge_type(c->graph, scans->edges[i]);
    int64_t axis = listed(c, "input_axes", i);
    if (axis < 0) axis += whole.ndim;
    if (axis >= 0 && axis < whole.ndim && whole.dims[axis] >= 0) length = whole.dims[axis];
    c->inputs[states + i] = without_axis(whole, axis);
    c->inputs[states + i].dtype = whole.dtype;
  }
  if (c->node->output_count < states) return tn_fail(TENON_INVALID, "a state has no result");
  TN_TRY(build_repeated(c, 0, states, 0));
  for (int32_t i = 0; i < c->node->output_count; i++) {
    const type_t type = edge_type(c->bodies[0], c->bodies[0]->outputs[i]);
    const type_t stacked = with_axis(type, listed(c, "output_axes", i - states), length);
    c->results[i] = i < states ? c->inputs[i] : stacked;
  }
  return TENON_OK;
}

/* nodes */

/* Keeps a type that was found for a result. */
static tenon_status_t keep_type(tenon_graph_t *graph, tenon_edge_t index, const type_t *type) {
  tn_edge_t *edge = &graph->edges[index];
  if (type->dtype.bits) edge->dtype = type->dtype;
  if (type->ndim < 0) return TENON_OK;
  if (edge->ndim != type->ndim)
    edge->dims = tn_arena_array(&graph->arena, TENON_RANK_MAX, sizeof *edge->dims);
  if (!edge->dims) return tn_no_memory("a graph", 0);
  for (int32_t d = 0; d < type->ndim; d++) {
    if (type->dims[d] >= 0)
      edge->dims[d] = tenon_extent(type->dims[d]);
    else if (edge->ndim != type->ndim)
      TN_TRY(tn_extents_symbol(graph->extents, NULL, &edge->dims[d]));
  }
  edge->ndim = type->ndim;
  return TENON_OK;
}

/* Puts the new bodies into the node, without the captured values that are bound in them. */
static tenon_status_t replace_bodies(control_t *c) {
  tenon_operand_t *captured = &((tenon_operand_t *)(uintptr_t)c->node->operands)[c->kind->captured];
  tenon_edge_t *edges = (tenon_edge_t *)(uintptr_t)captured->edges;
  int32_t kept = 0;
  for (int32_t i = 0; i < c->kind->body_count; i++)
    TN_TRY(tn_node_set_graph(c->graph, c->node, (uint32_t)i, c->bodies[i]));
  for (int32_t k = 0; k < captured->count; k++)
    if (!is_bound(c, k)) edges[kept++] = edges[k];
  captured->count = kept;
  for (int32_t i = 0; i < c->node->output_count; i++)
    TN_TRY(keep_type(c->graph, c->node->outputs[i], &c->results[i]));
  return TENON_OK;
}

/* Lists the types of the operands that become inputs of bodies. */
static tenon_status_t list_types(control_t *c) {
  const tenon_operand_t *operands = c->node->operands;
  const bool is_if = c->kind->body_count == 2;
  const bool is_loop = !is_if && c->kind->captured == LOOP_CAPTURED;
  int32_t next = is_loop ? 2 : 0;
  c->captured_count = operands[c->kind->captured].count;
  c->input_count = next + c->captured_count;
  for (int32_t i = is_if; i < c->kind->captured; i++)
    c->input_count += operands[i].count;
  c->inputs = tn_arena_array(&c->arena, (size_t)c->input_count + 1, sizeof *c->inputs);
  c->results = tn_arena_array(&c->arena, (size_t)c->node->output_count + 1, sizeof *c->results);
  if (!c->inputs || !c->results) return tn_no_memory("the types of a body", 0);
  for (int32_t i = is_if; i <= c->kind->captured; i++)
    for (int32_t k = 0; k < operands[i].count; k++)
      c->inputs[next++] = edge_type(c->graph, operands[i].edges[k]);
  return TENON_OK;
}

static tenon_status_t build_bodies(control_t *c) {
  TN_TRY(list_types(c));
  if (c->kind->body_count == 2) return build_branches(c);
  return c->kind->captured == LOOP_CAPTURED ? build_loop_body(c) : build_scan_body(c);
}

/* Prepares the bodies of a node with control flow. Without memory it fails; a body that contradicts
 * its operands, which the run may never reach, stays as it is. */
static tenon_status_t prepare_control(preparation_t *preparation, tenon_graph_t *graph,
                                      tn_node_t *node, const control_kind_t *kind) {
  control_t c = {.preparation = preparation, .graph = graph, .node = node, .kind = kind};
  tenon_status_t status = build_bodies(&c);
  if (status == TENON_OK)
    status = replace_bodies(&c);
  else if (status != TENON_MEMORY)
    status = TENON_OK;
  tenon_graph_release(c.bodies[0]);
  tenon_graph_release(c.bodies[1]);
  tn_arena_clear(&c.arena);
  return status;
}

static const control_kind_t *find_kind(const tn_node_t *node) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(node->op->name, kinds[i].op) == 0) return &kinds[i];
  return NULL;
}

static tenon_status_t prepare_graph(preparation_t *preparation, tenon_graph_t *graph) {
  TN_TRY(tn_pass_infer(graph));
  TN_TRY(tn_pass_dead_code(graph));
  for (size_t n = 0; n < graph->node_count; n++) {
    tn_node_t *node = &graph->nodes[n];
    TN_TRY(tn_node_fold(graph, node));
    const control_kind_t *kind = node->op ? find_kind(node) : NULL;
    if (kind) TN_TRY(prepare_control(preparation, graph, node, kind));
  }
  return tn_pass_dead_code(graph);
}

tenon_status_t tn_export_prepare(const tenon_graph_t *graph, tenon_graph_t **out_graph) {
  preparation_t preparation = {.nodes = NODES_MOST};
  tenon_graph_t *copy = NULL;
  TN_TRY(tn_graph_copy(graph, &copy));
  tenon_status_t status = prepare_graph(&preparation, copy);
  if (status == TENON_OK) status = name_axes(copy, false);
  if (status != TENON_OK) {
    tenon_graph_release(copy);
    return status;
  }
  *out_graph = copy;
  return TENON_OK;
}
