/* Entries, keys and their execution; see dnn.h. The head of a list is published with release and
 * read with acquire. If two threads miss at once, both create an entry, and the second entry is
 * merely never found.
 * Invariant: the hit path compares integers and allocates nothing. */
#include "dnn.h"
#include <stdlib.h>
#include <string.h>

/* From the OpenMP library that oneDNN uses; its header belongs to the compiler. */
int omp_get_max_threads(void);
void omp_set_num_threads(int count);

dnn_cache_t dnn_eager;

dnnl_engine_t dnn_engine(void) {
  static _Atomic(dnnl_engine_t) shared;
  dnnl_engine_t engine = atomic_load_explicit(&shared, memory_order_acquire);
  dnnl_engine_t none = 0;
  if (engine || dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) return engine;
  if (atomic_compare_exchange_strong(&shared, &none, engine)) return engine;
  dnnl_engine_destroy(engine); /* another thread created the engine first */
  return none;
}

int dnn_alone_begin(void) {
  const int before = omp_get_max_threads();
  if (before != 1) omp_set_num_threads(1);
  return before;
}

void dnn_alone_end(int before) {
  if (before != 1) omp_set_num_threads(before);
}

void dnn_signals_block(sigset_t *out_before) {
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
  sigset_t set;
  sigfillset(&set);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
    sigdelset(&set, faults[i]);
  pthread_sigmask(SIG_BLOCK, &set, out_before);
}

void dnn_signals_restore(const sigset_t *before) { pthread_sigmask(SIG_SETMASK, before, 0); }

/* Is the implementation oneDNN's gemm ("gemm:jit:f32", "conv:any+gemm:jit")? brgemm is another. */
static int is_gemm(const_dnnl_primitive_desc_t desc) {
  const char *name = 0;
  if (dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name) != dnnl_success)
    return 1;
  const char *at = strstr(name, "gemm:");
  return at && (at == name || at[-1] != 'r');
}

/* keys */

void dnn_key_open(dnn_key_t *key, int64_t kind) {
  key->count = 0;
  dnn_key_add(key, kind);
}

void dnn_key_number(dnn_key_t *key, double number) {
  memcpy(&key->at[key->count], &number, sizeof number);
  key->count++;
}

int dnn_key_tensor(dnn_key_t *key, const tenon_tensor_t *tensor) {
  if (!tensor) {
    dnn_key_add(key, -1);
    return 1;
  }
  if (tensor->ndim > DNN_RANK) return 0;
  int64_t *to = key->at + key->count;
  *to++ = tensor->ndim;
  for (int32_t i = 0; i < tensor->ndim; i++)
    *to++ = tensor->shape[i];
  for (int32_t i = 0; i < tensor->ndim; i++)
    *to++ = tensor->strides[i];
  key->count = (int32_t)(to - key->at);
  return 1;
}

static _Atomic(dnn_job_t *) *list_of(dnn_cache_t *cache, const int64_t *key, int32_t count) {
  uint64_t hash = 0;
  for (int32_t i = 0; i < count; i++)
    hash = (hash ^ (uint64_t)key[i]) * 0x9E3779B97F4A7C15u;
  return &cache->head[hash >> 58];
}

static int is_for(const dnn_job_t *job, const dnn_key_t *key) {
  return job->key_count == key->count &&
         !memcmp(job->key, key->at, (size_t)key->count * sizeof *key->at);
}

dnn_job_t *dnn_find(dnn_cache_t *cache, const dnn_key_t *key) {
  dnn_job_t *job = atomic_load_explicit(&cache->recent, memory_order_acquire);
  if (job && is_for(job, key)) return job;
  job = atomic_load_explicit(list_of(cache, key->at, key->count), memory_order_acquire);
  while (job && !is_for(job, key))
    job = job->next;
  if (job && cache != &dnn_eager) atomic_store_explicit(&cache->recent, job, memory_order_release);
  return job;
}

/* entries */

dnn_job_t *dnn_job_create(const dnn_key_t *key) {
  dnn_job_t *job = (dnn_job_t *)calloc(1, sizeof *job);
  if (!job) return 0;
  job->key_count = key->count;
  memcpy(job->key, key->at, (size_t)key->count * sizeof *key->at);
  return job;
}

void dnn_job_arg(dnn_job_t *job, int arg, const_dnnl_memory_desc_t md) {
  job->arg[job->arg_count] = arg;
  if (dnnl_memory_desc_clone(&job->md[job->arg_count], md) == dnnl_success) job->arg_count++;
}

