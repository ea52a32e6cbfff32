/* conv and conv_transpose by oneDNN in f32 (f16 and bf16 are converted), in channels-last memory.
 * Constant weights are packed once; bias, residual and activation are fused. The host calls prepare
 * when it compiles a graph, and the kernels from any thread. Calls that oneDNN does not support
 * well go to ../conv.c.
 * Invariant: with packed weights, w is never read again. */
#include "../conv_im2col.h"
#include "../conv_packed.h"
#include "../dense.h"
#include "../depthwise_rows.h"
#include "../packed.h"
#include "../simd/wide.h"
#include "dnn.h"
#include <stdlib.h>
#include <string.h>

enum {
  KIND_CONV = 10,
  KIND_CONV_TRANSPOSE,
};

typedef struct plan_t {
  dnn_cache_t cache;
  tenon_tensor_t w; /* shape and dtype of the packed weights */
  int64_t group;    /* fewer than the attribute says if groups were joined */
  int64_t shape[DNN_RANK];
  int64_t strides[DNN_RANK];
  dnnl_memory_desc_t packed_md;
  void *packed;
  int is_borrowed;    /* `packed` is an artifact's */
  conv_packed_t *own; /* NULL: oneDNN computes with `packed` */
} plan_t;

/* What one call, or prepare, asks oneDNN for. */
typedef struct want_t {
  tenon_tensor_t *in[4]; /* w in f32, the others as they are */
  tenon_tensor_t *to;
  const tenon_tensor_t *w; /* in[1], or the shape of the weights that the plan packed */
  int64_t group;
  int64_t channels;
  /* Channels of x and of the result. */
  int64_t filters;
  int64_t x[DNN_RANK];
  int64_t out[DNN_RANK];
  int64_t activation;
  double alpha;
  double beta;
  int transposed;
  int bias;
  int residual;
  window_t window;
  const plan_t *plan;
} want_t;

/* making a primitive */

static dnnl_memory_desc_t last_md(int32_t rank, const int64_t *shape) {
  int64_t strides[DNN_RANK];
  dnn_last_strides(rank, shape, strides);
  return dnn_strided(rank, shape, strides);
}

/* w with its axes in oneDNN's order: group, filters, channels, spatial. Has the strides of w, or
 * any layout. */
static dnnl_memory_desc_t weights_md(const want_t *want, int any) {
  const tenon_tensor_t *w = want->w;
  int64_t dims[DNN_RANK + 1], strides[DNN_RANK + 1];
  int first = want->transposed ? 1 : 0; /* axis of w that holds the filters */
  int32_t rank = 0;
  if (want->group > 1) {
    dims[rank] = want->group;
    strides[rank++] = w->shape[0] / want->group * w->strides[0];
  }
  for (int i = 0; i < 2; i++) {
    int axis = i == 0 ? first : 1 - first;
    dims[rank] = axis == 0 ? w->shape[0] / want->group : w->shape[1];
    strides[rank++] = w->strides[axis];
  }
  for (int32_t i = 2; i < w->ndim; i++) {
    dims[rank] = w->shape[i];
    strides[rank++] = w->strides[i];
  }
  return any ? dnn_any(rank, dims) : dnn_strided(rank, dims, strides);
}

static dnnl_primitive_desc_t describe_convolution(const want_t *want, const_dnnl_memory_desc_t x,
                                                  const_dnnl_memory_desc_t w,
                                                  const_dnnl_memory_desc_t bias,
                                                  const_dnnl_memory_desc_t out,
                                                  const_dnnl_primitive_attr_t attributes) {
  const window_t *window = &want->window;
  dnnl_primitive_desc_t desc = 0;
  int64_t dilation[DNNL_MAX_NDIMS] = {0};
  for (int32_t i = 0; i < window->rank; i++)
    dilation[i] = window->dilation[i] - 1;
  dnnl_status_t status =
      want->transposed
          ? dnnl_deconvolution_forward_primitive_desc_create(
                &desc, dnn_engine(), dnnl_forward_inference, dnnl_deconvolution_direct, x, w, bias,
                out, window->stride, dilation, window->before, window->after, attributes)
          : dnnl_convolution_forward_primitive_desc_create(
                &desc, dnn_engine(), dnnl_forward_inference, dnnl_convolution_direct, x, w, bias,
                out, window->stride, dilation, window->before, window->after, attributes);
  return status == dnnl_success ? desc : 0;
}

/* Microseconds that the convolution takes on one thread, about: for its operations, or for reading
 * x and writing the result. */
