/* Gradients of dft and stft: inverse transforms. They are composites, so that they have gradients
 * themselves; the gradient formulas in spectral.c call them. */
#include "axes.h"
#include "composite.h"
#include "forward_infer.h"
#include <tenon/check.h>

enum {
  DFT,
  MUL,
  ADD,
  SLICE,
  SLICE_BACKWARD,
  GATHER,
  GATHER_BACKWARD,
  SUM_TO,
  RESHAPE,
};
#define BACKWARD_USES                                                                              \
  "core::dft, core::mul, core::add, core::slice, core::slice_backward, core::gather, "             \
  "core::gather_backward, "                                                                        \
  "core::sum_to, core::reshape"
enum {
  INVERSE,
  ONESIDED,
};

static tenon_status_t invoke_transform(tenon_call_t *call, tenon_tensor_t *t, int64_t n,
                                       int64_t axis, int inverse, int onesided,
                                       tenon_tensor_t **out) {
  tenon_value_t attrs[2] = {value_flag(inverse), value_flag(onesided)};
  tenon_tensor_t *length = core_ints(call, 1, &n);
  tenon_tensor_t *along = core_ints(call, 1, &axis);
  return length && along ? INVOKE(call, DFT, attrs, out, t, length, along) : TENON_MEMORY;
}

/* Takes elements [begin, end) of an axis. */
static tenon_status_t cut_axis(tenon_call_t *call, tenon_tensor_t **t, int64_t begin, int64_t end,
                               int64_t axis) {
  tenon_tensor_t *from = core_ints(call, 1, &begin);
  tenon_tensor_t *to = core_ints(call, 1, &end);
  tenon_tensor_t *along = core_ints(call, 1, &axis);
  return from && to && along ? INVOKE(call, SLICE, NULL, t, *t, from, to, along) : TENON_MEMORY;
}

/* Places t at elements [begin, ...) of an axis of `extent` elements; the others are 0. */
static tenon_status_t place_in_zeros(tenon_call_t *call, tenon_tensor_t **t, int64_t begin,
                                     int64_t extent, int64_t axis) {
  int64_t shape[TENON_RANK_MAX];
  int64_t end = begin + (*t)->shape[axis];
  for (int32_t i = 0; i < (*t)->ndim; i++)
    shape[i] = i == axis ? extent : (*t)->shape[i];
  tenon_tensor_t *whole = core_ints(call, (*t)->ndim, shape);
  tenon_tensor_t *from = core_ints(call, 1, &begin);
  tenon_tensor_t *to = core_ints(call, 1, &end);
  tenon_tensor_t *along = core_ints(call, 1, &axis);
  if (!whole || !from || !to || !along) return TENON_MEMORY;
  return INVOKE(call, SLICE_BACKWARD, NULL, t, *t, whole, from, to, along);
}

/* dft */

/* The gradient of a transform uses the conjugate matrix, which is the inverse matrix times n. Half
 * a spectrum stands for both halves, so an element in both gets both gradients. */
static tenon_status_t dft_backward_run(tenon_call_t *call) {
  enum {
    LENGTH = 2,
    AXIS,
  };
  tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *t, *twice;
  const tenon_tensor_t *shape = call->inputs[1];
  const tenon_tensor_t *length = call->inputs[LENGTH];
  const tenon_tensor_t *given = call->inputs[AXIS];
  int inverse = call->attrs[INVERSE].as.i != 0;
  int mirrored = inverse && call->attrs[ONESIDED].as.i != 0;
  int64_t last = dy->ndim - 1;
  int64_t axis = given ? tensor_int(given, 0) : -2;
  int64_t parts = tensor_int(shape, last);
  if (axis < 0) axis += dy->ndim;
  int64_t extent = tensor_int(shape, axis);
  int64_t n = mirrored ? 2 * (extent - 1) : extent;
  if (length) n = tensor_int(length, 0);
  TENON_TRY(invoke_transform(call, dy, n, axis, !inverse, mirrored, &t));
  if (mirrored) {
    int64_t bins = t->shape[axis];
    twice = t;
    TENON_TRY(cut_axis(call, &twice, 1, (n + 1) / 2, axis));
    TENON_TRY(place_in_zeros(call, &twice, 1, bins, axis));
    TENON_TRY(INVOKE(call, ADD, NULL, &t, t, twice));
  }
  TENON_TRY(core_with(call, MUL, t, inverse ? 1 / (double)n : (double)n, &t));
  if (t->shape[axis] > extent) TENON_TRY(cut_axis(call, &t, 0, extent, axis));
  if (t->shape[axis] < extent) TENON_TRY(place_in_zeros(call, &t, 0, extent, axis));
  if (t->shape[last] > parts) TENON_TRY(cut_axis(call, &t, 0, parts, last));
  return call->host->assign(call, 0, t);
}

static tenon_status_t dft_backward_infer(tenon_infer_t *infer) {
  tenon_meta_t *of[3] = {NULL, infer->inputs[2], infer->inputs[3]};
  return core_shaped_infer(infer, 1, core_dft_infer, of, 0);
}

