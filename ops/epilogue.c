/* The epilogue of matrix products. It works row by row in a small buffer, so that one loop serves
 * all strides of c. Called for tiles on several threads.
 * Invariant: each activation has one formula, in FINISH_ACTIVATIONS. */
#include "epilogue.h"
#include "simd/math.h"

enum { SPAN = 256 };

static inline float clamp_f32(float x, float low, float high) {
  float most = x > high ? high : x;
  return x < low ? low : most;
}
static inline double clamp_f64(double x, double low, double high) {
  double most = x > high ? high : x;
  return x < low ? low : most;
}
#define FINISH_CLAMP(x, low, high) TN_GENERIC(x, clamp_f32, clamp_f64)(x, low, high)

#define ACTIVATION_CASE(name, value)                                                               \
  case FINISH_##name:                                                                              \
    for (int64_t j = 0; j < count; j++) {                                                          \
      T x = row[j];                                                                                \
      row[j] = (value);                                                                            \
    }                                                                                              \
    break;

#define ACTIVATE(suffix)                                                                           \
  static void activate_##suffix(int64_t activation, T alpha, T beta, T *row, int64_t count) {      \
    switch (activation) { FINISH_ACTIVATIONS(ACTIVATION_CASE) }                                    \
  }

/* Integers are added as unsigned numbers, which wrap; a fractional scale is applied in double. */
#define FINISH(suffix, signed_t, whole, activate)                                                  \
  static void finish_##suffix(const finish_t *f, int64_t i, int64_t j, int64_t count) {            \
    const T *bias = (const T *)f->bias.data;                                                       \
    const T *more = (const T *)f->residual.data;                                                   \
    T row[SPAN];                                                                                   \
    T *c = (T *)f->c + i * f->row + j * f->column;                                                 \
    for (int64_t e = 0; e < count; e++)                                                            \
      row[e] = c[e * f->column];                                                                   \
    if (f->scale != 1)                                                                             \
      for (int64_t e = 0; e < count; e++)                                                          \
        row[e] = (T)whole(f->scale * (double)(signed_t)row[e]);                                    \
    if (bias) {                                                                                    \
      bias += i * f->bias.row + j * f->bias.column;                                                \
      if (f->bias_scale == 1)                                                                      \
        for (int64_t e = 0; e < count; e++)                                                        \
          row[e] += bias[e * f->bias.column];                                                      \
      else                                                                                         \
        for (int64_t e = 0; e < count; e++)                                                        \
          row[e] += (T)whole(f->bias_scale * (double)(signed_t)bias[e * f->bias.column]);          \
    }                                                                                              \
    if (more) {                                                                                    \
      more += i * f->residual.row + j * f->residual.column;                                        \
      for (int64_t e = 0; e < count; e++)                                                          \
        row[e] += more[e * f->residual.column];                                                    \
    }                                                                                              \
    activate;                                                                                      \
    for (int64_t e = 0; e < count; e++)                                                            \
      c[e * f->column] = row[e];                                                                   \
  }

/* clang-format off */
#define T float
ACTIVATE(f32)
FINISH(f32, float, , activate_f32(f->activation, (T)f->alpha, (T)f->beta, row, count))
#undef T
#define T double
ACTIVATE(f64)
FINISH(f64, double, , activate_f64(f->activation, f->alpha, f->beta, row, count))
#undef T
#define T uint32_t
FINISH(i32, int32_t, tn_int64, (void)0)
#undef T
#define T uint64_t
FINISH(i64, int64_t, tn_int64, (void)0)
/* clang-format on */
#undef T

void core_finish(const finish_t *f, int64_t i, int64_t i_end, int64_t j, int64_t j_end) {
  int is_float = f->dtype.code == (TENON_F32 & 0xff);
  int wide = f->dtype.bits == 64;
  static void (*const spans[2][2])(const finish_t *, int64_t, int64_t,
                                   int64_t) = {{finish_i32, finish_i64}, {finish_f32, finish_f64}};
  void (*span)(const finish_t *, int64_t, int64_t, int64_t) = spans[is_float][wide];
  for (; i < i_end; i++)
    for (int64_t at = j; at < j_end; at += SPAN)
      span(f, i, at, j_end - at < SPAN ? j_end - at : SPAN);
}
