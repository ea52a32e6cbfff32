/* devices/cuda as far as it works without a GPU: the messages without a driver, code that compiles
 * and code that is refused, and the requests to cuBLAS. On a GPU the device suite runs, see
 * tests/acceptance/cuda_test.py. */
#include "devices/host.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include "base/text.h"
#include "cuda/blas.h"
#include "cuda/compile.h"
#include "cuda/program.h"
#include "cuda/stream.h"
#include "device/plugin.h"

TENON_C const tenon_descriptor_t *tenon_library_cuda(void);

TEST("the device table is complete") {
  tn_text_t offences = {0};
  CHECK(tn_device_table_check(host_table(tenon_library_cuda()), &offences));
  CHECK(offences.size == 0);
  tn_text_clear(&offences);
}

TEST("without a driver the plug-in says what to install, on every attempt") {
  tenon_device_context_t context = host_context(-1, NULL, "");
  int32_t count = 0;
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) SKIP("there is a driver here");
  for (int i = 0; i < 2; i++) {
    CHECK_STATUS(host_table(tenon_library_cuda())->enumerate(&context, &count), TENON_UNAVAILABLE);
    CHECK_TEXT(host_message(), "there is no CUDA driver (libcuda.so.1");
    CHECK_TEXT(host_message(), "install NVIDIA's driver");
    CHECK(count == 0);
  }
  context.ordinal = 0;
  CHECK_STATUS(host_table(tenon_library_cuda())->start(&context), TENON_UNAVAILABLE);
  CHECK(host_table(tenon_library_cuda())->native(&context, "CUcontext", NULL) == NULL);
}

TEST("settings are recognised by their whole names") {
  tenon_device_context_t context = host_context(-1, NULL, "cublas=/a/b.so,nvrtc=/c.so");
  char room[100];
  const char *value = cu_setting(&context, "nvrtc", room, sizeof room);
  CHECK(value && strcmp(value, "/c.so") == 0);
  value = cu_setting(&context, "cublas", room, sizeof room);
  CHECK(value && strcmp(value, "/a/b.so") == 0);
  CHECK(!cu_setting(&context, "nvrt", room, sizeof room));
  CHECK(!cu_setting(&context, "blas", room, sizeof room));
}

TEST("no library of a later CUDA generation than the driver's is opened") {
  static const char *const names[] = {"libtenon_fake.so.13", "libtenon_fake.so.12", NULL};
  tenon_device_context_t context = host_context(-1, NULL, "");
  char home[] = "/tmp/tenon-cuda-XXXXXX";
  char folder[100], newest[200], older[200], tried[1000];
  Dl_info own;
  CHECK(mkdtemp(home) && dladdr(dlsym(RTLD_DEFAULT, "cosf"), &own)); /* any library */
  snprintf(folder, sizeof folder, "%s/lib64", home);
  snprintf(newest, sizeof newest, "%s/%s", folder, names[0]);
  snprintf(older, sizeof older, "%s/%s", folder, names[1]);
  CHECK(mkdir(folder, 0700) == 0 && symlink(own.dli_fname, newest) == 0);
  setenv("CUDA_HOME", home, 1);
  CHECK(cu_library_open(&context, "fake", names, 13000, tried, sizeof tried) != NULL);
  CHECK(cu_library_open(&context, "fake", names, 0, tried, sizeof tried) != NULL);
  CHECK(cu_library_open(&context, "fake", names, 12090, tried, sizeof tried) == NULL);
  CHECK_TEXT(tried, "libtenon_fake.so.12 is not where the loader looks");
  CHECK(symlink(own.dli_fname, older) == 0);
  CHECK(cu_library_open(&context, "fake", names, 12090, tried, sizeof tried) != NULL);
  CHECK(cu_library_open(&context, "fake", names, 11080, tried, sizeof tried) == NULL);
  CHECK_TEXT(tried, "none of its versions fits this driver (CUDA 11.8)");
  unsetenv("CUDA_HOME");
  CHECK(unlink(newest) == 0 && unlink(older) == 0 && rmdir(folder) == 0 && rmdir(home) == 0);
}

/* code */

