/* Models from files. Those in import/case have inputs and the outputs that onnx.reference (or
 * NumPy) computes; those in import/bad have one error each: tests/data/import/make.py. */
#include <stdbool.h>
#include <stdlib.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "check.h"
#include "faults.h"

#define FOLDER TEST_DATA "/import/"

static tenon_tensor_t *load(const char *name, const char *kind, int index) {
  char path[500];
  tenon_tensor_t *tensor = NULL;
  snprintf(path, sizeof path, FOLDER "case/%s/test_data_set_0/%s_%d.pb", name, kind, index);
  CHECK_STATUS(tenon_tensor_load(path, &tensor), TENON_OK);
  return tensor;
}

static bool is_same(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  if (!a || !b || tenon_dtype_id(a->dtype) != tenon_dtype_id(b->dtype) || a->ndim != b->ndim)
    return false;
  for (int32_t i = 0; i < a->ndim; i++)
    if (a->shape[i] != b->shape[i]) return false;
  for (int64_t i = 0; i < tenon_count(a); i++) {
    float x = ((float *)a->data)[i];
    float y = ((float *)b->data)[i];
    if (x - y > 1e-5f || y - x > 1e-5f) return false;
  }
  return true;
}

static void run_case(const char *name) {
  char path[500];
  tenon_graph_t *graph = NULL;
  tenon_executable_t *executable = NULL;
  tenon_tensor_t *inputs[8] = {0};
  tenon_tensor_t *outputs[8] = {0};
  snprintf(path, sizeof path, FOLDER "case/%s/model.onnx", name);
  CHECK_STATUS(tenon_graph_load(path, NULL, &graph), TENON_OK);
  if (!graph) return;
  CHECK_STATUS(tenon_executable_create(graph, NULL, &executable), TENON_OK);
  for (int i = 0; i < tenon_graph_input_count(graph); i++)
    inputs[i] = load(name, "input", i);
  if (executable) CHECK_STATUS(tenon_executable_run(executable, inputs, outputs, NULL), TENON_OK);
  for (int i = 0; i < tenon_graph_output_count(graph); i++) {
    tenon_tensor_t *expected = load(name, "output", i);
    tenon_tensor_t *dense = NULL;
    if (outputs[i]) CHECK_STATUS(tenon_tensor_copy(outputs[i], &dense), TENON_OK);
    if (!CHECK(is_same(dense, expected))) fprintf(stderr, "  output %d of %s\n", i, name);
    tenon_tensor_release(dense);
    tenon_tensor_release(expected);
  }
  for (int i = 0; i < 8; i++) {
    tenon_tensor_release(inputs[i]);
    tenon_tensor_release(outputs[i]);
  }
  tenon_executable_release(executable);
  tenon_graph_release(graph);
}

static bool has_control(void) {
  const tenon_op_t *op;
  return tenon_op_find("core::if", &op) == TENON_OK;
}

TEST("an input keeps its symbolic extents, and weights broadcast over them") {
  tenon_graph_t *graph = NULL;
  tenon_port_t port = {.size = sizeof port};
  CHECK_STATUS(tenon_graph_load(FOLDER "case/symbolic/model.onnx", NULL, &graph), TENON_OK);
  CHECK_STATUS(tenon_graph_input(graph, 0, &port), TENON_OK);
  CHECK(strcmp(port.name, "x") == 0 && port.ndim == 2 && port.axes[0].extent < 0 &&
        port.axes[1].extent == 3);
  CHECK_TEXT(port.axes[0].name, "n");
  tenon_graph_release(graph);
  run_case("symbolic");
}

TEST("an initialiser that is also an input is a constant, may be an output, and is made dense if "
     "it is sparse") {
  tenon_graph_t *graph = NULL;
  CHECK_STATUS(tenon_graph_load(FOLDER "case/initialisers/model.onnx", NULL, &graph), TENON_OK);
  CHECK(tenon_graph_input_count(graph) == 1 && tenon_graph_output_count(graph) == 2);
  tenon_graph_release(graph);
  run_case("initialisers");
}

