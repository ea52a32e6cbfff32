/* The trace: its lines about keys without tensors and about layouts, its file, and the reasons why
 * candidates are declined. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/cpu.h"
#include "base/thread.h"
#include "check.h"
#include "tensors.h"

#include "capture.h"
#include "operators.h"
#include "probes.h"

static double id[8] = {0, 1, 2, 3, 4, 5, 6, 7};

static tenon_status_t source(tenon_call_t *call) {
  *(double *)call->outputs[0]->data = 1;
  return TENON_OK;
}
static tenon_status_t twice(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++)
    ((double *)loop->data[1])[i] = 2 * ((const double *)loop->data[0])[i];
  return TENON_OK;
}
static tenon_status_t parts(tenon_call_t *call) {
  return call->host->assign(call, 0, call->inputs[0]);
}

/* clang-format off */
static const tenon_item_t traced_items[] = {
  TENON_OP("source(*, device? device=None) -> Tensor",
    TENON_TYPES("out = f64"), TENON_SHAPES("out: [1]"), TENON_KERNEL("cpu", source)),
  TENON_OP("twice(Tensor x) -> Tensor",
    TENON_TYPES("x: f16|f32|f64; out = x"), TENON_TRAITS(TENON_POINTWISE),
    TENON_LOOP("f64 -> f64", twice), TENON_LOOP("f64 -> f64; avx2", twice)),
  TENON_OP("both(Tensor x) -> Tensor",
    TENON_TYPES("x: any; out = x"), TENON_TRAITS(TENON_POINTWISE), TENON_GRADIENT("x: none"),
    TENON_COMPOSITE(parts)),
  TENON_OP("look(Tensor x) -> Tensor",
    TENON_TYPES("x: f64; out = x"), TENON_TRAITS(TENON_POINTWISE), TENON_KERNEL("cpu", source)),
  {TENON_TAG_END, 0, 0, 0, 0}};
/* clang-format on */
static const tenon_descriptor_t traced = {
    sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "traced", "1.0.0", traced_items};

static void start(void) {
  const tenon_op_t *op = NULL;
  if (tenon_op_find("traced::twice", &op) != TENON_OK)
    CHECK_STATUS(tenon_library_add(&traced, NULL, NULL, NULL), TENON_OK);
  probe_start();
}

/* lines of the trace */

static void call_source(const char *attrs_text) {
  const tenon_op_t *op = op_of("traced::source");
  tenon_attrs_t *attrs = attrs_of(op, attrs_text);
  double value;
  tenon_tensor_t *y = probe_tensor("cpu", &value);
  CHECK_STATUS(tenon_op_run(op, attr_values(attrs), NULL, &y), TENON_OK);
  tenon_tensor_release(y);
  tenon_attrs_release(attrs);
}

TEST("a line of the trace says where the key of an operator without tensors comes from") {
  start();
  tenon_device_t npu;
  tenon_device_t cpu = {1, 0};
  CHECK_STATUS(tenon_device_find("npu", 0, &npu), TENON_OK);
  tenon_registration_t *pass = probe_add("traced::source", "npu fallthrough", NULL, 0);
  capture();
  CHECK_STATUS(tenon_trace_set("dispatch"), TENON_OK);
  call_source(NULL);
  CHECK_STATUS(tenon_device_default_set(npu), TENON_OK);
  call_source(NULL);
  call_source("device=cpu");
  CHECK_STATUS(tenon_device_default_set(cpu), TENON_OK);
  CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
  CHECK_LINES(release_capture(), "call traced::source {cpu} -> cpu [traced, kernel]",
              "  key {cpu} from the CPU, which is the default",
              "call traced::source {cpu, npu} -> fallthrough",
              "  key {npu} from this thread's default device",
              "  next traced::source {cpu} -> cpu [traced, kernel]",
              "call traced::source {cpu} -> cpu [traced, kernel]",
              "  key {cpu} from the device argument device");
  tenon_registration_release(pass);
}

