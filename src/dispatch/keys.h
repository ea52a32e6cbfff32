/* The dispatch keys of a call, as a set of bits (operator/key.h). */
#ifndef TN_DISPATCH_KEYS_H
#define TN_DISPATCH_KEYS_H

#include "operator/op.h"

/* Returns the same union over the inputs alone, for a call that has no outputs yet. */
static inline __attribute__((always_inline)) uint64_t
tn_keys_of_call(const tenon_op_t *op, tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs,
                uint64_t always) {
  for (uint32_t i = 0; i < op->input_count; i++)
    if (inputs[i]) always |= inputs[i]->keys;
  for (uint32_t i = 0; i < op->output_count; i++)
    if (outputs[i]) always |= outputs[i]->keys;
  return always;
}

/* The same of the inputs alone, before there are outputs. */
static inline __attribute__((always_inline)) uint64_t
tn_keys_of_inputs(const tenon_op_t *op, tenon_tensor_t *const *inputs, uint64_t always) {
  for (uint32_t i = 0; i < op->input_count; i++)
    if (inputs[i]) always |= inputs[i]->keys;
  return always;
}

#endif
