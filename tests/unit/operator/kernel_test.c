/* Which kernel runs, and which arguments it gets: instruction sets, assembly, a closed library,
 * layouts, quantised tensors, kernels of other libraries, and serial kernels. */
#include "base/cpu.h"
#include "base/parallel.h"
#include "base/thread.h"
#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

TENON_C const tenon_descriptor_t *tenon_library_contract(void);
TENON_C const tenon_descriptor_t *tenon_library_partner(void);

static void start(void) {
  const tenon_op_t *op = NULL;
  if (tenon_op_find("contract::level", &op) != TENON_OK)
    CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
}

/* instruction sets */

/* Starts the runtime again with that limit (NULL: none), and returns the levels that `level` and
 * `each_level` report. */
static void check_level(const char *limit, float level) {
  char expected[64];
  tenon_shutdown();
  if (limit)
    setenv("TENON_CPU_CAPABILITY", limit, 1);
  else
    unsetenv("TENON_CPU_CAPABILITY");
  start();
  tenon_tensor_t *out[1] = {NULL};
  CHECK_STATUS(call_op("contract::level", NULL, TEXTS("f32[3] 1 2 3"), out), TENON_OK);
  snprintf(expected, sizeof expected, "f32[2] %g 14", (double)level);
  CHECK_TENSOR(out[0], expected);
  tenon_tensor_release(out[0]);
  out[0] = NULL;
  CHECK_STATUS(call_op("contract::each_level", NULL, TEXTS("f16[2] 1 2"), out), TENON_OK);
  snprintf(expected, sizeof expected, "f16[2] %g %g", 10 + (double)level, 20 + (double)level);
  CHECK_TENSOR(out[0], expected);
  tenon_tensor_release(out[0]);
  out[0] = NULL;
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  graph_output(b, "y", graph_step(b, "contract::level", NULL, x));
  graph_output(b, "z", graph_step(b, "contract::each_level", NULL, x));
  tenon_executable_t *e = graph_compile(b, 0);
  char each[64];
  snprintf(expected, sizeof expected, "f32[2] %g 5", (double)level);
  snprintf(each, sizeof each, "f32[2] %g %g", 10 + (double)level, 20 + (double)level);
  CHECK_GRAPH(e, TEXTS("f32[2] 1 2"), TEXTS(expected, each));
  tenon_executable_release(e);
}

TEST("the best kernel for the machine runs, and TENON_CPU_CAPABILITY limits the choice") {
#if defined(__x86_64__)
  /* The environment of the whole test run may limit the instruction sets. */
  unsetenv("TENON_CPU_CAPABILITY");
  tn_cpu_limit_read();
  int avx2 = tn_cpu_has(tn_cpu_rank("avx2", 4));
  int avx512 = tn_cpu_has(tn_cpu_rank("avx512", 6));
  check_level(NULL, avx512 ? 2 : avx2 ? 1 : 0);
  check_level("avx512", avx512 ? 2 : avx2 ? 1 : 0);
  check_level("avx2", avx2 ? 1 : 0);
  check_level("default", 0);
  check_level("nonsense", avx512 ? 2 : avx2 ? 1 : 0);
  check_level(NULL, avx512 ? 2 : avx2 ? 1 : 0);
  if (!avx512) SKIP("this processor has no AVX-512: its kernels were not run");
#else
  SKIP("these instruction sets are of x86");
#endif
}

TEST("the description marks the kernel in use") {
  tenon_shutdown();
  setenv("TENON_CPU_CAPABILITY", "default", 1);
  start();
  const tenon_op_t *op = op_of("contract::level");
  int chosen = 0;
  int count = op_info(op).kernel_count;
  for (int i = 0; i < count; i++) {
    char *text = tenon_op_kernel(op, i);
    if (strstr(text, "(chosen)")) chosen++, CHECK(strcmp(text, "cpu (chosen)") == 0);
    tenon_text_release(text);
  }
  CHECK(chosen == 1);
  CHECK(tenon_op_kernel(op, count) == NULL);
  unsetenv("TENON_CPU_CAPABILITY");
  tenon_shutdown();
}

