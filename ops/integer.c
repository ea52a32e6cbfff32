/* matmul_integer, conv_integer, qlinear_matmul, qlinear_conv: products of 8-bit numbers,
 * accumulated in 32 bits. Operands of matrix products become pairs of i16 minus their zero points;
 * those of convolutions are widened to i32. Both are multiplied by the kernels of matmul and conv;
 * the qlinear forms are then scaled and rounded.
 * Invariant: sums wrap at 32 bits, as ONNX allows, and are exact otherwise. */
#include "integer.h"
#include "axes.h"
#include "conv_im2col.h"
#include "dense.h"
#include "matmul.h"
#include "simd/math.h"
#include <stdlib.h>
#include <tenon/check.h>

enum { WORK = 1 << 14 }; /* elements that justify a thread */
enum {
  PLAIN_INPUTS,
  QLINEAR_INPUTS,
};

spread_t core_spread_of(const tenon_tensor_t *t, int32_t rank, int32_t axis) {
  spread_t out = {.data = t ? t->data : 0};
  if (!t || tenon_count(t) == 1) return out;
  if (t->ndim == 1) {
    out.strides[axis] = t->strides[0];
    return out;
  }
  for (int32_t i = 0; i < t->ndim; i++)
    out.strides[rank - t->ndim + i] = t->shape[i] == 1 ? 0 : t->strides[i];
  return out;
}

void core_row_offsets(int32_t rank, const int64_t *shape, int64_t row, const spread_t *of,
                      int count, int64_t *offsets) {
  for (int s = 0; s < count; s++)
    offsets[s] = 0;
  for (int32_t i = rank - 2; i >= 0; i--) {
    for (int s = 0; s < count; s++)
      offsets[s] += row % shape[i] * of[s].strides[i];
    row /= shape[i];
  }
}

static tenon_status_t rows_parallel(tenon_call_t *call, const tenon_tensor_t *t, tenon_part_fn part,
                                    void *argument) {
  int64_t width = t->ndim ? t->shape[t->ndim - 1] : 1;
  int64_t count = tenon_count(t);
  return count ? call->host->parallel(call, count / width, 1 + WORK / width, part, argument)
               : TENON_OK;
}

/* widening */

typedef struct widen_t {
  const tenon_tensor_t *x;
  tenon_tensor_t *out;
  spread_t zero;
  int zero_is_signed;
} widen_t;

static tenon_status_t widen_rows(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const widen_t *w = (const widen_t *)argument;
  int32_t rank = w->x->ndim;
  int64_t width = rank ? w->x->shape[rank - 1] : 1;
  int64_t step = rank ? w->zero.strides[rank - 1] : 0;
  int64_t offset = 0;
  (void)call;
  for (int64_t row = begin; row < end; row++) {
    int32_t *to = (int32_t *)w->out->data + row * width;
    if (core_is(w->x, TENON_I8))
      for (int64_t e = 0; e < width; e++)
        to[e] = ((const int8_t *)w->x->data)[row * width + e];
    else
      for (int64_t e = 0; e < width; e++)
        to[e] = ((const uint8_t *)w->x->data)[row * width + e];
    if (!w->zero.data) continue;
    core_row_offsets(rank, w->x->shape, row, &w->zero, 1, &offset);
    if (w->zero_is_signed)
      for (int64_t e = 0; e < width; e++)
        to[e] -= ((const int8_t *)w->zero.data)[offset + e * step];
    else
      for (int64_t e = 0; e < width; e++)
        to[e] -= ((const uint8_t *)w->zero.data)[offset + e * step];
  }
  return TENON_OK;
}

/* x minus its zero point, which may be a vector along `axis`, as a dense tensor. Returns NULL on
 * failure; the error is already set. */
