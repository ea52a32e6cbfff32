/* The tensors of a planned call. */
#ifndef TN_INSPECT_TRIAL_FILL_H
#define TN_INSPECT_TRIAL_FILL_H

#include "inspect/trial.h"

/* Writes the elements of a dense tensor in host memory. Equal seeds and streams give equal
 * elements. */
tenon_status_t tn_trial_fill(const tn_trial_fill_t *fill, uint64_t seed, uint32_t stream,
                             tenon_tensor_t *tensor);
/* Makes the inputs of the plan: one tensor for each input, NULL for an absent one; a list is one
 * tensor. The caller releases them. */
tenon_status_t tn_trial_inputs(const tn_trial_t *trial, uint64_t seed, tenon_tensor_t **out_inputs);

#endif