static void objects_destroy(dnn_objects_t *objects, int32_t count) {
  if (!objects) return;
  for (int32_t i = 0; i < count; i++)
    if (objects->args[i].memory) dnnl_memory_destroy(objects->args[i].memory);
  if (objects->stream) dnnl_stream_destroy(objects->stream);
  free(objects);
}

/* Creates a memory object for each argument, without memory yet. */
static dnn_objects_t *objects_create(const dnn_job_t *job) {
  dnnl_engine_t engine = dnn_engine();
  dnn_objects_t *objects = (dnn_objects_t *)calloc(1, sizeof *objects);
  if (!objects) return 0;
  int good =
      dnnl_stream_create(&objects->stream, engine, dnnl_stream_default_flags) == dnnl_success;
  for (int32_t i = 0; i < job->arg_count; i++) {
    objects->args[i].arg = job->arg[i];
    good = good && dnnl_memory_create(&objects->args[i].memory, job->md[i], engine,
                                      DNNL_MEMORY_NONE) == dnnl_success;
  }
  if (good) return objects;
  objects_destroy(objects, job->arg_count);
  return 0;
}

static dnn_objects_t *objects_take(dnn_job_t *job) {
  for (int i = 0; i < DNN_IDLE; i++) {
    if (!atomic_load_explicit(&job->idle[i], memory_order_relaxed)) continue;
    dnn_objects_t *objects = atomic_exchange_explicit(&job->idle[i], 0, memory_order_acquire);
    if (objects) return objects;
  }
  return objects_create(job);
}

static void objects_put(dnn_job_t *job, dnn_objects_t *objects) {
  for (int i = 0; i < DNN_IDLE; i++) {
    dnn_objects_t *none = 0;
    if (atomic_compare_exchange_strong_explicit(&job->idle[i], &none, objects, memory_order_release,
                                                memory_order_relaxed))
      return;
  }
  objects_destroy(objects, job->arg_count);
}

int dnn_job_finish(dnn_job_t *job, dnnl_primitive_desc_t desc) {
  const_dnnl_memory_desc_t scratch = dnn_query(desc, dnnl_query_scratchpad_md);
  job->scratch = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
  job->moves_stack = is_gemm(desc);
  if (job->scratch) dnn_job_arg(job, DNNL_ARG_SCRATCHPAD, scratch);
  int good = dnnl_primitive_create(&job->primitive, desc) == dnnl_success;
  dnnl_primitive_desc_destroy(desc);
  if (!good) return 0;
  dnn_objects_t *objects = objects_create(job);
  if (objects) objects_put(job, objects);
  return objects != 0;
}

int dnn_publish(dnn_cache_t *cache, dnn_job_t *job) {
  if (atomic_fetch_add_explicit(&cache->count, 1, memory_order_relaxed) >= DNN_ENTRIES) {
    atomic_fetch_sub_explicit(&cache->count, 1, memory_order_relaxed);
    return 0;
  }
  _Atomic(dnn_job_t *) *head = list_of(cache, job->key, job->key_count);
  job->next = atomic_load_explicit(head, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(head, &job->next, job, memory_order_release,
                                                memory_order_relaxed)) {
  }
  return 1;
}

void dnn_job_destroy(dnn_job_t *job) {
  if (!job) return;
  for (int i = 0; i < DNN_IDLE; i++)
    objects_destroy(atomic_load_explicit(&job->idle[i], memory_order_acquire), job->arg_count);
  for (int32_t i = 0; i < job->kind_count; i++)
    dnn_job_destroy(job->kinds[i]);
  free(job->slices);
  if (job->primitive) dnnl_primitive_destroy(job->primitive);
  for (int32_t i = 0; i < job->arg_count; i++)
    dnnl_memory_desc_destroy(job->md[i]);
  dnn_free(job->weights);
  free(job->layouts);
  dnn_job_destroy(job->pack);
  free(job);
}

void dnn_cache_clear(dnn_cache_t *cache) {
  for (size_t i = 0; i < sizeof cache->head / sizeof *cache->head; i++) {
    dnn_job_t *job = atomic_exchange(&cache->head[i], 0);
    while (job) {
      dnn_job_t *next = job->next;
      dnn_job_destroy(job);
      job = next;
    }
  }
}

/* slices */

int32_t dnn_slices_for(double work) {
  if (work >= 16000) return 32;
  if (work >= 4000) return 16;
  if (work >= 400) return 8;
  if (work >= 100) return 4;
  return work >= 15 ? 2 : 1;
}

