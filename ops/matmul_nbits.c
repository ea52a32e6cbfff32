/* matmul_nbits: the product of floats with weights of 2, 4 or 8 bits, which ONNX Runtime's
 * quantiser writes. The host calls infer, prepare and the kernel. A few rows are multiplied with
 * the packed weights in registers; for more rows, panels of columns are unpacked first.
 * Invariant: weights exist as floats only in registers and in one panel. */
#include "axes.h"
#include "capability.h"
#include "composite.h"
#include "dense.h"
#include "dtype_scalar.h"
#include "gemm.h"
#include "nbits.h"
#include <stdlib.h>
#include <string.h>
#include <tenon/check.h>

enum {
  X,
  WEIGHTS,
  SCALES,
  ZEROS,
  BIAS,
  INPUTS,
};
enum {
  BITS,
  BLOCK_SIZE,
};
enum { WORK = 1 << 16 }; /* weights that justify a thread */

static const nbits_kernels_t *kernels_of_isa(void) {
#if defined(__x86_64__) || defined(_M_X64)
  static const nbits_kernels_t *const all[] = {&core_nbits, &core_nbits_avx2, &core_nbits_avx512};
  return all[core_capability()];
#else
  return &core_nbits;
#endif
}

/* the layout of the weights */

typedef struct packed_t { /* the inputs, dense */
  const uint8_t *weights; /* [n][block][bytes of a block] */
  tenon_dtype_t scale_dtype;
  const void *scales; /* [n][block] */
  tenon_dtype_t zero_dtype;
  const void *zeros; /* NULL; or u8: [n][bytes of packed integers]; or floats: [n][block] */
  nbits_t *out;
} packed_t;

static float zero_of(const packed_t *p, int64_t column, int64_t block) {
  const nbits_t *b = p->out;
  if (!p->zeros) return (float)(1 << (b->bits - 1));
  if (tenon_dtype_id(p->zero_dtype) != TENON_U8)
    return (float)number_get(p->zero_dtype, p->zeros, column * b->blocks + block);
  const int64_t bytes = (b->blocks * b->bits + 7) / 8;
  const int64_t bit = block * b->bits;
  const uint32_t byte = ((const uint8_t *)p->zeros)[column * bytes + bit / 8];
  return (float)(byte >> (bit % 8) & ((1u << b->bits) - 1));
}

static void arrange_tile(const packed_t *p, int64_t tile) {
  const nbits_t *b = p->out;
  const int64_t words = nbits_words(b);
  for (int64_t c = 0; c < NBITS_COLUMNS; c++) {
    const int64_t column = tile * NBITS_COLUMNS + c;
    const int is_real = column < b->n;
    const uint8_t *from = p->weights + column * b->blocks * words * 4;
    uint32_t *to = b->words + tile * b->blocks * words * NBITS_COLUMNS + c;
    for (int64_t i = 0; i < b->blocks * words; i++, to += NBITS_COLUMNS) {
      *to = 0;
      for (int byte = 0; is_real && byte < 4; byte++)
        *to |= (uint32_t)from[i * 4 + byte] << (8 * byte);
    }
    for (int64_t block = 0; block < b->blocks; block++) {
      const int64_t at = (tile * b->blocks + block) * NBITS_COLUMNS + c;
      b->scales[at] = 0;
      if (is_real)
        b->scales[at] = (float)number_get(p->scale_dtype, p->scales, column * b->blocks + block);
      b->offsets[at] = is_real ? -b->scales[at] * zero_of(p, column, block) : 0;
    }
  }
}

static tenon_status_t arrange_tiles(tenon_call_t *call, void *argument, int64_t begin,
                                    int64_t end) {
  (void)call;
  for (int64_t tile = begin; tile < end; tile++)
    arrange_tile((const packed_t *)argument, tile);
  return TENON_OK;
}

static packed_t packed_of(const tenon_tensor_t *weights, const tenon_tensor_t *scales,
                          const tenon_tensor_t *zeros, const tenon_value_t *attrs, nbits_t *out) {
  out->n = weights->shape[0];
  out->blocks = weights->shape[1];
  out->bits = (int)attrs[BITS].as.i;
  out->size = attrs[BLOCK_SIZE].as.i;
  packed_t p = {.weights = (const uint8_t *)weights->data,
                .scale_dtype = scales->dtype,
                .scales = scales->data,
                .out = out};
  if (zeros) {
    p.zero_dtype = zeros->dtype;
    p.zeros = zeros->data;
  }
  return p;
}

