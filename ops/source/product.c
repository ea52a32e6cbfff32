/* Matrix products and convolutions of f32, for devices that compile. A group computes a tile of the
 * result, and its items compute blocks of the tile, however many items there are. Operands are
 * staged in the group's shared memory.
 * Invariant: no item leaves before the last barrier, so that every group size is correct. */
#ifndef TENON_ON_DEVICE
#include "../conv_im2col.h"
#include "../matmul.h"
#include "launch.h"
#endif

#define TILE_M 32
#define TILE_N 128
#define TILE_K 32
#define BLOCK_M 4
#define BLOCK_N 32
#define BLOCKS (TILE_M / BLOCK_M * (TILE_N / BLOCK_N))

#define WIDE 16 /* floats in a vector; the names below have this width */
#define floats float16
#define load load16
#define store store16
#define splat splat16
#define mad_floats mad16

#define CLEAR()                                                                                    \
  for (int i = 0; i < BLOCK_M; i++)                                                                \
    for (int j = 0; j < BLOCK_N / WIDE; j++)                                                       \
  sum[i][j] = splat(0)
/* Adds the product of the tiles in shared memory to a block in registers; a_tile is
 * [TILE_M][TILE_K], b_tile [TILE_K][TILE_N]. */
#define ACCUMULATE()                                                                               \
  do {                                                                                             \
    floats own_[BLOCK_M][BLOCK_N / WIDE];                                                          \
    UNROLL for (int i = 0; i < BLOCK_M; i++) {                                                     \
      UNROLL for (int j = 0; j < BLOCK_N / WIDE; j++) own_[i][j] = sum[i][j];                      \
    }                                                                                              \
    for (int l = 0; l < TILE_K; l++) {                                                             \
      floats right_[BLOCK_N / WIDE];                                                               \
      UNROLL for (int j = 0; j < BLOCK_N / WIDE; j++) right_[j] =                                  \
          load(b_tile, l * TILE_N + j0 + j * WIDE);                                                \
      UNROLL for (int i = 0; i < BLOCK_M; i++) {                                                   \
        floats left_ = splat(a_tile[(i0 + i) * TILE_K + l]);                                       \
        UNROLL for (int j = 0; j < BLOCK_N / WIDE; j++) own_[i][j] =                               \
            mad_floats(left_, right_[j], own_[i][j]);                                              \
      }                                                                                            \
    }                                                                                              \
    UNROLL for (int i = 0; i < BLOCK_M; i++) {                                                     \
      UNROLL for (int j = 0; j < BLOCK_N / WIDE; j++) sum[i][j] = own_[i][j];                      \
    }                                                                                              \
  } while (0)

