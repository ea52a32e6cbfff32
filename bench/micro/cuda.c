/* cuda.c: what the device cuda costs beside the driver's, cuBLAS's and cuDNN's own calls.
 * bench/cuda.py runs it and prints the tables. It is linked with devices/cuda, whose table it calls
 * directly. Cases take turns in blocks.
 *
 *   cuda about
 *       the driver and the GPU
 *
 *   cuda calls ROUNDS
 *       for each case: name, nanoseconds of one call: median, 10th percentile
 *
 *   cuda copies ROUNDS
 *       for each size: bytes, nanoseconds (10th percentile) of the driver's copies in and out, then
 *       of Tenon's
 *
 *   cuda products ROUNDS
 *       for each size: n, nanoseconds (10th percentile) of cuBLAS, then of the kernel for
 *       core::matmul
 *
 *   cuda convolutions ROUNDS
 *       for each shape: channels, filters, extent, taps on an axis, step, groups, nanoseconds (10th
 *       percentile) of cuDNN, then of the kernel for core::conv */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "blas.h"
#include "convolution.h"
#include "dnn.h"
#include "stream.h"

enum {
  BLOCK = 256,
  ROUNDS_MOST = 5000,
};

const tenon_descriptor_t *tenon_library_cuda(void);

static tenon_status_t fail(const void *context, tenon_status_t code, const char *format, ...) {
  va_list list;
  (void)context;
  va_start(list, format);
  vfprintf(stderr, format, list);
  fputc('\n', stderr);
  va_end(list);
  exit(code);
}

static void *workspace;
/* Like the host, which takes a workspace from its cache. */
static void *allocate(tenon_call_t *call, uint64_t size) {
  (void)call;
  (void)size;
  return workspace;
}

static const tenon_host_t host = {
    .size = sizeof host, .abi = TENON_ABI, .fail = fail, .allocate = allocate};
static const tenon_device_table_t *table;
static tenon_device_context_t on = {
    .size = sizeof on, .phase = TENON_PHASE_DEVICE, .host = &host, .settings = ""};

static const char source[] =
    "extern \"C\" __global__ void touch(const float *x, float *y, float a, float b, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) y[i] = a * x[i] + b;\n"
    "}\n";

static char *code;
static uint64_t code_bytes;
static void *reserve(tenon_sink_t *sink, uint64_t bytes) {
  (void)sink;
  code_bytes = bytes;
  return code = malloc(bytes);
}

static void *kernel, *stream, *x, *y;
static cu_native_stream_t native;
static cu_function_t raw;

static void check(cu_result_t error, const char *what) {
  if (!error) return;
  fprintf(stderr, "%s: error %u\n", what, error);
  exit(1);
}

static void open_device(void) {
  const char *settings = getenv("TENON_CUDA");
  int32_t count;
  void *program;
  cu_module_t module;
  for (const tenon_item_t *item = tenon_library_cuda()->items; item->tag != TENON_TAG_END; item++)
    if (item->tag == TENON_TAG_DEVICE) table = item->text;
  if (settings) on.settings = settings;
  on.ordinal = -1;
  table->enumerate(&on, &count);
  on.ordinal = 0;
  table->start(&on);
  table->stream_create(&on, &stream);
  /* This also makes the context of the stream the current one of this thread. */
  native = table->native(&on, "CUstream", stream);
  tenon_source_t text = {sizeof text, TENON_SOURCE_CUDA, source, sizeof source - 1, "touch.cu", ""};
  tenon_sink_t sink = {sizeof sink, 0, reserve};
  table->compile(&on, &text, &sink);
  table->program_load(&on, code, code_bytes, &program);
  table->kernel_find(&on, program, "touch", &kernel);
  /* The code begins behind the 32 bytes of Tenon's head. */
  check(cu.ModuleLoadDataEx(&module, code + 32, 0, NULL, NULL), "load");
  check(cu.ModuleGetFunction(&raw, module, "touch"), "find");
  table->allocate(&on, 4096, &x);
  table->allocate(&on, 4096, &y);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void drain(void) { check(cu.StreamSynchronize(native), "wait"); }

static int by_size(const void *a, const void *b) {
  return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b);
}

static double share_of(double *times, int count, double share) {
  qsort(times, (size_t)count, sizeof *times, by_size);
  return times[(int)(share * count)];
}

/* calls */

static const float a = 2;
static const float b = 3;
static const int32_t n = 1;

static void launch_raw(void) {
  void *arguments[] = {&x, &y, (void *)(uintptr_t)&a, (void *)(uintptr_t)&b, (void *)(uintptr_t)&n};
  cu.LaunchKernel(raw, 1, 1, 1, 1, 1, 1, 0, native, arguments, NULL);
}

