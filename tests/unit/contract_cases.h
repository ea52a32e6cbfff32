/* Cases for the operators of tests/libraries/contract, with inputs and results as text. One table
 * serves calls and graphs, and the library loaded, linked in, and called from another library's
 * kernels. Each case has inputs of several shapes. Results are computed by hand or by NumPy.
 * Include after operators.h. */
#ifndef TENON_TESTS_CONTRACT_CASES_H
#define TENON_TESTS_CONTRACT_CASES_H

enum {
  CASE_INPUTS = 4,
  CASE_OUTPUTS = 2,
  CASE_VARIANTS = 3,
};
/* flags */
enum {
  CASE_OPEN = 1, /* run determines the shapes of the results */
};

typedef struct contract_case_t {
  const char *op;
  const char *attrs; /* `op` is the name without its library. */
  uint32_t flags;
  struct {
    const char *inputs[CASE_INPUTS];
    const char *outputs[CASE_OUTPUTS]; /* outputs NULL: the result is not wanted */
  } variants[CASE_VARIANTS];
} contract_case_t;

/* clang-format off */
static const contract_case_t contract_cases[] = {
  {"split", "n=2; axis=1", 0, {
    {{"f32[2,4] 1 2 3 4 5 6 7 8"}, {"{f32[2,2] 1 2 5 6; f32[2,2] 3 4 7 8}"}},
    {{"f32[1,2] 1 2"}, {"{f32[1,1] 1; f32[1,1] 2}"}},
    {{"f32[0,4]"}, {"{f32[0,2]; f32[0,2]}"}}}},
  {"split", "n=3", 0, {{{"u8[3] 7 8 9"}, {"{u8[1] 7; u8[1] 8; u8[1] 9}"}}}},
  {"stack", NULL, 0, {
    {{"{i32[2] 1 2; i32[2] 3 4; i32[2] 5 6}"}, {"i32[3,2] 1 2 3 4 5 6"}},
    {{"{i32[1] 1; i32[1] 2; i32[1] 3}"}, {"i32[3,1] 1 2 3"}}}},
  {"project", "units=2", 0, {
    {{"f32[2,3] 1 2 3 4 5 6", "f32[2,3] 1 0 0 0 1 1"}, {"f32[2,2] 1 5 4 11"}},
    {{"f32[1,1] 2", "f32[2,1] 3 4"}, {"f32[1,2] 6 8"}}}},
  {"project_by_function", "units=1", 0, {
    {{"f32[2,3] 1 2 3 4 5 6", "f32[1,3] 1 10 100"}, {"f32[2,1] 321 654"}},
    {{"f32[1,2] 1 2", "f32[1,2] 5 6"}, {"f32[1,1] 17"}}}},
  {"fill", NULL, CASE_OPEN, {
    {{"f32[] 7", "i64[2] 2 3"}, {"f32[2,3] 7 7 7 7 7 7"}},
    {{"f32[] 8", "i64[2] 1 2"}, {"f32[1,2] 8 8"}},
    {{"f32[] 8", "i64[2] 3 0"}, {"f32[3,0]"}}}},
  {"nonzero", NULL, CASE_OPEN, {
    {{"f32[5] 0 3 0 -1 2"}, {"i64[3] 1 3 4"}},
    {{"f32[3] 0 0 0"}, {"i64[0]"}},
    {{"f32[2] 5 6"}, {"i64[2] 0 1"}}}},
  {"collect", "above=1.5", CASE_OPEN, {
    {{"f32[4] 1 2 3 1"}, {"f32[2] 2 3"}},
    {{"f32[2] 0 0"}, {"f32[0]"}},
    {{"f32[1] 9"}, {"f32[1] 9"}}}},
  {"strip", NULL, CASE_OPEN, {
    {{"f32[1,3,1] 1 2 3"}, {"f32[3] 1 2 3"}},
    {{"f32[1,1,1] 4"}, {"f32[] 4"}},
    {{"f32[2,1,2] 1 2 3 4"}, {"f32[2,2] 1 2 3 4"}}}},
  {"top", "k=2", 0, {
    {{"f32[2,4] 3 1 4 2 9 7 8 6"}, {"f32[2,2] 4 3 9 8", "i64[2,2] 2 0 0 2"}},
    {{"f32[1,3] -1 -2 -3"}, {"f32[1,2] -1 -2", "i64[1,2] 0 1"}}}},
  {"top", "k=1", 0, {{{"f32[3] 3 1 4"}, {"f32[1] 4", NULL}}}},
  {"transpose", NULL, 0, {
    {{"f32[2,3] 1 2 3 4 5 6"}, {"f32[3,2] 1 4 2 5 3 6"}},
    {{"f32[1,2] 1 2"}, {"f32[2,1] 1 2"}}}},
  {"tail", "first=1", 0, {
    {{"i64[3,2] 1 2 3 4 5 6"}, {"i64[2,2] 3 4 5 6"}},
    {{"i64[1,2] 1 2"}, {"i64[0,2]"}}}},
  {"flat", NULL, 0, {
    {{"f32[2,2] 1 2 3 4"}, {"f32[4] 1 2 3 4"}},
    {{"f32[1,3] 1 2 3"}, {"f32[3] 1 2 3"}}}},
  {"halves", NULL, 0, {
    {{"f32[2,3] 1 2 3 4 5 6"}, {"{f32[1,3] 1 2 3; f32[1,3] 4 5 6}"}},
    {{"f32[4,1] 1 2 3 4"}, {"{f32[2,1] 1 2; f32[2,1] 3 4}"}}}},
  {"four", NULL, 0, {
    {{"i32[2,1,2] 1 2 3 4", "i32[3,1] 10 20 30", "i32[] 100", "i32[1] 1000"},
     {"i32[2,3,2] -6529 -6528 -6559 -6558 -6589 -6588 -6527 -6526 -6557 -6556 -6587 -6586"}},
    {{"i32[1,1,1] 1", "i32[1,1] 1", "i32[] 1", "i32[2] 1 2"}, {"i32[1,1,2] -4 -11"}},
    {{"i32[1,0,1]", "i32[1,1] 1", "i32[] 1", "i32[2] 1 2"}, {"i32[1,0,2]"}}}},
  {"affine", NULL, 0, {
    {{"f32[2,2] 1 2 3 4", "f32[2] 10 100", "f32[] 5"}, {"f32[2,2] 15 205 35 405"}},
    {{"f32[1,1] 1", "f32[1] 2", "f32[] 3"}, {"f32[1,1] 5"}}}},
  {"affine", NULL, 0, {{{"f16[3] 1 2 3", NULL, "f16[] 0.5"}, {"f16[3] 1.5 2.5 3.5"}}}},
  {"affine", NULL, 0, {{{"bf16[2] 1 2", NULL, NULL}, {"bf16[2] 1 2"}}}},
  {"both", NULL, 0, {
    {{"f32[2] 5 7", "f32[1] 2"}, {"f32[2] 7 9", "f32[2] 3 5"}},
    {{"f32[1] 5", "f32[3] 1 2 3"}, {"f32[3] 6 7 8", "f32[3] 4 3 2"}}}},
  {"both", NULL, 0, {{{"f16[2] 5 7", "f16[1] 2"}, {"f16[2] 7 9", NULL}}}},
  {"clamp", "low=-1.0; high=2", 0, {
    {{"f32[4] -5 0 2 9"}, {"f32[4] -1 0 2 2"}},
    {{"f32[0]"}, {"f32[0]"}}}},
  {"product", NULL, 0, {
    {{"f32[2,2] 1 2 3 4", "f32[2,1] 10 100"}, {"f32[2,2] 10 20 300 400"}},
    {{"f32[1,3] 1 2 3", "f32[2,1] 1 -1"}, {"f32[2,3] 1 2 3 -1 -2 -3"}}}},
  {"length", NULL, 0, {
    {{"string[2,2] one 'two words' '' four"}, {"i64[2,2] 3 9 0 4"}},
    {{"string[1,1] a"}, {"i64[1,1] 1"}}}},
  {"halve", NULL, 0, {{{"f32[3] 1 2 3"}, {"f32[3] 0.5 1 1.5"}}}},
  {"softmax", NULL, 0,
   {{{"f32[2,3] 1 2 3 1 1 1"},
     {"f32[2,3] 0.09003057 0.24472848 0.66524094 0.33333334 0.33333334 0.33333334"}},
    {{"f32[1,1] 5"}, {"f32[1,1] 1"}}, {{"f32[0,4]"}, {"f32[0,4]"}}}},
  {"softmax", NULL, 0, {{{"f16[2] 2 2"}, {"f16[2] 0.5 0.5"}}}},
  {"scale", NULL, 0, {
    {{"f32[2,2] 1 2 3 4", "f32[1,2] 10 100"}, {"f32[2,2] 10 200 30 400"}},
    {{"f32[2,1] 1 2", "f32[2,1] 3 4"}, {"f32[2,1] 3 8"}}}},
  {"scale", NULL, 0, {{{"f16[3,2] 1 2 3 4 5 6", "f16[2] 1 -1"}, {"f16[3,2] 1 -2 3 -4 5 -6"}}}},
  {"peak", NULL, 0, {
    {{"f32[2,3] 1 9 3 4 5 6"}, {"f32[2] 9 6", "i64[2,1] 0 1"}},
    {{"f32[1,1] -3"}, {"f32[1] -3", "i64[1,1] 0"}}}},
  {"peak", NULL, 0, {{{"f16[2,2] 1 2 4 3"}, {"f16[2] 2 4", NULL}}}},
  {"layer_norm", "epsilon=0.0", 0,
   {{{"f32[2,2] 1 3 10 20", "f32[2] 1 2", "f32[2] 0 5"}, {"f32[2,2] -1 7 -1 7", "f32[2,1] 2 15"}},
    {{"f32[1,4] 0 0 2 2", "f32[4] 1 1 1 1", "f32[4] 0 0 0 0"},
     {"f32[1,4] -1 -1 1 1", "f32[1,1] 1"}}}},
  {"layer_norm", "epsilon=3.0", 0, {{{"f32[1,2] 1 3", NULL, NULL}, {"f32[1,2] -0.5 0.5", NULL}}}},
  {"plus_one", NULL, CASE_OPEN, {
    {{"f32[2] 1 2"}, {"f32[2] 2 3"}},
    {{"f32[0]"}, {"f32[0]"}}}},
  {"swapped", NULL, CASE_OPEN, {
    {{"f32[2,3] 1 2 3 4 5 6"}, {"f32[3,2] 1 4 2 5 3 6"}},
    {{"f32[1,2] 1 2"}, {"f32[2,1] 1 2"}}}},
  {"total", NULL, CASE_OPEN, {
    {{"f32[2,3] 1 2 3 4 5 6"}, {"f32[1] 21"}},
    {{"f32[1,1] 4"}, {"f32[1] 4"}}}},
  {"pick", NULL, CASE_OPEN, {
    {{"f32[3] 3 9 4"}, {"f32[1] 9", "i64[1] 1"}},
    {{"f32[1] 2"}, {"f32[1] 2", "i64[1] 0"}}}},
  {"median", NULL, 0, {
    {{"f32[5] 5 1 4 2 3"}, {"f32[] 3"}},
    {{"f32[2] 2 1"}, {"f32[] 1"}},
    {{"f32[9] 9 8 7 6 5 4 3 2 1"}, {"f32[] 5"}}}},
  {"upper", NULL, 0, {
    {{"string[2] ab 'c d'"}, {"string[2] AB 'C D'"}},
    {{"string[3] '' x y"}, {"string[3] '' X Y"}}}},
  {"words", NULL, CASE_OPEN, {
    {{"string[] 'one two  three '"}, {"string[3] one two three"}},
    {{"string[] ''"}, {"string[0]"}},
    {{"string[] x"}, {"string[1] x"}}}},
#if defined(__x86_64__) && defined(__ELF__) /* an operator written in assembly */
  {"negate", NULL, 0, {
    {{"f32[2,2] 1 -2 0 inf"}, {"f32[2,2] -1 2 -0 -inf"}},
    {{"f32[3,1] 1 2 3"}, {"f32[3,1] -1 -2 -3"}},
    {{"f32[0,1]"}, {"f32[0,1]"}}}},
  {"negate", NULL, 0, {{{"bf16[3] 1 2 3"}, {"bf16[3] -1 -2 -3"}}}},
#endif
  {"checksum", NULL, 0, { /* the check value of CRC-32 is that of "123456789" */
    {{"u8[9] 49 50 51 52 53 54 55 56 57"}, {"u32[] 0xcbf43926"}},
    {{"u8[0]"}, {"u32[] 0"}}}},
  {"attributes", NULL, 0, {{{NULL}, {"f32[5] 10 0 0 -1 -1"}}}},
  {"attributes", "size=hundred; text=hello; numbers=[1, 2, 39]; extra=0.5", 0,
   {{{NULL}, {"f32[5] 100 5 42 0.5 -1"}}}},
};
/* clang-format on */
enum { CONTRACT_CASES = sizeof contract_cases / sizeof *contract_cases };

static inline bool case_has(const contract_case_t *c, int variant) {
  return c->variants[variant].outputs[0] != NULL;
}

static inline const tenon_op_t *case_op(const contract_case_t *c, const char *library) {
  char name[96];
  snprintf(name, sizeof name, "%s::%s", library, c->op);
  return op_of(name);
}

/* Checks the results of one variant against the table. */
static inline void check_results(const contract_case_t *c, int variant, const char *how,
                                 tenon_tensor_t *const *outputs, int32_t count) {
  for (int32_t o = 0; o < count && o < CASE_OUTPUTS; o++) {
    const char *expected = c->variants[variant].outputs[o];
    if (check_tensor(outputs[o], expected, 1e-6, __FILE__, __LINE__)) continue;
    fprintf(stderr, "  in %s, variant %d, %s\n", c->op, variant, how);
  }
}

#endif
