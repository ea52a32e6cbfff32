/* Copies elements between two strided tensors, for all operators that only move data. Strides are
 * in elements; a stride of 0 repeats, a negative one reverses.
 * Invariant: the elements of the target overlap neither each other nor those of the source. */
#ifndef TENON_OPS_COPY_H
#define TENON_OPS_COPY_H

#include <tenon/op.h>

typedef struct move_t {
  const tenon_tensor_t *from;
  /* Has the dtype of `from`, which may be any: strings and packed dtypes too. If one of the two is
   * f32 and the other one f16 or bf16, the copy converts. */
  tenon_tensor_t *to;
  int64_t from_offset;
  int64_t to_offset;
  int32_t ndim;
  int64_t shape[2 * TENON_RANK_MAX];
  int64_t from_strides[2 * TENON_RANK_MAX];
  int64_t to_strides[2 * TENON_RANK_MAX];
} move_t;

/* Copies, on all threads if the size justifies it. Modifies *move. */
tenon_status_t core_move(tenon_call_t *call, move_t *move);

/* Copies `count` consecutive elements between dense tensors. */
tenon_status_t core_move_run(tenon_call_t *call, tenon_tensor_t *to, int64_t to_index,
                             const tenon_tensor_t *from, int64_t from_index, int64_t count);

/* Starts a move without axes, from the first element to the first. */
static inline void move_begin(move_t *move, tenon_tensor_t *to, const tenon_tensor_t *from) {
  move->to = to;
  move->from = from;
  move->to_offset = move->from_offset = 0;
  move->ndim = 0;
}
/* Appends an axis. */
static inline void move_axis(move_t *move, int64_t extent, int64_t from_stride, int64_t to_stride) {
  move->shape[move->ndim] = extent;
  move->from_strides[move->ndim] = from_stride;
  move->to_strides[move->ndim++] = to_stride;
}

/* Bytes of an element; elements of packed dtypes count as one byte. */
static inline int64_t element_size(const tenon_tensor_t *t) {
  return (t->dtype.bits * t->dtype.lanes + 7) / 8;
}

/* Do neighbouring elements share bytes? Then only one thread may write. */
static inline int is_packed(const tenon_tensor_t *t) { return t->dtype.bits < 8; }

static inline int64_t extents_product(const int64_t *shape, int32_t begin, int32_t end) {
  int64_t n = 1;
  for (int32_t i = begin; i < end; i++)
    n *= shape[i];
  return n;
}

#endif
