/* Axes and lists of integers: what the operators that move, reduce and reshape have in common. Axes
 * are counted from the end when negative; a set of them is one 64-bit mask, as no tensor has more
 * dimensions. Lists come from inputs marked "known": as integers, as symbols, or not at all, and
 * then at least their length may be known.  Invariant: an extent is touched by tenon_dim() only. */
#ifndef TENON_OPS_AXES_H
#define TENON_OPS_AXES_H

#include <inttypes.h>
#include <stdio.h>
#include <tenon/op.h>

enum { INTS_MAX = 2 * TENON_RANK_MAX, VALUES_MAX = 64, /* of tenon_meta_t */ };

typedef struct ints_t {
  int32_t count; /* -1: not even the length is known */
  int32_t known; /* `at` is filled in, perhaps with symbols */
  tenon_dim_t at[INTS_MAX];
} ints_t;

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
static inline tenon_dim_t
dim_any(tenon_infer_t *infer) { /* an extent about which nothing is known */
  return tenon_dim(infer, TENON_DIM_BOUND, tenon_extent(-1), tenon_extent(0));
}
static inline int dim_is(tenon_dim_t d, int64_t value) { return d.value == value; }
static inline int dim_differ(tenon_dim_t a, tenon_dim_t b) { /* surely */
  return tenon_is_known(a) && tenon_is_known(b) && a.value != b.value;
}
static inline tenon_dim_t dims_product(tenon_infer_t *infer, const tenon_dim_t *dims, int32_t begin,
                                       int32_t end) {
  tenon_dim_t n = tenon_extent(1);
  for (int32_t i = begin; i < end; i++)
    n = dim_mul(infer, n, dims[i]);
  return n;
}

/* "[2, 3, ?]" for messages. */
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

/* An output of this rank (-1: unknown) without known extents. */
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
/* The output's integers are those of this input, in the same order. */
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
/* One axis of a tensor of this rank, counted from the front. */
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
/* Bit i of the mask: axis i is listed.  Each may be listed once. */
#define axes_mask(context, axes, count, rank, out_mask)                                            \
  axes_mask_((context)->host, (context), (axes), (count), (rank), (out_mask))

static inline uint64_t axes_all(int32_t rank) {
  return rank >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << rank) - 1;
}

/* lists of integers */

/* Element i of a tensor of i32 or i64 that is dense, or a list of any stride: infer sees lists as
 * they were given. */
static inline int64_t tensor_int(const tenon_tensor_t *t, int64_t i) {
  if (t->ndim == 1) i *= t->strides[0];
  return t->dtype.bits == 32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

/* Index `at` of an index tensor, counted from the front; -1 if it is out of range, which fails the
 * call. */
static inline int64_t index_at(tenon_call_t *call, const tenon_tensor_t *indices, int64_t at,
                               int64_t extent, int32_t axis) {
  int64_t i = tensor_int(indices, at);
  if (i >= 0 && i < extent) return i;
  if (i < 0 && i >= -extent) return i + extent;
  tenon_fail(call, TENON_RANGE,
             "index %" PRId64 " (number %" PRId64 " of them) is outside [%" PRId64 ", %" PRId64
             ") of axis %d",
             i, at, -extent, extent, axis);
  return -1;
}

/* The integers of an input of rank 0 or 1. */
static inline tenon_status_t ints_read(tenon_infer_t *infer, uint32_t input, ints_t *out) {
  const tenon_meta_t *meta = infer->inputs[input];
  out->count = -1;
  out->known = 0;
  if (meta->ndim > 1)
    return tenon_fail(infer, TENON_INVALID,
                      "input %u is a list of integers, so its rank is 0 or 1, not %d", input,
                      meta->ndim);
  if (meta->ndim < 0) return TENON_OK;
  tenon_dim_t count = meta->ndim ? meta->dims[0] : tenon_extent(1);
  if (!tenon_is_known(count)) return TENON_OK;
  if (count.value > INTS_MAX)
    return tenon_fail(infer, TENON_INVALID,
                      "input %u lists %" PRId64 " integers; at most %d make sense", input,
                      count.value, (int)INTS_MAX);
  out->count = (int32_t)count.value;
  out->known = out->count == 0 || meta->values || meta->value;
  for (int32_t i = 0; out->known && i < out->count; i++) {
    if (!meta->value) {
      out->at[i] = meta->values[i];
    } else { /* a huge negative number, "to the start", is no symbol */
      int64_t number = tensor_int(meta->value, i);
      out->at[i] = tenon_extent(number < TENON_DIM_LEAST ? TENON_DIM_LEAST : number);
    }
  }
  return TENON_OK;
}

/* The list as numbers; 0 when there are symbols in it, or nothing is known. */
static inline int ints_numbers(const ints_t *list, int64_t *out_numbers) {
  if (!list->known) return 0;
  for (int32_t i = 0; i < list->count; i++) {
    if (!tenon_is_known(list->at[i])) return 0;
    out_numbers[i] = list->at[i].value;
  }
  return 1;
}

/* The axes in input `input` as a mask.  Sets *out_known to 0 if they are not known; an absent input
 * lists none. */
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
