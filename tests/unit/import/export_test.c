/* Graphs as ONNX files and as text: reading gives back what was written, and a graph that cannot be
 * written leaves no file. */
#define TENON_STATIC
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <tenon/op.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "base/file.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "core/value.h"
#include "failing.h"
#include "graph/graph.h"

static tenon_status_t nothing(tenon_call_t *call) {
  return tenon_fail(call, TENON_INTERNAL, "nobody calls it");
}

static tenon_status_t halves_infer(tenon_infer_t *infer) {
  TENON_TRY(infer->host->list(infer, 0, 2));
  for (int k = 0; k < 2; k++)
    if (infer->outputs[0]->items[k]) infer->outputs[0]->items[k]->ndim = 0;
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(filed, "1.0.0",
  TENON_OP("set(Tensor(a!) x, *, scalar value=0, float exact=0.0, float[] exacts=[], "
           "device device='cpu', dtype to=f32, int? may=None, int? less=3, str text='', "
           "str['a', 'b'] choice='a', str[] texts=[], int[] ints=[], "
           "tensor? table=None, dim width=1) -> ()",
    TENON_VERSION(3), TENON_TYPES("x: f32"), TENON_SHAPES("x: [n]"), TENON_KERNEL("cpu", nothing)),
  TENON_OP("join(Tensor[] a, Tensor[] b, Tensor? s=None) -> Tensor",
    TENON_TYPES("a: f32; b, s = a; out = a"), TENON_SHAPES("out: []"),
    TENON_KERNEL("cpu", nothing)),
  TENON_OP("join.one(Tensor a, Tensor[] b, Tensor? s=None, Tensor? t=None) -> Tensor",
    TENON_TYPES("a: f32; b, s, t = a; out = a"), TENON_SHAPES("out: []"),
    TENON_KERNEL("cpu", nothing)),
  TENON_OP("join.counted(Tensor[] a, Tensor[] b, *, int[] operand_counts=[]) -> Tensor",
    TENON_TYPES("a: f32; b = a; out = a"), TENON_SHAPES("out: []"), TENON_KERNEL("cpu", nothing)),
  TENON_OP("halves(Tensor x) -> (Tensor[] parts, Tensor rest)",
    TENON_TYPES("x: f32; parts = x; rest = x"), TENON_INFER(halves_infer),
    TENON_KERNEL("cpu", nothing)))
/* clang-format on */

static char folder[200], path[220], text_path[220];

static void start(void) {
  const tenon_op_t *op = NULL;
  if (tenon_op_find("filed::halves", &op) == TENON_OK) return;
  CHECK_STATUS(tenon_library_add(tenon_library_filed(), NULL, NULL, NULL), TENON_OK);
  CHECK_STATUS(tn_folder_make(folder, sizeof folder), TENON_OK);
  snprintf(path, sizeof path, "%s/model.onnx", folder);
  snprintf(text_path, sizeof text_path, "%s/model.graph", folder);
}

static void check_values(const tn_node_t *a, const tn_node_t *b) {
  for (uint32_t i = 0; i < a->op->schema.attr_count; i++) {
    const tenon_value_t *x = &a->attrs[i];
    const tenon_value_t *y = &b->attrs[i];
    bool same = tn_value_equal(x, y);
    if (x->kind == TENON_KIND_TENSOR && y->kind == TENON_KIND_TENSOR)
      same = tensor_equal(x->as.tensor, y->as.tensor, 0);
    check_report(same, __FILE__, __LINE__, "the attribute is the same",
                 a->op->schema.attrs[i].name);
  }
}

/* Compares the nodes of two graphs over the same values; the numbers of the values may differ. */
static void check_same(const tenon_graph_t *a, const tenon_graph_t *b) {
  /* 1 + the index in b of a's value, or 0. */
  int32_t *there = calloc(a->edge_count + 1, sizeof *there);
  bool good = CHECK(there && a->node_count == b->node_count && a->output_count == b->output_count);
  for (size_t n = 0; good && n < a->node_count; n++) {
    const tn_node_t *x = &a->nodes[n];
    const tn_node_t *y = &b->nodes[n];
    if (!CHECK(x->op == y->op && strcmp(x->name, y->name) == 0 &&
               x->output_count == y->output_count))
      break;
    check_values(x, y);
    for (uint32_t i = 0; i < x->op->input_count; i++) {
      if (!CHECK(x->operands[i].count == y->operands[i].count)) continue;
      for (int32_t k = 0; k < x->operands[i].count; k++) {
        tenon_edge_t from = x->operands[i].edges[k];
        tenon_edge_t to = y->operands[i].edges[k];
        if (!there[from]) there[from] = 1 + to;
        CHECK(there[from] == 1 + to && a->edges[from].input == b->edges[to].input);
      }
    }
    for (int32_t o = 0; o < x->output_count; o++)
      there[x->outputs[o]] = 1 + y->outputs[o];
  }
  for (size_t i = 0; good && i < a->output_count; i++)
    CHECK(there[a->outputs[i]] == 1 + b->outputs[i] &&
          strcmp(a->output_names[i], b->output_names[i]) == 0);
  free(there);
}

static void check_file_again(const tenon_graph_t *graph, const char *file) {
  tenon_graph_t *read = NULL;
  CHECK_STATUS(tenon_graph_save(graph, file), TENON_OK);
  CHECK_STATUS(tenon_graph_load(file, NULL, &read), TENON_OK);
  if (read) check_same(graph, read);
  tenon_graph_release(read);
}

static void check_again(const tenon_graph_t *graph) {
  check_file_again(graph, path);
  check_file_again(graph, text_path);
  CHECK(remove(text_path) == 0);
}

static void set_value(tenon_attrs_t *attrs, const char *name, tenon_value_t value) {
  CHECK_STATUS(tenon_attrs_set(attrs, name, &value), TENON_OK);
}

/* Builds a node filed::set over an input, with these attributes. */
static tenon_graph_t *set_graph(tenon_attrs_t *attrs) {
  tenon_graph_t *graph = NULL;
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t y;
  tenon_operand_t operand = {1, &x};
  CHECK_STATUS(
      tenon_builder_node(b, "the_set", op_of("filed::set"), attr_values(attrs), &operand, &y, 1),
      TENON_OK);
  CHECK_STATUS(tenon_builder_output(b, "y", y), TENON_OK);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  tenon_builder_release(b);
  return graph;
}

TEST("attributes of every kind are read back as they were written") {
  start();
  static const double exacts[] = {0.1, 1e-300};
  static const double floats[] = {0.5, -0.0, 1e10};
  static const tenon_string_t texts[] = {{"a\0b", 3}, {"", 0}};
  static const int64_t ints[] = {INT64_MIN, -1, 0, INT64_MAX};
  tenon_tensor_t *table = tensor_of("i8[2, 2] 1 2 3 4");
  for (int variant = 0; variant < 5; variant++) {
    tenon_attrs_t *attrs = attrs_of(op_of("filed::set"), "");
    if (variant == 0) {
      set_value(attrs, "value", (tenon_value_t){TENON_KIND_BOOL, 0, {.i = 1}});
      set_value(attrs, "exact", (tenon_value_t){TENON_KIND_FLOAT, 0, {.f = 0.1}});
      set_value(attrs, "exacts", (tenon_value_t){TENON_KIND_FLOATS, 2, {.floats = exacts}});
      set_value(attrs, "to",
                (tenon_value_t){TENON_KIND_DTYPE, 0, {.dtype = tenon_dtype(TENON_F8E3M4)}});
      set_value(attrs, "may", (tenon_value_t){TENON_KIND_INT, 0, {.i = -7}});
      set_value(attrs, "texts", (tenon_value_t){TENON_KIND_STRS, 2, {.strs = texts}});
      set_value(attrs, "table", (tenon_value_t){TENON_KIND_TENSOR, 0, {.tensor = table}});
    } else if (variant == 1) {
      set_value(attrs, "value", (tenon_value_t){TENON_KIND_INT, 0, {.i = 1}});
      set_value(attrs, "exact", (tenon_value_t){TENON_KIND_FLOAT, 0, {.f = 0.5}});
      set_value(attrs, "exacts", (tenon_value_t){TENON_KIND_FLOATS, 3, {.floats = floats}});
      set_value(attrs, "to",
                (tenon_value_t){TENON_KIND_DTYPE, 0, {.dtype = tenon_dtype(TENON_BF16)}});
      set_value(attrs, "text",
                (tenon_value_t){TENON_KIND_STR,
                                3,
                                {.s = "\0\xff"
                                      "c"}});
      set_value(attrs, "choice", (tenon_value_t){TENON_KIND_STR, 1, {.s = "b"}});
      set_value(attrs, "ints", (tenon_value_t){TENON_KIND_INTS, 4, {.ints = ints}});
      set_value(attrs, "width", (tenon_value_t){TENON_KIND_INT, 0, {.i = 12}});
    } else if (variant == 2) {
      set_value(attrs, "value", (tenon_value_t){TENON_KIND_FLOAT, 0, {.f = 1}});
      set_value(attrs, "device", (tenon_value_t){TENON_KIND_DEVICE, 0, {.device = {1, 0}}});
    } else if (variant == 3) {
      set_value(attrs, "value", (tenon_value_t){TENON_KIND_FLOAT, 0, {.f = 0.3}});
    }
    tenon_graph_t *graph = set_graph(attrs);
    if (graph) check_again(graph);
    tenon_graph_release(graph);
    tenon_attrs_release(attrs);
  }
  tenon_tensor_release(table);
}

TEST("an attribute set to None in place of its default has a text, but ONNX cannot express it, and "
     "the node is named") {
  start();
  tenon_attrs_t *attrs = attrs_of(op_of("filed::set"), "");
  set_value(attrs, "less", (tenon_value_t){TENON_KIND_NONE, 0, {0}});
  tenon_graph_t *graph = set_graph(attrs);
  CHECK_STATUS(tenon_graph_save(graph, path), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "model.onnx: node 'the_set' (filed::set): attribute 'less' is None");
  check_file_again(graph, text_path);
  CHECK(remove(text_path) == 0);
  tenon_graph_release(graph);
  tenon_attrs_release(attrs);
}

/* Builds a graph whose nodes have lists, absent arguments, overloads, and a number of results that
 * nothing declares. */
static tenon_graph_t *lists_graph(void) {
  tenon_graph_t *graph = NULL;
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 0);
  tenon_edge_t y = graph_input(b, "y", TENON_F32, 0);
  tenon_edge_t pair[2] = {x, y};
  tenon_edge_t out[3];
  const tenon_operand_t joins[][4] = {{{2, pair}, {1, &y}, {0, NULL}},
                                      {{0, NULL}, {2, pair}, {1, &x}},
                                      {{1, &x}, {0, NULL}, {0, NULL}}};
  const tenon_operand_t ones[][4] = {{{1, &x}, {2, pair}, {0, NULL}, {0, NULL}},
                                     {{1, &x}, {0, NULL}, {0, NULL}, {1, &y}},
                                     {{1, &y}, {1, &x}, {1, &y}, {0, NULL}}};
  for (int i = 0; i < 3; i++) {
    CHECK_STATUS(tenon_builder_node(b, NULL, op_of("filed::join"), NULL, joins[i], out, 1),
                 TENON_OK);
    CHECK_STATUS(tenon_builder_output(b, NULL, out[0]), TENON_OK);
    CHECK_STATUS(tenon_builder_node(b, NULL, op_of("filed::join.one"), NULL, ones[i], out, 1),
                 TENON_OK);
    CHECK_STATUS(tenon_builder_output(b, NULL, out[0]), TENON_OK);
  }
  CHECK_STATUS(tenon_builder_node(b, "parts", op_of("filed::halves"), NULL,
                                  &(tenon_operand_t){1, &x}, out, 3),
               TENON_OK);
  for (int i = 0; i < 3; i++)
    CHECK_STATUS(tenon_builder_output(b, NULL, out[i]), TENON_OK);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  tenon_builder_release(b);
  return graph;
}

