/* Source kernels: one text gives the CPU's results on every device at every group size; errors of
 * the device's compiler give the author's file and line; compiled code is cached in files, which
 * may be damaged and which processes share. */
#include <dirent.h>
#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/tensor.h"
#include "sanitizer.h"
#include "tensors.h"

#include "device/program.h"
#include "drivers/grid.h"
#include "operators.h"
#include "there.h"

static const char *const names[] = {"sim", "opencl", "cuda"};
static char folder[] = "/tmp/tenon-cache-XXXXXX";

static void load(void) {
  if (!*getenv("TENON_CACHE")) return;
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/libsource.so", 0, NULL), TENON_OK);
}

static bool is_there(const char *name) {
  int32_t count;
  return tenon_device_count(name, &count) == TENON_OK;
}

static tenon_tensor_t *made(uint32_t dtype, int32_t ndim, const int64_t *shape) {
  tenon_tensor_t *t = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(dtype), ndim, shape, &t), TENON_OK);
  return t;
}

/* Makes one call with its inputs on a device (type 1: the CPU); the results are on the host. */
static tenon_status_t call_on(tenon_device_t device, const char *name, const char *attrs_text,
                              tenon_tensor_t *const *inputs, tenon_tensor_t **outputs) {
  const tenon_op_t *op = op_of(name);
  tenon_attrs_t *attrs = attrs_of(op, attrs_text);
  tenon_tensor_t *there[2] = {NULL};
  tenon_tensor_t *results[2] = {NULL};
  for (int i = 0; i < 2 && inputs[i]; i++)
    CHECK_STATUS(tenon_tensor_copy_to(inputs[i], device, &there[i]), TENON_OK);
  tenon_status_t status = tenon_op_call(op, attr_values(attrs), there, results, 0);
  for (int i = 0; i < 2; i++) {
    outputs[i] = NULL;
    if (status == TENON_OK && results[i])
      status = tenon_tensor_copy_to(results[i], (tenon_device_t){1, 0}, &outputs[i]);
    tenon_tensor_release(results[i]);
    tenon_tensor_release(there[i]);
  }
  tenon_attrs_release(attrs);
  return status;
}

enum { CASES = 5 };
typedef struct case_t {
  const char *op;
  const char *attrs;
  tenon_tensor_t *inputs[2];
  double
      /* The relative tolerance of floats; 0 if each result is one rounding after another in a fixed
       * order. */
      tolerance;
} case_t;

static void make_cases(case_t *c) {
  enum { N = 10007 };
  int64_t n = N;
  int64_t shape[2] = {13, 997};
  c[0] = (case_t){"source::blend", "scale=1.75; shift=3", {made(TENON_F32, 1, &n), NULL}, 0};
  c[1] = (case_t){"source::row_sums", NULL, {made(TENON_F32, 2, shape), NULL}, 1e-5};
  c[2] = (case_t){
      "source::scatter", "size=97", {made(TENON_I32, 1, &n), made(TENON_F32, 1, &n)}, 1e-5};
  c[3] = (case_t){"source::half_more", NULL, {made(TENON_BF16, 1, &n), NULL}, 0};
  const int64_t pieces = 29 * 345;
  c[4] = (case_t){"source::vectors", NULL, {made(TENON_F32, 1, &pieces), NULL}, 0};
  uint64_t state = 5;
  for (int64_t i = 0; i < pieces; i++)
    ((float *)c[4].inputs[0]->data)[i] = (float)(draw(&state) % 100000) / 7 - 5000;
  for (int i = 0; i < N; i++) {
    ((float *)c[0].inputs[0]->data)[i] = (float)draw(&state) / 1e6f;
    ((int32_t *)c[2].inputs[0]->data)[i] = (int32_t)(draw(&state) % 97);
    ((float *)c[2].inputs[1]->data)[i] = (float)(draw(&state) % 1000) / 7;
    ((uint16_t *)c[3].inputs[0]->data)[i] = (uint16_t)(0x3f80 + draw(&state) % 0x200);
  }
  for (int64_t i = 0; i < 13 * 997; i++)
    ((float *)c[1].inputs[0]->data)[i] = (float)(draw(&state) % 1000) / 9;
}

