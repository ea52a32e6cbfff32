/* The short declarations of an operator: texts that are accepted, and texts that are refused with
 * the column of the error. */
#include "base/status.h"
#include "core/declarations.h"

#include <string.h>

#include "base/cpu.h"
#include "core/dtype.h"
#include "texts.h"

static tn_arena_t arena;
static tn_schema_t schema;

static const char *const text_of_schema =
    "ns::f(Tensor x, Tensor y, Tensor[] list, Tensor(a!) w, *, dim k, float alpha=1.0, int[] "
    "axes=[], int axis=0) -> (Tensor out, Tensor indices, Tensor[] parts, Tensor(a!) same)";

static const tn_schema_t *it(void) {
  if (!schema.full) CHECK_STATUS(tn_schema_parse(text_of_schema, "lib", &arena, &schema), TENON_OK);
  return &schema;
}

static const char *refused(tenon_status_t status) {
  CHECK_STATUS(status, TENON_INVALID);
  return tn_error();
}

static const uint8_t *words;
static const int32_t *reused;
static tn_batching_t batching;
static const char *const *names;
static uint32_t name_count;
static tn_kernel_words_t kernel;
static tn_loop_words_t loop;

static tenon_status_t where(const char *text, tn_arena_t *to) {
  return tn_where_parse(text, it(), to, &words);
}
static tenon_status_t reuse(const char *text, tn_arena_t *to) {
  return tn_reuse_parse(text, it(), to, &reused);
}
static tenon_status_t batch(const char *text, tn_arena_t *to) {
  (void)to;
  return tn_batching_parse(text, it(), &batching);
}
static tenon_status_t uses(const char *text, tn_arena_t *to) {
  return tn_uses_parse(text, "ns", to, &names, &name_count);
}
static tenon_status_t kern(const char *text, tn_arena_t *to) {
  return tn_kernel_parse(text, to, &kernel);
}
static tenon_status_t loop_of(const char *schema_text, const char *text) {
  tn_schema_t s;
  CHECK_STATUS(tn_schema_parse(schema_text, "lib", &arena, &s), TENON_OK);
  return tn_loop_parse(text, &s, &arena, &loop);
}

TEST("WHERE gives each input its properties") {
  CHECK_STATUS(where("x: known; y, list: deduced strided", &arena), TENON_OK);
  CHECK(words[0] == TN_INPUT_KNOWN && words[1] == (TN_INPUT_DEDUCED | TN_INPUT_STRIDED) &&
        words[2] == words[1] && words[3] == 0);
  CHECK_STATUS(where("x: known, strided", &arena), TENON_OK);
  CHECK(words[0] == (TN_INPUT_KNOWN | TN_INPUT_STRIDED));
  CHECK_STATUS(where("", &arena), TENON_OK);
  CHECK(words[0] == 0 && words[3] == 0);
  CHECK_STATUS(where(NULL, &arena), TENON_OK);
  CHECK_TEXT(refused(where("x: knwon", &arena)),
             "where 'x: knwon': column 4: expected known, deduced, strided or anywhere, found "
             "'knwon'; did you mean 'known'?");
  CHECK_TEXT(refused(where("x known", &arena)),
             "column 3: expected ',' or ':' and properties of the input, found 'known'");
  CHECK_TEXT(refused(where("out: known", &arena)),
             "column 1: expected the name of an input, found 'out'");
  CHECK_TEXT(refused(where("x: known; x: strided", &arena)),
             "column 11: input 'x' is declared twice");
  CHECK_TEXT(refused(where("x: known;", &arena)), "column 10: expected an input, found the end");
  CHECK_TEXT(refused(where("x:", &arena)),
             "column 3: expected known, deduced, strided or anywhere, found the end");
  CHECK_TEXT(refused(where("x: known bad", &arena)),
             "column 10: expected known, deduced, strided or anywhere, found 'bad'");
}

TEST("REUSE gives each result at most one input, and each input to at most one result") {
  CHECK_STATUS(reuse("out: x; indices: y", &arena), TENON_OK);
  CHECK(reused[0] == 0 && reused[1] == 1 && reused[2] == -1 && reused[3] == -1);
  CHECK_STATUS(reuse(NULL, &arena), TENON_OK);
  CHECK(reused[0] == -1);
  CHECK_TEXT(refused(reuse("out: x; indices: x", &arena)),
             "column 18: 'out' already reuses the memory of 'x'");
  CHECK_TEXT(refused(reuse("out: x; out: y", &arena)), "column 9: result 'out' is declared twice");
  CHECK_TEXT(refused(reuse("x: out", &arena)),
             "column 1: expected the name of a result, found 'x'");
  CHECK_TEXT(refused(reuse("parts: x", &arena)),
             "column 1: result 'parts' is a list, so it has no memory that could be chosen");
  CHECK_TEXT(refused(reuse("same: x", &arena)), "column 1: result 'same' is an alias");
  CHECK_TEXT(refused(reuse("out: list", &arena)),
             "column 6: input 'list' is a list, so no result can reuse its memory");
  CHECK_TEXT(refused(reuse("out: w", &arena)), "column 6: input 'w' is marked as an alias");
  CHECK_TEXT(refused(reuse("out x", &arena)), "column 5: expected ':' and an input");
  CHECK_TEXT(refused(reuse("out: x y", &arena)), "column 8: expected ';' or the end, found 'y'");
}

