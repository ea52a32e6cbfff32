/* Gradients of cum_prod and reduce_prod. They never divide, so factors may be 0. The gradient
 * formulas in cumulative.c and simd/reduction.c call them. cum_prod_backward passes twice over the
 * axis; when it is differentiated itself, it is composed of other operators and needs memory
 * quadratic in the axis.
 * Invariant: the gradient of factor i combines the product of the factors before it and sums of
 * products of those after it. */
#include "axes.h"
#include "composite.h"
#include "copy.h"
#include "forward_infer.h"
#include <string.h>
#include <tenon/check.h>

static tenon_status_t like_both(tenon_infer_t *infer) {
  return core_backward_infer(infer, 1, 0, core_cumulative_infer);
}
static tenon_status_t like_x(tenon_infer_t *infer) { return core_gradients_infer(infer, 1, 1); }

/* cum_prod_backward, in two passes */

typedef struct sweep_t {
  int64_t n;
  int64_t inner;
  int exclusive;
  int reverse;
} sweep_t;

#define T float
#define NAME(x) x##_float
#include "cum_prod_backward_kernel.h"

#define T double
#define NAME(x) x##_double
#include "cum_prod_backward_kernel.h"

static tenon_status_t cum_prod_backward_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[1];
  sweep_t s = {1, 1, call->attrs[0].as.i != 0, call->attrs[1].as.i != 0};
  int64_t count = tenon_count(x);
  int32_t axis = 0;
  if (count == 0) return TENON_OK;
  if (x->ndim) {
    TENON_TRY(axis_wrap(call, tensor_int(call->inputs[2], 0), x->ndim, &axis));
    s.n = x->shape[axis];
    s.inner = extents_product(x->shape, axis + 1, x->ndim);
  }
  tenon_part_fn part = tenon_dtype_id(x->dtype) == TENON_F64 ? sweep_double : sweep_float;
  return call->host->parallel(call, count / s.n, 16384 / s.n + 1, part, &s);
}

/* cum_prod_backward by other operators */

enum {
  CUM_PROD,
  UNSQUEEZE,
  EXPAND,
  WHERE,
  MUL,
  SUM,
  SLICE,
  RESHAPE,
};
#define CUM_USES                                                                                   \
  "core::cum_prod, core::unsqueeze, core::expand, core::where, core::mul, core::reduce_sum, "      \
  "core::slice, "                                                                                  \
  "core::reshape"

static tenon_status_t reverse_axis(tenon_call_t *call, int64_t axis, tenon_tensor_t **t) {
  int64_t last = -1;
  int64_t least = INT64_MIN / 2;
  tenon_tensor_t *from = core_ints(call, 1, &last);
  tenon_tensor_t *to = core_ints(call, 1, &least);
  tenon_tensor_t *along = core_ints(call, 1, &axis);
  return from && to && along ? INVOKE(call, SLICE, NULL, t, *t, from, to, along, from)
                             : TENON_MEMORY;
}

/* A matrix of bools whose axes are `axis` and the next of `rank` axes: i = k, i <= k, or i < k. */
static tenon_tensor_t *triangle_mask(tenon_call_t *call, int32_t rank, int32_t axis, int64_t n,
                                     int kind) {
  enum {
    EQUAL,
    NOT_ABOVE,
  };
  int64_t shape[TENON_RANK_MAX];
  for (int32_t i = 0; i < rank; i++)
    shape[i] = i == axis || i == axis + 1 ? n : 1;
  tenon_tensor_t *t = call->host->temporary(call, tenon_dtype(TENON_BOOL), rank, shape);
  for (int64_t i = 0; t && i < n; i++)
    for (int64_t k = 0; k < n; k++) {
      int is_set = i == k;
      if (kind != EQUAL) is_set = kind == NOT_ABOVE ? i <= k : i < k;
      ((uint8_t *)t->data)[i * n + k] = (uint8_t)is_set;
    }
  return t;
}

