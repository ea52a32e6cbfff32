/* Watching calls: which calls are saved, which NaN are reported, and that calls are unchanged while
 * it is off. */
#include "base/status.h"
#include "dump/watch.h"
#include "layers/trace.h"

#include <math.h>
#include <tenon/tenon.h>

#include "check.h"
#include "tensors.h"

#include "base/file.h"
#include "capture.h"

/* operators */

static int calls;

static tenon_status_t root(tenon_call_t *call) {
  const float *x = call->inputs[0]->data;
  calls++;
  if (x[0] > 100) return tenon_fail(call, TENON_RANGE, "more than a hundred");
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    ((float *)call->outputs[0]->data)[i] = sqrtf(x[i]);
  return TENON_OK;
}

static tenon_status_t outer(tenon_call_t *call) {
  tenon_tensor_t *result = call->outputs[0];
  return call->host->invoke(call, call->uses[0], NULL, call->inputs, &result);
}

static tenon_status_t add_one(tenon_call_t *call) {
  float *x = call->inputs[0]->data;
  x[0] += 1;
  return x[0] > 2 ? tenon_fail(call, TENON_RANGE, "above two") : TENON_OK;
}

#define SAME(schema) TENON_OP(schema, TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x")
static const tenon_item_t items[] = {
    SAME("watch::root(Tensor x) -> Tensor"), TENON_KERNEL("cpu", root)),
    SAME("watch::outer(Tensor x) -> Tensor"), TENON_USES("watch::root"),
    TENON_KERNEL("cpu", outer)),
    SAME("watch::add_one(Tensor(a!) x) -> Tensor(a!)"), TENON_KERNEL("cpu", add_one)),
    {0}};

static const tenon_op_t *find(const char *name) {
  static tenon_registration_t *registration;
  const tenon_op_t *op = NULL;
  if (!registration) CHECK_STATUS(tenon_op_add(items, NULL, NULL, 0, &registration), TENON_OK);
  CHECK_STATUS(tenon_op_find(name, &op), TENON_OK);
  return op;
}

static tenon_status_t call(const char *name, const char *input) {
  tenon_tensor_t *x = tensor_of(input);
  tenon_tensor_t *y = NULL;
  tenon_status_t status = tenon_op_call(find(name), NULL, &x, &y, 0);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  return status;
}

/* folders */

static char folder[4096];
static void begin(uint32_t flags, const char *ops, int32_t most) {
  tenon_record_t record = {
      .size = sizeof record, .flags = flags, .folder = folder, .ops = ops, .most = most};
  (void)find("watch::root");
  CHECK_STATUS(tn_folder_make(folder, sizeof folder), TENON_OK);
  CHECK_STATUS(tenon_record_set(&record), TENON_OK);
}

static tenon_recording_t *load(const char *name, tenon_recording_info_t *info) {
  char path[4200];
  tenon_recording_t *recording = NULL;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  CHECK_STATUS(tenon_recording_load(path, &recording), TENON_OK);
  *info = (tenon_recording_info_t){.size = sizeof *info};
  if (recording) tenon_recording_info(recording, info);
  return recording;
}

static bool is_there(const char *name) {
  char path[4200];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return tn_file_is_folder(path);
}

static void end(const char *const *names) {
  char path[4200];
  CHECK_STATUS(tenon_record_set(NULL), TENON_OK);
  for (; *names; names++) {
    snprintf(path, sizeof path, "%s/%s", folder, *names);
    tn_folder_remove(path);
  }
  tn_folder_remove(folder);
  CHECK(!tn_file_is_folder(folder)); /* The folder contained nothing else. */
}

/* failure dumps */

TEST("calls that fail are saved, and calls that succeed are not") {
  tenon_recording_info_t info;
  begin(0, NULL, 0);
  CHECK_STATUS(call("watch::root", "f32[2] 4 9"), TENON_OK);
  CHECK_STATUS(call("watch::root", "f32[2] 400 9"), TENON_RANGE);
  /* The message is still that of the call. */
  CHECK_TEXT(tn_error(), "more than a hundred");
  CHECK_STATUS(call("watch::root", "f64[1] 4"), TENON_INVALID);
  tenon_recording_t *first = load("000-watch.root", &info);
  CHECK(info.status == TENON_RANGE && info.input_count == 1 && !info.outputs);
  if (info.inputs) CHECK_TENSOR(info.inputs[0], "f32[2] 400 9");
  CHECK_TEXT(info.error, "more than a hundred");
  tenon_recording_release(first);
  tenon_recording_t *second = load("001-watch.root", &info);
  CHECK_TEXT(info.error, "expected f32, found f64");
  tenon_recording_release(second);
  end((const char *const[]){"000-watch.root", "001-watch.root", NULL});
}

