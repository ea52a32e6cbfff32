/* Convolutions with packed weights; see conv_packed.h. A block of output positions is multiplied
 * with panels of filters, tile by tile. The addresses under the taps of a block are found once for
 * all panels. Called by dnn/convolution.c.
 * Invariant: parts depend on the extents alone, and one part computes a sum from start to end. */
#include "conv_packed.h"
#include "capability.h"
#include "conv_tile.h"
#include "dense.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  AXES = 3, /* spatial axes, at most */
  TAPS_MOST = 256,
  ROWS_MOST = 96,      /* positions of a block */
  ADDRESSES = 1 << 12, /* of a block */
};

struct conv_packed_t {
  const conv_tiles_t *tiles;
  int64_t group;
  int64_t channels; /* of a group */
  int64_t filters;  /* of a group */
  int64_t taps;
  int64_t panels; /* of a group */
  float *zeros;   /* for taps in the padding: as many as x has channels */
  float *weights;
  int is_borrowed; /* the caller owns `weights` */
};

/* Do the tiles apply this activation themselves? */
static int is_clamp(int64_t activation) {
  return activation == FINISH_none || activation == FINISH_relu || activation == FINISH_clip;
}

/* packing */

const conv_tiles_t *core_conv_tiles_of_isa(void) {
#if defined(__x86_64__) || defined(_M_X64)
  static const conv_tiles_t *const all[] = {&core_conv_tiles, &core_conv_tiles_avx2,
                                            &core_conv_tiles_avx512};
  return all[core_capability()];
#else
  return &core_conv_tiles;
#endif
}

/* The filters of a panel: those of a whole one, or of half of one if no more are left. */
static int64_t panel_width(const conv_packed_t *packed, int64_t panel) {
  const int64_t whole = packed->tiles->filters;
  const int64_t left = packed->filters - panel * whole;
  return left <= whole / 2 ? whole / 2 : whole;
}

/* The packed weights of a group, in elements. */
static int64_t group_size(const conv_packed_t *packed) {
  const int64_t last = packed->panels - 1;
  const int64_t filters = last * packed->tiles->filters + panel_width(packed, last);
  return filters * packed->taps * packed->channels;
}

/* Where a panel of a group begins. */
static float *panel_at(const conv_packed_t *packed, int64_t group, int64_t panel) {
  const int64_t depth = packed->taps * packed->channels;
  return packed->weights + group * group_size(packed) + panel * packed->tiles->filters * depth;
}

int core_conv_suits(const tenon_tensor_t *w, int64_t group, int64_t activation) {
  enum { FILTERS = 8, CHANNELS = 8, DEPTH = 64, DEPTH_ACTIVATED = 112 };
  if (core_capability() == CAPABILITY_AVX512 || w->ndim > 2 + AXES) return 0;
  const int64_t taps = window_size(w->shape + 2, w->ndim - 2);
  const int64_t least = is_clamp(activation) ? DEPTH : DEPTH_ACTIVATED;
  return w->shape[0] / group >= FILTERS && w->shape[1] >= CHANNELS && taps <= TAPS_MOST &&
         taps * w->shape[1] >= least;
}

static void pack_panel(const conv_packed_t *packed, const tenon_tensor_t *w, int64_t group,
                       int64_t panel) {
  const int64_t width = panel_width(packed, panel);
  const int64_t filter = panel * packed->tiles->filters;
  const int64_t left = packed->filters - filter;
  float *to = panel_at(packed, group, panel);
  for (int64_t tap = 0; tap < packed->taps; tap++) {
    const float *from = (const float *)w->data + (group * packed->filters + filter) * w->strides[0];
    int64_t rest = tap;
    for (int32_t i = w->ndim - 1; i >= 2; i--) {
      from += rest % w->shape[i] * w->strides[i];
      rest /= w->shape[i];
    }
    for (int64_t c = 0; c < packed->channels; c++, to += width)
      for (int64_t f = 0; f < width; f++)
        to[f] = f < left ? from[f * w->strides[0] + c * w->strides[1]] : 0;
  }
}

/* Memory for `count` floats at the begin of a cache line; NULL: there is none. */
static float *allocate_line(int64_t count) {
  const uint64_t lines = ((uint64_t)count * sizeof(float) + 63) / 64;
  return (float *)aligned_alloc(64, lines * 64);
}

static conv_packed_t shape_packed(const tenon_tensor_t *w, int64_t group) {
  conv_packed_t packed = {.tiles = core_conv_tiles_of_isa(),
                          .group = group,
                          .channels = w->shape[1],
                          .filters = w->shape[0] / group,
                          .taps = window_size(w->shape + 2, w->ndim - 2)};
  packed.panels = (packed.filters - 1) / packed.tiles->filters + 1;
  return packed;
}

