/* A call of core::conv that devices/cuda runs with a cuDNN on the CPU (tests/libraries/cudnn), on a
 * device without a driver; and the results that the documentation of core::conv specifies. */
#ifndef TENON_TESTS_DEVICES_CUDNN_H
#define TENON_TESTS_DEVICES_CUDNN_H

#include "devices/host.h"

#include <dlfcn.h>
#include <math.h>

#include "cuda/convolution.h"
#include "cuda/dnn.h"
#include "cuda/stream.h"
#include "epilogue.h"
#include "fake.h"

enum {
  ROOM = 1 << 14,
  X = 0,
  W,
  BIAS,
  RESIDUAL,
  OUT,
  TENSORS,
};
enum {
  LAST,
  FIRST,
  APART,
  ODD,
  BACK,
  LAYOUTS,
}; /* APART: with gaps; ODD: at an unaligned address; BACK: backwards */

typedef struct case_t {
  const char *what;
  int32_t ndim;
  int64_t x[5];
  int64_t w[5];
  int64_t strides[3];
  int64_t dilations[3];
  int64_t pads[6]; /* 0: the default; pads: the values that automatic padding gives */
  int64_t auto_pad;
  int64_t group;
  int64_t activation;
  double alpha;
  double beta;
  int has_bias;
  int has_residual;
  uint32_t dtype; /* 0: f32 */
} case_t;

/* A call of core::conv. */
typedef struct example_t {
  tenon_tensor_t t[TENSORS];
  tenon_tensor_t *inputs[4];
  tenon_tensor_t *outputs[1];
  int64_t shapes[TENSORS][5];
  int64_t steps[TENSORS][5];
  int64_t strides[3];
  int64_t dilations[3];
  int64_t pads[6];
  tenon_value_t attrs[8];
  tenon_call_t call;
} example_t;

static _Alignas(256) char data[TENSORS][ROOM * 8];

/* a device without a driver */

static fake_cudnn_t *fake;
static cu_result_t lost;
static cu_device_t device = {
    .context = (cu_context_t)1, .service = (cu_native_stream_t)2, .arch = 80};
static cu_stream_t stream = {.device = &device, .native = (cu_native_stream_t)3};
static tenon_device_context_t on;

static inline cu_result_t current(cu_context_t *out) {
  *out = device.context;
  return 0;
}
static inline cu_result_t query(cu_native_stream_t s) {
  (void)s;
  return lost;
}

static _Thread_local _Alignas(256) char arena[1 << 18];
static _Thread_local uint64_t arena_used;
static uint64_t arena_most = sizeof arena;
static inline void *allocate(tenon_call_t *call, uint64_t size) {
  (void)call;
  if (arena_used + size > arena_most) {
    host_fail(call, TENON_MEMORY, "no memory of the device");
    return NULL;
  }
  void *found = arena + arena_used;
  arena_used += (size + 255) / 256 * 256;
  return found;
}
static const tenon_host_t services = {
    .size = sizeof services, .abi = TENON_ABI, .fail = host_fail, .allocate = allocate};

__attribute__((constructor)) static void open_fake(void) {
  static const char settings[] = "cudnn=" TEST_LIBRARIES "/libfake_cudnn.so";
  fake_cudnn_t *(*find)(void);
  void *library = dlopen(TEST_LIBRARIES "/libfake_cudnn.so", RTLD_NOW);
  *(void **)&find = library ? dlsym(library, "fake_cudnn") : NULL;
  if (find) fake = find();
  cu.CtxGetCurrent = current;
  cu.StreamQuery = query;
  on = host_context(0, NULL, settings);
  on.state = &device;
}

static inline void propose(int first, int second) {
  memset(fake, 0, offsetof(fake_cudnn_t, live));
  fake->complaint = NULL;
  lost = 0;
  arena_most = sizeof arena;
  fake->proposed[0] = first;
  fake->proposed[1] = second;
  fake->proposed_count = 2;
  for (int i = 0; i < 8; i++)
    fake->workspaces[i] = 1000 * (size_t)i;
}

