/* det: determinants of a stack of square matrices, by elimination with row pivots in double
 * precision. det_backward: cofactors, by elimination with row and column pivots, so that matrices
 * may be singular.
 * Invariant: a matrix without rows has the determinant 1. */
#include "axes.h"
#include "dense.h"
#include <math.h>
#include <string.h>
#include <tenon/check.h>

typedef struct matrices_t {
  const tenon_tensor_t *x; /* f32 or f64, dense */
  tenon_tensor_t *out;
  double *scratch; /* one matrix per thread slot */
  int64_t n;
  int64_t count;
  int64_t slots;
} matrices_t;

static double determinant_of(double *a, int64_t n) {
  double det = 1;
  for (int64_t c = 0; c < n; c++) {
    int64_t pivot = c;
    for (int64_t r = c + 1; r < n; r++)
      if (fabs(a[r * n + c]) > fabs(a[pivot * n + c])) pivot = r;
    if (a[pivot * n + c] == 0) return 0;
    if (pivot != c) {
      for (int64_t j = c; j < n; j++) {
        double keep = a[c * n + j];
        a[c * n + j] = a[pivot * n + j];
        a[pivot * n + j] = keep;
      }
      det = -det;
    }
    det *= a[c * n + c];
    for (int64_t r = c + 1; r < n; r++) {
      double factor = a[r * n + c] / a[c * n + c];
      for (int64_t j = c + 1; j < n; j++)
        a[r * n + j] -= factor * a[c * n + j];
    }
  }
  return det;
}

/* A part is a slot of scratch memory and every k-th matrix. */
static tenon_status_t slots_run(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const matrices_t *s = (const matrices_t *)argument;
  int64_t size = s->n * s->n;
  (void)call;
  for (int64_t slot = begin; slot < end; slot++)
    for (int64_t i = slot; i < s->count; i += s->slots) {
      double *a = s->scratch + slot * size;
      if (core_is(s->x, TENON_F64)) {
        memcpy(a, (const double *)s->x->data + i * size, (size_t)size * sizeof *a);
        ((double *)s->out->data)[i] = determinant_of(a, s->n);
      } else {
        for (int64_t e = 0; e < size; e++)
          a[e] = (double)((const float *)s->x->data)[i * size + e];
        ((float *)s->out->data)[i] = (float)determinant_of(a, s->n);
      }
    }
  return TENON_OK;
}

static tenon_status_t det_run(tenon_call_t *call) {
  enum {
    SLOTS = 32,
    WORK = 4096,
  };
  tenon_dtype_t dtype = tenon_dtype(core_is(call->inputs[0], TENON_F64) ? TENON_F64 : TENON_F32);
  matrices_t s = {.x = core_dense(call, call->inputs[0], dtype),
                  .out = core_place_dense(call, call->outputs[0], dtype)};
  if (!s.x || !s.out) return TENON_MEMORY;
  s.n = s.x->shape[s.x->ndim - 1];
  s.count = tenon_count(s.out);
  if (s.count == 0) return TENON_OK;
  s.slots = s.count < SLOTS ? s.count : SLOTS;
  s.scratch = (double *)CORE_SCRATCH(call, sizeof(double), s.slots, s.n, s.n);
  if (!s.scratch) return TENON_MEMORY;
  int64_t work = s.count / s.slots * s.n * s.n * s.n + 1;
  TENON_TRY(call->host->parallel(call, s.slots, 1 + WORK / work, slots_run, &s));
  return core_settle(call, call->outputs[0], s.out);
}

static tenon_status_t det_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  if (x->ndim < 2 || dim_differ(x->dims[x->ndim - 1], x->dims[x->ndim - 2]))
    return tenon_fail(infer, TENON_INVALID,
                      "x has shape %s; its last two axes must be a square matrix",
                      dims_text(x->dims, x->ndim).text);
  tenon_dim(infer, TENON_DIM_EQUAL, x->dims[x->ndim - 1], x->dims[x->ndim - 2]);
  out->ndim = x->ndim - 2;
  for (int32_t i = 0; i < out->ndim; i++)
    out->dims[i] = x->dims[i];
  return TENON_OK;
}