static void release_nbits(void *pointer) {
  nbits_t *b = (nbits_t *)pointer;
  if (!b) return;
  free(b->words);
  free(b->scales);
  free(b->offsets);
  free(b);
}

static int is_constant(const tenon_node_t *node, uint32_t input) {
  const tenon_meta_t *meta = node->inputs[input];
  if (!meta) return input == ZEROS;
  return (node->constant >> input & 1) && meta->value && core_is_array(meta->value);
}

/* Arranges constant weights once. */
static tenon_status_t matmul_nbits_prepare(tenon_node_t *node) {
  if (!is_constant(node, WEIGHTS) || !is_constant(node, SCALES) || !is_constant(node, ZEROS))
    return TENON_OK;
  const tenon_meta_t *zeros = node->inputs[ZEROS];
  nbits_t *b = (nbits_t *)calloc(1, sizeof *b);
  if (!b) return tenon_fail(node, TENON_MEMORY, "out of memory for the plan of a product");
  packed_t p = packed_of(node->inputs[WEIGHTS]->value, node->inputs[SCALES]->value,
                         zeros ? zeros->value : NULL, node->attrs, b);
  const size_t count = (size_t)(nbits_tiles(b) * b->blocks * NBITS_COLUMNS);
  b->words = (uint32_t *)malloc(count * (size_t)nbits_words(b) * sizeof *b->words + 1);
  b->scales = (float *)malloc(count * sizeof *b->scales + 1);
  b->offsets = (float *)malloc(count * sizeof *b->offsets + 1);
  if (!b->words || !b->scales || !b->offsets) {
    release_nbits(b);
    return tenon_fail(node, TENON_MEMORY, "out of memory for packed weights");
  }
  for (int64_t tile = 0; tile < nbits_tiles(b); tile++)
    arrange_tile(&p, tile);
  node->plan = b;
  node->consumed |= (uint64_t)1 << WEIGHTS | (uint64_t)1 << SCALES | (uint64_t)1 << ZEROS;
  return TENON_OK;
}

/* Arranges the weights of one call. */
static tenon_status_t arrange_call(tenon_call_t *call, nbits_t *b) {
  tenon_tensor_t *dense[INPUTS] = {NULL};
  for (int i = WEIGHTS; i <= ZEROS; i++) {
    if (!call->inputs[i]) continue;
    dense[i] = core_dense(call, call->inputs[i], call->inputs[i]->dtype);
    if (!dense[i]) return TENON_MEMORY;
  }
  packed_t p = packed_of(dense[WEIGHTS], dense[SCALES], dense[ZEROS], call->attrs, b);
  const int64_t tiles = nbits_tiles(b);
  b->words = (uint32_t *)CORE_SCRATCH(call, 4, tiles, b->blocks, nbits_words(b), NBITS_COLUMNS);
  b->scales = (float *)CORE_SCRATCH(call, 4, tiles, b->blocks, NBITS_COLUMNS);
  b->offsets = (float *)CORE_SCRATCH(call, 4, tiles, b->blocks, NBITS_COLUMNS);
  if (!b->words || !b->scales || !b->offsets) return TENON_MEMORY;
  const int64_t weights = b->blocks * b->size * NBITS_COLUMNS;
  return call->host->parallel(call, tiles, 1 + WORK / (1 + weights), arrange_tiles, &p);
}

/* the product */

typedef struct nbits_job_t {
  const nbits_t *b;
  const nbits_kernels_t *kernels;
  int kind; /* index into the tables of kernels */
  int64_t m;
  int64_t k;
  const float *x; /* [m][k] */
  float *out;     /* [m][n] */
  const float *bias;
  nbits_rows_t rows;
  float *scaled; /* rows.x and rows.sums, while they are written */
  float *sums;
} nbits_job_t;

