/* blocks.c: four operators of the kinds that people add to models, two loops and two kernels of
 * rows. bench/regions.py and tests/acceptance/regions_test.py build it with `tenon build`. */
#include <math.h>
#include <tenon/op.h>

/* One function for each instruction set: the loader takes the one that the processor has. */
#if defined __x86_64__ && defined __gnu_linux__
#define CLONED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONED
#endif

CLONED static tenon_status_t affine_f32(const tenon_loop_t *loop) {
  const float *x = (const float *)loop->data[0];
  float *out = (float *)loop->data[1];
  const float scale = (float)loop->attrs[0].as.f;
  const float shift = (float)loop->attrs[1].as.f;
  for (int64_t i = 0; i < loop->count; i++)
    out[i] = x[i] * scale + shift;
  return TENON_OK;
}

CLONED static tenon_status_t gate_f32(const tenon_loop_t *loop) {
  const float *x = (const float *)loop->data[0];
  const float *by = (const float *)loop->data[1];
  float *out = (float *)loop->data[2];
  for (int64_t i = 0; i < loop->count; i++)
    out[i] = x[i] * (by[i] > 0 ? by[i] : 0);
  return TENON_OK;
}

static float *row_of(const tenon_loop_t *loop, int operand, int64_t row) {
  return (float *)(void *)((char *)loop->data[operand] + row * loop->stride[operand]);
}

/* Sums in eight parts, which the compiler keeps side by side. */
static float sum_of(const float *x, int64_t count) {
  float parts[8] = {0};
  float sum = 0;
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int k = 0; k < 8; k++)
      parts[k] += x[i + k];
  for (; i < count; i++)
    sum += x[i];
  for (int k = 0; k < 8; k++)
    sum += parts[k];
  return sum;
}

CLONED static tenon_status_t centre_f32(const tenon_loop_t *loop) {
  for (int64_t r = 0; r < loop->rows; r++) {
    const float *x = row_of(loop, 0, r);
    float *out = row_of(loop, 1, r);
    const float mean = sum_of(x, loop->count) / (float)loop->count;
    for (int64_t i = 0; i < loop->count; i++)
      out[i] = x[i] - mean;
    *row_of(loop, 2, r) = mean;
  }
  return TENON_OK;
}

CLONED static tenon_status_t rms_f32(const tenon_loop_t *loop) {
  for (int64_t r = 0; r < loop->rows; r++) {
    const float *x = row_of(loop, 0, r);
    const float *gain = row_of(loop, 1, r);
    float *out = row_of(loop, 2, r);
    for (int64_t i = 0; i < loop->count; i++)
      out[i] = x[i] * x[i];
    const float by = 1 / sqrtf(sum_of(out, loop->count) / (float)loop->count + 1e-5f);
    for (int64_t i = 0; i < loop->count; i++)
      out[i] = x[i] * by * gain[i];
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(blocks, "1.0.0",
  TENON_OP("affine(Tensor x, *, float scale=1.0, float shift=0.0) -> Tensor",
    TENON_TYPES("x: f16|bf16|f32; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_LOOP("f32 -> f32", affine_f32)),
  TENON_OP("gate(Tensor x, Tensor by) -> Tensor",
    TENON_TYPES("x, by: f16|bf16|f32; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_LOOP("f32, f32 -> f32", gate_f32)),
  TENON_OP("centre(Tensor x) -> (Tensor out, Tensor mean)",
    TENON_TYPES("x: f16|bf16|f32; out = x; mean = x"),
    TENON_SHAPES("x: [..., k]; out: [..., k]; mean: [..., 1]"),
    TENON_TRAITS(TENON_PURE),
    TENON_ROW("f32 -> f32, f32", centre_f32)),
  TENON_OP("rms(Tensor x, Tensor gain) -> Tensor",
    TENON_TYPES("x, gain: f16|bf16|f32; out = x"),
    TENON_SHAPES("x: [..., k]; gain: [k]; out: [..., k]"),
    TENON_TRAITS(TENON_PURE),
    TENON_ROW("f32, f32 -> f32", rms_f32)))
/* clang-format on */