/* dx i is the sum over k of dy k times the product of all x j up to k except x i. */
static tenon_status_t cum_prod_backward_parts(tenon_call_t *call) {
  tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *x = call->inputs[1];
  tenon_tensor_t *at, *t, *shape;
  int exclusive = call->attrs[0].as.i != 0;
  int reverse = call->attrs[1].as.i != 0;
  int32_t axis = 0;
  int32_t rank = x->ndim ? x->ndim + 1 : 2;
  int64_t one = 1;
  int64_t place, extents[TENON_RANK_MAX + 1];
  if (rank > TENON_RANK_MAX)
    return tenon_fail(call, TENON_UNIMPLEMENTED,
                      "the second gradient of cum_prod needs one more axis, but x already has %d",
                      x->ndim);
  if (x->ndim == 0) {
    TENON_TRY(core_reshape(call, RESHAPE, dy, 1, &one, &dy));
    TENON_TRY(core_reshape(call, RESHAPE, x, 1, &one, &x));
  }
  TENON_TRY(axis_wrap(call, tensor_int(call->inputs[2], 0), x->ndim, &axis));
  int64_t n = x->shape[axis];
  if (reverse) {
    TENON_TRY(reverse_axis(call, axis, &dy));
    TENON_TRY(reverse_axis(call, axis, &x));
  }
  place = axis;
  for (int32_t i = 0; i < rank; i++)
    extents[i] = x->shape[i > axis ? i - 1 : i];
  extents[axis] = n;
  if (!(at = core_ints(call, 1, &place)) || !(shape = core_ints(call, rank, extents)))
    return TENON_MEMORY;
  TENON_TRY(INVOKE(call, UNSQUEEZE, NULL, &dy, dy, at));
  TENON_TRY(INVOKE(call, UNSQUEEZE, NULL, &x, x, at));
  TENON_TRY(INVOKE(call, EXPAND, NULL, &x, x, shape));
  tenon_tensor_t *own = triangle_mask(call, rank, axis, n, 0);
  tenon_tensor_t *counts = triangle_mask(call, rank, axis, n, exclusive ? 2 : 1);
  tenon_tensor_t *unit = core_number(call, dy->dtype, 1);
  tenon_tensor_t *zero = core_number(call, dy->dtype, 0);
  place = axis + 1;
  if (!own || !counts || !unit || !zero || !(at = core_ints(call, 1, &place))) return TENON_MEMORY;
  tenon_value_t attrs[2] = {value_flag(exclusive), value_flag(0)};
  TENON_TRY(INVOKE(call, WHERE, NULL, &t, own, unit, x));
  TENON_TRY(INVOKE(call, CUM_PROD, attrs, &t, t, at));
  TENON_TRY(INVOKE(call, MUL, NULL, &t, t, dy));
  TENON_TRY(INVOKE(call, WHERE, NULL, &t, counts, t, zero));
  attrs[0] = value_flag(0);
  TENON_TRY(INVOKE(call, SUM, attrs, &t, t, at));
  if (reverse) TENON_TRY(reverse_axis(call, axis, &t));
  if (call->inputs[1]->ndim == 0) TENON_TRY(core_reshape(call, RESHAPE, t, 0, &one, &t));
  return call->host->assign(call, 0, t);
}

/* reduce_prod_backward */

enum {
  PROD_CUM_PROD,
  PROD_TRANSPOSE,
  PROD_UNTRANSPOSE,
  PROD_MUL,
  PROD_CONTIGUOUS,
  PROD_RESHAPE,
};

/* dy times the product of all factors before and of all factors after, with the reduced axes merged
 * into one at the end. */
