/* The tensors of a planned call. */
#ifndef TN_INSPECT_TRIAL_FILL_H
#define TN_INSPECT_TRIAL_FILL_H

#include "inspect/trial.h"

/* Writes the elements of a dense tensor in host memory.  Equal seeds and streams give equal
 * ones. */
tenon_status_t tn_trial_fill(const tn_trial_fill_t *fill, uint64_t seed, uint32_t stream,
                             tenon_tensor_t *tensor);
/* Makes inputs of the plan: an entry each, NULL for what is absent; a list as one tensor.  The
 * caller releases them. */
tenon_status_t tn_trial_inputs(const tn_trial_t *trial, uint64_t seed, tenon_tensor_t **out_inputs);

#endif
