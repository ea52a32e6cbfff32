/* Inference: computes the metas of results from the metas of inputs, concretely (for calls and run
 * plans) or with symbols (when a graph is compiled).  It applies the type rules, then broadcasting
 * or shape patterns, then the operator's own function. */
#ifndef TN_DISPATCH_INFER_H
#define TN_DISPATCH_INFER_H

#include "core/extent.h"
#include "operator/op.h"

enum { TN_BOUNDS = 64 };

typedef struct tn_inference_t {
  tenon_infer_t infer;          /* first: the part that the operator sees */
  tn_extents_t *extents;        /* NULL: extents are concrete */
  const tenon_device_t *device; /* where results are created; NULL: on the CPU */
  tenon_status_t status;        /* the first failure of tn_dim */
  int32_t bound_count;          /* concrete: number of extents that only a run finds */
  int64_t upper[TN_BOUNDS];
  bool is_bounded; /* symbols: some extents are found only by a run */
} tn_inference_t;

/* Fills in the meta of a tensor; its dims and strides are the tensor's own memory. With
 * `wants_values`, copies the values of a small integer tensor to scratch memory. */
tenon_status_t tn_meta_of_tensor(tenon_tensor_t *tensor, bool wants_values, tenon_meta_t *out_meta);
/* Makes the value of an input that is declared as known row-major, since operators' functions read
 * it as row-major memory. The copy of a strided value is in scratch memory. */
tenon_status_t tn_meta_known(const tenon_tensor_t *tensor, tenon_meta_t *meta);
/* Creates an empty meta with room for TENON_RANK_MAX axes, in scratch memory. */
tenon_status_t tn_meta_room(tenon_meta_t *out_meta);
/* Creates metas for the results in scratch memory. A `Tensor[n]` result is a LIST with its items.
 * An optional result whose bit in `wanted` is clear gets NULL; `wanted` 0 means all. */
tenon_status_t tn_metas_of_results(const tenon_op_t *op, const tenon_value_t *attrs,
                                   uint64_t wanted, tenon_meta_t ***out_metas);
/* Creates metas of a call's inputs in scratch memory. */
tenon_status_t tn_metas_of_inputs(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                                  tenon_meta_t ***out_metas);
/* Infers the results of a call. If inference->extents is NULL, extents are concrete, and the
 * workspace is a number afterwards. Draws are -1 if nothing states them. */
tenon_status_t tn_infer(tn_inference_t *inference, const tenon_op_t *op, const tenon_value_t *attrs,
                        void *state, tenon_meta_t *const *inputs, tenon_meta_t *const *outputs);
/* The infer function of operators whose body is a graph: gives the results the metas of the graph's
 * results, then calls the operator's own function. */
tenon_status_t tn_infer_through_body(tenon_infer_t *infer);
/* Set by src/graph: infers the results of `graph` for these metas without running the graph. */
extern tenon_status_t (*tn_graph_infer)(const tenon_graph_t *graph, const tn_inference_t *inference,
                                        uint32_t input_count, tenon_meta_t *const *inputs,
                                        uint32_t output_count, tenon_meta_t *const *outputs);
/* Returns the extent that a run must make room for: a number itself, or the bound of an extent that
 * only a run finds; -1: no bound. For concrete inference. */
int64_t tn_extent_bound(const tn_inference_t *inference, tenon_dim_t dim);
tenon_dim_t tn_dim(tenon_infer_t *infer, uint32_t operation, tenon_dim_t a, tenon_dim_t b);
tenon_status_t tn_list(tenon_infer_t *infer, uint32_t output, uint32_t count);

#endif