TEST("functions of the model are inlined, with their attributes, defaults and absent inputs") {
  run_case("functions");
}

TEST("weights in another file are found beside the model") { run_case("external"); }

TEST("branches, loops and scans use values and constants of the enclosing graphs") {
  if (!has_control()) SKIP("this build has no control flow");
  run_case("captured_true");
  run_case("captured_false");
  run_case("loop");
  run_case("loop_never");
  run_case("scan");
}

TEST("sequences whose items are known become single tensors, also in branches and bodies") {
  run_case("sequences");
}

TEST("group_norm of operator set 18 has one scale and one bias for each group") {
  run_case("group_norm");
}

TEST("limits beyond the range of a dtype become the limits of that dtype") {
  run_case("clip_i8");
  run_case("clip_i64");
  run_case("clip_u8");
}

TEST("constants are read from each attribute that may hold one") { run_case("constants"); }

TEST("a model in memory is read like a file, but has no folder for external weights") {
  static char data[65536];
  FILE *file = fopen(FOLDER "case/symbolic/model.onnx", "rb");
  size_t size = file ? fread(data, 1, sizeof data, file) : 0;
  tenon_graph_t *graph = NULL;
  if (file) fclose(file);
  CHECK_STATUS(tenon_graph_read(data, size, NULL, &graph), TENON_OK);
  CHECK(graph && tenon_graph_input_count(graph) == 1);
  tenon_graph_release(graph);
  file = fopen(FOLDER "case/external/model.onnx", "rb");
  size = file ? fread(data, 1, sizeof data, file) : 0;
  if (file) fclose(file);
  CHECK_STATUS(tenon_graph_read(data, size, NULL, &graph), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "no folder");
  tenon_import_t options = {.size = sizeof options, .folder = FOLDER "case/external"};
  CHECK_STATUS(tenon_graph_read(data, size, &options, &graph), TENON_OK);
  tenon_graph_release(graph);
  CHECK_STATUS(tenon_graph_load(FOLDER "case/nothing/model.onnx", NULL, &graph), TENON_NOT_FOUND);
}

TEST("an error in a model is reported with its place") {
  static const struct {
    const char *name;
    const char *parts[3];
  } bad[] = {
      {"attribute",
       {"attribute.onnx: node 't' (Transpose", "'perm'", "expected a list of ints, found an int"}},
      {"attribute_unknown", {"node 'n' (Neg", "this operator has no attribute 'loudly'"}},
      {"circle", {"node 'f' (F", "recursively"}},
      {"cycle", {"the nodes 'a' (Add)", "'b' (Add)", "form a cycle"}},
      {"deep", {"nested more than"}},
      {"empty", {"the file is empty"}},
      {"external_absolute",
       {"tensor 'w' (f32 [3])", "/etc/passwd", "only files in the model's folder"}},
      {"external_length", {"expected 12 bytes, but the model states 8"}},
      {"external_missing", {"tensor 'w'", "nowhere.bin"}},
      {"external_short", {"expected 12 bytes at offset 1000000000, found 0"}},
      {"external_up", {"tensor 'w'", "only files in the model's folder"}},
      {"inputs", {"node 'n' (Neg", "expected at most 1 inputs, found 2"}},
      {"inputs_missing", {"node 'n' (Add", "input 1 (`b`) is missing"}},
      {"laughs", {"more than"}},
      {"no_model", {"byte"}},
      {"opset", {"operator set 999", "1 to 27"}},
      {"output", {"output 'y' is not defined"}},
      {"output_twice", {"output 'y' is listed twice"}},
      {"outputs", {"node 'n' (Neg", "expected at most 1 outputs, found 2"}},
      {"reference", {"'alpha' refers to the parameter 'a'"}},
      {"sequence", {"'s' is a sequence"}},
      {"too_old", {"node 'g' (Gelu, domain '', opset 13)", "older"}},
      {"twice", {"node 'again' (Abs", "'y' is defined twice"}},
      {"undefined", {"node 'a' (Add", "'nothing' is not defined"}},
      {"unknown",
       {"node 'f' and 1 more (Frobnicate, domain '', opset 21)",
        "node 'm' (Mystery, domain 'custom.things', opset 1)",
        "no operator custom_things::Mystery is loaded\nload the missing libraries first "
        "(tenon_library_load, --ops LIB)"}},
      {"weights_huge", {"impossible shape [4611686018427387904, 1024]"}},
      {"weights_large", {"expected 4398046511104 bytes, found 12"}},
      {"weights_negative", {"impossible shape [-1]"}},
      {"weights_short", {"tensor 'w' (f32 [4])", "expected 16 bytes, found 12"}},
      {"weights_typed", {"4398046511104 bytes"}},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char path[500];
    tenon_graph_t *graph = NULL;
    snprintf(path, sizeof path, FOLDER "bad/%s.onnx", bad[i].name);
    tenon_status_t status = tenon_graph_load(path, NULL, &graph);
    CHECK(status != TENON_OK && !graph);
    for (int k = 0; k < 3 && bad[i].parts[k]; k++)
      CHECK_TEXT(tenon_error(), bad[i].parts[k]);
    tenon_graph_release(graph);
  }
}

