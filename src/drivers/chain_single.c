/* Links of one element, see chain_single.h. */
#include "drivers/chain_single.h"

#include <math.h>

#include "core/convert.h"
#include "core/dtype.h"

typedef float one_t __attribute__((vector_size(4), aligned(4), may_alias));
typedef uint16_t half_t __attribute__((vector_size(2), aligned(2), may_alias));

static inline one_t widen(half_t half) {
  one_t result;
  tn_convert(&half, tenon_dtype(TENON_F16), &result, tenon_dtype(TENON_F32), 1);
  return result;
}

static inline half_t narrow(one_t number) {
  half_t result;
  tn_convert(&number, tenon_dtype(TENON_F32), &result, tenon_dtype(TENON_F16), 1);
  return result;
}

#define CHAIN_NAME(name) name##_single
#define CHAIN_TARGET
#define CHAIN_BYTES 4
#define CHAIN_BLOCK 1
#define CHAIN_SQRT(a) ((V){sqrtf((a)[0])})
#define CHAIN_MAX(a, b) CHOOSE((M)(((a) > (b)) | ((a) != (a))), a, b)
#define CHAIN_MIN(a, b) CHOOSE((M)(((a) < (b)) | ((a) != (a))), a, b)
#define CHAIN_WIDEN(a) ((V)widen((half_t)(a)))
#define CHAIN_NARROW(a) ((H)narrow((one_t)(a)))
#include "drivers/chain_kernel.h"

void tn_chain_run_single(const tn_link_t *links, int32_t count, int64_t at, int64_t length) {
  run_single(links, count, at, length);
}
