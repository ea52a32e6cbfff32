/* Splits graphs into forward and backward; see split.h. Called by training.c. Invariant: forward
 * has the nodes of the executable's graph, so that its values have the same numbers in every graph
 * with gradients of it. */
#include "graph/split.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/value.h"
#include "graph/gradient_source.h"
#include "graph/part.h"

static void release_backward(tn_backward_t *b) {
  tenon_executable_release(b->executable);
  tn_release_memory(b->has_grad);
  tn_release_memory(b->is_taken);
  tn_release_memory(b);
}

void tn_split_release(tn_split_t *s) {
  for (tn_backward_t *b = s->backwards, *next; b; b = next) {
    next = b->next;
    release_backward(b);
  }
  tenon_executable_release(s->forward);
  tenon_graph_release(s->whole);
  tenon_graph_release(s->source);
  tn_release_memory(s->is_wanted);
  tn_release_memory(s->is_dependent);
  tn_release_memory(s->saved);
  tn_release_memory(s);
}

/* Compiles a part of the graph with the options of the executable. */
static tenon_status_t compile_part(const tenon_executable_t *e, const tenon_graph_t *graph,
                                   bool has_gradients, tenon_executable_t **out) {
  tenon_compile_t options = e->options;
  options.flags &= ~(uint32_t)TENON_COMPILE_GRADIENTS;
  if (has_gradients) options.flags |= TENON_COMPILE_GRADIENTS;
  options.pins = NULL;
  options.pin_count = 0;
  return tenon_executable_create(graph, &options, out);
}

/* The graph with gradients of some outputs */

/* Lists the names of the wanted inputs, and of the outputs that are differentiated. */
static tenon_status_t make_whole(const tenon_graph_t *g, const bool *is_wanted,
                                 const bool *is_output, tenon_graph_t **out_graph) {
  const char **names = tn_allocate((g->input_count + g->output_count + 1) * sizeof *names);
  if (!names) return tn_no_memory("gradients", g->input_count);
  const char **outputs = names + g->input_count;
  tenon_graph_gradients_t options = {.size = sizeof options,
                                     .flags = TENON_GRADIENTS_GIVEN | TENON_GRADIENTS_UNUSED |
                                              TENON_GRADIENTS_PLAIN,
                                     .outputs = outputs,
                                     .values = names};
  for (size_t i = 0; i < g->input_count; i++)
    if (is_wanted[i]) names[options.value_count++] = g->edges[g->inputs[i]].name;
  for (size_t o = 0; o < g->output_count; o++)
    if (is_output[o]) outputs[options.output_count++] = g->output_names[o];
  const tenon_status_t status = tenon_graph_gradients(g, &options, out_graph);
  tn_release_memory((void *)names);
  return status;
}

/* Whether a value can have a gradient, as far as its dtype is known. */
static bool may_have_gradient(const tn_edge_t *edge) {
  return !edge->dtype.bits || tn_is_differentiable(edge->dtype);
}

/* Marks the outputs that depend on a wanted input. */
static tenon_status_t mark_dependent(const tenon_graph_t *g, const bool *is_wanted,
                                     bool *is_dependent) {
  bool *depends = tn_allocate_zero(g->edge_count + 1, sizeof *depends);
  if (!depends) return tn_no_memory("gradients", g->edge_count);
  for (size_t i = 0; i < g->input_count; i++)
    depends[g->inputs[i]] = is_wanted[i];
  for (size_t n = 0; n < g->node_count; n++) {
    const tn_node_t *node = &g->nodes[n];
    bool any = false;
    for (uint32_t i = 0; i < node->op->input_count; i++)
      for (int32_t k = 0; k < node->operands[i].count; k++)
        any |= depends[node->operands[i].edges[k]];
    for (int32_t o = 0; o < node->output_count && any; o++)
      depends[node->outputs[o]] = may_have_gradient(&g->edges[node->outputs[o]]);
  }
  for (size_t o = 0; o < g->output_count; o++)
    is_dependent[o] = depends[g->outputs[o]];
  tn_release_memory(depends);
  return TENON_OK;
}

/* What is kept for backward */

typedef struct cut_t {
  const tenon_graph_t *g; /* the graph with gradients */
  size_t forward_count;   /* its first nodes are those of the source */
  int32_t input_count;    /* its first inputs are those of the source; gradients follow */
  size_t output_count;    /* so are its first outputs */
  bool *is_forward;       /* for each node: it belongs to forward */
  bool *is_known;         /* for each value: forward has it */
  bool *is_kept;          /* for each value: backward is given it */
} cut_t;

