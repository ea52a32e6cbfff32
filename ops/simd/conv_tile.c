/* Kernels of convolutions with packed weights (../conv_tile.h), as one table per instruction set.
 * Called from parts of a parallel loop. */
#include "../conv_tile.h"
#include "../epilogue.h"
#include "isa.h"
#include "madd.h"
#include "math.h"
#include <string.h>

typedef float vector __attribute__((vector_size(VECTOR)));
typedef float loose __attribute__((vector_size(VECTOR), aligned(sizeof(float)), may_alias));

enum {
  LANES = VECTOR / sizeof(float),
  LINE = 64,    /* bytes */
  CHANNELS = 8, /* between two lines that are fetched */
};

static inline vector all_lanes(float number) { return number - (vector){0}; }

#if defined(__AVX512F__)
#define CLAMP(x, low, high) _mm512_max_ps(low, _mm512_min_ps(high, x))
#elif defined(__FMA__)
#define CLAMP(x, low, high) _mm256_max_ps(low, _mm256_min_ps(high, x))
#elif defined(__SSE2__)
#define CLAMP(x, low, high) _mm_max_ps(low, _mm_min_ps(high, x))
#else
#define CLAMP(x, low, high) clamp_lanes(x, low, high)
static inline vector clamp_lanes(vector x, vector low, vector high) {
  for (int i = 0; i < LANES; i++) {
    float most = x[i] > high[i] ? high[i] : x[i];
    x[i] = x[i] < low[i] ? low[i] : most;
  }
  return x;
}
#endif

/* Writes `count` lanes, at most all of them, of a sum to filter `at` of a panel. */
static void write_lanes(const conv_tile_t *tile, int64_t row, int64_t at, int64_t count,
                        vector sum) {
  const int64_t filter = tile->filter + at;
  const size_t size = (size_t)(count < LANES ? count : LANES) * sizeof(float);
  if (tile->residual) {
    vector more = {0};
    memcpy(&more, tile->residual[row] + filter, size);
    sum += more;
  }
  if (tile->is_clamped) sum = CLAMP(sum, all_lanes(tile->low), all_lanes(tile->high));
  memcpy(tile->out[row] + filter, &sum, size);
}

/* Writes the sums of whole vectors of filters for positions from `first` on. */
static inline __attribute__((always_inline)) void write_tile(const conv_tile_t *tile, int64_t first,
                                                             vector (*sum)[2], const int rows,
                                                             const int vectors) {
  if (tile->residual) {
    const float *const *more = tile->residual + first;
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++)
        sum[r][v] += *(const loose *)(more[r] + tile->filter + v * LANES);
  }
  if (tile->is_clamped) {
    const vector low = all_lanes(tile->low);
    const vector high = all_lanes(tile->high);
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++)
        sum[r][v] = CLAMP(sum[r][v], low, high);
  }
  float *const *out = tile->out + first;
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      *(loose *)(out[r] + tile->filter + v * LANES) = sum[r][v];
}

/* Fetches the lines that positions [first, end) will write, and those of their residual. */
static inline void prefetch_tile(const conv_tile_t *tile, int64_t first, int64_t end) {
  for (; first < end; first++) {
    __builtin_prefetch(tile->out[first] + tile->filter, 1);
    if (tile->residual) __builtin_prefetch(tile->residual[first] + tile->filter);
  }
}

/* Adds the products of channel c to the sums. */
static inline __attribute__((always_inline)) void add_channel(const float *const *row, int64_t c,
                                                              const float *panel, vector (*sum)[2],
                                                              const int rows, const int vectors) {
  vector b[2];
#pragma GCC unroll 2
  for (int v = 0; v < vectors; v++)
    b[v] = *(const loose *)(panel + v * LANES);
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      sum[r][v] = MADD_F32(row[r][c], b[v], sum[r][v]);
}

/* Adds the products of channels [0, count), as many as are a multiple of CHANNELS. Fetches a line
 * from *next on now and then. Returns how many channels were added. */
static inline __attribute__((always_inline)) int64_t
add_fetching(const float *const *row, int64_t count, const float *panel, const char **next,
             vector (*sum)[2], const int rows, const int vectors) {
  int64_t c = 0;
  for (; c + CHANNELS <= count; c += CHANNELS, panel += CHANNELS * vectors * LANES) {
    __builtin_prefetch(*next, 0, 2);
    *next += LINE;
#pragma GCC unroll 8
    for (int i = 0; i < CHANNELS; i++)
      add_channel(row, c + i, panel + i * vectors * LANES, sum, rows, vectors);
  }
  return c;
}

/* Adds the products of all taps and channels to the sums of positions from `first` on. */
static inline __attribute__((always_inline)) void add_products(const conv_tile_t *tile,
                                                               int64_t first, const char **next,
                                                               vector (*sum)[2], const int rows,
                                                               const int vectors) {
  const float *panel = tile->panel;
  for (int64_t tap = 0; tap < tile->taps; tap++) {
    const float *const *x = tile->x + tap * tile->pitch + first;
    const float *row[CONV_TILE_HALF_ROWS];
    int64_t c = 0;
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
      row[r] = x[r] + tile->first;
    if (*next) {
      c = add_fetching(row, tile->channels, panel, next, sum, rows, vectors);
      panel += c * vectors * LANES;
    }
    for (; c < tile->channels; c++, panel += vectors * LANES)
      add_channel(row, c, panel, sum, rows, vectors);
  }
}

/* Computes positions [first, end) in tiles of `rows` positions and `vectors` vectors of filters,
 * which are constants where this is called. */
static inline __attribute__((always_inline)) void compute_rows(const conv_tile_t *tile,
                                                               int64_t first, int64_t end,
                                                               const int rows, const int vectors) {
  vector start[2] = {{0}};
  const char *next = (const char *)tile->next;
  for (int v = 0; v < vectors && tile->bias; v++)
    start[v] = *(const loose *)(tile->bias + v * LANES);
  for (; first < end; first += rows) {
    vector sum[CONV_TILE_HALF_ROWS][2];
    const int64_t count = end - first < rows ? end - first : rows;
    prefetch_tile(tile, first + rows, end - rows - first < rows ? end : first + 2 * rows);
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++)
        sum[r][v] = start[v];
    add_products(tile, first, &next, sum, rows, vectors);
    if (count == rows && tile->filters == vectors * LANES) {
      write_tile(tile, first, sum, rows, vectors);
      continue;
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++)
        if (r < count && tile->filters > v * LANES)
          write_lanes(tile, first + r, v * LANES, tile->filters - v * LANES, sum[r][v]);
  }
}

static void compute_whole(const conv_tile_t *tile, int64_t first, int64_t end) {
  compute_rows(tile, first, end, CONV_TILE_ROWS, 2);
}

static void compute_half(const conv_tile_t *tile, int64_t first, int64_t end) {
  compute_rows(tile, first, end, CONV_TILE_HALF_ROWS, 1);
}

#define T float
#define NAME(x) x##_f32
#include "../activation_kernel.h"

#ifdef TENON_SIMD
const conv_tiles_t ISA_JOIN(core_conv_tiles, TENON_SIMD) =
#else
const conv_tiles_t core_conv_tiles =
#endif
    {2 * LANES, compute_whole, compute_half, activate_f32};
