/* Channels-last memory, the layout of oneDNN's convolutions and pools: recognises it, and copies to
 * and from it. Called by convolution.c and pool.c.
 * Invariant: strides of axes with extent 1 are ignored. */
#include "dnn.h"
#include <string.h>

enum { KIND_REORDER = 100 };

void dnn_last_strides(int32_t rank, const int64_t *shape, int64_t *strides) {
  int64_t stride = shape[1];
  strides[1] = 1;
  for (int32_t i = rank - 1; i >= 2; stride *= shape[i--])
    strides[i] = stride;
  strides[0] = stride;
}

int64_t dnn_row_bytes(int32_t rank, const int64_t *shape) {
  int64_t bytes = shape[1] * (int64_t)sizeof(float);
  for (int32_t i = 3; i < rank; i++)
    bytes *= shape[i];
  return bytes;
}

int dnn_is_last(const tenon_tensor_t *x) {
  int64_t strides[DNN_RANK];
  if (x->ndim < 3 || x->ndim > DNN_RANK) return 0;
  dnn_last_strides(x->ndim, x->shape, strides);
  for (int32_t i = 0; i < x->ndim; i++)
    if (x->shape[i] != 1 && x->strides[i] != strides[i]) return 0;
  return 1;
}

/* A reorder of x, or of `count` of its items along the axis, from or to the strides `last`. */
static dnn_job_t *make_part(const dnn_key_t *key, const tenon_tensor_t *x, const int64_t *last,
                            int32_t axis, int64_t count, int back) {
  int64_t dims[DNN_RANK];
  memcpy(dims, x->shape, (size_t)x->ndim * sizeof *dims);
  dims[axis] = count;
  dnnl_memory_desc_t given = dnn_strided(x->ndim, dims, x->strides);
  dnnl_memory_desc_t wanted = dnn_strided(x->ndim, dims, last);
  dnn_job_t *job =
      back ? dnn_reorder_create(key, wanted, given) : dnn_reorder_create(key, given, wanted);
  if (given) dnnl_memory_desc_destroy(given);
  if (wanted) dnnl_memory_desc_destroy(wanted);
  return job;
}

/* Cuts the longer one of the axes of images and of rows. */
static dnn_job_t *make_reorder_job(const dnn_key_t *key, const tenon_tensor_t *x, int back) {
  const double elements = 1e3; /* in a microsecond, on one thread */
  const dnn_key_t none = {0};
  const int64_t slices = dnn_slices_for((double)tenon_count(x) / elements);
  const int32_t axis = x->shape[0] >= x->shape[2] ? 0 : 2;
  const int64_t extent = x->shape[axis];
  const int64_t each = (extent + slices - 1) / slices;
  int64_t last[DNN_RANK];
  dnn_last_strides(x->ndim, x->shape, last);
  if (each == extent) return make_part(key, x, last, 0, x->shape[0], back);
  dnn_job_t *job = dnn_job_create(key);
  for (int64_t first = 0; job && first < extent; first += each) {
    const int64_t count = extent - first < each ? extent - first : each;
    dnn_job_t *kind = job->kind_count ? job->kinds[0] : 0;
    if (!kind || count != each) kind = make_part(&none, x, last, axis, count, back);
    if (kind && (!job->kind_count || kind != job->kinds[0])) dnn_kind_add(job, kind);
    dnn_slice_t *slice = kind ? dnn_slice_add(job, kind) : 0;
    if (!slice) {
      dnn_job_destroy(job);
      return 0;
    }
    slice->offset[back] = first * x->strides[axis] * (int64_t)sizeof(float);
    slice->offset[!back] = first * last[axis] * (int64_t)sizeof(float);
  }
  return job;
}

static tenon_status_t reorder_tensor(tenon_call_t *call, dnn_cache_t *cache,
                                     const tenon_tensor_t *x, void *from, void *to, int back) {
  dnn_key_t key;
  dnn_key_open(&key, KIND_REORDER + back);
  if (!dnn_key_tensor(&key, x))
    return tenon_fail(call, TENON_INTERNAL, "the tensor has more axes than oneDNN supports");
  dnn_job_t *job = dnn_find(cache, &key);
  int kept = job != 0;
  if (!job) {
    const int before = dnn_alone_begin();
    job = make_reorder_job(&key, x, back);
    dnn_alone_end(before);
    if (!job)
      return tenon_fail(call, TENON_MEMORY,
                        "oneDNN could not create a reorder: unsupported, or out of memory");
    kept = dnn_publish(cache, job);
  }
  void *data[2] = {from, to};
  tenon_status_t status = dnn_run(call, job, data);
  if (!kept) dnn_job_destroy(job);
  return status;
}

void *dnn_to_last(tenon_call_t *call, dnn_cache_t *cache, const tenon_tensor_t *x) {
  if (dnn_is_last(x)) return x->data;
  void *to = call->host->allocate(call, (uint64_t)tenon_count(x) * sizeof(float));
  return to && reorder_tensor(call, cache, x, x->data, to, 0) == TENON_OK ? to : 0;
}

tenon_status_t dnn_from_last(tenon_call_t *call, dnn_cache_t *cache, void *from,
                             const tenon_tensor_t *out) {
  return from == out->data ? TENON_OK : reorder_tensor(call, cache, out, from, out->data, 1);
}
