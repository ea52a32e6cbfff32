/* Normalisation of rows: layer_norm, rms_norm, instance_norm, group_norm. A row is the set of
 * elements that share a mean and a deviation: all axes from `axis` on, all of a channel, or a group
 * of channels. It consists of `runs` runs of `inner` numbers; a run shares one number of scale and
 * of bias. f16 and bf16 are computed as f32.
 * Invariant: the mean is subtracted before squares are summed, so that large means cost no
 * digits. */
#include "../axes.h"
#include "../copy.h"
#include "fold.h"
#include "isa.h"
#include "wide.h"

enum {
  CHUNK = 2048 /* summed in f32 */,
  ROOM = 8192,
  /* numbers of a narrow row kept on the stack */
};

typedef struct norm_t {
  const tenon_tensor_t *x;
  tenon_tensor_t *out;
  const void *scale;
  const void *bias; /* in the type of the computation; NULL: 1, 0 */
  void *mean;
  void *deviation; /* outputs, or NULL */
  float *wide;     /* for narrow dtypes with long rows: the tensor as f32 */
  int64_t n;
  int64_t runs;
  int64_t inner;
  /* Numbers in a row, runs in a row, numbers in a run, and rows in all. */
  int64_t rows;
  int64_t period; /* number of rows after which scale and bias repeat */
  double epsilon;
  int centred;
} norm_t;

#define T float
#define NAME(x) f32_##x
#include "../norm_kernel.h"

#define T double
#define NAME(x) f64_##x
#include "../norm_kernel.h"

static tenon_status_t norm_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const norm_t *p = (const norm_t *)argument;
  float room[ROOM];
  (void)call;
  for (int64_t row = begin; row < end; row++) {
    int64_t at = row * p->n;
    if (is_narrow(p->x->dtype)) {
      float *wide = p->wide ? p->wide + at : room;
      widen_run(p->x->dtype, wide, (const uint16_t *)p->x->data + at, p->n);
      f32_row(p, wide, wide, row);
      narrow_run(p->x->dtype, (uint16_t *)p->out->data + at, wide, p->n);
    } else if (p->x->dtype.bits == 32) {
      f32_row(p, (float *)p->out->data + at, (const float *)p->x->data + at, row);
    } else {
      f64_row(p, (double *)p->out->data + at, (const double *)p->x->data + at, row);
    }
  }
  return TENON_OK;
}

/* Converts a parameter to `count` numbers in the type of the computation, repeated if it has fewer;
 * its axes are the last of `like`. */
static tenon_status_t expand_parameter(tenon_call_t *call, const tenon_tensor_t *t,
                                       const tenon_tensor_t *like, int64_t count,
                                       const void **out) {
  *out = NULL;
  if (!t) return TENON_OK;
  *out = t->data;
  if (tenon_count(t) != count) {
    tenon_tensor_t *whole = call->host->temporary(call, t->dtype, 1, &count);
    move_t move;
    if (!whole) return TENON_MEMORY;
    move_begin(&move, whole, t);
    for (int64_t i = like->ndim - 1, done = 1; done < count; done *= like->shape[i], i--) {
      int64_t own = i - (like->ndim - t->ndim);
      move_axis(&move, like->shape[i], own < 0 || t->shape[own] == 1 ? 0 : t->strides[own], done);
    }
    TENON_TRY(core_move(call, &move));
    *out = whole->data;
  }
  if (is_narrow(t->dtype)) {
    float *wide = (float *)call->host->allocate(call, (uint64_t)count * sizeof(float));
    if (!wide) return TENON_MEMORY;
    widen_run(t->dtype, wide, *out, count);
    *out = wide;
  }
  return TENON_OK;
}

static tenon_status_t norm_run(tenon_call_t *call, norm_t *p, const tenon_tensor_t *scale,
                               const tenon_tensor_t *bias) {
  int64_t count = tenon_count(call->inputs[0]);
  int64_t parameters = p->period * p->runs;
  p->x = call->inputs[0];
  p->out = call->outputs[0];
  if (count == 0) return TENON_OK;
  TENON_TRY(expand_parameter(call, scale, p->x, parameters, &p->scale));
  TENON_TRY(expand_parameter(call, bias, p->x, parameters, &p->bias));
  if (is_narrow(p->x->dtype) && p->n > ROOM &&
      !(p->wide = (float *)call->host->allocate(call, (uint64_t)count * sizeof(float))))
    return TENON_MEMORY;
  return call->host->parallel(call, count / p->n, 16384 / (p->n + 1) + 1, norm_part, p);
}

