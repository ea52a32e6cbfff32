/* Shape patterns: texts that are accepted, texts that are refused with the place of the error, and
 * the shapes that follow, with numbers and with symbols. Expected shapes are worked out by hand
 * from NumPy's broadcasting rule. */
#include "base/status.h"
#include "core/pattern.h"

#include <stdarg.h>
#include <string.h>

#include "base/thread.h"
#include "core/extent.h"
#include "texts.h"

static tn_arena_t arena;
static tn_schema_t schema;
static tn_patterns_t patterns;
static tn_extents_t *extents;

static void open(const char *schema_text, const char *shapes) {
  tn_arena_clear(&arena);
  CHECK_STATUS(tn_schema_parse(schema_text, "lib", &arena, &schema), TENON_OK);
  CHECK_STATUS(tn_patterns_parse(shapes, false, &schema, &arena, &patterns), TENON_OK);
}

static const char *refused(const char *schema_text, const char *shapes) {
  tn_arena_clear(&arena);
  CHECK_STATUS(tn_schema_parse(schema_text, "lib", &arena, &schema), TENON_OK);
  CHECK_STATUS(tn_patterns_parse(shapes, false, &schema, &arena, &patterns), TENON_INVALID);
  return tn_error();
}

/* a host that knows symbols, and descriptions of tensors to fill in */

enum { ROOM = 4 };
static tenon_meta_t input_metas[ROOM], output_metas[ROOM];
static tenon_dim_t input_dims[ROOM][TENON_RANK_MAX], output_dims[ROOM][TENON_RANK_MAX];
static tenon_meta_t *inputs[ROOM], *outputs[ROOM];
static int asked; /* how often the host was asked */

static tenon_dim_t host_dim(tenon_infer_t *infer, uint32_t operation, tenon_dim_t a,
                            tenon_dim_t b) {
  tenon_dim_t out = {0};
  (void)infer;
  asked++;
  CHECK_STATUS(tn_extents_operate(extents, operation, a, b, &out), TENON_OK);
  return out;
}

static const tenon_host_t host = {.size = sizeof host, .abi = TENON_ABI, .dim = host_dim};

static void clear(void) {
  for (int i = 0; i < ROOM; i++) {
    input_metas[i] = (tenon_meta_t){.size = sizeof(tenon_meta_t), .dims = input_dims[i]};
    output_metas[i] =
        (tenon_meta_t){.size = sizeof(tenon_meta_t), .dims = output_dims[i], .ndim = -7};
    inputs[i] = NULL;
    outputs[i] = &output_metas[i];
  }
  asked = 0;
}

/* Gives input i this shape; rank -1: unknown. */
static void shape(int i, int32_t rank, ...) {
  va_list list;
  va_start(list, rank);
  inputs[i] = &input_metas[i];
  input_metas[i].ndim = rank;
  for (int32_t k = 0; k < rank; k++)
    input_dims[i][k] = tenon_extent(va_arg(list, int));
  va_end(list);
}

static tenon_status_t apply(const tenon_value_t *attrs) {
  tenon_infer_t infer = {.size = sizeof infer,
                         .phase = TENON_PHASE_INFER,
                         .host = &host,
                         .attrs = attrs ? attrs : schema.defaults,
                         .inputs = inputs,
                         .outputs = outputs};
  return tn_patterns_apply(&patterns, &schema, &infer);
}

static int is_shape(const tenon_meta_t *meta, int32_t rank, ...) {
  va_list list;
  int ok = meta->ndim == rank;
  va_start(list, rank);
  for (int32_t k = 0; ok && k < rank; k++)
    ok = meta->dims[k].value == va_arg(list, int);
  va_end(list);
  return ok;
}

/* parsing */

