/* Views: operators whose result is the input's memory under another shape. They have no kernel;
 * infer states alias, offset and strides, on extents that may be symbols. The host calls infer for
 * eager calls, for compiled graphs and on every device.
 * Invariant: with concrete extents and values the answer is exact, and every invalid argument is
 * rejected. */
#include "axes.h"
#include <tenon/check.h>

#define VIEW(types, where, infer)                                                                  \
  TENON_TYPES(types), TENON_WHERE(where), TENON_TRAITS(TENON_PURE), TENON_INFER(infer)

static void set_axis(tenon_meta_t *out, int32_t axis, tenon_dim_t extent, tenon_dim_t stride) {
  out->dims[axis] = extent;
  out->strides[axis] = stride;
}

/* row-major to row-major: reshape, flatten */

/* Infers extent `wild` of the result (-1: none) from the products of the other extents of x and of
 * the result, or checks that both are equal. */
static tenon_status_t reshape_settle(tenon_infer_t *infer, int32_t wild, tenon_dim_t total,
                                     tenon_dim_t product) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  if (wild >= 0) {
    out->dims[wild] = tenon_extent(-1);
    if (dim_is(product, 0) ||
        (tenon_is_known(total) && tenon_is_known(product) && total.value % product.value != 0))
      return tenon_fail(infer, TENON_INVALID,
                        "no value for the -1 in %s gives as many elements as %s",
                        dims_text(out->dims, out->ndim).text, dims_text(x->dims, x->ndim).text);
    out->dims[wild] = dim_is(product, 1) ? total : tenon_dim(infer, TENON_DIM_DIV, total, product);
  } else if (dim_differ(total, product)) {
    return tenon_fail(infer, TENON_INVALID, "shape %s has another number of elements than %s",
                      dims_text(x->dims, x->ndim).text, dims_text(out->dims, out->ndim).text);
  }
  return TENON_OK;
}

static tenon_status_t reshape_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  int allow_zero = infer->attrs[0].as.i != 0;
  /* Marks extents of x that certainly equal an extent of the result; they cancel out. */
  uint64_t used = 0;
  int32_t wild = -1;
  tenon_dim_t total = tenon_extent(1);
  tenon_dim_t product = tenon_extent(1);
  ints_t shape;
  TENON_TRY(ints_read(infer, 1, &shape));
  out->alias = 1;
  if (!shape.known) return out_unknown(infer, out, shape.count);
  if (shape.count > TENON_RANK_MAX)
    return tenon_fail(infer, TENON_INVALID, "the shape has %d extents; a tensor has at most %d",
                      shape.count, TENON_RANK_MAX);
  out->ndim = shape.count;
  for (int32_t i = 0; i < shape.count; i++) {
    tenon_dim_t d = shape.at[i];
    int32_t same = -1;
    if (dim_is(d, 0) && !allow_zero) {
      if (i >= x->ndim)
        return tenon_fail(
            infer, TENON_INVALID,
            "extent %d of the shape is 0, which copies an extent of x, but x has only rank %d", i,
            x->ndim);
      d = x->dims[i];
      same = i;
    } else if (dim_is(d, -1)) {
      if (wild >= 0)
        return tenon_fail(infer, TENON_INVALID,
                          "extents %d and %d of the shape are both -1; only one may be inferred",
                          wild, i);
      wild = i;
      continue;
    } else if (tenon_is_known(d) && d.value < 0) {
      return tenon_fail(infer, TENON_INVALID,
                        "extent %d of the shape is %" PRId64 "; only -1 may be negative", i,
                        d.value);
    }
    out->dims[i] = d;
    for (int32_t j = 0; same < 0 && !tenon_is_known(d) && j < x->ndim; j++)
      if (x->dims[j].value == d.value && !(used >> j & 1)) same = j;
    if (same >= 0 && !(used >> same & 1))
      used |= (uint64_t)1 << same;
    else
      product = dim_mul(infer, product, d);
  }
  for (int32_t j = 0; j < x->ndim; j++)
    if (!(used >> j & 1)) total = dim_mul(infer, total, x->dims[j]);
  TENON_TRY(reshape_settle(infer, wild, total, product));
  out_values(out, x);
  return TENON_OK;
}