/* kernels from other places */

TEST("a loop kernel may be written in assembly") {
#if defined(__x86_64__) && defined(__ELF__)
  start();
  tenon_tensor_t *out[1] = {NULL};
  CHECK_STATUS(call_op("contract::negate", NULL, TEXTS("f32[2,2] 1 -2 0 inf"), out), TENON_OK);
  CHECK_TENSOR(out[0], "f32[2,2] -1 2 -0 -inf");
  tenon_tensor_release(out[0]);
  out[0] = NULL;
  CHECK_STATUS(call_op("contract::negate", NULL, TEXTS("bf16[3] 1 2 3"), out), TENON_OK);
  CHECK_TENSOR(out[0], "bf16[3] -1 -2 -3");
  tenon_tensor_release(out[0]);
#else
  SKIP("the assembly is for x86-64 and ELF");
#endif
}

TEST("a kernel may wrap a library that exists only as a binary file") {
  start();
  tenon_tensor_t *out[1] = {NULL};
  CHECK_STATUS(call_op("contract::checksum", NULL, TEXTS("u8[9] 49 50 51 52 53 54 55 56 57"), out),
               TENON_OK);
  CHECK_TENSOR(out[0], "u32[] 0xcbf43926"); /* the check value of CRC-32 for "123456789" */
  tenon_tensor_release(out[0]);
  out[0] = NULL;
  CHECK_STATUS(call_op("contract::checksum", NULL, TEXTS("f32[0]"), out), TENON_OK);
  CHECK_TENSOR(out[0], "u32[] 0");
  tenon_tensor_release(out[0]);
}

TEST("another library adds a kernel to an operator, and removes it again") {
  start();
  tenon_tensor_t *out[1] = {NULL};
  tenon_library_t *partner = NULL;
  CHECK_STATUS(call_op("contract::halve", NULL, TEXTS("f64[1] 3"), out), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(),
             "contract::halve: no kernel for cpu and dtype f64; it has: cpu loop f32 -> f32");
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/libpartner.so", TENON_LOAD_UNLOADABLE, &partner),
               TENON_OK);
  CHECK_STATUS(call_op("contract::halve", NULL, TEXTS("f64[1] 3"), out), TENON_OK);
  CHECK_TENSOR(out[0], "f64[1] 1.5");
  tenon_tensor_release(out[0]);
  out[0] = NULL;
  char *text = tenon_op_kernel(op_of("contract::halve"), 0);
  CHECK_TEXT(text, "f64 -> f64 from partner (chosen)");
  tenon_text_release(text);
  CHECK_STATUS(call_op("contract::halve", NULL, TEXTS("f32[1] 3"), out), TENON_OK);
  CHECK_TENSOR(out[0], "f32[1] 1.5");
  tenon_tensor_release(out[0]);
  out[0] = NULL;
  tenon_library_release(partner);
  CHECK(op_info(op_of("contract::halve")).kernel_count == 1);
  CHECK_STATUS(call_op("contract::halve", NULL, TEXTS("f64[1] 3"), out), TENON_UNIMPLEMENTED);
}

TEST("an executable keeps the library loaded whose kernel it runs") {
  start();
  tenon_library_t *partner = NULL;
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/libpartner.so", TENON_LOAD_UNLOADABLE, &partner),
               TENON_OK);
  tenon_builder_t *b = graph_begin();
  CHECK_STATUS(
      tenon_builder_output(
          b, "y", graph_step(b, "contract::halve", NULL, graph_input(b, "x", TENON_F64, 1))),
      TENON_OK);
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK_GRAPH(e, TEXTS("f64[2] 1 2"), TEXTS("f64[2] 0.5 1"));
  tenon_library_release(partner);
  CHECK_GRAPH(e, TEXTS("f64[2] 1 2"), TEXTS("f64[2] 0.5 1"));
  CHECK_GRAPH(e, TEXTS("f64[1] 3"), TEXTS("f64[1] 1.5"));
  tenon_executable_release(e);
  tenon_tensor_t *out[1] = {NULL};
  CHECK_STATUS(call_op("contract::halve", NULL, TEXTS("f64[1] 3"), out), TENON_UNIMPLEMENTED);
}