typedef struct code_t {
  tenon_sink_t sink;
  char *data;
  uint64_t bytes;
} code_t;

static void *reserve(tenon_sink_t *sink, uint64_t bytes) {
  code_t *code = (code_t *)sink;
  code->bytes = bytes;
  return code->data = realloc(code->data, bytes);
}

static tenon_status_t compile(int arch, const char *settings, const char *text, const char *options,
                              code_t *out) {
  cu_device_t device = {.arch = arch, .target = "cuda|sm_80|0"};
  tenon_device_context_t on = host_context(0, NULL, settings);
  tenon_source_t source = {.size = sizeof source,
                           .language = TENON_SOURCE_CUDA,
                           .text = text,
                           .text_size = strlen(text),
                           .file = "author.src",
                           .options = options};
  on.state = &device;
  *out = (code_t){.sink = {.size = sizeof out->sink, .reserve = reserve}};
  return cu_program_compile(&on, &source, &out->sink);
}

static const char *settings(void) { return getenv("TENON_CUDA") ? getenv("TENON_CUDA") : ""; }

TEST("if NVRTC is missing at the path of the setting, the error has the path and the setting") {
  code_t code;
  CHECK_STATUS(compile(80, "nvrtc=/nowhere/libnvrtc.so", "", "", &code), TENON_UNAVAILABLE);
  CHECK_TEXT(host_message(), "TENON_CUDA says nvrtc=/nowhere/libnvrtc.so");
  CHECK_TEXT(host_message(), "compiled by NVRTC");
}

TEST("NVRTC compiles to machine code, or to PTX for a newer GPU, and its errors have file and "
     "line") {
  static const char good[] =
      "extern \"C\" __global__ void f(float *y) { y[threadIdx.x] = BY * exp(y[0]); }";
  code_t code;
  tenon_status_t status = compile(80, settings(), good, "-DBY=2.0f  -DOTHER", &code);
  if (status == TENON_UNAVAILABLE) SKIP("there is no NVRTC (TENON_CUDA=nvrtc=PATH names one)");
  CHECK_STATUS(status, TENON_OK);
  CHECK(code.bytes > 500 && memcmp(code.data + sizeof(cu_head_t), "\177ELF", 4) == 0);
  free(code.data);
  CHECK_STATUS(compile(990, settings(), good, "-DBY=2.0f", &code), TENON_OK);
  CHECK(code.data && strstr(code.data + sizeof(cu_head_t), ".visible .entry f("));
  free(code.data);
  CHECK_STATUS(compile(10, settings(), good, "-DBY=2.0f", &code), TENON_UNAVAILABLE);
  CHECK_TEXT(host_message(), "the GPU is sm_10: set TENON_CUDA=nvrtc=PATH to an older one");
  CHECK_STATUS(compile(80, settings(), "\nextern \"C\" __global__ void f() { nobody_knows(); }\n",
                       "", &code),
               TENON_INVALID);
  CHECK_TEXT(host_message(), "author.src(2): error");
  CHECK_TEXT(host_message(), "nobody_knows");
  CHECK_STATUS(compile(80, settings(), good, "-DBY=2.0f --no-such-option", &code), TENON_INVALID);
  CHECK_TEXT(host_message(), "NVRTC_ERROR_INVALID_OPTION");
  CHECK(!code.data);
}

TEST("damaged, truncated or foreign code does not reach the driver") {
  cu_device_t device = {.arch = 80, .target = "cuda|sm_80|0"};
  cu_device_t other = {.arch = 90, .target = "cuda|sm_90|0"};
  tenon_device_context_t on = host_context(0, NULL, "");
  tenon_device_context_t there = on;
  char code[sizeof(cu_head_t) + 100];
  void *program;
  on.state = &device;
  there.state = &other;
  for (size_t i = 0; i < 100; i++)
    code[sizeof(cu_head_t) + i] = (char)(7 * i);
  cu_head_t head = cu_head_of(&on, code + sizeof head, 100);
  memcpy(code, &head, sizeof head);
  for (size_t i = 0; i < sizeof code; i += 5) {
    code[i] ^= 4;
    CHECK_STATUS(cu_program_load(&on, code, sizeof code, &program), TENON_INVALID);
    code[i] ^= 4;
  }
  CHECK_STATUS(cu_program_load(&on, code, sizeof code - 1, &program), TENON_INVALID);
  CHECK_TEXT(host_message(), "its length differs from that in its header");
  CHECK_STATUS(cu_program_load(&on, code, 3, &program), TENON_INVALID);
  CHECK_TEXT(host_message(), "it is shorter than its head");
  CHECK_STATUS(cu_program_load(&there, code, sizeof code, &program), TENON_INVALID);
  CHECK_TEXT(host_message(), "it is for another GPU or driver");
}

