/* Transposed and converting copies of floats (../move_float.h), as one table per instruction set.
 * Called from parts of a parallel loop. */
#include "../move_float.h"
#include "isa.h"
#include "wide.h"

enum {
  SIDE = 8,  /* of a square that is transposed in registers */
  STEP = 16, /* columns of a tile that are copied for all of its rows */
};

#ifdef __AVX2__
/* Transposes a square: in halves of registers at first, then exchanges the halves. */
static inline void transpose_square(__m256 rows[SIDE]) {
  __m256 pairs[SIDE], quads[SIDE];
  for (int i = 0; i < SIDE; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < SIDE; i += 4) {
    quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
  for (int i = 0; i < SIDE / 2; i++) {
    rows[i] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
    rows[i + 4] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
  }
}

static inline __m128i load_narrow(const uint16_t *from) {
  return _mm_loadu_si128((const __m128i *)(const void *)from);
}

static inline void store_f16(uint16_t *to, __m256 values) {
  _mm_storeu_si128((__m128i *)(void *)to,
                   _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline void store_bf16(uint16_t *to, __m256 values) {
  float wide[SIDE];
  _mm256_storeu_ps(wide, values);
  for (int i = 0; i < SIDE; i++)
    to[i] = bf16_of_float(wide[i]);
}

#define FROM float
#define TO float
#define CONVERT(x) (x)
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define NAME(x) f32_##x
#include "../move_float_kernel.h"
#endif

#define FROM uint16_t
#define TO float
#define CONVERT(x) float_of_f16(x)
#define RUN(to, from, n) widen_run(tenon_dtype(TENON_F16), to, from, n)
#define LOAD(p) _mm256_cvtph_ps(load_narrow(p))
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define NAME(x) widen_f16_##x
#include "../move_float_kernel.h"

#define FROM uint16_t
#define TO float
#define CONVERT(x) float_of_bf16(x)
#define RUN(to, from, n) widen_run(tenon_dtype(TENON_BF16), to, from, n)
#define LOAD(p) _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_narrow(p)), 16))
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define NAME(x) widen_bf16_##x
#include "../move_float_kernel.h"

#define FROM float
#define TO uint16_t
#define CONVERT(x) f16_of_float(x)
#define RUN(to, from, n) narrow_run(tenon_dtype(TENON_F16), to, from, n)
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) store_f16(p, v)
#define NAME(x) narrow_f16_##x
#include "../move_float_kernel.h"

#define FROM float
#define TO uint16_t
#define CONVERT(x) bf16_of_float(x)
#define RUN(to, from, n) narrow_run(tenon_dtype(TENON_BF16), to, from, n)
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) store_bf16(p, v)
#define NAME(x) narrow_bf16_##x
#include "../move_float_kernel.h"

#ifdef TENON_SIMD
const move_floats_t ISA_JOIN(core_move_floats, TENON_SIMD) =
#else
const move_floats_t core_move_floats =
#endif
    {
#ifdef __AVX2__
        .f32 = {NULL, f32_tile},
#endif
        .widen_f16 = {widen_f16_run, widen_f16_tile},
        .widen_bf16 = {widen_bf16_run, widen_bf16_tile},
        .narrow_f16 = {narrow_f16_run, narrow_f16_tile},
        .narrow_bf16 = {narrow_bf16_run, narrow_bf16_tile},
};