TEST("calls that were asked for are saved with their results, and an inner call before the outer "
     "one") {
  tenon_recording_info_t info;
  begin(0, "none, watch::ou*", 0);
  CHECK_STATUS(call("watch::outer", "f32[2] 4 9"), TENON_OK);
  tenon_recording_t *recording = load("000-watch.outer", &info);
  CHECK(info.status == TENON_OK && info.output_count == 1);
  if (info.outputs) CHECK_TENSOR(info.outputs[0], "f32[2] 2 3");
  tenon_recording_release(recording);
  end((const char *const[]){"000-watch.outer", NULL});
  begin(TENON_RECORD_ALL, NULL, 0);
  CHECK_STATUS(call("watch::outer", "f32[2] 4 9"), TENON_OK);
  CHECK(is_there("000-watch.root") && is_there("001-watch.outer"));
  end((const char *const[]){"000-watch.root", "001-watch.outer", NULL});
}

TEST("an input that is written to is saved as it was before and after the call") {
  tenon_recording_info_t info;
  begin(TENON_RECORD_ALL, NULL, 0);
  CHECK_STATUS(call("watch::add_one", "f32[2] 1 9"), TENON_OK);
  CHECK_STATUS(call("watch::add_one", "f32[2] 2 9"), TENON_RANGE);
  tenon_recording_t *fine = load("000-watch.add_one", &info);
  if (info.inputs) CHECK_TENSOR(info.inputs[0], "f32[2] 1 9");
  CHECK(info.written);
  if (info.written) CHECK_TENSOR(info.written[0], "f32[2] 2 9");
  tenon_recording_release(fine);
  tenon_recording_t *failed = load("001-watch.add_one", &info);
  if (info.inputs) CHECK_TENSOR(info.inputs[0], "f32[2] 2 9");
  CHECK(!info.written && info.status == TENON_RANGE);
  tenon_recording_release(failed);
  end((const char *const[]){"000-watch.add_one", "001-watch.add_one", NULL});
}

TEST("only as many calls are saved as were asked for, and an existing folder is skipped") {
  char path[4200];
  begin(TENON_RECORD_ALL, NULL, 2);
  snprintf(path, sizeof path, "%s/000-watch.root", folder);
  CHECK_STATUS(tn_folder_create(path, true), TENON_OK);
  for (int i = 0; i < 4; i++)
    CHECK_STATUS(call("watch::root", "f32[1] 4"), TENON_OK);
  CHECK(is_there("001-watch.root") && is_there("002-watch.root") && !is_there("003-watch.root"));
  end((const char *const[]){"000-watch.root", "001-watch.root", "002-watch.root", NULL});
}

TEST("a node of a planned graph is saved with its input, though its result reuses the input's "
     "memory") {
  tenon_builder_t *builder = NULL;
  tenon_graph_t *graph = NULL;
  tenon_executable_t *executable = NULL;
  tenon_axis_t axes[] = {{2, NULL}};
  tenon_edge_t x, y;
  tenon_recording_info_t info;
  CHECK_STATUS(tenon_builder_create(&builder), TENON_OK);
  CHECK_STATUS(tenon_builder_input(builder, "x", tenon_dtype(TENON_F32), 1, axes, &x), TENON_OK);
  CHECK_STATUS(tenon_builder_node(builder, "the root", find("watch::root"), NULL,
                                  &(tenon_operand_t){1, &x}, &y, 1),
               TENON_OK);
  CHECK_STATUS(tenon_builder_output(builder, "y", y), TENON_OK);
  CHECK_STATUS(tenon_builder_finish(builder, &graph), TENON_OK);
  CHECK_STATUS(tenon_executable_create(graph, NULL, &executable), TENON_OK);
  begin(TENON_RECORD_ALL, NULL, 0);
  tenon_tensor_t *in = tensor_of("f32[2] 4 9");
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_executable_run(executable, &in, &out, NULL), TENON_OK);
  CHECK_TENSOR(out, "f32[2] 2 3");
  tenon_tensor_release(out);
  out = NULL;
  ((float *)in->data)[0] = 1000;
  CHECK_STATUS(tenon_executable_run(executable, &in, &out, NULL), TENON_RANGE);
  CHECK_TEXT(tn_error(), "node 'the root' (watch::root): watch::root: more than a hundred");
  tenon_recording_t *recording = load("001-watch.root", &info);
  CHECK_TEXT(info.node, "the root");
  if (info.inputs) CHECK_TENSOR(info.inputs[0], "f32[2] 1000 9");
  tenon_recording_release(recording);
  end((const char *const[]){"000-watch.root", "001-watch.root", NULL});
  tenon_tensor_release(in);
  tenon_executable_release(executable);
  tenon_graph_release(graph);
  tenon_builder_release(builder);
}

