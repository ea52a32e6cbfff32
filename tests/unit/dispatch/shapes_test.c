/* Symbolic shapes by tenon_shapes_infer: with numbers in place of the symbols, they are the shapes
 * that calls give. */
#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

#include "failing.h"

enum { SYMBOLS = 32 };
/* A table of symbols, and the number for each symbol. */
typedef struct tried_t {
  tenon_shapes_t *shapes;
  tenon_dim_t symbols[SYMBOLS];
  int64_t numbers[SYMBOLS];
  int count;
  int found;     /* found: extents known only after run */
  int64_t limit; /* the limit of the last of these */
} tried_t;

static int64_t number_of(tried_t *t, tenon_dim_t dim) {
  tenon_part_t part = {.size = sizeof part};
  for (int i = 0; i < t->count; i++)
    if (t->symbols[i].value == dim.value) return t->numbers[i];
  CHECK_STATUS(tenon_shapes_part(t->shapes, dim, &part), TENON_OK);
  if (part.kind == TENON_PART_NUMBER) return part.a.value;
  if (part.kind == TENON_PART_FOUND) {
    t->found++;
    return t->limit = number_of(t, part.a);
  }
  /* The symbol is known to equal another one. */
  if (part.kind == TENON_PART_SYMBOL) {
    CHECK(part.a.value != dim.value);
    return part.a.value == dim.value ? -1 : number_of(t, part.a);
  }
  CHECK(part.kind == TENON_PART_OPERATION);
  int64_t a = number_of(t, part.a);
  int64_t b = number_of(t, part.b);
  switch (part.operation) {
  case TENON_DIM_ADD:
    return a + b;
  case TENON_DIM_MUL:
    return a * b;
  case TENON_DIM_DIV:
    return a / b;
  case TENON_DIM_CEIL_DIV:
    return (a + b - 1) / b;
  case TENON_DIM_MOD:
    return a % b;
  case TENON_DIM_MIN:
    return a < b ? a : b;
  case TENON_DIM_MAX:
    return a > b ? a : b;
  case TENON_DIM_BROADCAST:
    return a == 1 ? b : a;
  default:
    CHECK_NEVER("an operation of another number");
    return -1;
  }
}

/* Makes every extent of the tensor a symbol of its own. */
static void meta_of(tried_t *t, tenon_tensor_t *tensor, tenon_meta_t *meta, tenon_dim_t *dims) {
  *meta = (tenon_meta_t){.size = sizeof *meta,
                         .dtype = tensor->dtype,
                         .ndim = tensor->ndim,
                         .device = {1, 0},
                         .dims = dims};
  for (int32_t d = 0; d < tensor->ndim; d++) {
    CHECK_STATUS(tenon_shapes_symbol(t->shapes, &dims[d]), TENON_OK);
    t->symbols[t->count] = dims[d];
    t->numbers[t->count++] = tensor->shape[d];
  }
}

static void compare(tried_t *t, const tenon_meta_t *meta, const tenon_tensor_t *tensor) {
  if (tenon_dtype_id(tensor->dtype) == TENON_LIST) {
    CHECK((int64_t)meta->count == tensor->shape[0]);
    for (uint32_t i = 0; i < meta->count; i++)
      compare(t, meta->items[i], tenon_item(tensor, i));
    return;
  }
  CHECK(tenon_dtype_id(meta->dtype) == tenon_dtype_id(tensor->dtype));
  if (!CHECK(meta->ndim == tensor->ndim)) return;
  for (int32_t d = 0; d < meta->ndim; d++) {
    int before = t->found;
    int64_t number = number_of(t, meta->dims[d]);
    if (t->found == before)
      CHECK(number == tensor->shape[d]);
    else
      CHECK(tensor->shape[d] <= t->limit);
  }
}

