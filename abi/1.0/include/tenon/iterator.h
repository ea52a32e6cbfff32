/* tenon/iterator.h: stubs, the inner work of pointwise operators and of reductions.  For libraries that fill in stubs, or
 * define reductions; op.h alone is enough for everything else.
 *
 * Such an operator has a parent kernel, the host's, that works on every backend: it broadcasts, copies inputs that a result
 * would overwrite, and merges axes.  What is left goes to the function that fills the operator's stub for a backend and, on
 * the CPU, an instruction set.  Filling it in registers the parent kernel there, as a kernel of that text would be:
 * TENON_STUB("npu f32|f64 strided", f). */
#ifndef TENON_ITERATOR_H
#define TENON_ITERATOR_H

#include <tenon/op.h>

/* clang-format off */
/* Words as of a KERNEL: the backend, an instruction set, dtypes, capabilities.  Without "strided", every operand is dense. */
#define TENON_STUB(where, f)                                                                                           \
  { TENON_TAG_STUB | TENON_MUST, 0, 0 * (int64_t)sizeof((f)((const tenon_iterator_t *)0)), where,                      \
    (tenon_any_fn)TENON_GUARD(const tenon_iterator_t, f) }
/* Of an operator: "x over axes", an input and an input or attribute that lists its axes that results do not have, or have
 * with extent 1; none: all, unless the result has the input's shape.  "x": those that broadcasting would have made. */
#define TENON_REDUCES(text) TENON_TEXT_(REDUCES, text)
/* clang-format on */

/* What a stub works on.  It is the host's, and gone after the call.  Operands are the inputs, then the results.  A result
 * may lie just where an input lies: element by element, read before you write. */
struct tenon_iterator_t {
  uint32_t size, phase;
  const tenon_host_t *host;
  const tenon_op_t *op;
  const tenon_value_t *attrs;
  void *context, *state;
  tenon_call_t *call;    /* for services, stream, random numbers, and the tensors as they were given */
  int64_t begin, end;    /* the range: elements of the results to make, numbered row-major over the first ndim axes */
  int64_t inner;         /* elements of the input that each is made of: 1 unless a reduction; perhaps 0 */
  int32_t ndim, reduced; /* axes of results, at least 1; then of a reduction those that vanish, at least 1 */
  const int64_t *shape;  /* ndim + reduced extents, merged where all operands allow it; the last varies fastest */
  tenon_dtype_t dtype;   /* of the inputs that the first rule of TYPES names; without such, of the first operand */
  uint32_t count;        /* of operands */
  const tenon_tensor_t *const *tensors; /* NULL: absent; in a reduction @host inputs, as axes are, too */
  const int64_t *offsets;               /* bytes from tensors[i]->data to its first element */
  const int64_t *const *strides;        /* strides[i][axis], in bytes: 0 where it stands still, perhaps negative */
};

/* Bytes from tensors[operand]->data to element `index` of the range; of what a reduction reads, to the `element`-th (of
 * `inner`) of those that result `index` is made of, else 0. */
static inline int64_t tenon_iterator_at(const tenon_iterator_t *it, uint32_t operand, int64_t index, int64_t element) {
  int64_t at = it->offsets[operand];
  for (int32_t i = it->ndim + it->reduced - 1; i >= 0; i--) {
    int64_t *left = i < it->ndim ? &index : &element;
    if (!*left) continue;
    at += *left % it->shape[i] * it->strides[operand][i], *left /= it->shape[i];
  }
  return at;
}
/* How many elements of the range, from `index` on, lie along the last axis of the results: their bytes are
 * strides[operand][ndim - 1] apart. */
static inline int64_t tenon_iterator_run(const tenon_iterator_t *it, int64_t index) {
  int64_t extent = it->shape[it->ndim - 1], run = extent - index % extent;
  return run < it->end - index ? run : it->end - index;
}

#endif
