/* The loop of examples/01_gelu, for bench/tensorflow_hand.cc. */
#include <math.h>

void hand_gelu(const float *x, float *y, long count);
void hand_gelu(const float *x, float *y, long count) {
  for (long i = 0; i < count; i++)
    y[i] = 0.5f * x[i] * (1.0f + erff(0.70710678f * x[i]));
}