static double work_of(const want_t *want) {
  const double flops = 100e3; /* in a microsecond */
  const double elements = 2.5e3;
  double computing = 2.0 * (double)want->channels / (double)want->group / flops;
  double reading = 1.0;
  double writing = 1.0;
  for (int32_t i = 0; i < want->window.rank + 2; i++) {
    computing *= (double)want->out[i];
    writing *= (double)want->out[i];
    reading *= (double)want->x[i];
  }
  for (int32_t i = 0; i < want->window.rank; i++)
    computing *= (double)want->window.kernel[i];
  const double moving = (reading + writing) / elements;
  return computing > moving ? computing : moving;
}

/* A slice reads all weights, so it computes the more results the larger they are: oneDNN's
 * registers hold about 14 of a channel, and reading weights that exceed the cache of one processor
 * takes long. */
static int64_t least_results(const want_t *want) {
  enum { LEAST = 14, MOST = 56, BYTES = 16 << 10 };
  double bytes =
      sizeof(float) * (double)want->channels * (double)want->filters / (double)want->group;
  for (int32_t i = 0; i < want->window.rank; i++)
    bytes *= (double)want->window.kernel[i];
  const int64_t least = (int64_t)(bytes / BYTES);
  if (least < LEAST) return LEAST;
  return least < MOST ? least : MOST;
}

/* Joins the spatial axes of a convolution that looks at single pixels, so that it can be cut
 * between any two pixels. */
static void join_pixels(want_t *want) {
  window_t *window = &want->window;
  for (int32_t i = 0; i < window->rank; i++)
    if (window->kernel[i] != 1 || window->stride[i] != 1 || window->before[i] || window->after[i])
      return;
  for (int32_t i = 1; i < window->rank; i++) {
    want->x[2] *= want->x[2 + i];
    want->out[2] *= want->out[2 + i];
    window->out[0] *= window->out[i];
    want->x[2 + i] = 1;
    want->out[2 + i] = 1;
    window->out[i] = 1;
  }
}

/* Cuts the convolution into rows of images. Returns how many slices there are; 1: all in one. */
static int32_t cut_convolution(const want_t *want, dnn_rows_t *out_rows) {
  const dnn_rows_t whole = {
      0, want->x[0], 0, want->x[2], 0, want->out[2], want->window.before[0], want->window.after[0]};
  if (want->window.rank < 1 || want->transposed) return 1;
  return dnn_rows_cut(&want->window, &whole, work_of(want), least_results(want), out_rows);
}

static want_t slice_of(const want_t *want, const dnn_rows_t *rows) {
  want_t slice = *want;
  slice.x[0] = rows->images;
  slice.out[0] = rows->images;
  slice.x[2] = rows->in_count;
  slice.out[2] = rows->out_count;
  slice.window.before[0] = rows->before;
  slice.window.after[0] = rows->after;
  return slice;
}

/* Describes the convolution of these rows (NULL: the whole one) with weights in any layout; NULL:
 * oneDNN has no implementation. The caller destroys it. */
static dnnl_primitive_desc_t describe_preferred(const want_t *want, const dnn_rows_t *rows) {
  const want_t slice = rows ? slice_of(want, rows) : *want;
  const int32_t rank = want->window.rank + 2;
  dnnl_memory_desc_t x = last_md(rank, slice.x);
  dnnl_memory_desc_t out = last_md(rank, slice.out);
  dnnl_memory_desc_t any = weights_md(want, 1);
  dnnl_primitive_desc_t desc =
      x && out && any ? describe_convolution(&slice, x, any, 0, out, 0) : 0;
  dnnl_memory_desc_t mds[3] = {x, out, any};
  for (int i = 0; i < 3; i++)
    if (mds[i]) dnnl_memory_desc_destroy(mds[i]);
  return desc;
}

/* The layout of weights that oneDNN prefers for these rows (NULL: for the whole convolution);
 * NULL: it has no good implementation. The caller destroys it. */
static dnnl_memory_desc_t preferred_weights(const want_t *want, const dnn_rows_t *rows) {
  dnnl_memory_desc_t preferred = 0;
  dnnl_primitive_desc_t desc = describe_preferred(want, rows);
  if (desc && !dnn_is_reference(desc) &&
      dnnl_memory_desc_clone(&preferred, dnn_query(desc, dnnl_query_weights_md)) != dnnl_success)
    preferred = 0;
  if (desc) dnnl_primitive_desc_destroy(desc);
  return preferred;
}

/* Makes the primitive of the convolution, or of a slice of it, with weights in this layout. Only on
 * request it is oneDNN's reference implementation, which is slower by two orders of magnitude. */
