/* Normalisation across rows or along any axis: batch_norm (with given statistics), lrn, lp_norm and
 * mean_variance_norm. f16 and bf16 tensors are computed as f32 in a buffer of the whole tensor.
 * Invariant: sums are doubles, so that their order does not affect f32. */
#include "../axes.h"
#include "../copy.h"
#include "../dense.h"
#include "../window.h"
#include "isa.h"
#include "math.h"
#include "wide.h"
#include <tenon/check.h>

enum { COLUMNS = 256 };

typedef struct plan_t {
  const void *x; /* f32 or f64 */
  void *y;
  int64_t outer;
  int64_t n;
  int64_t inner;
  int64_t blocks; /* the tensor is [outer, n, inner]; blocks of COLUMNS in inner */
  int64_t pitch;  /* batch_norm: elements from one row of x to the next */
  void *mean;
  void *scale;
  void *bias;
  void *var; /* batch_norm: one number per channel */
  double alpha;
  double beta;
  double constant;
  double power; /* lrn: alpha, bias, beta; lp_norm: power */
  int64_t before;
  int64_t after; /* lrn: channels of the window before and after */
  int32_t kept;
  int32_t reduced; /* mean_variance_norm */
  int64_t kept_shape[TENON_RANK_MAX];
  int64_t kept_stride[TENON_RANK_MAX];
  int64_t reduced_shape[TENON_RANK_MAX];
  int64_t reduced_stride[TENON_RANK_MAX];
} plan_t;

static int64_t offset_of(const int64_t *shape, const int64_t *stride, int32_t count,
                         int64_t index) {
  int64_t offset = 0;
  for (int32_t i = count - 1; i >= 0; i--) {
    offset += index % shape[i] * stride[i];
    index /= shape[i];
  }
  return offset;
}

#define T float
#define NAME(x) f32_##x
#define POWER tn_powf
#include "../channel_kernel.h"

#define T double
#define NAME(x) f64_##x
#define POWER pow
#include "../channel_kernel.h"

#define BY_TYPE(call, function)                                                                    \
  (tenon_dtype_id((call)->inputs[0]->dtype) == TENON_F64 ? f64_##function : f32_##function)

/* Sets x and y to memory of f32 or f64; narrow_result() narrows the result. */
static tenon_status_t widen_input(tenon_call_t *call, plan_t *p, const tenon_tensor_t *x,
                                  tenon_tensor_t *out) {
  int64_t count = tenon_count(x);
  p->x = x->data;
  p->y = out->data;
  if (!is_narrow(x->dtype)) return TENON_OK;
  float *wide = (float *)call->host->allocate(call, 2 * (uint64_t)count * sizeof(float));
  if (!wide) return TENON_MEMORY;
  widen_run(x->dtype, wide, x->data, count);
  p->x = wide;
  p->y = wide + count;
  return TENON_OK;
}

static tenon_status_t narrow_result(const plan_t *p, tenon_tensor_t *out) {
  if (is_narrow(out->dtype))
    narrow_run(out->dtype, out->data, (const float *)p->y, tenon_count(out));
  return TENON_OK;
}

static void set_axis(plan_t *p, const tenon_tensor_t *x, int32_t axis) {
  p->outer = extents_product(x->shape, 0, axis);
  p->n = x->shape[axis];
  p->inner = extents_product(x->shape, axis + 1, x->ndim);
  p->blocks = (p->inner + COLUMNS - 1) / COLUMNS;
}

static tenon_status_t run_columns(tenon_call_t *call, plan_t *p, tenon_part_fn part) {
  if (tenon_count(call->inputs[0]) == 0) return TENON_OK;
  TENON_TRY(widen_input(call, p, call->inputs[0], call->outputs[0]));
  int64_t each = p->n * (p->inner < COLUMNS ? p->inner : COLUMNS);
  TENON_TRY(call->host->parallel(call, p->outer * p->blocks, 16384 / (each + 1) + 1, part, p));
  return narrow_result(p, call->outputs[0]);
}

/* batch_norm */

/* Copies a tensor to one of the same shape with other strides. */
static tenon_status_t copy_elements(tenon_call_t *call, tenon_tensor_t *to,
                                    const tenon_tensor_t *from) {
  move_t move;
  move_begin(&move, to, from);
  for (int32_t i = 0; i < to->ndim; i++)
    move_axis(&move, to->shape[i], from->strides[i], to->strides[i]);
  return core_move(call, &move);
}

/* Converts the statistics and parameters to the numbers of each channel. */
static tenon_status_t set_channels(tenon_call_t *call, plan_t *p, tenon_dtype_t dtype) {
  tenon_tensor_t *const *in = call->inputs;
  const int64_t size = dtype.bits / 8;
  char *room = (char *)call->host->allocate(call, (uint64_t)(3 * p->n * size) + 1);
  if (!room) return TENON_MEMORY;
  p->mean = room;
  p->scale = room + p->n * size;
  p->bias = room + 2 * p->n * size;
  for (int64_t c = 0; c < p->n; c++) {
    double var = number_get(in[4]->dtype, in[4]->data, c * in[4]->strides[0]);
    number_set(dtype, p->mean, c, number_get(in[3]->dtype, in[3]->data, c * in[3]->strides[0]));
    number_set(dtype, p->scale, c,
               number_get(in[1]->dtype, in[1]->data, c * in[1]->strides[0]) /
                   sqrt(var + call->attrs[0].as.f));
    number_set(dtype, p->bias, c, number_get(in[2]->dtype, in[2]->data, c * in[2]->strides[0]));
  }
  return TENON_OK;
}

/* Normalises x, which lies as the result does: row-major, or channels-last if there are elements
 * from one position of x to the next (last_pitch), which may be more than it has channels. */
static tenon_status_t normalise_channels(tenon_call_t *call, const tenon_tensor_t *x,
                                         tenon_tensor_t *out, int64_t last_pitch) {
  plan_t p = {0};
  set_axis(&p, x, 1);
  if (last_pitch) p.inner = 1;
  TENON_TRY(set_channels(call, &p, is_narrow(x->dtype) ? tenon_dtype(TENON_F32) : x->dtype));
  const int64_t count = tenon_count(x);
  if (count == 0) return TENON_OK;
  const int64_t width = p.inner == 1 ? p.n : p.inner;
  p.pitch = last_pitch ? last_pitch : width;
  TENON_TRY(widen_input(call, &p, x, out));
  TENON_TRY(
      call->host->parallel(call, count / width, 16384 / width + 1, BY_TYPE(call, batch_norm), &p));
  return narrow_result(&p, out);
}

static tenon_status_t batch_norm_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  const int64_t pitch = core_last_pitch(x);
  if (pitch && core_lies_last(out) && (pitch == x->shape[1] || !is_narrow(x->dtype)))
    return normalise_channels(call, x, out, pitch);
  if (core_is_dense(x) && core_is_dense(out)) return normalise_channels(call, x, out, 0);
  tenon_tensor_t *place = out;
  if (!core_is_dense(out)) place = call->host->temporary(call, out->dtype, out->ndim, out->shape);
  if (!place) return TENON_MEMORY;
  TENON_TRY(copy_elements(call, place, x));
  TENON_TRY(normalise_channels(call, place, place, 0));
  return place == out ? TENON_OK : copy_elements(call, out, place);
}

