/* Type declarations: texts that are accepted, texts that are refused with the place of the error,
 * and the dtypes that calls get. Expected dtypes follow from the declarations, by hand. */
#include "base/status.h"
#include "core/types.h"

#include <string.h>

#include "texts.h"

static tn_arena_t arena;
static tn_schema_t schema;
static tn_types_t types;

static void open(const char *schema_text, const char *types_text) {
  tn_arena_clear(&arena);
  CHECK_STATUS(tn_schema_parse(schema_text, "lib", &arena, &schema), TENON_OK);
  CHECK_STATUS(tn_types_parse(types_text, &schema, &arena, &types), TENON_OK);
}

static void refuse(const char *schema_text, const char *types_text, const char *message) {
  tn_arena_clear(&arena);
  CHECK_STATUS(tn_schema_parse(schema_text, "lib", &arena, &schema), TENON_OK);
  CHECK_STATUS(tn_types_parse(types_text, &schema, &arena, &types), TENON_INVALID);
  CHECK_TEXT(tn_error(), message);
  tn_arena_clear(&arena);
}

enum { ROOM = 4 };
static tenon_meta_t input_metas[ROOM], output_metas[ROOM];
static tenon_meta_t *inputs[ROOM], *outputs[ROOM];

/* Sets the dtypes of the inputs by id (0: absent) and clears the results. */
static tenon_status_t apply(const tenon_value_t *attrs, uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t ids[ROOM] = {a, b, c, 0};
  for (int i = 0; i < ROOM; i++) {
    input_metas[i] = (tenon_meta_t){.size = sizeof(tenon_meta_t), .dtype = tenon_dtype(ids[i])};
    output_metas[i] = (tenon_meta_t){.size = sizeof(tenon_meta_t)};
    inputs[i] = ids[i] ? &input_metas[i] : NULL;
    outputs[i] = &output_metas[i];
  }
  return tn_types_apply(&types, &schema, attrs ? attrs : schema.defaults, inputs, outputs);
}

static uint32_t result(int i) { return tenon_dtype_id(output_metas[i].dtype); }

TEST("inputs declared together share a dtype out of their set, and the result takes it") {
  open("add(Tensor a, Tensor b) -> Tensor", "a, b: f16|f32; out = a");
  CHECK(types.variable_count == 1 &&
        types.sets[0] == (tn_dtype_set("f16", 3) | tn_dtype_set("f32", 3)));
  CHECK(types.inputs[1].kind == TN_TYPE_VARIABLE && types.inputs[1].index == 0 &&
        types.outputs[0].index == 0);
  CHECK_STATUS(apply(NULL, TENON_F32, TENON_F32, 0), TENON_OK);
  CHECK(result(0) == TENON_F32);
  CHECK_STATUS(apply(NULL, TENON_F16, TENON_F16, 0), TENON_OK);
  CHECK(result(0) == TENON_F16);
  CHECK_STATUS(apply(NULL, TENON_F64, TENON_F64, 0), TENON_INVALID);
  CHECK_TEXT(tn_error(), "operator 'lib::add': input 'a': expected f16|f32, found f64; cast it");
  CHECK_STATUS(apply(NULL, TENON_F16, TENON_F32, 0), TENON_INVALID);
  CHECK_TEXT(tn_error(),
             "operator 'lib::add': input 'b': expected f16, the dtype of 'a', found f32; cast it");
  CHECK_STATUS(apply(NULL, TENON_F16, TENON_I64, 0), TENON_INVALID);
  CHECK_TEXT(tn_error(), "input 'b': expected f16|f32, found i64");
}

TEST("a required input that is absent is refused by name") {
  open("f(Tensor a, Tensor? b, Tensor c) -> Tensor", "a, b, c: any; out = a");
  CHECK_STATUS(apply(NULL, 0, TENON_F32, 0), TENON_INVALID);
  CHECK_TEXT(tn_error(), "operator 'lib::f' needs input 'a', 'c', which is not given");
  CHECK_STATUS(apply(NULL, TENON_F32, 0, TENON_F32), TENON_OK);
}

