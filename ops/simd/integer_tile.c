/* Kernels of products of 8-bit numbers (../integer_tile.h), as one table per instruction set.
 * Called from parts of a parallel loop. */
#include "../integer_tile.h"
#include "isa.h"
#include "math.h"
#include "pairs.h"
#include <string.h>

enum {
  LANES = VECTOR / sizeof(uint32_t),
  COLUMNS = 2 * LANES,
/* The sums of a tile and the operands of two steps are in registers: there are 32, or 16. */
#if defined(__AVX512F__)
  ROWS = TILE_ROWS_MOST,
#else
  ROWS = 4,
#endif
  AHEAD = 1024, /* how far ahead of the multiplication weights are fetched; in u32 */
};

static inline void clear_rows(pairs_vector (*sum)[2]) {
#pragma GCC unroll 6
  for (int r = 0; r < ROWS; r++)
    sum[r][0] = sum[r][1] = (pairs_vector){0};
}

static inline void write_rows(pairs_vector (*sum)[2], int64_t rows, int32_t *sums,
                              int64_t sums_row) {
#pragma GCC unroll 6
  for (int r = 0; r < ROWS; r++) {
    if (r >= rows) return;
    *(pairs_loose *)(sums + r * sums_row) = sum[r][0];
    *(pairs_loose *)(sums + r * sums_row + LANES) = sum[r][1];
  }
}

static void multiply_tile(int64_t depth, const uint32_t *left, int64_t left_row, int64_t rows,
                          const uint32_t *restrict panel, int32_t *restrict sums,
                          int64_t sums_row) {
  pairs_vector sum[ROWS][2];
  const uint32_t *row[ROWS];
  clear_rows(sum);
  for (int r = 0; r < ROWS; r++) /* a missing row is a copy of the last one */
    row[r] = left + (r < rows ? r : rows - 1) * left_row;
  for (int64_t e = 0; e < depth; e++, panel += COLUMNS) {
    pairs_vector b0 = *(const pairs_loose *)panel;
    pairs_vector b1 = *(const pairs_loose *)(panel + LANES);
#pragma GCC unroll 6
    for (int r = 0; r < ROWS; r++) {
      pairs_vector a = row[r][e] - (pairs_vector){0};
      sum[r][0] += TIMES_PAIRS(a, b0);
      sum[r][1] += TIMES_PAIRS(a, b1);
    }
  }
  write_rows(sum, rows, sums, sums_row);
}

/* Products of four u8 with four i8. TIMES_QUADS gives sums of two products in 16 bits, which
 * ADD_HALVES adds to sums in 32 bits; weights do not exceed what 16 bits hold (PAIR_MOST). Where
 * there is an exact instruction, and where there is no TIMES_QUADS, ADD_QUADS does both. */
#if defined(__AVX512VNNI__)
#define ADD_QUADS(sum, u, s)                                                                       \
  (pairs_vector) _mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(u), (__m512i)(s))
#elif defined(__AVX512BW__)
#define TIMES_QUADS(u, s) (halves) _mm512_maddubs_epi16((__m512i)(u), (__m512i)(s))
#define ADD_HALVES(sum, x)                                                                         \
  ((sum) + (pairs_vector)_mm512_madd_epi16((__m512i)(x), _mm512_set1_epi16(1)))
#elif defined(__AVX2__)
#define TIMES_QUADS(u, s) (halves) _mm256_maddubs_epi16((__m256i)(u), (__m256i)(s))
#define ADD_HALVES(sum, x)                                                                         \
  ((sum) + (pairs_vector)_mm256_madd_epi16((__m256i)(x), _mm256_set1_epi16(1)))
#else
#define ADD_QUADS(sum, u, s) ((sum) + times_quads(u, s))
#endif

typedef int16_t halves __attribute__((vector_size(VECTOR)));
#if defined(TIMES_QUADS)
enum { PAIR_MOST = 128 };
#define ADD_QUADS(sum, u, s) ADD_HALVES(sum, TIMES_QUADS(u, s))
#define ADD_DOUBLES(sum, u, s, u2, s2) ADD_HALVES(sum, TIMES_QUADS(u, s) + TIMES_QUADS(u2, s2))
#else
enum { PAIR_MOST = PAIR_ANY };
#define ADD_DOUBLES(sum, u, s, u2, s2) ADD_QUADS(ADD_QUADS(sum, u, s), u2, s2)
#endif