TEST("the call below the layer of layouts is a step of its own in the trace") {
  double wide[4] = {1, 2, 3, 4};
  double results[2];
  int64_t two = 2;
  int64_t stride = 2;
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  start();
  tenon_registration_t *cpu = probe_add("probe::plain", "cpu", &id[1], 0);
  CHECK_STATUS(tenon_tensor_borrow(wide, tenon_dtype(TENON_F64), 1, &two, &stride, NULL, NULL, &x),
               TENON_OK);
  CHECK_STATUS(tenon_tensor_borrow(results, tenon_dtype(TENON_F64), 1, &two, NULL, NULL, NULL, &y),
               TENON_OK);
  capture();
  CHECK_STATUS(tenon_trace_set("dispatch"), TENON_OK);
  CHECK_STATUS(tenon_op_run(op_of("probe::plain"), NULL, &x, &y), TENON_OK);
  CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
  CHECK_LINES(release_capture(), "call probe::plain {cpu, strided} -> layer",
              "  next probe::plain {cpu} -> cpu [program, kernel]");
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_registration_release(cpu);
}

/* the trace file */

static char path[200];
/* Returns the content of the file; the caller frees it. */
static char *contents(void) {
  FILE *file = fopen(path, "r");
  char *text = calloc(1, 1 << 20);
  if (CHECK(file && text)) CHECK(fread(text, 1, (1 << 20) - 1, file) > 0);
  if (file) fclose(file);
  return text;
}
static void trace_to_file(const char *before) {
  char words[300];
  snprintf(path, sizeof path, "%s/trace,%d.json", P_tmpdir, (int)getpid());
  snprintf(words, sizeof words, "%sfile=%s", before, path);
  CHECK_STATUS(tenon_trace_set(words), TENON_OK);
}
/* Checks that the list is complete. */
static void check_closed(const char *text, int line) {
  size_t size = strlen(text);
  check_report(text[0] == '[' && size > 3 && strcmp(text + size - 3, "\n]\n") == 0, __FILE__, line,
               "a JSON list", text);
}
static int count_of(const char *text, const char *part) {
  int count = 0;
  for (; (text = strstr(text, part)); text++)
    count++;
  return count;
}

TEST("a trace file is a list of slices that is complete after each slice") {
  double out = 0;
  double in = 3;
  start();
  tenon_tensor_t *x = probe_tensor("cpu", &in);
  tenon_tensor_t *y = probe_tensor("cpu", &out);
  trace_to_file("args,");
  char *text = contents();
  CHECK(strcmp(text, "[\n]\n") == 0);
  free(text);
  capture();
  CHECK_STATUS(tenon_op_run(op_of("traced::twice"), NULL, &x, &y), TENON_OK);
  call_source(NULL);
  text = contents(); /* The file is still open. */
  check_closed(text, __LINE__);
  CHECK(count_of(text, "{\"ph\": \"B\"") == 2 && count_of(text, "{\"ph\": \"E\"") == 2 &&
        count_of(text, ",\n{") == 3);
  CHECK_TEXT(text, "\"cat\": \"call\", \"name\": \"traced::twice\", \"args\": {\"keys\": "
                   "\"{cpu}\", \"operator\": \"traced::twice\", \"runs\": \"cpu loop f64 -> f64");
  CHECK_TEXT(text, "\"arguments\": \"(f64[1])\"}}");
  CHECK_TEXT(text, "\"origin\": \"key {cpu} from this thread's default device\"}}");
  free(text);
  CHECK_STATUS(tenon_op_run(op_of("probe::plain"), NULL, &x, &y), TENON_UNIMPLEMENTED);
  CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
  CHECK_STATUS(tenon_op_run(op_of("traced::twice"), NULL, &x, &y), TENON_OK);
  CHECK_LINES(release_capture(), NULL); /* stderr has no line. */
  text = contents();
  check_closed(text, __LINE__);
  CHECK(count_of(text, "{\"ph\": \"B\"") == 3 &&
        count_of(text, "\"args\": {\"failed\": \"unimplemented\"}}") == 1);
  free(text);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  remove(path);
}

