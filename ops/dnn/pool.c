/* max_pool and average_pool of f32 by oneDNN on channels-last inputs; other calls go to ../pool.c.
 * A maximum of oneDNN leaves out NaN, which is the greatest number in ../pool.c.
 * The host calls the kernels from any thread.
 * Invariant: the result is computed in channels-last layout and copied if the output has another
 * layout. */
#include "../pool.h"
#include "dnn.h"

enum {
  KIND_MAX = 20,
  KIND_AVERAGE,
};

/* oneDNN's padding ends at the last window. */
static int64_t padding_after(const window_t *window, int32_t i) {
  const int64_t span = (window->kernel[i] - 1) * window->dilation[i] + 1;
  const int64_t after =
      (window->out[i] - 1) * window->stride[i] + span - window->in[i] - window->before[i];
  return after < 0 ? 0 : after;
}

/* Makes the primitive for these rows of x and of the result. Returns 0 if oneDNN has no good
 * implementation, or memory is short. */
static int make_primitive(dnn_job_t *job, const tenon_tensor_t *x, const tenon_tensor_t *out,
                          const window_t *window, const dnn_rows_t *rows,
                          dnnl_alg_kind_t algorithm) {
  int64_t x_shape[DNN_RANK], out_shape[DNN_RANK];
  int64_t x_strides[DNN_RANK], out_strides[DNN_RANK];
  int64_t dilation[DNNL_MAX_NDIMS] = {0};
  int64_t before[DNNL_MAX_NDIMS] = {0};
  int64_t after[DNNL_MAX_NDIMS] = {0};
  dnnl_primitive_attr_t attributes = 0;
  dnnl_primitive_desc_t desc = 0;
  for (int32_t i = 0; i < x->ndim; i++) {
    x_shape[i] = x->shape[i];
    out_shape[i] = out->shape[i];
  }
  x_shape[0] = rows->images;
  out_shape[0] = rows->images;
  x_shape[2] = rows->in_count;
  out_shape[2] = rows->out_count;
  dnn_last_strides(x->ndim, x_shape, x_strides);
  dnn_last_strides(out->ndim, out_shape, out_strides);
  dnnl_memory_desc_t x_md = dnn_strided(x->ndim, x_shape, x_strides);
  dnnl_memory_desc_t out_md = dnn_strided(out->ndim, out_shape, out_strides);
  for (int32_t i = 0; i < window->rank; i++) {
    dilation[i] = window->dilation[i] - 1;
    before[i] = i == 0 ? rows->before : window->before[i];
    after[i] = i == 0 ? rows->after : padding_after(window, i);
  }
  int good = x_md && out_md && dnn_attributes(&attributes, 0, FINISH_none, 0, 0) &&
             dnnl_pooling_forward_primitive_desc_create(&desc, dnn_engine(), dnnl_forward_inference,
                                                        algorithm, x_md, out_md, window->stride,
                                                        window->kernel, dilation, before, after,
                                                        attributes) == dnnl_success;
  if (good && dnn_is_reference(desc)) {
    dnnl_primitive_desc_destroy(desc);
    good = 0;
  }
  if (good) {
    dnn_job_arg(job, DNNL_ARG_SRC, x_md);
    dnn_job_arg(job, DNNL_ARG_DST, out_md);
    good = dnn_job_finish(job, desc);
  }
  if (attributes) dnnl_primitive_attr_destroy(attributes);
  if (x_md) dnnl_memory_desc_destroy(x_md);
  if (out_md) dnnl_memory_desc_destroy(out_md);
  return good;
}

static int make_slices(dnn_job_t *job, const tenon_tensor_t *x, const tenon_tensor_t *out,
                       const window_t *window, dnnl_alg_kind_t algorithm, int32_t count,
                       const dnn_rows_t *rows) {
  const dnn_key_t none = {0};
  for (int32_t i = 0; i < count; i++) {
    dnn_job_t *kind = 0;
    for (int32_t k = 0; k < i && !kind; k++)
      if (dnn_rows_same(&rows[k], &rows[i])) kind = job->slices[k].job;
    if (!kind) {
      kind = dnn_job_create(&none);
      if (!kind) return 0;
      if (!make_primitive(kind, x, out, window, &rows[i], algorithm) || !dnn_kind_add(job, kind)) {
        dnn_job_destroy(kind);
        return 0;
      }
    }
    dnn_slice_t *slice = dnn_slice_add(job, kind);
    if (!slice) return 0;
    slice->offset[0] =
        (rows[i].image * x->shape[2] + rows[i].in) * dnn_row_bytes(x->ndim, x->shape);
    slice->offset[1] =
        (rows[i].image * out->shape[2] + rows[i].out) * dnn_row_bytes(out->ndim, out->shape);
  }
  return 1;
}

/* A job that runs nothing: oneDNN has no good implementation. NULL: memory is short. */
static dnn_job_t *make_pool_job(const dnn_key_t *key, const tenon_tensor_t *x,
                                const tenon_tensor_t *out, const window_t *window,
                                dnnl_alg_kind_t algorithm) {
  const double elements = 1e3; /* taps in a microsecond, on one thread */
  const dnn_rows_t whole = {0,
                            x->shape[0],
                            0,
                            x->shape[2],
                            0,
                            out->shape[2],
                            window->before[0],
                            padding_after(window, 0)};
  double work = (double)tenon_count(out) / elements;
  dnn_rows_t rows[DNN_SLICES];
  for (int32_t i = 0; i < window->rank; i++)
    work *= (double)window->kernel[i];
  dnn_job_t *job = dnn_job_create(key);
  const int32_t count = dnn_rows_cut(window, &whole, work / 16, 14, rows);
  if (job && count > 1 && make_slices(job, x, out, window, algorithm, count, rows)) return job;
  dnn_job_destroy(job);
  job = dnn_job_create(key);
  if (!job || make_primitive(job, x, out, window, &whole, algorithm)) return job;
  dnn_job_destroy(job);
  return dnn_job_create(key);
}

static tenon_status_t run_pool_job(tenon_call_t *call, dnn_job_t *job) {
  tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  void *to = dnn_place_last(call, out);
  void *data[2] = {x->data, to};
  if (!to) return TENON_MEMORY;
  TENON_TRY(dnn_run(call, job, data));
  return dnn_from_last(call, to, out);
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
  if (job) return dnn_job_runs(job) ? run_pool_job(call, job) : plain(call);
  const int before = dnn_alone_begin();
  job = make_pool_job(&key, x, out, &window, algorithm);
  dnn_alone_end(before);
  if (!job) return tenon_fail(call, TENON_MEMORY, "out of memory for a oneDNN primitive");
  int kept = dnn_publish(&dnn_eager, job);
  tenon_status_t status = dnn_job_runs(job) ? run_pool_job(call, job) : plain(call);
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