static tenon_status_t scale_rows(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const nbits_job_t *j = (const nbits_job_t *)argument;
  const nbits_t *b = j->b;
  const int64_t half = NBITS_WORD / 2 / b->bits;
  float factors[NBITS_WORD / 4];
  (void)call;
  for (int64_t i = 0; i < half; i++)
    factors[i] = 1.0f / (float)(1 << (b->bits * i));
  for (int64_t row = begin; row < end; row++) {
    const float *from = j->x + row * j->k;
    float *to = j->scaled + row * j->rows.width;
    for (int64_t i = 0; i < j->k; i++)
      to[i] = from[i] * factors[i & (half - 1)];
    memset(to + j->k, 0, (size_t)(j->rows.width - j->k) * sizeof *to);
    for (int64_t block = 0; block < b->blocks; block++) {
      const int64_t first = block * b->size;
      const int64_t last = first + b->size < j->k ? first + b->size : j->k;
      float sum = 0;
      for (int64_t i = first; i < last; i++)
        sum += from[i];
      j->sums[row * b->blocks + block] = sum;
    }
  }
  return TENON_OK;
}

static tenon_status_t multiply_tiles(tenon_call_t *call, void *argument, int64_t begin,
                                     int64_t end) {
  const nbits_job_t *j = (const nbits_job_t *)argument;
  float sums[NBITS_ROWS][NBITS_COLUMNS];
  (void)call;
  for (int64_t tile = begin; tile < end; tile++) {
    const int64_t first = tile * NBITS_COLUMNS;
    const int64_t columns = j->b->n - first < NBITS_COLUMNS ? j->b->n - first : NBITS_COLUMNS;
    for (int64_t row = 0; row < j->m; row += NBITS_ROWS) {
      const int64_t count = j->m - row < NBITS_ROWS ? j->m - row : NBITS_ROWS;
      j->kernels->tile[j->kind](j->b, tile, &j->rows, row, count, sums);
      for (int64_t r = 0; r < count; r++)
        for (int64_t c = 0; c < columns; c++) {
          const float bias = j->bias ? j->bias[first + c] : 0;
          j->out[(row + r) * j->b->n + first + c] = sums[r][c] + bias;
        }
    }
  }
  return TENON_OK;
}

/* Few rows. */
static tenon_status_t multiply_thin(tenon_call_t *call, nbits_job_t *j) {
  const nbits_t *b = j->b;
  j->rows.width = b->blocks * b->size;
  j->scaled = (float *)CORE_SCRATCH(call, 4, j->m, j->rows.width);
  j->sums = (float *)CORE_SCRATCH(call, 4, j->m, b->blocks);
  if (!j->scaled || !j->sums) return TENON_MEMORY;
  j->rows.x = j->scaled;
  j->rows.sums = j->sums;
  TENON_TRY(call->host->parallel(call, j->m, 1 + WORK / (1 + j->k), scale_rows, j));
  const int64_t weights = (1 + j->rows.width) * NBITS_COLUMNS * (1 + j->m / 4);
  return call->host->parallel(call, nbits_tiles(b), 1 + WORK / weights, multiply_tiles, j);
}

/* Many rows: a panel of columns at a time becomes floats. */

typedef struct panel_t {
  const nbits_job_t *job;
  int64_t first; /* column of the weights */
  int64_t columns;
  int64_t width;  /* most columns; a multiple of NBITS_COLUMNS */
  int64_t stride; /* no power of two, by which rows would share few sets of a cache */
  float *floats;  /* [k][stride] */
} panel_t;

static tenon_status_t unpack_tiles(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const panel_t *p = (const panel_t *)argument;
  (void)call;
  for (int64_t tile = begin; tile < end; tile++) {
    const int64_t column = tile * NBITS_COLUMNS;
    p->job->kernels->unpack[p->job->kind](p->job->b, p->first + column, p->job->k, p->stride,
                                          p->floats + column);
  }
  return TENON_OK;
}

static void place_product(const void *context, int64_t index, product_t *product) {
  const panel_t *p = (const panel_t *)context;
  (void)index;
  product->a.data = p->job->x;
  product->b.data = p->floats;
  product->c = p->job->out + p->first;
}

static void add_bias(const void *context, int64_t index, int64_t i, int64_t i_end, int64_t j,
                     int64_t j_end) {
  const panel_t *p = (const panel_t *)context;
  (void)index;
  for (; i < i_end; i++)
    for (int64_t column = p->first + j; column < p->first + j_end; column++)
      p->job->out[i * p->job->b->n + column] += p->job->bias[column];
}