TEST("a dtype, an attribute or infer can determine the dtype of a result") {
  open("cast(Tensor x, Tensor m, *, dtype to=i32, dtype? maybe=None) -> (Tensor a, Tensor b, "
       "Tensor c, Tensor d)",
       "x: any; m = bool; a = to; b = u8; c = ?; d = maybe");
  CHECK_STATUS(apply(NULL, TENON_STRING, TENON_BOOL, 0), TENON_OK);
  CHECK(result(0) == TENON_I32 && result(1) == TENON_U8 && result(2) == 0 && result(3) == 0);
  tenon_value_t attrs[2] = {{.kind = TENON_KIND_DTYPE, .as.dtype = tenon_dtype(TENON_F64)},
                            {.kind = TENON_KIND_DTYPE, .as.dtype = tenon_dtype(TENON_C64)}};
  CHECK_STATUS(apply(attrs, TENON_F8E5M2, TENON_BOOL, 0), TENON_OK);
  CHECK(result(0) == TENON_F64 && result(3) == TENON_C64);
  CHECK_STATUS(apply(NULL, TENON_F32, TENON_U8, 0), TENON_INVALID);
  CHECK_TEXT(tn_error(), "input 'm': expected bool, found u8; cast it");
  tenon_dtype_t dtype = {0, 0, 0};
  CHECK(tn_types_output(&types, &schema, attrs, inputs, 0, &dtype) &&
        tenon_dtype_id(dtype) == TENON_F64);
  CHECK(tn_types_output(&types, &schema, attrs, inputs, 1, &dtype) &&
        tenon_dtype_id(dtype) == TENON_U8);
  CHECK(!tn_types_output(&types, &schema, attrs, inputs, 2, &dtype));
  CHECK(!tn_types_output(&types, &schema, schema.defaults, inputs, 3, &dtype));
}

TEST("the dtype of an input can be that of an attribute") {
  open("f(Tensor x, *, dtype dtype=f32) -> Tensor", "x = dtype; out = x");
  CHECK(types.variable_count == 0 && types.inputs[0].kind == TN_TYPE_ATTR &&
        types.outputs[0].kind == TN_TYPE_ATTR);
  CHECK_STATUS(apply(NULL, TENON_F32, 0, 0), TENON_OK);
  CHECK(result(0) == TENON_F32);
  CHECK_STATUS(apply(NULL, TENON_F16, 0, 0), TENON_INVALID);
  CHECK_TEXT(tn_error(), "input 'x': expected f32, from attribute 'dtype', found f16");
}

static bool fill(const tenon_value_t *attrs) {
  return tn_types_fill(&types, &schema, attrs ? attrs : schema.defaults, inputs);
}

TEST("dtypes of inputs that are not known yet follow from those of other inputs") {
  open("f(Tensor a, Tensor b, Tensor m, Tensor n, *, dtype like=f64) -> Tensor",
       "a, b: f16|f32; m = bool; n = like; out = a");
  apply(NULL, 0, TENON_F16, 0);
  inputs[0] = &input_metas[0];
  inputs[2] = &input_metas[2];
  inputs[3] = &input_metas[3];
  CHECK(fill(NULL));
  CHECK(tenon_dtype_id(input_metas[0].dtype) == TENON_F16 &&
        tenon_dtype_id(input_metas[1].dtype) == TENON_F16);
  CHECK(tenon_dtype_id(input_metas[2].dtype) == TENON_BOOL &&
        tenon_dtype_id(input_metas[3].dtype) == TENON_F64);
  input_metas[0].dtype.bits = input_metas[1].dtype.bits = 0;
  CHECK(!fill(NULL));
  CHECK(input_metas[0].dtype.bits == 0 && tenon_dtype_id(input_metas[2].dtype) == TENON_BOOL);
  open("f(Tensor x, Tensor? y, *, dtype? to=None) -> Tensor", "x = ?; y = to; out = x");
  apply(NULL, TENON_F32, 0, 0);
  inputs[1] = &input_metas[1];
  CHECK(!fill(NULL)); /* The attribute is not given. */
  inputs[1] = NULL;
  CHECK(fill(NULL));
  input_metas[0].dtype.bits = 0;
  CHECK(!fill(NULL)); /* Any dtype fits, so none is filled in. */
  open("f(Tensor[] xs, Tensor y) -> Tensor", "xs, y: any; out = y");
  tenon_meta_t items[3] = {
      {.size = 1}, {.size = 1, .dtype = tenon_dtype(TENON_STRING)}, {.size = 1}};
  tenon_meta_t *slots[3] = {&items[0], &items[1], &items[2]};
  apply(NULL, TENON_LIST, 0, 0);
  inputs[1] = &input_metas[1];
  input_metas[0].items = slots;
  input_metas[0].count = 3;
  CHECK(fill(NULL));
  for (int k = 0; k < 3; k++)
    CHECK(tenon_dtype_id(items[k].dtype) == TENON_STRING);
  CHECK(tenon_dtype_id(input_metas[1].dtype) == TENON_STRING);
}