TEST("names that are not UTF-8, or have quotes and line breaks, are valid strings of JSON in the "
     "file") {
  double out = 0;
  double in = 3;
  start();
  tenon_layer_t *layer = NULL;
  tenon_tensor_t *x = probe_tensor("cpu", &in);
  tenon_tensor_t *y = probe_tensor("cpu", &out);
  CHECK_STATUS(tenon_layer_create("a \"b\"\\\n\xc3\xa4 \xff \xc3", "above autograd",
                                  tenon_call_next, NULL, &layer),
               TENON_OK);
  tenon_layer_enable(layer, 1);
  trace_to_file("");
  CHECK_STATUS(tenon_op_run(op_of("traced::twice"), NULL, &x, &y), TENON_OK);
  CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
  char *text = contents();
  CHECK_TEXT(text, "\"name\": \"a \\\"b\\\"\\\\\\u000a\xc3\xa4 \\ufffd \\ufffd\", ");
  free(text);
  tenon_layer_enable(layer, 0);
  tenon_layer_release(layer);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  remove(path);
}

static void call_often(void *argument) {
  double out = 0;
  double in = 3;
  tenon_tensor_t *x = probe_tensor("cpu", &in);
  tenon_tensor_t *y = probe_tensor("cpu", &out);
  for (int i = 0; i < *(int *)argument; i++)
    CHECK_STATUS(tenon_op_run(op_of("traced::twice"), NULL, &x, &y), TENON_OK);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
}

TEST(
    "each thread has a track of its own, and a child of fork writes nothing to its parent's file") {
  tn_spawned_t threads[3];
  int often = 50;
  start();
  trace_to_file("");
  for (int i = 0; i < 3; i++)
    CHECK(tn_spawn(&threads[i], call_often, &often));
  for (int i = 0; i < 3; i++)
    tn_join(&threads[i]);
  pid_t child = fork();
  if (child == 0) {
    call_often(&often);
    _exit(check_failures != 0);
  }
  int status = 1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
  char *text = contents();
  check_closed(text, __LINE__);
  CHECK(count_of(text, "{\"ph\": \"B\"") == 150 && count_of(text, "{\"ph\": \"E\"") == 150);
  long long seen[8];
  int tracks = 0;
  for (const char *at = text; (at = strstr(at, "\"tid\": ")); at++) {
    long long track = atoll(at + 7);
    int i = 0;
    while (i < tracks && seen[i] != track)
      i++;
    if (i == tracks && tracks < 8) seen[tracks++] = track;
  }
  CHECK(tracks == 3);
  free(text);
  remove(path);
}

TEST("a trace file that cannot be created is an error, and the trace that was on continues") {
  capture();
  start();
  CHECK_STATUS(tenon_trace_set("dispatch"), TENON_OK);
  CHECK_STATUS(tenon_trace_set("dispatch,file=/no/such/folder/x.json"), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "trace file /no/such/folder/x.json: No such file or directory");
  CHECK_STATUS(tenon_trace_set("file=/dev/null"), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "trace file /dev/null: expected a regular file");
  CHECK_STATUS(tenon_trace_set("file="), TENON_INVALID);
  call_source(NULL);
  CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
  CHECK_LINES(release_capture(), "call traced::source {cpu} -> cpu [traced, kernel]",
              "  key {cpu} from *");
}

TEST("a trace file that cannot grow ends the trace, is reported once, and is complete up to that "
     "point") {
  int often = 3;
  struct rlimit before, small;
  start();
  trace_to_file("");
  capture();
  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
  small = before;
  small.rlim_cur = 700;
  signal(SIGXFSZ, SIG_IGN);
  CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
  call_often(&often);
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
  signal(SIGXFSZ, SIG_DFL);
  char expected[300];
  snprintf(expected, sizeof expected, "tenon: trace file %s: File too large; the trace ends here",
           path);
  CHECK_LINES(release_capture(), expected);
  char *text = contents();
  check_closed(text, __LINE__);
  CHECK(count_of(text, "{\"ph\": ") > 0 && strlen(text) <= 700);
  free(text);
  remove(path);
  CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
}

