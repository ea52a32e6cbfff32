/* Gradient formulas: which ones are parsed, where errors are reported, and the order of calls. */
#include "base/status.h"
#include "core/gradient.h"

#include <string.h>

#include "texts.h"

static tn_arena_t arena;
static tn_schema_t schema;
static tn_types_t types;
static tn_gradient_t gradient;

static void operator_is(const char *schema_text, const char *types_text) {
  tn_arena_clear(&arena);
  CHECK_STATUS(tn_schema_parse(schema_text, "demo", &arena, &schema), TENON_OK);
  CHECK_STATUS(tn_types_parse(types_text, &schema, &arena, &types), TENON_OK);
}

static tenon_status_t parse(const char *text, tn_arena_t *to) {
  tn_gradient_t parsed;
  tenon_status_t status = tn_gradient_parse(text, &schema, &types, to, &parsed);
  if (to == &arena) gradient = parsed;
  return status;
}

static const char *refused(const char *text) {
  CHECK_STATUS(parse(text, &arena), TENON_INVALID);
  return tn_error();
}

static void topk(void) {
  operator_is("topk(Tensor x, Tensor y, Tensor index, dim k, *, bool largest=True) -> (Tensor "
              "values, Tensor indices)",
              "x, y: float; index: i64; values = x; indices = i64");
}

TEST("a call over gradients, inputs, results, attributes, state, literals and other calls is "
     "parsed") {
  topk();
  CHECK_STATUS(
      parse(
          "x: back(grad, grad.values, x, indices, k, @state, -1.5, [1, 2], None, core::f.g(index), "
          "mode='a', flag=largest); "
          "y: none",
          &arena),
      TENON_OK);
  CHECK(gradient.formula_count == 2 && gradient.formulas[0].kind == TN_FORMULA_CALL &&
        gradient.formulas[1].kind == TN_FORMULA_NONE);
  CHECK(gradient.formulas[0].input_count == 1 && gradient.formulas[0].inputs[0] == 0 &&
        gradient.formulas[1].inputs[0] == 1);
  const tn_gradient_value_t *call = &gradient.formulas[0].call;
  const tn_gradient_value_t *v = call->arguments;
  CHECK(call->kind == TN_GRADIENT_CALL && strcmp(call->name, "demo::back") == 0 &&
        call->argument_count == 12);
  CHECK(v[0].kind == TN_GRADIENT_GRAD && v[0].index == 0 && v[1].kind == TN_GRADIENT_GRAD &&
        v[1].index == 0);
  CHECK(v[2].kind == TN_GRADIENT_INPUT && v[2].index == 0 && v[3].kind == TN_GRADIENT_OUTPUT &&
        v[3].index == 1);
  CHECK(v[4].kind == TN_GRADIENT_ATTR && v[4].index == 0 && v[5].kind == TN_GRADIENT_STATE);
  CHECK(v[6].kind == TN_GRADIENT_LITERAL && v[6].literal.as.f == -1.5 && v[7].literal.count == 2);
  CHECK(v[8].kind == TN_GRADIENT_LITERAL && v[8].literal.kind == TENON_KIND_NONE);
  CHECK(v[9].kind == TN_GRADIENT_CALL && strcmp(v[9].name, "core::f.g") == 0 &&
        v[9].arguments[0].index == 2);
  CHECK(strcmp(v[10].keyword, "mode") == 0 && strcmp(v[10].literal.as.s, "a") == 0 &&
        !v[0].keyword);
  CHECK(strcmp(v[11].keyword, "flag") == 0 && v[11].kind == TN_GRADIENT_ATTR && v[11].index == 1);
}

TEST("one call may be the gradient of several inputs") {
  topk();
  CHECK_STATUS(parse("y, x: other::back()", &arena), TENON_OK);
  CHECK(gradient.formula_count == 1 && gradient.formulas[0].input_count == 2 &&
        gradient.formulas[0].inputs[0] == 1);
  CHECK(gradient.formulas[0].inputs[1] == 0 &&
        strcmp(gradient.formulas[0].call.name, "other::back") == 0);
  CHECK(gradient.formulas[0].call.argument_count == 0);
}

TEST("`grad` means the gradient of the first result that may be a float") {
  operator_is("f(Tensor x) -> (Tensor i, Tensor v)", "x: float; i = i64; v = x");
  CHECK_STATUS(parse("x: g(grad)", &arena), TENON_OK);
  CHECK(gradient.formulas[0].call.arguments[0].index == 1);
  CHECK_TEXT(refused("x: g(grad.i)"),
             "column 11: result 'i' is never a float, so it has no gradient");
  CHECK_TEXT(refused("x: g(grad.w)"), "column 11: expected the name of a result, found 'w'");
  operator_is("f(Tensor x) -> Tensor", "x: float; out = bool");
  CHECK_TEXT(refused("x: g(grad)"),
             "column 6: 'grad' has no meaning here: no result is ever a float");
  operator_is("f(Tensor grad, Tensor x) -> Tensor", "grad, x: float; out = x");
  CHECK_TEXT(refused("x, grad: g(grad)"), "column 12: 'grad' is ambiguous: it is the gradient of "
                                          "the result and also the name of an argument");
  CHECK_STATUS(parse("x, grad: g(grad.out)", &arena), TENON_OK);
}

