/* The handlers of the bridge to JAX for devices, on the simulated device: the test is XLA, with
 * memory and streams of its own, which it makes and uses through the device table. The handlers of
 * CUDA differ from these in the name of the backend only. */
#define TENON_STATIC
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "device/there.h"

#include "device.h"
#include "xla_frame.h"

xla_error_t *tenon_jax_cuda(xla_frame_t *frame);
xla_error_t *tenon_jax_cuda_graph(xla_frame_t *frame);
int tenon_jax_can_capture(const char *name, const char *backend, const char *dtypes);

static const target_t direct = {.backend = "sim"};
static const target_t captured = {.backend = "sim", .is_captured = true};

enum { BYTES = 4096, BUFFERS = 8 };

/* XLA on one device: a stream, and buffers in one allocation. */
typedef struct host_xla_t {
  tn_ordinal_t *o;
  void *stream;
  char *memory;
} host_xla_t;

static host_xla_t xla_open(int32_t ordinal, const char *settings) {
  host_xla_t x = {.o = ordinal_of(sim_open(ordinal, settings))};
  void *memory = NULL;
  CHECK_STATUS(x.o->table->stream_create(&x.o->context, &x.stream), TENON_OK);
  CHECK_STATUS(x.o->table->allocate(&x.o->context, BYTES, &memory), TENON_OK);
  x.memory = memory;
  frame_stream = x.stream;
  frame_ordinal = ordinal;
  return x;
}

static void xla_copy(const host_xla_t *x, uint32_t direction, void *to, const void *from,
                     uint64_t bytes) {
  const tenon_copy_t copy = {.size = sizeof copy,
                             .direction = direction,
                             .bytes = bytes,
                             .from = {(void *)(uintptr_t)from, 0},
                             .to = {to, 0}};
  CHECK_STATUS(x->o->table->copy(&x->o->context, x->stream, &copy), TENON_OK);
}

static void *xla_buffer(const host_xla_t *x, int k) { return x->memory + k * (BYTES / BUFFERS); }

/* XLA's own work: writes floats to buffer k. The numbers stay until the stream has passed. */
static void xla_write(const host_xla_t *x, int k, const void *data, uint64_t bytes) {
  xla_copy(x, TENON_COPY_IN, xla_buffer(x, k), data, bytes);
}

static void xla_wait(const host_xla_t *x) {
  tenon_fault_t fault = {.size = sizeof fault};
  CHECK_STATUS(x->o->table->stream_synchronize(&x->o->context, x->stream, &fault), TENON_OK);
}

/* Reads buffer k after all work of the stream. */
static void xla_read(const host_xla_t *x, int k, void *data, uint64_t bytes) {
  xla_copy(x, TENON_COPY_OUT, data, xla_buffer(x, k), bytes);
  xla_wait(x);
}

static void no_races(const host_xla_t *x) {
  sim_finding_t found = {0};
  if (!CHECK(sim->races(&x->o->context, &found, 1) == 0)) fprintf(stderr, "  %s\n", found.text);
}

/* Runs a frame. Returns the status, and copies the message. */
static int32_t run_frame(const target_t *target, frame_t *f, char message[512]) {
  xla_error_t *error = call_handle(target, &f->xla);
  *message = 0;
  if (!error) return 0;
  const int32_t code = error->code;
  memcpy(message, error->message, sizeof error->message);
  free(error);
  return code;
}

/* Checks that a frame runs. */
static void run_well(const target_t *target, frame_t *f) {
  char message[512];
  if (!CHECK(run_frame(target, f, message) == 0)) fprintf(stderr, "  %s\n", message);
}

/* Prepares a call on buffers of XLA: the operands from 0 on, then the result. */
static void begin_call(frame_t *f, const host_xla_t *x, const char *text, int operands,
                       int32_t dtype, int64_t n) {
  frame_begin(f, text, strlen(text));
  for (int k = 0; k < operands; k++)
    frame_add(f, 0, dtype, 1, &n, xla_buffer(x, k));
  frame_add(f, 1, dtype, 1, &n, xla_buffer(x, operands));
}

