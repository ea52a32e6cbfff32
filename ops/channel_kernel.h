/* The loops of simd/channel.c for one dtype, as parts of a parallel loop over the plan. That file
 * includes this for f32 and f64 with T (the element), NAME(x) and POWER (the power of two numbers)
 * defined. */

/* A unit is a row of the tensor. It belongs to one channel or, if inner is 1, to all channels. */
static tenon_status_t NAME(batch_norm)(tenon_call_t *call, void *argument, int64_t begin,
                                       int64_t end) {
  const plan_t *p = (const plan_t *)argument;
  const T *mean = (const T *)p->mean;
  const T *scale = (const T *)p->scale;
  const T *bias = (const T *)p->bias;
  (void)call;
  for (int64_t row = begin; row < end; row++) {
    int64_t width = p->inner == 1 ? p->n : p->inner;
    const T *restrict x = (const T *)p->x + row * p->pitch;
    T *restrict y = (T *)p->y + row * width;
    if (p->inner == 1) {
      for (int64_t i = 0; i < width; i++)
        y[i] = (x[i] - mean[i]) * scale[i] + bias[i];
    } else {
      T m = mean[row % p->n];
      T a = scale[row % p->n];
      T b = bias[row % p->n];
      for (int64_t i = 0; i < width; i++)
        y[i] = (x[i] - m) * a + b;
    }
  }
  return TENON_OK;
}

/* In lrn and lp_norm, a unit is a block of columns. */
static tenon_status_t NAME(lrn)(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const plan_t *p = (const plan_t *)argument;
  (void)call;
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t block = unit % p->blocks * COLUMNS;
    int64_t at = unit / p->blocks * p->n * p->inner + block;
    int64_t width = p->inner - block < COLUMNS ? p->inner - block : COLUMNS;
    const T *x = (const T *)p->x + at;
    T *y = (T *)p->y + at;
    T sum[COLUMNS];
    T alpha = (T)p->alpha;
    T beta = (T)-p->beta;
    T constant = (T)p->constant;
    for (int64_t c = 0; c < p->n; c++) {
      int64_t first = c < p->before ? 0 : c - p->before;
      int64_t last = p->n - c <= p->after ? p->n - 1 : c + p->after;
      for (int64_t i = 0; i < width; i++)
        sum[i] = 0;
      for (int64_t k = first; k <= last; k++)
        for (int64_t i = 0; i < width; i++)
          sum[i] += x[k * p->inner + i] * x[k * p->inner + i];
      for (int64_t i = 0; i < width; i++)
        y[c * p->inner + i] = x[c * p->inner + i] * POWER(constant + alpha * sum[i], beta);
    }
  }
  return TENON_OK;
}

static tenon_status_t NAME(lp_norm)(tenon_call_t *call, void *argument, int64_t begin,
                                    int64_t end) {
  const plan_t *p = (const plan_t *)argument;
  (void)call;
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t block = unit % p->blocks * COLUMNS;
    int64_t at = unit / p->blocks * p->n * p->inner + block;
    int64_t width = p->inner - block < COLUMNS ? p->inner - block : COLUMNS;
    const T *x = (const T *)p->x + at;
    T *y = (T *)p->y + at;
    double norm[COLUMNS] = {0};
    for (int64_t r = 0; r < p->n; r++) {
      const T *row = x + r * p->inner;
      if (p->power == 1)
        for (int64_t i = 0; i < width; i++)
          norm[i] += (double)ABS(row[i]);
      else
        for (int64_t i = 0; i < width; i++)
          norm[i] += (double)row[i] * (double)row[i];
    }
    for (int64_t i = 0; i < width; i++)
      norm[i] = p->power == 1 ? norm[i] : sqrt(norm[i]);
    for (int64_t i = 0; i < width; i++)
      norm[i] = norm[i] == 0 ? 0 : 1 / norm[i];
    for (int64_t r = 0; r < p->n; r++)
      for (int64_t i = 0; i < width; i++)
        y[r * p->inner + i] = (T)((double)x[r * p->inner + i] * norm[i]);
  }
  return TENON_OK;
}

/* A unit is the set of elements that share a mean. */
static tenon_status_t NAME(mean_variance)(tenon_call_t *call, void *argument, int64_t begin,
                                          int64_t end) {
  const plan_t *p = (const plan_t *)argument;
  int32_t others = p->reduced - 1;
  int64_t length = p->reduced_shape[others];
  int64_t stride = p->reduced_stride[others];
  int64_t runs = p->n / length;
  (void)call;
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t base = offset_of(p->kept_shape, p->kept_stride, p->kept, unit);
    double moment[3] = {0, 0, 0};
    for (int k = 0; k < 3; k++) { /* three passes: mean, variance, result */
      for (int64_t r = 0; r < runs; r++) {
        int64_t at = base + offset_of(p->reduced_shape, p->reduced_stride, others, r);
        const T *x = (const T *)p->x + at;
        T *y = (T *)p->y + at;
        for (int64_t i = 0; i < length; i++) {
          double d = (double)x[i * stride] - moment[0];
          if (k == 2)
            y[i * stride] = (T)(d * moment[1]);
          else
            moment[2] += k ? d * d : d;
        }
      }
      if (k == 0) moment[0] = moment[2] / (double)p->n;
      if (k == 1) moment[1] = 1 / (sqrt(moment[2] / (double)p->n) + 1e-9);
      moment[2] = 0;
    }
  }
  return TENON_OK;
}
#undef T
#undef NAME
#undef POWER