#if !defined(__AVX2__)
/* The first and third number of each quad are one pair, the second and fourth another. */
static inline pairs_vector times_quads(pairs_vector u, pairs_vector s) {
  const pairs_vector low = 0x00ff00ffu - (pairs_vector){0};
  pairs_vector even = (pairs_vector)((halves)(s << 8) >> 8);
  pairs_vector odd = (pairs_vector)((halves)s >> 8);
  return TIMES_PAIRS(u & low, even) + TIMES_PAIRS(u >> 8 & low, odd);
}
#endif

/* Four numbers at any address. */
static inline pairs_vector quad_at(const uint8_t *x) {
  uint32_t quad;
  memcpy(&quad, x, sizeof quad);
  return quad - (pairs_vector){0};
}

static inline pairs_vector vector_at(const uint32_t *x) { return *(const pairs_loose *)x; }

static void multiply_columns(const integer_steps_t *steps, const uint8_t *left, int64_t left_pitch,
                             int64_t rows, int32_t *restrict sums, int64_t sums_row) {
  pairs_vector sum[ROWS][2];
  const uint8_t *row[ROWS];
  const uint32_t *weights = steps->weights;
  clear_rows(sum);
  for (int r = 0; r < ROWS; r++) /* a missing row is a copy of the last one */
    row[r] = left + (r < rows ? r : rows - 1) * left_pitch;
  for (int64_t e = 0; e < 2 * steps->doubles; e += 2, weights += 2 * COLUMNS) {
    const int64_t at = (int64_t)steps->quads[e] * 4;
    const int64_t next = (int64_t)steps->quads[e + 1] * 4;
#pragma GCC unroll 6
    for (int r = 0; r < ROWS; r++) {
      pairs_vector a = quad_at(row[r] + at);
      pairs_vector c = quad_at(row[r] + next);
      sum[r][0] = ADD_DOUBLES(sum[r][0], a, vector_at(weights), c, vector_at(weights + COLUMNS));
      sum[r][1] = ADD_DOUBLES(sum[r][1], a, vector_at(weights + LANES), c,
                              vector_at(weights + COLUMNS + LANES));
    }
  }
  for (int64_t e = 2 * steps->doubles; e < steps->count; e++, weights += COLUMNS) {
    const int64_t at = (int64_t)steps->quads[e] * 4;
    pairs_vector b0 = vector_at(weights);
    pairs_vector b1 = vector_at(weights + LANES);
    __builtin_prefetch(weights + AHEAD);
    __builtin_prefetch(weights + AHEAD + LANES);
#pragma GCC unroll 6
    for (int r = 0; r < ROWS; r++) {
      pairs_vector a = quad_at(row[r] + at);
      sum[r][0] = ADD_QUADS(sum[r][0], a, b0);
      sum[r][1] = ADD_QUADS(sum[r][1], a, b1);
    }
  }
  write_rows(sum, rows, sums, sums_row);
}

/* Where the columns of a quad begin in a panel, or beside each other in a plane. */
TN_INLINE int64_t quad_offset(const int32_t *offsets, int32_t quad) {
  return offsets ? offsets[quad] : (int64_t)quad * COLUMNS;
}