/* products */

enum { ROOM = 4000 };

/* A call of core::matmul. */
typedef struct example_t {
  tenon_tensor_t a;
  tenon_tensor_t b;
  tenon_tensor_t c;
  tenon_tensor_t bias;
  tenon_tensor_t *inputs[3];
  tenon_tensor_t *outputs[1];
  int64_t shapes[4][4];
  int64_t strides[4][4];
  tenon_value_t attrs[5];
  float data[4][ROOM];
  bool has_bias;
} example_t;

static tenon_tensor_t tensor(example_t *e, int i, int32_t ndim, const int64_t *shape,
                             const int64_t *strides) {
  for (int32_t k = 0; k < ndim; k++) {
    e->shapes[i][k] = shape[k];
    e->strides[i][k] = strides[k];
  }
  return (tenon_tensor_t){.data = e->data[i],
                          .device = {2, 0},
                          .ndim = ndim,
                          .dtype = tenon_dtype(TENON_F32),
                          .shape = e->shapes[i],
                          .strides = e->strides[i]};
}

static tenon_call_t call_of(example_t *e) {
  e->inputs[0] = &e->a;
  e->inputs[1] = &e->b;
  e->inputs[2] = e->has_bias ? &e->bias : NULL;
  e->outputs[0] = &e->c;
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < ROOM; k++)
      e->data[i][k] = i != 2 ? (float)((k * 7 + i) % 11 - 5) : -1;
  return (tenon_call_t){
      .size = sizeof(tenon_call_t), .attrs = e->attrs, .inputs = e->inputs, .outputs = e->outputs};
}

/* Computes what cuBLAS's manual specifies: C = op(A) op(B), with matrices by columns. */
static void blas_does(const cu_product_t *p) {
  for (long long i = 0; i < p->count; i++) {
    const float *a = (const float *)p->a + i * p->a_next;
    const float *b = (const float *)p->b + i * p->b_next;
    float *c = (float *)p->c + i * p->c_next;
    for (int column = 0; column < p->n; column++)
      for (int row = 0; row < p->m; row++) {
        /* c holds the bias before the call. */
        float sum = p->bias ? ((const float *)p->bias)[row] : 0;
        for (int k = 0; k < p->k; k++)
          sum +=
              (p->op_a == BLAS_CUBLAS_OP_N ? a[row + k * p->a_lead] : a[k + row * p->a_lead]) *
              (p->op_b == BLAS_CUBLAS_OP_N ? b[k + column * p->b_lead] : b[column + k * p->b_lead]);
        c[row + column * p->c_lead] = sum;
      }
  }
}

static int64_t place(const tenon_tensor_t *t, const int64_t *index,
                     int32_t of) { /* an index among the result's leading axes */
  int64_t at = 0;
  for (int32_t i = 0; i < t->ndim - 2; i++)
    if (t->shape[i] != 1) at += index[i + of - t->ndim] * t->strides[i];
  return at;
}