static void drop_cases(case_t *c) {
  for (int i = 0; i < CASES; i++) {
    tenon_tensor_release(c[i].inputs[0]);
    tenon_tensor_release(c[i].inputs[1]);
  }
}

static void compare(const tenon_tensor_t *found, const tenon_tensor_t *expected, double tolerance,
                    const char *what) {
  double worst = 0;
  if (!found || !expected) return;
  for (int64_t i = 0; i < tenon_count(expected); i++) {
    bool is_float = tenon_dtype_id(expected->dtype) == TENON_F32;
    double a = is_float ? ((float *)found->data)[i] : 0;
    double b = is_float ? ((float *)expected->data)[i] : 0;
    size_t size = expected->dtype.bits / 8;
    if (!is_float || tolerance == 0) {
      b = 1;
      a = memcmp((char *)found->data + (size_t)i * size, (char *)expected->data + (size_t)i * size,
                 size)
              ? 9
              : 1;
    }
    worst = fmax(worst, fabs(a - b) / fmax(fabs(b), 1e-30));
  }
  char text[200];
  snprintf(text, sizeof text, "%s: relative difference %g", what, worst);
  check_report(worst <= tolerance, __FILE__, __LINE__, "a device gives the CPU's results", text);
}

/* Computes element i of source::vectors without vectors. */
static float by_floats(const tenon_tensor_t *t, int64_t i) {
  const float *x = (const float *)t->data + i / 29 * 29;
  const int64_t k = i % 29;
  const float square = x[k == 2 ? 1 : k] * x[k == 2 ? 1 : k];
  const float less = 2.0f - square;
  const float more = less + x[28];
  if (k < 4) return (k == 2 ? more - 3 : more) / 4;
  if (k < 12) return -(3 * (0.5f * x[k] + x[k - 4]));
  const float three = 3 * x[k];
  return k < 28 ? three + x[k] : x[k];
}

TEST("source kernels on the CPU give the results of the same computation in plain C") {
  case_t c[CASES];
  tenon_tensor_t *out[2];
  setenv("TENON_CACHE", mkdtemp(folder), 1);
  load();
  make_cases(c);
  CHECK_STATUS(call_on((tenon_device_t){1, 0}, c[0].op, c[0].attrs, c[0].inputs, out), TENON_OK);
  for (int64_t i = 0; out[0] && i < tenon_count(out[0]); i++) {
    float product = ((float *)c[0].inputs[0]->data)[i] * 1.75f;
    if (((float *)out[0]->data)[i] != product + (float)((i + 3) % 7)) {
      CHECK_NEVER("another value");
      break;
    }
  }
  tenon_tensor_release(out[0]);
  CHECK_STATUS(call_on((tenon_device_t){1, 0}, c[2].op, c[2].attrs, c[2].inputs, out), TENON_OK);
  int32_t counts[97] = {0};
  for (int64_t i = 0; i < tenon_count(c[2].inputs[0]); i++)
    counts[((int32_t *)c[2].inputs[0]->data)[i]]++;
  CHECK(out[0] && memcmp(out[0]->data, counts, sizeof counts) == 0);
  tenon_tensor_release(out[0]);
  tenon_tensor_release(out[1]);
  CHECK_STATUS(call_on((tenon_device_t){1, 0}, c[4].op, c[4].attrs, c[4].inputs, out), TENON_OK);
  for (int64_t i = 0; out[0] && i < tenon_count(out[0]); i++)
    CHECK(((float *)out[0]->data)[i] == by_floats(c[4].inputs[0], i));
  tenon_tensor_release(out[0]);
  drop_cases(c);
}

