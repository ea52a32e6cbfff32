/* The kernel for core::conv by cuDNN. A plan holds what cuDNN needs for one shape: descriptors, an
 * algorithm that its heuristics chose, and the size of the workspace. The first call with a shape
 * makes the plan, which is kept until the ordinal is closed.
 *
 * Invariant: a plan, and the handle with its stream, are only touched under the lock of the
 * ordinal. */
#include "dnn.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convolution.h"
#include "error.h"
#include "stream.h"

/* The table of plans grows with the number of shapes. A model has dozens, and several models may be
 * open, so no small limit would suffice. Only extents that never repeat make thousands: at
 * PLANS_MOST (about 10 MB) all plans are discarded. */
enum {
  BUCKETS = 256,
  PLANS_MOST = 4096,
};
/* each algorithm with and without tensor cores */
enum { FOUND_MOST = 2 * DNN_CONVOLUTION_FWD_ALGO_COUNT };
enum {
  ALIGNED = 256,
  WORKSPACE_LEAST = 256 << 20,
  ARCH_OF_BF16 = 80,
  VERSION_9 = 90000,
};

static dnn_api_t dnn;

typedef struct plan_t {
  struct plan_t *next;
  cu_shape_t shape;
  dnn_tensor_t tensors[CU_TENSORS];
  dnn_filter_t filter;
  dnn_convolution_t convolution;
  dnn_activation_t activation;
  struct {
    cu_enum_t algorithm;
    cu_enum_t math;
  } found[FOUND_MOST]; /* best first */
  int count;
  int at; /* index of the algorithm in use; at == count: cuDNN does not take the shape */
  bool adds;
  bool runs;         /* adds: one call also adds bias and residual; runs: the plan has run once */
  cu_result_t error; /* of the last algorithm that was tried */
  size_t workspace;
} plan_t;

typedef struct cu_dnn_t {
  dnn_handle_t handle; /* NULL: cuDNN is not installed or cannot be opened; see `why` */
  dnn_activation_t identity;
  pthread_mutex_t lock;
  int plan_count;
  plan_t *plans[BUCKETS];
  char why[1100];
} cu_dnn_t;

/* the library */