TEST("BATCHING names inputs, results and the axes that shift between them") {
  CHECK_STATUS(batch("x, y -> out, indices; shift axis, axes, k", &arena), TENON_OK);
  CHECK(batching.inputs == 3 && batching.outputs == 3 && batching.shifts == (1 | 4 | 8) &&
        !batching.is_none);
  CHECK_STATUS(batch("none", &arena), TENON_OK);
  CHECK(batching.is_none && batching.text);
  CHECK_STATUS(batch(NULL, &arena), TENON_OK);
  CHECK(!batching.text);
  CHECK_TEXT(refused(batch("", &arena)), "column 1: expected an input, found the end");
  CHECK_TEXT(refused(batch("x, x -> out", &arena)), "column 4: 'x' is listed twice");
  CHECK_TEXT(refused(batch("x", &arena)), "column 2: expected ',' or '->' and results");
  CHECK_TEXT(refused(batch("x -> ou", &arena)),
             "column 6: expected the name of a result, found 'ou'; did you mean 'out'?");
  CHECK_TEXT(refused(batch("x -> out; shfit axis", &arena)),
             "column 11: expected 'shift' and attributes, found 'shfit'; did you mean 'shift'?");
  CHECK_TEXT(
      refused(batch("x -> out; shift alpha", &arena)),
      "column 17: attribute 'alpha' is not an int or a list of ints, so it cannot count axes");
  CHECK_TEXT(refused(batch("x -> out; shift axis; y", &arena)),
             "column 21: expected the end, found ';'");
  CHECK_TEXT(refused(batch("none, x -> out", &arena)),
             "column 1: expected the name of an input, found 'none'");
}

TEST("USES lists full operator names in the order of the text") {
  CHECK_STATUS(uses("core::add, mul , core::add.out, div.x", &arena), TENON_OK);
  CHECK(name_count == 4 && strcmp(names[0], "core::add") == 0 && strcmp(names[1], "ns::mul") == 0);
  CHECK(strcmp(names[2], "core::add.out") == 0 && strcmp(names[3], "ns::div.x") == 0);
  CHECK_STATUS(uses("", &arena), TENON_OK);
  CHECK(name_count == 0);
  CHECK_TEXT(refused(uses("core::", &arena)),
             "uses 'core::': column 7: expected a name, found the end");
  CHECK_TEXT(refused(uses("core::add,", &arena)), "column 11: expected an operator");
  CHECK_TEXT(refused(uses("a::b::c", &arena)), "column 5: expected ',' or the end, found '::'");
  CHECK_TEXT(refused(uses("a.b::c", &arena)), "column 4: expected ',' or the end, found '::'");
  CHECK_TEXT(refused(uses("a.b.c", &arena)), "column 4: expected ',' or the end, found '.'");
  CHECK_TEXT(refused(uses("core add", &arena)), "column 6: expected ',' or the end, found 'add'");
}

TEST("the text of a kernel names its device, instruction set, dtypes and capabilities") {
  CHECK_STATUS(kern("cpu", &arena), TENON_OK);
  CHECK(strcmp(kernel.device, "cpu") == 0 && kernel.isa == 0 && kernel.dtypes == ~(uint64_t)0 &&
        kernel.flags == 0);
  CHECK_STATUS(kern("cpu avx512 f32|f64 strided", &arena), TENON_OK);
  CHECK(kernel.isa == tn_cpu_rank("avx512", 6) && kernel.flags == TN_KERNEL_STRIDED);
  CHECK(kernel.dtypes == ((uint64_t)1 << TN_DTYPE_F32 | (uint64_t)1 << TN_DTYPE_F64));
  CHECK_STATUS(kern("sim serial accumulates quantised capturable int", &arena), TENON_OK);
  CHECK(kernel.flags ==
        (TN_KERNEL_SERIAL | TN_KERNEL_ACCUMULATES | TN_KERNEL_QUANTISED | TN_KERNEL_CAPTURABLE));
  CHECK(kernel.dtypes == tn_dtype_set("int", 3) && strcmp(kernel.device, "sim") == 0);
  CHECK_TEXT(refused(kern("", &arena)),
             "kernel '': column 1: expected the name of a device (cpu, ...), found the end");
  CHECK_TEXT(refused(kern("cpu avx512 avx2", &arena)), "column 12: two instruction sets");
  CHECK_TEXT(refused(kern("cpu strided strided", &arena)), "column 13: 'strided' is listed twice");
  CHECK_TEXT(refused(kern("cpu f32 f64", &arena)),
             "column 9: several lists of dtypes: join dtypes by '|', as in f32|f64");
  CHECK_TEXT(refused(kern("cpu f32|", &arena)),
             "column 9: expected a dtype after '|', found the end");
  CHECK_TEXT(refused(kern("cpu stridded", &arena)),
             "column 5: expected an instruction set, dtypes or a capability, found 'stridded'; did "
             "you mean 'strided'?");
  CHECK_TEXT(refused(kern("cpu avx521", &arena)), "did you mean 'avx512'?");
  CHECK_TEXT(refused(kern("cpu, f32", &arena)),
             "column 4: expected an instruction set, dtypes or a capability, found ','");
}

