/* Example inputs: those that SAMPLES declares, errors in SAMPLES and where the message points, and
 * those derived from schema, TYPES and SHAPES alone. Expected values follow docs/contract.md, by
 * hand. */
#define TENON_STATIC
#include <tenon/check.h>
#include <tenon/tenon.h>

#include "base/arena.h"
#include "base/status.h"
#include "check.h"
#include "core/samples.h"
#include "tensors.h"

#include "operators.h"

static tn_arena_t arena;

static tenon_status_t parse(const char *text, tn_samples_t *out) {
  tn_schema_t schema;
  const char *of = "f(Tensor x, Tensor[] xs, Tensor? y=None, *, int axis=0, float eps=0.5, "
                   "str['a', 'b'] how='a') -> Tensor";
  CHECK_STATUS(tn_schema_parse(of, "lib", &arena, &schema), TENON_OK);
  return tn_samples_parse(text, &schema, &arena, out);
}

static void refuse(const char *text, const char *message) {
  tn_samples_t samples;
  CHECK_STATUS(parse(text, &samples), TENON_INVALID);
  CHECK_TEXT(tn_error(), message);
  tn_arena_clear(&arena);
}

TEST("each call of SAMPLES is parsed with its inputs, attributes and names of extents") {
  tn_samples_t s;
  CHECK_STATUS(parse("x: i64[n, 3] integers(-n, axis), xs: ([n], f32[]), axis = 2, how = 'b'; x: "
                     "[2] ['a', 'b\\n'], y = None",
                     &s),
               TENON_OK);
  CHECK(s.count == 2);
  const tn_sample_t *first = &s.calls[0];
  CHECK(first->name_count == 2 && strcmp(first->names[0], "n") == 0 && first->name_attrs[0] == -1);
  CHECK(strcmp(first->names[1], "axis") == 0 && first->name_attrs[1] == 0);
  CHECK(first->inputs[0].count == 1 && first->inputs[0].tensors[0].ndim == 2);
  CHECK(tenon_dtype_id(first->inputs[0].tensors[0].dtype) == TENON_I64);
  CHECK(first->inputs[0].tensors[0].fill.kind == TN_FILL_INTEGERS &&
        first->inputs[0].tensors[0].fill.low.is_negative);
  CHECK(first->inputs[1].count == 2 && first->inputs[1].tensors[1].ndim == 0);
  CHECK(first->inputs[2].form == TN_SAMPLE_UNSTATED &&
        s.calls[1].inputs[2].form == TN_SAMPLE_ABSENT);
  CHECK(first->has_attr[0] && !first->has_attr[1] && first->attrs[0].as.i == 2 &&
        first->attrs[2].as.i == 1);
  CHECK(s.calls[1].inputs[0].tensors[0].fill.texts[1].size == 2);
  tn_arena_clear(&arena);
}

static tenon_status_t parse_tensor_attr(const char *text, tn_samples_t *out) {
  tn_schema_t schema;
  const char *of = "f(Tensor x, *, tensor table) -> Tensor";
  CHECK_STATUS(tn_schema_parse(of, "lib", &arena, &schema), TENON_OK);
  return tn_samples_parse(text, &schema, &arena, out);
}

TEST("the tensor of an attribute has the dtype, extents and elements that SAMPLES states") {
  static const char *const wrong[] = {
      "table = [2] [1, 2]",        "table = i64[n] [1, 2]",    "table = i64[3] [1, 2]",
      "table = i64[2] zeros",      "table = u4[2] [1, 2]",     "table = f16[2] [1, 2]",
      "table = i64[2] ['a', 'b']", "table = string[2] [1, 2]", "table = i64[1000000, 1000000] [1]"};
  tn_samples_t s;
  CHECK_STATUS(parse_tensor_attr("table = f32[2, 1] [1.5, nan]; table = string[1] ['ab']", &s),
               TENON_OK);
  const tenon_tensor_t *numbers = s.calls[0].attrs[0].as.tensor;
  CHECK(s.calls[0].has_attr[0] && numbers->ndim == 2 && numbers->shape[0] == 2);
  CHECK(tenon_dtype_id(numbers->dtype) == TENON_F32 && numbers->strides[0] == 1);
  CHECK(((const float *)numbers->data)[0] == 1.5f &&
        ((const float *)numbers->data)[1] != ((const float *)numbers->data)[1]);
  const tenon_tensor_t *texts = s.calls[1].attrs[0].as.tensor;
  CHECK(((const tenon_string_t *)texts->data)[0].size == 2);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    CHECK_STATUS(parse_tensor_attr(wrong[i], &s), TENON_INVALID);
    CHECK_TEXT(tn_error(), "column 9: the tensor of an attribute");
  }
  tn_arena_clear(&arena);
}

