/* Kernels of products of 8-bit numbers (../integer_tile.h), as one table per instruction set.
 * Called from parts of a parallel loop. */
#include "../integer_tile.h"
#include "isa.h"
#include "pairs.h"
#include <string.h>

enum {
  LANES = VECTOR / sizeof(uint32_t),
  COLUMNS = 2 * LANES,
};

static void multiply_tile(int64_t depth, const uint32_t *left, int64_t left_row, int64_t rows,
                          const uint32_t *restrict panel, int32_t *restrict sums,
                          int64_t sums_row) {
  pairs_vector sum[TILE_ROWS][2];
  const uint32_t *row[TILE_ROWS];
  memset(sum, 0, sizeof sum);
  for (int r = 0; r < TILE_ROWS; r++) /* a missing row is a copy of the last one */
    row[r] = left + (r < rows ? r : rows - 1) * left_row;
  for (int64_t e = 0; e < depth; e++, panel += COLUMNS) {
    pairs_vector b0 = *(const pairs_loose *)panel;
    pairs_vector b1 = *(const pairs_loose *)(panel + LANES);
#pragma GCC unroll 6
    for (int r = 0; r < TILE_ROWS; r++) {
      pairs_vector a = row[r][e] - (pairs_vector){0};
      sum[r][0] += TIMES_PAIRS(a, b0);
      sum[r][1] += TIMES_PAIRS(a, b1);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < TILE_ROWS; r++) {
    if (r >= rows) return;
    *(pairs_loose *)(sums + r * sums_row) = sum[r][0];
    *(pairs_loose *)(sums + r * sums_row + LANES) = sum[r][1];
  }
}

static void pair_panels(const int16_t *restrict low, const int16_t *restrict high, int64_t count,
                        uint32_t *restrict panel, int64_t panel_size) {
  for (int64_t p = 0; p < count; p++, low += COLUMNS, high += COLUMNS, panel += panel_size)
    for (int i = 0; i < COLUMNS; i++)
      panel[i] = (uint16_t)low[i] | (uint32_t)(uint16_t)high[i] << 16;
}

#define WIDEN(T)                                                                                   \
  if (step == 1)                                                                                   \
    for (int64_t i = 0; i < count; i++)                                                            \
      out[i] = (int16_t)(((const T *)x)[i] - zero);                                                \
  else if (step == 2)                                                                              \
    for (int64_t i = 0; i < count; i++)                                                            \
      out[i] = (int16_t)(((const T *)x)[2 * i] - zero);                                            \
  else                                                                                             \
    for (int64_t i = 0; i < count; i++)                                                            \
      out[i] = (int16_t)(((const T *)x)[i * step] - zero);

static void widen_numbers(const uint8_t *restrict x, int64_t step, int is_signed, int32_t zero,
                          int64_t count, int16_t *restrict out) {
  if (is_signed) {
    WIDEN(int8_t)
  } else {
    WIDEN(uint8_t)
  }
}

/* INTERLEAVE makes pairs of two vectors of i16, whose order ORDER restores in two vectors of
 * sums. */
#if defined(__AVX512F__)
#define INTERLEAVE(half, a, b)                                                                     \
  (pairs_vector) _mm512_unpack##half##_epi16((__m512i)(a), (__m512i)(b))
#define ORDER_LOW(a, b)                                                                            \
  (pairs_vector) _mm512_permutex2var_epi32(                                                        \
      (__m512i)(a), _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23),     \
      (__m512i)(b))
#define ORDER_HIGH(a, b)                                                                           \
  (pairs_vector) _mm512_permutex2var_epi32(                                                        \
      (__m512i)(a),                                                                                \
      _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31),             \
      (__m512i)(b))
#elif defined(__FMA__)
#define INTERLEAVE(half, a, b)                                                                     \
  (pairs_vector) _mm256_unpack##half##_epi16((__m256i)(a), (__m256i)(b))