/* The product with the first `vectors` vectors of columns of a panel. */
TN_INLINE void multiply_vectors(int vectors, const integer_steps_t *steps, const uint32_t *panel,
                                const int32_t *offsets, int64_t rows, int32_t *restrict sums,
                                int64_t sums_row) {
  pairs_vector sum[ROWS][2];
  const uint32_t *weights = steps->weights;
  clear_rows(sum);
  for (int64_t e = 0; e < 2 * steps->doubles; e += 2, weights += 2 * ROWS) {
    const uint32_t *quads = panel + quad_offset(offsets, steps->quads[e]);
    const uint32_t *next = panel + quad_offset(offsets, steps->quads[e + 1]);
#pragma GCC unroll 6
    for (int r = 0; r < ROWS; r++) {
      pairs_vector a = weights[r] - (pairs_vector){0};
      pairs_vector c = weights[ROWS + r] - (pairs_vector){0};
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++)
        sum[r][v] =
            ADD_DOUBLES(sum[r][v], vector_at(quads + v * LANES), a, vector_at(next + v * LANES), c);
    }
  }
  for (int64_t e = 2 * steps->doubles; e < steps->count; e++, weights += ROWS) {
    const uint32_t *quads = panel + quad_offset(offsets, steps->quads[e]);
    __builtin_prefetch(weights + AHEAD);
#pragma GCC unroll 6
    for (int r = 0; r < ROWS; r++) {
      pairs_vector a = weights[r] - (pairs_vector){0};
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++)
        sum[r][v] = ADD_QUADS(sum[r][v], vector_at(quads + v * LANES), a);
    }
  }
  write_rows(sum, rows, sums, sums_row);
}

static void multiply_rows(const integer_steps_t *steps, const uint32_t *panel,
                          const int32_t *offsets, int64_t rows, int64_t columns,
                          int32_t *restrict sums, int64_t sums_row) {
  if (offsets && columns <= LANES)
    multiply_vectors(1, steps, panel, offsets, rows, sums, sums_row);
  else if (offsets)
    multiply_vectors(2, steps, panel, offsets, rows, sums, sums_row);
  else if (columns <= LANES)
    multiply_vectors(1, steps, panel, NULL, rows, sums, sums_row);
  else
    multiply_vectors(2, steps, panel, NULL, rows, sums, sums_row);
}

static void quad_panels(const uint8_t *const *lines, int64_t count, uint32_t *restrict panel,
                        int64_t panel_size) {
  for (int64_t p = 0; p < count; p++, panel += panel_size) {
    const int64_t at = p * COLUMNS;
#if defined(__AVX2__)
    for (int i = 0; i < COLUMNS; i += 16) {
      __m128i line[4];
      for (int k = 0; k < 4; k++)
        line[k] = _mm_loadu_si128((const __m128i *)(const void *)(lines[k] + at + i));
      __m128i low[] = {_mm_unpacklo_epi8(line[0], line[1]), _mm_unpacklo_epi8(line[2], line[3])};
      __m128i high[] = {_mm_unpackhi_epi8(line[0], line[1]), _mm_unpackhi_epi8(line[2], line[3])};
      __m128i *to = (__m128i *)(void *)(panel + i);
      _mm_storeu_si128(to, _mm_unpacklo_epi16(low[0], low[1]));
      _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(low[0], low[1]));
      _mm_storeu_si128(to + 2, _mm_unpacklo_epi16(high[0], high[1]));
      _mm_storeu_si128(to + 3, _mm_unpackhi_epi16(high[0], high[1]));
    }
#else
    for (int i = 0; i < COLUMNS; i++)
      panel[i] = lines[0][at + i] | (uint32_t)lines[1][at + i] << 8 |
                 (uint32_t)lines[2][at + i] << 16 | (uint32_t)lines[3][at + i] << 24;
#endif
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

#if defined(__SSE2__)
enum { HALVED = 16 }; /* numbers that halve_numbers writes */

/* Takes every second of 32 numbers: those with even indices, or with odd ones if `shift` is 8. */
static inline void halve_numbers(const uint8_t *x, int shift, uint8_t flip, uint8_t *out) {
  const __m128i low = _mm_set1_epi16(0xff);
  __m128i a = _mm_loadu_si128((const __m128i *)(const void *)x);
  __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(x + HALVED));
  a = _mm_and_si128(_mm_srli_epi16(a, shift), low);
  b = _mm_and_si128(_mm_srli_epi16(b, shift), low);
  __m128i all = _mm_xor_si128(_mm_packus_epi16(a, b), _mm_set1_epi8((char)flip));
  _mm_storeu_si128((__m128i *)(void *)out, all);
}

/* Reads nothing behind the last number that is copied. */
static void copy_every_second(const uint8_t *restrict x, uint8_t flip, int64_t count,
                              uint8_t *restrict out) {
  for (int64_t i = 0; i < count - HALVED; i += HALVED)
    halve_numbers(x + 2 * i, 0, flip, out + i);
  halve_numbers(x + 2 * (count - HALVED) - 1, 8, flip, out + count - HALVED);
}
#endif

