/* Operators of the library `contract` as row kernels: they get whole rows of the last axis, rows
 * that are shared, and results with one element for each row. */
#include <math.h>

#include "contract.h"

static tenon_status_t softmax_f32(const tenon_loop_t *loop) {
  for (int64_t r = 0; r < loop->rows; r++) {
    const float *x =
        (const float *)(const void *)((const char *)loop->data[0] + r * loop->stride[0]);
    float *out = (float *)(void *)((char *)loop->data[1] + r * loop->stride[1]);
    float most = -INFINITY;
    float sum = 0;
    for (int64_t i = 0; i < loop->count; i++)
      most = x[i] > most ? x[i] : most;
    for (int64_t i = 0; i < loop->count; i++)
      sum += out[i] = expf(x[i] - most);
    for (int64_t i = 0; i < loop->count; i++)
      out[i] /= sum;
  }
  return TENON_OK;
}

static tenon_status_t scale_f32(const tenon_loop_t *loop) {
  for (int64_t r = 0; r < loop->rows; r++) {
    const float *x =
        (const float *)(const void *)((const char *)loop->data[0] + r * loop->stride[0]);
    const float *gain =
        (const float *)(const void *)((const char *)loop->data[1] + r * loop->stride[1]);
    float *out = (float *)(void *)((char *)loop->data[2] + r * loop->stride[2]);
    for (int64_t i = 0; i < loop->count; i++)
      out[i] = x[i] * gain[i];
  }
  return TENON_OK;
}

static tenon_status_t peak_f32(const tenon_loop_t *loop) {
  for (int64_t r = 0; r < loop->rows; r++) {
    const float *x =
        (const float *)(const void *)((const char *)loop->data[0] + r * loop->stride[0]);
    float most = -INFINITY;
    for (int64_t i = 0; i < loop->count; i++)
      most = x[i] > most ? x[i] : most;
    *(float *)(void *)((char *)loop->data[1] + r * loop->stride[1]) = most;
    if (loop->data[2])
      *(int64_t *)(void *)((char *)loop->data[2] + r * loop->stride[2]) = (int64_t)loop->first + r;
  }
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(contract_rows,
  TENON_OP("softmax(Tensor x) -> Tensor",
    TENON_TYPES("x: bf16|f16|f32; out = x"),
    TENON_SHAPES("x: [..., k]; out: [..., k]"),
    TENON_TRAITS(TENON_PURE),
    TENON_ROW("f32 -> f32", softmax_f32)),
  TENON_OP("scale(Tensor x, Tensor gain) -> Tensor",
    TENON_TYPES("x, gain: f16|f32; out = x"),
    TENON_SHAPES("x: [..., k]; gain: [..., k]; out: [..., k]"),
    TENON_TRAITS(TENON_PURE),
    TENON_ROW("f32, f32 -> f32", scale_f32)),
  TENON_OP("peak(Tensor x) -> (Tensor out, Tensor? row)",
    TENON_TYPES("x: f16|f32; out = x; row = i64"),
    TENON_SHAPES("x: [..., k]; out: [...]; row: [..., 1]"),
    TENON_TRAITS(TENON_PURE),
    TENON_ROW("f32 -> f32, i64", peak_f32)))