static int make_primitive(dnn_job_t *job, const want_t *want, const_dnnl_memory_desc_t weights,
                          int may_be_reference) {
  int32_t rank = want->window.rank + 2;
  dnnl_primitive_attr_t attributes = 0;
  dnnl_primitive_desc_t desc = 0;
  int64_t one = 1;
  dnnl_memory_desc_t x = last_md(rank, want->x);
  dnnl_memory_desc_t out = last_md(rank, want->out);
  dnnl_memory_desc_t bias = want->bias ? dnn_strided(1, &want->filters, &one) : 0;
  if (x && out && (bias || !want->bias) &&
      dnn_attributes(&attributes, want->residual ? out : 0, want->activation, want->alpha,
                     want->beta))
    desc = describe_convolution(want, x, weights, bias, out, attributes);
  int good = desc != 0;
  if (good && dnn_is_reference(desc) && !may_be_reference) {
    dnnl_primitive_desc_destroy(desc);
    good = 0;
  }
  if (good) {
    dnn_job_arg(job, DNNL_ARG_SRC, x);
    dnn_job_arg(job, DNNL_ARG_WEIGHTS, weights);
    dnn_job_arg(job, DNNL_ARG_DST, out);
    if (bias) dnn_job_arg(job, DNNL_ARG_BIAS, bias);
    if (want->residual) dnn_job_arg(job, DNN_ADDED, out);
    job->after = dnn_after(want->activation, want->alpha, want->beta);
    good = dnn_job_finish(job, desc);
  }
  if (attributes) dnnl_primitive_attr_destroy(attributes);
  dnnl_memory_desc_t mds[3] = {x, out, bias};
  for (int i = 0; i < 3; i++)
    if (mds[i]) dnnl_memory_desc_destroy(mds[i]);
  return good;
}

/* Makes the slices. Returns 0 if oneDNN does not suit one of them, or memory is short. */
static int make_slices(dnn_job_t *job, const want_t *want, const_dnnl_memory_desc_t weights,
                       int32_t count, const dnn_rows_t *rows) {
  const dnn_key_t none = {0};
  const int64_t x_row = dnn_row_bytes(want->window.rank + 2, want->x);
  const int64_t out_row = dnn_row_bytes(want->window.rank + 2, want->out);
  for (int32_t i = 0; i < count; i++) {
    dnn_job_t *kind = 0;
    for (int32_t k = 0; k < i && !kind; k++)
      if (dnn_rows_same(&rows[k], &rows[i])) kind = job->slices[k].job;
    if (!kind) {
      const want_t slice = slice_of(want, &rows[i]);
      kind = dnn_job_create(&none);
      if (!kind) return 0;
      if (!make_primitive(kind, &slice, weights, 0) || !dnn_kind_add(job, kind)) {
        dnn_job_destroy(kind);
        return 0;
      }
    }
    dnn_slice_t *slice = dnn_slice_add(job, kind);
    if (!slice) return 0;
    slice->offset[0] = (rows[i].image * want->x[2] + rows[i].in) * x_row;
    slice->offset[2] = (rows[i].image * want->out[2] + rows[i].out) * out_row;
    if (want->residual) slice->offset[want->bias ? 4 : 3] = slice->offset[2];
  }
  return 1;
}

/* Forgets the slices of a job. */
static dnn_job_t *begin_again(dnn_job_t *job, const dnn_key_t *key) {
  dnn_job_t *fresh = dnn_job_create(key);
  if (fresh) {
    fresh->weights = job->weights;
    job->weights = 0;
  }
  dnn_job_destroy(job);
  return fresh;
}

/* Without a plan, a job converts the weights in each call unless they have its layout already.
 * Returns 0 if memory is short. */
static int make_pack(dnn_job_t *job, const dnn_key_t *key, const want_t *want,
                     const_dnnl_memory_desc_t weights) {
  dnnl_memory_desc_t given = weights_md(want, 0);
  int right = given && dnnl_memory_desc_equal(given, weights);
  if (given && !right) job->pack = dnn_reorder_create(key, given, weights);
  if (given) dnnl_memory_desc_destroy(given);
  return right || job->pack;
}

/* Returns the layout of the weights for these rows (NULL: for the whole convolution), or NULL; the
 * caller destroys it. The job gets a copy of the plan's weights if they have another layout. */
static dnnl_memory_desc_t fit_weights(dnn_job_t *job, const want_t *want, const dnn_rows_t *rows) {
  const plan_t *plan = want->plan;
  dnnl_memory_desc_t fitting = preferred_weights(want, rows);
  dnn_free(job->weights);
  job->weights = 0;
  if (!plan || (fitting && dnnl_memory_desc_equal(fitting, plan->packed_md))) return fitting;
  if (fitting) job->weights = dnn_pack(plan->packed_md, plan->packed, fitting);
  if (job->weights) return fitting;
  if (fitting) dnnl_memory_desc_destroy(fitting);
  fitting = 0;
  if (dnnl_memory_desc_clone(&fitting, plan->packed_md) != dnnl_success) return 0;
  return fitting;
}