TEST("pointwise kernels, reductions in group memory and scatters with atomics agree in groups of "
     "1, 3, 64 and 256") {
  static const uint32_t groups[] = {1, 3, 64, 256};
  case_t c[CASES];
  make_cases(c);
  for (size_t d = 0; d < sizeof names / sizeof *names; d++) {
    if (!is_there(names[d])) continue;
    tenon_device_t device = device_of(names[d], 0);
    for (int k = 0; k < CASES; k++) {
      tenon_tensor_t *expected[2], *found[2];
      CHECK_STATUS(call_on((tenon_device_t){1, 0}, c[k].op, c[k].attrs, c[k].inputs, expected),
                   TENON_OK);
      for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        char what[100];
        snprintf(what, sizeof what, "%s on %s in groups of %u", c[k].op, names[d], groups[g]);
        tn_grid_group_set(groups[g]);
        check_report(call_on(device, c[k].op, c[k].attrs, c[k].inputs, found) == TENON_OK, __FILE__,
                     __LINE__, what, tenon_error());
        for (int o = 0; o < 2; o++)
          if (expected[o]) {
            compare(found[o], expected[o], c[k].tolerance, what);
            tenon_tensor_release(found[o]);
          }
      }
      tn_grid_group_set(0);
      for (int o = 0; o < 2; o++)
        tenon_tensor_release(expected[o]);
    }
  }
  drop_cases(c);
  char *report;
  CHECK_STATUS(tenon_fallback_report(&report), TENON_OK);
  CHECK(*report == 0);
  tenon_text_release(report);
  if (!is_there("opencl")) SKIP("there is no driver of OpenCL: sim alone was compared");
}

/* Calls of pointwise functions, with values by NumPy. If bit i of `turned` is set, inputs[i] is
 * transposed first, which gives a view. */
typedef struct pointwise_t {
  const char *op;
  const char *attrs;
  const char *inputs[5];
  uint32_t turned;
  const char *expected;
} pointwise_t;
#define FIVE                                                                                       \
  { "i32[2, 1] 1 2", "i64[] 3", "u8[3] 4 5 6", "i32[3, 2] 1 2 3 4 5 6", "i32[2, 3] 7 8 9 1 2 3" }
static const pointwise_t pointwise[] = {
    {"source::farther",
     NULL,
     {"f32[2, 3] 1 -2 3 -4 5 -6", "f32[3] -2 2 4"},
     0,
     "f32[2, 3] -2 2 4 -4 5 -6"},
    {"source::farther",
     NULL,
     {"f32[2, 3] 1 -2 3 -4 5 -6", "f32[3, 1] 2 -4.5 4"},
     1,
     "f32[3, 2] 2 -4 -4.5 5 4 -6"},
    {"source::chosen", NULL, {"i32[2, 1] 0 1", "i32[] 7", "i32[2] 8 9"}, 0, "i32[2, 2] 8 9 7 7"},
    {"source::mixed",
     "by=0.25; more=-3",
     {"f32[2, 3] 1 -2 3 -4 5 -6", "f32[3, 1] 2 4 8"},
     1,
     "f32[3, 2] -1.75 -5.5 -3.5 1.75 1.25 -5.5"},
    {"source::mixed",
     "by=-2",
     {"f32[3] 1 2 3", "f32[3] 5 5 0.5"},
     0,
     "f32[3] -7 -4 8"}, /* `more` has its default. */
    {"source::digits",
     NULL,
     {"i32[2, 1] 1 2", "i32[] 3", "i32[3] 4 5 6", "i32[3, 2] 1 2 3 4 5 6", "i32[2, 3] 7 8 9 1 2 3"},
     8,
     "i32[2, 3] 13417 13538 13659 23421 23542 23663"},
    {"source::all_eight", /* 2^53 + 1 has no exact f64 */
     "times=9007199254740993; negative=False; by=0.25", FIVE, 8,
     "i64[2, 3] 9007199254812425 9007199254824525 9007199254836625 9007199254753426 "
     "9007199254765526 9007199254777626"},
    {"source::all_eight", "times=-9223372036854775807; negative=True; by=-0.5", FIVE, 8,
     "i64[2, 3] 9223372036854704378 9223372036854692278 9223372036854680178 9223372036854763377 "
     "9223372036854751277 9223372036854739177"},
};

