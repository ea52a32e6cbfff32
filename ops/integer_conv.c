/* Convolutions of 8-bit numbers, accumulated in 32 bits and narrowed to 8 bits again if wanted
 * (integer.h). A convolution is a product of the filters with patches of x, which are written as
 * panels of quads for a range of pixels at a time. Depthwise convolutions multiply lines of x.
 * Invariant: padding is the zero point, whose share of a sum is subtracted at the end. */
#include "capability.h"
#include "dense.h"
#include "integer.h"
#include "window.h"
#include <string.h>

enum {
  LINE = 512,      /* pixels of a line of patches */
  ROUND = 1 << 19, /* quads of the patches of a round */
  PLANE = 1 << 15, /* numbers of a depthwise plane, or of a band of it */
  TAPS = 128,      /* most taps of a depthwise convolution */
};

/* The part of a line of patches that lies in one row of x, for one tap. It is the same in all
 * channels. */
typedef struct segment_t {
  int64_t offset; /* in a plane, of the first element */
  int32_t count;  /* of elements */
  int32_t low;    /* those in [low, high) are in the row; the others are padding */
  int32_t high;
} segment_t;

typedef void (*row_taps_fn)(const integer_steps_t *steps, const uint8_t *const *quads,
                            int64_t stride, int64_t count, int32_t *sums);

typedef struct conv_job_t {
  const integer_convolution_t *all;
  const integer_tiles_t *kernels;
  window_t window; /* with adjacent axes joined where the window allows it */
  int64_t channels;
  int64_t filters; /* of one group */
  int64_t taps;
  int64_t depth;
  int64_t in_pixels;
  int64_t pixels;
  const integer_weights_t *weights;
  const integer_steps_t *steps; /* of the group at hand */
  uint8_t flip;                 /* inverts the sign bit of i8, which adds 128 */
  uint8_t zero;                 /* the zero point of x, flipped */
  const uint8_t *x;             /* of the image and group at hand */
  int64_t filter;               /* the first filter of the group */
  char *out;                    /* of the image */
  int64_t first;                /* the pixel with which the round begins */
  int64_t count;                /* pixels of the round */
  uint32_t *panels;
  segment_t *segments; /* of the round: of each line and tap */
} conv_job_t;

/* Weights */

int core_integer_is_depthwise(const tenon_tensor_t *w) {
  return w->ndim == 4 && w->shape[1] == 1 && w->shape[2] * w->shape[3] <= TAPS;
}

/* The kernel for quads of neighbours in one row; NULL: this processor has none. */
static row_taps_fn row_taps_of_isa(void) {
  return core_has_vbmi() ? core_integer_tiles_of_isa()->row_taps : NULL;
}

int core_integer_filters_kind(const tenon_tensor_t *w, int64_t group, const int64_t *strides) {
  if (core_integer_is_depthwise(w)) return FILTERS_DEPTHWISE;
  if (w->ndim != 4 || group != 1 || w->shape[1] < 4 || tenon_count(w) == 0)
    return FILTERS_OF_PATCHES;
  const int is_dense = strides[0] == 1 && strides[1] == 1;
  return is_dense && w->shape[2] * w->shape[3] > 1 ? FILTERS_OF_PLANES : FILTERS_OF_PATCHES;
}

integer_weights_t *core_integer_filters_create(const tenon_tensor_t *w,
                                               const tenon_tensor_t *w_zero, int64_t group,
                                               int kind) {
  const int64_t elements = w->shape[0] ? tenon_count(w) / w->shape[0] : 0;
  integer_matrix_t first = {.data = (const uint8_t *)w->data,
                            .is_signed = core_is(w, TENON_I8),
                            .count = w->shape[0] / group,
                            .step = elements,
                            .inner = elements,
                            .inner_step = 1};
  const int is_depthwise = kind == FILTERS_DEPTHWISE;
  if (is_depthwise && row_taps_of_isa()) first.row = w->shape[3];
  if (kind == FILTERS_OF_PLANES) first.taps = w->shape[2] * w->shape[3];
  if (w_zero) {
    first.zeros = (const uint8_t *)w_zero->data;
    first.zero_step = tenon_count(w_zero) > 1;
  }
  return core_integer_weights_create(&first, group,
                                     is_depthwise ? 1 : core_integer_tiles_of_isa()->rows);
}

/* Results */

/* What is added to the sums of a filter: its bias, and the share of the zero point. */
static int32_t start_of(const conv_job_t *job, int64_t filter) {
  const uint32_t bias = job->all->bias ? (uint32_t)job->all->bias[filter] : 0;
  return (int32_t)(bias - job->zero * (uint32_t)job->weights->sums[filter]);
}