/* Makes slices with the layout of weights that one of them prefers. NULL: that does not suit the
 * others; the job has no slices then. */
static dnnl_memory_desc_t try_slices(dnn_job_t **job, const dnn_key_t *key, const want_t *want,
                                     int32_t count, const dnn_rows_t *rows, int32_t preferring) {
  dnnl_memory_desc_t weights = fit_weights(*job, want, &rows[preferring]);
  if (weights && make_slices(*job, want, weights, count, rows)) return weights;
  if (weights) dnnl_memory_desc_destroy(weights);
  *job = begin_again(*job, key);
  return 0;
}

/* A job that runs nothing: oneDNN has no good implementation. NULL: memory is short. */
static dnn_job_t *make_convolution_job(const dnn_key_t *key, const want_t *given) {
  const plan_t *plan = given->plan;
  want_t joined = *given;
  const want_t *want = &joined;
  dnn_rows_t rows[DNN_SLICES];
  if (!given->transposed) join_pixels(&joined);
  int32_t count = cut_convolution(want, rows);
  dnn_job_t *job = dnn_job_create(key);
  dnnl_memory_desc_t weights = 0;
  /* The last slice, and often the first, differ from those in the middle. */
  if (job && count > 1) weights = try_slices(&job, key, want, count, rows, count / 2);
  if (job && count > 1 && !weights) weights = try_slices(&job, key, want, count, rows, 0);
  int good = job != 0;
  if (good && !weights) {
    weights = fit_weights(job, want, 0);
    if (weights) good = make_primitive(job, want, weights, plan != 0) || !plan;
  }
  if (good && weights && !plan && dnn_job_runs(job)) good = make_pack(job, key, want, weights);
  if (weights) dnnl_memory_desc_destroy(weights);
  if (good) return job;
  dnn_job_destroy(job);
  return 0;
}

/* running */

static tenon_status_t run_convolution_job(tenon_call_t *call, const want_t *want, dnn_job_t *job) {
  const tenon_tensor_t *out = want->to;
  tenon_tensor_t *bias = 0;
  if (want->bias) bias = core_dense(call, want->in[2], tenon_dtype(TENON_F32));
  const plan_t *plan = want->plan;
  void *x = dnn_to_last(call, want->in[0]);
  void *residual = 0;
  void *to = dnn_place_last(call, out);
  if (want->residual) residual = dnn_to_last(call, want->in[3]);
  if (!x || !to || (want->bias && !bias) || (want->residual && !residual)) return TENON_MEMORY;
  void *weights = plan ? plan->packed : want->w->data;
  if (job->weights) weights = job->weights;
  if (job->pack) {
    void *packed = call->host->allocate(call, dnnl_memory_desc_get_size(job->pack->md[1]));
    if (!packed) return TENON_MEMORY;
    TENON_TRY(dnn_reorder_run(call, job->pack, weights, packed));
    weights = packed;
  }
  void *data[5] = {x, weights, to};
  int count = 3;
  if (bias) data[count++] = bias->data;
  if (residual) data[count] = residual;
  TENON_TRY(dnn_run(call, job, data));
  return dnn_from_last(call, to, out);
}

static tenon_status_t convolve_without_onednn(tenon_call_t *call, const want_t *want) {
  if (want->plan)
    return tenon_fail(call, TENON_UNIMPLEMENTED,
                      "oneDNN has no convolution for the packed weights with these extents");
  return want->transposed ? core_conv_transpose_run(call) : core_conv_run(call);
}

/* Can oneDNN be asked at all? Its paddings must not be negative, except those by which
 * conv_transpose cuts its result. */
static int is_usual(const window_t *window, int transposed) {
  for (int32_t i = 0; i < window->rank; i++)
    if (window->before[i] < 0 || (window->after[i] < 0 && !transposed)) return 0;
  return window->rank <= 3;
}

/* Does t have a negative stride? oneDNN supports none. */
static int is_backwards(const tenon_tensor_t *t) {
  for (int32_t i = 0; i < t->ndim; i++)
    if (t->strides[i] < 0) return 1;
  return 0;
}

/* Gives x as f32 with adjacent channels: x itself or, in *out, a copy. NULL: memory is short. */
static const tenon_tensor_t *adjacent_channels(tenon_call_t *call, const tenon_tensor_t *x,
                                               int64_t *strides, tenon_tensor_t *out) {
  if (core_is(x, TENON_F32) && x->strides[1] == 1) return x;
  *out = *x;
  out->data = dnn_to_last(call, x);
  out->dtype = tenon_dtype(TENON_F32);
  out->strides = strides;
  dnn_last_strides(x->ndim, x->shape, strides);
  return out->data ? out : NULL;
}

