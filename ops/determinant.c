/* det: the determinants of a stack of matrices, by elimination with row pivots in double precision.
 * The host calls infer and the kernel.  Invariant: a matrix without rows has the determinant 1. */
#include "axes.h"
#include "dense.h"
#include <math.h>
#include <string.h>

typedef struct matrices_t {
  const tenon_tensor_t *x; /* f32 or f64, dense */
  tenon_tensor_t *out;
  double *scratch; /* of every slot: one matrix */
  int64_t n, count, slots;
} matrices_t;

static double eliminate(double *a, int64_t n) {
  double det = 1;
  for (int64_t c = 0; c < n; c++) {
    int64_t pivot = c;
    for (int64_t r = c + 1; r < n; r++)
      if (fabs(a[r * n + c]) > fabs(a[pivot * n + c])) pivot = r;
    if (a[pivot * n + c] == 0) return 0;
    if (pivot != c) {
      for (int64_t j = c; j < n; j++) {
        double keep = a[c * n + j];
        a[c * n + j] = a[pivot * n + j], a[pivot * n + j] = keep;
      }
      det = -det;
    }
    det *= a[c * n + c];
    for (int64_t r = c + 1; r < n; r++) {
      double factor = a[r * n + c] / a[c * n + c];
      for (int64_t j = c + 1; j < n; j++) a[r * n + j] -= factor * a[c * n + j];
    }
  }
  return det;
}

/* Part: a slot of scratch, and every so manieth matrix. */
static tenon_status_t slots_run(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const matrices_t *s = (const matrices_t *)argument;
  int64_t size = s->n * s->n;
  (void)call;
  for (int64_t slot = begin; slot < end; slot++)
    for (int64_t i = slot; i < s->count; i += s->slots) {
      double *a = s->scratch + slot * size;
      if (core_is(s->x, TENON_F64)) {
        memcpy(a, (const double *)s->x->data + i * size, (size_t)size * sizeof *a);
        ((double *)s->out->data)[i] = eliminate(a, s->n);
      } else {
        for (int64_t e = 0; e < size; e++) a[e] = (double)((const float *)s->x->data)[i * size + e];
        ((float *)s->out->data)[i] = (float)eliminate(a, s->n);
      }
    }
  return TENON_OK;
}

static tenon_status_t det_run(tenon_call_t *call) {
  enum { SLOTS = 32, WORK = 4096 };
  tenon_dtype_t dtype = tenon_dtype(core_is(call->inputs[0], TENON_F64) ? TENON_F64 : TENON_F32);
  matrices_t s = {.x = core_dense(call, call->inputs[0], dtype),
                  .out = core_place_dense(call, call->outputs[0], dtype)};
  if (!s.x || !s.out) return TENON_MEMORY;
  s.n = s.x->shape[s.x->ndim - 1], s.count = tenon_count(s.out);
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
    return tenon_fail(infer, TENON_INVALID, "x has shape %s; its last two axes must be a square matrix",
                      dims_text(x->dims, x->ndim).text);
  tenon_dim(infer, TENON_DIM_EQUAL, x->dims[x->ndim - 1], x->dims[x->ndim - 2]);
  out->ndim = x->ndim - 2;
  for (int32_t i = 0; i < out->ndim; i++) out->dims[i] = x->dims[i];
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(core_determinant,
  TENON_OP("det(Tensor x) -> Tensor",
    TENON_DOC("The determinants of the matrices along the last two axes of x."),
    TENON_TYPES("x: float; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(det_infer),
    TENON_KERNEL("cpu strided", det_run)))
/* clang-format on */
