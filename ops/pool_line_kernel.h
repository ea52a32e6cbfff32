/* One way to join elements under a window. Included by simd/pool_line.c, which defines T (their
 * type), START (the result of no elements), JOIN(a, b), FINISH(joined, divisor) and NAME(x), and
 * IS_AVERAGE for sums, whose planes have divisors. */

/* Functions of their own, because gcc merges the loops of several taps and then vectorises none. */
__attribute__((noinline)) static void NAME(join)(T *restrict to, const T *restrict from,
                                                 int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    T a = to[i];
    T b = from[i];
    to[i] = JOIN(a, b);
  }
}

__attribute__((noinline)) static void NAME(join_two)(T *restrict to, const T *restrict x,
                                                     const T *restrict y, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    T a = x[i];
    T b = y[i];
    to[i] = JOIN(a, b);
  }
}

__attribute__((noinline)) static void NAME(join_three)(T *restrict to, const T *restrict x,
                                                       const T *restrict y, const T *restrict z,
                                                       int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    T a = x[i];
    T b = y[i];
    T c = z[i];
    a = JOIN(a, b);
    to[i] = JOIN(a, c);
  }
}

/* Joins `count` elements of each source, from element `first` on, in the order of the sources. */
static void NAME(join_all)(T *to, const void *const *sources, int64_t source_count, int64_t first,
                           int64_t count) {
  const T *from[3] = {NULL};
  int64_t done = source_count < 3 ? source_count : 3;
  for (int64_t i = 0; i < done; i++)
    from[i] = (const T *)sources[i] + first;
  if (source_count == 0)
    for (int64_t i = 0; i < count; i++)
      to[i] = START;
  if (done == 1) memcpy(to, from[0], (size_t)count * sizeof *to);
  if (done == 2) NAME(join_two)(to, from[0], from[1], count);
  if (done == 3) NAME(join_three)(to, from[0], from[1], from[2], count);
  for (; done < source_count; done++)
    NAME(join)(to, (const T *)sources[done] + first, count);
}

/* Joins elements [begin, end) of the rows, which may lie outside of the rows. */
static void NAME(join_rows)(const pool_line_t *line, const void *const *rows, int64_t count,
                            int64_t begin, int64_t end, T *joined) {
  int64_t first = begin < 0 ? 0 : begin;
  int64_t last = end < line->in ? end : line->in;
  if (last < first) last = first;
  for (int64_t i = begin; i < first && i < end; i++)
    joined[i - begin] = START;
  if (first < last) NAME(join_all)(joined + (first - begin), rows, count, first, last - first);
  for (int64_t i = last; i < end; i++)
    joined[i - begin] = START;
}

/* Makes elements `stride` apart neighbours: the elements of each phase follow each other. */
static void NAME(sort)(const T *restrict joined, int64_t length, int64_t stride,
                       int64_t phase_length, T *restrict sorted) {
  for (int64_t i = 0; stride == 2 && i < length / 2; i++) { /* the usual stride, in vectors */
    sorted[i] = joined[2 * i];
    sorted[phase_length + i] = joined[2 * i + 1];
  }
  if (stride == 2 && length % 2) sorted[length / 2] = joined[length - 1];
  for (int64_t phase = 0; stride != 2 && phase < stride; phase++)
    for (int64_t i = phase, k = phase * phase_length; i < length; i += stride)
      sorted[k++] = joined[i];
}

/* Joins two or three neighbours for results that are two elements apart. */
__attribute__((noinline)) static void NAME(pick_two)(T *restrict to, const T *restrict joined,
                                                     int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    T a = joined[2 * i];
    T b = joined[2 * i + 1];
    to[i] = JOIN(a, b);
  }
}

__attribute__((noinline)) static void NAME(pick_three)(T *restrict to, const T *restrict joined,
                                                       int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    T a = joined[2 * i];
    T b = joined[2 * i + 1];
    T c = joined[2 * i + 2];
    a = JOIN(a, b);
    to[i] = JOIN(a, c);
  }
}

/* Joins neighbours, those that are SIDE apart first, for windows that are too wide for a pass over
 * the results for each tap. */
static T NAME(fold)(const T *joined, int64_t count) {
  enum { SIDE = 64 / sizeof(T) };
  T part[SIDE];
  int64_t i = 0;
  for (int k = 0; k < SIDE; k++)
    part[k] = START;
  for (; i + SIDE <= count; i += SIDE)
    for (int k = 0; k < SIDE; k++) {
      T a = part[k];
      T b = joined[i + k];
      part[k] = JOIN(a, b);
    }
  for (int half = SIDE / 2; half; half /= 2)
    for (int k = 0; k < half; k++) {
      T a = part[k];
      T b = part[k + half];
      part[k] = JOIN(a, b);
    }
  T all = part[0];
  for (; i < count; i++) {
    T b = joined[i];
    all = JOIN(all, b);
  }
  return all;
}

/* Computes results from the joined row directly, where that is the fastest. Returns 0 elsewhere. */
static int NAME(join_directly)(const pool_line_t *line, const T *joined, int64_t count, T *to) {
  enum { WIDE = 16, FEW = 8 };
  if (line->dilation != 1) return 0;
  if (line->kernel >= WIDE && count < FEW) {
    for (int64_t i = 0; i < count; i++)
      to[i] = NAME(fold)(joined + i * line->stride, line->kernel);
    return 1;
  }
  if (line->stride != 2 || (line->kernel != 2 && line->kernel != 3)) return 0;
  if (line->kernel == 2)
    NAME(pick_two)(to, joined, count);
  else
    NAME(pick_three)(to, joined, count);
  return 1;
}

