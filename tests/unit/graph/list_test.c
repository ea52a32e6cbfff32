/* Lists of tensors as values of graphs: what the operators give, that items are shared, that plans
 * serve lists of any length, lists that loops carry on, and errors. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

enum { ITEMS = 8 };

/* A list of tensors as text; the last text is NULL. */
static tenon_tensor_t *list_of(const char *const *texts) {
  tenon_tensor_t *items[ITEMS] = {NULL};
  tenon_tensor_t *list = NULL;
  int32_t count = 0;
  for (; texts[count]; count++)
    items[count] = tensor_of(texts[count]);
  CHECK_STATUS(tenon_tensor_list(items, count, &list), TENON_OK);
  for (int32_t i = 0; i < count; i++)
    tenon_tensor_release(items[i]);
  return list;
}
#define LIST(...) list_of((const char *const[]){__VA_ARGS__, NULL})
#define EMPTY list_of((const char *const[]){NULL})

static void check_list(const tenon_tensor_t *list, const char *const *texts, const char *file,
                       int line) {
  int64_t count = 0;
  while (texts[count])
    count++;
  const bool is_list = list && tenon_dtype_id(list->dtype) == TENON_LIST;
  check_report(is_list && list->shape[0] == count, file, line, "a list of this length", NULL);
  for (int64_t i = 0; is_list && i < count && i < list->shape[0]; i++)
    check_tensor(tenon_item(list, i), texts[i], 1e-6, file, line);
}
#define CHECK_LIST(list, ...)                                                                      \
  check_list((list), (const char *const[]){__VA_ARGS__, NULL}, __FILE__, __LINE__)

static void release_tensors(tenon_tensor_t **tensors, int count) {
  for (int i = 0; i < count; i++) {
    tenon_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

/* Runs an operator as the only node of a graph with a list and another tensor as inputs; `other`
 * NULL: the operator has one input. Takes over the list. */
static tenon_status_t run_one(const char *op, const char *attrs, tenon_tensor_t *list,
                              const char *other, tenon_tensor_t **out) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t inputs[4] = {graph_input(b, "xs", TENON_LIST, -1), -1, -1, -1};
  tenon_tensor_t *tensors[2] = {list, other ? tensor_of(other) : NULL};
  tenon_edge_t made;
  if (other) inputs[1] = graph_input(b, "other", tenon_dtype_id(tensors[1]->dtype), -1);
  graph_node(b, NULL, op, attrs, inputs, &made, 1);
  graph_output(b, "out", made);
  tenon_executable_t *e = graph_compile(b, 0);
  *out = NULL;
  const tenon_status_t status = tenon_executable_run(e, tensors, out, NULL);
  tenon_executable_release(e);
  release_tensors(tensors, 2);
  return status;
}

TEST("items are taken, counted, erased and concatenated") {
  tenon_tensor_t *out;
  CHECK_STATUS(run_one("core::list_at", NULL, LIST("f32[2] 1 2", "f32[1] 3"), "i64[] -1", &out),
               TENON_OK);
  CHECK_TENSOR(out, "f32[1] 3");
  tenon_tensor_release(out);
  CHECK_STATUS(run_one("core::list_length", NULL, LIST("f32[2] 1 2", "f32[1] 3"), NULL, &out),
               TENON_OK);
  CHECK_TENSOR(out, "i64[] 2");
  tenon_tensor_release(out);
  CHECK_STATUS(
      run_one("core::list_erase", NULL, LIST("i32[] 1", "i32[] 2", "i32[] 3"), "i32[] 1", &out),
      TENON_OK);
  CHECK_LIST(out, "i32[] 1", "i32[] 3");
  tenon_tensor_release(out);
  CHECK_STATUS(run_one("core::list_erase", NULL, LIST("i32[] 1", "i32[] 2"), NULL, &out), TENON_OK);
  CHECK_LIST(out, "i32[] 1");
  tenon_tensor_release(out);
  CHECK_STATUS(run_one("core::list_concat", "axis=0", LIST("f32[2] 1 2", "f32[1] 3"), NULL, &out),
               TENON_OK);
  CHECK_TENSOR(out, "f32[3] 1 2 3");
  tenon_tensor_release(out);
  CHECK_STATUS(run_one("core::list_concat", "axis=1; new_axis=True",
                       LIST("f32[2] 1 2", "f32[2] 3 4"), NULL, &out),
               TENON_OK);
  CHECK_TENSOR(out, "f32[2,2] 1 3 2 4");
  tenon_tensor_release(out);
}

/* Splits x in a graph of its own. */
static tenon_status_t split(const char *attrs, const char *x, const char *sizes,
                            tenon_tensor_t **out) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t inputs[2] = {graph_input(b, "x", TENON_F32, -1), -1};
  tenon_edge_t made;
  if (sizes) inputs[1] = graph_input(b, "sizes", TENON_I64, -1);
  graph_node(b, NULL, "core::list_split", attrs, inputs, &made, 1);
  graph_output(b, "out", made);
  tenon_executable_t *e = graph_compile(b, 0);
  *out = NULL;
  const tenon_status_t status = graph_run(e, (const char *const[]){x, sizes}, out);
  tenon_executable_release(e);
  return status;
}

