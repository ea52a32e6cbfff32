/* oneDNN behind the operators: primitives are created once for each combination of extents and
 * found again by a key. Used only by the kernels in this folder; built only with TENON_ONEDNN.
 * Invariant: finding a primitive takes no lock, and entries are never changed or freed while calls
 * can see them. */
#ifndef TENON_OPS_DNN_H
#define TENON_OPS_DNN_H

#include "../epilogue.h"
#include <oneapi/dnnl/dnnl.h>
#include <stdatomic.h>
#include <tenon/op.h>

enum {
  DNN_ARGS = 8,
  DNN_KEY = 160,
  DNN_RANK = 7 /* most axes of a tensor whose extents fit into a key */,
  DNN_ENTRIES = 1024,
};

typedef struct dnn_job_t dnn_job_t;
struct dnn_job_t {
  dnn_job_t *next;
  dnnl_primitive_t primitive; /* NULL: oneDNN has no implementation that beats the plain kernel */
  int32_t arg_count;
  int32_t arg[DNN_ARGS];
  dnnl_memory_desc_t md[DNN_ARGS];
  uint64_t scratch;
  void *weights; /* a copy of the weights, if those packed by the plan do not suit */
  dnn_job_t
      /* Without a plan: converts weights to the layout of this primitive, in each call. */
      *pack;
  uint32_t variant; /* used by the kernel itself */
  int32_t key_count;
  int64_t key[DNN_KEY];
  atomic_flag busy; /* held by the one call that uses the objects below */
  dnnl_stream_t stream;
  dnnl_exec_arg_t args[DNN_ARGS + 1];
};

typedef struct dnn_cache_t { /* all zero: empty */
  _Atomic(dnn_job_t *) recent, head[64];
  atomic_int count;
} dnn_cache_t;

typedef struct dnn_key_t {
  int32_t count;
  int64_t at[DNN_KEY];
} dnn_key_t;

/* The cache of calls without a plan; it lives as long as the process. */
extern dnn_cache_t dnn_eager;

dnnl_engine_t dnn_engine(void); /* NULL: out of memory, or oneDNN does not support this processor */

/* keys */

/* Starts a key with the number of threads, for which primitives are made, and a number that tells
 * the kernels apart. */
void dnn_key_open(dnn_key_t *key, int64_t kind);
static inline void dnn_key_add(dnn_key_t *key, int64_t number) { key->at[key->count++] = number; }
void dnn_key_number(dnn_key_t *key, double number);
/* Adds shape and strides, or that the tensor is absent. Returns 0 if it has more than DNN_RANK
 * axes. */
int dnn_key_tensor(dnn_key_t *key, const tenon_tensor_t *tensor);

dnn_job_t *dnn_find(dnn_cache_t *cache, const dnn_key_t *key);
/* Creates an entry without a primitive. Returns NULL if memory is short. */
dnn_job_t *dnn_job_create(const dnn_key_t *key);
/* Creates the primitive of `desc` and records its scratch memory. Takes ownership of desc. Returns
 * 0 on failure. */
int dnn_job_finish(dnn_job_t *job, dnnl_primitive_desc_t desc);
/* Adds argument `arg` with a copy of md. */
void dnn_job_arg(dnn_job_t *job, int arg, const_dnnl_memory_desc_t md);
/* Returns 0 if the cache is full; then the caller still owns the entry. */
int dnn_publish(dnn_cache_t *cache, dnn_job_t *job);
void dnn_job_destroy(dnn_job_t *job);
void dnn_cache_clear(dnn_cache_t *cache);

/* running */

/* Runs the primitive. data[i] belongs to the i-th argument added; scratch memory comes from the
 * call. */
tenon_status_t dnn_run(tenon_call_t *call, dnn_job_t *job, void *const *data);

/* A primitive that converts one layout to another, with the arguments DNNL_ARG_FROM and
 * DNNL_ARG_TO. Returns NULL on failure. */
dnn_job_t *dnn_reorder_create(const dnn_key_t *key, const_dnnl_memory_desc_t from,
                              const_dnnl_memory_desc_t to);

/* Converts one layout to another once, outside calls. Returns 0 on failure. */
int dnn_reorder(const_dnnl_memory_desc_t from_md, const void *from, const_dnnl_memory_desc_t to_md,
                void *to);
/* Copies `from` to another layout on the heap; release it with dnn_free(). Returns NULL on
 * failure. */
void *dnn_pack(const_dnnl_memory_desc_t from_md, const void *from, const_dnnl_memory_desc_t to_md);
void dnn_free(void *memory);

/* constant matrices */

typedef struct dnn_weights_t { /* b [k, n] of c = a b, in a layout chosen by oneDNN */
  dnn_cache_t cache;
  int64_t k;
  int64_t n;
  dnnl_memory_desc_t md;
  void *data; /* NULL: nothing is packed */
} dnn_weights_t;

/* Packs a matrix with these strides for products of about `m` rows. Returns 0 if memory is short or
 * oneDNN has no good implementation. */
int dnn_weights_pack(dnn_weights_t *weights, int64_t m, int64_t k, int64_t n, const void *data,
                     int64_t row, int64_t column);
void dnn_weights_clear(dnn_weights_t *weights);
/* Describes c = a b + bias with attributes, and gives the job b in the layout that the primitive
 * needs. Returns NULL on failure. */
dnnl_primitive_desc_t dnn_weights_describe(const dnn_weights_t *weights, dnn_job_t *job,
                                           const_dnnl_memory_desc_t a,
                                           const_dnnl_memory_desc_t bias,
                                           const_dnnl_memory_desc_t c,
                                           const_dnnl_primitive_attr_t attributes);
/* Computes out [m, n] = x [m, k] b, both dense. */
tenon_status_t dnn_weights_multiply(tenon_call_t *call, dnn_weights_t *weights, void *x, int64_t m,
                                    void *out);

/* channels-last memory for [N, C, spatial...] */

void dnn_last_strides(int32_t rank, const int64_t *shape, int64_t *strides);
int dnn_is_last(const tenon_tensor_t *x);
/* The elements of x in channels-last layout: x's own memory or a temporary. Returns NULL on
 * failure; the error is already set. */
void *dnn_to_last(tenon_call_t *call, dnn_cache_t *cache, const tenon_tensor_t *x);
/* Copies channels-last memory back to an output with any strides. */
tenon_status_t dnn_from_last(tenon_call_t *call, dnn_cache_t *cache, void *from,
                             const tenon_tensor_t *out);

/* descriptors */

dnnl_memory_desc_t dnn_strided(int32_t rank, const int64_t *dims,
                               const int64_t *strides); /* f32; NULL: failed */
dnnl_memory_desc_t dnn_any(int32_t rank, const int64_t *dims);

/* Creates attributes with scratch memory provided by the caller, an added tensor (or NULL) and an
 * activation. Returns 0 on failure. */
int dnn_attributes(dnnl_primitive_attr_t *out, const_dnnl_memory_desc_t added, int64_t activation,
                   double alpha, double beta);
/* The argument for the tensor that dnn_attributes() takes as `added`. */
#define DNN_ADDED (DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1)

/* Is the implementation one that oneDNN itself calls a reference? Those are slower than our plain
 * kernels. */
int dnn_is_reference(const_dnnl_primitive_desc_t desc);
const_dnnl_memory_desc_t dnn_query(const_dnnl_primitive_desc_t desc, dnnl_query_t what);

#endif
