/* dft and stft: ONNX's Fourier transforms of real and complex signals, whose last axis holds the
 * real and imaginary parts. The host calls infer and the kernels; lines are tasks.
 * Invariant: lines are transformed in double precision, whatever the dtype. */
#include "axes.h"
#include "dense.h"
#include "fft.h"
#include "forward_infer.h"
#include <tenon/check.h>

enum {
  SLOTS = 32,
  WORK = 1 << 12,
};

/* The lines of a signal and of the result; both dense, f32 or f64. */
typedef struct lines_t {
  const tenon_tensor_t *x;
  const tenon_tensor_t *window;
  tenon_tensor_t *out;
  fft_t fft;
  fft_complex_t *scratch;
  int64_t slot_size;
  int64_t slots;
  int64_t count;
  int64_t length; /* elements of a line of x that are read */
  int64_t bins;   /* elements of a line of the result */
  int64_t x_step;
  int64_t out_step; /* distance between elements, in complex or real numbers */
  int64_t inner;
  int64_t x_outer;
  int64_t x_line; /* line i starts at i / inner * x_outer + i % inner * x_line */
  int64_t out_outer;
  int64_t out_line;
  int x_parts;
  int out_parts;
  int backwards;
  int mirrored; /* x holds half of a spectrum */
} lines_t;

