/* Entries, keys and their execution; see dnn.h. The head of a list is published with release and
 * read with acquire. If two threads miss at once, both create an entry, and the second entry is
 * merely never found.
 * Invariant: the hit path compares integers and allocates nothing. */
#include "dnn.h"
#include <stdlib.h>
#include <string.h>

/* From the OpenMP library that oneDNN uses; its header belongs to the compiler. */
int omp_get_max_threads(void);

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

/* keys */

void dnn_key_open(dnn_key_t *key, int64_t kind) {
  key->count = 0;
  dnn_key_add(key, omp_get_max_threads());
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
  atomic_flag_clear(&job->busy);
  job->key_count = key->count;
  memcpy(job->key, key->at, (size_t)key->count * sizeof *key->at);
  return job;
}

void dnn_job_arg(dnn_job_t *job, int arg, const_dnnl_memory_desc_t md) {
  job->arg[job->arg_count] = arg;
  if (dnnl_memory_desc_clone(&job->md[job->arg_count], md) == dnnl_success) job->arg_count++;
}

/* Creates a memory object for each argument, without memory yet. */
static int objects_create(const dnn_job_t *job, dnnl_stream_t *stream, dnnl_exec_arg_t *args) {
  dnnl_engine_t engine = dnn_engine();
  int good = dnnl_stream_create(stream, engine, dnnl_stream_default_flags) == dnnl_success;
  for (int32_t i = 0; i < job->arg_count; i++) {
    args[i].arg = job->arg[i];
    good = good && dnnl_memory_create(&args[i].memory, job->md[i], engine, DNNL_MEMORY_NONE) ==
                       dnnl_success;
  }
  return good;
}

static void objects_destroy(dnnl_stream_t stream, dnnl_exec_arg_t *args, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    if (args[i].memory) dnnl_memory_destroy(args[i].memory);
  if (stream) dnnl_stream_destroy(stream);
}

int dnn_job_finish(dnn_job_t *job, dnnl_primitive_desc_t desc) {
  const_dnnl_memory_desc_t scratch = dnn_query(desc, dnnl_query_scratchpad_md);
  job->scratch = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
  if (job->scratch) dnn_job_arg(job, DNNL_ARG_SCRATCHPAD, scratch);
  int good = dnnl_primitive_create(&job->primitive, desc) == dnnl_success;
  dnnl_primitive_desc_destroy(desc);
  return good && objects_create(job, &job->stream, job->args);
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
  objects_destroy(job->stream, job->args, job->arg_count);
  if (job->primitive) dnnl_primitive_destroy(job->primitive);
  for (int32_t i = 0; i < job->arg_count; i++)
    dnnl_memory_desc_destroy(job->md[i]);
  dnn_free(job->weights);
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

/* running */

tenon_status_t dnn_run(tenon_call_t *call, dnn_job_t *job, void *const *data) {
  dnnl_exec_arg_t own[DNN_ARGS + 1] = {{0, 0}};
  dnnl_exec_arg_t *args = job->args;
  dnnl_stream_t stream = job->stream;
  void *scratch = 0;
  int good = 1;
  int shared = !atomic_flag_test_and_set_explicit(&job->busy, memory_order_acquire);
  if (job->scratch) {
    scratch = call->host->allocate(call, job->scratch);
    if (!scratch) good = 0;
  }
  if (!shared) { /* another call of the same plan is running, so this one creates its own objects */
    args = own;
    stream = 0;
    good = objects_create(job, &stream, own) && good;
  }
  for (int32_t i = 0; good && i < job->arg_count; i++)
    good = dnnl_memory_set_data_handle(args[i].memory,
                                       job->arg[i] == DNNL_ARG_SCRATCHPAD ? scratch : data[i]) ==
           dnnl_success;
  dnnl_status_t status = dnnl_out_of_memory;
  if (good) status = dnnl_primitive_execute(job->primitive, stream, job->arg_count, args);
  if (status == dnnl_success) status = dnnl_stream_wait(stream);
  if (shared)
    atomic_flag_clear_explicit(&job->busy, memory_order_release);
  else
    objects_destroy(stream, own, job->arg_count);
  if (status == dnnl_success) return TENON_OK;
  if (job->scratch && !scratch) return TENON_MEMORY; /* the error is already set */
  return tenon_fail(call, status == dnnl_out_of_memory ? TENON_MEMORY : TENON_INTERNAL,
                    "oneDNN could not run a primitive that it created: status %d", (int)status);
}

dnn_job_t *dnn_reorder_create(const dnn_key_t *key, const_dnnl_memory_desc_t from,
                              const_dnnl_memory_desc_t to) {
  dnn_job_t *job = dnn_job_create(key);
  dnnl_primitive_attr_t attributes = 0;
  dnnl_primitive_desc_t desc = 0;
  int good = job && from && to && dnn_attributes(&attributes, 0, FINISH_none, 0, 0) &&
             dnnl_reorder_primitive_desc_create(&desc, from, dnn_engine(), to, dnn_engine(),
                                                attributes) == dnnl_success;
  if (good) {
    dnn_job_arg(job, DNNL_ARG_FROM, from);
    dnn_job_arg(job, DNNL_ARG_TO, to);
    good = dnn_job_finish(job, desc);
  }
  if (attributes) dnnl_primitive_attr_destroy(attributes);
  if (good) return job;
  dnn_job_destroy(job);
  return 0;
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
  objects_destroy(stream, args, 2);
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
      [FINISH_elu] = {dnnl_eltwise_elu, 0, 0},
      [FINISH_gelu] = {dnnl_eltwise_gelu_erf, 0, 0},
      [FINISH_gelu_tanh] = {dnnl_eltwise_gelu_tanh, 0, 0},
      [FINISH_tanh] = {dnnl_eltwise_tanh, 0, 0},
      [FINISH_sigmoid] = {dnnl_eltwise_logistic, 0, 0},
      [FINISH_silu] = {dnnl_eltwise_swish, 1, 0},
      [FINISH_hard_sigmoid] = {dnnl_eltwise_hardsigmoid, 0, 0},
      [FINISH_hard_swish] = {dnnl_eltwise_hardswish, 1.0f / 6, 0.5f},
      [FINISH_mish] = {dnnl_eltwise_mish, 0, 0},
  };
  int own = activation == FINISH_clip || activation == FINISH_leaky_relu ||
            activation == FINISH_elu || activation == FINISH_hard_sigmoid;
  dnnl_post_ops_t ops = 0;
  *out = 0;
  int good =
      dnnl_post_ops_create(&ops) == dnnl_success &&
      dnnl_primitive_attr_create(out) == dnnl_success &&
      dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user) == dnnl_success;
  if (good && added)
    good = dnnl_post_ops_append_binary(ops, dnnl_binary_add, added) == dnnl_success;
  if (good && activation != FINISH_none) {
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

int dnn_is_reference(const_dnnl_primitive_desc_t desc) {
  const char *name = 0;
  if (dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name) != dnnl_success)
    return 1;
  return strstr(name, "ref") != 0;
}

const_dnnl_memory_desc_t dnn_query(const_dnnl_primitive_desc_t desc, dnnl_query_t what) {
  return dnnl_primitive_desc_query_md(desc, what, 0);
}
