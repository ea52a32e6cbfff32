/* Constant matrices that are packed once; see dnn.h. Called by matmul.c and recurrent.c.
 * Invariant: packed data is never changed; a job whose extents need another layout owns a copy in
 * that layout. */
#include "dnn.h"
#include <string.h>

int dnn_weights_pack(dnn_weights_t *weights, int64_t m, int64_t k, int64_t n, const void *data,
                     int64_t row, int64_t column) {
  int64_t a_dims[2] = {m, k};
  int64_t a_strides[2] = {k, 1};
  int64_t b_dims[2] = {k, n};
  int64_t b_strides[2] = {row, column};
  int64_t c_dims[2] = {m, n};
  int64_t c_strides[2] = {n, 1};
  dnnl_memory_desc_t mds[4] = {dnn_strided(2, a_dims, a_strides), dnn_strided(2, c_dims, c_strides),
                               dnn_any(2, b_dims), dnn_strided(2, b_dims, b_strides)};
  dnnl_primitive_desc_t desc = 0;
  weights->k = k;
  weights->n = n;
  int good =
      mds[0] && mds[1] && mds[2] && mds[3] &&
      dnnl_matmul_primitive_desc_create(&desc, dnn_engine(), mds[0], mds[2], 0, mds[1], 0) ==
          dnnl_success &&
      !dnn_is_reference(desc) &&
      dnnl_memory_desc_clone(&weights->md, dnn_query(desc, dnnl_query_weights_md)) == dnnl_success;
  if (good) weights->data = dnn_pack(mds[3], data, weights->md);
  for (int i = 0; i < 4; i++)
    if (mds[i]) dnnl_memory_desc_destroy(mds[i]);
  if (desc) dnnl_primitive_desc_destroy(desc);
  return weights->data != 0;
}

void dnn_weights_clear(dnn_weights_t *weights) {
  dnn_cache_clear(&weights->cache);
  if (weights->md) dnnl_memory_desc_destroy(weights->md);
  dnn_free(weights->data);
  weights->md = 0;
  weights->data = 0;
}

dnnl_primitive_desc_t dnn_weights_describe(const dnn_weights_t *weights, dnn_job_t *job,
                                           const_dnnl_memory_desc_t a,
                                           const_dnnl_memory_desc_t bias,
                                           const_dnnl_memory_desc_t c,
                                           const_dnnl_primitive_attr_t attributes) {
  int64_t dims[2] = {weights->k, weights->n};
  dnnl_primitive_desc_t desc = 0;
  dnnl_memory_desc_t any = dnn_any(2, dims);
  if (!any) return 0;
  if (dnnl_matmul_primitive_desc_create(&desc, dnn_engine(), a, any, bias, c, attributes) !=
      dnnl_success)
    desc = 0;
  dnnl_memory_desc_destroy(any);
  if (desc && dnnl_memory_desc_equal(dnn_query(desc, dnnl_query_weights_md), weights->md))
    return desc;
  if (desc)
    job->weights = dnn_pack(weights->md, weights->data, dnn_query(desc, dnnl_query_weights_md));
  if (job->weights) return desc;
  if (desc)
    dnnl_primitive_desc_destroy(desc); /* out of memory for a copy: use the present layout */
  dnnl_status_t status =
      dnnl_matmul_primitive_desc_create(&desc, dnn_engine(), a, weights->md, bias, c, attributes);
  return status == dnnl_success ? desc : 0;
}

static dnn_job_t *make_weights_job(const dnn_key_t *key, const dnn_weights_t *weights, int64_t m) {
  int64_t a_dims[2] = {m, weights->k};
  int64_t a_strides[2] = {weights->k, 1};
  int64_t c_dims[2] = {m, weights->n};
  int64_t c_strides[2] = {weights->n, 1};
  dnn_job_t *job = dnn_job_create(key);
  dnnl_memory_desc_t a = dnn_strided(2, a_dims, a_strides);
  dnnl_memory_desc_t c = dnn_strided(2, c_dims, c_strides);
  dnnl_primitive_attr_t attributes = 0;
  dnnl_primitive_desc_t desc = 0;
  if (job && a && c && dnn_attributes(&attributes, 0, FINISH_none, 0, 0))
    desc = dnn_weights_describe(weights, job, a, 0, c, attributes);
  if (desc) {
    dnn_job_arg(job, DNNL_ARG_SRC, a);
    dnn_job_arg(job, DNNL_ARG_WEIGHTS, dnn_query(desc, dnnl_query_weights_md));
    dnn_job_arg(job, DNNL_ARG_DST, c);
  }
  if (!desc || !dnn_job_finish(job, desc)) {
    dnn_job_destroy(job);
    job = 0;
  }
  if (attributes) dnnl_primitive_attr_destroy(attributes);
  if (a) dnnl_memory_desc_destroy(a);
  if (c) dnnl_memory_desc_destroy(c);
  return job;
}

tenon_status_t dnn_weights_multiply(tenon_call_t *call, dnn_weights_t *weights, void *x, int64_t m,
                                    void *out) {
  dnn_key_t key;
  if (m == 0) return TENON_OK;
  dnn_key_open(&key, m);
  dnn_job_t *job = dnn_find(&weights->cache, &key);
  int kept = job != 0;
  if (!job) {
    job = make_weights_job(&key, weights, m);
    if (!job) return tenon_fail(call, TENON_MEMORY, "out of memory for a oneDNN primitive");
    kept = dnn_publish(&weights->cache, job);
  }
  void *data[3] = {x, job->weights ? job->weights : weights->data, out};
  tenon_status_t status = dnn_run(call, job, data);
  if (!kept) dnn_job_destroy(job);
  return status;
}
