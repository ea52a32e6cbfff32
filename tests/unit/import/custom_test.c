/* Operators of custom domains: the models of import/custom (tests/data/import/make.py) and a
 * library that is linked in. Expected values are worked out by hand. */
#define TENON_STATIC
#include <stdbool.h>
#include <tenon/op.h>
#include <tenon/tenon.h>

#include "check.h"

#define FOLDER TEST_DATA "/import/custom/"

/* y = x * factor + offsets[0] + offsets[1] + table[0], and 1000 more where mode is 'up' */
static tenon_status_t scale_run(tenon_call_t *call) {
  const float *x = call->inputs[0]->data;
  float *y = call->outputs[0]->data;
  float more = call->attrs[2].as.i == 1 ? 1000 : 0;
  for (uint32_t i = 0; i < call->attrs[1].count; i++)
    more += (float)call->attrs[1].as.ints[i];
  if (call->attrs[4].kind == TENON_KIND_TENSOR)
    more += *(const float *)call->attrs[4].as.tensor->data;
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    y[i] = x[i] * (float)call->attrs[0].as.f + more;
  return TENON_OK;
}

/* Result k is the sum of the first and the k-th item. */
static tenon_status_t parts_run(tenon_call_t *call) {
  for (int64_t k = 0; k < call->outputs[0]->shape[0]; k++) {
    const float *a = call->inputs[0]->data;
    const float *b = tenon_item(call->inputs[1], k)->data;
    float *y = tenon_item(call->outputs[0], k)->data;
    for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
      y[i] = a[i] + b[i] + (float)k;
  }
  return TENON_OK;
}

static tenon_status_t parts_infer(tenon_infer_t *infer) {
  for (uint32_t k = 0; k < infer->outputs[0]->count; k++) {
    tenon_meta_t *out = infer->outputs[0]->items[k];
    if (!out) continue;
    out->ndim = infer->inputs[0]->ndim;
    for (int32_t i = 0; i < out->ndim; i++)
      out->dims[i] = infer->inputs[0]->dims[i];
  }
  return TENON_OK;
}

static tenon_status_t twice_run(tenon_call_t *call) {
  tenon_tensor_t *once = NULL;
  tenon_tensor_t *outputs[1] = {NULL};
  TENON_TRY(call->host->evaluate(call, call->attrs[0].as.graph, 1, call->inputs, 1, &once));
  TENON_TRY(call->host->evaluate(call, call->attrs[0].as.graph, 1, &once, 1, outputs));
  return call->host->assign(call, 0, outputs[0]);
}

