/* Elements at given strides in the memory of a tensor: strided_copy copies them from there,
 * strided_sum adds to them, strided_zero sets them to zero. Gradients through memory that views
 * share use these operators (src/autograd/alias.c). Strides and offset count elements of row-major
 * memory.
 * Invariant: no element outside the tensor is accessed. */
#include "axes.h"
#include "copy.h"
#include "dtype_scalar.h"
#include <string.h>
#include <tenon/check.h>

typedef struct places_t { /* positions in the memory of a tensor */
  int32_t ndim;
  int64_t shape[TENON_RANK_MAX];
  const int64_t *strides;
  int64_t offset;
  int64_t count;
} places_t;

static tenon_status_t places_read(tenon_call_t *call, const tenon_tensor_t *memory, int32_t ndim,
                                  places_t *out) {
  const tenon_value_t *strides = &call->attrs[0];
  int64_t low = call->attrs[1].as.i;
  int64_t high = low;
  int overflows = 0;
  if ((int64_t)strides->count != ndim)
    return tenon_fail(call, TENON_INVALID,
                      "strides has %d numbers, but the shape has %d dimensions",
                      (int)strides->count, ndim);
  out->ndim = ndim;
  out->strides = strides->as.ints;
  out->offset = low;
  out->count = 1;
  for (int32_t i = 0; i < ndim; i++)
    out->count = out->shape[i] ? out->count : 0;
  for (int32_t i = 0; i < ndim && out->count; i++) {
    int64_t reach = 0;
    int64_t *end = out->strides[i] < 0 ? &low : &high;
    overflows |= __builtin_mul_overflow(out->count, out->shape[i], &out->count);
    overflows |= __builtin_mul_overflow(out->shape[i] - 1, out->strides[i], &reach);
    overflows |= __builtin_add_overflow(*end, reach, end);
  }
  if (overflows || (out->count && (low < 0 || high >= tenon_count(memory))))
    return tenon_fail(call, TENON_RANGE,
                      "strides and offset address elements %" PRId64 " to %" PRId64
                      " of a tensor with %" PRId64 ": expected 0 to %" PRId64,
                      low, high, tenon_count(memory), tenon_count(memory) - 1);
  return TENON_OK;
}

/* States the shape that input 1 holds. */
static tenon_status_t stated_infer(tenon_infer_t *infer) {
  tenon_meta_t *out = infer->outputs[0];
  ints_t shape;
  TENON_TRY(ints_read(infer, 1, &shape));
  if (!shape.known) return out_unknown(infer, out, shape.count);
  if (shape.count > TENON_RANK_MAX)
    return tenon_fail(infer, TENON_INVALID, "the shape has %d extents; a tensor has at most %d",
                      shape.count, TENON_RANK_MAX);
  out->ndim = shape.count;
  for (int32_t i = 0; i < shape.count; i++)
    out->dims[i] = shape.at[i];
  return TENON_OK;
}

static tenon_status_t same_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  out->ndim = x->ndim;
  for (int32_t i = 0; i < x->ndim; i++)
    out->dims[i] = x->dims[i];
  return TENON_OK;
}

static tenon_status_t copy_run(tenon_call_t *call) {
  tenon_tensor_t *out = call->outputs[0];
  places_t p;
  move_t move;
  memcpy(p.shape, out->shape, (size_t)out->ndim * sizeof *p.shape);
  TENON_TRY(places_read(call, call->inputs[0], out->ndim, &p));
  move_begin(&move, out, call->inputs[0]);
  move.from_offset = p.offset;
  for (int32_t i = 0; i < p.ndim; i++)
    move_axis(&move, p.shape[i], p.strides[i], out->strides[i]);
  return p.count ? core_move(call, &move) : TENON_OK;
}

typedef void (*visit_fn)(char *to, const char *from, int64_t n, int64_t stride);

/* Visits each row of the last axis; `from` is dense, or NULL if there is no source. */
static void visit_rows(const places_t *p, int32_t axis, char *to, const char **from, int64_t size,
                       visit_fn visit) {
  if (axis >= p->ndim - 1) {
    int64_t n = p->ndim ? p->shape[axis] : 1;
    visit(to, *from, n, p->ndim ? p->strides[axis] : 1);
    if (*from) *from += n * size;
    return;
  }
  for (int64_t i = 0; i < p->shape[axis]; i++)
    visit_rows(p, axis + 1, to + i * p->strides[axis] * size, from, size, visit);
}

#define LOAD(x) (x)
#define STORE(x) (x)
#define T float
#define NAME(x) x##_f32
#include "strided_kernel.h"

#define T double
#define NAME(x) x##_f64
#include "strided_kernel.h"
#undef LOAD
#undef STORE

#define LOAD(x) float_of_f16(x)
#define STORE(x) f16_of_float(x)
#define T uint16_t
#define NAME(x) x##_f16
#include "strided_kernel.h"
#undef LOAD
#undef STORE

#define LOAD(x) float_of_bf16(x)
#define STORE(x) bf16_of_float(x)
#define T uint16_t
#define NAME(x) x##_bf16
#include "strided_kernel.h"
#undef LOAD
#undef STORE

#define IS_COMPLEX
#define T float
#define NAME(x) x##_c64
#include "strided_kernel.h"

