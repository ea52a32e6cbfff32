/* Views of tensors with any strides: `view` regroups axes and is refused if that needs a copy;
 * `as_strided` and `reshape_alias` take shape and strides from attributes. Views need no kernel on
 * any device.
 * Invariant: nothing outside the input's own elements can be addressed. */
#include "axes.h"

/* as_strided, reshape_alias */

/* Computes the lowest and highest element that a shape with strides addresses, relative to the
 * first. Returns 0 if they are unknown or out of range. */
static int reach_of_strides(const tenon_dim_t *dims, const int64_t *strides, int32_t ndim,
                            int64_t *low, int64_t *high) {
  *low = *high = 0;
  for (int32_t i = 0; i < ndim; i++) {
    int64_t far;
    if (!tenon_is_known(dims[i])) return 0;
    if (dims[i].value == 0) {
      /* no elements */
      *low = 0;
      *high = -1;
      return 1;
    }
    if (__builtin_mul_overflow(dims[i].value - 1, strides[i], &far)) return 0;
    if (far < 0 ? __builtin_add_overflow(*low, far, low) : __builtin_add_overflow(*high, far, high))
      return 0;
  }
  return 1;
}

static int reach_of_input(tenon_infer_t *infer, const tenon_meta_t *x, int64_t *low,
                          int64_t *high) {
  int64_t strides[TENON_RANK_MAX];
  for (int32_t i = 0; i < x->ndim; i++) {
    tenon_dim_t s = tenon_stride(infer, x, i);
    if (!tenon_is_known(s)) return 0;
    strides[i] = s.value;
  }
  return reach_of_strides(x->dims, strides, x->ndim, low, high);
}

static tenon_status_t set_strided(tenon_infer_t *infer, const tenon_value_t *shape,
                                  const tenon_value_t *strides, int64_t offset) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  int64_t low, high, own_low, own_high;
  if (shape->count != strides->count)
    return tenon_fail(infer, TENON_INVALID,
                      "shape has %u extents but strides %u; both must have the same number",
                      shape->count, strides->count);
  if (shape->count > TENON_RANK_MAX)
    return tenon_fail(infer, TENON_INVALID, "the shape has %u extents; a tensor has at most %d",
                      shape->count, TENON_RANK_MAX);
  out->alias = 1;
  out->strided = 1;
  out->ndim = (int32_t)shape->count;
  out->offset = tenon_extent(offset);
  for (int32_t i = 0; i < out->ndim; i++) {
    if (shape->as.ints[i] < 0)
      return tenon_fail(infer, TENON_INVALID, "extent %d of the shape is %" PRId64, i,
                        shape->as.ints[i]);
    out->dims[i] = tenon_extent(shape->as.ints[i]);
    out->strides[i] = tenon_extent(strides->as.ints[i]);
  }
  if (!reach_of_input(infer, x, &own_low, &own_high))
    return tenon_fail(
        infer, TENON_UNIMPLEMENTED,
        "x has extents that are unknown before it is computed, so its strides are unknown too");
  int fits = reach_of_strides(out->dims, strides->as.ints, out->ndim, &low, &high);
  if (fits && low > high) {
    /* no elements */
    out->offset = tenon_extent(0);
    return TENON_OK;
  }
  fits = fits && !__builtin_add_overflow(low, offset, &low) &&
         !__builtin_add_overflow(high, offset, &high);
  if (!fits || low < own_low || high > own_high)
    return tenon_fail(infer, TENON_RANGE,
                      "shape %s with these strides from element %" PRId64
                      " on addresses elements %" PRId64 " to %" PRId64 ", and x has %" PRId64
                      " to %" PRId64,
                      dims_text(out->dims, out->ndim).text, offset, low, high, own_low, own_high);
  return TENON_OK;
}

static tenon_status_t as_strided_infer(tenon_infer_t *infer) {
  return set_strided(infer, &infer->attrs[0], &infer->attrs[1], infer->attrs[2].as.i);
}

static tenon_status_t reshape_alias_infer(tenon_infer_t *infer) {
  TENON_TRY(set_strided(infer, &infer->attrs[0], &infer->attrs[1], 0));
  const tenon_meta_t *x = infer->inputs[0];
  const tenon_meta_t *out = infer->outputs[0];
  if (dim_differ(dims_product(infer, x->dims, 0, x->ndim),
                 dims_product(infer, out->dims, 0, out->ndim)))
    return tenon_fail(infer, TENON_INVALID, "shape %s has another number of elements than %s",
                      dims_text(x->dims, x->ndim).text, dims_text(out->dims, out->ndim).text);
  return TENON_OK;
}

/* view */

