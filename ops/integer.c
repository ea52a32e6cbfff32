/* matmul_integer, conv_integer, qlinear_matmul, qlinear_conv: products of 8-bit numbers,
 * accumulated in 32 bits. Constant weights are prepared as steps (integer_steps.c), by which u8 are
 * multiplied as they are. Operands of other products become pairs of i16 minus their zero points.
 * The qlinear forms are then scaled and rounded. Convolutions are in integer_conv.c.
 * Invariant: sums wrap at 32 bits, as ONNX allows, and are exact otherwise. */
#include "integer.h"
#include "axes.h"
#include "conv_im2col.h"
#include "dense.h"
#include "matmul.h"
#include <stdlib.h>
#include <string.h>
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

/* narrowing */

typedef struct narrow_job_t {
  const int32_t *sums;
  tenon_tensor_t *out;
  const integer_narrow_t *narrow;
  const int32_t *bias; /* NULL, or one number for each element of a row */
} narrow_job_t;

static void write_scales(const integer_narrow_t *n, const int64_t steps[2], const float *a,
                         const float *b, int64_t count, float *out) {
  if (!steps[0] && steps[1] == 1)
    for (int64_t e = 0; e < count; e++)
      out[e] = a[0] * b[e] / n->scale;
  else
    for (int64_t e = 0; e < count; e++)
      out[e] = a[e * steps[0]] * b[e * steps[1]] / n->scale;
}

static tenon_status_t narrow_rows(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  enum { BLOCK = 256 };
  const narrow_job_t *job = (const narrow_job_t *)argument;
  const integer_narrow_t *n = job->narrow;
  const integer_tiles_t *kernels = core_integer_tiles_of_isa();
  int32_t rank = job->out->ndim;
  int64_t width = rank ? job->out->shape[rank - 1] : 1;
  int64_t offsets[2];
  int64_t steps[2] = {0, 0};
  float scale[BLOCK];
  int32_t start[BLOCK] = {0};
  for (int s = 0; rank && s < 2; s++)
    steps[s] = n->scales[s].strides[rank - 1];
  (void)call;
  for (int64_t row = begin; row < end; row++) {
    core_row_offsets(rank, job->out->shape, row, n->scales, 2, offsets);
    const float *a = (const float *)n->scales[0].data + offsets[0];
    const float *b = (const float *)n->scales[1].data + offsets[1];
    for (int64_t at = 0; at < width; at += BLOCK) {
      int64_t some = width - at < BLOCK ? width - at : BLOCK;
      write_scales(n, steps, a + at * steps[0], b + at * steps[1], some, scale);
      kernels->narrow(&n->limits, job->sums + row * width + at, job->bias ? job->bias + at : start,
                      scale, 1, some, (uint8_t *)job->out->data + row * width + at);
    }
  }
  return TENON_OK;
}

typedef struct qlinear_side_t { /* a scale, and its axis if it is a vector */
  tenon_tensor_t *scale;
  int32_t axis;
} qlinear_side_t;

