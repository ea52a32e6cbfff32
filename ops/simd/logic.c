/* Logic on bools and on the bits of integers. A bool is true if its byte is not 0. A shift by the
 * integer's width or more, or by a negative number, gives 0.
 * Invariant: a bool is written as 0 or 1. */
#include "pointwise.h"

/* clang-format off */
/* X(operator, expression, doc) */
#define LOGICAL(X)                                                                                 \
  X(and, (a != 0) & (b != 0), "True where a and b are both true")                                  \
  X(or, (a | b) != 0, "True where a or b is true")                                                 \
  X(xor, (a != 0) != (b != 0), "True where exactly one of a and b is true")
#define BITWISE(X)                                                                                 \
  X(bitwise_and, a & b, "The bits that are set in both a and b")                                   \
  X(bitwise_or, a | b, "The bits that are set in a or b")                                          \
  X(bitwise_xor, a ^ b, "The bits that are set in exactly one of a and b")                         \
  X(shift_left, (U)b < WIDTH ? (U)a << ((U)b & (WIDTH - 1)) : 0,                                   \
    "a times 2^b, without the bits that are shifted out")                                          \
  X(shift_right, (U)b < WIDTH ? (U)(a >> ((U)b & (WIDTH - 1))) : 0,                                \
    "a divided by 2^b, rounded down; 0 if b is a's width or more")
/* clang-format on */

#define WIDTH (8 * sizeof(T))
#define DEFINE_LOGICAL(name, expression, doc)                                                      \
  LOOP2(name##_bool, uint8_t, uint8_t, a, uint8_t, b, NO_SETUP, expression)
#define DEFINE_TWO(dtype, T, W, name, expression)                                                  \
  LOOP2(name##_##dtype, T, T, a, T, b, WRAPPING(W), expression)
#define DEFINE_ONE(dtype, T, W, name) LOOP1(name##_##dtype, T, T, x, NO_SETUP, ~x)
#define DEFINE_BITWISE(name, expression, doc) INTS(DEFINE_TWO, name, expression)
LOGICAL(DEFINE_LOGICAL)
LOOP1(not_bool, uint8_t, uint8_t, x, NO_SETUP, x == 0)
BITWISE(DEFINE_BITWISE)
INTS(DEFINE_ONE, bitwise_not)

#define LOGIC_FACTS(doc, set) (TENON_DOC(doc "."), TENON_TYPES(set), POINTWISE)
#define ITEM_LOGICAL(name, expression, doc)                                                        \
  OPERATOR(name, "(Tensor a, Tensor b) -> Tensor", LOGIC_FACTS(doc, "a, b: bool; out = a"),        \
           BOOLS(ITEM2, name))
#define ITEM_BITWISE(name, expression, doc)                                                        \
  OPERATOR(name, "(Tensor a, Tensor b) -> Tensor", LOGIC_FACTS(doc, "a, b: int|uint; out = a"),    \
           INTS(ITEM2, name))

/* clang-format off */
FAMILY(core_logic,
  LOGICAL(ITEM_LOGICAL)
  OPERATOR(not, "(Tensor x) -> Tensor",
    LOGIC_FACTS("True where x is false", "x: bool; out = x"),
    BOOLS(ITEM1, not))
  BITWISE(ITEM_BITWISE)
  OPERATOR(bitwise_not, "(Tensor x) -> Tensor",
    LOGIC_FACTS("The bits that are not set in x", "x: int|uint; out = x"),
    INTS(ITEM1, bitwise_not)))
/* clang-format on */
