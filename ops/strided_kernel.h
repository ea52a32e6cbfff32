/* The sum of strided_sum for one dtype. strided.c includes this once per dtype with T and NAME(x)
 * defined. Dtypes share LOAD(x) (the value of an element of type T) and STORE(x) (the element that
 * holds a value), or IS_COMPLEX, if an element is a pair of numbers of type T. */

/* Adds n adjacent elements to elements at a stride. */
static void NAME(add)(char *to, const char *from, int64_t n, int64_t stride) {
  T *y = (T *)(void *)to;
  const T *x = (const T *)(const void *)from;
  for (int64_t i = 0; i < n; i++) {
#ifdef IS_COMPLEX
    y[2 * i * stride] += x[2 * i];
    y[2 * i * stride + 1] += x[2 * i + 1];
#else
    y[i * stride] = STORE(LOAD(y[i * stride]) + LOAD(x[i]));
#endif
  }
}
#undef T
#undef NAME