static void check_pointwise(tenon_device_t device, const pointwise_t *c) {
  const tenon_op_t *op = op_of(c->op);
  tenon_attrs_t *attrs = attrs_of(op, c->attrs);
  tenon_attrs_t *turn = attrs_of(op_of("core::transpose"), "perm=1,0");
  tenon_tensor_t *inputs[5] = {NULL};
  tenon_tensor_t *out = NULL;
  for (int i = 0; i < 5 && c->inputs[i]; i++) {
    tenon_tensor_t *t = inputs[i] = tensor_there(device, c->inputs[i]);
    if (!(c->turned >> i & 1)) continue;
    inputs[i] = NULL;
    CHECK_STATUS(tenon_op_call(op_of("core::transpose"), attr_values(turn), &t, &inputs[i], 0),
                 TENON_OK);
    tenon_tensor_release(t);
  }
  uint64_t none = 0;
  uint64_t *copies =
      device.type == 1 ? &none : &ordinal_of(device)->copies[TENON_COPY_WITHIN].count;
  uint64_t before = *copies;
  CHECK_STATUS(tenon_op_call(op, attr_values(attrs), inputs, &out, 0), TENON_OK);
  CHECK(*copies == before);
  if (out) check_there(out, c->expected);
  tenon_tensor_release(out);
  for (int i = 0; i < 5; i++)
    tenon_tensor_release(inputs[i]);
  tenon_attrs_release(attrs);
  tenon_attrs_release(turn);
}

TEST("a pointwise function is a loop on the CPU and a kernel on devices, and reads broadcast "
     "operands and views in place") {
  static const uint32_t groups[] = {1, 3, 64};
  if (!*getenv("TENON_CACHE")) return;
  char *text = NULL;
  CHECK_STATUS(tenon_op_explain(op_of("source::farther"), "cpu", tenon_dtype(TENON_F32), &text),
               TENON_OK);
  CHECK_TEXT(text, "takes cpu loop f32, f32 -> f32 [source]");
  tenon_text_release(text);
  for (size_t d = 0; d <= sizeof names / sizeof *names; d++) {
    if (d && !is_there(names[d - 1])) continue;
    tenon_device_t device = d ? device_of(names[d - 1], 0) : (tenon_device_t){1, 0};
    for (size_t g = 0; g < (d ? sizeof groups / sizeof *groups : 1); g++) {
      tn_grid_group_set(groups[g]);
      for (size_t i = 0; i < sizeof pointwise / sizeof *pointwise; i++)
        check_pointwise(device, &pointwise[i]);
    }
    tn_grid_group_set(0);
  }
}

TEST("each node of a graph has its own attributes of a pointwise function, on the CPU and on "
     "devices") {
  if (!*getenv("TENON_CACHE")) return;
  for (size_t d = 0; d <= sizeof names / sizeof *names; d++) {
    if (d && !is_there(names[d - 1])) continue;
    tenon_builder_t *b = graph_begin();
    tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
    tenon_edge_t c = graph_constant(b, "c", "f32[3] 2 4 8");
    tenon_edge_t first, second;
    graph_node(b, "first", "source::mixed", "by=0.25; more=-3", (tenon_edge_t[]){x, c}, &first, 1);
    first = graph_step(b, "core::relu", NULL, first);
    graph_node(b, "second", "source::mixed", "by=0.5; more=2", (tenon_edge_t[]){first, x}, &second,
               1);
    graph_output(b, "y", second);
    tenon_executable_t *e =
        d ? graph_compile_on(b, device_of(names[d - 1], 0)) : graph_compile(b, 0);
    if (e)
      CHECK_GRAPH(e, TEXTS("f32[2, 3] 1 -2 3 -4 5 -6"), TEXTS("f32[2, 3] 2.5 1 4.125 0 5.375 -1"));
    tenon_executable_release(e);
  }
}