static void launch(void) {
  tenon_kernel_argument_t arguments[5] = {{.kind = TENON_ARG_MEMORY, .as.memory = {x, 0}},
                                          {.kind = TENON_ARG_MEMORY, .as.memory = {y, 0}},
                                          {.kind = TENON_ARG_BYTES, .size = 4, .as.data = &a},
                                          {.kind = TENON_ARG_BYTES, .size = 4, .as.data = &b},
                                          {.kind = TENON_ARG_BYTES, .size = 4, .as.data = &n}};
  tenon_launch_t l = {sizeof l, 5, 1, kernel, arguments, {1, 1, 1}, {1, 1, 1}, 0};
  table->launch(&on, stream, &l);
}

static void calls(int rounds) {
  static double times[2][ROUNDS_MOST];
  static const char *const names[] = {"raw", "launch"};
  void (*const cases[])(void) = {launch_raw, launch};
  for (int r = -10; r < rounds; r++)
    for (int c = 0; c < 2; c++) {
      double begin = now();
      for (int i = 0; i < BLOCK; i++)
        cases[c]();
      if (r >= 0) times[c][r] = (now() - begin) / BLOCK;
      drain();
    }
  for (int c = 0; c < 2; c++)
    printf("%s %.1f %.1f\n", names[c], share_of(times[c], rounds, 0.5),
           share_of(times[c], rounds, 0.1));
}

/* copies */

static void copies(int rounds) {
  static double times[4][ROUNDS_MOST];
  for (uint64_t size = 4096; size <= (uint64_t)256 << 20; size *= 4) {
    void *there, *here;
    table->allocate(&on, size, &there);
    table->host_allocate(&on, size, &here);
    memset(here, 1, size);
    tenon_copy_t in = {.size = sizeof in,
                       .direction = TENON_COPY_IN,
                       .bytes = size,
                       .from = {here, 0},
                       .to = {there, 0}};
    tenon_copy_t out = {.size = sizeof out,
                        .direction = TENON_COPY_OUT,
                        .bytes = size,
                        .from = {there, 0},
                        .to = {here, 0}};
    int some = size < 16 << 20 ? rounds : rounds / 10 + 1;
    for (int r = 0; r < some; r++)
      for (int c = 0; c < 4; c++) {
        double begin = now();
        if (c == 0)
          check(cu.MemcpyHtoDAsync((cu_address_t)(uintptr_t)there, here, size, native), "copy");
        else if (c == 1)
          check(cu.MemcpyDtoHAsync(here, (cu_address_t)(uintptr_t)there, size, native), "copy");
        else
          table->copy(&on, stream, c == 2 ? &in : &out);
        drain();
        times[c][r] = now() - begin;
      }
    printf("%llu", (unsigned long long)size);
    for (int c = 0; c < 4; c++)
      printf(" %.0f", share_of(times[c], some, 0.1));
    printf("\n");
    table->free(&on, there);
    table->host_free(&on, here);
  }
}

/* products */

static void products(int rounds) {
  static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", NULL};
  static double times[2][ROUNDS_MOST];
  char tried[1000];
  blas_api_t blas;
  blas_handle_t handle;
  void *library = cu_library_open(&on, "cublas", names + (cu_device(&on)->version < 13000), tried,
                                  sizeof tried);
  if (!library) fail(&on, 1, "%s", tried);
#define FIND_(name, symbol, parameters) *(void **)&blas.name = dlsym(library, #symbol);
  BLAS_FUNCTIONS(FIND_)
  check(blas.Create(&handle), "cublasCreate"),
      check(blas.SetStream(handle, native), "cublasSetStream");
  table->allocate(&on, 64 << 20, &workspace);
  for (int64_t side = 256; side <= 8192; side *= 2) {
    void *memory[3];
    tenon_tensor_t t[3];
    tenon_tensor_t *tensors[4] = {&t[0], &t[1], NULL, NULL};
    tenon_tensor_t *out = &t[2];
    int64_t shape[2] = {side, side};
    int64_t strides[2] = {side, 1};
    tenon_value_t attrs[5];
    cu_product_t p;
    const float one = 1;
    const float zero = 0;
    memset(attrs, 0, sizeof attrs);
    for (int i = 0; i < 3; i++) {
      table->allocate(&on, (uint64_t)(side * side) * 4, &memory[i]);
      t[i] = (tenon_tensor_t){memory[i], {2, 0}, 2,   tenon_dtype(TENON_F32), shape, strides,
                              0,         0,      NULL};
      check(cu.MemsetD32Async((cu_address_t)(uintptr_t)memory[i], 0x3f000000u,
                              (size_t)(side * side), native),
            "fill");
    }
    tenon_call_t call = {.size = sizeof call,
                         .phase = TENON_PHASE_RUN,
                         .host = &host,
                         .attrs = attrs,
                         .inputs = tensors,
                         .outputs = &out,
                         .stream = stream,
                         .device = &on};
    if (!cu_product_of(&call, &p)) exit(1);
    int some = side < 4096 ? rounds : rounds / 10 + 1;
    for (int r = -3; r < some; r++)
      for (int c = 0; c < 2; c++) {
        double begin = now();
        for (int i = 0; i < 4; i++) {
          if (c)
            cu_matmul_run(&call);
          else
            check(blas.GemmStridedBatchedEx(handle, p.op_a, p.op_b, p.m, p.n, p.k, &one, p.a,
                                            p.type, p.a_lead, 0, p.b, p.type, p.b_lead, 0, &zero,
                                            p.c, p.type, p.c_lead, 0, 1, p.compute,
                                            BLAS_CUBLAS_GEMM_DEFAULT),
                  "cublasGemmStridedBatchedEx");
        }
        drain();
        if (r >= 0) times[c][r] = (now() - begin) / 4;
      }
    printf("%lld %.0f %.0f\n", (long long)side, share_of(times[0], some, 0.1),
           share_of(times[1], some, 0.1));
    for (int i = 0; i < 3; i++)
      table->free(&on, memory[i]);
  }
}