typedef struct caller_t {
  const tenon_op_t *op;
  int stop;
  int mistakes;
} caller_t;

static void call_on(void *pointer) {
  caller_t *c = pointer;
  tenon_tensor_t *x = tensor_of("f32[2] 1 2");
  tenon_tensor_t *out = tensor_of("f32[2] 0 0");
  while (!__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE)) {
    memset(out->data, 0, 8);
    if (tenon_op_run(c->op, NULL, &x, &out) != TENON_OK) c->mistakes++;
    if (tensor_float(out, 0) != 0.5 || tensor_float(out, 1) != 1) c->mistakes++;
  }
  tenon_tensor_release(x);
  tenon_tensor_release(out);
}

TEST("kernels are added and removed while other threads call the operator") {
  start();
  caller_t caller = {op_of("contract::halve"), 0, 0};
  tn_spawned_t thread;
  CHECK(tn_spawn(&thread, call_on, &caller));
  for (int i = 0; i < 50; i++) {
    tenon_library_t *partner = NULL;
    CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/libpartner.so", 0, &partner), TENON_OK);
    tenon_library_release(partner);
  }
  __atomic_store_n(&caller.stop, 1, __ATOMIC_RELEASE);
  tn_join(&thread);
  CHECK(caller.mistakes == 0);
  tenon_shutdown();
}

/* layouts */

TEST("a dense kernel gets dense inputs, and a strided kernel gets inputs as they are") {
  start();
  tenon_tensor_t *x = tensor_strided("f32[2,3] 1 2 3 4 5 6");
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_op_call(op_of("contract::strides"), NULL, &x, &out, 0), TENON_OK);
  CHECK_TENSOR(out, "i64[2] 3 1");
  tenon_tensor_release(out);
  out = NULL;
  CHECK_STATUS(tenon_op_call(op_of("contract::any_strides"), NULL, &x, &out, 0), TENON_OK);
  CHECK_TENSOR(out, "i64[2] 1 2");
  tenon_tensor_release(out);
  out = NULL;
  tenon_tensor_release(x);
  x = tensor_of("f32[2,3] 1 2 3 4 5 6");
  CHECK_STATUS(tenon_op_call(op_of("contract::any_strides"), NULL, &x, &out, 0), TENON_OK);
  CHECK_TENSOR(out, "i64[2] 3 1");
  tenon_tensor_release(out);
  tenon_tensor_release(x);
}

TEST("results that are not row-major are written through a dense copy, or directly by a strided "
     "kernel") {
  start();
  static const char *const names[] = {"contract::copy", "contract::dense_copy", "contract::halve"};
  for (int i = 0; i < 3; i++) {
    tenon_tensor_t *x = tensor_strided("f32[2,3] 2 4 6 8 10 12");
    tenon_tensor_t *out = tensor_strided("f32[2,3] 0 0 0 0 0 0");
    CHECK_STATUS(tenon_op_call_into(op_of(names[i]), NULL, &x, &out), TENON_OK);
    CHECK_TENSOR(out, i == 2 ? "f32[2,3] 1 2 3 4 5 6" : "f32[2,3] 2 4 6 8 10 12");
    CHECK(out->strides[0] == 1);
    memset(out->data, 0, 24);
    CHECK_STATUS(tenon_op_run(op_of(names[i]), NULL, &x, &out), TENON_OK);
    CHECK_TENSOR(out, i == 2 ? "f32[2,3] 1 2 3 4 5 6" : "f32[2,3] 2 4 6 8 10 12");
    tenon_tensor_release(x);
    tenon_tensor_release(out);
  }
}