TEST(
    "a call reads and writes XLA's memory in the order of XLA's stream, and the host never waits") {
  const host_xla_t x = xla_open(0, "check=count,delay=2000");
  const float a[4] = {1, 2, 3, 4};
  const float b[4] = {10, 20, 30, 40};
  const float other[4] = {0, 0, 0, 0};
  float y[4] = {0};
  frame_t f;
  for (int i = 0; i < 3; i++) {
    begin_call(&f, &x, "core::add(1, 1)", 2, XLA_F32, 4);
    xla_write(&x, 0, a, sizeof a); /* is still under way when the handler is called */
    xla_write(&x, 1, b, sizeof b);
    const uint64_t host = tn_waits.host;
    const uint64_t enqueued = tn_waits.enqueued;
    run_well(i % 2 ? &captured : &direct, &f);
    CHECK(tn_waits.host == host && tn_waits.enqueued == enqueued);
    xla_write(&x, 0, other, sizeof other); /* and this follows the call */
    xla_read(&x, 2, y, sizeof y);
    CHECK(y[0] == 11 && y[1] == 22 && y[2] == 33 && y[3] == 44);
  }
  CHECK(stats_of(x.o->context.device).live == 0);
  no_races(&x);
}

TEST("a call runs on the device that XLA reports, and on the first one if XLA reports none") {
  const host_xla_t x = xla_open(1, "check=count");
  const float a[2] = {3, -4};
  float y[2] = {0};
  char message[512];
  frame_t f;
  begin_call(&f, &x, "core::relu(1)", 1, XLA_F32, 2);
  xla_write(&x, 0, a, sizeof a);
  run_well(&direct, &f);
  xla_read(&x, 1, y, sizeof y);
  CHECK(y[0] == 3 && y[1] == 0);
  frame_ordinal = -1;
  CHECK(run_frame(&direct, &f, message) == TENON_PRECONDITION);
  CHECK_TEXT(message, "XLA reports no device for the custom call");
  /* Before JAX 0.6.0 the table ends earlier, and its size is too small. */
  xla_api_t old = frame_api;
  old.size = offsetof(xla_api_t, stream_get) + sizeof old.stream_get;
  f.xla.api = &old;
  const host_xla_t first = xla_open(0, "check=count");
  frame_ordinal = -1;
  begin_call(&f, &first, "core::relu(1)", 1, XLA_F32, 2);
  f.xla.api = &old;
  xla_write(&first, 0, a, sizeof a);
  run_well(&direct, &f);
  xla_read(&first, 1, y, sizeof y);
  CHECK(y[0] == 3 && y[1] == 0);
  frame_ordinal = 0;
}

TEST("an operator without a kernel for the device runs on the CPU, between the copies of the "
     "stream") {
  const host_xla_t x = xla_open(0, "check=count,delay=2000");
  const double a[3] = {1.5, 2, 4};
  const double b[3] = {2, 0.5, 0.25};
  double y[3] = {0};
  frame_t f;
  begin_call(&f, &x, "core::add(1, 1)", 2, XLA_F64, 3);
  xla_write(&x, 0, a, sizeof a);
  xla_write(&x, 1, b, sizeof b);
  const uint64_t out = copies_made(x.o->context.device, TENON_COPY_OUT);
  run_well(&direct, &f);
  CHECK(copies_made(x.o->context.device, TENON_COPY_OUT) > out);
  xla_read(&x, 2, y, sizeof y);
  CHECK(y[0] == 3.5 && y[1] == 2.5 && y[2] == 4.25);
  no_races(&x);
}