static void narrow_sums(const conv_job_t *job, int64_t filter, int64_t count, const int32_t *sums,
                        uint8_t *out) {
  const integer_narrow_t *narrow = job->all->narrow;
  const float *scales[2] = {narrow->scales[0].data, narrow->scales[1].data};
  float scale = scales[0][0] * scales[1][filter * narrow->scales[1].strides[1]] / narrow->scale;
  int32_t start = start_of(job, filter);
  job->kernels->narrow(&narrow->limits, sums, &start, &scale, 0, count, out);
}

/* Writes the results of a filter, from `pixel` on. */
static void write_sums(const conv_job_t *job, int64_t filter, int64_t pixel, int64_t count,
                       const int32_t *sums) {
  const int64_t at = filter * job->pixels + pixel;
  if (job->all->narrow) {
    narrow_sums(job, filter, count, sums, (uint8_t *)job->out + at);
    return;
  }
  const uint32_t start = (uint32_t)start_of(job, filter);
  int32_t *out = (int32_t *)(void *)job->out + at;
  for (int64_t i = 0; i < count; i++)
    out[i] = (int32_t)((uint32_t)sums[i] + start);
}

static void finish_row(const void *context, int64_t row, int64_t column, int64_t count,
                       int32_t *sums) {
  const conv_job_t *job = (const conv_job_t *)context;
  write_sums(job, job->filter + row, job->first + column, count, sums);
}

/* Patches */

/* Where in a plane the input row begins that output row `outer` reads under the outer part of a
 * tap; -1: padding. Rows run along the last axis. */
static int64_t row_under(const conv_job_t *job, int64_t outer, int64_t tap) {
  const window_t *w = &job->window;
  int64_t stride = w->in[w->rank - 1];
  int64_t offset = 0;
  for (int32_t i = w->rank - 2; i >= 0; i--) {
    int64_t at =
        outer % w->out[i] * w->stride[i] - w->before[i] + tap % w->kernel[i] * w->dilation[i];
    if (at < 0 || at >= w->in[i]) return -1;
    offset += at * stride;
    stride *= w->in[i];
    outer /= w->out[i];
    tap /= w->kernel[i];
  }
  return offset;
}

/* Elements [low, high) of a part of an axis are in it; the others are padding. */
typedef struct inside_t {
  int64_t low;
  int64_t high;
} inside_t;

/* For `count` elements from `at` on, `stride` apart, of an axis of `in` elements. */
static inside_t find_inside(int64_t in, int64_t at, int64_t stride, int64_t count) {
  int64_t low = at < 0 ? -at : 0;
  int64_t high = at < in ? in - at : 0;
  if (stride > 1) {
    low = (low + stride - 1) / stride;
    high = (high + stride - 1) / stride;
  }
  if (low > count) low = count;
  if (high > count) high = count;
  return (inside_t){low, high < low ? low : high};
}

/* The most segments of a line. */
static int64_t line_segments(const conv_job_t *job) {
  const int64_t width = job->window.out[job->window.rank - 1];
  const int64_t rows = (LINE - 1) / width + 2;
  return rows < LINE ? rows : LINE;
}

/* Finds the segments of each tap for pixels [pixel, pixel + count) of one line. */
static void find_segments(const conv_job_t *job, int64_t pixel, int64_t count, segment_t *all) {
  const window_t *w = &job->window;
  const int32_t last = w->rank - 1;
  const int64_t width = w->out[last];
  const int64_t across = w->kernel[last];
  const int64_t stride = w->stride[last];
  for (int64_t tap = 0; tap < job->taps; tap++) {
    segment_t *out = all + tap * line_segments(job);
    for (int64_t done = 0; done < count; out++) {
      int64_t begin = (pixel + done) % width;
      int64_t some = width - begin < count - done ? width - begin : count - done;
      int64_t at = begin * stride + tap % across * w->dilation[last] - w->before[last];
      int64_t row = row_under(job, (pixel + done) / width, tap / across);
      inside_t inside = find_inside(w->in[last], at, stride, some);
      if (row < 0) inside.low = inside.high = some;
      *out = (segment_t){row + at, (int32_t)some, (int32_t)inside.low, (int32_t)inside.high};
      done += some;
    }
  }
}

