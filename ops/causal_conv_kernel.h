/* The causal convolution for one dtype. Included by linear_attention.c, which defines T (the
 * element type) and NAME(x). */

/* Computes one channel of one batch item: row `row` of x viewed as [batch * channels, length]. */
static void NAME(channel)(const causal_t *c, int64_t row, int64_t channel) {
  int64_t length = c->in[0]->shape[2];
  int64_t taps = c->in[1]->shape[2];
  int64_t before = taps - 1;
  const T *x = (const T *)c->in[0]->data + row * length;
  const T *w = (const T *)c->in[1]->data + channel * taps;
  const T *past = c->in[3] ? (const T *)c->in[3]->data + row * before : 0;
  const T bias = c->in[2] ? ((const T *)c->in[2]->data)[channel] : 0;
  T *out = (T *)c->out->data + row * length;
  T *state = (T *)c->state->data + row * before;
  for (int64_t t = 0; t < length; t++)
    out[t] = bias;
  for (int64_t tap = 0; tap < taps; tap++) {
    /* The number of positions whose element under this tap lies in the past. */
    int64_t missing = before - tap < length ? before - tap : length;
    for (int64_t t = 0; past && t < missing; t++)
      out[t] += w[tap] * past[t + tap];
    for (int64_t t = missing; t < length; t++)
      out[t] += w[tap] * x[t + tap - before];
  }
  for (int64_t i = 0; i < before; i++) {
    int64_t at = length + i; /* position in past and x, concatenated */
    T earlier = past && at < before ? past[at] : 0;
    state[i] = at >= before ? x[at - before] : earlier;
  }
  if (c->silu)
    for (int64_t t = 0; t < length; t++)
      out[t] = out[t] * SIGMOID(out[t]);
}

#undef T
#undef NAME
