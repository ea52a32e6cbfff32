/* Copies of runs and transposed tiles from one float dtype to another. simd/move_float.c includes
 * this once per pair with FROM and TO (the types of the elements), CONVERT(x) and NAME(x) defined;
 * for copies of runs, RUN(to, from, n) (converts n neighbours); and, with AVX2, LOAD(p) (eight
 * numbers as f32) and STORE(p, v). */

#ifdef RUN
static void NAME(run)(char *to, const char *from, int64_t n, int64_t to_stride,
                      int64_t from_stride) {
  const FROM *x = (const FROM *)(const void *)from;
  TO *y = (TO *)(void *)to;
  if (to_stride == 1 && from_stride == 1) {
    RUN(y, x, n);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    y[i * to_stride] = CONVERT(x[i * from_stride]);
}
#endif

/* Copies rows [begin, end) of columns [j, last). */
static inline void NAME(part)(TO *y, const FROM *x, int64_t begin, int64_t end, int64_t j,
                              int64_t last, int64_t to_stride, int64_t from_stride) {
  for (int64_t k = j; k < last; k++)
    for (int64_t i = begin; i < end; i++)
      y[k * to_stride + i] = CONVERT(x[k + i * from_stride]);
}

#ifdef __AVX2__
static inline void NAME(square)(TO *y, int64_t to_stride, const FROM *x, int64_t from_stride) {
  __m256 rows[SIDE];
  for (int i = 0; i < SIDE; i++)
    rows[i] = LOAD(x + i * from_stride);
  transpose_square(rows);
  for (int i = 0; i < SIDE; i++)
    STORE(y + i * to_stride, rows[i]);
}
#endif

static void NAME(tile)(char *to, const char *from, int64_t n, int64_t m, int64_t to_stride,
                       int64_t from_stride) {
  const FROM *x = (const FROM *)(const void *)from;
  TO *y = (TO *)(void *)to;
  for (int64_t j = 0; j < m; j += STEP) { /* whole cache lines of the source */
    const int64_t last = j + STEP < m ? j + STEP : m;
    int64_t i = 0;
    int64_t squared = j;
#ifdef __AVX2__
    squared = last - (last - j) % SIDE;
    for (; i + SIDE <= n; i += SIDE)
      for (int64_t k = j; k < squared; k += SIDE)
        NAME(square)(y + k * to_stride + i, to_stride, x + k + i * from_stride, from_stride);
#endif
    NAME(part)(y, x, 0, i, squared, last, to_stride, from_stride);
    NAME(part)(y, x, i, n, j, last, to_stride, from_stride);
  }
}
#undef FROM
#undef TO
#undef CONVERT
#undef RUN
#undef LOAD
#undef STORE
#undef NAME
