/* Means of the samples of a bin of roi_align, for one dtype. boxes.c includes this with T (the
 * element), W (the type of the computation), LOAD(x), STORE(w) and NAME(x) defined. At most SAMPLES
 * samples are added at once. */

/* Adds the samples of channel c to sums[c]. `from` is the first channel; channels are `pixels`
 * elements apart. */
static void NAME(add_samples)(double *sums, const void *from, int64_t pixels, int64_t channels,
                              const sample_t *samples, int64_t count) {
  const T *x = (const T *)from;
  W weights[SAMPLES][4];
  for (int64_t s = 0; s < count; s++)
    for (int k = 0; k < 4; k++)
      weights[s][k] = (W)samples[s].weight[k];
  for (int64_t c = 0; c < channels; c++, x += pixels) {
    W sum = 0;
    for (int64_t s = 0; s < count; s++) {
      const int64_t *at = samples[s].at;
      W upper = weights[s][0] * LOAD(x[at[0]]) + weights[s][1] * LOAD(x[at[1]]);
      W lower = weights[s][2] * LOAD(x[at[2]]) + weights[s][3] * LOAD(x[at[3]]);
      sum += upper + lower;
    }
    sums[c] += (double)sum;
  }
}

/* Writes sums[c] / by to every channel of y; channels are `bins` elements apart. */
static void NAME(store_means)(void *to, int64_t bins, int64_t channels, const double *sums,
                              double by) {
  T *y = (T *)to;
  for (int64_t c = 0; c < channels; c++)
    y[c * bins] = STORE(sums[c] / by);
}
#undef T
#undef W
#undef LOAD
#undef STORE
#undef NAME
