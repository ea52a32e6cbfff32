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

int dnn_is_last(const tenon_tensor_t *x) {
  int64_t strides[DNN_RANK];
  if (x->ndim < 3 || x->ndim > DNN_RANK) return 0;
  dnn_last_strides(x->ndim, x->shape, strides);
  for (int32_t i = 0; i < x->ndim; i++)
    if (x->shape[i] != 1 && x->strides[i] != strides[i]) return 0;
  return 1;
}

static tenon_status_t reorder_tensor(tenon_call_t *call, dnn_cache_t *cache,
                                     const tenon_tensor_t *x, void *from, void *to, int back) {
  int64_t last[DNN_RANK];
  dnn_key_t key;
  dnn_key_open(&key, KIND_REORDER + back);
  if (!dnn_key_tensor(&key, x))
    return tenon_fail(call, TENON_INTERNAL, "the tensor has more axes than oneDNN supports");
  dnn_job_t *job = dnn_find(cache, &key);
  int kept = job != 0;
  if (!job) {
    dnn_last_strides(x->ndim, x->shape, last);
    dnnl_memory_desc_t given = dnn_strided(x->ndim, x->shape, x->strides);
    dnnl_memory_desc_t wanted = dnn_strided(x->ndim, x->shape, last);
    if (back)
      job = dnn_reorder_create(&key, wanted, given);
    else
      job = dnn_reorder_create(&key, given, wanted);
    if (given) dnnl_memory_desc_destroy(given);
    if (wanted) dnnl_memory_desc_destroy(wanted);
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