TEST("a dump that cannot be written does not change the call's outcome") {
  tenon_record_t nowhere = {.size = sizeof nowhere, .folder = "/proc/no such folder"};
  tenon_record_t nothing = {.size = sizeof nothing};
  CHECK_STATUS(tenon_record_set(&nowhere), TENON_NOT_FOUND);
  CHECK_STATUS(tenon_record_set(&nothing), TENON_INVALID);
  begin(TENON_RECORD_ALL, NULL, 0);
  tn_folder_remove(folder);
  /* A file now stands where the folder was. */
  CHECK_STATUS(tn_file_replace(folder, "x", 1, 0600), TENON_OK);
  CHECK_STATUS(call("watch::root", "f32[1] 4"), TENON_OK);
  CHECK_STATUS(call("watch::root", "f32[1] 400"), TENON_RANGE);
  CHECK_TEXT(tn_error(), "more than a hundred");
  CHECK_STATUS(tenon_record_set(NULL), TENON_OK);
  tn_file_remove(folder);
}

/* NaN */

TEST("in mode stop, the first NaN ends the call, with its position and the state of the inputs") {
  CHECK_STATUS(tenon_nan_set("stop"), TENON_OK);
  CHECK_STATUS(call("watch::root", "f32[2] 4 9"), TENON_OK);
  CHECK_STATUS(call("watch::root", "f32[2,2] 4 9 1 -1"), TENON_ABORTED);
  CHECK_TEXT(tn_error(),
             "watch::root: result out[1, 1] is NaN; its inputs have none: it begins here");
  CHECK_STATUS(call("watch::root", "f32[3] 4 nan nan"), TENON_ABORTED);
  CHECK_TEXT(
      tn_error(),
      "result out[1] is NaN (the first of 2 among 3 numbers); before the call: input x[1] is NaN");
  CHECK_STATUS(call("watch::root", "f32[1] inf"),
               /* The failure of the call itself comes first. */
               TENON_RANGE);
  /* The input had it before, so it does not begin here. */
  CHECK_STATUS(call("watch::add_one", "f32[2] -inf 1"), TENON_OK);
  CHECK_STATUS(call("watch::outer", "f32[1] -1"), TENON_ABORTED);
  /* It begins in the inner call. */
  CHECK_TEXT(tn_error(), "watch::root: result out[0] is NaN");
  CHECK_STATUS(tenon_nan_set(NULL), TENON_OK);
  CHECK_STATUS(call("watch::root", "f32[2] 4 -9"), TENON_OK);
}

TEST("in mode report, a NaN is reported where it begins, also from infinities, and not where it "
     "continues") {
  CHECK_STATUS(tenon_nan_set("report"), TENON_OK);
  capture();
  CHECK_STATUS(call("watch::root", "f32[2] 1 -1"), TENON_OK);
  CHECK_STATUS(call("watch::root", "f32[2] 1 -inf"), TENON_OK);
  CHECK_STATUS(call("watch::root", "f32[2] 1 nan"), TENON_OK);
  CHECK_STATUS(call("watch::add_one", "f32[2] 1 inf"), TENON_OK);
  CHECK_LINES(release_capture(),
              "tenon: watch::root: result out[1] is NaN; its inputs have none: it begins here",
              "tenon: watch::root: result out[1] is NaN; it begins here, from infinities: input "
              "x[1] is infinite");
  CHECK_STATUS(tenon_nan_set(NULL), TENON_OK);
}

TEST("an unknown mode is refused, and the mode that was set stays") {
  CHECK_STATUS(tenon_nan_set("stop,nan"), TENON_OK);
  CHECK_STATUS(tenon_nan_set("halt"), TENON_INVALID);
  CHECK_TEXT(tn_error(), "'halt': expected 'stop' or 'report', optionally followed by ',nan'");
  CHECK_STATUS(call("watch::root", "f32[1] -1"), TENON_ABORTED);
  CHECK_STATUS(tenon_nan_set(""), TENON_OK);
}

TEST("while watching is off, no call takes the way through the watch") {
  CHECK(!tn_watch_is_on() && !(tn_key_of_process() >> TN_BIT_TRACE & 1));
  CHECK_STATUS(tenon_nan_set("report"), TENON_OK);
  CHECK(tn_watch_is_on());
  CHECK_STATUS(tenon_trace_set("dispatch"), TENON_OK);
  CHECK_STATUS(tenon_nan_set(NULL), TENON_OK);
  CHECK(tn_watch_is_on()); /* because of the trace */
  CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
  CHECK(!tn_watch_is_on());
  calls = 0;
  CHECK_STATUS(call("watch::root", "f32[1] 4"), TENON_OK);
  CHECK(calls == 1);
}

TEST("the watch can be started again, and shutdown ends it") {
  CHECK_STATUS(tenon_nan_set("stop"), TENON_OK);
  tenon_shutdown();
  CHECK(!tn_watch_is_on());
}