/* Captures a call, and replays it with other operands. */
static void replay_call(const char *text, const float expected[2]) {
  const host_xla_t x = xla_open(0, "check=count,delay=300");
  const float zero[2] = {0, 0};
  const float first[2] = {1, 4};
  const float second[2] = {-3, 0.5};
  float y[2] = {0};
  void *recording = NULL;
  frame_t f;
  begin_call(&f, &x, text, 2, XLA_F32, 2);
  xla_write(&x, 0, first, sizeof first);
  xla_write(&x, 1, first, sizeof first);
  run_well(&captured, &f); /* XLA runs a program once before it captures */
  xla_write(&x, 2, zero, sizeof zero);
  xla_wait(&x);
  CHECK_STATUS(x.o->table->record_begin(&x.o->context, x.stream), TENON_OK);
  run_well(&captured, &f);
  CHECK_STATUS(x.o->table->record_end(&x.o->context, x.stream, &recording), TENON_OK);
  xla_read(&x, 2, y, sizeof y);
  CHECK(y[0] == 0 && y[1] == 0); /* the capture has computed nothing */
  xla_write(&x, 0, second, sizeof second);
  CHECK_STATUS(x.o->table->replay(&x.o->context, x.stream, recording, 0), TENON_OK);
  xla_read(&x, 2, y, sizeof y);
  CHECK(y[0] == expected[0] && y[1] == expected[1]);
  xla_write(&x, 1, zero, sizeof zero);
  CHECK_STATUS(x.o->table->replay(&x.o->context, x.stream, recording, 0), TENON_OK);
  xla_read(&x, 2, y, sizeof y);
  CHECK(y[0] != expected[0] || y[1] != expected[1]);
  x.o->table->recording_free(&x.o->context, recording);
  CHECK(stats_of(x.o->context.device).live == 0);
  no_races(&x);
}

TEST("a captured call computes in each replay what its operands are then") {
  replay_call("core::add(1, 1)", (const float[]){-2, 4.5});
  replay_call("core::mul(1, 1)", (const float[]){-3, 2});
}

/* Makes a call that cannot be captured, with and without the trait. */
static void refuse_capture(const host_xla_t *x, frame_t *f, const char *why) {
  const float nine[2] = {9, 9};
  float y[2] = {0};
  char message[512];
  xla_write(x, 2, nine, sizeof nine);
  CHECK(run_frame(&captured, f, message) == TENON_UNIMPLEMENTED);
  CHECK_TEXT(message, "XLA cannot capture the call in a command buffer, because ");
  CHECK_TEXT(message, why);
  CHECK_TEXT(message, "give it the target tenon_sim instead of tenon_sim_graph");
  xla_read(x, 2, y, sizeof y);
  CHECK(y[0] == 9 && y[1] == 9);
  run_well(&direct, f);
}

TEST("calls that need the host, memory or a fallback are not captured, and run without capture") {
  const host_xla_t x = xla_open(0, "check=count");
  const int64_t two = 2;
  const int64_t one = 1;
  const float ones[4] = {1, 1, 1, 1};
  const uint32_t key[2] = {5, 7};
  const int64_t repeats[1] = {2};
  frame_t f;
  for (int k = 0; k < BUFFERS; k++)
    xla_write(&x, k, ones, sizeof ones);
  begin_call(&f, &x, "core::sub(1, 1)", 2, XLA_F16, 2); /* sim has no kernel for f16 */
  refuse_capture(&x, &f, "no kernel with the word `capturable` serves the dtypes");
  begin_call(&f, &x, "core::concat(2); axis=0", 2, XLA_F32, 1);
  f.dims[FRAME_MOST][0] = 2;
  refuse_capture(&x, &f, "its results are not written to XLA's buffers directly");
  frame_begin(&f, "core::dropout(1); @wanted=1", 27);
  xla_write(&x, 1, key, sizeof key);
  frame_add(&f, 0, XLA_F32, 1, &two, xla_buffer(&x, 0));
  frame_add(&f, 0, XLA_U32, 1, &two, xla_buffer(&x, 1));
  frame_add(&f, 1, XLA_F32, 1, &two, xla_buffer(&x, 2));
  refuse_capture(&x, &f, "its results are not written to XLA's buffers directly");
  frame_begin(&f, "core::tile(1, 1)", 16);
  xla_write(&x, 1, repeats, sizeof repeats);
  frame_add(&f, 0, XLA_F32, 1, &one, xla_buffer(&x, 0));
  frame_add(&f, 0, XLA_S64, 1, &one, xla_buffer(&x, 1));
  frame_add(&f, 1, XLA_F32, 1, &two, xla_buffer(&x, 2));
  refuse_capture(&x, &f, "the host reads an argument");
  no_races(&x);
}

