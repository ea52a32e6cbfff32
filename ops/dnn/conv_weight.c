/* conv_weight_backward of f32 by oneDNN, in channels-last memory. Other calls go to
 * ../conv_weight.c. The images are cut into slices, each of which sums over its own images; the
 * sums are then added in order. Invariant: the cut depends on the extents alone. */
#include "../conv_im2col.h"
#include "dnn.h"

enum {
  KIND_CONV_WEIGHT = 30,
};

typedef struct weight_t {
  const tenon_tensor_t *dy;
  const tenon_tensor_t *x;
  const tenon_tensor_t *out;
  int64_t group;
  window_t window;
} weight_t;

static dnnl_memory_desc_t images_md(const tenon_tensor_t *t, int64_t images) {
  int64_t shape[DNN_RANK], strides[DNN_RANK];
  for (int32_t i = 0; i < t->ndim; i++)
    shape[i] = t->shape[i];
  shape[0] = images;
  dnn_last_strides(t->ndim, shape, strides);
  return dnn_strided(t->ndim, shape, strides);
}

/* The result with its axes in oneDNN's order: group, filters, channels, spatial; row-major, or in
 * any layout. */
static dnnl_memory_desc_t weights_md(const weight_t *w, int any) {
  int64_t dims[DNN_RANK + 1], strides[DNN_RANK + 1];
  int32_t rank = 0;
  int64_t stride = 1;
  if (w->group > 1) dims[rank++] = w->group;
  dims[rank++] = w->out->shape[0] / w->group;
  for (int32_t i = 1; i < w->out->ndim; i++)
    dims[rank++] = w->out->shape[i];
  for (int32_t i = rank - 1; i >= 0; i--) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return any ? dnn_any(rank, dims) : dnn_strided(rank, dims, strides);
}

/* Describes the gradient for some of the images. oneDNN asks for the forward convolution too. NULL:
 * there is none. */
static dnnl_primitive_desc_t describe(const weight_t *w, const_dnnl_memory_desc_t x,
                                      const_dnnl_memory_desc_t dy,
                                      const_dnnl_memory_desc_t weights) {
  const window_t *window = &w->window;
  int64_t dilation[DNNL_MAX_NDIMS] = {0};
  dnnl_primitive_desc_t forward = 0;
  dnnl_primitive_desc_t desc = 0;
  dnnl_primitive_attr_t attributes = 0;
  for (int32_t i = 0; i < window->rank; i++)
    dilation[i] = window->dilation[i] - 1;
  if (dnn_attributes(&attributes, 0, FINISH_none, 0, 0) &&
      dnnl_convolution_forward_primitive_desc_create(
          &forward, dnn_engine(), dnnl_forward_training, dnnl_convolution_direct, x, weights, 0, dy,
          window->stride, dilation, window->before, window->after, attributes) == dnnl_success &&
      dnnl_convolution_backward_weights_primitive_desc_create(
          &desc, dnn_engine(), dnnl_convolution_direct, x, weights, 0, dy, window->stride, dilation,
          window->before, window->after, forward, attributes) != dnnl_success)
    desc = 0;
  if (forward) dnnl_primitive_desc_destroy(forward);
  if (attributes) dnnl_primitive_attr_destroy(attributes);
  return desc;
}

/* Makes the primitive for some of the images, with sums in the layout `weights`. Returns 0 if
 * oneDNN has no good implementation, or memory is short. */
static int make_sum_primitive(dnn_job_t *job, const weight_t *w, int64_t images,
                              const_dnnl_memory_desc_t weights) {
  dnnl_memory_desc_t x = images_md(w->x, images);
  dnnl_memory_desc_t dy = images_md(w->dy, images);
  dnnl_primitive_desc_t desc = x && dy ? describe(w, x, dy, weights) : 0;
  int good = desc && !dnn_is_reference(desc);
  if (good) {
    dnn_job_arg(job, DNNL_ARG_SRC, x);
    dnn_job_arg(job, DNNL_ARG_DIFF_DST, dy);
    dnn_job_arg(job, DNNL_ARG_DIFF_WEIGHTS, dnn_query(desc, dnnl_query_diff_weights_md));
    good = dnn_job_finish(job, desc);
  } else if (desc) {
    dnnl_primitive_desc_destroy(desc);
  }
  if (x) dnnl_memory_desc_destroy(x);
  if (dy) dnnl_memory_desc_destroy(dy);
  return good;
}

