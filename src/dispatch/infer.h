/* Inference: from metas of inputs to metas of results, concretely (eager calls, planning a run) or
 * with symbols (compiling a graph).  Type rules, shape patterns or broadcasting, and the operator's
 * own function, in that order. */
#ifndef TN_DISPATCH_INFER_H
#define TN_DISPATCH_INFER_H

#include "core/extent.h"
#include "operator/op.h"

enum { TN_BOUNDS = 64 };

typedef struct tn_inference_t {
  tenon_infer_t infer;          /* first: what the operator sees */
  tn_extents_t *extents;        /* NULL: concrete */
  const tenon_device_t *device; /* where results are made; NULL: on the CPU */
  tenon_status_t status;        /* first failure of dim() */
  int32_t bound_count;          /* concrete: extents that only run knows */
  int64_t upper[TN_BOUNDS];
  bool is_bounded;    /* symbols: there are extents that only run knows */
  uint64_t has_metas; /* bit i: infer filled in result i's dims before the operator's function */
} tn_inference_t;

/* Prepares a meta of a tensor; dims and strides are the tensor's own memory.  `values` (scratch) of
 * small integer tensors are given when `wants_values`. */
tenon_status_t tn_meta_of_tensor(tenon_tensor_t *tensor, bool wants_values, tenon_meta_t *out_meta);
/* Its value, of an input that is said to be known: functions of operators read it as it lies in
 * row-major memory. */
tenon_status_t tn_meta_known(const tenon_tensor_t *tensor, tenon_meta_t *meta);
/* An empty meta with room for TENON_RANK_MAX axes in scratch. */
tenon_status_t tn_meta_room(tenon_meta_t *out_meta);
/* Metas for the results in scratch; a `Tensor[n]` result is a LIST with its items.  `wanted` bit i
 * clear: NULL (0: all). */
tenon_status_t tn_metas_of_results(const tenon_op_t *op, const tenon_value_t *attrs,
                                   uint64_t wanted, tenon_meta_t ***out_metas);
/* Metas of call inputs in scratch. */
tenon_status_t tn_metas_of_inputs(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                                  tenon_meta_t ***out_metas);
/* Infers.  inference->extents NULL: concrete.  Afterwards workspace and draws are known numbers
 * (concrete). */
tenon_status_t tn_infer(tn_inference_t *inference, const tenon_op_t *op, const tenon_value_t *attrs,
                        void *state, tenon_meta_t *const *inputs, tenon_meta_t *const *outputs);
/* The infer of operators whose body is a graph: results are what that graph's would be, then the
 * operator's own. */
tenon_status_t tn_infer_through_body(tenon_infer_t *infer);
/* Of the graph's folder: what `graph` would make of these metas, without running it. */
extern tenon_status_t (*tn_graph_infer)(const tenon_graph_t *graph, const tn_inference_t *inference,
                                        uint32_t input_count, tenon_meta_t *const *inputs,
                                        uint32_t output_count, tenon_meta_t *const *outputs);
/* Concrete: what a run must make room for: the number itself, or a symbol's bound; -1: no bound. */
int64_t tn_extent_bound(const tn_inference_t *inference, tenon_dim_t dim);
tenon_dim_t tn_dim(tenon_infer_t *infer, uint32_t operation, tenon_dim_t a, tenon_dim_t b);
tenon_status_t tn_list(tenon_infer_t *infer, uint32_t output, uint32_t count);

#endif
