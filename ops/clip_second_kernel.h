/* The gradient of clip_backward for one dtype. simd/where_clip.c includes this for f32 and f64 with
 * T (the element) and NAME(x) defined. */

/* Of the gradients of dx, dmin and dmax, takes the one of the operand that clip selected. */
static tenon_status_t NAME(clip_second)(const tenon_loop_t *loop) {
  const int64_t count = loop->count;
  const T *restrict xs = (const T *)loop->data[0];
  const T *restrict min = (const T *)loop->data[1];
  const T *restrict max = (const T *)loop->data[2];
  const T *restrict dx = (const T *)loop->data[3];
  const T *restrict dmin = (const T *)loop->data[4];
  const T *restrict dmax = (const T *)loop->data[5];
  T *restrict out = (T *)loop->data[6];
  for (int64_t i = 0; i < count; i++) {
    const T x = xs[i];
    const T low = min ? min[i] : x;
    const T high = max ? max[i] : GREATEST(x, low);
    const T *from = x < low ? dmin : dx;
    const T *of = GREATEST(x, low) > high ? dmax : from;
    out[i] = of ? of[i] : 0;
  }
  return TENON_OK;
}
#undef T
#undef NAME
