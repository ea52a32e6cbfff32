/* The greatest element of each window, for one dtype. Included by pool_taps.c, which defines T (the
 * element type), LEAST (the value from which the search starts) and NAME(x). */

/* Always false for integers. A macro, because compilers warn about an integer that is compared with
 * itself outside of macros. */
#define IS_NAN(value) ((value) != (value))

static void NAME(max_tap)(sums_t *sums, const void *from, int64_t stride, int64_t lo, int64_t hi,
                          int64_t at, int64_t at_step, double p) {
  const T *x = (const T *)from;
  T *best = (T *)(void *)sums->value;
  (void)p;
  if (!at_step && stride == 1) {
    for (int64_t l = lo; l < hi; l++)
      best[l] = x[l] > best[l] || IS_NAN(x[l]) ? x[l] : best[l];
  } else {
    for (int64_t l = lo; l < hi; l++) {
      T value = x[l * stride];
      int better = value > best[l] || IS_NAN(value) || (at_step && sums->index[l] < 0);
      sums->index[l] = better ? at + l * at_step : sums->index[l];
      best[l] = better ? value : best[l];
    }
  }
}

static void NAME(max_done)(sums_t *sums, void *out, int64_t stride, int64_t lanes,
                           const double *counts, double p) {
  T *best = (T *)(void *)sums->value;
  T *to = (T *)out;
  (void)counts;
  (void)p;
  for (int64_t l = 0; l < lanes; l++)
    if (to) {
      to[l * stride] = best[l];
    } else {
      best[l] = LEAST;
      sums->index[l] = -1;
    }
}

#undef IS_NAN
#undef T
#undef LEAST
#undef NAME
