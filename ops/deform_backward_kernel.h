/* The patches of deform_conv, and their gradients, for one dtype. deform_backward.c includes this
 * once per dtype with T (the element) and NAME(x) defined. */

/* A part is (image, offset group). Computes the patches where p->out is set, and each of the
 * gradients dx, doffset and dmask that is set. */
static tenon_status_t NAME(units)(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const patches_t *p = (const patches_t *)argument;
  const window_t *w = &p->window;
  (void)call;
  for (int64_t unit = begin; unit < end; unit++) {
    const T *x = (const T *)p->x->data + unit * p->channels * p->plane;
    T *dx = p->dx ? (T *)p->dx->data + unit * p->channels * p->plane : 0;
    if (dx) memset(dx, 0, (size_t)(p->channels * p->plane) * sizeof(T));
    for (int64_t row = 0; row < p->taps * p->pixels; row++) {
      int64_t tap = row / p->pixels;
      int64_t pixel = row % p->pixels;
      int64_t number = tap;
      int64_t rest = pixel;
      int64_t shared = (unit * p->taps + tap) * p->pixels + pixel;
      int64_t moved = (unit * p->taps + tap) * w->rank * p->pixels + pixel; /* of the first axis */
      double point[AXES_MAX];
      double mask = p->mask ? (double)((const T *)p->mask->data)[shared] : 1;
      double dmask = 0;
      double dpoint[AXES_MAX] = {0};
      corners_t c;
      for (int32_t i = w->rank - 1; i >= 0; i--) {
        int64_t at =
            rest % w->out[i] * w->stride[i] - w->before[i] + number % w->kernel[i] * w->dilation[i];
        point[i] = (double)(T)((T)at + ((const T *)p->offset->data)[moved + i * p->pixels]);
        rest /= w->out[i];
        number /= w->kernel[i];
      }
      corners_set(w, point, &c);
      for (int64_t channel = 0; channel < p->channels; channel++) {
        int64_t at = ((unit * p->channels + channel) * p->taps + tap) * p->pixels + pixel;
        const T *from = x + channel * p->plane;
        double sum = 0;
        double g = p->dp ? (double)((const T *)p->dp->data)[at] : 0;
        for (int32_t k = 0; k < c.count; k++) {
          if (c.at[k] < 0) continue;
          double value = (double)from[c.at[k]];
          sum += c.weight[k] * value;
          if (dx) dx[channel * p->plane + c.at[k]] += (T)(g * mask * c.weight[k]);
          for (int32_t i = 0; i < w->rank && p->doffset; i++)
            dpoint[i] += g * mask * c.slope[i][k] * value;
        }
        dmask += g * sum;
        if (p->out) ((T *)p->out->data)[at] = (T)(sum * mask);
      }
      if (p->dmask) ((T *)p->dmask->data)[shared] = (T)dmask;
      for (int32_t i = 0; i < w->rank && p->doffset; i++)
        ((T *)p->doffset->data)[moved + i * p->pixels] = (T)dpoint[i];
    }
  }
  return TENON_OK;
}
#undef T
#undef NAME
