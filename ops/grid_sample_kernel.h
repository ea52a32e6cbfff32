/* Sampling at the points of a grid, for one dtype. Included by grid_sample.c, which defines T (the
 * element type) and NAME(x). */

/* Computes the results at points [begin, end), counted over the whole batch. */
static tenon_status_t NAME(sample)(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const grid_t *g = (const grid_t *)argument;
  int64_t offset[PLACES_MAX];
  double weight[PLACES_MAX];
  (void)call;
  for (int64_t place = begin; place < end; place++) {
    int32_t count = corners_around(g, place, offset, weight);
    int64_t batch = place / g->places;
    int64_t first = batch * g->channels;
    const T *x = (const T *)g->x + first * g->pixels;
    T *y = (T *)g->y + first * g->places + place % g->places;
    for (int64_t c = 0; c < g->channels; c++, x += g->pixels, y += g->places) {
      T sum = 0;
      for (int32_t k = 0; k < count; k++)
        sum += (T)weight[k] * x[offset[k]];
      *y = sum;
    }
  }
  return TENON_OK;
}

#undef T
#undef NAME