TEST("an input declared as `?` may have any dtype and binds nothing") {
  open("f(Tensor x, Tensor y) -> Tensor", "x = ?; y: f16|f32; out = y");
  CHECK(types.inputs[0].kind == TN_TYPE_OPEN && types.variable_count == 1);
  CHECK_STATUS(apply(NULL, TENON_STRING, TENON_F16, 0), TENON_OK);
  CHECK(result(0) == TENON_F16);
  CHECK_STATUS(apply(NULL, TENON_F4E2M1, TENON_F32, 0), TENON_OK);
  CHECK(result(0) == TENON_F32);
  CHECK_STATUS(apply(NULL, TENON_F32, TENON_I32, 0), TENON_INVALID);
  CHECK_TEXT(tn_error(), "input 'y': expected f16|f32, found i32");
}

TEST("declarations may stand in any order, and a type variable may have a name") {
  open("f(Tensor a, Tensor b, Tensor? c) -> (Tensor y, Tensor z)",
       "z = y; y = b; b, a = T; T: int|f32; c: u8");
  CHECK(types.variable_count == 2 && strcmp(types.names[0], "T") == 0 &&
        strcmp(types.names[1], "c") == 0);
  CHECK_STATUS(apply(NULL, TENON_I16, TENON_I16, TENON_U8), TENON_OK);
  CHECK(result(0) == TENON_I16 && result(1) == TENON_I16);
  CHECK_STATUS(apply(NULL, TENON_I16, TENON_I32, 0), TENON_INVALID);
  CHECK_TEXT(tn_error(), "input 'b': expected i16, the dtype of 'a', found i32");
}

TEST("an absent optional input binds nothing, but the other inputs of its declaration do") {
  open("f(Tensor? a, Tensor b) -> Tensor", "a, b: float; out = a");
  CHECK_STATUS(apply(NULL, 0, TENON_BF16, 0), TENON_OK);
  CHECK(result(0) == TENON_BF16);
}

