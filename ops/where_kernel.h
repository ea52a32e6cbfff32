/* The loop of where for one dtype. simd/where_clip.c includes this once per dtype with T (a type of
 * the size of an element) and NAME(x) defined. */

static tenon_status_t NAME(where)(const tenon_loop_t *loop) {
  const int64_t count = loop->count;
  const uint8_t *restrict condition = (const uint8_t *)loop->data[0];
  const T *restrict a = (const T *)loop->data[1];
  const T *restrict b = (const T *)loop->data[2];
  T *restrict out = (T *)loop->data[3];
  for (int64_t i = 0; i < count; i++) {
    const T yes = a[i];
    const T no = b[i];
    out[i] = condition[i] ? yes : no;
  }
  return TENON_OK;
}
#undef T
#undef NAME
