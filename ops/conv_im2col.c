/* Convolution as a matrix product with patches of the input that are packed on demand (im2col
 * without a stored matrix), and a direct loop for depthwise convolutions. Declared in
 * conv_im2col.h; called by the kernels in conv.c and integer.c.
 * Invariant: sums run over channels, then over the window in row-major order. */
#include "conv_im2col.h"
#include "dense.h"
#include <string.h>

typedef struct job_t {
  const convolution_t *convolution;
  tenon_dtype_t dtype;
  char *x;
  char *out;
  const char *w;
  int64_t images;
  int64_t channels;
  int64_t filters;
  /* Channels and filters of one group; taps are the elements of a window. */
  int64_t taps;
  int64_t x_image;
  int64_t x_channel;
  int64_t x_space[SPATIAL_MAX];
  int64_t out_image;
  int64_t out_channel;
  int64_t out_pixel;
  int64_t pixels;
  const tenon_tensor_t *bias;
  const tenon_tensor_t *residual;
  int64_t residual_pixel;
} job_t;

/* positions */

/* The input position where the window of output pixel `at` starts. For a transposed convolution,
 * where it ends. */
static void window_start(const window_t *w, int transposed, int64_t at, int64_t *start) {
  for (int32_t i = w->rank - 1; i >= 0; i--) {
    int64_t o = at % w->out[i];
    at /= w->out[i];
    start[i] = transposed ? o + w->before[i] : o * w->stride[i] - w->before[i];
  }
}

#define PADDING INT64_MIN /* strides may be negative, so offsets may be too */

/* Offset in x of the element under a tap, or PADDING. */
static int64_t tap_offset(const job_t *job, const int64_t *start, const int64_t *tap) {
  const window_t *w = &job->convolution->window;
  int64_t offset = 0;
  for (int32_t i = 0; i < w->rank; i++) {
    int64_t at = start[i];
    if (job->convolution->transposed) {
      at -= tap[i] * w->dilation[i];
      if (at < 0 || at % w->stride[i]) return PADDING;
      at /= w->stride[i];
    } else {
      at += tap[i] * w->dilation[i];
    }
    if (at < 0 || at >= w->in[i]) return PADDING;
    offset += at * job->x_space[i];
  }
  return offset;
}

static void tap_set(const window_t *w, int64_t number, int64_t *tap) {
  for (int32_t i = w->rank - 1; i >= 0; i--) {
    tap[i] = number % w->kernel[i];
    number /= w->kernel[i];
  }
}

/* operands of the product */

#define PATCHES(T)                                                                                 \
  for (int64_t e = 0; e < depth; e++) {                                                            \
    const T *from = (const T *)o->data + (k + e) / job->taps * job->x_channel;                     \
    const int64_t *offset = offsets[e % job->taps];                                                \
    for (int64_t v = 0; v < count; v++)                                                            \
      ((T *)out)[e * width + v] = offset[v] == PADDING ? 0 : from[offset[v]];                      \
  }

/* A vector is an output pixel; an element is a channel and, within it, a tap. */
static void patches_pack(const operand_t *o, int64_t first, int64_t count, int64_t k, int64_t depth,
                         int64_t width, void *out) {
  const job_t *job = (const job_t *)o->context;
  const window_t *w = &job->convolution->window;
  int64_t offsets[GEMM_DEPTH][GEMM_WIDTH], start[GEMM_WIDTH][SPATIAL_MAX], tap[SPATIAL_MAX];
  for (int64_t v = 0; v < count; v++)
    window_start(w, job->convolution->transposed, first + v, start[v]);
  for (int64_t e = 0; e < depth && e < job->taps; e++) {
    tap_set(w, (k + e) % job->taps, tap);
    for (int64_t v = 0; v < count; v++)
      offsets[e][v] = tap_offset(job, start[v], tap);
  }
  if (job->dtype.bits == 64)
    PATCHES(uint64_t)
  else
    PATCHES(uint32_t)
}

#define FILTERS(T)                                                                                 \
  for (int64_t e = 0; e < depth; e++) {                                                            \
    const T *from = (const T *)o->data + (k + e) / taps * filters * taps + (k + e) % taps;         \
    for (int64_t v = 0; v < count; v++)                                                            \
      ((T *)out)[e * width + v] = from[(first + v) * taps];                                        \
  }

/* For a transposed convolution: w is [channel][filter][tap], and an element is a channel and a
 * tap. */
static void filters_pack(const operand_t *o, int64_t first, int64_t count, int64_t k, int64_t depth,
                         int64_t width, void *out) {
  const job_t *job = (const job_t *)o->context;
  int64_t taps = job->taps;
  int64_t filters = job->filters;
  if (job->dtype.bits == 64)
    FILTERS(uint64_t)
  else
    FILTERS(uint32_t)
}

