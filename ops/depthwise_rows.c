/* Depthwise convolutions in row-major memory; see depthwise_rows.h. The rows under a strip of
 * results are copied with their padding to a small buffer, in which columns that are `stride` apart
 * are adjacent. Called by conv.c and dnn/convolution.c.
 * Invariant: one part computes a plane from start to end. */
#include "depthwise_rows.h"
#include "capability.h"
#include "conv_im2col.h"
#include "conv_tile.h"
#include "dense.h"
#include <string.h>

enum {
  TAPS_MOST = 128,
  BUFFER = 1 << 14, /* numbers */
};

typedef struct plane_job_t {
  window_t window;
  const tenon_tensor_t *x;
  const float *weights;
  int64_t filter; /* from one filter to the next */
  const tenon_tensor_t *bias;
  const tenon_tensor_t *out;
  int64_t taps;
  int64_t line;              /* numbers of a line: of one row, every stride-th column */
  int64_t offset[TAPS_MOST]; /* of each tap in the buffer */
  int64_t strip;             /* rows of results that are computed from one buffer */
  int64_t activation;
  float alpha;
  float beta;
  const depthwise_rows_t *rows;
  const conv_tiles_t *tiles;
} plane_job_t;

int core_depthwise_keeps(const tenon_meta_t *x, const tenon_meta_t *w, const tenon_meta_t *residual,
                         int64_t group) {
  if (tenon_dtype_id(x->dtype) != TENON_F32 || x->ndim != 4 || residual) return 0;
  if (!tenon_is_known(x->dims[1]) || !tenon_is_known(w->dims[0])) return 0;
  return group > 1 && x->dims[1].value == group && w->dims[0].value == group &&
         !core_is_channels_last(x);
}

/* Are the rows of t adjacent numbers? */
static int has_rows(const tenon_tensor_t *t) {
  return core_is(t, TENON_F32) && t->strides[3] == 1 && t->strides[2] >= t->shape[3];
}

/* Sets the window of a call, and how many numbers a line and a strip have. Returns 0 if a window
 * exceeds the buffer. */
static int set_window(plane_job_t *job, const tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  window_args_t args = window_args(call->attrs, 0);
  window_t *window = &job->window;
  core_window_set(window, &args, 2, x->shape + 2, call->inputs[1]->shape + 2,
                  call->outputs[0]->shape + 2);
  for (int i = 0; i < 2; i++)
    if (window->before[i] < 0 || window->after[i] < 0) return 0;
  job->taps = window->kernel[0] * window->kernel[1];
  if (job->taps > TAPS_MOST || window->dilation[1] >= BUFFER) return 0;
  const int64_t span = (window->kernel[1] - 1) * window->dilation[1];
  job->line = window->out[1] + span / window->stride[1] + 1 + DEPTHWISE_SLACK;
  const int64_t rows = BUFFER / (job->line * window->stride[1]);
  const int64_t more = rows - (window->kernel[0] - 1) * window->dilation[0] - 1;
  job->strip = more / window->stride[0] + 1;
  return window->stride[1] < BUFFER && rows > 0 && more >= 0;
}

int core_depthwise_suits(const tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *w = call->inputs[1];
  const tenon_tensor_t *out = call->outputs[0];
  plane_job_t job;
  if (call->plan || call->inputs[3] || x->ndim != 4) return 0;
  if (call->attrs[CONV_GROUP].as.i != x->shape[1] || out->shape[1] != x->shape[1]) return 0;
  return tenon_count(x) > 0 && core_is(w, TENON_F32) && has_rows(x) && has_rows(out) &&
         set_window(&job, call);
}

/* Copies every stride-th of the numbers from `from` on. */
static void copy_every(const float *from, int64_t stride, int64_t count, float *restrict to) {
  if (stride == 1)
    memcpy(to, from, (size_t)count * sizeof(float));
  else if (stride == 2)
    for (int64_t i = 0; i < count; i++)
      to[i] = from[2 * i];
  else
    for (int64_t i = 0; i < count; i++)
      to[i] = from[i * stride];
}

/* Copies a row of x to the lines of its columns. */
static void place_lines(const plane_job_t *job, const float *row, float *to) {
  const window_t *window = &job->window;
  const int64_t stride = window->stride[1];
  for (int64_t phase = 0; phase < stride; phase++, to += job->line) {
    int64_t first = 0; /* the first number of the line that lies in x */
    if (phase < window->before[1]) first = (window->before[1] - phase + stride - 1) / stride;
    if (first > job->line) first = job->line;
    const int64_t column = first * stride + phase - window->before[1];
    int64_t count = column < window->in[1] ? (window->in[1] - column - 1) / stride + 1 : 0;
    if (count > job->line - first) count = job->line - first;
    memset(to, 0, (size_t)first * sizeof(float));
    if (count > 0) copy_every(row + column, stride, count, to + first);
    memset(to + first + count, 0, (size_t)(job->line - first - count) * sizeof(float));
  }
}