static void copy_numbers(const uint8_t *restrict x, int64_t step, uint8_t flip, int64_t count,
                         uint8_t *restrict out) {
#if defined(__SSE2__)
  if (step == 2 && count > HALVED) {
    copy_every_second(x, flip, count, out);
    return;
  }
#endif
  if (step == 1)
    for (int64_t i = 0; i < count; i++)
      out[i] = x[i] ^ flip;
  else if (step == 2)
    for (int64_t i = 0; i < count; i++)
      out[i] = x[2 * i] ^ flip;
  else
    for (int64_t i = 0; i < count; i++)
      out[i] = x[i * step] ^ flip;
}

/* INTERLEAVE takes elements of two vectors by turns, from the lower or higher half of each 128
 * bits. */
#if defined(__AVX512F__)
#define INTERLEAVE(half, bits, a, b)                                                               \
  (pairs_vector) _mm512_unpack##half##_epi##bits((__m512i)(a), (__m512i)(b))
#elif defined(__AVX2__)
#define INTERLEAVE(half, bits, a, b)                                                               \
  (pairs_vector) _mm256_unpack##half##_epi##bits((__m256i)(a), (__m256i)(b))
#elif defined(__SSE2__)
#define INTERLEAVE(half, bits, a, b)                                                               \
  (pairs_vector) _mm_unpack##half##_epi##bits((__m128i)(a), (__m128i)(b))
#endif

#if defined(INTERLEAVE)
/* Quads of VECTOR numbers of four lines. The first four are in the first 128 bits of the first
 * vector, the next four in those of the second one, and so on. */
static inline void interleave_quads(const uint8_t *const *lines, int64_t at, pairs_vector *quads) {
  pairs_vector line[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++)
    line[k] = *(const bytes_loose *)(lines[k] + at);
  pairs_vector low[] = {INTERLEAVE(lo, 8, line[0], line[1]), INTERLEAVE(lo, 8, line[2], line[3])};
  pairs_vector high[] = {INTERLEAVE(hi, 8, line[0], line[1]), INTERLEAVE(hi, 8, line[2], line[3])};
  quads[0] = INTERLEAVE(lo, 16, low[0], low[1]);
  quads[1] = INTERLEAVE(hi, 16, low[0], low[1]);
  quads[2] = INTERLEAVE(lo, 16, high[0], high[1]);
  quads[3] = INTERLEAVE(hi, 16, high[0], high[1]);
}

/* Writes sums that are in the order of interleave_quads. */
static inline void write_interleaved(const pairs_vector *sum, int32_t *sums) {
#if defined(__AVX512F__)
  for (int half = 0; half < 2; half++) {
    __m512i a[2];
    for (int k = 0; k < 2; k++) {
      __m512i first = (__m512i)sum[2 * k];
      __m512i second = (__m512i)sum[2 * k + 1];
      a[k] = half ? _mm512_shuffle_i32x4(first, second, 0xee)
                  : _mm512_shuffle_i32x4(first, second, 0x44);
    }
    int32_t *to = sums + half * 2 * LANES;
    *(pairs_loose *)to = (pairs_vector)_mm512_shuffle_i32x4(a[0], a[1], 0x88);
    *(pairs_loose *)(to + LANES) = (pairs_vector)_mm512_shuffle_i32x4(a[0], a[1], 0xdd);
  }
#elif defined(__AVX2__)
#pragma GCC unroll 2
  for (int k = 0; k < 2; k++) {
    __m256i first = (__m256i)sum[2 * k];
    __m256i second = (__m256i)sum[2 * k + 1];
    *(pairs_loose *)(sums + k * LANES) =
        (pairs_vector)_mm256_permute2x128_si256(first, second, 0x20);
    *(pairs_loose *)(sums + (k + 2) * LANES) =
        (pairs_vector)_mm256_permute2x128_si256(first, second, 0x31);
  }
#else
  for (int k = 0; k < 4; k++)
    *(pairs_loose *)(sums + k * LANES) = sum[k];
#endif
}