static tenon_status_t flatten_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  int64_t axis = infer->attrs[0].as.i;
  int32_t split = 0;
  if (axis == x->ndim)
    split = x->ndim;
  else
    TENON_TRY(axis_wrap(infer, axis, x->ndim, &split));
  out->alias = 1;
  out->ndim = 2;
  out->dims[0] = dims_product(infer, x->dims, 0, split);
  out->dims[1] = dims_product(infer, x->dims, split, x->ndim);
  return TENON_OK;
}

/* axes are added or removed: identity, squeeze, unsqueeze */

static tenon_status_t identity_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  out->alias = 1;
  out->strided = x->strides != NULL;
  out_like(out, x);
  for (int32_t i = 0; out->strided && i < x->ndim; i++)
    out->strides[i] = x->strides[i];
  out_values(out, x);
  return TENON_OK;
}

static tenon_status_t squeeze_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  uint64_t gone = 0;
  int known = 1;
  int32_t n = 0;
  out->alias = 1;
  out->strided = x->strides != NULL;
  if (infer->inputs[1]) {
    TENON_TRY(axes_read(infer, 1, x->ndim, &gone, &known));
    if (!known) {
      ints_t axes;
      TENON_TRY(ints_read(infer, 1, &axes));
      if (axes.count > x->ndim)
        return tenon_fail(infer, TENON_INVALID, "axes lists %d axes, but x has only %d", axes.count,
                          x->ndim);
      return out_unknown(infer, out, axes.count < 0 ? -1 : x->ndim - axes.count);
    }
  } else {
    for (int32_t i = 0; i < x->ndim; i++) {
      /* the extent might be 1 */
      if (!tenon_is_known(x->dims[i])) return out_unknown(infer, out, -1);
      if (dim_is(x->dims[i], 1)) gone |= (uint64_t)1 << i;
    }
  }
  for (int32_t i = 0; i < x->ndim; i++) {
    if (!(gone >> i & 1)) {
      out->dims[n] = x->dims[i];
      if (out->strided) out->strides[n] = x->strides[i];
      n++;
    } else if (!tenon_is_known(x->dims[i])) {
      (void)tenon_dim(infer, TENON_DIM_EQUAL, x->dims[i], tenon_extent(1));
    } else if (!dim_is(x->dims[i], 1)) {
      return tenon_fail(infer, TENON_INVALID,
                        "axis %d has extent %" PRId64 "; only an extent of 1 can be removed", i,
                        x->dims[i].value);
    }
  }
  out->ndim = n;
  out_values(out, x);
  return TENON_OK;
}

static tenon_status_t unsqueeze_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  uint64_t added = 0;
  int known = 1;
  ints_t axes;
  TENON_TRY(ints_read(infer, 1, &axes));
  out->alias = 1;
  out->strided = x->strides != NULL;
  if (axes.count < 0) return out_unknown(infer, out, -1);
  if (x->ndim + axes.count > TENON_RANK_MAX)
    return tenon_fail(infer, TENON_INVALID, "rank %d plus %d new axes: a tensor has at most %d",
                      x->ndim, axes.count, TENON_RANK_MAX);
  out->ndim = x->ndim + axes.count;
  TENON_TRY(axes_read(infer, 1, out->ndim, &added, &known));
  if (!known) return out_unknown(infer, out, out->ndim);
  for (int32_t i = 0, from = 0; i < out->ndim; i++) {
    int one = (int)(added >> i & 1);
    out->dims[i] = one ? tenon_extent(1) : x->dims[from];
    if (out->strided) out->strides[i] = one ? tenon_extent(1) : x->strides[from];
    from += !one;
  }
  out_values(out, x);
  return TENON_OK;
}