static void job_place(const void *context, int64_t index, product_t *product) {
  const job_t *job = (const job_t *)context;
  int64_t image = index / job->convolution->group;
  int64_t group = index % job->convolution->group;
  int64_t size = job->dtype.bits / 8;
  product->a.data = job->x + (image * job->x_image + group * job->channels * job->x_channel) * size;
  product->b.data = job->w + group * job->filters * job->channels * job->taps * size;
  product->c = job->out + (image * job->out_image + group * job->filters * job->out_channel) * size;
}

static void job_finish(const void *context, int64_t index, int64_t i, int64_t i_end, int64_t j,
                       int64_t j_end) {
  const job_t *job = (const job_t *)context;
  int64_t image = index / job->convolution->group;
  int64_t group = index % job->convolution->group;
  int64_t size = job->dtype.bits / 8;
  int64_t filter = group * job->filters;
  finish_t finish = job->convolution->finish;
  finish.dtype = job->dtype;
  finish.c = job->out + (image * job->out_image + filter * job->out_channel) * size;
  finish.row = job->out_pixel;
  finish.column = job->out_channel;
  if (job->bias)
    finish.bias = (finish_side_t){(char *)job->bias->data + filter * job->bias->strides[0] * size,
                                  0, job->bias->strides[0]};
  if (job->residual) {
    const int64_t *strides = job->residual->strides;
    finish.residual = (finish_side_t){(char *)job->residual->data +
                                          (image * strides[0] + filter * strides[1]) * size,
                                      job->residual_pixel, strides[1]};
  }
  core_finish(&finish, i, i_end, j, j_end);
}

/* depthwise: one filter per channel */

enum { LANES = 64 }; /* channels that a thread processes at once */

#define T float
#define NAME(x) x##_f32
#include "depthwise_kernel.h"

#define T double
#define NAME(x) x##_f64
#include "depthwise_kernel.h"

#define T uint32_t
#define NAME(x) x##_u32
#include "depthwise_kernel.h"

#define T uint64_t
#define NAME(x) x##_u64
#include "depthwise_kernel.h"

/* A part is (image, block of channels, row of output pixels along the last axis). */
static tenon_status_t depthwise_run(tenon_call_t *call, void *argument, int64_t begin,
                                    int64_t end) {
  const job_t *job = (const job_t *)argument;
  const window_t *w = &job->convolution->window;
  int64_t channels = job->convolution->group;
  int64_t blocks = (channels - 1) / LANES + 1;
  int64_t size = job->dtype.bits / 8;
  int64_t row = w->out[w->rank - 1];
  int64_t rows = job->pixels / row;
  int64_t start[SPATIAL_MAX];
  (void)call;
  for (int64_t part = begin; part < end; part++) {
    int64_t image = part / (rows * blocks);
    int64_t channel = part / rows % blocks * LANES;
    int64_t pixel = part % rows * row;
    int64_t lanes = channels - channel < LANES ? channels - channel : LANES;
    const char *x = job->x + (image * job->x_image + channel * job->x_channel) * size;
    const char *filters = job->w + channel * size;
    char *out = job->out + (image * job->out_image + channel * job->out_channel) * size;
    for (int64_t p = pixel; p < pixel + row; p++) {
      char *to = out + p * job->out_pixel * size;
      window_start(w, 0, p, start);
      switch (tenon_dtype_id(job->dtype)) {
      case TENON_F32:
        depthwise_f32(job, start, (const float *)x, (const float *)filters, channels, (float *)to,
                      lanes);
        break;
      case TENON_F64:
        depthwise_f64(job, start, (const double *)x, (const double *)filters, channels,
                      (double *)to, lanes);
        break;
      case TENON_I32:
      case TENON_U32:
        depthwise_u32(job, start, (const uint32_t *)x, (const uint32_t *)filters, channels,
                      (uint32_t *)to, lanes);
        break;
      default:
        depthwise_u64(job, start, (const uint64_t *)x, (const uint64_t *)filters, channels,
                      (uint64_t *)to, lanes);
        break;
      }
    }
    if (!finish_wanted(&job->convolution->finish) && !job->bias && !job->residual) continue;
    job_finish(job, image * channels, pixel, pixel + row, channel,
               channel + lanes); /* as if all channels were one group */
  }
  return TENON_OK;
}

