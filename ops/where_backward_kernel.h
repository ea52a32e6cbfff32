/* The gradients of where for one dtype. simd/where_clip.c includes this for f32 and f64 with T (the
 * element) and NAME(x) defined. */

static tenon_status_t NAME(where_backward)(const tenon_loop_t *loop) {
  const int64_t count = loop->count;
  const T *restrict dy = (const T *)loop->data[0];
  const uint8_t *restrict condition = (const uint8_t *)loop->data[1];
  T *restrict da = (T *)loop->data[2];
  T *restrict db = (T *)loop->data[3];
  for (int64_t i = 0; i < count; i++) {
    const T g = dy[i];
    const uint8_t yes = condition[i];
    if (da) da[i] = yes ? g : 0;
    if (db) db[i] = yes ? 0 : g;
  }
  return TENON_OK;
}
#undef T
#undef NAME
