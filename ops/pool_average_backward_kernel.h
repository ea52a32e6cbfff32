/* The gradient of average_pool for one dtype. Included by pool_backward.c, which defines T (the
 * element type) and NAME(x). */

/* Writes planes [begin, end) of dx. */
static tenon_status_t NAME(average)(tenon_call_t *call, void *argument, int64_t begin,
                                    int64_t end) {
  const spread_t *s = (const spread_t *)argument;
  const window_t *w = &s->window;
  int32_t last = w->rank - 1;
  (void)call;
  for (int64_t number = begin; number < end; number++) {
    const T *dy = (const T *)s->dy->data + plane_of(s->dy, number);
    T *dx = (T *)s->dx->data + number * s->plane;
    memset(dx, 0, (size_t)s->plane * sizeof(T));
    for (int64_t pixel = 0; pixel < s->pixels; pixel++) {
      int64_t o[SPATIAL_MAX], first[SPATIAL_MAX], some[SPATIAL_MAX];
      int64_t rows = 1;
      int64_t count = 1;
      T value = dy[place_set(w, s->dy, pixel, o)];
      for (int32_t i = 0; i < w->rank; i++) {
        int64_t start = o[i] * w->stride[i] - w->before[i];
        int64_t tap = pool_first_tap(w, i, start, 0);
        some[i] = pool_first_tap(w, i, start, w->in[i]) - tap;
        first[i] = start + tap * w->dilation[i];
        count *= pool_count(w, s->include_pad, i, o[i]);
        if (i < last) rows *= some[i];
      }
      if (some[last] <= 0) continue;
      value /= (T)count;
      for (int64_t row = 0; row < rows; row++) {
        int64_t rest = row;
        int64_t offset = 0;
        int64_t pace = w->in[last];
        int64_t step = w->dilation[last];
        for (int32_t i = last - 1; i >= 0; i--) {
          offset += (first[i] + rest % some[i] * w->dilation[i]) * pace;
          rest /= some[i];
          pace *= w->in[i];
        }
        for (int64_t t = 0; t < some[last]; t++)
          dx[offset + first[last] + t * step] += value;
      }
    }
  }
  return TENON_OK;
}

#undef T
#undef NAME
