/* conv and conv_transpose by oneDNN in f32 (f16 and bf16 are converted), in channels-last memory.
 * Constant weights are packed once; bias, residual and activation are fused. The host calls prepare
 * when it compiles a graph, and the kernels from any thread. Calls that oneDNN does not support
 * well go to ../conv.c.
 * Invariant: with packed weights, w is never read again. */
#include "../conv_im2col.h"
#include "../dense.h"
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
  int64_t shape[DNN_RANK];
  int64_t strides[DNN_RANK];
  dnnl_memory_desc_t packed_md;
  void *packed;
} plan_t;

/* What one call, or prepare, asks oneDNN for. */
typedef struct want_t {
  tenon_tensor_t *in[4];
  /* The result in f32, like x, w, bias and residual in `in`. */
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

static dnn_job_t *make_convolution_job(const dnn_key_t *key, const want_t *want) {
  const plan_t *plan = want->plan;
  int32_t rank = want->window.rank + 2;
  dnn_job_t *job = dnn_job_create(key);
  dnnl_primitive_attr_t attributes = 0;
  dnnl_primitive_desc_t desc = 0;
  dnnl_memory_desc_t x = last_md(rank, want->x);
  dnnl_memory_desc_t out = last_md(rank, want->out);
  dnnl_memory_desc_t any = weights_md(want, 1);
  int64_t one = 1;
  dnnl_memory_desc_t bias = want->bias ? dnn_strided(1, &want->filters, &one) : 0;
  int good = job && x && out && any && (bias || !want->bias) &&
             dnn_attributes(&attributes, want->residual ? out : 0, want->activation, want->alpha,
                            want->beta);
  if (good) desc = describe_convolution(want, x, any, bias, out, attributes);
  if (desc && !plan && dnn_is_reference(desc)) {
    dnnl_primitive_desc_destroy(desc);
    desc = 0;
  }
  if (desc && plan &&
      !dnnl_memory_desc_equal(dnn_query(desc, dnnl_query_weights_md), plan->packed_md)) {
    /* These extents prefer another packing: repack for them or, if memory is short, use the plan's
     * packing. */
    job->weights = dnn_pack(plan->packed_md, plan->packed, dnn_query(desc, dnnl_query_weights_md));
    if (!job->weights) {
      dnnl_primitive_desc_destroy(desc);
      desc = describe_convolution(want, x, plan->packed_md, bias, out, attributes);
    }
  }
  if (desc) {
    dnn_job_arg(job, DNNL_ARG_SRC, x);
    dnn_job_arg(job, DNNL_ARG_WEIGHTS, dnn_query(desc, dnnl_query_weights_md));
    dnn_job_arg(job, DNNL_ARG_DST, out);
    if (bias) dnn_job_arg(job, DNNL_ARG_BIAS, bias);
    if (want->residual) dnn_job_arg(job, DNN_ADDED, out);
    good = dnn_job_finish(job, desc);
    if (good && !plan) {
      dnnl_memory_desc_t given = weights_md(want, 0);
      int right = given && dnnl_memory_desc_equal(given, job->md[1]);
      if (!right) job->pack = dnn_reorder_create(key, given, job->md[1]);
      good = right || job->pack;
      if (given) dnnl_memory_desc_destroy(given);
    }
    if (!good) {
      dnn_job_destroy(job);
      job = 0;
    }
  }
  if (attributes) dnnl_primitive_attr_destroy(attributes);
  dnnl_memory_desc_t mds[4] = {x, out, any, bias};
  for (int i = 0; i < 4; i++)
    if (mds[i]) dnnl_memory_desc_destroy(mds[i]);
  return job;
}

/* running */

static tenon_status_t run_convolution_job(tenon_call_t *call, dnn_cache_t *cache,
                                          const want_t *want, dnn_job_t *job) {
  tenon_tensor_t *out = want->to;
  tenon_tensor_t *bias = want->bias ? core_dense(call, want->in[2], out->dtype) : 0;
  const plan_t *plan = want->plan;
  void *x = dnn_to_last(call, cache, want->in[0]);
  void *residual = 0;
  void *to = dnn_is_last(out)
                 ? out->data
                 : call->host->allocate(call, (uint64_t)tenon_count(out) * sizeof(float));
  if (want->residual) residual = dnn_to_last(call, cache, want->in[3]);
  if (!x || !to || (want->bias && !bias) || (want->residual && !residual)) return TENON_MEMORY;
  void *weights = plan ? plan->packed : want->w->data;
  if (job->weights) weights = job->weights;
  if (job->pack) {
    void *packed = call->host->allocate(call, dnnl_memory_desc_get_size(job->md[1]));
    void *both[2] = {weights, packed};
    if (!packed) return TENON_MEMORY;
    TENON_TRY(dnn_run(call, job->pack, both));
    weights = packed;
  }
  void *data[5] = {x, weights, to};
  int count = 3;
  if (bias) data[count++] = bias->data;
  if (residual) data[count] = residual;
  TENON_TRY(dnn_run(call, job, data));
  TENON_TRY(dnn_from_last(call, cache, to, out));
  return core_settle(call, call->outputs[0], out);
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

static tenon_status_t convolve_by_onednn(tenon_call_t *call, want_t *want) {
  plan_t *plan = (plan_t *)call->plan;
  dnn_cache_t *cache = plan ? &plan->cache : &dnn_eager;
  const tenon_dtype_t f32 = tenon_dtype(TENON_F32);
  const window_t *window = &want->window;
  dnn_key_t key;
  if (tenon_count(call->outputs[0]) == 0) return TENON_OK;
  if (!is_usual(window, want->transposed) || !dnn_engine() || tenon_count(call->inputs[0]) == 0)
    return convolve_without_onednn(call, want);
  for (int i = 0; i < (want->transposed ? 3 : 4); i++) {
    if (!call->inputs[i] || (i == 1 && plan)) continue;
    int turns = is_backwards(call->inputs[i]);
    want->in[i] =
        turns ? core_dense(call, call->inputs[i], f32) : core_as(call, call->inputs[i], f32);
    if (!want->in[i]) return TENON_MEMORY;
  }
  int turns = is_backwards(call->outputs[0]);
  want->to = turns ? core_place_dense(call, call->outputs[0], f32)
                   : core_place(call, call->outputs[0], f32);
  if (!want->to) return TENON_MEMORY;
  if (!plan) want->w = want->in[1];
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
    return job->primitive ? run_convolution_job(call, cache, want, job)
                          : convolve_without_onednn(call, want);
  job = make_convolution_job(&key, want);
  if (!job) return tenon_fail(call, TENON_MEMORY, "out of memory for a oneDNN primitive");
  int kept = (job->primitive || !plan) && dnn_publish(cache, job);
  tenon_status_t status = job->primitive ? run_convolution_job(call, cache, want, job)
                                         : convolve_without_onednn(call, want);
  if (!kept) dnn_job_destroy(job);
  return status;
}

static tenon_status_t dnn_conv(tenon_call_t *call) {
  const tenon_value_t *attrs = call->attrs;
  const plan_t *plan = (const plan_t *)call->plan;
  window_args_t args = window_args(attrs, 0);
  want_t want = {.plan = plan,
                 .w = plan ? &plan->w : call->inputs[1],
                 .group = attrs[CONV_GROUP].as.i,
                 .residual = call->inputs[3] != 0,
                 .activation = attrs[CONV_ACTIVATION].as.i,
                 .alpha = attrs[CONV_ALPHA].as.f,
                 .beta = attrs[CONV_BETA].as.f};
  const tenon_tensor_t *x = call->inputs[0];
  if (x->ndim > 2 + 3) return convolve_without_onednn(call, &want);
  core_window_set(&want.window, &args, x->ndim - 2, x->shape + 2, want.w->shape + 2,
                  call->outputs[0]->shape + 2);
  return convolve_by_onednn(call, &want);
}

static tenon_status_t dnn_conv_transpose(tenon_call_t *call) {
  const plan_t *plan = (const plan_t *)call->plan;
  want_t want = {.plan = plan,
                 .w = plan ? &plan->w : call->inputs[1],
                 .group = call->attrs[CONV_GROUP].as.i,
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
  dnn_free(plan->packed);
  free(plan);
}

/* Packs want->w in the layout that oneDNN prefers; plan->packed stays NULL if oneDNN has no good
 * implementation. */
static void pack_weights(plan_t *plan, const want_t *want, int32_t rank) {
  dnnl_memory_desc_t x_md = last_md(rank + 2, want->x);
  dnnl_memory_desc_t out_md = last_md(rank + 2, want->out);
  dnnl_memory_desc_t any = weights_md(want, 1);
  dnnl_memory_desc_t given = weights_md(want, 0);
  dnnl_primitive_desc_t desc = 0;
  if (x_md && out_md && any && given && is_usual(&want->window, want->transposed))
    desc = describe_convolution(want, x_md, any, 0, out_md, 0);
  if (desc && !dnn_is_reference(desc) &&
      dnnl_memory_desc_clone(&plan->packed_md, dnn_query(desc, dnnl_query_weights_md)) ==
          dnnl_success)
    plan->packed = dnn_pack(given, want->w->data, plan->packed_md);
  if (desc) dnnl_primitive_desc_destroy(desc);
  dnnl_memory_desc_t mds[4] = {x_md, out_md, any, given};
  for (int i = 0; i < 4; i++)
    if (mds[i]) dnnl_memory_desc_destroy(mds[i]);
}

/* Packs constant weights for the known extents, or for usual ones. Makes no plan if oneDNN has no
 * good implementation. */
static tenon_status_t prepare_convolution(tenon_node_t *node, int transposed) {
  enum { USUAL = 56 };
  static const tenon_value_t no_pads = {TENON_KIND_NONE, 0, {0}};
  const tenon_meta_t *x = node->inputs[0];
  const tenon_tensor_t *w = node->inputs[1]->value;
  window_args_t args = window_args(node->attrs, 0);
  int32_t rank = x->ndim - 2;
  if (!(node->constant >> 1 & 1) || !w || !core_is(w, TENON_F32) || tenon_count(w) == 0)
    return TENON_OK;
  if (rank < 1 || rank > 3 || !dnn_engine()) return TENON_OK;
  plan_t *plan = (plan_t *)calloc(1, sizeof *plan);
  if (!plan) return tenon_fail(node, TENON_MEMORY, "out of memory for the plan of a convolution");
  plan->w = *w;
  plan->w.data = 0;
  plan->w.shape = plan->shape;
  plan->w.strides = plan->strides;
  memcpy(plan->shape, w->shape, (size_t)w->ndim * sizeof *w->shape);
  memcpy(plan->strides, w->strides, (size_t)w->ndim * sizeof *w->strides);
  want_t want = {.w = w, .group = node->attrs[CONV_GROUP].as.i, .transposed = transposed};
  want.filters = transposed ? w->shape[1] * want.group : w->shape[0];
  want.channels = transposed ? w->shape[0] : w->shape[1] * want.group;
  want.x[0] = want.out[0] = tenon_is_known(x->dims[0]) ? x->dims[0].value : 1;
  want.x[1] = want.channels;
  want.out[1] = want.filters;
  for (int32_t i = 0; i < rank; i++) {
    int64_t span = (w->shape[2 + i] - 1) * list_at(args.dilations, i, 1) + 1;
    want.x[2 + i] = span > USUAL ? span : USUAL;
    if (tenon_is_known(x->dims[2 + i])) want.x[2 + i] = x->dims[2 + i].value;
  }
  if (transposed) { /* the full result */
    for (int32_t i = 0; i < rank; i++)
      want.out[2 + i] = (want.x[2 + i] - 1) * list_at(args.strides, i, 1) +
                        (w->shape[2 + i] - 1) * list_at(args.dilations, i, 1) + 1;
    args.pads = &no_pads;
    args.auto_pad = WINDOW_EXPLICIT;
  } else {
    core_window_out(&args, rank, want.x + 2, w->shape + 2, want.out + 2);
  }
  core_window_set(&want.window, &args, rank, want.x + 2, w->shape + 2, want.out + 2);
  pack_weights(plan, &want, rank);
  if (!plan->packed) { /* without a plan, the call packs for itself */
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