TEST("an error in SAMPLES is reported with its column and with what was expected") {
  refuse("z: [2]", "column 1: expected an input or an attribute, found 'z'");
  refuse("x: [2], axi = 1", "did you mean 'axis'?");
  refuse("x: [2], x: [3]", "column 9: 'x' is stated twice in one call");
  refuse("x: f33[2]", "column 4: expected a dtype or '['");
  refuse("x: [2", "expected ',' or ']'");
  refuse("x: [-1]", "an extent must be a whole number of at least 0");
  refuse("x: [2] norma", "did you mean 'normal'?");
  refuse("x: [2] integers(3, 3)", "the lower bound must be less than the upper bound");
  refuse("x = None", "input 'x' is not optional");
  refuse("axis = 'a'", "column 8: attribute 'axis': expected int");
  refuse("x: [eps]", "attribute 'eps' is not an int or a dim");
  refuse("xs: [2]", "expected '(' and the tensors of the list");
  refuse("x: [2]; ; ", "expected an input or an attribute");
}

static tenon_status_t nothing(tenon_call_t *call) {
  (void)call;
  return TENON_OK;
}

TENON_LIBRARY(sampled, "1.0.0",
              TENON_OP("rows(Tensor index, Tensor table, *, int shift=3) -> Tensor",
                       TENON_TYPES("index: i32|i64; table: f16|f32; out = table"),
                       TENON_SHAPES("index: [n]; table: [r, d]; out: [n, d]"),
                       TENON_SAMPLES("index: [n] integers(0, r), table: [r, 5] uniform(2, 3); "
                                     "index: i32[] [1], table: [4] permutation"),
                       TENON_KERNEL("cpu", nothing)),
              TENON_OP("plain(Tensor x, Tensor y, Tensor? z=None, *, float a) -> Tensor",
                       TENON_TYPES("x, y, z: f16|f32|f64; out = x"),
                       TENON_SHAPES("x: [..., n, k]; y: [k, m]; out: [..., n, m]"),
                       TENON_KERNEL("cpu", nothing)),
              TENON_OP("half(*, int half) -> Tensor", TENON_TYPES("out = f32"),
                       TENON_SHAPES("out: [half]"), TENON_KERNEL("cpu", nothing)),
              TENON_OP("constant(*, tensor value) -> Tensor", TENON_TYPES("out = f32"),
                       TENON_SHAPES("out: [1]"), TENON_KERNEL("cpu", nothing)))

static const tenon_op_t *sampled(const char *name) {
  static tenon_library_t *library;
  if (!library)
    CHECK_STATUS(tenon_library_add(tenon_library_sampled(), NULL, NULL, &library), TENON_OK);
  return op_of(name);
}

TEST("example inputs have the extents, dtypes and elements that SAMPLES states, and the caller "
     "chooses the rest") {
  const tenon_op_t *op = sampled("sampled::rows");
  const char *names[] = {"n"};
  int64_t extents[] = {100};
  tenon_value_t v[3];
  tenon_sample_t options = {.size = sizeof options,
                            .dtype = tenon_dtype(TENON_I64),
                            .extent = 6,
                            .seed = 3,
                            .name_count = 1,
                            .names = names,
                            .extents = extents};
  CHECK(tenon_op_sample_count(op) == 2);
  CHECK_STATUS(tenon_op_sample(op, &options, v), TENON_OK);
  const tenon_tensor_t *index = v[0].as.tensor;
  const tenon_tensor_t *table = v[1].as.tensor;
  CHECK(index->ndim == 1 && index->shape[0] == 100 && tenon_dtype_id(index->dtype) == TENON_I64);
  CHECK(table->ndim == 2 && table->shape[0] == 6 && table->shape[1] == 5 &&
        tenon_dtype_id(table->dtype) == TENON_F32);
  int64_t seen = 0;
  for (int64_t i = 0; i < 100; i++) {
    int64_t at = ((int64_t *)index->data)[i];
    CHECK(at >= 0 && at < 6);
    seen |= (int64_t)1 << at;
  }
  CHECK(seen == 63); /* 100 draws out of six elements */
  for (int i = 0; i < 30; i++)
    CHECK(((float *)table->data)[i] > 2 && ((float *)table->data)[i] < 3);
  CHECK(v[2].kind == TENON_KIND_INT && v[2].as.i == 3);
  tenon_op_sample_release(op, v);
}

