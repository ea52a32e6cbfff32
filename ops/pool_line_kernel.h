/* One way to join elements under a window of f32. Included by simd/pool_line.c, which defines START
 * (the result of no elements), JOIN(a, b), FINISH(joined, divisor) and NAME(x). */

/* A function of its own, because gcc merges the loops of several taps and then vectorises none. */
__attribute__((noinline)) static void NAME(join)(float *restrict to, const float *restrict from,
                                                 int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    float a = to[i];
    float b = from[i];
    to[i] = JOIN(a, b);
  }
}

/* Joins elements [begin, end) of the rows, which may lie outside of the rows. */
static void NAME(join_rows)(const pool_line_t *line, const float *const *rows, int64_t count,
                            int64_t begin, int64_t end, float *joined) {
  int64_t first = begin < 0 ? 0 : begin;
  int64_t last = end < line->in ? end : line->in;
  for (int64_t i = 0; i < end - begin; i++)
    joined[i] = START;
  for (int64_t r = 0; r < count && first < last; r++)
    NAME(join)(joined + (first - begin), rows[r] + first, last - first);
}

/* Makes elements `stride` apart neighbours: the elements of each phase follow each other. */
static void NAME(sort)(const float *restrict joined, int64_t length, int64_t stride,
                       int64_t phase_length, float *restrict sorted) {
  for (int64_t i = 0; stride == 2 && i < length / 2; i++) { /* the usual stride, in vectors */
    sorted[i] = joined[2 * i];
    sorted[phase_length + i] = joined[2 * i + 1];
  }
  if (stride == 2 && length % 2) sorted[length / 2] = joined[length - 1];
  for (int64_t phase = 0; stride != 2 && phase < stride; phase++)
    for (int64_t i = phase, k = phase * phase_length; i < length; i += stride)
      sorted[k++] = joined[i];
}

static void NAME(pool_line)(const pool_line_t *line, const float *const *rows, int64_t count,
                            const float *divisors, float scale, float *out) {
  enum { ROOM = 2048 };
  float joined[ROOM], sorted[ROOM];
  (void)divisors;
  (void)scale;
  const int64_t stride = line->stride;
  const int64_t span = (line->kernel - 1) * line->dilation + 1;
  const int64_t most = (ROOM - span) / stride; /* results of a segment */
  for (int64_t at = 0; at < line->out; at += most) {
    int64_t some = line->out - at < most ? line->out - at : most;
    int64_t begin = at * stride - line->before;
    int64_t length = (some - 1) * stride + span;
    int64_t phase_length = (length - 1) / stride + 1;
    NAME(join_rows)(line, rows, count, begin, begin + length, joined);
    const float *source = joined;
    if (stride > 1) {
      NAME(sort)(joined, length, stride, phase_length, sorted);
      source = sorted;
    }
    float *to = out + at;
    for (int64_t i = 0; i < some; i++)
      to[i] = START;
    for (int64_t k = 0; k < line->kernel; k++) {
      int64_t tap = k * line->dilation;
      NAME(join)(to, source + tap % stride * phase_length + tap / stride, some);
    }
    for (int64_t i = 0; i < some; i++)
      to[i] = FINISH(to[i], divisors[at + i] * scale);
  }
}

#undef START
#undef JOIN
#undef FINISH
#undef NAME