/* convolutions */

enum {
  IMAGES = 8,
  ABSENT = 77,
};
/* Shapes of ResNet-50 and MobileNetV2. */
static const int64_t shapes[][6] = {{3, 64, 224, 7, 2, 1},    {64, 64, 56, 3, 1, 1},
                                    {256, 64, 56, 1, 1, 1},   {128, 128, 28, 3, 1, 1},
                                    {256, 256, 14, 3, 1, 1},  {512, 512, 7, 3, 1, 1},
                                    {144, 144, 56, 3, 1, 144}};

/* What a call of cudnnConvolutionForward needs. */
typedef struct direct_t {
  dnn_handle_t handle;
  dnn_tensor_t tensors[CU_TENSORS];
  dnn_filter_t filter;
  dnn_convolution_t convolution;
  cu_enum_t algorithm;
  size_t size;
} direct_t;

static cu_result_t direct_run(const dnn_api_t *dnn, const direct_t *d, const cu_convolution_t *c) {
  const float one = 1;
  const float zero = 0;
  return dnn->ConvolutionForward(d->handle, &one, d->tensors[CU_X], c->x, d->filter, c->w,
                                 d->convolution, d->algorithm, workspace, d->size, &zero,
                                 d->tensors[CU_OUT], c->out);
}

/* Sets up a call with the first algorithm of the heuristics that runs. */
static void direct_make(const dnn_api_t *dnn, direct_t *d, const cu_convolution_t *c) {
  const cu_shape_t *s = &c->shape;
  dnn_found_t found[DNN_CONVOLUTION_FWD_ALGO_COUNT];
  int count = 0;
  for (int i = CU_X; i <= CU_OUT; i++) {
    const cu_layout_t *t = &s->tensors[i];
    check(dnn->CreateTensorDescriptor(&d->tensors[i]), "tensor");
    check(dnn->SetTensorNdDescriptor(d->tensors[i], s->type, t->rank, t->dims, t->strides),
          "tensor");
  }
  check(dnn->CreateFilterDescriptor(&d->filter), "filter");
  check(dnn->SetFilterNdDescriptor(d->filter, s->type, s->format, 4, s->tensors[CU_W].dims),
        "filter");
  check(dnn->CreateConvolutionDescriptor(&d->convolution), "convolution");
  check(dnn->SetConvolutionNdDescriptor(d->convolution, 2, s->pad, s->stride, s->dilation,
                                        DNN_CROSS_CORRELATION, DNN_DATA_FLOAT),
        "convolution");
  check(dnn->SetConvolutionGroupCount(d->convolution, s->group), "groups");
  check(dnn->SetConvolutionMathType(d->convolution, DNN_FMA_MATH), "math");
  check(dnn->GetConvolutionForwardAlgorithm_v7(d->handle, d->tensors[CU_X], d->filter,
                                               d->convolution, d->tensors[CU_OUT],
                                               DNN_CONVOLUTION_FWD_ALGO_COUNT, &count,
                                               (struct cudnnConvolutionFwdAlgoPerfStruct *)found),
        "heuristics");
  for (int i = 0; i < count; i++) {
    d->algorithm = found[i].algo;
    if (!found[i].status &&
        !dnn->GetConvolutionForwardWorkspaceSize(d->handle, d->tensors[CU_X], d->filter,
                                                 d->convolution, d->tensors[CU_OUT], d->algorithm,
                                                 &d->size) &&
        d->size <= (size_t)1 << 30 && !direct_run(dnn, d, c))
      return;
  }
  fail(&on, 1, "no algorithm of cuDNN runs");
}

