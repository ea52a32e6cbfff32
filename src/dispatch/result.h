/* Creating and checking the outputs of a call before it runs. */
#ifndef TN_DISPATCH_RESULT_H
#define TN_DISPATCH_RESULT_H

#include "dispatch/infer.h"
#include "dispatch/request.h"

/* Creates a tensor for an inferred result: a view if the operator stated one, a tensor of the upper
 * bounds if only a run finds its extents, or an UNSET one if there is no bound. */
tenon_status_t tn_result_create(const tn_inference_t *inference, const tenon_meta_t *meta,
                                tenon_tensor_t *const *inputs, tenon_tensor_t **out_tensor);
/* Checks that a view which infer states lies within the elements of its input `of`, and computes
 * its distance from them in bytes (0 for a view without elements). Infer is code of the library, so
 * every view is checked before its memory is taken. */
tenon_status_t tn_view_place(const tn_inference_t *inference, const tenon_meta_t *meta,
                             const int64_t *shape, const int64_t *strides, const tenon_tensor_t *of,
                             int64_t *out_bytes);
/* Computes how many elements a result with these strides needs, from its first to its last. Error:
 * INTERNAL if the strides reach below the first element or too far. */
tenon_status_t tn_strides_room(const tn_inference_t *inference, const tenon_meta_t *meta,
                               const int64_t *shape, int64_t *out_count);
/* Creates results for libraries that have memory of their own for them (tn_library_t.places). Set
 * when the first library is isolated. */
extern tenon_status_t (*tn_result_create_shared)(const tn_library_t *library, tenon_dtype_t dtype,
                                                 int32_t ndim, const int64_t *shape,
                                                 tenon_tensor_t **out_tensor);
/* Returns how many bytes of elements a view may have that repeats elements of its input, for such
 * libraries. Set together with the function above. */
extern uint64_t (*tn_result_view_limit)(const tn_library_t *library);
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