TEST("a tensor is split into parts of one extent, of listed extents, or of one element") {
  tenon_tensor_t *out;
  CHECK_STATUS(split("axis=0", "f32[3,2] 1 2 3 4 5 6", "i64[] 2", &out), TENON_OK);
  CHECK_LIST(out, "f32[2,2] 1 2 3 4", "f32[1,2] 5 6");
  tenon_tensor_release(out);
  CHECK_STATUS(split("axis=-1", "f32[2,3] 1 2 3 4 5 6", "i64[3] 1 0 2", &out), TENON_OK);
  CHECK_LIST(out, "f32[2,1] 1 4", "f32[2,0]", "f32[2,2] 2 3 5 6");
  tenon_tensor_release(out);
  CHECK_STATUS(split("axis=0; keepdims=False", "f32[2,2] 1 2 3 4", NULL, &out), TENON_OK);
  CHECK_LIST(out, "f32[2] 1 2", "f32[2] 3 4");
  tenon_tensor_release(out);
  CHECK_STATUS(split("axis=0", "f32[0,2]", NULL, &out), TENON_OK);
  CHECK(out && out->shape[0] == 0);
  tenon_tensor_release(out);
  CHECK_STATUS(split("axis=0", "f32[3] 1 2 3", "i64[2] 1 1", &out), TENON_INVALID);
  CHECK_TEXT(CHECK_MESSAGE(), "the parts have 2 elements in all: expected 3");
  CHECK_STATUS(split("axis=0", "f32[3] 1 2 3", "i64[] 0", &out), TENON_INVALID);
  CHECK_TEXT(CHECK_MESSAGE(), "parts of 0 elements: expected at least 1");
}

/* xs with x before its item 1, and as it is. */
static tenon_executable_t *insert_graph(uint32_t flags) {
  tenon_builder_t *b = graph_begin();
  const tenon_edge_t xs = graph_input(b, "xs", TENON_LIST, -1);
  const tenon_edge_t x = graph_input(b, "x", TENON_F32, -1);
  tenon_edge_t made;
  graph_node(b, NULL, "core::list_insert", NULL,
             (tenon_edge_t[]){xs, x, graph_constant(b, "at", "i64[] 1")}, &made, 1);
  graph_output(b, "made", made);
  graph_output(b, "xs", xs);
  return graph_compile(b, flags);
}

static void check_shared(uint32_t flags) {
  tenon_executable_t *e = insert_graph(flags);
  tenon_tensor_t *inputs[2] = {LIST("f32[2] 1 2", "f32[3] 3 4 5"), tensor_of("f32[] 6")};
  tenon_tensor_t *out[2] = {NULL};
  CHECK_STATUS(tenon_executable_run(e, inputs, out, NULL), TENON_OK);
  CHECK_LIST(out[0], "f32[2] 1 2", "f32[] 6", "f32[3] 3 4 5");
  CHECK_LIST(out[1], "f32[2] 1 2", "f32[3] 3 4 5");
  if (out[0] && out[0]->shape[0] == 3) {
    CHECK(tenon_item(out[0], 0)->data == tenon_item(inputs[0], 0)->data);
    CHECK(tenon_item(out[0], 1)->data == inputs[1]->data);
    CHECK(tenon_item(out[0], 2)->data == tenon_item(inputs[0], 1)->data);
    CHECK(tenon_item(out[1], 1)->data == tenon_item(inputs[0], 1)->data);
  }
  release_tensors(inputs, 2); /* the results keep what they share */
  CHECK_LIST(out[0], "f32[2] 1 2", "f32[] 6", "f32[3] 3 4 5");
  tenon_executable_release(e);
  CHECK_LIST(out[1], "f32[2] 1 2", "f32[3] 3 4 5");
  release_tensors(out, 2);
}