TEST("gradients, tangents, keys, padded results and written inputs arrive on the device") {
  const host_xla_t x = xla_open(0, "check=count,delay=500");
  const int64_t three = 3;
  const int64_t row[] = {1, 3};
  const int64_t two = 2;
  const float a[3] = {1, 0, -2};
  const float b[3] = {5, 6, 7};
  const uint32_t key[2] = {1, 2};
  float y[3] = {9, 9, 9};
  int64_t index[3] = {9, 9, 9};
  int32_t extents[2] = {9, 9};
  frame_t f;
  xla_write(&x, 0, a, sizeof a);
  xla_write(&x, 1, b, sizeof b);
  xla_write(&x, 2, b, sizeof b);
  frame_begin(&f, "core::mul(1, 1); @given=1; @inputs=2", 36);
  for (int k = 0; k < 3; k++)
    frame_add(&f, 0, XLA_F32, 1, &three, xla_buffer(&x, k));
  frame_add(&f, 1, XLA_F32, 1, &three, xla_buffer(&x, 3));
  run_well(&direct, &f);
  xla_read(&x, 3, y, sizeof y);
  CHECK(y[0] == 5 && y[1] == 0 && y[2] == -14);

  frame_begin(&f, "core::mul(1, 1); @given=1; @inputs=2; @forward=1", 48);
  for (int k = 0; k < 3; k++)
    frame_add(&f, 0, XLA_F32, 1, &three, xla_buffer(&x, k));
  frame_add(&f, 1, XLA_F32, 1, &three, xla_buffer(&x, 4));
  run_well(&direct, &f);
  xla_read(&x, 4, y, sizeof y);
  CHECK(y[0] == 5 && y[1] == 0 && y[2] == -14);

  frame_begin(&f, "core::nonzero(1); @padded=1", 27);
  frame_add(&f, 0, XLA_F32, 1, &three, xla_buffer(&x, 0));
  frame_add(&f, 1, XLA_S64, 2, row, xla_buffer(&x, 3));
  frame_add(&f, 1, XLA_S32, 1, &two, xla_buffer(&x, 4));
  run_well(&direct, &f);
  xla_read(&x, 3, index, sizeof index);
  xla_read(&x, 4, extents, sizeof extents);
  CHECK(index[0] == 0 && index[1] == 2 && index[2] == 0 && extents[0] == 1 && extents[1] == 2);

  xla_write(&x, 4, key, sizeof key);
  frame_begin(&f, "core::dropout(1); @wanted=1", 27);
  frame_add(&f, 0, XLA_F32, 1, &three, xla_buffer(&x, 1));
  frame_add(&f, 0, XLA_U32, 1, &two, xla_buffer(&x, 4));
  frame_add(&f, 1, XLA_F32, 1, &three, xla_buffer(&x, 3));
  run_well(&direct, &f);
  xla_read(&x, 3, y, sizeof y);
  CHECK((y[0] == 0 || y[0] == 10) && (y[1] == 0 || y[1] == 12) && (y[2] == 0 || y[2] == 14));

  frame_begin(&f, "core::uniform_(1); low=2.0; high=3.0", 36);
  frame_add(&f, 0, XLA_F32, 1, &three, xla_buffer(&x, 1));
  frame_add(&f, 0, XLA_U32, 1, &two, xla_buffer(&x, 4));
  frame_add(&f, 1, XLA_F32, 1, &three, xla_buffer(&x, 3));
  run_well(&direct, &f);
  xla_read(&x, 3, y, sizeof y);
  for (int i = 0; i < 3; i++)
    CHECK(y[i] >= 2 && y[i] < 3);
  CHECK(y[0] != y[1]);
  xla_read(&x, 1, y, sizeof y);
  CHECK(y[0] == 5); /* the operand is a copy of its own */
  CHECK(stats_of(x.o->context.device).live == 0);
  no_races(&x);
}

