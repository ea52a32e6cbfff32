/* One fold (simd/fold.h) for one dtype. The includer defines T (the type of the numbers), W (the
 * type of partial results) and MEMBER (the member of word_t that holds one); for each fold,
 * FOLD_NAME(x), MAP (applied to a number first), IDENTITY and OP (combines two numbers). It may
 * define FOLD_RUN_ONLY, which leaves out all functions but `run`.
 * Invariant: numbers are combined in the same order with every instruction set. */

static void FOLD_NAME(run)(word_t *acc, const void *data, int64_t n) {
  const T *restrict x = (const T *)data;
  T s[LANES];
  int64_t i = 0;
  int used = n < LANES ? 1 : LANES;
  for (int l = 0; l < used; l++)
    s[l] = (T)(IDENTITY);
  for (; i + LANES <= n; i += LANES) {
    for (int l = 0; l < LANES; l++) {
      T b = MAP(x[i + l]);
      s[l] = (T)(OP(s[l], b));
    }
  }
  for (int l = 0; i + l < n; l++) {
    T b = MAP(x[i + l]);
    T *to = &s[used > 1 ? l : 0];
    *to = (T)(OP(*to, b));
  }
  for (int w = used / 2; w; w /= 2)
    for (int l = 0; l < w; l++)
      s[l] = (T)(OP(s[l], s[l + w]));
  acc->MEMBER = (W)(OP(acc->MEMBER, (W)s[0]));
}

#ifndef FOLD_RUN_ONLY
static void FOLD_NAME(rows)(word_t *acc, const void *data, int64_t rows, int64_t stride,
                            int64_t width) {
  const T *restrict x = (const T *)data;
  T s[FOLD_ROW];
  /* Several short adjacent rows are combined at once. */
  int64_t by = stride == width && width <= 32 && width > 0 ? 64 / width : 1;
  int64_t wide = by * width;
  int64_t r = 0;
  for (int64_t i = 0; i < wide; i++)
    s[i] = (T)(IDENTITY);
  for (int64_t step = by; r < rows; r += step) {
    if (r + step > rows) {
      step = 1;
      wide = width;
    }
    const T *restrict row = x + r * stride;
    for (int64_t i = 0; i < wide; i++) {
      T b = MAP(row[i]);
      s[i] = (T)(OP(s[i], b));
    }
  }
  for (int64_t k = 0; k < by; k++) {
    for (int64_t i = 0; i < width; i++) {
      W b = (W)s[k * width + i];
      acc[i].MEMBER = (W)(OP(acc[i].MEMBER, b));
    }
  }
}

static void FOLD_NAME(start)(word_t *acc, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    acc[i].MEMBER = (W)(IDENTITY);
}

static void FOLD_NAME(merge)(word_t *acc, const word_t *more, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    W a = acc[i].MEMBER;
    W b = more[i].MEMBER;
    acc[i].MEMBER = (W)(OP(a, b));
  }
}
#endif

#undef FOLD_NAME
#undef MAP
#undef IDENTITY
#undef OP
#undef FOLD_RUN_ONLY
