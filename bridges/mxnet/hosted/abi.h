/* The binary interface of MXNet's operator libraries, versions 7 (MXNet 1.7), 10 (1.8) and 11 (1.9
 * and 2.0): the C functions that such a library exports. Functions that can fail return 1, or 0
 * after a failure. Functions of the library's author are opaque pointers that are only passed back
 * to the library. */
#ifndef BRIDGES_MXNET_ABI_H
#define BRIDGES_MXNET_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef void (*author_fn)(void); /* a function that the library's author wrote */

/* Functions that the library calls while it computes. */
typedef void *(*allocate_fn)(void *handle, int bytes);
typedef void (*sparse_fn)(void *handle, int output, int count, int pointers, void **data,
                          int64_t **indices, int64_t **indptr);
typedef void (*parameter_fn)(const void *handle, const int64_t *shape, int ndim, const char *device,
                             int id, int dtype, const char *name, int is_arg, void **data);

/* clang-format off: signatures as in the lib_api.h of MXNet */
/* clang-format off */
#define ATTRIBUTES const char *const *keys, const char *const *values, int count
#define SIDE(side)                                                                                 \
  const int64_t **side##_shapes, int *side##_ndims, void **side##_data, int *side##_dtypes,        \
      size_t *side##_versions, const char **side##_devices, int *side##_ids, int side##_count
#define COMPUTE                                                                                    \
  SIDE(in), SIDE(out), allocate_fn cpu, void *cpu_handle, allocate_fn gpu, void *gpu_handle,       \
      void *stream, sparse_fn sparse, void *sparse_handle, int *in_storages, int *out_storages,    \
      void **in_indices, void **out_indices, void **in_indptr, void **out_indptr,                  \
      int64_t *in_indices_counts, int64_t *out_indices_counts, int64_t *in_indptr_counts,          \
      int64_t *out_indptr_counts, void *cpu_random, void *gpu_random
#define KERNELS(what) const char ***what##_devices, author_fn **what, int *what##_count
/* Each row: type of the result, name, the first version that has the function, parameters. */
#define ABI(X)                                                                                     \
  X(int, initialize, 7, (int version))                                                             \
  X(int, _opVersion, 7, (void))                                                                    \
  X(int, _msgSize, 10, (void))                                                                     \
  X(void, _msgGet, 10, (int index, const char **message))                                          \
  X(int, _opRegSize, 7, (void))                                                                    \
  X(void, _opRegGet, 7,                                                                            \
    (int index, const char **name, int *is_subgraph, KERNELS(forward), KERNELS(backward),          \
     KERNELS(create), author_fn *parse, author_fn *dtypes, author_fn *storages, author_fn *shapes, \
     author_fn *mutates))                                                                          \
  X(void, _opCallFree, 7, (void *memory))                                                          \
  X(int, _opCallParseAttrs, 7, (author_fn, ATTRIBUTES, int *in_count, int *out_count))             \
  X(int, _opCallInferType, 7,                                                                      \
    (author_fn, ATTRIBUTES, int *in, int in_count, int *out, int out_count))                       \
  X(int, _opCallInferSType, 7,                                                                     \
    (author_fn, ATTRIBUTES, int *in, int in_count, int *out, int out_count))                       \
  X(int, _opCallInferShape, 7,                                                                     \
    (author_fn, ATTRIBUTES, unsigned **in, int *in_ndims, int in_count, unsigned ***new_in,        \
     int **new_in_ndims, unsigned ***out, int **out_ndims, int out_count))                         \
  X(int, _opCallMutateInputs, 7, (author_fn, ATTRIBUTES, int **which, int *which_count))           \
  X(int, _opCallFCompute, 7, (author_fn, ATTRIBUTES, COMPUTE))                                     \
  X(int, _opCallCreateOpState, 7,                                                                  \
    (author_fn, ATTRIBUTES, const char *device, int id, unsigned **in, int *in_ndims,              \
     int in_count, const int *in_dtypes,                                                           \
     void **state)) /* in version 7, `state` follows the attributes directly */                     \
  X(void, _opCallDestroyOpState, 11, (void *state))                                                \
  X(int, _opCallFStatefulCompute, 7, (int is_forward, void *state, COMPUTE))                       \
  X(int, _partRegSize, 7, (void))                                                                  \
  X(int, _passRegSize, 7, (void))
#define PARAMS(kind)                                                                               \
  const char *const *kind##_names, int kind##_count, void *const *kind##_data,                     \
      const int64_t *const *kind##_shapes, const int *kind##_ndims, const int *kind##_dtypes,      \
      const size_t *kind##_versions, const char *const *kind##_devices, const int *kind##_ids
/* Functions that libraries with partitioners export, and functions that libraries with passes
 * export. */
#define ABI_PARTITIONERS(X)                                                                        \
  X(int, _partRegGetCount, 7, (int index, const char **name))                                      \
  X(void, _partRegGet, 7,                                                                          \
    (int partitioner, int strategy, const char **name, author_fn *supported, author_fn *selector,  \
     author_fn *review, const char **op))                                                          \
  X(int, _partCallSupportedOps, 7,                                                                 \
    (author_fn, const char *json, int node_count, int *ids, ATTRIBUTES))                           \
  X(int, _partCallCreateSelector, 7, (author_fn, const char *json, void **selector, ATTRIBUTES))   \
  X(void, _partCallSelect, 7, (void *selector, int node, int *takes))                              \
  X(void, _partCallSelectInput, 7, (void *selector, int node, int input, int *takes))              \
  X(void, _partCallSelectOutput, 7, (void *selector, int node, int output, int *takes))            \
  X(void, _partCallFilter, 7,                                                                      \
    (void *selector, int *candidates, int candidate_count, int **kept, int *kept_count))           \
  X(void, _partCallReset, 7, (void *selector))                                                     \
  X(int, _partCallReviewSubgraph, 7,                                                               \
    (author_fn, const char *json, int id, int *accepts, ATTRIBUTES, char ***new_keys,              \
     char ***new_values, int *new_count, PARAMS(arg), PARAMS(aux)))
#define ABI_PASSES(X)                                                                              \
  X(void, _passRegGet, 7, (int index, author_fn *pass, const char **name))                         \
  X(int, _passCallGraphPass, 7,                                                                    \
    (author_fn, const char *json, char **new_json, ATTRIBUTES, const char *name, PARAMS(arg),      \
     PARAMS(aux), parameter_fn, const void *handle))
/* clang-format on */

enum {
  DTYPE_F32,
  DTYPE_F64,
  DTYPE_F16,
  DTYPE_U8,
  DTYPE_I32,
  DTYPE_I8,
  DTYPE_I64,
  DTYPES,
};
enum {
  STORAGE_DENSE,
  STORAGE_ROWS,
  STORAGE_CSR,
};

#define ABI_POINTER(result, name, since, parameters) result(*name) parameters;
typedef struct abi_t {
  ABI(ABI_POINTER)
  ABI_PARTITIONERS(ABI_POINTER)
  ABI_PASSES(ABI_POINTER)
} abi_t;
typedef int (*create_7_fn)(author_fn, ATTRIBUTES, void **state);

#endif
