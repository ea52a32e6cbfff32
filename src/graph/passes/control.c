/* Rules for control flow that is known before the graph runs: the body of a branch that is always
 * taken, and of a loop with few iterations, becomes part of the graph around it, where other rules
 * find its nodes.
 * Invariant: a compilation adds at most as many nodes as the graph has, and NODES_MOST. */
#include <math.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/scratch.h"
#include "base/status.h"
#include "core/dtype.h"
#include "graph/passes/rules.h"
#include "operator/names.h"

enum {
  NODES_MOST = 4096,   /* that are added beyond the number of the graph's own */
  UNROLLED_MOST = 64,  /* nodes of all iterations of a loop */
  ITERATIONS_MOST = 8, /* of a loop */
};

/* Bodies */

/* Whether the nodes of a body may run in the graph around it. Those of 8-bit numbers stay, because
 * the rules for them have been applied already; a state belongs to the body. */
static bool is_movable(const tn_rewrite_t *r, const tenon_graph_t *body, int64_t times) {
  const size_t room = 2 * r->node_count + NODES_MOST - r->graph->node_count;
  if (r->graph->node_count > 2 * r->node_count + NODES_MOST ||
      body->node_count * (uint64_t)times > room)
    return false;
  for (size_t n = 0; n < body->node_count; n++)
    if (body->nodes[n].op->create || tn_node_is(&body->nodes[n], "core::dequantize_linear"))
      return false;
  return true;
}

/* Finds the edge in the graph that stands for an edge of the body; constants are added. */
static tenon_status_t map_edge(tn_rewrite_t *r, const tenon_graph_t *body, tenon_edge_t *map,
                               tenon_edge_t edge, tenon_edge_t *out_edge) {
  if (map[edge] < 0 && body->edges[edge].constant)
    TN_TRY(tn_rewrite_constant(r, body->edges[edge].constant, &map[edge]));
  *out_edge = map[edge];
  return map[edge] >= 0
             ? TENON_OK
             : tn_fail(TENON_INVALID, "value '%s' of a body has no origin", body->edges[edge].name);
}

/* Inserts a node of the body before the node `at`. */
static tenon_status_t insert_copy(tn_rewrite_t *r, int32_t at, const tenon_graph_t *body,
                                  const tn_node_t *node, tenon_edge_t *map) {
  int32_t index;
  tenon_operand_t *operands = tn_scratch((node->op->input_count + 1) * sizeof *operands);
  if (!operands) return tn_no_memory("a rewrite", 0);
  for (uint32_t i = 0; i < node->op->input_count; i++) {
    const tenon_operand_t *from = &node->operands[i];
    tenon_edge_t *edges = tn_scratch(((size_t)from->count + 1) * sizeof *edges);
    if (!edges) return tn_no_memory("a rewrite", 0);
    for (int32_t k = 0; k < from->count; k++)
      TN_TRY(map_edge(r, body, map, from->edges[k], &edges[k]));
    operands[i] = (tenon_operand_t){from->count, edges};
  }
  const tn_insertion_t what = {node->name, node->op, node->attrs, operands, node->output_count};
  TN_TRY(tn_rewrite_insert(r, at, &what, &index));
  for (int32_t o = 0; o < node->output_count; o++)
    map[node->outputs[o]] = r->graph->nodes[index].outputs[o];
  return TENON_OK;
}

/* Inserts all nodes of a body before the node `at`, and finds the edges of its results. */
static tenon_status_t insert_body(tn_rewrite_t *r, int32_t at, const tenon_graph_t *body,
                                  const tenon_edge_t *inputs, tenon_edge_t *outputs) {
  tenon_edge_t *map = tn_scratch((body->edge_count + 1) * sizeof *map);
  if (!map) return tn_no_memory("a rewrite", body->edge_count);
  for (size_t i = 0; i < body->edge_count; i++)
    map[i] = -1;
  for (size_t i = 0; i < body->input_count; i++)
    map[body->inputs[i]] = inputs[i];
  for (size_t n = 0; n < body->node_count; n++)
    TN_TRY(insert_copy(r, at, body, &body->nodes[n], map));
  for (size_t i = 0; i < body->output_count; i++)
    TN_TRY(map_edge(r, body, map, body->outputs[i], &outputs[i]));
  return TENON_OK;
}

