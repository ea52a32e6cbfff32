/* The gradient of cum_prod for one dtype. product_backward.c includes this once per dtype with T
 * (the element) and NAME(x) defined. */

/* dx = before * behind. `before` is the product of x up to here; `behind` is dy here (exclusive: at
 * the next element) + next x * next behind. */
static tenon_status_t NAME(sweep)(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const sweep_t *s = (const sweep_t *)argument;
  const int64_t step = s->reverse ? -s->inner : s->inner;
  for (int64_t column = begin; column < end; column++) {
    int64_t first = column / s->inner * s->n * s->inner + column % s->inner;
    if (s->reverse) first += (s->n - 1) * s->inner;
    const T *dy = (const T *)call->inputs[0]->data + first;
    const T *x = (const T *)call->inputs[1]->data + first;
    T *dx = (T *)call->outputs[0]->data + first;
    double before = 1;
    double behind = 0;
    for (int64_t i = 0; i < s->n; i++) {
      dx[i * step] = (T)before;
      before *= (double)x[i * step];
    }
    for (int64_t i = s->n - 1; i >= 0; i--) {
      double next = i + 1 < s->n ? (double)x[(i + 1) * step] * behind : 0;
      if (!s->exclusive)
        behind = next + (double)dy[i * step];
      else
        behind = next + (i + 1 < s->n ? (double)dy[(i + 1) * step] : 0);
      dx[i * step] = (T)((double)dx[i * step] * behind);
    }
  }
  return TENON_OK;
}
#undef T
#undef NAME
