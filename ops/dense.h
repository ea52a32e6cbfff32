/* Tensors in the dtype and layout that a kernel computes in: f16 and bf16 as f32, small integers as
 * i32, row-major. Called at the start and the end of a kernel whose operator lists core::cast first
 * in TENON_USES. Invariant: a tensor that is right already is used in place. */
#ifndef TENON_OPS_DENSE_H
#define TENON_OPS_DENSE_H

#include <tenon/op.h>

#define DENSE_USES "core::cast" /* uses[0] */

int core_is_dense(const tenon_tensor_t *x); /* row-major */
static inline int core_is(const tenon_tensor_t *x, uint32_t dtype) {
  return tenon_dtype_id(x->dtype) == dtype;
}

/* x in this dtype, with any strides or row-major.  NULL: failed, and said so. */
tenon_tensor_t *core_as(tenon_call_t *call, tenon_tensor_t *x, tenon_dtype_t dtype);
tenon_tensor_t *core_dense(tenon_call_t *call, tenon_tensor_t *x, tenon_dtype_t dtype);

/* Where an output is computed: in it, if it has this dtype, else (for `dense` also if it is not
 * row-major) in a temporary, which core_settle() then writes to the output. */
tenon_tensor_t *core_place(tenon_call_t *call, tenon_tensor_t *out, tenon_dtype_t dtype);
tenon_tensor_t *core_place_dense(tenon_call_t *call, tenon_tensor_t *out, tenon_dtype_t dtype);
tenon_status_t core_settle(tenon_call_t *call, tenon_tensor_t *out, tenon_tensor_t *computed);

/* Memory for `count` extents' product of elements of `size` bytes, gone after the call.  NULL:
 * failed, and said so. */
void *core_scratch(tenon_call_t *call, uint64_t size, int count, const int64_t *extents);
#define CORE_SCRATCH(call, size, ...)                                                              \
  core_scratch(call, size, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),              \
               (int64_t[]){__VA_ARGS__})

#endif
