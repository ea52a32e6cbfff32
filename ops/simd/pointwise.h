/* Shared by the families of pointwise operators: tables of dtypes, and loops made from one
 * expression. A table row names an operator, an expression of its operands, a line of documentation
 * and a gradient. Gradients are written for operands with the shape of the result; the tape sums
 * them over broadcast axes.
 * Invariant: the operands of a loop do not overlap (src/drivers/loop.c), so the pointers are
 * `restrict`. */
#ifndef TENON_OPS_POINTWISE_H
#define TENON_OPS_POINTWISE_H

#include "isa.h"
#include "math.h"

/* clang-format off */
/* X(dtype, type, unsigned type of at least 32 bits, in which arithmetic wraps, ...) */
#define FLOATS(X, ...) X(f32, float, float, __VA_ARGS__) X(f64, double, double, __VA_ARGS__)
#define SIGNED(X, ...)                                                                             \
  X(i8, int8_t, uint32_t, __VA_ARGS__)                                                             \
  X(i16, int16_t, uint32_t, __VA_ARGS__)                                                           \
  X(i32, int32_t, uint32_t, __VA_ARGS__)                                                           \
  X(i64, int64_t, uint64_t, __VA_ARGS__)
#define UNSIGNED(X, ...)                                                                           \
  X(u8, uint8_t, uint32_t, __VA_ARGS__)                                                            \
  X(u16, uint16_t, uint32_t, __VA_ARGS__)                                                          \
  X(u32, uint32_t, uint32_t, __VA_ARGS__)                                                          \
  X(u64, uint64_t, uint64_t, __VA_ARGS__)
/* clang-format on */
#define INTS(X, ...) SIGNED(X, __VA_ARGS__) UNSIGNED(X, __VA_ARGS__)
#define NUMBERS(X, ...) FLOATS(X, __VA_ARGS__) INTS(X, __VA_ARGS__)
#define BOOLS(X, ...) X(bool, uint8_t, uint32_t, __VA_ARGS__)

/* A file defines it before it includes this one if its loops do so little that counting costs as
 * much. */
#ifndef LOOP_UNROLL
#define LOOP_UNROLL
#endif
/* Loops over one operand x or two operands; `setup` declares the attributes that the expression
 * uses. T is the type of the first operand. */
#define LOOP1(function, OUT, X, x, setup, expression)                                              \
  static tenon_status_t function(const tenon_loop_t *loop) {                                       \
    typedef X T;                                                                                   \
    const int64_t count_ = loop->count;                                                            \
    const T *restrict x_ = (const T *)loop->data[0];                                               \
    OUT *restrict out_ = (OUT *)loop->data[1];                                                     \
    setup;                                                                                         \
    LOOP_UNROLL                                                                                    \
    for (int64_t i_ = 0; i_ < count_; i_++) {                                                      \
      const T x = x_[i_];                                                                          \
      out_[i_] = (OUT)(expression);                                                                \
    }                                                                                              \
    return TENON_OK;                                                                               \
  }
#define LOOP2(function, OUT, X, x, Y, y, setup, expression)                                        \
  static tenon_status_t function(const tenon_loop_t *loop) {                                       \
    typedef X T;                                                                                   \
    const int64_t count_ = loop->count;                                                            \
    const T *restrict x_ = (const T *)loop->data[0];                                               \
    const Y *restrict y_ = (const Y *)loop->data[1];                                               \
    OUT *restrict out_ = (OUT *)loop->data[2];                                                     \
    setup;                                                                                         \
    LOOP_UNROLL                                                                                    \
    for (int64_t i_ = 0; i_ < count_; i_++) {                                                      \
      const T x = x_[i_];                                                                          \
      const Y y = y_[i_];                                                                          \
      out_[i_] = (OUT)(expression);                                                                \
    }                                                                                              \
    return TENON_OK;                                                                               \
  }
/* Gives the gradients of two operands a and b for a gradient `dy`; either output may be absent. */
#define LOOP_BOTH(function, A, B, setup, da, db)                                                   \
  static tenon_status_t function(const tenon_loop_t *loop) {                                       \
    typedef A T;                                                                                   \
    const int64_t count_ = loop->count;                                                            \
    const T *restrict dy_ = (const T *)loop->data[0];                                              \
    const T *restrict a_ = (const T *)loop->data[1];                                               \
    const B *restrict b_ = (const B *)loop->data[2];                                               \
    T *restrict da_ = (T *)loop->data[3];                                                          \
    B *restrict db_ = (B *)loop->data[4];                                                          \
    for (int64_t i_ = 0; i_ < count_; i_++) {                                                      \
      const T dy = dy_[i_];                                                                        \
      const T a = a_[i_];                                                                          \
      const B b = b_[i_];                                                                          \
      setup;                                                                                       \
      if (da_) da_[i_] = (T)(da);                                                                  \
      if (db_) db_[i_] = (B)(db);                                                                  \
    }                                                                                              \
    return TENON_OK;                                                                               \
  }
#define NO_SETUP
#define ATTR(name, index) const T name = (T)loop->attrs[index].as.f;
/* For expressions of integers: U is the unsigned type W, in which nothing overflows. */
#define WRAPPING(W)                                                                                \
  typedef W U;                                                                                     \
  (void)sizeof(U);

/* clang-format off */
/* Gradients of one operand x, as rows X(operator, gradient of x, ", *, attributes", ", name=name"
 * for each attribute, set-up, expression of dy and x, doc). They are linear in dy; their gradient
 * with respect to x is stated, "none" or "error". */
#define DERIVATIVE(name) "dy times the derivative of " name " at x"
#define DEFINE_BACKWARD_(dtype, T, U, name, setup, expression)                                     \
  LOOP2(name##_##dtype, T, T, dy, T, x, ISA_LIST setup, expression)
#define DEFINE_BACKWARD(name, of_x, attributes, passed, setup, expression, doc)                    \
  FLOATS(DEFINE_BACKWARD_, name, (setup), expression)
#define ITEM_BACKWARD(name, of_x, attributes, passed, setup, expression, doc)                      \
  OPERATOR(name, "(Tensor dy, Tensor x" attributes ") -> Tensor",                                  \
    FACTS(doc, "dy, x: float; out = x", "dy: core::" #name "(grad, x" passed "); x: " of_x),       \
    FLOATS(ITEM2, name))

/* Items for the loops of operator `name`, which are functions name_<dtype>. */
#define ITEM1(dtype, T, U, name) LOOP(#dtype " -> " #dtype, name##_##dtype)
#define ITEM2(dtype, T, U, name) LOOP(#dtype ", " #dtype " -> " #dtype, name##_##dtype)
#define ITEM_TEST1(dtype, T, U, name) LOOP(#dtype " -> bool", name##_##dtype)
#define ITEM_TEST2(dtype, T, U, name) LOOP(#dtype ", " #dtype " -> bool", name##_##dtype)
#define ITEM_BOTH(dtype, T, U, name)                                                               \
  LOOP(#dtype ", " #dtype ", " #dtype " -> " #dtype ", " #dtype, name##_##dtype)

#define POINTWISE TENON_TRAITS(TENON_PURE | TENON_POINTWISE)
/* The facts of an operator, as OPERATOR takes them. */
#define FACTS(doc, types, gradient)                                                                \
  (TENON_DOC(doc "."), TENON_TYPES(types), POINTWISE, TENON_GRADIENT(gradient))
/* clang-format on */

#endif
