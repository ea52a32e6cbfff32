/* The gradients of sampling at the points of a grid, for one dtype. Included by grid_sample.c,
 * which defines T (the element type) and NAME(x). */

/* Computes dx. A part is a block of channels of one image. */
static tenon_status_t NAME(sample_dx)(tenon_call_t *call, void *argument, int64_t begin,
                                      int64_t end) {
  const back_t *b = (const back_t *)argument;
  const grid_t *g = &b->grid;
  int64_t offset[PLACES_MAX];
  int64_t each = (g->channels - 1) / b->blocks + 1;
  double weight[PLACES_MAX];
  (void)call;
  for (int64_t part = begin; part < end; part++) {
    int64_t batch = part / b->blocks;
    int64_t first = part % b->blocks * each;
    int64_t last = first + each < g->channels ? first + each : g->channels;
    T *dx = (T *)b->dx->data + batch * g->channels * g->pixels;
    const T *dy = (const T *)b->dy->data + batch * g->channels * g->places;
    for (int64_t i = first * g->pixels; i < last * g->pixels; i++)
      dx[i] = 0;
    for (int64_t place = 0; place < g->places; place++) {
      int32_t count = corners_around(g, batch * g->places + place, offset, weight);
      for (int64_t c = first; c < last; c++)
        for (int32_t k = 0; k < count; k++)
          dx[c * g->pixels + offset[k]] += (T)weight[k] * dy[c * g->places + place];
    }
  }
  return TENON_OK;
}

/* Computes dgrid. A part is a point of the grid, counted over the whole batch. */
static tenon_status_t NAME(sample_dgrid)(tenon_call_t *call, void *argument, int64_t begin,
                                         int64_t end) {
  const back_t *b = (const back_t *)argument;
  const grid_t *g = &b->grid;
  (void)call;
  for (int64_t place = begin; place < end; place++) {
    int64_t index[AXES_MAX][TAPS_MAX];
    int64_t batch = place / g->places * g->channels;
    int64_t all = 1;
    double weight[AXES_MAX][TAPS_MAX], slope[AXES_MAX][TAPS_MAX];
    double sum[AXES_MAX] = {0};
    int32_t taps = 1;
    for (int32_t axis = 0; axis < g->axes; axis++, all *= taps)
      taps = taps_of(
          g, axis, number_get(g->grid->dtype, g->grid->data, place * g->axes + g->axes - 1 - axis),
          index[axis], weight[axis], slope[axis]);
    const T *x = (const T *)b->x->data + batch * g->pixels;
    const T *dy = (const T *)b->dy->data + batch * g->places + place % g->places;
    for (int64_t k = 0; k < all; k++) {
      int64_t rest = k;
      int64_t offset = 0;
      int64_t outside = 0;
      int32_t at[AXES_MAX];
      double value = 0;
      for (int32_t axis = 0; axis < g->axes; axis++) {
        at[axis] = (int32_t)(rest % taps);
        rest /= taps;
        outside |= index[axis][at[axis]] < 0;
        offset += index[axis][at[axis]] * g->stride[axis];
      }
      for (int64_t c = 0; c < g->channels && !outside; c++)
        value += (double)x[c * g->pixels + offset] * (double)dy[c * g->places];
      for (int32_t by = 0; by < g->axes; by++) {
        double factor = value;
        for (int32_t axis = 0; axis < g->axes; axis++)
          factor *= (axis == by ? slope : weight)[axis][at[axis]];
        sum[by] += factor;
      }
    }
    for (int32_t axis = 0; axis < g->axes; axis++)
      number_set(b->dgrid->dtype, b->dgrid->data, place * g->axes + g->axes - 1 - axis, sum[axis]);
  }
  return TENON_OK;
}

#undef T
#undef NAME