TEST("shape patterns are parsed into names, numbers, arbitrary extents and leading extents") {
  open("f(Tensor x, Tensor w, *, int m) -> (Tensor out, Tensor same)",
       "x: [..., n, 3]; w: [m, _]; out: [..., n, m]; same = x");
  CHECK(patterns.name_count == 2 && strcmp(patterns.names[0], "n") == 0 &&
        patterns.name_attrs[0] == -1 && patterns.name_attrs[1] == 0);
  CHECK(patterns.inputs[0].has_leading && patterns.inputs[0].count == 2 &&
        patterns.inputs[0].extents[1].number == 3);
  CHECK(patterns.inputs[1].extents[1].kind == TN_EXTENT_ANY && !patterns.inputs[1].has_leading);
  CHECK(patterns.outputs[1].is_given && patterns.outputs[1].same_as == 0 &&
        patterns.outputs[0].same_as == -1);
  open("f(Tensor x) -> Tensor", NULL);
  CHECK(!patterns.text && !patterns.inputs[0].is_given && patterns.outputs[0].same_as == -1);
  open("f(Tensor x, Tensor y) -> Tensor", "x: [...]; y: []; out: [...]");
  CHECK(patterns.inputs[0].has_leading && patterns.inputs[0].count == 0 &&
        patterns.inputs[1].count == 0);
  open("f(Tensor x, Tensor y) -> Tensor", "x, y, out: [..., n]");
  CHECK(patterns.outputs[0].is_given && patterns.outputs[0].extents == patterns.inputs[0].extents);
}

TEST("error messages point at the extent") {
  CHECK_TEXT(refused("f(Tensor x) -> Tensor", "x: [n]; out: [m]"),
             "shapes 'x: [n]; out: [m]': column 15: extent 'm' of a result is neither an extent of "
             "an input nor an int or dim attribute");
  CHECK_TEXT(refused("f(Tensor x) -> Tensor", "x: [batch]; out: [bacth]"), "did you mean 'batch'?");
  CHECK_TEXT(refused("f(Tensor x) -> Tensor", "y: [n]"),
             "column 1: expected an input or a result, found 'y'");
  CHECK_TEXT(refused("f(Tensor input) -> Tensor", "inptu: [n]"), "did you mean 'input'?");
  CHECK_TEXT(refused("f(Tensor x) -> Tensor", "x: [n]; x: [m]"), "column 9: 'x' is declared twice");
  CHECK_TEXT(refused("f(Tensor x) -> Tensor", "x: [n, ...]"),
             "column 8: '...' stands for the leading extents, so it must come first");
  CHECK_TEXT(refused("f(Tensor x) -> Tensor", "x: [-1]"),
             "column 5: an extent must be at least 0, found -1");
  CHECK_TEXT(refused("f(Tensor x) -> Tensor", "x: [1.5]"),
             "column 5: expected an extent (a name, a number, '_') or ']', found '1.5'");
  CHECK_TEXT(refused("f(Tensor x) -> Tensor", "x: [n; out = x"),
             "column 6: expected ',' or ']', found ';'");
  CHECK_TEXT(refused("f(Tensor x) -> Tensor", "x [n]"),
             "column 3: expected ',', ':' and extents, or '=' and an input, found '['");
  CHECK_TEXT(refused("f(Tensor x) -> Tensor", "x: n"), "column 4: expected '[', found 'n'");
  CHECK_TEXT(refused("f(Tensor x) -> Tensor", "x: [n]; out: [_]"),
             "column 15: '_' accepts any extent, but the extents of a result must be known");
  CHECK_TEXT(refused("f(Tensor x) -> Tensor", "x: [n]; out: [..., n]"),
             "column 15: no input declares the leading extents '...' of this result");
  CHECK_TEXT(refused("f(Tensor x, float a=1) -> Tensor", "x: [n]; out: [a]"),
             "column 15: attribute 'a' is not an int or a dim, so it cannot be an extent");
  CHECK_TEXT(refused("f(Tensor x) -> Tensor", "x = x"),
             "column 5: input 'x' does not come before 'x': the input after '=' must be an earlier "
             "one");
  CHECK_TEXT(refused("f(Tensor x, Tensor y) -> Tensor", "x = y"),
             "column 5: input 'y' does not come before 'x'");
  CHECK_TEXT(refused("f(Tensor x, Tensor[] ys) -> Tensor", "ys = x"),
             "column 4: input 'ys' is a list, and '=' is for one tensor");
  CHECK_TEXT(refused("f(Tensor x) -> Tensor", "out = out"),
             "column 7: expected an input, found 'out'");
  CHECK_TEXT(refused("f(Tensor? x) -> Tensor", "out = x"),
             "column 7: input 'x' is optional, so no argument can take its shape");
  CHECK_TEXT(refused("f(Tensor[] x) -> Tensor", "out = x"), "input 'x' is a list");
  CHECK_TEXT(refused("f(Tensor x) -> Tensor", ""),
             "column 1: expected an input or a result, found the end");
  CHECK_TEXT(refused("f(Tensor x) -> Tensor", "x: [n] out = x"),
             "column 8: expected ';' or the end, found 'out'");
  CHECK_TEXT(refused("f(Tensor x) -> Tensor", "x: [9999999999999999999]"),
             "column 5: the integer does not fit 64 bits");
  char *many = texts_repeat("x: [n", ", n", 64, "]");
  CHECK_TEXT(refused("f(Tensor x) -> ()", many), "a tensor has at most 64 extents");
  free(many);
}

