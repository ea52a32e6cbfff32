/* oneDNN behind the operators: primitives are created once for each combination of extents and
 * found again by a key. Used only by the kernels in this folder; built only with TENON_ONEDNN.
 * A primitive runs on one thread. Work that is large enough is cut into slices, each with a
 * primitive of its own, which run as parts of the host's parallel loop. The cut depends on the
 * extents alone, so that results do not depend on the number of threads.
 * Invariant: finding a primitive takes no lock, and entries are never changed or freed while calls
 * can see them. */
#ifndef TENON_OPS_DNN_H
#define TENON_OPS_DNN_H

#include "../epilogue.h"
#include "../window.h"
#include <oneapi/dnnl/dnnl.h>
#include <signal.h>
#include <stdatomic.h>
#include <tenon/op.h>

enum {
  DNN_ARGS = 8,
  DNN_KEY = 160,
  DNN_RANK = 7 /* most axes of a tensor whose extents fit into a key */,
  DNN_ENTRIES = 1024,
  DNN_SLICES = 64, /* most slices of one job */
  DNN_KINDS = 8,   /* most slices of different extents */
  DNN_IDLE = 8,    /* most sets of oneDNN's objects that a job keeps */
};

typedef struct dnn_job_t dnn_job_t;
typedef struct dnn_slice_t {
  dnn_job_t *job;           /* one of the whole job's kinds */
  int64_t offset[DNN_ARGS]; /* bytes from the begin of each argument of the whole */
} dnn_slice_t;

/* What is applied to the results of a primitive. */
typedef struct dnn_after_t {
  int64_t activation; /* FINISH_none: nothing */
  float alpha;
  float beta;
} dnn_after_t;

/* oneDNN's objects for one execution. */
typedef struct dnn_objects_t {
  dnnl_stream_t stream;
  dnnl_exec_arg_t args[DNN_ARGS + 1];
} dnn_objects_t;

struct dnn_job_t {
  dnn_job_t *next;
  dnnl_primitive_t primitive;
  int32_t arg_count;
  int32_t arg[DNN_ARGS];
  dnnl_memory_desc_t md[DNN_ARGS];
  uint64_t scratch;
  void *weights; /* a copy of the weights, if those packed by the plan do not suit */
  dnn_job_t
      /* Without a plan: converts weights to the layout of this primitive, in each call. */
      *pack;
  void *layouts;    /* of a reorder that core_move() does; NULL: the primitive does it */
  uint32_t variant; /* used by the kernel itself */
  dnn_after_t after;
  int moves_stack; /* the primitive must not be interrupted by a signal: see dnn_signals_block */
  /* The slices of the work. 0 of them: the primitive does all of it. */
  int32_t slice_count;
  int32_t kind_count;
  int64_t grain; /* slices in one part of a parallel loop, at least */
  dnn_slice_t *slices;
  dnn_job_t *kinds[DNN_KINDS];
  int32_t key_count;
  int64_t key[DNN_KEY];
  _Atomic(dnn_objects_t *) idle[DNN_IDLE];
};

/* 0: oneDNN has no implementation that beats the plain kernel. */
static inline int dnn_job_runs(const dnn_job_t *job) {
  return job->primitive || job->slice_count > 0;
}

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

/* oneDNN works on the calling thread alone between these two, and primitives that are created are
 * made for one thread. What others use OpenMP for on this thread is not affected later. */
int dnn_alone_begin(void);
void dnn_alone_end(int before);

/* Blocks the signals that are sent to this thread, until dnn_signals_restore. oneDNN's gemm puts
 * the stack pointer on memory from malloc, and the frame of a signal handler would overwrite what
 * lies below it (oneDNN's issue 4845). Signals that report a fault of this thread are not
 * blocked. */
void dnn_signals_block(sigset_t *out_before);
void dnn_signals_restore(const sigset_t *before);

/* keys */

/* Starts a key with a number that tells the kernels apart. */
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