/* det_backward */

/* Factorises a = P L U Q with full pivoting. Returns the sign of P and Q, or 0 if the rank is below
 * n - 1. */
static double factorise_matrix(double *a, int64_t n, int64_t *rows, int64_t *columns) {
  double sign = 1;
  for (int64_t i = 0; i < n; i++)
    rows[i] = columns[i] = i;
  for (int64_t c = 0; c + 1 < n; c++) {
    int64_t row = c;
    int64_t column = c;
    for (int64_t i = c; i < n; i++)
      for (int64_t j = c; j < n; j++)
        if (fabs(a[i * n + j]) > fabs(a[row * n + column])) {
          row = i;
          column = j;
        }
    if (a[row * n + column] == 0) return 0;
    for (int64_t j = 0; j < n && row != c; j++) {
      double keep = a[c * n + j];
      a[c * n + j] = a[row * n + j];
      a[row * n + j] = keep;
    }
    for (int64_t i = 0; i < n && column != c; i++) {
      double keep = a[i * n + c];
      a[i * n + c] = a[i * n + column];
      a[i * n + column] = keep;
    }
    if ((row != c) != (column != c)) sign = -sign;
    int64_t keep = rows[c];
    rows[c] = rows[row];
    rows[row] = keep;
    keep = columns[c];
    columns[c] = columns[column];
    columns[column] = keep;
    for (int64_t i = c + 1; i < n; i++) {
      a[i * n + c] /= a[c * n + c];
      for (int64_t j = c + 1; j < n; j++)
        a[i * n + j] -= a[i * n + c] * a[c * n + j];
    }
  }
  return sign;
}

/* Computes the cofactors of a times dy; a is destroyed. Column e of adj(U) L^-1 needs no division
 * by the last pivot, which may be 0: it is d (U')^-1 (u y' - c y_last), where d is the product of
 * the other pivots, u the last pivot and c the column above it. */
static void cofactors_of(double *a, int64_t n, double dy, int64_t *order, double *y, double *out) {
  int64_t *rows = order;
  int64_t *columns = order + n;
  int64_t last = n - 1;
  double d = factorise_matrix(a, n, rows, columns) * dy;
  double u = a[last * n + last];
  for (int64_t i = 0; i < last; i++)
    d *= a[i * n + i];
  for (int64_t e = 0; e < n; e++) {
    for (int64_t i = 0; i < n; i++) {
      y[i] = i == e;
      for (int64_t j = e; j < i; j++)
        y[i] -= a[i * n + j] * y[j];
    }
    for (int64_t i = 0; i < last; i++)
      y[i] = u * y[i] - a[i * n + last] * y[last];
    for (int64_t i = last - 1; i >= 0; i--) {
      for (int64_t j = i + 1; j < last; j++)
        y[i] -= a[i * n + j] * y[j];
      y[i] = d == 0 ? 0 : y[i] / a[i * n + i];
    }
    for (int64_t i = 0; i < n; i++)
      out[rows[e] * n + columns[i]] = d * y[i];
  }
}

typedef struct cofactors_t {
  const tenon_tensor_t *dy;
  const tenon_tensor_t *x; /* f32 or f64, dense */
  tenon_tensor_t *out;
  double *scratch; /* per thread slot: two matrices, a column and two orders */
  int64_t n;
  int64_t count;
  int64_t slots;
} cofactors_t;

static tenon_status_t cofactors_run(tenon_call_t *call, void *argument, int64_t begin,
                                    int64_t end) {
  const cofactors_t *s = (const cofactors_t *)argument;
  int64_t n = s->n;
  int64_t size = n * n;
  (void)call;
  for (int64_t slot = begin; slot < end; slot++) {
    double *a = s->scratch + slot * (2 * size + 3 * n);
    double *out = a + size;
    double *y = out + size;
    for (int64_t i = slot; i < s->count; i += s->slots) {
      int wide = core_is(s->x, TENON_F64);
      double dy = wide ? ((const double *)s->dy->data)[i] : (double)((const float *)s->dy->data)[i];
      for (int64_t e = 0; e < size; e++)
        a[e] = wide ? ((const double *)s->x->data)[i * size + e]
                    : (double)((const float *)s->x->data)[i * size + e];
      cofactors_of(a, n, dy, (int64_t *)(void *)(y + n), y, out);
      for (int64_t e = 0; e < size; e++)
        if (wide)
          ((double *)s->out->data)[i * size + e] = out[e];
        else
          ((float *)s->out->data)[i * size + e] = (float)out[e];
    }
  }
  return TENON_OK;
}