static tenon_status_t convolve_depthwise(tenon_call_t *call, job_t *job) {
  int64_t channels = job->convolution->group;
  int64_t size = job->dtype.bits / 8;
  int64_t taps = job->taps;
  int64_t rows = job->pixels / job->convolution->window.out[job->convolution->window.rank - 1];
  char *turned = (char *)CORE_SCRATCH(call, (uint64_t)size, channels, taps);
  if (!turned) return TENON_MEMORY;
  for (int64_t c = 0; c < channels; c++) /* so that the lanes of a tap are adjacent */
    for (int64_t t = 0; t < taps; t++)
      memcpy(turned + (t * channels + c) * size, job->w + (c * taps + t) * size, (size_t)size);
  job->w = turned;
  return call->host->parallel(call, job->images * ((channels - 1) / LANES + 1) * rows, 1,
                              depthwise_run, job);
}

/* the whole convolution */

/* Can the spatial axes of t be addressed as one axis? Gives its stride, which is 0 if an expanded
 * tensor has the same pixel everywhere. */
static int pixels_linear(const tenon_tensor_t *t, int64_t *out_stride) {
  int64_t next = 0;
  int is_first = 1;
  *out_stride = 1;
  for (int32_t i = t->ndim - 1; i >= 2; i--) {
    if (t->shape[i] == 1) continue;
    if (is_first)
      *out_stride = t->strides[i];
    else if (t->strides[i] != next)
      return 0;
    next = t->strides[i] * t->shape[i];
    is_first = 0;
  }
  return 1;
}

/* Sets the extents of a convolution, and the strides of x and of `out`. */
static void set_extents(job_t *job, const tenon_tensor_t *x, const tenon_tensor_t *out) {
  const window_t *window = &job->convolution->window;
  int64_t group = job->convolution->group;
  job->out = (char *)out->data;
  job->out_image = out->strides[0];
  job->out_channel = out->strides[1];
  job->x_image = x->strides[0];
  job->x_channel = x->strides[1];
  job->images = x->shape[0];
  job->channels = x->shape[1] / group;
  job->filters = out->shape[1] / group;
  job->taps = window_size(window->kernel, window->rank);
  job->pixels = window_size(window->out, window->rank);
  for (int32_t i = 0; i < window->rank; i++)
    job->x_space[i] = x->strides[2 + i];
}

tenon_status_t core_convolve(tenon_call_t *call, const convolution_t *convolution,
                             tenon_tensor_t *x, tenon_tensor_t *w, tenon_tensor_t *bias,
                             tenon_tensor_t *residual, tenon_tensor_t *out) {
  const window_t *window = &convolution->window;
  int64_t group = convolution->group;
  int64_t pixel = 0;
  int64_t one = 1;
  tenon_tensor_t *to = out;
  job_t job = {.convolution = convolution,
               .dtype = x->dtype,
               .x = (char *)x->data,
               .w = (const char *)w->data};
  if (tenon_count(out) == 0) return TENON_OK;
  if (!pixels_linear(out, &job.out_pixel)) {
    to = call->host->temporary(call, out->dtype, out->ndim, out->shape);
    if (!to) return TENON_MEMORY;
    pixels_linear(to, &job.out_pixel);
  }
  if (residual && !pixels_linear(residual, &job.residual_pixel)) {
    residual = core_dense(call, residual, residual->dtype);
    if (!residual) return TENON_MEMORY;
    pixels_linear(residual, &job.residual_pixel);
  }
  job.bias = bias;
  job.residual = residual;
  set_extents(&job, x, to);
  for (int32_t i = 0; i < window->rank; i++)
    one = one && window->kernel[i] == 1 && window->stride[i] == 1 && !window->before[i] &&
          window->out[i] == window->in[i];
  if (job.channels == 1 && job.filters == 1 && !convolution->transposed) {
    TENON_TRY(convolve_depthwise(call, &job));
    return core_settle(call, out, to);
  }
  products_t products = {.product = {job.pixels,
                                     job.filters,
                                     job.channels * job.taps,
                                     {.pack = patches_pack, .context = &job},
                                     {.vector = job.channels * job.taps, .element = 1},
                                     0,
                                     job.out_pixel,
                                     job.out_channel,
                                     0,
                                     0},
                         .dtype = job.dtype,
                         .count = job.images * group,
                         .place = job_place,
                         .context = &job};
  if (one && pixels_linear(x, &pixel))
    products.product.a = (operand_t){.vector = pixel, .element = job.x_channel};
  if (convolution->transposed)
    products.product.b = (operand_t){.pack = filters_pack, .context = &job};
  if (finish_wanted(&convolution->finish) || bias || residual) products.finish = job_finish;
  TENON_TRY(core_products(call, &products));
  return core_settle(call, out, to);
}
