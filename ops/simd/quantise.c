/* quantize_linear, dequantize_linear, dynamic_quantize_linear: y = round(x / scale) + zero_point
 * and back. A row is a run of elements that share one scale, or that each have their own. Where
 * rows begin and which scales they use is computed once for a tensor with one scale, one scale per
 * index of an axis, or one per block. Rows are computed in f32. Packed results are computed as
 * bytes and packed at the end.
 * Invariant: numbers are divided by the scale, not multiplied by its reciprocal, because other
 * runtimes round that way. */
#include "../axes.h"
#include "../copy.h"
#include "fold.h"
#include "isa.h"
#include "wide.h"
#include <tenon/check.h>

enum {
  CHUNK = 1024,
  BLOCK = 1 << 16,
};

/* conversion of numbers of any dtype to f32 and back */

/* clang-format off */
#define PLAIN(X)                                                                                   \
  X(I8, int8_t)                                                                                    \
  X(U8, uint8_t)                                                                                   \
  X(I16, int16_t)                                                                                  \
  X(U16, uint16_t)                                                                                 \
  X(I32, int32_t)
#define SMALL(X)                                                                                   \
  X(I2, 2, 1)                                                                                      \
  X(U2, 2, 0)                                                                                      \
  X(I4, 4, 1)                                                                                      \
  X(U4, 4, 0)
#define FLOAT8(X)                                                                                  \
  X(F8E4M3FN)                                                                                      \
  X(F8E4M3FNUZ)                                                                                    \
  X(F8E5M2)                                                                                        \
  X(F8E5M2FNUZ)
/* clang-format on */

#define PACKED(x, i, bits)                                                                         \
  ((uint32_t)((x)[(i) * (bits) >> 3] >> ((i) * (bits)&7)) & ((1u << (bits)) - 1))

#define BITS 2
#define IS_SIGNED 1
#define NAME(x) x##_I2
#include "../unpack_kernel.h"

#define BITS 2
#define IS_SIGNED 0
#define NAME(x) x##_U2
#include "../unpack_kernel.h"

#define BITS 4
#define IS_SIGNED 1
#define NAME(x) x##_I4
#include "../unpack_kernel.h"

#define BITS 4
#define IS_SIGNED 0
#define NAME(x) x##_U4
#include "../unpack_kernel.h"