TEST("lists, absent inputs, overloads and variable numbers of results are read back as they were "
     "written") {
  start();
  tenon_graph_t *graph = lists_graph();
  if (graph) check_again(graph);
  tenon_graph_release(graph);
}

TEST("a value that is two outputs, and an input that is an output, keep all their names") {
  start();
  tenon_graph_t *graph = NULL;
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 0);
  tenon_edge_t y = graph_input(b, "y", TENON_F32, 0);
  tenon_edge_t out;
  const tenon_operand_t operands[] = {{1, &x}, {1, &y}, {0, NULL}};
  CHECK_STATUS(tenon_builder_node(b, "n", op_of("filed::join"), NULL, operands, &out, 1), TENON_OK);
  CHECK_STATUS(tenon_builder_output(b, "first", out), TENON_OK);
  CHECK_STATUS(tenon_builder_output(b, "second", out), TENON_OK);
  CHECK_STATUS(tenon_builder_output(b, "x", x), TENON_OK);
  CHECK_STATUS(tenon_builder_output(b, "another", y), TENON_OK);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  CHECK_STATUS(tenon_graph_save(graph, path), TENON_OK);
  tenon_graph_t *read = NULL;
  CHECK_STATUS(tenon_graph_load(path, NULL, &read), TENON_OK);
  static const char *const names[] = {"first", "second", "x", "another"};
  CHECK(read && read->output_count == 4 &&
        read->node_count == 3); /* join, and an identity node for each further name */
  for (int i = 0; read && i < 4; i++)
    CHECK_TEXT(read->output_names[i], names[i]);
  if (read) CHECK(read->outputs[2] == read->inputs[0]);
  /* The input of each identity node. */
  for (int i = 1; read && i < 4; i += 2) {
    const tn_node_t *more = &read->nodes[read->edges[read->outputs[i]].producer];
    CHECK(strcmp(more->op->name, "core::identity") == 0 &&
          more->operands[0].edges[0] == (i == 1 ? read->outputs[0] : read->inputs[1]));
  }
  tenon_builder_release(b);
  tenon_graph_release(graph);
  tenon_graph_release(read);
}