TEST("a sharding pattern may use leading extents and new names in results, but not '='") {
  tn_patterns_t sharding;
  CHECK_STATUS(tn_schema_parse("f(Tensor x, float s=1) -> Tensor", "lib", &arena, &schema),
               TENON_OK);
  CHECK_STATUS(tn_patterns_parse("x: [b, s, _]; out: [b, t, _]", true, &schema, &arena, &sharding),
               TENON_OK);
  CHECK(sharding.name_count == 3 && sharding.name_attrs[1] == -1 &&
        sharding.outputs[0].extents[2].kind == TN_EXTENT_ANY);
  CHECK_STATUS(tn_patterns_parse("x: [..., s]; out: [..., s]", true, &schema, &arena, &sharding),
               TENON_OK);
  CHECK(sharding.inputs[0].has_leading && sharding.outputs[0].has_leading);
  CHECK_STATUS(tn_patterns_parse("out: [..., s]", true, &schema, &arena, &sharding), TENON_INVALID);
  CHECK_TEXT(tn_error(), "no input declares the leading extents '...' of this result");
  CHECK_STATUS(tn_patterns_parse("out = x", true, &schema, &arena, &sharding), TENON_INVALID);
  CHECK_TEXT(tn_error(), "column 5: expected ':' and extents: sharding does not allow '='");
}

TEST("a sharding pattern names the extents of inputs over which a result is summed") {
  tn_patterns_t sharding;
  CHECK_STATUS(tn_schema_parse("f(Tensor a, Tensor sum) -> Tensor", "lib", &arena, &schema),
               TENON_OK);
  CHECK_STATUS(tn_patterns_parse("a: [m, k]; sum: [k, n]; out: [m, n]; sum k", true, &schema,
                                 &arena, &sharding),
               TENON_OK);
  CHECK(sharding.inputs[1].is_given);
  CHECK_STATUS(tn_patterns_parse("a: [m, k]; sum m", true, &schema, &arena, &sharding), TENON_OK);
  CHECK_STATUS(tn_patterns_parse("a: [m, k]; sum m, k, j", true, &schema, &arena, &sharding),
               TENON_INVALID);
  CHECK_TEXT(tn_error(), "column 22: expected the name of an extent of an input, found 'j'");
  CHECK_STATUS(tn_patterns_parse("a: [m, k]; out: [m]; sum m", true, &schema, &arena, &sharding),
               TENON_INVALID);
  CHECK_TEXT(tn_error(), "extent 'm' is also one of a result, so it is not summed");
  CHECK_STATUS(tn_patterns_parse("a: [m, k]; sum k; out: [m]", true, &schema, &arena, &sharding),
               TENON_INVALID);
  CHECK_TEXT(tn_error(), "expected ';' or the end");
  CHECK_STATUS(tn_patterns_parse("a: [m, k]; out: [m]; sum k", false, &schema, &arena, &sharding),
               TENON_INVALID);
}

