/* tenon/api/tensors.h: dtypes, and tensors in host memory.  Part of tenon/tenon.h. */
#ifndef TENON_API_TENSORS_H
#define TENON_API_TENSORS_H

#include <tenon/api/export.h>
#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- dtypes ---------------------------------------------------------------------------------- */

/* Returns the name of a dtype: "f32". */
TENON_API const char *tenon_dtype_name(tenon_dtype_t dtype);
TENON_API tenon_status_t tenon_dtype_parse(const char *name, tenon_dtype_t *out_dtype);

/* ---- creation -------------------------------------------------------------------------------- */

/* Creates a dense tensor in host memory, aligned to 64 bytes.  Elements are undefined; strings are
 * empty.
 *
 * Errors: a negative extent, an overflow of the size, or out of memory. */
TENON_API tenon_status_t tenon_tensor_create(tenon_dtype_t dtype, int32_t ndim,
                                             const int64_t *shape, tenon_tensor_t **out_tensor);

/* Creates a tensor over memory of the caller.
 *
 * Arguments: `strides` in elements; NULL: dense.
 * Ownership: the caller owns the memory, and keeps it until the host calls release(context), on any
 * thread.  `release` NULL: the host never calls it. */
TENON_API tenon_status_t tenon_tensor_borrow(void *data, tenon_dtype_t dtype, int32_t ndim,
                                             const int64_t *shape, const int64_t *strides,
                                             tenon_free_fn release, void *context,
                                             tenon_tensor_t **out_tensor);

/* Fills in a view on the caller's stack, which must not be retained or released.
 *
 * Arguments: `strides` in elements; NULL: dense, and the strides are written to the ndim elements
 * of `room_strides`.
 * Ownership: the caller owns `shape`, `strides` and `room_strides`, which must outlive the view. */
TENON_API tenon_status_t tenon_tensor_view(tenon_tensor_t *view, void *data, tenon_dtype_t dtype,
                                           int32_t ndim, int64_t *shape, int64_t *strides,
                                           int64_t *room_strides);

/* Creates a view of a part of a tensor's memory, with any dtype, shape and strides, also on a
 * device.  The part does not belong to an autograd graph.
 *
 * Arguments: `byte_offset`: from the first element of `of` to that of the part, or ignored
 * if the part has no elements; `strides`: in elements; NULL: dense.
 * Errors: TENON_INVALID if the part reaches outside of the memory, which may be larger than `of`;
 * where its size is not known (views on the stack), outside of the elements of `of`.  Also if the
 * first element is not aligned for its dtype; if `of` is a list, has strings, or is sparse or
 * quantised; and if the shape is invalid.
 * Ownership: the part retains the memory, not `of`.  The caller keeps memory that `of` does not own
 * (views on the stack) as long as the part. */
TENON_API tenon_status_t tenon_tensor_part(tenon_tensor_t *of, tenon_dtype_t dtype,
                                           uint64_t byte_offset, int32_t ndim, const int64_t *shape,
                                           const int64_t *strides, tenon_tensor_t **out_tensor);

/* Creates a list of tensors, for `Tensor[]` arguments.
 *
 * Ownership: the list retains its items. */
TENON_API tenon_status_t tenon_tensor_list(tenon_tensor_t *const *items, int32_t count,
                                           tenon_tensor_t **out_tensor);

TENON_API void tenon_tensor_retain(tenon_tensor_t *tensor);
TENON_API void tenon_tensor_release(tenon_tensor_t *tensor);

/* Creates a dense copy.  The copy of a sparse tensor is sparse and has parts of its own. */
TENON_API tenon_status_t tenon_tensor_copy(const tenon_tensor_t *tensor,
                                           tenon_tensor_t **out_tensor);

/* Copies a string into element `index` (row-major) of a string tensor made by
 * tenon_tensor_create. */
TENON_API tenon_status_t tenon_tensor_set_string(tenon_tensor_t *tensor, int64_t index,
                                                 const char *data, uint64_t size);

/* ---- quantised and sparse tensors ------------------------------------------------------------ */

