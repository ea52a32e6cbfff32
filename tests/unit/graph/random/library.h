/* The library `rnd` of custom operators that random graphs use: loops and kernels of rows, of f32
 * and f64, and a rewriting rule. */
#ifndef TENON_TESTS_RANDOM_LIBRARY_H
#define TENON_TESTS_RANDOM_LIBRARY_H

#include <tenon/graph.h>
#include <tenon/op.h>

#define LOOP_KERNELS(T, suffix)                                                                    \
  static tenon_status_t bend_##suffix(const tenon_loop_t *loop) {                                  \
    const T *x = loop->data[0];                                                                    \
    T *out = loop->data[1];                                                                        \
    for (int64_t i = 0; i < loop->count; i++)                                                      \
      out[i] = x[i] - x[i] * x[i] / 16;                                                            \
    return TENON_OK;                                                                               \
  }                                                                                                \
  static tenon_status_t blend_##suffix(const tenon_loop_t *loop) {                                 \
    const T *a = loop->data[0];                                                                    \
    const T *b = loop->data[1];                                                                    \
    T *out = loop->data[2];                                                                        \
    for (int64_t i = 0; i < loop->count; i++)                                                      \
      out[i] = a[i] / 2 + b[i] / 4;                                                                \
    return TENON_OK;                                                                               \
  }                                                                                                \
  static tenon_status_t rectified_##suffix(const tenon_loop_t *loop) {                             \
    const T *a = loop->data[0];                                                                    \
    const T *b = loop->data[1];                                                                    \
    T *out = loop->data[2];                                                                        \
    for (int64_t i = 0; i < loop->count; i++)                                                      \
      out[i] = (a[i] > 0 ? a[i] : 0) * b[i];                                                       \
    return TENON_OK;                                                                               \
  }                                                                                                \
  static tenon_status_t centre_##suffix(const tenon_loop_t *loop) {                                \
    for (int64_t r = 0; r < loop->rows; r++) {                                                     \
      const T *x = (const T *)(const void *)((const char *)loop->data[0] + r * loop->stride[0]);   \
      T *out = (T *)(void *)((char *)loop->data[1] + r * loop->stride[1]);                         \
      T sum = 0;                                                                                   \
      for (int64_t i = 0; i < loop->count; i++)                                                    \
        sum += x[i];                                                                               \
      for (int64_t i = 0; i < loop->count; i++)                                                    \
        out[i] = x[i] - sum / (T)loop->count;                                                      \
    }                                                                                              \
    return TENON_OK;                                                                               \
  }                                                                                                \
  static tenon_status_t weigh_##suffix(const tenon_loop_t *loop) {                                 \
    for (int64_t r = 0; r < loop->rows; r++) {                                                     \
      const T *x = (const T *)(const void *)((const char *)loop->data[0] + r * loop->stride[0]);   \
      const T *by = (const T *)(const void *)((const char *)loop->data[1] + r * loop->stride[1]);  \
      T *out = (T *)(void *)((char *)loop->data[2] + r * loop->stride[2]);                         \
      for (int64_t i = 0; i < loop->count; i++)                                                    \
        out[i] = x[i] * by[i] / 2;                                                                 \
    }                                                                                              \
    return TENON_OK;                                                                               \
  }

LOOP_KERNELS(float, f32)
LOOP_KERNELS(double, f64)
#undef LOOP_KERNELS

#define POINTWISE TENON_TRAITS(TENON_PURE | TENON_POINTWISE)
#define ROWS "x: [..., k]; out: [..., k]"

/* clang-format off */
static const tenon_item_t random_items[] = {
  TENON_REWRITE("rectified: core::mul(core::relu(x), y) -> rectified(x, y)"),
  TENON_OP("bend(Tensor x) -> Tensor",
    TENON_TYPES("x: bf16|f16|f32|f64; out = x"), POINTWISE,
    TENON_LOOP("f32 -> f32", bend_f32), TENON_LOOP("f64 -> f64", bend_f64)),
  TENON_OP("blend(Tensor a, Tensor b) -> Tensor",
    TENON_TYPES("a, b: bf16|f16|f32|f64; out = a"), POINTWISE,
    TENON_LOOP("f32, f32 -> f32", blend_f32), TENON_LOOP("f64, f64 -> f64", blend_f64)),
  TENON_OP("rectified(Tensor x, Tensor y) -> Tensor",
    TENON_TYPES("x, y: bf16|f16|f32|f64; out = x"), POINTWISE,
    TENON_LOOP("f32, f32 -> f32", rectified_f32), TENON_LOOP("f64, f64 -> f64", rectified_f64)),
  TENON_OP("centre(Tensor x) -> Tensor",
    TENON_TYPES("x: bf16|f16|f32|f64; out = x"), TENON_SHAPES(ROWS), TENON_TRAITS(TENON_PURE),
    TENON_ROW("f32 -> f32", centre_f32), TENON_ROW("f64 -> f64", centre_f64)),
  TENON_OP("weigh(Tensor x, Tensor by) -> Tensor",
    TENON_TYPES("x, by: bf16|f16|f32|f64; out = x"), TENON_SHAPES("by: [..., k]; " ROWS),
    TENON_TRAITS(TENON_PURE),
    TENON_ROW("f32, f32 -> f32", weigh_f32), TENON_ROW("f64, f64 -> f64", weigh_f64)),
  {TENON_TAG_END, 0, 0, 0, 0}};
/* clang-format on */

static const tenon_descriptor_t random_library = {
    sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "rnd", "1.0.0", random_items};

#endif