static bool open_library(tenon_on_t on, char *out_why, size_t size) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static int state; /* 1: loaded; -1: not available */
  static const char *const names[] = {"libcudnn.so.9", "libcudnn.so.8", NULL};
  static char why[1000];
  pthread_mutex_lock(&lock);
  if (!state) {
    void *library = cu_library_open(on, "cudnn", names, 0, why, sizeof why);
    state = library ? 1 : -1;
#define DNN_FIND_(result, name, parameters)                                                        \
  if (library && !(*(void **)&dnn.name = dlsym(library, "cudnn" #name))) {                         \
    state = -1;                                                                                    \
    snprintf(why, sizeof why, "libcudnn has no function cudnn" #name "; it is older than 8.2");    \
  }
    DNN_FUNCTIONS(DNN_FIND_)
  }
  bool there = state == 1;
  if (!there) snprintf(out_why, size, "%s", why);
  pthread_mutex_unlock(&lock);
  return there;
}

static void open_handle(tenon_on_t on, cu_dnn_t *with) {
  bool pushed;
  if (!open_library(on, with->why, sizeof with->why)) return;
  cu_result_t error = cu_enter(cu_device(on), &pushed);
  if (error) {
    snprintf(with->why, sizeof with->why, "%s", cu_error_name(error));
    return;
  }
  error = dnn.Create(&with->handle);
  if (!error) {
    error = dnn.CreateActivationDescriptor(&with->identity);
    if (!error)
      error = dnn.SetActivationDescriptor(with->identity, DNN_ACTIVATION_IDENTITY,
                                          DNN_NOT_PROPAGATE_NAN, 0);
    if (error) dnn.Destroy(with->handle);
  }
  if (error) {
    with->handle = NULL;
    snprintf(with->why, sizeof with->why, "it cannot be opened: %s", dnn.GetErrorString(error));
  }
  cu_leave(pushed);
}

/* Made by the first convolution, even if cuDNN is not available. NULL: no host memory. */
static cu_dnn_t *dnn_of(tenon_on_t on) {
  cu_device_t *device = cu_device(on);
  static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
  cu_dnn_t *found = atomic_load_explicit(&device->dnn, memory_order_acquire);
  if (__builtin_expect(found != NULL, 1)) return found;
  pthread_mutex_lock(&opening);
  if (!(found = device->dnn) && (found = (cu_dnn_t *)calloc(1, sizeof *found))) {
    pthread_mutex_init(&found->lock, NULL);
    open_handle(on, found);
    atomic_store_explicit(&device->dnn, found, memory_order_release);
  }
  pthread_mutex_unlock(&opening);
  return found;
}

/* plans */

static void plan_free(plan_t *plan) {
  for (int i = 0; i < CU_TENSORS; i++)
    if (plan->tensors[i]) dnn.DestroyTensorDescriptor(plan->tensors[i]);
  if (plan->filter) dnn.DestroyFilterDescriptor(plan->filter);
  if (plan->convolution) dnn.DestroyConvolutionDescriptor(plan->convolution);
  if (plan->activation) dnn.DestroyActivationDescriptor(plan->activation);
  free(plan);
}

static void plans_free(cu_dnn_t *with) {
  for (int i = 0; i < BUCKETS; i++)
    for (plan_t *plan; (plan = with->plans[i]);) {
      with->plans[i] = plan->next;
      plan_free(plan);
    }
  with->plan_count = 0;
}

void cu_dnn_close(cu_device_t *device) {
  cu_dnn_t *found = device->dnn;
  bool pushed;
  if (!found) return;
  plans_free(found);
  if (found->identity) dnn.DestroyActivationDescriptor(found->identity);
  if (found->handle && !cu_enter(device, &pushed)) {
    dnn.Destroy(found->handle);
    cu_leave(pushed);
  }
  pthread_mutex_destroy(&found->lock);
  free(found);
  device->dnn = NULL;
}

/* CUDNN_STATUS_NOT_SUPPORTED; cuDNN 9 has one code for each reason */
static bool is_refusal(cu_result_t error) {
  return dnn.GetVersion() >= VERSION_9 ? error / 1000 == 3 : error == 9;
}

static cu_result_t fill_descriptors(plan_t *plan) {
  const cu_shape_t *s = &plan->shape;
  const cu_layout_t *w = &s->tensors[CU_W];
  cu_enum_t compute = s->type == DNN_DATA_DOUBLE ? DNN_DATA_DOUBLE : DNN_DATA_FLOAT;
  cu_result_t error = 0;
  for (int i = 0; i < CU_TENSORS && !error; i++) {
    const cu_layout_t *t = &s->tensors[i];
    if (!t->rank || (i == CU_W && !s->tensors[CU_FROM_W].rank)) continue;
    error = dnn.CreateTensorDescriptor(&plan->tensors[i]);
    if (!error)
      error = dnn.SetTensorNdDescriptor(plan->tensors[i], s->type, t->rank, t->dims, t->strides);
  }
  if (!error) error = dnn.CreateFilterDescriptor(&plan->filter);
  if (!error) error = dnn.SetFilterNdDescriptor(plan->filter, s->type, s->format, w->rank, w->dims);
  if (!error) error = dnn.CreateConvolutionDescriptor(&plan->convolution);
  if (!error)
    error = dnn.SetConvolutionNdDescriptor(plan->convolution, s->rank, s->pad, s->stride,
                                           s->dilation, DNN_CROSS_CORRELATION, compute);
  if (!error) error = dnn.SetConvolutionGroupCount(plan->convolution, s->group);
  if (error || s->activation < 0) return error;
  error = dnn.CreateActivationDescriptor(&plan->activation);
  if (!error)
    error = dnn.SetActivationDescriptor(plan->activation, (cu_enum_t)s->activation,
                                        DNN_PROPAGATE_NAN, s->coefficient);
  if (!error && s->activation == DNN_ACTIVATION_SWISH)
    error = dnn.SetActivationDescriptorSwishBeta(plan->activation, 1);
  return error;
}

static cu_enum_t math_of(cu_enum_t type) { /* f32 is computed as f32, not as TF32 */
  if (type == DNN_DATA_FLOAT) return DNN_FMA_MATH;
  if (type == DNN_DATA_DOUBLE) return DNN_DEFAULT_MATH;
  return DNN_TENSOR_OP_MATH;
}

/* Asks the heuristics, which run nothing, for algorithms. FFT and those numbered after it
 * (Winograd) are transforms, whose accuracy differs from that of sums, and are not used. */
static cu_result_t choose(dnn_handle_t handle, plan_t *plan) {
  dnn_found_t found[FOUND_MOST];
  cu_enum_t math = math_of(plan->shape.type);
  int count = 0;
  cu_result_t error = dnn.SetConvolutionMathType(plan->convolution, math);
  if (!error)
    error = dnn.GetConvolutionForwardAlgorithm_v7(
        handle, plan->tensors[CU_X], plan->filter, plan->convolution, plan->tensors[CU_OUT],
        FOUND_MOST, &count, (struct cudnnConvolutionFwdAlgoPerfStruct *)found);
  for (int i = 0; i < count && !error; i++) {
    if (found[i].status || found[i].algo >= DNN_CONVOLUTION_FWD_ALGO_FFT) continue;
    plan->found[plan->count].algorithm = found[i].algo;
    plan->found[plan->count++].math = math == DNN_FMA_MATH ? math : found[i].mathType;
  }
  return error;
}

static size_t element_size(cu_enum_t type) {
  if (type == DNN_DATA_DOUBLE) return 8;
  if (type == DNN_DATA_FLOAT) return 4;
  return 2;
}

/* The largest workspace that is accepted: twice the size of x and `out` together, but at least
 * WORKSPACE_LEAST. */
static size_t workspace_most(const cu_shape_t *s) {
  const cu_layout_t *both[2] = {&s->tensors[CU_X], &s->tensors[CU_OUT]};
  size_t sum = 0;
  for (int i = 0; i < 2; i++) {
    size_t count = 2 * element_size(s->type);
    for (int k = 0; k < both[i]->rank; k++)
      count *= (size_t)both[i]->dims[k];
    sum += count;
  }
  return sum > WORKSPACE_LEAST ? sum : WORKSPACE_LEAST;
}

/* Prepares the first algorithm, starting at index `at`, for which a workspace can be had. */
static void settle(dnn_handle_t handle, plan_t *plan) {
  for (; plan->at < plan->count; plan->at++) {
    cu_enum_t algorithm = plan->found[plan->at].algorithm;
    cu_result_t error = dnn.SetConvolutionMathType(plan->convolution, plan->found[plan->at].math);
    plan->workspace = 0;
    if (!error)
      error = dnn.GetConvolutionForwardWorkspaceSize(handle, plan->tensors[CU_X], plan->filter,
                                                     plan->convolution, plan->tensors[CU_OUT],
                                                     algorithm, &plan->workspace);
    plan->adds =
        plan->tensors[CU_BIAS] && algorithm == DNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
    if (!error && plan->workspace <= workspace_most(&plan->shape)) return;
    if (error) plan->error = error;
  }
}

static uint64_t hash_of(const cu_shape_t *shape) {
  uint64_t hash = 0;
  uint64_t word;
  for (size_t i = 0; i + sizeof word <= sizeof *shape; i += sizeof word) {
    memcpy(&word, (const char *)shape + i, sizeof word);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}
typedef char whole_words_t[sizeof(cu_shape_t) % sizeof(uint64_t) == 0 ? 1 : -1];

/* Finds or makes the plan of a shape. Returns NULL on an error that does not depend on the shape
 * (0: no host memory). */
static plan_t *plan_of(cu_dnn_t *with, const cu_shape_t *shape, cu_result_t *out_error) {
  plan_t **bucket = &with->plans[hash_of(shape) % BUCKETS];
  plan_t *plan = *bucket;
  *out_error = 0;
  while (plan && memcmp(&plan->shape, shape, sizeof *shape) != 0)
    plan = plan->next;
  if (__builtin_expect(plan != NULL, 1)) return plan;
  if (with->plan_count == PLANS_MOST) plans_free(with);
  if (!(plan = (plan_t *)calloc(1, sizeof *plan))) return NULL;
  memcpy(&plan->shape, shape, sizeof *shape); /* including the padding */
  if (!(plan->error = fill_descriptors(plan))) plan->error = choose(with->handle, plan);
  if (plan->error && !is_refusal(plan->error)) {
    *out_error = plan->error;
    plan_free(plan);
    return NULL;
  }
  settle(with->handle, plan);
  plan->next = *bucket;
  *bucket = plan;
  with->plan_count++;
  return plan;
}

/* the kernel */

enum { COPIES = 3 }; /* copies of x, w and residual, in the order of CU_FROM_X */

static size_t round_up(size_t size) { return (size + ALIGNED - 1) / ALIGNED * ALIGNED; }

static size_t copy_size(const plan_t *plan, int copy) {
  const cu_layout_t *t = &plan->shape.tensors[CU_FROM_X + copy];
  size_t size = t->rank ? element_size(plan->shape.type) : 0;
  for (int i = 0; i < t->rank; i++)
    size *= (size_t)t->dims[i];
  return round_up(size);
}

/* Runs everything that the plan contains, into `out`. */
static cu_result_t convolve(const cu_dnn_t *with, const plan_t *p, const cu_convolution_t *c,
                            char *memory) {
  static const int layouts[COPIES] = {CU_X, CU_W, CU_OUT};
  const float one = 1;
  const float zero = 0;
  const double wide_one = 1;
  const double wide_zero = 0;
  const bool is_wide = p->shape.type == DNN_DATA_DOUBLE;
  const void *alpha = is_wide ? (const void *)&wide_one : &one;
  const void *beta = is_wide ? (const void *)&wide_zero : &zero;
  const void *from[COPIES] = {c->x, c->w, c->residual};
  dnn_tensor_t out = p->tensors[CU_OUT];
  cu_enum_t algorithm = p->found[p->at].algorithm;
  void *workspace = p->workspace ? memory : NULL;
  cu_result_t error = 0;
  memory += round_up(p->workspace);
  for (int i = 0; i < COPIES && !error; i++) {
    if (!p->tensors[CU_FROM_X + i]) continue;
    error = dnn.TransformTensor(with->handle, alpha, p->tensors[CU_FROM_X + i], from[i], beta,
                                p->tensors[layouts[i]], memory);
    from[i] = memory;
    memory += copy_size(p, i);
  }
  if (error) return error;
  if (p->adds) {
    /* Without a residual, `out` is passed in its place with the factor 0. */
    const void *factor = from[2] ? alpha : beta;
    const void *residual = from[2] ? from[2] : c->out;
    error = dnn.ConvolutionBiasActivationForward(
        with->handle, alpha, p->tensors[CU_X], from[0], p->filter, from[1], p->convolution,
        algorithm, workspace, p->workspace, factor, out, residual, p->tensors[CU_BIAS], c->bias,
        with->identity, out, c->out);
  } else {
    error = dnn.ConvolutionForward(with->handle, alpha, p->tensors[CU_X], from[0], p->filter,
                                   from[1], p->convolution, algorithm, workspace, p->workspace,
                                   beta, out, c->out);
    if (!error && c->bias)
      error = dnn.AddTensor(with->handle, alpha, p->tensors[CU_BIAS], c->bias, alpha, out, c->out);
    if (!error && from[2])
      error = dnn.AddTensor(with->handle, alpha, out, from[2], alpha, out, c->out);
  }
  if (!error && p->activation) /* the call above would turn NaN into 0 */
    error =
        dnn.ActivationForward(with->handle, p->activation, alpha, out, c->out, beta, out, c->out);
  return error;
}

static tenon_status_t fail(const tenon_call_t *call, cu_result_t error) {
  cu_device_t *device = cu_device(call->device);
  cu_result_t failure = cu_device_failure(device);
  if (failure) return cu_fail_lost(call->device, device, failure);
  return tenon_fail(call, TENON_UNKNOWN,
                    "cuda:%d: cuDNN %zu fails for this convolution: %s (%u); TENON_CUDA=cudnn=off "
                    "does without it",
                    device->ordinal, dnn.GetVersion(), dnn.GetErrorString(error), error);
}

/* Runs the plan. Until one algorithm has run, failing algorithms are skipped, since heuristics
 * guarantee nothing. */
static tenon_status_t run(tenon_call_t *call, cu_dnn_t *with, const cu_convolution_t *c,
                          cu_stream_t *stream) {
  cu_result_t error;
  plan_t *plan = plan_of(with, &c->shape, &error);
  if (!plan && !error) return tenon_fail(call, TENON_MEMORY, "no host memory for a plan of cuDNN");
  if (!plan) return fail(call, error);
  while (plan->at < plan->count) {
    size_t size = round_up(plan->workspace);
    char *memory = NULL;
    for (int i = 0; i < COPIES; i++)
      size += copy_size(plan, i);
    if (size && !(memory = (char *)call->host->allocate(call, size)))
      return TENON_MEMORY; /* the failure has been reported */
    error = dnn.SetStream(with->handle, stream->native);
    if (!error) error = convolve(with, plan, c, memory);
    if (!error) plan->runs = true;
    if (!error) return TENON_OK;
    if (plan->runs || cu_device_failure(stream->device)) return fail(call, error);
    plan->error = error;
    if (plan->adds)
      plan->adds = false; /* do the same in separate steps */
    else {
      plan->at++;
      settle(with->handle, plan);
    }
  }
  error = plan->error;
  if (error && !is_refusal(error)) { /* the next call tries again */
    plan->error = 0;
    plan->at = 0;
    settle(with->handle, plan);
    return fail(call, error);
  }
  return tenon_fail(call, TENON_UNIMPLEMENTED, "cuDNN does not take this shape");
}

tenon_status_t cu_conv_run(tenon_call_t *call) {
  tenon_on_t on = call->device;
  cu_convolution_t c;
  bool pushed;
  if (!tenon_count(call->outputs[0])) return TENON_OK;
  if (!cu_convolution_of(call, &c))
    return tenon_fail(call, TENON_UNIMPLEMENTED, "cuDNN does not take this convolution");
  cu_stream_t *stream = cu_stream(on, call->stream);
  if (c.shape.type == DNN_DATA_BFLOAT16 && stream->device->arch < ARCH_OF_BF16)
    return tenon_fail(call, TENON_UNIMPLEMENTED, "cuDNN has bf16 from sm_80 on, and this is sm_%d",
                      stream->device->arch);
  cu_dnn_t *with = dnn_of(on);
  if (!with) return tenon_fail(call, TENON_MEMORY, "no host memory for cuDNN");
  if (!with->handle)
    return tenon_fail(call, TENON_UNIMPLEMENTED, "cuDNN cannot be used: %s", with->why);
  TENON_TRY(cu_stream_check(on, stream));
  cu_result_t error = cu_enter(stream->device, &pushed);
  if (error) return cu_fail(on, error, "cannot convolve");
  pthread_mutex_lock(&with->lock);
  tenon_status_t status = run(call, with, &c, stream);
  pthread_mutex_unlock(&with->lock);
  cu_leave(pushed);
  return status;
}