/* Results in host memory, such as shapes, are small, and need not keep what they were computed
 * from. */
static bool is_small(const tn_node_t *node) {
  for (uint32_t o = 0; o < node->op->output_count; o++)
    if (!node->op->schema.outputs[o].is_host) return false;
  return node->op->output_count > 0;
}

static void find_forward(cut_t *c) {
  const tenon_graph_t *g = c->g;
  for (size_t e = 0; e < g->edge_count; e++) {
    const tn_edge_t *edge = &g->edges[e];
    c->is_known[e] = edge->constant || (edge->input >= 0 && edge->input < c->input_count);
  }
  for (size_t n = 0; n < g->node_count; n++) {
    const tn_node_t *node = &g->nodes[n];
    bool is_forward = n < c->forward_count || is_small(node);
    for (uint32_t i = 0; i < node->op->input_count; i++)
      for (int32_t k = 0; k < node->operands[i].count; k++)
        is_forward = is_forward && c->is_known[node->operands[i].edges[k]];
    c->is_forward[n] = is_forward;
    for (int32_t o = 0; o < node->output_count; o++)
      c->is_known[node->outputs[o]] = is_forward;
  }
}

static void keep_value(cut_t *c, tenon_edge_t index) {
  if (c->is_known[index] && !c->g->edges[index].constant) c->is_kept[index] = true;
}

static void keep_operands(cut_t *c, const tn_node_t *node) {
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++)
      keep_value(c, node->operands[i].edges[k]);
}

/* Keeps what the needed nodes of backward read, and gradients that are values of forward. Instead
 * of a view, what it is a view of is kept: a view costs nothing to make, and would be kept as a
 * copy. */
static void find_kept(cut_t *c, const bool *needed) {
  const tenon_graph_t *g = c->g;
  for (size_t n = 0; n < g->node_count; n++)
    if (needed[n] && !c->is_forward[n]) keep_operands(c, &g->nodes[n]);
  for (size_t o = c->output_count; o < g->output_count; o++)
    keep_value(c, g->outputs[o]);
  for (size_t n = g->node_count; n-- > 0;) {
    const tn_node_t *node = &g->nodes[n];
    if (!node->op->is_view || !c->is_forward[n]) continue;
    for (int32_t o = 0; o < node->output_count; o++) {
      if (!c->is_kept[node->outputs[o]]) continue;
      c->is_kept[node->outputs[o]] = false;
      keep_operands(c, node);
    }
  }
}

static int32_t output_of(const cut_t *c, tenon_edge_t edge) {
  for (size_t o = 0; o < c->output_count; o++)
    if (c->g->outputs[o] == edge) return (int32_t)o;
  return -1;
}

/* Lists the kept values: first all inputs, then the others. */
static tenon_status_t list_saved(const cut_t *c, tn_split_t *s) {
  const tenon_graph_t *g = c->g;
  size_t count = (size_t)c->input_count;
  for (size_t e = 0; e < g->edge_count; e++)
    count += c->is_kept[e];
  if (!(s->saved = tn_allocate((count + 1) * sizeof *s->saved)))
    return tn_no_memory("gradients", count * sizeof *s->saved);
  for (int32_t i = 0; i < c->input_count; i++)
    s->saved[s->saved_count++] = (tn_split_value_t){g->inputs[i], i, -1};
  for (size_t e = 0; e < g->edge_count; e++)
    if (c->is_kept[e] && g->edges[e].input < 0)
      s->saved[s->saved_count++] =
          (tn_split_value_t){(tenon_edge_t)e, -1, output_of(c, (tenon_edge_t)e)};
  return TENON_OK;
}

static tenon_status_t find_saved(const tenon_graph_t *source, tn_split_t *s) {
  const tenon_graph_t *g = s->whole;
  bool *flags = tn_allocate_zero(2 * (g->node_count + g->edge_count) + 1, sizeof *flags);
  if (!flags) return tn_no_memory("gradients", g->node_count);
  bool *needed = flags + g->node_count;
  cut_t cut = {.g = g,
               .forward_count = source->node_count,
               .input_count = (int32_t)source->input_count,
               .output_count = source->output_count,
               .is_forward = flags,
               .is_known = needed + g->node_count,
               .is_kept = needed + g->node_count + g->edge_count};
  const tn_part_t gradients = {.results = g->outputs + source->output_count,
                               .result_count = g->output_count - source->output_count};
  tenon_status_t status = tn_part_mark(g, &gradients, needed);
  if (status == TENON_OK) {
    find_forward(&cut);
    find_kept(&cut, needed);
    status = list_saved(&cut, s);
  }
  tn_release_memory(flags);
  return status;
}