static tenon_status_t lrn_run(tenon_call_t *call) {
  int64_t size = call->attrs[0].as.i;
  plan_t p = {.alpha = call->attrs[1].as.f / (double)size,
              .beta = call->attrs[2].as.f,
              .constant = call->attrs[3].as.f,
              .before = (size - 1) / 2,
              .after = size / 2};
  set_axis(&p, call->inputs[0], 1);
  return run_columns(call, &p, BY_TYPE(call, lrn));
}

static tenon_status_t lp_norm_run(tenon_call_t *call) {
  plan_t p = {.power = (double)call->attrs[1].as.i};
  int32_t axis = 0;
  TENON_TRY(axis_wrap(call, call->attrs[0].as.i, call->inputs[0]->ndim, &axis));
  set_axis(&p, call->inputs[0], axis);
  return run_columns(call, &p, BY_TYPE(call, lp_norm));
}

static tenon_status_t mean_variance_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  plan_t p = {.n = 1};
  uint64_t mask = 0;
  if (tenon_count(x) == 0) return TENON_OK;
  TENON_TRY(axes_mask(call, call->attrs[0].as.ints, call->attrs[0].count, x->ndim, &mask));
  for (int32_t i = 0; i < x->ndim; i++) {
    if (mask >> i & 1) {
      p.reduced_shape[p.reduced] = x->shape[i];
      p.reduced_stride[p.reduced++] = x->strides[i];
      p.n *= x->shape[i];
    } else {
      p.kept_shape[p.kept] = x->shape[i];
      p.kept_stride[p.kept++] = x->strides[i];
    }
  }
  if (!p.reduced) {
    p.reduced_shape[p.reduced] = 1;
    p.reduced_stride[p.reduced++] = 1;
  }
  TENON_TRY(widen_input(call, &p, x, call->outputs[0]));
  TENON_TRY(call->host->parallel(call, tenon_count(x) / p.n, 16384 / (p.n + 1) + 1,
                                 BY_TYPE(call, mean_variance), &p));
  return narrow_result(&p, call->outputs[0]);
}