static tenon_status_t reduce_prod_backward_run(tenon_call_t *call) {
  tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *x = call->inputs[1];
  tenon_tensor_t *axes = call->inputs[2];
  tenon_tensor_t *before, *behind, *t, *at;
  uint64_t mask = 0;
  int64_t perm[TENON_RANK_MAX];
  int64_t sides[2] = {1, 1};
  int64_t shape[TENON_RANK_MAX];
  int64_t last = 1;
  int64_t list[TENON_RANK_MAX];
  int32_t rank = 0;
  for (int64_t i = 0; axes && i < tenon_count(axes) && i < TENON_RANK_MAX; i++)
    list[i] = tensor_int(axes, i);
  TENON_TRY(axes_mask(call, list, axes ? tenon_count(axes) : 0, x->ndim, &mask));
  if (!mask && call->attrs[1].as.i) return call->host->assign(call, 0, dy);
  if (!mask) mask = axes_all(x->ndim);
  for (int reduced = 0; reduced < 2; reduced++)
    for (int32_t i = 0; i < x->ndim; i++)
      if ((int)(mask >> i & 1) == reduced) {
        sides[reduced] *= x->shape[i];
        shape[rank] = x->shape[i];
        perm[rank++] = i;
      }
  tenon_value_t order = value_ints((uint32_t)rank, perm);
  tenon_value_t attrs[2] = {value_flag(1), value_flag(0)};
  if (!(at = core_ints(call, 1, &last))) return TENON_MEMORY;
  TENON_TRY(INVOKE(call, PROD_TRANSPOSE, &order, &t, x));
  TENON_TRY(INVOKE(call, PROD_CONTIGUOUS, NULL, &t, t));
  TENON_TRY(core_reshape(call, PROD_RESHAPE, t, 2, sides, &t));
  TENON_TRY(INVOKE(call, PROD_CUM_PROD, attrs, &before, t, at));
  attrs[1] = value_flag(1);
  TENON_TRY(INVOKE(call, PROD_CUM_PROD, attrs, &behind, t, at));
  sides[1] = 1;
  TENON_TRY(INVOKE(call, PROD_CONTIGUOUS, NULL, &dy, dy));
  TENON_TRY(core_reshape(call, PROD_RESHAPE, dy, 2, sides, &dy));
  TENON_TRY(INVOKE(call, PROD_MUL, NULL, &t, before, behind));
  TENON_TRY(INVOKE(call, PROD_MUL, NULL, &t, t, dy));
  TENON_TRY(core_reshape(call, PROD_RESHAPE, t, rank, shape, &t));
  TENON_TRY(INVOKE(call, PROD_UNTRANSPOSE, &order, &t, t));
  return call->host->assign(call, 0, t);
}

/* clang-format off */
TENON_ITEMS(core_product_backward,
  TENON_OP("cum_prod_backward(Tensor dy, Tensor x, Tensor @host axis, *, bool exclusive=False, "
           "bool reverse=False) -> Tensor",
    TENON_DOC("The gradient of cum_prod."),
    TENON_TYPES("dy: float; x = dy; axis: i64|i32; out = dy"),
    TENON_WHERE("axis: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(like_both),
    TENON_USES(CUM_USES),
    TENON_KERNEL("cpu f32|f64", cum_prod_backward_run),
    TENON_COMPOSITE(cum_prod_backward_parts)),
  TENON_OP("reduce_prod_backward(Tensor dy, Tensor x, Tensor? @host axes=None, *, "
           "bool keepdims=True, bool noop_with_empty_axes=False) -> Tensor",
    TENON_DOC("The gradient of reduce_prod."),
    TENON_SAMPLES("dy: [n, 1], x: [n, m], axes: [1] [1]"),
    TENON_TYPES("dy: float; x = dy; axes: i64|i32; out = dy"),
    TENON_WHERE("axes: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(like_x),
    TENON_USES("core::cum_prod, core::transpose, core::untranspose, core::mul, core::contiguous, "
               "core::reshape"),
    TENON_COMPOSITE(reduce_prod_backward_run)))
/* clang-format on */