static void decode_numbers(tenon_dtype_t dtype, const void *data, int64_t first, int64_t n,
                           float *restrict to) {
  const uint8_t *bytes = (const uint8_t *)data;
  switch (tenon_dtype_id(dtype)) {
#define CASE(id, type)                                                                             \
  case TENON_##id:                                                                                 \
    for (int64_t i = 0; i < n; i++)                                                                \
      to[i] = (float)((const type *)data)[first + i];                                              \
    return;
    PLAIN(CASE)
#undef CASE
#define CASE(id, bits, is_signed)                                                                  \
  case TENON_##id:                                                                                 \
    unpack_##id(bytes, first, n, to);                                                              \
    return;
    SMALL(CASE)
#undef CASE
#define CASE(id)                                                                                   \
  case TENON_##id:                                                                                 \
    for (int64_t i = 0; i < n; i++)                                                                \
      to[i] = format_decode(&format_##id, bytes[first + i]);                                       \
    return;
    FLOAT8(CASE)
#undef CASE
  case TENON_F4E2M1:
    for (int64_t i = 0; i < n; i++)
      to[i] = format_decode(&format_F4E2M1, PACKED(bytes, first + i, 4));
    return;
  case TENON_F8E8M0:
    for (int64_t i = 0; i < n; i++)
      to[i] = e8m0_decode(bytes[first + i]);
    return;
  case TENON_F32:
    memcpy(to, (const float *)data + first, (size_t)n * sizeof *to);
    return;
  default:
    widen_run(dtype, to, (const uint16_t *)data + first, n);
  }
}

/* Encodes n numbers. A number beyond the range becomes the largest one if `saturate` is set,
 * otherwise infinity, or NaN in formats that have no infinity. */
TN_INLINE void encode_float8(const format_t *f, const float *restrict from, int64_t n, int saturate,
                             uint8_t *bytes) {
  uint32_t endless = f->infinity != NO_CODE ? f->infinity : f->nan;
  uint32_t beyond = saturate ? f->largest : endless;
  for (int64_t i = 0; i < n; i++)
    bytes[i] = (uint8_t)format_encode(f, from[i], beyond);
}

/* Rounds and clamps to the range. Elements of fewer than 8 bits take one byte each. */
static void encode_numbers(tenon_dtype_t dtype, void *data, int64_t first, int64_t n,
                           const float *restrict from, int saturate) {
  uint8_t *bytes = (uint8_t *)data + first;
  switch (tenon_dtype_id(dtype)) {
#define CASE(id, type, least, most, mask)                                                          \
  case TENON_##id:                                                                                 \
    for (int64_t i = 0; i < n; i++) {                                                              \
      float v = from[i] > (least) ? from[i] : (least); /* NaN gives the least value */             \
      ((type *)data)[first + i] = (type)((int32_t)(v < (most) ? v : (most)) & (mask));             \
    }                                                                                              \
    return;
    CASE(I8, int8_t, -128, 127, -1)
    CASE(U8, uint8_t, 0, 255, -1)
    CASE(I16, int16_t, -32768, 32767, -1)
    CASE(U16, uint16_t, 0, 65535, -1)
    CASE(I4, uint8_t, -8, 7, 15)
    CASE(U4, uint8_t, 0, 15, 15)
    CASE(I2, uint8_t, -2, 1, 3)
    CASE(U2, uint8_t, 0, 3, 3)
#undef CASE
#define CASE(id)                                                                                   \
  case TENON_##id:                                                                                 \
    encode_float8(&format_##id, from, n, saturate, bytes);                                         \
    return;
    FLOAT8(CASE)
#undef CASE
  default:
    for (int64_t i = 0; i < n; i++)
      bytes[i] = (uint8_t)format_encode(&format_F4E2M1, from[i], format_F4E2M1.largest);
  }
}

static int is_whole(tenon_dtype_t dtype) { return dtype.code <= 1; }

/* rows */

typedef struct rows_t {
  const tenon_tensor_t *x;
  tenon_tensor_t *out;
  const float *scale;
  const float *zero; /* NULL if all zero points are 0 */
  int64_t n;
  int64_t inner;
  int64_t block; /* the tensor is [outer, n, inner]; block: indices of n that share scales */
  int64_t width;
  int64_t rows;
  int64_t per_outer;       /* numbers of a row; rows in all; rows per outer index */
  int single;              /* one scale for the tensor: all rows share it, however many there are */
  int each;                /* every element of a row has its own scale */
  tenon_dtype_t precision; /* dtype of quotients */
  void *codes;             /* where results are written: out, or bytes to be packed */
  int saturate;
} rows_t;

/* Computes where a row begins, its length, and where its scales begin. */
static int64_t row_at(const rows_t *r, int64_t row, int64_t *width, int64_t *scale) {
  int64_t outer = row / r->per_outer;
  int64_t k = row % r->per_outer;
  int64_t total = r->n * r->inner;
  int64_t start = k * r->width;
  int64_t blocks = r->block ? (r->n + r->block - 1) / r->block : 0;
  *width = total - start < r->width ? total - start : r->width;
  if (r->single)
    *scale = 0;
  else if (r->block) /* scales are [outer, blocks, inner]; a row is a block or one index of n */
    *scale = r->each ? (outer * blocks + k / r->block) * r->inner : outer * blocks + k;
  else
    *scale = r->each ? 0 : k;
  return outer * total + start;
}

/* 8-bit numbers with one scale and one zero point in a row, to and from f32: the usual case, in one
 * loop. */

static int is_byte(const tenon_tensor_t *t) {
  return tenon_dtype_id(t->dtype) == TENON_I8 || tenon_dtype_id(t->dtype) == TENON_U8;
}

/* After clamping, which makes NaN the least value, adding 1.5 * 2^23 leaves no bits for a
 * fraction. */
static void quantise_bytes(const float *restrict x, float scale, float zero, int is_signed,
                           int64_t n, uint8_t *restrict out) {
  const float least = (is_signed ? -128.0f : 0.0f) - zero;
  const float most = least + 255;
  const int32_t offset = (int32_t)zero;
  for (int64_t i = 0; i < n; i++) {
    float v = x[i] / scale;
    v = v > least ? v : least;
    v = v < most ? v : most;
    out[i] = (uint8_t)((int32_t)((v + 0x1.8p23f) - 0x1.8p23f) + offset);
  }
}

static void dequantise_bytes(const uint8_t *restrict x, float scale, float zero, int is_signed,
                             int64_t n, float *restrict out) {
  if (is_signed)
    for (int64_t i = 0; i < n; i++)
      out[i] = ((float)((const int8_t *)x)[i] - zero) * scale;
  else
    for (int64_t i = 0; i < n; i++)
      out[i] = ((float)x[i] - zero) * scale;
}

static tenon_status_t quantise_part(tenon_call_t *call, void *argument, int64_t begin,
                                    int64_t end) {
  const rows_t *r = (const rows_t *)argument;
  const int is_usual = is_byte(r->out) && !r->each && tenon_dtype_id(r->x->dtype) == TENON_F32 &&
                       tenon_dtype_id(r->precision) == TENON_F32;
  float v[CHUNK];
  (void)call;
  for (int64_t row = begin; row < end; row++) {
    int64_t width, scale;
    int64_t first = row_at(r, row, &width, &scale);
    if (is_usual) {
      quantise_bytes((const float *)r->x->data + first, r->scale[scale],
                     r->zero ? r->zero[scale] : 0, tenon_dtype_id(r->out->dtype) == TENON_I8, width,
                     (uint8_t *)r->out->data + first);
      continue;
    }
    for (int64_t done = 0; done < width; done += CHUNK) {
      int64_t m = width - done < CHUNK ? width - done : CHUNK;
      const float *s = r->scale + scale + (r->each ? done : 0);
      const float *z = r->zero;
      if (z) z += scale + (r->each ? done : 0);
      decode_numbers(r->x->dtype, r->x->data, first + done, m, v);
      if (r->each)
        for (int64_t i = 0; i < m; i++)
          v[i] /= s[i];
      else
        for (int64_t i = 0; i < m; i++)
          v[i] /= *s;
      if (is_narrow(r->precision)) {
        uint16_t quotient[CHUNK];
        narrow_run(r->precision, quotient, v, m);
        widen_run(r->precision, v, quotient, m);
      }
      if (is_whole(r->out->dtype))
        for (int64_t i = 0; i < m; i++)
          v[i] = tn_rintf(v[i]);
      if (z && r->each)
        for (int64_t i = 0; i < m; i++)
          v[i] += z[i];
      else if (z)
        for (int64_t i = 0; i < m; i++)
          v[i] += *z;
      encode_numbers(r->out->dtype, r->codes, first + done, m, v, r->saturate);
    }
  }
  return TENON_OK;
}

static tenon_status_t dequantise_part(tenon_call_t *call, void *argument, int64_t begin,
                                      int64_t end) {
  const rows_t *r = (const rows_t *)argument;
  const int is_usual = is_byte(r->x) && !r->each && tenon_dtype_id(r->out->dtype) == TENON_F32;
  float v[CHUNK];
  (void)call;
  for (int64_t row = begin; row < end; row++) {
    int64_t width, scale;
    int64_t first = row_at(r, row, &width, &scale);
    if (is_usual) {
      dequantise_bytes((const uint8_t *)r->x->data + first, r->scale[scale],
                       r->zero ? r->zero[scale] : 0, tenon_dtype_id(r->x->dtype) == TENON_I8, width,
                       (float *)r->out->data + first);
      continue;
    }
    for (int64_t done = 0; done < width; done += CHUNK) {
      int64_t m = width - done < CHUNK ? width - done : CHUNK;
      const float *s = r->scale + scale + (r->each ? done : 0);
      const float *z = r->zero;
      float *y = is_narrow(r->out->dtype) ? v : (float *)r->out->data + first + done;
      if (z) z += scale + (r->each ? done : 0);
      decode_numbers(r->x->dtype, r->x->data, first + done, m, y);
      if (z && r->each)
        for (int64_t i = 0; i < m; i++)
          y[i] -= z[i];
      else if (z)
        for (int64_t i = 0; i < m; i++)
          y[i] -= *z;
      if (r->each)
        for (int64_t i = 0; i < m; i++)
          y[i] *= s[i];
      else
        for (int64_t i = 0; i < m; i++)
          y[i] *= *s;
      if (y == v) narrow_run(r->out->dtype, (uint16_t *)r->out->data + first + done, v, m);
    }
  }
  return TENON_OK;
}

/* Converts a parameter to f32. */
static tenon_status_t parameter_as_f32(tenon_call_t *call, const tenon_tensor_t *t,
                                       const float **out) {
  int64_t n = tenon_count(t);
  float *room = (float *)call->host->allocate(call, (uint64_t)n * sizeof *room + 4);
  if (!room) return TENON_MEMORY;
  decode_numbers(t->dtype, t->data, 0, n, room);
  *out = room;
  return TENON_OK;
}

static tenon_status_t lay_out(tenon_call_t *call, rows_t *r) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *scale = call->inputs[1];
  const tenon_tensor_t *zero = call->inputs[2];
  int64_t outer = 1;
  int64_t block = call->attrs[1].as.i;
  int64_t count = tenon_count(x);
  int32_t axis = 0;
  r->x = x;
  r->out = call->outputs[0];
  r->codes = r->out->data;
  r->precision = tenon_dtype(TENON_F32);
  /* With one scale, rows only serve to divide the work among threads. */
  r->n = count;
  r->inner = 1;
  r->width = BLOCK;
  TENON_TRY(parameter_as_f32(call, scale, &r->scale));
  if (zero && !(is_whole(zero->dtype) || tenon_dtype_id(zero->dtype) == TENON_F4E2M1))
    zero = NULL; /* for f8 the zero point is always 0 */
  if (zero) TENON_TRY(parameter_as_f32(call, zero, &r->zero));
  if (tenon_count(scale) == 1) {
    if (count) r->rows = r->per_outer = (count + BLOCK - 1) / BLOCK;
    r->single = 1;
    return TENON_OK;
  }
  TENON_TRY(axis_wrap(call, call->attrs[0].as.i, x->ndim, &axis));
  outer = extents_product(x->shape, 0, axis);
  r->n = x->shape[axis];
  r->inner = extents_product(x->shape, axis + 1, x->ndim);
  r->block = scale->ndim > 1 ? block : 0;
  r->each = r->block ? r->inner > 1 : r->inner == 1;
  r->width = r->block ? r->block : r->n;
  if (r->inner > 1) r->width = r->inner;
  if (count) r->per_outer = (r->n * r->inner + r->width - 1) / r->width;
  r->rows = outer * r->per_outer;
  return TENON_OK;
}

static tenon_status_t each_row(tenon_call_t *call, rows_t *r, tenon_part_fn part) {
  return r->rows ? call->host->parallel(call, r->rows, BLOCK / (r->width + 1) + 1, part, r)
                 : TENON_OK;
}

/* Packs bytes into elements, low bits first. */
static void pack_codes(tenon_tensor_t *out, const uint8_t *codes) {
  int64_t n = tenon_count(out);
  int64_t bits = out->dtype.bits;
  int64_t each = 8 / bits;
  uint8_t *to = (uint8_t *)out->data;
  for (int64_t i = 0; i < n; i += each) {
    uint32_t byte = 0;
    for (int64_t k = 0; k < each && i + k < n; k++)
      byte |= (uint32_t)codes[i + k] << (k * bits);
    to[i / each] = (uint8_t)byte;
  }
}

static tenon_status_t quantise_run(tenon_call_t *call) {
  const tenon_value_t *precision = &call->attrs[3];
  rows_t r = {.saturate = call->attrs[4].as.i != 0};
  TENON_TRY(lay_out(call, &r));
  tenon_dtype_t of_x = r.x->dtype;
  tenon_dtype_t of_scale = call->inputs[1]->dtype;
  if (precision->kind != TENON_KIND_NONE)
    r.precision = precision->as.dtype;
  else if (tenon_dtype_id(of_x) == tenon_dtype_id(of_scale))
    r.precision = of_x;
  int packed = r.out->dtype.bits < 8;
  if (packed && !(r.codes = call->host->allocate(call, (uint64_t)tenon_count(r.out) + 1)))
    return TENON_MEMORY;
  TENON_TRY(each_row(call, &r, quantise_part));
  if (packed) pack_codes(r.out, (const uint8_t *)r.codes);
  return TENON_OK;
}

static tenon_status_t dequantise_run(tenon_call_t *call) {
  rows_t r = {0};
  TENON_TRY(lay_out(call, &r));
  return each_row(call, &r, dequantise_part);
}

/* dynamic_quantize_linear */

#define T float
#define W double
#define MEMBER f

#define FOLD_RUN_ONLY
#define FOLD_NAME(x) least_##x
#define MAP MAP_SELF
#define IDENTITY HUGE_VAL
#define OP OP_MIN
#include "../fold_kernel.h"

#define FOLD_RUN_ONLY
#define FOLD_NAME(x) most_##x
#define MAP MAP_SELF
#define IDENTITY -HUGE_VAL
#define OP OP_MAX
#include "../fold_kernel.h"

#undef T
#undef W
#undef MEMBER

static tenon_status_t range_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const tenon_tensor_t *x = call->inputs[0];
  word_t *range = (word_t *)argument;
  int64_t count = tenon_count(x);
  for (int64_t i = begin; i < end; i++) {
    int64_t n = count - i * BLOCK < BLOCK ? count - i * BLOCK : BLOCK;
    range[2 * i].f = range[2 * i + 1].f = 0; /* 0 is always in the range */
    least_run(&range[2 * i], (const float *)x->data + i * BLOCK, n);
    most_run(&range[2 * i + 1], (const float *)x->data + i * BLOCK, n);
  }
  return TENON_OK;
}