static void try(const char *name, const char *attrs_text, const char *const *texts, int found) {
  const tenon_op_t *op = op_of(name);
  tenon_op_info_t info = op_info(op);
  tenon_attrs_t *attrs = attrs_of(op, attrs_text);
  tried_t t = {0};
  tenon_tensor_t *inputs[8] = {NULL};
  tenon_tensor_t *outputs[8] = {NULL};
  tenon_meta_t metas[8];
  tenon_meta_t *given[8] = {NULL};
  tenon_dim_t dims[8][8];
  const tenon_meta_t *const *results;
  CHECK_STATUS(tenon_shapes_create(&t.shapes), TENON_OK);
  for (int32_t i = 0; i < info.input_count; i++)
    if ((inputs[i] = tensor_of(texts[i]))) meta_of(&t, inputs[i], given[i] = &metas[i], dims[i]);
  CHECK_STATUS(tenon_op_call(op, attr_values(attrs), inputs, outputs, 0), TENON_OK);
  if (CHECK_STATUS(tenon_shapes_infer(t.shapes, op, attr_values(attrs), given, 0, &results),
                   TENON_OK))
    for (int32_t o = 0; o < info.output_count; o++)
      if (outputs[o]) compare(&t, results[o], outputs[o]);
  CHECK(t.found == found);
  for (int i = 0; i < 8; i++) {
    tenon_tensor_release(inputs[i]);
    tenon_tensor_release(outputs[i]);
  }
  tenon_shapes_release(t.shapes);
  tenon_attrs_release(attrs);
}

TEST("with numbers in place of the symbols, inferred shapes equal those of calls") {
  try("core::add", NULL, (const char *[]){"f32[2,3] 1 2 3 4 5 6", "f32[3] 1 2 3"}, 0);
  try("core::add", NULL, (const char *[]){"f32[2,1] 1 2", "f32[1,3] 1 2 3"}, 0);
  try("core::neg", NULL, (const char *[]){"f32[] 1"}, 0);
  try("core::matmul", NULL, (const char *[]){"f32[2,3] 1 2 3 4 5 6", "f32[3,1] 1 2 3", NULL}, 0);
  try("core::transpose", "perm=[1, 0]", (const char *[]){"f32[2,3] 1 2 3 4 5 6"}, 0);
  try("core::nonzero", NULL, (const char *[]){"f32[2,3] 1 0 3 4 0 6"}, 1);
  try("core::split", "axis=1; count=3", (const char *[]){"f32[2,6] 1 2 3 4 5 6 1 2 3 4 5 6", NULL},
      0);
  try("core::softmax", "axis=0", (const char *[]){"f32[2,3] 1 2 3 4 5 6"}, 0);
  try("core::layer_norm", NULL, (const char *[]){"f32[2,3] 1 2 3 4 5 6", "f32[3] 1 1 1", NULL}, 0);
}

TEST("the extents of a list of symbolic tensors are added") {
  const tenon_op_t *op = op_of("core::concat");
  tenon_attrs_t *attrs = attrs_of(op, "axis=0");
  tried_t t = {0};
  tenon_tensor_t *items[2] = {tensor_of("f32[2,3] 1 2 3 4 5 6"),
                              tensor_of("f32[4,3] 1 2 3 4 5 6 7 8 9 10 11 12")};
  tenon_meta_t metas[2];
  tenon_meta_t *list[2] = {&metas[0], &metas[1]};
  tenon_dim_t dims[2][8];
  const tenon_meta_t *const *results;
  tenon_part_t part = {.size = sizeof part};
  CHECK_STATUS(tenon_shapes_create(&t.shapes), TENON_OK);
  for (int i = 0; i < 2; i++)
    meta_of(&t, items[i], &metas[i], dims[i]);
  tenon_meta_t all = {
      .size = sizeof all, .dtype = tenon_dtype(TENON_LIST), .ndim = 0, .count = 2, .items = list};
  CHECK_STATUS(
      tenon_shapes_infer(t.shapes, op, attr_values(attrs), (tenon_meta_t *[]){&all}, 0, &results),
      TENON_OK);
  CHECK(number_of(&t, results[0]->dims[0]) == 6);
  CHECK(number_of(&t, results[0]->dims[1]) == 3);
  CHECK_STATUS(tenon_shapes_part(t.shapes, dims[1][1], &part),
               /* The other axis is declared to be equal. */
               TENON_OK);
  CHECK(part.kind == TENON_PART_SYMBOL);
  CHECK(part.a.value == dims[0][1].value);
  for (int i = 0; i < 2; i++)
    tenon_tensor_release(items[i]);
  tenon_shapes_release(t.shapes);
  tenon_attrs_release(attrs);
}