TEST("strided items of a list are made dense for a dense kernel") {
  start();
  tenon_tensor_t *items[] = {tensor_strided("f32[2,2] 1 2 3 4"), tensor_of("f32[2,2] 5 6 7 8")};
  tenon_tensor_t *list = NULL;
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_tensor_list(items, 2, &list), TENON_OK);
  CHECK_STATUS(tenon_op_call(op_of("contract::stack"), NULL, &list, &out, 0), TENON_OK);
  CHECK_TENSOR(out, "f32[2,2,2] 1 2 3 4 5 6 7 8");
  for (int i = 0; i < 2; i++)
    tenon_tensor_release(items[i]);
  tenon_tensor_release(list);
  tenon_tensor_release(out);
}

TEST("a pointwise result keeps a layout that all its inputs share") {
  start();
  tenon_tensor_t *x = tensor_strided("f32[2,3] 2 4 6 8 10 12");
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_op_call(op_of("contract::halve"), NULL, &x, &out, 0), TENON_OK);
  CHECK_TENSOR(out, "f32[2,3] 1 2 3 4 5 6");
  CHECK(out->strides[0] == 1 && out->strides[1] == 2);
  tenon_tensor_release(x);
  tenon_tensor_release(out);
}

/* quantised tensors */

typedef struct quantised_t {
  tenon_tensor_t *x;
  tenon_tensor_t *scale;
  tenon_tensor_t *zero;
  tenon_detail_t detail;
} quantised_t;

static quantised_t
/* Scales 0.5 and 2 along the last axis, zero points 1 and 0. */
quantised(tenon_tensor_t *x) {
  quantised_t q = {x,
                   tensor_of("f32[2] 0.5 2"),
                   tensor_of("f32[2] 1 0"),
                   {.size = sizeof q.detail, .kind = TENON_DETAIL_QUANTISED, .axis = 1}};
  return q;
}

static void attach(quantised_t *q) {
  q->detail.scale = q->scale;
  q->detail.zero_point = q->zero;
  q->x->detail = &q->detail;
  tn_tensor_mark(q->x);
}

static void release(quantised_t *q) {
  tenon_tensor_release(q->x);
  tenon_tensor_release(q->scale);
  tenon_tensor_release(q->zero);
}

TEST("a quantised tensor is refused by name, unless the kernel declares that it handles such "
     "tensors") {
  start();
  quantised_t q = quantised(tensor_of("u8[2,2] 3 4 5 6"));
  tenon_tensor_t *out[1] = {NULL};
  attach(&q);
  CHECK_STATUS(tenon_op_call(op_of("contract::stored_sum"), NULL, &q.x, out, 0),
               TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(),
             "contract::stored_sum: input x is quantised, and no kernel says \"quantised\"");
  CHECK_STATUS(tenon_op_call(op_of("contract::real_sum"), NULL, &q.x, out, 0), TENON_OK);
  CHECK_TENSOR(out[0], "f32[] 23"); /* (3 - 1) / 2 + 4 * 2 + (5 - 1) / 2 + 6 * 2 */
  tenon_tensor_release(out[0]);
  out[0] = NULL;
  CHECK_STATUS(tenon_op_call(op_of("contract::length"), NULL, &q.x, out, 0), TENON_INVALID);
  release(&q);
}