dnn_slice_t *dnn_slice_add(dnn_job_t *job, dnn_job_t *kind) {
  if (!job->slices) job->slices = (dnn_slice_t *)calloc(DNN_SLICES, sizeof *job->slices);
  if (!job->slices || job->slice_count == DNN_SLICES) return 0;
  dnn_slice_t *slice = &job->slices[job->slice_count++];
  slice->job = kind;
  if (kind->scratch > job->scratch) job->scratch = kind->scratch;
  job->grain = 1;
  return slice;
}

int dnn_kind_add(dnn_job_t *job, dnn_job_t *kind) {
  if (job->kind_count == DNN_KINDS) return 0;
  job->kinds[job->kind_count++] = kind;
  return 1;
}

/* The rows that `out_count` results from `out` on read. Returns 0 if they read padding alone. */
static int rows_read(const window_t *window, const dnn_rows_t *whole, dnn_rows_t *rows) {
  const int64_t first = rows->out * window->stride[0] - whole->before;
  const int64_t end = first + (rows->out_count - 1) * window->stride[0] +
                      (window->kernel[0] - 1) * window->dilation[0] + 1;
  rows->before = first < 0 ? -first : 0;
  rows->after = end > whole->in_count ? end - whole->in_count : 0;
  rows->in = first + rows->before;
  rows->in_count = end - rows->after - rows->in;
  return rows->in_count > 0;
}

/* How many parts each image has when `images` of them are cut into about `wanted` slices. */
static int64_t parts_of_image(const window_t *window, const dnn_rows_t *whole, int64_t wanted,
                              int64_t least) {
  int64_t parts = (wanted + whole->images - 1) / whole->images;
  int64_t results = whole->out_count;
  for (int32_t i = 1; i < window->rank; i++)
    results *= window->out[i];
  while (parts > 2 && (results / parts < least || parts > whole->out_count))
    parts /= 2;
  return parts > whole->out_count ? whole->out_count : parts;
}

int32_t dnn_rows_cut(const window_t *window, const dnn_rows_t *whole, double work, int64_t least,
                     dnn_rows_t *out_rows) {
  const int64_t wanted = dnn_slices_for(work);
  const int64_t parts = parts_of_image(window, whole, wanted, least);
  const int64_t groups = whole->images < wanted ? whole->images : wanted;
  int32_t count = 0;
  if (wanted == 1 || groups * parts > DNN_SLICES) return 1;
  for (int64_t g = 0; g < groups; g++)
    for (int64_t i = 0; i < parts; i++) {
      dnn_rows_t rows = *whole;
      rows.image = g * whole->images / groups;
      rows.images = (g + 1) * whole->images / groups - rows.image;
      rows.out = i * whole->out_count / parts;
      rows.out_count = (i + 1) * whole->out_count / parts - rows.out;
      if (parts > 1 && !rows_read(window, whole, &rows)) return 1;
      out_rows[count++] = rows;
    }
  return count;
}

/* running */

/* Applies the activation of the job to the results of its primitive. */
static dnnl_status_t finish_results(const dnn_job_t *job, void *const *data,
                                    const int64_t *offset) {
  for (int32_t i = 0; i < job->arg_count; i++) {
    if (job->arg[i] != DNNL_ARG_DST) continue;
    char *results = (char *)data[i] + (offset ? offset[i] : 0);
    if (!dnn_activate(&job->after, job->md[i], results)) return dnnl_unimplemented;
  }
  return dnnl_success;
}

static dnnl_status_t execute(dnn_job_t *job, void *const *data, const int64_t *offset,
                             void *scratch) {
  dnn_objects_t *objects = objects_take(job);
  if (!objects) return dnnl_out_of_memory;
  dnnl_status_t status = dnnl_success;
  for (int32_t i = 0; status == dnnl_success && i < job->arg_count; i++) {
    void *memory = scratch;
    if (job->arg[i] != DNNL_ARG_SCRATCHPAD) memory = (char *)data[i] + (offset ? offset[i] : 0);
    status = dnnl_memory_set_data_handle(objects->args[i].memory, memory);
  }
  if (status == dnnl_success) {
    const int before = dnn_alone_begin();
    sigset_t signals;
    if (job->moves_stack) dnn_signals_block(&signals);
    status = dnnl_primitive_execute(job->primitive, objects->stream, job->arg_count, objects->args);
    if (status == dnnl_success) status = dnnl_stream_wait(objects->stream);
    if (job->moves_stack) dnn_signals_restore(&signals);
    dnn_alone_end(before);
  }
  objects_put(job, objects);
  const int is_whole = status != dnnl_success || job->after.activation == FINISH_none;
  return is_whole ? status : finish_results(job, data, offset);
}