/* calls */

static inline double at(const tenon_tensor_t *t, int64_t place) {
  return t->dtype.bits == 64 ? ((double *)t->data)[place] : (double)((float *)t->data)[place];
}

static inline void lay(example_t *e, int i, uint32_t dtype, int32_t ndim, const int64_t *shape,
                       int layout) {
  int64_t step = 1;
  char *first = data[i] + (layout == ODD ? 8 : 0);
  for (int32_t k = 0; k < ndim; k++) {
    int32_t axis = layout != LAST  ? ndim - 1 - k
                   : k == 0        ? (ndim > 1)
                   : k == ndim - 1 ? 0
                                   : ndim - k;
    e->shapes[i][axis] = shape[axis];
    e->steps[i][axis] = layout == BACK ? -step : step;
    step *= shape[axis] + (layout == APART);
  }
  if (layout == BACK) first += (step - 1) * (tenon_dtype(dtype).bits / 8);
  for (int64_t k = 0; k < ROOM; k++) {
    double value = (double)((k * 7 + i) % 11 - 5);
    if (tenon_dtype(dtype).bits == 64)
      ((double *)data[i])[k] = value;
    else
      ((float *)data[i])[k] = (float)value;
  }
  e->t[i] = (tenon_tensor_t){.data = first,
                             .device = {2, 0},
                             .ndim = ndim,
                             .dtype = tenon_dtype(dtype),
                             .shape = e->shapes[i],
                             .strides = e->steps[i]};
}

static inline tenon_value_t ints(const int64_t *list, uint32_t count) {
  return (tenon_value_t){.kind = TENON_KIND_INTS, .count = count, .as.ints = list};
}

static inline void set(example_t *e, const case_t *c, const int *layouts) {
  int32_t rank = c->ndim - 2;
  uint32_t dtype = c->dtype ? c->dtype : TENON_F32;
  int64_t out[5] = {c->x[0], c->w[0]};
  int64_t group = c->group ? c->group : 1;
  memset(e, 0, sizeof *e);
  for (int32_t i = 0; i < rank; i++) {
    e->strides[i] = c->strides[i] ? c->strides[i] : 1;
    e->dilations[i] = c->dilations[i] ? c->dilations[i] : 1;
    e->pads[i] = c->pads[i];
    e->pads[i + rank] = c->pads[i + rank];
    out[2 + i] =
        (c->x[2 + i] + c->pads[i] + c->pads[i + rank] - (c->w[2 + i] - 1) * e->dilations[i] - 1) /
            e->strides[i] +
        1;
  }
  lay(e, X, dtype, c->ndim, c->x, layouts[X]);
  lay(e, W, dtype, c->ndim, c->w, layouts[W]);
  lay(e, BIAS, dtype, 1, &c->w[0], layouts[BIAS]);
  lay(e, RESIDUAL, dtype, c->ndim, out, layouts[RESIDUAL]);
  lay(e, OUT, dtype, c->ndim, out, layouts[OUT]);
  e->attrs[0] = ints(e->strides, (uint32_t)rank);
  e->attrs[2] = ints(e->dilations, (uint32_t)rank);
  e->attrs[1] = ints(e->pads, c->auto_pad ? 0 : 2 * (uint32_t)rank);
  e->attrs[3].as.i = c->auto_pad;
  e->attrs[4].as.i = group;
  e->attrs[5].as.i = c->activation;
  e->attrs[6].as.f = c->alpha;
  e->attrs[7].as.f = c->beta;
  for (int i = 0; i < 4; i++)
    e->inputs[i] = &e->t[i];
  if (!c->has_bias) e->inputs[2] = NULL;
  if (!c->has_residual) e->inputs[3] = NULL;
  e->outputs[0] = &e->t[OUT];
  e->call = (tenon_call_t){.size = sizeof e->call,
                           .phase = TENON_PHASE_RUN,
                           .host = &services,
                           .attrs = e->attrs,
                           .inputs = e->inputs,
                           .outputs = e->outputs,
                           .stream = &stream,
                           .device = &on};
}

