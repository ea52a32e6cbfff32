/* Copies of runs and tiles for one size of element. copy.c includes this once per size with T (the
 * element), SIZE (its bytes) and NAME(x) defined. For elements of less than 16 bytes, LOW and HIGH
 * list the lanes of the lower and the upper half of two interleaved vectors. */

#ifdef LOW
typedef T NAME(vector) __attribute__((vector_size(16)));

/* Transposes N by N elements in registers of 16 bytes: log2 N times, rows i and i + N/2 are
 * interleaved. */
static inline void NAME(square)(T *y, int64_t to_stride, const T *x, int64_t from_stride) {
  enum { N = 16 / SIZE };
  NAME(vector) a[N], b[N];
  for (int i = 0; i < N; i++)
    memcpy(&a[i], x + i * from_stride, 16);
  for (int stage = 1; stage < N; stage *= 2) {
    for (int i = 0; i < N / 2; i++) {
      b[2 * i] = __builtin_shufflevector(a[i], a[i + N / 2], LOW);
      b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + N / 2], HIGH);
    }
    memcpy(a, b, sizeof a);
  }
  for (int i = 0; i < N; i++)
    memcpy(y + i * to_stride, &a[i], 16);
}
#else
static inline void NAME(square)(T *y, int64_t to_stride, const T *x, int64_t from_stride) {
  (void)to_stride;
  (void)from_stride;
  *y = *x;
}
#endif

/* Copies n elements. */
static void NAME(run)(char *to, const char *from, int64_t n, int64_t to_stride,
                      int64_t from_stride) {
  const T *x = (const T *)(const void *)from;
  T *y = (T *)(void *)to;
  if (to_stride == 1 && from_stride == 1) {
    if (n * SIZE > LINE)
      memcpy(to, from, (size_t)(n * SIZE));
    else
      for (int64_t i = 0; i < n; i++)
        y[i] = x[i];
  } else if (to_stride == 1 && from_stride == 0) {
    T v = *x;
    for (int64_t i = 0; i < n; i++)
      y[i] = v;
  } else if (to_stride == 1) {
    for (int64_t i = 0; i < n; i++)
      y[i] = x[i * from_stride];
  } else {
    for (int64_t i = 0; i < n; i++)
      y[i * to_stride] = x[i * from_stride];
  }
}

/* Copies a tile of n by m elements, where the source is contiguous along m. */
static void NAME(tile)(char *to, const char *from, int64_t n, int64_t m, int64_t to_stride,
                       int64_t from_stride) {
  enum {
    N = 16 / SIZE,
    STEP = LINE / SIZE,
  };
  const T *x = (const T *)(const void *)from;
  T *y = (T *)(void *)to;
  for (int64_t j = 0; j < m; j += STEP) { /* whole cache lines of the source */
    int64_t end = j + STEP < m ? j + STEP : m;
    int64_t i = 0;
    for (; i + N <= n; i += N) {
      int64_t k = j;
      for (; k + N <= end; k += N)
        NAME(square)(y + k * to_stride + i, to_stride, x + k + i * from_stride, from_stride);
      for (; k < end; k++)
        for (int64_t l = i; l < i + N; l++)
          y[k * to_stride + l] = x[k + l * from_stride];
    }
    for (int64_t k = j; k < end; k++)
      for (int64_t l = i; l < n; l++)
        y[k * to_stride + l] = x[k + l * from_stride];
  }
}

/* The same for so few rows that there is nothing to transpose, such as the colours of an image:
 * each row is spread over the result by itself. */
static void NAME(few)(char *to, const char *from, int64_t n, int64_t m, int64_t to_stride,
                      int64_t from_stride) {
  const T *restrict x = (const T *)(const void *)from;
  T *restrict y = (T *)(void *)to;
  for (int64_t l = 0; l < n; l++)
    for (int64_t k = 0; k < m; k++)
      y[k * to_stride + l] = x[k + l * from_stride];
}
#undef T
#undef SIZE
#undef NAME
#undef LOW
#undef HIGH