static tenon_status_t line_run(tenon_call_t *call) {
  const float *x = call->inputs[0]->data;
  float *y = call->outputs[0]->data;
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    y[i] = x[i] * (float)call->attrs[0].as.f + (float)call->attrs[1].as.f;
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(com_acme, "1.0.0",
  TENON_OP("Scale(Tensor x, *, float factor, int[] offsets=[], str['down', 'up'] mode='down', "
           "dtype to=f32, tensor? table=None) -> Tensor",
    TENON_TYPES("x: f32; out = to"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", scale_run)),
  TENON_OP("Parts(Tensor x, Tensor[] more, *, int count) -> Tensor[count]",
    TENON_TYPES("x, more: f32; out = x"), TENON_TRAITS(TENON_PURE), TENON_INFER(parts_infer),
    TENON_KERNEL("cpu", parts_run)),
  TENON_OP("Line(Tensor x, *, float factor, float shift) -> Tensor",
    TENON_VERSION(3), TENON_UPGRADE(1, "rename alpha -> gain; drop tint; set move = 5.0"),
    TENON_UPGRADE(2, "rename gain -> factor; rename move -> shift"), TENON_TYPES("x: f32; out = x"),
    TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", line_run)),
  TENON_OP("Twice(Tensor x, *, graph body) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_COMPOSITE(twice_run)))
/* clang-format on */

static bool run(const char *path, float outputs[2][6]) {
  float x[6] = {-2, -1, 0, 1, 2, 3};
  int64_t shape[2] = {2, 3};
  tenon_graph_t *graph = NULL;
  tenon_executable_t *executable = NULL;
  tenon_tensor_t *input = NULL;
  tenon_tensor_t *results[2] = {0};
  CHECK_STATUS(tenon_graph_load(path, NULL, &graph), TENON_OK);
  CHECK_STATUS(tenon_tensor_borrow(x, tenon_dtype(TENON_F32), 2, shape, NULL, NULL, NULL, &input),
               TENON_OK);
  tenon_status_t status = graph ? tenon_executable_create(graph, NULL, &executable) : TENON_INVALID;
  if (status == TENON_OK) status = tenon_executable_run(executable, &input, results, NULL);
  CHECK_STATUS(status, TENON_OK);
  for (int k = 0; k < 2; k++) {
    if (results[k]) memcpy(outputs[k], results[k]->data, sizeof x);
    tenon_tensor_release(results[k]);
  }
  tenon_tensor_release(input);
  tenon_executable_release(executable);
  tenon_graph_release(graph);
  return status == TENON_OK;
}

TEST("an operator of a custom domain without its library is refused, and the message says what to "
     "load") {
  tenon_graph_t *graph = NULL;
  CHECK_STATUS(tenon_graph_load(FOLDER "scale.onnx", NULL, &graph), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "no operator com_acme::Scale is loaded; load its library first "
                            "(tenon_library_load, --ops LIB)");
  CHECK_STATUS(tenon_library_add(tenon_library_com_acme(), NULL, NULL, NULL), TENON_OK);
}

TEST("attributes of each kind are imported as the schema declares them") {
  float y[2][6];
  if (run(FOLDER "scale.onnx", y))
    CHECK(y[0][0] == -2 * 2 + 1 + 2 + 5 + 1000 && y[0][5] == 3 * 2 + 1 + 2 + 5 + 1000);
}

TEST("a list takes the remaining inputs, and the node's outputs determine the number of results") {
  float y[2][6];
  if (run(FOLDER "lists.onnx", y)) CHECK(y[0][0] == -4 && y[1][0] == -3 && y[1][5] == 7);
}

TEST("a graph attribute can be evaluated, and one that uses values from outside is refused") {
  float y[2][6];
  tenon_graph_t *graph = NULL;
  if (run(FOLDER "body.onnx", y)) CHECK(y[0][0] == -8 && y[0][5] == 12);
  CHECK_STATUS(tenon_graph_load(FOLDER "body_captures.onnx", NULL, &graph), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "'x' from outside");
}

TEST("a node of an older version of its operator is imported through the upgrades in between") {
  static const char *const versions[] = {
      /* 9: a later version of the domain, in which the operator is unchanged. */
      "1", "2", "3", "9"};
  for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
    char path[500];
    float y[2][6];
    snprintf(path, sizeof path, FOLDER "version_%s.onnx", versions[i]);
    if (run(path, y)) CHECK(y[0][0] == -2 * 2 + 5 && y[0][5] == 3 * 2 + 5);
  }
  tenon_graph_t *graph = NULL;
  CHECK_STATUS(tenon_graph_load(FOLDER "version_late.onnx", NULL, &graph), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "node 'line' (Line, domain com.acme, opset 2)");
  CHECK_TEXT(tenon_error(), "attribute 'alpha' does not exist in Line(Tensor x");
}

TEST("a node that does not fit the schema is refused, and the message quotes the schema") {
  static const struct {
    const char *name;
    const char *parts[2];
  } bad[] = {
      {"attribute",
       {"node 'scale' (Scale, domain com.acme, opset 1)",
        "'factr' does not exist in Scale(Tensor x"}},
      {"type", {"'factor'", "expected a float, found a string"}},
      {"choice", {"'mode'", "sideways"}},
      {"required", {"factor"}},
      {"inputs", {"2 inputs, but Scale(Tensor x"}},
      {"name", {"com_acme::Scael"}},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char path[500];
    tenon_graph_t *graph = NULL;
    snprintf(path, sizeof path, FOLDER "%s.onnx", bad[i].name);
    CHECK(tenon_graph_load(path, NULL, &graph) != TENON_OK && !graph);
    for (int k = 0; k < 2 && bad[i].parts[k]; k++)
      CHECK_TEXT(tenon_error(), bad[i].parts[k]);
  }
}