TEST("the declaration of a list applies to each of its items, for inputs and for results") {
  tenon_meta_t items[2] = {{.dtype = {2, 32, 1}}, {.dtype = {2, 32, 1}}};
  tenon_meta_t made[2] = {{.size = 0}, {.size = 0}};
  tenon_meta_t *item_list[2] = {&items[0], &items[1]};
  tenon_meta_t *made_list[2] = {&made[0], &made[1]};
  tenon_meta_t list = {.dtype = tenon_dtype(TENON_LIST), .count = 2, .items = item_list};
  tenon_meta_t out = {.count = 2, .items = made_list};
  tenon_meta_t *ins[1] = {&list};
  tenon_meta_t *outs[1] = {&out};
  tenon_dtype_t dtype;
  open("f(Tensor[] xs) -> Tensor[]", "xs: number; out = xs");
  CHECK_STATUS(tn_types_apply(&types, &schema, NULL, ins, outs), TENON_OK);
  CHECK(tn_dtype_is(made[0].dtype, TENON_F32) && tn_dtype_is(made[1].dtype, TENON_F32) &&
        tn_dtype_is(out.dtype, TENON_LIST));
  CHECK(tn_types_output(&types, &schema, NULL, ins, 0, &dtype) && tn_dtype_is(dtype, TENON_F32));
  items[1].dtype = tenon_dtype(TENON_F64);
  CHECK_STATUS(tn_types_apply(&types, &schema, NULL, ins, outs), TENON_INVALID);
  CHECK_TEXT(
      tn_error(),
      "operator 'lib::f': an item of input 'xs': expected f32, the dtype of 'xs', found f64");
  list.count = 0;
  CHECK_STATUS(tn_types_apply(&types, &schema, NULL, ins, outs), TENON_INVALID);
  CHECK_TEXT(tn_error(), "the dtype of 'out' is that of the items of 'xs', which is an empty list");
  list.count = 2;
  item_list[1] = NULL;
  CHECK_STATUS(tn_types_apply(&types, &schema, NULL, ins, outs), TENON_INVALID);
  CHECK_TEXT(tn_error(), "input 'xs': item 1 is missing");
  CHECK_STATUS(apply(NULL, TENON_F32, 0, 0), TENON_INVALID);
  CHECK_TEXT(tn_error(), "input 'xs': expected a list of tensors, found one f32");
  open("f(Tensor x) -> Tensor", "x: any; out = x");
  CHECK_STATUS(apply(NULL, TENON_LIST, 0, 0), TENON_INVALID);
  CHECK_TEXT(tn_error(), "input 'x': expected a tensor, found a list");
}

TEST("an unknown dtype is refused with a description, and a result that is not wanted is skipped") {
  open("f(Tensor x) -> (Tensor y, Tensor z)", "x: any; y, z = x");
  CHECK_STATUS(apply(NULL, 2 | 32 << 8 | 4 << 16, 0, 0), TENON_INVALID);
  CHECK_TEXT(tn_error(), "input 'x': expected any, found dtype 2 of 32 bits, 4 lanes");
  CHECK_STATUS(apply(NULL, TENON_F32, 0, 0), TENON_OK);
  outputs[0] = NULL;
  output_metas[1].dtype = (tenon_dtype_t){0, 0, 0};
  CHECK_STATUS(tn_types_apply(&types, &schema, NULL, inputs, outputs), TENON_OK);
  CHECK(result(1) == TENON_F32);
}

TEST("only operators without tensors may omit type declarations") {
  open("nothing(int k=1) -> ()", NULL);
  CHECK_STATUS(tn_types_apply(&types, &schema, NULL, NULL, NULL), TENON_OK);
  refuse(
      "f(Tensor x) -> ()", NULL,
      "TENON_TYPES is missing: declare the dtypes of every input and result, such as \"x: any\"");
}

TEST("every input and result is declared once") {
  refuse("f(Tensor a, Tensor b) -> Tensor", "a: any", "missing for input 'b', result 'out'");
  refuse("f(Tensor a) -> Tensor", "", "missing for input 'a', result 'out'");
  refuse("f(Tensor a) -> Tensor", "a: any; out = a; a: f32",
         "types 'a: any; out = a; a: f32': column 18: the dtype of 'a' is declared twice");
  refuse("f(Tensor a) -> Tensor", "a, a: any; out = a",
         "column 4: the dtype of 'a' is declared twice");
  refuse("f(Tensor a) -> Tensor", "out = a", "column 7: the dtype of 'a' is not declared");
}