static tenon_status_t multiply_thick(tenon_call_t *call, const nbits_job_t *j) {
  enum { PANEL = 1 << 19 }; /* floats of a panel */
  const int64_t n = j->b->n;
  panel_t p = {.job = j, .width = PANEL / j->k / GEMM_WIDTH * GEMM_WIDTH};
  if (p.width < GEMM_WIDTH) p.width = GEMM_WIDTH;
  if (p.width > n) p.width = nbits_tiles(j->b) * NBITS_COLUMNS;
  p.stride = p.width + 16;
  p.floats = (float *)CORE_SCRATCH(call, 4, j->k, p.stride);
  if (!p.floats) return TENON_MEMORY;
  for (; p.first < n; p.first += p.width) {
    p.columns = n - p.first < p.width ? n - p.first : p.width;
    const int64_t tiles = (p.columns + NBITS_COLUMNS - 1) / NBITS_COLUMNS;
    TENON_TRY(
        call->host->parallel(call, tiles, 1 + WORK / (NBITS_COLUMNS * j->k), unpack_tiles, &p));
    const products_t products = {.product = {.m = j->m,
                                             .n = p.columns,
                                             .k = j->k,
                                             .a = {.vector = j->k, .element = 1},
                                             .b = {.vector = 1, .element = p.stride},
                                             .row = n,
                                             .column = 1},
                                 .dtype = tenon_dtype(TENON_F32),
                                 .count = 1,
                                 .place = place_product,
                                 .finish = j->bias ? add_bias : NULL,
                                 .context = &p,
                                 .fast = 1};
    TENON_TRY(core_products(call, &products));
  }
  return TENON_OK;
}

static tenon_status_t matmul_nbits_run(tenon_call_t *call) {
  enum { THIN = 16 }; /* most rows with which the packed weights are not unpacked first */
  const tenon_dtype_t f32 = tenon_dtype(TENON_F32);
  nbits_t own = {0};
  tenon_tensor_t *x = core_dense(call, call->inputs[X], f32);
  tenon_tensor_t *bias = call->inputs[BIAS] ? core_dense(call, call->inputs[BIAS], f32) : NULL;
  tenon_tensor_t *out = core_place_dense(call, call->outputs[0], f32);
  if (!x || !out || (call->inputs[BIAS] && !bias)) return TENON_MEMORY;
  if (tenon_count(out) == 0) return TENON_OK;
  if (!call->plan) TENON_TRY(arrange_call(call, &own));
  nbits_job_t j = {.b = call->plan ? (const nbits_t *)call->plan : &own,
                   .kernels = kernels_of_isa(),
                   .x = (const float *)x->data,
                   .out = (float *)out->data,
                   .bias = bias ? (const float *)bias->data : NULL};
  j.kind = j.b->bits / 4;
  j.k = x->shape[x->ndim - 1];
  j.m = tenon_count(x) / j.k;
  const int is_thin = j.m <= THIN || j.b->n < 2 * NBITS_COLUMNS;
  TENON_TRY(is_thin ? multiply_thin(call, &j) : multiply_thick(call, &j));
  return core_settle(call, call->outputs[0], out);
}

/* by other operators */

enum {
  USE_CAST,
  USE_AND,
  USE_SHIFT,
  USE_UNSQUEEZE,
  USE_CONCAT,
  USE_RESHAPE,
  USE_SLICE,
  USE_SUB,
  USE_MUL,
  USE_MATMUL,
};
#define NBITS_USES                                                                                 \
  DENSE_USES                                                                                       \
  ", core::bitwise_and, core::shift_right, core::unsqueeze, core::concat, core::reshape, "         \
  "core::slice, core::sub, core::mul, core::matmul"