/* Forward */

static bool is_extra(const tn_split_value_t *saved) {
  return saved->input < 0 && saved->output < 0;
}

static tenon_status_t make_forward(const tenon_executable_t *e, tn_split_t *s) {
  const tenon_graph_t *g = e->source;
  tenon_graph_t *graph = NULL;
  const size_t most = g->output_count + s->saved_count + 1;
  tenon_edge_t *results = tn_allocate(most * sizeof *results);
  if (!results) return tn_no_memory("gradients", most * sizeof *results);
  size_t count = g->output_count;
  memcpy(results, s->whole->outputs, count * sizeof *results);
  for (size_t i = 0; i < s->saved_count; i++)
    if (is_extra(&s->saved[i])) results[count++] = s->saved[i].edge;
  const tn_part_t part = {s->whole->inputs, g->input_count, results, count};
  tenon_status_t status = tn_part_make(s->whole, &part, &graph);
  if (status == TENON_OK) status = compile_part(e, graph, false, &s->forward);
  tenon_graph_release(graph);
  tn_release_memory(results);
  return status;
}

/* A state belongs to a node of this executable, so its parts cannot have one of their own. */
static tenon_status_t check_states(const tenon_graph_t *g) {
  for (size_t n = 0; n < g->node_count; n++)
    if (g->nodes[n].op->create && !(g->nodes[n].op->traits & TENON_PURE))
      return tn_fail(TENON_UNIMPLEMENTED, "node '%s' (%s): it has a state", g->nodes[n].name,
                     g->nodes[n].op->name);
  return TENON_OK;
}

tenon_status_t tn_split_make(const tenon_executable_t *e, const bool *is_wanted,
                             tn_split_t **out_split) {
  const tenon_graph_t *g = e->source;
  const tenon_graph_gradients_t options = {
      .size = sizeof options,
      .flags = e->options.flags & TENON_COMPILE_PLAIN ? TENON_GRADIENTS_PLAIN : 0};
  tn_split_t *s = tn_allocate_zero(1, sizeof *s);
  if (!s) return tn_no_memory("gradients", sizeof *s);
  s->is_wanted = tn_allocate_zero(g->input_count + 1, sizeof *s->is_wanted);
  s->is_dependent = tn_allocate_zero(g->output_count + 1, sizeof *s->is_dependent);
  tenon_status_t status = TENON_OK;
  if (!s->is_wanted || !s->is_dependent)
    status = tn_no_memory("gradients", g->input_count + g->output_count);
  else
    memcpy(s->is_wanted, is_wanted, g->input_count * sizeof *is_wanted);
  if (status == TENON_OK) status = check_states(g);
  if (status == TENON_OK) status = tn_gradient_source(g, &options, &s->source);
  if (status == TENON_OK) status = mark_dependent(s->source, is_wanted, s->is_dependent);
  if (status == TENON_OK) status = make_whole(s->source, is_wanted, s->is_dependent, &s->whole);
  if (status == TENON_OK) status = find_saved(s->source, s);
  if (status == TENON_OK) status = make_forward(e, s);
  if (status == TENON_OK)
    *out_split = s;
  else
    tn_split_release(s);
  return status;
}

/* Backward */

/* Finds the value of `to` that is computed like `edge`, a small one of `from`, and returns -1 if
 * there is none. Values of forward have the same numbers in both graphs. */
static tenon_edge_t find_twin(const tenon_graph_t *from, tenon_edge_t edge, const tenon_graph_t *to,
                              size_t forward_count) {
  const int32_t producer = from->edges[edge].producer;
  if (from == to || producer < (int32_t)forward_count) return edge;
  const tn_node_t *node = &from->nodes[producer];
  for (size_t n = forward_count; n < to->node_count; n++) {
    const tn_node_t *other = &to->nodes[n];
    bool is_same = other->op == node->op && other->output_count == node->output_count;
    for (uint32_t i = 0; is_same && i < node->op->input_count; i++) {
      is_same = node->operands[i].count == other->operands[i].count;
      for (int32_t k = 0; is_same && k < node->operands[i].count; k++)
        is_same = node->operands[i].edges[k] == other->operands[i].edges[k];
    }
    for (uint32_t a = 0; is_same && a < node->op->schema.attr_count; a++)
      is_same = tn_value_equal(&node->attrs[a], &other->attrs[a]);
    for (int32_t o = 0; is_same && o < node->output_count; o++)
      if (node->outputs[o] == edge) return other->outputs[o];
  }
  return -1;
}