static tenon_tensor_t *widen_integers(tenon_call_t *call, tenon_tensor_t *x, tenon_tensor_t *zero,
                                      int32_t axis) {
  widen_t w = {.x = core_dense(call, x, x->dtype)};
  w.out = call->host->temporary(call, tenon_dtype(TENON_I32), x->ndim, x->shape);
  if (!w.x || !w.out) return 0;
  w.zero = core_spread_of(zero, x->ndim, axis);
  w.zero_is_signed = zero && core_is(zero, TENON_I8);
  return rows_parallel(call, w.x, widen_rows, &w) == TENON_OK ? w.out : 0;
}

/* narrowing */

typedef struct narrow_t { /* out = saturate(round(sum * a_scale * b_scale / scale) + zero) */
  const int32_t *sums;
  tenon_tensor_t *out;
  spread_t scales[2];
  float scale;
  double zero;
  double least;
  double most;
} narrow_t;

static tenon_status_t narrow_rows(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const narrow_t *n = (const narrow_t *)argument;
  int32_t rank = n->out->ndim;
  int32_t last = rank - 1;
  int64_t width = rank ? n->out->shape[last] : 1;
  int64_t offsets[2];
  int64_t steps[2] = {0, 0};
  for (int s = 0; rank && s < 2; s++)
    steps[s] = n->scales[s].strides[last];
  (void)call;
  for (int64_t row = begin; row < end; row++) {
    core_row_offsets(rank, n->out->shape, row, n->scales, 2, offsets);
    const float *a = (const float *)n->scales[0].data + offsets[0];
    const float *b = (const float *)n->scales[1].data + offsets[1];
    for (int64_t e = 0; e < width; e++) {
      float scale = a[e * steps[0]] * b[e * steps[1]] / n->scale;
      double value = tn_rint(n->sums[row * width + e] * (double)scale + n->zero);
      /* NaN, which scales may produce, becomes the least value. */
      double least = value > n->least ? value : n->least;
      value = value > n->most ? n->most : least;
      ((uint8_t *)n->out->data)[row * width + e] = (uint8_t)(int32_t)value;
    }
  }
  return TENON_OK;
}

static tenon_status_t narrow_sums(tenon_call_t *call, const tenon_tensor_t *sums,
                                  tenon_tensor_t *a_scale, int32_t a_axis, tenon_tensor_t *b_scale,
                                  int32_t b_axis, tenon_tensor_t *y_scale, tenon_tensor_t *y_zero) {
  const tenon_dtype_t f32 = tenon_dtype(TENON_F32);
  int is_signed = core_is(call->outputs[0], TENON_I8);
  tenon_tensor_t *out = core_place_dense(call, call->outputs[0], call->outputs[0]->dtype);
  a_scale = core_dense(call, a_scale, f32);
  b_scale = core_dense(call, b_scale, f32);
  y_scale = core_dense(call, y_scale, f32);
  y_zero = core_dense(call, y_zero, y_zero->dtype);
  if (!out || !a_scale || !b_scale || !y_scale || !y_zero) return TENON_MEMORY;
  narrow_t n = {.sums = (const int32_t *)sums->data,
                .out = out,
                .scales = {core_spread_of(a_scale, out->ndim, a_axis),
                           core_spread_of(b_scale, out->ndim, b_axis)},
                .scale = *(const float *)y_scale->data,
                .zero = is_signed ? *(const int8_t *)y_zero->data : *(const uint8_t *)y_zero->data,
                .least = is_signed ? -128 : 0,
                .most = is_signed ? 127 : 255};
  TENON_TRY(rows_parallel(call, out, narrow_rows, &n));
  return core_settle(call, call->outputs[0], out);
}

/* kernels */

typedef struct pairs_t {
  operand8_t operand;
  uint32_t *pairs;
} pairs_t;

static tenon_status_t write_pairs(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const pairs_t *p = (const pairs_t *)argument;
  (void)call;
  core_pairs_write(&p->operand, begin, end, p->pairs);
  return TENON_OK;
}