TEST("an operator with an attribute of the name that lists need is refused") {
  start();
  tenon_graph_t *graph = NULL;
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 0);
  tenon_edge_t out;
  const tenon_operand_t operands[] = {{1, &x}, {1, &x}};
  CHECK_STATUS(tenon_builder_node(b, "n", op_of("filed::join.counted"), NULL, operands, &out, 1),
               TENON_OK);
  CHECK_STATUS(tenon_builder_output(b, "y", out), TENON_OK);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  CHECK_STATUS(tenon_graph_save(graph, path), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(),
             "node 'n' (filed::join.counted): the operator has several lists of inputs and an "
             "attribute 'operand_counts'");
  tenon_builder_release(b);
  tenon_graph_release(graph);
}

static tenon_graph_t *weights_graph(tenon_tensor_t *const *weights, int count) {
  tenon_graph_t *graph = NULL;
  tenon_builder_t *b = graph_begin();
  for (int i = 0; i < count; i++) {
    tenon_edge_t edge;
    char name[16];
    snprintf(name, sizeof name, "w%d", i);
    CHECK_STATUS(tenon_builder_constant(b, name, weights[i], &edge), TENON_OK);
    CHECK_STATUS(tenon_builder_output(b, NULL, edge), TENON_OK);
  }
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  tenon_builder_release(b);
  return graph;
}