/* Gives the shape with its -1 inferred. */
static tenon_status_t view_shape(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  const tenon_value_t *shape = &infer->attrs[0];
  tenon_dim_t total = dims_product(infer, x->dims, 0, x->ndim);
  tenon_dim_t product = tenon_extent(1);
  int32_t wild = -1;
  if (shape->count > TENON_RANK_MAX)
    return tenon_fail(infer, TENON_INVALID, "the shape has %u extents; a tensor has at most %d",
                      shape->count, TENON_RANK_MAX);
  out->ndim = (int32_t)shape->count;
  for (int32_t i = 0; i < out->ndim; i++) {
    int64_t extent = shape->as.ints[i];
    if (extent < -1 || (extent == -1 && wild >= 0))
      return tenon_fail(infer, TENON_INVALID,
                        "extent %d of the shape is %" PRId64
                        "; expected 0 or more, or -1 for one of them",
                        i, extent);
    out->dims[i] = tenon_extent(extent);
    if (extent == -1)
      wild = i;
    else
      product = dim_mul(infer, product, out->dims[i]);
  }
  int divides =
      !tenon_is_known(total) || (product.value ? total.value % product.value == 0 : wild < 0);
  if (!divides || (wild < 0 && dim_differ(total, product)))
    return tenon_fail(infer, TENON_INVALID,
                      "%s cannot be viewed as %s, which has another number of elements",
                      dims_text(x->dims, x->ndim).text, dims_text(out->dims, out->ndim).text);
  if (wild >= 0) out->dims[wild] = tenon_dim(infer, TENON_DIM_DIV, total, product);
  return TENON_OK;
}

static tenon_status_t view_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  out->alias = 1;
  TENON_TRY(view_shape(infer));
  if (!x->strides || dim_is(dims_product(infer, x->dims, 0, x->ndim), 0))
    return TENON_OK; /* row-major stays row-major */
  out->strided = 1;
  /* `first` is the first of the axes that form one run of memory. */
  int32_t to = out->ndim - 1;
  int32_t first = x->ndim - 1;
  int64_t run = 1;
  int64_t made = 1;
  for (int32_t i = x->ndim - 1; i >= 0; i--) {
    if (!tenon_is_known(x->dims[i]) || !tenon_is_known(x->strides[i]))
      return tenon_fail(
          infer, TENON_UNIMPLEMENTED,
          "x has extents that are unknown before it is computed, so its strides are unknown too");
    run *= x->dims[i].value;
    int64_t step = x->strides[first].value;
    if (i && (x->dims[i - 1].value == 1 || x->strides[i - 1].value == run * step)) continue;
    for (; to >= 0 && (made < run || dim_is(out->dims[to], 1)); made *= out->dims[to--].value)
      out->strides[to] = tenon_extent(made * step);
    if (made != run)
      return tenon_fail(infer, TENON_INVALID,
                        "x of shape %s and strides %s cannot be viewed as %s: axes %d to %d are "
                        "one run of memory, and axis %d of the view would begin inside it and go "
                        "on elsewhere; core::reshape copies",
                        dims_text(x->dims, x->ndim).text, dims_text(x->strides, x->ndim).text,
                        dims_text(out->dims, out->ndim).text, i, first, to + 1);
    first = i - 1;
    run = made = 1;
  }
  return TENON_OK;
}

/* clang-format off */
#define VIEW(infer)                                                                                \
  TENON_TYPES("x: any; out = x"),                                                                  \
  TENON_WHERE("x: strided"),                                                                       \
  TENON_TRAITS(TENON_PURE),                                                                        \
  TENON_INFER(infer)
TENON_ITEMS(core_view_strided,
  TENON_OP("view(Tensor(a) x, *, int[] shape) -> Tensor(a)",
    TENON_DOC("The elements of x with another shape, whose -1 is inferred; "
              "fails if the strides of x would require a copy."),
    VIEW(view_infer),
    TENON_GRADIENT("x: core::reshape(grad, core::shape(x), allow_zero=True)")),
  TENON_OP("as_strided(Tensor(a) x, *, int[] shape, int[] strides, int offset=0) -> Tensor(a)",
    TENON_DOC("A view of x with this shape and these strides (in elements) from element `offset` "
              "of its memory on; it must stay within x."),
    VIEW(as_strided_infer),
    TENON_GRADIENT("x: error")),
  TENON_OP("reshape_alias(Tensor(a) x, *, int[] shape, int[] strides) -> Tensor(a)",
    TENON_DOC("A view of x with this shape and these strides, from the first element of x on, "
              "with as many elements as x."),
    VIEW(reshape_alias_infer),
    TENON_GRADIENT("x: error")))
/* clang-format on */
