/* Splits graphs into forward and backward, and runs both; see training.h. Called by run.c.
 * Invariant: what backward is given was made by the same run, or is an input of it, whose memory the
 * tape checks for later writes. */
#include "graph/training.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/value.h"
#include "graph/part.h"

/* Backward for some of the outputs. */
typedef struct backward_t {
  struct backward_t *next;
  bool *has_grad;   /* for each differentiable output: its gradient has arrived */
  bool from_inputs; /* computes everything from the inputs, so that it can be differentiated */
  bool *is_taken;   /* for each saved value: it is given */
  tenon_executable_t *executable;
} backward_t;

/* Where a value comes from that backward is given. */
typedef struct saved_t {
  tenon_edge_t edge; /* of the graph with gradients */
  int32_t input;     /* index of the input that it is; -1: none */
  int32_t output;    /* index of the output that it is; -1: none */
} saved_t;

/* Forward and backward for some of the inputs. */
typedef struct split_t {
  struct split_t *next;
  bool *is_wanted;      /* for each input: it requires a gradient */
  bool *is_dependent;   /* for each output: it depends on a wanted input */
  tenon_graph_t *whole; /* the graph with gradients of all dependent outputs */
  saved_t *saved;
  size_t saved_count;
  tenon_executable_t *forward;
  backward_t *backwards;
} split_t;

struct tn_training_t {
  tn_mutex_t lock; /* guards the lists, which only grow */
  split_t *splits;
  char *reason; /* why the graph is left to the interpreter; NULL: it is not, so far */
};

static void release_backward(backward_t *b) {
  tenon_executable_release(b->executable);
  tn_release_memory(b->has_grad);
  tn_release_memory(b->is_taken);
  tn_release_memory(b);
}

static void release_split(split_t *s) {
  for (backward_t *b = s->backwards, *next; b; b = next) {
    next = b->next;
    release_backward(b);
  }
  tenon_executable_release(s->forward);
  tenon_graph_release(s->whole);
  tn_release_memory(s->is_wanted);
  tn_release_memory(s->is_dependent);
  tn_release_memory(s->saved);
  tn_release_memory(s);
}

tenon_status_t tn_training_create(tenon_executable_t *e) {
  e->training = tn_allocate_zero(1, sizeof *e->training);
  return e->training ? TENON_OK : tn_no_memory("gradients", sizeof *e->training);
}

