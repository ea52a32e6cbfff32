/* Graphs as text: what the language can say, what it refuses and with which message, and its file
 * of weights. That a graph is read back as it was written is shown by export_test.c, by the random
 * graphs and, for the models of ONNX, by tests/acceptance/graph_text_test.py. */
#define TENON_STATIC
#include <stdlib.h>
#include <tenon/tenon.h>

#include "check.h"
#include "tensors.h"

#include "base/file.h"
#include "base/text.h"
#include "core/dtype.h"
#include "graph/graph.h"

static tenon_graph_t *graph_of_text(const char *text) {
  tenon_graph_t *graph = NULL;
  CHECK_STATUS(tenon_graph_read(text, strlen(text), NULL, &graph), TENON_OK);
  if (!graph) fprintf(stderr, "%s\n", tenon_error());
  return graph;
}

static void refuse(const char *lines, const char *message) {
  tenon_graph_t *graph = NULL;
  tn_text_t text = {0};
  tn_text_add(&text, "tenon graph 1\n%s", lines);
  CHECK(tenon_graph_read(tn_text_get(&text), text.size, NULL, &graph) != TENON_OK && !graph);
  CHECK_TEXT(tenon_error(), message);
  tenon_graph_release(graph);
  tn_text_clear(&text);
}

/* Runs a graph of one input and one output on a vector of floats. */
static void check_run(const tenon_graph_t *graph, const char *input, const char *expected) {
  tenon_executable_t *executable = NULL;
  tenon_tensor_t *x = tensor_of(input);
  tenon_tensor_t *wanted = tensor_of(expected);
  tenon_tensor_t *y = NULL;
  CHECK_STATUS(tenon_executable_create(graph, NULL, &executable), TENON_OK);
  if (executable) CHECK_STATUS(tenon_executable_run(executable, &x, &y, NULL), TENON_OK);
  CHECK(y && tensor_equal(y, wanted, 0));
  tenon_executable_release(executable);
  tenon_tensor_release(x);
  tenon_tensor_release(wanted);
  tenon_tensor_release(y);
}

TEST("a text written by hand is a graph") {
  tenon_graph_t *graph = graph_of_text("tenon graph 1\n"
                                       "# a comment\n"
                                       "graph example(x: f32[n, 2]) {\n"
                                       "  one = f32[2] [1, -2.5]   # another\n"
                                       "  'the sum' = core::add(x, one) as 'first node'\n"
                                       "  %7 = core::neg('the sum')\n"
                                       "  return y=%7\n"
                                       "}\n");
  if (!graph) return;
  CHECK_TEXT(tenon_graph_name(graph), "example");
  CHECK(graph->node_count == 2 && graph->input_count == 1 && graph->output_count == 1);
  CHECK_TEXT(graph->nodes[0].name, "first node");
  CHECK_TEXT(graph->nodes[1].name, "neg_1");
  CHECK_TEXT(graph->edges[graph->nodes[0].outputs[0]].name, "the sum");
  CHECK_TEXT(graph->edges[graph->nodes[1].outputs[0]].name, "%7");
  CHECK_TEXT(graph->input_axes[0][0].name, "n");
  check_run(graph, "f32[2, 2] 0 0 1 2", "f32[2, 2] -1 2.5 -2 0.5");
  tenon_graph_release(graph);
}

TEST("a graph in an attribute has values of its own") {
  tenon_graph_t *graph = graph_of_text("tenon graph 1\n"
                                       "graph (x: f32[3]) {\n"
                                       "  zero = f32[] 0\n"
                                       "  total = core::reduce_sum(x)\n"
                                       "  is_positive = core::greater(total, zero)\n"
                                       "  y = core::if(is_positive, [x], then=graph (x: f32[3]) {\n"
                                       "    two = f32[] 2\n"
                                       "    y = core::mul(x, two)\n"
                                       "    return y\n"
                                       "  }, else=graph (x: f32[3]) {\n"
                                       "    y = core::neg(x)\n"
                                       "    return y\n"
                                       "  }, count=1)\n"
                                       "  return y\n"
                                       "}\n");
  if (!graph) return;
  check_run(graph, "f32[3] 1 2 3", "f32[3] 2 4 6");
  check_run(graph, "f32[3] -1 -2 4", "f32[3] -2 -4 8");
  check_run(graph, "f32[3] -1 -2 -3", "f32[3] 1 2 3");
  tenon_graph_release(graph);
}