/* Writes an element of `count` patches as u8, and the zero point as padding. */
static void write_line(const conv_job_t *job, const uint8_t *plane, const segment_t *segment,
                       int64_t count, uint8_t *out) {
  const int64_t stride = job->window.stride[job->window.rank - 1];
  for (const uint8_t *end = out + count; out < end; segment++) {
    const int64_t some = segment->high - segment->low;
    const uint8_t *from = plane + segment->offset + segment->low * stride;
    for (int64_t i = 0; i < segment->low; i++)
      out[i] = job->zero;
    if (some > 0 && stride == 1 && !job->flip)
      memcpy(out + segment->low, from, (size_t)some);
    else if (some > 0)
      job->kernels->copy(from, stride, job->flip, some, out + segment->low);
    for (int64_t i = segment->high; i < segment->count; i++)
      out[i] = job->zero;
    out += segment->count;
  }
}

/* Are lines of patches lines of x? */
static int reads_lines_of_x(const conv_job_t *job) {
  const window_t *w = &job->window;
  return job->taps == 1 && w->rank == 1 && w->stride[0] == 1 && w->before[0] == 0 &&
         w->in[0] == w->out[0] && !job->flip;
}

/* Element number e of `count` patches, from pixel `at` of the round on: in x, or copied to room.
 * `most` numbers may be read, of which only the first `count` matter. */
static const uint8_t *line_of(const conv_job_t *job, int64_t e, int64_t at, int64_t count,
                              int64_t most, const segment_t *segments, uint8_t *room) {
  const int64_t begin = e / job->taps * job->in_pixels + job->first + at;
  if (reads_lines_of_x(job) && begin + most <= job->channels * job->in_pixels)
    return job->x + begin;
  write_line(job, job->x + e / job->taps * job->in_pixels,
             segments + e % job->taps * line_segments(job), count, room);
  return room;
}

/* A part is a quad of elements (a channel and a tap). Elements that do not exist have weight 0. */
static tenon_status_t patches_write(tenon_call_t *call, void *argument, int64_t begin,
                                    int64_t end) {
  const conv_job_t *job = (const conv_job_t *)argument;
  const int64_t columns = job->kernels->columns;
  const int64_t elements = job->channels * job->taps;
  uint8_t room[4][LINE + TILE_COLUMNS_MOST] = {{0}};
  const uint8_t *lines[4] = {room[0], room[1], room[2], room[3]};
  const int64_t each = line_segments(job);
  (void)call;
  for (int64_t at = 0; at < job->count; at += LINE) {
    int64_t some = job->count - at < LINE ? job->count - at : LINE;
    const int64_t panels = (some - 1) / columns + 1;
    const segment_t *segments = job->segments + at / LINE * job->taps * each;
    for (int64_t quad = begin; quad < end; quad++) {
      for (int64_t e = 4 * quad; e < 4 * quad + 4 && e < elements; e++)
        lines[e % 4] = line_of(job, e, at, some, panels * columns, segments, room[e % 4]);
      for (int64_t e = elements; e < 4 * quad + 4; e++)
        lines[e % 4] = room[e % 4];
      job->kernels->quad(lines, panels, job->panels + at * job->depth + quad * columns,
                         job->depth * columns);
    }
  }
  return TENON_OK;
}

/* Convolves one group of one image, in rounds of as many pixels as `panels` has room for. */
static tenon_status_t convolve_group(tenon_call_t *call, conv_job_t *job, int64_t room) {
  for (job->first = 0; job->first < job->pixels; job->first += job->count) {
    int64_t left = job->pixels - job->first;
    job->count = left < room ? left : room;
    for (int64_t at = 0; at < job->count; at += LINE)
      find_segments(job, job->first + at, job->count - at < LINE ? job->count - at : LINE,
                    job->segments + at / LINE * job->taps * line_segments(job));
    int64_t grain = 1 + (1 << 14) / job->count;
    TENON_TRY(call->host->parallel(call, job->depth, grain, patches_write, job));
    integer_product_t product = {.left_steps = job->steps,
                                 .right = job->panels,
                                 .rows = job->filters,
                                 .columns = job->count,
                                 .depth = job->depth,
                                 .finish = finish_row,
                                 .context = job};
    TENON_TRY(core_integer_product(call, &product));
  }
  return TENON_OK;
}

/* Copies the two ends of a row of size to 2 * size bytes, which may overlap. */
static void copy_ends(const uint8_t *from, int64_t width, size_t size, uint8_t *to) {
  memcpy(to, from, size);
  memcpy(to + width - size, from + width - size, size);
}

/* Copies a row, which is often too short for a call of memcpy to be worth it. */
static inline void copy_row(const uint8_t *from, int64_t width, uint8_t *to) {
  if (width > 64)
    memcpy(to, from, (size_t)width);
  else if (width >= 32)
    copy_ends(from, width, 32, to);
  else if (width >= 16)
    copy_ends(from, width, 16, to);
  else if (width >= 8)
    copy_ends(from, width, 8, to);
  else if (width >= 4)
    copy_ends(from, width, 4, to);
  else
    for (int64_t k = 0; k < width; k++)
      to[k] = from[k];
}