static tenon_status_t executed(tenon_call_t *call, dnnl_status_t status) {
  if (status == dnnl_success) return TENON_OK;
  return tenon_fail(call, status == dnnl_out_of_memory ? TENON_MEMORY : TENON_INTERNAL,
                    "oneDNN could not run a primitive that it created: status %d", (int)status);
}

typedef struct run_t {
  dnn_job_t *job;
  void *const *data;
  char *scratch; /* for all slices, one after another */
  uint64_t each;
} run_t;

static tenon_status_t run_slices(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const run_t *r = (const run_t *)argument;
  for (int64_t i = begin; i < end; i++) {
    const dnn_slice_t *slice = &r->job->slices[i];
    char *scratch = r->scratch ? r->scratch + (uint64_t)i * r->each : 0;
    TENON_TRY(executed(call, execute(slice->job, r->data, slice->offset, scratch)));
  }
  return TENON_OK;
}

tenon_status_t dnn_run(tenon_call_t *call, dnn_job_t *job, void *const *data) {
  const uint64_t each = (job->scratch + 63) / 64 * 64;
  const uint64_t count = job->slice_count > 0 ? (uint64_t)job->slice_count : 1;
  run_t r = {job, data, 0, each};
  if (each) {
    r.scratch = (char *)call->host->allocate(call, each * count);
    if (!r.scratch) return TENON_MEMORY; /* the error is already set */
  }
  if (!job->slice_count) return executed(call, execute(job, data, 0, r.scratch));
  return call->host->parallel(call, job->slice_count, job->grain, run_slices, &r);
}

int dnn_reorder(const_dnnl_memory_desc_t from_md, const void *from, const_dnnl_memory_desc_t to_md,
                void *to) {
  dnnl_engine_t engine = dnn_engine();
  dnnl_primitive_desc_t desc = 0;
  dnnl_primitive_t primitive = 0;
  dnnl_stream_t stream = 0;
  dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, 0}, {DNNL_ARG_TO, 0}};
  int good = dnnl_reorder_primitive_desc_create(&desc, from_md, engine, to_md, engine, 0) ==
                 dnnl_success &&
             dnnl_primitive_create(&primitive, desc) == dnnl_success &&
             dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) == dnnl_success &&
             dnnl_memory_create(&args[0].memory, from_md, engine, (void *)(uintptr_t)from) ==
                 dnnl_success &&
             dnnl_memory_create(&args[1].memory, to_md, engine, to) == dnnl_success &&
             dnnl_primitive_execute(primitive, stream, 2, args) == dnnl_success &&
             dnnl_stream_wait(stream) == dnnl_success;
  for (int i = 0; i < 2; i++)
    if (args[i].memory) dnnl_memory_destroy(args[i].memory);
  if (stream) dnnl_stream_destroy(stream);
  if (primitive) dnnl_primitive_destroy(primitive);
  if (desc) dnnl_primitive_desc_destroy(desc);
  return good;
}

void *dnn_pack(const_dnnl_memory_desc_t from_md, const void *from, const_dnnl_memory_desc_t to_md) {
  size_t size = dnnl_memory_desc_get_size(to_md);
  void *memory = size > SIZE_MAX - 63 ? 0 : aligned_alloc(64, (size + 63) / 64 * 64);
  if (memory && dnn_reorder(from_md, from, to_md, memory)) return memory;
  free(memory);
  return 0;
}

void dnn_free(void *memory) { free(memory); }

dnnl_memory_desc_t dnn_layout_of(int64_t number, int32_t rank, const int64_t *dims) {
  dnnl_memory_desc_t md = 0;
  if (number <= dnnl_format_tag_any || number >= dnnl_format_tag_last) return 0;
  if (dnnl_memory_desc_create_with_tag(&md, rank, dims, dnnl_f32, (dnnl_format_tag_t)number) !=
      dnnl_success)
    return 0;
  return md;
}