static void check_product(example_t *e, int64_t count, const char *what) {
  tenon_call_t call = call_of(e);
  cu_product_t p;
  if (!check_report(cu_product_of(&call, &p), __FILE__, __LINE__, what, "not taken")) return;
  if (!check_report(p.count == count, __FILE__, __LINE__, what, "another number of products"))
    return;
  blas_does(&p);
  const tenon_tensor_t *a = &e->a;
  const tenon_tensor_t *b = &e->b;
  const tenon_tensor_t *c = &e->c;
  bool turn_a = e->attrs[0].as.i;
  bool turn_b = e->attrs[1].as.i;
  bool good = true;
  int64_t index[4] = {0};
  int64_t m = c->shape[c->ndim - 2];
  int64_t n = c->shape[c->ndim - 1];
  int64_t all = 1;
  int64_t k = a->shape[a->ndim - (turn_a ? 2 : 1)];
  for (int32_t i = 0; i < c->ndim - 2; i++)
    all *= c->shape[i];
  const int64_t *sa = a->strides + a->ndim - 2;
  const int64_t *sb = b->strides + b->ndim - 2;
  const int64_t *sc = c->strides + c->ndim - 2;
  for (int64_t batch = 0; batch < all; batch++) {
    int64_t rest = batch;
    for (int32_t i = c->ndim - 2; i-- > 0;) {
      index[i] = rest % c->shape[i];
      rest /= c->shape[i];
    }
    const float *x = e->data[0] + place(a, index, c->ndim);
    const float *y = e->data[1] + place(b, index, c->ndim);
    const float *z = e->data[2] + place(c, index, c->ndim);
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        float sum = e->has_bias ? e->data[3][j] : 0;
        for (int64_t l = 0; l < k; l++)
          sum += x[i * sa[turn_a] + l * sa[!turn_a]] * y[l * sb[turn_b] + j * sb[!turn_b]];
        good = good && z[i * sc[0] + j * sc[1]] == sum;
      }
  }
  check_report(good, __FILE__, __LINE__, what, "another result");
}

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

TEST("the requests to cuBLAS give the product: plain, transposed, padded, of views, stacked, "
     "broadcast") {
  static example_t e;
  e.a = tensor(&e, 0, 2, SHAPE(5, 7), SHAPE(7, 1));
  e.b = tensor(&e, 1, 2, SHAPE(7, 3), SHAPE(3, 1));
  e.c = tensor(&e, 2, 2, SHAPE(5, 3), SHAPE(3, 1));
  check_product(&e, 1, "plain");
  e.a = tensor(&e, 0, 2, SHAPE(5, 7), SHAPE(9, 1));
  e.b = tensor(&e, 1, 2, SHAPE(7, 3), SHAPE(1, 8));
  e.c = tensor(&e, 2, 2, SHAPE(5, 3), SHAPE(20, 1));
  check_product(&e, 1, "lines that are apart, b a transposed view");
  e.attrs[0].as.i = e.attrs[1].as.i = 1;
  e.a = tensor(&e, 0, 2, SHAPE(7, 5), SHAPE(5, 1));
  e.b = tensor(&e, 1, 2, SHAPE(3, 7), SHAPE(7, 1));
  check_product(&e, 1, "both transposed");
  e.a = tensor(&e, 0, 2, SHAPE(7, 5), SHAPE(1, 7));
  check_product(&e, 1, "a transposed twice");
  e.attrs[0].as.i = e.attrs[1].as.i = 0;
  e.a = tensor(&e, 0, 4, SHAPE(2, 3, 5, 7), SHAPE(105, 35, 7, 1));
  e.b = tensor(&e, 1, 4, SHAPE(2, 3, 7, 4), SHAPE(84, 28, 4, 1));
  e.c = tensor(&e, 2, 4, SHAPE(2, 3, 5, 4), SHAPE(60, 20, 4, 1));
  check_product(&e, 6, "a stack");
  e.b = tensor(&e, 1, 2, SHAPE(7, 4), SHAPE(4, 1));
  check_product(&e, 1, "a stack by one matrix, which is one of more rows");
  e.has_bias = true;
  e.bias = tensor(&e, 3, 2, SHAPE(1, 4), SHAPE(9, 1));
  check_product(&e, 1, "the same with a bias");
  e.has_bias = false;
  e.c = tensor(&e, 2, 4, SHAPE(2, 3, 5, 4), SHAPE(66, 22, 4, 1));
  check_product(&e, 6, "the same into results that are apart");
  e.c = tensor(&e, 2, 4, SHAPE(2, 3, 5, 4), SHAPE(60, 20, 4, 1));
  e.a = tensor(&e, 0, 4, SHAPE(2, 3, 5, 7), SHAPE(120, 40, 8, 1));
  check_product(&e, 1, "the same with lines that are apart");
  e.a = tensor(&e, 0, 4, SHAPE(2, 3, 5, 7), SHAPE(126, 42, 8, 1));
  check_product(&e, 6, "the same with matrices that are apart");
  e.a = tensor(&e, 0, 2, SHAPE(5, 7), SHAPE(7, 1));
  e.b = tensor(&e, 1, 4, SHAPE(2, 3, 7, 4), SHAPE(84, 28, 4, 1));
  check_product(&e, 6, "one matrix by a stack");
  e.a = tensor(&e, 0, 3, SHAPE(3, 5, 7), SHAPE(7, 21, 1));
  e.b = tensor(&e, 1, 3, SHAPE(3, 7, 4), SHAPE(28, 1, 7));
  e.c = tensor(&e, 2, 3, SHAPE(3, 5, 4), SHAPE(20, 4, 1));
  check_product(&e, 3, "heads that lie beside one another");
  e.a = tensor(&e, 0, 2, SHAPE(1, 7), SHAPE(1, 1));
  e.b = tensor(&e, 1, 2, SHAPE(7, 1), SHAPE(1, 1));
  e.c = tensor(&e, 2, 2, SHAPE(1, 1), SHAPE(1, 1));
  check_product(&e, 1, "a row by a column");
}