static tenon_status_t replace_results(tn_rewrite_t *r, int32_t at, const tenon_edge_t *edges) {
  tn_node_t *node = &r->graph->nodes[at];
  for (int32_t o = 0; o < node->output_count; o++)
    tn_redirect(r, node->outputs[o], edges[o]);
  tn_node_remove(r, node);
  return TENON_OK;
}

/* Branches */

/* Reads a constant condition; false: it is not known. */
static bool read_condition(const tn_rewrite_t *r, tenon_edge_t edge, bool *out_value) {
  const tenon_tensor_t *t = edge >= 0 ? r->graph->edges[edge].constant : NULL;
  if (!t || !tn_dtype_is(t->dtype, TENON_BOOL) || tenon_count(t) != 1) return false;
  *out_value = *(const uint8_t *)t->data != 0;
  return true;
}

static tenon_status_t take_branch(tn_rewrite_t *r, tn_node_t *node) {
  bool is_taken;
  const int32_t at = (int32_t)(node - r->graph->nodes);
  if (!read_condition(r, tn_operand(node, 0), &is_taken)) return TENON_OK;
  const int32_t attr = tn_attr(node, is_taken ? "then" : "else");
  const tenon_graph_t *body = attr >= 0 ? node->attrs[attr].as.graph : NULL;
  if (!body || !is_movable(r, body, 1) || (int64_t)body->input_count != node->operands[1].count ||
      (int64_t)body->output_count != node->output_count)
    return TENON_OK;
  tenon_edge_t *outputs = tn_scratch((body->output_count + 1) * sizeof *outputs);
  if (!outputs) return tn_no_memory("a rewrite", body->output_count);
  TN_TRY(insert_body(r, at, body, node->operands[1].edges, outputs));
  return replace_results(r, at, outputs);
}

/* Loops */

typedef struct loop_t {
  const tenon_graph_t *body;
  int32_t states;
  int32_t stacked;
  int64_t trips;
} loop_t;

/* Whether each iteration that begins is followed by the next one: the condition is true, or the one
 * that the iteration got. */
static bool goes_on(const tenon_graph_t *body) {
  tenon_edge_t edge = body->outputs[0];
  const tenon_tensor_t *t = body->edges[edge].constant;
  for (int32_t from = body->edges[edge].producer; from >= 0; from = body->edges[edge].producer) {
    const tn_node_t *node = &body->nodes[from];
    if (!tn_node_is(node, "core::identity")) return false;
    edge = tn_operand(node, 0);
    t = body->edges[edge].constant;
  }
  return edge == body->inputs[1] || (t && tn_dtype_is(t->dtype, TENON_BOOL) &&
                                     tenon_count(t) == 1 && *(const uint8_t *)t->data);
}

/* Reads how often a loop runs; false: it is not known, or is too often. */
static bool read_loop(const tn_rewrite_t *r, const tn_node_t *node, loop_t *out) {
  double trips;
  bool begins = true;
  const int32_t attr = tn_attr(node, "body");
  const tenon_edge_t condition = tn_operand(node, 3);
  out->body = attr >= 0 ? node->attrs[attr].as.graph : NULL;
  out->states = node->operands[0].count;
  out->stacked = node->output_count - out->states;
  if (!out->body || out->stacked < 0 || !tn_scalar(r, tn_operand(node, 2), &trips) ||
      (condition >= 0 && !read_condition(r, condition, &begins)))
    return false;
  out->trips = trips > 0 && begins ? (int64_t)fmin(trips, ITERATIONS_MOST + 1) : 0;
  const size_t inputs = 2 + (size_t)out->states + (size_t)node->operands[1].count;
  if (out->body->input_count != inputs || out->body->output_count != 1 + (size_t)node->output_count)
    return false;
  if (out->trips == 0) return out->stacked == 0;
  return out->trips <= ITERATIONS_MOST &&
         (out->trips == 1 ||
          (out->body->node_count * (uint64_t)out->trips <= UNROLLED_MOST && goes_on(out->body))) &&
         is_movable(r, out->body, out->trips);
}

static tenon_status_t bind_number(tn_rewrite_t *r, uint32_t dtype, int64_t number, int32_t rank,
                                  tenon_edge_t *out_edge) {
  const int64_t shape[1] = {1};
  tenon_tensor_t *tensor;
  TN_TRY(tenon_tensor_create(tenon_dtype(dtype), rank, shape, &tensor));
  if (dtype == TENON_BOOL)
    *(uint8_t *)tensor->data = number != 0;
  else
    *(int64_t *)tensor->data = number;
  const tenon_status_t status = tn_rewrite_constant(r, tensor, out_edge);
  tenon_tensor_release(tensor);
  return status;
}

