/* ctc.c: the operator library `reader`: the loss that teaches a network to read a line
 * (connectionist temporal classification, Graves et al., ICML 2006), its gradient, and, in
 * decode.c, the search that turns the output of the network into text.
 *
 * It is built outside the tree against tenon/op.h alone: tenon build ctc.c decode.c -o reader.so.
 * Tenon calls it through the table at the end. One thread works on each line, so the number of
 * threads does not change a bit of the results. */
#include <stdbool.h>
#include <string.h>
#include <tenon/check.h>

#include "ctc.h"

/* lines */

/* One line. Its states are the classes of its target, with a blank before, between and after them.
 * A path stays in a state, advances by one state, or skips a blank between two different classes.
 * Element [t, c] of log_probs is at t * step + c. */
typedef struct line_t {
  const int64_t *target;
  int64_t frames;
  int64_t states;
  int64_t blank;
  int64_t first;
  int64_t step;
} line_t;

static int64_t class_of(const line_t *line, int64_t state) {
  return state % 2 ? line->target[state / 2] : line->blank;
}

/* Whether a path may skip from state - 2 to this state. */
static bool may_skip(const line_t *line, int64_t state) {
  return state > 2 && state % 2 && line->target[state / 2] != line->target[state / 2 - 1];
}

/* Describes line n. `in` is log_probs, targets, input_lengths, target_lengths. */
static line_t line_of(const tenon_call_t *call, tenon_tensor_t *const *in, int64_t n) {
  const int64_t *shape = in[0]->shape;
  return (line_t){.target = (const int64_t *)in[1]->data + n * in[1]->shape[1],
                  .frames = ((const int64_t *)in[2]->data)[n],
                  .states = 2 * ((const int64_t *)in[3]->data)[n] + 1,
                  .blank = call->attrs[0].as.i,
                  .first = n * shape[2],
                  .step = shape[1] * shape[2]};
}

static tenon_status_t lines_check(tenon_call_t *call, tenon_tensor_t *const *in) {
  int64_t blank = call->attrs[0].as.i;
  int64_t lines = in[1]->shape[0];
  int64_t width = in[1]->shape[1];
  int64_t classes = in[0]->shape[2];
  const int64_t *targets = in[1]->data;
  const int64_t *lengths = in[3]->data;
  TENON_TRY(
      lengths_check(call, in[2], "input_lengths", in[0]->shape[0], "the frames of log_probs"));
  TENON_TRY(lengths_check(call, in[3], "target_lengths", width, "the width of targets"));
  for (int64_t n = 0; n < lines; n++)
    for (int64_t i = 0; i < lengths[n]; i++) {
      int64_t class = targets[n * width + i];
      if (class == blank)
        return tenon_fail(call, TENON_INVALID,
                          "targets[%lld][%lld] is %lld, the blank, which cannot be part of a text",
                          (long long)n, (long long)i, (long long)class);
      if (class < 0 || class >= classes)
        return tenon_fail(call, TENON_INVALID,
                          "targets[%lld][%lld] is %lld, but log_probs has %lld classes, from 0",
                          (long long)n, (long long)i, (long long)class, (long long)classes);
    }
  return TENON_OK;
}

/* ctc_loss */

/* alpha is the logarithm of the probability of all paths to state s in frame t, including frame
 * t. */
static tenon_status_t loss_part(tenon_call_t *call, void *unused, int64_t begin, int64_t end) {
  const tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *loss = call->outputs[0];
  tenon_tensor_t *alpha = call->outputs[1];
  int64_t width = alpha->shape[2];
  int64_t size = alpha->shape[1] * width;
  (void)unused;
  for (int64_t n = begin; n < end; n++) {
    line_t line = line_of(call, call->inputs, n);
    for (int64_t i = 0; i < size; i++)
      set_number(alpha, n * size + i, -INFINITY);
    if (!line.frames) {
      set_number(loss, n, line.states == 1 ? 0 : INFINITY);
      continue;
    }
    for (int64_t t = 0; t < line.frames; t++) {
      int64_t row = n * size + t * width;
      int64_t before = row - width;
      /* Later states cannot be reached yet. */
      for (int64_t s = 0; s < line.states && s < 2 * t + 2; s++) {
        double reached =
            t ? log_sum(number(alpha, before + s), s ? number(alpha, before + s - 1) : -INFINITY,
                        may_skip(&line, s) ? number(alpha, before + s - 2) : -INFINITY)
              : 0;
        set_number(alpha, row + s,
                   reached + number(x, line.first + t * line.step + class_of(&line, s)));
      }
    }
    int64_t last = n * size + (line.frames - 1) * width + line.states - 1;
    set_number(loss, n,
               -log_sum(number(alpha, last), line.states > 1 ? number(alpha, last - 1) : -INFINITY,
                        -INFINITY));
  }
  return TENON_OK;
}