static double get_element(const tenon_tensor_t *t, int64_t i) {
  return core_is(t, TENON_F64) ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

static void element_set(const tenon_tensor_t *t, int64_t i, double value) {
  if (core_is(t, TENON_F64))
    ((double *)t->data)[i] = value;
  else
    ((float *)t->data)[i] = (float)value;
}

static void line_run(const lines_t *l, int64_t line, fft_complex_t *z, fft_complex_t *work) {
  int64_t n = l->fft.n;
  int64_t from = line / l->inner * l->x_outer + line % l->inner * l->x_line;
  int64_t to = line / l->inner * l->out_outer + line % l->inner * l->out_line;
  double scale = l->backwards ? 1 / (double)n : 1;
  for (int64_t i = 0; i < n; i++) {
    z[i].re = z[i].im = 0;
    if (i >= l->length) continue;
    int64_t at = (from + i * l->x_step) * l->x_parts;
    double weight = l->window ? get_element(l->window, i) : 1;
    z[i].re = get_element(l->x, at) * weight;
    if (l->x_parts == 2) z[i].im = get_element(l->x, at + 1) * weight;
  }
  if (l->mirrored) {
    z[0].im = 0;
    for (int64_t i = n / 2 + 1; i < n; i++) {
      z[i].re = z[n - i].re;
      z[i].im = -z[n - i].im;
    }
    if (n % 2 == 0) z[n / 2].im = 0;
  }
  core_fft_run(&l->fft, z, l->backwards, work);
  for (int64_t i = 0; i < l->bins; i++) {
    int64_t at = (to + i * l->out_step) * l->out_parts;
    element_set(l->out, at, z[i].re * scale);
    if (l->out_parts == 2) element_set(l->out, at + 1, z[i].im * scale);
  }
}

/* A part is a slot of scratch memory and every k-th line. */
static tenon_status_t slots_run(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const lines_t *l = (const lines_t *)argument;
  (void)call;
  for (int64_t slot = begin; slot < end; slot++) {
    fft_complex_t *z = l->scratch + slot * l->slot_size;
    for (int64_t line = slot; line < l->count; line += l->slots)
      line_run(l, line, z, z + l->fft.n);
  }
  return TENON_OK;
}

static tenon_status_t lines_run(tenon_call_t *call, lines_t *l, int64_t n) {
  if (l->count == 0 || n == 0) return TENON_OK;
  l->slot_size = n + core_fft_work(n);
  l->slots = l->count < SLOTS ? l->count : SLOTS;
  int64_t tables = core_fft_tables(n);
  fft_complex_t *memory =
      (fft_complex_t *)CORE_SCRATCH(call, sizeof *memory, tables + l->slots * l->slot_size);
  if (!memory) return TENON_MEMORY;
  core_fft_set(&l->fft, n, memory);
  l->scratch = memory + tables;
  return call->host->parallel(call, l->slots, 1 + WORK / (l->count / l->slots * n), slots_run, l);
}

/* dft */

enum {
  INVERSE,
  ONESIDED,
};

static int64_t axis_of(const tenon_tensor_t *axis, int32_t rank) {
  int64_t a = axis ? tensor_int(axis, 0) : -2;
  return a < 0 ? a + rank : a;
}

static tenon_status_t dft_run(tenon_call_t *call) {
  tenon_dtype_t dtype = tenon_dtype(core_is(call->inputs[0], TENON_F64) ? TENON_F64 : TENON_F32);
  int inverse = call->attrs[INVERSE].as.i != 0;
  int onesided = call->attrs[ONESIDED].as.i != 0;
  lines_t l = {.x = core_dense(call, call->inputs[0], dtype),
               .out = core_place_dense(call, call->outputs[0], dtype),
               .inner = 1,
               .x_step = 1,
               .out_step = 1,
               .backwards = inverse,
               .mirrored = inverse && onesided};
  if (!l.x || !l.out) return TENON_MEMORY;
  int32_t last = l.x->ndim - 1;
  int64_t axis = axis_of(call->inputs[2], l.x->ndim);
  int64_t extent = l.x->shape[axis];
  int64_t n = l.mirrored ? 2 * (extent - 1) : extent;
  if (call->inputs[1]) n = tensor_int(call->inputs[1], 0);
  l.count = 1;
  for (int32_t i = 0; i < last; i++) {
    if (i != axis) l.count *= l.x->shape[i];
    if (i > axis) l.inner *= l.x->shape[i];
  }
  l.x_step = l.out_step = l.inner;
  l.x_line = l.out_line = 1;
  l.bins = l.out->shape[axis];
  l.length = l.mirrored ? n / 2 + 1 : n;
  if (extent < l.length) l.length = extent;
  l.x_outer = l.inner * extent;
  l.out_outer = l.inner * l.bins;
  l.x_parts = (int)l.x->shape[last];
  l.out_parts = (int)l.out->shape[last];
  TENON_TRY(lines_run(call, &l, n));
  return core_settle(call, call->outputs[0], l.out);
}

/* Reads an integer from a host tensor, or the default if the input is absent. An unknown number
 * becomes a new extent. */
static tenon_status_t number_read(tenon_infer_t *infer, uint32_t input, tenon_dim_t otherwise,
                                  tenon_dim_t *out) {
  ints_t list;
  *out = otherwise;
  if (!infer->inputs[input]) return TENON_OK;
  TENON_TRY(ints_read(infer, input, &list));
  if (list.count != 1 && list.count != -1)
    return tenon_fail(infer, TENON_INVALID, "input %u holds %d numbers; expected one", input,
                      list.count);
  *out = list.known && list.count == 1 ? list.at[0] : dim_any(infer);
  return TENON_OK;
}

static tenon_status_t parts_check(tenon_infer_t *infer, const tenon_meta_t *x, int64_t *out_parts) {
  tenon_dim_t parts = x->ndim ? x->dims[x->ndim - 1] : tenon_extent(0);
  if (x->ndim < 2 || !tenon_is_known(parts) || parts.value < 1 || parts.value > 2)
    return tenon_fail(
        infer, TENON_INVALID,
        "x has shape %s; its last axis must have extent 1 (real signal) or 2 (complex signal)",
        dims_text(x->dims, x->ndim).text);
  *out_parts = parts.value;
  return TENON_OK;
}

static tenon_dim_t half_of(tenon_infer_t *infer, tenon_dim_t n) {
  return dim_add(infer, tenon_dim(infer, TENON_DIM_DIV, n, tenon_extent(2)), tenon_extent(1));
}

tenon_status_t core_dft_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  int inverse = infer->attrs[INVERSE].as.i != 0;
  int onesided = infer->attrs[ONESIDED].as.i != 0;
  int64_t parts = 0;
  int32_t at = 0;
  tenon_dim_t axis, n;
  TENON_TRY(parts_check(infer, x, &parts));
  TENON_TRY(number_read(infer, 2, tenon_extent(-2), &axis));
  /* the axis is known when the operator is called, and infer runs again */
  if (!tenon_is_known(axis)) {
    TENON_TRY(out_unknown(infer, out, x->ndim));
    out->dims[out->ndim - 1] = tenon_extent(onesided && inverse ? 1 : 2);
    return TENON_OK;
  }
  TENON_TRY(axis_wrap(infer, axis.value, x->ndim, &at));
  if (at == x->ndim - 1)
    return tenon_fail(infer, TENON_INVALID,
                      "axis %" PRId64
                      " of dft holds the parts of a number; choose an axis of the signal",
                      axis.value);
  if (onesided && parts != (inverse ? 2 : 1))
    return tenon_fail(infer, TENON_INVALID,
                      "onesided transforms take a real x and their inverse a complex x, but the "
                      "last axis of x has extent %" PRId64,
                      parts);
  TENON_TRY(number_read(infer, 1, x->dims[at], &n));
  if (!infer->inputs[1] && inverse && onesided)
    n = dim_mul(infer, tenon_extent(2), dim_sub(infer, x->dims[at], tenon_extent(1)));
  if (tenon_is_known(n) && (n.value < 1 || n.value > INT32_MAX))
    return tenon_fail(infer, TENON_INVALID,
                      "the length of the transform is %" PRId64 "; expected 1 to %d", n.value,
                      INT32_MAX);
  TENON_TRY(out_like(out, x));
  out->dims[at] = onesided && !inverse ? half_of(infer, n) : n;
  out->dims[out->ndim - 1] = tenon_extent(onesided && inverse ? 1 : 2);
  return TENON_OK;
}

/* stft */

enum {
  SIGNAL,
  STEP,
  WINDOW,
  LENGTH,
};

