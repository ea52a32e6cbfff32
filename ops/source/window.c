/* Pools and batch_norm of f32, for devices that compile: one element of the result at a time.
 * Global pools are reductions (rows.c).
 * Invariant: taps outside the input are never read. */
#ifndef TENON_ON_DEVICE
#include "../pool.h"
#include "launch.h"
#endif

#define COLUMN_MAJOR 1
#define INCLUDE_PAD 2
#define HAS_INDICES 4
typedef struct pool_t { /* three spatial axes; the first may have extent 1 */
  int64_t images;
  int64_t channels;
  int64_t pixels;
  int64_t in[3];
  int64_t out[3];
  int64_t size[3];
  int64_t stride[3];
  int64_t dilation[3];
  int64_t before[3];
  int64_t after[3];
  int64_t x_first;
  int64_t x_image;
  int64_t x_channel;
  int64_t x_space[3];
  int64_t out_first;
  int64_t out_image;
  int64_t out_channel;
  int64_t out_space[3];
  int64_t index_first;
  int64_t index_image;
  int64_t index_channel;
  int64_t index_space[3];
  float power;
  int32_t flags;
} pool_t;

typedef struct spot_t { /* one element of the result */
  int64_t image;
  int64_t channel;
  int64_t o[3];
} spot_t;

FUNCTION void spot_set(const pool_t *p, int64_t e, spot_t *out) {
  int64_t pixel, rest;
  if (p->out_channel == 1) {
    out->channel = e % p->channels;
    rest = e / p->channels;
  } else
    rest = e;
  pixel = rest % p->pixels;
  rest /= p->pixels;
  if (p->out_channel != 1) {
    out->channel = rest % p->channels;
    rest /= p->channels;
  }
  out->image = rest;
  out->o[2] = pixel % p->out[2];
  pixel /= p->out[2];
  out->o[1] = pixel % p->out[1];
  out->o[0] = pixel / p->out[1];
}
FUNCTION int64_t place_at(const int64_t *place, const int64_t *strides) {
  return place[0] * strides[0] + place[1] * strides[1] + place[2] * strides[2];
}
FUNCTION int64_t tap_of(const pool_t *p, const spot_t *s, int d, int64_t tap) {
  return s->o[d] * p->stride[d] - p->before[d] + tap * p->dilation[d];
}
/* The number of taps that count for an average. */
FUNCTION float counted(const pool_t *p, const spot_t *s) {
  int64_t count = 1;
  for (int d = 0; d < 3; d++) {
    int64_t some = 0;
    int64_t edge = p->flags & INCLUDE_PAD ? p->after[d] : 0;
    for (int64_t tap = 0; tap < p->size[d]; tap++) {
      int64_t at = tap_of(p, s, d, tap);
      some += (p->flags & INCLUDE_PAD || at >= 0) && at < p->in[d] + edge;
    }
    count *= some;
  }
  return (float)count;
}

