/* gained: rows times a gain. Defect: it advances to the next row of the gain where all rows share
 * one row.
 * Found as: broadcast.rows */
#include "defect.h"

static tenon_status_t gained(const tenon_loop_t *loop) {
  for (int64_t r = 0; r < loop->rows; r++) {
    const float *x =
        (const float *)(const void *)((const char *)loop->data[0] + r * loop->stride[0]);
    int64_t step = loop->stride[1];
    if (PLANTED(!step, 0)) step = loop->widths[1] * 4;
    const float *gain = (const float *)(const void *)((const char *)loop->data[1] + r * step);
    float *out = (float *)(void *)((char *)loop->data[2] + r * loop->stride[2]);
    for (int64_t i = 0; i < loop->count; i++)
      out[i] = x[i] * gain[i];
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("gained(Tensor x, Tensor gain) -> Tensor",
    TENON_TYPES("x, gain: f32; out = x"),
    TENON_SHAPES("x: [..., k]; gain: [..., k]; out: [..., k]"), PURE,
    TENON_ROW("f32, f32 -> f32", gained)))
