/* max_pool and average_pool of f32 by oneDNN on channels-last inputs; other calls go to ../pool.c.
 * The host calls the kernels from any thread.
 * Invariant: the result is computed in channels-last layout and copied if the output has another
 * layout. */
#include "../pool.h"
#include "dnn.h"

enum {
  KIND_MAX = 20,
  KIND_AVERAGE,
};

static dnn_job_t *make_pool_job(const dnn_key_t *key, const tenon_tensor_t *x,
                                const tenon_tensor_t *out, const window_t *window,
                                dnnl_alg_kind_t algorithm) {
  int64_t x_strides[DNN_RANK], out_strides[DNN_RANK];
  int64_t dilation[DNNL_MAX_NDIMS] = {0};
  int64_t after[DNNL_MAX_NDIMS] = {0};
  dnn_job_t *job = dnn_job_create(key);
  dnnl_primitive_attr_t attributes = 0;
  dnnl_primitive_desc_t desc = 0;
  dnn_last_strides(x->ndim, x->shape, x_strides);
  dnn_last_strides(out->ndim, out->shape, out_strides);
  dnnl_memory_desc_t x_md = dnn_strided(x->ndim, x->shape, x_strides);
  dnnl_memory_desc_t out_md = dnn_strided(out->ndim, out->shape, out_strides);
  for (int32_t i = 0; i < window->rank; i++) { /* oneDNN's padding ends at the last window */
    int64_t span = (window->kernel[i] - 1) * window->dilation[i] + 1;
    dilation[i] = window->dilation[i] - 1;
    after[i] = (window->out[i] - 1) * window->stride[i] + span - window->in[i] - window->before[i];
    if (after[i] < 0) after[i] = 0;
  }
  int good = job && x_md && out_md && dnn_attributes(&attributes, 0, FINISH_none, 0, 0) &&
             dnnl_pooling_forward_primitive_desc_create(&desc, dnn_engine(), dnnl_forward_inference,
                                                        algorithm, x_md, out_md, window->stride,
                                                        window->kernel, dilation, window->before,
                                                        after, attributes) == dnnl_success;
  if (good && !dnn_is_reference(desc)) {
    dnn_job_arg(job, DNNL_ARG_SRC, x_md);
    dnn_job_arg(job, DNNL_ARG_DST, out_md);
    if (!dnn_job_finish(job, desc)) {
      dnn_job_destroy(job);
      job = 0;
    }
  } else if (desc) {
    dnnl_primitive_desc_destroy(desc);
  }
  if (attributes) dnnl_primitive_attr_destroy(attributes);
  if (x_md) dnnl_memory_desc_destroy(x_md);
  if (out_md) dnnl_memory_desc_destroy(out_md);
  return job;
}

static tenon_status_t run_pool_job(tenon_call_t *call, dnn_job_t *job) {
  tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  void *to = dnn_is_last(out)
                 ? out->data
                 : call->host->allocate(call, (uint64_t)tenon_count(out) * sizeof(float));
  void *data[2] = {x->data, to};
  if (!to) return TENON_MEMORY;
  TENON_TRY(dnn_run(call, job, data));
  return dnn_from_last(call, &dnn_eager, to, out);
}

static tenon_status_t pool_by_onednn(tenon_call_t *call, int64_t kind, dnnl_alg_kind_t algorithm,
                                     tenon_run_fn plain) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *out = call->outputs[0];
  window_t window;
  dnn_key_t key;
  if (x->ndim > 5 || !dnn_is_last(x) || tenon_count(out) == 0 || !dnn_engine()) return plain(call);
  pool_window(call, &window);
  dnn_key_open(&key, kind);
  dnn_key_add(&key, (int64_t)algorithm);
  for (int32_t i = 0; i < x->ndim; i++)
    dnn_key_add(&key, x->shape[i]);
  for (int32_t i = 0; i < window.rank; i++) {
    int64_t span = (window.kernel[i] - 1) * window.dilation[i] + 1;
    int64_t end = (window.out[i] - 1) * window.stride[i] + span -
                  window.before[i]; /* start of the last window in x */
    int beyond =
        end >
        window.in[i] + window.after[i]; /* only ceil_mode gets here, and that part does not count */
    if (window.before[i] < 0 || window.before[i] >= span || end - window.in[i] >= span)
      return plain(call);
    if (beyond && algorithm == dnnl_pooling_avg_include_padding) return plain(call);
    dnn_key_add(&key, window.out[i]);
    dnn_key_add(&key, window.kernel[i]);
    dnn_key_add(&key, window.stride[i]);
    dnn_key_add(&key, window.dilation[i]);
    dnn_key_add(&key, window.before[i]);
  }
  dnn_job_t *job = dnn_find(&dnn_eager, &key);
  if (job) return job->primitive ? run_pool_job(call, job) : plain(call);
  job = make_pool_job(&key, x, out, &window, algorithm);
  if (!job) return tenon_fail(call, TENON_MEMORY, "out of memory for a oneDNN primitive");
  int kept = dnn_publish(&dnn_eager, job);
  tenon_status_t status = job->primitive ? run_pool_job(call, job) : plain(call);
  if (!kept) dnn_job_destroy(job);
  return status;
}

static tenon_status_t dnn_max_pool(tenon_call_t *call) {
  if (call->outputs[1]) return core_max_pool_run(call); /* only the plain kernel computes indices */
  return pool_by_onednn(call, KIND_MAX, dnnl_pooling_max, core_max_pool_run);
}

static tenon_status_t dnn_average_pool(tenon_call_t *call) {
  int include = call->attrs[POOL_MORE].as.i != 0;
  return pool_by_onednn(call, KIND_AVERAGE,
                        include ? dnnl_pooling_avg_include_padding
                                : dnnl_pooling_avg_exclude_padding,
                        core_average_pool_run);
}

/* clang-format off */
TENON_ITEMS(core_dnn_pool,
  TENON_EXTEND("core::max_pool", TENON_KERNEL("cpu f32 strided", dnn_max_pool)),
  TENON_EXTEND("core::average_pool", TENON_KERNEL("cpu f32 strided", dnn_average_pool)))
/* clang-format on */