static inline tenon_status_t run(example_t *e) {
  arena_used = 0;
  memset(arena, 0x7f, sizeof arena);
  return cu_conv_run(&e->call);
}

static inline double activated(const case_t *c, double v) {
  switch (c->activation) {
  case FINISH_relu:
    return v < 0 ? 0 : v;
  case FINISH_clip:
    return v < c->alpha ? c->alpha : v > c->beta ? c->beta : v;
  case FINISH_elu:
    return v < 0 ? c->alpha * expm1(v) : v;
  case FINISH_tanh:
    return tanh(v);
  case FINISH_sigmoid:
    return 1 / (1 + exp(-v));
  case FINISH_silu:
    return v / (1 + exp(-v));
  }
  return v;
}

/* Computes element `place` of the result by the documentation of core::conv. */
static inline double expected(const example_t *e, const case_t *c, const int64_t *place) {
  const int64_t *sx = e->steps[X];
  const int64_t *sw = e->steps[W];
  const int64_t *so = e->steps[RESIDUAL];
  int64_t group = c->group ? c->group : 1;
  int64_t filters = c->w[0] / group;
  int64_t taps = 1;
  int64_t there = 0;
  double sum = 0;
  for (int32_t i = 2; i < c->ndim; i++)
    taps *= c->w[i];
  for (int64_t channel = 0; channel < c->w[1]; channel++)
    for (int64_t t = 0; t < taps; t++) {
      int64_t rest = t;
      int64_t from = place[0] * sx[0] + (place[1] / filters * c->w[1] + channel) * sx[1];
      int64_t weight = place[1] * sw[0] + channel * sw[1];
      bool inside = true;
      for (int32_t i = c->ndim - 1; i >= 2; i--) {
        int64_t tap = rest % c->w[i];
        int64_t a = place[i] * e->strides[i - 2] - e->pads[i - 2] + tap * e->dilations[i - 2];
        rest /= c->w[i];
        weight += tap * sw[i];
        from += a * sx[i];
        inside = inside && a >= 0 && a < c->x[i];
      }
      if (inside) sum += at(&e->t[X], from) * at(&e->t[W], weight);
    }
  if (c->has_bias) sum += at(&e->t[BIAS], place[1] * e->steps[BIAS][0]);
  for (int32_t i = 0; i < c->ndim; i++)
    there += place[i] * so[i];
  if (c->has_residual) sum += at(&e->t[RESIDUAL], there);
  return activated(c, sum);
}

static inline void check_result(example_t *e, const case_t *c) {
  const tenon_tensor_t *out = &e->t[OUT];
  char found[300] = "";
  for (int64_t n = 0; n < tenon_count(out) && !*found; n++) {
    int64_t place[5];
    int64_t rest = n;
    int64_t there = 0;
    for (int32_t i = c->ndim - 1; i >= 0; i--) {
      place[i] = rest % out->shape[i];
      rest /= out->shape[i];
      there += place[i] * out->strides[i];
    }
    double wanted = expected(e, c, place);
    double is = at(out, there);
    if (!(fabs(is - wanted) <= 1e-6 * fabs(wanted) + 1e-30))
      snprintf(found, sizeof found, "element %d: %g, not %g", (int)n, is, wanted);
  }
  check_report(!*found, __FILE__, __LINE__, c->what, found);
}

static inline void check_case(const case_t *c, const int *layouts) {
  static example_t e;
  set(&e, c, layouts);
  int status = run(&e);
  if (!check_report(status == TENON_OK, __FILE__, __LINE__, c->what, host_message())) return;
  check_report(!fake->complaint, __FILE__, __LINE__, c->what, fake->complaint);
  check_result(&e, c);
}