/* reasons */

static tenon_status_t call_dtype(const char *name, const char *backend, uint32_t dtype) {
  double in[2] = {1, 1};
  double out[2] = {0, 0};
  int64_t one = 1;
  tenon_device_t device;
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  CHECK_STATUS(tenon_device_find(backend, 0, &device), TENON_OK);
  CHECK_STATUS(
      tenon_tensor_borrow_on(device, in, tenon_dtype(dtype), 1, &one, NULL, NULL, NULL, &x),
      TENON_OK);
  CHECK_STATUS(
      tenon_tensor_borrow_on(device, out, tenon_dtype(dtype), 1, &one, NULL, NULL, NULL, &y),
      TENON_OK);
  tenon_status_t status = tenon_op_run(op_of(name), NULL, &x, &y);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  return status;
}

TEST(
    "an explanation names the kernel that a call takes, and why each other candidate is declined") {
  start();
  tenon_registration_t *npu = probe_add("probe::plain", "npu f32", &id[1], 0);
  tenon_registration_t *doubles = probe_add("probe::plain", "npu f64", &id[2], 0);
  tenon_registration_t *newer = probe_add("probe::plain", "npu f64", &id[3], TENON_OVERRIDE);
  tenon_registration_t *composite = probe_add("probe::plain", "composite", &id[4], 0);
  tenon_registration_t *fallback = probe_fallback("npu", &id[5], 0);
  unsigned long long number =
      /* the composite, which serves the other dtypes */
      probe_slot("probe::plain", "npu").number;
  char newest[120];
  snprintf(newest, sizeof newest, "  declined, number %llu is newer: 'npu f64' [program]",
           number - 1);
  capture();
  CHECK_STATUS(tenon_explain_set(TENON_EXPLAIN_ONCE), TENON_OK);
  for (int i = 0; i < 3; i++)
    CHECK_STATUS(call_dtype("probe::plain", "npu", TENON_F64), TENON_OK);
  CHECK_LINES(release_capture(),
              "explain probe::plain for npu, f64: takes npu f64 [program], resolved by 'kernel'",
              "  declined, kernels of the backend come before composites: 'composite' [program]",
              newest, "  declined, not for f64: 'npu f32' [program]",
              "  declined, for another backend: 'elsewhere'",
              "  declined, kernels come first: 'fallback'");
  capture(); /* another reason */
  CHECK_STATUS(call_dtype("probe::plain", "npu", TENON_I64), TENON_OK);
  CHECK_LINES(
      release_capture(),
      "explain probe::plain for npu, i64: takes composite [program], resolved by 'kernel'",
      "  declined, not for i64: 'npu f64' [program], 'npu f64' [program], 'npu f32' [program]",
      "  declined, for another backend: 'elsewhere'", "  declined, kernels come first: 'fallback'");
  tenon_registration_release(composite);
  capture();
  CHECK_STATUS(tenon_explain_set(TENON_EXPLAIN_ALL), TENON_OK);
  for (int i = 0; i < 2; i++)
    CHECK_STATUS(call_dtype("probe::plain", "npu", TENON_I64), TENON_OK);
  CHECK_LINES(
      release_capture(),
      "explain probe::plain for npu, i64: takes fallback: its own kernels are not for this dtype",
      "  declined, not for i64: 'npu f64' [program], 'npu f64' [program], 'npu f32' [program]",
      "  declined, for another backend: 'elsewhere'",
      "explain probe::plain for npu, i64: takes fallback: its own kernels are not for this dtype",
      "  declined, *", "  declined, *");
  tenon_registration_release(fallback);
  capture();
  CHECK_STATUS(call_dtype("probe::plain", "npu", TENON_I64), TENON_UNIMPLEMENTED);
  CHECK_LINES(release_capture(), "explain probe::plain for npu, i64: nothing serves",
              "  declined, not for i64: *", "  declined, for another backend: 'elsewhere'",
              "  declined, there is none: 'fallback'");
  CHECK_STATUS(tenon_explain_set(0), TENON_OK);
  capture();
  CHECK_STATUS(call_dtype("probe::plain", "npu", TENON_F64), TENON_OK);
  CHECK(strcmp(release_capture(), "") == 0);
  tenon_registration_release(npu);
  tenon_registration_release(doubles);
  tenon_registration_release(newer);
  CHECK_STATUS(tenon_explain_set(3), TENON_INVALID);
}

