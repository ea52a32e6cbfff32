/* An implementation of the part of cuDNN that devices/cuda uses, on the CPU. It computes f32 and
 * f64 from descriptors as the manual says, and records a complaint about anything that the manual
 * does not allow. Tests decide what it proposes and refuses, see fake.h. */
#include "fake.h"
#include "cuda/convolution.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DECLARE(result, name, parameters) TENON_EXPORT result cudnn##name parameters;
DNN_FUNCTIONS(DECLARE)
TENON_EXPORT fake_cudnn_t *fake_cudnn(void);

struct cudnnContext {
  void *stream;
};
struct cudnnTensorStruct {
  cu_enum_t type;
  int rank;
  int dims[CU_RANK];
  int strides[CU_RANK];
};
struct cudnnFilterStruct {
  cu_enum_t type;
  cu_enum_t format;
  int rank;
  int dims[CU_RANK];
};
struct cudnnConvolutionStruct {
  int rank;
  int pad[3];
  int stride[3];
  int dilation[3];
  int group;
  cu_enum_t compute;
  cu_enum_t math;
};
struct cudnnActivationStruct {
  cu_enum_t mode;
  cu_enum_t nans;
  double coefficient;
  double swish;
};

static fake_cudnn_t fake;
fake_cudnn_t *fake_cudnn(void) { return &fake; }

