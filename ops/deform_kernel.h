/* The samples of deform_conv for one dtype. deform.c includes this once per dtype with T (the
 * element) and NAME(x) defined. */

/* Interpolates a channel linearly at a point; corners outside count as zero. */
static T NAME(sample)(const window_t *w, const T *channel, const T *point) {
  int64_t low[AXES_MAX];
  T part[AXES_MAX];
  T sum = 0;
  for (int32_t i = 0; i < w->rank; i++) {
    if (!(point[i] > -1 && point[i] < (T)w->in[i])) return 0;
    low[i] = (int64_t)floor((double)point[i]);
    part[i] = point[i] - (T)low[i];
  }
  for (int32_t corner = 0; corner < 1 << w->rank; corner++) {
    T weight = 1;
    int64_t at = 0;
    for (int32_t i = 0; i < w->rank; i++) {
      int64_t place = low[i] + (corner >> i & 1);
      weight *= corner >> i & 1 ? part[i] : 1 - part[i];
      if (place < 0 || place >= w->in[i]) {
        weight = 0;
        place = 0;
      }
      at = at * w->in[i] + place;
    }
    if (weight != 0) sum += weight * channel[at];
  }
  return sum;
}

/* Packs the samples of `depth` rows of the patches. A vector is an output pixel; an element is a
 * channel and, within it, a tap. */
static void NAME(pack)(const operand_t *o, int64_t first, int64_t count, int64_t k, int64_t depth,
                       int64_t width, void *out) {
  const deform_t *d = (const deform_t *)o->context;
  const window_t *w = &d->window;
  int64_t image = o->vector / d->group;
  int64_t group = o->vector % d->group;
  int64_t channels = d->x->shape[1];
  for (int64_t e = 0; e < depth; e++) {
    int64_t channel = group * (channels / d->group) + (k + e) / d->taps;
    int64_t tap = (k + e) % d->taps;
    int64_t shared =
        (image * d->offset_group + channel / (channels / d->offset_group)) * d->taps + tap;
    const T *x = (const T *)d->x->data + (image * channels + channel) * d->plane;
    const T *offset = (const T *)d->offset->data + shared * w->rank * d->pixels;
    const T *mask = d->mask ? (const T *)d->mask->data + shared * d->pixels : 0;
    for (int64_t v = 0; v < count; v++) {
      int64_t pixel = first + v;
      int64_t rest = pixel;
      int64_t number = tap;
      T point[AXES_MAX];
      for (int32_t i = w->rank - 1; i >= 0; i--) {
        int64_t at =
            rest % w->out[i] * w->stride[i] - w->before[i] + number % w->kernel[i] * w->dilation[i];
        point[i] = (T)at + offset[i * d->pixels + pixel];
        rest /= w->out[i];
        number /= w->kernel[i];
      }
      T value = NAME(sample)(w, x, point);
      ((T *)out)[e * width + v] = mask ? value * mask[pixel] : value;
    }
  }
}
#undef T
#undef NAME