static tenon_status_t from_axis_on(tenon_call_t *call, norm_t *p) {
  const tenon_tensor_t *x = call->inputs[0];
  int32_t axis = 0;
  TENON_TRY(axis_wrap(call, call->attrs[0].as.i, x->ndim, &axis));
  p->n = p->runs = extents_product(x->shape, axis, x->ndim);
  p->inner = p->period = 1;
  p->epsilon = call->attrs[1].as.f;
  return TENON_OK;
}

static tenon_status_t layer_norm_run(tenon_call_t *call) {
  norm_t p = {.centred = 1};
  TENON_TRY(from_axis_on(call, &p));
  void **statistics[] = {NULL, &p.mean, &p.deviation};
  for (int i = 1; i < 3; i++) {
    tenon_tensor_t *out = call->outputs[i];
    if (!out) continue;
    *statistics[i] = out->data;
    if (p.n == 0) /* a mean of no elements is 0 */
      memset(out->data, 0, (size_t)(tenon_count(out) * element_size(out)));
  }
  return norm_run(call, &p, call->inputs[1], call->inputs[2]);
}

static tenon_status_t rms_norm_run(tenon_call_t *call) {
  norm_t p = {.centred = 0};
  TENON_TRY(from_axis_on(call, &p));
  return norm_run(call, &p, call->inputs[1], NULL);
}

static tenon_status_t by_groups(tenon_call_t *call, int64_t groups, double epsilon) {
  const tenon_tensor_t *x = call->inputs[0];
  norm_t p = {.centred = 1, .epsilon = epsilon, .period = groups};
  if (tenon_count(x) == 0) return TENON_OK;
  p.runs = x->shape[1] / groups;
  p.inner = extents_product(x->shape, 2, x->ndim);
  p.n = p.runs * p.inner;
  return norm_run(call, &p, call->inputs[1], call->inputs[2]);
}

static tenon_status_t instance_norm_run(tenon_call_t *call) {
  return by_groups(call, call->inputs[0]->shape[1], call->attrs[0].as.f);
}
static tenon_status_t group_norm_run(tenon_call_t *call) {
  return by_groups(call, call->attrs[0].as.i, call->attrs[1].as.f);
}

#ifndef TENON_SIMD
/* Checks that the parameter broadcasts over the axes from `axis` on. */
static tenon_status_t check_parameter(tenon_infer_t *infer, uint32_t input, int32_t axis) {
  const tenon_meta_t *x = infer->inputs[0];
  const tenon_meta_t *t = infer->inputs[input];
  int32_t lead = t ? t->ndim - (x->ndim - axis) : 0;
  for (int32_t i = 0; t && i < t->ndim; i++) {
    int32_t own = i + x->ndim - t->ndim;
    if (!dim_is(t->dims[i], 1) && (i < lead || own < 0 || dim_differ(t->dims[i], x->dims[own])))
      return tenon_fail(
          infer, TENON_INVALID,
          "input %u has shape %s, which does not broadcast over the axes of x %s from axis %d on",
          input, dims_text(t->dims, t->ndim).text, dims_text(x->dims, x->ndim).text, axis);
  }
  return TENON_OK;
}

static tenon_status_t layer_norm_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  int32_t axis = 0;
  TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, x->ndim, &axis));
  TENON_TRY(check_parameter(infer, 1, axis));
  TENON_TRY(check_parameter(infer, 2, axis));
  for (int i = 1; i < 3; i++) {
    tenon_meta_t *out = infer->outputs[i];
    if (!out) continue;
    out->dtype = tenon_dtype(tenon_dtype_id(x->dtype) == TENON_F64 ? TENON_F64 : TENON_F32);
    out_like(out, x);
    for (int32_t j = axis; j < x->ndim; j++)
      out->dims[j] = tenon_extent(1);
  }
  return out_like(infer->outputs[0], x);
}

static tenon_status_t rms_norm_infer(tenon_infer_t *infer) {
  int32_t axis = 0;
  TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, infer->inputs[0]->ndim, &axis));
  TENON_TRY(check_parameter(infer, 1, axis));
  return out_like(infer->outputs[0], infer->inputs[0]);
}

