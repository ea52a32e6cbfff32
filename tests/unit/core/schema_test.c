/* The schema language: texts that are accepted, texts that are refused, and the column in the
 * message. Expected values follow docs/contract.md, by hand. */
#include "base/status.h"
#include "core/schema.h"

#include <math.h>
#include <string.h>

#include "base/thread.h"
#include "texts.h"

static tn_arena_t arena;

static tn_schema_t parse(const char *text) {
  tn_schema_t schema;
  memset(&schema, 0, sizeof schema);
  CHECK_STATUS(tn_schema_parse(text, "lib", &arena, &schema), TENON_OK);
  return schema;
}

static void refuse_as(const char *text, const char *message) {
  tn_schema_t schema;
  CHECK_STATUS(tn_schema_parse(text, "lib", &arena, &schema), TENON_INVALID);
  CHECK_TEXT(tn_error(), message);
  tn_arena_clear(&arena);
}

static tenon_status_t parse_any(const char *text, tn_arena_t *to) {
  tn_schema_t schema;
  return tn_schema_parse(text, "lib", to, &schema);
}

TEST("an operator without a namespace takes that of the library, and a result without a name is "
     "`out`") {
  tn_schema_t s = parse("gelu(Tensor x, *, str['none', 'tanh'] approximate='none') -> Tensor");
  CHECK_TEXT(s.full, "lib::gelu");
  CHECK(strcmp(s.ns, "lib") == 0 && strcmp(s.name, "gelu") == 0 && strcmp(s.overload, "") == 0);
  CHECK(s.argument_count == 2 && s.input_count == 1 && s.attr_count == 1 && s.output_count == 1 &&
        !s.needs_attrs);
  CHECK(strcmp(s.inputs[0].name, "x") == 0 && s.inputs[0].kind == TENON_KIND_TENSOR &&
        !s.inputs[0].is_keyword);
  CHECK(s.attrs[0].kind == TENON_KIND_CHOICE && s.attrs[0].is_keyword && s.attrs[0].has_default);
  CHECK(s.attrs[0].choice_count == 2 && strcmp(s.attrs[0].choices[1], "tanh") == 0);
  CHECK(s.defaults[0].kind == TENON_KIND_CHOICE && s.defaults[0].as.i == 0);
  CHECK(strcmp(s.outputs[0].name, "out") == 0 && s.outputs[0].is_tensor);
  CHECK(s.arguments[0] == &s.inputs[0] && s.arguments[1] == &s.attrs[0]);
  tn_arena_clear(&arena);
}

TEST("a stated namespace and an overload make the full name") {
  tn_schema_t s =
      parse(" other :: add . out ( Tensor a,Tensor b ,Tensor ( a ! ) to ) -> Tensor(a!) result");
  CHECK(strcmp(s.full, "other::add.out") == 0 && strcmp(s.overload, "out") == 0 &&
        strcmp(s.ns, "other") == 0);
  CHECK(s.inputs[2].mark == 'a' && s.inputs[2].is_written && s.outputs[0].mark == 'a' &&
        s.outputs[0].is_written);
  CHECK(strcmp(s.outputs[0].name, "result") == 0 && s.inputs[0].mark == 0);
  tn_arena_clear(&arena);
}