static cu_result_t complain(const char *rule) {
  if (!fake.complaint) fake.complaint = rule;
  return FAKE_BAD_PARAM;
}
#define RULE(condition)                                                                            \
  if (!(condition)) return complain(#condition)

size_t cudnnGetVersion(void) { return 92800; }
const char *cudnnGetErrorString(cu_result_t status) {
  return status / 1000 == 3   ? "CUDNN_STATUS_NOT_SUPPORTED"
         : status / 1000 == 5 ? "CUDNN_STATUS_EXECUTION_FAILED"
                              : "?";
}

static void *make(size_t size) {
  fake.live++;
  fake.creates++;
  return calloc(1, size);
}
static cu_result_t destroy(void *thing) {
  RULE(thing != NULL);
  fake.live--;
  free(thing);
  return 0;
}
#define THING(Name, type)                                                                          \
  cu_result_t cudnnCreate##Name(type *out) { return (*out = make(sizeof **out)) ? 0 : 4003; }      \
  cu_result_t cudnnDestroy##Name(type thing) { return destroy(thing); }
THING(TensorDescriptor, dnn_tensor_t)
THING(FilterDescriptor, dnn_filter_t)
THING(ConvolutionDescriptor, dnn_convolution_t)
THING(ActivationDescriptor, dnn_activation_t)

cu_result_t cudnnCreate(dnn_handle_t *out) {
  if (fake.create_status) return fake.create_status;
  return (*out = make(sizeof **out)) ? 0 : 4003;
}
cu_result_t cudnnDestroy(dnn_handle_t handle) { return destroy(handle); }
cu_result_t cudnnSetStream(dnn_handle_t handle, cu_native_stream_t stream) {
  handle->stream = fake.last_stream = stream;
  return 0;
}

/* descriptors */

cu_result_t cudnnSetTensorNdDescriptor(dnn_tensor_t t, cu_enum_t type, int rank, const int *dims,
                                       const int *strides) {
  fake.sets++;
  RULE(rank == 4 || rank == 5);
  t->type = type;
  t->rank = rank;
  for (int i = 0; i < rank; i++) {
    RULE(dims[i] >= 1 && strides[i] >= 1);
    t->dims[i] = dims[i];
    t->strides[i] = strides[i];
  }
  return 0;
}
cu_result_t cudnnSetFilterNdDescriptor(dnn_filter_t f, cu_enum_t type, cu_enum_t format, int rank,
                                       const int *dims) {
  fake.sets++;
  RULE(rank == 4 || rank == 5);
  f->type = type;
  f->format = format;
  f->rank = rank;
  for (int i = 0; i < rank; i++) {
    RULE(dims[i] >= 1);
    f->dims[i] = dims[i];
  }
  return 0;
}
cu_result_t cudnnSetConvolutionNdDescriptor(dnn_convolution_t c, int rank, const int *pad,
                                            const int *stride, const int *dilation, cu_enum_t mode,
                                            cu_enum_t compute) {
  fake.sets++;
  RULE(rank == 2 || rank == 3);
  RULE(mode == DNN_CROSS_CORRELATION);
  c->rank = rank;
  c->compute = compute;
  c->group = 1;
  for (int i = 0; i < rank; i++) {
    RULE(pad[i] >= 0 && stride[i] >= 1 && dilation[i] >= 1);
    c->pad[i] = pad[i];
    c->stride[i] = stride[i];
    c->dilation[i] = dilation[i];
  }
  return 0;
}
cu_result_t cudnnSetConvolutionMathType(dnn_convolution_t c, cu_enum_t math) {
  c->math = math;
  return 0;
}
cu_result_t cudnnSetConvolutionGroupCount(dnn_convolution_t c, int group) {
  c->group = group;
  return 0;
}
cu_result_t cudnnSetActivationDescriptor(dnn_activation_t a, cu_enum_t mode, cu_enum_t nans,
                                         double coefficient) {
  a->mode = mode;
  a->nans = nans;
  a->coefficient = coefficient;
  return 0;
}
cu_result_t cudnnSetActivationDescriptorSwishBeta(dnn_activation_t a, double beta) {
  a->swish = beta;
  return 0;
}

/* choice of algorithms */

static bool is_packed(dnn_tensor_t t, bool is_last) {
  int expected = 1;
  for (int k = 0; k < t->rank; k++) {
    int i = !is_last ? t->rank - 1 - k : k == 0 ? 1 : k == t->rank - 1 ? 0 : t->rank - k;
    if (t->dims[i] > 1 && t->strides[i] != expected) return false;
    expected *= t->dims[i];
  }
  return true;
}

static cu_result_t check(dnn_tensor_t x, dnn_filter_t w, dnn_convolution_t c, dnn_tensor_t y) {
  RULE(x->rank == w->rank && x->rank == y->rank && c->rank == x->rank - 2);
  RULE(x->type == w->type && x->type == y->type);
  RULE(c->compute == (x->type == DNN_DATA_DOUBLE ? DNN_DATA_DOUBLE : DNN_DATA_FLOAT));
  RULE(x->dims[0] == y->dims[0] && w->dims[0] == y->dims[1] && w->dims[1] * c->group == x->dims[1]);
  RULE(w->dims[0] % c->group == 0);
  for (int i = 0; i < c->rank; i++) {
    int span = (w->dims[2 + i] - 1) * c->dilation[i] + 1;
    RULE(y->dims[2 + i] == 1 + (x->dims[2 + i] + 2 * c->pad[i] - span) / c->stride[i]);
  }
  if (w->format == DNN_TENSOR_NHWC) {
    RULE(is_packed(x, true) && is_packed(y, true));
    RULE(x->type != DNN_DATA_DOUBLE);
  }
  RULE(x->type != DNN_DATA_FLOAT || c->math == DNN_FMA_MATH); /* our own rule: no TF32 */
  return 0;
}

cu_result_t cudnnGetConvolutionForwardAlgorithm_v7(dnn_handle_t handle, dnn_tensor_t x,
                                                   dnn_filter_t w, dnn_convolution_t c,
                                                   dnn_tensor_t y, int room, int *out_count,
                                                   struct cudnnConvolutionFwdAlgoPerfStruct *out) {
  (void)handle;
  fake.heuristics++;
  cu_result_t error = check(x, w, c, y);
  *out_count = fake.proposed_count < room ? fake.proposed_count : room;
  for (int i = 0; i < *out_count; i++) {
    dnn_found_t found = {.algo = (cu_enum_t)fake.proposed[i],
                         .status = fake.proposed_status[i],
                         .mathType = DNN_DEFAULT_MATH};
    memcpy((char *)out + (size_t)i * sizeof found, &found, sizeof found);
  }
  return error;
}

cu_result_t cudnnGetConvolutionForwardWorkspaceSize(dnn_handle_t handle, dnn_tensor_t x,
                                                    dnn_filter_t w, dnn_convolution_t c,
                                                    dnn_tensor_t y, cu_enum_t algorithm,
                                                    size_t *out_size) {
  (void)handle;
  *out_size = fake.workspaces[algorithm];
  return check(x, w, c, y);
}

/* computing */

static double get(cu_enum_t type, const void *data, int64_t at) {
  return type == DNN_DATA_DOUBLE ? ((const double *)data)[at] : (double)((const float *)data)[at];
}
static void put(cu_enum_t type, void *data, int64_t at, double value) {
  if (type == DNN_DATA_DOUBLE)
    ((double *)data)[at] = value;
  else
    ((float *)data)[at] = (float)value;
}
static int64_t count_of(dnn_tensor_t t) {
  int64_t count = 1;
  for (int i = 0; i < t->rank; i++)
    count *= t->dims[i];
  return count;
}
static void place_of(dnn_tensor_t t, int64_t number, int *out) {
  for (int i = t->rank - 1; i >= 0; i--) {
    out[i] = (int)(number % t->dims[i]);
    number /= t->dims[i];
  }
}
/* An extent of 1 is repeated. */
static int64_t offset_of(dnn_tensor_t t, const int *place) {
  int64_t at = 0;
  for (int i = 0; i < t->rank; i++)
    at += t->dims[i] == 1 ? 0 : (int64_t)place[i] * t->strides[i];
  return at;
}
static int64_t filter_at(dnn_filter_t w, int filter, int channel, const int *tap) {
  int64_t at = filter;
  if (w->format == DNN_TENSOR_NCHW) at = at * w->dims[1] + channel;
  for (int i = 2; i < w->rank; i++)
    at = at * w->dims[i] + tap[i - 2];
  return w->format == DNN_TENSOR_NCHW ? at : at * w->dims[1] + channel;
}

static double window_sum(dnn_tensor_t x, const void *x_data, dnn_filter_t w, const void *w_data,
                         dnn_convolution_t c, const int *place) {
  int taps = 1;
  int filters = w->dims[0] / c->group;
  int group = place[1] / filters;
  double sum = 0;
  for (int i = 2; i < w->rank; i++)
    taps *= w->dims[i];
  for (int channel = 0; channel < w->dims[1]; channel++)
    for (int t = 0; t < taps; t++) {
      int from[CU_RANK] = {place[0], group * w->dims[1] + channel};
      int tap[3];
      int rest = t;
      bool inside = true;
      for (int i = w->rank - 3; i >= 0; i--) {
        tap[i] = rest % w->dims[2 + i];
        rest /= w->dims[2 + i];
        from[2 + i] = place[2 + i] * c->stride[i] - c->pad[i] + tap[i] * c->dilation[i];
        inside = inside && from[2 + i] >= 0 && from[2 + i] < x->dims[2 + i];
      }
      if (inside)
        sum += get(x->type, x_data, offset_of(x, from)) *
               get(x->type, w_data, filter_at(w, place[1], channel, tap));
    }
  return sum;
}

static cu_result_t convolve(const void *alpha, dnn_tensor_t x, const void *x_data, dnn_filter_t w,
                            const void *w_data, dnn_convolution_t c, cu_enum_t algorithm,
                            void *workspace, size_t size, dnn_tensor_t y, void *y_data) {
  cu_result_t error = check(x, w, c, y);
  if (error) return error;
  RULE(get(x->type, alpha, 0) == 1);
  RULE((uintptr_t)x_data % 16 == 0 && (uintptr_t)w_data % 16 == 0 && (uintptr_t)y_data % 16 == 0);
  RULE(size >= fake.workspaces[algorithm] && (workspace || !size));
  fake.last_algorithm = (int)algorithm;
  if (fake.run_status[algorithm]) return fake.run_status[algorithm];
  if (workspace) memset(workspace, 0xff, size);
  for (int64_t n = 0; n < count_of(y); n++) {
    int place[CU_RANK];
    place_of(y, n, place);
    put(y->type, y_data, offset_of(y, place), window_sum(x, x_data, w, w_data, c, place));
  }
  return 0;
}

cu_result_t cudnnConvolutionForward(dnn_handle_t handle, const void *alpha, dnn_tensor_t x,
                                    const void *x_data, dnn_filter_t w, const void *w_data,
                                    dnn_convolution_t c, cu_enum_t algorithm, void *workspace,
                                    size_t size, const void *beta, dnn_tensor_t y, void *y_data) {
  (void)handle;
  fake.forwards++;
  RULE(get(y->type, beta, 0) == 0);
  return convolve(alpha, x, x_data, w, w_data, c, algorithm, workspace, size, y, y_data);
}

cu_result_t cudnnConvolutionBiasActivationForward(
    dnn_handle_t handle, const void *alpha1, dnn_tensor_t x, const void *x_data, dnn_filter_t w,
    const void *w_data, dnn_convolution_t c, cu_enum_t algorithm, void *workspace, size_t size,
    const void *alpha2, dnn_tensor_t z, const void *z_data, dnn_tensor_t bias,
    const void *bias_data, dnn_activation_t a, dnn_tensor_t y, void *y_data) {
  double share = get(y->type, alpha2, 0);
  (void)handle;
  fake.fused++;
  RULE(a->mode == DNN_ACTIVATION_IDENTITY &&
       algorithm == DNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
  RULE(a->nans == DNN_NOT_PROPAGATE_NAN);
  RULE(z && z_data && z->rank == y->rank && memcmp(z->strides, y->strides, sizeof z->strides) == 0);
  RULE(bias->dims[0] == 1 && bias->dims[1] == y->dims[1] && bias->strides[1] == 1);
  if (fake.fused_status) return fake.fused_status;
  cu_result_t error =
      convolve(alpha1, x, x_data, w, w_data, c, algorithm, workspace, size, y, y_data);
  for (int64_t n = 0; n < count_of(y) && !error; n++) {
    int place[CU_RANK];
    place_of(y, n, place);
    int64_t at = offset_of(y, place);
    double value = get(y->type, y_data, at) + get(y->type, bias_data, offset_of(bias, place));
    put(y->type, y_data, at, share != 0 ? value + share * get(y->type, z_data, at) : value);
  }
  return error;
}

cu_result_t cudnnAddTensor(dnn_handle_t handle, const void *alpha, dnn_tensor_t a,
                           const void *a_data, const void *beta, dnn_tensor_t y, void *y_data) {
  (void)handle;
  fake.adds++;
  RULE(get(y->type, alpha, 0) == 1 && get(y->type, beta, 0) == 1);
  for (int i = 0; i < y->rank; i++)
    RULE(a->rank == y->rank && (a->dims[i] == 1 || a->dims[i] == y->dims[i]));
  for (int64_t n = 0; n < count_of(y); n++) {
    int place[CU_RANK];
    place_of(y, n, place);
    int64_t at = offset_of(y, place);
    put(y->type, y_data, at, get(y->type, y_data, at) + get(y->type, a_data, offset_of(a, place)));
  }
  return 0;
}

cu_result_t cudnnTransformTensor(dnn_handle_t handle, const void *alpha, dnn_tensor_t x,
                                 const void *x_data, const void *beta, dnn_tensor_t y,
                                 void *y_data) {
  (void)handle;
  fake.transforms++;
  RULE(get(x->type, alpha, 0) == 1 && get(x->type, beta, 0) == 0);
  RULE(x->rank == y->rank && memcmp(x->dims, y->dims, sizeof x->dims) == 0 && x->type == y->type);
  for (int64_t n = 0; n < count_of(y); n++) {
    int place[CU_RANK];
    place_of(y, n, place);
    put(y->type, y_data, offset_of(y, place), get(x->type, x_data, offset_of(x, place)));
  }
  return 0;
}

cu_result_t cudnnActivationForward(dnn_handle_t handle, dnn_activation_t a, const void *alpha,
                                   dnn_tensor_t x, const void *x_data, const void *beta,
                                   dnn_tensor_t y, void *y_data) {
  (void)handle;
  (void)alpha;
  (void)beta;
  fake.activations++;
  RULE(x == y && x_data == y_data && a->nans == DNN_PROPAGATE_NAN);
  RULE(is_packed(y, false) || is_packed(y, true));
  for (int64_t n = 0; n < count_of(y); n++) {
    double v = get(y->type, y_data, n);
    double k = a->coefficient;
    switch (a->mode) {
    case DNN_ACTIVATION_RELU:
      v = v < 0 ? 0 : v;
      break;
    case DNN_ACTIVATION_CLIPPED_RELU:
      v = v < 0 ? 0 : v > k ? k : v;
      break;
    case DNN_ACTIVATION_ELU:
      v = v < 0 ? k * (exp(v) - 1) : v;
      break;
    case DNN_ACTIVATION_TANH:
      v = tanh(v);
      break;
    case DNN_ACTIVATION_SIGMOID:
      v = 1 / (1 + exp(-v));
      break;
    case DNN_ACTIVATION_SWISH:
      v = v / (1 + exp(-a->swish * v));
      break;
    default:
      return complain("a mode of activation that there is");
    }
    put(y->type, y_data, n, v);
  }
  return 0;
}