/* Activations, numbered as in ../epilogue.h. */
FUNCTION float unit(float x) {
  if (x < 0) return 0;
  return x > 1 ? 1 : x;
}
FUNCTION float sigmoid(float x) {
  float e = exp(-fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}
FUNCTION float activate(float x, int32_t activation, float alpha, float beta) {
  switch (activation) {
  case 1:
    return x < 0 ? 0 : x;
  case 2:
    if (x < alpha) return alpha;
    return x > beta ? beta : x;
  case 3:
    return x < 0 ? alpha * x : x;
  case 4:
    return x < 0 ? alpha * expm1(x) : x;
  case 5:
    return x * 0.5f * (1 + erf(x * 0.70710678118654752f));
  case 6:
    return x * 0.5f * (1 + tanh(0.79788456080286536f * (x + 0.044715f * x * x * x)));
  case 7:
    return tanh(x);
  case 8:
    return sigmoid(x);
  case 9:
    return x * sigmoid(x);
  case 10:
    return unit(alpha * x + beta);
  case 11:
    return x * unit(x * (1.0f / 6) + 0.5f);
  case 12:
    return x * tanh((x < 0 ? 0 : x) + log1p(exp(-fabs(x))));
  default:
    return x;
  }
}

/* Loads a tile of the matrix at `from`, which has `rows` rows and `columns` columns left; elements
 * beyond its end are 0. */
FUNCTION void tile_set(LOCAL float *tile, int32_t down, int32_t across, GLOBAL const float *from,
                       int64_t row, int64_t column, int64_t rows, int64_t columns, int32_t item,
                       int32_t items) {
  if (column == 1 && rows >= down && columns >= across) {
    for (int32_t e = item * WIDE; e < down * across; e += items * WIDE)
      store(tile, e, load(from, e / across * row + e % across));
  } else {
    for (int32_t e = item; e < down * across; e += items) {
      int64_t i = e / across;
      int64_t j = e % across;
      tile[e] = i < rows && j < columns ? from[i * row + j * column] : 0;
    }
  }
}

typedef struct sizes_t {
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t across; /* tiles side by side */
  int64_t a_row;
  int64_t a_column;
  int64_t b_row;
  int64_t b_column;
  int64_t bias_row;
  int64_t bias_column;
  int64_t c_row;
  int64_t c_column;
  float scale;
  float bias_scale;
  float alpha;
  float beta;
  int32_t activation;
  int32_t has_bias;
} sizes_t;

/* c = activation(scale a b + bias_scale bias) for matrices that `batch` walks over; its tensors are
 * a, b, bias and c. */
TENON_SOURCE_8(matmul, IN, float, a, IN, float, b, IN, float, bias, OUT, float, c, VALUE,
               tenon_walk_t, batch, VALUE, sizes_t, p, SHARED, float, a_tile, SHARED, float,
               b_tile) {
  const int64_t down = (p.m + TILE_M - 1) / TILE_M;
  const int64_t tile = (int64_t)get_group_id(0) % (down * p.across);
  const int64_t row = tile / p.across * TILE_M;
  const int64_t column = tile % p.across * TILE_N;
  const int32_t items = (int32_t)get_local_size(0);
  const int32_t item = (int32_t)get_local_id(0);
  int64_t at[4];
  tenon_walk(&batch, (int64_t)get_group_id(0) / (down * p.across), at);
  for (int32_t first = 0; first < BLOCKS; first += items) {
    const int32_t block = first + item;
    const int32_t i0 = block / (TILE_N / BLOCK_N) * BLOCK_M;
    const int32_t j0 = block % (TILE_N / BLOCK_N) * BLOCK_N;
    floats sum[BLOCK_M][BLOCK_N / WIDE];
    CLEAR();
    for (int64_t k = 0; k < p.k; k += TILE_K) {
      BARRIER();
      tile_set(a_tile, TILE_M, TILE_K, a + at[0] + row * p.a_row + k * p.a_column, p.a_row,
               p.a_column, p.m - row, p.k - k, item, items);
      tile_set(b_tile, TILE_K, TILE_N, b + at[1] + k * p.b_row + column * p.b_column, p.b_row,
               p.b_column, p.k - k, p.n - column, item, items);
      BARRIER();
      if (block < BLOCKS) ACCUMULATE();
    }
    if (block < BLOCKS)
      for (int i = 0; i < BLOCK_M; i++)
        for (int j = 0; j < BLOCK_N; j++) {
          int64_t y = row + i0 + i;
          int64_t x = column + j0 + j;
          if (y >= p.m || x >= p.n) continue;
          float e = p.scale * lane(sum[i][j / WIDE], j % WIDE);
          if (p.has_bias) e += p.bias_scale * bias[at[2] + y * p.bias_row + x * p.bias_column];
          c[at[3] + y * p.c_row + x * p.c_column] = activate(e, p.activation, p.alpha, p.beta);
        }
  }
}

/* convolutions */

#define HAS_BIAS 1
#define HAS_RESIDUAL 2
#define TRANSPOSED 4
typedef struct conv_t { /* three spatial axes; the first may have extent 1 */
  int64_t images;
  int64_t groups;
  int64_t filters;
  int64_t channels;
  int64_t taps;
  int64_t pixels;
  int64_t across; /* filters and channels of one group */
  int64_t in[3];
  int64_t out[3];
  int64_t size[3];
  int64_t stride[3];
  int64_t dilation[3];
  int64_t before[3];
  int64_t x_first;
  int64_t x_image;
  int64_t x_channel;
  int64_t x_space[3];
  int64_t c_first;
  int64_t c_image;
  int64_t c_channel;
  int64_t c_space[3];
  int64_t more_first;
  int64_t more_image;
  int64_t more_channel;
  int64_t more_space[3];
  int64_t bias_first;
  int64_t bias_stride;
  float alpha;
  float beta;
  int32_t activation;
  int32_t flags;
} conv_t;

FUNCTION void place_set(const int64_t *extents, int64_t number, int64_t *out) {
  int64_t rest = number / extents[2];
  out[2] = number - rest * extents[2];
  out[0] = rest / extents[1];
  out[1] = rest - out[0] * extents[1];
}
FUNCTION int64_t place_at(const int64_t *place, const int64_t *strides) {
  return place[0] * strides[0] + place[1] * strides[1] + place[2] * strides[2];
}

/* Convolution as a product: rows are filters, columns are pixels, and b consists of patches of x
 * that are loaded on demand; w is row-major. */
TENON_SOURCE_11(conv, IN, float, x, IN, float, w, IN, float, bias, IN, float, residual, OUT, float,
                c, VALUE, conv_t, p, SHARED, float, a_tile, SHARED, float, b_tile, SHARED, int32_t,
                starts, SHARED, int32_t, taps, SHARED, int64_t, tap_at) {
  const int64_t down = (p.filters + TILE_M - 1) / TILE_M;
  const int64_t tile = (int64_t)get_group_id(0) % (down * p.across);
  const int64_t row = tile / p.across * TILE_M;
  const int64_t column = tile % p.across * TILE_N;
  const int64_t matrix = (int64_t)get_group_id(0) / (down * p.across);
  const int64_t image = matrix / p.groups;
  const int64_t group = matrix % p.groups;
  const int64_t depth = p.channels * p.taps;
  const int64_t x_at = p.x_first + image * p.x_image + group * p.channels * p.x_channel;
  const int32_t items = (int32_t)get_local_size(0);
  const int32_t item = (int32_t)get_local_id(0);
  for (int32_t e = item; e < TILE_N;
       e += items) { /* where windows start; far outside if there is no such pixel */
    int64_t o[3];
    place_set(p.out, column + e, o);
    for (int d = 0; d < 3; d++)
      starts[3 * e + d] =
          column + e < p.pixels ? (int32_t)(o[d] * p.stride[d] - p.before[d]) : -(1 << 30);
  }
  for (int32_t first = 0; first < BLOCKS; first += items) {
    const int32_t block = first + item;
    const int32_t i0 = block / (TILE_N / BLOCK_N) * BLOCK_M;
    const int32_t j0 = block % (TILE_N / BLOCK_N) * BLOCK_N;
    floats sum[BLOCK_M][BLOCK_N / WIDE];
    CLEAR();
    for (int64_t k = 0; k < depth; k += TILE_K) {
      BARRIER();
      for (int32_t e = item; e < TILE_K; e += items) {
        int64_t channel = (k + e) / p.taps;
        int64_t tap[3];
        place_set(p.size, k + e - channel * p.taps, tap);
        tap_at[e] = channel * p.x_channel;
        for (int d = 0; d < 3; d++)
          taps[3 * e + d] = k + e < depth ? (int32_t)(tap[d] * p.dilation[d]) : -(1 << 30);
      }
      for (int32_t e = item; e < TILE_M * TILE_K; e += items) {
        int64_t i = row + e / TILE_K;
        int64_t l = k + e % TILE_K;
        a_tile[e] = i < p.filters && l < depth ? w[(group * p.filters + i) * depth + l] : 0;
      }
      BARRIER();
      for (int32_t e = item; e < TILE_K * TILE_N; e += items) {
        int32_t tap = 3 * (e / TILE_N);
        int32_t start = 3 * (e % TILE_N);
        int64_t at[3];
        for (int d = 0; d < 3; d++)
          at[d] = starts[start + d] + taps[tap + d];
        int is_inside = at[0] >= 0 && at[0] < p.in[0] && at[1] >= 0 && at[1] < p.in[1] &&
                        at[2] >= 0 && at[2] < p.in[2];
        b_tile[e] = is_inside ? x[x_at + tap_at[e / TILE_N] + place_at(at, p.x_space)] : 0;
      }
      BARRIER();
      if (block < BLOCKS) ACCUMULATE();
    }
    if (block < BLOCKS)
      for (int j = 0; j < BLOCK_N; j++) {
        int64_t pixel = column + j0 + j;
        int64_t o[3];
        if (pixel >= p.pixels) continue;
        place_set(p.out, pixel, o);
        int64_t c_at = p.c_first + image * p.c_image + place_at(o, p.c_space);
        int64_t more_at = p.more_first + image * p.more_image + place_at(o, p.more_space);
        for (int i = 0; i < BLOCK_M; i++) {
          int64_t filter = group * p.filters + row + i0 + i;
          if (row + i0 + i >= p.filters) continue;
          float e = lane(sum[i][j / WIDE], j % WIDE);
          if (p.flags & HAS_BIAS) e += bias[p.bias_first + filter * p.bias_stride];
          if (p.flags & HAS_RESIDUAL) e += residual[more_at + filter * p.more_channel];
          c[c_at + filter * p.c_channel] = activate(e, p.activation, p.alpha, p.beta);
        }
      }
  }
}

/* Computes one element of the result at a time: for groups with few filters, and for transposed
 * convolutions, where w is [channel][filter][tap]. */
TENON_SOURCE_6(conv_direct, IN, float, x, IN, float, w, IN, float, bias, IN, float, residual, OUT,
               float, c, VALUE, conv_t, p) {
  const int64_t all = p.groups * p.filters;
  TENON_EACH(e, p.images * all * p.pixels) {
    int64_t filter, pixel, image, o[3], at[3];
    if (p.c_channel == 1) {
      filter = e % all;
      pixel = e / all % p.pixels;
      image = e / all / p.pixels;
    } else {
      pixel = e % p.pixels;
      filter = e / p.pixels % all;
      image = e / p.pixels / all;
    }
    const int64_t group = filter / p.filters;
    const int64_t x_at = p.x_first + image * p.x_image + group * p.channels * p.x_channel;
    float sum = 0;
    place_set(p.out, pixel, o);
    for (int64_t tap = 0; tap < p.taps; tap++) {
      int is_inside = 1;
      place_set(p.size, tap, at);
      for (int d = 0; d < 3; d++) {
        if (p.flags & TRANSPOSED) {
          int64_t from = o[d] + p.before[d] - at[d] * p.dilation[d];
          at[d] = from / p.stride[d];
          is_inside = is_inside && from >= 0 && at[d] * p.stride[d] == from && at[d] < p.in[d];
        } else {
          at[d] = o[d] * p.stride[d] - p.before[d] + at[d] * p.dilation[d];
          is_inside = is_inside && at[d] >= 0 && at[d] < p.in[d];
        }
      }
      if (!is_inside) continue;
      const int64_t from = x_at + place_at(at, p.x_space);
      const int64_t own =
          p.flags & TRANSPOSED
              ? (group * p.channels * p.filters + filter - group * p.filters) * p.taps + tap
              : filter * p.channels * p.taps + tap;
      const int64_t step = p.flags & TRANSPOSED ? p.filters * p.taps : p.taps;
      for (int64_t channel = 0; channel < p.channels; channel++)
        sum = mad(x[from + channel * p.x_channel], w[own + channel * step], sum);
    }
    if (p.flags & HAS_BIAS) sum += bias[p.bias_first + filter * p.bias_stride];
    if (p.flags & HAS_RESIDUAL)
      sum += residual[p.more_first + image * p.more_image + filter * p.more_channel +
                      place_at(o, p.more_space)];
    c[p.c_first + image * p.c_image + filter * p.c_channel + place_at(o, p.c_space)] =
        activate(sum, p.activation, p.alpha, p.beta);
  }
}

#ifndef TENON_ON_DEVICE
enum {
  K_matmul,
  K_conv,
  K_conv_direct,
};
TENON_CODE(core_source_product_code, {"matmul", matmul}, {"conv", conv},
           {"conv_direct", conv_direct})
#define CODE &core_source_product_code
typedef char activations_t[FINISH_relu == 1 && FINISH_elu == 4 && FINISH_silu == 9 &&
                                   FINISH_mish == 12 && FINISH_COUNT == 13
                               ? 1
                               : -1];

/* Elements of one axis before the first one. */
static int64_t below_of(int64_t extent, int64_t stride) {
  return extent > 1 && stride < 0 ? -(extent - 1) * stride : 0;
}

static tenon_status_t enqueue_product(tenon_call_t *call, int transpose_a, int transpose_b,
                                      const finish_t *finish) {
  tenon_tensor_t *tensors[4] = {call->inputs[0], call->inputs[1], call->inputs[2],
                                call->outputs[0]};
  matmul_t view;
  tenon_walk_t batch = {1, 0, {0}, {0}, {{0}}};
  if (!tenon_count(tensors[3])) return TENON_OK;
  core_matmul_view(tensors, transpose_a, transpose_b, &view);
  if (view.rank > 8)
    return DECLINE(call, "the source kernel supports at most eight leading axes that do not merge");
  const matrix_t *all[4] = {&view.a, &view.b, &view.bias, &view.c};
  batch.rank = view.rank;
  for (int32_t i = 0; i < view.rank; i++) {
    batch.shape[i] = view.batch[i];
    batch.count *= view.batch[i];
  }
  for (int t = 0; t < 4; t++)
    for (int32_t i = 0; i < view.rank; i++) {
      batch.strides[t][i] = all[t]->batch[i];
      batch.first[t] += below_of(view.batch[i], all[t]->batch[i]);
    }
  batch.first[0] += below_of(view.m, view.a.row) + below_of(view.k, view.a.column);
  batch.first[1] += below_of(view.k, view.b.row) + below_of(view.n, view.b.column);
  batch.first[2] += below_of(view.m, view.bias.row) + below_of(view.n, view.bias.column);
  batch.first[3] += below_of(view.m, view.c.row) + below_of(view.n, view.c.column);
  sizes_t p = {.m = view.m,
               .n = view.n,
               .k = view.k,
               .across = (view.n + TILE_N - 1) / TILE_N,
               .a_row = view.a.row,
               .a_column = view.a.column,
               .b_row = view.b.row,
               .b_column = view.b.column,
               .bias_row = view.bias.row,
               .bias_column = view.bias.column,
               .c_row = view.c.row,
               .c_column = view.c.column,
               .scale = (float)finish->scale,
               .bias_scale = (float)finish->bias_scale,
               .alpha = (float)finish->alpha,
               .beta = (float)finish->beta,
               .activation = (int32_t)finish->activation,
               .has_bias = tensors[2] != NULL};
  const tenon_kernel_argument_t arguments[] = {tenon_in(tensors[0]),
                                               tenon_in(tensors[1]),
                                               tenon_in(tensors[tensors[2] ? 2 : 0]),
                                               tenon_out(tensors[3]),
                                               TENON_VALUE(batch),
                                               TENON_VALUE(p),
                                               tenon_shared_whole(TILE_M * TILE_K * sizeof(float)),
                                               tenon_shared_whole(TILE_N * TILE_K * sizeof(float))};
  int64_t tiles = batch.count * ((p.m + TILE_M - 1) / TILE_M) * p.across;
  return rows_run(call, CODE, K_matmul, tiles, BLOCKS, arguments, 8);
}

static tenon_status_t matmul_run(tenon_call_t *call) {
  const finish_t finish = core_matmul_finish_of(call->attrs);
  return enqueue_product(call, call->attrs[0].as.i != 0, call->attrs[1].as.i != 0, &finish);
}

static tenon_status_t gemm_run(tenon_call_t *call) {
  const finish_t finish = core_gemm_finish_of(call->attrs);
  return enqueue_product(call, call->attrs[2].as.i != 0, call->attrs[3].as.i != 0, &finish);
}

/* convolutions */

enum { FEW = 8 /* groups with fewer filters fill too little of a tile */ };

/* Strides of [N, C, spatial...] with three spatial axes. */
static void strides_of_space(const tenon_tensor_t *t, int64_t *first, int64_t *image,
                             int64_t *channel, int64_t *space) {
  *first = below(t);
  *image = t->strides[0];
  *channel = t->strides[1];
  for (int32_t i = 0; i < 3; i++)
    space[i] = i < 5 - t->ndim ? 0 : t->strides[i + t->ndim - 3];
}

/* Sets the window, with axes of extent 1 before it up to three axes. Returns false if a position
 * does not fit into 30 bits. */
static int set_window(conv_t *p, const window_t *window) {
  for (int32_t i = 0; i < 3; i++) {
    int32_t at = i - (3 - window->rank);
    p->in[i] = at < 0 ? 1 : window->in[at];
    p->out[i] = at < 0 ? 1 : window->out[at];
    p->size[i] = at < 0 ? 1 : window->kernel[at];
    p->stride[i] = at < 0 ? 1 : window->stride[at];
    p->dilation[i] = at < 0 ? 1 : window->dilation[at];
    p->before[i] = at < 0 ? 0 : window->before[at];
    p->taps *= p->size[i];
    p->pixels *= p->out[i];
    if (p->in[i] >= 1 << 29 || p->out[i] >= 1 << 29 || p->size[i] * p->dilation[i] >= 1 << 29)
      return 0;
  }
  return 1;
}

static tenon_status_t enqueue_convolution(tenon_call_t *call, const window_t *window,
                                          int64_t groups, const tenon_tensor_t *residual,
                                          int32_t flags, const finish_t *finish) {
  tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *w = call->inputs[1];
  tenon_tensor_t *bias = call->inputs[2];
  tenon_tensor_t *out = call->outputs[0];
  conv_t p = {.images = out->shape[0],
              .groups = groups,
              .filters = out->shape[1] / groups,
              .channels = x->shape[1] / groups,
              .taps = 1,
              .pixels = 1,
              .alpha = (float)finish->alpha,
              .beta = (float)finish->beta,
              .activation = (int32_t)finish->activation,
              .flags = flags};
  if (bias) p.flags |= HAS_BIAS;
  if (residual) p.flags |= HAS_RESIDUAL;
  if (!tenon_count(out)) return TENON_OK;
  if (window->rank > 3)
    return DECLINE(call, "the source kernel supports at most three spatial axes");
  TENON_TRY(dense_of(call, w, &w));
  if (!set_window(&p, window))
    return DECLINE(call, "the source kernel counts positions in 30 bits");
  p.across = (p.pixels + TILE_N - 1) / TILE_N;
  strides_of_space(x, &p.x_first, &p.x_image, &p.x_channel, p.x_space);
  strides_of_space(out, &p.c_first, &p.c_image, &p.c_channel, p.c_space);
  if (residual)
    strides_of_space(residual, &p.more_first, &p.more_image, &p.more_channel, p.more_space);
  if (bias) {
    p.bias_first = below(bias);
    p.bias_stride = bias->strides[0];
  }
  const tenon_kernel_argument_t arguments[] = {tenon_in(x),
                                               tenon_in(w),
                                               tenon_in(bias ? bias : x),
                                               tenon_in(residual ? residual : x),
                                               tenon_out(out),
                                               TENON_VALUE(p),
                                               tenon_shared_whole(TILE_M * TILE_K * sizeof(float)),
                                               tenon_shared_whole(TILE_N * TILE_K * sizeof(float)),
                                               tenon_shared_whole(3 * TILE_N * sizeof(int32_t)),
                                               tenon_shared_whole(3 * TILE_K * sizeof(int32_t)),
                                               tenon_shared_whole(TILE_K * sizeof(int64_t))};
  if (p.filters < FEW || flags & TRANSPOSED)
    return tenon_each(call, CODE, K_conv_direct, tenon_count(out), arguments, 6);
  int64_t tiles = p.images * groups * ((p.filters + TILE_M - 1) / TILE_M) * p.across;
  return rows_run(call, CODE, K_conv, tiles, BLOCKS, arguments, 11);
}

static tenon_status_t conv_run(tenon_call_t *call) {
  const tenon_value_t *attrs = call->attrs;
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *w = call->inputs[1];
  const finish_t finish = {.activation = attrs[CONV_ACTIVATION].as.i,
                           .alpha = attrs[CONV_ALPHA].as.f,
                           .beta = attrs[CONV_BETA].as.f};
  window_args_t args = window_args(attrs, 0);
  window_t window;
  core_window_set(&window, &args, x->ndim - 2, x->shape + 2, w->shape + 2,
                  call->outputs[0]->shape + 2);
  return enqueue_convolution(call, &window, attrs[CONV_GROUP].as.i, call->inputs[3], 0, &finish);
}

static tenon_status_t conv_transpose_run(tenon_call_t *call) {
  const finish_t finish = {.activation = FINISH_none};
  window_t window;
  core_conv_transpose_window(call->attrs, call->inputs[0], call->inputs[1], call->outputs[0],
                             &window);
  return enqueue_convolution(call, &window, call->attrs[CONV_GROUP].as.i, NULL, TRANSPOSED,
                             &finish);
}

/* clang-format off */
TENON_ITEMS(core_source_product,
  TENON_EXTEND("core::matmul", TENON_SOURCE("f32 strided", matmul_run)),
  TENON_EXTEND("core::gemm", TENON_SOURCE("f32 strided", gemm_run)),
  TENON_EXTEND("core::conv", TENON_SOURCE("f32 strided", conv_run)),
  TENON_EXTEND("core::conv_transpose", TENON_SOURCE("f32 strided", conv_transpose_run)))
/* clang-format on */
#endif