uint64_t core_conv_packed_size(const tenon_tensor_t *w, int64_t group) {
  const conv_packed_t packed = shape_packed(w, group);
  return (uint64_t)(group * group_size(&packed)) * sizeof(float);
}

const void *core_conv_packed_data(const conv_packed_t *packed) { return packed->weights; }

conv_packed_t *core_conv_borrow(const tenon_tensor_t *w, int64_t group, const void *weights) {
  conv_packed_t *packed = (conv_packed_t *)malloc(sizeof *packed);
  if (!packed) return NULL;
  *packed = shape_packed(w, group);
  packed->zeros = (float *)calloc((size_t)(group * packed->channels), sizeof(float));
  packed->weights = (float *)(uintptr_t)weights;
  packed->is_borrowed = 1;
  if (packed->zeros) return packed;
  core_conv_packed_release(packed);
  return NULL;
}

conv_packed_t *core_conv_pack(const tenon_tensor_t *w, int64_t group) {
  const conv_packed_t shaped = shape_packed(w, group);
  float *weights = allocate_line(group * group_size(&shaped));
  conv_packed_t *packed = weights ? core_conv_borrow(w, group, weights) : NULL;
  if (!packed) {
    free(weights);
    return NULL;
  }
  packed->is_borrowed = 0;
  for (int64_t g = 0; g < group; g++)
    for (int64_t p = 0; p < packed->panels; p++)
      pack_panel(packed, w, g, p);
  return packed;
}

void core_conv_packed_release(conv_packed_t *packed) {
  if (!packed) return;
  free(packed->zeros);
  if (!packed->is_borrowed) free(packed->weights);
  free(packed);
}

/* running */

typedef struct tap_t {
  int64_t at[AXES]; /* within the window, dilated */
  int64_t offset;   /* in x, from the begin of the window */
  /* The positions on the last axis for which the tap is inside of x: [low, high). */
  int64_t low;
  int64_t high;
} tap_t;

typedef struct job_t {
  const conv_call_t *call;
  const conv_packed_t *packed;
  const float *bias; /* of all filters, with room for a panel behind the last; NULL: none */
  tap_t taps[TAPS_MOST];
  int64_t rows;    /* of all images */
  int64_t block;   /* positions of a block */
  int64_t ranges;  /* into which the panels of all groups are cut */
  int is_fetching; /* weights come from memory: they are used too rarely */
  int is_clamped;  /* the activation belongs to the tiles */
  float low;
  float high;
} job_t;

/* The addresses of one block of positions. */
typedef struct block_t {
  const float *x[ADDRESSES];
  float *out[ROWS_MOST];
  const float *residual[ROWS_MOST];
} block_t;

/* A position of the result. */
typedef struct position_t {
  int64_t image;
  int64_t at[AXES];
} position_t;

/* Position number `index` in row-major order. */
static position_t position_of(const window_t *window, int64_t index) {
  position_t position = {0};
  for (int32_t i = window->rank - 1; i >= 0; i--) {
    position.at[i] = index % window->out[i];
    index /= window->out[i];
  }
  position.image = index;
  return position;
}

/* The offset of a position in the memory of a result with these strides. */
static int64_t offset_of(const window_t *window, const position_t *position,
                         const int64_t *strides) {
  int64_t offset = position->image * strides[0];
  for (int32_t i = 0; i < window->rank; i++)
    offset += position->at[i] * strides[2 + i];
  return offset;
}

static int64_t limit(int64_t number, int64_t low, int64_t high) {
  if (number < low) return low;
  return number < high ? number : high;
}

/* Finds the addresses under one tap for `count` adjacent positions of a line. `from` is the address
 * for the first position, if it is inside of x. */
static void place_tap(const job_t *job, const tap_t *tap, const position_t *position, int64_t count,
                      const float *from, const float **to) {
  const window_t *window = job->call->window;
  const int32_t last = window->rank - 1;
  const int64_t step = window->stride[last] * job->call->x->strides[2 + last];
  int64_t low = limit(tap->low - position->at[last], 0, count);
  int64_t high = limit(tap->high - position->at[last], low, count);
  for (int32_t i = 0; i < last; i++) {
    const int64_t at = position->at[i] * window->stride[i] - window->before[i] + tap->at[i];
    if (at < 0 || at >= window->in[i]) high = low;
  }
  for (int64_t r = 0; r < low; r++)
    to[r] = job->packed->zeros;
  for (int64_t r = low; r < high; r++)
    to[r] = from + r * step;
  for (int64_t r = high; r < count; r++)
    to[r] = job->packed->zeros;
}