static void check_explained(const char *op, const char *key, uint32_t dtype,
                            const char *const *lines, int line) {
  char *text = NULL;
  tenon_dtype_t none = {0, 0, 0};
  check_status(tenon_op_explain(op_of(op), key, dtype ? tenon_dtype(dtype) : none, &text), TENON_OK,
               tenon_error(), __FILE__, line, key);
  if (text) check_lines(text, lines, __FILE__, line);
  tenon_text_release(text);
}
#define CHECK_EXPLAINED(op, key, dtype, ...)                                                       \
  check_explained((op), (key), (dtype), (const char *const[]){__VA_ARGS__, NULL}, __LINE__)

TEST("explanations give instruction sets, loops and preferences as reasons") {
  start();
  if (tn_cpu_has(tn_cpu_rank("avx2", 4))) {
    CHECK_EXPLAINED("traced::twice", "cpu", TENON_F32,
                    "explain traced::twice for cpu, f32: takes cpu loop f64 -> f64; avx2 [traced], "
                    "resolved by 'kernel'",
                    "  declined, one for avx2 comes first: 'cpu loop f64 -> f64'");
    CHECK_EXPLAINED("traced::twice", "cpu", 0, "explain traced::twice for cpu",
                    "  takes, resolved by 'kernel', for f16, f32, f64: 'cpu loop f64 -> f64; avx2'",
                    "  declined, one for avx2 comes first: 'cpu loop f64 -> f64'");
  }
  CHECK_EXPLAINED("probe::view", "npu", 0, "explain probe::view for npu: takes view");
  CHECK_EXPLAINED("probe::plain", "meta", 0, "explain probe::plain for meta: takes infer",
                  "  declined, for another backend: 'elsewhere'");
  CHECK_EXPLAINED("probe::plain", "npu", 0, "explain probe::plain for npu: nothing serves",
                  "  declined, for another backend: 'elsewhere'",
                  "  declined, there is none: 'fallback'");
  tenon_registration_t *preferred = probe_fallback("npu", &id[5], TENON_PREFERRED);
  tenon_registration_t *one = probe_add("probe::plain", "composite_explicit", &id[1], 0);
  tenon_registration_t *two = probe_add("probe::plain", "composite", &id[2], 0);
  CHECK_EXPLAINED(
      "probe::plain", "npu", 0, "explain probe::plain for npu: takes fallback",
      "  declined, the backend prefers its fallback to decomposing: 'composite' [program], "
      "'composite_explicit' [program]",
      "  declined, for another backend: 'elsewhere'");
  CHECK_EXPLAINED("probe::plain", "cpu", 0,
                  "explain probe::plain for cpu: takes composite_explicit [program], resolved by "
                  "'composite explicit'",
                  "  declined, composite_explicit comes before composite: 'composite' [program]",
                  "  declined, for another backend: 'elsewhere'");
  tenon_registration_t *kernel = probe_add("probe::plain", "npu f64", &id[3], 0);
  tenon_registration_t *pass = probe_add("probe::plain", "npu fallthrough", NULL, 0);
  CHECK_EXPLAINED("probe::plain", "npu", 0, "explain probe::plain for npu: takes fallthrough",
                  "  declined, a newer registration passes the key by: 'npu f64' [program], "
                  "'composite' [program], 'composite_explicit' [program]",
                  "  declined, for another backend: 'elsewhere'");
  tenon_registration_release(kernel);
  tenon_registration_release(pass);
  tenon_registration_release(one);
  tenon_registration_t *denial = NULL;
  tenon_registration_release(two);
  CHECK_STATUS(tenon_kernel_add("probe::plain", "npu no_fallback", NULL, NULL, NULL, 0, &denial),
               TENON_OK);
  CHECK_EXPLAINED(
      "probe::plain", "npu", 0, "explain probe::plain for npu: nothing serves",
      "  declined, no kernel, but words that deny the fallback: 'npu no_fallback' [program]",
      "  declined, for another backend: 'elsewhere'", "  declined, it is denied: 'fallback'");
  tenon_registration_release(denial);
  tenon_registration_release(preferred);
}