static operand8_t operand_of(const tenon_tensor_t *x, const tenon_tensor_t *zero, int is_right) {
  /* a zero point that is a vector has one number for each row of a, or for each column of b */
  int32_t axis = x->ndim > 1 ? x->ndim - 2 + is_right : 0;
  return (operand8_t){x, core_spread_of(zero, x->ndim, axis), zero && core_is(zero, TENON_I8),
                      is_right && x->ndim > 1};
}

/* x minus its zero point as pairs along k. Returns NULL on failure; the error is already set. */
static tenon_tensor_t *pair_integers(tenon_call_t *call, tenon_tensor_t *x, tenon_tensor_t *zero,
                                     int is_right) {
  int64_t shape[TENON_RANK_MAX];
  int64_t width;
  x = core_dense(call, x, x->dtype);
  if (zero) zero = core_dense(call, zero, zero->dtype);
  if (!x) return 0;
  pairs_t p = {operand_of(x, zero, is_right), NULL};
  int64_t rows = core_pair_rows(&p.operand, &width, shape);
  tenon_tensor_t *out = call->host->temporary(call, tenon_dtype(TENON_I32), x->ndim, shape);
  if (!out || rows * width == 0) return out;
  p.pairs = (uint32_t *)out->data;
  return call->host->parallel(call, rows, 1 + WORK / width, write_pairs, &p) == TENON_OK ? out : 0;
}

/* A constant b as pairs. */
typedef struct plan_t {
  tenon_tensor_t pairs;
  int64_t shape[TENON_RANK_MAX];
  int64_t strides[TENON_RANK_MAX];
} plan_t;

static void release_pairs(void *pointer) {
  plan_t *plan = (plan_t *)pointer;
  if (plan) free(plan->pairs.data);
  free(plan);
}

/* Makes the plan of a node whose b and zero point of b are constant. */
static tenon_status_t prepare_b(tenon_node_t *node, uint32_t b_at, uint32_t zero_at) {
  const tenon_tensor_t *b = node->inputs[b_at]->value;
  const tenon_tensor_t *zero = node->inputs[zero_at] ? node->inputs[zero_at]->value : NULL;
  int is_constant =
      (node->constant >> b_at & 1) && b && core_is_array(b) && tenon_count(b) &&
      (!node->inputs[zero_at] || ((node->constant >> zero_at & 1) && zero && core_is_array(zero)));
  if (!is_constant) return TENON_OK;
  plan_t *plan = (plan_t *)calloc(1, sizeof *plan);
  if (!plan) return tenon_fail(node, TENON_MEMORY, "out of memory for the plan of a product");
  operand8_t operand = operand_of(b, zero, 1);
  int64_t width;
  int64_t rows = core_pair_rows(&operand, &width, plan->shape);
  int64_t stride = 1;
  for (int32_t i = b->ndim - 1; i >= 0; i--) {
    plan->strides[i] = stride;
    stride *= plan->shape[i];
  }
  plan->pairs = *b;
  plan->pairs.dtype = tenon_dtype(TENON_I32);
  plan->pairs.shape = plan->shape;
  plan->pairs.strides = plan->strides;
  plan->pairs.data = malloc((size_t)stride * sizeof(uint32_t));
  if (!plan->pairs.data) {
    release_pairs(plan);
    return tenon_fail(node, TENON_MEMORY, "out of memory for packed weights");
  }
  core_pairs_write(&operand, 0, rows, (uint32_t *)plan->pairs.data);
  node->plan = plan;
  node->consumed |= (uint64_t)1 << b_at;
  return TENON_OK;
}
static tenon_status_t matmul_integer_prepare(tenon_node_t *node) { return prepare_b(node, 1, 3); }
static tenon_status_t qlinear_matmul_prepare(tenon_node_t *node) { return prepare_b(node, 3, 5); }