/* Lists the values that backward is given: the inputs, the saved values and the gradients.
 * `out_taken` says which of the saved values are among them. */
static size_t list_given(const tn_split_t *s, const tn_backward_t *b, const tenon_graph_t *whole,
                         tenon_edge_t *given, bool *out_taken) {
  const size_t input_count = s->source->input_count;
  size_t count = 0;
  for (size_t i = 0; i < s->saved_count; i++) {
    const bool is_input = s->saved[i].input >= 0;
    tenon_edge_t edge = s->saved[i].edge;
    if (!is_input) edge = find_twin(s->whole, edge, whole, s->source->node_count);
    out_taken[i] = is_input || (!b->from_inputs && edge >= 0);
    if (out_taken[i]) given[count++] = edge;
  }
  for (size_t i = input_count; i < whole->input_count; i++)
    given[count++] = whole->inputs[i];
  return count;
}

static tenon_status_t compile_backward(const tenon_executable_t *e, const tn_split_t *s,
                                       tn_backward_t *b, const tenon_graph_t *whole) {
  const size_t output_count = e->source->output_count;
  const size_t room = s->saved_count + whole->input_count + 1;
  tenon_graph_t *graph = NULL;
  tenon_edge_t *given = tn_allocate(room * sizeof *given);
  b->is_taken = tn_allocate_zero(s->saved_count + 1, sizeof *b->is_taken);
  tenon_status_t status = TENON_OK;
  if (!given || !b->is_taken) status = tn_no_memory("gradients", room * sizeof *given);
  if (status == TENON_OK) {
    const size_t count = list_given(s, b, whole, given, b->is_taken);
    const tn_part_t part = {given, count, whole->outputs + output_count,
                            whole->output_count - output_count};
    status = tn_part_make(whole, &part, &graph);
  }
  if (status == TENON_OK) status = compile_part(e, graph, b->from_inputs, &b->executable);
  tenon_graph_release(graph);
  tn_release_memory(given);
  return status;
}

/* Random numbers would be drawn anew, and would not be those of forward. */
static tenon_status_t check_random(const tenon_graph_t *g) {
  for (size_t n = 0; n < g->node_count; n++)
    if (g->nodes[n].op->traits & TENON_RANDOM)
      return tn_fail(TENON_UNIMPLEMENTED,
                     "node '%s' (%s): it draws random numbers, so the gradients of a graph with "
                     "this node cannot be differentiated again: leave TENON_GRAD_CREATE out",
                     g->nodes[n].name, g->nodes[n].op->name);
  return TENON_OK;
}

tenon_status_t tn_split_make_backward(const tenon_executable_t *e, const tn_split_t *s,
                                      const bool *has_grad, bool from_inputs,
                                      tn_backward_t **out_backward) {
  const size_t count = e->source->output_count;
  tenon_graph_t *whole = NULL;
  if (from_inputs) TN_TRY(check_random(e->source));
  tn_backward_t *b = tn_allocate_zero(1, sizeof *b);
  if (!b) return tn_no_memory("gradients", sizeof *b);
  b->from_inputs = from_inputs;
  b->has_grad = tn_allocate_zero(count + 1, sizeof *b->has_grad);
  tenon_status_t status = b->has_grad ? TENON_OK : tn_no_memory("gradients", count);
  if (status == TENON_OK) {
    memcpy(b->has_grad, has_grad, count * sizeof *has_grad);
    if (memcmp(has_grad, s->is_dependent, count * sizeof *has_grad) == 0)
      tenon_graph_retain(whole = s->whole);
    else
      status = make_whole(s->source, s->is_wanted, has_grad, &whole);
  }
  if (status == TENON_OK) status = compile_backward(e, s, b, whole);
  tenon_graph_release(whole);
  if (status == TENON_OK)
    *out_backward = b;
  else
    release_backward(b);
  return status;
}