TEST("an insertion shares the items and the inserted tensor") {
  check_shared(0);
  check_shared(TENON_COMPILE_PLAIN);
  check_shared(TENON_COMPILE_GRADIENTS); /* node by node */
}

TEST("an item whose memory has no owner is copied") {
  float numbers[2] = {1, 2};
  int64_t extent[1] = {2};
  int64_t strides[1];
  tenon_tensor_t view;
  tenon_executable_t *e = insert_graph(0);
  tenon_tensor_t *list = LIST("f32[] 3");
  tenon_tensor_t *out[2] = {NULL};
  CHECK_STATUS(tenon_tensor_view(&view, numbers, tenon_dtype(TENON_F32), 1, extent, NULL, strides),
               TENON_OK);
  CHECK_STATUS(tenon_executable_run(e, (tenon_tensor_t *[]){list, &view}, out, NULL), TENON_OK);
  numbers[0] = 7;
  CHECK_LIST(out[0], "f32[] 3", "f32[2] 1 2");
  release_tensors(out, 2);
  tenon_tensor_release(list);
  tenon_executable_release(e);
}

/* The list of x + x and x * x, of which the last is inserted by itself. */
TEST("later runs, also with other lengths and shapes, leave earlier results as they are") {
  tenon_builder_t *b = graph_begin();
  const tenon_edge_t xs = graph_input(b, "xs", TENON_LIST, -1);
  const tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t sum, product, more, made;
  graph_node(b, NULL, "core::add", NULL, (tenon_edge_t[]){x, x}, &sum, 1);
  graph_node(b, NULL, "core::mul", NULL, (tenon_edge_t[]){x, sum}, &product, 1);
  graph_node(b, NULL, "core::list_insert", NULL, (tenon_edge_t[]){xs, sum, -1}, &more, 1);
  graph_node(b, NULL, "core::list_insert", NULL, (tenon_edge_t[]){more, product, -1}, &made, 1);
  graph_output(b, "made", made);
  graph_output(b, "sum", sum);
  tenon_executable_t *e = graph_compile(b, 0);
  tenon_tensor_t *first[2] = {NULL};
  tenon_tensor_t *second[2] = {NULL};
  tenon_tensor_t *inputs[2] = {EMPTY, tensor_of("f32[2] 1 3")};
  CHECK_STATUS(tenon_executable_run(e, inputs, first, NULL), TENON_OK);
  CHECK_LIST(first[0], "f32[2] 2 6", "f32[2] 2 18");
  release_tensors(inputs, 2);
  inputs[0] = LIST("f32[] 9");
  inputs[1] = tensor_of("f32[2] 2 5");
  CHECK_STATUS(tenon_executable_run(e, inputs, second, NULL), TENON_OK);
  CHECK_LIST(second[0], "f32[] 9", "f32[2] 4 10", "f32[2] 8 50");
  CHECK_LIST(first[0], "f32[2] 2 6", "f32[2] 2 18");
  CHECK_TENSOR(first[1], "f32[2] 2 6");
  release_tensors(inputs, 2);
  release_tensors(first, 2);
  release_tensors(second, 2);
  tenon_executable_release(e);
}

/* A loop that appends the number of each iteration to a list. */
static tenon_graph_t *append_body(void) {
  tenon_builder_t *b = graph_begin();
  tenon_graph_t *graph = NULL;
  const tenon_edge_t iteration = graph_input(b, "iteration", TENON_I64, 0);
  const tenon_edge_t goes_on = graph_input(b, "goes_on", TENON_BOOL, 0);
  const tenon_edge_t xs = graph_input(b, "xs", TENON_LIST, -1);
  tenon_edge_t made;
  graph_node(b, NULL, "core::list_insert", NULL, (tenon_edge_t[]){xs, iteration, -1}, &made, 1);
  graph_output(b, "goes_on", goes_on);
  graph_output(b, "made", made);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  tenon_builder_release(b);
  return graph;
}