TEST("a device compiles the text for each set of launch constants, and keeps the results apart") {
  tenon_tensor_t *inputs[2] = {tensor_of("f32[3] 1 2 3"), NULL};
  tenon_tensor_t *out[2];
  for (size_t d = 0; d < sizeof names / sizeof *names; d++) {
    if (!is_there(names[d])) continue;
    for (int round = 0; round < 2; round++) { /* The second round uses the loaded kernel. */
      CHECK_STATUS(call_on(device_of(names[d], 0), "source::by_constant", "by=2", inputs, out),
                   TENON_OK);
      CHECK(out[0] && ((float *)out[0]->data)[0] == 4 && ((float *)out[0]->data)[2] == 8);
      tenon_tensor_release(out[0]);
      CHECK_STATUS(call_on(device_of(names[d], 0), "source::by_constant", "by=5", inputs, out),
                   TENON_OK);
      CHECK(out[0] && ((float *)out[0]->data)[0] == 10 && ((float *)out[0]->data)[2] == 20);
      tenon_tensor_release(out[0]);
    }
  }
  CHECK_STATUS(call_on((tenon_device_t){1, 0}, "source::by_constant", "by=5", inputs, out),
               TENON_OK);
  CHECK(out[0] && ((float *)out[0]->data)[0] == -10);
  tenon_tensor_release(out[0]);
  tenon_tensor_release(inputs[0]);
}

TEST("cuda was among the devices of the tests above") {
  if (!is_there("cuda")) SKIP("there is no GPU of NVIDIA's");
}

/* sim also has a kernel of its own for row_sums of f32, which declines; the tests above show that
 * the source kernel then serves the call. */
TEST("a call that the device's own kernel declines goes to the source kernel, and without one it "
     "is an error") {
  int64_t shape[2] = {2, 3};
  tenon_tensor_t *x = made(TENON_F32, 2, shape);
  tenon_tensor_t *inputs[2] = {x, NULL};
  tenon_tensor_t *out[2];
  for (int i = 0; i < 6; i++)
    ((float *)x->data)[i] = (float)i;
  CHECK_STATUS(call_on(device_of("sim", 0), "source::row_sums", NULL, inputs, out), TENON_OK);
  if (CHECK(out[0] != NULL)) CHECK_TENSOR(out[0], "f32[2] 3 12");
  tenon_tensor_release(out[0]);
  tenon_tensor_release(x);
  inputs[0] = x = made(TENON_F64, 2, shape);
  CHECK_STATUS(call_on(device_of("sim", 0), "source::row_sums", NULL, inputs, out),
               TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "takes nothing");
  tenon_tensor_release(x);
}

/* The limits of docs/source.md, in units in the last place of the exact result. */
typedef struct limit_t {
  double (*right)(double);
  double low;
  double high;
  double most;
} limit_t;
static double reciprocal(double x) { return 1 / x; }
static double power(double x) { return pow(x, 2.5); }
static const limit_t limits[] = {
    {exp, -80, 80, 3},   {log, 1e-3, 1e4, 3}, {sqrt, 0, 1e4, 3},     {reciprocal, 0.01, 100, 2.5},
    {sin, -100, 100, 4}, {cos, -100, 100, 4}, {tan, -1.5, 1.5, 5},   {tanh, -9, 9, 5},
    {sinh, -80, 80, 4},  {cosh, -80, 80, 4},  {asin, -1, 1, 4},      {acos, -1, 1, 4},
    {atan, -50, 50, 5},  {asinh, -50, 50, 4}, {acosh, 1, 50, 4},     {atanh, -0.99, 0.99, 5},
    {erf, -3, 3, 16},    {expm1, -20, 80, 3}, {log1p, -0.9, 100, 2}, {power, 0, 1000, 16}};