/* axes change order: transpose */

/* inverse: axis perm[i] of the result is axis i of the input. */
static tenon_status_t permute_axes(tenon_infer_t *infer, int inverse) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  const tenon_value_t *perm = &infer->attrs[0];
  uint64_t seen = 0;
  int given = perm->kind != TENON_KIND_NONE;
  if (given) {
    if ((int64_t)perm->count != x->ndim)
      return tenon_fail(infer, TENON_INVALID, "perm lists %u axes, but x has %d", perm->count,
                        x->ndim);
    TENON_TRY(axes_mask(infer, perm->as.ints, x->ndim, x->ndim, &seen));
  }
  out->alias = 1;
  out->strided = 1;
  out->ndim = x->ndim;
  for (int32_t i = 0; i < x->ndim; i++) {
    int32_t p = x->ndim - 1 - i;
    if (given) TENON_TRY(axis_wrap(infer, perm->as.ints[i], x->ndim, &p));
    int32_t from = inverse ? i : p;
    int32_t to = inverse ? p : i;
    set_axis(out, to, x->dims[from], tenon_stride(infer, x, from));
  }
  return TENON_OK;
}

static tenon_status_t transpose_infer(tenon_infer_t *infer) { return permute_axes(infer, 0); }
static tenon_status_t untranspose_infer(tenon_infer_t *infer) { return permute_axes(infer, 1); }

/* elements repeat with stride 0: expand, spread */

static tenon_status_t expand_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  ints_t shape;
  TENON_TRY(ints_read(infer, 1, &shape));
  out->alias = 1;
  out->strided = 1;
  out->ndim = shape.count > x->ndim ? shape.count : x->ndim;
  if (shape.count < 0) out->ndim = -1;
  if (out->ndim > TENON_RANK_MAX)
    return tenon_fail(infer, TENON_INVALID, "the shape has %d extents; a tensor has at most %d",
                      shape.count, TENON_RANK_MAX);
  for (int32_t i = 0; i < out->ndim; i++) {
    int32_t from = i - (out->ndim - x->ndim);
    int32_t wish = i - (out->ndim - shape.count);
    tenon_dim_t d = from < 0 ? tenon_extent(1) : x->dims[from];
    tenon_dim_t extent = d;
    tenon_dim_t stride = tenon_extent(0);
    if (wish >= 0) {
      tenon_dim_t w = shape.known ? shape.at[wish] : dim_any(infer);
      if (tenon_is_known(w) && (w.value < 0 || (tenon_is_known(d) && d.value != w.value &&
                                                !dim_is(d, 1) && !dim_is(w, 1))))
        return tenon_fail(infer, TENON_INVALID, "%s does not broadcast to %s",
                          dims_text(x->dims, x->ndim).text, dims_text(shape.at, shape.count).text);
      extent = tenon_dim(infer, TENON_DIM_BROADCAST, d, w);
    }
    if (from >= 0 && !dim_is(d, 1)) { /* the stride, or 0 if the extent turns out to be 1 */
      tenon_dim_t one = tenon_dim(infer, TENON_DIM_TEST_EQUAL, d, tenon_extent(1));
      stride = dim_mul(infer, tenon_stride(infer, x, from), dim_sub(infer, tenon_extent(1), one));
    }
    set_axis(out, i, extent, stride);
  }
  return TENON_OK;
}

