/* max_pool_backward and max_pool_gather for one dtype. Included by pool_backward.c, which defines T
 * (the element type) and NAME(x). */

/* Adds the elements of a plane that lie one after another, up to the first one whose index is not a
 * position of the plane. Returns how many were added. */
static int64_t NAME(put_row)(const spread_t *s, T *dx, const T *dy, const int64_t *indices,
                             int64_t number) {
  for (int64_t i = 0; i < s->pixels; i++) {
    const int64_t place = indices[i] - number * s->plane;
    if (place < 0 || place >= s->plane) return i;
    dx[place] += dy[i];
  }
  return s->pixels;
}

/* Writes planes [begin, end) of dx, the large tensor: adds each element of dy to the position that
 * its index states. */
static tenon_status_t NAME(put)(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const spread_t *s = (const spread_t *)argument;
  for (int64_t number = begin; number < end; number++) {
    const T *dy = (const T *)s->dy->data + plane_of(s->dy, number);
    const int64_t *indices = (const int64_t *)s->indices->data + plane_of(s->indices, number);
    T *dx = (T *)s->dx->data + number * s->plane;
    memset(dx, 0, (size_t)s->plane * sizeof(T));
    int64_t done = s->has_rows ? NAME(put_row)(s, dx, dy, indices, number) : 0;
    for (int64_t pixel = done; pixel < s->pixels; pixel++) {
      int64_t o[SPATIAL_MAX], place;
      int64_t index = indices[place_set(&s->window, s->indices, pixel, o)];
      TENON_TRY(index_to_position(call, s, number, index, &place));
      if (place >= 0) dx[place] += dy[place_set(&s->window, s->dy, pixel, o)];
    }
  }
  return TENON_OK;
}

/* Reads planes [begin, end) of the large dense tensor, which is `dy` here, at the positions that
 * the indices state. `dx` is a dense tensor with the shape of the indices. */
static tenon_status_t NAME(gather)(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const spread_t *s = (const spread_t *)argument;
  for (int64_t number = begin; number < end; number++) {
    const T *x = (const T *)s->dy->data + number * s->plane;
    const int64_t *indices = (const int64_t *)s->indices->data + plane_of(s->indices, number);
    for (int64_t pixel = 0; pixel < s->pixels; pixel++) {
      int64_t o[SPATIAL_MAX], place;
      int64_t index = indices[place_set(&s->window, s->indices, pixel, o)];
      TENON_TRY(index_to_position(call, s, number, index, &place));
      ((T *)s->dx->data)[number * s->pixels + pixel] = place < 0 ? 0 : x[place];
    }
  }
  return TENON_OK;
}

#undef T
#undef NAME