TEST("the plug-in declines products that cuBLAS does not support") {
  static example_t e;
  cu_product_t p;
#define DECLINED()                                                                                 \
  do {                                                                                             \
    tenon_call_t call_ = call_of(&e);                                                              \
    CHECK(!cu_product_of(&call_, &p));                                                             \
  } while (0)
  e.a = tensor(&e, 0, 2, SHAPE(5, 7), SHAPE(14, 2));
  e.b = tensor(&e, 1, 2, SHAPE(7, 3), SHAPE(3, 1));
  e.c = tensor(&e, 2, 2, SHAPE(5, 3), SHAPE(3, 1));
  DECLINED(); /* no axis of a has stride 1 */
  e.a = tensor(&e, 0, 2, SHAPE(5, 7), SHAPE(0, 1));
  DECLINED(); /* rows that share one address */
  e.a = tensor(&e, 0, 2, SHAPE(5, 7), SHAPE(-7, 1));
  DECLINED();
  e.a = tensor(&e, 0, 2, SHAPE(5, 0), SHAPE(1, 1));
  e.b = tensor(&e, 1, 2, SHAPE(0, 3), SHAPE(3, 1));
  DECLINED(); /* nothing to sum: the result is zeros */
  e.a = tensor(&e, 0, 2, SHAPE(5, 7), SHAPE(7, 1));
  e.b = tensor(&e, 1, 2, SHAPE(7, 3), SHAPE(3, 1));
  e.c = tensor(&e, 2, 2, SHAPE(5, 3), SHAPE(1, 5));
  DECLINED(); /* matrices by columns */
  e.c = tensor(&e, 2, 2, SHAPE(5, 3), SHAPE(3, 1));
  e.attrs[2].as.i = 1;
  DECLINED(); /* an activation */
  e.attrs[2].as.i = 0;
  e.has_bias = true;
  e.bias = tensor(&e, 3, 2, SHAPE(5, 3), SHAPE(3, 1));
  DECLINED(); /* a bias that is not a row */
  e.bias = tensor(&e, 3, 1, SHAPE(3), SHAPE(2));
  DECLINED(); /* a bias with gaps */
  e.bias = tensor(&e, 3, 1, SHAPE(1), SHAPE(1));
  DECLINED(); /* one number for all columns */
  e.has_bias = false;
  e.c.dtype = tenon_dtype(TENON_I32);
  DECLINED();
  e.c.dtype = tenon_dtype(TENON_F32);
  e.a = tensor(&e, 0, 4, SHAPE(2, 3, 5, 7),
               /* the leading axes have another order than those of the result */
               SHAPE(35, 70, 7, 1));
  e.c = tensor(&e, 2, 4, SHAPE(2, 3, 5, 3), SHAPE(45, 15, 3, 1));
  DECLINED();
  e.a = tensor(&e, 0, 1, SHAPE(7), SHAPE(1));
  e.c = tensor(&e, 2, 1, SHAPE(3), SHAPE(1));
  DECLINED();
  e.a = tensor(&e, 0, 2, SHAPE(5, 7), SHAPE((int64_t)1 << 31, 1));
  e.c = tensor(&e, 2, 2, SHAPE(5, 3), SHAPE(3, 1));
  DECLINED();
}