TEST("a missing text means that there is no gradient") {
  topk();
  CHECK_STATUS(parse(NULL, &arena), TENON_OK);
  CHECK(!gradient.text && gradient.formula_count == 0);
}

TEST("every input that may be a float needs a gradient formula, and only one") {
  topk();
  CHECK_TEXT(refused("x: g(grad)"), "every input that may be a float needs a gradient formula (a "
                                    "call, none or error); missing for 'y'");
  CHECK_TEXT(refused("x: none; y: error; x: none"),
             "column 20: input 'x' has two gradient formulas");
  CHECK_TEXT(refused("x, y, index: g(grad)"),
             "column 7: input 'index' is never a float, so it has no gradient");
  CHECK_STATUS(parse("x, y: error; index: none", &arena), TENON_OK);
  CHECK(gradient.formulas[0].kind == TN_FORMULA_ERROR);
  operator_is("f(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, *, dtype t=f32) -> ()",
              "a: c64; b = f8e8m0; c: string; d: u4|bool; e = t");
  CHECK_TEXT(refused("a: none"), "missing for 'b', 'e'");
}

TEST("unknown names and wrong forms are refused with their column") {
  topk();
  CHECK_TEXT(
      refused("z: g(grad); x, y: none"),
      "gradient 'z: g(grad); x, y: none': column 1: expected the name of an input, found 'z'");
  CHECK_TEXT(refused("x: nnoe; y: none"),
             "column 4: expected a call, none or error, found 'nnoe'; did you mean 'none'?");
  CHECK_TEXT(refused("x: g(vaules)"), "column 6: expected an input, a result, an attribute, grad, "
                                      "@state, a literal or a call, found 'vaules'; "
                                      "did you mean 'values'?");
  CHECK_TEXT(refused("x g(grad)"),
             "column 3: expected ',' or ':' and a call, none or error, found 'g'");
  CHECK_TEXT(refused("x: g(grad"), "column 10: expected ',' or ')', found the end");
  CHECK_TEXT(refused("x: g(grad,)"), "column 11: expected a literal");
  CHECK_TEXT(refused("x: g(a=1, x)"),
             "column 11: a value without a name cannot follow one with a name");
  CHECK_TEXT(refused("x: g(a=1, a=2)"), "column 11: 'a' is given two values");
  CHECK_TEXT(refused("x: g(@stat)"), "column 7: expected 'state' after '@', found 'stat'");
  CHECK_TEXT(refused("x: g(grad) y: none"), "column 12: expected ';' or the end, found 'y'");
  CHECK_TEXT(refused("x: g(f.h)"), "column 9: expected '(' and the values of the call, found ')'");
  CHECK_TEXT(refused("x: a::b"), "column 8: expected '(' and the values of the call");
  CHECK_TEXT(refused("x: g(9999999999999999999)"), "column 6: the integer does not fit 64 bits");
  CHECK_TEXT(refused(""), "column 1: expected the name of an input, found the end");
}

TEST("calls nest at most 64 deep and have at most 128 values") {
  operator_is("f(Tensor x) -> Tensor", "x: float; out = x");
  for (size_t depth = 64; depth <= 65; depth++) {
    char *open = texts_repeat("x: ", "g(", depth, "grad");
    char *text = texts_repeat(open, ")", depth, "");
    if (depth == 64)
      CHECK_STATUS(parse(text, &arena), TENON_OK);
    else
      CHECK_TEXT(refused(text), "calls are nested more than 64 levels deep");
    free(open);
    free(text);
  }
  char *many = texts_repeat("x: ", "g(", 1000000, "");
  CHECK_TEXT(refused(many), "column 132: calls are nested more than 64 levels deep");
  free(many);
  for (size_t count = 128; count <= 129; count++) {
    char *text = texts_repeat("x: g(1", ", 1", count - 1, ")");
    if (count == 128)
      CHECK_STATUS(parse(text, &arena), TENON_OK);
    else
      CHECK_TEXT(refused(text), "a call has more than 128 values");
    free(text);
  }
}

typedef struct seen_t {
  char names[200];
  int left;
} seen_t;

static tenon_status_t see(void *context, const char *name) {
  seen_t *seen = context;
  strcat(strcat(seen->names, name), " ");
  return --seen->left ? TENON_OK : TENON_NOT_FOUND;
}

TEST("every operator that a formula calls is visited in order, until the callback stops the walk") {
  seen_t seen = {"", 100};
  seen_t few = {"", 2};
  topk();
  CHECK_STATUS(parse("x: a(b(grad), c(1, d(x))); index: none; y: e::f()", &arena), TENON_OK);
  CHECK_STATUS(tn_gradient_walk(&gradient, see, &seen), TENON_OK);
  CHECK(strcmp(seen.names, "demo::a demo::b demo::c demo::d e::f ") == 0);
  CHECK_STATUS(tn_gradient_walk(&gradient, see, &few), TENON_NOT_FOUND);
  CHECK(strcmp(few.names, "demo::a demo::b ") == 0);
}

static const char *const some = "x: a(b(grad, [1, 2.5]), c(1, d(x), m='t', n=values)); y: none";

TEST("parsing survives the failure of each allocation") {
  topk();
  texts_check_memory(some, parse);
}

TEST("parsing survives arbitrary bytes") {
  topk();
  texts_check_broken(some, parse, 20000);
}

TEST("everything is freed") { tn_arena_clear(&arena); }
