/* Attribute values: conversion, parsing, comparison and printing. The expected forms are those of
 * docs/contract.md; numbers are formatted by the C compiler's library. */
#include "base/status.h"
#include "core/value.h"

#include <locale.h>
#include <math.h>
#include <string.h>

#include "core/lexer.h"
#include "texts.h"

static tn_arena_t arena;
static tn_schema_t schema;

static const char *const text_of_schema =
    "ns::f(Tensor[n] xs, *, bool flag, int n=1, dim extent=2, float alpha=1.0, str word='w', "
    "str['up', 'down', 'nearest'] mode='up', dtype type=f32, device where='cpu', tensor? "
    "constant=None, graph? body=None, int[] axes=[], int[2] pads=[0, 0], float[] scales=[], str[] "
    "words=[], dim[] shape=[], tensor[] parts, scalar value=0, int? maybe=None) -> Tensor";

static const tn_argument_t *attr(const char *name) {
  if (!schema.full) CHECK_STATUS(tn_schema_parse(text_of_schema, "lib", &arena, &schema), TENON_OK);
  int32_t index = tn_schema_attr(&schema, name, strlen(name));
  CHECK(index >= 0);
  return &schema.attrs[index];
}

static tenon_value_t convert(const char *name, tenon_value_t value) {
  tenon_value_t out = {0};
  const tn_argument_t *to = attr(name);
  CHECK_STATUS(tn_value_convert(&schema, to, &value, &arena, &out), TENON_OK);
  return out;
}

static void refuse(const char *name, tenon_value_t value, const char *message) {
  tenon_value_t out;
  const tn_argument_t *to = attr(name);
  CHECK_STATUS(tn_value_convert(&schema, to, &value, &arena, &out), TENON_INVALID);
  CHECK_TEXT(tn_error(), message);
}

static tenon_value_t read_text(const char *name, const char *text) {
  tenon_value_t out = {0};
  const tn_argument_t *to = attr(name);
  CHECK_STATUS(tn_value_parse(&schema, to, text, &arena, &out), TENON_OK);
  return out;
}

static void refuse_text(const char *name, const char *text, const char *message) {
  tenon_value_t out;
  const tn_argument_t *to = attr(name);
  CHECK_STATUS(tn_value_parse(&schema, to, text, &arena, &out), TENON_INVALID);
  CHECK_TEXT(tn_error(), message);
}

static void check_print(const char *name, const tenon_value_t *value, const char *expected) {
  tn_text_t text = {0};
  tn_value_print(name ? attr(name) : NULL, value, &text);
  if (!CHECK(strcmp(tn_text_get(&text), expected) == 0))
    fprintf(stderr, "  %s, not %s\n", tn_text_get(&text), expected);
  tn_text_clear(&text);
}

static tenon_value_t of_int(int64_t i) {
  return (tenon_value_t){.kind = TENON_KIND_INT, .as.i = i};
}
static tenon_value_t of_float(double f) {
  return (tenon_value_t){.kind = TENON_KIND_FLOAT, .as.f = f};
}
static tenon_value_t of_text(const char *s) {
  return (tenon_value_t){.kind = TENON_KIND_STR, .count = (uint32_t)strlen(s), .as.s = s};
}

TEST("numbers are converted to the kind of the attribute if nothing is lost") {
  CHECK(convert("alpha", of_int(3)).kind == TENON_KIND_FLOAT &&
        convert("alpha", of_int(3)).as.f == 3.0);
  CHECK(convert("extent", of_int(5)).kind == TENON_KIND_DIM &&
        convert("extent", of_int(5)).as.dim.value == 5);
  CHECK(convert("flag", of_int(1)).kind == TENON_KIND_BOOL);
  tenon_value_t symbol = {.kind = TENON_KIND_DIM, .as.dim = {INT64_MIN + 3}};
  tenon_value_t known = {.kind = TENON_KIND_DIM, .as.dim = {9}};
  CHECK(convert("extent", symbol).as.dim.value == INT64_MIN + 3 && convert("n", known).as.i == 9);
  refuse("n", symbol,
         "operator 'ns::f': attribute 'n': expected int, found ?: its value is not known here");
  refuse("n", of_float(1.0), "attribute 'n': expected int, found 1.0");
  refuse("flag", of_int(2), "expected bool, found 2");
  refuse("alpha", of_text("1"), "expected float, found '1'");
  refuse("extent", of_int(INT64_MIN), "it is below -2^62");
  CHECK(convert("value", of_int(3)).kind == TENON_KIND_INT &&
        convert("value", of_float(3)).kind == TENON_KIND_FLOAT);
  CHECK(convert("value", (tenon_value_t){.kind = TENON_KIND_BOOL, .as.i = 1}).kind ==
        TENON_KIND_BOOL);
  refuse("value", of_text("3"), "expected bool, int or float, found '3'");
}