/* Inserts one node of a built-in operator with one result. */
static tenon_status_t insert_one(tn_rewrite_t *r, int32_t at, const char *name,
                                 const tenon_operand_t *operands, tenon_edge_t *out_edge) {
  int32_t index;
  const tenon_op_t *op = tn_registry_find(name);
  if (!op) return tn_fail(TENON_NOT_FOUND, "no operator '%s'", name);
  tenon_value_t attrs[8];
  memcpy(attrs, op->defaults, op->schema.attr_count * sizeof *attrs);
  const int32_t axis = tn_schema_attr(&op->schema, "axis", 4);
  if (axis >= 0) attrs[axis] = (tenon_value_t){TENON_KIND_INT, 0, {.i = 0}};
  const tn_insertion_t what = {r->graph->nodes[at].name, op, attrs, operands, 1};
  TN_TRY(tn_rewrite_insert(r, at, &what, &index));
  *out_edge = r->graph->nodes[index].outputs[0];
  return TENON_OK;
}

/* Stacks what the iterations gave along a new first axis. */
static tenon_status_t stack_results(tn_rewrite_t *r, int32_t at, tenon_edge_t *rounds,
                                    int64_t trips, tenon_edge_t *out_edge) {
  tenon_edge_t axes;
  TN_TRY(bind_number(r, TENON_I64, 0, 1, &axes));
  for (int64_t i = 0; i < trips; i++) {
    const tenon_operand_t operands[] = {{1, &rounds[i]}, {1, &axes}};
    tenon_edge_t apart;
    TN_TRY(insert_one(r, at, "core::unsqueeze", operands, &apart));
    rounds[i] = apart;
  }
  const tenon_operand_t all = {(int32_t)trips, rounds};
  return insert_one(r, at, "core::concat", &all, out_edge);
}

static tenon_status_t unroll_loop(tn_rewrite_t *r, tn_node_t *node) {
  loop_t loop;
  const int32_t at = (int32_t)(node - r->graph->nodes);
  if (!read_loop(r, node, &loop)) return TENON_OK;
  const size_t count = (size_t)node->output_count;
  const tenon_operand_t captured = node->operands[1];
  tenon_edge_t *inputs = tn_scratch((loop.body->input_count + 1) * sizeof *inputs);
  tenon_edge_t *results = tn_scratch((count + 1) * sizeof *results);
  tenon_edge_t *rounds = tn_scratch((count + 1) * ITERATIONS_MOST * sizeof *rounds);
  if (!inputs || !results || !rounds) return tn_no_memory("a rewrite", 0);
  for (int32_t i = 0; i < loop.states; i++)
    inputs[2 + i] = node->operands[0].edges[i];
  for (int32_t i = 0; i < captured.count; i++)
    inputs[2 + loop.states + i] = captured.edges[i];
  if (loop.trips) TN_TRY(bind_number(r, TENON_BOOL, 1, 0, &inputs[1]));
  for (int64_t round = 0; round < loop.trips; round++) {
    TN_TRY(bind_number(r, TENON_I64, round, 0, &inputs[0]));
    TN_TRY(insert_body(r, at, loop.body, inputs, results));
    for (int32_t i = 0; i < loop.states; i++)
      inputs[2 + i] = results[1 + i];
    for (int32_t i = 0; i < loop.stacked; i++)
      rounds[i * ITERATIONS_MOST + round] = results[1 + loop.states + i];
  }
  memcpy(results, inputs + 2, (size_t)loop.states * sizeof *results);
  for (int32_t i = 0; i < loop.stacked; i++)
    TN_TRY(
        stack_results(r, at, &rounds[i * ITERATIONS_MOST], loop.trips, &results[loop.states + i]));
  return replace_results(r, at, results);
}

const tn_rewrite_rule_t tn_rules_control[] = {
    {"taken_branch: if(condition, x, then=f, else=g) -> f(x)",
     "The condition is constant; of g likewise. Nodes with a state stay, and those of 8-bit "
     "numbers.",
     {"core::if"},
     take_branch},
    {"unrolled_loop: loop(x, trips, body=f) -> f(f(x))",
     "The number of iterations is constant: at most 8, with 64 nodes in all if there are several. "
     "No "
     "iteration ends the loop. Without iterations x is left.",
     {"core::loop"},
     unroll_loop},
    {NULL, NULL, {NULL}, NULL}};
