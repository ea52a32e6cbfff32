/* The passes of resize for one dtype. simd/resize.c includes this for f32 and f64 with T (the
 * element) and NAME(x) defined. */

/* Computes the results along one axis: rows of `inner` at once or, if inner is 1, one by one. */
static tenon_status_t NAME(pass)(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const pass_t *p = (const pass_t *)argument;
  int64_t n = p->taps->count;
  (void)call;
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t block = unit % p->blocks * BLOCK;
    int64_t outer = unit / p->blocks;
    int64_t width = p->inner - block < BLOCK ? p->inner - block : BLOCK;
    const T *x = (const T *)p->x + outer * p->in * p->inner + block;
    T *y = (T *)p->y + outer * p->out * p->inner + block;
    for (int64_t o = 0; o < p->out; o++, y += p->inner) {
      const int64_t *index = p->taps->index + o * n;
      const double *weight = p->taps->weight + o * n;
      if (isnan(weight[0])) {
        for (int64_t i = 0; i < width; i++)
          y[i] = (T)p->extrapolation;
      } else if (p->inner == 1) {
        T sum = 0;
        for (int64_t k = 0; k < n; k++)
          sum += (T)weight[k] * x[index[k]];
        *y = sum;
      } else {
        for (int64_t k = 0; k < n; k += 2) { /* the count is even */
          const T *restrict a = x + index[k] * p->inner;
          const T *restrict b = x + index[k + 1] * p->inner;
          T v = (T)weight[k];
          T w = (T)weight[k + 1];
          T *restrict to = y;
          if (k == 0)
            for (int64_t i = 0; i < width; i++)
              to[i] = v * a[i] + w * b[i];
          else
            for (int64_t i = 0; i < width; i++)
              to[i] += v * a[i] + w * b[i];
        }
      }
    }
  }
  return TENON_OK;
}

/* Converts n elements of another dtype to T. */
static void NAME(load)(const tenon_tensor_t *t, T *y, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    y[i] = (T)number_get(t->dtype, t->data, i);
}

/* Converts n results to another dtype. Integers are rounded, ties to even, and clamped to their
 * range. */
static void NAME(store)(tenon_tensor_t *t, const T *x, int64_t n) {
  int real = t->dtype.code == (uint8_t)TENON_F32 || t->dtype.code == (uint8_t)TENON_BF16;
  int is_signed = t->dtype.code == (uint8_t)TENON_I8;
  double most = ldexp(1.0, t->dtype.bits - is_signed) - 1;
  double least = is_signed ? -most - 1 : 0;
  for (int64_t i = 0; i < n; i++) {
    double v = (double)x[i];
    if (!real) {
      v = v != v ? 0 : nearbyint(v);
      v = v < least ? least : v;
      v = v > most ? most : v;
    }
    number_set(t->dtype, t->data, i, v);
  }
}
#undef T
#undef NAME
