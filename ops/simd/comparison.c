/* Comparisons: two elements of one dtype, or one float, give a bool. A comparison with NaN is
 * false, except not_equal. Strings are equal if their bytes are; they have no order here.
 * Invariant: a result is the byte 0 or 1. */
#include "pointwise.h"

/* clang-format off */
/* X(operator, sign, doc) */
#define EQUALITIES(X)                                                                              \
  X(equal, ==, "True where a and b are equal")                                                     \
  X(not_equal, !=, "True where a and b are not equal")
#define ORDERS(X)                                                                                  \
  X(less, <, "True where a is less than b")                                                        \
  X(less_equal, <=, "True where a is less than or equal to b")                                     \
  X(greater, >, "True where a is greater than b")                                                  \
  X(greater_equal, >=, "True where a is greater than or equal to b")
/* clang-format on */

static inline int same_text(tenon_string_t a, tenon_string_t b) {
  return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

#define DEFINE_ONE(dtype, T, U, name, sign)                                                        \
  LOOP2(name##_##dtype, uint8_t, T, a, T, b, NO_SETUP, a sign b)
#define DEFINE_ORDER(name, sign, doc) NUMBERS(DEFINE_ONE, name, sign)
#define DEFINE_EQUALITY(name, sign, doc)                                                           \
  NUMBERS(DEFINE_ONE, name, sign)                                                                  \
  LOOP2(name##_bool, uint8_t, uint8_t, a, uint8_t, b, NO_SETUP, (a != 0) sign(b != 0))             \
  LOOP2(name##_string, uint8_t, tenon_string_t, a, tenon_string_t, b, NO_SETUP,                    \
        same_text(a, b) sign 1)
EQUALITIES(DEFINE_EQUALITY)
ORDERS(DEFINE_ORDER)

#define DEFINE_CLASSES(dtype, T, U, ...)                                                           \
  LOOP1(is_nan_##dtype, uint8_t, T, x, NO_SETUP, x != x)                                           \
  LOOP1(is_inf_##dtype, uint8_t, T, x,                                                             \
        const T negative = (T)(loop->attrs[0].as.i ? -INFINITY : NAN);                             \
        const T positive = (T)(loop->attrs[1].as.i ? INFINITY : NAN);                              \
        , (x == negative) | (x == positive))
FLOATS(DEFINE_CLASSES, 0)

#define COMPARISON_FACTS(doc, set) (TENON_DOC(doc "."), TENON_TYPES(set), POINTWISE)
#define ITEM_EQUALITY(name, sign, doc)                                                             \
  OPERATOR(name, "(Tensor a, Tensor b) -> Tensor",                                                 \
           COMPARISON_FACTS(doc, "a, b: number|bool|string; out = bool"),                          \
           NUMBERS(ITEM_TEST2, name) BOOLS(ITEM_TEST2, name)                                       \
               LOOP("string, string -> bool", name##_string))
#define ITEM_ORDER(name, sign, doc)                                                                \
  OPERATOR(name, "(Tensor a, Tensor b) -> Tensor",                                                 \
           COMPARISON_FACTS(doc, "a, b: number; out = bool"), NUMBERS(ITEM_TEST2, name))
#define CLASSED                                                                                    \
  "x: float|f8e3m4|f8e4m3|f8e4m3b11fnuz|f8e4m3fn|f8e4m3fnuz|f8e5m2|f8e5m2fnuz|f8e8m0; out = bool"

/* clang-format off */
FAMILY(core_comparison,
  EQUALITIES(ITEM_EQUALITY)
  ORDERS(ITEM_ORDER)
  OPERATOR(is_nan, "(Tensor x) -> Tensor",
    COMPARISON_FACTS("True where x is NaN", CLASSED),
    FLOATS(ITEM_TEST1, is_nan))
  OPERATOR(is_inf, "(Tensor x, *, bool negative=True, bool positive=True) -> Tensor",
    COMPARISON_FACTS("True where x is infinite with one of the requested signs", CLASSED),
    FLOATS(ITEM_TEST1, is_inf)))
/* clang-format on */