/* The convolution by our own kernel, with weights that the plan packed for it. */
static tenon_status_t convolve_by_own(tenon_call_t *call, const want_t *want) {
  int64_t strides[3][DNN_RANK];
  tenon_tensor_t copies[2];
  tenon_tensor_t *out = call->outputs[0];
  tenon_tensor_t to = *out;
  if (tenon_count(out) == 0) return TENON_OK;
  conv_call_t own = {.packed = want->plan->own,
                     .window = &want->window,
                     .activation = want->activation,
                     .alpha = want->alpha,
                     .beta = want->beta,
                     .out = &to};
  own.x = adjacent_channels(call, call->inputs[0], strides[0], &copies[0]);
  if (!own.x) return TENON_MEMORY;
  if (call->inputs[2]) {
    own.bias = core_as(call, call->inputs[2], tenon_dtype(TENON_F32));
    if (!own.bias) return TENON_MEMORY;
  }
  if (call->inputs[3]) {
    own.residual = adjacent_channels(call, call->inputs[3], strides[1], &copies[1]);
    if (!own.residual) return TENON_MEMORY;
  }
  to.data = dnn_place_last(call, out);
  to.strides = strides[2];
  dnn_last_strides(out->ndim, out->shape, strides[2]);
  if (!to.data) return TENON_MEMORY;
  TENON_TRY(core_conv_packed_run(call, &own));
  return dnn_from_last(call, to.data, out);
}

static tenon_status_t convolve_by_onednn(tenon_call_t *call, want_t *want) {
  plan_t *plan = (plan_t *)call->plan;
  dnn_cache_t *cache = plan ? &plan->cache : &dnn_eager;
  const tenon_dtype_t f32 = tenon_dtype(TENON_F32);
  const window_t *window = &want->window;
  dnn_key_t key;
  if (tenon_count(call->outputs[0]) == 0) return TENON_OK;
  if (!is_usual(window, want->transposed) || !dnn_engine() || tenon_count(call->inputs[0]) == 0)
    return convolve_without_onednn(call, want);
  for (int i = 0; i < (want->transposed ? 3 : 4); i++)
    want->in[i] = call->inputs[i];
  want->to = call->outputs[0];
  if (!plan) {
    tenon_tensor_t *w = call->inputs[1];
    want->in[1] = is_backwards(w) ? core_dense(call, w, f32) : core_as(call, w, f32);
    if (!want->in[1]) return TENON_MEMORY;
    want->w = want->in[1];
  }
  const tenon_tensor_t *x = want->in[0];
  const tenon_tensor_t *out = want->to;
  want->channels = x->shape[1];
  want->filters = out->shape[1];
  want->bias = call->inputs[2] != 0;
  dnn_key_open(&key, want->transposed ? KIND_CONV_TRANSPOSE : KIND_CONV);
  dnn_key_add(&key, want->bias | want->residual << 1 | (int)want->activation << 2);
  dnn_key_add(&key, want->group);
  dnn_key_number(&key, want->alpha);
  dnn_key_number(&key, want->beta);
  for (int32_t i = 0; i < x->ndim; i++)
    dnn_key_add(&key, want->x[i] = x->shape[i]);
  for (int32_t i = 0; i < x->ndim; i++)
    dnn_key_add(&key, want->out[i] = out->shape[i]);
  for (int32_t i = 0; i < window->rank; i++) {
    dnn_key_add(&key, window->kernel[i]);
    dnn_key_add(&key, window->stride[i]);
    dnn_key_add(&key, window->dilation[i]);
    dnn_key_add(&key, window->before[i]);
    dnn_key_add(&key, window->after[i]);
  }
  for (int32_t i = 0; !plan && i < x->ndim; i++)
    dnn_key_add(&key, want->w->strides[i]);
  dnn_job_t *job = dnn_find(cache, &key);
  if (job)
    return dnn_job_runs(job) ? run_convolution_job(call, want, job)
                             : convolve_without_onednn(call, want);
  const int before = dnn_alone_begin();
  job = make_convolution_job(&key, want);
  dnn_alone_end(before);
  if (!job) return tenon_fail(call, TENON_MEMORY, "out of memory for a oneDNN primitive");
  int kept = (dnn_job_runs(job) || !plan) && dnn_publish(cache, job);
  tenon_status_t status = dnn_job_runs(job) ? run_convolution_job(call, want, job)
                                            : convolve_without_onednn(call, want);
  if (!kept) dnn_job_destroy(job);
  return status;
}