/* Joins `count` windows of the joined row, a tap after the other. `sorted` has room for the row. */
static void NAME(join_taps)(const pool_line_t *line, const T *joined, int64_t count, T *sorted,
                            T *to) {
  const int64_t stride = line->stride;
  const int64_t length = (count - 1) * stride + (line->kernel - 1) * line->dilation + 1;
  const int64_t phase_length = (length - 1) / stride + 1;
  const void *taps[POOL_SPAN];
  const T *source = joined;
  if (stride > 1) {
    NAME(sort)(joined, length, stride, phase_length, sorted);
    source = sorted;
  }
  for (int64_t k = 0; k < line->kernel; k++) {
    int64_t tap = k * line->dilation;
    taps[k] = source + tap % stride * phase_length + tap / stride;
  }
  NAME(join_all)(to, taps, line->kernel, 0, count);
}

static void NAME(pool_line)(const pool_line_t *line, const void *const *rows, int64_t count,
                            const float *divisors, float scale, void *out) {
  enum { ROOM = 2048 };
  T joined[ROOM], sorted[ROOM];
  (void)divisors;
  (void)scale;
  const int64_t stride = line->stride;
  const int64_t span = (line->kernel - 1) * line->dilation + 1;
  const int64_t most = (ROOM - span) / stride; /* results of a segment */
  for (int64_t at = 0; at < line->out; at += most) {
    int64_t some = line->out - at < most ? line->out - at : most;
    int64_t begin = at * stride - line->before;
    int64_t length = (some - 1) * stride + span;
    T *to = (T *)out + at;
    const int is_row = count == 1 && begin >= 0 && begin + length <= line->in;
    const T *source = is_row ? (const T *)rows[0] + begin : joined;
    if (!is_row) NAME(join_rows)(line, rows, count, begin, begin + length, joined);
    if (!NAME(join_directly)(line, source, some, to))
      NAME(join_taps)(line, source, some, sorted, to);
    for (int64_t i = 0; i < some; i++)
      to[i] = FINISH(to[i], divisors[at + i] * scale);
  }
}

/* Joins the rows under each row of results. Where no row of a window lies outside, rows of results
 * are computed together. */
static void NAME(join_planes)(const pool_plane_t *p, const T *x, T *joined) {
  const void *rows[POOL_TAPS];
  for (int64_t row = 0, some; row < p->out; row += some) {
    const int64_t begin = row - p->before[0];
    const int64_t end = begin + p->kernel[0];
    const int64_t first = begin > 0 ? begin : 0;
    const int64_t last = end < p->in ? end : p->in;
    some = begin >= 0 && end <= p->in ? p->in - end + 1 : 1;
    if (some > p->out - row) some = p->out - row;
    for (int64_t k = first; k < last; k++)
      rows[k - first] = x + k * p->width;
    NAME(join_all)
    (joined + row * p->width, rows, last > first ? last - first : 0, 0, some * p->width);
  }
}

/* Computes result i of each row again, without the taps that lie in other rows. */
static void NAME(mend_column)(const pool_plane_t *p, const T *restrict joined, int64_t i,
                              T *restrict out) {
  const int64_t begin = i - p->before[1];
  const int64_t end = begin + p->kernel[1];
  const int64_t first = begin > 0 ? begin : 0;
  const int64_t taps = (end < p->width ? end : p->width) - first;
  for (int64_t row = 0; row < p->out; row++, joined += p->width, out += p->width) {
    T all = joined[first];
    for (int64_t k = 1; k < taps; k++) {
      T b = joined[first + k];
      all = JOIN(all, b);
    }
    out[i] = all;
  }
}

/* The same for windows of three, of which two elements are left. */
static void NAME(mend_two)(const pool_plane_t *p, const T *restrict joined, T *restrict out) {
  const int64_t end = p->width - 1;
  for (int64_t row = 0; row < p->out; row++, joined += p->width, out += p->width) {
    T a = joined[0];
    T b = joined[1];
    T c = joined[end - 1];
    T d = joined[end];
    out[0] = JOIN(a, b);
    out[end] = JOIN(c, d);
  }
}

static void NAME(mend_sides)(const pool_plane_t *p, const T *joined, T *out) {
  const int64_t left = p->before[1] < p->width ? p->before[1] : p->width;
  const int64_t inner = p->width - (p->kernel[1] - 1 - p->before[1]);
  if (p->kernel[1] == 3 && p->before[1] == 1 && p->width > 1) {
    NAME(mend_two)(p, joined, out);
    return;
  }
  for (int64_t i = 0; i < left; i++)
    NAME(mend_column)(p, joined, i, out);
  for (int64_t i = inner > left ? inner : left; i < p->width; i++)
    NAME(mend_column)(p, joined, i, out);
}

#ifdef IS_AVERAGE
static void NAME(divide)(T *restrict to, const float *restrict divisors, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    to[i] = FINISH(to[i], divisors[i]);
}
#endif

static void NAME(pool_plane)(const pool_plane_t *p, const void *x, void *out) {
  T room[POOL_TAPS + POOL_PLANE + POOL_TAPS];
  T *joined = room + POOL_TAPS;
  const void *taps[POOL_TAPS];
  const int64_t count = p->out * p->width;
  NAME(join_planes)(p, (const T *)x, joined);
  for (int64_t i = 0; i < POOL_TAPS; i++)
    room[i] = joined[count + i] = START;
  for (int64_t k = 0; k < p->kernel[1]; k++)
    taps[k] = joined + k - p->before[1];
  NAME(join_all)((T *)out, taps, p->kernel[1], 0, count);
  NAME(mend_sides)(p, joined, (T *)out);
#ifdef IS_AVERAGE
  NAME(divide)((T *)out, p->divisors, count);
#endif
}

#undef IS_AVERAGE
#undef T
#undef START
#undef JOIN
#undef FINISH
#undef NAME