TEST("a sharding may have conditions, and several declarations") {
  static const char *const schema_text =
      "f(Tensor x, Tensor? bias=None, *, int axis=-1, str['a', 'b'] mode='a') -> Tensor";
  static const struct {
    const char *text;
    const char *why;
  } bad[] = {
      {"x: [_, n]; out: [_, n]; if scale = 1", "an attribute or an optional input, found 'scale'"},
      {"x: [_, n]; out: [_, n]; if x = None", "an attribute or an optional input, found 'x'"},
      {"x: [_, n]; out: [_, n]; if bias = 1",
       "'bias' is an input, whose only condition is '= None'"},
      {"x: [n]; out: [n]; if axis = 'a'", "attribute 'axis' cannot have this value"},
      {"x: [n]; out: [n]; if mode = 'c'", "attribute 'mode' cannot have this value"},
      {"x: [n]; out: [n]; if axis", "'=' and a value"},
      {"x: [n]; out: [n]; if axis = 1; sum n", "expected ';' or the end"},
      {"x: [n]; out: [n] | x: [n]; sum m", "the name of an extent of an input, found 'm'"},
      {"x: [..., n]; out: [n] | out: [..., n]", "no input declares the leading extents"},
  };
  tn_patterns_t sharding;
  CHECK_STATUS(tn_schema_parse(schema_text, "lib", &arena, &schema), TENON_OK);
  CHECK_STATUS(tn_patterns_parse("x: [_, n]; bias: [n]; out: [_, n]; if axis = 0, mode = 'b' | "
                                 "x: [m, k]; out: [m]; sum k; if axis = 1, bias = None",
                                 true, &schema, &arena, &sharding),
               TENON_OK);
  CHECK(sharding.name_count == 2 && !sharding.inputs[1].is_given);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CHECK_STATUS(tn_patterns_parse(bad[i].text, true, &schema, &arena, &sharding), TENON_INVALID);
    CHECK_TEXT(tn_error(), bad[i].why);
  }
  CHECK_STATUS(tn_patterns_parse("x: [n]; out: [n] | x: [n]", false, &schema, &arena, &sharding),
               TENON_INVALID);
}

/* applying */

static const char *const matmul = "mm(Tensor a, Tensor b) -> Tensor";
static const char *const matmul_shapes = "a: [..., n, k]; b: [..., k, m]; out: [..., n, m]";

TEST("leading extents broadcast from the right, and extents with one name must agree") {
  open(matmul, matmul_shapes);
  clear();
  shape(0, 2, 2, 3);
  shape(1, 2, 3, 4);
  CHECK_STATUS(apply(NULL), TENON_OK);
  CHECK(is_shape(&output_metas[0], 2, 2, 4) && asked == 0);
  clear();
  shape(0, 4, 7, 1, 2, 3);
  shape(1, 3, 5, 3, 4);
  CHECK_STATUS(apply(NULL), TENON_OK);
  CHECK(is_shape(&output_metas[0], 4, 7, 5, 2, 4));
  clear();
  shape(0, 3, 0, 2, 3);
  shape(1, 3, 1, 3, 4);
  CHECK_STATUS(apply(NULL), TENON_OK);
  CHECK(is_shape(&output_metas[0], 3, 0, 2, 4));
  clear();
  shape(0, 2, 2, 3);
  shape(1, 2, 5, 4);
  CHECK_STATUS(apply(NULL), TENON_INVALID);
  CHECK_TEXT(tn_error(), "operator 'lib::mm': input 'b': expected shape [..., k, m] with k = 3, "
                         "from 'a', found [5, 4]");
  clear();
  shape(0, 3, 2, 2, 3);
  shape(1, 3, 5, 3, 4);
  CHECK_STATUS(apply(NULL), TENON_INVALID);
  CHECK_TEXT(tn_error(),
             "input 'b': leading extent 0 is 5, which does not broadcast with extent 2 of "
             "the inputs before it");
  clear();
  shape(0, 1, 3);
  shape(1, 2, 3, 4);
  CHECK_STATUS(apply(NULL), TENON_INVALID);
  CHECK_TEXT(tn_error(), "input 'a': expected shape [..., n, k], found [3]");
}

