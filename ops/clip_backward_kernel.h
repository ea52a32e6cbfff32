/* The gradients of clip for one dtype. simd/where_clip.c includes this for f32 and f64 with T (the
 * element) and NAME(x) defined. */

/* dy goes to the operand that clip selected: x if it is within the limits or equal to one. */
static tenon_status_t NAME(clip_backward)(const tenon_loop_t *loop) {
  const int64_t count = loop->count;
  const T *restrict dy = (const T *)loop->data[0];
  const T *restrict xs = (const T *)loop->data[1];
  const T *restrict min = (const T *)loop->data[2];
  const T *restrict max = (const T *)loop->data[3];
  T *restrict dx = (T *)loop->data[4];
  T *restrict dmin = (T *)loop->data[5];
  T *restrict dmax = (T *)loop->data[6];
  for (int64_t i = 0; i < count; i++) {
    const T g = dy[i];
    const T x = xs[i];
    const T low = min ? min[i] : x;
    const T high = max ? max[i] : GREATEST(x, low);
    const int is_high = GREATEST(x, low) > high;
    const int is_low = x < low;
    if (dx) dx[i] = (is_low | is_high) ? 0 : g;
    if (dmin) dmin[i] = (is_low & !is_high) ? g : 0;
    if (dmax) dmax[i] = is_high ? g : 0;
  }
  return TENON_OK;
}
#undef T
#undef NAME