TEST("every kind of attribute is parsed with its kind and its default") {
  tn_schema_t s = parse(
      "k(bool b=True, int i=-3, dim d=7, float f=1, float e=1e-5, str s='it\\'s \\\\ \\n', dtype "
      "t=bf16, scalar n=2, scalar m=2.5, scalar l=False, device where='cpu', tensor? c=None, "
      "graph? g, int[] is=[1, 2], int[2] pads=[0, 1], float[] fs=[1, 2.5], str[] ss=['a', ''], "
      "dim[] ds=[], int[]? axes=None, float big=inf, float low=-inf, float un=nan) -> ()");
  const tenon_value_t *v = s.defaults;
  CHECK(v[0].kind == TENON_KIND_BOOL && v[0].as.i == 1);
  CHECK(v[1].kind == TENON_KIND_INT && v[1].as.i == -3);
  CHECK(v[2].kind == TENON_KIND_DIM && v[2].as.dim.value == 7);
  CHECK(v[3].kind == TENON_KIND_FLOAT && v[3].as.f == 1.0);
  CHECK(v[4].kind == TENON_KIND_FLOAT && v[4].as.f == 1e-5);
  CHECK(v[5].kind == TENON_KIND_STR && v[5].count == 8 && strcmp(v[5].as.s, "it's \\ \n") == 0);
  CHECK(v[6].kind == TENON_KIND_DTYPE && tenon_dtype_id(v[6].as.dtype) == TENON_BF16);
  CHECK(v[7].kind == TENON_KIND_INT && v[7].as.i == 2 && s.attrs[7].is_scalar &&
        s.attrs[7].kind == TENON_KIND_FLOAT);
  CHECK(v[8].kind == TENON_KIND_FLOAT && v[8].as.f == 2.5);
  CHECK(v[9].kind == TENON_KIND_BOOL && v[9].as.i == 0);
  CHECK(v[10].kind == TENON_KIND_DEVICE && v[10].as.device.type == 1 && v[10].as.device.id == 0);
  CHECK(v[11].kind == TENON_KIND_NONE && s.attrs[11].kind == TENON_KIND_TENSOR &&
        s.attrs[11].is_optional);
  CHECK(v[12].kind == TENON_KIND_NONE && s.attrs[12].kind == TENON_KIND_GRAPH &&
        !s.attrs[12].has_default);
  CHECK(v[13].kind == TENON_KIND_INTS && v[13].count == 2 && v[13].as.ints[1] == 2 &&
        s.attrs[13].count == -1);
  CHECK(v[14].kind == TENON_KIND_INTS && v[14].count == 2 && s.attrs[14].count == 2);
  CHECK(v[15].kind == TENON_KIND_FLOATS && v[15].as.floats[0] == 1.0 && v[15].as.floats[1] == 2.5);
  CHECK(v[16].kind == TENON_KIND_STRS && v[16].as.strs[0].data[0] == 'a' &&
        v[16].as.strs[1].size == 0);
  CHECK(v[17].kind == TENON_KIND_DIMS && v[17].count == 0);
  CHECK(v[18].kind == TENON_KIND_NONE && s.attrs[18].kind == TENON_KIND_INTS &&
        s.attrs[18].has_default);
  CHECK(v[19].as.f > 1e308 && v[20].as.f < -1e308 && isnan(v[21].as.f));
  CHECK(s.output_count == 0 && s.input_count == 0 && !s.needs_attrs);
  tn_arena_clear(&arena);
}

TEST("an input may be optional, a list, on the host, or a list whose length a later attribute "
     "states") {
  tn_schema_t s =
      parse("f(Tensor[n] xs, Tensor[3] three, Tensor? @host axes=None, Tensor[]? more=None, *, int "
            "axis, int n) -> (Tensor[n] ys, Tensor? mask, Tensor[], Tensor)");
  CHECK(s.inputs[0].kind == TENON_KIND_TENSORS && s.inputs[0].count_attr == 1 &&
        s.inputs[0].count == -1);
  CHECK(s.inputs[1].kind == TENON_KIND_TENSORS && s.inputs[1].count == 3 &&
        s.inputs[1].count_attr == -1);
  CHECK(s.inputs[2].kind == TENON_KIND_TENSOR && s.inputs[2].is_optional && s.inputs[2].is_host &&
        s.inputs[2].has_default);
  CHECK(s.inputs[3].kind == TENON_KIND_TENSORS && s.inputs[3].is_optional &&
        s.inputs[3].count == -1);
  CHECK(s.needs_attrs && s.attrs[0].is_keyword && s.defaults[0].kind == TENON_KIND_NONE);
  CHECK(s.outputs[0].count_attr == 1 && s.outputs[1].is_optional && !s.outputs[0].is_optional);
  CHECK(strcmp(s.outputs[2].name, "out2") == 0 && strcmp(s.outputs[3].name, "out3") == 0 &&
        s.outputs[3].index == 3);
  CHECK(tn_schema_input(&s, "three", 5) == 1 && tn_schema_input(&s, "thre", 4) == -1);
  CHECK(tn_schema_input(&s, "xs\0abc", 6) == -1 && tn_schema_input(&s, "", 0) == -1);
  CHECK(tn_schema_attr(&s, "n", 1) == 1 && tn_schema_attr(&s, "xs", 2) == -1 &&
        tn_schema_output(&s, "mask", 4) == 1);
  tn_arena_clear(&arena);
}

