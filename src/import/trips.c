/* Finds how often a core::loop runs: `trips`, and a comparison of a linear function of the
 * iteration with a constant. Called by prepare.c. Invariant: numbers are small, so that no sum or
 * product overflows here or in the loop. */
#include "import/trips.h"

#include <string.h>

#include "core/dtype.h"
#include "core/sparse.h"

enum {
  LOOP_STATES = 0, /* operands of core::loop */
  LOOP_TRIPS = 2,
  LOOP_CONDITION = 3,
  OWN_INPUTS = 2, /* of the body: the iteration and the condition */
  STEPS_MOST = 64,
};
#define SMALL ((int64_t)1 << 30)

typedef struct loop_t {
  const tenon_graph_t *graph;
  const tn_node_t *node;
  const tenon_graph_t *body;
} loop_t;

typedef struct linear_t { /* base + slope * iteration */
  int64_t base;
  int64_t slope;
} linear_t;

static bool is_small(int64_t number) { return number >= -SMALL && number <= SMALL; }

/* Reads a constant with one element, an integer or a truth value. */
static bool read_constant(const tenon_graph_t *graph, tenon_edge_t edge, int64_t *out) {
  const tenon_tensor_t *tensor = graph->edges[edge].constant;
  if (!tensor || tn_layout(tensor) || tenon_count(tensor) != 1) return false;
  if (tn_dtype_is(tensor->dtype, TENON_I64))
    *out = *(const int64_t *)tensor->data;
  else if (tn_dtype_is(tensor->dtype, TENON_I32))
    *out = *(const int32_t *)tensor->data;
  else if (tn_dtype_is(tensor->dtype, TENON_BOOL))
    *out = *(const uint8_t *)tensor->data != 0;
  else
    return false;
  return true;
}

static const tn_node_t *producer_of(const tenon_graph_t *graph, tenon_edge_t edge) {
  const int32_t producer = graph->edges[edge].producer;
  return producer < 0 ? NULL : &graph->nodes[producer];
}

static bool is_node(const tn_node_t *node, const char *name) {
  return node && node->op && strcmp(node->op->name, name) == 0;
}

/* Follows operations that keep an integer or a truth value as it is. */
static tenon_edge_t resolve(const tenon_graph_t *graph, tenon_edge_t edge) {
  for (int steps = 0; steps < STEPS_MOST; steps++) {
    const tn_node_t *node = producer_of(graph, edge);
    const bool is_kept = is_node(node, "core::identity") || is_node(node, "core::contiguous") ||
                         is_node(node, "core::reshape");
    if (!is_kept || node->operands[0].count != 1) return edge;
    edge = node->operands[0].edges[0];
  }
  return edge;
}

/* Reads the operands of an operation with two of them. */
static bool read_operands(const loop_t *loop, const tn_node_t *node, tenon_edge_t *a,
                          tenon_edge_t *b) {
  if (node->op->input_count < 2 || node->operands[0].count != 1 || node->operands[1].count != 1)
    return false;
  *a = resolve(loop->body, node->operands[0].edges[0]);
  *b = resolve(loop->body, node->operands[1].edges[0]);
  return true;
}

/* The state whose value at the beginning of an iteration an edge is; -1: none. */
static int32_t find_state(const loop_t *loop, tenon_edge_t edge) {
  const int32_t input = loop->body->edges[edge].input;
  const int32_t state = input - OWN_INPUTS;
  return input >= OWN_INPUTS && state < loop->node->operands[LOOP_STATES].count ? state : -1;
}

/* Reads `x + number` or `x - number`. */
static bool read_sum(const loop_t *loop, tenon_edge_t edge, tenon_edge_t *out_x, int64_t *out) {
  const tn_node_t *node = producer_of(loop->body, edge);
  const bool is_sum = is_node(node, "core::add");
  tenon_edge_t a;
  tenon_edge_t b;
  if ((!is_sum && !is_node(node, "core::sub")) || !read_operands(loop, node, &a, &b)) return false;
  *out_x = a;
  if (read_constant(loop->body, b, out) && is_small(*out)) {
    if (!is_sum) *out = -*out;
    return true;
  }
  *out_x = b;
  return is_sum && read_constant(loop->body, a, out) && is_small(*out);
}