TEST("None is accepted for optional attributes only") {
  CHECK(convert("maybe", (tenon_value_t){0}).kind == TENON_KIND_NONE &&
        convert("maybe", of_int(2)).as.i == 2);
  refuse("n", (tenon_value_t){0}, "expected int, found None");
  refuse("maybe", of_float(1.5), "expected int or None, found 1.5");
}

TEST("a choice becomes its index, and an unknown choice is refused with the nearest one") {
  CHECK(convert("mode", of_text("nearest")).kind == TENON_KIND_CHOICE &&
        convert("mode", of_text("nearest")).as.i == 2);
  CHECK(convert("mode", (tenon_value_t){.kind = TENON_KIND_CHOICE, .as.i = 1}).as.i == 1);
  refuse("mode", of_text("neerest"),
         "expected one of 'up', 'down', 'nearest', found 'neerest'; did you mean 'nearest'?");
  refuse("mode", (tenon_value_t){.kind = TENON_KIND_CHOICE, .as.i = 3}, "found 3");
  refuse("mode", (tenon_value_t){.kind = TENON_KIND_CHOICE, .as.i = -1}, "found -1");
  refuse("mode", of_text(""), "found ''");
}

TEST("texts are converted to dtypes and devices") {
  CHECK(tenon_dtype_id(convert("type", of_text("bf16")).as.dtype) == TENON_BF16);
  refuse("type", of_text("f23"), "expected dtype, found 'f23'; did you mean 'f32'?");
  refuse("type", (tenon_value_t){.kind = TENON_KIND_DTYPE, .as.dtype = {2, 33, 1}},
         "expected dtype, found ?");
  CHECK(convert("where", of_text("2:1")).as.device.type == 2 &&
        convert("where", of_text("2:1")).as.device.id == 1);
  refuse("where", of_text("2:"), "expected device, found '2:'");
  refuse("where", of_text("9999999999:1"), "expected device");
  refuse("where", of_text("1:2:3"), "expected device");
}

TEST("one element is accepted as a list of one, and an empty list of any kind is accepted") {
  tenon_value_t one = convert("axes", of_int(4));
  CHECK(one.kind == TENON_KIND_INTS && one.count == 1 && one.as.ints[0] == 4);
  CHECK(convert("scales", of_int(4)).as.floats[0] == 4.0 &&
        convert("shape", of_int(4)).as.dims[0].value == 4);
  tenon_value_t word = convert("words", of_text("ab"));
  CHECK(word.count == 1 && word.as.strs[0].size == 2 && strcmp(word.as.strs[0].data, "ab") == 0);
  CHECK(convert("words", (tenon_value_t){.kind = TENON_KIND_INTS}).kind == TENON_KIND_STRS);
  CHECK(convert("parts", (tenon_value_t){.kind = TENON_KIND_STRS}).kind == TENON_KIND_TENSORS);
  refuse("pads", of_int(1), "expected a list of 2 ints, found 1");
  refuse("axes", of_float(1), "expected a list of ints, found 1.0");
}

TEST("lists are copied, converted element by element, and checked for their length") {
  int64_t ints[3] = {1, 2, 3};
  tenon_value_t list = {.kind = TENON_KIND_INTS, .count = 3, .as.ints = ints};
  tenon_value_t copy = convert("axes", list);
  tenon_value_t floats = convert("scales", list);
  tenon_value_t dims = convert("shape", list);
  ints[1] = 99;
  CHECK(copy.as.ints != ints && copy.as.ints[1] == 2 && floats.as.floats[1] == 2.0 &&
        dims.as.dims[2].value == 3);
  CHECK(dims.kind == TENON_KIND_DIMS && convert("axes", dims).as.ints[2] == 3);
  refuse("pads", list, "expected a list of 2 ints, found [1, 99, 3]");
  refuse("axes", (tenon_value_t){.kind = TENON_KIND_INTS, .count = 3}, "its elements are NULL");
  refuse("n", list, "expected int, found [1, 99, 3]");
  ints[2] = INT64_MIN;
  refuse("shape", list, "it is below -2^62");
  double parts[2] = {1, NAN};
  refuse("axes", (tenon_value_t){.kind = TENON_KIND_FLOATS, .count = 2, .as.floats = parts},
         "found [1.0, nan]");
}

