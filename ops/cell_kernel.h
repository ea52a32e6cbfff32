/* Cells for one dtype. Included by simd/cell.c, which defines T (the element type) and NAME(x). */

static inline T NAME(unit)(T x) {
  T most = x > 1 ? 1 : x;
  return x < 0 ? 0 : most;
}

#define FUNCTION_CASE(name, parameters, a, b, value)                                               \
  case CELL_##name:                                                                                \
    for (int64_t e = 0; e < count; e++) {                                                          \
      T x = row[e];                                                                                \
      row[e] = (value);                                                                            \
    }                                                                                              \
    break;

/* Clips a row and applies an activation function. */
static void NAME(apply)(const cell_t *cell, int function, T *row, int64_t count) {
  const cell_function_t *f = &cell->functions[function];
  const T alpha = (T)f->alpha;
  const T beta = (T)f->beta;
  const T clip = (T)cell->clip;
  (void)alpha;
  (void)beta;
  if (cell->has_clip)
    for (int64_t e = 0; e < count; e++) {
      T least = row[e] < -clip ? -clip : row[e];
      row[e] = row[e] > clip ? clip : least;
    }
  switch (f->kind) { CELL_FUNCTIONS(FUNCTION_CASE) }
}

/* gates += products + biases */
static void NAME(add)(const cell_t *cell, T *restrict gates, const T *restrict products,
                      int64_t first, int64_t count, int with_r) {
  const T *bias = (const T *)cell->bias;
  const T *bias_r = (const T *)cell->bias_r;
  for (int64_t e = 0; e < count; e++)
    gates[e] += products[e];
  if (!bias) return;
  for (int64_t e = 0; e < count; e++)
    gates[e] += bias[first + e];
  if (with_r)
    for (int64_t e = 0; e < count; e++)
      gates[e] += bias_r[first + e];
}

/* gates += a * b */
static void NAME(peep)(T *restrict gates, const T *restrict a, const T *restrict b, int64_t count) {
  for (int64_t e = 0; e < count; e++)
    gates[e] += a[e] * b[e];
}

static void NAME(lstm)(const cell_t *cell, T *gates, const T *products, T *h, T *restrict c) {
  int64_t n = cell->hidden;
  T *i = gates;
  T *o = gates + n;
  T *f = gates + 2 * n;
  T *g = gates + 3 * n;
  const T *p = (const T *)cell->peepholes;
  NAME(add)(cell, gates, products, 0, 4 * n, 1);
  if (p) NAME(peep)(i, p, c, n), NAME(peep)(f, p + 2 * n, c, n);
  NAME(apply)(cell, 0, i, n);
  if (cell->special)
    for (int64_t e = 0; e < n; e++)
      f[e] = 1 - i[e];
  else
    NAME(apply)(cell, 0, f, n);
  NAME(apply)(cell, 1, g, n);
  for (int64_t e = 0; e < n; e++)
    c[e] = f[e] * c[e] + i[e] * g[e];
  if (p) NAME(peep)(o, p + n, c, n);
  NAME(apply)(cell, 0, o, n);
  for (int64_t e = 0; e < n; e++)
    g[e] = c[e];
  cell_t free = *cell;
  free.has_clip = 0; /* clip limits the inputs of functions, not the state */
  NAME(apply)(&free, 2, g, n);
  for (int64_t e = 0; e < n; e++)
    h[e] = o[e] * g[e];
}

static void NAME(gru)(const cell_t *cell, int part, T *gates, const T *products, T *h) {
  int64_t n = cell->hidden;
  T *z = gates;
  T *r = gates + n;
  T *g = gates + 2 * n;
  const T *bias = (const T *)cell->bias;
  const T *bias_r = (const T *)cell->bias_r;
  if (part <= 0) {
    NAME(add)(cell, gates, products, 0, 2 * n, 1);
    NAME(apply)(cell, 0, gates, 2 * n);
  }
  if (part == 0) {
    T *reset = (T *)cell->reset + (h - (T *)cell->reset_base);
    for (int64_t e = 0; e < n; e++)
      reset[e] = r[e] * h[e];
    return;
  }
  if (part == 1) {
    NAME(add)(cell, g, products, 2 * n, n, 1);
  } else { /* the reset gate multiplies the product of the state and its bias */
    for (int64_t e = 0; e < n; e++)
      g[e] += r[e] * (products[2 * n + e] + (bias_r ? bias_r[2 * n + e] : 0));
    if (bias)
      for (int64_t e = 0; e < n; e++)
        g[e] += bias[2 * n + e];
  }
  NAME(apply)(cell, 1, g, n);
  for (int64_t e = 0; e < n; e++)
    h[e] = (1 - z[e]) * g[e] + z[e] * h[e];
}

static void NAME(cell)(const cell_t *cell, int part, T *gates, const T *products, T *h, T *c) {
  if (cell->kind == RECURRENT_LSTM) {
    NAME(lstm)(cell, gates, products, h, c);
  } else if (cell->kind == RECURRENT_GRU) {
    NAME(gru)(cell, part, gates, products, h);
  } else {
    NAME(add)(cell, gates, products, 0, cell->hidden, 1);
    NAME(apply)(cell, 0, gates, cell->hidden);
    for (int64_t e = 0; e < cell->hidden; e++)
      h[e] = gates[e];
  }
}
#undef FUNCTION_CASE
#undef T
#undef NAME
