/* The outputs of calls, before the calls run. */
#ifndef TN_DISPATCH_RESULT_H
#define TN_DISPATCH_RESULT_H

#include "dispatch/infer.h"
#include "dispatch/request.h"

/* A tensor for an inferred result: of its bound when only run knows its extents, UNSET when there
 * is no bound, a view when the operator said so. */
tenon_status_t tn_result_create(const tn_inference_t *inference, const tenon_meta_t *meta,
                                tenon_tensor_t *const *inputs, tenon_tensor_t **out_tensor);
/* Makes results of libraries that have memory of their own for them (tn_library_t.places); set when
 * the first one comes. */
extern tenon_status_t (*tn_result_place)(const tn_library_t *library, tenon_dtype_t dtype,
                                         int32_t ndim, const int64_t *shape,
                                         tenon_tensor_t **out_tensor);
/* The input that a result is, since it is written to (`Tensor(a!)`); -1: none. */
int32_t tn_result_input(const tenon_op_t *op, uint32_t output);
/* Infers a call, checks the outputs that are there and makes the others.  `owns`: none is a view.
 * *out_made gets bits of what was made, also after an error. */
tenon_status_t tn_results_make(tn_inference_t *inference, const tn_request_t *request, bool owns,
                               uint64_t *out_made);
/* Does a kernel stand where the host would make a view?  It gets memory of its own to write to. */
bool tn_view_has_kernel(const tenon_op_t *op, uint64_t keys, tenon_tensor_t *const *inputs);
/* The inputs of a view, dense copies with the same history where that is needed; in scratch memory,
 * all to be released. */
bool tn_inputs_need_dense(const tenon_op_t *op, tenon_tensor_t *const *inputs);
tenon_status_t tn_inputs_dense(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                               tenon_tensor_t ***out_inputs);

/* An unallocated output (UNSET) becomes that fresh tensor, which is not used any more.  If `fresh`
 * is UNSET itself, the output only learns its dtype. */
tenon_status_t tn_unallocated_become(tenon_tensor_t *unallocated, tenon_tensor_t *fresh);

#endif