int64_t dnn_layout_number(const_dnnl_memory_desc_t md) {
  int rank = 0;
  dnnl_dims_t *dims = 0;
  int64_t found = 0;
  if (dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &rank) != dnnl_success ||
      dnnl_memory_desc_query(md, dnnl_query_dims, &dims) != dnnl_success)
    return 0;
  for (int64_t number = dnnl_format_tag_any + 1; number < dnnl_format_tag_last && !found;
       number++) {
    dnnl_memory_desc_t other = dnn_layout_of(number, rank, *dims);
    if (!other) continue;
    if (dnnl_memory_desc_equal(md, other)) found = number;
    dnnl_memory_desc_destroy(other);
  }
  return found;
}

/* descriptors */

dnnl_memory_desc_t dnn_strided(int32_t rank, const int64_t *dims, const int64_t *strides) {
  dnnl_memory_desc_t md = 0;
  if (dnnl_memory_desc_create_with_strides(&md, rank, dims, dnnl_f32, strides) != dnnl_success)
    return 0;
  return md;
}

dnnl_memory_desc_t dnn_any(int32_t rank, const int64_t *dims) {
  dnnl_memory_desc_t md = 0;
  if (dnnl_memory_desc_create_with_tag(&md, rank, dims, dnnl_f32, dnnl_format_tag_any) !=
      dnnl_success)
    return 0;
  return md;
}

void dnn_strides_settle(int32_t rank, const int64_t *dims, int64_t *strides) {
  int64_t span = 1; /* of the axes to the right */
  for (int32_t i = rank - 1; i >= 0; i--) {
    if (dims[i] == 1) strides[i] = span;
    if (dims[i] * strides[i] > span) span = dims[i] * strides[i];
  }
}

int dnn_attributes(dnnl_primitive_attr_t *out, const_dnnl_memory_desc_t added, int64_t activation,
                   double alpha, double beta) {
  static const struct {
    dnnl_alg_kind_t kind;
    float alpha;
    float beta; /* oneDNN needs these numbers, the operator has no attribute for them */
  } kinds[FINISH_COUNT] = {
      [FINISH_relu] = {dnnl_eltwise_relu, 0, 0},
      [FINISH_clip] = {dnnl_eltwise_clip, 0, 0},
      [FINISH_leaky_relu] = {dnnl_eltwise_relu, 0, 0},
      [FINISH_gelu_tanh] = {dnnl_eltwise_gelu_tanh, 0, 0},
      [FINISH_tanh] = {dnnl_eltwise_tanh, 0, 0},
      [FINISH_sigmoid] = {dnnl_eltwise_logistic, 0, 0},
      [FINISH_silu] = {dnnl_eltwise_swish, 1, 0},
      [FINISH_hard_sigmoid] = {dnnl_eltwise_hardsigmoid, 0, 0},
      [FINISH_hard_swish] = {dnnl_eltwise_hardswish, 1.0f / 6, 0.5f},
  };
  int own = activation == FINISH_clip || activation == FINISH_leaky_relu ||
            activation == FINISH_hard_sigmoid;
  dnnl_post_ops_t ops = 0;
  *out = 0;
  int good =
      dnnl_post_ops_create(&ops) == dnnl_success &&
      dnnl_primitive_attr_create(out) == dnnl_success &&
      dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user) == dnnl_success;
  if (good && added)
    good = dnnl_post_ops_append_binary(ops, dnnl_binary_add, added) == dnnl_success;
  if (good && activation != FINISH_none && !dnn_is_own_activation(activation)) {
    float a = own ? (float)alpha : kinds[activation].alpha;
    float b = own ? (float)beta : kinds[activation].beta;
    good = dnnl_post_ops_append_eltwise(ops, kinds[activation].kind, a, b) == dnnl_success;
  }
  good = good && dnnl_primitive_attr_set_post_ops(*out, ops) == dnnl_success;
  if (ops) dnnl_post_ops_destroy(ops);
  if (!good && *out) {
    dnnl_primitive_attr_destroy(*out);
    *out = 0;
  }
  return good;
}

/* Does the name of the implementation contain this word? */
static int is_implementation(const_dnnl_primitive_desc_t desc, const char *word) {
  const char *name = 0;
  if (dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name) != dnnl_success)
    return 1;
  return strstr(name, word) != 0;
}

int dnn_is_reference(const_dnnl_primitive_desc_t desc) { return is_implementation(desc, "ref"); }

int dnn_is_gemm(const_dnnl_primitive_desc_t desc) { return is_implementation(desc, "gemm:jit"); }

const_dnnl_memory_desc_t dnn_query(const_dnnl_primitive_desc_t desc, dnnl_query_t what) {
  return dnnl_primitive_desc_query_md(desc, what, 0);
}