/* [n, ..., bytes] as integers [n, numbers], of i32, for which devices have operations on bits. */
static tenon_status_t unpack_codes(tenon_call_t *call, tenon_tensor_t *x, int64_t bits,
                                   tenon_tensor_t **out) {
  tenon_tensor_t *parts[4];
  const int64_t count = 8 / bits;
  const int64_t shape[2] = {x->shape[0], -1};
  x = core_as(call, x, tenon_dtype(TENON_I32));
  if (!x) return TENON_MEMORY;
  for (int64_t i = 0; i < count; i++) {
    parts[i] = x;
    if (i) TENON_TRY(core_with(call, USE_SHIFT, x, (double)(i * bits), &parts[i]));
    if (count > 1)
      TENON_TRY(core_with(call, USE_AND, parts[i], (double)((1 << bits) - 1), &parts[i]));
    TENON_TRY(core_along(call, USE_UNSQUEEZE, parts[i], -1, &parts[i]));
  }
  TENON_TRY(core_concat(call, USE_CONCAT, -1, count, parts, out));
  return core_reshape(call, USE_RESHAPE, *out, 2, shape, out);
}

/* Gives the zero points as floats [n, blocks, 1]. */
static tenon_status_t unpack_zeros(tenon_call_t *call, int64_t blocks, tenon_tensor_t **out) {
  tenon_tensor_t *zeros = call->inputs[ZEROS];
  if (tenon_dtype_id(zeros->dtype) == TENON_U8) {
    TENON_TRY(unpack_codes(call, zeros, call->attrs[BITS].as.i, &zeros));
    TENON_TRY(core_slice(call, USE_SLICE, zeros, 1, 0, blocks, &zeros));
  }
  zeros = core_as(call, zeros, call->inputs[X]->dtype);
  return zeros ? core_along(call, USE_UNSQUEEZE, zeros, -1, out) : TENON_MEMORY;
}

static tenon_status_t matmul_nbits_parts(tenon_call_t *call) {
  tenon_tensor_t *x = call->inputs[X];
  const tenon_tensor_t *weights = call->inputs[WEIGHTS];
  const int64_t shape[3] = {weights->shape[0], weights->shape[1], call->attrs[BLOCK_SIZE].as.i};
  const int64_t flat[2] = {shape[0], shape[1] * shape[2]};
  const int64_t bits = call->attrs[BITS].as.i;
  tenon_value_t attrs[5] = {value_flag(0), value_flag(1), value_choice(0), value_float(0),
                            value_float(0)};
  tenon_tensor_t *codes = NULL;
  tenon_tensor_t *scales = NULL;
  tenon_tensor_t *zeros = NULL;
  TENON_TRY(unpack_codes(call, call->inputs[WEIGHTS], bits, &codes));
  codes = core_as(call, codes, x->dtype);
  if (!codes) return TENON_MEMORY;
  TENON_TRY(core_reshape(call, USE_RESHAPE, codes, 3, shape, &codes));
  if (call->inputs[ZEROS]) {
    TENON_TRY(unpack_zeros(call, shape[1], &zeros));
    TENON_TRY(INVOKE(call, USE_SUB, NULL, &codes, codes, zeros));
  } else {
    TENON_TRY(core_with(call, USE_SUB, codes, (double)(1 << (bits - 1)), &codes));
  }
  TENON_TRY(core_along(call, USE_UNSQUEEZE, call->inputs[SCALES], -1, &scales));
  TENON_TRY(INVOKE(call, USE_MUL, NULL, &codes, codes, scales));
  TENON_TRY(core_reshape(call, USE_RESHAPE, codes, 2, flat, &codes));
  TENON_TRY(core_slice(call, USE_SLICE, codes, 1, 0, x->shape[x->ndim - 1], &codes));
  TENON_TRY(INVOKE(call, USE_MATMUL, attrs, &codes, x, codes, call->inputs[BIAS]));
  return call->host->assign(call, 0, codes);
}

/* shapes */

static tenon_status_t shape_check(tenon_infer_t *infer, uint32_t input, const char *name,
                                  int32_t rank, const tenon_dim_t *dims) {
  const tenon_meta_t *meta = infer->inputs[input];
  int differs = meta->ndim != rank;
  for (int32_t i = 0; !differs && i < rank; i++)
    differs = dim_differ(meta->dims[i], dims[i]);
  return differs ? tenon_fail(infer, TENON_INVALID, "%s has shape %s; expected %s", name,
                              dims_text(meta->dims, meta->ndim).text, dims_text(dims, rank).text)
                 : TENON_OK;
}