/* Reads a state as a counter: it begins as a constant and grows by a constant. */
static bool read_counter(const loop_t *loop, int32_t state, linear_t *out) {
  const tenon_edge_t outside = loop->node->operands[LOOP_STATES].edges[state];
  const tenon_edge_t next = resolve(loop->body, loop->body->outputs[1 + state]);
  tenon_edge_t x;
  return read_constant(loop->graph, outside, &out->base) && is_small(out->base) &&
         read_sum(loop, next, &x, &out->slope) && find_state(loop, x) == state;
}

static bool read_linear(const loop_t *loop, tenon_edge_t edge, linear_t *out) {
  int64_t shift = 0;
  int64_t more;
  tenon_edge_t x = edge;
  for (int steps = 0; steps < STEPS_MOST && is_small(shift); steps++) {
    const int32_t state = find_state(loop, x);
    if (loop->body->edges[x].input == 0) {
      *out = (linear_t){shift, 1};
      return true;
    }
    if (state >= 0) {
      if (!read_counter(loop, state, out)) return false;
      out->base += shift;
      return is_small(out->base);
    }
    if (!read_sum(loop, x, &x, &more)) return false;
    shift += more;
  }
  return false;
}

/* Reads a comparison as `linear < bound`. */
static bool read_comparison(const loop_t *loop, tenon_edge_t edge, linear_t *out, int64_t *bound) {
  static const struct {
    const char *op;
    bool is_greater;
    bool is_equal;
  } comparisons[] = {{"core::less", false, false},
                     {"core::less_equal", false, true},
                     {"core::greater", true, false},
                     {"core::greater_equal", true, true}};
  const tn_node_t *node = producer_of(loop->body, edge);
  tenon_edge_t a;
  tenon_edge_t b;
  for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++) {
    if (!is_node(node, comparisons[i].op)) continue;
    bool is_greater = comparisons[i].is_greater;
    if (!read_operands(loop, node, &a, &b)) return false;
    if (!read_constant(loop->body, b, bound)) {
      const tenon_edge_t linear = b;
      if (!read_constant(loop->body, a, bound)) return false;
      a = linear;
      is_greater = !is_greater;
    }
    if (!is_small(*bound) || !read_linear(loop, a, out)) return false;
    if (is_greater) *bound = -*bound;
    if (is_greater) *out = (linear_t){-out->base, -out->slope};
    *bound += comparisons[i].is_equal;
    return true;
  }
  return false;
}

/* The number of iterations until the condition is false, at most `most`; -1: unknown. */
static int64_t count_until_false(const loop_t *loop, int64_t most) {
  linear_t linear;
  int64_t bound;
  int64_t count = 1;
  const tenon_edge_t condition = resolve(loop->body, loop->body->outputs[0]);
  if (!read_comparison(loop, condition, &linear, &bound)) return -1;
  if (linear.base < bound) {
    if (linear.slope <= 0) return is_small(most) ? most : -1;
    count += (bound - linear.base + linear.slope - 1) / linear.slope;
  }
  if (!is_small(linear.base + linear.slope * count)) return -1;
  return count < most ? count : most;
}

int64_t tn_loop_trips(const tenon_graph_t *graph, const tn_node_t *node,
                      const tenon_graph_t *body) {
  const loop_t loop = {graph, node, body};
  const tenon_operand_t *trips = &node->operands[LOOP_TRIPS];
  const tenon_operand_t *condition = &node->operands[LOOP_CONDITION];
  int64_t most = INT64_MAX;
  int64_t begins = 1;
  int64_t goes_on = 0;
  if (condition->count && !read_constant(graph, condition->edges[0], &begins)) return -1;
  if (!begins) return 0;
  if (trips->count && !read_constant(graph, trips->edges[0], &most)) return -1;
  if (most < 0) most = 0;
  const tenon_edge_t result = resolve(body, body->outputs[0]);
  const bool is_constant = read_constant(body, result, &goes_on);
  if (is_constant && !goes_on) return most < 1 ? most : 1;
  if (is_constant || body->edges[result].input == 1) return trips->count ? most : -1;
  return count_until_false(&loop, most);
}