void tn_training_release(tenon_executable_t *e) {
  tn_training_t *t = e->training;
  if (!t) return;
  for (split_t *s = t->splits, *next; s; s = next) {
    next = s->next;
    release_split(s);
  }
  tn_release_memory(t->reason);
  tn_release_memory(t);
  e->training = NULL;
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
                                     .flags = TENON_GRADIENTS_GIVEN | TENON_GRADIENTS_UNUSED,
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

/* Keeps what the needed nodes of backward read, and gradients that are values of forward. Instead of
 * a view, what it is a view of is kept: a view costs nothing to make, and would be kept as a
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
static tenon_status_t list_saved(const cut_t *c, split_t *s) {
  const tenon_graph_t *g = c->g;
  size_t count = (size_t)c->input_count;
  for (size_t e = 0; e < g->edge_count; e++)
    count += c->is_kept[e];
  if (!(s->saved = tn_allocate((count + 1) * sizeof *s->saved)))
    return tn_no_memory("gradients", count * sizeof *s->saved);
  for (int32_t i = 0; i < c->input_count; i++)
    s->saved[s->saved_count++] = (saved_t){g->inputs[i], i, -1};
  for (size_t e = 0; e < g->edge_count; e++)
    if (c->is_kept[e] && g->edges[e].input < 0)
      s->saved[s->saved_count++] = (saved_t){(tenon_edge_t)e, -1, output_of(c, (tenon_edge_t)e)};
  return TENON_OK;
}

static tenon_status_t find_saved(const tenon_graph_t *source, split_t *s) {
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

static bool is_extra(const saved_t *saved) { return saved->input < 0 && saved->output < 0; }

static tenon_status_t make_forward(const tenon_executable_t *e, split_t *s) {
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

static tenon_status_t make_split(const tenon_executable_t *e, const bool *is_wanted,
                                 split_t **out_split) {
  const tenon_graph_t *g = e->source;
  split_t *s = tn_allocate_zero(1, sizeof *s);
  if (!s) return tn_no_memory("gradients", sizeof *s);
  s->is_wanted = tn_allocate_zero(g->input_count + 1, sizeof *s->is_wanted);
  s->is_dependent = tn_allocate_zero(g->output_count + 1, sizeof *s->is_dependent);
  tenon_status_t status = TENON_OK;
  if (!s->is_wanted || !s->is_dependent)
    status = tn_no_memory("gradients", g->input_count + g->output_count);
  else
    memcpy(s->is_wanted, is_wanted, g->input_count * sizeof *is_wanted);
  if (status == TENON_OK) status = check_states(g);
  if (status == TENON_OK) status = mark_dependent(g, is_wanted, s->is_dependent);
  if (status == TENON_OK) status = make_whole(g, is_wanted, s->is_dependent, &s->whole);
  if (status == TENON_OK) status = find_saved(g, s);
  if (status == TENON_OK) status = make_forward(e, s);
  if (status == TENON_OK)
    *out_split = s;
  else
    release_split(s);
  return status;
}

/* Finds or makes the split for these inputs. *out_split is NULL if the graph has none. */
static tenon_status_t find_split(tenon_executable_t *e, const bool *is_wanted,
                                 split_t **out_split) {
  tn_training_t *t = e->training;
  const size_t size = e->source->input_count * sizeof *is_wanted;
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&t->lock);
  split_t *s = t->splits;
  while (s && memcmp(s->is_wanted, is_wanted, size) != 0)
    s = s->next;
  if (!s && !t->reason) {
    status = make_split(e, is_wanted, &s);
    if (status == TENON_OK) {
      s->next = t->splits;
      t->splits = s;
    } else if (status != TENON_MEMORY) { /* the interpreter reports what fails, and when */
      t->reason = tn_copy_text(tn_error(), strlen(tn_error()));
      status = t->reason ? TENON_OK : tn_no_memory("a message", 0);
    }
  }
  tn_mutex_unlock(&t->lock);
  *out_split = s;
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
static size_t list_given(const tenon_executable_t *e, const split_t *s, const backward_t *b,
                         const tenon_graph_t *whole, tenon_edge_t *given, bool *out_taken) {
  const size_t input_count = e->source->input_count;
  size_t count = 0;
  for (size_t i = 0; i < s->saved_count; i++) {
    const bool is_input = s->saved[i].input >= 0;
    tenon_edge_t edge = s->saved[i].edge;
    if (!is_input) edge = find_twin(s->whole, edge, whole, e->source->node_count);
    out_taken[i] = is_input || (!b->from_inputs && edge >= 0);
    if (out_taken[i]) given[count++] = edge;
  }
  for (size_t i = input_count; i < whole->input_count; i++)
    given[count++] = whole->inputs[i];
  return count;
}

static tenon_status_t compile_backward(const tenon_executable_t *e, const split_t *s, backward_t *b,
                                       const tenon_graph_t *whole) {
  const size_t output_count = e->source->output_count;
  const size_t room = s->saved_count + whole->input_count + 1;
  tenon_graph_t *graph = NULL;
  tenon_edge_t *given = tn_allocate(room * sizeof *given);
  b->is_taken = tn_allocate_zero(s->saved_count + 1, sizeof *b->is_taken);
  tenon_status_t status = TENON_OK;
  if (!given || !b->is_taken) status = tn_no_memory("gradients", room * sizeof *given);
  if (status == TENON_OK) {
    const size_t count = list_given(e, s, b, whole, given, b->is_taken);
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

static tenon_status_t make_backward(const tenon_executable_t *e, const split_t *s,
                                    const bool *has_grad, bool from_inputs,
                                    backward_t **out_backward) {
  const size_t count = e->source->output_count;
  tenon_graph_t *whole = NULL;
  if (from_inputs) TN_TRY(check_random(e->source));
  backward_t *b = tn_allocate_zero(1, sizeof *b);
  if (!b) return tn_no_memory("gradients", sizeof *b);
  b->from_inputs = from_inputs;
  b->has_grad = tn_allocate_zero(count + 1, sizeof *b->has_grad);
  tenon_status_t status = b->has_grad ? TENON_OK : tn_no_memory("gradients", count);
  if (status == TENON_OK) {
    memcpy(b->has_grad, has_grad, count * sizeof *has_grad);
    if (memcmp(has_grad, s->is_dependent, count * sizeof *has_grad) == 0)
      tenon_graph_retain(whole = s->whole);
    else
      status = make_whole(e->source, s->is_wanted, has_grad, &whole);
  }
  if (status == TENON_OK) status = compile_backward(e, s, b, whole);
  tenon_graph_release(whole);
  if (status == TENON_OK)
    *out_backward = b;
  else
    release_backward(b);
  return status;
}

static tenon_status_t find_backward(const tenon_executable_t *e, split_t *s, const bool *has_grad,
                                    bool from_inputs, const backward_t **out_backward) {
  const size_t size = e->source->output_count * sizeof *has_grad;
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&e->training->lock);
  backward_t *b = s->backwards;
  while (b && (b->from_inputs != from_inputs || memcmp(b->has_grad, has_grad, size) != 0))
    b = b->next;
  if (!b) {
    status = make_backward(e, s, has_grad, from_inputs, &b);
    if (status == TENON_OK) {
      b->next = s->backwards;
      s->backwards = b;
    }
  }
  tn_mutex_unlock(&e->training->lock);
  *out_backward = b;
  return status;
}

/* Runs */

typedef struct recorded_t { /* one run; it lives as long as its entry of the tape */
  tenon_executable_t *executable;
  split_t *split;
  tenon_tensor_t **outputs; /* while it runs: those of the caller */
  tenon_profile_t *profile; /* while it runs; NULL: none */
} recorded_t;

static void end_recorded(void *context) {
  recorded_t *r = context;
  tenon_executable_release(r->executable);
  tn_release_memory(r);
}

/* Saves what backward needs, in the order of the list. `extra` holds the values that are no
 * outputs. */
static tenon_status_t save_values(const split_t *s, tenon_function_call_t *call,
                                  tenon_tensor_t *const *outputs, tenon_tensor_t *const *extra) {
  for (size_t i = 0; i < s->saved_count; i++) {
    const saved_t *saved = &s->saved[i];
    tenon_tensor_t *tensor;
    if (saved->input >= 0)
      tensor = call->inputs[saved->input];
    else
      tensor = saved->output >= 0 ? outputs[saved->output] : *extra++;
    TN_TRY(tenon_function_save(call, tensor));
  }
  return TENON_OK;
}

static tenon_status_t run_forward(tenon_function_call_t *call) {
  recorded_t *r = call->context;
  const split_t *s = r->split;
  const size_t count = r->executable->source->output_count;
  const size_t room = count + s->saved_count + 1;
  tenon_tensor_t **made = tn_allocate_zero(room, sizeof *made);
  if (!made) return tn_no_memory("a run", room * sizeof *made);
  tenon_status_t status = tenon_executable_run(s->forward, call->inputs, made, r->profile);
  if (status == TENON_OK) status = save_values(s, call, made, made + count);
  int32_t at = 0;
  for (size_t o = 0; o < count && status == TENON_OK; o++) {
    if (s->is_dependent[o])
      call->outputs[at++] = made[o];
    else
      r->outputs[o] = made[o];
    made[o] = NULL;
  }
  for (size_t i = 0; i < room; i++)
    tenon_tensor_release(made[i]);
  tn_release_memory(made);
  return status;
}

/* Collects what backward is given. */
static tenon_status_t gather_given(const recorded_t *r, const backward_t *b,
                                   tenon_function_call_t *call, tenon_tensor_t **given,
                                   size_t *out_count) {
  size_t count = 0;
  for (size_t i = 0; i < r->split->saved_count; i++) {
    if (!b->is_taken[i]) continue;
    TN_TRY(tenon_function_saved(call, (int32_t)i, &given[count]));
    *out_count = ++count;
  }
  for (int32_t o = 0; o < call->output_count; o++) {
    if (!call->grads[o]) continue;
    tenon_tensor_retain(given[count] = call->grads[o]);
    *out_count = ++count;
  }
  return TENON_OK;
}

static tenon_status_t run_backward(const recorded_t *r, const backward_t *b,
                                   tenon_function_call_t *call) {
  const split_t *s = r->split;
  const size_t input_count = r->executable->source->input_count;
  const size_t room = s->saved_count + (size_t)call->output_count + input_count + 1;
  size_t count = 0;
  tenon_tensor_t **given = tn_allocate_zero(room, sizeof *given);
  if (!given) return tn_no_memory("gradients", room * sizeof *given);
  tenon_tensor_t **made = given + s->saved_count + (size_t)call->output_count;
  tenon_status_t status = gather_given(r, b, call, given, &count);
  if (status == TENON_OK) status = tenon_executable_run(b->executable, given, made, NULL);
  for (size_t i = 0, k = 0; i < input_count && status == TENON_OK; i++)
    if (s->is_wanted[i]) call->out_grads[i] = made[k++];
  for (size_t i = 0; i < count; i++)
    tenon_tensor_release(given[i]);
  tn_release_memory(given);
  return status;
}

static tenon_status_t start_backward(tenon_function_call_t *call) {
  const recorded_t *r = call->context;
  const backward_t *b;
  const size_t count = r->executable->source->output_count;
  bool *has_grad = tn_allocate_zero(count + 1, sizeof *has_grad);
  if (!has_grad) return tn_no_memory("gradients", count);
  int32_t at = 0;
  bool any = false;
  for (size_t o = 0; o < count; o++) {
    if (!r->split->is_dependent[o]) continue;
    has_grad[o] = call->grads[at++] != NULL;
    any |= has_grad[o];
  }
  tenon_status_t status = TENON_OK;
  if (any)
    status = find_backward(r->executable, r->split, has_grad, tenon_grad_mode_get() != 0, &b);
  if (any && status == TENON_OK) status = run_backward(r, b, call);
  tn_release_memory(has_grad);
  return status;
}

/* Runs forward, and records it. */
static tenon_status_t run_split(tenon_executable_t *e, split_t *s, tenon_tensor_t *const *inputs,
                                tenon_tensor_t **outputs, tenon_profile_t *profile) {
  const size_t count = e->source->output_count;
  int32_t dependent_count = 0;
  recorded_t *r = tn_allocate_zero(1, sizeof *r);
  tenon_tensor_t **dependent = tn_allocate_zero(count + 1, sizeof *dependent);
  if (!r || !dependent) {
    tn_release_memory(r);
    tn_release_memory(dependent);
    return tn_no_memory("a run", count * sizeof *dependent);
  }
  *r = (recorded_t){e, s, outputs, profile};
  tenon_executable_retain(e);
  for (size_t o = 0; o < count; o++)
    dependent_count += s->is_dependent[o];
  const tenon_function_t function = {.size = sizeof function,
                                     .name = *e->source->name ? e->source->name : "a graph",
                                     .forward = run_forward,
                                     .backward = start_backward,
                                     .context = r,
                                     .destroy = end_recorded};
  tenon_status_t status = tenon_function_call(&function, inputs, (int32_t)e->source->input_count,
                                              dependent, dependent_count);
  for (size_t o = 0, k = 0; o < count; o++) {
    if (status == TENON_OK && s->is_dependent[o]) outputs[o] = dependent[k++];
    if (status == TENON_OK) continue;
    tenon_tensor_release(outputs[o]);
    outputs[o] = NULL;
  }
  tn_release_memory(dependent);
  return status;
}

static tenon_status_t run_wanted(tenon_executable_t *e, const bool *is_wanted,
                                 tenon_tensor_t *const *inputs, tenon_tensor_t **outputs,
                                 tenon_profile_t *profile, bool *out_ran) {
  split_t *s;
  TN_TRY(find_split(e, is_wanted, &s));
  if (!s) return TENON_OK;
  *out_ran = true;
  return run_split(e, s, inputs, outputs, profile);
}

tenon_status_t tn_training_run(tenon_executable_t *e, tenon_tensor_t *const *inputs,
                               tenon_tensor_t **outputs, tenon_profile_t *profile, bool *out_ran) {
  const size_t count = e->source->input_count;
  const bool is_recorded = tenon_grad_mode_get() != 0;
  bool any = false;
  *out_ran = false;
  bool *is_wanted = tn_allocate_zero(count + 1, sizeof *is_wanted);
  if (!is_wanted) return tn_no_memory("a run", count);
  for (size_t i = 0; i < count && is_recorded; i++) {
    is_wanted[i] = inputs[i] && tenon_tensor_requires_grad(inputs[i]);
    any |= is_wanted[i];
  }
  tenon_status_t status = TENON_OK;
  if (any) status = run_wanted(e, is_wanted, inputs, outputs, profile, out_ran);
  tn_release_memory(is_wanted);
  return status;
}

/* The dump */

static void print_split(const tenon_graph_t *source, const split_t *s, tn_text_t *text) {
  tn_text_add(text, "gradients of");
  for (size_t i = 0; i < source->input_count; i++)
    if (s->is_wanted[i]) tn_text_add(text, " %s", source->edges[source->inputs[i]].name);
  tn_text_add(text, "\n");
  for (size_t i = 0; i < s->saved_count; i++) {
    const saved_t *saved = &s->saved[i];
    if (saved->input >= 0) continue;
    const tn_edge_t *edge = &s->whole->edges[saved->edge];
    tn_text_add(text, "  kept: %s: ", edge->name);
    tn_edge_print(s->whole, edge, text);
    if (edge->producer >= 0)
      tn_text_add(text, ", of node '%s' (%s)", s->whole->nodes[edge->producer].name,
                  s->whole->nodes[edge->producer].op->name);
    tn_text_add(text, "%s\n", saved->output >= 0 ? ", an output" : "");
  }
}

void tn_training_print(tenon_executable_t *e, tn_text_t *text) {
  tn_training_t *t = e->training;
  if (!t) {
    tn_text_add(text, "no gradients: compile with TENON_COMPILE_GRADIENTS\n");
    return;
  }
  tn_mutex_lock(&t->lock);
  if (t->reason) tn_text_add(text, "recorded call by call: %s\n", t->reason);
  if (!t->reason && !t->splits)
    tn_text_add(text, "no run was recorded: run the executable with an input that requires "
                      "gradients first\n");
  for (const split_t *s = t->splits; s; s = s->next)
    print_split(e->source, s, text);
  tn_mutex_unlock(&t->lock);
}