TEST("what is not in the language is refused with the line") {
  static const struct {
    const char *lines;
    const char *message;
  } cases[] = {
      {"", "line 2, column 1: expected graph, found the end of the text"},
      {"graf () {\n", "line 2, column 1: expected graph, found 'graf'"},
      {"graph () {\n", "found the end of the text"},
      {"graph (x f32[]) { return }", "line 2, column 10: expected ':' and the type of the input"},
      {"graph (x: g32[]) { return }", "line 2, column 11: expected a dtype, found 'g32'"},
      {"graph (x: f32[-1]) { return }", "line 2, column 15: an extent is negative"},
      {"graph (x: f32[2) { return }", "expected ',' or ']', found ')'"},
      {"graph (x: f32[2], x: f32[2]) { return }", "line 2: the graph has two values named 'x'"},
      {"graph (x: f32[2] csr) { return }", "line 2: input 'x': "},
      {"graph (x: f32[2] sparse) { return }", "expected csr, row_sparse, ',' or ')'"},
      {"graph (x: f32[]) {\n  y = core::neg(z)\n  return y\n}",
       "line 3, column 17: no value 'z' exists here: a value must be defined before the line that "
       "reads it"},
      {"graph (x: f32[]) {\n  x = core::neg(x)\n  return x\n}",
       "line 3, column 3: the graph has two values named 'x'"},
      {"graph (x: f32[]) {\n  y, z = core::neg(x)\n  return y\n}",
       "line 3: node 'neg' (core::neg): the operator has 1 results, found 2"},
      {"graph (x: f32[]) {\n  y = core::nag(x)\n  return y\n}",
       "line 3: no operator 'core::nag'; did you mean 'core::neg'?"},
      {"graph (x: f32[]) {\n  y = core::neg(x, x)\n  return y\n}",
       "line 3, column 20: core::neg takes 1 inputs at most"},
      {"graph (x: f32[]) {\n  y = core::neg(None)\n  return y\n}",
       "line 3: node 'neg' (core::neg): the required input x is missing"},
      {"graph (x: f32[2]) {\n  y = core::softmax(x, axes=1)\n  return y\n}", "line 3: "},
      {"graph (x: f32[2]) {\n  y = core::softmax(axis=0, x)\n  return y\n}",
       "line 3, column 29: expected an attribute such as axis=1: inputs come first, found 'x'"},
      {"graph (x: f32[2]) {\n  y = core::softmax(x, axis='a')\n  return y\n}",
       "line 3: operator 'core::softmax': attribute 'axis': expected int, found 'a'"},
      {"graph (x: f32[2]) {\n  y = core::concat(x, axis=0)\n  return y\n}",
       "line 3, column 20: expected '[' and the values of a list, found 'x'"},
      {"graph (x: f32[2]) {\n  y = core::matmul(x, x)\n  return y\n", "found the end of the text"},
      {"graph (x: f32[2]) {\n  return y\n}", "line 3, column 10: no value 'y' exists here"},
      {"graph (x: f32[2]) {\n  return x, x\n}", "line 3: the graph has two outputs named 'x'"},
      {"graph () {\n  c = f32[2] [1]\n  return c\n}",
       "line 3, column 14: expected as many elements as the shape has, found 1"},
      {"graph () {\n  c = f32[?] [1]\n  return c\n}",
       "line 3, column 7: every extent of a constant must be a number"},
      {"graph () {\n  c = f32[...] [1]\n  return c\n}", "every extent of a constant"},
      {"graph () {\n  c = u8[] 256\n  return c\n}", "line 3, column 12: element 0 does not fit u8"},
      {"graph () {\n  c = i32[1] [0.5]\n  return c\n}", "element 0 does not fit i32"},
      {"graph () {\n  c = u64[] -1\n  return c\n}", "element 0 does not fit u64"},
      {"graph () {\n  c = f32[] 'a'\n  return c\n}",
       "expected elements of dtype f32, found a list of strings"},
      {"graph () {\n  c = string[] 1\n  return c\n}",
       "expected elements of dtype string, found a list of numbers"},
      {"graph () {\n  c = c64[] 1\n  return c\n}",
       "the elements of a tensor of dtype c64 are in a file of weights only"},
      {"graph () {\n  c = f32[] None\n  return c\n}",
       "the elements of a tensor of dtype f32 are numbers or strings"},
      {"graph () {\n  c = f32[4611686018427387904, 4] []\n  return c\n}",
       "expected as many elements as the shape has, found 0"},
      {"graph () {\n  c = f32[2] weights('c')\n  return c\n}",
       "line 3, column 14: the text names no file of weights"},
      {"weights 'w.safetensors'\ngraph () { return }",
       "line 2: external data in 'w.safetensors', but a model in memory has no folder"},
      {"graph () { return } more", "line 2, column 21: expected the end of the text, found 'more'"},
      {"graph () { return } &", "found '&', which is no token"},
      {"graph '' () { return }", "line 2, column 7: a name is empty or contains a byte 0"},
      {"graph 'a\\x00b' () { return }", "a name is empty or contains a byte 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    refuse(cases[i].lines, cases[i].message);
}

TEST(
    "a later version of the language, a byte 0 and graphs that are nested too deeply are refused") {
  static const char later[] = "tenon graph 2\ngraph () { return }";
  static const char zero[] = "tenon graph 1\ngraph () { return }\n\0";
  tenon_graph_t *graph = NULL;
  tn_text_t deep = {0};
  CHECK_STATUS(tenon_graph_read(later, sizeof later - 1, NULL, &graph), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "version 2 of the language, but this libtenon reads version 1");
  CHECK_STATUS(tenon_graph_read(zero, sizeof zero - 1, NULL, &graph), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "line 3, column 1: expected text, found a byte 0");
  tn_text_add(&deep, "graph (c: bool[]) {\n");
  for (int i = 0; i < 100; i++)
    tn_text_add(&deep, "y = core::if(c, [c], then=graph (c: bool[]) {");
  refuse(tn_text_get(&deep), "more than 32 graphs within each other");
  tn_text_clear(&deep);
}

/* The file of weights */

static void refuse_weights(const char *folder, const void *file, size_t size, const char *message) {
  static const char text[] = "tenon graph 1\nweights 'w.safetensors'\n"
                             "graph () {\n  c = f32[2] weights('c')\n  return c\n}\n";
  char path[300];
  const tenon_import_t options = {sizeof options, 0, folder};
  tenon_graph_t *graph = NULL;
  snprintf(path, sizeof path, "%s/w.safetensors", folder);
  CHECK_STATUS(tn_file_replace(path, file, size, 0600), TENON_OK);
  const tenon_status_t status = tenon_graph_read(text, sizeof text - 1, &options, &graph);
  CHECK(!*message == (status == TENON_OK));
  if (*message) CHECK_TEXT(tenon_error(), message);
  tenon_graph_release(graph);
}

TEST("a damaged file of weights is refused, and what was expected is stated") {
  static const struct {
    const char *header;
    const char *message;
  } cases[] = {
      {"{\"c\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", ""},
      {"{\"c\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}", ""},
      {"[]", "line 1, column 1: expected an object as the header, found a list"},
      {"{", "w.safetensors: line 1"},
      {"{}", "line 4: w.safetensors has no tensor 'c'"},
      {"{\"c\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,8]}}",
       "w.safetensors has another dtype or shape for tensor 'c' than f32[2]"},
      {"{\"c\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}",
       "another dtype or shape"},
      {"{\"c\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", "another dtype or shape"},
      {"{\"c\":7}", "another dtype or shape"},
      {"{\"c\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,9]}}",
       "expected data_offsets of 8 bytes among the 16 that follow the header for tensor 'c'"},
      {"{\"c\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[9,17]}}",
       "data_offsets of 8 bytes"},
      {"{\"c\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}",
       "data_offsets of 8 bytes"},
      {"{\"c\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}",
       "data_offsets of 8 bytes"},
      {"{\"c\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0.5,8.5]}}", "data_offsets"},
      {"{\"c\":{\"dtype\":\"F32\",\"shape\":[2]}}", "data_offsets"},
  };
  static const char elements[16];
  char folder[200];
  unsigned char file[400];
  CHECK_STATUS(tn_folder_make(folder, sizeof folder), TENON_OK);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const size_t size = strlen(cases[i].header);
    memset(file, 0, sizeof file);
    file[0] = (unsigned char)size;
    memcpy(file + 8, cases[i].header, size);
    memcpy(file + 8 + size, elements, sizeof elements);
    refuse_weights(folder, file, 8 + size + sizeof elements, cases[i].message);
  }
  static const char expected[] = "expected a file of the format safetensors";
  refuse_weights(folder, "", 0, expected);
  refuse_weights(folder, "1234567", 7, expected);
  memset(file, 0xff, 8);
  refuse_weights(folder, file, 100, expected);
  tn_folder_remove(folder);
}
