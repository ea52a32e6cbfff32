/* Packs the operands of conv_weight_backward's matrix product, for one dtype. Included by
 * conv_weight.c, which defines T (the element type) and NAME(x). */

/* Packs dy: a vector is a filter. */
static void NAME(dy_pack)(const operand_t *o, int64_t first, int64_t count, int64_t k,
                          int64_t depth, int64_t width, void *out) {
  const weight_t *w = (const weight_t *)o->context;
  const int64_t *strides = w->dy->strides;
  for (int64_t e = 0; e < depth; e++) {
    int64_t at[SPATIAL_MAX];
    int64_t offset = pixel_set(w, k + e, at) * strides[0] + first * strides[1];
    for (int32_t i = 0; i < w->window.rank; i++)
      offset += at[i] * strides[2 + i];
    for (int64_t v = 0; v < count; v++)
      ((T *)out)[e * width + v] = ((const T *)o->data)[offset + v * strides[1]];
  }
}

/* Packs x: a vector is a channel and, within it, a tap. */
static void NAME(x_pack)(const operand_t *o, int64_t first, int64_t count, int64_t k, int64_t depth,
                         int64_t width, void *out) {
  const weight_t *w = (const weight_t *)o->context;
  const window_t *window = &w->window;
  const int64_t *strides = w->x->strides;
  int64_t begin[GEMM_DEPTH][SPATIAL_MAX], base[GEMM_DEPTH], tap[SPATIAL_MAX];
  for (int64_t e = 0; e < depth; e++) {
    base[e] = pixel_set(w, k + e, begin[e]) * strides[0];
    for (int32_t i = 0; i < window->rank; i++)
      begin[e][i] = begin[e][i] * window->stride[i] - window->before[i];
  }
  for (int64_t v = 0; v < count; v++) {
    int64_t rest = (first + v) % w->taps;
    const T *from = (const T *)o->data + (first + v) / w->taps * strides[1];
    for (int32_t i = window->rank - 1; i >= 0; i--) {
      tap[i] = rest % window->kernel[i] * window->dilation[i];
      rest /= window->kernel[i];
    }
    for (int64_t e = 0; e < depth; e++) {
      int64_t offset = base[e];
      int inside = 1;
      for (int32_t i = 0; i < window->rank; i++) {
        int64_t at = begin[e][i] + tap[i];
        inside = inside && at >= 0 && at < window->in[i];
        offset += at * strides[2 + i];
      }
      ((T *)out)[e * width + v] = inside ? from[offset] : 0;
    }
  }
}

#undef T
#undef NAME