#ifndef TENON_SIMD
static tenon_status_t batch_norm_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  if (x->ndim < 2)
    return tenon_fail(infer, TENON_INVALID, "x has rank %d; expected [batch, channel, ...]",
                      x->ndim);
  for (uint32_t i = 1; i < 5; i++) {
    const tenon_meta_t *t = infer->inputs[i];
    if (t->ndim != 1 || dim_differ(t->dims[0], x->dims[1]))
      return tenon_fail(infer, TENON_INVALID,
                        "input %u has shape %s; expected one number for each channel of x %s", i,
                        dims_text(t->dims, t->ndim).text, dims_text(x->dims, x->ndim).text);
  }
  TENON_TRY(out_like(infer->outputs[0], x));
  if (core_is_channels_last(x)) core_channels_last(infer, infer->outputs[0]);
  return TENON_OK;
}

static tenon_status_t lrn_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  if (x->ndim < 2)
    return tenon_fail(infer, TENON_INVALID, "x has rank %d; expected [batch, channel, ...]",
                      x->ndim);
  if (infer->attrs[0].as.i < 1)
    return tenon_fail(infer, TENON_INVALID, "size is %" PRId64, infer->attrs[0].as.i);
  return out_like(infer->outputs[0], x);
}

static tenon_status_t lp_norm_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  int64_t power = infer->attrs[1].as.i;
  int32_t axis = 0;
  TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, x->ndim, &axis));
  if (power != 1 && power != 2)
    return tenon_fail(infer, TENON_INVALID, "p must be 1 or 2, not %" PRId64, power);
  return out_like(infer->outputs[0], x);
}

static tenon_status_t mean_variance_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  uint64_t mask = 0;
  TENON_TRY(axes_mask(infer, infer->attrs[0].as.ints, infer->attrs[0].count, x->ndim, &mask));
  return out_like(infer->outputs[0], x);
}
#endif

/* clang-format off */
FAMILY(core_channel,
  OPERATOR(batch_norm,
    "(Tensor x, Tensor scale, Tensor bias, Tensor mean, Tensor var, *, "
    "float epsilon=1e-5) -> Tensor",
    (TENON_DOC("Subtracts mean from each channel, divides by the root of var, "
               "then scales and shifts.\n"
               "The result lies channels-last in memory if x does."),
     TENON_SAMPLES("x: [n, c, w], scale: [c], bias: [c], mean: [c], var: [c] uniform(0.5, 2)"),
     TENON_TYPES("x: float; scale, bias: float; mean, var: float; out = x"),
     TENON_TRAITS(TENON_PURE),
     TENON_INFER(batch_norm_infer),
     TENON_REUSE("out: x"),
     TENON_SHARDING("x, out: [n, c]; scale, bias, mean, var: [c] | "
                    "x, out: [n, c, w]; scale, bias, mean, var: [c] | "
                    "x, out: [n, c, h, w]; scale, bias, mean, var: [c]"),
     TENON_GRADIENT("x, scale, bias, mean, var: core::batch_norm_backward(grad, x, scale, bias, "
                    "mean, var, epsilon=epsilon)")),
    KERNEL("strided", batch_norm_run))
  OPERATOR(lrn,
    "(Tensor x, *, int size, float alpha=0.0001, float beta=0.75, float bias=1.0) -> Tensor",
    (TENON_DOC("x / (bias + alpha / size * sum of squares)^beta, "
               "with the sum over `size` channels around each channel."),
     TENON_TYPES("x: float; out = x"),
     TENON_TRAITS(TENON_PURE),
     TENON_INFER(lrn_infer),
     TENON_GRADIENT("x: core::lrn_backward(grad, x, size=size, alpha=alpha, beta=beta, "
                    "bias=bias)")),
    KERNEL("", lrn_run))
  OPERATOR(lp_norm, "(Tensor x, *, int axis=-1, int p=2) -> Tensor",
    (TENON_DOC("x divided by its norm of order p (1 or 2) along an axis; 0 where the norm is 0."),
     TENON_TYPES("x: float; out = x"),
     TENON_TRAITS(TENON_PURE),
     TENON_INFER(lp_norm_infer),
     TENON_REUSE("out: x"),
     TENON_GRADIENT("x: core::lp_norm_backward(grad, x, axis=axis, p=p)")),
    KERNEL("", lp_norm_run))
  OPERATOR(mean_variance_norm, "(Tensor x, *, int[] axes=[0, 2, 3]) -> Tensor",
    (TENON_DOC("x normalised to mean 0 and standard deviation 1 over the axes."),
     TENON_TYPES("x: float; out = x"),
     TENON_TRAITS(TENON_PURE),
     TENON_INFER(mean_variance_infer),
     TENON_GRADIENT("x: core::mean_variance_norm_backward(grad, x, axes=axes)")),
    KERNEL("", mean_variance_run)))
/* clang-format on */
