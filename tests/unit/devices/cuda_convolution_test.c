/* The requests of devices/cuda to cuDNN for a convolution, with a cuDNN that computes on the CPU:
 * results, tensors that are copied first, and calls that are declined. */
#include "devices/cudnn.h"

TEST("the requests to cuDNN give the convolution, whatever the layouts of the tensors") {
  static const int layouts[][TENSORS] = {
      {LAST, FIRST, FIRST, LAST, LAST},   {FIRST, FIRST, FIRST, FIRST, FIRST},
      {FIRST, FIRST, FIRST, FIRST, LAST}, {LAST, LAST, FIRST, LAST, FIRST},
      {APART, APART, FIRST, APART, LAST}, {ODD, ODD, FIRST, ODD, LAST},
      {APART, LAST, FIRST, APART, FIRST}};
  for (size_t i = 0; i < CASES; i++)
    for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++)
      for (int algorithm = 0; algorithm < 2; algorithm++) {
        cu_dnn_close(&device);
        propose(algorithm, 1);
        check_case(&cases[i], layouts[k]);
      }
}

TEST("tensors that have the layout of the result are not copied") {
  cu_dnn_close(&device);
  propose(0, 1);
  check_case(&cases[0], plain); /* With one tap, both layouts of a filter are the same. */
  CHECK(fake->transforms == 0);
  check_case(&cases[3], plain);
  CHECK(fake->transforms == 1); /* The filters were transformed. */
  check_case(&cases[4], plain);
  /* With one channel, both layouts of a filter are the same. */
  CHECK(fake->transforms == 1);
  check_case(&cases[3], (const int[]){FIRST, FIRST, FIRST, FIRST, FIRST});
  CHECK(fake->transforms == 1);
}

