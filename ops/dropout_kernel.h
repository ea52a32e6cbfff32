/* dropout and its gradient for one dtype. random.c includes this once per dtype with T (the
 * element) and NAME(x) defined. */

static tenon_status_t NAME(dropout)(const tenon_loop_t *loop) {
  const T *x = (const T *)loop->data[0];
  T *out = (T *)loop->data[1];
  T scale = (T)(1 / (1 - dropped_share(loop)));
  uint8_t *mask = (uint8_t *)loop->data[2];
  const uint64_t least = drop_threshold(loop);
  for (int64_t i = 0; !least && i < loop->count; i++)
    out[i] = x[i] * scale;
  if (!least && mask) memset(mask, 1, (size_t)loop->count);
  if (!least) return TENON_OK;
  EACH_DRAW(loop) {
    const int keep = NUMBER >= least;
    out[i] = keep ? x[i] * scale : 0;
    if (mask) mask[i] = (uint8_t)keep;
  }
  return TENON_OK;
}

static tenon_status_t NAME(dropout_backward)(const tenon_loop_t *loop) {
  const T *dy = (const T *)loop->data[0];
  const T scale = (T)(1 / (1 - dropped_share(loop)));
  const uint8_t *mask = (const uint8_t *)loop->data[1];
  T *out = (T *)loop->data[2];
  for (int64_t i = 0; i < loop->count; i++)
    out[i] = mask[i] ? dy[i] * scale : 0;
  return TENON_OK;
}
#undef T
#undef NAME