static tenon_status_t dnn_conv(tenon_call_t *call) {
  if (core_depthwise_suits(call)) return core_depthwise_run(call);
  const tenon_value_t *attrs = call->attrs;
  const plan_t *plan = (const plan_t *)call->plan;
  window_args_t args = window_args(attrs, 0);
  want_t want = {.plan = plan,
                 .w = plan ? &plan->w : call->inputs[1],
                 .group = plan ? plan->group : attrs[CONV_GROUP].as.i,
                 .residual = call->inputs[3] != 0,
                 .activation = attrs[CONV_ACTIVATION].as.i,
                 .alpha = attrs[CONV_ALPHA].as.f,
                 .beta = attrs[CONV_BETA].as.f};
  const tenon_tensor_t *x = call->inputs[0];
  if (x->ndim > 2 + 3) return convolve_without_onednn(call, &want);
  core_window_set(&want.window, &args, x->ndim - 2, x->shape + 2, want.w->shape + 2,
                  call->outputs[0]->shape + 2);
  return plan && plan->own ? convolve_by_own(call, &want) : convolve_by_onednn(call, &want);
}

static tenon_status_t dnn_conv_transpose(tenon_call_t *call) {
  const plan_t *plan = (const plan_t *)call->plan;
  want_t want = {.plan = plan,
                 .w = plan ? &plan->w : call->inputs[1],
                 .group = plan ? plan->group : call->attrs[CONV_GROUP].as.i,
                 .transposed = 1};
  if (call->inputs[0]->ndim > 2 + 3) return convolve_without_onednn(call, &want);
  core_conv_transpose_window(call->attrs, call->inputs[0], want.w, call->outputs[0], &want.window);
  return convolve_by_onednn(call, &want);
}

/* preparing */

static void plan_release(void *pointer) {
  plan_t *plan = (plan_t *)pointer;
  if (!plan) return;
  dnn_cache_clear(&plan->cache);
  if (plan->packed_md) dnnl_memory_desc_destroy(plan->packed_md);
  if (!plan->is_borrowed) dnn_free(plan->packed);
  core_conv_packed_release(plan->own);
  free(plan);
}

/* Packs want->w for our own kernel or in the layout that oneDNN prefers. plan->own and plan->packed
 * stay NULL if neither has a good implementation. */
static void pack_weights(plan_t *plan, want_t *want) {
  dnn_rows_t rows[DNN_SLICES];
  if (!want->transposed && core_conv_suits(want->w, want->group, want->activation)) {
    plan->own = core_conv_pack(want->w, want->group);
    if (plan->own) return;
  }
  if (!want->transposed) join_pixels(want);
  const int32_t count = cut_convolution(want, rows);
  if (!is_usual(&want->window, want->transposed)) return;
  const int before = dnn_alone_begin();
  dnnl_memory_desc_t given = weights_md(want, 0);
  plan->packed_md = preferred_weights(want, count > 1 ? &rows[count / 2] : 0);
  if (given && plan->packed_md) plan->packed = dnn_pack(given, want->w->data, plan->packed_md);
  if (given) dnnl_memory_desc_destroy(given);
  dnn_alone_end(before);
}

/* How many neighbouring groups to join into one, with zeros for the weights between them. oneDNN
 * multiplies patches for groups of fewer channels than a vector holds, which takes several times as
 * long as the additional operations. */
static int64_t groups_to_join(const want_t *given) {
  enum { LANES = 8, MOST = 4 };
  want_t want = *given;
  dnn_rows_t rows[DNN_SLICES];
  int64_t joined = 1;
  if (want.transposed || want.group == 1) return 1;
  while (
      joined < MOST && want.group % (2 * joined) == 0 &&
      (want.channels / want.group * joined < LANES || want.filters / want.group * joined < LANES))
    joined *= 2;
  if (joined == 1) return 1;
  join_pixels(&want);
  const int32_t count = cut_convolution(&want, rows);
  dnnl_primitive_desc_t desc = describe_preferred(&want, count > 1 ? &rows[count / 2] : 0);
  const int slow = desc && dnn_is_gemm(desc);
  if (desc) dnnl_primitive_desc_destroy(desc);
  return slow ? joined : 1;
}

/* Sets plan->w to the dense shape of w in f32, with groups joined. */
static void shape_weights(plan_t *plan, const tenon_tensor_t *w, int64_t joined) {
  int64_t stride = 1;
  memcpy(plan->shape, w->shape, (size_t)w->ndim * sizeof *w->shape);
  plan->shape[1] *= joined;
  for (int32_t i = w->ndim - 1; i >= 0; i--) {
    plan->strides[i] = stride;
    stride *= plan->shape[i];
  }
  plan->w.dtype = tenon_dtype(TENON_F32);
}