/* Finds the addresses of `count` adjacent positions of a line, which become rows of a block. */
static void place_line(const job_t *job, const position_t *position, int64_t row, int64_t count,
                       block_t *block) {
  const conv_call_t *call = job->call;
  const window_t *window = call->window;
  const int32_t last = window->rank - 1;
  const float *from = (const float *)call->x->data + position->image * call->x->strides[0];
  float *to = (float *)call->out->data + offset_of(window, position, call->out->strides);
  for (int32_t i = 0; i < window->rank; i++)
    from += (position->at[i] * window->stride[i] - window->before[i]) * call->x->strides[2 + i];
  for (int64_t t = 0; t < job->packed->taps; t++)
    place_tap(job, &job->taps[t], position, count, from + job->taps[t].offset,
              block->x + t * job->block + row);
  for (int64_t r = 0; r < count; r++)
    block->out[row + r] = to + r * call->out->strides[2 + last];
  if (!call->residual) return;
  const float *more =
      (const float *)call->residual->data + offset_of(window, position, call->residual->strides);
  for (int64_t r = 0; r < count; r++)
    block->residual[row + r] = more + r * call->residual->strides[2 + last];
}

/* Finds the addresses of a block. Behind its last position come zeros, up to a whole tile. */
static void place_rows(const job_t *job, int64_t first, int64_t rows, block_t *block) {
  const window_t *window = job->call->window;
  const int32_t last = window->rank - 1;
  for (int64_t row = 0; row < rows;) {
    const position_t position = position_of(window, first + row);
    const int64_t count = limit(window->out[last] - position.at[last], 0, rows - row);
    place_line(job, &position, row, count, block);
    row += count;
  }
  for (int64_t tap = 0; tap < job->packed->taps; tap++)
    for (int64_t row = rows; row < job->block; row++)
      block->x[tap * job->block + row] = job->packed->zeros;
}

/* Multiplies the positions of a block with a panel. */
static void multiply_panel(const job_t *job, const block_t *block, int64_t rows, int64_t number) {
  const conv_packed_t *packed = job->packed;
  const int64_t group = number / packed->panels;
  const int64_t panel = number % packed->panels;
  const int64_t whole = packed->tiles->filters;
  const int64_t left = packed->filters - panel * whole;
  const int64_t filter = group * packed->filters + panel * whole;
  const int is_half = panel_width(packed, panel) < whole;
  const float *begin = panel_at(packed, group, panel);
  const float *panel_end = begin + panel_width(packed, panel) * packed->taps * packed->channels;
  const conv_tile_t tile = {.x = block->x,
                            .pitch = job->block,
                            .taps = packed->taps,
                            .channels = packed->channels,
                            .first = group * packed->channels,
                            .panel = begin,
                            .next = job->is_fetching ? panel_end : NULL,
                            .bias = job->bias ? job->bias + filter : NULL,
                            .out = block->out,
                            .residual = job->call->residual ? block->residual : NULL,
                            .filter = filter,
                            .filters = left < whole ? left : whole,
                            .is_clamped = job->is_clamped,
                            .low = job->low,
                            .high = job->high};
  (is_half ? packed->tiles->half : packed->tiles->whole)(&tile, 0, rows);
}

/* Applies an activation that is not part of the tiles. */
static void activate_block(const job_t *job, const block_t *block, int64_t rows, int64_t begin,
                           int64_t end) {
  const conv_call_t *call = job->call;
  for (int64_t row = 0; row < rows; row++)
    job->packed->tiles->activate(call->activation, (float)call->alpha, (float)call->beta,
                                 block->out[row] + begin, end - begin);
}

/* The filter with which panel `number` begins. */
static int64_t filter_of(const conv_packed_t *packed, int64_t number) {
  const int64_t group = number / packed->panels;
  return group * packed->filters + number % packed->panels * packed->tiles->filters;
}

/* A part is a block of positions and a range of panels. */
static tenon_status_t run_blocks(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const job_t *job = (const job_t *)argument;
  const conv_packed_t *packed = job->packed;
  const int64_t panels = packed->panels * packed->group;
  block_t block;
  int64_t placed = -1;
  int64_t rows = 0;
  (void)call;
  for (int64_t part = begin; part < end; part++) {
    const int64_t first = part / job->ranges * job->block;
    const int64_t range = part % job->ranges;
    const int64_t from = range * panels / job->ranges;
    const int64_t to = (range + 1) * panels / job->ranges;
    if (first != placed) {
      rows = job->rows - first < job->block ? job->rows - first : job->block;
      place_rows(job, first, rows, &block);
      placed = first;
    }
    for (int64_t panel = from; panel < to; panel++)
      multiply_panel(job, &block, rows, panel);
    if (!is_clamp(job->call->activation))
      activate_block(job, &block, rows, filter_of(packed, from), filter_of(packed, to));
  }
  return TENON_OK;
}