#define ORDER_LOW(a, b) (pairs_vector) _mm256_permute2x128_si256((__m256i)(a), (__m256i)(b), 0x20)
#define ORDER_HIGH(a, b) (pairs_vector) _mm256_permute2x128_si256((__m256i)(a), (__m256i)(b), 0x31)
#elif defined(__SSE2__)
#define INTERLEAVE(half, a, b) (pairs_vector) _mm_unpack##half##_epi16((__m128i)(a), (__m128i)(b))
#define ORDER_LOW(a, b) (a)
#define ORDER_HIGH(a, b) (b)
#endif

static void sum_taps(int64_t pairs, const int16_t *const *low, const int16_t *const *high,
                     const uint32_t *weights, int32_t start, int64_t count,
                     int32_t *restrict sums) {
#ifdef INTERLEAVE
  for (int64_t i = 0; i < count; i += COLUMNS) {
    pairs_vector first = (uint32_t)start - (pairs_vector){0};
    pairs_vector second = first;
    for (int64_t p = 0; p < pairs; p++) {
      pairs_vector weight = weights[p] - (pairs_vector){0};
      pairs_vector a = *(const halves_loose *)(low[p] + i);
      pairs_vector b = *(const halves_loose *)(high[p] + i);
      first += TIMES_PAIRS(INTERLEAVE(lo, a, b), weight);
      second += TIMES_PAIRS(INTERLEAVE(hi, a, b), weight);
    }
    *(pairs_loose *)(sums + i) = ORDER_LOW(first, second);
    *(pairs_loose *)(sums + i + LANES) = ORDER_HIGH(first, second);
  }
#else
  for (int64_t i = 0; i < count; i++) {
    uint32_t sum = (uint32_t)start;
    for (int64_t p = 0; p < pairs; p++)
      sum += times_pair((uint16_t)low[p][i] | (uint32_t)(uint16_t)high[p][i] << 16, weights[p]);
    sums[i] = (int32_t)sum;
  }
#endif
}

enum { BLOCK = 32 };

/* After clamping, adding 1.5 * 2^23 leaves no bits for a fraction. */
static void narrow_block(const narrow_t *narrow, const int32_t *restrict sums,
                         const float *restrict scale, uint8_t *restrict out) {
  const int32_t zero = narrow->zero;
  const float least = (float)(narrow->least - zero);
  const float most = (float)(narrow->most - zero);
  for (int i = 0; i < BLOCK; i++) {
    float value = (float)sums[i] * scale[i];
    float bounded = value > least ? value : least;
    bounded = bounded < most ? bounded : most;
    float whole = (bounded + 0x1.8p23f) - 0x1.8p23f;
    out[i] = (uint8_t)((int32_t)whole + zero);
  }
}

static void narrow_numbers(const narrow_t *narrow, const int32_t *sums, const float *scale,
                           int64_t step, int64_t count, uint8_t *out) {
  float scales[BLOCK];
  int32_t rest[BLOCK] = {0};
  uint8_t results[BLOCK];
  int64_t i = 0;
  for (int e = 0; e < BLOCK; e++)
    scales[e] = *scale;
  for (; i + BLOCK <= count; i += BLOCK)
    narrow_block(narrow, sums + i, step ? scale + i : scales, out + i);
  if (i == count) return;
  memcpy(rest, sums + i, (size_t)(count - i) * sizeof *rest);
  if (step) memcpy(scales, scale + i, (size_t)(count - i) * sizeof *scales);
  narrow_block(narrow, rest, scales, results);
  memcpy(out + i, results, (size_t)(count - i));
}

#define TABLE                                                                                      \
  { COLUMNS, multiply_tile, pair_panels, widen_numbers, sum_taps, narrow_numbers }
#ifdef TENON_SIMD
const integer_tiles_t ISA_JOIN(core_integer_tiles, TENON_SIMD) = TABLE;
#else
const integer_tiles_t core_integer_tiles = TABLE;
#endif