static tenon_status_t dynamic_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  int64_t count = tenon_count(x);
  int64_t blocks = (count + BLOCK - 1) / BLOCK;
  float low = 0;
  float high = 0;
  word_t *range = (word_t *)call->host->allocate(call, (uint64_t)(2 * blocks + 1) * sizeof *range);
  if (!range) return TENON_MEMORY;
  if (blocks) TENON_TRY(call->host->parallel(call, blocks, 1, range_part, range));
  for (int64_t i = 0; i < blocks; i++) {
    low = (float)range[2 * i].f < low ? (float)range[2 * i].f : low;
    high = (float)range[2 * i + 1].f > high ? (float)range[2 * i + 1].f : high;
  }
  float scale = (high == low ? 1.0f : high - low) / 255.0f;
  float zero = -low / scale;
  /* NaN, from an infinite range, becomes 0 */
  zero = zero > 0 ? zero : 0;
  zero = tn_rintf(zero > 255 ? 255 : zero);
  if (call->outputs[1]) *(float *)call->outputs[1]->data = scale;
  if (call->outputs[2]) *(uint8_t *)call->outputs[2]->data = (uint8_t)zero;
  if (!call->outputs[0]) return TENON_OK;
  rows_t r = {.x = x,
              .out = call->outputs[0],
              .scale = &scale,
              .zero = &zero,
              .n = count,
              .inner = 1,
              .width = BLOCK,
              .rows = blocks,
              .per_outer = blocks,
              .single = 1,
              .precision = tenon_dtype(TENON_F32)};
  r.codes = r.out->data;
  return each_row(call, &r, quantise_part);
}

