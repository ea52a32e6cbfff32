/* The forward pass: Tenon's kernel reads MXNet's arrays and writes to them. */
#include <string.h>

#include "call.h"
#include "frame.h"
#include "message.h"

static bool results_set(frame_t *f, const block_t *b) {
  const node_t *node = f->node;
  const operator_t *self = node->self;
  const int *ranks;
  if (!frame_ranks(f, &b->in, &b->out, 0, &ranks)) return false;
  for (int32_t o = 0; o < self->output_count; o++) {
    if (self->same[o] >= 0)
      f->outputs[o] = f->inputs[self->same[o]];
    else if (!frame_argument(f, &b->out, 0, &node->outputs[o], ranks, false, self->outputs[o].name,
                             &f->outputs[o]))
      return false;
  }
  return true;
}

/* Copies written arguments to the results that they are. MXNet gives such a result memory of its
 * own unless the caller passed the argument as `out`. */
static void copy_written(const frame_t *f, const block_t *b) {
  const operator_t *self = f->node->self;
  for (int32_t o = 0; o < self->output_count; o++) {
    const span_t *to = &f->node->outputs[o];
    const span_t *from = self->same[o] < 0 ? NULL : &f->node->inputs[self->same[o]];
    for (int32_t k = 0; from && k < to->count && k < from->count; k++) {
      const int at = from->first + k;
      tenon_dtype_t dtype;
      if (b->in.data[at] == b->out.data[to->first + k] || !dtype_from(b->in.dtypes[at], &dtype))
        continue;
      size_t size = dtype.bits / 8u;
      for (int d = 0; d < b->in.ranks[at]; d++)
        size *= (size_t)b->in.shapes[at][d];
      memcpy(b->out.data[to->first + k], b->in.data[at], size);
    }
  }
}

static bool run_forward_op(frame_t *f, tenon_bound_t *bound, const block_t *b) {
  const node_t *node = f->node;
  const operator_t *self = node->self;
  tenon_generator_t *generator;
  tenon_generator_t *before = NULL;
  for (int32_t i = 0; i < self->input_count; i++)
    if (!frame_argument(f, &b->in, 0, &node->inputs[i], NULL, false, self->inputs[i].name,
                        &f->inputs[i]))
      return false;
  if (!results_set(f, b) || !random_begin(node, b, &generator, &before)) return false;
  tenon_status_t status =
      bound ? host.tenon_bound_call_into(bound, f->inputs, f->outputs)
            : host.tenon_op_call_into(self->op, node->values, f->inputs, f->outputs);
  random_end(generator, before);
  if (status != TENON_OK) return message_of_host();
  if (self->writes) copy_written(f, b);
  return true;
}

bool call_forward(const node_t *node, tenon_bound_t *bound, const block_t *b) {
  frame_t frame;
  if (b->in.count != node->input_count || b->out.count != node->output_count)
    return message_set("%s: expected %d arrays and %d results, found %d and %d", node->self->full,
                       node->input_count, node->output_count, b->in.count, b->out.count);
  frame_open(&frame, node);
  bool is_fine = run_forward_op(&frame, bound, b);
  frame_close(&frame);
  return is_fine;
}