static tenon_executable_t *append_loop(uint32_t flags) {
  const tenon_op_t *op = op_of("core::loop");
  tenon_builder_t *b = graph_begin();
  const tenon_edge_t xs = graph_input(b, "xs", TENON_LIST, -1);
  const tenon_edge_t trips = graph_input(b, "trips", TENON_I64, 0);
  tenon_graph_t *body = append_body();
  tenon_attrs_t *attrs = NULL;
  const tenon_value_t value = {TENON_KIND_GRAPH, 0, {.graph = body}};
  const int64_t dtype = tenon_dtype_id(tenon_dtype(TENON_LIST));
  const int64_t rank = 1;
  tenon_edge_t made = -1;
  CHECK_STATUS(tenon_attrs_create(op, &attrs), TENON_OK);
  CHECK_STATUS(tenon_attrs_set(attrs, "body", &value), TENON_OK);
  CHECK_STATUS(tenon_attrs_int(attrs, "count", 1), TENON_OK);
  CHECK_STATUS(tenon_attrs_ints(attrs, "dtypes", &dtype, 1), TENON_OK);
  CHECK_STATUS(tenon_attrs_ints(attrs, "ranks", &rank, 1), TENON_OK);
  const tenon_operand_t operands[] = {{1, &xs}, {0, NULL}, {1, &trips}, {0, NULL}};
  CHECK_STATUS(tenon_builder_node(b, NULL, op, attr_values(attrs), operands, &made, 1), TENON_OK);
  graph_output(b, "made", made);
  tenon_attrs_release(attrs);
  tenon_graph_release(body);
  return graph_compile(b, flags);
}

static void check_loop(uint32_t flags) {
  tenon_executable_t *e = append_loop(flags);
  for (int64_t trips = 0; trips < 4; trips += 3) {
    tenon_tensor_t *inputs[2] = {LIST("i64[] 7", "i64[] 8"), tensor_of("i64[] 0")};
    tenon_tensor_t *out = NULL;
    *(int64_t *)inputs[1]->data = trips;
    CHECK_STATUS(tenon_executable_run(e, inputs, &out, NULL), TENON_OK);
    if (trips)
      CHECK_LIST(out, "i64[] 7", "i64[] 8", "i64[] 0", "i64[] 1", "i64[] 2");
    else
      CHECK_LIST(out, "i64[] 7", "i64[] 8");
    CHECK(out && tenon_item(out, 1)->data == tenon_item(inputs[0], 1)->data);
    release_tensors(inputs, 2);
    tenon_tensor_release(out);
  }
  tenon_executable_release(e);
}

TEST("a loop carries a list on, and shares its items") {
  check_loop(0);
  check_loop(TENON_COMPILE_PLAIN);
  check_loop(TENON_COMPILE_GRADIENTS);
}

TEST("an optional value is a list of at most one item, which may itself be a list") {
  tenon_tensor_t *out;
  CHECK_STATUS(run_one("core::optional_has", NULL, LIST("f32[] 1"), NULL, &out), TENON_OK);
  CHECK_TENSOR(out, "bool[] 1");
  tenon_tensor_release(out);
  CHECK_STATUS(run_one("core::optional_has", NULL, EMPTY, NULL, &out), TENON_OK);
  CHECK_TENSOR(out, "bool[] 0");
  tenon_tensor_release(out);
  tenon_tensor_t *inner = LIST("f32[] 1", "f32[] 2");
  tenon_tensor_t *outer = NULL;
  CHECK_STATUS(tenon_tensor_list(&inner, 1, &outer), TENON_OK);
  tenon_tensor_release(inner);
  CHECK_STATUS(run_one("core::optional_get", "dtype=list; rank=1", outer, NULL, &out), TENON_OK);
  CHECK_LIST(out, "f32[] 1", "f32[] 2");
  tenon_tensor_release(out);
  CHECK_STATUS(run_one("core::optional_get", NULL, EMPTY, NULL, &out), TENON_INVALID);
  CHECK_TEXT(CHECK_MESSAGE(), "the optional value is absent");
  CHECK_STATUS(run_one("core::optional_get", NULL, LIST("f32[] 1", "f32[] 2"), NULL, &out),
               TENON_INVALID);
  CHECK_TEXT(CHECK_MESSAGE(), "a list of at most one item, found one of 2");
}