static tenon_status_t loss_run(tenon_call_t *call) {
  TENON_TRY(lines_check(call, call->inputs));
  return call->host->parallel(call, call->inputs[0]->shape[1], 1, loss_part, NULL);
}

static tenon_dim_t states_of(tenon_infer_t *infer, const tenon_meta_t *targets) {
  tenon_dim_t twice = tenon_dim(infer, TENON_DIM_MUL, tenon_extent(2), targets->dims[1]);
  return tenon_dim(infer, TENON_DIM_ADD, twice, tenon_extent(1));
}

static tenon_status_t loss_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *alpha = infer->outputs[1];
  alpha->ndim = 3;
  alpha->dims[0] = x->dims[1];
  alpha->dims[1] = x->dims[0];
  alpha->dims[2] = states_of(infer, infer->inputs[1]);
  return blank_check(infer, infer->attrs[0].as.i, x->dims[2]);
}

/* ctc_loss_backward */

/* beta is the logarithm of the probability of all paths onward from state s, over the frames after
 * t. alpha + beta + loss is the logarithm of the probability of state s in frame t, given the
 * target. `room` has space for the states of a line and a sum for each class. */
static tenon_status_t loss_backward_part(tenon_call_t *call, void *room, int64_t begin,
                                         int64_t end) {
  const tenon_tensor_t *x = call->inputs[1];
  const tenon_tensor_t *alpha = call->inputs[6];
  tenon_tensor_t *out = call->outputs[0];
  int64_t frames = x->shape[0];
  int64_t classes = x->shape[2];
  int64_t width = alpha->shape[2];
  for (int64_t n = begin; n < end; n++) {
    line_t line = line_of(call, call->inputs + 1, n);
    double *beta = (double *)room + n * (width + classes);
    double *sums = beta + width;
    double loss = number(call->inputs[5], n);
    double scale = loss == INFINITY ? NAN : number(call->inputs[0], n);
    for (int64_t t = line.frames; t < frames; t++)
      for (int64_t c = 0; c < classes; c++)
        set_number(out, line.first + t * line.step + c, 0);
    for (int64_t s = 0; s < line.states; s++)
      beta[s] = s + 2 < line.states ? -INFINITY : 0;
    for (int64_t t = line.frames - 1; t >= 0; t--) {
      int64_t at = line.first + t * line.step;
      memset(sums, 0, (size_t)classes * sizeof *sums);
      for (int64_t s = 0; s < line.states; s++)
        sums[class_of(&line, s)] +=
            exp(number(alpha, (n * frames + t) * width + s) + beta[s] + loss);
      for (int64_t c = 0; c < classes; c++)
        set_number(out, at + c, (exp(number(x, at + c)) - sums[c]) * scale);
      for (int64_t s = 0; s < line.states; s++)
        beta[s] += number(x, at + class_of(&line, s));
      /* This works in place: states before s are not read any more. */
      for (int64_t s = 0; s < line.states; s++)
        beta[s] = log_sum(beta[s], s + 1 < line.states ? beta[s + 1] : -INFINITY,
                          s + 2 < line.states && may_skip(&line, s + 2) ? beta[s + 2] : -INFINITY);
    }
  }
  return TENON_OK;
}

