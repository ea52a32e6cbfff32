/* The activations of an epilogue for one dtype. epilogue.c and simd/conv_tile.c include this once
 * per dtype with T (the element) and NAME(x) defined. */
#ifndef FINISH_CLAMP
static inline float clamp_f32(float x, float low, float high) {
  float most = x > high ? high : x;
  return x < low ? low : most;
}
static inline double clamp_f64(double x, double low, double high) {
  double most = x > high ? high : x;
  return x < low ? low : most;
}
#define FINISH_CLAMP(x, low, high) TN_GENERIC(x, clamp_f32, clamp_f64)(x, low, high)
#endif

#define ACTIVATION_CASE(name, value)                                                               \
  case FINISH_##name:                                                                              \
    for (int64_t j = 0; j < count; j++) {                                                          \
      T x = row[j];                                                                                \
      row[j] = (value);                                                                            \
    }                                                                                              \
    break;

static void NAME(activate)(int64_t activation, T alpha, T beta, T *row, int64_t count) {
  switch (activation) { FINISH_ACTIVATIONS(ACTIVATION_CASE) }
}
#undef ACTIVATION_CASE
