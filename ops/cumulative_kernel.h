/* cum_sum and cum_prod for one dtype. Included by cumulative.c, which defines T (the element type),
 * W (the type of the running value) and NAME(x). For f16 and bf16 it also defines GET(x), which
 * converts an element to a number, and SET(x), which converts a number to an element. */

#ifndef GET
#define GET(x) (x)
#define SET(x) (x)
#endif

/* Computes sums or, if `product` is 1, products. A part is a block of columns. */
static inline __attribute__((always_inline)) tenon_status_t
NAME(running)(tenon_call_t *call, const void *argument, int64_t begin, int64_t end, int product) {
  const running_t *p = (const running_t *)argument;
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t block = unit % p->blocks * COLUMNS;
    int64_t width = p->inner - block < COLUMNS ? p->inner - block : COLUMNS;
    int64_t at = unit / p->blocks * p->n * p->inner + block;
    int64_t step = p->reverse ? -p->inner : p->inner;
    W running[COLUMNS];
    if (p->reverse) at += (p->n - 1) * p->inner;
    for (int64_t i = 0; i < width; i++)
      running[i] = product ? 1 : 0;
    for (int64_t r = 0; r < p->n; r++, at += step) {
      const T *x = (const T *)call->inputs[0]->data + at;
      T *y = (T *)call->outputs[0]->data + at;
      for (int64_t i = 0; i < width; i++) {
        W next = product ? running[i] * (W)GET(x[i]) : running[i] + (W)GET(x[i]);
        y[i] = (T)SET(p->exclusive ? running[i] : next);
        running[i] = next;
      }
    }
  }
  return TENON_OK;
}

static tenon_status_t NAME(sum)(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  return NAME(running)(call, argument, begin, end, 0);
}

static tenon_status_t NAME(prod)(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  return NAME(running)(call, argument, begin, end, 1);
}

#undef T
#undef W
#undef NAME
#undef GET
#undef SET
