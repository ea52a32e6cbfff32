/* The tensors of a planned call. */
#ifndef TN_INSPECT_EXAMPLE_FILL_H
#define TN_INSPECT_EXAMPLE_FILL_H

#include "inspect/example.h"

/* Writes the elements of a dense tensor in host memory. Equal seeds and streams give equal
 * elements. */
tenon_status_t tn_example_fill(const tn_example_fill_t *fill, uint64_t seed, uint32_t stream,
                               tenon_tensor_t *tensor);
/* Makes the inputs of the plan: one tensor for each input, NULL for an absent one; a list is one
 * tensor. The caller releases them. */
tenon_status_t tn_example_inputs(const tn_example_t *example, uint64_t seed,
                                 tenon_tensor_t **out_inputs);

#endif