TEST("explanations give reasons for gradients and layers") {
  start();
  CHECK_EXPLAINED("probe::differentiable", "autograd cpu", 0,
                  "explain probe::differentiable for autograd cpu: takes gradient");
  CHECK_EXPLAINED("traced::both", "autograd npu", 0,
                  "explain traced::both for autograd npu: takes gradient",
                  "  declined, the operator's GRADIENT text comes first: 'composite'");
  tenon_registration_t *all = probe_add("probe::differentiable", "autograd", &id[1], 0);
  tenon_registration_t *own = probe_add("probe::differentiable", "autograd npu", &id[2], 0);
  tenon_registration_t *newer =
      probe_add("probe::differentiable", "autograd npu", &id[3], TENON_OVERRIDE);
  tenon_registration_t *view = probe_add("probe::differentiable", "view", &id[4], 0);
  char number[100];
  snprintf(number, sizeof number, "  declined, number %llu is newer: 'autograd npu' [program]",
           (unsigned long long)probe_slot("probe::differentiable", "autograd npu").number);
  CHECK_EXPLAINED(
      "probe::differentiable", "autograd npu", 0,
      "explain probe::differentiable for autograd npu: takes autograd npu [program], resolved by "
      "'kernel'",
      number,
      "  declined, a kernel for just this key comes first: 'autograd' [program], 'GRADIENT text'");
  CHECK_EXPLAINED(
      "probe::differentiable", "autograd cpu", 0,
      "explain probe::differentiable for autograd cpu: takes autograd [program], resolved by "
      "'autograd'",
      "  declined, the autograd kernel for all backends comes first: 'GRADIENT text'");
  CHECK_EXPLAINED(
      "probe::differentiable", "view", 0,
      "explain probe::differentiable for view: takes view [program], resolved by 'kernel'");
  CHECK_EXPLAINED("probe::plain", "functional", 0,
                  "explain probe::plain for functional: takes fallthrough");
  char *text = NULL;
  CHECK_STATUS(tenon_op_explain(op_of("probe::plain"), "strided", (tenon_dtype_t){0, 0, 0}, &text),
               TENON_INVALID);
  CHECK_TEXT(tenon_error(), "'strided' is a key that no kernels are registered for");
  CHECK_STATUS(
      tenon_op_explain(op_of("probe::plain"), "composite", (tenon_dtype_t){0, 0, 0}, &text),
      TENON_NOT_FOUND);
  CHECK_STATUS(tenon_op_explain(op_of("probe::plain"), "nothing", (tenon_dtype_t){0, 0, 0}, &text),
               TENON_NOT_FOUND);
  CHECK(!text);
  tenon_registration_release(all);
  tenon_registration_release(own);
  tenon_registration_release(newer);
  tenon_registration_release(view);
}

TEST("TENON_EXPLAIN switches explanations on at the start") {
  tenon_shutdown();
  setenv("TENON_EXPLAIN", "1", 1);
  capture();
  start();
  CHECK_STATUS(call_dtype("traced::look", "cpu", TENON_F64), TENON_OK);
  CHECK_STATUS(tenon_explain_set(0), TENON_OK);
  CHECK_LINES(release_capture(),
              "explain traced::look for cpu: takes cpu [traced], resolved by 'kernel'");
  tenon_shutdown();
  setenv("TENON_EXPLAIN", "everything", 1);
  capture();
  start();
  CHECK_LINES(release_capture(), "TENON_EXPLAIN is ignored: 'everything': expected 1 or all");
  unsetenv("TENON_EXPLAIN");
  tenon_shutdown();
}