/* `take` runs for each tap inside; x is the element and `at` its position. */
#define DEFINE_POOL(name, take, result)                                                            \
  TENON_SOURCE_4(name, IN, float, x_, OUT, float, out_, OUT, int64_t, indices, VALUE, pool_t, p) { \
    (void)indices;                                                                                 \
    TENON_EACH(e, p.images *p.channels *p.pixels) {                                                \
      spot_t s;                                                                                    \
      int64_t at[3];                                                                               \
      int64_t best = -1;                                                                           \
      spot_set(&p, e, &s);                                                                         \
      int64_t x_at = p.x_first + s.image * p.x_image + s.channel * p.x_channel;                    \
      float sum = 0;                                                                               \
      float top = -INFINITY;                                                                       \
      for (int64_t a = 0; a < p.size[0]; a++) {                                                    \
        at[0] = tap_of(&p, &s, 0, a);                                                              \
        if (at[0] < 0 || at[0] >= p.in[0]) continue;                                               \
        for (int64_t b = 0; b < p.size[1]; b++) {                                                  \
          at[1] = tap_of(&p, &s, 1, b);                                                            \
          if (at[1] < 0 || at[1] >= p.in[1]) continue;                                             \
          for (int64_t c = 0; c < p.size[2]; c++) {                                                \
            at[2] = tap_of(&p, &s, 2, c);                                                          \
            if (at[2] < 0 || at[2] >= p.in[2]) continue;                                           \
            float x = x_[x_at + place_at(at, p.x_space)];                                          \
            take;                                                                                  \
          }                                                                                        \
        }                                                                                          \
      }                                                                                            \
      (void)sum;                                                                                   \
      (void)top;                                                                                   \
      (void)best;                                                                                  \
      if (p.flags & HAS_INDICES)                                                                   \
        indices[p.index_first + s.image * p.index_image + s.channel * p.index_channel +            \
                place_at(s.o, p.index_space)] =                                                    \
            best < 0 ? -1                                                                          \
                     : best + (s.image * p.channels + s.channel) * p.in[0] * p.in[1] * p.in[2];    \
      out_[p.out_first + s.image * p.out_image + s.channel * p.out_channel +                       \
           place_at(s.o, p.out_space)] = result;                                                   \
    }                                                                                              \
  }
FUNCTION float power_of(float x, float power) {
  if (power == 2) return x * x;
  return power == 1 ? fabs(x) : pow(fabs(x), power);
}
#define NUMBER_OF(at)                                                                              \
  (p.flags & COLUMN_MAJOR ? at[0] + p.in[0] * (at[1] + p.in[1] * at[2])                            \
                          : (at[0] * p.in[1] + at[1]) * p.in[2] + at[2])
#define TAKE_GREATER                                                                               \
  if (x > top || x != x || best < 0) {                                                             \
    top = x;                                                                                       \
    best = NUMBER_OF(at);                                                                          \
  }
DEFINE_POOL(average_pool, sum += x, sum / counted(&p, &s))
DEFINE_POOL(lp_pool, sum += power_of(x, p.power), p.power == 2 ? sqrt(sum) : pow(sum, 1 / p.power))
DEFINE_POOL(max_pool, TAKE_GREATER, top)

/* The walk's third tensor gives the channel, which selects one number of each parameter. */
TENON_SOURCE_8(batch_norm, IN, float, x, IN, float, scale, IN, float, bias, IN, float, mean, IN,
               float, variance, OUT, float, out, VALUE, tenon_walk_t, walk, VALUE, float, epsilon) {
  int64_t at[4];
  TENON_EACH(i, walk.count) {
    tenon_walk(&walk, i, at);
    float by = scale[at[2]] / sqrt(variance[at[2]] + epsilon);
    out[at[1]] = (x[at[0]] - mean[at[2]]) * by + bias[at[2]];
  }
}

#ifndef TENON_ON_DEVICE
enum {
  K_average_pool,
  K_lp_pool,
  K_max_pool,
  K_batch_norm,
};
TENON_CODE(core_source_window_code, {"average_pool", average_pool}, {"lp_pool", lp_pool},
           {"max_pool", max_pool}, {"batch_norm", batch_norm})
#define CODE &core_source_window_code

/* Strides of [N, C, spatial...] with three spatial axes. */
static void strides_of_space(const tenon_tensor_t *t, int64_t *first, int64_t *image,
                             int64_t *channel, int64_t *space) {
  *first = below(t);
  *image = t->strides[0];
  *channel = t->strides[1];
  for (int32_t i = 0; i < 3; i++)
    space[i] = i < 5 - t->ndim ? 0 : t->strides[i + t->ndim - 3];
}