/* w, which is dense, in f32 with groups joined. NULL: memory is short. */
static float *copy_weights(const tenon_tensor_t *w, int64_t group, int64_t joined) {
  const int64_t size = w->dtype.bits / 8;
  const int64_t filters = w->shape[0] / group;
  const int64_t each = tenon_count(w) / w->shape[0]; /* weights of a filter */
  float *copy = (float *)calloc((size_t)(tenon_count(w) * joined), sizeof(float));
  for (int64_t f = 0; copy && f < w->shape[0]; f++) {
    const char *from = (const char *)w->data + f * each * size;
    float *to = copy + (f * joined + f / filters % joined) * each;
    if (is_narrow(w->dtype))
      widen_run(w->dtype, to, from, each);
    else
      memcpy(to, from, (size_t)(each * size));
  }
  return copy;
}

/* Fills in the extents that are known, or usual ones, for preparing. */
static void expect_extents(want_t *want, const tenon_meta_t *x, const tenon_tensor_t *w,
                           const tenon_value_t *attrs) {
  enum { USUAL = 56 };
  static const tenon_value_t no_pads = {TENON_KIND_NONE, 0, {0}};
  const int32_t rank = x->ndim - 2;
  window_args_t args = window_args(attrs, 0);
  want->filters = want->transposed ? w->shape[1] * want->group : w->shape[0];
  want->channels = want->transposed ? w->shape[0] : w->shape[1] * want->group;
  want->x[0] = want->out[0] = tenon_is_known(x->dims[0]) ? x->dims[0].value : 1;
  want->x[1] = want->channels;
  want->out[1] = want->filters;
  for (int32_t i = 0; i < rank; i++) {
    int64_t span = (w->shape[2 + i] - 1) * list_at(args.dilations, i, 1) + 1;
    want->x[2 + i] = span > USUAL ? span : USUAL;
    if (tenon_is_known(x->dims[2 + i])) want->x[2 + i] = x->dims[2 + i].value;
  }
  if (want->transposed) { /* the full result */
    for (int32_t i = 0; i < rank; i++)
      want->out[2 + i] = (want->x[2 + i] - 1) * list_at(args.strides, i, 1) +
                         (w->shape[2 + i] - 1) * list_at(args.dilations, i, 1) + 1;
    args.pads = &no_pads;
    args.auto_pad = WINDOW_EXPLICIT;
  } else {
    core_window_out(&args, rank, want->x + 2, w->shape + 2, want->out + 2);
  }
  core_window_set(&want->window, &args, rank, want->x + 2, w->shape + 2, want->out + 2);
}

/* Weights of artifacts */

/* In the notes of packed weights: the number of oneDNN's layout, or that our own kernel packed
 * them, and how many groups were joined. */
enum { LAYOUT, JOINED, OWN_LAYOUT = -1 };

/* What core_packed_take() asks about. */
typedef struct packed_want_t {
  plan_t *plan;
  want_t want;
  const tenon_tensor_t *w;
} packed_want_t;

/* Makes the plan one for the weights as they are. */
static void open_plan(plan_t *plan, const tenon_tensor_t *w) {
  plan->w = *w;
  plan->w.shape = plan->shape;
  plan->w.strides = plan->strides;
  memcpy(plan->shape, w->shape, (size_t)w->ndim * sizeof *w->shape);
  memcpy(plan->strides, w->strides, (size_t)w->ndim * sizeof *w->strides);
}

/* Sets the layout of an artifact. Returns the bytes of the weights; 0: it is not possible. */
static uint64_t set_packed_layout(void *context, const int64_t *notes) {
  packed_want_t *p = (packed_want_t *)context;
  want_t want = p->want;
  const int64_t joined = notes[JOINED];
  dnnl_dims_t *dims = 0;
  int rank = 0;
  if (joined != 1 && (want.transposed || !core_is_array(p->w))) return 0;
  if ((joined != 1 && joined != 2 && joined != 4) || want.group % joined) return 0;
  if (joined > 1 || is_narrow(p->w->dtype)) shape_weights(p->plan, p->w, joined);
  want.group /= joined;
  p->plan->group = want.group;
  if (notes[LAYOUT] == OWN_LAYOUT) {
    const int suits = !want.transposed && core_conv_suits(&p->plan->w, want.group, want.activation);
    return suits ? core_conv_packed_size(&p->plan->w, want.group) : 0;
  }
  dnnl_memory_desc_t any = weights_md(&want, 1);
  if (any && dnnl_memory_desc_query(any, dnnl_query_ndims_s32, &rank) == dnnl_success &&
      dnnl_memory_desc_query(any, dnnl_query_dims, &dims) == dnnl_success)
    p->plan->packed_md = dnn_layout_of(notes[LAYOUT], rank, *dims);
  if (any) dnnl_memory_desc_destroy(any);
  return p->plan->packed_md ? dnnl_memory_desc_get_size(p->plan->packed_md) : 0;
}