/* Repeats a reduced tensor over the shape that was reduced; gradients of reductions use this. */
static tenon_status_t spread_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  int keepdims = infer->attrs[0].as.i != 0;
  int known = 1;
  uint64_t reduced = 0;
  int32_t from = 0;
  ints_t shape;
  TENON_TRY(ints_read(infer, 1, &shape));
  out->alias = 1;
  out->strided = 1;
  if (shape.count < 0 || shape.count > TENON_RANK_MAX) return out_unknown(infer, out, -1);
  TENON_TRY(axes_read(infer, 2, shape.count, &reduced, &known));
  if (!known || !shape.known) return out_unknown(infer, out, shape.count);
  if (!reduced && !infer->attrs[1].as.i) reduced = axes_all(shape.count);
  out->ndim = shape.count;
  for (int32_t i = 0; i < shape.count; i++) {
    int gone = (int)(reduced >> i & 1);
    set_axis(out, i, shape.at[i], tenon_extent(0));
    if (gone && !keepdims) continue;
    if (from >= x->ndim || dim_differ(x->dims[from], gone ? tenon_extent(1) : shape.at[i]))
      return tenon_fail(infer, TENON_INVALID, "shape %s is not a reduction of %s",
                        dims_text(x->dims, x->ndim).text, dims_text(shape.at, shape.count).text);
    if (!gone) out->strides[i] = tenon_stride(infer, x, from);
    from++;
  }
  if (from != x->ndim)
    return tenon_fail(infer, TENON_INVALID, "shape %s is not a reduction of %s",
                      dims_text(x->dims, x->ndim).text, dims_text(shape.at, shape.count).text);
  return TENON_OK;
}

/* parts: slice, split */

/* Resolves a bound by NumPy's rules: a negative one counts from the end, and the result is clamped
 * to [low, high]. */
static tenon_dim_t slice_bound(tenon_infer_t *infer, tenon_dim_t at, tenon_dim_t extent,
                               tenon_dim_t low, tenon_dim_t high) {
  if (dim_is(at, 0) && dim_is(low, 0)) return low;
  if (tenon_is_known(at)) {
    if (at.value >= INT32_MAX && !tenon_is_known(extent))
      return high; /* "to the end", as exporters write it */
    if (at.value <= -INT32_MAX && !tenon_is_known(extent)) return low;
    if (at.value < -INT64_MAX / 4) at.value = -INT64_MAX / 4; /* so that sums do not overflow */
    if (at.value > INT64_MAX / 4) at.value = INT64_MAX / 4;
    if (at.value < 0) at = dim_add(infer, at, extent);
  } else {
    tenon_dim_t negative = tenon_dim(infer, TENON_DIM_TEST_LESS, at, tenon_extent(0));
    if (!dim_is(negative, 0)) at = dim_add(infer, at, dim_mul(infer, negative, extent));
  }
  return dim_max(infer, low, dim_min(infer, at, high));
}

/* Slices one axis and returns the first index that is taken. */
static tenon_dim_t slice_axis(tenon_infer_t *infer, tenon_meta_t *out, int32_t axis,
                              tenon_dim_t start, tenon_dim_t end, int64_t step) {
  tenon_dim_t extent = out->dims[axis];
  tenon_dim_t zero = tenon_extent(0);
  tenon_dim_t length;
  if (step > 0) {
    start = slice_bound(infer, start, extent, zero, extent);
    end = slice_bound(infer, end, extent, zero, extent);
    length = dim_is(start, 0) ? end : dim_sub(infer, end, start);
  } else {
    tenon_dim_t last = dim_sub(infer, extent, tenon_extent(1));
    start = dim_min(infer, slice_bound(infer, start, extent, zero, extent), last);
    end = slice_bound(infer, end, extent, tenon_extent(-1), last);
    length = dim_sub(infer, start, end);
  }
  int64_t pace = step > 0 ? step : -step;
  if (pace != 1) length = tenon_dim(infer, TENON_DIM_CEIL_DIV, length, tenon_extent(pace));
  if (!dim_is(start, 0) || step < 0) length = dim_max(infer, zero, length);
  if (!dim_is(start, 0))
    out->offset = dim_add(infer, out->offset, dim_mul(infer, start, out->strides[axis]));
  out->dims[axis] = length;
  out->strides[axis] = dim_mul(infer, out->strides[axis], tenon_extent(step));
  return start;
}

