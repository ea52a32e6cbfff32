/* Axes and lists of integers, shared by the operators that move, reduce and reshape. A negative
 * axis counts from the end. A set of axes is one 64-bit mask, because no tensor has more than 64
 * dimensions. Lists come from inputs marked "known": their elements may be integers or symbols, or
 * only the length, or nothing at all, may be known.
 * Invariant: arithmetic on extents goes through tenon_dim() only. */
#ifndef TENON_OPS_AXES_H
#define TENON_OPS_AXES_H

#include <inttypes.h>
#include <stdio.h>
#include <tenon/op.h>

enum {
  INTS_MAX = 2 * TENON_RANK_MAX,
  VALUES_MAX = 64,
  /* at most so many values in a tenon_meta_t */
};

typedef struct ints_t {
  int32_t count; /* -1: the length is unknown */
  int32_t known; /* 1: `at` is filled in, possibly with symbols */
  tenon_dim_t at[INTS_MAX];
} ints_t;

static inline int64_t int_clamp(int64_t x, int64_t low, int64_t high) {
  if (x < low) return low;
  return x > high ? high : x;
}

/* extents */

static inline tenon_dim_t dim_add(tenon_infer_t *infer, tenon_dim_t a, tenon_dim_t b) {
  return tenon_dim(infer, TENON_DIM_ADD, a, b);
}
static inline tenon_dim_t dim_sub(tenon_infer_t *infer, tenon_dim_t a, tenon_dim_t b) {
  return tenon_dim(infer, TENON_DIM_SUB, a, b);
}
static inline tenon_dim_t dim_mul(tenon_infer_t *infer, tenon_dim_t a, tenon_dim_t b) {
  return tenon_dim(infer, TENON_DIM_MUL, a, b);
}
static inline tenon_dim_t dim_min(tenon_infer_t *infer, tenon_dim_t a, tenon_dim_t b) {
  return tenon_dim(infer, TENON_DIM_MIN, a, b);
}
static inline tenon_dim_t dim_max(tenon_infer_t *infer, tenon_dim_t a, tenon_dim_t b) {
  return tenon_dim(infer, TENON_DIM_MAX, a, b);
}
static inline tenon_dim_t dim_any(tenon_infer_t *infer) { /* an unknown extent */
  return tenon_dim(infer, TENON_DIM_BOUND, tenon_extent(-1), tenon_extent(0));
}
static inline int dim_is(tenon_dim_t d, int64_t value) { return d.value == value; }
/* Are the extents certainly different? */
static inline int dim_differ(tenon_dim_t a, tenon_dim_t b) {
  return tenon_is_known(a) && tenon_is_known(b) && a.value != b.value;
}
static inline tenon_dim_t dims_product(tenon_infer_t *infer, const tenon_dim_t *dims, int32_t begin,
                                       int32_t end) {
  tenon_dim_t n = tenon_extent(1);
  for (int32_t i = begin; i < end; i++)
    n = dim_mul(infer, n, dims[i]);
  return n;
}

/* Formats extents for messages, for example "[2, 3, ?]". */
typedef struct dims_text_t {
  char text[96];
} dims_text_t;
static inline dims_text_t dims_text(const tenon_dim_t *dims, int32_t count) {
  dims_text_t out = {"["};
  size_t used = 1;
  for (int32_t i = 0; i < count && used + 32 < sizeof out.text; i++) {
    const char *comma = i ? ", " : "";
    int n = tenon_is_known(dims[i])
                ? snprintf(out.text + used, 28, "%s%" PRId64, comma, dims[i].value)
                : snprintf(out.text + used, 28, "%s?", comma);
    used += (size_t)n;
  }
  snprintf(out.text + used, sizeof out.text - used, "]");
  return out;
}

/* States an output of this rank (-1: unknown) whose extents are unknown. */
static inline tenon_status_t out_unknown(tenon_infer_t *infer, tenon_meta_t *out, int32_t rank) {
  out->ndim = rank > TENON_RANK_MAX ? -1 : rank;
  for (int32_t i = 0; i < out->ndim; i++)
    out->dims[i] = dim_any(infer);
  return TENON_OK;
}
static inline tenon_status_t out_like(tenon_meta_t *out, const tenon_meta_t *x) {
  out->ndim = x->ndim;
  for (int32_t i = 0; i < x->ndim; i++)
    out->dims[i] = x->dims[i];
  return TENON_OK;
}
/* States that the output holds the same integers as the input, in the same order. */
static inline void out_values(tenon_meta_t *out, const tenon_meta_t *x) {
  if (!x->values || x->value_count > VALUES_MAX) return;
  for (uint32_t i = 0; i < x->value_count; i++)
    out->values[i] = x->values[i];
  out->value_count = x->value_count;
}

/* axes */