/* Saves a graph that computes -x. */
static void save_negation(char *path) {
  tenon_graph_t *graph = NULL;
  tenon_builder_t *b = graph_begin();
  graph_output(b, "y", graph_step(b, "core::neg", NULL, graph_input(b, "x", TENON_F32, 1)));
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  CHECK(close(mkstemps(path, (int)strlen(".onnx"))) == 0);
  CHECK_STATUS(tenon_graph_save(graph, path), TENON_OK);
  tenon_graph_release(graph);
  tenon_builder_release(b);
}

TEST("a graph and its gradients run on the CPU, between the copies of the stream") {
  const host_xla_t x = xla_open(0, "check=count,delay=500");
  const int64_t two = 2;
  const float a[2] = {3, -4};
  float y[2] = {0};
  char path[] = "/tmp/tenon-jax-XXXXXX.onnx";
  char text[100];
  frame_t f;
  save_negation(path);
  snprintf(text, sizeof text, "@model(1); @path='%s'; @end", path);
  begin_call(&f, &x, text, 1, XLA_F32, 2);
  xla_write(&x, 0, a, sizeof a);
  run_well(&direct, &f);
  xla_read(&x, 1, y, sizeof y);
  CHECK(y[0] == -3 && y[1] == 4);
  snprintf(text, sizeof text, "@model(1); @path='%s'; @end; @given=1; @inputs=1", path);
  begin_call(&f, &x, text, 1, XLA_F32, 2);
  frame_add(&f, 0, XLA_F32, 1, &two, xla_buffer(&x, 0));
  run_well(&direct, &f);
  xla_read(&x, 1, y, sizeof y);
  CHECK(y[0] == -3 && y[1] == 4);
  CHECK(remove(path) == 0);
  CHECK(stats_of(x.o->context.device).live == 0);
  no_races(&x);
}

TEST("a frame without a stream, of an older XLA, or over other memory is refused by name") {
  const host_xla_t x = xla_open(0, "check=count");
  float host[2] = {1, 2};
  const int64_t two = 2;
  char message[512];
  frame_t f;
  xla_api_t api = frame_api;
  api.stream_get = NULL;
  begin_call(&f, &x, "core::neg(1)", 1, XLA_F32, 2);
  f.xla.api = &api;
  CHECK(run_frame(&direct, &f, message) == TENON_PRECONDITION);
  CHECK_TEXT(message, "XLA reports no stream for the custom call");
  f.xla.api = &frame_api;
  frame_stream = NULL;
  CHECK(run_frame(&captured, &f, message) == TENON_PRECONDITION);
  CHECK_TEXT(message, "XLA reports no stream for the custom call");
  frame_stream = x.stream;
  f.xla.size = XLA_FRAME_SIZE - 8;
  CHECK(run_frame(&direct, &f, message) == TENON_PRECONDITION);
  CHECK_TEXT(message, "this release of XLA is too old for Tenon");
  frame_begin(&f, "core::neg(1)", 12);
  frame_add(&f, 0, XLA_F32, 1, &two, host);
  frame_add(&f, 1, XLA_F32, 1, &two, xla_buffer(&x, 0));
  CHECK(run_frame(&direct, &f, message) == TENON_INVALID);
  CHECK_TEXT(message, "memory of others on device sim:0");
  f.buffers[0].dtype = 17;
  CHECK(run_frame(&direct, &f, message) == TENON_UNIMPLEMENTED);
  CHECK_TEXT(message, "core::neg: XLA's dtype 17 has no counterpart in Tenon");
  CHECK(run_frame(&captured, &f, message) == TENON_UNIMPLEMENTED);
  CHECK_TEXT(message, "an operand has a dtype that Tenon does not have");
  f.xla.stage = 0;
  run_well(&direct, &f);
  CHECK(stats_of(x.o->context.device).live == 0);
}

