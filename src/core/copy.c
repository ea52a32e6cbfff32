/* Copies between strided views of the same dtype. Axes are sorted and merged first, so that most
 * copies consist of a few long runs. Used where a layout must change (densifying, copies in graphs,
 * tenon_tensor_copy). Invariant: nothing outside the two views is read or written. */
#include <string.h>

#include "base/parallel.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/sparse.h"
#include "core/tensor.h"
#include "core/transpose.h"

enum { LINE = 64, PART_BYTES = 65536 };

/* The merged axes, outermost first. Strides are in bytes. */
typedef struct walk_t {
  int32_t ndim;
  int64_t shape[TENON_RANK_MAX];
  int64_t from[TENON_RANK_MAX];
  int64_t to[TENON_RANK_MAX];
  int64_t size; /* bytes per element */
  int64_t unit; /* of the first axis: parts are multiples of it, except the last one */
  const char *source;
  char *target;
} walk_t;

static void copy_run(const walk_t *w, const char *from, char *to, int64_t count,
                     int64_t from_stride, int64_t to_stride) {
  if (from_stride == w->size && to_stride == w->size) {
    memcpy(to, from, (size_t)(count * w->size));
    return;
  }
#define RUN(type)                                                                                  \
  for (int64_t i = 0; i < count; i++)                                                              \
    memcpy(to + i * to_stride, from + i * from_stride, sizeof(type));                              \
  break
  switch (w->size) {
  case 1:
    RUN(uint8_t);
  case 2:
    RUN(uint16_t);
  case 4:
    RUN(uint32_t);
  case 8:
    RUN(uint64_t);
  default:
    for (int64_t i = 0; i < count; i++)
      memcpy(to + i * to_stride, from + i * from_stride, (size_t)w->size);
  }
#undef RUN
}

#define T uint8_t
#define LANES 16
#define LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define NAME(x) x##_8
#include "core/copy_plane_kernel.h"

#define T uint16_t
#define LANES 8
#define LOW 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#define NAME(x) x##_16
#include "core/copy_plane_kernel.h"

#define T uint32_t
#define LANES 4
#define LOW 0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#define NAME(x) x##_32
#include "core/copy_plane_kernel.h"

#define T uint64_t
#define LANES 2
#define LOW 0, 2
#define HIGH 1, 3
#define NAME(x) x##_64
#include "core/copy_plane_kernel.h"

/* The plane of elements of four bytes, with the processor's widest vectors where it has squares. */
static void copy_plane_words(const char *from, int64_t from_stride, char *to, int64_t to_stride,
                             int64_t rows, int64_t columns) {
  const int64_t size = sizeof(uint32_t);
  const int64_t r = rows - rows % TN_TRANSPOSE_SIDE;
  const int64_t c = columns - columns % TN_TRANSPOSE_SIDE;
  if (!tn_transpose_words(from, from_stride, to, to_stride, r, c)) {
    copy_plane_32(from, from_stride, to, to_stride, rows, columns);
    return;
  }
  copy_plane_32(from + r * size, from_stride, to + r * to_stride, to_stride, rows - r, c);
  copy_plane_32(from + c * from_stride, from_stride, to + c * size, to_stride, rows, columns - c);
}

void tn_transpose_plane(int64_t size, const char *from, int64_t from_stride, char *to,
                        int64_t to_stride, int64_t rows, int64_t columns) {
  switch (size) {
  case 1:
    copy_plane_8(from, from_stride, to, to_stride, rows, columns);
    break;
  case 2:
    copy_plane_16(from, from_stride, to, to_stride, rows, columns);
    break;
  case 4:
    copy_plane_words(from, from_stride, to, to_stride, rows, columns);
    break;
  default:
    copy_plane_64(from, from_stride, to, to_stride, rows, columns);
  }
}

/* Copies the two inner axes when one is dense in the source and the other in the target. */
static void copy_plane(const walk_t *w, const char *from, char *to) {
  int32_t a = w->ndim - 2;
  int32_t b = w->ndim - 1;
  if (w->size == 1 || w->size == 2 || w->size == 4 || w->size == 8) {
    tn_transpose_plane(w->size, from, w->from[b], to, w->to[a], w->shape[a], w->shape[b]);
    return;
  }
  for (int64_t i = 0; i < w->shape[a]; i++)
    copy_run(w, from + i * w->from[a], to + i * w->to[a], w->shape[b], w->from[b], w->to[b]);
}

/* Whether the two inner axes, of which this one is the first, are a plane. */
static bool is_plane(const walk_t *w, int32_t axis) {
  return axis == w->ndim - 2 && w->from[axis] == w->size && w->to[axis + 1] == w->size &&
         w->from[axis + 1] != w->size;
}

static void copy_axes(const walk_t *w, int32_t axis, const char *from, char *to) {
  if (is_plane(w, axis)) {
    copy_plane(w, from, to);
  } else if (axis == w->ndim - 1) {
    copy_run(w, from, to, w->shape[axis], w->from[axis], w->to[axis]);
  } else {
    for (int64_t i = 0; i < w->shape[axis]; i++)
      copy_axes(w, axis + 1, from + i * w->from[axis], to + i * w->to[axis]);
  }
}

static tenon_status_t copy_part(void *argument, int64_t begin, int64_t end) {
  walk_t w = *(const walk_t *)argument;
  begin *= w.unit;
  end = end * w.unit < w.shape[0] ? end * w.unit : w.shape[0];
  w.shape[0] = end - begin;
  copy_axes(&w, 0, w.source + begin * w.from[0], w.target + begin * w.to[0]);
  return TENON_OK;
}

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