static inline tenon_status_t axis_wrap_(const tenon_host_t *host, const void *context, int64_t axis,
                                        int32_t rank, int32_t *out_axis) {
  if (axis < -(int64_t)rank || axis >= rank)
    return host->fail(context, TENON_INVALID,
                      "axis %" PRId64 " is outside [%d, %d) of a tensor of rank %d", axis, -rank,
                      rank, rank);
  *out_axis = (int32_t)(axis < 0 ? axis + rank : axis);
  return TENON_OK;
}
/* Checks one axis against the rank and converts it to an index counted from the front. */
#define axis_wrap(context, axis, rank, out_axis)                                                   \
  axis_wrap_((context)->host, (context), (axis), (rank), (out_axis))

static inline tenon_status_t axes_mask_(const tenon_host_t *host, const void *context,
                                        const int64_t *axes, int64_t count, int32_t rank,
                                        uint64_t *out_mask) {
  *out_mask = 0;
  for (int64_t i = 0; i < count; i++) {
    int32_t axis = 0;
    TENON_TRY(axis_wrap_(host, context, axes[i], rank, &axis));
    if (*out_mask >> axis & 1)
      return host->fail(context, TENON_INVALID, "axis %d is listed twice; name each axis once",
                        axis);
    *out_mask |= (uint64_t)1 << axis;
  }
  return TENON_OK;
}
/* Sets bit i of *out_mask for each listed axis i. An axis may be listed only once. */
#define axes_mask(context, axes, count, rank, out_mask)                                            \
  axes_mask_((context)->host, (context), (axes), (count), (rank), (out_mask))

static inline uint64_t axes_all(int32_t rank) {
  return rank >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << rank) - 1;
}

/* lists of integers */

/* Element i of an i32 or i64 tensor. The tensor is dense, or is a list with any stride, because
 * infer receives lists as the caller passed them. */
static inline int64_t tensor_int(const tenon_tensor_t *t, int64_t i) {
  if (t->ndim == 1) i *= t->strides[0];
  return t->dtype.bits == 32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

/* Reads index `at` of an index tensor, counted from the front. If the index is out of range, fails
 * the call and returns -1. */
static inline int64_t index_at(tenon_call_t *call, const tenon_tensor_t *indices, int64_t at,
                               int64_t extent, int32_t axis) {
  int64_t i = tensor_int(indices, at);
  if (i >= 0 && i < extent) return i;
  if (i < 0 && i >= -extent) return i + extent;
  tenon_fail(call, TENON_RANGE,
             "index %" PRId64 ", element %" PRId64 " of the indices, is outside [%" PRId64
             ", %" PRId64 ") of axis %d",
             i, at, -extent, extent, axis);
  return -1;
}

/* Reads the integers of an input of rank 0 or 1. */
static inline tenon_status_t ints_read(tenon_infer_t *infer, uint32_t input, ints_t *out) {
  const tenon_meta_t *meta = infer->inputs[input];
  out->count = -1;
  out->known = 0;
  if (meta->ndim > 1)
    return tenon_fail(infer, TENON_INVALID,
                      "input %u must be a list of integers of rank 0 or 1, but its rank is %d",
                      input, meta->ndim);
  if (meta->ndim < 0) return TENON_OK;
  tenon_dim_t count = meta->ndim ? meta->dims[0] : tenon_extent(1);
  if (!tenon_is_known(count)) return TENON_OK;
  if (count.value > INTS_MAX)
    return tenon_fail(infer, TENON_INVALID,
                      "input %u lists %" PRId64 " integers; at most %d are allowed", input,
                      count.value, (int)INTS_MAX);
  out->count = (int32_t)count.value;
  out->known = out->count == 0 || meta->values || meta->value;
  for (int32_t i = 0; out->known && i < out->count; i++) {
    if (!meta->value) {
      out->at[i] = meta->values[i];
    } else { /* a huge negative number that means "to the start" is not a symbol */
      int64_t number = tensor_int(meta->value, i);
      out->at[i] = tenon_extent(number < TENON_DIM_LEAST ? TENON_DIM_LEAST : number);
    }
  }
  return TENON_OK;
}

/* Copies the list as plain numbers. Returns 0 if an element is a symbol or unknown. */
static inline int ints_numbers(const ints_t *list, int64_t *out_numbers) {
  if (!list->known) return 0;
  for (int32_t i = 0; i < list->count; i++) {
    if (!tenon_is_known(list->at[i])) return 0;
    out_numbers[i] = list->at[i].value;
  }
  return 1;
}

/* Reads the axes in input `input` as a mask. Sets *out_known to 0 if they are unknown. An absent
 * input lists no axes. */
static inline tenon_status_t axes_read(tenon_infer_t *infer, uint32_t input, int32_t rank,
                                       uint64_t *out_mask, int *out_known) {
  ints_t list;
  int64_t numbers[INTS_MAX];
  *out_mask = 0;
  *out_known = 1;
  if (!infer->inputs[input]) return TENON_OK;
  TENON_TRY(ints_read(infer, input, &list));
  *out_known = ints_numbers(&list, numbers);
  return *out_known ? axes_mask(infer, numbers, list.count, rank, out_mask) : TENON_OK;
}

#endif