static void sum_taps(const integer_steps_t *steps, const uint8_t *const *lines, int64_t count,
                     int32_t *restrict sums) {
  for (int64_t i = 0; i < count; i += VECTOR) {
    pairs_vector sum[4] = {{0}};
    pairs_vector quads[4], next[4];
    for (int64_t e = 0; e < 2 * steps->doubles; e += 2) {
      const pairs_vector a = steps->weights[e] - (pairs_vector){0};
      const pairs_vector c = steps->weights[e + 1] - (pairs_vector){0};
      interleave_quads(lines + (int64_t)steps->quads[e] * 4, i, quads);
      interleave_quads(lines + (int64_t)steps->quads[e + 1] * 4, i, next);
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++)
        sum[k] = ADD_DOUBLES(sum[k], quads[k], a, next[k], c);
    }
    for (int64_t e = 2 * steps->doubles; e < steps->count; e++) {
      const pairs_vector a = steps->weights[e] - (pairs_vector){0};
      interleave_quads(lines + (int64_t)steps->quads[e] * 4, i, quads);
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++)
        sum[k] = ADD_QUADS(sum[k], quads[k], a);
    }
    write_interleaved(sum, sums + i);
  }
}
#else
static void sum_taps(const integer_steps_t *steps, const uint8_t *const *lines, int64_t count,
                     int32_t *restrict sums) {
  for (int64_t i = 0; i < count; i++)
    sums[i] = 0;
  for (int64_t e = 0; e < steps->count; e++)
    for (int k = 0; k < 4; k++) {
      const uint8_t *line = lines[(int64_t)steps->quads[e] * 4 + k];
      const int32_t weight = (int8_t)(uint8_t)(steps->weights[e] >> 8 * k);
      for (int64_t i = 0; i < count; i++)
        sums[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)(weight * line[i]));
    }
}
#endif

#if defined(__AVX512F__)
enum { BLOCK = 64 };

/* Sixteen rounded numbers of those whose bits are set in `which`. NaN becomes the least number, and
 * so do those beyond 32 bits if they are not bounded; no scale below 1 makes such numbers. */
TN_INLINE __m512i scale_sums(const int32_t *sums, const int32_t *start, const float *scale,
                             int64_t step, int is_bounded, __mmask16 which) {
  __m512i sum = _mm512_maskz_loadu_epi32(which, sums);
  __m512i more = step ? _mm512_maskz_loadu_epi32(which, start) : _mm512_set1_epi32(*start);
  __m512 factor = step ? _mm512_maskz_loadu_ps(which, scale) : _mm512_set1_ps(*scale);
  __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(sum, more)), factor);
  if (is_bounded) value = _mm512_min_ps(_mm512_set1_ps(65536), value);
  return _mm512_cvtps_epi32(value);
}

/* Clamps by packing numbers, which saturates. */
TN_INLINE __m512i narrow_vectors(const narrow_t *narrow, const int32_t *sums, const int32_t *start,
                                 const float *scale, int64_t step, int is_bounded,
                                 __mmask64 which) {
  const __m512i zero = _mm512_set1_epi16((int16_t)narrow->zero);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i words[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)
    words[i] = scale_sums(sums + 16 * i, start + 16 * i * step, scale + 16 * i * step, step,
                          is_bounded, (__mmask16)(which >> 16 * i));
  __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(words[0], words[1]), zero);
  __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(words[2], words[3]), zero);
  __m512i bytes =
      narrow->is_signed ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
  return _mm512_permutexvar_epi32(order, bytes);
}

TN_INLINE void narrow_all(const narrow_t *narrow, const int32_t *sums, const int32_t *start,
                          const float *scale, int64_t step, int is_bounded, int64_t count,
                          uint8_t *out) {
  if (count < BLOCK) {
    const __mmask64 which = ((__mmask64)1 << count) - 1;
    _mm512_mask_storeu_epi8(out, which,
                            narrow_vectors(narrow, sums, start, scale, step, is_bounded, which));
    return;
  }
  for (int64_t i = 0; i < count; i += BLOCK) {
    int64_t at = i < count - BLOCK ? i : count - BLOCK; /* the last block may overlap another */
    _mm512_storeu_si512(out + at,
                        narrow_vectors(narrow, sums + at, start + at * step, scale + at * step,
                                       step, is_bounded, ~(__mmask64)0));
  }
}