#ifndef TENON_SIMD
static tenon_status_t check_scales(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  const tenon_meta_t *scale = infer->inputs[1];
  const tenon_meta_t *zero = infer->inputs[2];
  int64_t block = infer->attrs[1].as.i;
  int32_t axis = 0;
  int32_t fits = 1;
  int single = 1;
  for (int32_t i = 0; i < scale->ndim; i++)
    single = single && dim_is(scale->dims[i], 1);
  if (!single) {
    TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, x->ndim, &axis));
    if (scale->ndim == 1) {
      fits = !dim_differ(scale->dims[0], x->dims[axis]);
    } else {
      fits = scale->ndim == x->ndim && block > 0;
      for (int32_t i = 0; fits && i < x->ndim; i++) {
        tenon_dim_t wish = x->dims[i];
        if (i == axis) wish = tenon_dim(infer, TENON_DIM_CEIL_DIV, wish, tenon_extent(block));
        fits = !dim_differ(scale->dims[i], wish);
      }
    }
  }
  if (!fits)
    return tenon_fail(infer, TENON_INVALID,
                      "scale has shape %s; expected one for all of x %s, one for each index of "
                      "axis %d, or blocks of %" PRId64,
                      dims_text(scale->dims, scale->ndim).text, dims_text(x->dims, x->ndim).text,
                      axis, block);
  for (int32_t i = 0; zero && (zero->ndim == scale->ndim || !single) && i < scale->ndim; i++)
    if (zero->ndim != scale->ndim || dim_differ(zero->dims[i], scale->dims[i]))
      return tenon_fail(
          infer, TENON_INVALID, "zero_point has shape %s and scale %s; they must be equal",
          dims_text(zero->dims, zero->ndim).text, dims_text(scale->dims, scale->ndim).text);
  return out_like(infer->outputs[0], x);
}

