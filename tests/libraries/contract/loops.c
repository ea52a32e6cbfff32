/* Operators of the library `contract` as loops: a loop gets dense runs of elements, and the host
 * does everything else. */
#include "contract.h"

static tenon_status_t copy_f32(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++)
    ((float *)loop->data[1])[i] = ((const float *)loop->data[0])[i];
  return TENON_OK;
}

static tenon_status_t copy_f64(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++)
    ((double *)loop->data[1])[i] = ((const double *)loop->data[0])[i];
  return TENON_OK;
}

static tenon_status_t
/* The sum of all inputs; the last operand is the result. */
sum_f32(const tenon_loop_t *loop) {
  int n = tenon_dtype_id(loop->attrs[0].as.dtype) == TENON_F32 ? 7 : 4;
  float *out = (float *)loop->data[n];
  for (int64_t i = 0; i < loop->count; i++) {
    float sum = 0;
    for (int k = 0; k < n; k++)
      sum += ((const float *)loop->data[k])[i];
    out[i] = sum;
  }
  return TENON_OK;
}

static tenon_status_t
/* The operator is not symmetric, so that swapped operands show. */
four_i32(const tenon_loop_t *loop) {
  const int32_t *a = (const int32_t *)loop->data[0];
  const int32_t *b = (const int32_t *)loop->data[1];
  const int32_t *c = (const int32_t *)loop->data[2];
  const int32_t *d = (const int32_t *)loop->data[3];
  for (int64_t i = 0; i < loop->count; i++)
    ((int32_t *)loop->data[4])[i] = a[i] - 3 * b[i] + 5 * c[i] - 7 * d[i];
  return TENON_OK;
}

static tenon_status_t affine_f32(const tenon_loop_t *loop) {
  const float *x = (const float *)loop->data[0];
  const float *scale = (const float *)loop->data[1];
  const float *shift = (const float *)loop->data[2];
  for (int64_t i = 0; i < loop->count; i++)
    ((float *)loop->data[3])[i] = x[i] * (scale ? scale[i] : 1) + (shift ? shift[i] : 0);
  return TENON_OK;
}

static tenon_status_t both_f32(const tenon_loop_t *loop) {
  const float *a = (const float *)loop->data[0];
  const float *b = (const float *)loop->data[1];
  float *sum = (float *)loop->data[2];
  float *difference = (float *)loop->data[3];
  for (int64_t i = 0; i < loop->count; i++) {
    float s = a[i] + b[i];
    float t = a[i] - b[i];
    sum[i] = s;
    if (difference) difference[i] = t;
  }
  return TENON_OK;
}

static tenon_status_t position_i64(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++)
    ((int64_t *)loop->data[1])[i] = (int64_t)loop->first + i;
  return TENON_OK;
}

static tenon_status_t clamp_f32(const tenon_loop_t *loop) {
  float low = (float)loop->attrs[0].as.f;
  float high = (float)loop->attrs[1].as.f;
  for (int64_t i = 0; i < loop->count; i++) {
    float x = ((const float *)loop->data[0])[i];
    ((float *)loop->data[1])[i] = x < low ? low : x > high ? high : x;
  }
  return TENON_OK;
}

static tenon_status_t clamp_validate(tenon_node_t *node) {
  if (node->attrs[0].as.f <= node->attrs[1].as.f) return TENON_OK;
  return tenon_fail(node, TENON_INVALID, "low %g is above high %g", node->attrs[0].as.f,
                    node->attrs[1].as.f);
}

static tenon_status_t refuse_f32(const tenon_loop_t *loop) { /* fails while it runs */
  float above = (float)loop->attrs[0].as.f;
  for (int64_t i = 0; i < loop->count; i++) {
    float x = ((const float *)loop->data[0])[i];
    if (x > above)
      return tenon_fail(loop, TENON_RANGE, "element %llu is %g: expected at most %g",
                        (unsigned long long)loop->first + (unsigned long long)i, (double)x,
                        (double)above);
    ((float *)loop->data[1])[i] = x;
  }
  return TENON_OK;
}