TEST("the same seed gives the same elements, and another seed gives others") {
  const tenon_op_t *op = sampled("sampled::plain");
  tenon_value_t a[4], b[4];
  float first[3];
  for (uint64_t seed = 0; seed < 3; seed++) {
    tenon_sample_t options = {.size = sizeof options, .seed = seed / 2};
    CHECK_STATUS(tenon_op_sample(op, &options, seed == 1 ? b : a), TENON_OK);
    first[seed] = *(float *)(seed == 1 ? b : a)[0].as.tensor->data;
    tenon_op_sample_release(op, seed == 1 ? b : a);
  }
  CHECK(first[0] == first[1] && first[0] != first[2]);
}

TEST("without SAMPLES, inputs share extents by their names in SHAPES, optional inputs are absent, "
     "and attributes get values") {
  const tenon_op_t *op = sampled("sampled::plain");
  tenon_value_t v[4];
  tenon_sample_t options = {.size = sizeof options};
  CHECK_STATUS(tenon_op_sample(op, &options, v), TENON_OK);
  const tenon_tensor_t *x = v[0].as.tensor;
  const tenon_tensor_t *y = v[1].as.tensor;
  CHECK(x->ndim == 3 && y->ndim == 2 && x->shape[2] == y->shape[0] && x->shape[1] != x->shape[2]);
  CHECK(v[2].kind == TENON_KIND_NONE && v[3].kind == TENON_KIND_FLOAT && v[3].as.f == 1);
  tenon_op_sample_release(op, v);
  op = sampled("sampled::half");
  options.extent = 9;
  CHECK_STATUS(tenon_op_sample(op, &options, v), TENON_OK);
  /* The attribute names an extent. */
  CHECK(v[0].kind == TENON_KIND_INT && v[0].as.i == 9);
}

TEST("example inputs that cannot be made are refused with the reason, and nothing is left behind") {
  tenon_value_t v[4];
  tenon_sample_t options = {.size = sizeof options, .dtype = tenon_dtype(TENON_I8)};
  CHECK_STATUS(tenon_op_sample(sampled("sampled::plain"), &options, v), TENON_INVALID);
  CHECK_TEXT(tn_error(), "x of dtype i8: expected one of f16|f32|f64");
  options.dtype.bits = 0;
  options.index = 1;
  CHECK_STATUS(tenon_op_sample(sampled("sampled::plain"), &options, v), TENON_RANGE);
  CHECK_STATUS(tenon_op_sample(sampled("sampled::rows"), &options, v),
               TENON_INVALID); /* Its SAMPLES text is wrong on purpose. */
  CHECK_TEXT(tn_error(), "its SAMPLES: ");
  CHECK(v[0].kind == TENON_KIND_NONE && v[1].kind == TENON_KIND_NONE);
  options.index = 0;
  CHECK_STATUS(tenon_op_sample(sampled("sampled::constant"), &options, v), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tn_error(), "add TENON_SAMPLES");
}

TEST("pointwise core operators have example inputs in each of their dtypes") {
  const tenon_op_t *op = op_of("core::add");
  static const uint32_t dtypes[] = {TENON_F16, TENON_F32, TENON_F64, TENON_I8, TENON_U8, TENON_I64};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    tenon_value_t v[2];
    tenon_tensor_t *out = NULL;
    tenon_sample_t options = {.size = sizeof options, .dtype = tenon_dtype(dtypes[i])};
    CHECK_STATUS(tenon_op_sample(op, &options, v), TENON_OK);
    CHECK_STATUS(tenon_op_call_values(op, v, 2, &out, 0), TENON_OK);
    CHECK(out && tenon_dtype_id(out->dtype) == dtypes[i]);
    tenon_tensor_release(out);
    tenon_op_sample_release(op, v);
  }
}