static void convolutions(int rounds) {
  static const char *const names[] = {"libcudnn.so.9", "libcudnn.so.8", NULL};
  static double times[2][ROUNDS_MOST];
  char tried[1000];
  dnn_api_t dnn;
  direct_t direct;
  void *library = cu_library_open(&on, "cudnn", names, tried, sizeof tried);
  if (!library) fail(&on, ABSENT, "%s", tried);
#define LOOK_(result, name, parameters) *(void **)&dnn.name = dlsym(library, "cudnn" #name);
  DNN_FUNCTIONS(LOOK_)
  check(dnn.Create(&direct.handle), "cudnnCreate"),
      check(dnn.SetStream(direct.handle, native), "cudnnSetStream");
  table->allocate(&on, (uint64_t)1 << 30, &workspace);
  for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
    const int64_t channels = shapes[k][0];
    const int64_t filters = shapes[k][1];
    const int64_t side = shapes[k][2];
    const int64_t taps = shapes[k][3];
    const int64_t step = shapes[k][4];
    const int64_t groups = shapes[k][5];
    const int64_t pad = taps / 2;
    const int64_t end = (side + 2 * pad - taps) / step + 1;
    int64_t extents[3][4] = {{IMAGES, channels, side, side},
                             {filters, channels / groups, taps, taps},
                             {IMAGES, filters, end, end}};
    int64_t strides[3][4];
    int64_t steps[2] = {step, step};
    int64_t pads[4] = {pad, pad, pad, pad};
    void *memory[3];
    tenon_tensor_t t[3];
    tenon_tensor_t *tensors[4] = {&t[0], &t[1], NULL, NULL};
    tenon_tensor_t *out = &t[2];
    tenon_value_t attrs[8];
    cu_convolution_t c;
    memset(attrs, 0, sizeof attrs);
    attrs[0] = (tenon_value_t){.kind = TENON_KIND_INTS, .count = 2, .as.ints = steps};
    attrs[1] = (tenon_value_t){.kind = TENON_KIND_INTS, .count = 4, .as.ints = pads};
    attrs[4].as.i = groups;
    for (int i = 0; i < 3; i++) {
      uint64_t count = 1;
      for (int axis = 3; axis >= 0; axis--) {
        strides[i][axis] = (int64_t)count;
        count *= (uint64_t)extents[i][axis];
      }
      table->allocate(&on, count * 4, &memory[i]);
      t[i] = (tenon_tensor_t){
          memory[i], {2, 0}, 4, tenon_dtype(TENON_F32), extents[i], strides[i], 0, 0, NULL};
      check(
          cu.MemsetD32Async((cu_address_t)(uintptr_t)memory[i], 0x3f000000u, (size_t)count, native),
          "fill");
    }
    tenon_call_t call = {.size = sizeof call,
                         .phase = TENON_PHASE_RUN,
                         .host = &host,
                         .attrs = attrs,
                         .inputs = tensors,
                         .outputs = &out,
                         .stream = stream,
                         .device = &on};
    if (!cu_convolution_of(&call, &c)) exit(1);
    direct_make(&dnn, &direct, &c);
    for (int r = -3; r < rounds; r++)
      for (int which = 0; which < 2; which++) {
        double begin = now();
        for (int i = 0; i < 4; i++) {
          if (which)
            cu_conv_run(&call);
          else
            check(direct_run(&dnn, &direct, &c), "cudnnConvolutionForward");
        }
        drain();
        if (r >= 0) times[which][r] = (now() - begin) / 4;
      }
    for (int i = 0; i < 6; i++)
      printf("%lld ", (long long)shapes[k][i]);
    printf("%.0f %.0f\n", share_of(times[0], rounds, 0.1), share_of(times[1], rounds, 0.1));
    for (int i = 0; i < 3; i++)
      table->free(&on, memory[i]);
  }
}

int main(int argc, char **argv) {
  int rounds = argc > 2 ? atoi(argv[2]) : 100;
  if (argc < 2 || rounds < 1 || rounds > ROUNDS_MOST) return 2;
  open_device();
  if (strcmp(argv[1], "about") == 0)
    printf("%s, %s\n", cu_device(&on)->name, cu_device(&on)->driver);
  else if (strcmp(argv[1], "calls") == 0)
    calls(rounds);
  else if (strcmp(argv[1], "copies") == 0)
    copies(rounds);
  else if (strcmp(argv[1], "products") == 0)
    products(rounds);
  else if (strcmp(argv[1], "convolutions") == 0)
    convolutions(rounds);
  else
    return 2;
  return 0;
}