static void check_refused(const char *op, const char *attrs, tenon_tensor_t *list,
                          const char *other, tenon_status_t status, const char *message) {
  tenon_tensor_t *out;
  CHECK_STATUS(run_one(op, attrs, list, other, &out), status);
  CHECK(!out);
  CHECK_TEXT(CHECK_MESSAGE(), message);
}

TEST("a wrong position, dtype or length is one error that names the node") {
  check_refused("core::list_at", NULL, LIST("f32[] 1", "f32[] 2"), "i64[] 2", TENON_RANGE,
                "node 'list_at_0' (core::list_at): core::list_at: position 2 is out of range "
                "for a list of 2 items");
  check_refused("core::list_at", NULL, EMPTY, "i64[] 0", TENON_RANGE, "a list of 0 items");
  check_refused("core::list_at", NULL, LIST("f32[] 1"), "i64[2] 0 0", TENON_INVALID,
                "the position has 2 elements: expected one");
  check_refused("core::list_at", "dtype=i64", LIST("f32[] 1"), "i64[] 0", TENON_INVALID,
                "expected dtype i64, found f32");
  check_refused("core::list_insert", NULL, LIST("f32[] 1"), "i64[] 2", TENON_INVALID,
                "item 1 has dtype i64, but item 0 has f32: the items of a list have one dtype");
  check_refused("core::list_erase", NULL, EMPTY, NULL, TENON_INVALID,
                "the list is empty: there is no item to erase");
  check_refused("core::list_concat", "axis=0", EMPTY, NULL, TENON_INVALID,
                "the list is empty: expected at least one item");
  check_refused("core::list_concat", "axis=0", LIST("f32[1] 1", "f32[1,1] 1"), NULL, TENON_INVALID,
                "differs from");
}

/* Tries to add a node that reads an input of this dtype. */
static void refuse_node(const char *op, uint32_t dtype, int32_t ndim, const char *message) {
  tenon_builder_t *b = graph_begin();
  const tenon_edge_t x = graph_input(b, "x", dtype, ndim);
  const tenon_operand_t operands[] = {{1, &x}, {1, &x}};
  tenon_graph_t *graph = NULL;
  tenon_edge_t made = -1;
  tenon_status_t status = tenon_builder_node(b, "n", op_of(op), NULL, operands, &made, 1);
  if (status == TENON_OK) status = tenon_builder_finish(b, &graph);
  CHECK_STATUS(status, TENON_INVALID);
  CHECK_TEXT(CHECK_MESSAGE(), message);
  tenon_graph_release(graph);
  tenon_builder_release(b);
}

TEST("a list where a tensor is expected is refused when the graph is built, and the reverse") {
  refuse_node("core::add", TENON_LIST, -1, "expected a tensor, found a list");
  refuse_node("core::list_length", TENON_F32, 1, "the first input is one tensor: expected a list");
  tenon_builder_t *b = graph_begin();
  tenon_edge_t edge;
  CHECK_STATUS(tenon_builder_input(b, "xs", tenon_dtype(TENON_LIST), 2,
                                   (tenon_axis_t[]){{1, NULL}, {1, NULL}}, &edge),
               TENON_INVALID);
  CHECK_TEXT(CHECK_MESSAGE(), "input 'xs' is a list with 2 dimensions");
  tenon_builder_release(b);
  tenon_executable_t *e = insert_graph(0);
  tenon_tensor_t *x = tensor_of("f32[1] 1");
  tenon_tensor_t *out[2] = {NULL};
  CHECK_STATUS(tenon_executable_run(e, (tenon_tensor_t *[]){x, x}, out, NULL), TENON_INVALID);
  CHECK_TEXT(CHECK_MESSAGE(), "input 'xs': expected dtype list, found f32");
  tenon_tensor_release(x);
  tenon_executable_release(e);
}