/* slices */

/* Into how many slices work is cut that takes one thread so many microseconds if it computes 100
 * operations in a nanosecond; 1: it is not cut. A power of two, at most half of DNN_SLICES. */
int32_t dnn_slices_for(double work);
/* Adds a slice whose job is one of the kinds of `job`. Returns NULL if memory is short. */
dnn_slice_t *dnn_slice_add(dnn_job_t *job, dnn_job_t *kind);
/* Adds a job to the kinds of `job`, which owns it from now on. Returns 0 if there are too many; the
 * caller still owns it then. */
int dnn_kind_add(dnn_job_t *job, dnn_job_t *kind);

/* Rows of one or several images, for slices of operators with a window: the first spatial axis. */
typedef struct dnn_rows_t {
  int64_t image; /* the first one */
  int64_t images;
  int64_t in; /* first row that is read */
  int64_t in_count;
  int64_t out;
  int64_t out_count;
  int64_t before; /* padding of the rows that are read */
  int64_t after;
} dnn_rows_t;
/* Cuts images of out_count rows into slices of at least `least` results of one channel, where there
 * are so many. Returns how many slices there are, at most DNN_SLICES; 1: the work is not cut.
 * `whole` has all images and rows, and the window's padding. */
int32_t dnn_rows_cut(const window_t *window, const dnn_rows_t *whole, double work, int64_t least,
                     dnn_rows_t *out_rows);
/* Do two slices have the same primitive? */
static inline int dnn_rows_same(const dnn_rows_t *a, const dnn_rows_t *b) {
  return a->images == b->images && a->in_count == b->in_count && a->out_count == b->out_count &&
         a->before == b->before && a->after == b->after;
}

/* running */

/* Runs the primitive, or all slices. data[i] belongs to the i-th argument added; scratch memory
 * comes from the call. */
tenon_status_t dnn_run(tenon_call_t *call, dnn_job_t *job, void *const *data);

/* reorders, in reorder.c */

/* A job that converts one layout to another. Returns NULL on failure. */
dnn_job_t *dnn_reorder_create(const dnn_key_t *key, const_dnnl_memory_desc_t from,
                              const_dnnl_memory_desc_t to);
/* Converts memory of the first layout to the second one. */
tenon_status_t dnn_reorder_run(tenon_call_t *call, dnn_job_t *reorder, void *from, void *to);

/* Converts one layout to another once, outside calls. Returns 0 on failure. */
int dnn_reorder(const_dnnl_memory_desc_t from_md, const void *from, const_dnnl_memory_desc_t to_md,
                void *to);
/* Copies `from` to another layout on the heap; release it with dnn_free(). Returns NULL on
 * failure. */
void *dnn_pack(const_dnnl_memory_desc_t from_md, const void *from, const_dnnl_memory_desc_t to_md);
void dnn_free(void *memory);

/* A number that stands for a layout in an artifact; 0: the layout has none. */
int64_t dnn_layout_number(const_dnnl_memory_desc_t md);
/* The layout of f32 with this number. Returns NULL if there is none for these extents. The number
 * is untrusted. */
dnnl_memory_desc_t dnn_layout_of(int64_t number, int32_t rank, const int64_t *dims);

/* constant matrices */

/* b [k, n] of c = a b, cut into slices of columns, each in a layout chosen by oneDNN. */
typedef struct dnn_weights_t {
  dnn_cache_t cache;
  int64_t k;
  int64_t n;
  int64_t each;             /* columns of a slice */
  dnnl_memory_desc_t md[2]; /* of a slice, and of the last one if it has fewer columns (or NULL) */
  uint64_t bytes;           /* from one slice to the next */
  void *data;               /* NULL: nothing is packed */
  int is_borrowed;          /* data is an artifact's */
} dnn_weights_t;