/* stft */

/* With g the gradient of the frames [batch, frame, time, parts]: dsignal is the sum of g * window
 * at the positions of the frames, and dwindow is the sum of g * frames. */
static tenon_status_t stft_backward_run(tenon_call_t *call) {
  enum {
    SIGNAL = 1,
    STEP,
    WINDOW,
    LENGTH,
  };
  tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *signal = call->inputs[SIGNAL];
  tenon_tensor_t *window = call->inputs[WINDOW];
  tenon_tensor_t *g, *shape, *t;
  int64_t step = tensor_int(call->inputs[STEP], 0);
  int64_t frames = dy->shape[1];
  int64_t one = 1;
  int64_t n = window ? window->shape[0] : signal->shape[1];
  if (call->inputs[LENGTH]) n = tensor_int(call->inputs[LENGTH], 0);
  int64_t reach = window && window->shape[0] < n ? window->shape[0] : n;
  int64_t extents[2] = {frames, reach};
  tenon_tensor_t *places = call->host->temporary(call, tenon_dtype(TENON_I64), 2, extents);
  tenon_value_t along = value_int(1);
  if (!places) return TENON_MEMORY;
  for (int64_t i = 0; i < frames * reach; i++)
    ((int64_t *)places->data)[i] = i / reach * step + i % reach;
  TENON_TRY(invoke_transform(call, dy, n, 2, 1, 0, &g));
  TENON_TRY(core_with(call, MUL, g, (double)n, &g));
  TENON_TRY(cut_axis(call, &g, 0, reach, 2));
  TENON_TRY(cut_axis(call, &g, 0, signal->shape[2], 3));
  if (call->outputs[1]) {
    int64_t column[2] = {reach, one};
    TENON_TRY(INVOKE(call, GATHER, &along, &t, signal, places));
    TENON_TRY(INVOKE(call, MUL, NULL, &t, g, t));
    if (!(shape = core_ints(call, 2, column))) return TENON_MEMORY;
    TENON_TRY(INVOKE(call, SUM_TO, NULL, &t, t, shape));
    TENON_TRY(core_reshape(call, RESHAPE, t, 1, &reach, &t));
    if (reach < window->shape[0]) TENON_TRY(place_in_zeros(call, &t, 0, window->shape[0], 0));
    TENON_TRY(call->host->assign(call, 1, t));
  }
  if (!call->outputs[0]) return TENON_OK;
  if (window) {
    int64_t column[2] = {reach, one};
    t = window;
    if (reach < window->shape[0]) TENON_TRY(cut_axis(call, &t, 0, reach, 0));
    TENON_TRY(core_reshape(call, RESHAPE, t, 2, column, &t));
    TENON_TRY(INVOKE(call, MUL, NULL, &g, g, t));
  }
  if (!(shape = core_ints(call, 3, signal->shape))) return TENON_MEMORY;
  TENON_TRY(INVOKE(call, GATHER_BACKWARD, &along, &t, g, places, shape));
  return call->host->assign(call, 0, t);
}

static tenon_status_t stft_backward_infer(tenon_infer_t *infer) {
  const tenon_meta_t *window = infer->inputs[3];
  TENON_TRY(core_backward_infer(infer, 1, 3, core_stft_infer));
  if (!infer->outputs[1]) return TENON_OK;
  if (!window)
    return tenon_fail(infer, TENON_INVALID,
                      "the gradient of a window is requested, but the window is absent");
  return out_like(infer->outputs[1], window);
}

/* clang-format off */
TENON_ITEMS(core_spectral_backward,
  TENON_OP("dft_backward(Tensor dy, Tensor @host shape, Tensor? @host length=None, "
           "Tensor? @host axis=None, *, bool inverse=False, bool onesided=False) -> Tensor",
    TENON_DOC("The gradient of dft, whose input has this shape."),
    TENON_SAMPLES("dy: [n, 8, 2], shape: [3] [n, 8, 1], axis: [] [1]"),
    TENON_TYPES("dy: float; shape: i64|i32; length: i32|i64; axis: i32|i64; out = dy"),
    TENON_WHERE("shape: known; length: known; axis: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(BACKWARD_USES),
    TENON_INFER(dft_backward_infer),
    TENON_COMPOSITE(dft_backward_run)),
  TENON_OP("stft_backward(Tensor dy, Tensor signal, Tensor @host step, Tensor? window=None, "
           "Tensor? @host length=None, *, bool onesided=True) -> (Tensor? dsignal, "
           "Tensor? dwindow)",
    TENON_DOC("The gradients of stft."),
    TENON_SAMPLES("dy: [n, 2, 4, 2], signal: [n, 12, 1], step: [] [4], window: [6]"),
    TENON_TYPES("dy: float; signal, window = dy; step: i32|i64; length: i32|i64; "
                "dsignal, dwindow = dy"),
    TENON_WHERE("step: known; length: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(BACKWARD_USES),
    TENON_INFER(stft_backward_infer),
    TENON_COMPOSITE(stft_backward_run)))
/* clang-format on */