static tenon_status_t loss_backward_run(tenon_call_t *call) {
  int64_t lines = call->inputs[1]->shape[1];
  int64_t row = call->inputs[6]->shape[2] + call->inputs[1]->shape[2];
  TENON_TRY(lines_check(call, call->inputs + 1));
  if (!tenon_count(call->outputs[0])) return TENON_OK;
  void *room = call->host->allocate(call, (uint64_t)lines * (uint64_t)row * sizeof(double));
  return room ? call->host->parallel(call, lines, 1, loss_backward_part, room) : TENON_MEMORY;
}

static tenon_status_t loss_backward_infer(tenon_infer_t *infer) {
  tenon_dim_t found = infer->inputs[6]->dims[2];
  tenon_dim_t states = states_of(infer, infer->inputs[2]);
  if (tenon_is_known(found) && tenon_is_known(states) && found.value != states.value)
    return tenon_fail(infer, TENON_INVALID,
                      "alpha is of %lld states, but targets of this width have %lld",
                      (long long)found.value, (long long)states.value);
  return blank_check(infer, infer->attrs[0].as.i, infer->inputs[1]->dims[2]);
}

/* the library */

/* clang-format off */
TENON_LIBRARY(reader, "1.0.0",
  TENON_ABOUT("author: Tenon's examples\nlicence: as Tenon"),
  TENON_GROUP(reader_decode),
  TENON_OP("ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor "
           "target_lengths, *, int blank=0) -> (Tensor loss, Tensor alpha)",
    TENON_DOC("Minus the logarithm of the probability of each target: "
              "torch.nn.functional.ctc_loss with reduction='none'.\n"
              "log_probs is [frames, lines, classes], as log_softmax gives it. targets is "
              "[lines, width], with classes other than the blank; what lies behind a line's "
              "target_lengths is not read. input_lengths says how many frames a line has.\n"
              "The loss is inf where no alignment exists. alpha, [lines, frames, 2 width + 1], "
              "serves the gradient of the loss and has no gradient itself.\n"
              "The gradient is PyTorch's: that of the logits from which log_softmax computed "
              "log_probs, so log_probs must come from log_softmax."),
    TENON_SAMPLES("log_probs: [8, n, c] uniform(-3, -0.1), targets: [n, 3] integers(1, c), "
                  "input_lengths: [n] [8], target_lengths: [n] integers(1, 4)"),
    TENON_TYPES("log_probs: f32|f64; targets, input_lengths, target_lengths: i64; loss, alpha = "
                "log_probs"),
    TENON_SHAPES("log_probs: [t, n, c]; targets: [n, s]; input_lengths, target_lengths: [n]; "
                 "loss: [n]"),
    TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("log_probs: reader::ctc_loss_backward(grad, log_probs, targets, "
                   "input_lengths, target_lengths, loss, alpha, blank=blank)"),
    TENON_INFER(loss_infer),
    TENON_KERNEL("cpu", loss_run)),
  TENON_OP("ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, Tensor "
           "input_lengths, Tensor target_lengths, Tensor loss, Tensor alpha, *, int blank=0) -> "
           "Tensor",
    TENON_DOC("Gradient of ctc_loss: (exp(log_probs) - the probability of the class in this "
              "frame, given the target) * grad.\n"
              "Frames past input_lengths have gradient 0, and lines with an infinite loss have "
              "nan, as in PyTorch; a class whose log_probs is -inf has 0, where PyTorch has nan."),
    TENON_SAMPLES("grad: [n], log_probs: [8, n, c] uniform(-3, -0.1), targets: [n, 3] "
                  "integers(1, c), input_lengths: [n] [8], target_lengths: [n] integers(1, 4), "
                  "loss: [n] uniform(1, 9), alpha: [n, 8, 7] uniform(-9, -1)"),
    TENON_TYPES("log_probs: f32|f64; grad, loss, alpha = log_probs; targets, input_lengths, "
                "target_lengths: i64; out = log_probs"),
    TENON_SHAPES("log_probs: [t, n, c]; targets: [n, s]; input_lengths, target_lengths, grad, "
                 "loss: [n]; alpha: [n, t, _]; out: [t, n, c]"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(loss_backward_infer),
    TENON_KERNEL("cpu", loss_backward_run)))
/* clang-format on */