TEST("the plug-in declines convolutions that cuDNN does not support") {
  static example_t e;
  static const case_t good = {.what = "good",
                              .ndim = 4,
                              .x = {1, 2, 6, 6},
                              .w = {2, 2, 3, 3},
                              .has_bias = 1,
                              .has_residual = 1};
  cu_convolution_t found;
  case_t c = good;
  set(&e, &c, plain);
  CHECK(cu_convolution_of(&e.call, &found));
/* Checks that the plug-in declines a convolution: `c` as it is, or `good` with one change. */
#define DECLINED_CASE(layout)                                                                      \
  do {                                                                                             \
    set(&e, &c, layout);                                                                           \
    CHECK(!cu_convolution_of(&e.call, &found));                                                    \
    CHECK_STATUS(run(&e), TENON_UNIMPLEMENTED);                                                    \
  } while (0)
#define DECLINED(change, layout)                                                                   \
  do {                                                                                             \
    c = good;                                                                                      \
    change;                                                                                        \
    DECLINED_CASE(layout);                                                                         \
  } while (0)
#define LIE(...) ((const int[TENSORS]){__VA_ARGS__})
  DECLINED((c.pads[2] = 1), plain);              /* larger padding behind than before */
  DECLINED((c.pads[0] = 1), plain);              /* smaller padding behind than before */
  DECLINED((c.pads[0] = c.pads[2] = -1), plain); /* negative */
  c = good;
  c.auto_pad = 1;
  c.x[2] = 7;
  c.strides[0] = 2;
  c.w[2] = 2;
  c.pads[2] = 1;
  c.pads[1] = 1;
  c.pads[3] = 1;
  DECLINED_CASE(plain);
  DECLINED((c.activation = FINISH_gelu), plain);
  c = good;
  c.activation = FINISH_clip;
  c.alpha = -1;
  c.beta = 1;
  DECLINED_CASE(plain);
  c = good;
  c.activation = FINISH_clip;
  c.alpha = 0;
  c.beta = -1;
  DECLINED_CASE(plain);
  DECLINED((c.dtype = TENON_I32), plain);
  DECLINED((void)0, LIE(LAST, FIRST, FIRST, LAST, APART)); /* a result with gaps */
  DECLINED((void)0, LIE(LAST, FIRST, FIRST, LAST, ODD));   /* not aligned */
  DECLINED((void)0, LIE(BACK, FIRST, FIRST, LAST, LAST));  /* backwards */
  DECLINED((void)0, LIE(LAST, BACK, FIRST, LAST, LAST));
  DECLINED((void)0, LIE(LAST, FIRST, FIRST, BACK, LAST));
  DECLINED((void)0, LIE(LAST, FIRST, BACK, LAST, LAST));
  DECLINED((void)0, LIE(LAST, FIRST, ODD, LAST, LAST));
  c = good;
  set(&e, &c, plain);
  e.t[BIAS].strides[0] = 2;
  CHECK(!cu_convolution_of(&e.call, &found)); /* with gaps */
  set(&e, &c, plain);
  e.t[X].shape[0] = e.t[OUT].shape[0] = e.t[RESIDUAL].shape[0] = (int64_t)1 << 30;
  CHECK(!cu_convolution_of(&e.call, &found)); /* more than 2^31 - 1 elements */
  set(&e, &c, plain);
  e.t[X].strides[0] = (int64_t)1 << 31;
  e.t[X].shape[0] = 2;
  e.t[OUT].shape[0] = e.t[RESIDUAL].shape[0] = 2;
  CHECK(!cu_convolution_of(&e.call, &found)); /* elements too far apart */
  e.t[X].strides[0] = e.t[X].strides[1] = (int64_t)3 << 29;
  CHECK(!cu_convolution_of(&e.call, &found)); /* all elements share one address */
  set(&e, &c, plain);
  e.t[X].strides[2] = 0;
  CHECK(!cu_convolution_of(&e.call, &found)); /* lines that share one address */
  set(&e, &c, plain);
  e.t[X].ndim = e.t[W].ndim = e.t[OUT].ndim = 6;
  CHECK(!cu_convolution_of(&e.call, &found)); /* four axes */
  set(&e, &c, plain);
  e.t[X].shape[1] = e.t[W].shape[1] = 0;
  CHECK(!cu_convolution_of(&e.call, &found)); /* no elements to sum */
}

TEST("convolutions of halves are requested with their types, those of bf16 from sm_80 on") {
  static example_t e;
  cu_convolution_t found;
  case_t c = {
      .what = "halves", .ndim = 4, .x = {1, 2, 6, 6}, .w = {2, 2, 3, 3}, .dtype = TENON_F16};
  set(&e, &c, plain);
  CHECK(cu_convolution_of(&e.call, &found) && found.shape.type == DNN_DATA_HALF);
  CHECK(found.shape.format == DNN_TENSOR_NHWC);
  c.dtype = TENON_BF16;
  set(&e, &c, plain);
  CHECK(cu_convolution_of(&e.call, &found) && found.shape.type == DNN_DATA_BFLOAT16);
  device.arch = 75;
  CHECK_STATUS(run(&e), TENON_UNIMPLEMENTED);
  CHECK_TEXT(host_message(), "this is sm_75");
  device.arch = 80;
}

TEST("a convolution without results requests nothing") {
  static example_t e;
  case_t c = cases[0];
  c.x[0] = 0;
  propose(0, 1);
  set(&e, &c, plain);
  CHECK_STATUS(run(&e), TENON_OK);
  CHECK(fake->forwards == 0);
}

/* the real library, which can set descriptors without a GPU */

typedef cu_result_t (*extents_fn)(dnn_convolution_t, dnn_tensor_t, dnn_filter_t, int, int *);