/* Computes rows [begin, end) of a plane. */
static void compute_strip(const plane_job_t *job, const float *plane, const float *weights,
                          float bias, int64_t begin, int64_t end, float *out) {
  const window_t *window = &job->window;
  const int64_t row_size = job->line * window->stride[1];
  const int64_t span = (window->kernel[0] - 1) * window->dilation[0] + 1;
  const int64_t top = begin * window->stride[0] - window->before[0];
  const int64_t rows = (end - begin - 1) * window->stride[0] + span;
  const float *from[TAPS_MOST];
  float buffer[BUFFER];
  for (int64_t r = 0; r < rows; r++) {
    float *lines = buffer + r * row_size;
    if (top + r >= 0 && top + r < window->in[0])
      place_lines(job, plane + (top + r) * job->x->strides[2], lines);
    else
      memset(lines, 0, (size_t)row_size * sizeof(float));
  }
  for (int64_t y = begin; y < end; y++) {
    const float *first = buffer + (y - begin) * window->stride[0] * row_size;
    for (int64_t t = 0; t < job->taps; t++)
      from[t] = first + job->offset[t];
    float *to = out + y * job->out->strides[2];
    job->rows->row(job->taps, from, weights, bias, window->out[1], to);
    if (job->activation != FINISH_none)
      job->tiles->activate(job->activation, job->alpha, job->beta, to, window->out[1]);
  }
}

static tenon_status_t run_planes(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const plane_job_t *job = (const plane_job_t *)argument;
  const int64_t channels = job->x->shape[1];
  const int64_t height = job->window.out[0];
  (void)call;
  for (int64_t plane = begin; plane < end; plane++) {
    const int64_t image = plane / channels;
    const int64_t channel = plane % channels;
    const float *x =
        (const float *)job->x->data + image * job->x->strides[0] + channel * job->x->strides[1];
    float *out =
        (float *)job->out->data + image * job->out->strides[0] + channel * job->out->strides[1];
    const float *weights = job->weights + channel * job->filter;
    float bias = 0;
    if (job->bias) bias = ((const float *)job->bias->data)[channel * job->bias->strides[0]];
    for (int64_t y = 0; y < height; y += job->strip)
      compute_strip(job, x, weights, bias, y, height - y < job->strip ? height : y + job->strip,
                    out);
  }
  return TENON_OK;
}

static void set_kernels(plane_job_t *job) {
#if defined(__x86_64__) || defined(_M_X64)
  static const depthwise_rows_t *const rows[] = {&core_depthwise_rows, &core_depthwise_rows_avx2,
                                                 &core_depthwise_rows_avx512};
  static const conv_tiles_t *const tiles[] = {&core_conv_tiles, &core_conv_tiles_avx2,
                                              &core_conv_tiles_avx512};
  job->rows = rows[core_capability()];
  job->tiles = tiles[core_capability()];
#else
  job->rows = &core_depthwise_rows;
  job->tiles = &core_conv_tiles;
#endif
}

static void set_offsets(plane_job_t *job) {
  const window_t *window = &job->window;
  const int64_t stride = window->stride[1];
  for (int64_t t = 0; t < job->taps; t++) {
    const int64_t row = t / window->kernel[1] * window->dilation[0];
    const int64_t column = t % window->kernel[1] * window->dilation[1];
    job->offset[t] = (row * stride + column % stride) * job->line + column / stride;
  }
}

tenon_status_t core_depthwise_run(tenon_call_t *call) {
  enum { WORK = 1 << 15 };
  const tenon_tensor_t *x = call->inputs[0];
  plane_job_t job = {.x = x,
                     .out = call->outputs[0],
                     .bias = call->inputs[2],
                     .activation = call->attrs[CONV_ACTIVATION].as.i,
                     .alpha = (float)call->attrs[CONV_ALPHA].as.f,
                     .beta = (float)call->attrs[CONV_BETA].as.f};
  if (tenon_count(job.out) == 0) return TENON_OK;
  const tenon_tensor_t *w = core_dense(call, call->inputs[1], tenon_dtype(TENON_F32));
  if (!w) return TENON_MEMORY;
  job.weights = (const float *)w->data;
  set_window(&job, call);
  job.filter = job.taps;
  set_offsets(&job);
  set_kernels(&job);
  const int64_t work = job.window.out[0] * job.window.out[1] * (job.taps + 1);
  return call->host->parallel(call, x->shape[0] * x->shape[1], work < WORK ? WORK / work : 1,
                              run_planes, &job);
}
