/* Creating and checking the outputs of a call before it runs. */
#ifndef TN_DISPATCH_RESULT_H
#define TN_DISPATCH_RESULT_H

#include "dispatch/infer.h"
#include "dispatch/request.h"

/* Creates a tensor for an inferred result: a view if the operator stated one, a tensor of the upper
 * bounds if only a run finds its extents, or an UNSET one if there is no bound. */
tenon_status_t tn_result_create(const tn_inference_t *inference, const tenon_meta_t *meta,
                                tenon_tensor_t *const *inputs, tenon_tensor_t **out_tensor);
/* Creates results for libraries that have memory of their own for them (tn_library_t.places). Set
 * when the first library is isolated. */
extern tenon_status_t (*tn_result_create_shared)(const tn_library_t *library, tenon_dtype_t dtype,
                                                 int32_t ndim, const int64_t *shape,
                                                 tenon_tensor_t **out_tensor);
/* Returns the input that a result is because the operator writes to it (`Tensor(a!)`); -1: none. */
int32_t tn_result_input(const tenon_op_t *op, uint32_t output);
/* Infers a call, checks the outputs that the caller gave, and creates the others. `owns`: no output
 * is a view. *out_made gets the bits of the outputs that were created, also after an error. */
tenon_status_t tn_results_make(tn_inference_t *inference, const tn_request_t *request, bool owns,
                               uint64_t *out_made);
/* Returns whether a kernel serves a view operator whose views the host would create. The kernel
 * writes to outputs with memory of their own. */
bool tn_view_has_kernel(const tenon_op_t *op, uint64_t keys, tenon_tensor_t *const *inputs);
/* Inputs of a view operator that must be dense are replaced by dense copies with the same history.
 * The array is in scratch memory, and the caller releases all of its tensors. */
bool tn_inputs_need_dense(const tenon_op_t *op, tenon_tensor_t *const *inputs);
tenon_status_t tn_inputs_dense(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                               tenon_tensor_t ***out_inputs);

/* Turns an unallocated output (UNSET) into the fresh tensor, which is not used any more. If `fresh`
 * is dense and UNSET itself, the output only gets its dtype. */
tenon_status_t tn_unallocated_become(tenon_tensor_t *unallocated, tenon_tensor_t *fresh);

#endif