static tenon_status_t enqueue_pool(tenon_call_t *call, uint32_t kernel, int32_t flags,
                                   double power) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *out = call->outputs[0];
  const tenon_tensor_t *indices = flags & HAS_INDICES ? call->outputs[1] : NULL;
  window_t window;
  pool_t p = {.images = out->shape[0],
              .channels = out->shape[1],
              .pixels = 1,
              .power = (float)power,
              .flags = flags};
  if (!tenon_count(out)) return TENON_OK;
  if (x->ndim > 5) return DECLINE(call, "the source kernel supports at most three spatial axes");
  pool_window(call, &window);
  for (int32_t i = 0; i < 3; i++) {
    int32_t at = i - (3 - window.rank);
    p.in[i] = at < 0 ? 1 : window.in[at];
    p.out[i] = at < 0 ? 1 : window.out[at];
    p.size[i] = at < 0 ? 1 : window.kernel[at];
    p.stride[i] = at < 0 ? 1 : window.stride[at];
    p.dilation[i] = at < 0 ? 1 : window.dilation[at];
    p.before[i] = at < 0 ? 0 : window.before[at];
    p.after[i] = at < 0 ? 0 : window.after[at];
    p.pixels *= p.out[i];
  }
  strides_of_space(x, &p.x_first, &p.x_image, &p.x_channel, p.x_space);
  strides_of_space(out, &p.out_first, &p.out_image, &p.out_channel, p.out_space);
  if (indices)
    strides_of_space(indices, &p.index_first, &p.index_image, &p.index_channel, p.index_space);
  const tenon_kernel_argument_t arguments[] = {tenon_in(x), tenon_out(out),
                                               tenon_out(indices ? indices : out), TENON_VALUE(p)};
  return tenon_each(call, CODE, kernel, tenon_count(out), arguments, 4);
}

static tenon_status_t average_pool_run(tenon_call_t *call) {
  return enqueue_pool(call, K_average_pool, call->attrs[POOL_MORE].as.i ? INCLUDE_PAD : 0, 0);
}
static tenon_status_t lp_pool_run(tenon_call_t *call) {
  return enqueue_pool(call, K_lp_pool, 0, call->attrs[POOL_MORE].as.f);
}
static tenon_status_t max_pool_run(tenon_call_t *call) {
  int32_t flags = call->outputs[1] ? HAS_INDICES : 0;
  if (call->attrs[POOL_MORE].as.i) flags |= COLUMN_MAJOR;
  return enqueue_pool(call, K_max_pool, flags, 0);
}

static tenon_status_t batch_norm_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *out = call->outputs[0];
  int64_t strides[TENON_RANK_MAX] = {0};
  float epsilon = (float)call->attrs[0].as.f;
  tenon_tensor_t channel = *x;
  tenon_tensor_t *each[4];
  tenon_walk_t walk;
  strides[1] = 1;
  channel.strides = strides;
  const tenon_tensor_t *const tensors[3] = {x, out, &channel};
  for (int i = 0; i < 4; i++) {
    if (tenon_dtype_id(call->inputs[1 + i]->dtype) != TENON_F32)
      return DECLINE(call, "the source kernel supports only f32");
    TENON_TRY(dense_of(call, call->inputs[1 + i], &each[i]));
  }
  if (!tenon_walk_of(&walk, x->ndim, x->shape, tensors, 3))
    return DECLINE(call, "the source kernel supports at most eight axes");
  const tenon_kernel_argument_t arguments[] = {
      tenon_in(x),       tenon_in(each[0]), tenon_in(each[1]), tenon_in(each[2]),
      tenon_in(each[3]), tenon_out(out),    TENON_VALUE(walk), TENON_VALUE(epsilon)};
  return tenon_each(call, CODE, K_batch_norm, walk.count, arguments, 8);
}

/* clang-format off */
TENON_ITEMS(core_source_window,
  TENON_EXTEND("core::average_pool", TENON_SOURCE("f32 strided", average_pool_run)),
  TENON_EXTEND("core::lp_pool", TENON_SOURCE("f32 strided", lp_pool_run)),
  TENON_EXTEND("core::max_pool", TENON_SOURCE("f32 strided", max_pool_run)),
  TENON_EXTEND("core::batch_norm", TENON_SOURCE("f32 strided capturable", batch_norm_run)))
/* clang-format on */
#endif