static tenon_status_t channels_infer(tenon_infer_t *infer, int64_t groups) {
  const tenon_meta_t *x = infer->inputs[0];
  if (x->ndim < 2)
    return tenon_fail(infer, TENON_INVALID, "x has rank %d; expected [batch, channel, ...]",
                      x->ndim);
  if (groups < 1 || (tenon_is_known(x->dims[1]) && x->dims[1].value % groups))
    return tenon_fail(infer, TENON_INVALID,
                      "%" PRId64 " groups do not divide the %" PRId64
                      " channels of x; expected a positive divisor",
                      groups, x->dims[1].value);
  for (uint32_t i = 1; i < 3; i++) {
    const tenon_meta_t *t = infer->inputs[i];
    if (t && (t->ndim != 1 || dim_differ(t->dims[0], x->dims[1])))
      return tenon_fail(infer, TENON_INVALID,
                        "input %u has shape %s; expected one number for each channel of x %s", i,
                        dims_text(t->dims, t->ndim).text, dims_text(x->dims, x->ndim).text);
  }
  return out_like(infer->outputs[0], x);
}
static tenon_status_t instance_norm_infer(tenon_infer_t *infer) { return channels_infer(infer, 1); }
static tenon_status_t group_norm_infer(tenon_infer_t *infer) {
  return channels_infer(infer, infer->attrs[0].as.i);
}
#endif

/* clang-format off */
FAMILY(core_norm,
  OPERATOR(layer_norm,
    "(Tensor x, Tensor? scale=None, Tensor? bias=None, *, int axis=-1, "
    "float epsilon=1e-5) -> (Tensor out, Tensor? mean, Tensor? inv_std)",
    (TENON_DOC("Normalises the axes from `axis` on to mean 0 and standard deviation 1, "
               "then scales and shifts."),
     TENON_TYPES("x, scale, bias: float; out = x; mean = ?; inv_std = ?"),
     TENON_TRAITS(TENON_PURE),
     TENON_INFER(layer_norm_infer),
     TENON_REUSE("out: x"),
     TENON_SHARDING("x, out, mean, inv_std: [..., _]; scale, bias: [_]; if axis = -1"),
     TENON_GRADIENT("x, scale, bias: core::layer_norm_backward(grad.out, x, scale, bias, "
                    "grad.mean, grad.inv_std, axis=axis, epsilon=epsilon)")),
    KERNEL("rows", layer_norm_run))
  OPERATOR(rms_norm, "(Tensor x, Tensor? scale=None, *, int axis=-1, float epsilon=1e-5) -> Tensor",
    (TENON_DOC("Divides the axes from `axis` on by the root of their mean square, then scales."),
     TENON_TYPES("x, scale: float; out = x"),
     TENON_TRAITS(TENON_PURE),
     TENON_INFER(rms_norm_infer),
     TENON_REUSE("out: x"),
     TENON_SHARDING("x, out: [..., _]; scale: [_]; if axis = -1"),
     TENON_GRADIENT("x, scale: core::rms_norm_backward(grad, x, scale, axis=axis, "
                    "epsilon=epsilon)")),
    KERNEL("rows", rms_norm_run))
  OPERATOR(instance_norm,
    "(Tensor x, Tensor? scale=None, Tensor? bias=None, *, float epsilon=1e-5) -> Tensor",
    (TENON_DOC("Normalises each channel of each batch entry to mean 0 and standard deviation 1, "
               "then scales and shifts."),
     TENON_TYPES("x, scale, bias: float; out = x"),
     TENON_TRAITS(TENON_PURE),
     TENON_INFER(instance_norm_infer),
     TENON_REUSE("out: x"),
     TENON_GRADIENT("x, scale, bias: core::group_norm_backward(grad, x, scale, bias, "
                    "epsilon=epsilon)")),
    KERNEL("", instance_norm_run))
  OPERATOR(group_norm,
    "(Tensor x, Tensor? scale=None, Tensor? bias=None, *, int groups, "
    "float epsilon=1e-5) -> Tensor",
    (TENON_DOC("Normalises groups of channels to mean 0 and standard deviation 1, "
               "then scales and shifts each channel."),
     TENON_TYPES("x, scale, bias: float; out = x"),
     TENON_TRAITS(TENON_PURE),
     TENON_INFER(group_norm_infer),
     TENON_REUSE("out: x"),
     TENON_GRADIENT("x, scale, bias: core::group_norm_backward(grad, x, scale, bias, "
                    "groups=groups, epsilon=epsilon)")),
    KERNEL("", group_norm_run)))
/* clang-format on */