TEST("functions of the source language stay within the limits of docs/source.md, on every device") {
  enum {
    POINTS = 20001,
    FUNCTIONS = sizeof limits / sizeof *limits,
  };
  if (!*getenv("TENON_CACHE")) return;
  int64_t n = POINTS;
  for (size_t d = 0; d <= sizeof names / sizeof *names; d++) {
    if (d && !is_there(names[d - 1])) continue;
    tenon_device_t device = d ? device_of(names[d - 1], 0) : (tenon_device_t){1, 0};
    for (int f = 0; f < FUNCTIONS; f++) {
      const limit_t *l = &limits[f];
      tenon_tensor_t *inputs[2] = {made(TENON_F32, 1, &n), NULL};
      tenon_tensor_t *out[2] = {NULL};
      float *x = inputs[0]->data;
      char attrs[32], text[100];
      double worst = 0;
      double at = 0;
      for (int i = 0; i < POINTS; i++)
        x[i] = (float)(l->low + (l->high - l->low) * i / (POINTS - 1));
      snprintf(attrs, sizeof attrs, "which=%d", f);
      CHECK_STATUS(call_on(device, "source::function", attrs, inputs, out), TENON_OK);
      for (int i = 0; out[0] && i < POINTS; i++) {
        double right = l->right((double)x[i]);
        float rounded = fabsf((float)right);
        float place = nextafterf(rounded, INFINITY) - rounded;
        double off = fabs((double)((float *)out[0]->data)[i] - right) / (double)place;
        if (!(off <= worst)) {
          worst = off;
          at = (double)x[i];
        }
      }
      snprintf(text, sizeof text, "%s: function %d of %g is off by %.2f, most %g",
               d ? names[d - 1] : "cpu", f, at, worst, l->most);
      if (getenv("TENON_SHOW")) printf("%s\n", text);
      check_report(worst <= l->most, __FILE__, __LINE__, "within its limit", text);
      tenon_tensor_release(inputs[0]);
      tenon_tensor_release(out[0]);
    }
  }
}

TEST("a text that a device cannot compile is an error with the author's file and line") {
  int64_t n = 4;
  tenon_tensor_t *x = made(TENON_F32, 1, &n);
  tenon_tensor_t *inputs[2] = {x, NULL};
  tenon_tensor_t *out[2];
  CHECK_STATUS(call_on((tenon_device_t){1, 0}, "source::spoil", NULL, inputs, out), TENON_OK);
  tenon_tensor_release(out[0]);
  for (size_t d = 0; d < sizeof names / sizeof *names; d++) {
    if (!is_there(names[d])) continue;
    for (int i = 0; i < 2; i++) { /* A failure is not cached. */
      CHECK(call_on(device_of(names[d], 0), "source::spoil", NULL, inputs, out) != TENON_OK);
      CHECK_TEXT(tenon_error(), strcmp(names[d], "cuda") == 0
                                    ? "broken.c(8)"
                                    : "broken.c:8:59"); /* NVRTC has no column */
      CHECK_TEXT(tenon_error(), "wrong_word");
    }
  }
  tenon_tensor_release(x);
}

/* the cache */

/* Returns the number of entries in the cache folder, and the path of one of them. */
static int entries(char *out_path) {
  char path[600];
  int count = 0;
  snprintf(path, sizeof path, "%s", folder);
  DIR *dir = opendir(path);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    if (e->d_name[0] == '.') continue;
    count++;
    if (out_path) snprintf(out_path, 600, "%s/%.300s", folder, e->d_name);
  }
  if (dir) closedir(dir);
  return count;
}

static void empty_cache(void) {
  for (char path[600]; entries(path) > 0;)
    CHECK(unlink(path) == 0);
}

