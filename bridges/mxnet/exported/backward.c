/* The backward pass: the call is put on Tenon's tape again and differentiated at once. If the
 * operator has a gradient formula, the forward kernel does not run again: a dispatch layer below
 * autograd answers the call with the results that MXNet kept. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "direct.h"
#include "frame.h"
#include "message.h"

/* calls that are added to the tape without running */

static _Thread_local const tenon_op_t *answered;
static tenon_layer_t *layer; /* NULL: the layer cannot be created, so forward runs again */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static tenon_status_t answer(tenon_call_t *call) {
  return call->op == answered ? TENON_OK : host.tenon_call_next(call);
}

static void layer_make(void) {
  char name[64];
  snprintf(name, sizeof name, "mxnet %p", (void *)&layer);
  if (host.tenon_layer_create(name, "below autograd", answer, NULL, &layer) != TENON_OK)
    layer = NULL;
}

/* the arrays of a call */

typedef struct backward_t {
  frame_t frame;
  const node_t *node;
  arrays_t grads;
  arrays_t inputs;
  arrays_t outputs;
  arrays_t results; /* MXNet's arrays; `results` has a gradient for each input */
  tenon_tensor_t **leaves;
  tenon_tensor_t **leaf_grads; /* for each input its gradient; NULL: the gradient is not needed */
  int32_t leaf_count;
  uint64_t done; /* bit i: the gradient of input i is complete */
} backward_t;

static arrays_t part(const arrays_t *all, int first, int count) {
  return (arrays_t){all->shapes + first, all->ranks + first,   all->dtypes + first,
                    all->data + first,   all->devices + first, count};
}

static size_t array_bytes(const arrays_t *arrays, int at) {
  tenon_dtype_t dtype;
  if (!dtype_from(arrays->dtypes[at], &dtype)) return 0;
  size_t size = dtype.bits / 8u;
  for (int d = 0; d < arrays->ranks[at]; d++)
    size *= (size_t)arrays->shapes[at][d];
  return size;
}

static bool is_float_number(int number) {
  tenon_dtype_t dtype;
  return dtype_from(number, &dtype) && (dtype.code == 2 || dtype.code == 4);
}

static bool is_float(const tenon_tensor_t *tensor) {
  return tensor->dtype.code == 2 || tensor->dtype.code == 4;
}

/* Makes a leaf of an input. Only inputs of float dtype have a gradient. */
static bool leaf_add(backward_t *w, tenon_tensor_t *tensor, int at) {
  if (!is_float(tensor)) return true;
  if (host.tenon_tensor_require_grad(tensor, 1) != TENON_OK) return message_of_host();
  w->leaves[at] = tensor;
  w->leaf_count++;
  return true;
}

/* Returns the result that holds an input which the call has written to; NULL: there is none. */
static const span_t *written_as(const node_t *node, int32_t input) {
  for (int32_t o = 0; o < node->self->output_count; o++)
    if (node->self->same[o] == input) return &node->outputs[o];
  return NULL;
}

