/* oneDNN behind the operators: primitives that are made once for each combination of extents and
 * found again by a key. Called by the kernels in this folder, and by nothing else; built only with
 * TENON_ONEDNN. Invariant: finding a primitive takes no lock, and entries are never changed or
 * freed while calls can see them. */
#ifndef TENON_OPS_DNN_H
#define TENON_OPS_DNN_H

#include "../finish.h"
#include <oneapi/dnnl/dnnl.h>
#include <stdatomic.h>
#include <tenon/op.h>

enum {
  DNN_ARGS = 8,
  DNN_KEY = 160,
  DNN_RANK = 7 /* of tensors whose extents fit into a key */,
  DNN_ENTRIES = 1024,
};

typedef struct dnn_job_t dnn_job_t;
struct dnn_job_t {
  dnn_job_t *next;
  dnnl_primitive_t primitive; /* NULL: oneDNN has nothing for this that beats the plain kernel */
  int32_t arg_count;
  int32_t arg[DNN_ARGS];
  dnnl_memory_desc_t md[DNN_ARGS];
  uint64_t scratch;
  void *weights; /* kept, if the packed ones of the plan do not suit */
  dnn_job_t
      *pack; /* without a plan: brings weights into the layout that this one wants, for each call */
  uint32_t variant; /* the kernel's own */
  int32_t key_count;
  int64_t key[DNN_KEY];
  atomic_flag busy; /* of the objects below, which one call may use at a time */
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

/* The cache of calls without a plan, for the life of the process. */
extern dnn_cache_t dnn_eager;

dnnl_engine_t dnn_engine(void); /* NULL: out of memory, or this processor is not supported */

/* keys */

/* A key opens with the number of threads, which primitives are made for, and what the kernel tells
 * them by. */
void dnn_key_open(dnn_key_t *key, int64_t kind);
static inline void dnn_key_add(dnn_key_t *key, int64_t number) { key->at[key->count++] = number; }
void dnn_key_number(dnn_key_t *key, double number);
/* Shape and strides, or that it is absent.  0: it has more than DNN_RANK axes. */
int dnn_key_tensor(dnn_key_t *key, const tenon_tensor_t *tensor);

dnn_job_t *dnn_find(dnn_cache_t *cache, const dnn_key_t *key);
/* A new entry without a primitive.  NULL: out of memory. */
dnn_job_t *dnn_job_create(const dnn_key_t *key);
/* Makes the primitive of `desc` and lists scratch memory; takes desc over.  0: failed. */
int dnn_job_finish(dnn_job_t *job, dnnl_primitive_desc_t desc);
/* Names argument `arg`, a copy of md. */
void dnn_job_arg(dnn_job_t *job, int arg, const_dnnl_memory_desc_t md);
/* 0: the cache is full, the entry stays the caller's. */
int dnn_publish(dnn_cache_t *cache, dnn_job_t *job);
void dnn_job_destroy(dnn_job_t *job);
void dnn_cache_clear(dnn_cache_t *cache);

/* running */

/* data[i] belongs to the i-th argument named; scratch memory is the call's. */
tenon_status_t dnn_run(tenon_call_t *call, dnn_job_t *job, void *const *data);

/* From one layout to another: arguments DNNL_ARG_FROM and DNNL_ARG_TO.  NULL: failed. */
dnn_job_t *dnn_reorder_create(const dnn_key_t *key, const_dnnl_memory_desc_t from,
                              const_dnnl_memory_desc_t to);

/* Once, outside of calls: from one layout to another.  0: failed. */
int dnn_reorder(const_dnnl_memory_desc_t from_md, const void *from, const_dnnl_memory_desc_t to_md,
                void *to);
/* A copy of `from` in another layout, on the heap: dnn_free() it.  NULL: failed. */
void *dnn_pack(const_dnnl_memory_desc_t from_md, const void *from, const_dnnl_memory_desc_t to_md);
void dnn_free(void *memory);

/* constant matrices */

typedef struct dnn_weights_t { /* b of c = a b, [k, n], in oneDNN's own layout */
  dnn_cache_t cache;
  int64_t k;
  int64_t n;
  dnnl_memory_desc_t md;
  void *data; /* NULL: nothing was packed */
} dnn_weights_t;

/* Packs a matrix with these strides for products of about `m` rows.  0: there is no memory, or
 * oneDNN has nothing good. */
int dnn_weights_pack(dnn_weights_t *weights, int64_t m, int64_t k, int64_t n, const void *data,
                     int64_t row, int64_t column);
void dnn_weights_clear(dnn_weights_t *weights);
/* Describes c = a b + bias with attributes, and sees to it that the job has b as that wants it.
 * NULL: failed. */
dnnl_primitive_desc_t dnn_weights_describe(const dnn_weights_t *weights, dnn_job_t *job,
                                           const_dnnl_memory_desc_t a,
                                           const_dnnl_memory_desc_t bias,
                                           const_dnnl_memory_desc_t c,
                                           const_dnnl_primitive_attr_t attributes);
/* out [m, n] = x [m, k] b, both dense. */
tenon_status_t dnn_weights_multiply(tenon_call_t *call, dnn_weights_t *weights, void *x, int64_t m,
                                    void *out);

/* channels-last memory of [N, C, spatial...] */

void dnn_last_strides(int32_t rank, const int64_t *shape, int64_t *strides);
int dnn_is_last(const tenon_tensor_t *x);
/* The elements of x in that layout: x's own memory, or a temporary.  NULL: failed, and said so. */
void *dnn_to_last(tenon_call_t *call, dnn_cache_t *cache, const tenon_tensor_t *x);
/* And back, to an output of any strides. */
tenon_status_t dnn_from_last(tenon_call_t *call, dnn_cache_t *cache, void *from,
                             const tenon_tensor_t *out);

/* descriptors */

dnnl_memory_desc_t dnn_strided(int32_t rank, const int64_t *dims,
                               const int64_t *strides); /* f32; NULL: failed */
dnnl_memory_desc_t dnn_any(int32_t rank, const int64_t *dims);

/* Attributes with the caller's scratch memory, an added tensor (or NULL) and an activation; 0:
 * failed. */
int dnn_attributes(dnnl_primitive_attr_t *out, const_dnnl_memory_desc_t added, int64_t activation,
                   double alpha, double beta);
/* The argument that dnn_attributes() makes of `added`. */
#define DNN_ADDED (DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1)

/* The implementation is one that oneDNN itself calls a reference: slower than our plain kernels. */
int dnn_is_reference(const_dnnl_primitive_desc_t desc);
const_dnnl_memory_desc_t dnn_query(const_dnnl_primitive_desc_t desc, dnnl_query_t what);

#endif