/* Adds slices of the images whose sums have the layout of the first one. */
static int make_image_slices(dnn_job_t *job, const weight_t *w, int32_t count) {
  const dnn_key_t none = {0};
  const int64_t images = w->x->shape[0];
  dnnl_memory_desc_t any = weights_md(w, 1);
  const_dnnl_memory_desc_t layout = any;
  int good = any != 0;
  int64_t sizes[2] = {-1, -1}; /* images of a slice differ by one at most */
  for (int32_t i = 0; i < count && good; i++) {
    const int64_t begin = i * images / count;
    const int64_t size = (i + 1) * images / count - begin;
    const int k = sizes[0] == -1 || sizes[0] == size ? 0 : 1;
    if (sizes[k] == -1) {
      dnn_job_t *kind = dnn_job_create(&none);
      good = kind && make_sum_primitive(kind, w, size, layout) && dnn_kind_add(job, kind);
      if (!good) dnn_job_destroy(kind);
      if (!good) break;
      layout = kind->md[2];
      sizes[k] = size;
    }
    dnn_slice_t *slice = dnn_slice_add(job, job->kinds[k]);
    good = slice != 0;
    if (!good) break;
    slice->offset[0] = begin * w->x->shape[2] * dnn_row_bytes(w->x->ndim, w->x->shape);
    slice->offset[1] = begin * w->dy->shape[2] * dnn_row_bytes(w->dy->ndim, w->dy->shape);
    slice->offset[2] = (int64_t)dnnl_memory_desc_get_size(layout) * i;
  }
  if (any) dnnl_memory_desc_destroy(any);
  return good;
}

/* A job that runs nothing: oneDNN has no good implementation. NULL: memory is short. Its `pack`
 * converts the sum to the row-major result. */
static dnn_job_t *make_job(const dnn_key_t *key, const weight_t *w) {
  const double flops = 100e3; /* in a microsecond */
  double work = 2.0 * (double)tenon_count(w->out) * (double)w->dy->shape[0] / flops;
  for (int32_t i = 0; i < w->window.rank; i++)
    work *= (double)w->window.out[i];
  int32_t count = dnn_slices_for(work);
  if (count > w->x->shape[0]) count = (int32_t)w->x->shape[0];
  dnn_job_t *job = dnn_job_create(key);
  dnnl_memory_desc_t row_major = weights_md(w, 0);
  if (job && row_major && make_image_slices(job, w, count))
    job->pack = dnn_reorder_create(key, job->kinds[0]->md[2], row_major);
  if (row_major) dnnl_memory_desc_destroy(row_major);
  if (job && job->pack) return job;
  dnn_job_destroy(job);
  return dnn_job_create(key);
}

/* Adds the sums of the slices to the first one. */
static void add_sums(float *sums, size_t count, int32_t slices) {
  for (int32_t s = 1; s < slices; s++)
    for (size_t i = 0; i < count; i++)
      sums[i] += sums[(size_t)s * count + i];
}

static tenon_status_t run_job(tenon_call_t *call, const weight_t *w, dnn_job_t *job) {
  const size_t bytes = dnnl_memory_desc_get_size(job->kinds[0]->md[2]);
  void *x = dnn_to_last(call, w->x);
  void *dy = x ? dnn_to_last(call, w->dy) : 0;
  float *sums = dy ? (float *)call->host->allocate(call, bytes * (uint64_t)job->slice_count) : 0;
  if (!sums) return TENON_MEMORY; /* the error is already set */
  void *data[3] = {x, dy, sums};
  TENON_TRY(dnn_run(call, job, data));
  add_sums(sums, bytes / sizeof *sums, job->slice_count);
  return dnn_reorder_run(call, job->pack, sums, w->out->data);
}

static tenon_status_t conv_weight(tenon_call_t *call) {
  weight_t w = {.dy = call->inputs[0],
                .x = call->inputs[1],
                .out = call->outputs[0],
                .group = call->attrs[CONV_GROUP].as.i};
  const window_args_t args = window_args(call->attrs, 0);
  dnn_key_t key;
  if (w.x->ndim > 5 || tenon_count(w.x) == 0 || tenon_count(w.dy) == 0 || !dnn_engine())
    return core_conv_weight_run(call);
  core_window_set(&w.window, &args, w.x->ndim - 2, w.x->shape + 2, w.out->shape + 2,
                  w.dy->shape + 2);
  dnn_key_open(&key, KIND_CONV_WEIGHT);
  dnn_key_add(&key, w.group);
  for (int32_t i = 0; i < w.x->ndim; i++) {
    dnn_key_add(&key, w.x->shape[i]);
    dnn_key_add(&key, w.dy->shape[i]);
    dnn_key_add(&key, w.out->shape[i]);
  }
  for (int32_t i = 0; i < w.window.rank; i++) {
    if (w.window.before[i] < 0 || w.window.after[i] < 0) return core_conv_weight_run(call);
    dnn_key_add(&key, w.window.stride[i]);
    dnn_key_add(&key, w.window.dilation[i]);
    dnn_key_add(&key, w.window.before[i]);
    dnn_key_add(&key, w.window.after[i]);
  }
  dnn_job_t *job = dnn_find(&dnn_eager, &key);
  if (job) return dnn_job_runs(job) ? run_job(call, &w, job) : core_conv_weight_run(call);
  const int before = dnn_alone_begin();
  job = make_job(&key, &w);
  dnn_alone_end(before);
  if (!job) return tenon_fail(call, TENON_MEMORY, "out of memory for a oneDNN primitive");
  const int kept = dnn_publish(&dnn_eager, job);
  const tenon_status_t status =
      dnn_job_runs(job) ? run_job(call, &w, job) : core_conv_weight_run(call);
  if (!kept) dnn_job_destroy(job);
  return status;
}

/* clang-format off */
TENON_ITEMS(core_dnn_conv_weight,
  TENON_EXTEND("core::conv_weight_backward", TENON_KERNEL("cpu f32", conv_weight)))
/* clang-format on */