/* Convolutions of planes: quads of channels lie beside each other, with their padding, so that the
 * elements under a tap are adjacent for all results. Positions behind the end of a row of results
 * are computed as well. */

typedef struct planes_t {
  const conv_job_t *job;
  int64_t rows;  /* of a plane, with padding */
  int64_t pitch; /* of a row */
  int64_t size;  /* of a plane */
  uint32_t *quads;
} planes_t;

/* Writes `count` numbers of four channels beside each other, from number `first` of a plane on.
 * What follows in `to` may be overwritten. */
static void write_quads(const conv_job_t *job, int64_t channel, int64_t first, int64_t count,
                        uint32_t *to) {
  const int64_t columns = job->kernels->columns;
  uint8_t room[4][LINE + TILE_COLUMNS_MOST] = {{0}};
  for (int64_t at = 0; at < count; at += LINE) {
    const int64_t some = count - at < LINE ? count - at : LINE;
    const int64_t panels = (some - 1) / columns + 1;
    const uint8_t *lines[4] = {room[0], room[1], room[2], room[3]};
    for (int64_t k = 0; k < 4 && channel + k < job->channels; k++) {
      const int64_t begin = (channel + k) * job->in_pixels + first + at;
      if (!job->flip && begin + panels * columns <= job->channels * job->in_pixels)
        lines[k] = job->x + begin;
      else
        job->kernels->copy(job->x + begin, 1, job->flip, some, room[k]);
    }
    job->kernels->quad(lines, panels, to + at, columns);
  }
}

static void fill_quads(uint32_t *to, int64_t count, uint8_t number) {
  const uint32_t quad = number * UINT32_C(0x01010101);
  for (int64_t i = 0; i < count; i++)
    to[i] = quad;
}

/* A part is a quad of channels. */
static tenon_status_t planes_write(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const planes_t *planes = (const planes_t *)argument;
  const conv_job_t *job = planes->job;
  const window_t *w = &job->window;
  (void)call;
  for (int64_t part = begin; part < end; part++) {
    uint32_t *to = planes->quads + part * planes->size;
    for (int64_t r = 0; r < planes->rows; r++, to += planes->pitch) {
      const int64_t row = r - w->before[0];
      const inside_t inside = find_inside(w->in[1], -w->before[1], 1, planes->pitch);
      if (row < 0 || row >= w->in[0] || inside.low == inside.high) {
        fill_quads(to, planes->pitch, job->zero);
        continue;
      }
      fill_quads(to, inside.low, job->zero);
      write_quads(job, 4 * part, row * w->in[1] + inside.low - w->before[1],
                  inside.high - inside.low, to + inside.low);
      fill_quads(to + inside.high, planes->pitch - inside.high, job->zero);
    }
  }
  return TENON_OK;
}

/* Writes those sums that are results. */
static void finish_plane_row(const void *context, int64_t row, int64_t column, int64_t count,
                             int32_t *sums) {
  const planes_t *planes = (const planes_t *)context;
  const conv_job_t *job = planes->job;
  const int64_t width = job->window.out[1];
  uint8_t narrow[PRODUCT_COLUMNS];
  uint8_t *out = (uint8_t *)job->out + row * job->pixels;
  if (job->all->narrow) narrow_sums(job, row, count, sums, narrow);
  for (int64_t i = 0; i < count;) {
    const int64_t y = (column + i) / planes->pitch;
    const int64_t x = (column + i) % planes->pitch;
    int64_t some = width - x < count - i ? width - x : count - i;
    if (some > 0 && job->all->narrow)
      copy_row(narrow + i, some, out + y * width + x);
    else if (some > 0)
      write_sums(job, row, y * width + x, some, sums + i);
    i += x < width ? some : planes->pitch - x;
  }
}

static tenon_status_t convolve_image(tenon_call_t *call, planes_t *planes, const int32_t *offsets) {
  const conv_job_t *job = planes->job;
  const int64_t quads = (job->channels + 3) / 4;
  TENON_TRY(call->host->parallel(call, quads, 1 + (1 << 14) / planes->size, planes_write, planes));
  integer_product_t product = {.left_steps = job->steps,
                               .right = planes->quads,
                               .rows = job->filters,
                               .columns =
                                   (job->window.out[0] - 1) * planes->pitch + job->window.out[1],
                               .depth = job->weights->depth,
                               .offsets = offsets,
                               .finish = finish_plane_row,
                               .context = planes};
  return core_integer_product(call, &product);
}