/* Returns cuDNN's own count of results, or the error of a descriptor. */
static cu_result_t real_extents(const dnn_api_t *real, extents_fn count, const cu_shape_t *s,
                                int *out) {
  dnn_tensor_t tensors[CU_TENSORS] = {0};
  dnn_filter_t filter = NULL;
  dnn_convolution_t convolution = NULL;
  dnn_activation_t activation = NULL;
  cu_enum_t compute = s->type == DNN_DATA_DOUBLE ? DNN_DATA_DOUBLE : DNN_DATA_FLOAT;
  cu_result_t error = real->CreateFilterDescriptor(&filter);
  for (int i = 0; i < CU_TENSORS && !error; i++) {
    const cu_layout_t *t = &s->tensors[i];
    if (!t->rank) continue;
    error = real->CreateTensorDescriptor(&tensors[i]);
    if (!error)
      error = real->SetTensorNdDescriptor(tensors[i], s->type, t->rank, t->dims, t->strides);
  }
  if (!error)
    error = real->SetFilterNdDescriptor(filter, s->type, s->format, s->tensors[CU_W].rank,
                                        s->tensors[CU_W].dims);
  if (!error) error = real->CreateConvolutionDescriptor(&convolution);
  if (!error)
    error = real->SetConvolutionNdDescriptor(convolution, s->rank, s->pad, s->stride, s->dilation,
                                             DNN_CROSS_CORRELATION, compute);
  if (!error) error = real->SetConvolutionGroupCount(convolution, s->group);
  if (!error) error = real->SetConvolutionMathType(convolution, DNN_FMA_MATH);
  if (!error) error = count(convolution, tensors[CU_X], filter, s->tensors[CU_X].rank, out);
  if (!error) error = real->CreateActivationDescriptor(&activation);
  if (!error && s->activation >= 0)
    error = real->SetActivationDescriptor(activation, (cu_enum_t)s->activation, DNN_PROPAGATE_NAN,
                                          s->coefficient);
  for (int i = 0; i < CU_TENSORS; i++)
    if (tensors[i]) real->DestroyTensorDescriptor(tensors[i]);
  if (filter) real->DestroyFilterDescriptor(filter);
  if (convolution) real->DestroyConvolutionDescriptor(convolution);
  if (activation) real->DestroyActivationDescriptor(activation);
  return error;
}

TEST("where cuDNN is installed, it accepts these descriptors and counts the same results") {
  static const char *const names[] = {"libcudnn.so.9", "libcudnn.so.8", NULL};
  static const int layouts[][TENSORS] = {{LAST, FIRST, FIRST, LAST, LAST},
                                         {APART, APART, FIRST, APART, FIRST}};
  tenon_device_context_t context =
      host_context(0, NULL, getenv("TENON_CUDA") ? getenv("TENON_CUDA") : "");
  char tried[1000];
  dnn_api_t real;
  extents_fn count;
  void *library = cu_library_open(&context, "cudnn", names, 0, tried, sizeof tried);
  if (!library) SKIP("there is no libcudnn (TENON_CUDA=cudnn=PATH names one)");
#define FIND_(result, name, parameters)                                                            \
  CHECK((*(void **)&real.name = dlsym(library, "cudnn" #name)) != NULL);
  DNN_FUNCTIONS(FIND_)
  *(void **)&count = dlsym(library, "cudnnGetConvolutionNdForwardOutputDim");
  for (size_t i = 0; i < 2 * CASES && !check_failures; i++) {
    static example_t e;
    const case_t *c = &cases[i / 2];
    cu_convolution_t found;
    int extents[CU_RANK] = {0};
    set(&e, c, layouts[i % 2]);
    check_report(cu_convolution_of(&e.call, &found), __FILE__, __LINE__, c->what, "declined");
    const cu_layout_t *out = &found.shape.tensors[CU_OUT];
    cu_result_t error = real_extents(&real, count, &found.shape, extents);
    check_report(!error, __FILE__, __LINE__, c->what, error ? real.GetErrorString(error) : NULL);
    check_report(!memcmp(extents, out->dims, sizeof extents), __FILE__, __LINE__, c->what,
                 "other extents");
  }
}