/* c = a b + bias with b packed; c has the strides row and column. */
typedef struct dnn_product_t {
  const_dnnl_memory_desc_t a;
  int64_t m;
  int64_t row;
  int64_t column;
  int with_bias;
  const_dnnl_primitive_attr_t attributes;
  dnn_after_t after;
} dnn_product_t;

/* Packs a matrix with these strides for products of about `m` rows. Returns 0 if memory is short or
 * oneDNN has no good implementation. */
int dnn_weights_pack(dnn_weights_t *weights, int64_t m, int64_t k, int64_t n, const void *data,
                     int64_t row, int64_t column);
void dnn_weights_clear(dnn_weights_t *weights);
/* Makes the slices of a job with the arguments SRC, WEIGHTS, DST and perhaps BIAS. Returns 0 on
 * failure. */
int dnn_weights_slices(dnn_job_t *job, const dnn_weights_t *weights, const dnn_product_t *product);
/* Computes out [m, n] = x [m, k] b, both dense. */
tenon_status_t dnn_weights_multiply(tenon_call_t *call, dnn_weights_t *weights, void *x, int64_t m,
                                    void *out);

/* channels-last memory for [N, C, spatial...] */

void dnn_last_strides(int32_t rank, const int64_t *shape, int64_t *strides);
/* The bytes of one row (index of the first spatial axis) in channels-last memory. */
int64_t dnn_row_bytes(int32_t rank, const int64_t *shape);
int dnn_is_last(const tenon_tensor_t *x);
/* The elements of x, which may be f16 or bf16, as f32 in channels-last layout: x's own memory or a
 * temporary. Returns NULL on failure; the error is already set. */
void *dnn_to_last(tenon_call_t *call, const tenon_tensor_t *x);
/* Memory of f32 in channels-last layout for a result: its own, or a temporary, which
 * dnn_from_last() then copies. Returns NULL on failure; the error is already set. */
void *dnn_place_last(tenon_call_t *call, const tenon_tensor_t *out);
/* Copies channels-last memory of f32 to an output with any strides, which may be f16 or bf16. */
tenon_status_t dnn_from_last(tenon_call_t *call, void *from, const tenon_tensor_t *out);

/* descriptors */

dnnl_memory_desc_t dnn_strided(int32_t rank, const int64_t *dims,
                               const int64_t *strides); /* f32; NULL: failed */
dnnl_memory_desc_t dnn_any(int32_t rank, const int64_t *dims);
/* Gives an axis of extent 1 the stride that it would have in a dense tensor, because oneDNN
 * recognises layouts by strides. */
void dnn_strides_settle(int32_t rank, const int64_t *dims, int64_t *strides);

/* Whether an activation is one that oneDNN approximates with fewer digits than our kernels. */
int dnn_is_own_activation(int64_t activation);
/* What a job applies after its primitive, for results with this activation. */
dnn_after_t dnn_after(int64_t activation, double alpha, double beta);
/* Applies it to results of f32 with this layout. Returns 0 if the layout has no strides. */
int dnn_activate(const dnn_after_t *after, const_dnnl_memory_desc_t md, void *data);

/* Creates attributes with scratch memory provided by the caller, an added tensor (or NULL) and an
 * activation, unless dnn_after() applies it. Returns 0 on failure. */
int dnn_attributes(dnnl_primitive_attr_t *out, const_dnnl_memory_desc_t added, int64_t activation,
                   double alpha, double beta);
/* The argument for the tensor that dnn_attributes() takes as `added`. */
#define DNN_ADDED (DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1)

/* Is the implementation one that oneDNN itself calls a reference? Those are slower than our plain
 * kernels. */
int dnn_is_reference(const_dnnl_primitive_desc_t desc);
/* Is it the one that copies patches and multiplies matrices? */
int dnn_is_gemm(const_dnnl_primitive_desc_t desc);
const_dnnl_memory_desc_t dnn_query(const_dnnl_primitive_desc_t desc, dnnl_query_t what);

#endif