TEST("a backend that is not here says what it lacks, and the next call says it again") {
  static const target_t missing = {.backend = "cuda"};
  const host_xla_t x = xla_open(0, "check=count");
  int32_t count = 0;
  char message[512];
  frame_t f;
  if (tenon_device_count("cuda", &count) == TENON_OK) SKIP("there is a GPU here");
  begin_call(&f, &x, "core::neg(1)", 1, XLA_F32, 2);
  for (int i = 0; i < 2; i++) {
    CHECK(run_frame(&missing, &f, message) == TENON_UNAVAILABLE);
    CHECK_TEXT(message, "CUDA");
  }
}

TEST("the handlers of CUDA differ in the trait of their answer") {
  xla_error_t *(*const handlers[])(xla_frame_t *) = {tenon_jax_cuda, tenon_jax_cuda_graph};
  for (uint32_t i = 0; i < 2; i++) {
    frame_t f;
    xla_metadata_t metadata = {.size = XLA_METADATA_SIZE, .traits = 77};
    xla_metadata_extension_t extension = {.base = {.size = 24, .type = XLA_EXTENSION_METADATA},
                                          .metadata = &metadata};
    frame_begin(&f, "", 0);
    f.xla.api = NULL;
    f.xla.extension = &extension.base;
    CHECK(handlers[i](&f.xla) == NULL);
    CHECK(metadata.version.major == 0 && metadata.version.minor == 1);
    CHECK(metadata.traits == (i ? XLA_COMMAND_BUFFER_COMPATIBLE : 0));
  }
}

TEST("a call may be captured if a capturable kernel serves the dtypes of all its operands") {
  CHECK(tenon_jax_can_capture("core::exp", "cuda", "f32") == 1);
  CHECK(tenon_jax_can_capture("core::add", "cuda", "i64 i64") == 1);
  CHECK(tenon_jax_can_capture("core::add", "cuda", "f32 i64") == 0); /* of two kernels */
  CHECK(tenon_jax_can_capture("core::exp", "cuda", "f64") == 0);
  CHECK(tenon_jax_can_capture("core::exp", "cuda", "f32 nonsense") == 0);
  CHECK(tenon_jax_can_capture("core::matmul", "cuda", "f32 f32") == 0); /* cuBLAS takes memory */
  CHECK(tenon_jax_can_capture("core::dropout", "cuda", "f32") == 0);
  CHECK(tenon_jax_can_capture("core::nonzero", "cuda", "f32") == 0);
  CHECK(tenon_jax_can_capture("core::reshape", "cuda", "f32 i64") == 0);
  CHECK(tenon_jax_can_capture("no::operator", "cuda", "f32") == 0);
}

TEST("work that fails on the device fails the calls that follow, with the operator's name") {
  const host_xla_t x = xla_open(0, "check=count");
  const float a[2] = {1, 2};
  char message[512];
  frame_t f;
  begin_call(&f, &x, "core::add(1, 1)", 2, XLA_F32, 2);
  xla_write(&x, 0, a, sizeof a);
  xla_write(&x, 1, a, sizeof a);
  xla_wait(&x);
  sim_set(x.o->context.device, "fault=1");
  run_well(&direct, &f); /* enqueued; it fails later */
  tenon_fault_t fault = {.size = sizeof fault};
  CHECK(x.o->table->stream_synchronize(&x.o->context, x.stream, &fault) != TENON_OK);
  CHECK(run_frame(&direct, &f, message) != 0);
  CHECK_TEXT(message, "core::add");
}
