/* The body of chains for vectors of AVX-512. The including file defines ROUNDING, CHAIN_NAME,
 * CHAIN_TARGET and CHAIN_BLOCK. */

#define CHAIN_BYTES 64
#define CHAIN_HAS_OTHER
#define CHAIN_SQRT(a) ((V)_mm512_sqrt_ps((__m512)(a)))
#define CHAIN_MAX(a, b) CHOOSE((M)((a) != (a)), a, (V)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define CHAIN_MIN(a, b) CHOOSE((M)((a) != (a)), a, (V)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define CHAIN_WIDEN(a) ((V)_mm512_cvtph_ps((__m256i)(a)))
#define CHAIN_NARROW(a) ((H)_mm512_cvtps_ph((__m512)(a), ROUNDING))
#define CHAIN_FROM_BYTES(a) ((M)_mm512_cvtepu8_epi32((__m128i)(a)))
#define CHAIN_TO_BYTES(a) ((B)_mm512_cvtepi32_epi8((__m512i)(a)))
#define CHAIN_FROM_HALVES(a) ((U)_mm512_cvtepu16_epi32((__m256i)(a)))
#define CHAIN_TO_HALVES(a) ((H)_mm512_cvtepi32_epi16((__m512i)(a)))
#include "drivers/chain_kernel.h"