TEST("long lists and strings are shortened in messages") {
  int64_t many[1000] = {0};
  refuse("pads", (tenon_value_t){.kind = TENON_KIND_INTS, .count = 1000, .as.ints = many},
         "found [0, 0, 0, 0");
  CHECK(strlen(tn_error()) < 400);
  char *word = texts_repeat("", "\x80", 5000, "");
  refuse("n", of_text(word), "found '\\x80\\x80");
  CHECK(strlen(tn_error()) < 400);
  free(word);
}

TEST("tensors and graphs are borrowed, and NULL is refused") {
  int64_t shape[2] = {2, 3};
  int64_t strides[2] = {3, 1};
  tenon_tensor_t tensor = {.ndim = 2, .dtype = {2, 32, 1}, .shape = shape, .strides = strides};
  tenon_tensor_t *pair[2] = {&tensor, &tensor};
  tenon_value_t value = {.kind = TENON_KIND_TENSOR, .as.tensor = &tensor};
  CHECK(convert("constant", value).as.tensor == &tensor &&
        convert("parts", value).as.tensors[0] == &tensor);
  check_print("constant", &value, "tensor f32[2, 3]");
  tenon_value_t list = {.kind = TENON_KIND_TENSORS, .count = 2, .as.tensors = pair};
  CHECK(convert("parts", list).count == 2 && convert("parts", list).as.tensors != pair);
  pair[1] = NULL;
  refuse("parts", list, "it is NULL");
  refuse("body", (tenon_value_t){.kind = TENON_KIND_GRAPH}, "expected graph or None");
  refuse("constant", (tenon_value_t){.kind = 99}, "found unknown kind");
}

TEST("values are read from text with and without brackets and quotes") {
  CHECK(read_text("n", " 12 ").as.i == 12 && read_text("alpha", "-1e-3").as.f == -1e-3 &&
        read_text("flag", "True").as.i == 1);
  CHECK(read_text("axes", "1,2").count == 2 && read_text("axes", "[1, 2]").as.ints[1] == 2 &&
        read_text("axes", "7").as.ints[0] == 7);
  CHECK(read_text("axes", "").count == 0 && read_text("axes", "[]").count == 0);
  CHECK(read_text("mode", "down").as.i == 1 && read_text("mode", "'down'").as.i == 1);
  CHECK(strcmp(read_text("word", "it's here").as.s, "it's here") == 0 &&
        strcmp(read_text("word", "'a\\'b'").as.s, "a'b") == 0);
  tenon_value_t words = read_text("words", "ab, c d ,'");
  CHECK(words.count == 3 && strcmp(words.as.strs[1].data, "c d") == 0 &&
        words.as.strs[2].size == 1);
  words = read_text("words", "['a,b', 'c']");
  CHECK(words.count == 2 && strcmp(words.as.strs[0].data, "a,b") == 0);
  words = read_text("words", "'a,b', 'c'");
  CHECK(words.count == 2 && strcmp(words.as.strs[0].data, "a,b") == 0);
  CHECK(strcmp(read_text("word", "'open").as.s, "'open") == 0 &&
        read_text("words", "").count == 0 && read_text("words", "[x]").count == 1);
  CHECK(tenon_dtype_id(read_text("type", "i8").as.dtype) == TENON_I8 &&
        read_text("where", "cpu").as.device.type == 1);
  CHECK(read_text("maybe", "None").kind == TENON_KIND_NONE &&
        read_text("value", "2").kind == TENON_KIND_INT);
  CHECK(read_text("shape", "2,3").kind == TENON_KIND_DIMS &&
        read_text("scales", "inf, 1").as.floats[1] == 1.0);
}

TEST("a text that does not fit is refused with the operator, the attribute and the column") {
  refuse_text(
      "n", "1 2",
      "operator 'ns::f': attribute 'n': value '1 2': column 3: expected the end, found '2'");
  refuse_text("n", "abc", "column 1: expected a literal");
  refuse_text("flag", "true", "did you mean 'True'?");
  refuse_text("n", "",
              "expected a literal (True, False, None, a number, a 'string', a dtype, a [list]), "
              "found the end of the text");
  refuse_text("mode", "upp",
              "expected one of 'up', 'down', 'nearest', found 'upp'; did you mean 'up'?");
  refuse_text("pads", "1,2,3", "expected a list of 2 ints, found [1, 2, 3]");
  refuse_text("axes", "1;2", "expected ',' or ']', found ';'");
  refuse_text("type", "float32", "expected dtype, found 'float32'");
  refuse_text("constant", "f32", "expected tensor or None, found f32");
  refuse_text("n", NULL, "its text is NULL");
}

