/* Pointwise operators of i32, i64 and bool, for devices that compile. The formulas are those of
 * ../simd/. Integers wrap.
 * Invariant: a bool is written as 0 or 1. */
#ifndef TENON_ON_DEVICE
#include "launch.h"
#endif

#define DEFINE_QUOTIENT(d, T, U)                                                                   \
  FUNCTION T d##_quotient(T a, T b) {                                                              \
    if (b == 0) return 0;                                                                          \
    return b == -1 ? (T)(0 - (U)a) : a / b;                                                        \
  }
DEFINE_QUOTIENT(i32, int32_t, uint32_t)
DEFINE_QUOTIENT(i64, int64_t, uint64_t)

/* clang-format off */
/* X(operator, expression); T is the type, U the unsigned type of the same width, in which nothing
 * overflows */
#define UNARY(X, d, T, U)                                                                          \
  X(abs, d, T, x < 0 ? (T)(0 - (U)x) : x)                                                          \
  X(neg, d, T, (T)(0 - (U)x))                                                                      \
  X(sign, d, T, (x > 0) - (x < 0))                                                                 \
  X(relu, d, T, x < 0 ? 0 : x)                                                                     \
  X(bitwise_not, d, T, ~x)
#define BINARY(X, d, T, U)                                                                         \
  X(add, d, T, (T)((U)a + (U)b))                                                                   \
  X(sub, d, T, (T)((U)a - (U)b))                                                                   \
  X(mul, d, T, (T)((U)a * (U)b))                                                                   \
  X(div, d, T, d##_quotient(a, b))                                                                 \
  X(min, d, T, a < b ? a : b)                                                                      \
  X(max, d, T, a > b ? a : b)                                                                      \
  X(bitwise_and, d, T, a & b)                                                                      \
  X(bitwise_or, d, T, a | b)                                                                       \
  X(bitwise_xor, d, T, a ^ b)
#define TESTS(X, d, T)                                                                             \
  X(equal, d, T, a == b)                                                                           \
  X(not_equal, d, T, a != b)                                                                       \
  X(less, d, T, a < b)                                                                             \
  X(less_equal, d, T, a <= b)                                                                      \
  X(greater, d, T, a > b)                                                                          \
  X(greater_equal, d, T, a >= b)
#define LOGIC(X, d, T)                                                                             \
  X(and, d, T, a != 0 && b != 0)                                                                   \
  X(or, d, T, a != 0 || b != 0)                                                                    \
  X(xor, d, T, (a != 0) != (b != 0))                                                               \
  X(equal, d, T, (a != 0) == (b != 0))                                                             \
  X(not_equal, d, T, (a != 0) != (b != 0))
#define NOT(X, d, T) X(not, d, T, x == 0)
#define ALL_ONE(X)                                                                                 \
  NOT(X, bool, uint8_t)                                                                            \
  UNARY(X, i32, int32_t, uint32_t)                                                                 \
  UNARY(X, i64, int64_t, uint64_t)
#define ALL_TWO(X)                                                                                 \
  BINARY(X, i32, int32_t, uint32_t)                                                                \
  BINARY(X, i64, int64_t, uint64_t)                                                                \
  LOGIC(X, bool, uint8_t)
/* clang-format on */
#define ALL_TESTS(X) TESTS(X, i32, int32_t) TESTS(X, i64, int64_t)

#define DEFINE_ONE(name, d, T, expression)                                                         \
  TENON_POINTWISE_1(d##_##name, T, IN, T, x) { return (T)(expression); }
#define DEFINE_TWO(name, d, T, expression)                                                         \
  TENON_POINTWISE_2(d##_##name, T, IN, T, a, IN, T, b) { return (T)(expression); }
#define DEFINE_TEST(name, d, T, expression)                                                        \
  TENON_POINTWISE_2(d##_##name, uint8_t, IN, T, a, IN, T, b) { return expression; }
ALL_ONE(DEFINE_ONE)
ALL_TWO(DEFINE_TWO)
ALL_TESTS(DEFINE_TEST)

#ifndef TENON_ON_DEVICE
#define NUMBER(name, d, T, expression) K_##d##_##name,
enum { ALL_ONE(NUMBER) ALL_TWO(NUMBER) ALL_TESTS(NUMBER) K_COUNT };
#define KERNEL(name, d, T, expression) {#d "_" #name, d##_##name},
TENON_CODE(core_source_integers_code, ALL_ONE(KERNEL) ALL_TWO(KERNEL) ALL_TESTS(KERNEL))

#define RUN(name, d, T, expression)                                                                \
  TENON_POINTWISE_RUN(core_source_integers_code, K_##d##_##name, d##_##name)
ALL_ONE(RUN)
ALL_TWO(RUN)
ALL_TESTS(RUN)

#define ITEM(name, d, T, expression)                                                               \
  , TENON_EXTEND("core::" #name, TENON_SOURCE(#d " strided capturable", d##_##name##_run))
/* clang-format off */
TENON_ITEMS(core_source_integers,
  TENON_EXTEND("core::not", TENON_SOURCE("bool strided capturable", bool_not_run))
  UNARY(ITEM, i32, int32_t, uint32_t)
  UNARY(ITEM, i64, int64_t, uint64_t)
  ALL_TWO(ITEM)
  ALL_TESTS(ITEM))
/* clang-format on */
#endif