/* sums NULL: writes to the output. */
static tenon_status_t multiply_integers(tenon_call_t *call, tenon_tensor_t *a,
                                        tenon_tensor_t *a_zero, tenon_tensor_t *b,
                                        tenon_tensor_t *b_zero, tenon_tensor_t *sums) {
  plan_t *plan = (plan_t *)call->plan;
  finish_t finish = {.scale = 1, .bias_scale = 1};
  tenon_tensor_t *tensors[4] = {NULL, NULL, NULL, sums};
  tensors[0] = pair_integers(call, a, a_zero, 0);
  tensors[1] = plan ? &plan->pairs : pair_integers(call, b, b_zero, 1);
  return tensors[0] && tensors[1] ? core_multiply(call, tensors, 0, 0, &finish, MULTIPLY_PAIRS)
                                  : TENON_MEMORY;
}

static tenon_status_t convolve_integers(tenon_call_t *call, tenon_tensor_t *x,
                                        tenon_tensor_t *x_zero, tenon_tensor_t *w,
                                        tenon_tensor_t *w_zero, tenon_tensor_t *bias,
                                        tenon_tensor_t *sums) {
  window_args_t args = window_args(call->attrs, 0);
  convolution_t c = {.group = call->attrs[CONV_GROUP].as.i,
                     .finish = {.scale = 1, .bias_scale = 1}};
  core_window_set(&c.window, &args, x->ndim - 2, x->shape + 2, w->shape + 2, sums->shape + 2);
  tenon_tensor_t *wide_x = widen_integers(call, x, x_zero, 0);
  tenon_tensor_t *wide_w = widen_integers(call, w, w_zero, 0);
  return wide_x && wide_w ? core_convolve(call, &c, wide_x, wide_w, bias, 0, sums) : TENON_MEMORY;
}

static tenon_tensor_t *sums_for(tenon_call_t *call) {
  return call->host->temporary(call, tenon_dtype(TENON_I32), call->outputs[0]->ndim,
                               call->outputs[0]->shape);
}

static tenon_status_t matmul_integer_run(tenon_call_t *call) {
  tenon_tensor_t *const *in = call->inputs;
  return multiply_integers(call, in[0], in[2], in[1], in[3], call->outputs[0]);
}

static tenon_status_t conv_integer_run(tenon_call_t *call) {
  tenon_tensor_t *const *in = call->inputs;
  return convolve_integers(call, in[0], in[2], in[1], in[3], 0, call->outputs[0]);
}

static tenon_status_t qlinear_matmul_run(tenon_call_t *call) {
  tenon_tensor_t *const *in = call->inputs;
  tenon_tensor_t *sums = sums_for(call);
  int32_t rank = call->outputs[0]->ndim;
  if (!sums) return TENON_MEMORY;
  TENON_TRY(multiply_integers(call, in[0], in[2], in[3], in[5], sums));
  int32_t a_axis = rank > 1 ? rank - 2 : 0;
  int32_t b_axis = rank > 0 ? rank - 1 : 0;
  return narrow_sums(call, sums, in[1], a_axis, in[4], b_axis, in[6], in[7]);
}

static tenon_status_t qlinear_conv_run(tenon_call_t *call) {
  tenon_tensor_t *const *in = call->inputs;
  tenon_tensor_t *sums = sums_for(call);
  if (!sums) return TENON_MEMORY;
  TENON_TRY(convolve_integers(call, in[0], in[2], in[3], in[5], in[8], sums));
  return narrow_sums(call, sums, in[1], 0, in[4], 1, in[6], in[7]);
}

/* shapes */

/* A scale or zero point must be one number or a vector of `count`, or broadcast to `to` by NumPy's
 * rule (NULL: it may not). */
