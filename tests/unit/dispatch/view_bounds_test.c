/* What infer says about memory is code of a library: a view lies within the elements of its input,
 * strides get the memory that they reach, and known elements fit their result. In calls and in
 * planned graphs alike. */
#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

static tenon_status_t strided_infer(tenon_infer_t *infer) {
  tenon_meta_t *out = infer->outputs[0];
  out->alias = (uint32_t)infer->attrs[3].as.i;
  out->strided = 1;
  out->ndim = (int32_t)infer->attrs[4].as.i;
  out->offset = tenon_extent(infer->attrs[0].as.i);
  for (int32_t d = 0; d < out->ndim; d++) {
    out->dims[d] = tenon_extent(infer->attrs[1].as.i);
    out->strides[d] = tenon_extent(infer->attrs[2].as.i);
  }
  return TENON_OK;
}

static tenon_status_t items_infer(tenon_infer_t *infer) {
  for (uint32_t i = 0; i < infer->outputs[0]->count; i++) {
    tenon_meta_t *out = infer->outputs[0]->items[i];
    out->alias = (uint32_t)infer->attrs[1].as.i;
    out->ndim = 1;
    out->offset = tenon_extent(infer->attrs[0].as.i * i);
    out->dims[0] = tenon_extent(2);
  }
  return TENON_OK;
}

static tenon_status_t known_infer(tenon_infer_t *infer) {
  tenon_meta_t *out = infer->outputs[0];
  out->ndim = 0;
  out->value_count = (uint32_t)infer->attrs[0].as.i;
  for (uint32_t i = 0; i < out->value_count && i < TENON_RANK_MAX; i++)
    out->values[i] = tenon_extent(7); /* as the kernel writes */
  return TENON_OK;
}

static tenon_status_t fill_run(tenon_call_t *call) { /* y[i] = i, wherever its strides put it */
  const tenon_tensor_t *y = call->outputs[0];
  for (int64_t i = 0; i < tenon_count(y); i++)
    ((float *)y->data)[i * y->strides[0]] = (float)i;
  return TENON_OK;
}

static tenon_status_t number_run(tenon_call_t *call) {
  *(int64_t *)call->outputs[0]->data = 7;
  return TENON_OK;
}

/* clang-format off */
static const tenon_item_t items[] = {
  TENON_OP("part(Tensor(a) x, *, int offset=0, int extent=1, int stride=1, int alias=1, "
           "int ndim=1) -> Tensor(a)",
    TENON_TYPES("x: any; out = x"), TENON_TRAITS(TENON_PURE), TENON_WHERE("x: strided"),
    TENON_INFER(strided_infer)),
  TENON_OP("text(Tensor(a) x, *, int offset=0, int extent=1, int stride=1, int alias=1, "
           "int ndim=1) -> Tensor(a)",
    TENON_TYPES("x: any; out = string"), TENON_TRAITS(TENON_PURE), TENON_INFER(strided_infer)),
  TENON_OP("parts(Tensor(a) x, *, int step=2, int alias=1) -> Tensor(a)[2]",
    TENON_TYPES("x: any; out = x"), TENON_TRAITS(TENON_PURE), TENON_INFER(items_infer)),
  TENON_OP("fill(Tensor x, *, int offset=0, int extent=1, int stride=1, int alias=0, "
           "int ndim=1) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_INFER(strided_infer),
    TENON_KERNEL("cpu strided", fill_run)),
  TENON_OP("number(Tensor x, *, int count=1) -> Tensor",
    TENON_TYPES("x: f32; out = i64"), TENON_TRAITS(TENON_PURE), TENON_INFER(known_infer),
    TENON_KERNEL("cpu", number_run)),
  {TENON_TAG_END, 0, 0, 0, 0}};
/* clang-format on */
static const tenon_descriptor_t library = {
    sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "bounds", "1.0.0", items};

static void start(void) {
  const tenon_op_t *op = NULL;
  if (tenon_op_find("bounds::part", &op) != TENON_OK)
    CHECK_STATUS(tenon_library_add(&library, NULL, NULL, NULL), TENON_OK);
}

static tenon_status_t run_planned(const char *op, const char *attrs, const char *input,
                                  tenon_tensor_t **out) {
  const tenon_compile_t options = {.size = sizeof options};
  tenon_graph_t *graph = NULL;
  tenon_executable_t *e = NULL;
  tenon_tensor_t *in = tensor_of(input);
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  graph_output(b, "y", graph_step(b, op, attrs, x));
  tenon_status_t status = tenon_builder_finish(b, &graph);
  if (status == TENON_OK) status = tenon_executable_create(graph, &options, &e);
  if (status == TENON_OK) status = tenon_executable_run(e, &in, out, NULL);
  tenon_executable_release(e);
  tenon_graph_release(graph);
  tenon_builder_release(b);
  tenon_tensor_release(in);
  return status;
}

