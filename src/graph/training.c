/* Runs graphs as forward and backward; see training.h. Called by run.c. Invariant: what backward is
 * given was made by the same run, or is an input of it, whose memory the tape checks for later
 * writes. */
#include "graph/training.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "graph/split.h"

struct tn_training_t {
  tn_mutex_t lock; /* guards the lists, which only grow */
  tn_split_t *splits;
  char *reason; /* why the graph is left to the interpreter; NULL: it is not, so far */
};

tenon_status_t tn_training_create(tenon_executable_t *e) {
  e->training = tn_allocate_zero(1, sizeof *e->training);
  return e->training ? TENON_OK : tn_no_memory("gradients", sizeof *e->training);
}

void tn_training_release(tenon_executable_t *e) {
  tn_training_t *t = e->training;
  if (!t) return;
  for (tn_split_t *s = t->splits, *next; s; s = next) {
    next = s->next;
    tn_split_release(s);
  }
  tn_release_memory(t->reason);
  tn_release_memory(t);
  e->training = NULL;
}

/* Finds or makes the split for these inputs. *out_split is NULL if the graph has none. */
static tenon_status_t find_split(tenon_executable_t *e, const bool *is_wanted,
                                 tn_split_t **out_split) {
  tn_training_t *t = e->training;
  const size_t size = e->source->input_count * sizeof *is_wanted;
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&t->lock);
  tn_split_t *s = t->splits;
  while (s && memcmp(s->is_wanted, is_wanted, size) != 0)
    s = s->next;
  if (!s && !t->reason) {
    status = tn_split_make(e, is_wanted, &s);
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

static tenon_status_t find_backward(const tenon_executable_t *e, tn_split_t *s,
                                    const bool *has_grad, bool from_inputs,
                                    const tn_backward_t **out_backward) {
  const size_t size = e->source->output_count * sizeof *has_grad;
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&e->training->lock);
  tn_backward_t *b = s->backwards;
  while (b && (b->from_inputs != from_inputs || memcmp(b->has_grad, has_grad, size) != 0))
    b = b->next;
  if (!b) {
    status = tn_split_make_backward(e, s, has_grad, from_inputs, &b);
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
  tn_split_t *split;
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
static tenon_status_t save_values(const tn_split_t *s, tenon_function_call_t *call,
                                  tenon_tensor_t *const *outputs, tenon_tensor_t *const *extra) {
  for (size_t i = 0; i < s->saved_count; i++) {
    const tn_split_value_t *saved = &s->saved[i];
    tenon_tensor_t *tensor;
    if (saved->input >= 0)
      tensor = call->inputs[saved->input];
    else
      tensor = saved->output >= 0 ? outputs[saved->output] : *extra++;
    TN_TRY(tenon_function_save(call, tensor));
  }
  return TENON_OK;
}

static tenon_status_t run_forward_half(tenon_function_call_t *call) {
  recorded_t *r = call->context;
  const tn_split_t *s = r->split;
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
static tenon_status_t gather_given(const recorded_t *r, const tn_backward_t *b,
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

static tenon_status_t run_backward_half(const recorded_t *r, const tn_backward_t *b,
                                        tenon_function_call_t *call) {
  const tn_split_t *s = r->split;
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
  const tn_backward_t *b;
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
  if (any && status == TENON_OK) status = run_backward_half(r, b, call);
  tn_release_memory(has_grad);
  return status;
}

/* Runs forward, and records it. */
static tenon_status_t run_split(tenon_executable_t *e, tn_split_t *s, tenon_tensor_t *const *inputs,
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
                                     .forward = run_forward_half,
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
  tn_split_t *s;
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

static void print_split(const tenon_graph_t *source, const tn_split_t *s, tn_text_t *text) {
  tn_text_add(text, "gradients of");
  for (size_t i = 0; i < source->input_count; i++)
    if (s->is_wanted[i]) tn_text_add(text, " %s", source->edges[source->inputs[i]].name);
  tn_text_add(text, "\n");
  for (size_t i = 0; i < s->saved_count; i++) {
    const tn_split_value_t *saved = &s->saved[i];
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
  for (const tn_split_t *s = t->splits; s; s = s->next)
    print_split(e->source, s, text);
  tn_mutex_unlock(&t->lock);
}