/* Chooses the positions of a block: as many as keep its part of x in the cache of one processor. */
static int64_t block_for(const job_t *job) {
  enum { BYTES = 192 << 10, LEAST = 24, STEP = CONV_TILE_HALF_ROWS };
  const conv_packed_t *packed = job->packed;
  int64_t most = BYTES / (packed->channels * packed->group * (int64_t)sizeof(float));
  if (most < LEAST) most = LEAST;
  if (most > ROWS_MOST) most = ROWS_MOST;
  if (most > ADDRESSES / packed->taps) most = ADDRESSES / packed->taps;
  most -= most % STEP; /* the last tile reads addresses of whole tiles */
  const int64_t blocks = (job->rows - 1) / most + 1;
  const int64_t rows = ((job->rows - 1) / blocks + STEP) / STEP * STEP;
  return rows < most ? rows : most;
}

/* Cuts the work into parts and runs them. */
static tenon_status_t run_parts(tenon_call_t *call, job_t *job) {
  enum { PARTS = 8, WORK = 1 << 17 };
  const conv_packed_t *packed = job->packed;
  const int64_t panels = packed->panels * packed->group;
  job->block = block_for(job);
  job->is_fetching = job->rows <= ROWS_MOST;
  const int64_t blocks = (job->rows - 1) / job->block + 1;
  job->ranges = (PARTS - 1) / blocks + 1;
  if (job->ranges > panels) job->ranges = panels;
  const int64_t work = job->block * packed->taps * packed->channels *
                       (packed->filters * packed->group / job->ranges + 1);
  const int64_t grain = work < WORK ? WORK / work : 1;
  return call->host->parallel(call, blocks * job->ranges, grain, run_blocks, job);
}

static void set_activation(job_t *job) {
  const conv_call_t *call = job->call;
  job->is_clamped = is_clamp(call->activation) && call->activation != FINISH_none;
  job->low = call->activation == FINISH_clip ? (float)call->alpha : 0;
  job->high = call->activation == FINISH_clip ? (float)call->beta : INFINITY;
}

/* Copies the bias and leaves room for a panel behind it. Returns 0 if memory is short; the error
 * is already set. */
static int copy_bias(tenon_call_t *call, job_t *job) {
  const tenon_tensor_t *bias = job->call->bias;
  if (!bias) return 1;
  float *copy =
      (float *)CORE_SCRATCH(call, sizeof(float), bias->shape[0] + job->packed->tiles->filters);
  if (!copy) return 0;
  for (int64_t f = 0; f < bias->shape[0]; f++)
    copy[f] = ((const float *)bias->data)[f * bias->strides[0]];
  memset(copy + bias->shape[0], 0, (size_t)job->packed->tiles->filters * sizeof(float));
  job->bias = copy;
  return 1;
}

/* The first of the positions 0, 1, ... that lies at `at` or behind it, `stride` elements apart. */
static int64_t first_behind(int64_t at, int64_t stride) {
  return at > 0 ? (at + stride - 1) / stride : 0;
}

static void set_taps(job_t *job) {
  const window_t *window = job->call->window;
  const int32_t last = window->rank - 1;
  for (int64_t t = 0; t < job->packed->taps; t++) {
    tap_t *tap = &job->taps[t];
    int64_t rest = t;
    tap->offset = 0;
    for (int32_t i = last; i >= 0; i--) {
      tap->at[i] = rest % window->kernel[i] * window->dilation[i];
      tap->offset += tap->at[i] * job->call->x->strides[2 + i];
      rest /= window->kernel[i];
    }
    const int64_t before = window->before[last] - tap->at[last];
    tap->low = first_behind(before, window->stride[last]);
    tap->high = first_behind(window->in[last] + before, window->stride[last]);
  }
}

tenon_status_t core_conv_packed_run(tenon_call_t *call, const conv_call_t *convolution) {
  const window_t *window = convolution->window;
  job_t job = {.call = convolution, .packed = convolution->packed};
  job.rows = window_size(window->out, window->rank) * convolution->out->shape[0];
  set_taps(&job);
  set_activation(&job);
  if (!copy_bias(call, &job)) return TENON_MEMORY;
  return run_parts(call, &job);
}