TEST("numbers and attributes in a pattern constrain inputs and determine results") {
  open("f(Tensor x, Tensor? w, *, int n=2, dim? d=None) -> (Tensor out, Tensor free)",
       "x: [n, 3, _]; w: [n, q]; out: [3, d, n]; free: [q]");
  tenon_value_t attrs[2] = {{.kind = TENON_KIND_INT, .as.i = 2},
                            {.kind = TENON_KIND_DIM, .as.dim = {9}}};
  clear();
  shape(0, 3, 2, 3, 5);
  shape(1, 2, 2, 6);
  CHECK_STATUS(apply(attrs), TENON_OK);
  CHECK(is_shape(&output_metas[0], 3, 3, 9, 2) && is_shape(&output_metas[1], 1, 6));
  clear();
  shape(0, 3, 2, 4, 5);
  shape(1, 2, 2, 6);
  CHECK_STATUS(apply(attrs), TENON_INVALID);
  CHECK_TEXT(tn_error(), "input 'x': expected shape [n, 3, _], found [2, 4, 5]");
  clear();
  shape(0, 3, 7, 3, 5);
  CHECK_STATUS(apply(attrs), TENON_INVALID);
  CHECK_TEXT(tn_error(),
             "input 'x': expected shape [n, 3, _] with n = 2, from 'n', found [7, 3, 5]");
  clear();
  shape(0, 3, 2, 3, 5);
  CHECK_STATUS(apply(attrs), TENON_INVALID);
  CHECK_TEXT(tn_error(), "operator 'lib::f': extent 'q' of result 'free' is stated by no input or "
                         "attribute that is given");
  clear();
  shape(0, 3, 2, 3, 5);
  outputs[1] = NULL;
  CHECK_STATUS(apply(attrs), TENON_OK);
  CHECK_STATUS(apply(NULL), TENON_INVALID);
  CHECK_TEXT(tn_error(), "extent 'd' of result 'out'");
  attrs[0].as.i = -1;
  CHECK_STATUS(apply(attrs), TENON_INVALID);
  CHECK_TEXT(tn_error(),
             "operator 'lib::f': attribute 'n' is an extent: expected at least 0, found -1");
}

TEST("a result may have the shape of an input, and a result without a pattern is left alone") {
  open("f(Tensor x) -> (Tensor same, Tensor other)", "same = x");
  clear();
  shape(0, 3, 2, 3, 5);
  CHECK_STATUS(apply(NULL), TENON_OK);
  CHECK(is_shape(&output_metas[0], 3, 2, 3, 5) && output_metas[1].ndim == -7);
  clear();
  shape(0, 0);
  CHECK_STATUS(apply(NULL), TENON_OK);
  CHECK(output_metas[0].ndim == 0);
  clear();
  CHECK_STATUS(apply(NULL), TENON_INVALID);
  CHECK_TEXT(tn_error(), "result 'same' has the shape of 'x', which is absent");
}

