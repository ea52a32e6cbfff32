/* Products with panels for one dtype. simd/panel.c includes this once per dtype with T (the
 * element), NAME(x) and MADD (number times vector plus vector) defined.
 * Invariant: lanes of a vector never mix, so every sum runs in order of k. */

typedef T NAME(vector) __attribute__((vector_size(VECTOR)));
typedef T NAME(loose) __attribute__((vector_size(VECTOR), aligned(sizeof(T)), may_alias));

enum {
  NAME(LANES) = VECTOR / sizeof(T),
  NAME(WIDTH) = VECTORS * NAME(LANES),
};

static T *NAME(panel)(const panels_t *panels, int64_t first) {
  return (T *)panels->data + first * panels->k;
}

static void NAME(pack)(const panels_t *panels, const void *matrix, int64_t column, int64_t element,
                       int64_t first) {
  enum { WIDTH = NAME(WIDTH), DEPTH = PANEL_ALIGNMENT / sizeof(T) };
  const int64_t k = panels->k;
  const int64_t count = panels->n - first < WIDTH ? panels->n - first : WIDTH;
  const T *from = (const T *)matrix + first * column;
  T *to = NAME(panel)(panels, first);
  if (count < WIDTH) memset(to, 0, (size_t)(k * WIDTH) * sizeof(T));
  for (int64_t e0 = 0; e0 < k; e0 += DEPTH) { /* a line of the cache of each column at a time */
    const int64_t end = k - e0 < DEPTH ? k : e0 + DEPTH;
    for (int64_t j = 0; j < count; j++)
      for (int64_t e = e0; e < end; e++)
        to[e * WIDTH + j] = from[j * column + e * element];
  }
}

/* Computes `rows` rows of `vectors` vectors of a panel; both are constants where this is inlined.
 * The panel is read ahead if this is the only time that it is read. */
static inline __attribute__((always_inline)) void NAME(block)(int rows, int vectors, int64_t k,
                                                              const T *restrict x,
                                                              const T *restrict panel,
                                                              T *restrict out, int64_t row) {
  NAME(vector) sum[SUMS];
  memset(sum, 0, sizeof sum);
  for (int64_t e = 0; e < k; e++, panel += NAME(WIDTH)) {
    if (vectors == VECTORS)
#pragma GCC unroll 8
      for (int at = 0; at < VECTORS * VECTOR; at += 64)
        __builtin_prefetch((const char *)panel + AHEAD + at);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++)
        sum[i * vectors + v] = MADD(x[i * k + e], *(const NAME(loose) *)(panel + v * NAME(LANES)),
                                    sum[i * vectors + v]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
      *(NAME(loose) *)(out + i * row + v * NAME(LANES)) = sum[i * vectors + v];
}

#define ROWS_CASE(rows, vectors)                                                                   \
  case rows:                                                                                       \
    for (int v = 0; v < VECTORS; v += (vectors))                                                   \
      NAME(block)                                                                                  \
    (rows, vectors, k, x, panel + v * NAME(LANES), out + v * NAME(LANES), row);                    \
    break;

/* Computes one to ROWS rows of one panel, with as many sums as registers hold. */
static void NAME(rows)(int64_t rows, int64_t k, const T *x, const T *panel, T *out, int64_t row) {
  switch (rows) {
    ROWS_CASE(1, 8)
    ROWS_CASE(2, 4)
    ROWS_CASE(3, 4)
    ROWS_CASE(4, 2)
    ROWS_CASE(5, 2)
    ROWS_CASE(6, 2)
  }
}

static void NAME(multiply)(const panels_t *panels, const void *x, int64_t m, int64_t first,
                           void *out) {
  enum { WIDTH = NAME(WIDTH) };
  const int64_t k = panels->k;
  const T *panel = NAME(panel)(panels, first);
  const int64_t count = panels->n - first;
  T part[ROWS * WIDTH];
  for (int64_t i = 0; i < m; i += ROWS) {
    const int64_t rows = m - i < ROWS ? m - i : ROWS;
    const T *from = (const T *)x + i * k;
    T *to = (T *)out + i * panels->n + first;
    if (count >= WIDTH) {
      NAME(rows)(rows, k, from, panel, to, panels->n);
      continue;
    }
    NAME(rows)(rows, k, from, panel, part, WIDTH);
    for (int64_t r = 0; r < rows; r++)
      memcpy(to + r * panels->n, part + r * WIDTH, (size_t)count * sizeof(T));
  }
}
#undef ROWS_CASE
#undef T
#undef NAME
#undef MADD