TEST("an unknown name is refused with the nearest known one") {
  refuse("f(Tensor input) -> Tensor", "inptu, input: any; out = input",
         "column 1: expected an input or a result, found 'inptu'; did you mean "
         "'input'?");
  refuse("f(Tensor x) -> Tensor", "x: flot; out = x",
         "column 4: expected a dtype or a class of dtypes (any, float, int, ...), found "
         "'flot'; did you mean 'float'?");
  refuse("f(Tensor x) -> Tensor", "x: any; out = f23",
         "column 15: expected an input, a result, a type variable, a dtype");
  refuse("f(Tensor x) -> Tensor", "x: any; out = f23", "did you mean 'f32'?");
  refuse("f(Tensor x) -> Tensor", "y: any; x = y; oot = x",
         "column 16: expected an input or a result, found 'oot'; did you mean 'out'?");
  refuse("f(Tensor x, int k) -> Tensor", "x: any; out = k",
         "column 15: 'k' is an attribute, but not of type dtype");
  refuse("f(Tensor x, int k) -> Tensor", "x: any; k: any; out = x",
         "column 9: 'k' is an attribute: only inputs and results have dtypes");
}

TEST("a type that no input determines is refused") {
  refuse("f(Tensor x) -> Tensor", "x: any; T: any; out = T",
         "column 9: 'T' is not an input or a result, and no input uses it as a type variable");
  refuse("f(Tensor? x) -> Tensor", "x: any; out = x",
         "column 9: the dtype of 'out' depends on 'x', which only optional inputs determine");
  refuse("f(Tensor x) -> Tensor", "T: any; T: any; x, out = T",
         "column 9: type variable 'T' is declared twice");
  refuse("f(Tensor x, Tensor y) -> ()", "x = y; y = x", "depends on itself");
  refuse("f(Tensor x) -> Tensor", "x, out: any",
         "column 4: 'out' is a result, so its dtype must be declared with '='");
}

TEST("the form of each declaration is checked") {
  refuse("f(Tensor x) -> Tensor", "x",
         "column 2: expected ',', ':' and a set of dtypes, or '=' and a source, found the end");
  refuse("f(Tensor x) -> Tensor", "x: any;", "column 8: expected the name of an input or a result");
  refuse("f(Tensor x) -> Tensor", "x: f32|; out = x", "column 8: expected a dtype");
  refuse("f(Tensor x) -> Tensor", "x: f32 f64", "column 8: expected ';' or the end, found 'f64'");
  refuse("f(Tensor x) -> Tensor", "x: any; out = 3",
         "column 15: expected a source of the dtype, found '3'");
  refuse("f(Tensor x) -> Tensor", "x: list; out = x", "found 'list'");
}

TEST("32 sets of dtypes are accepted, and the 33rd is refused") {
  for (int count = 32; count <= 33; count++) {
    char head[800] = "f(";
    char rules[800] = "";
    for (int i = 0; i < count; i++) {
      snprintf(head + strlen(head), sizeof head - strlen(head), "%sTensor x%d", i ? ", " : "", i);
      snprintf(rules + strlen(rules), sizeof rules - strlen(rules), "%sx%d: any", i ? "; " : "", i);
    }
    snprintf(head + strlen(head), sizeof head - strlen(head), ") -> ()");
    if (count == 32)
      open(head, rules);
    else
      refuse(head, rules, "more than 32 sets of dtypes");
  }
}

static tenon_status_t parse_any(const char *text, tn_arena_t *to) {
  tn_types_t parsed;
  return tn_types_parse(text, &schema, to, &parsed);
}

static const char *const some_schema =
    "f(Tensor a, Tensor[] bs, Tensor? c, *, dtype t=f32) -> (Tensor y, Tensor z, Tensor w)";
static const char *const some_types =
    "T: f16|bf16|f32; a = T; bs: number; c: any; y = bs; z = t; w = ?";

TEST("parsing survives the failure of each allocation") {
  open(some_schema, some_types);
  texts_check_memory(some_types, parse_any);
}

TEST("parsing survives arbitrary bytes") {
  open(some_schema, some_types);
  texts_check_broken(some_types, parse_any, 20000);
  char *chain = texts_repeat("a: any", "|any", 100000, "; bs: any");
  CHECK_STATUS(parse_any(chain, &arena), TENON_INVALID);
  free(chain);
}

TEST("everything is freed") { tn_arena_clear(&arena); }