/* Runs in a process of its own, and reports what it compiled and what it read from files. */
static void in_process(const char *device, int *out_compiled, int *out_read) {
  int pipe_of[2];
  int numbers[3] = {-1, -1, 0};
  CHECK(pipe(pipe_of) == 0);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    case_t c[CASES];
    tenon_tensor_t *expected[2], *found[2];
    check_failures = 0;
    tn_program_counts = (tn_program_counts_t){0};
    load();
    make_cases(c);
    CHECK_STATUS(call_on((tenon_device_t){1, 0}, c[0].op, c[0].attrs, c[0].inputs, expected),
                 TENON_OK);
    CHECK_STATUS(call_on(device_of(device, 0), c[0].op, c[0].attrs, c[0].inputs, found), TENON_OK);
    compare(found[0], expected[0], 0, "through the cache");
    numbers[0] = (int)tn_program_counts.compiled;
    numbers[1] = (int)tn_program_counts.read;
    numbers[2] = check_failures;
    if (write(pipe_of[1], numbers, sizeof numbers) != sizeof numbers) _exit(2);
    _exit(0);
  }
  close(pipe_of[1]);
  CHECK(read(pipe_of[0], numbers, sizeof numbers) == sizeof numbers && numbers[2] == 0);
  close(pipe_of[0]);
  CHECK(waitpid(child, NULL, 0) == child);
  *out_compiled = numbers[0];
  *out_read = numbers[1];
}

TEST("another process finds compiled code again, and damaged, truncated or foreign entries are "
     "made anew") {
  int compiled, read;
  char path[600];
#ifdef HAS_TSAN
  SKIP("the thread sanitizer ends children of processes with threads");
#endif
  tenon_shutdown();
  for (size_t d = 0; d < sizeof names / sizeof *names; d++) {
    empty_cache();
    /* Drivers of GPUs do not work in children of fork. */
    if (strcmp(names[d], "sim") != 0) continue;
    in_process(names[d], &compiled, &read);
    CHECK(compiled == 1 && read == 0 && entries(path) == 1);
    in_process(names[d], &compiled, &read);
    CHECK(compiled == 0 && read == 1);
    struct stat info;
    CHECK(stat(path, &info) == 0);
    /* Flips bits throughout the file. */
    for (off_t at = 0; at < info.st_size; at += info.st_size / 7) {
      FILE *file = fopen(path, "r+b");
      fseek(file, (long)at, SEEK_SET);
      int byte = fgetc(file);
      fseek(file, (long)at, SEEK_SET);
      fputc(byte ^ 4, file);
      fclose(file);
      in_process(names[d], &compiled, &read);
      CHECK(compiled == 1 && read == 0);
    }
    for (int cut = 0; cut < 4; cut++) {
      CHECK(truncate(path, cut == 3 ? info.st_size - 1 : cut * 20) == 0);
      in_process(names[d], &compiled, &read);
      CHECK(compiled == 1 && read == 0 && entries(NULL) == 1);
    }
    CHECK(chmod(path, 0666) == 0); /* Other users may have changed the entry. */
    in_process(names[d], &compiled, &read);
    CHECK(compiled == 1);
  }
}

TEST("processes that race for a cache entry all work, and leave one entry") {
  enum { RACERS = 6 };
  pid_t children[RACERS];
#ifdef HAS_TSAN
  SKIP("the thread sanitizer ends children of processes with threads");
#endif
  empty_cache();
  fflush(NULL);
  for (int i = 0; i < RACERS; i++)
    if (!(children[i] = fork())) {
      int compiled, read;
      check_failures = 0;
      in_process("sim", &compiled, &read);
      _exit(check_failures || compiled + read != 1 ? 1 : 0);
    }
  for (int i = 0; i < RACERS; i++) {
    int status = -1;
    CHECK(waitpid(children[i], &status, 0) == children[i] && status == 0);
  }
  CHECK(entries(NULL) == 1);
}

TEST("nothing is left behind") {
  empty_cache();
  CHECK(rmdir(folder) == 0);
  tenon_shutdown();
}
