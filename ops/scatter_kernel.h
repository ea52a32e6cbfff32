/* The functions that combine runs of numbers, for one dtype. scatter.c includes this once per dtype
 * with T (the element), WIDE (the type of sums and products) and NAME(x) defined. Several dtypes
 * share LOAD(x) (the value of an element), STORE(x) (the element that holds a value) and
 * IS_NAN(x). */

static void NAME(add)(void *to, const void *from, int64_t n) {
  T *y = (T *)to;
  const T *x = (const T *)from;
  for (int64_t i = 0; i < n; i++)
    y[i] = STORE((WIDE)LOAD(y[i]) + (WIDE)LOAD(x[i]));
}

static void NAME(mul)(void *to, const void *from, int64_t n) {
  T *y = (T *)to;
  const T *x = (const T *)from;
  for (int64_t i = 0; i < n; i++)
    y[i] = STORE((WIDE)LOAD(y[i]) * (WIDE)LOAD(x[i]));
}

/* A NaN wins. */
static void NAME(max)(void *to, const void *from, int64_t n) {
  T *y = (T *)to;
  const T *x = (const T *)from;
  for (int64_t i = 0; i < n; i++)
    y[i] = LOAD(y[i]) >= LOAD(x[i]) || IS_NAN(LOAD(y[i])) ? y[i] : x[i];
}

/* A NaN wins. */
static void NAME(min)(void *to, const void *from, int64_t n) {
  T *y = (T *)to;
  const T *x = (const T *)from;
  for (int64_t i = 0; i < n; i++)
    y[i] = LOAD(y[i]) <= LOAD(x[i]) || IS_NAN(LOAD(y[i])) ? y[i] : x[i];
}
#undef T
#undef WIDE
#undef NAME
