/* softmax, log_softmax, hardmax and two gradients along any axis: the tensor is [outer, n, inner].
 * If inner is 1, a row is contiguous and goes through the folds; otherwise blocks of columns are
 * processed row by row, side by side. f16 and bf16 are computed as f32, in a buffer with the layout
 * of the tensor.
 * Invariant: a part reads and writes only its own rows or columns. */
#include "../axes.h"
#include "fold.h"
#include "isa.h"
#include "math.h"
#include "wide.h"

enum {
  CHUNK = 2048 /* summed in f32 */,
  COLUMNS = 256,
  ROOM = 4096,
  /* numbers of a narrow row kept on the stack */
};

typedef struct slab_t { /* n numbers, `stride` apart, in each of `width` columns */
  int64_t n;
  int64_t stride;
  int64_t width;
} slab_t;

/* Computes y from x, or for gradients y from g and x, the result of the operator. */
typedef void (*slab_fn)(void *y, const void *g, const void *x, const slab_t *slab);

#if defined(__AVX2__)
#include "exponentials.h"
#define HAS_EXPONENTIALS
#endif
#define T float
#define NAME(x) f32_##x
#include "../softmax_kernel.h"

#define T double
#define NAME(x) f64_##x
#include "../softmax_kernel.h"

typedef struct plan_t {
  slab_fn function;
  const tenon_tensor_t *g, *x;
  tenon_tensor_t *out;
  int64_t n, inner, blocks, size; /* size: bytes of a number in the type of the computation */
  /* g and x of narrow dtypes if the stack does not suffice; the result replaces x */
  float *wide[2];
} plan_t;

static tenon_status_t softmax_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const plan_t *p = (const plan_t *)argument;
  tenon_dtype_t dtype = p->x->dtype;
  float room[2][ROOM];
  (void)call;
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t block = unit % p->blocks * COLUMNS;
    int64_t at = unit / p->blocks * p->n * p->inner + block;
    slab_t slab = {p->n, p->inner, p->inner - block < COLUMNS ? p->inner - block : COLUMNS};
    int64_t rows = p->inner == 1 ? 1 : p->n;
    int64_t row = p->inner == 1 ? p->n : slab.width;
    if (is_narrow(dtype)) {
      float *g = p->wide[1] ? p->wide[0] + at : room[0];
      float *x = p->wide[1] ? p->wide[1] + at : room[1];
      for (int64_t r = 0; r < rows * p->inner; r += p->inner) {
        widen_run(dtype, x + r, (const uint16_t *)p->x->data + at + r, row);
        if (p->g) widen_run(dtype, g + r, (const uint16_t *)p->g->data + at + r, row);
      }
      p->function(x, g, x, &slab);
      for (int64_t r = 0; r < rows * p->inner; r += p->inner)
        narrow_run(dtype, (uint16_t *)p->out->data + at + r, x + r, row);
    } else {
      const char *g = p->g ? (const char *)p->g->data + at * p->size : NULL;
      p->function((char *)p->out->data + at * p->size, g, (const char *)p->x->data + at * p->size,
                  &slab);
    }
  }
  return TENON_OK;
}

/* `rows` and `columns` hold the functions for f32 and f64. */
static tenon_status_t run_softmax(tenon_call_t *call, int backward, const slab_fn *rows,
                                  const slab_fn *columns) {
  const tenon_tensor_t *x = call->inputs[backward];
  int real = tenon_dtype_id(x->dtype) == TENON_F64;
  int64_t count = tenon_count(x);
  int64_t outer = 1;
  int32_t axis = 0;
  plan_t p = {.x = x, .out = call->outputs[0], .n = 1, .inner = 1, .blocks = 1};
  p.g = backward ? call->inputs[0] : NULL;
  p.size = real ? 8 : 4;
  if (count == 0) return TENON_OK;
  if (x->ndim) {
    TENON_TRY(axis_wrap(call, call->attrs[0].as.i, x->ndim, &axis));
    p.n = x->shape[axis];
    for (int32_t i = axis + 1; i < x->ndim; i++)
      p.inner *= x->shape[i];
    outer = count / p.n / p.inner;
  }
  if (p.inner > 1) p.blocks = (p.inner + COLUMNS - 1) / COLUMNS;
  p.function = p.inner == 1 ? rows[real] : columns[real];
  for (int i = 0; is_narrow(x->dtype) && p.n * p.inner > ROOM && i < 2; i++) {
    if (i == 0 && !backward) continue;
    if (!(p.wide[i] = (float *)call->host->allocate(call, (uint64_t)count * sizeof(float))))
      return TENON_MEMORY;
  }
  if (!p.wide[0]) p.wide[0] = p.wide[1];
  int64_t each = count / outer / p.blocks;
  return call->host->parallel(call, outer * p.blocks, 8192 / (each + 1) + 1, softmax_part, &p);
}

