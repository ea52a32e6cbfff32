/* Kernels that declare what a device must support: doubles, arithmetic with halves, 64-bit
 * atomics. */
#ifndef TENON_ON_DEVICE
#include <tenon/source.h>
#endif

#ifdef TENON_HAS_DOUBLES
TENON_SOURCE_3(cube, IN, double, x, OUT, double, y, VALUE, int64_t, n) {
  TENON_EACH(i, n) y[i] = x[i] * x[i] * x[i];
}
#endif
#ifdef TENON_HAS_HALVES
TENON_SOURCE_3(twice, IN, half, x, OUT, half, y, VALUE, int64_t, n) {
  TENON_EACH(i, n) y[i] = x[i] + x[i];
}
#else /* Compilers for CPUs may lack them, too. */
TENON_SOURCE_3(twice, IN, uint16_t, x, OUT, uint16_t, y, VALUE, int64_t, n) {
  TENON_EACH(i, n) store_f16(y, i, load_f16(x, i) * 2);
}
#endif
#ifdef TENON_HAS_WIDE_ATOMICS
TENON_SOURCE_2(zero_i64, OUT, int64_t, y, VALUE, int64_t, n) { TENON_EACH(i, n) y[i] = 0; }
TENON_SOURCE_3(total_i64, IN, int64_t, x, INOUT, int64_t, y, VALUE, int64_t, n) {
  TENON_EACH(i, n) atomic_add_i64(&y[i % 3], x[i]);
}

#ifdef TENON_HAS_DOUBLES
TENON_SOURCE_2(zero_f64, OUT, double, y, VALUE, int64_t, n) { TENON_EACH(i, n) y[i] = 0; }
TENON_SOURCE_3(total_f64, IN, double, x, INOUT, double, y, VALUE, int64_t, n) {
  TENON_EACH(i, n) atomic_add_f64(&y[i % 3], x[i]);
}
#endif
#endif

#ifndef TENON_ON_DEVICE
TENON_CODE(needs, {"cube", cube}, {"twice", twice}, {"zero_i64", zero_i64},
           {"total_i64", total_i64}, {"zero_f64", zero_f64}, {"total_f64", total_f64})
enum { CUBE, TWICE, ZERO_I64, TOTAL_I64, ZERO_F64, TOTAL_F64 };

static tenon_status_t each(tenon_call_t *call, uint32_t kernel) {
  int64_t n = tenon_count(call->inputs[0]);
  const tenon_kernel_argument_t arguments[] = {tenon_in(call->inputs[0]),
                                               tenon_out(call->outputs[0]), TENON_VALUE(n)};
  return tenon_each(call, &needs, kernel, n, arguments, 3);
}
static tenon_status_t cube_run(tenon_call_t *call) { return each(call, CUBE); }
static tenon_status_t twice_run(tenon_call_t *call) { return each(call, TWICE); }

/* Sums every third element. */
static tenon_status_t totals(tenon_call_t *call, uint32_t zero) {
  int64_t n = tenon_count(call->inputs[0]);
  int64_t three = 3;
  const tenon_kernel_argument_t first[] = {tenon_out(call->outputs[0]), TENON_VALUE(three)};
  TENON_TRY(tenon_each(call, &needs, zero, three, first, 2));
  const tenon_kernel_argument_t second[] = {tenon_in(call->inputs[0]),
                                            tenon_inout(call->outputs[0]), TENON_VALUE(n)};
  return tenon_each(call, &needs, zero + 1, n, second, 3);
}
static tenon_status_t totals_i64(tenon_call_t *call) { return totals(call, ZERO_I64); }
static tenon_status_t totals_f64(tenon_call_t *call) { return totals(call, ZERO_F64); }

/* clang-format off */
TENON_ITEMS(needing,
  TENON_OP("cube(Tensor x) -> Tensor",
    TENON_TYPES("x: f64; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_SOURCE("doubles", cube_run)),
  TENON_OP("twice(Tensor x) -> Tensor",
    TENON_TYPES("x: f16; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_SOURCE("halves", twice_run)),
  TENON_OP("totals(Tensor x) -> Tensor",
    TENON_TYPES("x: f64|i64; out = x"), TENON_SHAPES("x: [n]; out: [3]"), TENON_TRAITS(TENON_PURE),
    TENON_SOURCE("i64 wide_atomics", totals_i64),
    TENON_SOURCE("f64 doubles wide_atomics", totals_f64)))
/* clang-format on */
#endif