TEST("values print in the syntax of schemas and read back unchanged") {
  static const char *const texts[][2] = {{"n", "-12"},
                                         {"flag", "True"},
                                         {"flag", "False"},
                                         {"alpha", "1.0"},
                                         {"alpha", "0.1"},
                                         {"alpha", "1e-05"},
                                         {"alpha", "1e+300"},
                                         {"alpha", "inf"},
                                         {"alpha", "-inf"},
                                         {"alpha", "nan"},
                                         {"alpha", "-0.0"},
                                         {"alpha", "0.30000000000000004"},
                                         {"mode", "'down'"},
                                         {"type", "bf16"},
                                         {"axes", "[1, 2]"},
                                         {"scales", "[1.0, 2.5]"},
                                         {"words", "['a', 'it\\'s']"},
                                         {"word", "'a\\\\b\\nc'"},
                                         {"maybe", "None"},
                                         {"where", "'cpu'"},
                                         {"where", "'2:3'"},
                                         {"shape", "[4, 5]"},
                                         {"value", "2.0"},
                                         {"axes", "[]"},
                                         {"alpha", "123456789012345680.0"}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    tenon_value_t value = read_text(texts[i][0], texts[i][1]);
    if (i + 1 < sizeof texts / sizeof *texts) check_print(texts[i][0], &value, texts[i][1]);
    tn_text_t text = {0};
    tn_value_print(attr(texts[i][0]), &value, &text);
    tenon_value_t again = read_text(texts[i][0], tn_text_get(&text));
    CHECK(tn_value_equal(&value, &again));
    tn_text_clear(&text);
  }
  tenon_value_t choice = {.kind = TENON_KIND_CHOICE, .as.i = 1};
  check_print(NULL, &choice, "1");
}

TEST("numbers are read and printed alike under a locale with a decimal comma") {
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
  const char *found = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++)
    found = setlocale(LC_ALL, names[i]);
  if (!found) SKIP("no locale with a decimal comma is installed");
  char text[32];
  double number = 0;
  tn_number_print(0.1234567890123456789, text);
  CHECK(strcmp(text, "0.12345678901234568") == 0);
  CHECK(tn_number_parse("0.12345678901234568", 19, &number) && number == 0.1234567890123456789);
  setlocale(LC_ALL, "C");
}

TEST("required attributes that are missing are all listed") {
  tenon_value_t values[32];
  attr("n");
  memcpy(values, schema.defaults, schema.attr_count * sizeof *values);
  CHECK_STATUS(tn_values_check(&schema, values), TENON_INVALID);
  CHECK_TEXT(tn_error(), "operator 'ns::f' needs a value for attributes 'flag', 'parts'");
  values[attr("flag")->index] = (tenon_value_t){.kind = TENON_KIND_BOOL};
  CHECK_STATUS(tn_values_check(&schema, values), TENON_INVALID);
  CHECK_TEXT(tn_error(), "operator 'ns::f' needs a value for attribute 'parts'");
  values[attr("parts")->index] = (tenon_value_t){.kind = TENON_KIND_TENSORS};
  CHECK_STATUS(tn_values_check(&schema, values), TENON_OK);
  values[attr("value")->index] = of_float(2);
  values[attr("maybe")->index] = of_int(2);
  CHECK_STATUS(tn_values_check(&schema, values), TENON_OK);
}

TEST("kinds, fixed lengths and lengths stated by attributes are checked together") {
  tenon_value_t values[32], good[32];
  attr("n");
  memcpy(good, schema.defaults, schema.attr_count * sizeof *values);
  good[attr("flag")->index] = (tenon_value_t){.kind = TENON_KIND_BOOL};
  good[attr("parts")->index] = (tenon_value_t){.kind = TENON_KIND_TENSORS};
  memcpy(values, good, sizeof good);
  values[attr("alpha")->index] = of_int(2);
  CHECK_STATUS(tn_values_check(&schema, values), TENON_INVALID);
  CHECK_TEXT(tn_error(), "attribute 'alpha': expected float, found 2");
  memcpy(values, good, sizeof good);
  values[attr("pads")->index].count = 1;
  CHECK_STATUS(tn_values_check(&schema, values), TENON_INVALID);
  CHECK_TEXT(tn_error(), "attribute 'pads': expected a list of 2 ints, found [0]");
  memcpy(values, good, sizeof good);
  values[attr("n")->index] = of_int(-1);
  CHECK_STATUS(tn_values_check(&schema, values), TENON_INVALID);
  CHECK_TEXT(tn_error(), "attribute 'n' is the length of 'xs': expected 0 to 1048576, found -1");
}

