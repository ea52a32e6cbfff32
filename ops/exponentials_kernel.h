/* Shifted exponentials for one dtype. simd/reduction.c includes this for f32 and f64 with T (the
 * element) and NAME(x) defined. */

/* to[i] = exp(from[i] - shift[i * step]), with a step of 0 or 1; `to` and `from` may be equal. */
static void NAME(exponentials)(void *to, const void *from, int64_t n, const void *shift,
                               int64_t step) {
  const T *x = (const T *)from;
  const T *m = (const T *)shift;
  const T same = *m;
  T *y = (T *)to;
  if (step)
    for (int64_t i = 0; i < n; i++)
      y[i] = EXP(x[i] - m[i]);
  else
    for (int64_t i = 0; i < n; i++)
      y[i] = EXP(x[i] - same);
}
#undef T
#undef NAME