static int is_quantised(tenon_dtype_t dtype) {
  switch (tenon_dtype_id(dtype)) {
#define CASE(id, type) case TENON_##id:
#define CASE_SMALL(id, bits, is_signed) case TENON_##id:
#define CASE_FLOAT(id) case TENON_##id:
    PLAIN(CASE) SMALL(CASE_SMALL) FLOAT8(CASE_FLOAT) CASE_FLOAT(F4E2M1) return 1;
#undef CASE
#undef CASE_SMALL
#undef CASE_FLOAT
  default:
    return 0;
  }
}

static tenon_status_t quantise_infer(tenon_infer_t *infer) {
  const tenon_meta_t *zero = infer->inputs[2];
  const tenon_value_t *wish = &infer->attrs[2];
  tenon_dtype_t dtype = tenon_dtype(TENON_U8);
  if (zero)
    dtype = zero->dtype;
  else if (wish->kind != TENON_KIND_NONE)
    dtype = wish->as.dtype;
  if (tenon_dtype_id(dtype) == TENON_I32 || !is_quantised(dtype))
    return tenon_fail(infer, TENON_INVALID,
                      "output_dtype must be a quantised dtype: an integer of 16 bits or fewer or "
                      "an 8-bit or 4-bit float");
  infer->outputs[0]->dtype = dtype;
  return check_scales(infer);
}