/* Sets the quantisation parameters of a tensor (see tenon_detail_t in op.h), also of a view on the
 * stack.  Kernels with the word "quantised" use them; other operators refuse the tensor.
 *
 * Arguments: NULL removes the parameters.
 * Errors: a kind other than TENON_DETAIL_QUANTISED; a sparse tensor; a missing scale, or a scale
 * whose number of elements does not match the axis; an axis or a block that does not fit the
 * tensor.
 * Ownership: `detail` and its tensors are the caller's, and must outlive the use of the tensor. */
TENON_API tenon_status_t tenon_tensor_detail_set(tenon_tensor_t *tensor,
                                                 const tenon_detail_t *detail);

/* Flags of tenon_tensor_create_sparse. */
enum {
  TENON_SPARSE_UNCHECKED = 1 /* The caller guarantees valid indices and indptr. */
};

/* Creates a sparse tensor (docs/sparse.md) over dense parts in host memory.
 *
 * The dtype is that of `values`.  Only kernels with the word "sparse" accept sparse tensors;
 * core::to_dense and core::to_sparse convert.
 *
 * Arguments: of `detail`, the function reads kind, values, indices and, for CSR, indptr
 * (ROW_SPARSE: NULL).
 * Errors: a kind that is not sparse; ndim other than 2 (CSR) or below 1; parts that are views on a
 * stack, that are not dense, or whose dtypes or extents differ from those in op.h; a tensor of more
 * than 2^62 bytes; and, without TENON_SPARSE_UNCHECKED, indices that are out of range or not
 * ascending, or an indptr that does not ascend from 0 to n.
 * Ownership: `detail` is copied; the parts are retained and never resized.  The detail of the new
 * tensor lends the parts.
 * Threads: the parts may be written to while nobody reads them, like memory of other tensors, as
 * long as indices and indptr remain valid. */
TENON_API tenon_status_t tenon_tensor_create_sparse(const tenon_detail_t *detail, int32_t ndim,
                                                    const int64_t *shape, uint32_t flags,
                                                    tenon_tensor_t **out_tensor);

/* Returns the layout as a constant string: "csr", "row_sparse", "quantised" or "dense". */
TENON_API const char *tenon_tensor_layout(const tenon_tensor_t *tensor);

/* ---- files ----------------------------------------------------------------------------------- */

/* Reads a tensor from a file.  Its first bytes tell the format: .npy (NumPy, versions 1 to 3), .pb
 * (ONNX TensorProto) or .pgm (P5, an 8-bit grey picture, as [height, width] u8). */
TENON_API tenon_status_t tenon_tensor_load(const char *path, tenon_tensor_t **out_tensor);

/* Writes a tensor as .npy.  Dtypes that NumPy lacks (bf16, f8, ...) are written as unsigned
 * integers of the same size, strings as NumPy unicode. */
TENON_API tenon_status_t tenon_tensor_save(const tenon_tensor_t *tensor, const char *path);

/* ---- DLPack ---------------------------------------------------------------------------------- */

/* Import and export DLPack 1.x structures and legacy ones, without a copy.  Tensors on devices
 * behave as with tenon_tensor_from_dlpack_on and tenon_tensor_to_dlpack_on without options.
 *
 * Errors: string tensors cannot be exported.
 * Ownership: import consumes the structure; its deleter runs when the last reference is gone.
 * After export, the consumer calls the deleter. */
struct DLManagedTensorVersioned;
struct DLManagedTensor;
TENON_API tenon_status_t tenon_tensor_from_dlpack(struct DLManagedTensorVersioned *managed,
                                                  tenon_tensor_t **out_tensor);
TENON_API tenon_status_t tenon_tensor_to_dlpack(tenon_tensor_t *tensor,
                                                struct DLManagedTensorVersioned **out_managed);
TENON_API tenon_status_t tenon_tensor_from_dlpack_legacy(struct DLManagedTensor *managed,
                                                         tenon_tensor_t **out_tensor);
TENON_API tenon_status_t tenon_tensor_to_dlpack_legacy(tenon_tensor_t *tensor,
                                                       struct DLManagedTensor **out_managed);

#ifdef __cplusplus
}
#endif
#endif