/* Reads the scales and limits of a result with the shape and dtype of `out`. */
static tenon_status_t read_narrow(tenon_call_t *call, const tenon_tensor_t *out,
                                  const qlinear_side_t sides[2], tenon_tensor_t *y_scale,
                                  tenon_tensor_t *y_zero, integer_narrow_t *narrow) {
  const tenon_dtype_t f32 = tenon_dtype(TENON_F32);
  int is_signed = core_is(out, TENON_I8);
  tenon_tensor_t *a_scale = core_dense(call, sides[0].scale, f32);
  tenon_tensor_t *b_scale = core_dense(call, sides[1].scale, f32);
  y_scale = core_dense(call, y_scale, f32);
  y_zero = core_dense(call, y_zero, y_zero->dtype);
  if (!a_scale || !b_scale || !y_scale || !y_zero) return TENON_MEMORY;
  *narrow = (integer_narrow_t){
      .limits = {.zero = is_signed ? *(const int8_t *)y_zero->data : *(const uint8_t *)y_zero->data,
                 .is_signed = is_signed},
      .scales = {core_spread_of(a_scale, out->ndim, sides[0].axis),
                 core_spread_of(b_scale, out->ndim, sides[1].axis)},
      .scale = *(const float *)y_scale->data};
  return TENON_OK;
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

static void release_plan(void *plan) { core_integer_weights_release((integer_weights_t *)plan); }

/* Whether an input is a constant array, or absent and may be. */
static int is_constant(const tenon_node_t *node, uint32_t at, int may_be_absent) {
  const tenon_meta_t *input = node->inputs[at];
  if (!input) return may_be_absent;
  return (node->constant >> at & 1) && input->value && core_is_array(input->value) &&
         tenon_count(input->value);
}

/* Makes constant weights the plan of the node. */
static tenon_status_t set_plan(tenon_node_t *node, integer_weights_t *weights) {
  if (!weights) return tenon_fail(node, TENON_MEMORY, "out of memory for packed weights");
  node->plan = weights;
  return TENON_OK;
}

/* Whether a zero point is absent or has one element for sure. */
static int is_single(const tenon_meta_t *zero) {
  for (int32_t i = 0; zero && i < zero->ndim; i++)
    if (!dim_is(zero->dims[i], 1)) return 0;
  return 1;
}

/* Whether an input is a constant matrix. It may be transposed: steps are made from any strides. */
static int is_constant_matrix(const tenon_node_t *node, uint32_t at) {
  const tenon_tensor_t *b = node->inputs[at]->value;
  return (node->constant >> at & 1) && b && b->device.type == 1 && !b->detail && b->ndim == 2 &&
         tenon_count(b);
}

/* Makes the plan of a node whose b is a constant matrix, with constant zero points, and whose a has
 * one zero point. */
static tenon_status_t prepare_b(tenon_node_t *node, uint32_t b_at, uint32_t a_zero_at,
                                uint32_t zero_at) {
  if (!is_constant_matrix(node, b_at) || !is_constant(node, zero_at, 1)) return TENON_OK;
  const tenon_tensor_t *b = node->inputs[b_at]->value;
  const tenon_tensor_t *zero = node->inputs[zero_at] ? node->inputs[zero_at]->value : NULL;
  if (!is_single(node->inputs[a_zero_at])) return TENON_OK;
  if (zero && zero->ndim > 1 && tenon_count(zero) > 1) return TENON_OK;
  integer_matrix_t matrix = {.data = (const uint8_t *)b->data,
                             .is_signed = core_is(b, TENON_I8),
                             .count = b->shape[1],
                             .step = b->strides[1],
                             .inner = b->shape[0],
                             .inner_step = b->strides[0]};
  if (zero) {
    matrix.zeros = (const uint8_t *)zero->data;
    matrix.zero_step = tenon_count(zero) > 1;
  }
  node->consumed |= (uint64_t)1 << b_at;
  return set_plan(node,
                  core_integer_weights_create(&matrix, 1, core_integer_tiles_of_isa()->columns));
}

/* Makes the plan of a node whose filters and their zero point are constant. */
static tenon_status_t prepare_filters(tenon_node_t *node, uint32_t w_at, uint32_t zero_at) {
  if (!is_constant(node, w_at, 0) || !is_constant(node, zero_at, 1)) return TENON_OK;
  const tenon_tensor_t *w = node->inputs[w_at]->value;
  const tenon_tensor_t *zero = node->inputs[zero_at] ? node->inputs[zero_at]->value : NULL;
  const window_args_t args = window_args(node->attrs, 0);
  const int64_t group = node->attrs[CONV_GROUP].as.i;
  int64_t strides[TENON_RANK_MAX] = {0};
  for (int32_t i = 0; i < w->ndim - 2; i++)
    strides[i] = list_at(args.strides, i, 1);
  const int kind = core_integer_filters_kind(w, group, strides);
  if (kind != FILTERS_DEPTHWISE) node->consumed |= (uint64_t)1 << w_at;
  return set_plan(node, core_integer_filters_create(w, zero, group, kind));
}

static tenon_status_t matmul_integer_prepare(tenon_node_t *node) {
  return prepare_b(node, 1, 2, 3);
}
static tenon_status_t qlinear_matmul_prepare(tenon_node_t *node) {
  return prepare_b(node, 3, 2, 5);
}
static tenon_status_t conv_integer_prepare(tenon_node_t *node) {
  return prepare_filters(node, 1, 3);
}
static tenon_status_t qlinear_conv_prepare(tenon_node_t *node) {
  return prepare_filters(node, 3, 5);
}

typedef struct matrix_sums_t { /* where the sums of one product go */
  int32_t *data;
  int64_t width;
} matrix_sums_t;

static void copy_sums(const void *context, int64_t row, int64_t column, int64_t count,
                      int32_t *sums) {
  const matrix_sums_t *to = (const matrix_sums_t *)context;
  memcpy(to->data + row * to->width + column, sums, (size_t)count * sizeof *sums);
}

static tenon_status_t write_panels(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  (void)call;
  core_panels_write((const panels_t *)argument, begin, end);
  return TENON_OK;
}

/* Multiplies a, as pairs, with `count` matrices that are panels. */
static tenon_status_t multiply_panels(tenon_call_t *call, const tenon_tensor_t *a,
                                      const panels_t *panels, int64_t count,
                                      const tenon_tensor_t *sums) {
  if (!tenon_count(sums)) return TENON_OK;
  int64_t rows = tenon_count(sums) / panels->columns / count;
  for (int64_t i = 0; i < count; i++) {
    matrix_sums_t to = {(int32_t *)sums->data + i * rows * panels->columns, panels->columns};
    integer_product_t product = {.left = (const uint32_t *)a->data + i * rows * panels->depth,
                                 .left_row = panels->depth,
                                 .right = panels->panels + i * panels->size,
                                 .rows = rows,
                                 .columns = panels->columns,
                                 .depth = panels->depth,
                                 .finish = copy_sums,
                                 .context = &to};
    TENON_TRY(core_integer_product(call, &product));
  }
  return TENON_OK;
}

/* Whether a and b are equally long stacks of matrices, or b is one matrix, and b has at most one
 * zero point. */
static int fits_panels(const tenon_tensor_t *a, const tenon_tensor_t *b,
                       const tenon_tensor_t *b_zero) {
  int fits = b->ndim == 2 || a->ndim == b->ndim;
  for (int32_t i = 0; fits && b->ndim > 2 && i < b->ndim - 2; i++)
    fits = a->shape[i] == b->shape[i];
  return fits && a->ndim >= 2 && b->ndim >= 2 && (!b_zero || tenon_count(b_zero) == 1);
}

/* Makes panels of b, of which there are `count` matrices. */
static tenon_status_t make_panels(tenon_call_t *call, tenon_tensor_t *b, tenon_tensor_t *b_zero,
                                  int64_t count, panels_t *out) {
  const int64_t each = core_integer_tiles_of_isa()->columns;
  b = core_dense(call, b, b->dtype);
  if (b_zero) b_zero = core_dense(call, b_zero, b_zero->dtype);
  if (!b) return TENON_MEMORY;
  *out = (panels_t){.x = (const uint8_t *)b->data,
                    .is_signed = core_is(b, TENON_I8),
                    .rows = b->shape[b->ndim - 2],
                    .columns = b->shape[b->ndim - 1]};
  if (b_zero)
    out->zero = out->is_signed ? *(const int8_t *)b_zero->data : *(const uint8_t *)b_zero->data;
  out->depth = (out->rows + 1) / 2;
  int64_t panels = (out->columns + each - 1) / each;
  out->size = panels * each * out->depth;
  out->panels = (uint32_t *)CORE_SCRATCH(call, sizeof(uint32_t), count, panels, each, out->depth);
  if (!out->panels) return TENON_MEMORY;
  return call->host->parallel(call, count * out->depth, 1 + WORK / (out->columns + 1), write_panels,
                              out);
}

static tenon_status_t multiply_integers(tenon_call_t *call, tenon_tensor_t *a,
                                        tenon_tensor_t *a_zero, tenon_tensor_t *b,
                                        tenon_tensor_t *b_zero, tenon_tensor_t *sums) {
  finish_t finish = {.scale = 1, .bias_scale = 1};
  tenon_tensor_t *tensors[4] = {pair_integers(call, a, a_zero, 0), NULL, NULL, sums};
  panels_t panels = {0};
  if (!tensors[0]) return TENON_MEMORY;
  if (core_is_dense(sums) && fits_panels(a, b, b_zero)) {
    int64_t count = 1;
    for (int32_t i = 0; b->ndim > 2 && i < b->ndim - 2; i++)
      count *= b->shape[i];
    if (!count) return TENON_OK;
    TENON_TRY(make_panels(call, b, b_zero, count, &panels));
    return multiply_panels(call, tensors[0], &panels, count, sums);
  }
  tensors[1] = pair_integers(call, b, b_zero, 1);
  return tensors[1] ? core_multiply(call, tensors, 0, 0, &finish, MULTIPLY_PAIRS) : TENON_MEMORY;
}

/* Products with constant weights */

typedef struct weighted_t { /* a product of rows of u8 with weights of columns */
  const uint8_t *a;
  uint8_t flip;
  int64_t k;
  int64_t pitch; /* bytes of a row of a, or of its copy */
  uint8_t *copy;
  const int32_t *start; /* of each column: what is added to its sums */
  int64_t width;        /* columns */
  int32_t *sums;        /* where results go; NULL: narrowed to `out` */
  uint8_t *out;
  const integer_narrow_t *narrow;
  const float *scale; /* of each column */
} weighted_t;

static void finish_weighted(const void *context, int64_t row, int64_t column, int64_t count,
                            int32_t *sums) {
  const weighted_t *w = (const weighted_t *)context;
  const int64_t at = row * w->width + column;
  if (w->sums)
    for (int64_t i = 0; i < count; i++)
      w->sums[at + i] = (int32_t)((uint32_t)sums[i] + (uint32_t)w->start[column + i]);
  else
    core_integer_tiles_of_isa()->narrow(&w->narrow->limits, sums, w->start + column,
                                        w->scale + column, 1, count, w->out + at);
}

/* Copies rows of a, as u8, to rows of complete quads. */
static tenon_status_t copy_rows(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const weighted_t *w = (const weighted_t *)argument;
  const integer_tiles_t *kernels = core_integer_tiles_of_isa();
  (void)call;
  for (int64_t row = begin; row < end; row++) {
    kernels->copy(w->a + row * w->k, 1, w->flip, w->k, w->copy + row * w->pitch);
    memset(w->copy + row * w->pitch + w->k, 0, (size_t)(w->pitch - w->k));
  }
  return TENON_OK;
}

/* Multiplies a by the weights. `w` says where results go; its other members are set here. */
static tenon_status_t multiply_weights(tenon_call_t *call, tenon_tensor_t *a,
                                       tenon_tensor_t *a_zero, const tenon_tensor_t *bias,
                                       const integer_weights_t *weights, weighted_t *w) {
  const int is_signed = core_is(a, TENON_I8);
  a = core_dense(call, a, a->dtype);
  if (a_zero) a_zero = core_dense(call, a_zero, a_zero->dtype);
  int32_t *start = (int32_t *)CORE_SCRATCH(call, sizeof *start, w->width);
  if (!a || !start) return TENON_MEMORY;
  int32_t zero = is_signed ? 128 : 0;
  if (a_zero && is_signed) zero += *(const int8_t *)a_zero->data;
  if (a_zero && !is_signed) zero = *(const uint8_t *)a_zero->data;
  for (int64_t i = 0; i < w->width; i++) {
    uint32_t own = bias ? ((const uint32_t *)bias->data)[i] : 0;
    start[i] = (int32_t)(own - (uint32_t)zero * (uint32_t)weights->sums[i]);
  }
  w->start = start;
  w->a = (const uint8_t *)a->data;
  w->flip = is_signed ? 0x80 : 0;
  w->k = a->shape[a->ndim - 1];
  w->pitch = 4 * weights->depth;
  const int64_t rows = tenon_count(a) / w->k;
  if (is_signed || w->k != w->pitch) {
    w->copy = (uint8_t *)CORE_SCRATCH(call, 1, rows, w->pitch);
    if (!w->copy) return TENON_MEMORY;
    TENON_TRY(call->host->parallel(call, rows, 1 + WORK / w->k, copy_rows, w));
  }
  integer_product_t product = {.left = w->copy ? w->copy : w->a,
                               .left_row = w->pitch,
                               .right_steps = weights->steps,
                               .rows = rows,
                               .columns = w->width,
                               .depth = weights->depth,
                               .finish = finish_weighted,
                               .context = w};
  return core_integer_product(call, &product);
}

/* Finds the scales of columns, if they do not differ between rows. */
static tenon_status_t find_column_scales(tenon_call_t *call, const integer_narrow_t *narrow,
                                         int32_t rank, weighted_t *w) {
  int64_t steps[2] = {0, 0};
  for (int32_t i = 0; i < rank; i++) {
    if (narrow->scales[0].strides[i] || (i < rank - 1 && narrow->scales[1].strides[i]))
      return TENON_OK;
    steps[1] = narrow->scales[1].strides[i];
  }
  float *scale = (float *)CORE_SCRATCH(call, sizeof *scale, w->width);
  if (!scale) return TENON_MEMORY;
  write_scales(narrow, steps, (const float *)narrow->scales[0].data,
               (const float *)narrow->scales[1].data, w->width, scale);
  w->scale = scale;
  return TENON_OK;
}

/* narrow NULL: the result is the sums. */
static tenon_status_t convolve_integers(tenon_call_t *call, tenon_tensor_t *x,
                                        tenon_tensor_t *x_zero, tenon_tensor_t *w,
                                        tenon_tensor_t *w_zero, tenon_tensor_t *bias,
                                        const integer_narrow_t *narrow, tenon_tensor_t *out) {
  const integer_weights_t *weights = (const integer_weights_t *)call->plan;
  window_args_t args = window_args(call->attrs, 0);
  window_t window;
  core_window_set(&window, &args, x->ndim - 2, x->shape + 2, w->shape + 2, out->shape + 2);
  integer_convolution_t c = {.window = &window,
                             .group = call->attrs[CONV_GROUP].as.i,
                             .w = w,
                             .weights = weights,
                             .narrow = narrow,
                             .out = out};
  c.x = core_dense(call, x, x->dtype);
  if (x_zero) x_zero = core_dense(call, x_zero, x_zero->dtype);
  if (!c.x) return TENON_MEMORY;
  if (x_zero)
    c.x_zero =
        core_is(x, TENON_I8) ? *(const int8_t *)x_zero->data : *(const uint8_t *)x_zero->data;
  if (!weights || core_integer_is_depthwise(w)) {
    c.w = core_dense(call, w, w->dtype);
    if (w_zero) c.w_zero = core_dense(call, w_zero, w_zero->dtype);
    if (!c.w || (w_zero && !c.w_zero)) return TENON_MEMORY;
  }
  if (bias) {
    bias = core_dense(call, bias, bias->dtype);
    if (!bias) return TENON_MEMORY;
    c.bias = (const int32_t *)bias->data;
  }
  return core_integer_convolve(call, &c);
}

static tenon_tensor_t *sums_for(tenon_call_t *call) {
  return call->host->temporary(call, tenon_dtype(TENON_I32), call->outputs[0]->ndim,
                               call->outputs[0]->shape);
}

static tenon_status_t matmul_integer_run(tenon_call_t *call) {
  tenon_tensor_t *const *in = call->inputs;
  const integer_weights_t *weights = (const integer_weights_t *)call->plan;
  if (!weights) return multiply_integers(call, in[0], in[2], in[1], in[3], call->outputs[0]);
  tenon_tensor_t *out = core_place_dense(call, call->outputs[0], tenon_dtype(TENON_I32));
  if (!out) return TENON_MEMORY;
  if (tenon_count(out) == 0) return TENON_OK;
  weighted_t w = {.width = in[1]->shape[1], .sums = (int32_t *)out->data};
  TENON_TRY(multiply_weights(call, in[0], in[2], NULL, weights, &w));
  return core_settle(call, call->outputs[0], out);
}

static tenon_status_t conv_integer_run(tenon_call_t *call) {
  tenon_tensor_t *const *in = call->inputs;
  tenon_tensor_t *out = core_place_dense(call, call->outputs[0], tenon_dtype(TENON_I32));
  if (!out) return TENON_MEMORY;
  TENON_TRY(convolve_integers(call, in[0], in[2], in[1], in[3], NULL, NULL, out));
  return core_settle(call, call->outputs[0], out);
}

/* Writes the result of qlinear_matmul to out, which is dense. */
static tenon_status_t multiply_narrow(tenon_call_t *call, tenon_tensor_t *out,
                                      const integer_narrow_t *narrow) {
  tenon_tensor_t *const *in = call->inputs;
  const integer_weights_t *weights = (const integer_weights_t *)call->plan;
  tenon_tensor_t *bias = in[8] ? core_dense(call, in[8], in[8]->dtype) : NULL;
  weighted_t w = {.out = (uint8_t *)out->data, .narrow = narrow};
  if (in[8] && !bias) return TENON_MEMORY;
  if (weights) {
    w.width = in[3]->shape[1];
    TENON_TRY(find_column_scales(call, narrow, out->ndim, &w));
    if (w.scale) return multiply_weights(call, in[0], in[2], bias, weights, &w);
  }
  tenon_tensor_t *sums = sums_for(call);
  if (!sums) return TENON_MEMORY;
  narrow_job_t job = {(const int32_t *)sums->data, out, narrow, NULL};
  if (weights) {
    w.sums = (int32_t *)sums->data;
    TENON_TRY(multiply_weights(call, in[0], in[2], bias, weights, &w));
  } else {
    if (bias) job.bias = (const int32_t *)bias->data;
    TENON_TRY(multiply_integers(call, in[0], in[2], in[3], in[5], sums));
  }
  return rows_parallel(call, out, narrow_rows, &job);
}

static tenon_status_t qlinear_matmul_run(tenon_call_t *call) {
  tenon_tensor_t *const *in = call->inputs;
  tenon_tensor_t *out = core_place_dense(call, call->outputs[0], call->outputs[0]->dtype);
  int32_t rank = call->outputs[0]->ndim;
  integer_narrow_t narrow;
  if (!out) return TENON_MEMORY;
  if (tenon_count(out) == 0) return TENON_OK;
  const qlinear_side_t sides[2] = {{in[1], rank > 1 ? rank - 2 : 0},
                                   {in[4], rank > 0 ? rank - 1 : 0}};
  TENON_TRY(read_narrow(call, out, sides, in[6], in[7], &narrow));
  TENON_TRY(multiply_narrow(call, out, &narrow));
  return core_settle(call, call->outputs[0], out);
}

static tenon_status_t qlinear_conv_run(tenon_call_t *call) {
  tenon_tensor_t *const *in = call->inputs;
  tenon_tensor_t *out = core_place_dense(call, call->outputs[0], call->outputs[0]->dtype);
  integer_narrow_t narrow;
  if (!out) return TENON_MEMORY;
  const qlinear_side_t sides[2] = {{in[1], 0}, {in[4], 1}};
  TENON_TRY(read_narrow(call, out, sides, in[6], in[7], &narrow));
  TENON_TRY(convolve_integers(call, in[0], in[2], in[3], in[5], in[8], &narrow, out));
  return core_settle(call, call->outputs[0], out);
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

/* A bias, input 8 of the qlinear operators, must be a vector of `count`. */
static tenon_status_t bias_check(tenon_infer_t *infer, tenon_dim_t count, const char *of) {
  const tenon_meta_t *bias = infer->inputs[8];
  if (!bias || (bias->ndim == 1 && !dim_differ(bias->dims[0], count))) return TENON_OK;
  return tenon_fail(infer, TENON_INVALID, "bias has shape %s; expected one number for each %s",
                    dims_text(bias->dims, bias->ndim).text, of);
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
  TENON_TRY(vector_check(infer, 7, "y_zero_point", tenon_extent(1), NULL));
  return bias_check(infer, columns, "column");
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
  return bias_check(infer, filters, "filter");
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
          TENON_PREPARE(matmul_integer_prepare, release_plan),),
  PRODUCT(conv_integer,
          "Tensor x, Tensor w, Tensor? x_zero_point=None, Tensor? w_zero_point=None, *, "
          WINDOW_ARGUMENTS ", int group=1",
          "The convolution of (x - x_zero_point) with (w - w_zero_point) in 32 bits; "
          "w_zero_point may have one number for each filter.",
          "x: i8|u8; w: i8|u8; x_zero_point = x; w_zero_point = w; out = i32",
          "x: [n, c, 6], w: [3, c, 2]; "
          "x: [n, 4, 4, 5], w: [4, 2, 3, 3], x_zero_point: [], w_zero_point: [4], group = 2",
          TENON_PREPARE(conv_integer_prepare, release_plan),),
  PRODUCT(qlinear_matmul,
          SCALED("a") ", " SCALED("b") ", Tensor y_scale, Tensor y_zero_point, Tensor? bias=None",
          "The quantised matrix product of two quantised tensors; "
          "a may have a scale for each row, b one for each column.\n"
          "bias has one number for each column, in units of a_scale b_scale.",
          SCALED_TYPES("a") SCALED_TYPES("b") "bias: i32; " Y_TYPES,
          "a: [n, k], " SCALE("a") ", b: [k, m], " SCALE("b") ", " SCALE("y"),
          TENON_PREPARE(qlinear_matmul_prepare, release_plan),),
  PRODUCT(qlinear_conv,
          SCALED("x") ", " SCALED("w")
          ", Tensor y_scale, Tensor y_zero_point, Tensor? bias=None, *, " WINDOW_ARGUMENTS
          ", int group=1",
          "The quantised convolution of two quantised tensors; "
          "w may have a scale for each filter.\nbias is in units of x_scale w_scale.",
          SCALED_TYPES("x") SCALED_TYPES("w") "bias: i32; " Y_TYPES,
          "x: [n, c, 6], " SCALE("x") ", w: [3, c, 2], " SCALE("w") ", " SCALE("y"),
          TENON_PREPARE(qlinear_conv_prepare, release_plan),))
/* clang-format on */