static tenon_status_t det_backward_run(tenon_call_t *call) {
  enum {
    SLOTS = 32,
    WORK = 4096,
  };
  tenon_dtype_t dtype = tenon_dtype(core_is(call->inputs[1], TENON_F64) ? TENON_F64 : TENON_F32);
  cofactors_t s = {.dy = core_dense(call, call->inputs[0], dtype),
                   .x = core_dense(call, call->inputs[1], dtype),
                   .out = core_place_dense(call, call->outputs[0], dtype)};
  if (!s.dy || !s.x || !s.out) return TENON_MEMORY;
  s.n = s.x->shape[s.x->ndim - 1];
  s.count = tenon_count(s.dy);
  if (tenon_count(s.out) == 0) return TENON_OK;
  s.slots = s.count < SLOTS ? s.count : SLOTS;
  s.scratch = (double *)CORE_SCRATCH(call, sizeof(double), s.slots, 2 * s.n + 3, s.n);
  if (!s.scratch) return TENON_MEMORY;
  int64_t work = s.count / s.slots * s.n * s.n * s.n + 1;
  TENON_TRY(call->host->parallel(call, s.slots, 1 + WORK / work, cofactors_run, &s));
  return core_settle(call, call->outputs[0], s.out);
}

static tenon_status_t det_backward_infer(tenon_infer_t *infer) {
  const tenon_meta_t *dy = infer->inputs[0];
  const tenon_meta_t *x = infer->inputs[1];
  int fits = x->ndim >= 2 && dy->ndim == x->ndim - 2 &&
             !dim_differ(x->dims[x->ndim - 1], x->dims[x->ndim - 2]);
  for (int32_t i = 0; fits && i < dy->ndim; i++)
    fits = !dim_differ(dy->dims[i], x->dims[i]);
  if (!fits)
    return tenon_fail(
        infer, TENON_INVALID,
        "dy has shape %s and x %s; expected one number in dy for each square matrix of x",
        dims_text(dy->dims, dy->ndim).text, dims_text(x->dims, x->ndim).text);
  return out_like(infer->outputs[0], x);
}

/* clang-format off */
/* The derivative of the cofactors C in direction G is (<G, C> C - C G' C) / det. A singular x has
 * no second derivative here. */
#define COFACTORS "core::det_backward(core::expand(1.0, core::shape(dy)), x)"
TENON_ITEMS(core_determinant,
  TENON_OP("det(Tensor x) -> Tensor",
    TENON_DOC("The determinants of the matrices along the last two axes of x."),
    TENON_SAMPLES("x: [n, 3, 3]; x: [2, 2]"),
    TENON_TYPES("x: float; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(det_infer),
    TENON_GRADIENT("x: core::det_backward(grad, x)"),
    TENON_KERNEL("cpu strided", det_run)),
  TENON_OP("det_backward(Tensor dy, Tensor x) -> Tensor",
    TENON_DOC("The gradient of det: the cofactors of the matrices of x, times dy."),
    TENON_SAMPLES("dy: [n], x: [n, 3, 3]"),
    TENON_TYPES("dy: float; x = dy; out = dy"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(det_backward_infer),
    TENON_GRADIENT("dy: core::reduce_sum(core::mul(grad, " COFACTORS
                   "), [-2, -1], keepdims=False); "
                   "x: core::mul(core::unsqueeze(core::div(dy, core::det(x)), [-2, -1]), "
                   "core::sub(core::mul(core::reduce_sum(core::mul(grad, " COFACTORS
                   "), [-2, -1]), " COFACTORS "), core::matmul(core::matmul(" COFACTORS
                   ", grad, transpose_b=True), " COFACTORS ")))"),
    TENON_KERNEL("cpu strided", det_backward_run)))
/* clang-format on */