TEST("nodes that are out of order are sorted") {
  tenon_graph_t *graph = NULL;
  CHECK_STATUS(tenon_graph_load(FOLDER "bad/order.onnx", NULL, &graph), TENON_OK);
  CHECK(graph && tenon_graph_output_count(graph) == 1);
  tenon_graph_release(graph);
}

/* Reads a damaged copy in a block of its own, whose end a sanitizer sees. */
static void read_copy(const char *data, size_t size, size_t flipped) {
  char *copy = malloc(size + 1);
  tenon_graph_t *graph = NULL;
  if (!copy) return;
  if (size) memcpy(copy, data, size);
  if (flipped < 8 * size) copy[flipped / 8] = (char)(copy[flipped / 8] ^ 1 << flipped % 8);
  tenon_status_t status = tenon_graph_read(copy, size, NULL, &graph);
  CHECK((status == TENON_OK) == (graph != NULL));
  tenon_graph_release(graph);
  free(copy);
}

TEST("when any allocation fails, a model is refused and nothing leaks") {
  static const char *const names[] = {"functions", "loop", "initialisers", "external"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[500];
    int64_t made = INT64_MAX;
    snprintf(path, sizeof path, FOLDER "case/%s/model.onnx", names[i]);
    for (int64_t n = 1; n <= made; n++) {
      tenon_graph_t *graph = NULL;
      fault_memory(n, n % 2);
      tenon_status_t status = tenon_graph_load(path, NULL, &graph);
      made = status == TENON_MEMORY ? INT64_MAX : fault_count(FAULT_MEMORY);
      fault_end();
      if (!CHECK(status == (n <= made ? TENON_MEMORY : TENON_OK) &&
                 (status == TENON_OK) == (graph != NULL)))
        fprintf(stderr, "  %s, allocation %lld: status %d, %s\n", path, (long long)n, status,
                tenon_error());
      tenon_graph_release(graph);
    }
  }
}

TEST("a model that is truncated, or has any bit flipped, is read or refused") {
  static const char *const names[] = {"case/functions", "case/loop", "case/scan",
                                      "case/initialisers", "case/external"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    static char data[16384];
    char path[500];
    snprintf(path, sizeof path, FOLDER "%s/model.onnx", names[i]);
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(data, 1, sizeof data, file) : 0;
    if (file) fclose(file);
    CHECK(size > 0 && size < sizeof data);
    for (size_t cut = 0; cut < size; cut++)
      read_copy(data, cut, SIZE_MAX);
    for (size_t bit = 0; bit < 8 * size; bit++)
      read_copy(data, size, bit);
  }
}