static void narrow_numbers(const narrow_t *narrow, const int32_t *sums, const int32_t *start,
                           const float *scale, int64_t step, int64_t count, uint8_t *out) {
  if (step)
    narrow_all(narrow, sums, start, scale, 1, 1, count, out);
  else if (fabsf(*scale) < 1)
    narrow_all(narrow, sums, start, scale, 0, 0, count, out);
  else
    narrow_all(narrow, sums, start, scale, 0, 1, count, out);
}
#else
enum { BLOCK = 32 };

#if defined(__AVX2__)
/* Eight rounded numbers. Those beyond 32 bits, and NaN, become the least number. */
static inline __m256i scale_sums(const int32_t *sums, __m256i start, __m256 scale) {
  __m256i sum = _mm256_add_epi32(_mm256_loadu_si256((const __m256i *)(const void *)sums), start);
  __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), scale);
  return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_set1_ps(65536), value));
}

/* Clamps by packing numbers, which saturates. */
TN_INLINE void narrow_block(const narrow_t *narrow, const int32_t *restrict sums,
                            const int32_t *restrict start, const float *restrict scale,
                            int64_t step, uint8_t *restrict out) {
  const __m256i zero = _mm256_set1_epi16((int16_t)narrow->zero);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  __m256i words[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    const void *starts = start + 8 * i;
    words[i] = step ? scale_sums(sums + 8 * i, _mm256_loadu_si256((const __m256i *)starts),
                                 _mm256_loadu_ps(scale + 8 * i))
                    : scale_sums(sums + 8 * i, _mm256_set1_epi32(*start), _mm256_set1_ps(*scale));
  }
  __m256i low = _mm256_adds_epi16(_mm256_packs_epi32(words[0], words[1]), zero);
  __m256i high = _mm256_adds_epi16(_mm256_packs_epi32(words[2], words[3]), zero);
  __m256i bytes =
      narrow->is_signed ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high);
  _mm256_storeu_si256((__m256i *)(void *)out, _mm256_permutevar8x32_epi32(bytes, order));
}
#else
/* After clamping, adding 1.5 * 2^23 leaves no bits for a fraction, and the last bits of the sum are
 * those of the integer. */
TN_INLINE void narrow_block(const narrow_t *narrow, const int32_t *restrict sums,
                            const int32_t *restrict start, const float *restrict scale,
                            int64_t step, uint8_t *restrict out) {
  const int32_t zero = narrow->zero;
  const float least = (float)((narrow->is_signed ? -128 : 0) - zero);
  const float most = least + 255;
  for (int64_t i = 0; i < BLOCK; i++) {
    int32_t sum = (int32_t)((uint32_t)sums[i] + (uint32_t)start[i * step]);
    float value = (float)sum * scale[i * step];
    float bounded = value > least ? value : least;
    bounded = bounded < most ? bounded : most;
    union {
      float value;
      int32_t bits;
    } whole = {.value = bounded + 0x1.8p23f};
    out[i] = (uint8_t)(whole.bits + zero);
  }
}
#endif

/* Narrows fewer numbers than a block has. */
static void narrow_few(const narrow_t *narrow, const int32_t *sums, const int32_t *start,
                       const float *scale, int64_t step, int64_t count, uint8_t *out) {
  int32_t rest[BLOCK], starts[BLOCK];
  float scales[BLOCK];
  uint8_t results[BLOCK];
  for (int64_t i = 0; i < BLOCK; i++) {
    int64_t at = i < count ? i : 0;
    rest[i] = sums[at];
    starts[i] = start[at * step];
    scales[i] = scale[at * step];
  }
  narrow_block(narrow, rest, starts, scales, 1, results);
  memcpy(out, results, (size_t)count);
}