TEST("an input may have to have the shape of an earlier input, of any rank") {
  open("f(Tensor x, Tensor? y, Tensor z) -> Tensor", "y = x; z = x; out = x");
  CHECK(patterns.inputs[0].same_as == -1 && !patterns.inputs[0].is_given);
  CHECK(patterns.inputs[1].same_as == 0 && patterns.inputs[2].same_as == 0);
  clear();
  shape(0, 3, 2, 3, 5);
  shape(1, 3, 2, 3, 5);
  shape(2, 3, 2, 3, 5);
  CHECK_STATUS(apply(NULL), TENON_OK);
  CHECK(is_shape(&output_metas[0], 3, 2, 3, 5));
  inputs[1] = NULL;
  CHECK_STATUS(apply(NULL), TENON_OK);
  shape(2, 3, 1, 3, 5);
  CHECK_STATUS(apply(NULL), TENON_INVALID);
  CHECK_TEXT(tn_error(), "operator 'lib::f': input 'z': expected shape [2, 3, 5], as 'x' has, "
                         "found [1, 3, 5]");
  shape(2, 2, 3, 5);
  CHECK_STATUS(apply(NULL), TENON_INVALID);
  CHECK_TEXT(tn_error(), "expected shape [2, 3, 5], as 'x' has, found [3, 5]");
  shape(2, 2, 2, 3);
  CHECK_STATUS(apply(NULL), TENON_INVALID);
  CHECK_TEXT(tn_error(), "expected shape [2, 3, 5], as 'x' has, found [2, 3]");
  clear();
  shape(0, 0);
  shape(2, 0);
  CHECK_STATUS(apply(NULL), TENON_OK);
  CHECK(output_metas[0].ndim == 0);
}

TEST("a shape that is equal to that of another input is deduced, whichever of the two is known") {
  open("f(Tensor x, Tensor y) -> Tensor", "y = x; out = x");
  clear();
  shape(0, 2, 4, 7);
  shape(1, 0);
  input_metas[1].ndim = -1;
  CHECK_STATUS(apply(NULL), TENON_OK);
  CHECK(is_shape(&input_metas[1], 2, 4, 7) && is_shape(&output_metas[0], 2, 4, 7));
  clear();
  shape(0, 0);
  input_metas[0].ndim = -1;
  shape(1, 2, 4, 7);
  CHECK_STATUS(apply(NULL), TENON_OK);
  CHECK(is_shape(&input_metas[0], 2, 4, 7) && is_shape(&output_metas[0], 2, 4, 7));
}

TEST("the pattern of a list applies to each of its items") {
  open("f(Tensor[] xs) -> Tensor[]", "xs: [n, 2]; out: [2, n]");
  clear();
  tenon_meta_t list = {.count = 2, .items = inputs};
  tenon_meta_t out = {.count = 2, .items = outputs};
  tenon_meta_t *ins[1] = {&list};
  tenon_meta_t *outs[1] = {&out};
  tenon_infer_t infer = {.size = sizeof infer, .host = &host, .inputs = ins, .outputs = outs};
  shape(0, 2, 4, 2);
  shape(1, 2, 4, 2);
  CHECK_STATUS(tn_patterns_apply(&patterns, &schema, &infer), TENON_OK);
  CHECK(is_shape(&output_metas[0], 2, 2, 4) && is_shape(&output_metas[1], 2, 2, 4));
  shape(1, 2, 5, 2);
  CHECK_STATUS(tn_patterns_apply(&patterns, &schema, &infer), TENON_INVALID);
  CHECK_TEXT(tn_error(), "input 'xs': expected shape [n, 2] with n = 4, from 'xs', found [5, 2]");
}