#define T double
#define NAME(x) x##_c128
#include "strided_kernel.h"
#undef IS_COMPLEX

#define ZERO(size)                                                                                 \
  static void zero_##size(char *to, const char *from, int64_t n, int64_t stride) {                 \
    (void)from;                                                                                    \
    for (int64_t i = 0; i < n; i++)                                                                \
      memset(to + i * stride * size, 0, size);                                                     \
  }
/* clang-format off */
ZERO(1)
ZERO(2)
ZERO(4)
ZERO(8)
ZERO(16)
/* clang-format on */

static visit_fn adder_of(tenon_dtype_t dtype) {
  switch (tenon_dtype_id(dtype)) {
  case TENON_F32:
    return add_f32;
  case TENON_F64:
    return add_f64;
  case TENON_F16:
    return add_f16;
  case TENON_BF16:
    return add_bf16;
  case TENON_C64:
    return add_c64;
  case TENON_C128:
    return add_c128;
  default:
    return NULL;
  }
}

static visit_fn clearer_of(int64_t size) {
  switch (size) {
  case 1:
    return zero_1;
  case 2:
    return zero_2;
  case 4:
    return zero_4;
  case 8:
    return zero_8;
  case 16:
    return zero_16;
  default:
    return NULL;
  }
}

static tenon_status_t sum_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  int64_t size = element_size(out);
  const char *from = x->data;
  places_t p;
  memcpy(p.shape, x->shape, (size_t)x->ndim * sizeof *p.shape);
  TENON_TRY(places_read(call, out, x->ndim, &p));
  if (tenon_count(out)) memset(out->data, 0, (size_t)(tenon_count(out) * size));
  if (p.count)
    visit_rows(&p, 0, (char *)out->data + p.offset * size, &from, size, adder_of(out->dtype));
  return TENON_OK;
}

static tenon_status_t zero_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *shape = call->inputs[1];
  tenon_tensor_t *out = call->outputs[0];
  int64_t size = element_size(out);
  int64_t ndim = tenon_count(shape);
  const char *none = NULL;
  places_t p;
  if (ndim > TENON_RANK_MAX)
    return tenon_fail(call, TENON_INVALID,
                      "the shape has %" PRId64 " extents; a tensor has at most %d", ndim,
                      TENON_RANK_MAX);
  for (int64_t i = 0; i < ndim; i++)
    if ((p.shape[i] = tensor_int(shape, i)) < 0)
      return tenon_fail(call, TENON_INVALID, "extent %" PRId64 " of the shape is %" PRId64, i,
                        p.shape[i]);
  for (int64_t i = 0; i < ndim && ndim == (int64_t)call->attrs[0].count; i++)
    if (!call->attrs[0].as.ints[i] && p.shape[i])
      p.shape[i] = 1; /* the same element again and again */
  TENON_TRY(places_read(call, out, (int32_t)ndim, &p));
  if (out->data != x->data && tenon_count(out))
    memcpy(out->data, x->data, (size_t)(tenon_count(out) * size));
  if (p.count)
    visit_rows(&p, 0, (char *)out->data + p.offset * size, &none, size, clearer_of(size));
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(core_strided,
  TENON_OP("strided_copy(Tensor x, Tensor @host shape, *, int[] strides, int offset=0) -> Tensor",
    TENON_DOC("The elements of x's row-major memory at these strides, starting at offset."),
    TENON_SAMPLES("x: [24], shape: [2] [3, 4], strides = [1, 6], offset = 1"),
    TENON_TYPES("x: f16|bf16|f32|f64|complex; shape: i64|i32; out = x"),
    TENON_WHERE("shape: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(stated_infer),
    TENON_GRADIENT("x: core::strided_sum(grad, core::shape(x), strides=strides, offset=offset)"),
    TENON_KERNEL("cpu", copy_run)),
  TENON_OP("strided_sum(Tensor x, Tensor @host shape, *, int[] strides, int offset=0) -> Tensor",
    TENON_DOC("A tensor of zeros with this shape, to whose elements at these strides from offset "
              "on each element of x is added."),
    TENON_SAMPLES("x: [3, 4], shape: [1] [24], strides = [1, 6], offset = 1"),
    TENON_TYPES("x: f16|bf16|f32|f64|complex; shape: i64|i32; out = x"),
    TENON_WHERE("shape: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(stated_infer),
    TENON_GRADIENT("x: core::strided_copy(grad, core::shape(x), strides=strides, offset=offset)"),
    TENON_KERNEL("cpu", sum_run)),
  TENON_OP("strided_zero(Tensor x, Tensor @host shape, *, int[] strides, int offset=0) -> Tensor",
    TENON_DOC("x with the elements at these strides from offset on set to zero."),
    TENON_SAMPLES("x: [24], shape: [2] [3, 4], strides = [1, 6], offset = 1"),
    TENON_TYPES("x: f16|bf16|f32|f64|complex; shape: i64|i32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(same_infer),
    TENON_REUSE("out: x"),
    TENON_GRADIENT("x: core::strided_zero(grad, shape, strides=strides, offset=offset)"),
    TENON_KERNEL("cpu", zero_run)))
/* clang-format on */