TEST("a loop states one dtype for each tensor") {
  CHECK_STATUS(
      loop_of("f(Tensor a, Tensor b) -> (Tensor, Tensor)", "f32, f32 -> f32, bool; avx512 strided"),
      TENON_OK);
  CHECK(loop.isa == tn_cpu_rank("avx512", 6) && loop.flags == TN_KERNEL_STRIDED &&
        tn_dtype_is(loop.dtypes[3], TENON_BOOL));
  CHECK(tn_dtype_is(loop.dtypes[0], TENON_F32));
  CHECK_STATUS(loop_of("f() -> Tensor", "-> f32"), TENON_OK);
  CHECK_STATUS(loop_of("f(Tensor a) -> ()", "f32 ->"), TENON_OK);
  CHECK_STATUS(loop_of("f(Tensor a) -> Tensor", "f32 -> f32;"), TENON_OK);
  CHECK_TEXT(refused(loop_of("f(Tensor a, Tensor b) -> Tensor", "f32 -> f32")),
             "loop 'f32 -> f32': column 5: expected ',' and the dtype of input 'b', "
             "found '->'");
  CHECK_TEXT(refused(loop_of("f(Tensor a) -> Tensor", "f32, f32 -> f32")),
             "column 4: more dtypes than the 1 inputs of the schema");
  CHECK_TEXT(refused(loop_of("f(Tensor a) -> Tensor", "f32 -> f32, f32")),
             "column 11: more dtypes than the 1 results of the schema");
  CHECK_TEXT(refused(loop_of("f() -> Tensor", "f32 -> f32")),
             "column 1: more dtypes than the 0 inputs");
  CHECK_TEXT(refused(loop_of("f(Tensor a) -> Tensor", "f32 ->")),
             "column 7: expected the dtype of result 'out', found the end");
  CHECK_TEXT(refused(loop_of("f(Tensor a) -> Tensor", "float -> f32")),
             "column 1: expected the dtype of input 'a', found 'float'");
  CHECK_TEXT(refused(loop_of("f(Tensor a) -> Tensor", "f23 -> f32")), "did you mean 'f32'?");
  CHECK_TEXT(refused(loop_of("f(Tensor a) -> Tensor", "f32 -> f32; serial")),
             "column 13: expected an instruction set or 'strided', found 'serial'");
  CHECK_TEXT(refused(loop_of("f(Tensor a) -> Tensor", "f32 -> f32 strided")),
             "column 12: expected ';' and words, or the end, found 'strided'");
  CHECK_TEXT(refused(loop_of("f(Tensor[] a) -> Tensor", "f32 -> f32")),
             "column 1: a loop cannot have a list: input 'a' is one");
  CHECK_TEXT(refused(loop_of("f(Tensor a) -> Tensor[]", "f32 -> f32")),
             "column 8: a loop cannot have a list: result 'out' is one");
}

static tenon_status_t loop_any(const char *text, tn_arena_t *to) {
  static tn_schema_t s;
  if (!s.full)
    CHECK_STATUS(tn_schema_parse("f(Tensor a, Tensor b) -> (Tensor, Tensor)", "lib", &arena, &s),
                 TENON_OK);
  return tn_loop_parse(text, &s, to, &loop);
}

static const struct {
  const char *text;
  texts_parse_fn parse;
} all[] = {{"x: known; y, list: deduced strided", where},
           {"out: x; indices: y", reuse},
           {"x, y -> out, indices; shift axis", batch},
           {"core::add, mul, core::add.out", uses},
           {"cpu avx512 f32|f64 strided", kern},
           {"f32, f32 -> f32, bool; avx512 strided", loop_any}};

TEST("parsing survives the failure of each allocation") {
  it();
  loop_any("f32, f32 -> f32, bool", &arena);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i].parse != batch)
      texts_check_memory(all[i].text, all[i].parse); /* Parsing BATCHING allocates nothing. */
}

TEST("parsing survives arbitrary bytes") {
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    texts_check_broken(all[i].text, all[i].parse, 5000);
  char *long_text = texts_repeat("a", ", a", 100000, "");
  CHECK_STATUS(uses(long_text, &arena), TENON_OK);
  CHECK(name_count == 100001);
  CHECK_STATUS(batch(long_text, &arena), TENON_INVALID);
  CHECK(strlen(tn_error()) < 1000);
  free(long_text);
}

TEST("everything is freed") { tn_arena_clear(&arena); }
