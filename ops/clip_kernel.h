/* The loop of clip for one dtype. simd/where_clip.c includes this once per dtype with T (the
 * element) and NAME(x) defined, and with LARGER and SMALLER (of two numbers), which it undefines
 * itself. */

static tenon_status_t NAME(clip)(const tenon_loop_t *loop) {
  const int64_t count = loop->count;
  const T *restrict xs = (const T *)loop->data[0];
  const T *restrict min = (const T *)loop->data[1];
  const T *restrict max = (const T *)loop->data[2];
  T *restrict out = (T *)loop->data[3];
  for (int64_t i = 0; i < count; i++) {
    T x = xs[i];
    if (min) x = LARGER(x, min[i]);
    if (max) x = SMALLER(x, max[i]);
    out[i] = x;
  }
  return TENON_OK;
}
#undef T
#undef NAME
