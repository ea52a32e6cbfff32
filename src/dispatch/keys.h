/* The dispatch keys of a call, as a set of bits (operator/key.h). */
#ifndef TN_DISPATCH_KEYS_H
#define TN_DISPATCH_KEYS_H

#include "operator/op.h"

/* The keys of a call:
 *
 *   keys(call) = (always | keys(input 0) | ... | keys(output 0) | ...) & ~exclude
 *
 * where `always` is what the thread includes and what the process adds (the CPU, and the trace
 * while it is on), and `exclude` is what the thread excludes.  A call without tensor inputs adds
 * the key of its device (tn_keys_without_tensors); a call that writes to inputs adds the key of the
 * layer that counts versions (TN_WRITES).  The highest key of the set that the operator's mask
 * keeps selects the entry that runs first; the other keys are for layers that pass the call on.
 *
 * This function returns the union within the parentheses. */
static inline __attribute__((always_inline)) uint64_t
tn_keys_of_call(const tenon_op_t *op, tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs,
                uint64_t always) {
  for (uint32_t i = 0; i < op->input_count; i++)
    if (inputs[i]) always |= inputs[i]->keys;
  for (uint32_t i = 0; i < op->output_count; i++)
    if (outputs[i]) always |= outputs[i]->keys;
  return always;
}

/* Returns the same union over the inputs alone, for a call that has no outputs yet. */
static inline __attribute__((always_inline)) uint64_t
tn_keys_of_inputs(const tenon_op_t *op, tenon_tensor_t *const *inputs, uint64_t always) {
  for (uint32_t i = 0; i < op->input_count; i++)
    if (inputs[i]) always |= inputs[i]->keys;
  return always;
}

#endif