static void narrow_numbers(const narrow_t *narrow, const int32_t *sums, const int32_t *start,
                           const float *scale, int64_t step, int64_t count, uint8_t *out) {
  if (count < BLOCK) {
    narrow_few(narrow, sums, start, scale, step, count, out);
    return;
  }
  for (int64_t i = 0; i < count; i += BLOCK) {
    int64_t at = i < count - BLOCK ? i : count - BLOCK; /* the last block may overlap another */
    if (step)
      narrow_block(narrow, sums + at, start + at, scale + at, 1, out + at);
    else
      narrow_block(narrow, sums + at, start, scale, 0, out + at);
  }
}
#endif

#if defined(__AVX512VNNI__)
#define VBMI __attribute__((target("avx512vbmi")))
/* Sums of sixteen quads for each of `vectors`, from number `at` on. */
VBMI TN_INLINE void add_quads(int vectors, int64_t stride, const integer_steps_t *steps,
                              const uint8_t *const *quads, int64_t at, __m512i order,
                              int32_t *sums) {
  pairs_vector sum[4] = {{0}};
  for (int64_t e = 0; e < steps->count; e++) {
    const uint8_t *from = quads[steps->quads[e]] + at * stride;
    const pairs_vector a = steps->weights[e] - (pairs_vector){0};
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++) {
      const void *numbers = from + k * LANES * stride;
      __m512i x = stride == 1 ? _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)numbers))
                              : _mm512_loadu_si512(numbers);
      sum[k] = ADD_QUADS(sum[k], _mm512_permutexvar_epi8(order, x), a);
    }
  }
#pragma GCC unroll 4
  for (int k = 0; k < vectors; k++)
    *(pairs_loose *)(sums + at + k * LANES) = sum[k];
}

VBMI TN_INLINE void add_row(int64_t stride, const integer_steps_t *steps,
                            const uint8_t *const *quads, int64_t count, int32_t *sums) {
  const __m512i first =
      _mm512_set_epi32(0x1211100f, 0x11100f0e, 0x100f0e0d, 0x0f0e0d0c, 0x0e0d0c0b, 0x0d0c0b0a,
                       0x0c0b0a09, 0x0b0a0908, 0x0a090807, 0x09080706, 0x08070605, 0x07060504,
                       0x06050403, 0x05040302, 0x04030201, 0x03020100);
  const __m512i second =
      _mm512_set_epi32(0x21201f1e, 0x1f1e1d1c, 0x1d1c1b1a, 0x1b1a1918, 0x19181716, 0x17161514,
                       0x15141312, 0x13121110, 0x11100f0e, 0x0f0e0d0c, 0x0d0c0b0a, 0x0b0a0908,
                       0x09080706, 0x07060504, 0x05040302, 0x03020100);
  const __m512i order = stride == 1 ? first : second;
  int64_t at = 0;
  for (; at + 3 * LANES < count; at += 4 * LANES)
    add_quads(4, stride, steps, quads, at, order, sums);
  if (at + LANES < count) {
    add_quads(2, stride, steps, quads, at, order, sums);
    at += 2 * LANES;
  }
  if (at < count) add_quads(1, stride, steps, quads, at, order, sums);
}

VBMI static void sum_row_taps(const integer_steps_t *steps, const uint8_t *const *quads,
                              int64_t stride, int64_t count, int32_t *sums) {
  if (stride == 1)
    add_row(1, steps, quads, count, sums);
  else
    add_row(2, steps, quads, count, sums);
}
#define ROW_TAPS sum_row_taps
#else
#define ROW_TAPS 0
#endif

#define TABLE                                                                                      \
  {                                                                                                \
    .rows = ROWS, .columns = COLUMNS, .multiply = multiply_tile, .pair_most = PAIR_MOST,           \
    .multiply_columns = multiply_columns, .multiply_rows = multiply_rows, .quad = quad_panels,     \
    .pair = pair_panels, .widen = widen_numbers, .copy = copy_numbers, .taps = sum_taps,           \
    .row_taps = ROW_TAPS, .narrow = narrow_numbers                                                 \
  }
#ifdef TENON_SIMD
const integer_tiles_t ISA_JOIN(core_integer_tiles, TENON_SIMD) = TABLE;
#else
const integer_tiles_t core_integer_tiles = TABLE;
#endif