/* Checks that the lists whose length is known have `count` numbers. */
static tenon_status_t check_lengths(tenon_infer_t *infer, const ints_t *const lists[4],
                                    int32_t count) {
  for (int i = 0; i < 4; i++)
    if (count >= 0 && lists[i]->count >= 0 && lists[i]->count != count)
      return tenon_fail(infer, TENON_INVALID,
                        "starts, ends, axes and steps have different lengths, %d and %d", count,
                        lists[i]->count);
  return TENON_OK;
}

/* Any axis may be cut: each extent is bounded by x's, and nothing else is known. */
static tenon_status_t slice_unknown(tenon_infer_t *infer, const tenon_meta_t *x,
                                    tenon_meta_t *out) {
  for (int32_t i = 0; i < x->ndim; i++)
    set_axis(out, i, tenon_dim(infer, TENON_DIM_BOUND, x->dims[i], tenon_extent(0)),
             dim_any(infer));
  out->offset = dim_any(infer);
  return TENON_OK;
}

/* Copies the known values of a vector from `first` on, every `pace`-th. */
static void slice_values(const tenon_meta_t *x, tenon_meta_t *out, int64_t first, int64_t pace) {
  out->value_count = (uint32_t)out->dims[0].value;
  for (uint32_t i = 0; i < out->value_count; i++)
    out->values[i] = x->values[first + (int64_t)i * pace];
}

static tenon_status_t slice_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  ints_t starts, ends, axes, steps;
  int64_t axis_of[INTS_MAX], step_of[INTS_MAX];
  tenon_dim_t first = tenon_extent(0);
  int64_t pace = 1;
  uint64_t cut = 0;
  int empty = 0;
  TENON_TRY(ints_read(infer, 1, &starts));
  TENON_TRY(ints_read(infer, 2, &ends));
  axes = starts;
  steps = starts;
  if (infer->inputs[3]) TENON_TRY(ints_read(infer, 3, &axes));
  if (infer->inputs[4]) TENON_TRY(ints_read(infer, 4, &steps));
  int32_t count = starts.count < 0 ? ends.count : starts.count;
  const ints_t *lists[] = {&starts, &ends, &axes, &steps};
  TENON_TRY(check_lengths(infer, lists, count));
  out->alias = 1;
  out->strided = 1;
  out->ndim = x->ndim;
  out->offset = tenon_extent(0);
  for (int32_t i = 0; i < x->ndim; i++)
    set_axis(out, i, x->dims[i], tenon_stride(infer, x, i));
  int axes_known = infer->inputs[3] ? ints_numbers(&axes, axis_of) : count >= 0;
  int steps_known = infer->inputs[4] ? ints_numbers(&steps, step_of) : 1;
  if (count > x->ndim)
    return tenon_fail(infer, TENON_INVALID, "%d axes to slice, but x has only %d", count, x->ndim);
  if (count < 0 || !axes_known) return slice_unknown(infer, x, out);
  for (int32_t i = 0; !infer->inputs[3] && i < count; i++)
    axis_of[i] = i;
  TENON_TRY(axes_mask(infer, axis_of, count, x->ndim, &cut));
  for (int32_t i = 0; i < count; i++) {
    int32_t axis = (int32_t)(axis_of[i] < 0 ? axis_of[i] + x->ndim : axis_of[i]);
    int64_t step = steps_known ? step_of[i] : 0;
    if (!infer->inputs[4]) step = 1;
    if (steps_known && step == 0)
      return tenon_fail(infer, TENON_INVALID,
                        "the step along axis %d is 0; expected another number", axis);
    if (step < -INT32_MAX || step > INT32_MAX)
      step = step < 0 ? -INT32_MAX : INT32_MAX; /* one element in either direction */
    if (starts.known && ends.known && steps_known) {
      first = slice_axis(infer, out, axis, starts.at[i], ends.at[i], step);
      pace = step;
    } else {
      tenon_dim_t most = tenon_dim(infer, TENON_DIM_BOUND, x->dims[axis], tenon_extent(0));
      set_axis(out, axis, most,
               steps_known ? dim_mul(infer, out->strides[axis], tenon_extent(step))
                           : dim_any(infer));
      out->offset = first = dim_any(infer);
    }
  }
  for (int32_t i = 0; i < out->ndim; i++)
    empty |= dim_is(out->dims[i], 0);
  if (empty) out->offset = tenon_extent(0); /* an empty slice never points past the end */
  if (x->values && x->ndim == 1 && tenon_is_known(first) && tenon_is_known(out->dims[0]))
    slice_values(x, out, first.value, pace);
  return TENON_OK;
}