TEST("every form of an extent can be taken apart") {
  const tenon_op_t *op = op_of("core::conv");
  tenon_attrs_t *attrs = attrs_of(op, "strides=[2, 3]; pads=[1, 1, 1, 1]");
  tried_t t = {0};
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *w = NULL;
  tenon_tensor_t *inputs[4] = {NULL};
  tenon_tensor_t *outputs[1] = {NULL};
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 4, (int64_t[]){1, 1, 7, 8}, &x),
               TENON_OK);
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 4, (int64_t[]){2, 1, 3, 3}, &w),
               TENON_OK);
  memset(x->data, 0, 56 * 4);
  memset(w->data, 0, 18 * 4);
  tenon_meta_t metas[2];
  tenon_meta_t *given[4] = {&metas[0], &metas[1]};
  tenon_dim_t dims[2][8];
  const tenon_meta_t *const *results;
  inputs[0] = x;
  inputs[1] = w;
  CHECK_STATUS(tenon_shapes_create(&t.shapes), TENON_OK);
  meta_of(&t, x, &metas[0], dims[0]);
  meta_of(&t, w, &metas[1], dims[1]);
  CHECK_STATUS(tenon_op_call(op, attr_values(attrs), inputs, outputs, 0), TENON_OK);
  CHECK_STATUS(tenon_shapes_infer(t.shapes, op, attr_values(attrs), given, 0, &results), TENON_OK);
  compare(&t, results[0], outputs[0]);
  tenon_tensor_release(x);
  tenon_tensor_release(w);
  tenon_tensor_release(outputs[0]);
  tenon_shapes_release(t.shapes);
  tenon_attrs_release(attrs);
}

TEST("impossible shapes are refused, and the shape table stays usable") {
  const tenon_op_t *op = op_of("core::matmul");
  tenon_shapes_t *shapes;
  const tenon_meta_t *const *results;
  tenon_dim_t a[2] = {{2}, {3}};
  tenon_dim_t b[2] = {{4}, {5}};
  tenon_meta_t left = {.size = sizeof left, .dtype = tenon_dtype(TENON_F32), .ndim = 2, .dims = a};
  tenon_meta_t right = left;
  tenon_part_t part = {.size = sizeof part};
  right.dims = b;
  CHECK_STATUS(tenon_shapes_create(&shapes), TENON_OK);
  CHECK_STATUS(
      tenon_shapes_infer(shapes, op, NULL, (tenon_meta_t *[]){&left, &right, NULL}, 0, &results),
      TENON_INVALID);
  CHECK_TEXT(tenon_error(), "3");
  CHECK_STATUS(
      tenon_shapes_infer(shapes, op, NULL, (tenon_meta_t *[]){&left, NULL, NULL}, 0, &results),
      TENON_INVALID);
  CHECK_TEXT(tenon_error(), "missing");
  right.size = 8;
  CHECK_STATUS(
      tenon_shapes_infer(shapes, op, NULL, (tenon_meta_t *[]){&left, &right, NULL}, 0, &results),
      TENON_INVALID);
  right.size = sizeof right;
  right.ndim = 65;
  CHECK_STATUS(
      tenon_shapes_infer(shapes, op, NULL, (tenon_meta_t *[]){&left, &right, NULL}, 0, &results),
      TENON_INVALID);
  CHECK_STATUS(tenon_shapes_part(shapes, (tenon_dim_t){INT64_MIN + 1000}, &part), TENON_INVALID);
  CHECK_STATUS(
      tenon_shapes_infer(shapes, op_of("core::cast"), NULL, (tenon_meta_t *[]){&left}, 0, &results),
      TENON_INVALID);
  CHECK_TEXT(tenon_error(), "to");
  right.ndim = 2;
  b[0].value = 3;
  CHECK_STATUS(
      tenon_shapes_infer(shapes, op, NULL, (tenon_meta_t *[]){&left, &right, NULL}, 0, &results),
      TENON_OK);
  CHECK(results[0]->dims[1].value == 5);
  tenon_shapes_release(shapes);
}

