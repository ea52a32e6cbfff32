/* tenon/iterator.h: stubs, the inner functions of pointwise operators and of reductions.
 *
 * A library needs this header only if it implements stubs or defines reductions.
 *
 * An operator with a stub has a parent kernel, which the host provides for every backend.  The
 * parent kernel broadcasts, copies inputs that a result would overwrite, and merges axes.  The
 * remaining work goes to the function that implements the stub for a backend and, on the CPU, for
 * an instruction set.  TENON_STUB("npu f32|f64 strided", f) registers the parent kernel under the
 * same words as TENON_KERNEL would. */
#ifndef TENON_ITERATOR_H
#define TENON_ITERATOR_H

#include <tenon/op.h>

/* clang-format off */
/* Implements the stub of an operator.
 * Arguments: `where`: the words of TENON_KERNEL: backend, instruction set, dtypes, capabilities.
 * Without the word "strided", every operand is dense. */
#define TENON_STUB(where, f) \
  { TENON_TAG_STUB | TENON_MUST, 0, 0 * (int64_t)sizeof((f)((const tenon_iterator_t *)0)), where, \
    (tenon_any_fn)TENON_GUARD(const tenon_iterator_t, f) }

/* Declares an operator as a reduction.
 * Arguments: "x over axes": `x` is an input; `axes` is an input or attribute that lists the axes to
 * reduce, which the results lack or have with extent 1.  An empty list means all axes, unless the
 * result has the shape of the input.  "x" alone: the axes that broadcasting would have created. */
#define TENON_REDUCES(text) TENON_TEXT_(REDUCES, text)
/* clang-format on */

/* Argument of a stub.  Operands are the inputs, followed by the results.  A result may coincide
 * with an input: read an element before you write it.
 *
 * Ownership: the host owns the iterator, which is gone after the call. */
struct tenon_iterator_t {
  uint32_t size;
  uint32_t phase;
  const tenon_host_t *host;
  const tenon_op_t *op;
  const tenon_value_t *attrs;
  void *context;
  void *state;
  tenon_call_t *call; /* For services, the stream, random numbers, and the tensors of the call. */
  /* The range: elements begin to end - 1 of the results, numbered row-major over the first ndim
   * axes. */
  int64_t begin;
  int64_t end;
  int64_t inner;   /* Input elements per result element: 1, or any number in a reduction, also 0. */
  int32_t ndim;    /* Axes of the results; at least 1. */
  int32_t reduced; /* Reductions: axes that are reduced; at least 1. */
  /* The ndim + reduced extents, after merging the axes that all operands allow to merge; the last
   * one varies fastest. */
  const int64_t *shape;
  /* The dtype of the inputs named by the first rule of TENON_TYPES; without such a rule, that of
   * the first operand. */
  tenon_dtype_t dtype;
  uint32_t count; /* Number of operands. */
  /* NULL: the operand was omitted; in a reduction, also for @host inputs such as axes. */
  const tenon_tensor_t *const *tensors;
  const int64_t *offsets; /* Bytes from tensors[i]->data to its first element. */
  /* strides[i][axis] in bytes; 0 along a broadcast axis, and possibly negative. */
  const int64_t *const *strides;
};

/* The byte offset of an element of an operand, relative to tensors[operand]->data.
 *
 * Arguments: `index`: an element of the range; `element`: for the operand that a reduction reads,
 * one of the `inner` elements that result `index` is computed from; otherwise 0. */
static inline int64_t tenon_iterator_at(const tenon_iterator_t *it, uint32_t operand, int64_t index,
                                        int64_t element) {
  int64_t at = it->offsets[operand];
  for (int32_t i = it->ndim + it->reduced - 1; i >= 0; i--) {
    int64_t *left = i < it->ndim ? &index : &element;
    if (!*left) continue;
    at += *left % it->shape[i] * it->strides[operand][i];
    *left /= it->shape[i];
  }
  return at;
}

/* The number of elements of the range, starting at `index`, that lie along the last axis of the
 * results.  These elements are strides[operand][ndim - 1] bytes apart. */
static inline int64_t tenon_iterator_run(const tenon_iterator_t *it, int64_t index) {
  int64_t extent = it->shape[it->ndim - 1];
  int64_t run = extent - index % extent;
  return run < it->end - index ? run : it->end - index;
}

#endif