static tenon_status_t dequantise_infer(tenon_infer_t *infer) {
  const tenon_value_t *wish = &infer->attrs[2];
  tenon_dtype_t dtype = wish->kind != TENON_KIND_NONE ? wish->as.dtype : infer->inputs[1]->dtype;
  if (tenon_dtype_id(dtype) != TENON_F32 && !is_narrow(dtype))
    return tenon_fail(infer, TENON_INVALID, "output_dtype must be f32, f16 or bf16");
  infer->outputs[0]->dtype = dtype;
  return check_scales(infer);
}

static tenon_status_t dynamic_infer(tenon_infer_t *infer) {
  for (int i = 1; i < 3; i++)
    if (infer->outputs[i]) infer->outputs[i]->ndim = 0;
  return infer->outputs[0] ? out_like(infer->outputs[0], infer->inputs[0]) : TENON_OK;
}
#endif

/* clang-format off */
#define QUANTISED "u8|i8|u16|i16|u4|i4|u2|i2|f8e4m3fn|f8e4m3fnuz|f8e5m2|f8e5m2fnuz|f4e2m1"
FAMILY(core_quantise,
  OPERATOR(quantize_linear,
    "(Tensor x, Tensor scale, Tensor? zero_point=None, *, int axis=1, int block_size=0, "
    "dtype? output_dtype=None, dtype? precision=None, bool saturate=True) -> Tensor",
    (TENON_DOC("x / scale, rounded, plus zero_point, clamped to the range of zero_point's dtype."),
     TENON_TYPES("x: f32|f16|bf16|i32; scale: f32|f16|bf16|f8e8m0; zero_point: " QUANTISED
                 "; out = ?"),
     TENON_TRAITS(TENON_PURE),
     TENON_INFER(quantise_infer)),
    KERNEL("", quantise_run))
  OPERATOR(dequantize_linear,
    "(Tensor x, Tensor scale, Tensor? zero_point=None, *, int axis=1, int block_size=0, "
    "dtype? output_dtype=None) -> Tensor",
    (TENON_DOC("(x - zero_point) * scale."),
     TENON_SAMPLES("x: [n, m], scale: [] [0.5]; x: [n, 3], scale: [3], zero_point: [3] zeros; "
                   "x: [n, m], scale: f8e8m0[] [0.5], output_dtype = f32"),
     TENON_TYPES("x, zero_point: i32|" QUANTISED "; scale: f32|f16|bf16|f8e8m0; out = ?"),
     TENON_TRAITS(TENON_PURE),
     TENON_INFER(dequantise_infer)),
    KERNEL("", dequantise_run))
  OPERATOR(dynamic_quantize_linear, "(Tensor x) -> (Tensor out, Tensor scale, Tensor zero_point)",
    (TENON_DOC("x quantised to u8 over its own range, extended to include 0."),
     TENON_TYPES("x: f32; out = u8; scale = f32; zero_point = u8"),
     TENON_TRAITS(TENON_PURE),
     TENON_INFER(dynamic_infer)),
    KERNEL("", dynamic_run)))
/* clang-format on */
