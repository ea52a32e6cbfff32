/* Results and written inputs that share memory with other arguments of a call. */
#ifndef TN_DISPATCH_OVERLAP_H
#define TN_DISPATCH_OVERLAP_H

#include "core/tensor.h"
#include "operator/op.h"

/* Returns the input that a result is because the operator writes to it (`Tensor(a!)`); -1: none. */
int32_t tn_result_input(const tenon_op_t *op, uint32_t output);
/* Finds the inputs of a call that the call would overwrite before it has read them.
 *
 * An input that a loop or REUSE overwrites in place is none of them. Outputs that are NULL or not
 * allocated yet share memory with nothing.
 *
 * Arguments: `out_copies`: bit i: input i needs a copy; bit 63 stands for all inputs from 63 on.
 * Errors, with the names, if no copy helps: TENON_INVALID if two results, or a result and a written
 * input, or two written inputs share memory; TENON_PRECONDITION if two elements of one of them
 * do. */
tenon_status_t tn_overlap_find(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                               tenon_tensor_t *const *outputs, uint64_t *out_copies);
/* Refuses results that share memory with one another. Two results may if both are in `added`: they
 * are added one after the other. */
tenon_status_t tn_overlap_check_outputs(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                                        tenon_tensor_t *const *outputs, uint64_t added);
/* Replaces the inputs of `copies` by copies with the same history. The array is in scratch memory,
 * and the caller releases all of its tensors. */
tenon_status_t tn_overlap_part(const tenon_op_t *op, tenon_tensor_t *const *inputs, uint64_t copies,
                               tenon_tensor_t ***out_inputs);

/* Returns whether nothing needs a copy or is refused. */
bool tn_overlap_is_harmless(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                            tenon_tensor_t *const *outputs);

/* The keys of tensors whose bytes do not simply follow from address and shape. */
#define TN_KEY_ODD (TN_KEY_STRIDED | TN_KEY_DETAIL | TN_KEY_DEVICES | TN_TENSOR_UNSET)

static inline int64_t tn_dense_size(const tenon_tensor_t *t) {
  int64_t bits = (int64_t)t->dtype.bits * t->dtype.lanes;
  for (int32_t d = 0; d < t->ndim; d++)
    bits *= t->shape[d];
  return (bits + 7) >> 3;
}

/* Returns whether dense tensors share bytes; other tensors may. */
static inline __attribute__((always_inline)) bool
tn_dense_touches(const tenon_tensor_t *t, const char *begin, const char *end) {
  const char *at = tn_address(t);
  if (t->keys & TN_KEY_ODD) return true;
  return at < end && at + tn_dense_size(t) > begin;
}

/* Returns the storage of a tensor whose elements are all in memory that the host allocated for it;
 * NULL: not known. */
static inline const tn_storage_t *tn_own_storage(const tenon_tensor_t *t) {
  if ((t->keys & (TN_TENSOR_OWNED | TN_KEY_DETAIL | TN_TENSOR_UNSET)) != TN_TENSOR_OWNED)
    return NULL;
  const tn_storage_t *storage = ((const tn_tensor_t *)t)->storage;
  return storage && storage->is_own ? storage : NULL;
}

/* Returns whether `t` is known to have memory of its own outside `storage`. */
static inline bool tn_is_apart(const tenon_tensor_t *t, const tn_storage_t *storage) {
  const tn_storage_t *own = tn_own_storage(t);
  return own && own != storage;
}

/* Returns whether output `o` is known to share no memory, by the storages of all arguments. */
static inline __attribute__((always_inline)) bool tn_output_is_apart(const tenon_op_t *op,
                                                                     tenon_tensor_t *const *inputs,
                                                                     tenon_tensor_t *const *outputs,
                                                                     uint32_t o) {
  const tn_storage_t *storage = tn_own_storage(outputs[o]);
  if (!storage) return false;
  for (uint32_t i = 0; i < op->input_count; i++)
    if (inputs[i] && !tn_is_apart(inputs[i], storage)) return false;
  for (uint32_t k = 0; k < o; k++)
    if (outputs[k] && !tn_is_apart(outputs[k], storage)) return false;
  return true;
}

/* Returns whether output `o` may share memory with an input or with another output; no list is
 * among them. For arguments of which the host does not own the memory, a call with given outputs
 * pays a size of the output, and an address of each input, or also its size if it lies before the
 * output. */
static inline __attribute__((always_inline)) bool tn_output_touches(const tenon_op_t *op,
                                                                    tenon_tensor_t *const *inputs,
                                                                    tenon_tensor_t *const *outputs,
                                                                    uint32_t o) {
  const tenon_tensor_t *y = outputs[o];
  if (__builtin_expect((y->keys & TN_KEY_ODD) != 0, 0)) return true;
  if (tn_output_is_apart(op, inputs, outputs, o)) return false;
  const char *begin = tn_address(y);
  const char *end = begin + tn_dense_size(y);
  for (uint32_t i = 0; i < op->input_count; i++)
    if (inputs[i] && __builtin_expect(tn_dense_touches(inputs[i], begin, end), 0)) return true;
  for (uint32_t k = 0; k < o; k++)
    if (outputs[k] && __builtin_expect(tn_dense_touches(outputs[k], begin, end), 0)) return true;
  return false;
}

#endif