static tenon_tensor_t *numbers(uint32_t dtype, int64_t count) {
  tenon_tensor_t *tensor = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(dtype), 1, &count, &tensor), TENON_OK);
  for (int64_t i = 0; i < count * (tensor->dtype.bits / 8); i++)
    ((unsigned char *)tensor->data)[i] = (unsigned char)(i * 7);
  return tensor;
}

static void check_weights(const char *file, tenon_tensor_t *const *weights) {
  tenon_graph_t *graph = weights_graph(weights, 4);
  tenon_graph_t *read = NULL;
  CHECK_STATUS(tenon_graph_save(graph, file), TENON_OK);
  CHECK_STATUS(tenon_graph_load(file, NULL, &read), TENON_OK);
  for (int i = 0; i < 4 && read; i++) {
    const tenon_tensor_t *found = read->edges[read->outputs[i]].constant;
    const uintptr_t alignment = file == text_path ? tn_dtype_alignment(weights[i]->dtype) : 64;
    if (!CHECK(found && tensor_equal(found, weights[i], 0))) continue;
    if (i != 1)
      CHECK((uintptr_t)found->data % alignment == 0 &&
            ((const tn_tensor_t *)found)->storage->is_file);
  }
  tenon_graph_release(graph);
  tenon_graph_release(read);
}

TEST("large weights are aligned in the file, and a loaded graph uses them in place") {
  start();
  tenon_tensor_t *weights[] = {numbers(TENON_F32, 1025), numbers(TENON_U8, 3),
                               numbers(TENON_F64, 4001), numbers(TENON_U8, 5000)};
  check_weights(path, weights);
  check_weights(text_path, weights);
  for (int i = 0; i < 4; i++)
    tenon_tensor_release(weights[i]);
}

static void check_damaged(const char *name) {
  tn_file_t file;
  tenon_attrs_t *attrs = attrs_of(op_of("filed::set"), "");
  set_value(attrs, "value", (tenon_value_t){TENON_KIND_BOOL, 0, {.i = 1}});
  set_value(attrs, "exacts", (tenon_value_t){TENON_KIND_FLOATS, 1, {.floats = (double[]){0.1}}});
  tenon_graph_t *graphs[] = {lists_graph(), set_graph(attrs)};
  for (int g = 0; g < 2; g++) {
    CHECK_STATUS(tenon_graph_save(graphs[g], name), TENON_OK);
    if (!CHECK(tn_file_map(name, &file) == TENON_OK)) continue;
    int read = 0;
    for (size_t i = 0; i < 9 * file.size; i++) {
      tenon_graph_t *graph = NULL;
      size_t size = i < file.size ? i : file.size;
      unsigned char *exact =
          malloc(size ? size : 1); /* A sanitizer then sees reads behind the end. */
      if (exact && size) memcpy(exact, file.data, size);
      if (exact && i >= file.size)
        exact[(i - file.size) / 8] ^= (unsigned char)(1 << (i - file.size) % 8);
      tenon_status_t status = tenon_graph_read(exact, size, NULL, &graph);
      if (!CHECK((status == TENON_OK) == (graph != NULL))) break;
      read += status == TENON_OK;
      tenon_graph_release(graph);
      free(exact);
    }
    /* Some damage has no effect, such as another letter in a name. */
    CHECK(read > 0);
    tn_file_unmap(&file);
    tenon_graph_release(graphs[g]);
  }
  tenon_attrs_release(attrs);
}

