/* A sum over each window, for one dtype: average_pool or lp_pool. Included by pool_taps.c, which
 * defines T (the element type), TERM(x, p) (the contribution of element x), RESULT(sum, count, p)
 * (the result of a window) and NAME(x). */

static void NAME(tap)(sums_t *sums, const void *from, int64_t stride, int64_t lo, int64_t hi,
                      int64_t at, int64_t at_step, double power) {
  const T *x = (const T *)from;
  T *sum = (T *)(void *)sums->value;
  T p = (T)power;
  (void)at;
  (void)at_step;
  (void)p;
  if (stride == 1)
    for (int64_t l = lo; l < hi; l++)
      sum[l] += TERM(x[l], p);
  else
    for (int64_t l = lo; l < hi; l++)
      sum[l] += TERM(x[l * stride], p);
}

static void NAME(done)(sums_t *sums, void *out, int64_t stride, int64_t lanes, const double *counts,
                       double power) {
  T *sum = (T *)(void *)sums->value;
  T *to = (T *)out;
  T p = (T)power;
  (void)counts;
  (void)p;
  for (int64_t l = 0; l < lanes; l++)
    if (to)
      to[l * stride] = RESULT(sum[l], counts[l], p);
    else
      sum[l] = 0;
}

static void NAME(fold)(sums_t *sums, int64_t lanes, int is_last) {
  T *sum = (T *)(void *)sums->value;
  for (int64_t l = 0; l < lanes; l++) {
    sums->total[l] += (double)sum[l];
    sum[l] = is_last ? (T)sums->total[l] : 0;
  }
}

#undef T
#undef TERM
#undef RESULT
#undef NAME