/* streams of others, with a driver that the test makes */

static struct owner_t {
  cu_native_stream_t stream;
  cu_context_t context;
  cu_enum_t capture; /* what the driver says about it */
  int asked;         /* calls that would end a capture */
} owner;

static cu_result_t fake_context(cu_context_t *out_context) {
  *out_context = owner.context;
  return CUDA_SUCCESS;
}

static cu_result_t fake_stream_context(cu_native_stream_t stream, cu_context_t *out_context) {
  CHECK(stream == owner.stream);
  return fake_context(out_context);
}

static cu_result_t fake_is_capturing(cu_native_stream_t stream, cu_enum_t *out_status) {
  *out_status = stream == owner.stream ? owner.capture : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

static cu_result_t fake_ask(cu_native_stream_t stream) {
  owner.asked += stream == owner.stream;
  return CUDA_SUCCESS;
}

static cu_result_t fake_event_create(cu_native_event_t *out_event, unsigned flags) {
  (void)flags;
  *out_event = (cu_native_event_t)&owner;
  return CUDA_SUCCESS;
}

static cu_result_t fake_event_record(cu_native_event_t event, cu_native_stream_t stream) {
  (void)event;
  return fake_ask(stream);
}

static cu_result_t fake_event(cu_native_event_t event) {
  (void)event;
  return CUDA_SUCCESS;
}

static cu_result_t fake_error_text(cu_result_t error, const char **out_text) {
  (void)error;
  *out_text = "a failure";
  return CUDA_SUCCESS;
}

TEST("a stream that its owner captures is imported, and the driver is not asked what it has done") {
  const cu_api_t before = cu;
  static cu_device_t device; /* the stream stays in its list until it has ended */
  tenon_device_context_t on = host_context(0, NULL, "");
  tenon_fault_t fault = {.size = sizeof fault};
  void *stream = NULL;
  owner.stream = (cu_native_stream_t)&owner.capture;
  owner.context = device.context = (cu_context_t)&owner.context;
  owner.capture = 1;
  device.service = (cu_native_stream_t)&device;
  on.state = &device;
  cu = (cu_api_t){.CtxGetCurrent = fake_context,
                  .StreamGetCtx = fake_stream_context,
                  .StreamIsCapturing = fake_is_capturing,
                  .StreamQuery = fake_ask,
                  .StreamSynchronize = fake_ask,
                  .EventCreate = fake_event_create,
                  .EventRecord = fake_event_record,
                  .EventQuery = fake_event,
                  .EventDestroy = fake_event,
                  .GetErrorName = fake_error_text,
                  .GetErrorString = fake_error_text};
  CHECK_STATUS(cu_stream_import(&on, owner.stream, &stream), TENON_OK);
  CHECK_STATUS(cu_stream_query(&on, stream, &fault), TENON_UNAVAILABLE);
  CHECK_STATUS(cu_stream_synchronize(&on, stream, &fault), TENON_UNIMPLEMENTED);
  CHECK_TEXT(host_message(), "cannot ask what a stream has done");
  CHECK_STATUS(cu_streams_synchronize(&on), TENON_OK); /* waits for the others */
  CHECK(owner.asked == 0);
  owner.capture = CU_STREAM_CAPTURE_STATUS_NONE;
  CHECK_STATUS(cu_stream_query(&on, stream, &fault), TENON_OK);
  CHECK_STATUS(cu_stream_synchronize(&on, stream, &fault), TENON_OK);
  CHECK(owner.asked == 2);
  owner.capture = 1;
  cu_stream_destroy(&on, stream);
  CHECK(owner.asked == 2 && !device.streams);
  cu = before;
}