static tenon_status_t attributes_check(tenon_infer_t *infer, int64_t bits, int64_t size) {
  if (bits != 2 && bits != 4 && bits != 8)
    return tenon_fail(infer, TENON_INVALID, "bits is %" PRId64 "; expected 2, 4 or 8", bits);
  if (size < NBITS_BLOCK_MIN || size > (1 << 24) || (size & (size - 1)))
    return tenon_fail(infer, TENON_INVALID,
                      "block_size is %" PRId64 "; expected a power of two from %d to 2^24", size,
                      NBITS_BLOCK_MIN);
  return TENON_OK;
}

static tenon_status_t matmul_nbits_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[X];
  const tenon_meta_t *weights = infer->inputs[WEIGHTS];
  const int64_t bits = infer->attrs[BITS].as.i;
  const int64_t size = infer->attrs[BLOCK_SIZE].as.i;
  TENON_TRY(attributes_check(infer, bits, size));
  if (x->ndim < 1) return tenon_fail(infer, TENON_INVALID, "x has no axes; expected at least one");
  if (weights->ndim != 3 || dim_differ(weights->dims[2], tenon_extent(size * bits / 8)))
    return tenon_fail(infer, TENON_INVALID,
                      "weights has shape %s; expected [columns, blocks, %" PRId64 "]",
                      dims_text(weights->dims, weights->ndim).text, size * bits / 8);
  const tenon_dim_t k = x->dims[x->ndim - 1];
  const tenon_dim_t blocks = weights->dims[1];
  if (tenon_is_known(k) && dim_differ(blocks, tenon_extent((k.value + size - 1) / size)))
    return tenon_fail(infer, TENON_INVALID,
                      "weights has %" PRId64 " blocks of %" PRId64
                      " in a column; expected as many as %" PRId64 " columns of x need",
                      blocks.value, size, k.value);
  if (tenon_is_known(k) && k.value == 0)
    return tenon_fail(infer, TENON_INVALID, "x has no columns; expected at least one");
  const tenon_dim_t table[2] = {weights->dims[0], blocks};
  TENON_TRY(shape_check(infer, SCALES, "scales", 2, table));
  const tenon_meta_t *zeros = infer->inputs[ZEROS];
  if (zeros && tenon_dtype_id(zeros->dtype) != TENON_U8) {
    TENON_TRY(shape_check(infer, ZEROS, "zero_points", 2, table));
  } else if (zeros && tenon_is_known(blocks)) {
    const tenon_dim_t bytes[2] = {table[0], tenon_extent((blocks.value * bits + 7) / 8)};
    TENON_TRY(shape_check(infer, ZEROS, "zero_points", 2, bytes));
  }
  if (infer->inputs[BIAS]) TENON_TRY(shape_check(infer, BIAS, "bias", 1, table));
  tenon_meta_t *out = infer->outputs[0];
  out->ndim = x->ndim;
  memcpy(out->dims, x->dims, (size_t)x->ndim * sizeof *x->dims);
  out->dims[x->ndim - 1] = weights->dims[0];
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(core_matmul_nbits,
  TENON_OP("matmul_nbits(Tensor x, Tensor weights, Tensor scales, Tensor? zero_points=None, "
           "Tensor? bias=None, *, int bits=4, int block_size=32) -> Tensor",
    TENON_DOC("The product of x with the transpose of a matrix whose elements are integers of 2, 4 "
              "or 8 bits, plus a bias.\n"
              "weights [columns, blocks, bytes] packs them with the lowest bits first; an element "
              "is (integer - zero point) scale of its block.\n"
              "zero_points are packed likewise, or floats [columns, blocks]; without them each is "
              "half of the range."),
    TENON_SAMPLES("x: [n, 20], weights: [m, 2, 8], scales: [m, 2], block_size = 16; "
                  "x: [n, 40], weights: [m, 2, 32], scales: [m, 2], zero_points: [m, 2], "
                  "bias: [m], bits = 8"),
    TENON_TYPES("x: f32|f16|bf16; weights: u8; scales = x; zero_points: u8|f32|f16|bf16; "
                "bias = x; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(NBITS_USES),
    TENON_INFER(matmul_nbits_infer),
    TENON_PREPARE(matmul_nbits_prepare, release_nbits),
    TENON_KERNEL("cpu strided", matmul_nbits_run),
    TENON_COMPOSITE(matmul_nbits_parts)))
/* clang-format on */
