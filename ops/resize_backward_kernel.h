/* The gradient of resize along one axis, for one dtype. resize_backward.c includes this once per
 * dtype with T (the element) and NAME(x) defined. */

/* A part is (outer index, block of the inner elements). A result whose first weight is NaN depends
 * on no element of x. */
static tenon_status_t NAME(pass)(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const pass_t *p = (const pass_t *)argument;
  int64_t n = p->taps->count;
  (void)call;
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t block = unit % p->blocks * BLOCK;
    int64_t outer = unit / p->blocks;
    int64_t width = p->inner - block < BLOCK ? p->inner - block : BLOCK;
    const T *dy = (const T *)p->dy + outer * p->out * p->inner + block;
    T *dx = (T *)p->dx + outer * p->in * p->inner + block;
    for (int64_t i = 0; i < p->in; i++)
      memset(dx + i * p->inner, 0, (size_t)width * sizeof(T));
    for (int64_t o = 0; o < p->out; o++, dy += p->inner) {
      const int64_t *index = p->taps->index + o * n;
      const double *weight = p->taps->weight + o * n;
      for (int64_t k = 0; k < n && !isnan(weight[0]); k++) {
        T *restrict to = dx + index[k] * p->inner;
        T w = (T)weight[k];
        for (int64_t i = 0; i < width; i++)
          to[i] += w * dy[i];
      }
    }
  }
  return TENON_OK;
}
#undef T
#undef NAME