/* For one group, which moves by 1 along both axes. */
static tenon_status_t convolve_quads(tenon_call_t *call, conv_job_t *job) {
  const window_t *w = &job->window;
  const int64_t size = job->all->out->dtype.bits / 8;
  const int64_t quads = (job->channels + 3) / 4;
  planes_t planes = {.job = job,
                     .rows = w->out[0] + (w->kernel[0] - 1) * w->dilation[0],
                     .pitch = w->out[1] + (w->kernel[1] - 1) * w->dilation[1]};
  /* An odd number of cache lines, so that planes do not compete for the same lines of the cache. */
  planes.size = ((planes.rows * planes.pitch + TILE_COLUMNS_MOST) / 16 | 1) * 16 + 32;
  planes.quads = (uint32_t *)CORE_SCRATCH(call, sizeof(uint32_t), quads, planes.size);
  int32_t *offsets = (int32_t *)CORE_SCRATCH(call, sizeof(int32_t), job->weights->depth);
  if (!planes.quads || !offsets) return TENON_MEMORY;
  for (int64_t q = 0; q < job->weights->depth; q++) {
    const int64_t tap = q % job->taps;
    offsets[q] =
        (int32_t)(q / job->taps * planes.size + tap / w->kernel[1] * w->dilation[0] * planes.pitch +
                  tap % w->kernel[1] * w->dilation[1]);
  }
  job->steps = job->weights->steps;
  for (int64_t image = 0; image < job->all->x->shape[0]; image++) {
    job->x = (const uint8_t *)job->all->x->data + image * job->channels * job->in_pixels;
    job->out = (char *)job->all->out->data + image * job->filters * job->pixels * size;
    TENON_TRY(convolve_image(call, &planes, offsets));
  }
  return TENON_OK;
}

/* Depthwise convolutions: one channel in a group */

/* How a plane of x lies in memory: positions that differ by a multiple of the strides follow each
 * other, so that the elements under one tap are adjacent for a whole band of results. */
typedef struct lines_t {
  int64_t pitch; /* from a row of results to the next; those beyond a row are not used */
  int64_t phase; /* numbers of one phase */
  int64_t band;  /* most output rows that are computed at once; 0: no row fits */
  /* Where each tap begins, or each quad of a row; 0 for taps of a quad that do not exist. */
  int64_t taps[4 * TAPS];
  row_taps_fn row_taps; /* NULL: positions are reordered as above, and taps are added up singly */
  int64_t stride[2];    /* for row_taps, which reads rows as they are */
} lines_t;

/* Sets where the quads of rows begin, whose numbers stay as they are. */
static void quads_set(const conv_job_t *job, lines_t *out) {
  const window_t *w = &job->window;
  const int64_t below = (w->kernel[0] - 1) * w->dilation[0];
  const int64_t quads = (w->kernel[1] + 3) / 4;
  out->stride[0] = w->stride[0];
  out->stride[1] = w->stride[1];
  out->pitch = (w->out[1] - 1) * w->stride[1] + w->kernel[1];
  out->band = ((PLANE - ROW_TAPS_SLACK) / out->pitch - below - 1) / w->stride[0] + 1;
  if ((PLANE - ROW_TAPS_SLACK) / out->pitch <= below) out->band = 0;
  if (out->band > w->out[0]) out->band = w->out[0];
  out->phase = ((out->band - 1) * w->stride[0] + below + 1) * out->pitch;
  for (int64_t q = 0; q < w->kernel[0] * quads; q++)
    out->taps[q] = q / quads * w->dilation[0] * out->pitch + q % quads * 4;
}

static void lines_set(const conv_job_t *job, lines_t *out) {
  const window_t *w = &job->window;
  *out = (lines_t){.row_taps = row_taps_of_isa()};
  if (w->stride[1] > 2 || w->dilation[1] != 1) out->row_taps = NULL;
  if (out->row_taps) {
    quads_set(job, out);
    return;
  }
  const int64_t phases = w->stride[0] * w->stride[1];
  const int64_t below = (w->kernel[0] - 1) * w->dilation[0] / w->stride[0];
  out->pitch = w->out[1] + (w->kernel[1] - 1) * w->dilation[1] / w->stride[1];
  out->band = (PLANE - TAPS_SLACK) / phases / out->pitch - below;
  if (out->band < 0) out->band = 0;
  if (out->band > w->out[0]) out->band = w->out[0];
  out->phase = (out->band + below) * out->pitch;
  const int64_t wide = row_taps_of_isa() ? (w->kernel[1] + 3) / 4 * 4 : w->kernel[1]; /* a row */
  for (int64_t t = 0; t < w->kernel[0] * wide; t++) {
    if (t % wide >= w->kernel[1]) continue;
    int64_t across = t % wide * w->dilation[1];
    int64_t down = t / wide * w->dilation[0];
    int64_t phase = down % w->stride[0] * w->stride[1] + across % w->stride[1];
    out->taps[t] = phase * out->phase + down / w->stride[0] * out->pitch + across / w->stride[1];
  }
}

