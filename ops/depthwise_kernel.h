/* The depthwise convolution for one dtype. conv_im2col.c includes this once per dtype with T (the
 * element) and NAME(x) defined. */

/* Computes one output pixel of up to LANES channels. `start` is where its window begins in x;
 * `filters_tap` is the distance between the taps of a filter. */
static void NAME(depthwise)(const job_t *job, const int64_t *start, const T *x, const T *filters,
                            int64_t filters_tap, T *out, int64_t lanes) {
  T sum[LANES] = {0};
  int64_t tap[SPATIAL_MAX];
  for (int64_t t = 0; t < job->taps; t++) {
    tap_set(&job->convolution->window, t, tap);
    int64_t offset = tap_offset(job, start, tap);
    if (offset == PADDING) continue;
    const T *from = x + offset;
    const T *filter = filters + t * filters_tap;
    if (job->x_channel == 1)
      for (int64_t c = 0; c < lanes; c++)
        sum[c] += from[c] * filter[c];
    else
      for (int64_t c = 0; c < lanes; c++)
        sum[c] += from[c * job->x_channel] * filter[c];
  }
  for (int64_t c = 0; c < lanes; c++)
    out[c * job->out_channel] = sum[c];
}
#undef T
#undef NAME