#ifndef TENON_SIMD
static tenon_status_t softmax_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  int32_t axis = 0;
  if (x->ndim) TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, x->ndim, &axis));
  return out_like(infer->outputs[0], x);
}

/* Checks the backward operators: dy and y must have the same shape. */
static tenon_status_t softmax_backward_infer(tenon_infer_t *infer) {
  const tenon_meta_t *dy = infer->inputs[0];
  const tenon_meta_t *y = infer->inputs[1];
  int alike = dy->ndim == y->ndim;
  for (int32_t i = 0; alike && i < y->ndim; i++)
    alike = !dim_differ(dy->dims[i], y->dims[i]);
  if (!alike)
    return tenon_fail(infer, TENON_INVALID, "dy has shape %s and y has %s; they must be equal",
                      dims_text(dy->dims, dy->ndim).text, dims_text(y->dims, y->ndim).text);
  int32_t axis = 0;
  if (y->ndim) TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, y->ndim, &axis));
  return out_like(infer->outputs[0], y);
}
#endif

#define RUN(name, backward, row, column)                                                           \
  static tenon_status_t name##_run(tenon_call_t *call) {                                           \
    static const slab_fn rows[] = {f32_##row, f64_##row};                                          \
    static const slab_fn columns[] = {f32_##column, f64_##column};                                 \
    return run_softmax(call, backward, rows, columns);                                             \
  }
/* clang-format off */
RUN(softmax, 0, softmax_row, softmax_columns)
RUN(log_softmax, 0, log_softmax_row, log_softmax_columns)
RUN(hardmax, 0, hardmax_columns, hardmax_columns)
RUN(softmax_backward, 1, softmax_backward_row, softmax_backward_columns)
RUN(log_softmax_backward, 1, log_softmax_backward_row, log_softmax_backward_columns)

#define FACTS(doc, types, from, infer)                                                             \
  TENON_DOC(doc),                                                                                  \
  TENON_TYPES(types),                                                                              \
  TENON_TRAITS(TENON_PURE),                                                                        \
  TENON_INFER(infer),                                                                              \
  TENON_REUSE("out: " from)
FAMILY(core_softmax,
  OPERATOR(softmax, "(Tensor x, *, int axis=-1) -> Tensor",
    (FACTS("exp(x) divided by its sum along an axis.", "x: float; out = x", "x", softmax_infer),
     TENON_SHARDING("x, out: [..., _]; if axis = -1"),
     TENON_GRADIENT("x: core::softmax_backward(grad, out, axis=axis)")),
    KERNEL("rows", softmax_run))
  OPERATOR(log_softmax, "(Tensor x, *, int axis=-1) -> Tensor",
    (FACTS("The logarithm of softmax.", "x: float; out = x", "x", softmax_infer),
     TENON_SHARDING("x, out: [..., _]; if axis = -1"),
     TENON_GRADIENT("x: core::log_softmax_backward(grad, out, axis=axis)")),
    KERNEL("rows", log_softmax_run))
  OPERATOR(hardmax, "(Tensor x, *, int axis=-1) -> Tensor",
    (FACTS("1 for the first largest element along an axis, 0 for the others.", "x: float; out = x",
           "x", softmax_infer),
     TENON_GRADIENT("x: none")),
    KERNEL("rows", hardmax_run))
  OPERATOR(softmax_backward, "(Tensor dy, Tensor y, *, int axis=-1) -> Tensor",
    (FACTS("The gradient of softmax with result y.", "dy, y: float; out = y", "y",
           softmax_backward_infer),
     TENON_GRADIENT("dy: core::softmax_backward(grad, y, axis=axis); "
                    "y: core::sub(core::mul(grad, core::sub(dy, core::reduce_sum(core::mul(dy, y), "
                    "axis))), core::mul(dy, core::reduce_sum(core::mul(grad, y), axis)))")),
    KERNEL("rows", softmax_backward_run))
  OPERATOR(log_softmax_backward, "(Tensor dy, Tensor y, *, int axis=-1) -> Tensor",
    (FACTS("The gradient of log_softmax with result y.", "dy, y: float; out = y", "y",
           softmax_backward_infer),
     TENON_GRADIENT("dy: core::sub(grad, core::reduce_sum(core::mul(grad, core::exp(y)), axis)); "
                    "y: core::neg(core::mul(core::mul(grad, core::exp(y)), core::reduce_sum(dy, "
                    "axis)))")),
    KERNEL("rows", log_softmax_backward_run)))
/* clang-format on */