static tenon_status_t split_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  int64_t count = infer->attrs[1].as.i;
  int32_t axis = 0;
  tenon_dim_t begin = tenon_extent(0);
  ints_t sizes = {-1, 0, {{0}}};
  TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, x->ndim, &axis));
  if (count < 1)
    return tenon_fail(infer, TENON_INVALID, "count is %" PRId64 "; expected 1 or more", count);
  tenon_dim_t extent = x->dims[axis];
  tenon_dim_t each = tenon_dim(infer, TENON_DIM_CEIL_DIV, extent, tenon_extent(count));
  if (infer->inputs[1]) {
    TENON_TRY(ints_read(infer, 1, &sizes));
    if (sizes.count >= 0 && sizes.count != count)
      return tenon_fail(infer, TENON_INVALID, "sizes has %d numbers for %" PRId64 " parts",
                        sizes.count, count);
  }
  for (int64_t i = 0; i < count; i++) {
    tenon_meta_t *out = infer->outputs[0] ? infer->outputs[0]->items[i] : NULL;
    tenon_dim_t size = each;
    if (infer->inputs[1]) {
      size = sizes.known ? sizes.at[i] : tenon_dim(infer, TENON_DIM_BOUND, extent, tenon_extent(0));
    } else if (tenon_is_known(extent)) { /* the last parts may be smaller, or empty */
      size = dim_max(infer, tenon_extent(0), dim_min(infer, each, dim_sub(infer, extent, begin)));
    } else if (i == count - 1 && count > 1) {
      size = dim_sub(infer, extent, begin);
    }
    if (tenon_is_known(size) && size.value < 0)
      return tenon_fail(infer, TENON_INVALID, "part %" PRId64 " has size %" PRId64, i, size.value);
    if (out) {
      out->alias = 1;
      out->strided = 1;
      out->ndim = x->ndim;
      for (int32_t j = 0; j < x->ndim; j++)
        set_axis(out, j, j == axis ? size : x->dims[j], tenon_stride(infer, x, j));
      out->offset = dim_is(size, 0) ? size : dim_mul(infer, begin, out->strides[axis]);
    }
    begin = dim_add(infer, begin, size);
  }
  if (dim_differ(begin, extent))
    return tenon_fail(infer, TENON_INVALID,
                      "the sizes add up to %" PRId64 ", axis %d has extent %" PRId64, begin.value,
                      axis, extent.value);
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(core_view,
  TENON_OP("identity(Tensor(a) x) -> Tensor(a)",
    TENON_DOC("Returns the input."),
    VIEW("x: any; out = x", "x: strided", identity_infer),
    TENON_GRADIENT("x: core::identity(grad)")),
  TENON_OP("reshape(Tensor(a) x, Tensor @host shape, *, bool allow_zero=False) -> Tensor(a)",
    TENON_DOC("The elements in row-major order with another shape; "
              "-1 is inferred, 0 copies the extent of x unless allow_zero."),
    VIEW("x: any; shape: i64|i32; out = x", "shape: known", reshape_infer),
    TENON_GRADIENT("x: core::reshape(grad, core::shape(x), allow_zero=True)")),
  TENON_OP("flatten(Tensor(a) x, *, int axis=1) -> Tensor(a)",
    TENON_DOC("A matrix: the axes before `axis` become the first axis, the others the second."),
    VIEW("x: any; out = x", "", flatten_infer),
    TENON_GRADIENT("x: core::reshape(grad, core::shape(x), allow_zero=True)")),
  TENON_OP("squeeze(Tensor(a) x, Tensor? @host axes=None) -> Tensor(a)",
    TENON_DOC("Removes these axes, which must have extent 1; by default all axes of extent 1."),
    VIEW("x: any; axes: i64|i32; out = x", "x: strided; axes: known", squeeze_infer),
    TENON_GRADIENT("x: core::reshape(grad, core::shape(x), allow_zero=True)")),
  TENON_OP("unsqueeze(Tensor(a) x, Tensor @host axes) -> Tensor(a)",
    TENON_DOC("Adds axes of extent 1 at these positions of the result."),
    VIEW("x: any; axes: i64|i32; out = x", "x: strided; axes: known", unsqueeze_infer),
    TENON_GRADIENT("x: core::squeeze(grad, axes)")),
  TENON_OP("transpose(Tensor(a) x, *, int[]? perm=None) -> Tensor(a)",
    TENON_DOC("Axis i of the result is axis perm[i] of x; "
              "the axes are reversed if perm is absent."),
    VIEW("x: any; out = x", "x: strided", transpose_infer),
    TENON_GRADIENT("x: core::untranspose(grad, perm=perm)")),
  TENON_OP("untranspose(Tensor(a) x, *, int[]? perm=None) -> Tensor(a)",
    TENON_DOC("The inverse of transpose with the same perm."),
    VIEW("x: any; out = x", "x: strided", untranspose_infer),
    TENON_GRADIENT("x: core::transpose(grad, perm=perm)")),
  TENON_OP("expand(Tensor(a) x, Tensor @host shape) -> Tensor(a)",
    TENON_DOC("Broadcasts x and the shape; nothing is copied."),
    VIEW("x: any; shape: i64|i32; out = x", "x: strided; shape: known", expand_infer),
    TENON_GRADIENT("x: core::sum_to(grad, core::shape(x))")),
  TENON_OP("spread(Tensor(a) x, Tensor @host shape, Tensor? @host axes=None, *, "
           "bool keepdims=True, bool noop_with_empty_axes=False) -> Tensor(a)",
    TENON_DOC("Repeats the result of a reduction over these axes to the shape that was reduced."),
    TENON_SAMPLES("x: [n, 1], shape: [2] [n, m], axes: [1] [1]"),
    VIEW("x: any; shape: i64|i32; axes: i64|i32; out = x", "x: strided; shape: known; axes: known",
         spread_infer),
    TENON_GRADIENT("x: core::reduce_sum(grad, axes, keepdims=keepdims, "
                   "noop_with_empty_axes=noop_with_empty_axes)")),
  TENON_OP("slice(Tensor(a) x, Tensor @host starts, Tensor @host ends, Tensor? @host axes=None, "
           "Tensor? @host steps=None) -> Tensor(a)",
    TENON_DOC("x[start:end:step] along the listed axes, or the first ones, as in NumPy; "
              "steps may be negative."),
    VIEW("x: any; starts, ends: i64|i32; axes: i64|i32; steps: i64|i32; out = x",
         "x: strided; starts: known; ends: known; axes: known; steps: known", slice_infer),
    TENON_GRADIENT("x: core::slice_backward(grad, core::shape(x), starts, ends, axes, steps)")),
  TENON_OP("split(Tensor(a) x, Tensor? @host sizes=None, *, int axis=0, "
           "int count) -> Tensor(a)[count]",
    TENON_DOC("Consecutive parts along an axis, with the given sizes, "
              "or of equal size except the last."),
    VIEW("x: any; sizes: i64|i32; out = x", "x: strided; sizes: known", split_infer),
    TENON_GRADIENT("x: core::concat(grad, axis=axis)")))
/* clang-format on */