TEST("dtypes are inferred without shapes, unknown dtypes are filled in, and shapes are inferred "
     "without dtypes") {
  const tenon_dtype_t none = {0, 0, 0};
  const tenon_dtype_t f64 = tenon_dtype(TENON_F64);
  tenon_dim_t dims[2] = {{2}, {3}};
  tenon_meta_t a = {.size = sizeof a, .dtype = f64, .ndim = 2, .dims = dims};
  tenon_meta_t b = a;
  tenon_meta_t *both[] = {&a, &b};
  tenon_dtype_t found[1];
  tenon_shapes_t *shapes;
  const tenon_meta_t *const *results;
  b.dtype = none;
  CHECK_STATUS(tenon_types_infer(op_of("core::add"), NULL, both, found), TENON_OK);
  CHECK(tenon_dtype_id(b.dtype) == TENON_F64);
  CHECK(tenon_dtype_id(found[0]) == TENON_F64);
  a.dtype = b.dtype = none;
  CHECK_STATUS(tenon_types_infer(op_of("core::add"), NULL, both, found), TENON_OK);
  CHECK(a.dtype.bits == 0 && found[0].bits == 0);
  CHECK_STATUS(tenon_types_infer(op_of("core::equal"), NULL, both, found), TENON_OK);
  CHECK(tenon_dtype_id(found[0]) == TENON_BOOL);
  a.dtype = f64;
  b.dtype = tenon_dtype(TENON_I32);
  CHECK_STATUS(tenon_types_infer(op_of("core::add"), NULL, both, found), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "expected f64, the dtype of 'a', found i32");
  CHECK_STATUS(tenon_types_infer(op_of("core::add"), NULL, (tenon_meta_t *[]){&a, NULL}, found),
               TENON_INVALID);
  a.dtype = b.dtype = none;
  CHECK_STATUS(tenon_shapes_create(&shapes), TENON_OK);
  CHECK_STATUS(tenon_shapes_infer(shapes, op_of("core::add"), NULL, both, 0, &results), TENON_OK);
  CHECK(results[0]->ndim == 2 && results[0]->dims[1].value == 3);
  tenon_shapes_release(shapes);
}

TEST("dtypes and shapes of lists are inferred item by item") {
  tenon_meta_t items[2] = {{.size = sizeof *items}, {.size = sizeof *items}};
  tenon_meta_t *slots[] = {&items[0], &items[1]};
  tenon_meta_t list = {
      .size = sizeof list, .dtype = tenon_dtype(TENON_LIST), .count = 2, .items = slots};
  tenon_attrs_t *attrs = attrs_of(op_of("core::concat"), "axis=0");
  tenon_dtype_t found[1];
  items[1].dtype = tenon_dtype(TENON_F16);
  CHECK_STATUS(tenon_types_infer(op_of("core::concat"), attr_values(attrs),
                                 (tenon_meta_t *[]){&list}, found),
               TENON_OK);
  CHECK(tenon_dtype_id(items[0].dtype) == TENON_F16);
  CHECK(tenon_dtype_id(found[0]) == TENON_F16);
  tenon_attrs_release(attrs);
}

static tenon_status_t attempt(void *op) {
  tenon_shapes_t *shapes;
  tenon_dim_t dims[2];
  const tenon_meta_t *const *results;
  tenon_meta_t meta = {
      .size = sizeof meta, .dtype = tenon_dtype(TENON_F32), .ndim = 2, .dims = dims};
  tenon_status_t status = tenon_shapes_create(&shapes);
  if (status != TENON_OK) return status;
  for (int d = 0; d < 2 && status == TENON_OK; d++)
    status = tenon_shapes_symbol(shapes, &dims[d]);
  if (status == TENON_OK)
    status = tenon_shapes_infer(shapes, op, NULL, (tenon_meta_t *[]){&meta}, 0, &results);
  tenon_part_t part = {.size = sizeof part};
  if (status == TENON_OK) status = tenon_shapes_part(shapes, results[0]->dims[0], &part);
  tenon_shapes_release(shapes);
  return status;
}

TEST("inference survives the failure of each allocation") {
  fail_each("a symbolic shape", attempt, (void *)(uintptr_t)op_of("core::nonzero"), 1);
}

TEST("nothing is left behind") { tenon_shutdown(); }