static tenon_status_t
/* Uses the strides: a stride of 0 is a shared element. */
stride_f32(const tenon_loop_t *loop) {
  const char *a = (const char *)loop->data[0];
  const char *b = (const char *)loop->data[1];
  char *out = (char *)loop->data[2];
  for (int64_t i = 0; i < loop->count; i++)
    *(float *)(void *)(out + i * loop->stride[2]) =
        *(const float *)(const void *)(a + i * loop->stride[0]) *
        *(const float *)(const void *)(b + i * loop->stride[1]);
  return TENON_OK;
}

static tenon_status_t length_string(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++)
    ((int64_t *)loop->data[1])[i] = (int64_t)((const tenon_string_t *)loop->data[0])[i].size;
  return TENON_OK;
}

static tenon_status_t halve_f32(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++)
    ((float *)loop->data[1])[i] = ((const float *)loop->data[0])[i] / 2;
  return TENON_OK;
}

#define POINTWISE TENON_TRAITS(TENON_PURE | TENON_POINTWISE)
#define FLOATS                                                                                     \
  "f8e3m4|f8e4m3|f8e4m3b11fnuz|f8e4m3fn|f8e4m3fnuz|f8e5m2|f8e5m2fnuz|f8e8m0|bf16|f16|f32|f64"

/* clang-format off */
TENON_ITEMS(contract_loops,
  TENON_OP("same(Tensor x, *, dtype to=f32) -> Tensor",
    TENON_DOC("The same number in another float, by the conversions around a loop"),
    TENON_TYPES("x: " FLOATS "; out = to"), POINTWISE,
    TENON_LOOP("f32 -> f32", copy_f32),
    TENON_LOOP("f64 -> f64", copy_f64)),
  TENON_OP("sum(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, Tensor f, Tensor g, *, "
           "dtype all=f32) -> Tensor",
    TENON_TYPES("a, b, c, d, e, f, g: f16|f32; out = a"), POINTWISE,
    TENON_LOOP("f32, f32, f32, f32, f32, f32, f32 -> f32", sum_f32)),
  TENON_OP("four(Tensor a, Tensor b, Tensor c, Tensor d) -> Tensor",
    TENON_TYPES("a, b, c, d: i32; out = a"), POINTWISE,
    TENON_LOOP("i32, i32, i32, i32 -> i32", four_i32)),
  TENON_OP("affine(Tensor x, Tensor? scale=None, Tensor? shift=None) -> Tensor",
    TENON_TYPES("x, scale, shift: bf16|f16|f32; out = x"), POINTWISE,
    TENON_LOOP("f32, f32, f32 -> f32", affine_f32)),
  TENON_OP("both(Tensor a, Tensor b) -> (Tensor sum, Tensor? difference)",
    TENON_TYPES("a, b: f16|f32; sum, difference = a"), POINTWISE,
    TENON_LOOP("f32, f32 -> f32, f32", both_f32)),
  TENON_OP("position(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = i64"), POINTWISE,
    TENON_LOOP("f32 -> i64", position_i64)),
  TENON_OP("clamp(Tensor x, *, float low=0.0, float high=1.0) -> Tensor",
    TENON_VERSION(3),
    TENON_UPGRADE(1, "rename least -> low; drop mode"),
    TENON_UPGRADE(2, "set high = 1.0"),
    TENON_TYPES("x: f32; out = x"), POINTWISE,
    TENON_VALIDATE(clamp_validate),
    TENON_LOOP("f32 -> f32", clamp_f32)),
  TENON_OP("refuse(Tensor x, *, float above=0.0) -> Tensor",
    TENON_TYPES("x: f32; out = x"), POINTWISE,
    TENON_LOOP("f32 -> f32", refuse_f32)),
  TENON_OP("product(Tensor a, Tensor b) -> Tensor",
    TENON_TYPES("a, b: f16|f32; out = a"), POINTWISE,
    TENON_LOOP("f32, f32 -> f32; strided", stride_f32)),
  TENON_OP("length(Tensor text) -> Tensor",
    TENON_TYPES("text: string; out = i64"), POINTWISE,
    TENON_LOOP("string -> i64", length_string)),
  TENON_OP("halve(Tensor x) -> Tensor",
    TENON_DOC("For f32 here; another library adds f64"),
    TENON_TYPES("x: f16|f32|f64; out = x"), POINTWISE,
    TENON_LOOP("f32 -> f32", halve_f32)))