/* Where the rows of a plane lie that are copied. */
typedef struct rows_t {
  const uint8_t *from;
  int64_t pitch;  /* from one row to the next */
  int64_t stride; /* from one number of a row to the next */
  int64_t width;
  int64_t count;
} rows_t;

static void copy_rows(const conv_job_t *job, const rows_t *rows, uint8_t *to, int64_t pitch) {
  const uint8_t *from = rows->from;
  for (int64_t i = 0; i < rows->count; i++, from += rows->pitch, to += pitch)
    if (rows->stride == 1 && !job->flip)
      copy_row(from, rows->width, to);
    else
      job->kernels->copy(from, rows->stride, job->flip, rows->width, to);
}

/* Writes the rows of a plane that output rows [begin, end) read. */
static void write_plane(const conv_job_t *job, const lines_t *lines, const uint8_t *plane,
                        int64_t begin, int64_t end, uint8_t *numbers) {
  const window_t *w = &job->window;
  const int64_t first = begin * w->stride[0] - w->before[0];
  const int64_t rows = (end - begin - 1) * w->stride[0] + (w->kernel[0] - 1) * w->dilation[0] + 1;
  memset(numbers, job->zero, (size_t)(w->stride[0] * w->stride[1] * lines->phase + TAPS_SLACK));
  for (int64_t across = 0; across < w->stride[1]; across++)
    for (int64_t down = 0; down < w->stride[0]; down++) {
      const int64_t top = first + down;
      const int64_t left = across - w->before[1];
      const int64_t most = down < rows ? (rows - down - 1) / w->stride[0] + 1 : 0;
      const inside_t y = find_inside(w->in[0], top, w->stride[0], most);
      const inside_t x = find_inside(w->in[1], left, w->stride[1], lines->pitch);
      uint8_t *to = numbers + (down * w->stride[1] + across) * lines->phase;
      rows_t all = {.pitch = w->stride[0] * w->in[1],
                    .stride = w->stride[1],
                    .width = x.high - x.low,
                    .count = y.high - y.low};
      if (all.width == 0 || all.count == 0) continue;
      all.from = plane + (top + y.low * w->stride[0]) * w->in[1] + left + x.low * w->stride[1];
      copy_rows(job, &all, to + y.low * lines->pitch + x.low, lines->pitch);
    }
}

enum { WIDE = 1 << 10 }; /* sums of a depthwise convolution that are computed at once */

/* Writes rows of results, whose sums are `pitch` apart. */
static void write_rows(const conv_job_t *job, int64_t filter, int64_t pixel, int64_t rows,
                       int64_t pitch, const int32_t *sums) {
  const int64_t width = job->window.out[1];
  uint8_t narrow[WIDE];
  if (pitch == width) {
    write_sums(job, filter, pixel, rows * width, sums);
    return;
  }
  if (!job->all->narrow) {
    for (int64_t i = 0; i < rows; i++)
      write_sums(job, filter, pixel + i * width, width, sums + i * pitch);
    return;
  }
  uint8_t *out = (uint8_t *)job->out + filter * job->pixels + pixel;
  narrow_sums(job, filter, (rows - 1) * pitch + width, sums, narrow);
  for (int64_t i = 0; i < rows; i++)
    copy_row(narrow + i * pitch, width, out + i * width);
}

/* Computes output rows [begin, end) of a channel. */
static void depthwise_band(const conv_job_t *job, const lines_t *lines, int64_t filter,
                           const uint8_t *plane, int64_t begin, int64_t end) {
  const int64_t width = job->window.out[1];
  const integer_steps_t *steps = job->weights->steps + filter;
  const int64_t together = lines->pitch < WIDE ? WIDE / lines->pitch : 1; /* rows */
  uint8_t numbers[PLANE];
  int32_t sums[WIDE + TAPS_SLACK];
  const uint8_t *taps[4 * TAPS];
  write_plane(job, lines, plane, begin, end, numbers);
  for (int64_t o = begin; o < end; o += together) {
    int64_t rows = end - o < together ? end - o : together;
    for (int64_t at = 0; at < width; at += WIDE) { /* more than once only if rows is 1 */
      int64_t some = width - at < WIDE ? width - at : WIDE;
      for (int64_t t = 0; t < 4 * job->weights->depth; t++)
        taps[t] = numbers + (o - begin) * lines->pitch + at + lines->taps[t];
      job->kernels->taps(steps, taps, (rows - 1) * lines->pitch + some, sums);
      if (rows > 1)
        write_rows(job, filter, o * width, rows, lines->pitch, sums);
      else
        write_sums(job, filter, o * width + at, some, sums);
    }
  }
}