TEST("a file that is truncated, or has any bit flipped, is read or refused") {
  start();
  check_damaged(path);
  check_damaged(text_path);
}

/* failures */

static int files_of(const char *name) {
  char command[300];
  char line[16] = "";
  snprintf(command, sizeof command, "ls -A %s | wc -l", name);
  FILE *pipe = popen(command, "r");
  if (pipe && !fgets(line, sizeof line, pipe)) line[0] = 0;
  if (pipe) pclose(pipe);
  return atoi(line);
}

/* The files from before, or the new ones: a model, its text, and the weights of the text. */
static tenon_status_t try_save(void *graph) {
  tenon_status_t status = tenon_graph_save(graph, path);
  CHECK(files_of(folder) == 3);
  return status;
}

static tenon_status_t try_save_text(void *graph) {
  tenon_status_t status = tenon_graph_save(graph, text_path);
  CHECK(files_of(folder) == 3);
  return status;
}

TEST("when any allocation fails, nothing is written") {
  start();
  tenon_tensor_t *table = numbers(TENON_F64, 3000);
  tenon_tensor_t *turned = NULL;
  tenon_attrs_t *attrs = attrs_of(op_of("filed::set"), "");
  set_value(attrs, "table", (tenon_value_t){TENON_KIND_TENSOR, 0, {.tensor = table}});
  set_value(attrs, "exact", (tenon_value_t){TENON_KIND_FLOAT, 0, {.f = 0.1}});
  tenon_graph_t *graphs[] = {lists_graph(), set_graph(attrs), weights_graph(&table, 1), NULL};
  int64_t shape[] = {30, 100};
  int64_t strides[] = {1, 30};
  CHECK_STATUS(
      tenon_tensor_borrow(table->data, table->dtype, 2, shape, strides, NULL, NULL, &turned),
      TENON_OK);
  graphs[3] = weights_graph(&turned, 1);
  CHECK_STATUS(tenon_graph_save(graphs[2], path), TENON_OK);
  CHECK_STATUS(tenon_graph_save(graphs[2], text_path), TENON_OK);
  for (int i = 0; i < 4; i++) {
    fail_each("saving a graph", try_save, graphs[i], 1);
    fail_each("saving the text of a graph", try_save_text, graphs[i], 1);
    tenon_graph_release(graphs[i]);
  }
  tenon_tensor_release(table);
  tenon_tensor_release(turned);
  tenon_attrs_release(attrs);
}

static void check_full_disk(const char *file) {
  tenon_tensor_t *table = numbers(TENON_F64, 3000);
  tenon_graph_t *small = lists_graph();
  tenon_graph_t *large = weights_graph(&table, 1);
  tenon_graph_t *read = NULL;
  struct rlimit before, limit;
  CHECK_STATUS(tenon_graph_save(small, file), TENON_OK);
  const int count = files_of(folder);
  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
  limit = before;
  limit.rlim_cur = 5000;
  signal(SIGXFSZ, SIG_IGN); /* The system then reports EFBIG. */
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  CHECK_STATUS(tenon_graph_save(large, file), TENON_DENIED);
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK_TEXT(tenon_error(), "cannot write the file");
  CHECK(files_of(folder) == count);
  CHECK_STATUS(tenon_graph_load(file, NULL, &read), TENON_OK);
  if (read) check_same(small, read);
  tenon_graph_release(small);
  tenon_graph_release(large);
  tenon_graph_release(read);
  tenon_tensor_release(table);
}

TEST("a full disk leaves the previous file as it was, and nothing else") {
  start();
  check_full_disk(path);
  check_full_disk(text_path);
  tenon_graph_t *small = lists_graph();
  CHECK_STATUS(tenon_graph_save(small, "/nowhere/at/all.onnx"), TENON_NOT_FOUND);
  CHECK_STATUS(tenon_graph_save(small, "/nowhere/at/all.graph"), TENON_NOT_FOUND);
  tenon_graph_release(small);
  tn_folder_remove(folder);
}