TEST("values are equal if all their bytes are: NaN equals NaN, and 0 differs from -0") {
  tenon_value_t a = of_float(NAN);
  tenon_value_t b = of_float(NAN);
  tenon_value_t zero = of_float(0.0);
  tenon_value_t minus = of_float(-0.0);
  tenon_value_t one = of_int(1);
  CHECK(tn_value_equal(&a, &b) && !tn_value_equal(&zero, &minus) && !tn_value_equal(&a, &one));
  tenon_value_t s = of_text("ab");
  tenon_value_t t = of_text("ac");
  tenon_value_t u = of_text("abc");
  CHECK(tn_value_equal(&s, &s) && !tn_value_equal(&s, &t) && !tn_value_equal(&s, &u));
  tenon_string_t p[2] = {{"x", 1}, {"", 0}};
  tenon_string_t q[2] = {{"x", 1}, {"y", 1}};
  tenon_value_t v = {.kind = TENON_KIND_STRS, .count = 2, .as.strs = p};
  tenon_value_t w = {.kind = TENON_KIND_STRS, .count = 2, .as.strs = q};
  CHECK(tn_value_equal(&v, &v) && !tn_value_equal(&v, &w));
  tenon_value_t none = {0};
  tenon_value_t empty = {.kind = TENON_KIND_INTS};
  CHECK(tn_value_equal(&none, &none) && !tn_value_equal(&none, &empty) &&
        tn_value_equal(&empty, &empty));
  tenon_value_t f32 = {.kind = TENON_KIND_DTYPE};
  tenon_value_t f64 = f32;
  memset(&f32.as, 0xff, sizeof f32.as);
  memset(&f64.as, 0, sizeof f64.as);
  f32.as.dtype = f64.as.dtype = tenon_dtype(TENON_F32);
  CHECK(tn_value_equal(&f32, &f64));
}

TEST("a copy of a value shares only tensors with the original") {
  char word[] = "ab";
  tenon_string_t strs[1] = {{word, 2}};
  int64_t ints[2] = {1, 2};
  tenon_value_t list = {.kind = TENON_KIND_STRS, .count = 1, .as.strs = strs};
  tenon_value_t numbers = {.kind = TENON_KIND_INTS, .count = 2, .as.ints = ints};
  tenon_value_t copy = {0};
  tenon_value_t text = of_text(word);
  CHECK(tn_value_copy(&list, &arena, &copy));
  word[0] = 'z';
  CHECK(strcmp(copy.as.strs[0].data, "ab") == 0 && copy.as.strs[0].size == 2);
  CHECK(tn_value_copy(&numbers, &arena, &copy) && copy.as.ints != ints && copy.as.ints[1] == 2);
  CHECK(tn_value_copy(&text, &arena, &copy) && copy.as.s != word && strcmp(copy.as.s, "zb") == 0);
  tenon_value_t empty = {.kind = TENON_KIND_INTS};
  CHECK(tn_value_copy(&empty, &arena, &copy) && copy.count == 0);
}

TEST("every kind has a name") {
  CHECK(strcmp(tn_kind_name(TENON_KIND_FLOATS), "list of floats") == 0 &&
        strcmp(tn_kind_name(TENON_KIND_INT), "int") == 0);
  CHECK(strcmp(tn_kind_name(1000), "unknown kind") == 0);
}

static const char *tried;
static tenon_status_t parse_tried(const char *text, tn_arena_t *to) {
  tenon_value_t value;
  return tn_value_parse(&schema, attr(tried), text, to, &value);
}

TEST("reading a value survives the failure of each allocation") {
  static const char *const texts[][2] = {{"words", "['a', 'b']"},
                                         {"words", "a, b"},
                                         {"word", "'a'"},
                                         {"axes", "1, 2"},
                                         {"scales", "[1, 2.5]"}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    attr(tried = texts[i][0]);
    texts_check_memory(texts[i][1], parse_tried);
  }
}

TEST("reading a value survives arbitrary bytes") {
  static const char *const texts[][2] = {{"words", "['a', 'b\\n']"},
                                         {"mode", "'up'"},
                                         {"axes", "[1, -2, 3]"},
                                         {"alpha", "1.5e-3"},
                                         {"where", "'2:1'"}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    attr(tried = texts[i][0]);
    texts_check_broken(texts[i][1], parse_tried, 5000);
  }
}

TEST("everything is freed") { tn_arena_clear(&arena); }