static tenon_status_t copy_strings(const tenon_tensor_t *from, tenon_tensor_t *to) {
  int64_t index[TENON_RANK_MAX] = {0};
  int64_t count = tenon_count(from);
  for (int64_t n = 0; n < count; n++) {
    int64_t a = 0;
    int64_t b = 0;
    for (int32_t i = 0; i < from->ndim; i++) {
      a += index[i] * from->strides[i];
      b += index[i] * to->strides[i];
    }
    const tenon_string_t *s = (const tenon_string_t *)from->data + a;
    TN_TRY(tn_string_set(to, b, s->data ? s->data : "", s->size));
    for (int32_t i = from->ndim - 1; i >= 0 && ++index[i] == from->shape[i]; i--)
      index[i] = 0;
  }
  return TENON_OK;
}

/* Whether both tensors have the same elements in the same memory. */
static bool is_same_memory(const tenon_tensor_t *from, const tenon_tensor_t *to) {
  return from->data == to->data &&
         (from->ndim == 0 ||
          memcmp(from->strides, to->strides, (size_t)from->ndim * sizeof *from->strides) == 0);
}

static tenon_status_t copy_packed(const tenon_tensor_t *from, tenon_tensor_t *to, int64_t count) {
  uint64_t bytes;
  if (!tn_is_dense(from->ndim, from->shape, from->strides) ||
      !tn_is_dense(to->ndim, to->shape, to->strides) || !tn_dtype_bytes(from->dtype, count, &bytes))
    return tn_fail(TENON_UNIMPLEMENTED, "cannot copy a packed %s tensor that is not dense",
                   tn_dtype_name(from->dtype));
  memcpy(to->data, from->data, (size_t)bytes);
  return TENON_OK;
}

/* Sorts the axes of a copy by the target's strides, large strides first, and then merges axes that
 * are contiguous in both tensors. */
static void merge_axes(const tenon_tensor_t *from, const tenon_tensor_t *to, walk_t *w) {
  for (int32_t i = 0; i < from->ndim; i++) {
    if (from->shape[i] == 1) continue;
    int64_t f = from->strides[i] * w->size;
    int64_t t = to->strides[i] * w->size;
    int32_t at = w->ndim++;
    for (; at > 0 && magnitude(w->to[at - 1]) < magnitude(t); at--) {
      w->shape[at] = w->shape[at - 1];
      w->from[at] = w->from[at - 1];
      w->to[at] = w->to[at - 1];
    }
    w->shape[at] = from->shape[i];
    w->from[at] = f;
    w->to[at] = t;
  }
  int32_t last = 0;
  for (int32_t i = 1; i < w->ndim; i++) {
    if (w->from[last] == w->from[i] * w->shape[i] && w->to[last] == w->to[i] * w->shape[i]) {
      w->shape[last] *= w->shape[i];
    } else {
      last++;
      w->shape[last] = w->shape[i];
    }
    w->from[last] = w->from[i];
    w->to[last] = w->to[i];
  }
  w->ndim = w->ndim ? last + 1 : 0;
}

/* Moves the axis that is dense in the source next to the innermost one, so that both form a plane.
 * The order of the outer axes does not matter. */
static void move_source_axis(walk_t *w) {
  int32_t at = w->ndim - 2;
  while (at >= 0 && w->from[at] != w->size)
    at--;
  if (at < 0 || w->from[w->ndim - 1] == w->size) return;
  int64_t shape = w->shape[at];
  int64_t to = w->to[at];
  for (; at < w->ndim - 2; at++) {
    w->shape[at] = w->shape[at + 1];
    w->from[at] = w->from[at + 1];
    w->to[at] = w->to[at + 1];
  }
  w->shape[at] = shape;
  w->from[at] = w->size;
  w->to[at] = to;
}

tenon_status_t tn_tensor_copy_into(const tenon_tensor_t *from, tenon_tensor_t *to) {
  char a[128], b[128];
  if (!tn_dtype_same(from->dtype, to->dtype) || from->ndim != to->ndim ||
      (from->ndim && memcmp(from->shape, to->shape, (size_t)from->ndim * sizeof *from->shape) != 0))
    return tn_fail(TENON_INVALID, "cannot copy %s %s into %s %s: expected equal dtypes and shapes",
                   tn_dtype_name(from->dtype), tn_shape_print(from->ndim, from->shape, a, sizeof a),
                   tn_dtype_name(to->dtype), tn_shape_print(to->ndim, to->shape, b, sizeof b));
  if (tn_layout(from) || tn_layout(to)) return tn_sparse_copy_into(from, to);
  int64_t count = tenon_count(from);
  if (count == 0 || is_same_memory(from, to)) return TENON_OK;
  for (int64_t i = 0; tn_dtype_is(from->dtype, TENON_LIST) && i < count; i++)
    TN_TRY(tn_tensor_copy_into(tenon_item(from, i), tenon_item(to, i)));
  if (tn_dtype_is(from->dtype, TENON_LIST)) return TENON_OK;
  if (tn_dtype_is(from->dtype, TENON_STRING)) return copy_strings(from, to);
  if (from->dtype.bits % 8 != 0) return copy_packed(from, to, count);
  walk_t w = {.size = from->dtype.bits / 8 * from->dtype.lanes,
              .unit = 1,
              .source = from->data,
              .target = to->data};
  merge_axes(from, to, &w);
  move_source_axis(&w);
  if (w.ndim == 0) {
    memcpy(to->data, from->data, (size_t)w.size);
    return TENON_OK;
  }
  /* A part of a plane has whole cache lines of the source. */
  if (is_plane(&w, 0) && w.size < LINE) w.unit = LINE / w.size;
  const int64_t each = count / w.shape[0] * w.size * w.unit;
  const int64_t grain = each < PART_BYTES ? PART_BYTES / each : 1;
  return tn_parallel((w.shape[0] + w.unit - 1) / w.unit, grain, copy_part, &w);
}