/* Calls the operator, as it is or planned; `expected` is its result, or a part of the message. */
static void check_one(const char *op, const char *attrs, const char *input, tenon_status_t status,
                      const char *expected, int is_planned) {
  tenon_tensor_t *out = NULL;
  const tenon_status_t found =
      is_planned ? run_planned(op, attrs, input, &out) : call_op(op, attrs, &input, &out);
  CHECK_STATUS(found, status);
  if (found != TENON_OK)
    CHECK_TEXT(tenon_error(), expected);
  else
    check_tensor(out, expected, 0, __FILE__, __LINE__);
  tenon_tensor_release(out);
}

static void check_both(const char *op, const char *attrs, const char *input, tenon_status_t status,
                       const char *expected) {
  check_one(op, attrs, input, status, expected, 0);
  check_one(op, attrs, input, status, expected, 1);
}

TEST("a view within its input is made, also backwards, repeated, and without elements") {
  start();
  check_both("bounds::part", "offset=1; extent=2", "f32[3] 1 2 3", TENON_OK, "f32[2] 2 3");
  check_both("bounds::part", "offset=2; extent=3; stride=-1", "f32[3] 1 2 3", TENON_OK,
             "f32[3] 3 2 1");
  check_both("bounds::part", "offset=2; extent=3; stride=0", "f32[3] 1 2 3", TENON_OK,
             "f32[3] 3 3 3");
  check_both("bounds::part", "offset=1000000; extent=0", "f32[3] 1 2 3", TENON_OK, "f32[0]");
}

TEST("a view that leaves its input is refused, and the message names both") {
  static const char *const attrs[] = {"offset=3",
                                      "offset=1; extent=3",
                                      "extent=4",
                                      "offset=-1",
                                      "offset=1; extent=3; stride=-1",
                                      "extent=2; stride=3",
                                      "offset=1099511627776"};
  start();
  for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++)
    check_both("bounds::part", attrs[i], "f32[3] 1 2 3", TENON_INTERNAL,
               "of input x, which has bytes 0 to 12: expected a view within it");
  check_both("bounds::part", "offset=1; extent=3", "f32[3] 1 2 3", TENON_INTERNAL,
             "bounds::part: infer made result out of shape [3] a view of bytes 4 to 16 of input x");
  check_both("bounds::part", "offset=2305843009213693952; extent=2", "f32[3] 1 2 3", TENON_INTERNAL,
             "reaches further than 64 bits can count");
  check_one("bounds::part", "extent=4611686018427387904; stride=4", "f32[3] 1 2 3", TENON_INTERNAL,
            "expected a view of bytes 0 to 12", 0);
  check_both("bounds::part", "extent=1", "f32[0]", TENON_INTERNAL, "which has bytes 0 to 0");
}

TEST("the items of a list are views within their input, too") {
  start();
  tenon_tensor_t *out = NULL;
  const char *const input[] = {"f32[4] 1 2 3 4"};
  if (CHECK_STATUS(call_op("bounds::parts", NULL, input, &out), TENON_OK))
    check_tensor(tenon_item(out, 1), "f32[2] 3 4", 0, __FILE__, __LINE__);
  tenon_tensor_release(out);
  out = NULL;
  CHECK_STATUS(call_op("bounds::parts", "step=3", input, &out), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "a view of bytes 12 to 20 of input x, which has bytes 0 to 16");
  CHECK_STATUS(call_op("bounds::parts", "alias=9", input, &out), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "infer made result out a view of input 8");
}

TEST("elements that hold addresses are not seen as others, nor others as them") {
  start();
  check_one("bounds::text", NULL, "f32[4] 1 2 3 4", TENON_INTERNAL,
            "bounds::text: infer made result out of string a view of input x of f32", 0);
  check_one("bounds::text", NULL, "f32[4] 1 2 3 4", TENON_INTERNAL, "of string a view", 1);
}

TEST("strides with gaps get the memory that they reach") {
  start();
  check_both("bounds::fill", "extent=4; stride=1000", "f32[1] 0", TENON_OK, "f32[4] 0 1 2 3");
  check_one("bounds::fill", "extent=4; stride=-1", "f32[1] 0", TENON_INVALID, "below 0", 0);
  check_one("bounds::fill", "extent=4; stride=-1", "f32[1] 0", TENON_INTERNAL,
            "strides that reach below its first element", 1);
}

TEST("known elements fit their result") {
  start();
  check_both("bounds::number", "count=1", "f32[1] 0", TENON_OK, "i64[] 7");
  check_both("bounds::number", "count=64", "f32[1] 0", TENON_INTERNAL,
             "64 known elements: expected 1 for a scalar");
}

TEST("a view repeats elements of its input as often as 62 bits can count their bytes") {
  static const char *const attrs[] = {"extent=9223372036854775807; stride=0",
                                      "extent=4294967296; stride=0; ndim=2",
                                      "extent=2147483648; stride=0; ndim=4"};
  start();
  for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++)
    check_one("bounds::part", attrs[i], "f32[3] 1 2 3", TENON_INVALID,
              "repeats elements of input x: expected at most", 0);
  check_one("bounds::part", "extent=2147483648; stride=0; ndim=2", "f32[3] 1 2 3", TENON_INVALID,
            "bounds::part: result out of shape [2147483648, 2147483648] repeats "
            "elements of input x: expected at most 4611686018427387904 bytes of elements",
            0);
}