TEST("a dense copy and a view of a quantised tensor are quantised, too") {
  start();
  int64_t shape[2] = {2, 2};
  int64_t strides[2] = {1, 2};
  uint8_t data[4] = {3, 5, 4, 6};
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *out[1] = {NULL};
  tenon_tensor_t *view = NULL;
  CHECK_STATUS(tenon_tensor_borrow(data, tenon_dtype(TENON_U8), 2, shape, strides, NULL, NULL, &x),
               TENON_OK);
  quantised_t q = quantised(x);
  attach(&q);
  CHECK_STATUS(tenon_op_call(op_of("contract::real_sum"), NULL, &q.x, out, 0), TENON_OK);
  CHECK_TENSOR(out[0], "f32[] 23");
  tenon_tensor_release(out[0]);
  out[0] = NULL;
  CHECK_STATUS(tenon_op_call(op_of("contract::tail"), NULL, &q.x, &view, 0), TENON_OK);
  CHECK_STATUS(tenon_op_call(op_of("contract::stored_sum"), NULL, &view, out, 0),
               TENON_UNIMPLEMENTED);
  CHECK_STATUS(tenon_op_call(op_of("contract::real_sum"), NULL, &view, out, 0), TENON_OK);
  CHECK_TENSOR(out[0], "f32[] 14");
  tenon_tensor_release(out[0]);
  tenon_tensor_release(view);
  release(&q);
}

/* threads */

TEST("parts of a kernel run on several threads, and the message of a failing part reaches the "
     "caller") {
  start();
  tenon_tensor_t *out[1] = {NULL};
  for (int threads = 1; threads <= 4; threads += 3) {
    tenon_threads_set(threads);
    CHECK(tenon_threads_get() == threads);
    CHECK_STATUS(call_op("contract::tally", NULL,
                         TEXTS("i64[17] 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17"), out),
                 TENON_OK);
    CHECK_TENSOR(out[0], threads == 1 ? "i64[2] 153 1" : "i64[2] 153 4");
    tenon_tensor_release(out[0]);
    out[0] = NULL;
    CHECK_STATUS(call_op("contract::tally", NULL,
                         TEXTS("i64[16] 1 2 3 4 5 6 7 8 9 10 11 12 13 -14 15 16"), out),
                 TENON_RANGE);
    CHECK_TEXT(tenon_error(), "contract::tally: element 13 is negative");
    CHECK_STATUS(call_op("contract::tally", NULL, TEXTS("i64[0]"), out), TENON_OK);
    CHECK_TENSOR(out[0], "i64[2] 0 0");
    tenon_tensor_release(out[0]);
    out[0] = NULL;
  }
  tenon_threads_set(0);
}

typedef struct turn_t {
  tenon_bound_t *bound;
  int mistakes;
} turn_t;

static void take_turns(void *pointer) {
  turn_t *turn = pointer;
  for (int i = 0; i < 500; i++) {
    tenon_tensor_t *out[1] = {NULL};
    if (turn->bound ? tenon_bound_call(turn->bound, NULL, out, 0)
                    : tenon_op_call(op_of("contract::turns"), NULL, NULL, out, 0))
      turn->mistakes++;
    tenon_tensor_release(out[0]);
  }
}

TEST("a serial kernel never has two calls at once") {
  start();
  tenon_bound_t *bound = NULL;
  CHECK_STATUS(tenon_bound_create(op_of("contract::turns"), NULL, &bound), TENON_OK);
  for (int i = 0; i < 2; i++) {
    turn_t turns[2] = {{i ? bound : NULL, 0}, {i ? bound : NULL, 0}};
    tn_spawned_t threads[2];
    tenon_tensor_t *out[1] = {NULL};
    for (int k = 0; k < 2; k++)
      CHECK(tn_spawn(&threads[k], take_turns, &turns[k]));
    for (int k = 0; k < 2; k++)
      tn_join(&threads[k]);
    CHECK(turns[0].mistakes == 0 && turns[1].mistakes == 0);
    if (i)
      CHECK_STATUS(tenon_bound_call(bound, NULL, out, 0), TENON_OK);
    else
      CHECK_STATUS(tenon_op_call(op_of("contract::turns"), NULL, NULL, out, 0), TENON_OK);
    CHECK_TENSOR(out[0], "i64[] 1001");
    tenon_tensor_release(out[0]);
  }
  tenon_bound_release(bound);
}

TEST("nothing is left behind") { tenon_shutdown(); }