/* Returns whether a gradient is zero. MXNet passes zeros for results that nothing has used. */
static bool is_zero(const arrays_t *arrays, int at) {
  const char *bytes = arrays->data[at];
  const size_t size = array_bytes(arrays, at);
  return size == 0 || (*bytes == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* gradient formulas that are single calls */

static bool same_shape(const arrays_t *a, int i, const arrays_t *b, int k) {
  return a->ranks[i] == b->ranks[k] &&
         memcmp(a->shapes[i], b->shapes[k], (size_t)a->ranks[i] * sizeof(int64_t)) == 0;
}

/* Calls a gradient formula directly. Formulas that need the tape are left to it: those that sum
 * over broadcast axes, and those of inputs that are absent or whose dtype has no gradient. */
static bool direct_call(backward_t *w, const direct_t *d, const tenon_value_t *values) {
  const node_t *node = w->node;
  const arrays_t *const groups[] = {NULL, &w->grads, &w->inputs, &w->outputs};
  tenon_tensor_t *inputs[DIRECT_MOST] = {NULL};
  tenon_tensor_t *outputs[DIRECT_MOST] = {NULL};
  for (int32_t t = 0; t < d->target_count; t++) {
    const span_t *span = &node->inputs[d->targets[t]];
    if (span->is_absent || !w->results.data[span->first] ||
        !is_float_number(w->results.dtypes[span->first]))
      return true;
  }
  const int target = node->inputs[d->targets[0]].first;
  for (int32_t i = 0; i < d->source_count; i++) {
    const direct_source_t source = d->sources[i];
    if (source.kind == DIRECT_ABSENT) continue;
    const span_t *span =
        source.kind == DIRECT_INPUT ? &node->inputs[source.index] : &node->outputs[source.index];
    const arrays_t *group = groups[source.kind];
    if (span->is_absent) continue;
    if (d->is_pointwise && !same_shape(group, span->first, &w->results, target)) return true;
    if (!(inputs[i] = frame_tensor(&w->frame, group, span->first, group->ranks[span->first], false,
                                   "gradient")))
      return false;
  }
  for (int32_t t = 0; t < d->target_count; t++) {
    const int at = node->inputs[d->targets[t]].first;
    if (!(outputs[t] =
              frame_tensor(&w->frame, &w->results, at, w->results.ranks[at], false, "gradient")))
      return false;
  }
  if (host.tenon_op_call_into(d->op, values, inputs, outputs) != TENON_OK) return message_of_host();
  for (int32_t t = 0; t < d->target_count; t++)
    w->done |= (uint64_t)1 << d->targets[t];
  return true;
}

/* Returns whether the formulas read every gradient that is not zero. If they do not, the call goes
 * to the tape, which reports the error. */
static bool reads_all(const backward_t *w) {
  const operator_t *self = w->node->self;
  uint64_t read = 0;
  for (int32_t r = 0; r < self->direct_count; r++)
    for (int32_t i = 0; i < self->directs[r].source_count; i++)
      if (self->directs[r].sources[i].kind == DIRECT_GRAD)
        read |= (uint64_t)1 << self->directs[r].sources[i].index;
  for (int32_t o = 0; o < self->output_count && self->output_count > 1; o++)
    if (!(read >> o & 1) && !is_zero(&w->grads, w->node->outputs[o].first)) return false;
  return true;
}

static bool directs_call(backward_t *w, const int *ranks) {
  const operator_t *self = w->node->self;
  if (!w->node->directs || !self->direct_count || ranks || !reads_all(w)) return true;
  for (int32_t r = 0; r < self->direct_count; r++)
    if (w->node->directs[r].attrs && !direct_call(w, &self->directs[r], w->node->directs[r].values))
      return false;
  return true;
}

/* the tape */

static bool inputs_set(backward_t *w) {
  const node_t *node = w->node;
  const operator_t *self = node->self;
  for (int32_t i = 0; i < self->input_count; i++) {
    const span_t *span = &node->inputs[i];
    const span_t *written = self->inputs[i].is_written ? written_as(node, i) : NULL;
    const span_t *source = written ? written : span;
    if (!frame_argument(&w->frame, written ? &w->outputs : &w->inputs, 0, source, NULL, true,
                        self->inputs[i].name, &w->frame.inputs[i]))
      return false;
    tenon_tensor_t *tensor = w->frame.inputs[i];
    if (!tensor || self->inputs[i].is_written || (self->without | w->done) >> i & 1) continue;
    for (int32_t k = 0; k < span->count; k++)
      if (!leaf_add(w, span->is_list ? tenon_item(tensor, k) : tensor, span->first + k))
        return false;
    /* A list states in its own dispatch keys that its items are on the tape. It was created before
     * they became leaves, so it is created again. */
    if (span->is_list && span->count) {
      tenon_tensor_t *list = NULL;
      if (host.tenon_tensor_list((tenon_tensor_t *const *)tensor->data, span->count, &list) !=
          TENON_OK)
        return message_of_host();
      if (!frame_own(&w->frame, list)) return false;
      w->frame.inputs[i] = list;
    }
  }
  return true;
}

static bool tape_call(backward_t *w, tenon_bound_t *bound, const int *ranks) {
  const operator_t *self = w->node->self;
  for (int32_t o = 0; o < self->output_count; o++) {
    if (self->same[o] >= 0)
      w->frame.outputs[o] = w->frame.inputs[self->same[o]];
    else if (!frame_argument(&w->frame, &w->outputs, 0, &w->node->outputs[o], ranks, true,
                             self->outputs[o].name, &w->frame.outputs[o]))
      return false;
  }
  const tenon_op_t *before = answered;
  answered = self->op;
  host.tenon_layer_enable(layer, 1);
  tenon_status_t status =
      bound ? host.tenon_bound_call_into(bound, w->frame.inputs, w->frame.outputs)
            : host.tenon_op_call_into(self->op, w->node->values, w->frame.inputs, w->frame.outputs);
  host.tenon_layer_enable(layer, 0);
  answered = before;
  return status == TENON_OK || message_of_host();
}

static bool tape_again(backward_t *w, tenon_bound_t *bound) {
  const operator_t *self = w->node->self;
  for (int32_t o = 0; o < self->output_count; o++)
    w->frame.outputs[o] = NULL;
  tenon_status_t status =
      bound ? host.tenon_bound_call(bound, w->frame.inputs, w->frame.outputs, 0)
            : host.tenon_op_call(self->op, w->node->values, w->frame.inputs, w->frame.outputs, 0);
  if (status != TENON_OK) return message_of_host();
  for (int32_t o = 0; o < self->output_count; o++)
    if (w->frame.outputs[o] && !frame_own(&w->frame, w->frame.outputs[o])) return false;
  return true;
}

/* Runs backward from the results of float dtype that were used. Results that are written arguments
 * are constants. */
static bool go_back(backward_t *w, const int *ranks) {
  const node_t *node = w->node;
  const operator_t *self = node->self;
  size_t most = (size_t)node->output_count + (size_t)node->input_count + 1;
  tenon_tensor_t **lists = frame_take(&w->frame, 4 * most * sizeof *lists);
  tenon_tensor_t **outputs = lists;
  tenon_tensor_t **grads = lists + most;
  tenon_tensor_t **leaves = lists + 2 * most;
  tenon_tensor_t **found = lists + 3 * most;
  int32_t count = 0;
  int32_t leaf_count = 0;
  if (!lists) return false;
  for (int32_t o = 0; o < self->output_count; o++) {
    const span_t *span = &node->outputs[o];
    for (int32_t k = 0; k < span->count; k++) {
      const int at = span->first + k;
      const int rank = ranks ? ranks[at] : w->grads.ranks[at];
      tenon_tensor_t *output =
          span->is_list ? tenon_item(w->frame.outputs[o], k) : w->frame.outputs[o];
      if (!is_float(output) || (node->output_count > 1 && is_zero(&w->grads, at))) continue;
      if (self->same[o] >= 0)
        return message_set("%s: MXNet passed a gradient for result '%s', which is an argument that "
                           "the operator wrote to",
                           self->full, self->outputs[o].name);
      outputs[count] = output;
      if (!(grads[count++] =
                frame_tensor(&w->frame, &w->grads, at, rank, true, self->outputs[o].name)))
        return false;
    }
  }
  for (int k = 0; k < node->input_count; k++)
    if (w->leaves[k]) leaves[leaf_count++] = w->leaves[k];
  if (!count) return true;
  if (host.tenon_gradients(outputs, grads, count, leaves, leaf_count, TENON_GRAD_UNUSED, found) !=
      TENON_OK)
    return message_of_host();
  bool is_fine = true;
  for (int k = 0, at = 0; k < node->input_count; k++) {
    if (!w->leaves[k]) continue;
    w->leaf_grads[k] = found[at++];
    if (w->leaf_grads[k]) is_fine = frame_own(&w->frame, w->leaf_grads[k]) && is_fine;
  }
  return is_fine;
}

/* Returns whether a formula that was called directly has written this gradient. */
static bool is_given(const backward_t *w, int array) {
  for (int32_t i = 0; i < w->node->self->input_count; i++)
    if (w->done >> i & 1 && w->node->inputs[i].first == array && w->node->inputs[i].count)
      return true;
  return false;
}

/* Copies the gradients to MXNet's memory. Inputs without a gradient get zeros. */
static bool give(backward_t *w) {
  for (int k = 0; k < w->node->input_count; k++) {
    if (!w->results.data[k] || is_given(w, k)) continue;
    if (!w->leaf_grads[k]) {
      memset(w->results.data[k], 0, array_bytes(&w->results, k));
      continue;
    }
    tenon_tensor_t *to =
        frame_tensor(&w->frame, &w->results, k, w->results.ranks[k], true, "gradient");
    if (!to) return false;
    if (host.tenon_tensor_copy_async(w->leaf_grads[k], to) != TENON_OK) return message_of_host();
  }
  return true;
}

/* Returns whether the gradients of all inputs are complete. */
static bool is_done(const backward_t *w) {
  const uint64_t all = w->node->self->input_count == 64
                           ? ~(uint64_t)0
                           : ((uint64_t)1 << w->node->self->input_count) - 1;
  return w->done == all;
}

static bool run_backward_op(backward_t *w, tenon_bound_t *bound) {
  const node_t *node = w->node;
  const int *ranks;
  w->leaves = frame_take(&w->frame, 2 * ((size_t)node->input_count + 1) * sizeof *w->leaves);
  if (!w->leaves) return false;
  w->leaf_grads = w->leaves + node->input_count + 1;
  memset(w->leaves, 0, 2 * ((size_t)node->input_count + 1) * sizeof *w->leaves);
  if (!frame_ranks(&w->frame, &w->inputs, &w->outputs, 0, &ranks) || !directs_call(w, ranks))
    return false;
  if (is_done(w)) return true;
  if (!inputs_set(w)) return false;
  if (w->leaf_count) {
    bool is_taped =
        node->self->has_formula && layer ? tape_call(w, bound, ranks) : tape_again(w, bound);
    if (!is_taped || !go_back(w, ranks)) return false;
  }
  return give(w);
}

/* Serves operators without a gradient: returns zeros if all gradients that arrive are zero, and
 * fails otherwise. These operators have a backward function because MXNet creates one for every
 * operator of a block, whether it is needed or not. */
static bool refuse(const backward_t *w) {
  const operator_t *self = w->node->self;
  for (int32_t o = 0; o < self->output_count; o++)
    for (int32_t k = 0; k < w->node->outputs[o].count; k++)
      if (is_float_number(w->outputs.dtypes[w->node->outputs[o].first + k]) &&
          !is_zero(&w->grads, w->node->outputs[o].first + k))
        return message_set("%s", self->why);
  for (int k = 0; k < w->node->input_count; k++)
    if (w->results.data[k]) memset(w->results.data[k], 0, array_bytes(&w->results, k));
  return true;
}

bool call_backward(const node_t *node, tenon_bound_t *bound, const block_t *b) {
  const int outputs = node->output_count;
  const int inputs = node->input_count;
  backward_t w;
  pthread_once(&once, layer_make);
  if (b->in.count != 2 * outputs + inputs || b->out.count != inputs)
    return message_set("gradient of %s: expected %d arrays and %d results, found %d and %d",
                       node->self->full, 2 * outputs + inputs, inputs, b->in.count, b->out.count);
  w.node = node;
  w.leaf_count = 0;
  w.done = 0;
  w.grads = part(&b->in, 0, outputs);
  w.inputs = part(&b->in, outputs, inputs);
  w.outputs = part(&b->in, outputs + inputs, outputs);
  w.results = part(&b->out, 0, inputs);
  frame_open(&w.frame, node);
  bool is_fine = !*node->self->why ? run_backward_op(&w, bound) : refuse(&w);
  frame_close(&w.frame);
  return is_fine;
}
