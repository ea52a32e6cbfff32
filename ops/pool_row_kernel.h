/* The sum of a dense row of a window, for one dtype. Included by pool_taps.c, which defines T (the
 * element type) and NAME(x). Partial sums of T have at most POOL_FOLD terms each. */

static double NAME(row)(const void *from, int64_t n) {
  enum { SIDE = 16 };
  const T *x = (const T *)from;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += SIDE * POOL_FOLD) {
    int64_t end = n - begin < SIDE * POOL_FOLD ? n : begin + SIDE * POOL_FOLD;
    int64_t whole = begin + (end - begin) / SIDE * SIDE;
    T part[SIDE] = {0};
    for (int64_t i = begin; i < whole; i += SIDE)
      for (int64_t k = 0; k < SIDE; k++)
        part[k] += x[i + k];
    for (int64_t k = 0; k < SIDE; k++)
      total += (double)part[k];
    for (int64_t i = whole; i < end; i++)
      total += (double)x[i];
  }
  return total;
}

#undef T
#undef NAME