TEST("symbolic extents are equated and broadcast") {
  tenon_dim_t n, m;
  CHECK_STATUS(tn_extents_create(&extents), TENON_OK);
  CHECK_STATUS(tn_extents_symbol(extents, "n", &n), TENON_OK);
  CHECK_STATUS(tn_extents_symbol(extents, "m", &m), TENON_OK);
  open("f(Tensor x, Tensor y) -> Tensor", "y = x; out = x");
  clear();
  shape(0, 1, 8);
  shape(1, 1, 9);
  input_dims[0][0] = n;
  CHECK_STATUS(apply(NULL), TENON_OK);
  CHECK(tn_extents_resolve(extents, output_dims[0][0]).value == 9);
  tn_extents_release(extents);
  CHECK_STATUS(tn_extents_create(&extents), TENON_OK);
  CHECK_STATUS(tn_extents_symbol(extents, "n", &n), TENON_OK);
  CHECK_STATUS(tn_extents_symbol(extents, "m", &m), TENON_OK);
  open(matmul, matmul_shapes);
  clear();
  shape(0, 3, 8, 2, 3);
  shape(1, 3, 1, 3, 4);
  /* [n, 2, m] x [1, 3, 4] */
  input_dims[0][0] = n;
  input_dims[0][2] = m;
  CHECK_STATUS(apply(NULL), TENON_OK);
  CHECK(output_metas[0].ndim == 3 && output_dims[0][0].value == n.value &&
        output_dims[0][2].value == 4);
  CHECK(tn_extents_resolve(extents, m).value == 3);
  tn_extents_release(extents);
  extents = NULL;
}

TEST("the shape of an input of unknown rank is filled in once the names in its pattern are bound") {
  open("f(Tensor x, Tensor w, Tensor v) -> Tensor", "x: [n, k]; w: [k, 2]; v: [q]; out: [n, 2]");
  clear();
  shape(0, 2, 5, 7);
  shape(1, -1);
  shape(2, -1);
  CHECK_STATUS(apply(NULL), TENON_OK);
  CHECK(is_shape(&input_metas[1], 2, 7, 2) && input_metas[2].ndim == -1 &&
        is_shape(&output_metas[0], 2, 5, 2));
}

TEST("a result with more than 64 extents is refused") {
  open("f(Tensor x, Tensor y) -> Tensor", "x: [...]; y: [n]; out: [..., n]");
  clear();
  shape(0, 0);
  shape(1, 1, 2);
  input_metas[0].ndim = 63;
  for (int i = 0; i < 63; i++)
    input_dims[0][i] = tenon_extent(1);
  CHECK_STATUS(apply(NULL), TENON_OK);
  CHECK(output_metas[0].ndim == 64 && output_dims[0][63].value == 2);
  input_metas[0].ndim = 64;
  input_dims[0][63] = tenon_extent(1);
  CHECK_STATUS(apply(NULL), TENON_INVALID);
  CHECK_TEXT(tn_error(), "result 'out' would have 65 extents: expected at most 64");
}

static tenon_status_t parse_any(const char *text, tn_arena_t *to) {
  tn_patterns_t parsed;
  return tn_patterns_parse(text, false, &schema, to, &parsed);
}

static tenon_status_t parse_sharding(const char *text, tn_arena_t *to) {
  tn_patterns_t parsed;
  return tn_patterns_parse(text, true, &schema, to, &parsed);
}

static const char *const some = "x: [..., n, 3]; w: [m, _]; out: [..., n, m]; same = x";

TEST("parsing survives the failure of each allocation") {
  open("f(Tensor x, Tensor w, *, int m) -> (Tensor out, Tensor same)", some);
  texts_check_memory(some, parse_any);
}

TEST("parsing survives arbitrary bytes") {
  open("f(Tensor x, Tensor w, *, int m) -> (Tensor out, Tensor same)", some);
  texts_check_broken(some, parse_any, 20000);
  texts_check_broken("x: [b, s, _]; out: [b, 2, _]", parse_sharding, 10000);
  texts_check_broken("x: [..., s, k]; out: [..., s]; sum k", parse_sharding, 10000);
  char text[2000] = "x: [n0";
  for (int i = 1; i < 64; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), ", n%d", i);
  strcat(text, "]; w: [m]");
  CHECK_TEXT(refused("f(Tensor x, Tensor w) -> ()", text), "more than 64 names of extents");
}

TEST("everything is freed") { tn_arena_clear(&arena); }