/* Takes what was packed when an artifact was written. Returns 0 if the caller has to pack. */
static int take_weights(plan_t *plan, const want_t *want, const tenon_tensor_t *w) {
  packed_want_t taken = {plan, *want, w};
  void *data = (void *)(uintptr_t)core_packed_take(set_packed_layout, &taken);
  if (data && plan->packed_md) {
    plan->packed = data;
    plan->is_borrowed = 1;
    return 1;
  }
  if (data) plan->own = core_conv_borrow(&plan->w, plan->group, data);
  if (plan->own) return 1;
  if (plan->packed_md) dnnl_memory_desc_destroy(plan->packed_md);
  plan->packed_md = 0;
  open_plan(plan, w);
  return 0;
}

static void keep_weights(const plan_t *plan, int64_t joined) {
  int64_t notes[PACKED_NOTES] = {OWN_LAYOUT, joined};
  if (plan->own) {
    core_packed_keep(core_conv_packed_data(plan->own), core_conv_packed_size(&plan->w, plan->group),
                     notes);
  } else if (plan->packed) {
    notes[LAYOUT] = dnn_layout_number(plan->packed_md);
    if (notes[LAYOUT])
      core_packed_keep(plan->packed, dnnl_memory_desc_get_size(plan->packed_md), notes);
  }
}

/* Packs the weights. Returns 0 if memory is short. */
static int pack_anew(plan_t *plan, want_t *want, const tenon_tensor_t *w) {
  const int64_t joined = core_is_array(w) ? groups_to_join(want) : 1;
  float *copy = NULL;
  if (joined > 1 || is_narrow(w->dtype)) {
    copy = copy_weights(w, want->group, joined);
    if (!copy) return 0;
    shape_weights(plan, w, joined);
    plan->w.data = copy;
    want->group /= joined;
  }
  plan->group = want->group;
  pack_weights(plan, want);
  keep_weights(plan, joined);
  free(copy);
  return 1;
}

/* Packs constant weights for the known extents, or for usual ones. Makes no plan if oneDNN has no
 * good implementation. */
static tenon_status_t prepare_convolution(tenon_node_t *node, int transposed) {
  const tenon_meta_t *x = node->inputs[0];
  const tenon_tensor_t *w = node->inputs[1]->value;
  int32_t rank = x->ndim - 2;
  if (!(node->constant >> 1 & 1) || !w || tenon_count(w) == 0) return TENON_OK;
  if (!core_is(w, TENON_F32) && !(core_is_array(w) && is_narrow(w->dtype))) return TENON_OK;
  if (rank < 1 || rank > 3 || !dnn_engine()) return TENON_OK;
  if (!transposed &&
      core_depthwise_keeps(x, node->inputs[1], node->inputs[3], node->attrs[CONV_GROUP].as.i))
    return TENON_OK;
  plan_t *plan = (plan_t *)calloc(1, sizeof *plan);
  if (!plan) return tenon_fail(node, TENON_MEMORY, "out of memory for the plan of a convolution");
  open_plan(plan, w);
  want_t want = {.w = &plan->w, .group = node->attrs[CONV_GROUP].as.i, .transposed = transposed};
  if (!transposed) want.activation = node->attrs[CONV_ACTIVATION].as.i;
  expect_extents(&want, x, w, node->attrs);
  if (!take_weights(plan, &want, w) && !pack_anew(plan, &want, w)) {
    plan_release(plan);
    return tenon_fail(node, TENON_MEMORY, "out of memory for the weights of a convolution");
  }
  plan->w.data = 0;
  if (!plan->packed && !plan->own) { /* without a plan, the call packs for itself */
    plan_release(plan);
    return TENON_OK;
  }
  node->plan = plan;
  node->consumed |= 1u << 1;
  return TENON_OK;
}

static tenon_status_t conv_prepare(tenon_node_t *node) { return prepare_convolution(node, 0); }
static tenon_status_t conv_transpose_prepare(tenon_node_t *node) {
  return prepare_convolution(node, 1);
}

/* clang-format off */
TENON_ITEMS(core_dnn_convolution,
  TENON_EXTEND("core::conv",
    TENON_PREPARE(conv_prepare, plan_release),
    TENON_KERNEL("cpu f32|f16|bf16 strided", dnn_conv)),
  TENON_EXTEND("core::conv_transpose",
    TENON_PREPARE(conv_transpose_prepare, plan_release),
    TENON_KERNEL("cpu f32|f16|bf16 strided", dnn_conv_transpose)))
/* clang-format on */