static tenon_status_t vector_check(tenon_infer_t *infer, uint32_t input, const char *name,
                                   tenon_dim_t count, const tenon_meta_t *to) {
  const tenon_meta_t *t = infer->inputs[input];
  if (!t || t->ndim == 0 || (t->ndim == 1 && dim_is(t->dims[0], 1))) return TENON_OK;
  if (t->ndim > 1 && to) {
    int fits = t->ndim <= to->ndim;
    for (int32_t i = 0; fits && i < t->ndim; i++)
      fits = dim_is(t->dims[i], 1) || !dim_differ(t->dims[i], to->dims[to->ndim - t->ndim + i]);
    return fits ? TENON_OK
                : tenon_fail(infer, TENON_INVALID,
                             "%s has shape %s; expected one that broadcasts to %s", name,
                             dims_text(t->dims, t->ndim).text, dims_text(to->dims, to->ndim).text);
  }
  if (t->ndim > 1 || dim_differ(t->dims[0], count))
    return tenon_fail(infer, TENON_INVALID,
                      "%s has shape %s; expected one number or %" PRId64 " numbers", name,
                      dims_text(t->dims, t->ndim).text, tenon_is_known(count) ? count.value : 0);
  return TENON_OK;
}

static tenon_status_t matmul_shape(tenon_infer_t *infer, int form) {
  static const uint32_t at[2][4] = {{0, 1, 2, 3}, {0, 3, 2, 5}}; /* a, b, their zero points */
  const tenon_meta_t *a = infer->inputs[at[form][0]];
  const tenon_meta_t *b = infer->inputs[at[form][1]];
  TENON_TRY(core_matmul_infer(infer, a, b, 0, 0));
  tenon_dim_t rows = a->ndim > 1 ? a->dims[a->ndim - 2] : tenon_extent(1);
  tenon_dim_t columns = b->ndim > 1 ? b->dims[b->ndim - 1] : tenon_extent(1);
  TENON_TRY(vector_check(infer, at[form][2], "a_zero_point", rows, a));
  TENON_TRY(vector_check(infer, at[form][3], "b_zero_point", columns, b));
  if (form == PLAIN_INPUTS) return TENON_OK;
  TENON_TRY(vector_check(infer, 1, "a_scale", rows, infer->outputs[0]));
  TENON_TRY(vector_check(infer, 4, "b_scale", columns, infer->outputs[0]));
  TENON_TRY(vector_check(infer, 6, "y_scale", tenon_extent(1), NULL));
  return vector_check(infer, 7, "y_zero_point", tenon_extent(1), NULL);
}

static tenon_status_t conv_shape(tenon_infer_t *infer, int form) {
  static const uint32_t at[2][4] = {{0, 1, 2, 3}, {0, 3, 2, 5}}; /* x, w, their zero points */
  window_args_t args = window_args(infer->attrs, 0);
  TENON_TRY(core_convolution_infer(infer, at[form][0], at[form][1], &args,
                                   infer->attrs[CONV_GROUP].as.i));
  tenon_dim_t filters = infer->outputs[0]->dims[1];
  tenon_dim_t one = tenon_extent(1);
  TENON_TRY(vector_check(infer, at[form][2], "x_zero_point", one, NULL));
  TENON_TRY(vector_check(infer, at[form][3], "w_zero_point", filters, NULL));
  if (form == PLAIN_INPUTS) return TENON_OK;
  TENON_TRY(vector_check(infer, 1, "x_scale", one, NULL));
  TENON_TRY(vector_check(infer, 4, "w_scale", filters, NULL));
  TENON_TRY(vector_check(infer, 6, "y_scale", one, NULL));
  TENON_TRY(vector_check(infer, 7, "y_zero_point", one, NULL));
  const tenon_meta_t *bias = infer->inputs[8];
  if (!bias || (bias->ndim == 1 && !dim_differ(bias->dims[0], filters))) return TENON_OK;
  return tenon_fail(infer, TENON_INVALID, "bias has shape %s; expected one number for each filter",
                    dims_text(bias->dims, bias->ndim).text);
}

