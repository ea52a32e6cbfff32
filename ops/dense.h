/* Tensors in the dtype and layout in which a kernel computes: f16 and bf16 as f32, small integers
 * as i32, row-major. Called at the start and end of a kernel whose operator lists core::cast first
 * in TENON_USES.
 * Invariant: a tensor that is suitable already is used in place. */
#ifndef TENON_OPS_DENSE_H
#define TENON_OPS_DENSE_H

#include <tenon/op.h>

#define DENSE_USES "core::cast" /* uses[0] */

int core_is_dense(const tenon_tensor_t *x); /* row-major */
/* Whether a tensor attribute can be read as an array: row-major, in memory of the host. */
static inline int core_is_array(const tenon_tensor_t *t) {
  return t->device.type == 1 && !t->detail && core_is_dense(t);
}
static inline int core_is(const tenon_tensor_t *x, uint32_t dtype) {
  return tenon_dtype_id(x->dtype) == dtype;
}

/* Give x in this dtype: core_as with any strides, core_dense row-major. Returns: NULL on failure;
 * the error is already set. */
tenon_tensor_t *core_as(tenon_call_t *call, tenon_tensor_t *x, tenon_dtype_t dtype);
tenon_tensor_t *core_dense(tenon_call_t *call, tenon_tensor_t *x, tenon_dtype_t dtype);

/* Give the tensor in which an output is computed: the output itself if it has this dtype (and, for
 * core_place_dense, is row-major), otherwise a temporary. core_settle() then writes the temporary
 * to the output. */
tenon_tensor_t *core_place(tenon_call_t *call, tenon_tensor_t *out, tenon_dtype_t dtype);
tenon_tensor_t *core_place_dense(tenon_call_t *call, tenon_tensor_t *out, tenon_dtype_t dtype);
tenon_status_t core_settle(tenon_call_t *call, tenon_tensor_t *out, tenon_tensor_t *computed);

/* Allocates elements of `size` bytes, as many as the product of `count` extents, until the call
 * ends. Returns: NULL on failure; the error is already set. */
void *core_scratch(tenon_call_t *call, uint64_t size, int count, const int64_t *extents);
#define CORE_SCRATCH(call, size, ...)                                                              \
  core_scratch(call, size, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),              \
               (int64_t[]){__VA_ARGS__})

#endif
