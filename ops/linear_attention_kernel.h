/* Linear attention for one dtype. Included by linear_attention.c, which defines T (the element
 * type) and NAME(x). */

/* Computes head `h` of k and v, and all heads of q that share it, for batch item `b` over the whole
 * length. `correction` is a scratch row of `values` elements. */
static void NAME(head)(const linear_t *l, int64_t b, int64_t h, T *correction) {
  int64_t keys = l->keys;
  int64_t values = l->values;
  int64_t shared = l->q_heads / l->kv_heads;
  T *state = (T *)l->state->data + (b * l->kv_heads + h) * keys * values;
  const T *past =
      l->in[PAST] ? (const T *)l->in[PAST]->data + (b * l->kv_heads + h) * keys * values : 0;
  for (int64_t e = 0; e < keys * values; e++)
    state[e] = past ? past[e] : 0;
  for (int64_t t = 0; t < l->length; t++) {
    int64_t row = b * l->length + t;
    const T *k = (const T *)l->in[K]->data + (row * l->kv_heads + h) * keys;
    const T *v = (const T *)l->in[V]->data + (row * l->kv_heads + h) * values;
    if (l->gated) {
      int64_t width = l->in[DECAY]->shape[2];
      int64_t each = width / l->kv_heads;
      const T *decay = (const T *)l->in[DECAY]->data + row * width + h * each;
      for (int64_t d = 0; d < keys; d++) {
        T keep = EXP(decay[each == 1 ? 0 : d]);
        for (int64_t m = 0; m < values; m++)
          state[d * values + m] *= keep;
      }
    }
    for (int64_t m = 0; m < values; m++)
      correction[m] = v[m];
    if (l->delta) {
      int64_t width = l->in[BETA]->shape[2];
      T beta = ((const T *)l->in[BETA]->data)[row * width + (width == 1 ? 0 : h)];
      for (int64_t d = 0; d < keys; d++)
        for (int64_t m = 0; m < values; m++)
          correction[m] -= k[d] * state[d * values + m];
      for (int64_t m = 0; m < values; m++)
        correction[m] *= beta;
    }
    for (int64_t d = 0; d < keys; d++)
      for (int64_t m = 0; m < values; m++)
        state[d * values + m] += k[d] * correction[m];
    for (int64_t g = h * shared; g < (h + 1) * shared; g++) {
      const T *q = (const T *)l->in[Q]->data + (row * l->q_heads + g) * keys;
      T *out = (T *)l->out->data + (row * l->q_heads + g) * values;
      for (int64_t m = 0; m < values; m++)
        out[m] = 0;
      for (int64_t d = 0; d < keys; d++)
        for (int64_t m = 0; m < values; m++)
          out[m] += (T)l->scale * q[d] * state[d * values + m];
    }
  }
}

#undef T
#undef NAME