TEST("the schemas of the documentation parse") {
  static const char *const texts[] = {
      "split(Tensor(a) x, Tensor? @host sizes=None, *, int axis=0, int count) -> Tensor(a)[count]",
      "topk(Tensor x, dim k, *, bool largest=True) -> (Tensor values, Tensor indices)",
      "axpy_(Tensor(a!) y, Tensor x, *, float alpha=1.0) -> ()",
      "where(Tensor condition, Tensor a, Tensor b) -> Tensor",
      "eye_like(Tensor x, *, dtype? dtype=None, int k=0) -> Tensor",
      "conv(Tensor x, Tensor w, Tensor? bias=None, Tensor? residual=None, *, int[] strides=[], int "
      "group=1) -> Tensor",
      "nothing() -> ()"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    parse(texts[i]);
  tn_arena_clear(&arena);
}

TEST("an unknown type is refused with its column and the nearest known word") {
  refuse_as(
      "foo(Tensr x) -> Tensor",
      "schema 'foo(Tensr x) -> Tensor': column 5: expected a type (Tensor, bool, int, dim, "
      "float, str, dtype, device, scalar, tensor, graph), found 'Tensr'; did you mean 'Tensor'?");
  refuse_as("f(Tensor x, flaot a) -> Tensor", "column 13: expected a type");
  refuse_as("f(Tensor x, flaot a) -> Tensor", "did you mean 'float'?");
  refuse_as("f(Tensor x) -> tensor",
            "column 16: expected a result (Tensor), found 'tensor'; did you mean 'Tensor'?");
  refuse_as("f(qqqqq x) -> Tensor", "found 'qqqqq'");
  CHECK(!strstr(tn_error(), "did you mean"));
}

TEST("a missing or superfluous part is refused with its column") {
  refuse_as("", "column 1: expected the operator's name, found the end of the text");
  refuse_as("f", "column 2: expected '(' and the arguments, found the end");
  refuse_as("f(", "column 3: expected a type");
  refuse_as("f(Tensor)", "column 9: expected a name, found ')'");
  refuse_as("f(Tensor x", "column 11: expected ',' or ')'");
  refuse_as("f(Tensor x)", "column 12: expected '->' and the results");
  refuse_as("f(Tensor x) ->", "column 15: expected a result");
  refuse_as("f(Tensor x) -> (Tensor", "column 23: expected ',' or ')'");
  refuse_as("f(Tensor x) -> Tensor,", "column 22: expected the end, found ','");
  refuse_as("f(Tensor x) -> Tensor out more", "column 27: expected the end, found 'more'");
  refuse_as("f(Tensor x,) -> Tensor", "column 12: expected a type");
  refuse_as("a::b::c() -> ()", "column 5: expected '(' and the arguments, found '::'");
  refuse_as("1f() -> ()",
            "column 1: expected the operator's name, found '1f', which is not a number");
  refuse_as("f(Tensor x) -> Tensor ; #", "column 23: expected the end, found ';'");
  refuse_as("f(Tensor # x) -> Tensor",
            "column 10: expected a name, found '#', which no declaration may contain");
}

TEST("names are unique within an operator, and literals are not names") {
  refuse_as("f(Tensor x, int x) -> Tensor", "column 17: two arguments are named 'x'");
  refuse_as("f(Tensor x) -> (Tensor y, Tensor y)", "column 34: two results are named 'y'");
  refuse_as("f(Tensor x) -> Tensor x",
            "column 23: this result is named 'x', like an input: choose another name");
  refuse_as("f(Tensor out) -> Tensor", "column 18: this result is named 'out', like an input");
  refuse_as("f(Tensor x, int out0=1) -> (Tensor, Tensor)",
            "column 29: this result is named 'out0', like an attribute");
  refuse_as("f(Tensor None) -> ()", "column 10: 'None' is a literal, not a name");
  refuse_as("f(float nan) -> ()", "'nan' is a literal");
}

TEST("defaults are checked against the type") {
  refuse_as("f(int k=1.5) -> ()", "column 9: default of 'k': expected int, found 1.5");
  refuse_as("f(int k=True) -> ()", "expected int, found True");
  refuse_as("f(bool b=2) -> ()", "expected bool, found 2");
  refuse_as("f(float x='a') -> ()", "column 11: default of 'x': expected float, found 'a'");
  refuse_as("f(int[2] p=[1]) -> ()",
            "column 12: default of 'p': expected a list of 2 ints, found [1]");
  refuse_as("f(int k=None) -> ()", "expected int, found None");
  refuse_as("f(str['a', 'bcd'] m='bdc') -> ()",
            "column 21: default of 'm': expected one of 'a', 'bcd', found 'bdc'; did you mean "
            "'bcd'?");
  refuse_as("f(dtype t=f33) -> ()", "column 11: expected a literal");
  refuse_as("f(dtype t=f33) -> ()", "did you mean 'f32'?");
  refuse_as("f(tensor t=1) -> ()", "expected tensor, found 1");
  refuse_as("f(device d='gpu') -> ()", "expected device, found 'gpu'");
  refuse_as("f(dim d=-9223372036854775807) -> ()", "below -2^62");
  refuse_as("f(int[] p=[1, 'a']) -> ()",
            "column 15: a list cannot contain both numbers and strings");
  refuse_as("f(int[] p=[1, None]) -> ()",
            "column 15: expected a list of numbers or a list of strings");
  refuse_as("f(int[] p=[1 2]) -> ()", "column 14: expected ',' or ']'");
  refuse_as("f(int[] p=[1,]) -> ()", "column 14: expected a literal");
  refuse_as(
      "f(Tensor x=None) -> ()",
      "column 12: only an optional input (Tensor?) can have a default, and the default is None");
  refuse_as("f(Tensor? x=1) -> ()",
            "column 13: expected None, the only possible default of an input, found '1'");
}

TEST("numbers that overflow are refused, and others are read exactly") {
  refuse_as("f(int k=9223372036854775808) -> ()", "column 9: the integer does not fit 64 bits");
  refuse_as("f(int k=-9223372036854775809) -> ()", "column 9: the integer does not fit 64 bits");
  refuse_as("f(float x=1e999) -> ()",
            "column 11: the number is too large or too long for a 64-bit float");
  refuse_as("f(int k=12x) -> ()", "column 9: expected a literal");
  refuse_as("f(int k=1e) -> ()", "found '1e', which is not a number");
  refuse_as("f(int k=-) -> ()", "found '-', which is not a number");
  refuse_as("f(Tensor[-1] xs) -> ()",
            "column 10: a length must be at least 0 and below 2^31, found -1");
  refuse_as("f(Tensor[4294967296] xs) -> ()", "column 10: a length must be at least 0");
  tn_schema_t s = parse(
      "f(int a=9223372036854775807, int b=-9223372036854775808, float c=0.1, float "
      "d=2.2250738585072014e-308, float e=123456789012345678, float f=1e-400, float g=.5, float "
      "h=5., float i=1.7976931348623157e308, float "
      "j=3.141592653589793115997963468544185161590576171875, float k=9007199254740993.0) -> ()");
  CHECK(s.defaults[0].as.i == INT64_MAX && s.defaults[1].as.i == INT64_MIN);
  CHECK(s.defaults[2].as.f == 0.1 && s.defaults[3].as.f == 2.2250738585072014e-308 &&
        s.defaults[4].as.f == 123456789012345678.0);
  CHECK(s.defaults[5].as.f == 0 && s.defaults[6].as.f == 0.5 && s.defaults[7].as.f == 5.0);
  CHECK(s.defaults[8].as.f == 1.7976931348623157e308 && s.defaults[9].as.f == 3.141592653589793);
  CHECK(s.defaults[10].as.f == 9007199254740992.0);
  tn_arena_clear(&arena);
}

TEST("the marks of inputs and results must match") {
  refuse_as("f(Tensor(a) x) -> Tensor",
            "column 10: the mark says that a result is a view of 'x', but no result has this mark");
  refuse_as("f(Tensor x) -> Tensor(a)",
            "column 23: result 'out' has the mark 'a', but no input has it");
  refuse_as("f(Tensor(a!) x) -> Tensor(a)",
            "column 27: result 'out' is marked (a), but input 'x' is marked (a!)");
  refuse_as("f(Tensor(a) x) -> Tensor(a!)",
            "column 26: result 'out' is marked (a!), but input 'x' is marked (a)");
  refuse_as("f(Tensor(a!) x, Tensor(a!) y) -> ()",
            "inputs 'x' and 'y' have the same mark 'a': use another letter");
  refuse_as("f(Tensor(ab) x) -> ()", "column 10: expected a mark of one letter, found 'ab'");
  refuse_as("f(Tensor(a x) -> ()", "column 12: expected ')' after the mark, found 'x'");
}

TEST("lists, @host and keyword marks are refused where they make no sense") {
  refuse_as("f(bool[] b) -> ()", "column 7: the type bool has no list form");
  refuse_as("f(int[n] k, int n) -> ()", "column 7: expected a number or ']', found 'n'");
  refuse_as("f(int @host k) -> ()", "column 7: @host is only for tensors");
  refuse_as("f(Tensor @hots k) -> ()", "column 11: expected 'host' after '@', found 'hots'");
  refuse_as("f(Tensor(a) x) -> Tensor(a) @host y",
            "column 29: a result that is @host owns its memory");
  refuse_as("f(Tensor x, *, *, int k) -> ()", "column 16: '*' appears twice");
  refuse_as("f(Tensor x, *) -> ()", "column 14: expected ',' and arguments after '*', found ')'");
  refuse_as("f(int k=1, Tensor x) -> ()",
            "column 19: 'x' has no default but follows 'k', which has one");
  refuse_as("f(Tensor[m] xs, int n) -> ()", "column 10: a length must be a number or an int "
                                            "attribute that is not optional; 'm' is unknown");
  refuse_as("f(Tensor[cuont] xs, int count) -> ()", "did you mean 'count'?");
  refuse_as("f(Tensor[n] xs, float n) -> ()", "'n' is another argument");
  refuse_as("f(Tensor[n] xs, int? n) -> ()", "'n' is another argument");
  refuse_as("f(str['a', 'a'] m) -> ()", "column 12: choice 'a' is listed twice");
  refuse_as("f(str['a' 'b'] m) -> ()", "column 11: expected ',' or ']', found the string 'b'");
}

TEST("without a namespace the library's name must be a valid name") {
  tn_schema_t schema;
  CHECK_STATUS(tn_schema_parse("f() -> ()", "my-lib", &arena, &schema), TENON_INVALID);
  CHECK_TEXT(tn_error(),
             "column 1: the operator has no namespace, and the library's name cannot serve as one");
  CHECK_STATUS(tn_schema_parse("f() -> ()", NULL, &arena, &schema), TENON_INVALID);
  CHECK_STATUS(tn_schema_parse("a::f() -> ()", NULL, &arena, &schema), TENON_OK);
  CHECK_STATUS(tn_schema_parse(NULL, "lib", &arena, &schema), TENON_INVALID);
  CHECK_TEXT(tn_error(), "its text is NULL");
  tn_arena_clear(&arena);
}

TEST("a name has letters, digits and underscores, and does not begin with a digit") {
  CHECK(tn_is_name("a", 1) && tn_is_name("_9Z", 3) && tn_is_name("A_b", 3));
  CHECK(!tn_is_name("", 0) && !tn_is_name("9a", 2) && !tn_is_name("a-b", 3) &&
        !tn_is_name("a\0b", 3) && !tn_is_name("\xc3\xa9", 2));
}

TEST("columns count characters, and messages escape bytes that cannot be printed") {
  refuse_as("f(str m='\xc3\xa9', Tensr x) -> ()", "column 14: expected a type");
  refuse_as("f(\xff x) -> ()", "schema 'f(\\xff x) -> ()': column 3: expected a type");
  refuse_as("f(\x01\n", "\\x01\\x0a");
}

TEST("strings without an end and unknown escapes are refused") {
  refuse_as("f(str m='abc) -> ()", "column 9: expected a literal");
  refuse_as("f(str m='abc) -> ()", "a string without its closing quote");
  refuse_as("f(str m='abc\\", "a string without its closing quote");
  refuse_as("f(str m='a\\t') -> ()",
            "column 11: unknown escape sequence: expected \\\\, \\', \\n or \\x and two "
            "hexadecimal digits");
  refuse_as("f(str['a", "a string without its closing quote");
}

TEST("a very long text is refused with a short message") {
  char *name = texts_repeat("f(Tensor ", "x", 100000, ") -> ()");
  refuse_as(name, "column 10: expected a name, found 'xxx");
  CHECK_TEXT(tn_error(), "a name of more than 255 bytes");
  CHECK(strlen(tn_error()) < 1000);
  free(name);
  char *inputs = texts_repeat("f(", "Tensor x, ", 100000, "Tensor y) -> ()");
  refuse_as(inputs, "column 20: two arguments are named 'x'");
  CHECK(strlen(tn_error()) < 1000);
  free(inputs);
  char *open = texts_repeat("f(int[] k=", "[", 100000, "");
  refuse_as(open, "column 12: expected a literal");
  free(open);
  char *items = texts_repeat("f(int[] k=[0", ", 1", 100000, "]) -> ()");
  tn_schema_t s = parse(items);
  CHECK(s.defaults[0].count == 100001 && s.defaults[0].as.ints[100000] == 1);
  tn_arena_clear(&arena);
  free(items);
  char *number = texts_repeat("f(float k=0.", "1", 1000, ") -> ()");
  refuse_as(number, "too large or too long");
  free(number);
}

TEST("64 inputs, attributes or results are accepted, and the 65th is refused") {
  static const char *const forms[3][3] = {{"f(Tensor x0", ", Tensor x%d", ") -> ()"},
                                          {"f(int x0", ", int x%d", ") -> ()"},
                                          {"f() -> (Tensor x0", ", Tensor x%d", ")"}};
  static const char *const words[3] = {"more than 64 inputs", "more than 64 attributes",
                                       "more than 64 results"};
  for (int form = 0; form < 3; form++)
    for (int count = 64; count <= 65; count++) {
      char text[2000];
      size_t used = (size_t)snprintf(text, sizeof text, "%s", forms[form][0]);
      for (int i = 1; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 form == 1 ? ", int x%d" : ", Tensor x%d", i);
      snprintf(text + used, sizeof text - used, "%s", forms[form][2]);
      if (count == 64)
        parse(text);
      else
        refuse_as(text, words[form]);
      tn_arena_clear(&arena);
    }
}

static const char *const everything =
    "ns::f.all(Tensor(a!) x, Tensor[n] xs, Tensor(b)? @host v=None, *, int n=2, "
    "float[] fs=[1, 2.5, inf], str[] ss=['a', 'b'], "
    "str['u', 'v\\n'] m='u', dtype t=f32, scalar? s=None, dim[2] d=[1, 2]) -> "
    "(Tensor(a!), Tensor(b) view, Tensor[n] ys)";

TEST("parsing survives the failure of each allocation") {
  texts_check_memory(everything, parse_any);
}

TEST("parsing survives arbitrary bytes") { texts_check_broken(everything, parse_any, 30000); }