/* The same from quads of the rows in `numbers`, which are not reordered. */
static void depthwise_rows(const conv_job_t *job, const lines_t *lines, int64_t filter,
                           const uint8_t *numbers, int64_t begin, int64_t end) {
  const int64_t width = job->window.out[1];
  const int64_t down = lines->stride[0];
  const int64_t across = lines->stride[1];
  const int is_joined = down == 1 && across == 1; /* rows follow each other: they are one row */
  const int64_t pitch = is_joined ? lines->pitch : (width + 15) / 16 * 16;
  const int64_t together = pitch < WIDE ? WIDE / pitch : 1; /* rows */
  int32_t sums[WIDE + TAPS_SLACK];
  const uint8_t *quads[TAPS];
  for (int64_t o = begin; o < end; o += together) {
    const int64_t rows = end - o < together ? end - o : together;
    for (int64_t at = 0; at < width; at += WIDE) { /* more than once only if rows is 1 */
      const int64_t some = width - at < WIDE ? width - at : WIDE;
      for (int64_t r = 0; r < (is_joined ? 1 : rows); r++) {
        const uint8_t *from = numbers + (o - begin + r) * down * lines->pitch + at * across;
        for (int64_t q = 0; q < job->weights->depth; q++)
          quads[q] = from + lines->taps[q];
        lines->row_taps(job->weights->steps + filter, quads, across,
                        is_joined ? (rows - 1) * pitch + some : some, sums + r * pitch);
      }
      if (rows > 1)
        write_rows(job, filter, o * width, rows, pitch, sums);
      else
        write_sums(job, filter, o * width + at, some, sums);
    }
  }
}

/* The plane of x that filter number `part` of all images reads. */
static const uint8_t *plane_of(const conv_job_t *job, int64_t part) {
  const int64_t filters = job->filters * job->all->group;
  const int64_t channel = part % filters / job->filters;
  return job->x + (part / filters * job->all->group + channel) * job->in_pixels;
}

/* Where the results of the image of filter number `part` begin. */
static char *image_of(const conv_job_t *job, int64_t part) {
  const int64_t filters = job->filters * job->all->group;
  return job->out + part / filters * filters * job->pixels * (job->all->out->dtype.bits / 8);
}

/* Computes filters [begin, end) from quads of rows. The planes of several filters are copied before
 * they are read, because a read that follows a write to the same bytes too closely waits. */
static void depthwise_quads(const conv_job_t *all, const lines_t *lines, int64_t begin,
                            int64_t end) {
  enum { FILTERS = 16 };
  const int64_t filters = all->filters * all->all->group;
  const int64_t height = all->window.out[0];
  const int64_t size = lines->phase + ROW_TAPS_SLACK;
  const int64_t most = PLANE / size < FILTERS ? PLANE / size : FILTERS;
  uint8_t numbers[PLANE];
  conv_job_t job = *all;
  conv_job_t dense = *all;
  dense.window.stride[0] = dense.window.stride[1] = 1;
  for (int64_t part = begin; part < end; part += most) {
    const int64_t count = end - part < most ? end - part : most;
    for (int64_t o = 0; o < height; o += lines->band) {
      const int64_t last = height - o < lines->band ? height : o + lines->band;
      for (int64_t k = 0; k < count; k++)
        write_plane(&dense, lines, plane_of(all, part + k), o * lines->stride[0],
                    (last - 1) * lines->stride[0] + 1, numbers + k * size);
      for (int64_t k = 0; k < count; k++) {
        job.out = image_of(all, part + k);
        depthwise_rows(&job, lines, (part + k) % filters, numbers + k * size, o, last);
      }
    }
  }
}

/* A part is an image and a filter. */
static tenon_status_t depthwise_filters(tenon_call_t *call, void *argument, int64_t begin,
                                        int64_t end) {
  const conv_job_t *all = (const conv_job_t *)argument;
  const int64_t filters = all->filters * all->all->group;
  lines_t lines;
  (void)call;
  lines_set(all, &lines);
  if (lines.row_taps) {
    depthwise_quads(all, &lines, begin, end);
    return TENON_OK;
  }
  conv_job_t job = *all;
  for (int64_t part = begin; part < end; part++) {
    job.out = image_of(all, part);
    for (int64_t o = 0; o < job.window.out[0]; o += lines.band) {
      int64_t end_row = job.window.out[0] - o < lines.band ? job.window.out[0] : o + lines.band;
      depthwise_band(&job, &lines, part % filters, plane_of(all, part), o, end_row);
    }
  }
  return TENON_OK;
}