static tenon_status_t stft_run(tenon_call_t *call) {
  tenon_dtype_t dtype =
      tenon_dtype(core_is(call->inputs[SIGNAL], TENON_F64) ? TENON_F64 : TENON_F32);
  lines_t l = {.x = core_dense(call, call->inputs[SIGNAL], dtype),
               .out = core_place_dense(call, call->outputs[0], dtype),
               .x_step = 1,
               .out_step = 1};
  if (call->inputs[WINDOW]) l.window = core_dense(call, call->inputs[WINDOW], dtype);
  if (!l.x || !l.out || (call->inputs[WINDOW] && !l.window)) return TENON_MEMORY;
  int64_t n = l.window ? l.window->shape[0] : l.x->shape[1];
  if (call->inputs[LENGTH]) n = tensor_int(call->inputs[LENGTH], 0);
  l.inner = l.out->shape[1];
  l.bins = l.out->shape[2];
  l.count = l.x->shape[0] * l.inner;
  l.length = l.window && l.window->shape[0] < n ? l.window->shape[0] : n;
  l.x_outer = l.x->shape[1];
  l.x_line = tensor_int(call->inputs[STEP], 0);
  l.out_outer = l.inner * l.bins;
  l.out_line = l.bins;
  l.x_parts = (int)l.x->shape[2];
  l.out_parts = 2;
  TENON_TRY(lines_run(call, &l, n));
  return core_settle(call, call->outputs[0], l.out);
}

tenon_status_t core_stft_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[SIGNAL];
  const tenon_meta_t *window = infer->inputs[WINDOW];
  tenon_meta_t *out = infer->outputs[0];
  int onesided = infer->attrs[0].as.i != 0;
  int64_t parts = 0;
  tenon_dim_t step, n;
  TENON_TRY(parts_check(infer, x, &parts));
  if (x->ndim != 3 || (window && window->ndim != 1))
    return tenon_fail(
        infer, TENON_INVALID,
        "signal has %d axes and window %d; expected [batch, length, parts] and one axis", x->ndim,
        window ? window->ndim : 1);
  if (onesided && parts != 1)
    return tenon_fail(infer, TENON_INVALID,
                      "onesided transforms take a real signal, but its last axis has extent 2");
  TENON_TRY(number_read(infer, STEP, tenon_extent(1), &step));
  TENON_TRY(number_read(infer, LENGTH, window ? window->dims[0] : x->dims[1], &n));
  if (tenon_is_known(step) && step.value < 1)
    return tenon_fail(infer, TENON_INVALID, "frame_step is %" PRId64 "; expected 1 or more",
                      step.value);
  if (tenon_is_known(n) &&
      (n.value < 1 || (tenon_is_known(x->dims[1]) && n.value > x->dims[1].value)))
    return tenon_fail(infer, TENON_INVALID,
                      "frames of %" PRId64 " elements do not fit a signal of %" PRId64, n.value,
                      x->dims[1].value);
  out->ndim = 4;
  out->dims[0] = x->dims[0];
  out->dims[1] = dim_add(
      infer, tenon_dim(infer, TENON_DIM_DIV, dim_sub(infer, x->dims[1], n), step), tenon_extent(1));
  out->dims[2] = onesided ? half_of(infer, n) : n;
  out->dims[3] = tenon_extent(2);
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(core_spectral,
  TENON_OP("dft(Tensor x, Tensor? @host length=None, Tensor? @host axis=None, *, "
           "bool inverse=False, bool onesided=False) -> Tensor",
    TENON_DOC("The discrete Fourier transform of x along an axis (default -2); "
              "x is cut or padded with zeros to length.\n"
              "The last axis holds real and imaginary part, or the real part alone; "
              "onesided leaves out elements that follow by symmetry."),
    TENON_SAMPLES("x: [n, 8, 1]; x: [n, 6, 2], axis: [] [1]"),
    TENON_TYPES("x: float; length: i32|i64; axis: i32|i64; out = x"),
    TENON_WHERE("length: known; axis: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(core_dft_infer),
    TENON_GRADIENT("x: core::dft_backward(grad, core::shape(x), length, axis, inverse=inverse, "
                   "onesided=onesided)"),
    TENON_KERNEL("cpu strided", dft_run)),
  TENON_OP("stft(Tensor signal, Tensor @host step, Tensor? window=None, Tensor? @host length=None, "
           "*, bool onesided=True) -> Tensor",
    TENON_DOC("The Fourier transforms of frames of a signal [batch, length, parts], "
              "multiplied by a window. Frames start every `step` elements."),
    TENON_SAMPLES("signal: [n, 12, 1], step: [] [4], window: [6]"),
    TENON_TYPES("signal: float; step: i32|i64; window = signal; length: i32|i64; out = signal"),
    TENON_WHERE("step: known; length: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(core_stft_infer),
    TENON_GRADIENT("signal, window: core::stft_backward(grad, signal, step, window, length, "
                   "onesided=onesided)"),
    TENON_KERNEL("cpu strided", stft_run)))
/* clang-format on */