static tenon_status_t matmul_integer_infer(tenon_infer_t *infer) {
  return matmul_shape(infer, PLAIN_INPUTS);
}
static tenon_status_t qlinear_matmul_infer(tenon_infer_t *infer) {
  return matmul_shape(infer, QLINEAR_INPUTS);
}
static tenon_status_t conv_integer_infer(tenon_infer_t *infer) {
  return conv_shape(infer, PLAIN_INPUTS);
}
static tenon_status_t qlinear_conv_infer(tenon_infer_t *infer) {
  return conv_shape(infer, QLINEAR_INPUTS);
}

/* clang-format off */
#define PRODUCT(name, arguments, doc, types, samples, ...)                                         \
  TENON_OP(#name "(" arguments ") -> Tensor",                                                      \
    TENON_DOC(doc),                                                                                \
    TENON_TYPES(types),                                                                            \
    TENON_SAMPLES(samples),                                                                        \
    TENON_TRAITS(TENON_PURE),                                                                      \
    TENON_USES(DENSE_USES),                                                                        \
    TENON_INFER(name##_infer),                                                                     \
    __VA_ARGS__ TENON_KERNEL("cpu strided", name##_run))
#define SCALED(a) "Tensor " a ", Tensor " a "_scale, Tensor " a "_zero_point"
#define SCALED_TYPES(a) a ": i8|u8; " a "_scale: f32|f16|bf16; " a "_zero_point = " a "; "
#define SCALE(a) a "_scale: [] [0.5], " a "_zero_point: []"
#define Y_TYPES "y_scale: f32|f16|bf16; y_zero_point: i8|u8; out = y_zero_point"

TENON_ITEMS(core_integer,
  PRODUCT(matmul_integer,
          "Tensor a, Tensor b, Tensor? a_zero_point=None, Tensor? b_zero_point=None",
          "The matrix product of (a - a_zero_point) and (b - b_zero_point) in 32 bits.\n"
          "A zero point is one number, a vector with one number for each row of a or column of b, "
          "or broadcasts.", "a: i8|u8; b: i8|u8; a_zero_point = a; b_zero_point = b; out = i32",
          "a: [n, k], b: [k, m]; a: [n, k], b: [k, m], a_zero_point: [n], b_zero_point: [m]",
          TENON_PREPARE(matmul_integer_prepare, release_pairs),),
  PRODUCT(conv_integer,
          "Tensor x, Tensor w, Tensor? x_zero_point=None, Tensor? w_zero_point=None, *, "
          WINDOW_ARGUMENTS ", int group=1",
          "The convolution of (x - x_zero_point) with (w - w_zero_point) in 32 bits; "
          "w_zero_point may have one number for each filter.",
          "x: i8|u8; w: i8|u8; x_zero_point = x; w_zero_point = w; out = i32",
          "x: [n, c, 6], w: [3, c, 2]; "
          "x: [n, 4, 4, 5], w: [4, 2, 3, 3], x_zero_point: [], w_zero_point: [4], group = 2", ),
  PRODUCT(qlinear_matmul, SCALED("a") ", " SCALED("b") ", Tensor y_scale, Tensor y_zero_point",
          "The quantised matrix product of two quantised tensors; "
          "a may have a scale for each row, b one for each column.",
          SCALED_TYPES("a") SCALED_TYPES("b") Y_TYPES,
          "a: [n, k], " SCALE("a") ", b: [k, m], " SCALE("b") ", " SCALE("y"),
          TENON_PREPARE(qlinear_matmul_prepare, release_pairs),),
  PRODUCT(qlinear_conv,
          SCALED("x") ", " SCALED("w")
          ", Tensor y_scale, Tensor y_zero_point, Tensor? bias=None, *, " WINDOW_ARGUMENTS
          ", int group=1",
          "The quantised convolution of two quantised tensors; "
          "w may have a scale for each filter.\nbias is in units of x_scale w_scale.",
          SCALED_TYPES("x") SCALED_TYPES("w") "bias: i32; " Y_TYPES,
          "x: [n, c, 6], " SCALE("x") ", w: [3, c, 2], " SCALE("w") ", " SCALE("y"), ))
/* clang-format on */