static tenon_status_t convolve_planes(tenon_call_t *call, conv_job_t *job) {
  const int64_t planes = job->all->x->shape[0] * job->all->w->shape[0];
  return call->host->parallel(call, planes, 1 + (1 << 14) / job->pixels, depthwise_filters, job);
}

/* The whole convolution */

/* Joins all axes if the window has one element and moves by one. */
static void join_pixels(conv_job_t *job) {
  window_t *w = &job->window;
  for (int32_t i = 0; i < w->rank; i++)
    if (w->kernel[i] != 1 || w->stride[i] != 1 || w->before[i] || w->in[i] != w->out[i]) return;
  w->rank = 1;
  w->in[0] = job->in_pixels;
  w->out[0] = job->pixels;
  w->kernel[0] = 1;
  w->stride[0] = 1;
  w->dilation[0] = 1;
  w->before[0] = 0;
}

static tenon_status_t convolve_groups(tenon_call_t *call, conv_job_t *job) {
  const integer_convolution_t *c = job->all;
  const int64_t size = c->out->dtype.bits / 8;
  const int64_t columns = job->kernels->columns;
  const int64_t most = ((job->pixels - 1) / columns + 1) * columns;
  join_pixels(job);
  job->depth = job->weights->depth;
  int64_t room = ROUND / (job->depth + 1) / columns * columns;
  if (room < columns) room = columns;
  if (room > most) room = most;
  job->panels = (uint32_t *)CORE_SCRATCH(call, sizeof(uint32_t), room, job->depth);
  job->segments = (segment_t *)CORE_SCRATCH(call, sizeof(segment_t), (room - 1) / LINE + 1,
                                            job->taps, line_segments(job));
  if (!job->panels || !job->segments) return TENON_MEMORY;
  for (int64_t index = 0; index < c->x->shape[0] * c->group; index++) {
    const int64_t group = index % c->group;
    job->x = (const uint8_t *)c->x->data + index * job->channels * job->in_pixels;
    job->filter = group * job->filters;
    job->steps = job->weights->steps + group * (job->weights->tiles / c->group);
    job->out = (char *)c->out->data + index / c->group * c->w->shape[0] * job->pixels * size;
    TENON_TRY(convolve_group(call, job, room));
  }
  return TENON_OK;
}

tenon_status_t core_integer_convolve(tenon_call_t *call, const integer_convolution_t *c) {
  const window_t *w = c->window;
  const int is_signed = core_is(c->x, TENON_I8);
  conv_job_t job = {.all = c,
                    .kernels = core_integer_tiles_of_isa(),
                    .window = *w,
                    .channels = c->x->shape[1] / c->group,
                    .filters = c->w->shape[0] / c->group,
                    .taps = window_size(w->kernel, w->rank),
                    .in_pixels = window_size(w->in, w->rank),
                    .pixels = window_size(w->out, w->rank),
                    .weights = c->weights,
                    .flip = is_signed ? 0x80 : 0,
                    .zero = (uint8_t)(c->x_zero + (is_signed ? 128 : 0)),
                    .x = (const uint8_t *)c->x->data,
                    .out = (char *)c->out->data};
  lines_t lines = {0};
  if (tenon_count(c->out) == 0) return TENON_OK;
  const int is_depthwise = core_integer_is_depthwise(c->w);
  if (is_depthwise) lines_set(&job, &lines);
  int kind = core_integer_filters_kind(c->w, c->group, w->stride);
  integer_weights_t *weights = NULL;
  if (!c->weights || (is_depthwise && lines.band == 0)) {
    if (is_depthwise) kind = lines.band > 0 ? FILTERS_DEPTHWISE : FILTERS_OF_PATCHES;
    weights = core_integer_filters_create(c->w, c->w_zero, c->group, kind);
    if (!weights) return tenon_fail(call, TENON_MEMORY, "out of memory for packed weights");
    job.weights = weights;
  }
  tenon_status_t status = TENON_OK;
  if (lines.band > 0)
    status = convolve_planes(call, &job);
  else if (kind == FILTERS_OF_PLANES)
    status = convolve_quads(call, &job);
  else
    status = convolve_groups(call, &job);
  core_integer_weights_release(weights);
  return status;
}