static const case_t cases[] = {
    {.what = "one by one", .ndim = 4, .x = {2, 3, 4, 5}, .w = {6, 3, 1, 1}},
    {.what = "padded, with a bias",
     .ndim = 4,
     .x = {2, 3, 7, 5},
     .w = {4, 3, 3, 3},
     .pads = {1, 1, 1, 1},
     .has_bias = 1},
    {.what = "with steps, dilated, other padding on each axis",
     .ndim = 4,
     .x = {1, 2, 9, 11},
     .w = {3, 2, 3, 2},
     .strides = {2, 1},
     .dilations = {1, 3},
     .pads = {1, 2, 1, 2},
     .has_residual = 1},
    {.what = "in groups, with all of it",
     .ndim = 4,
     .x = {2, 6, 5, 6},
     .w = {4, 3, 3, 3},
     .pads = {1, 1, 1, 1},
     .group = 2,
     .activation = FINISH_relu,
     .has_bias = 1,
     .has_residual = 1},
    {.what = "a filter for each channel",
     .ndim = 4,
     .x = {2, 4, 6, 6},
     .w = {4, 1, 3, 3},
     .strides = {2, 2},
     .pads = {1, 1, 1, 1},
     .group = 4,
     .activation = FINISH_clip,
     .beta = 6,
     .has_bias = 1},
    {.what = "padding behind that no window reaches",
     .ndim = 4,
     .x = {1, 2, 6, 6},
     .w = {2, 2, 3, 3},
     .strides = {2, 2},
     .pads = {1, 1, 0, 0}},
    {.what = "automatic padding",
     .ndim = 4,
     .x = {1, 2, 6, 5},
     .w = {2, 2, 3, 5},
     .pads = {1, 2, 1, 2},
     .auto_pad = 1},
    {.what = "automatic, more before than behind, which no window reaches",
     .ndim = 4,
     .x = {1, 2, 6, 8},
     .w = {2, 2, 3, 3},
     .strides = {2, 2},
     .pads = {1, 1, 0, 0},
     .auto_pad = 2},
    {.what = "automatically none", .ndim = 4, .x = {1, 2, 6, 5}, .w = {2, 2, 3, 5}, .auto_pad = 3},
    {.what = "one axis",
     .ndim = 3,
     .x = {2, 3, 20},
     .w = {4, 3, 5},
     .strides = {3},
     .pads = {2, 2},
     .has_bias = 1},
    {.what = "three axes",
     .ndim = 5,
     .x = {1, 2, 4, 5, 6},
     .w = {3, 2, 2, 3, 3},
     .dilations = {2, 1, 1},
     .pads = {1, 0, 1, 1, 0, 1},
     .has_bias = 1,
     .has_residual = 1},
    {.what = "one channel of a result",
     .ndim = 4,
     .x = {2, 3, 4, 5},
     .w = {1, 3, 3, 3},
     .has_bias = 1},
    {.what = "one pixel of a result",
     .ndim = 4,
     .x = {2, 3, 3, 3},
     .w = {5, 3, 3, 3},
     .activation = FINISH_silu},
    {.what = "doubles",
     .ndim = 4,
     .x = {2, 3, 5, 5},
     .w = {4, 3, 3, 3},
     .pads = {1, 1, 1, 1},
     .activation = FINISH_tanh,
     .has_bias = 1,
     .has_residual = 1,
     .dtype = TENON_F64},
    {.what = "elu",
     .ndim = 4,
     .x = {1, 2, 4, 4},
     .w = {2, 2, 3, 3},
     .activation = FINISH_elu,
     .alpha = 0.5},
    {.what = "sigmoid",
     .ndim = 4,
     .x = {1, 2, 4, 4},
     .w = {2, 2, 3, 3},
     .activation = FINISH_sigmoid}};
enum { CASES = sizeof cases / sizeof *cases };

static const int plain[TENSORS] = {LAST, FIRST, FIRST, LAST, LAST}; /* w must be transposed */

#endif
